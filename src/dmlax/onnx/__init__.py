"""Quantized ONNX models as JAX functions, with ONNX Runtime's numbers or correctly rounded."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np
from jax.typing import ArrayLike

from dmlax._core.arguments import Rules
from dmlax._core.requantize import ARITHMETICS, Arithmetic
from dmlax.errors import SpecError
from dmlax.onnx import archive, budget, protobuf
from dmlax.onnx.branches import choose_branches
from dmlax.onnx.decoding import State as State
from dmlax.onnx.errors import ModelError as ModelError
from dmlax.onnx.evaluate import Options
from dmlax.onnx.export import from_jax as from_jax
from dmlax.onnx.graph import SHORT_DOMAINS, Graph, TensorType, operator_name
from dmlax.onnx.model import Model as Model
from dmlax.onnx.model import ModelExplanation as ModelExplanation
from dmlax.onnx.operators.nonzero import COUNTED
from dmlax.onnx.operators.values import SIZE_FUNCTIONS

__all__ = ["Model", "ModelError", "ModelExplanation", "State", "from_jax", "load"]

ModelError.__module__ = ModelExplanation.__module__ = "dmlax.onnx"
_RULES = Rules("load")


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
      arithmetic: "float32" for the bits of ONNX Runtime's CPU kernels, or "exact" for operators
        that round once; default "float32", or what a saved model has.
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
      UnsupportedError: operators, attributes or dtypes are not known; all of them are listed.
      dmlax.onnx.ModelError: the file is malformed.
      SpecError: an option is wrong (code `option`).
      ImportError: an ONNX model is read without the package `onnx`.

    Example:
      >>> import dmlax.onnx
      >>> model = dmlax.onnx.load("resnet50-int8.onnx")  # doctest: +SKIP
      >>> logits = model(images)["output"]  # doctest: +SKIP
    """
    functions = _checked_operators(operators or {})
    source = _source(model)
    if archive.is_archive(source):
        graph, options = archive.read(source)
    else:
        graph, options = protobuf.read(source, functions), Options("float32")
    options = _with_operators(options, functions, graph)
    if arithmetic is not None:
        _RULES.expect_choice("arithmetic", arithmetic, ARITHMETICS)
        options = replace(options, arithmetic=arithmetic)
    if nonzero_size is not None:
        options = replace(options, nonzero_size=_checked_size(nonzero_size, graph))
    inputs, graph = graph.inputs, _reshape_inputs(graph, input_shapes or {})
    graph = _with_constants(graph, constants or {}, functions)
    if outputs is not None:
        graph = _with_outputs(graph, outputs)
    with budget.limit(graph.constant_bytes()):
        return _make(graph, options, inputs)


def _source(model: Any) -> Any:
    """The path, the bytes or the message of a model."""
    if hasattr(model, "read"):
        model = model.read()
    if isinstance(model, bytearray | memoryview):
        return bytes(model)
    is_message = hasattr(model, "SerializeToString") and hasattr(model, "graph")
    text = f"is of type {type(model).__name__}, expected a path, bytes, a file or a ModelProto"
    is_source = is_message or isinstance(model, str | bytes | os.PathLike)
    _RULES.expect(is_source, "option", "model", text)
    return model


def _checked_operators(operators: Mapping[str, object]) -> dict[str, Callable[..., Any]]:
    """The functions by the names that `operator_name` gives."""
    functions: dict[str, Callable[..., Any]] = {}
    for name, function in operators.items():
        if not callable(function):
            text = f"of {name!r} is a {type(function).__name__}, expected a function"
            _RULES.fail("option", "operators", text)
        domain, _, op = name.rpartition("::")
        functions[operator_name(SHORT_DOMAINS.get(domain, domain), op)] = function
    return functions


def _with_operators(
    options: Options, operators: dict[str, Callable[..., Any]], graph: Graph
) -> Options:
    """Adds functions to options; a saved model names those that it needs."""
    missing = sorted(options.operators.keys() - operators.keys())
    text = f"has no function for {', '.join(map(repr, missing))}, which the saved model needs"
    _RULES.expect(not missing, "option", "operators", text)
    names = {operator_name(node.domain, node.op) for node in graph.all_nodes()}
    for name in operators:
        text = f"names no operator of the model: {name!r}"
        _RULES.expect(name in names, "option", "operators", text)
    return replace(options, operators=operators)


def _with_outputs(graph: Graph, outputs: Sequence[str]) -> Graph:
    """The nodes and the inputs that tensors need."""
    names, known = tuple(dict.fromkeys(outputs)), graph.tensors
    text = f"is {outputs!r}, expected a list of names"
    _RULES.expect(bool(names) and not isinstance(outputs, str), "option", "outputs", text)
    unknown = [name for name in names if name not in known or not name]
    text = f"has no tensor {', '.join(map(repr, unknown))} of the file"
    _RULES.expect(not unknown, "option", "outputs", text)
    graph = graph.replace(outputs=names).prune()
    needed = {*names, *(name for node in graph.nodes for name in node.inputs)}
    inputs = {name: x for name, x in graph.inputs.items() if name in needed}
    return graph.replace(inputs=inputs)


def _with_constants(
    graph: Graph, constants: Mapping[str, ArrayLike], operators: Collection[str]
) -> Graph:
    """Makes inputs constants, and chooses the branches that constants decide."""
    arrays = {}
    for name, value in constants.items():
        text = f"has no input {name!r}; the inputs are {', '.join(map(repr, graph.inputs))}"
        _RULES.expect(name in graph.inputs, "option", "constants", text)
        arrays[name] = _constant(name, value, graph.inputs[name])
    inputs = {name: x for name, x in graph.inputs.items() if name not in arrays}
    read = graph.prune().read
    graph = graph.replace(inputs=inputs, constants={**graph.constants, **arrays})
    with budget.limit(graph.constant_bytes()):
        chosen = choose_branches(graph, operators)
    needed = chosen.prune().read if arrays else read
    unused = {name for name in inputs if name in read and name not in needed}
    return chosen.replace(inputs={name: x for name, x in inputs.items() if name not in unused})


def _constant(name: str, value: ArrayLike, wanted: TensorType) -> np.ndarray:
    """The value of an input: an array of its dtype, or numbers that the dtype holds."""
    array = np.asarray(value)
    has_dtype = hasattr(value, "dtype")
    is_number = array.dtype.kind in "biuf" and not has_dtype
    with np.errstate(all="ignore"):
        cast = array.astype(wanted.dtype) if is_number else array
    is_exact = wanted.dtype.kind not in "biu" or np.array_equal(cast, array)
    fits = cast.dtype == wanted.dtype and (is_exact or has_dtype)
    pairs = zip(cast.shape, wanted.shape, strict=False)
    is_shape = all(size == of_file for size, of_file in pairs if isinstance(of_file, int))
    is_shape = is_shape and cast.ndim == len(wanted.shape)
    found = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
    text = f"of {name} is {found if has_dtype else repr(value)}, expected {wanted}"
    _RULES.expect(fits, "data_type", "constants", text)
    _RULES.expect(is_shape, "sizes", "constants", text)
    return cast


def _checked_size(size: object, graph: Graph) -> int | dict[str, int]:
    if not isinstance(size, Mapping):
        return _RULES.to_integer("nonzero_size", size, 1)
    names = {node.name for node in graph.all_nodes() if node.op in COUNTED}
    for name in size:
        text = f"names no node of {', '.join(COUNTED)}: {name!r}"
        _RULES.expect(name in names, "option", "nonzero_size", text)
    return {name: _RULES.to_integer("nonzero_size", count, 1) for name, count in size.items()}


def _reshape_inputs(graph: Graph, shapes: Mapping[str, Sequence[int | str]]) -> Graph:
    """Gives inputs other shapes, of the rank that the file has."""
    inputs = dict(graph.inputs)
    for name, shape in shapes.items():
        if name not in inputs:
            raise SpecError(f"load: input_shapes has no input {name!r}", "option", "input_shapes")
        rank = len(inputs[name].shape)
        is_list = isinstance(shape, Sequence | np.ndarray) and not isinstance(shape, str)
        text = f"of {name} is {shape!r}, expected rank {rank}"
        _RULES.expect(is_list and len(shape) == rank, "option", "input_shapes", text)
        sizes = tuple(_size(name, size) for size in shape)
        inputs[name] = TensorType(inputs[name].dtype, sizes)
    return graph.replace(inputs=inputs)


def _size(name: str, size: object) -> int | str:
    """A size of `input_shapes`: a number, or an expression of names that JAX parses."""
    if isinstance(size, str):
        return f"{size}_" if size in SIZE_FUNCTIONS else size
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0:
        return int(size)
    rule = 'expected an integer of 0 or more, or a name as "n" or "32*n"'
    _RULES.fail("option", "input_shapes", f"of {name} has the size {size!r}, {rule}")


def _make(graph: Graph, options: Options, inputs: Mapping[str, TensorType]) -> Model:
    """The model; blames errors on other sizes than the static ones of the file's inputs."""
    try:
        return Model(graph, options)
    except ModelError as error:
        for name, x in graph.inputs.items():
            pairs = zip(x.shape, inputs[name].shape, strict=True)
            if any(size != of_file for size, of_file in pairs if isinstance(of_file, int)):
                text = f"of {name} is {x}, and nodes need the file's {inputs[name]}: {error}"
                _RULES.fail("sizes", "input_shapes", text)
        raise
