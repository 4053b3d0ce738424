"""ONNX's reference evaluator, which computes in NumPy's floats."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from ...models.adapter import Array, ModelCase
from ..base import Unsupported
from . import with_outputs


class OnnxReference:
    """It has the operators of ONNX itself, and few of `com.microsoft`."""

    name = "onnx_reference"
    variants = ("eager",)
    arithmetics = ("float32",)

    def __init__(self) -> None:
        """Import ONNX."""
        self._reference: Any = import_module("onnx.reference")

    def run(self, case: ModelCase, variant: str) -> Mapping[str, Array]:
        """Evaluate the model."""
        model = with_outputs(case.file, list(case.tensors))
        try:
            evaluator = self._reference.ReferenceEvaluator(model)
        except (NotImplementedError, RuntimeError) as error:  # an operator is not known
            raise Unsupported(str(error).splitlines()[0]) from error
        names = [output.name for output in model.graph.output]
        with np.errstate(all="ignore"):
            return dict(zip(names, evaluator.run(names, dict(case.inputs)), strict=True))
