"""Whole quantized models on an attached GPU: bits first, then times of calls and of their kernels.

    python -m tools.benchmarks gpu_models > ours
    python -m tools.benchmarks gpu_models --peer > theirs
    python -m tools.benchmarks gpu_models --table ours theirs --json FILE

The second command times torchvision's models in bf16, channels last, batch norms folded, as a CUDA
graph. Wall times are those of a call that waits for its outputs, and of one in a row. Models of no
float layer must have the CPU's bits; the others are near, because XLA orders sums by platform.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx

import dmlax.onnx
from dmlax._compile import compiling_kernels
from dmlax._core.requantize import Arithmetic
from tools.benchmarks import gpu, timing
from tools.benchmarks.report import BATCH, ONLY, Report, Row, option
from tools.zoo import networks

NETWORKS = {  # networks and their names in torchvision
    "resnet50": "resnet50",
    "mobilenet_v2": "mobilenet_v2",
    "efficientnet_b0": "efficientnet_b0",
    "vit_b16": "vit_b_16",
}
_BATCHES = (128, 32, 8, 1)
OPTIONS = (
    gpu.PEER,
    gpu.TABLE,
    ONLY,
    option(BATCH, default=_BATCHES),
    gpu.FILES,
    option("--arithmetic", default="float32", choices=("float32", "exact")),
)
CONVOLUTIONS = re.compile("dmlax_(depthwise_)?convolution")
_MOST_APART = {"vit_b16": 0.5}  # standard deviations of a float output; other models differ by 0
_FEW = 32  # images whose call is bound by what the host does for each argument
_LISTED = 5  # microseconds of the quickest kernel that the second table lists
_MOST_LISTED = 16  # kernels of a model
Tensors = Mapping[str, np.ndarray]


def run(
    peer: bool,
    table: Sequence[Path] | None,
    only: str,
    batch: Sequence[int],
    files: Path | None,
    arithmetic: Arithmetic,
) -> list[Report] | None:
    """Print the lines of either library, or make the tables."""
    names = [name for name in NETWORKS if re.search(only, name)]
    ours = partial(_ours, names, batch, arithmetic, files)
    theirs = partial(_peer, names, batch)
    return gpu.staged(ours, theirs, _tables, peer=peer, table=table)


def quantized_file(name: str, folder: Path | None) -> onnx.ModelProto:
    """Return the quantized file, from the folder if it is there."""
    path = folder and folder / f"{name}.onnx"
    if path and path.exists():
        return onnx.load(path)
    file = networks.quantize(networks.NETWORKS[name](), "qoperator", False)
    if path:
        onnx.save(file, path)
    return file


def _ours(
    names: Sequence[str], batches: Sequence[int], arithmetic: Arithmetic, files: Path | None
) -> Iterator[Row]:
    yield gpu.facts()
    for name in names:
        file = quantized_file(name, files)
        for row in _rows(file, batches, arithmetic, _MOST_APART.get(name, 0.0)):
            yield {"network": name} | row


def _rows(
    file: onnx.ModelProto, batches: Sequence[int], arithmetic: Arithmetic, most_apart: float
) -> Iterator[Row]:
    """Times at every batch size; smaller batches are the first images of the largest."""
    inputs = networks.draw_inputs(file, max(batches), seed=1)
    expected: Tensors = {}
    apart = 0.0
    for batch in sorted(batches, reverse=True):
        start = time.perf_counter()
        model = dmlax.onnx.load(file, arithmetic=arithmetic)
        loaded = time.perf_counter()
        images = jax.device_put(_part(inputs, slice(batch)))
        outputs = jax.tree.map(np.asarray, model(images))
        called = time.perf_counter()
        if not expected:
            apart = _distance_from_cpu(model, inputs, outputs)
            expected = outputs
        apart = max(apart, _distance(outputs, _part(expected, slice(batch))))
        assert apart <= most_apart, f"{apart} standard deviations apart"
        yield {
            "batch": batch,
            "arithmetic": arithmetic,
            "load_s": loaded - start,
            "first_call_s": called - loaded,
            "apart": apart,
        } | _times(model, images)


def _part(tensors: Tensors, images: slice | np.ndarray) -> dict[str, np.ndarray]:
    return {name: x[images] for name, x in tensors.items()}


def _distance_from_cpu(model: dmlax.onnx.Model, inputs: Tensors, outputs: Tensors) -> float:
    """Largest difference of the outputs of some images from the CPU's."""
    ends = np.unique(gpu.ENDS % len(next(iter(inputs.values()))))
    with gpu.on_cpu():
        operands = jax.device_put((model.params, _part(inputs, ends)), jax.devices("cpu")[0])
        expected = jax.tree.map(np.asarray, jax.jit(model.apply)(*operands))
    return _distance(_part(outputs, ends), expected)


def _distance(outputs: Tensors, expected: Tensors) -> float:
    """The largest difference of an output, in its standard deviations; 0 if bits are equal."""
    assert outputs.keys() == expected.keys()
    return max(
        0.0
        if np.array_equal(outputs[name], x)
        else float(np.abs(outputs[name] - x).max() / x.std())
        for name, x in expected.items()
    )


def _times(model: dmlax.onnx.Model, images: Mapping[str, jax.Array]) -> Row:
    """Milliseconds of a call that waits for its outputs, of one in a row, and of its kernels."""
    few = len(next(iter(images.values()))) <= _FEW
    constant = _compiled(partial(model.apply, model.params), images) if few else None
    return {
        "call_ms": timing.alone(partial(timing.finish, model, images), 50),
        "in_a_row_ms": gpu.in_a_row_ms(partial(model, images)),
        "constant_params_ms": constant and gpu.in_a_row_ms(partial(constant, images)),
        "kernels": gpu.jax_kernels(model, images),
    }


def _compiled(function: Callable[..., Any], *operands: Any) -> Callable[..., Any]:
    """Return the function, jitted; its kernels are compiled side by side."""
    call = jax.jit(function)
    with compiling_kernels(lambda: call.lower(*operands)):
        jax.block_until_ready(call(*operands))
    return call


def _peer(names: Sequence[str], batches: Sequence[int]) -> Iterator[Row]:
    """Time one call in a row of PyTorch's calls."""
    torch, models = import_module("torch"), import_module("torchvision.models")
    fuse = import_module("torch.fx.experimental.optimization").fuse
    torch.backends.cudnn.benchmark = True
    last = {"memory_format": torch.channels_last}
    yield {"torch": torch.__version__}

    def ms(call: timing.Call) -> float:
        return gpu.in_a_row_ms(call, wait=lambda _: torch.cuda.synchronize())

    for name in names:
        model = models.get_model(NETWORKS[name], weights=None).eval()
        if any(isinstance(layer, torch.nn.BatchNorm2d) for layer in model.modules()):
            model = fuse(model)
        model = model.to("cuda", torch.bfloat16, **last)
        for batch in batches:
            x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(**last)
            with torch.inference_mode():
                graph = _capture(torch, partial(model, x))
                yield {"network": name, "batch": batch, "in_a_row_ms": ms(graph)}


def _capture(torch: Any, call: timing.Call) -> timing.Call:
    """Capture a call as a CUDA graph; returns the function that replays it."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: timing.Call = graph.replay
    return replay


# Tables ----------------------------------------------------------------------------------------


def _tables(ours: gpu.Lines, theirs: gpu.Lines) -> list[Report]:
    (facts, rows), (peer, peer_rows) = ours, theirs
    graphs = {(row["network"], row["batch"]): row["in_a_row_ms"] for row in peer_rows}
    models = gpu.report_of("models", facts | peer)
    others = Report("kernels that are no convolution, in microseconds")
    for row in rows:
        names = {column: row[column] for column in ("network", "batch", "arithmetic")}
        torch_ms = graphs.get((row["network"], row["batch"]))
        models.rows.append(names | _columns(row, torch_ms))
        others.rows += [names | kernel for kernel in _slow_kernels(_others(row))]
    return [models, others]


def _columns(row: Row, torch_ms: float | None) -> Row:
    device, rest = (sum(ms for _, ms in kernels) for kernels in (row["kernels"], _others(row)))
    return {
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


def _others(row: Row) -> list[tuple[str, float]]:
    """Names and milliseconds of the kernels that are no convolution."""
    return [(name, ms) for name, ms in row["kernels"] if not CONVOLUTIONS.match(name)]


def _slow_kernels(kernels: Sequence[tuple[str, float]]) -> list[Row]:
    """Microseconds of the kernels that take long, by name, the slowest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for name, ms in kernels:
        times[name].append(1e3 * ms)
    rows: list[Row] = [
        {"kernel": name, "count": len(us), "us": sum(us)} for name, us in times.items()
    ]
    slow = (row for row in rows if row["us"] >= _LISTED)
    return sorted(slow, key=lambda row: -float(row["us"]))[:_MOST_LISTED]
