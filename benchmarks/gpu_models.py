"""Whole quantized models on an attached GPU: bits first, then times of calls and of their kernels.

    python -m benchmarks.gpu_models > ours
    python -m benchmarks.gpu_models --peer > theirs
    python -m benchmarks.gpu_models --table ours theirs

The second are torchvision's models in bf16, channels last, batch norms folded, as a CUDA graph; and
by `torch.compile` where `--compile` names a mode. The third writes results/. A call's wall time is
that of one call that waits for its outputs, and of one in a row of calls. Outputs are compared with
the CPU's first: their bits, or where a model has layers of floats, whose order of sums XLA chooses
for each platform, their distance.
"""

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from rich.console import Console

import dmlax.onnx
from benchmarks import device_timing, networks, report, timing
from dmlax._cuda.kernels_of_program import compile_kernels

NETWORKS = {  # and their names in torchvision
    "resnet50": "resnet50",
    "mobilenet_v2": "mobilenet_v2",
    "efficientnet_b0": "efficientnet_b0",
    "vit_b16": "vit_b_16",
}
BATCHES = (128, 32, 8, 1)
OVER_TORCH = 2  # times as fast as PyTorch at the largest batch size, but ResNet-50
LIMITS = {128: 1.75, 32: 0.60, 8: 0.32, 1: 0.24}  # milliseconds of ResNet-50
MOST_APART = {"vit_b16": 0.5}  # of floats: standard deviations of an output; others have no floats
CHECKED = 2  # images at either end, on the CPU
IN_A_ROW = 20  # calls
FEW = 32  # images whose call is bound by what the host does for each argument
LISTED = 5  # microseconds, or more, of a kernel that is no convolution
MOST_LISTED = 16  # of a model
CONVOLUTIONS = re.compile("dmlax_(depthwise_)?convolution")


def main() -> None:
    """Print a line of JSON for the machine, then one for each model and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="time PyTorch")
    parser.add_argument("--compile", metavar="MODE", help="of torch.compile, as max-autotune")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES, help="largest first")
    parser.add_argument("--arithmetic", default="float32", choices=("float32", "exact"))
    parser.add_argument("--files", type=Path, help="folder of quantized files to use or write")
    parser.add_argument("--table", nargs=2, type=Path, help="files of what the others printed")
    options = parser.parse_args()
    if options.table:
        return _write(*map(report.read_lines, options.table))
    if options.peer:
        for row in _peer(options.networks, options.batch, options.compile):
            print(json.dumps(row), flush=True)
        return None
    facts = report.environment() | device_timing.ceilings() | {"times": device_timing.TIMES}
    print(json.dumps(facts), flush=True)
    for name in options.networks:
        file = quantized_file(name, options.files)
        apart = MOST_APART.get(name, 0.0)
        for row in _rows(file, options.batch, options.arithmetic, apart):
            print(json.dumps({"network": name} | row), flush=True)
    return None


def quantized_file(name: str, folder: Path | None) -> onnx.ModelProto:
    """Return the quantized file, from the folder if it is there."""
    path = folder and folder / f"{name}.onnx"
    if path and path.exists():
        return onnx.load(path)
    file = networks.quantize(networks.NETWORKS[name](), "qoperator", False)
    if path:
        onnx.save(file, path)
    return file


def _rows(
    file: onnx.ModelProto, batches: Sequence[int], arithmetic: Any, most_apart: float
) -> Iterator[dict[str, Any]]:
    """Times at every batch size; smaller batches are the first images of the largest."""
    inputs = networks.draw_inputs(file, max(batches), seed=1)
    wanted: dict[str, np.ndarray] = {}
    apart = 0.0
    for batch in sorted(batches, reverse=True):
        start = time.perf_counter()
        model = dmlax.onnx.load(file, arithmetic=arithmetic)
        loaded = time.perf_counter()
        given = jax.device_put({name: x[:batch] for name, x in inputs.items()})
        outputs = jax.tree.map(np.asarray, model(given))
        called = time.perf_counter()
        if not wanted:
            apart = _distance_from_cpu(model, inputs, outputs)
            wanted = outputs
        apart = max(apart, _distance(outputs, {name: x[:batch] for name, x in wanted.items()}))
        assert apart <= most_apart, f"{apart} standard deviations apart"
        yield {
            "batch": batch,
            "arithmetic": arithmetic,
            "load_s": loaded - start,
            "first_call_s": called - loaded,
            "apart": apart,
        } | _times(model, given)


def _distance_from_cpu(
    model: dmlax.onnx.Model, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> float:
    """Largest difference of the outputs of some images from the CPU's."""
    checked = np.unique(np.r_[:CHECKED, -CHECKED:0] % len(next(iter(inputs.values()))))
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        given = jax.device_put((model.params, {n: x[checked] for n, x in inputs.items()}), cpu)
        wanted = jax.tree.map(np.asarray, jax.jit(model.apply)(*given))
    return _distance({name: x[checked] for name, x in outputs.items()}, wanted)


def _distance(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> float:
    """The most that an output differs, in its standard deviations; 0 where bits are equal."""
    assert found.keys() == wanted.keys()
    return max(
        0.0 if np.array_equal(found[name], x) else float(np.abs(found[name] - x).max() / x.std())
        for name, x in wanted.items()
    )


def _times(model: dmlax.onnx.Model, given: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Milliseconds of a call that waits for its outputs, of one in a row, and of its kernels."""

    def call() -> None:
        jax.block_until_ready(model(given))

    def call_in_a_row() -> None:
        jax.block_until_ready([model(given) for _ in range(IN_A_ROW)])

    return {
        "call_ms": timing.alone(call, 50),
        "in_a_row_ms": timing.alone(call_in_a_row, 5) / IN_A_ROW,
        "constant_params_ms": _constant_params_ms(model, given),
        "kernels": device_timing.jax_kernels(
            _compiled(model.apply, model.params, given), model.params, given
        ),
    }


def _compiled(function: Callable[..., Any], *operands: Any) -> Callable[..., Any]:
    """Return the function, jitted; its kernels are compiled side by side."""
    call = jax.jit(function)
    compile_kernels(call.lower(*operands))
    return call


def _constant_params_ms(model: dmlax.onnx.Model, given: Mapping[str, jax.Array]) -> float | None:
    """Time of one call in a row, of a few images: the program holds the params."""
    if len(next(iter(given.values()))) > FEW:
        return None
    call = _compiled(partial(model.apply, model.params), given)

    def call_in_a_row() -> None:
        jax.block_until_ready([call(given) for _ in range(IN_A_ROW)])

    call_in_a_row()
    return timing.alone(call_in_a_row, 5) / IN_A_ROW


def _peer(
    networks: Sequence[str], batches: Sequence[int], mode: str | None
) -> Iterator[dict[str, Any]]:
    """PyTorch's times of one call in a row of them."""
    torch, models = import_module("torch"), import_module("torchvision.models")
    fuse = import_module("torch.fx.experimental.optimization").fuse
    torch.backends.cudnn.benchmark = True
    yield {"torch": torch.__version__}
    for name in networks:
        model = models.get_model(NETWORKS[name], weights=None).eval()
        if any(isinstance(each, torch.nn.BatchNorm2d) for each in model.modules()):
            model = fuse(model)
        last = {"memory_format": torch.channels_last}
        model = model.to("cuda", torch.bfloat16, **last)
        for batch in batches:
            x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(**last)
            row = {"network": name, "batch": batch}
            with torch.inference_mode():
                graph = _capture(torch, partial(model, x))
                yield row | {"torch": "CUDA graph", "in_a_row_ms": _torch_ms(torch, graph)}
                if mode:
                    call = partial(torch.compile(model, mode=mode), x)
                    yield row | {"torch": mode, "in_a_row_ms": _torch_ms(torch, call)}


def _capture(torch: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """Captures a call as a CUDA graph; gives what replays it."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: Callable[[], Any] = graph.replay
    return replay


def _torch_ms(torch: Any, call: Callable[[], Any]) -> float:
    def call_in_a_row() -> None:
        for _ in range(IN_A_ROW):
            call()
        torch.cuda.synchronize()

    call_in_a_row()
    return timing.alone(call_in_a_row, 5) / IN_A_ROW


def _write(ours: Any, theirs: Any) -> None:
    """The tables and their targets, shown and written."""
    (facts, rows), (peer, peer_rows) = ours, theirs
    fastest: dict[tuple[str, int], float] = {}
    for row in peer_rows:
        key = row["network"], row["batch"]
        fastest[key] = min(row["in_a_row_ms"], fastest.get(key, row["in_a_row_ms"]))
    found = report.Report(f"models on an {report.chip_of(facts)}")
    others = report.Report("kernels that are no convolution, in microseconds")
    for row in rows:
        name = {each: row[each] for each in ("network", "batch", "arithmetic")}
        torch_ms = fastest.get((row["network"], row["batch"]))
        device, rest = (_total(row["kernels"], each) for each in ("", _OTHERS))
        found.rows.append(
            name
            | {
                "call ms": row["call_ms"],
                "in a row ms": row["in_a_row_ms"],
                "constant params ms": row["constant_params_ms"] or "",
                "device ms": device,
                "convolutions ms": device - rest,
                "others ms": rest,
                "kernels": len(row["kernels"]),
                "images/s": 1e3 * row["batch"] / row["in_a_row_ms"],
                "first call s": row["first_call_s"] or "",
                "apart, std": row["apart"],
                "torch bf16 in a row ms": torch_ms or "",
                "over torch": torch_ms / row["in_a_row_ms"] if torch_ms else "",
            }
        )
        others.rows += [name | each for each in _others(row["kernels"])]
        if row["network"] == "resnet50" and (limit := LIMITS.get(row["batch"])):
            what = f"resnet50, {row['arithmetic']}, batch {row['batch']}: in a row ms"
            found.targets.append(report.Target(what, row["in_a_row_ms"], limit))
            if held := row["constant_params_ms"]:
                what = f"{what}, params constants of the program"
                found.targets.append(report.Target(what, held, limit))
        elif torch_ms and row["batch"] == max(BATCHES):
            what = f"{row['network']}, {row['arithmetic']}, batch {row['batch']}: over torch bf16"
            over = torch_ms / row["in_a_row_ms"]
            found.targets.append(report.Target(what, over, OVER_TORCH, at_least=True))
    for each in (found, others):
        each.show(Console())
    report.write_of_gpu("models", [found, others], facts | peer)


_OTHERS = f"^(?!{CONVOLUTIONS.pattern})"


def _total(kernels: Sequence[tuple[str, float]], pattern: str) -> float:
    """Milliseconds of the kernels whose names match."""
    return sum(ms for name, ms in kernels if re.search(pattern, name))


def _others(kernels: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """The kernels that are no convolution and take long, by name, the slowest first."""
    times: dict[str, list[float]] = {}
    for name, ms in kernels:
        if re.search(_OTHERS, name):
            times.setdefault(name, []).append(1e3 * ms)
    rows: list[dict[str, Any]] = [
        {"kernel": name, "count": len(each), "us": sum(each)} for name, each in times.items()
    ]
    slow = (row for row in rows if row["us"] >= LISTED)
    return sorted(slow, key=lambda row: -float(row["us"]))[:MOST_LISTED]


if __name__ == "__main__":
    main()
