"""The same layer as an ONNX model of one QLinearConv node, run by ONNX Runtime on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from benchmarks.cases import INPUT_SCALE, INPUT_ZERO_POINT, OUTPUT_ZERO_POINT, Problem
from dmlax.onnx import peer

THREADS = 2
_OPSET, _IR = 13, 8
_OWN_DOMAIN = "com.microsoft"  # whose QLinearConv knows NHWC


def session(problem: Problem) -> onnxruntime.InferenceSession:
    """A layer's session."""
    return start(_model(problem))


def start(model: ModelProto, optimise: bool = True) -> onnxruntime.InferenceSession:
    """A session of two threads that sleep, not spin, between calls."""
    return peer.start(model, optimised=optimise, threads=THREADS)


def bound(problem: Problem) -> tuple[Callable[[], None], Callable[[], np.ndarray]]:
    """The layer as a function without copies, and a function that reads its output."""
    started = session(problem)
    binding = started.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(problem.x))
    binding.bind_output("y", "cpu")
    return lambda: started.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()[0]


def _model(problem: Problem) -> ModelProto:
    constants = _constants(problem)
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], **_attributes(problem))
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, problem.x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_OWN_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR)


def _constants(problem: Problem) -> dict[str, np.ndarray]:
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


def _attributes(problem: Problem) -> dict[str, Any]:
    layer = problem.layer
    return {
        "kernel_shape": 2 * [layer.kernel],
        "strides": 2 * [layer.stride],
        "pads": 4 * [layer.padding],
        "group": layer.groups,
        **({"domain": _OWN_DOMAIN, "channels_last": 1} if problem.layout == "NHWC" else {}),
    }
