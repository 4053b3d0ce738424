"""Tensors and nodes of an ONNX graph that is written, with sizes that may be symbolic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from dmlax._core.arguments import are_same, broadcast_shapes, is_static

if TYPE_CHECKING:
    import onnx

Form = Literal["qdq", "qoperator"]
Shape = tuple[int, ...]  # sizes may be symbolic dimensions of `jax.export`
MICROSOFT = "com.microsoft"
_NONE: Mapping[str, Any] = {}
_WIDE: dict[str, np.dtype] = {  # dtypes in which ONNX Runtime computes, for those it does not
    **dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), np.dtype(np.int32)),
    "uint32": np.dtype(np.int64),
    "bfloat16": np.dtype(np.float32),
}
_COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
_MADE = {**dict.fromkeys(_COMPARISONS, np.bool_), "ArgMax": np.int64, "ArgMin": np.int64}
_ARITHMETIC = {  # operators that ONNX Runtime has for some dtypes only
    *("Abs", "Add", "CumSum", "Div", "Max", "Min", "Mod", "Mul", "Neg", "Pad", "Pow", "ReduceMax"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "Sign", "Sub", "Where", *_MADE),
}
_SMALL = 1024  # elements up to which equal constants are written once


class Unwritable(Exception):
    """The reason why an equation has no counterpart in ONNX."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the program.

    Attributes:
      dtype: the dtype of the program and of the graph.
      shape: the shape in the program.
      stored: the shape in the graph, which broadcasts to `shape`.
      name: the name in the graph; empty for a constant.
      array: the values of a constant, of shape `stored`.
    """

    dtype: np.dtype
    shape: Shape
    stored: Shape
    name: str = ""
    array: np.ndarray | None = None

    @property
    def narrow(self) -> Tensor:
        """The tensor as the graph stores it."""
        return replace(self, shape=self.stored)

    @property
    def values(self) -> np.ndarray | None:
        """The values of a constant of static shape, else None."""
        if self.array is None or not is_static(self.shape):
            return None
        return np.broadcast_to(self.array, self.shape)

    @property
    def rank(self) -> int:
        """The number of axes in the program."""
        return len(self.shape)


def constant(array: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Makes a tensor of known values; the graph holds those that a node reads."""
    array = np.asarray(array, dtype)
    return Tensor(array.dtype, array.shape, array.shape, array=array)


def integers(values: Iterable[int]) -> Tensor:
    """Makes a vector of integers: sizes, axes or bounds."""
    return constant(list(values), np.int64)


def is_same_shape(a: Shape, b: Shape) -> bool:
    """True for equal shapes; symbolic sizes that may differ are not equal."""
    return len(a) == len(b) and all(map(are_same, a, b))


Interpret = Callable[[Any, Sequence[Tensor]], list[Tensor]]  # writes a program


class Writer:
    """Collects nodes and constants.

    Attributes:
      form: how quantized operators are written.
      opset: the version of ONNX's own operators.
      nodes: the nodes, in order.
      initializers: the constants that nodes read, by name.
      dequantized: the integers of each dequantized tensor and their parameters, by its name.
    """

    def __init__(self, form: Form, opset: int, interpret: Interpret) -> None:
        self.form = form
        self.opset = opset
        self._interpret = interpret
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, np.ndarray] = {}
        self.dequantized: dict[str, tuple[Tensor, list[Any]]] = {}
        self._constants: dict[Any, str] = {}
        self._symbols: dict[str, Tensor] = {}
        self._transposed: dict[str, tuple[Tensor, tuple[int, ...]]] = {}

    def input(self, name: str, dtype: DTypeLike, shape: Shape) -> Tensor:
        """Adds an input, whose symbolic sizes the graph can then compute with."""
        tensor = Tensor(np.dtype(dtype), shape, shape, name)
        for axis, size in enumerate(shape):
            if not isinstance(size, int) and str(size) not in self._symbols:
                sizes = self.node("Shape", [tensor], np.int64, (len(shape),))
                symbol = self.node("Gather", [sizes, constant(axis)], np.int64, (), "", {"axis": 0})
                self._symbols[str(size)] = self.cast(symbol, np.int32)
        return tensor

    def name(self, tensor: Tensor | None) -> str:
        """The name of a tensor of the program's shape; empty for an absent one."""
        if tensor is None:
            return ""
        if tensor.values is not None:
            return self._initializer(tensor.values)
        if tensor.array is None and is_same_shape(tensor.stored, tensor.shape):
            return tensor.name
        name = tensor.name if tensor.array is None else self._initializer(tensor.array)
        stored = replace(tensor.narrow, name=name, array=None)
        return self.node("Expand", [stored, self.sizes(tensor.shape)], tensor.dtype, ()).name

    def _initializer(self, array: np.ndarray) -> str:
        place = array.tobytes() if array.size <= _SMALL else (array.ctypes.data, array.strides)
        name = f"/constant_{len(self.initializers)}"
        name = self._constants.setdefault((array.dtype, array.shape, place), name)
        self.initializers.setdefault(name, array)
        return name

    def node(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        dtype: DTypeLike,
        shape: Iterable[int],
        domain: str = "",
        attributes: Mapping[str, Any] = _NONE,
    ) -> Tensor:
        """Adds a node of one output, with its dtype and shape.

        Arithmetic is computed in a dtype that ONNX Runtime has, and cast back.
        """
        if op not in _ARITHMETIC:
            return self.outputs(op, inputs, [(dtype, shape)], domain, attributes)[0]
        condition, values = (inputs[:1], inputs[1:]) if op == "Where" else ((), inputs)
        given = [
            *condition,
            *(x and self.cast(x, _WIDE.get(x.dtype.name, x.dtype)) for x in values),
        ]
        dtype = np.dtype(dtype)
        made = _MADE.get(op, _WIDE.get(dtype.name, dtype))
        return self.cast(self.outputs(op, given, [(made, shape)], domain, attributes)[0], dtype)

    def outputs(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        avals: Sequence[tuple[DTypeLike, Iterable[int]]],
        domain: str = "",
        attributes: Mapping[str, Any] = _NONE,
    ) -> list[Tensor]:
        """Adds a node, with the dtypes and the shapes of its outputs."""
        from onnx import helper

        given = list(map(self.name, inputs))
        while given and not given[-1]:
            given.pop()
        base = f"/{op.lower()}_{len(self.nodes)}"  # no name of a parameter begins so
        names = [base, *(f"{base}_{index}" for index in range(1, len(avals)))]
        self.nodes.append(
            helper.make_node(op, given, names, base, domain=domain or None, **attributes)
        )
        shapes = [tuple(shape) for _, shape in avals]
        dtypes = [np.dtype(dtype) for dtype, _ in avals]
        return list(map(Tensor, dtypes, shapes, shapes, names))

    def elementwise(
        self,
        op: str,
        tensors: Sequence[Tensor],
        dtype: DTypeLike | None = None,
        attributes: Mapping[str, Any] = _NONE,
    ) -> Tensor:
        """Adds a node that broadcasts as NumPy does; it computes no element twice.

        The output has the last operand's dtype, unless the operator or the caller has another.
        """
        result = np.dtype(dtype or _MADE.get(op, tensors[-1].dtype))
        stored = _broadcast([x.stored for x in tensors])
        node = self.node(op, [x.narrow for x in tensors], result, stored, "", attributes)
        return replace(node, shape=_broadcast([x.shape for x in tensors]))

    def cast(self, x: Tensor, dtype: DTypeLike) -> Tensor:
        """Converts to a dtype; integers wrap."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.array is not None:
            return replace(x, dtype=dtype, array=x.array.astype(dtype))
        from onnx import helper

        return self.elementwise("Cast", [x], dtype, {"to": helper.np_dtype_to_tensor_dtype(dtype)})

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshapes; one symbolic size is inferred."""
        shape = tuple(shape)
        if is_same_shape(x.shape, shape):
            return x
        if x.values is not None and is_static(shape):
            return constant(x.values.reshape(shape))
        symbolic = [size for size in shape if not isinstance(size, int)]
        inferred = len(symbolic) == 1 and 0 not in shape
        sizes = [size if isinstance(size, int) else -1 for size in shape]
        target = integers(sizes) if inferred else self.sizes(shape)
        allow = {"allowzero": 1} if 0 in shape else {}
        return self.node("Reshape", [x, target], x.dtype, shape, "", allow)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Transposes; two in a row become one, or none."""
        axes = tuple(axes)
        if x.values is not None:
            return constant(x.values.transpose(axes))
        if x.name in self._transposed:
            x, first = self._transposed[x.name]
            axes = tuple(first[axis] for axis in axes)
        if axes == tuple(range(x.rank)):
            return x
        shape = (x.shape[axis] for axis in axes)
        transposed = self.node("Transpose", [x], x.dtype, shape, "", {"perm": list(axes)})
        self._transposed[transposed.name] = x, axes
        return transposed

    def broadcast(self, x: Tensor, shape: Shape, axes: Sequence[int]) -> Tensor:
        """Puts the axes of `x` at places of a larger shape; the node that reads it broadcasts."""
        stored = (1,) * (x.rank - len(x.stored)) + x.stored
        sizes = dict(zip(axes, stored, strict=True))
        places = range(min(axes, default=len(shape)), len(shape))
        spread = self.reshape(x.narrow, [sizes.get(axis, 1) for axis in places])
        return replace(spread, shape=shape)

    def slice(
        self, x: Tensor, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
    ) -> Tensor:
        """Slices every axis as NumPy does; an end may be symbolic."""
        shape = [_sliced(*bounds) for bounds in zip(starts, ends, steps, strict=True)]
        same = [are_same(*sizes) for sizes in zip(shape, x.shape, strict=True)]
        cut = [axis for axis, step in enumerate(steps) if step != 1 or not same[axis]]
        if not cut:
            return x
        if x.values is not None and is_static(ends):
            slices = map(slice, starts, ends, steps)
            return constant(np.ascontiguousarray(x.values[tuple(slices)]))
        first, last = (self.sizes([bounds[axis] for axis in cut]) for bounds in (starts, ends))
        strides = integers(steps[axis] for axis in cut)
        return self.node("Slice", [x, first, last, integers(cut), strides], x.dtype, shape)

    def sizes(self, shape: Sequence[int]) -> Tensor:
        """A vector of sizes; JAX prints a symbolic one as an expression of Python."""
        if is_static(shape):
            return integers(shape)

        def evaluate(*values: jax.Array) -> jax.Array:
            symbols = dict(zip(self._symbols, values, strict=True))
            texts = (str(size).replace("^", "**") for size in shape)
            return jnp.stack([jnp.asarray(eval(text, _FUNCTIONS, symbols)) for text in texts])

        return self.cast(self.run(evaluate, *self._symbols.values())[0], np.int64)

    def run(self, function: Callable[..., Any], *tensors: Tensor) -> list[Tensor]:
        """Writes the program of a JAX function."""
        structs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in tensors]
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            program = jax.make_jaxpr(function)(*structs)
        return self._interpret(program, tensors)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of NumPy's rule, which the program has checked."""
    return functools.reduce(lambda a, b: broadcast_shapes(a, b) or (), shapes)


def _sliced(start: int, end: int, step: int) -> int:
    return end - start if step == 1 else -(-(end - start) // step)


def _floordiv(size: Any, divisor: Any) -> Any:
    """Rounds down; a Div rounds to zero, so the size becomes positive first."""
    return jax.lax.div(jnp.asarray(size + _MULTIPLE * divisor), jnp.asarray(divisor)) - _MULTIPLE


_MULTIPLE = 1 << 16
_FUNCTIONS = {  # in the text of symbolic sizes
    "__builtins__": {},
    "floordiv": _floordiv,
    "mod": lambda size, divisor: size - divisor * _floordiv(size, divisor),
    "max": jnp.maximum,
    "min": jnp.minimum,
}
