"""LiteRT models (`.tflite`) as JAX functions, with LiteRT's numbers or correctly rounded."""

import io
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeAlias, get_args

from dmlax.litert import operators as _operators  # puts them into the table
from dmlax.litert.model import Model as Model
from dmlax.litert.operators import training
from dmlax.litert.operators.table import Resolver
from dmlax.litert.read import DOMAIN, NEXT, State, read
from dmlax.litert.schema import IDENTIFIER
from dmlax.onnx import archive, budget
from dmlax.onnx.errors import ModelError
from dmlax.onnx.evaluate import Options
from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.load_options import (
    RULES,
    blaming_shapes,
    checked_operators,
    reshape_inputs,
    with_operators,
    with_outputs,
)

__all__ = ["Model", "load"]

Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
Arithmetic: TypeAlias = Resolver
del _operators


def load(
    model: Source,
    /,
    *,
    arithmetic: Arithmetic | None = None,
    member: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] | None = None,
    operators: Mapping[str, Callable[..., Any]] | None = None,
    trainable: bool = False,
) -> Model:
    """Loads a LiteRT model as a function.

    Args:
      model: the path of a `.tflite` file, of a bundle of them as a `.task`, or of a file that
        `Model.save` wrote; the bytes of any, or a file that is open for reading bytes.
      arithmetic: "xnnpack" for the bits of LiteRT's default kernels, "reference" for those of its
        reference kernels, which microcontrollers and NPUs follow, or "exact" for integers that
        are rounded once; default "xnnpack", or what a saved model has.
      member: the file of a bundle, if it has several; "hand_landmarker.task/hand_detector.tflite"
        in a bundle there.
      input_shapes: other shapes of inputs, by name.
      outputs: the names of tensors of the file that the model returns, inner ones too; default the
        file's outputs. Nodes and inputs that they do not need are left out before any is checked.
      operators: functions for operators, by `"custom::Name"` for a custom operator, or
        `"litert::NAME"` for one of LiteRT. A function takes the inputs, None for an absent one,
        and the attributes as keywords; a custom operator's is `custom_options`, an array of bytes.
      trainable: if True, quantized tensors are float32: the inputs, the outputs, and the weights
        and biases in `params`. Values are those of the file's integers, times their scales.
        Gradients are straight-through: those of float operators, 0 where an integer is clamped.

    Returns:
      A `Model`: call it, or take its `params` and its pure function `apply`.

    Raises:
      UnsupportedError: operators, options or dtypes are not known, or have no float twin for
        training; all of them are listed.
      dmlax.onnx.ModelError: the file is malformed.
      SpecError: an option is wrong (code `option`).

    Example:
      >>> import dmlax.litert
      >>> model = dmlax.litert.load("mobilenet_v2_int8.tflite")  # doctest: +SKIP
      >>> scores = model(image)  # doctest: +SKIP
    """
    functions = checked_operators(operators or {})
    if arithmetic is not None:
        RULES.expect_choice("arithmetic", arithmetic, get_args(Resolver))
    data = read_source(model, member)
    if data[4:8] != IDENTIFIER and archive.is_archive(data):
        graph, options, states = _of_archive(data, arithmetic)
    else:
        graph, states = read(data, arithmetic or "xnnpack", functions)
        options = Options("float32")
    options = with_operators(options, functions, graph)
    inputs, graph = graph.inputs, reshape_inputs(graph, input_shapes or {})
    if outputs is not None:
        graph = _with_outputs(graph, outputs, states)
    if trainable:
        graph = training.trainable(graph)
    with budget.limit(graph.constant_bytes()), blaming_shapes(graph, inputs):
        return Model(graph, options, states)


def read_source(model: Any, member: str | None = None) -> bytes:
    """The bytes of a model, of a member if it is a bundle."""
    if hasattr(model, "read"):
        model = model.read()
    is_source = isinstance(model, str | bytes | bytearray | memoryview | os.PathLike)
    text = f"is of type {type(model).__name__}, expected a path, bytes or a file"
    RULES.expect(is_source, "option", "model", text)
    if isinstance(model, str | os.PathLike):
        with open(model, "rb") as file:
            data = file.read()
    else:
        data = bytes(model)
    # MediaPipe's bundles have two bytes before the first file.
    if data[4:8] == IDENTIFIER or not zipfile.is_zipfile(io.BytesIO(data)):
        text = f"is {member!r}, and the model is no bundle"
        RULES.expect(member is None, "option", "member", text)
        return data
    try:
        return _member(data, member, "")
    except ModelError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise ModelError(f"the bundle is malformed: {error}") from None


def _member(data: bytes, member: str | None, place: str) -> bytes:
    """The bytes of a file of a bundle, which may be in a bundle there, `place` with a slash."""
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        names = bundle.namelist()
        if "graph.json" in names and member is None:
            return data
        files = [name for name in names if name.endswith(".tflite")]
        inner = [name for name in names if name.endswith(".task")]
        chosen = files[0] if member is None and len(files) == 1 and not inner else member or ""
        outer = next((name for name in inner if f"{chosen}/".startswith(f"{name}/")), chosen)
        listed = ", ".join(repr(place + x) for x in (*files, *(f"{name}/..." for name in inner)))
        text = f"is {member and place + member!r}, expected one of {listed or 'no file'}"
        RULES.expect(outer in names, "option", "member", text)
        budget.Budget(len(data)).spend_on(outer, bundle.getinfo(outer).file_size)
        found = bundle.read(outer)
    if outer not in inner:
        return found
    return _member(found, chosen[len(outer) + 1 :] or None, f"{place}{outer}/")


def _of_archive(
    data: bytes, arithmetic: Arithmetic | None
) -> tuple[Graph, Options, dict[str, State]]:
    """A saved model; its constants that a call may replace are the variables."""
    graph, options = archive.read(data)
    states = {name: State(x, graph.constants[name]) for name, x in graph.defaults.items()}
    graph = graph.give_defaults(states)

    def choose(node: Node) -> Node:
        if node.domain != DOMAIN or "resolver" not in node.attributes:
            return node
        return node.replace(attributes={**node.attributes, "resolver": arithmetic})

    if arithmetic is not None:
        graph = graph.map_graphs(lambda each: each.replace(nodes=tuple(map(choose, each.nodes))))
    return graph, options, states


def _with_outputs(graph: Graph, outputs: Sequence[str], states: Mapping[str, State]) -> Graph:
    """The graph of some outputs, and of the variables that they need."""
    needed = with_outputs(graph, outputs).inputs
    following = [name + NEXT for name in states if name in needed]
    return with_outputs(graph, [*outputs, *following])
