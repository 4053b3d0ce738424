"""Whole quantized models against ONNX Runtime: bits first, then time."""

import re
import time
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np
import onnx

import dmlax.onnx
from benchmarks import islands, networks, onnx_peer, peak_memory, timing
from benchmarks.peaks import measured
from benchmarks.report import Report, Row, Target, tracked
from dmlax.onnx import peer

_LIMITS = {"resnet50": {1: 0.85, 8: 0.95}, "detector": {1: 1.1, 8: 1.1}}
_LIMIT = 1.0
_MEMORY_LIMIT = 1.5  # of ONNX Runtime's peak
_ERROR = 0.5  # of an output behind float islands, in its standard deviations
Inputs = dict[str, np.ndarray]


def run(
    names: Iterable[str], batches: Iterable[int], repeats: int, form: str = "qoperator"
) -> Report:
    """Check, then time, every network at every batch size."""
    peaks = measured()
    report = Report("models", facts=peaks.facts() | {"format": form})
    saturates = not re.search("vnni|amx|dpbusd", peaks.instruction, re.IGNORECASE)
    files = {name: networks.quantize(networks.NETWORKS[name](), form, saturates) for name in names}
    for name, batch in tracked(list(product(files, batches)), report.name):
        report.rows.append(_row(name, files[name], form, batch, repeats))
    for row in report.rows:
        name, batch = str(row["network"]), int(row["batch"])
        limit = _LIMITS.get(name, {}).get(batch, _LIMIT)
        what = f"{name}, batch {batch}:"
        report.targets.append(Target(f"{what} ratio", row["ratio"], limit))
        report.targets.append(Target(f"{what} differ", row["differ"], 0))
        report.targets.append(Target(f"{what} memory ratio", row["memory ratio"], _MEMORY_LIMIT))
        report.targets.append(Target(f"{what} output error", row["output error"], _ERROR))
    return report


def _row(name: str, file: onnx.ModelProto, form: str, batch: int, repeats: int) -> Row:
    inputs = networks.draw_inputs(file, batch, seed=1)
    start = time.perf_counter()
    model = dmlax.onnx.load(file)
    loaded = time.perf_counter()
    jax.block_until_ready(model(inputs))
    called = time.perf_counter()
    differ, elements = different_elements(file, form, inputs)
    session, arrays = onnx_peer.start(file), jax.device_put(inputs)
    ours, theirs = partial(_finish, model, arrays), partial(peer.run, session, inputs)
    error = largest_error(ours(), theirs())
    pair = timing.pair(ours, theirs, repeats)
    peaks = peak_memory.measure(file, inputs)
    return {
        "network": name,
        "batch": batch,
        "ORT ms": pair.peer,
        "dmlax ms": pair.ours,
        "ratio": pair.ratio,
        "spread": pair.spread,
        "load s": loaded - start,
        "first call s": called - loaded,
        "ORT MiB": peaks["onnxruntime"],
        "dmlax MiB": peaks["dmlax"],
        "memory ratio": peaks["dmlax"] / peaks["onnxruntime"],
        "differ": differ,
        "elements": elements,
        "output error": error,
    }


def _finish(model: dmlax.onnx.Model, inputs: Mapping[str, jax.Array]) -> dict[str, Any]:
    found: dict[str, Any] = jax.block_until_ready(model(inputs))
    return found


def different_elements(file: onnx.ModelProto, form: str, inputs: Inputs) -> tuple[int, int]:
    """Count the elements of every tensor that differ from ONNX Runtime's, and all of them.

    Its nodes run as they are in the file, or in a QDQ file as its extended level fuses them. What
    float islands compute is ONNX Runtime's.
    """
    theirs = peer.run_every_tensor(peer.fuse(file) if form.startswith("qdq") else file, inputs)
    rest, inputs = islands.cut(file, inputs, theirs)
    model = dmlax.onnx.load(rest)
    names = tuple(value.name for value in rest.graph.output)
    ours = jax.jit(partial(model.apply, outputs=names))(model.params, inputs)
    differ = sum(int((np.asarray(ours[name]) != theirs[name]).sum()) for name in names)
    return differ, sum(theirs[name].size for name in names)


def largest_error(ours: Mapping[str, Any], theirs: Mapping[str, np.ndarray]) -> float:
    """Return the largest difference of an output, in its standard deviations."""
    return max(float(np.abs(ours[name] - x).max() / x.std()) for name, x in theirs.items())
