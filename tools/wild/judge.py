"""Loads a file, calls it, and compares it with ONNX Runtime at two levels."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx

import dmlax.onnx
from dmlax.onnx import peer
from tools.wild.files import Entry

_BOUND = 1e-4  # bounds a float's difference, in standard deviations of its tensor
_FLOAT16_BOUND = 2e-2  # ONNX Runtime computes float16 in float32, and rounds less often
_YARDS = 4  # times the yardstick that a file may differ
_MARKS = ("Quant", "QLinear", "Integer", "NBits")


def judge(entry: Entry, path: Path, *, fast: bool) -> dict[str, Any]:
    """Returns the facts of a row of the table."""
    model = onnx.load(path)
    found: dict[str, Any] = {"quantized": quantization(model), "loads": False}
    jax.config.update("jax_enable_x64", entry.x64)
    inputs = draw_inputs(entry, model)
    constants = {name: inputs[name] for name in entry.constants}
    keywords = entry.load | ({"constants": constants} if constants else {})
    start = time.perf_counter()
    try:
        loaded = dmlax.onnx.load(path, **keywords)
    except Exception as error:
        return found | {"error": f"{type(error).__name__}: {error}"}
    found |= {"loads": True, "load_s": time.perf_counter() - start}
    given = {name: inputs[name] for name in loaded.inputs}
    start = time.perf_counter()
    try:
        ours = {name: np.asarray(x) for name, x in loaded(given).items()}
    except Exception as error:
        return found | {"error": f"the call: {type(error).__name__}: {error}"}
    found["first_s"] = time.perf_counter() - start
    # One thread, as several share the range of a quantized state out.
    theirs, optimised = (
        peer.run(peer.start(path, optimised=each, threads=1), inputs) for each in (False, True)
    )
    noise = []
    for rng in map(np.random.default_rng, range(3)):
        session = peer.start(_shaken(model, rng), optimised=False, threads=1)
        noise.append(peer.run(session, {name: _moved(x, rng) for name, x in inputs.items()}))
    found |= compare(ours, theirs, optimised, noise, entry.bound)
    if not fast:
        fast_session = peer.start(path, threads=2)
        found["ms"] = milliseconds(lambda: [x.block_until_ready() for x in loaded(given).values()])
        found["peer_ms"] = milliseconds(lambda: peer.run(fast_session, inputs))
    return found


def quantization(model: onnx.ModelProto) -> str:
    """Returns "yes" for a file with quantized operators, "weights" for bytes that are cast."""
    if any(mark in node.op_type for node in _nodes(model.graph) for mark in _MARKS):
        return "yes"
    bytes_ = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    return "weights" if any(x.data_type in bytes_ for x in model.graph.initializer) else "no"


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for each in (attribute.g, *attribute.graphs):
                yield from _nodes(each)


def _shaken(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """Copies a model; each float32 weight moves by at most one unit of its last place."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.ndim > 1:
            tensor.CopyFrom(onnx.numpy_helper.from_array(_moved(array, rng), tensor.name))
    return copy


def _moved(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Moves floats by at most one unit of their last place."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(invalid="ignore"):
        places = rng.integers(-1, 2, array.shape) * np.spacing(np.abs(array))
    return (array + np.where(np.isfinite(array), places, 0)).astype(array.dtype)


def draw_inputs(entry: Entry, model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Draws inputs with the shapes and ranges of an entry."""
    rng = np.random.default_rng(0)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if value.name in entry.constants:
            inputs[value.name] = np.asarray(entry.constants[value.name], dtype)
            continue
        shape = entry.shapes.get(value.name)
        if shape is None:
            shape = [x.dim_value or entry.sizes[x.dim_param] for x in tensor.shape.dim]
        inputs[value.name] = draw(dtype, shape, entry.ranges.get(value.name), rng)
    return inputs


def draw(
    dtype: np.dtype, shape: Any, limits: Sequence[float] | None, rng: np.random.Generator
) -> np.ndarray:
    """Draws an input; without limits it has normal floats, truths, or integers 0 and 1."""
    if dtype.kind == "f":
        drawn = rng.uniform(limits[0], limits[1], shape) if limits else rng.standard_normal(shape)
    else:
        least, most = limits or (int(dtype.kind == "b"), 1)
        drawn = rng.integers(int(least), int(most), shape, endpoint=True)
    return np.asarray(drawn).astype(dtype)


def compare(
    ours: Mapping[str, np.ndarray],
    by_nodes: Mapping[str, np.ndarray],
    optimised: Mapping[str, np.ndarray],
    noise: Sequence[Mapping[str, np.ndarray]],
    least_bound: float = 0.0,
) -> dict[str, Any]:
    """Compares all outputs.

    Returns:
      agrees: floats are within a bound, and integers are equal to those of one level.
      difference: the largest of floats from the nodes as they are, in standard deviations.
      yardstick: the same of ONNX Runtime's other level, and of its results where weights and
        inputs move by one unit of their last place.
      notes: sentences about outputs that do not agree.
    """
    worst, yardstick, notes = 0.0, 0.0, []
    for name, wanted in by_nodes.items():
        x = ours[name]
        if x.shape != wanted.shape or x.dtype.kind != wanted.dtype.kind:
            notes.append(f"{name} is {x.dtype}{x.shape}, expected {wanted.dtype}{wanted.shape}")
        elif wanted.dtype.kind != "f":
            differ = min(np.count_nonzero(x != each[name]) for each in (by_nodes, optimised))
            apart = max(np.count_nonzero(wanted != each[name]) for each in (optimised, *noise))
            if differ > apart:
                notes.append(f"{name}: {differ} of {x.size} integers differ, ORT's {apart}")
        else:
            ahead = _difference(x, wanted)
            apart = max(_difference(each[name], wanted) for each in (optimised, *noise))
            bound = _FLOAT16_BOUND if wanted.dtype == np.float16 else max(_BOUND, least_bound)
            worst, yardstick = max(worst, ahead), max(yardstick, apart)
            if not ahead <= max(bound, _YARDS * apart):
                text = f"differs by {ahead:.1e} standard deviations, ORT by {apart:.1e}"
                notes.append(f"{name}: {text}")
    return {"agrees": not notes, "difference": worst, "yardstick": yardstick, "notes": notes}


def _difference(x: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference in standard deviations; infinite where one is no number.

    A single element is compared with its magnitude.
    """
    same = (x == wanted) | (np.isnan(x) & np.isnan(wanted))
    if same.all():
        return 0.0
    a, b = (each[~same].astype(np.float64) for each in (x, wanted))
    finite = wanted[np.isfinite(wanted)].astype(np.float64)
    spread = finite.std() if finite.size > 1 else np.abs(finite).max(initial=0)
    scale = max(spread, 1e-6 * np.abs(finite).max(initial=1))
    with np.errstate(invalid="ignore"):
        found = np.abs(a - b).max() / scale
    return float(found) if np.isfinite(found) else float("inf")


def milliseconds(call: Callable[[], Any]) -> float:
    """The median of calls for two seconds, three at least and fifty at most."""
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 2 and len(times) < 50):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)
