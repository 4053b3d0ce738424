"""from_jax: a JAX function as an ONNX model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from dmlax._core import compat
from dmlax._core.arguments import Rules
from dmlax.errors import UnsupportedError
from dmlax.onnx.export.interpret import Interpreter
from dmlax.onnx.export.writer import Form, Tensor, is_writable, newest_opset

if TYPE_CHECKING:
    import onnx

__all__ = ["from_jax"]

_RULES = Rules("from_jax")
_FORMS = ("qdq", "qoperator")
_OLDEST = 13  # the opset that gave QuantizeLinear an axis
_DEFAULT = 20  # ONNX Runtime 1.32 fails to load moves of dequantized int8 in opsets from 21 on


def from_jax(
    function: Callable[..., Any],
    /,
    *args: Any,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    form: Form = "qdq",
    opset: int | None = None,
) -> onnx.ModelProto:
    """Writes a JAX function as an ONNX model.

    Operators of dmlax become the operators that ONNX Runtime computes with the bits of
    `arithmetic="float32"`, even where the function asks for "exact". Everything else
    becomes ONNX's float and integer operators. Arrays that the function closes over, such as the
    weights, become initializers.

    Args:
      function: a function of arrays or pytrees of them, which `jax.jit` can trace.
      *args: its arguments, which become inputs; a `jax.ShapeDtypeStruct` may stand for an array.
      input_names: a name for each array of `args`; default the names of the parameters.
      output_names: a name for each array that the function returns; default "output", or the
        path in the returned pytree.
      dynamic: names of sizes that may vary, by axis, by input: `{"images": {0: "n"}}`.
      form: "qdq" for float operators between DequantizeLinear and QuantizeLinear, which every
        runtime reads, or "qoperator" for QLinearConv and its kind.
      opset: the version of ONNX's operators, at least 13; default 20, or the oldest later one that
        the function needs.

    Returns:
      An `onnx.ModelProto`.

    Raises:
      UnsupportedError: the function cannot be traced, or `from_jax` does not support parts of it;
        the message lists them all with their lines.
      SpecError: an option is wrong (code `option`).
      ImportError: the package `onnx` is not installed.

    Example:
      >>> import dmlax.onnx, jax.numpy as jnp
      >>> model = dmlax.onnx.from_jax(lambda x: x * 2 + 1, jnp.ones((2, 3)))
      >>> [node.op_type for node in model.graph.node]
      ['Mul', 'Add']
    """
    _RULES.expect_choice("form", form, _FORMS)
    first = _DEFAULT if opset is None else opset
    first = _RULES.to_integer("opset", first, _OLDEST, newest_opset())
    leaves, tree = jax.tree.flatten(args)
    names = _names("input_names", input_names, _paths(_parameters(function, args)))
    structs = _structs(names, leaves, dynamic or {})
    program, result = _trace(function, jax.tree.unflatten(tree, structs))
    writer, inputs, outputs = _write(program, names, structs, form, first)
    if opset is None and writer.needed > first:
        writer, inputs, outputs = _write(program, names, structs, form, writer.needed)
    if writer.problems:
        problems = "; ".join(dict.fromkeys(writer.problems))
        raise UnsupportedError(f"from_jax: {problems}", "option", "function")
    results = _names("output_names", output_names, _paths({"output": result}), names)
    return writer.model(inputs, dict(zip(results, outputs, strict=True)))


def _trace(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The program of a function, and the pytree of its results."""
    try:
        program, result = jax.make_jaxpr(function, return_shape=True)(*args)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise compat.untraceable(_RULES.operator, "cannot be traced", error) from error
    except jax.errors.InconclusiveDimensionOperation as error:
        raise compat.untraceable(_RULES.operator, "depends on a dynamic size", error) from error
    except TypeError as error:
        if "_DimExpr" not in str(error):
            raise
        remedy = "; x.shape[0] stays dynamic where len(x) cannot"
        raise compat.untraceable(
            _RULES.operator, "needs an integer for a dynamic size", error, remedy
        ) from error
    return program, result


def _write(
    program: Any, names: Sequence[str], structs: Sequence[Any], form: Form, opset: int
) -> tuple[Interpreter, list[Tensor], list[Tensor]]:
    """Writes a program in an opset."""
    writer = Interpreter(form, opset)
    inputs = [writer.input(name, x.dtype, x.shape) for name, x in zip(names, structs, strict=True)]
    outputs = writer.interpret(program, inputs)
    ends = [*zip(names, inputs, strict=True), *(("an output", x) for x in outputs)]
    odd = ((name, x.dtype) for name, x in ends if not is_writable(x.dtype))
    writer.problems += [f"{name} of {dtype} is not supported" for name, dtype in odd]
    return writer, inputs, outputs


def _names(
    field: str, names: Sequence[str] | None, paths: Sequence[str], taken: Sequence[str] = ()
) -> list[str]:
    """The names that a caller gives, or else those of paths."""
    names = paths if names is None else names
    text = f"is {names!r}, expected {len(paths)} different names"
    good = not isinstance(names, str) and all(isinstance(name, str) and name for name in names)
    good = good and len(names) == len(paths) and len({*names, *taken}) == len([*names, *taken])
    _RULES.expect(good, "option", field, f"{text} that no input has" if taken else text)
    return list(names)


def _parameters(function: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments by the names of their parameters; "input" names those of unknown parameters."""
    try:
        return inspect.signature(function).bind(*args).arguments
    except (TypeError, ValueError):  # not written in Python, or called wrongly, as JAX will say
        return {"input": args}


def _paths(trees: Mapping[str, Any]) -> list[str]:
    """The name of a tree and the path in it, of every leaf."""
    leaves = ((name, jax.tree.leaves_with_path(tree)) for name, tree in trees.items())
    paths = ((name, path) for name, pairs in leaves for path, _ in pairs)
    keys = functools.partial(jax.tree_util.keystr, simple=True, separator=".")
    return [".".join(filter(None, [name, keys(path)])) for name, path in paths]


def _structs(
    names: Sequence[str], leaves: Sequence[Any], dynamic: Mapping[str, Mapping[int, str]]
) -> list[jax.ShapeDtypeStruct]:
    """The dtypes and the shapes of the inputs; sizes of one name are one symbol."""
    for name in dynamic:
        _RULES.expect(name in names, "option", "dynamic", f"names no input: {name!r}")
    scope = jax.export.SymbolicScope()
    structs = []
    for name, leaf in zip(names, leaves, strict=True):
        aval = jax.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf
        sizes: list[Any] = list(aval.shape)
        for axis, symbol in dynamic.get(name, {}).items():
            text = f"of {name} is {axis!r}: {symbol!r}, expected an axis of {aval} and a name"
            good = isinstance(axis, int) and -len(sizes) <= axis < len(sizes)
            good = good and isinstance(symbol, str) and symbol.isidentifier()
            _RULES.expect(good, "option", "dynamic", text)
            sizes[axis] = jax.export.symbolic_shape(symbol, scope=scope)[0]
        structs.append(jax.ShapeDtypeStruct(tuple(sizes), aval.dtype))
    return structs
