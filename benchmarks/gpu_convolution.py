"""Device times of convolutions on an attached GPU, and the table that they make.

    python -m benchmarks.gpu_convolution > ours
    python -m benchmarks.gpu_convolution --peer > theirs
    python -m benchmarks.gpu_convolution --table ours theirs

The second are PyTorch's bf16 convolutions, in a process of their own: two profilers cannot share
one. `--part 1/4` takes every fourth layer from the second on. The third writes results/. With
`--survey` each is of 40 layers of other networks, by `mosaic_gpu` alone unless others are named.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from rich.console import Console

from benchmarks import cases, device_timing, report

BATCHES = {"convolution": (32, 128), "survey": (32,)}
TITLES = {
    "convolution": "convolution on an {}",
    "survey": "layers of other networks on an {}",
}
IMPLEMENTATIONS = {"convolution": ("mosaic_gpu", "xla"), "survey": ("mosaic_gpu",)}
CHECKED = 2  # images at either end, on the CPU
LAYOUT = ("NHWC", "OIHW", "NHWC")
COMPUTE_BOUND = 20  # Gop of a layer, or more
OVER_TORCH = {32: 1.6, 128: 1.8}  # times as fast as PyTorch, by batch size
OF_BOUND = 0.7  # of the larger time of products at the ceiling and of bytes at a copy's speed


def main() -> None:
    """Print a line of JSON for the ceilings, then one for each layer and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="time PyTorch")
    parser.add_argument("--survey", action="store_const", const="survey", default="convolution")
    parser.add_argument("--layers", default="", metavar="REGEX", help="only names that match")
    parser.add_argument("--batch", type=int, nargs="+", help="images")
    parser.add_argument("--implementations", nargs="+", help="the first is compared with torch")
    parser.add_argument("--part", default="0/1", help="which of how many shares of the layers")
    parser.add_argument("--table", nargs=2, type=Path, help="files of what the others printed")
    options = parser.parse_args()
    kind = options.survey
    if options.table:
        return _write(kind, *map(report.read_lines, options.table))
    part, parts = map(int, options.part.split("/"))
    chosen = cases.layers(options.layers, kind)[part::parts]
    batches = options.batch or BATCHES[kind]
    implementations = options.implementations or IMPLEMENTATIONS[kind]
    rows = _peer(chosen, batches) if options.peer else _ours(chosen, batches, implementations)
    for row in rows:
        print(json.dumps(row), flush=True)


def _ours(
    layers: list[cases.Layer], batches: Sequence[int], implementations: Sequence[str]
) -> Iterator[dict[str, Any]]:
    yield report.environment() | device_timing.ceilings()
    for batch in batches:
        for layer in layers:
            problem = cases.Problem.of(layer, batch)
            row = {"layer": layer.name, "batch": batch} | _row(problem, implementations)
            yield row | (_cudnn(problem) if "xla" in implementations else {})


def _row(problem: cases.Problem, implementations: Sequence[str]) -> dict[str, Any]:
    """Time dmlax's convolution, checked."""
    layer = problem.layer
    x = problem.x.transpose(0, 2, 3, 1)
    given = jax.device_put(x), problem.filter(dimension_numbers=LAYOUT)
    calls = {
        name: problem.jitted(dimension_numbers=LAYOUT, implementation=name)
        for name in implementations
    }
    first, *others = (np.asarray(call(*given)) for call in calls.values())
    for other in others:
        np.testing.assert_array_equal(other, first, layer.name, strict=True)
    checked = np.r_[:CHECKED, -CHECKED:0]
    np.testing.assert_array_equal(first[checked], _on_cpu(problem, x[checked]), layer.name)
    calls["float32"] = problem.jitted(
        dimension_numbers=LAYOUT, implementation=implementations[0], arithmetic="float32"
    )
    wanted = _on_cpu(problem, x[checked], arithmetic="float32")
    np.testing.assert_array_equal(calls["float32"](*given)[checked], wanted, layer.name)
    found: dict[str, Any] = {"gop": 2e-9 * problem.products, "mb": 1e-6 * problem.bytes}
    return found | {
        f"{name}_ms": device_timing.jax_ms(call, *given) for name, call in calls.items()
    }


def _cudnn(problem: cases.Problem) -> dict[str, Any]:
    """Time cuDNN's convolution of int8 into float32 alone."""
    layer = problem.layer
    alone = jax.jit(
        partial(
            lax.conv_general_dilated,
            window_strides=2 * (layer.stride,),
            padding=2 * (2 * (layer.padding,),),
            feature_group_count=layer.groups,
            dimension_numbers=("NHWC", "OHWI", "NHWC"),
            preferred_element_type=jnp.float32,
        )
    )
    w = jax.device_put(problem.w.transpose(0, 2, 3, 1))
    signed = jax.device_put((problem.x.transpose(0, 2, 3, 1) ^ 128).view(np.int8))
    try:
        return {"cudnn_int8_ms": device_timing.jax_ms(alone, signed, w)}
    except jax.errors.JaxRuntimeError as error:  # some layers have no such kernel
        return {"cudnn_int8": str(error).splitlines()[0]}


def _on_cpu(problem: cases.Problem, x: np.ndarray, **options: Any) -> np.ndarray:
    with jax.default_device(jax.devices("cpu")[0]):
        call = problem.jitted(dimension_numbers=LAYOUT, **options)
        return np.asarray(call(x, problem.filter(dimension_numbers=LAYOUT)))


def _peer(layers: list[cases.Layer], batches: Sequence[int]) -> Iterator[dict[str, Any]]:
    """PyTorch's convolution alone, in bf16 and channels last."""
    torch = import_module("torch")
    torch.backends.cudnn.benchmark = True
    yield {"torch": torch.__version__}
    for batch in batches:
        for layer in layers:
            shape = (batch, layer.in_channels, layer.size, layer.size)
            kernel = (
                layer.out_channels,
                layer.in_channels // layer.groups,
                layer.kernel,
                layer.kernel,
            )
            x, w = (
                torch.randn(sizes, dtype=torch.bfloat16, device="cuda").to(
                    memory_format=torch.channels_last
                )
                for sizes in (shape, kernel)
            )
            call = partial(
                torch.nn.functional.conv2d,
                x,
                w,
                stride=layer.stride,
                padding=layer.padding,
                groups=layer.groups,
            )
            yield {
                "layer": layer.name,
                "batch": batch,
                "torch_bf16_ms": device_timing.torch_ms(torch, call),
            }


def _write(kind: str, ours: Any, theirs: Any) -> None:
    """The table and its targets, shown and written."""
    (facts, rows), (peer, peer_rows) = ours, theirs
    peers = {(row["layer"], row["batch"]): row["torch_bf16_ms"] for row in peer_rows}
    found = report.Report(TITLES[kind].format(report.chip_of(facts)))
    found.rows = list(_shown(rows, peers, facts))
    found.targets = list(_survey_targets(found.rows) if kind == "survey" else _targets(found.rows))
    found.show(Console())
    report.write_of_gpu(kind, [found], facts | peer | {"times": device_timing.TIMES})


def _shown(rows: Any, peers: Any, facts: report.Row) -> Iterator[report.Row]:
    """The rows of the table, without columns that none has: `xla` may not have been timed."""
    columns = [_columns(row, peers[row["layer"], row["batch"]], facts) for row in rows]
    held = [name for name in columns[0] if any(row[name] is not None for row in columns)]
    for row in columns:
        yield {name: "" if row[name] is None else row[name] for name in held}


def _columns(row: report.Row, torch: float, facts: report.Row) -> report.Row:
    ms, xla = row["mosaic_gpu_ms"], row.get("xla_ms")
    of_rate = row["gop"] / ms / facts["int8_top_per_s"]
    of_bandwidth = row["mb"] / ms / facts["copy_gb_per_s"]
    return {
        "layer": row["layer"],
        "batch": row["batch"],
        "Gop": row["gop"],
        "mosaic_gpu ms": ms,
        "float32 ms": row.get("float32_ms"),
        "xla ms": xla,
        "torch bf16 ms": torch,
        "cuDNN int8 to float32 ms": row.get("cudnn_int8_ms", row.get("cudnn_int8")),
        "over torch": torch / ms,
        "float32 over torch": torch / row["float32_ms"] if "float32_ms" in row else None,
        "of int8 rate": of_rate,
        "of copy bandwidth": of_bandwidth,
        "of its bound": max(of_rate, of_bandwidth),
        "xla to cuDNN": xla and xla / row.get("cudnn_int8_ms", float("nan")),
    }


def _survey_targets(rows: list[report.Row]) -> Iterable[report.Target]:
    over = report.mean(row["over torch"] for row in rows)
    yield report.Target("over torch bf16, geometric mean", over, 1.3, at_least=True)


def _targets(rows: list[report.Row]) -> Iterable[report.Target]:
    for batch, mean in OVER_TORCH.items():
        for column in ("over torch", "float32 over torch"):
            over = [row[column] for row in rows if row["batch"] == batch and column in row]
            if over:
                name = f"batch {batch}: {column} bf16"
                yield report.Target(
                    f"{name}, geometric mean", report.mean(over), mean, at_least=True
                )
                yield report.Target(f"{name}, least", min(over), 1, at_least=True)
    large = [row for row in rows if row["Gop"] >= COMPUTE_BOUND]
    if not large:
        return
    share = report.mean(row["of its bound"] for row in large)
    name = "20 Gop or more: of its bound, geometric mean"
    yield report.Target(name, share, OF_BOUND, at_least=True)
    if ratios := [row["xla to cuDNN"] for row in large if row.get("xla to cuDNN")]:
        yield report.Target("20 Gop or more: most of xla to cuDNN int8", max(ratios), 2)


if __name__ == "__main__":
    main()
