"""The element-wise operators against ONNX Runtime's QuantizeLinear and DequantizeLinear, on a CPU.

A quick call is timed in a chain of both operators in one program, where each takes what the one
before gave; the peer runs a graph of as many nodes. What a jitted no-op costs is subtracted from
our times, and an Identity node's run from the peer's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

import dmlax
from benchmarks import onnx_peer, timing
from benchmarks.report import Report, Row, Target, tracked
from dmlax._core.requantize import Arithmetic
from dmlax._cpu import library

SIZES = (2**12, 2**14, 2**16, 150_000, 2**18, 2**20, 2**22)
_SCALE, _ZERO_POINT = np.float32(0.0371), np.uint8(117)
_CHAIN = 16  # calls in one program
_QUICK = 0.05  # milliseconds: quicker ones are timed in a chain
_LIMIT = 1.1
_OPSET, _IR = 19, 9


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
    if jax.default_backend() != "cpu":
        raise SystemExit("element_wise: the peer runs on a CPU; set JAX_PLATFORMS=cpu")
    overhead = _overhead(repeats)
    facts = {
        "instruction set": library.instruction_set(),
        "threads": onnx_peer.THREADS,
        "no-op us": 1e3 * overhead.ours,
        "Identity us": 1e3 * overhead.peer,
    }
    report = Report("element_wise", facts=facts)
    pairs = [(work, size) for work in _WORKS for size in SIZES]
    for work, size in tracked(pairs, report.name):
        report.rows.append(_row(work, size, repeats, overhead))
    for work in _WORKS:
        ratios = report.column("ratio", operator=work.name)
        report.targets.append(Target(f"{work.name}: largest ratio to ORT", max(ratios), _LIMIT))
    return report


def _overhead(repeats: int) -> timing.Pair:
    """A program and a graph that do nothing worth the name."""
    x = np.zeros(1, np.float32)
    info = helper.make_tensor_value_info("x0", TensorProto.FLOAT, x.shape)
    result = helper.make_tensor_value_info("x1", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x0"], ["x1"])], "none", [info], [result]
    )
    peer, _ = _bind(_model_of(graph), x, "x1")
    return timing.pair(partial(_finish, jax.jit(lambda x: -x), jax.device_put(x)), peer, repeats)


def _row(work: Work, size: int, repeats: int, overhead: timing.Pair) -> Row:
    x = work.values(size)
    count = 1
    pair = timing.pair(*_checked(work, x, count), repeats)
    if min(pair.ours, pair.peer) < _QUICK:
        count = _CHAIN
        pair = timing.pair(*_checked(work, x, count), repeats)
    ours, peer = pair.ours - overhead.ours, pair.peer - overhead.peer
    given = jax.device_put(x)
    by_xla, by_auto = (
        partial(_finish, jax.jit(partial(work.call, count=count, implementation=each)), given)
        for each in ("xla", "auto")
    )
    return {
        "operator": work.name,
        "elements": size,
        "calls": count,
        "ORT us": 1e3 * peer / count,
        "dmlax us": 1e3 * ours / count,
        "ratio": ours / peer,
        "spread": pair.spread,
        "over xla": timing.pair(by_xla, by_auto, repeats // 4 + 1).ratio,
    }


def _checked(work: Work, x: np.ndarray, count: int) -> tuple[timing.Call, timing.Call]:
    """Both chains, whose outputs are the same where the arithmetic is."""
    function, given = jax.jit(partial(work.call, count=count)), jax.device_put(x)
    ours = partial(_finish, function, given)
    peer, output = _bind(_model(work, x, count), x, f"x{count}")
    peer()
    if work.arithmetic == "exact" and work.quantizes_first:
        wanted = np.asarray(work.call(given, count, implementation="xla"))
    else:
        wanted = output()
    np.testing.assert_array_equal(ours(), wanted, work.name, strict=True)
    return ours, peer


def _finish(function: Any, x: jax.Array) -> jax.Array:
    y: jax.Array = function(x).block_until_ready()
    return y


def _bind(
    model: ModelProto, x: np.ndarray, output: str
) -> tuple[Callable[[], None], Callable[[], np.ndarray]]:
    """The peer's graph without copies, and a function that reads its output."""
    peer = onnx_peer.start(model, optimise=False)  # it would drop pairs
    binding = peer.io_binding()
    binding.bind_ortvalue_input("x0", onnxruntime.OrtValue.ortvalue_from_numpy(x))
    binding.bind_output(output, "cpu")
    return lambda: peer.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()[0]


def _model(work: Work, x: np.ndarray, count: int) -> ModelProto:
    operators = work.operators(count)
    types = {"QuantizeLinear": TensorProto.UINT8, "DequantizeLinear": TensorProto.FLOAT}
    graph = helper.make_graph(
        [
            helper.make_node(name, [f"x{i}", "scale", "zero_point"], [f"x{i + 1}"])
            for i, name in enumerate(operators)
        ],
        "chain",
        [helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info(f"x{count}", types[operators[-1]], x.shape)],
        [
            numpy_helper.from_array(np.asarray(_SCALE), "scale"),
            numpy_helper.from_array(np.asarray(_ZERO_POINT), "zero_point"),
        ],
    )
    return _model_of(graph)


def _model_of(graph: GraphProto) -> ModelProto:
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
