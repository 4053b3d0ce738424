"""Whole quantized models against ONNX Runtime: bits first, then time."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import jax
import numpy as np
import onnx

import dmlax.onnx
from dmlax.onnx import peer
from tools.benchmarks import islands, onnx_peer, peak_memory, timing
from tools.benchmarks.peaks import measured
from tools.benchmarks.report import BATCH, ONLY, REPEATS, Report, Row, option, tracked
from tools.zoo import networks

FORM = option("--form", default="qoperator", choices=networks.FORMS, help="of quantized files")
OPTIONS = (ONLY, BATCH, REPEATS, FORM)
Inputs = dict[str, np.ndarray]


def run(only: str, batch: Sequence[int], repeats: int, form: str) -> Iterator[Report]:
    """Check, then time, every network at every batch size."""
    names = [name for name in networks.NETWORKS if re.search(only, name)]
    if not names:
        return
    peaks = measured()
    report = Report("models", facts=peaks.facts() | {"format": form})
    saturates = not re.search("vnni|amx|dpbusd", peaks.instruction, re.IGNORECASE)
    files = {name: networks.quantize(networks.NETWORKS[name](), form, saturates) for name in names}
    for name, size in tracked(product(files, batch), report.name):
        report.rows.append(_row(name, files[name], form, size, repeats))
    yield report


def _row(name: str, file: onnx.ModelProto, form: str, batch: int, repeats: int) -> Row:
    inputs = networks.draw_inputs(file, batch, seed=1)
    start = time.perf_counter()
    model = dmlax.onnx.load(file)
    loaded = time.perf_counter()
    jax.block_until_ready(model(inputs))
    called = time.perf_counter()
    differ, elements = different_elements(file, form, inputs)
    session, arrays = onnx_peer.start(file), jax.device_put(inputs)
    ours, theirs = partial(timing.finish, model, arrays), partial(peer.run, session, inputs)
    error = largest_error(ours(), theirs())
    pair = timing.pair(ours, theirs, repeats)
    peaks = peak_memory.measure(file, inputs)
    return {
        "network": name,
        "batch": batch,
        **pair.columns("ms"),
        "load s": loaded - start,
        "first call s": called - loaded,
        "ORT MiB": peaks["onnxruntime"],
        "dmlax MiB": peaks["dmlax"],
        "memory ratio": peaks["dmlax"] / peaks["onnxruntime"],
        "differ": differ,
        "elements": elements,
        "output error": error,
    }


def different_elements(file: onnx.ModelProto, form: str, inputs: Inputs) -> tuple[int, int]:
    """Count the elements of every tensor that differ from ONNX Runtime's, and all elements.

    ONNX Runtime runs the file's nodes, or a QDQ file's nodes as its extended level fuses them.
    Float islands have ONNX Runtime's values on both sides.
    """
    theirs = peer.run_every_tensor(peer.fuse(file) if form.startswith("qdq") else file, inputs)
    rest, inputs = islands.cut(file, inputs, theirs)
    model = dmlax.onnx.load(rest)
    names = tuple(value.name for value in rest.graph.output)
    ours = jax.jit(partial(model.apply, outputs=names))(model.params, inputs)
    differ = sum(int((np.asarray(ours[name]) != theirs[name]).sum()) for name in names)
    return differ, sum(theirs[name].size for name in names)


def largest_error(ours: Mapping[str, jax.Array], theirs: Mapping[str, np.ndarray]) -> float:
    """Return the largest difference of an output, in its standard deviations."""
    return max(float(np.abs(ours[name] - x).max() / x.std()) for name, x in theirs.items())
