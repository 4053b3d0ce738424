"""ONNX Runtime on the CPU, at each level of its optimiser."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...format.tensors import Tensor, from_numpy, to_numpy
from ...models.adapter import Array, ModelCase
from ...models.builder import Definition
from ...models.generate import are_near, bound_of
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
IN_FLOAT = {"Add", "Conv", "Gemm"}


class OnnxRuntime:
    """ONNX Runtime: every tensor with optimisations off, else the outputs, so that it may fuse."""

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


def run_session(
    file: bytes, inputs: Mapping[str, Array], level: str, fused: Path | None = None
) -> dict[str, Array]:
    """Return the outputs of a model, computed by one thread; write what it fuses to, if asked."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[level])
    if fused is not None:
        options.optimized_model_filepath = str(fused)
    session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def run_fused(file: bytes, inputs: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    """Return the tensors of the graph to which the nodes of a QDQ file fuse.

    There are none where some nodes stay in float, as those of int8 activations do on x86-64:
    sums of floats differ between instruction sets.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fused.onnx"
        run_session(file, inputs, "extended", path)
        written = path.read_bytes()
    nodes = with_outputs(written, []).graph.node
    if IN_FLOAT & {node.op_type for node in nodes}:
        return {}
    left = {name for node in nodes for name in node.output}
    model = with_outputs(written, [name for name in names if name in left])
    return run_session(model.SerializeToString(), inputs, DISABLED)


def float32_values(definition: Definition, exact: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return every tensor, with optimisations off; of a QDQ file those that it fuses to."""
    inputs = {name: to_numpy(tensor) for name, tensor in definition.inputs.items()}
    names = definition.graph.written()
    found = run_session(to_bytes(definition.graph, exact, names), inputs, DISABLED)
    return {name: from_numpy(found[name]) for name in names}


def disagreements(definition: Definition, exact: Mapping[str, Tensor]) -> Iterator[str]:
    """Yield where levels of the optimiser give other bits; a QDQ file counts if it is fused."""
    inputs = {name: to_numpy(tensor) for name, tensor in definition.inputs.items()}
    values, names = float32_values(definition, exact), definition.graph.written()
    file = to_bytes(definition.file, exact)
    runs: dict[str, Mapping[str, Array]]
    if definition.file == definition.graph:
        every = to_bytes(definition.graph, exact, names)
        runs = {f"{level}, every tensor": run_session(every, inputs, level) for level in LEVELS}
        runs |= {level: run_session(file, inputs, level) for level in LEVELS}
    else:
        runs = {"the fused graph": run_fused(file, inputs, names)}
        if runs["the fused graph"]:
            runs |= {level: run_session(file, inputs, level) for level in ("extended", "all")}
    for level, found in runs.items():
        for name, array in found.items():
            if not are_near(from_numpy(array), values[name], bound_of(definition, name)):
                yield f"{definition.name}: another {name} at {level}"
