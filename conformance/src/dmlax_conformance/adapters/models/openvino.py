"""OpenVINO on the CPU, which reads ONNX files and knows some operators of `com.microsoft`."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from ...models.adapter import Array, ModelCase
from ..base import Unsupported
from . import with_outputs

OUTPUTS, TENSORS = "outputs", "tensors"
PRECISION = {"INFERENCE_PRECISION_HINT": "f32"}  # bfloat16 where the processor has it, without
REFUSAL = "OpConversionFailure"
OPERATORS = r"for operations: ([^\n]+)|-- (\S+) with a message"


class OpenVino:
    """The outputs alone, so that it fuses; or every tensor, each an output."""

    name = "openvino"
    variants = (OUTPUTS, TENSORS)
    arithmetics = ("float32",)

    def __init__(self) -> None:
        """Import OpenVINO and ONNX."""
        import_module("onnx")
        library: Any = import_module("openvino")
        self._core = library.Core()

    def run(self, case: ModelCase, variant: str) -> Mapping[str, Array]:
        """Compile the model, and run it once."""
        names = list(case.outputs if variant == OUTPUTS else case.tensors)
        file = with_outputs(case.file, names).SerializeToString()
        try:
            model = self._core.read_model(file)
        except RuntimeError as error:
            if REFUSAL in str(error):
                found = (listed or one for listed, one in re.findall(OPERATORS, str(error)))
                operators = ", ".join(dict.fromkeys(found))
                raise Unsupported(f"it does not convert {operators}") from error
            raise
        found = self._core.compile_model(model, "CPU", PRECISION)(dict(case.inputs))
        return {name: np.asarray(found[name]) for name in names}
