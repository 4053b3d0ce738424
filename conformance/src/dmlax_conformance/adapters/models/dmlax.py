"""The library `dmlax`, by `dmlax.onnx.load`."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ...models.adapter import Array, ModelCase
from ..base import Unsupported

ROWS = 1009  # every NonZero's rows: a size that no other axis has
JIT, OUTPUTS, EAGER = "jit", "outputs", "eager"


class Dmlax:
    """Every tensor of the file, jitted or node by node; or the outputs alone, so that it fuses."""

    name = "dmlax"
    variants = (JIT, OUTPUTS, EAGER)
    usual_variants = (JIT, OUTPUTS)

    def __init__(self) -> None:
        """Import the library and JAX."""
        self._library: Any = import_module("dmlax.onnx")
        self._errors: Any = import_module("dmlax")
        self._jax: Any = import_module("jax")
        self._read: Any = import_module("onnx").load_from_string

    def run(self, case: ModelCase, variant: str) -> Mapping[str, Array]:
        """Load the model and apply it to its params."""
        options: dict[str, Any] = {"arithmetic": case.arithmetic}
        if any(node.op == "NonZero" for node in case.graph.nodes):
            options["nonzero_size"] = ROWS
        try:
            model = self._library.load(self._read(case.file), **options)
        except self._errors.UnsupportedError as error:
            raise Unsupported(" ".join(str(error).split())) from error
        names = None if variant == OUTPUTS else tuple(case.tensors)
        function = partial(model.apply, outputs=names)
        function = function if variant == EAGER else self._jax.jit(function)
        return _as_in_file(case, function(model.params, dict(case.inputs)))


def _as_in_file(case: ModelCase, found: Mapping[str, Any]) -> dict[str, Array]:
    """Cut what depends on a NonZero to its rows, and widen the integers that JAX narrows."""
    counts = [int(found[name]) for name in found if name not in case.tensors]
    answer = {}
    for name in case.tensors.keys() & found.keys():
        array, dtype = np.asarray(found[name]), case.tensors[name]
        if counts and ROWS in array.shape:
            array = array.take(range(counts[0]), array.shape.index(ROWS))
        is_narrowed = (array.dtype.name, dtype) == ("int32", "int64")
        answer[name] = array.astype(dtype) if is_narrowed else array
    return answer
