"""Quantized ONNX models as JAX functions, with ONNX Runtime's numbers or correctly rounded."""

import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from dmlax._core.arguments import Rules
from dmlax._core.requantize import ARITHMETICS, Arithmetic
from dmlax.errors import SpecError
from dmlax.onnx import archive, budget, protobuf
from dmlax.onnx.errors import ModelError as ModelError
from dmlax.onnx.evaluate import Options
from dmlax.onnx.graph import Graph, TensorType
from dmlax.onnx.model import Model as Model
from dmlax.onnx.model import ModelExplanation as ModelExplanation
from dmlax.onnx.operators.nonzero import COUNTED

__all__ = ["Model", "ModelError", "ModelExplanation", "load"]

ModelError.__module__ = ModelExplanation.__module__ = "dmlax.onnx"
_RULES = Rules("load")


def load(
    model: Any,
    /,
    *,
    arithmetic: Arithmetic | None = None,
    nonzero_size: int | Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
) -> Model:
    """Loads a quantized ONNX model as a function.

    Args:
      model: the path of an ONNX file or of one that `Model.save` wrote, or an `onnx.ModelProto`.
      arithmetic: "float32" for the bits of ONNX Runtime's CPU kernels, or "exact" for operators
        that round once; default "float32", or what a saved model has.
      nonzero_size: the rows of every NonZero, Compress and NonMaxSuppression, or of each by its
        node's name.
      input_shapes: other shapes of inputs, by name; a string is a dynamic size.

    Returns:
      A `Model`: call it, or take its `params` and its pure function `apply`.

    Raises:
      UnsupportedError: operators, attributes or dtypes are not known; all of them are listed.
      dmlax.onnx.ModelError: the file is malformed.
      SpecError: an option is wrong (code `option`).
      ImportError: an ONNX model is read without the package `onnx`.

    Example:
      >>> import dmlax.onnx
      >>> model = dmlax.onnx.load("resnet50-int8.onnx")  # doctest: +SKIP
      >>> logits = model(images)["output"]  # doctest: +SKIP
    """
    saved = _read_archive(model)
    graph, options = saved or (protobuf.read(model), Options("float32"))
    if arithmetic is not None:
        _RULES.expect_choice("arithmetic", arithmetic, ARITHMETICS)
        options = Options(arithmetic, options.nonzero_size)
    if nonzero_size is not None:
        options = Options(options.arithmetic, _checked_size(nonzero_size, graph))
    with budget.limit(sum(array.nbytes for array in graph.constants.values())):
        return Model(_reshape_inputs(graph, input_shapes or {}), options)


def _read_archive(model: Any) -> tuple[Graph, Options] | None:
    is_path = not isinstance(model, bytes) and not hasattr(model, "graph")
    return archive.read(model) if is_path and zipfile.is_zipfile(model) else None


def _checked_size(size: Any, graph: Graph) -> int | dict[str, int]:
    if not isinstance(size, Mapping):
        return _RULES.to_integer("nonzero_size", size, 1)
    names = {node.name for node in graph.nodes if node.op in COUNTED}
    kinds = ", ".join(COUNTED)
    for name in size:
        _RULES.expect(
            name in names, "option", "nonzero_size", f"names no node of {kinds}: {name!r}"
        )
    return {name: _RULES.to_integer("nonzero_size", each, 1) for name, each in size.items()}


def _reshape_inputs(graph: Graph, shapes: Mapping[str, Sequence[int | str]]) -> Graph:
    """Gives inputs other shapes, of the rank that the file has."""
    inputs = dict(graph.inputs)
    for name, shape in shapes.items():
        if name not in inputs:
            raise SpecError(f"load: input_shapes has no input {name!r}", "option", "input_shapes")
        rank = len(inputs[name].shape)
        text = f"of {name} is {tuple(shape)}, expected rank {rank}"
        _RULES.expect(len(shape) == rank, "option", "input_shapes", text)
        inputs[name] = TensorType(inputs[name].dtype, tuple(shape))
    return graph.replace(inputs=inputs)
