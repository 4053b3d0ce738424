"""Finding the implementation of whole models."""

from importlib import import_module
from typing import Any, cast

from ...errors import NotStartable
from ...models.adapter import ModelAdapter
from .. import BUILT_IN as OF_VECTORS
from .. import PROCESS
from .. import start as start_named

BUILT_IN = {
    "dmlax": "dmlax_conformance.adapters.models.dmlax:Dmlax",
    "oracle": "dmlax_conformance.adapters.models.oracle:Oracle",
    "onnxruntime": "dmlax_conformance.adapters.models.onnxruntime:OnnxRuntime",
    "onnx_reference": "dmlax_conformance.adapters.models.onnx_reference:OnnxReference",
    "openvino": "dmlax_conformance.adapters.models.openvino:OpenVino",
    "nothing": "dmlax_conformance.runner.controls:Nothing",
}


def start(name: str) -> ModelAdapter:
    """Start an adapter: a built-in name or `module.path:ClassName`."""
    if name.partition(":")[0] == PROCESS or (name in OF_VECTORS and name not in BUILT_IN):
        raise NotStartable(f"{name} takes vectors, not models")
    return cast(ModelAdapter, start_named(BUILT_IN.get(name, name)))


def with_outputs(file: bytes, names: list[str]) -> Any:
    """Return an ONNX model that has every one of these tensors as an output."""
    model = import_module("onnx").load_from_string(file)
    there = {output.name for output in model.graph.output}
    for name in names:
        if name not in there:
            model.graph.output.add().name = name
    return model
