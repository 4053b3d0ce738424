"""ONNX Runtime on the CPU: graphs without copies, and a layer as one QLinearConv node."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from benchmarks import timing
from benchmarks.cases import INPUT_SCALE, INPUT_ZERO_POINT, OUTPUT_ZERO_POINT, Problem
from benchmarks.peaks import Peaks, measured
from benchmarks.report import Report
from dmlax.onnx import peer

THREADS = 2
OWN_DOMAIN = "com.microsoft"  # whose QLinearConv knows NHWC
_LAYER_OPSET, _OPSET, _IR = 13, 19, 9

Reader = Callable[[], list[np.ndarray]]


def session(problem: Problem) -> onnxruntime.InferenceSession:
    """A layer's session."""
    return start(_model(problem))


def start(model: ModelProto, optimise: bool = True) -> onnxruntime.InferenceSession:
    """A session of two threads that sleep, not spin, between calls."""
    return peer.start(model, optimised=optimise, threads=THREADS)


def bound(problem: Problem) -> tuple[Callable[[], None], Callable[[], np.ndarray]]:
    """The layer as a function without copies, and a function that reads its output."""
    run, read = bind(session(problem), {"x": problem.x}, ["y"])
    return run, lambda: read()[0]


def bind(
    started: onnxruntime.InferenceSession, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> tuple[Callable[[], None], Reader]:
    """A session as a function without copies, and a function that reads its outputs."""
    binding = started.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    for name in outputs:
        binding.bind_output(name, "cpu")
    return lambda: started.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def build(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    constants: Mapping[str, Any],
) -> ModelProto:
    """A model of some nodes; ONNX Runtime finds the types of its outputs."""
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in inputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        given,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return _finish(graph, _OPSET)


def begin_report(name: str, repeats: int) -> tuple[Report, Peaks, timing.Overhead]:
    """An empty report with the machine's peaks and what no work costs, and both of these."""
    require_cpu(name)
    peaks, overhead = measured(), measure_overhead(repeats)
    return Report(name, facts=peaks.facts() | overhead.facts()), peaks, overhead


def require_cpu(name: str) -> None:
    """Stop a benchmark that is not run on a CPU."""
    if jax.default_backend() != "cpu":
        raise SystemExit(f"{name}: it runs on a CPU; set JAX_PLATFORMS=cpu")


def measure_overhead(repeats: int) -> timing.Overhead:
    """What nothing costs, of one array and of as many as calls that are no chain have."""
    one, apart = (_measure_no_op(repeats, arrays) for arrays in (1, timing.APART))
    return timing.Overhead(one.ours, one.peer, apart.ours, apart.peer)


def _measure_no_op(repeats: int, arrays: int) -> timing.Pair:
    """A jitted no-op of as many inputs and outputs, and a graph of as many Identity nodes."""
    inputs = {f"x{i}": np.zeros(1, np.float32) for i in range(arrays)}
    outputs = [f"y{i}" for i in range(arrays)]
    nodes = [helper.make_node("Identity", [x], [y]) for x, y in zip(inputs, outputs, strict=True)]
    peer, _ = bind(start(build(nodes, inputs, outputs, {}), optimise=False), inputs, outputs)
    function = jax.jit(lambda given: [-x for x in given])
    given = jax.device_put(list(inputs.values()))
    return timing.pair(partial(timing.finish, function, given), peer, repeats)


def _model(problem: Problem) -> ModelProto:
    constants = conv_operands(problem)
    node = helper.make_node(
        "QLinearConv",
        ["x", *constants],
        ["y"],
        domain=conv_domain(problem),
        **conv_attributes(problem),
    )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, problem.x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return _finish(graph, _LAYER_OPSET)


def _finish(graph: GraphProto, opset: int) -> ModelProto:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(OWN_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR)


def conv_operands(problem: Problem) -> dict[str, np.ndarray]:
    """The inputs of a QLinearConv after the first, in order."""
    return {
        "xs": np.array(INPUT_SCALE, np.float32),
        "xz": np.array(INPUT_ZERO_POINT, np.uint8),
        "w": problem.w,
        "ws": problem.filter_scale,
        "wz": np.zeros(problem.layer.out_channels, np.int8),
        "ys": np.array(problem.output_scale, np.float32),
        "yz": np.array(OUTPUT_ZERO_POINT, np.uint8),
        "b": problem.bias,
    }


def conv_attributes(problem: Problem) -> dict[str, Any]:
    """The attributes of a QLinearConv."""
    layer = problem.layer
    return {
        "kernel_shape": 2 * [layer.kernel],
        "strides": 2 * [layer.stride],
        "pads": 4 * [layer.padding],
        "group": layer.groups,
        **({"channels_last": 1} if problem.layout == "NHWC" else {}),
    }


def conv_domain(problem: Problem) -> str:
    """The domain of the QLinearConv that knows the layout."""
    return OWN_DOMAIN if problem.layout == "NHWC" else ""


def weight_bits() -> int:
    """7 where 16-bit sums of two products of ONNX Runtime's kernels saturate, else 8."""
    facts = Path("/proc/cpuinfo")
    text = facts.read_text(encoding="utf-8") if facts.exists() else ""
    return 8 if re.search(r"avx512_vnni|avx_vnni|asimddp", text) else 7
