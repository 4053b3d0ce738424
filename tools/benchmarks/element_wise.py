"""The element-wise operators against ONNX Runtime's QuantizeLinear and DequantizeLinear, on a CPU.

A quick call is timed in a program that chains both operators; ONNX Runtime runs a graph of as many
nodes. A jitted no-op is subtracted from dmlax's times, and an Identity node from ONNX Runtime's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np
from onnx import helper

import dmlax
from dmlax._core.requantize import Arithmetic
from tools.benchmarks import onnx_peer, timing
from tools.benchmarks.options import REPEATS
from tools.benchmarks.report import Report, Row, tracked

OPTIONS = (REPEATS,)
_SIZES = (2**12, 2**14, 2**16, 150_000, 2**18, 2**20, 2**22)
_SCALE, _ZERO_POINT = np.float32(0.0371), np.uint8(117)
_LIMIT = 1.1


@dataclass(frozen=True)
class Work:
    """A chain of both operators in turn, and the operator that it begins with."""

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


def run(repeats: int) -> Iterator[Report]:
    """Check, then time, every size."""
    report, _, overhead = onnx_peer.begin_report("element_wise", repeats)
    for work, size in tracked(product(_WORKS, _SIZES), report.name):
        report.rows.append(_row(work, size, repeats, overhead))
    for work in _WORKS:
        ratios = report.column("ratio", operator=work.name)
        report.add_target(f"{work.name}: largest ratio to ORT", max(ratios), _LIMIT)
    yield report


def _row(work: Work, size: int, repeats: int, overhead: timing.Overhead) -> Row:
    values = work.values(size)
    count, pair = timing.pair_chains(partial(_checked, work, values), repeats, overhead)
    x = jax.device_put(values)
    by_xla, by_auto = (
        partial(timing.finish, jax.jit(partial(work.call, count=1, implementation=name)), x)
        for name in ("xla", "auto")
    )
    return {
        "operator": work.name,
        "elements": size,
        "calls": count,
        **pair.columns("us", calls=count),
        "over xla": timing.pair(by_xla, by_auto, repeats // 4 + 1).ratio,
    }


def _checked(work: Work, values: np.ndarray, count: int) -> tuple[timing.Call, timing.Call]:
    """Build both chains; outputs are xla's where the arithmetic is exact, else ONNX Runtime's."""
    x = jax.device_put(values)
    ours = partial(timing.finish, jax.jit(partial(work.call, count=count)), x)
    peer, read = _start_peer(work, values, count)
    peer()
    if work.arithmetic == "exact" and work.quantizes_first:
        expected = np.asarray(work.call(x, count, implementation="xla"))
    else:
        (expected,) = read()
    np.testing.assert_array_equal(ours(), expected, work.name, strict=True)
    return ours, peer


def _start_peer(work: Work, x: np.ndarray, count: int) -> tuple[timing.Call, onnx_peer.Reader]:
    nodes = [
        helper.make_node(name, [f"x{i}", "scale", "zero_point"], [f"x{i + 1}"])
        for i, name in enumerate(work.operators(count))
    ]
    inputs, outputs = {"x0": x}, [f"x{count}"]
    model = onnx_peer.build(nodes, inputs, outputs, {"scale": _SCALE, "zero_point": _ZERO_POINT})
    session = onnx_peer.start(model, optimise=False)  # else pairs of nodes are dropped
    return onnx_peer.bind(session, inputs, outputs)
