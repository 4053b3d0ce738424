"""ONNX Runtime on the CPU, at every level of its optimiser."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ...models.adapter import Array, ModelCase
from ..common import refusals
from ..onnxruntime import ERRORS
from . import with_outputs

DISABLED = "disabled"
LEVELS = {
    DISABLED: "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


class OnnxRuntime:
    """ONNX Runtime: every tensor with optimisations off, else the outputs, so that it may fuse."""

    name = "onnxruntime"
    variants = tuple(LEVELS)
    arithmetics = ("float32",)

    def __init__(self) -> None:
        """Import ONNX Runtime and ONNX."""
        import_module("onnx")
        self._runtime: Any = import_module("onnxruntime")
        state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        self._errors = tuple(getattr(state, name) for name in ERRORS)

    def run(self, case: ModelCase, variant: str) -> Mapping[str, Array]:
        """Build a session for the model and run it once."""
        file = case.file
        if variant == DISABLED:
            file = with_outputs(file, list(case.tensors)).SerializeToString()
        options = self._runtime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        level = getattr(self._runtime.GraphOptimizationLevel, LEVELS[variant])
        options.graph_optimization_level = level
        with refusals(*self._errors):
            session = self._runtime.InferenceSession(file, options, ["CPUExecutionProvider"])
            names = [output.name for output in session.get_outputs()]
            return dict(zip(names, session.run(names, dict(case.inputs)), strict=True))
