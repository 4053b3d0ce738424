"""ONNX's reference evaluator, behind ONNX's own checker: each case as a model of one node."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from .base import Array, Case
from .common import Library, refusals
from .onnx_models import answer, call, model, operators

REFUSALS = (TypeError, ValueError, IndexError, ArithmeticError, AssertionError, RuntimeError)


class OnnxReference(Library):
    """The evaluator itself checks little, so the full model check comes before it."""

    name = "onnx_reference"
    operators = operators(has_contributed=False)
    packages = ("onnx", "numpy")

    def __init__(self) -> None:
        """Import ONNX."""
        self._onnx: Any = import_module("onnx")
        self._reference: Any = import_module("onnx.reference")
        super().__init__()
        checks: Any = import_module("onnx.checker").ValidationError
        infers: Any = import_module("onnx.shape_inference").InferenceError
        self._errors = (checks, infers, *REFUSALS)

    def run(self, case: Case, variant: str) -> Mapping[str, Array]:
        """Check the model, then evaluate it."""
        asked = call(case)
        written = model(asked)
        with refusals(*self._errors), np.errstate(all="ignore"):
            self._onnx.checker.check_model(written, full_check=True)
            results = self._reference.ReferenceEvaluator(written).run(None, dict(asked.inputs))
        return answer(case, *map(np.asarray, results))
