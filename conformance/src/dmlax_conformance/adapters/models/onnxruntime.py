"""ONNX Runtime on the CPU, at each level of its optimiser."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any

from ...format.tensors import Tensor, from_numpy, to_numpy
from ...models.adapter import Array, ModelCase
from ...models.builder import Definition
from ...models.judge import near
from ...models.onnx_file import to_bytes
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
FUSING = ("extended", "all")


class OnnxRuntime:
    """With optimisations off it answers every tensor, else the outputs, so that it may fuse."""

    name = "onnxruntime"
    variants = tuple(LEVELS)
    arithmetics = ("float32",)

    def __init__(self) -> None:
        """Import ONNX Runtime and ONNX."""
        import_module("onnx")
        state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        self._errors = tuple(getattr(state, name) for name in ERRORS)

    def run(self, case: ModelCase, variant: str) -> Mapping[str, Array]:
        """Build a session for the model and run it once."""
        file = case.file
        if variant == DISABLED:
            file = with_outputs(file, list(case.tensors)).SerializeToString()
        with refusals(*self._errors):
            return run_session(file, case.inputs, variant)


def run_session(file: bytes, inputs: Mapping[str, Array], level: str) -> dict[str, Array]:
    """Return the outputs of a model, computed by one thread."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[level])
    session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def float32_values(definition: Definition, exact: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return every tensor, with optimisations off; of a QDQ file those that it fuses to."""
    inputs = {name: to_numpy(tensor) for name, tensor in definition.inputs.items()}
    names = definition.graph.written()
    found = run_session(to_bytes(definition.graph, exact, names), inputs, DISABLED)
    return {name: from_numpy(found[name]) for name in names}


def disagreements(definition: Definition, exact: Mapping[str, Tensor]) -> Iterator[str]:
    """Yield where levels of the optimiser give other bits; a QDQ file counts where it is fused."""
    inputs = {name: to_numpy(tensor) for name, tensor in definition.inputs.items()}
    values, is_same = float32_values(definition, exact), definition.file == definition.graph
    for level in LEVELS if is_same else FUSING:
        files = [to_bytes(definition.file, exact)]
        if is_same:
            files.append(to_bytes(definition.graph, exact, definition.graph.written()))
        for file in files:
            found = run_session(file, inputs, level)
            wrong = [name for name in found if not _agree(definition, name, values, found[name])]
            yield from (f"{definition.name}: another {name} at level {level}" for name in wrong)


def _agree(definition: Definition, name: str, values: Mapping[str, Tensor], array: Array) -> bool:
    bound, tensor = definition.bounds.get(name), from_numpy(array)
    is_near = near(tensor.dtype, Fraction(0) if bound is None else Fraction(2) ** bound)
    wanted = values[name]
    is_alike = (tensor.dtype, tensor.sizes) == (wanted.dtype, wanted.sizes)
    return is_alike and all(map(is_near, tensor.words, wanted.words))
