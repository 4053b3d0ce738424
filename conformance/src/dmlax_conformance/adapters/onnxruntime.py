"""ONNX Runtime on the CPU: each case as a model of one node."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .base import Array, Case
from .common import Library, addition_to, convolution_of, refusals
from .onnx_models import OUTPUT, answer, call, model, operators

INPUTS, CONSTANTS = "inputs", "constants"
NOISE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |Non-zero status .* Message: |/\S+:\d+ (?=\S)|"
    r"\S* ?onnxruntime::.* was false\. ?| node with name ''"
)
ERRORS = ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")


class OnnxRuntime(Library):
    """Everything as an input of the model; or all but the first input as constants."""

    name = "onnxruntime"
    variants = (INPUTS, CONSTANTS)
    operators = (*operators(has_contributed=True), "quantized_linear_convolution_add")
    packages = ("onnxruntime", "onnx")

    def __init__(self) -> None:
        """Import ONNX Runtime and ONNX, and keep the former from printing what it also raises."""
        self._runtime: Any = import_module("onnxruntime")
        self._runtime.set_default_logger_severity(4)
        super().__init__()
        state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        self._errors = tuple(getattr(state, name) for name in ERRORS)

    def run(self, case: Case, variant: str) -> Mapping[str, Array]:
        """Build a session for the case and run it once; for an addend, two of them."""
        if case.operator == "quantized_linear_convolution_add":
            (convolved,) = self.run(convolution_of(case), variant).values()
            return self.run(addition_to(case, convolved), variant)
        asked = call(case)
        constants = frozenset(asked.inputs) - {"x"} if variant == CONSTANTS else frozenset()
        written = model(asked, constants).SerializeToString()
        given = {name: array for name, array in asked.inputs.items() if name not in constants}
        with refusals(*self._errors, shorten=_sentence):
            session = self._runtime.InferenceSession(written, providers=["CPUExecutionProvider"])
            results = session.run([OUTPUT, *asked.more], given)
        return answer(case, *results)


def _sentence(message: str) -> str:
    """Drop the number and the place of an error, which say nothing about the call."""
    return NOISE.sub("", message)
