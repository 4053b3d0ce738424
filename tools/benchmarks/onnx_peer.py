"""ONNX Runtime on the CPU: graphs that run without copies, and the operands of a QLinearConv."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper

from dmlax.onnx import peer
from tools.benchmarks import timing
from tools.benchmarks.cases import INPUT_SCALE, INPUT_ZERO_POINT, OUTPUT_ZERO_POINT, Problem
from tools.benchmarks.peaks import measured
from tools.benchmarks.report import Report, text_of

THREADS = 2
OWN_DOMAIN = "com.microsoft"  # whose QLinearConv knows NHWC
_OPSET, _IR = 19, 9

Reader = Callable[[], list[np.ndarray]]


def start(model: ModelProto, optimise: bool = True) -> onnxruntime.InferenceSession:
    """A session of two threads that sleep between calls, rather than spin."""
    return peer.start(model, optimised=optimise, threads=THREADS)


def bind(
    session: onnxruntime.InferenceSession, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> tuple[timing.Call, Reader]:
    """A session as a function without copies, and a function that reads its outputs."""
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    for name in outputs:
        binding.bind_output(name, "cpu")
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def build(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    constants: Mapping[str, Any],
) -> ModelProto:
    """A model of some nodes; ONNX Runtime infers the types of its outputs."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [value_info(name, x) for name, x in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(OWN_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR)


def value_info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """Describe a tensor of a graph by an array of its type and shape."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def begin_report(name: str, repeats: int) -> tuple[Report, timing.Overhead]:
    """Measure the machine: an empty report that names its peaks, and the overhead."""
    peaks = measured()
    one, apart = (_measure_no_op(repeats, arrays) for arrays in (1, timing.APART))
    overhead = timing.Overhead(one.ours, one.peer, apart.ours, apart.peer)
    return Report(name, facts=peaks.facts() | overhead.facts()), overhead


def _measure_no_op(repeats: int, arrays: int) -> timing.Pair:
    """A jitted no-op of so many inputs and outputs, and a graph of as many Identity nodes."""
    inputs = {f"x{i}": np.zeros(1, np.float32) for i in range(arrays)}
    outputs = [f"y{i}" for i in range(arrays)]
    nodes = [helper.make_node("Identity", [x], [y]) for x, y in zip(inputs, outputs, strict=True)]
    identities, _ = bind(start(build(nodes, inputs, outputs, {}), optimise=False), inputs, outputs)
    function = jax.jit(lambda xs: [-x for x in xs])
    placed = jax.device_put(list(inputs.values()))
    return timing.pair(partial(timing.finish, function, placed), identities, repeats)


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
    """7 if ONNX Runtime's kernels saturate 16-bit sums of two products here, else 8."""
    return 8 if re.search(r"avx512_vnni|avx_vnni|asimddp", text_of("/proc/cpuinfo")) else 7
