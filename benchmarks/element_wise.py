"""The element-wise operators against ONNX Runtime's QuantizeLinear and DequantizeLinear, on a CPU.

A quick call is timed in a chain of both operators in one program, where each takes what the one
before gave; the peer runs a graph of as many nodes. What a jitted no-op costs is subtracted from
our times, and an Identity node's run from the peer's.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from onnx import helper

import dmlax
from benchmarks import onnx_peer, timing
from benchmarks.report import Report, Row, Target, tracked
from dmlax._core.requantize import Arithmetic

SIZES = (2**12, 2**14, 2**16, 150_000, 2**18, 2**20, 2**22)
_SCALE, _ZERO_POINT = np.float32(0.0371), np.uint8(117)
_LIMIT = 1.1


@dataclass(frozen=True)
class Work:
    """A chain that begins with one operator and goes on with the other and it in turn."""

    name: str
    quantizes_first: bool
    arithmetic: Arithmetic

    def operators(self, count: int) -> list[str]:
        """The ONNX names of the operators of a chain."""
        names = ["QuantizeLinear", "DequantizeLinear"]
        return [names[(i + (not self.quantizes_first)) % 2] for i in range(count)]

    def values(self, size: int) -> np.ndarray:
        """Floats that fill the range of bytes, or bytes; the same on every run."""
        rng = np.random.default_rng(0)
        if self.quantizes_first:
            return rng.normal(0, 2, size).astype(np.float32)
        return rng.integers(0, 256, size, np.uint8)

    def call(self, x: jax.Array, count: int, **options: Any) -> jax.Array:
        """The chain by dmlax."""
        for name in self.operators(count):
            if name == "QuantizeLinear":
                x = dmlax.element_wise_quantize_linear(
                    x, _SCALE, _ZERO_POINT, arithmetic=self.arithmetic, **options
                )
            else:
                x = dmlax.element_wise_dequantize_linear(x, _SCALE, _ZERO_POINT, **options)
        return x


_WORKS = (
    Work("quantize, exact", True, "exact"),
    Work("quantize, float32", True, "float32"),
    Work("dequantize", False, "exact"),
)


def run(repeats: int) -> Report:
    """Check, then time, every size."""
    report, _, overhead = onnx_peer.begin_report("element_wise", repeats)
    pairs = [(work, size) for work in _WORKS for size in SIZES]
    for work, size in tracked(pairs, report.name):
        report.rows.append(_row(work, size, repeats, overhead))
    for work in _WORKS:
        ratios = report.column("ratio", operator=work.name)
        report.targets.append(Target(f"{work.name}: largest ratio to ORT", max(ratios), _LIMIT))
    return report


def _row(work: Work, size: int, repeats: int, overhead: timing.Overhead) -> Row:
    x = work.values(size)
    count, pair = timing.pair_chains(partial(_checked, work, x), repeats, overhead)
    given = jax.device_put(x)
    by_xla, by_auto = (
        partial(timing.finish, jax.jit(partial(work.call, count=1, implementation=each)), given)
        for each in ("xla", "auto")
    )
    return {
        "operator": work.name,
        "elements": size,
        "calls": count,
        "ORT us": 1e3 * pair.peer / count,
        "dmlax us": 1e3 * pair.ours / count,
        "ratio": pair.ratio,
        "spread": pair.spread,
        "over xla": timing.pair(by_xla, by_auto, repeats // 4 + 1).ratio,
    }


def _checked(work: Work, x: np.ndarray, count: int) -> tuple[timing.Call, timing.Call]:
    """Build both chains, whose outputs are the same where the arithmetic is."""
    function, given = jax.jit(partial(work.call, count=count)), jax.device_put(x)
    ours = partial(timing.finish, function, given)
    peer, read = _peer(work, x, count)
    peer()
    if work.arithmetic == "exact" and work.quantizes_first:
        wanted = np.asarray(work.call(given, count, implementation="xla"))
    else:
        (wanted,) = read()
    np.testing.assert_array_equal(ours(), wanted, work.name, strict=True)
    return ours, peer


def _peer(work: Work, x: np.ndarray, count: int) -> tuple[timing.Call, onnx_peer.Reader]:
    nodes = [
        helper.make_node(name, [f"x{i}", "scale", "zero_point"], [f"x{i + 1}"])
        for i, name in enumerate(work.operators(count))
    ]
    inputs, outputs = {"x0": x}, [f"x{count}"]
    model = onnx_peer.build(nodes, inputs, outputs, {"scale": _SCALE, "zero_point": _ZERO_POINT})
    return onnx_peer.bind(onnx_peer.start(model, optimise=False), inputs, outputs)  # no pair lost
