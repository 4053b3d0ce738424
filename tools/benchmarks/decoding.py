"""Steps and prompts of a decoder in 4 and 8 bits, against ONNX Runtime with a shared cache.

The file is that of the example of language models, with random weights. Both libraries have caches
of 4,096 places, which a call updates in place. Every call begins at the same length.
"""

import dataclasses
import re
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import onnxruntime

import dmlax.onnx
from dmlax.onnx import peer
from tools import examples
from tools.benchmarks import timing
from tools.benchmarks.report import ONLY, REPEATS, Report, option

OPTIONS = (
    ONLY,
    REPEATS,
    option("--threads", type=int, default=2, help="of ONNX Runtime (default 2)"),
    option("--width", type=int, default=2048, help="of a row, a multiple of 128 (default 2048)"),
    option("--cpu-time", action="store_true", help="time of all threads, for a loaded machine"),
)
_FORMS: dict[str, dict[str, int]] = {
    "4 bits, level 4": {"bits": 4},
    "8 bits, level 4": {"bits": 8},
    "4 bits, level 0": {"bits": 4, "level": 0},
}
_CAPACITY, _HEAD = 4096, 64
_CALLS = (  # the name, the tokens before the call, and its rows
    ("step with 17 tokens", 17, 1),
    ("step with 4,000 tokens", 4000, 1),
    *((f"prompt of {rows}", 0, rows) for rows in (16, 64, 256)),
)


def run(only: str, repeats: int, threads: int, width: int, cpu_time: bool) -> Iterator[Report]:
    """Compare the best tokens, then time both libraries in turn."""
    example = examples.load("tiny_decoder")
    sizes = example.Sizes(
        vocabulary=width * 125 // 8, width=width, layers=4, heads=width // _HEAD,
        groups=max(width // _HEAD // 4, 1), head=_HEAD, inner=width * 11 // 4, positions=_CAPACITY,
    )  # fmt: skip
    weights = sizes.random_weights()
    clock = time.process_time if cpu_time else time.perf_counter
    report = Report("decoding", facts={"width": width, "threads": threads, "cpu time": cpu_time})
    for form, options in _FORMS.items():
        calls = [call for call in _CALLS if re.search(only, f"{form}, {call[0]}")]
        if not calls:
            continue
        file = example.make_file(sizes, dict(weights), **options)
        model, session = dmlax.onnx.load(file), peer.start(file, threads=threads)
        for name, length, rows in calls:
            ids = np.arange(rows)[None] % sizes.vocabulary
            ours, theirs = _ours(model, ids, length), _theirs(session, sizes, ids, length)
            is_equal = int(np.argmax(ours()) == np.argmax(theirs()))
            pair = timing.pair(ours, theirs, repeats, clock=clock)
            row = {"file": form, "call": name, **pair.columns("ms"), "token equal": is_equal}
            report.rows.append(row)
    yield report


def _ours(model: dmlax.onnx.Model, ids: np.ndarray, length: int) -> Any:
    """A call of a jitted, donated step, which returns the scores of the last row."""
    lengths = np.full(1, length, np.int32)
    state = model.init_state(1, _CAPACITY)

    def call() -> Any:
        nonlocal state
        state = dataclasses.replace(state, lengths=jax.device_put(lengths))
        outputs, state = model.step(state, ids)
        return np.asarray(outputs["scores"])[0, -1]

    return call


def _theirs(session: onnxruntime.InferenceSession, sizes: Any, ids: np.ndarray, length: int) -> Any:
    """A call whose pasts and presents are the same memory."""
    mask = (np.arange(_CAPACITY) < length + ids.shape[1]).astype(np.int64)[None]
    binding, value = session.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy
    for name, x in (("input_ids", ids), ("attention_mask", mask)):
        binding.bind_ortvalue_input(name, value(x))
    binding.bind_output("scores", "cpu")
    for name in (x.name for x in session.get_inputs() if x.name.startswith("past")):
        cache = value(np.zeros((1, sizes.groups, _CAPACITY, sizes.head), np.float32))
        binding.bind_ortvalue_input(name, cache)
        binding.bind_ortvalue_output(name.replace("past_key_values", "present"), cache)

    def call() -> np.ndarray:
        session.run_with_iobinding(binding)
        return np.asarray(binding.get_outputs()[0].numpy()[0, -1])

    return call
