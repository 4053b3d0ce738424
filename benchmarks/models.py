"""Whole quantized models against ONNX Runtime: bits first, then time."""

import re
import time
from collections.abc import Iterable
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime

import dmlax.onnx
from benchmarks import networks, timing
from benchmarks.peaks import measured
from benchmarks.report import Report, Row, Target, tracked

_LIMITS = {"resnet50": {1: 0.85, 8: 0.95}, "detector": {1: 1.1, 8: 1.1}}
_LIMIT = 1.0
_THREADS = 2


def run(
    names: Iterable[str], batches: Iterable[int], repeats: int, form: str = "qoperator"
) -> Report:
    """Check, then time, every network at every batch size."""
    peaks = measured()
    report = Report("models", facts=peaks.facts() | {"format": form})
    saturates = not re.search("vnni|amx|dpbusd", peaks.instruction, re.IGNORECASE)
    files = {name: networks.quantize(networks.NETWORKS[name](), form, saturates) for name in names}
    for name, batch in tracked(list(product(files, batches)), report.name):
        report.rows.append(_row(name, files[name], batch, repeats))
    for row in report.rows:
        name, batch = str(row["network"]), int(row["batch"])
        limit = _LIMITS.get(name, {}).get(batch, _LIMIT)
        report.targets.append(Target(f"{name}, batch {batch}: ratio", row["ratio"], limit))
    return report


def _row(name: str, file: onnx.ModelProto, batch: int, repeats: int) -> Row:
    x = networks.images(networks.NETWORKS[name](), batch, seed=1)
    start = time.perf_counter()
    model = dmlax.onnx.load(file)
    loaded = time.perf_counter()
    jax.block_until_ready(model(x))
    called = time.perf_counter()
    wanted, elements = _different(model, file, x)
    session, image = _session(file, optimised=True), jax.device_put(x)
    ours = partial(_finish, model, image)
    peer = partial(session.run, None, {"x": x})
    (output,) = ours().values()
    different = int((np.asarray(output) != peer()[0]).sum())
    pair = timing.pair(ours, peer, repeats)
    return {
        "network": name,
        "batch": batch,
        "ORT ms": pair.peer,
        "dmlax ms": pair.ours,
        "ratio": pair.ratio,
        "spread": pair.spread,
        "load s": loaded - start,
        "first call s": called - loaded,
        "differ": wanted,
        "elements": elements,
        "outputs differ": different,
    }


def _finish(model: dmlax.onnx.Model, x: jax.Array) -> dict[str, Any]:
    found: dict[str, Any] = jax.block_until_ready(model(x))
    return found


def _different(model: dmlax.onnx.Model, file: onnx.ModelProto, x: np.ndarray) -> tuple[int, int]:
    """Every tensor against ONNX Runtime without optimisations: how many elements differ, of all."""
    every = onnx.ModelProto()
    every.CopyFrom(file)
    have = {value.name for value in every.graph.output}
    names = [name for node in every.graph.node for name in node.output if name not in have]
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = _session(every, optimised=False)
    names = [output.name for output in session.get_outputs()]
    theirs = dict(zip(names, session.run(names, {"x": x}), strict=True))
    apply = jax.jit(model.apply, static_argnames="outputs")
    ours = apply(model.params, {"x": x}, outputs=tuple(names))
    differ = sum(int((np.asarray(ours[name]) != theirs[name]).sum()) for name in names)
    return differ, sum(array.size for array in theirs.values())


def _session(file: onnx.ModelProto, optimised: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _THREADS
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = file.SerializeToString()
    return onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
