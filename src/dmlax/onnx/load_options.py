"""The options of `load`: checks them, and applies them to a graph."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from dmlax._core.arguments import Rules
from dmlax.errors import SpecError
from dmlax.onnx import budget
from dmlax.onnx.branches import choose_branches
from dmlax.onnx.errors import ModelError, expect
from dmlax.onnx.evaluate import Options
from dmlax.onnx.graph import NO_RANK, SHORT_DOMAINS, Graph, TensorType, operator_name
from dmlax.onnx.operators.nonzero import COUNTED
from dmlax.onnx.operators.values import SIZE_FUNCTIONS

RULES = Rules("load")


def checked_operators(operators: Mapping[str, object]) -> dict[str, Callable[..., Any]]:
    """The functions by the names that `operator_name` gives."""
    functions: dict[str, Callable[..., Any]] = {}
    for name, function in operators.items():
        if not callable(function):
            text = f"of {name!r} is a {type(function).__name__}, expected a function"
            RULES.fail("option", "operators", text)
        domain, _, op = name.rpartition("::")
        functions[operator_name(SHORT_DOMAINS.get(domain, domain), op)] = function
    return functions


def with_operators(
    options: Options, operators: dict[str, Callable[..., Any]], graph: Graph
) -> Options:
    """Adds functions to options; a saved model names those that it needs."""
    missing = sorted(options.operators.keys() - operators.keys())
    text = f"has no function for {', '.join(map(repr, missing))}, which the saved model needs"
    RULES.expect(not missing, "option", "operators", text)
    names = {operator_name(node.domain, node.op) for node in graph.all_nodes()}
    for name in operators:
        text = f"names no operator of the model: {name!r}"
        RULES.expect(name in names, "option", "operators", text)
    return replace(options, operators=operators)


def with_outputs(graph: Graph, outputs: Sequence[str]) -> Graph:
    """The nodes and the inputs that tensors need."""
    names, known = tuple(dict.fromkeys(outputs)), graph.tensors
    text = f"is {outputs!r}, expected a list of names"
    RULES.expect(bool(names) and not isinstance(outputs, str), "option", "outputs", text)
    unknown = [name for name in names if name not in known or not name]
    text = f"has no tensor {', '.join(map(repr, unknown))} of the file"
    RULES.expect(not unknown, "option", "outputs", text)
    graph = graph.replace(outputs=names).prune()
    needed = {*names, *(name for node in graph.nodes for name in node.inputs)}
    inputs = {name: x for name, x in graph.inputs.items() if name in needed}
    return graph.replace(inputs=inputs)


def with_constants(
    graph: Graph, constants: Mapping[str, ArrayLike], operators: Collection[str]
) -> Graph:
    """Makes inputs constants, and chooses the branches that constants decide."""
    arrays = {}
    for name, value in constants.items():
        text = f"has no input {name!r}; the inputs are {', '.join(map(repr, graph.inputs))}"
        RULES.expect(name in graph.inputs, "option", "constants", text)
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
    RULES.expect(fits, "data_type", "constants", text)
    RULES.expect(is_shape, "sizes", "constants", text)
    return cast


def checked_size(size: object, graph: Graph) -> int | dict[str, int]:
    """The numbers of rows of `nonzero_size`."""
    if not isinstance(size, Mapping):
        return RULES.to_integer("nonzero_size", size, 1)
    names = {node.name for node in graph.all_nodes() if node.op in COUNTED}
    for name in size:
        text = f"names no node of {', '.join(COUNTED)}: {name!r}"
        RULES.expect(name in names, "option", "nonzero_size", text)
    return {name: RULES.to_integer("nonzero_size", count, 1) for name, count in size.items()}


def reshape_inputs(graph: Graph, shapes: Mapping[str, Sequence[int | str]]) -> Graph:
    """Gives inputs other shapes, of the rank that the file has, if it has one."""
    inputs = dict(graph.inputs)
    for name, shape in shapes.items():
        if name not in inputs:
            raise SpecError(f"load: input_shapes has no input {name!r}", "option", "input_shapes")
        is_list = isinstance(shape, Sequence | np.ndarray) and not isinstance(shape, str)
        is_open = is_list and inputs[name].shape == NO_RANK
        rank = len(shape if is_open else inputs[name].shape)
        text = f"of {name} is {shape!r}, expected rank {rank}"
        RULES.expect(is_list and len(shape) == rank, "option", "input_shapes", text)
        sizes = tuple(_size(name, size) for size in shape)
        inputs[name] = TensorType(inputs[name].dtype, sizes)
    for name, x in inputs.items():
        expect(x.shape != NO_RANK, f"input {name!r} has no rank: give it in input_shapes")
    return graph.replace(inputs=inputs)


def _size(name: str, size: object) -> int | str:
    """A size of `input_shapes`: a number, or an expression of names that JAX parses."""
    if isinstance(size, str):
        return f"{size}_" if size in SIZE_FUNCTIONS else size
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0:
        return int(size)
    rule = 'expected an integer of 0 or more, or a name as "n" or "32*n"'
    RULES.fail("option", "input_shapes", f"of {name} has the size {size!r}, {rule}")


@contextlib.contextmanager
def blaming_shapes(graph: Graph, inputs: Mapping[str, TensorType]) -> Iterator[None]:
    """Blames errors on other sizes than the static ones of the file's inputs."""
    try:
        yield
    except ModelError as error:
        for name, x in graph.inputs.items():
            pairs = zip(x.shape, inputs[name].shape, strict=False)
            if any(size != of_file for size, of_file in pairs if isinstance(of_file, int)):
                text = f"of {name} is {x}, and nodes need the file's {inputs[name]}: {error}"
                RULES.fail("sizes", "input_shapes", text)
        raise
