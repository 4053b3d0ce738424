"""Device times of convolutions on an attached GPU, and the table that they make.

    python -m tools.benchmarks gpu_convolution > ours
    python -m tools.benchmarks gpu_convolution --peer > theirs
    python -m tools.benchmarks gpu_convolution --table ours theirs --json FILE

The second command times PyTorch's bf16 convolutions, in another process because two profilers
cannot share one. `--part 1/4` takes every fourth layer from the second on. `--survey` takes 40
layers of other networks, by `mosaic_gpu` alone unless `--implementations` names others.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tools.benchmarks import cases, gpu
from tools.benchmarks.options import BATCH, ONLY, option
from tools.benchmarks.report import Report, Row, Target, mean

OPTIONS = (
    gpu.PEER,
    gpu.TABLE,
    ONLY,
    BATCH.with_default(None),
    option("--survey", action="store_true", help="layers of other networks"),
    option("--implementations", nargs="+", help="the first is compared with PyTorch"),
    option("--part", default="0/1", help="the index and the number of shares of the layers"),
)
_COMPUTE_BOUND = 20  # Gop of a layer, or more
_OVER_TORCH = {32: 1.6, 128: 1.8}  # times as fast as PyTorch, by batch size
_OF_BOUND = 0.7  # of the larger time of products at the ceiling and of bytes at a copy's speed


class Kind(NamedTuple):
    """A kind of layers: those of ResNet-50 and MobileNet, or those of other networks."""

    name: str
    title: str
    batches: tuple[int, ...]
    implementations: tuple[str, ...]


_LAYERS = Kind("convolution", "convolution", (32, 128), ("mosaic_gpu", "xla"))
_SURVEY = Kind("survey", "layers of other networks", (32,), ("mosaic_gpu",))
Problems = Sequence[tuple[int, cases.Layer]]


def run(
    peer: bool,
    table: Sequence[Path] | None,
    only: str,
    batch: Sequence[int] | None,
    survey: bool,
    implementations: Sequence[str] | None,
    part: str,
) -> list[Report] | None:
    """Print the lines of either library, or make the table."""
    kind = _SURVEY if survey else _LAYERS
    index, parts = map(int, part.split("/"))
    layers = cases.layers(only, kind.name)[index::parts]
    problems = list(product(batch or kind.batches, layers))
    ours = partial(_ours, problems, implementations or kind.implementations)
    tables = partial(_tables, kind)
    return gpu.staged(ours, partial(_peer, problems), tables, peer=peer, table=table)


def _ours(problems: Problems, implementations: Sequence[str]) -> Iterator[Row]:
    yield gpu.facts()
    for batch, layer in problems:
        problem = cases.Problem.of(layer, batch, "NHWC")
        row = {"layer": layer.name, "batch": batch} | _row(problem, implementations)
        yield row | (_cudnn(problem) if "xla" in implementations else {})


def _row(problem: cases.Problem, implementations: Sequence[str]) -> Row:
    """Check, then time, a convolution by dmlax."""
    name, operands = problem.layer.name, jax.device_put((problem.x, problem.filter()))
    calls = {way: problem.jitted(implementation=way) for way in implementations}
    output = gpu.assert_equal((call(*operands) for call in calls.values()), name)
    calls["float32"] = problem.jitted(implementation=implementations[0], arithmetic="float32")
    rounded = np.asarray(calls["float32"](*operands))
    with gpu.on_cpu():
        ends = problem.x[gpu.ENDS], problem.filter()
        gpu.assert_equal((output[gpu.ENDS], problem.jitted()(*ends)), name)
        by_cpu = problem.jitted(arithmetic="float32")(*ends)
        gpu.assert_equal((rounded[gpu.ENDS], by_cpu), name)
    times = {f"{way}_ms": gpu.jax_ms(call, *operands) for way, call in calls.items()}
    return {"gop": 2e-9 * problem.products, "mb": 1e-6 * problem.bytes} | times


def _cudnn(problem: cases.Problem) -> Row:
    """Time cuDNN's convolution of int8 into float32 alone."""
    layer = problem.layer
    call = jax.jit(
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
    signed = jax.device_put((problem.x ^ 128).view(np.int8))
    try:
        return {"cudnn_int8_ms": gpu.jax_ms(call, signed, w)}
    except jax.errors.JaxRuntimeError as error:  # some layers have no kernel
        return {"cudnn_int8": str(error).splitlines()[0]}


def _peer(problems: Problems) -> Iterator[Row]:
    """Time PyTorch's convolution alone, in bf16 and channels last."""
    torch = import_module("torch")
    torch.backends.cudnn.benchmark = True
    yield {"torch": torch.__version__}

    def draw(*shape: int) -> Any:
        drawn = torch.randn(shape, dtype=torch.bfloat16, device="cuda")
        return drawn.to(memory_format=torch.channels_last)

    for batch, layer in problems:
        call = partial(
            torch.nn.functional.conv2d,
            draw(batch, layer.in_channels, layer.size, layer.size),
            draw(layer.out_channels, layer.in_channels // layer.groups, *2 * (layer.kernel,)),
            stride=layer.stride,
            padding=layer.padding,
            groups=layer.groups,
        )
        ms = gpu.torch_ms(torch, call)
        yield {"layer": layer.name, "batch": batch, "torch_bf16_ms": ms}


def _tables(kind: Kind, ours: gpu.Lines, theirs: gpu.Lines) -> list[Report]:
    (facts, rows), (peer, peer_rows) = ours, theirs
    peers = {(row["layer"], row["batch"]): row["torch_bf16_ms"] for row in peer_rows}
    columns = [_columns(row, peers[row["layer"], row["batch"]], facts) for row in rows]
    table = gpu.report_of(kind.title, facts | peer)
    table.rows = list(_without_empty_columns(columns))
    table.targets.extend((_survey_targets if kind == _SURVEY else _targets)(table.rows))
    return [table]


def _without_empty_columns(rows: Sequence[Row]) -> Iterator[Row]:
    """Leave out the columns that are None in all rows: `xla` may not have been timed."""
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    for row in rows:
        yield {name: "" if row[name] is None else row[name] for name in names}


def _columns(row: Row, torch: float, facts: Row) -> Row:
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


def _survey_targets(rows: Sequence[Row]) -> Iterable[Target]:
    over = mean(row["over torch"] for row in rows)
    yield Target("over torch bf16, geometric mean", over, 1.3, at_least=True)


def _targets(rows: Sequence[Row]) -> Iterable[Target]:
    for (batch, limit), column in product(
        _OVER_TORCH.items(), ("over torch", "float32 over torch")
    ):
        over = [row[column] for row in rows if row["batch"] == batch and column in row]
        if over:
            name = f"batch {batch}: {column} bf16"
            yield Target(f"{name}, geometric mean", mean(over), limit, at_least=True)
            yield Target(f"{name}, least", min(over), 1, at_least=True)
    large = [row for row in rows if row["Gop"] >= _COMPUTE_BOUND]
    if not large:
        return
    share = mean(row["of its bound"] for row in large)
    yield Target("20 Gop or more: of its bound, geometric mean", share, _OF_BOUND, at_least=True)
    if ratios := [row["xla to cuDNN"] for row in large if row.get("xla to cuDNN")]:
        yield Target("20 Gop or more: most of xla to cuDNN int8", max(ratios), 2)
