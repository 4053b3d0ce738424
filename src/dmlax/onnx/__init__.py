"""Quantized ONNX models as JAX functions, with ONNX Runtime's numbers or correctly rounded."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

from jax.typing import ArrayLike

from dmlax._core.requantize import ARITHMETICS, Arithmetic
from dmlax.onnx import archive, budget, protobuf
from dmlax.onnx.decoding import State as State
from dmlax.onnx.digest import Digest as Digest
from dmlax.onnx.digest import digest as digest
from dmlax.onnx.errors import ModelError as ModelError
from dmlax.onnx.evaluate import Options
from dmlax.onnx.export import from_jax as from_jax
from dmlax.onnx.load_options import (
    RULES,
    blaming_shapes,
    checked_operators,
    checked_size,
    reshape_inputs,
    with_constants,
    with_operators,
    with_outputs,
)
from dmlax.onnx.model import Model as Model
from dmlax.onnx.model import ModelExplanation as ModelExplanation

__all__ = ["Digest", "Model", "ModelError", "ModelExplanation", "State", "digest", "from_jax"]
__all__ += ["load"]

Digest.__module__ = ModelError.__module__ = ModelExplanation.__module__ = "dmlax.onnx"


def load(
    model: protobuf.Source | IO[bytes] | bytearray | memoryview,
    /,
    *,
    arithmetic: Arithmetic | None = None,
    nonzero_size: int | Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    outputs: Sequence[str] | None = None,
    operators: Mapping[str, Callable[..., Any]] | None = None,
    constants: Mapping[str, ArrayLike] | None = None,
) -> Model:
    """Loads a quantized ONNX model as a function.

    Args:
      model: the path of an ONNX file or of one that `Model.save` wrote, the bytes of either, a file
        that is open for reading bytes, or an `onnx.ModelProto`.
      arithmetic: "float32" for the bits of ONNX Runtime's CPU kernels, or "exact" for quantized
        operators that round once, and floats that follow one definition, on every machine and for
        every batch; default "float32", or what a saved model has.
      nonzero_size: the rows of every NonZero, Compress and NonMaxSuppression, or these numbers by
        the nodes' names.
      input_shapes: other shapes of inputs, by name; a string is a dynamic size.
      outputs: the names of tensors of the file that the model returns, inner ones too; default the
        file's outputs. Nodes and inputs that they do not need are left out before any is checked.
      operators: functions for operators, by `"domain::Op"` or `"Op"` for ONNX's own. A function
        takes the inputs, None for an absent one, and the attributes as keywords; it returns an
        array or a tuple. Nothing fuses with such a node, and a saved model needs the functions
        again.
      constants: values of inputs, by name, as `{"use_cache_branch": True}`. They are inputs no
        longer: shapes may depend on them, and an `If` that they decide is its branch. Inputs that
        only another branch needs are left out.

    Returns:
      A `Model`: call it, or take its `params` and its pure function `apply`.

    Raises:
      UnsupportedError: operators, attributes or dtypes are not known, or operations have no exact
        form; all of them are listed.
      dmlax.onnx.ModelError: the file is malformed.
      SpecError: an option is wrong (code `option`).
      ImportError: an ONNX model is read without the package `onnx`.

    Example:
      >>> import dmlax.onnx
      >>> model = dmlax.onnx.load("resnet50-int8.onnx")  # doctest: +SKIP
      >>> logits = model(images)["output"]  # doctest: +SKIP
    """
    functions = checked_operators(operators or {})
    source = _source(model)
    if archive.is_archive(source):
        graph, options = archive.read(source)
    else:
        graph, options = protobuf.read(source, functions), Options("float32")
    options = with_operators(options, functions, graph)
    if arithmetic is not None:
        RULES.expect_choice("arithmetic", arithmetic, ARITHMETICS)
        options = replace(options, arithmetic=arithmetic)
    if nonzero_size is not None:
        options = replace(options, nonzero_size=checked_size(nonzero_size, graph))
    inputs, graph = graph.inputs, reshape_inputs(graph, input_shapes or {})
    graph = with_constants(graph, constants or {}, functions)
    if outputs is not None:
        graph = with_outputs(graph, outputs)
    with budget.limit(graph.constant_bytes()), blaming_shapes(graph, inputs):
        return Model(graph, options)


def _source(model: Any) -> Any:
    """The path, the bytes or the message of a model."""
    if hasattr(model, "read"):
        model = model.read()
    if isinstance(model, bytearray | memoryview):
        return bytes(model)
    is_message = hasattr(model, "SerializeToString") and hasattr(model, "graph")
    text = f"is of type {type(model).__name__}, expected a path, bytes, a file or a ModelProto"
    is_source = is_message or isinstance(model, str | bytes | os.PathLike)
    RULES.expect(is_source, "option", "model", text)
    return model
