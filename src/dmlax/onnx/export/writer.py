"""Tensors and nodes of an ONNX graph that is written, whose sizes may be symbolic; its model."""

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
_MICROSOFT = "com.microsoft"
_OF_MICROSOFT = (  # operators of its domain
    *("QGemm", "QLinearAdd", "QLinearMul", "QLinearAveragePool", "QLinearGlobalAveragePool"),
)
_COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
_MADE = {**dict.fromkeys(_COMPARISONS, np.bool_), "ArgMax": np.int64, "ArgMin": np.int64}
_ENDS = ("ReduceMax", "ReduceMin", "ArgMax", "ArgMin")
_ARITHMETIC = {  # operators that ONNX Runtime has for some integers only
    *("Abs", "Add", "CumSum", "Div", "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "Pad", "Pow"),
    *("ReduceSum", "Sign", "Sub", "Where", *_COMPARISONS, *_ENDS),
}
_MOVES = {  # operators that ONNX Runtime has for every dtype
    *("Cast", "Concat", "Gather", "GatherND", "Identity", "Reshape", "ScatterND", "Shape"),
    *("Slice", "Transpose"),
}
_NARROW = ("bool", "int8", "uint8", "int16", "uint16")
_OF_FLOAT32 = {  # operators of floats that ONNX Runtime does not have for float64
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Conv", "Cosh", "Erf"),
    *("Sinh", "Tan"),
}
_COMPUTED = (  # operators, dtypes that ONNX Runtime lacks, and one that it computes them in
    ({"ReduceSum"}, (*_NARROW, "int32", "uint32"), "int64"),  # others saturate
    (_ARITHMETIC, _NARROW, "int32"),
    ({"CumSum", "Neg", "Pow", "ReduceSum", *_ENDS}, ("uint32",), "int64"),
    ({"CumSum", "Neg", "Where"}, ("uint64",), "int64"),
    ({"Pow", *_ENDS}, ("uint64",), None),
    (_OF_FLOAT32, ("float64",), None),
    ({"Sign"}, ("float16",), "float32"),  # ONNX Runtime's Sign of NaN is 0
)
_PROPAGATED = ("Reshape", "Slice", "Transpose")  # moves that ONNX Runtime quantizes
_OF_INT64 = ("GatherND", "ScatterND")  # operators whose second input is indices of int64
_EXTRA = 'writing an ONNX model needs the onnx package: pip install "dmlax[onnx]"'
_LARGE = 1e36  # times 255 is a float32
_SMALL = 1024  # elements up to which equal constants are written once


def newest_opset() -> int:
    """The newest opset that the installed `onnx` knows."""
    try:
        from onnx import defs
    except ImportError:
        raise ImportError(_EXTRA) from None
    return int(defs.onnx_opset_version())


class Unwritable(Exception):
    """The reason why an equation cannot be written.

    Attributes:
      opset: the oldest opset that can write it, or None.
    """

    opset: int | None = None


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
    def is_whole(self) -> bool:
        """True if the graph stores the shape of the program."""
        return is_same_shape(self.stored, self.shape)

    @property
    def values(self) -> np.ndarray | None:
        """The values of a constant of static shape, else None."""
        if self.array is None or not is_static(self.shape):
            return None
        return np.broadcast_to(self.array, self.shape)


Inputs = Sequence[Tensor | None]  # None stands for an absent input
Aval = tuple[DTypeLike, Iterable[int]]  # the dtype and the shape of an output


def constant(array: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Makes a tensor of known values; the graph holds those that a node reads."""
    array = np.asarray(array, dtype)
    return Tensor(array.dtype, array.shape, array.shape, array=array)


def integers(values: Iterable[int]) -> Tensor:
    """Makes a vector of integers: sizes, axes or bounds."""
    return constant(list(values), np.int64)


def is_writable(dtype: Any) -> bool:
    """True for bool, and integers and floats of 8 to 64 bits, but not for floats of 8 bits."""
    kind = getattr(dtype, "kind", "")
    return kind in ("b", "i", "u") or (kind == "f" and dtype.itemsize > 1) or dtype == jnp.bfloat16


def is_same_shape(a: Shape, b: Shape) -> bool:
    """True for equal shapes; symbolic sizes that may differ are not equal."""
    return len(a) == len(b) and all(map(are_same, a, b))


def _computed(op: str, dtype: DTypeLike) -> np.dtype:
    """The dtype in which ONNX Runtime computes an operator of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.name == "bfloat16":
        return dtype if op in _MOVES else np.dtype(np.float32)
    for operators, names, computed in _COMPUTED:
        if op in operators and dtype.name in names:
            if computed is None:
                raise Unwritable(f"needs {op} of {dtype}, which ONNX Runtime lacks")
            return np.dtype(computed)
    return dtype


@functools.lru_cache(maxsize=4096)
def _expect_known(
    op: str,
    opset: int,
    inputs: tuple[np.dtype | None, ...],
    outputs: tuple[np.dtype, ...],
    attributes: tuple[str, ...],
) -> None:
    """Expects an operator of these dtypes in an opset, or names the opset that adds it."""
    versions = range(opset, newest_opset() + 1)
    newer = [x for x in versions if _knows(op, x, inputs, outputs, attributes)]
    if opset in newer:
        return
    dtypes = dict.fromkeys(x.name for x in (*inputs[:1], *outputs[:1]) if x is not None)
    text = f"{op} of {' to '.join(dtypes)}"
    if not newer:
        raise Unwritable(f"needs {text}, which ONNX lacks")
    error = Unwritable(f"needs opset {newer[0]} or later, for {text}")
    error.opset = newer[0]
    raise error


def _knows(
    op: str, opset: int, inputs: Sequence[Any], outputs: Sequence[Any], attributes: Sequence[str]
) -> bool:
    from onnx import TensorProto, defs, helper

    if not defs.has(op, opset, ""):
        return False
    schema = defs.get_schema(op, opset, "")
    pairs = [(schema.inputs[min(i, len(schema.inputs) - 1)], x) for i, x in enumerate(inputs)]
    pairs += zip(schema.outputs, outputs, strict=False)
    types = ((helper.np_dtype_to_tensor_dtype(x), y.types) for y, x in pairs if x is not None)
    names = ((f"tensor({TensorProto.DataType.Name(x).lower()})", known) for x, known in types)
    return {*attributes} <= {*schema.attributes} and all(name in known for name, known in names)


class Writer:
    """Collects nodes and constants.

    Attributes:
      form: how quantized operators are written.
      opset: the version of ONNX's own operators.
      nodes: the nodes, in order.
      initializers: the constants that nodes read, by name.
    """

    def __init__(self, form: Form, opset: int) -> None:
        self.form = form
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, np.ndarray] = {}
        self._constants: dict[Any, str] = {}
        self._symbols: dict[str, Tensor] = {}
        self._dequantized: dict[str, tuple[Tensor, list[object], Inputs]] = {}
        self._reshaped: dict[str, Tensor] = {}
        self._transposed: dict[str, tuple[Tensor, tuple[int, ...]]] = {}

    def input(self, name: str, dtype: DTypeLike, shape: Shape) -> Tensor:
        """Adds an input, whose symbolic sizes the graph can then compute with."""
        tensor = Tensor(np.dtype(dtype), shape, shape, name)
        for axis, size in enumerate(shape):
            if not isinstance(size, int) and str(size) not in self._symbols:
                sizes = self.node("Shape", [tensor], np.int64, (len(shape),))
                symbol = self.node("Gather", [sizes, constant(axis)], np.int64, (), axis=0)
                self._symbols[str(size)] = self.cast(symbol, np.int32)
        return tensor

    def name(self, tensor: Tensor | None) -> str:
        """The name of a tensor of the program's shape; empty for an absent one."""
        if tensor is None:
            return ""
        if tensor.values is not None:
            return self._initializer(tensor.values)
        if tensor.array is None and tensor.is_whole:
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
        self, op: str, inputs: Inputs, dtype: DTypeLike, shape: Iterable[int], **attributes: Any
    ) -> Tensor:
        """Adds a node of one output, with its dtype and shape."""
        return self.outputs(op, inputs, [(dtype, shape)], **attributes)[0]

    def outputs(
        self, op: str, inputs: Inputs, avals: Sequence[Aval], **attributes: Any
    ) -> list[Tensor]:
        """Adds a node, with the dtypes and the shapes of its outputs.

        It computes in a dtype that ONNX Runtime has, and its outputs are cast back.
        """
        from onnx import helper

        shapes = [tuple(shape) for _, shape in avals]
        if op in _OF_INT64:
            first, index, *others = inputs
            inputs = [first, index and self.cast(index, np.int64), *others]
        kept = 1 if op == "Where" else 0  # its condition stays bool
        wide = (x and self.cast(x, _computed(op, x.dtype)) for x in inputs[kept:])
        inputs = [*inputs[:kept], *wide]
        given = list(map(self.name, inputs))
        while given and not given[-1]:
            given.pop()
        source = self._dequantized.get(given[0]) if given else None
        if source and op == "QuantizeLinear":
            tensor, parameters, _ = source
            if parameters == [*given[1:], attributes] and self._is_small(given[1]):
                return [tensor]
        if source and op in _PROPAGATED and self._is_misread(source):
            tensor, _, (scale, zero_point) = source
            aval = tensor.dtype, shapes[0]
            moved = self.outputs(op, [tensor, *inputs[1:]], [aval], **attributes)
            return self.outputs(
                "DequantizeLinear", [*moved, scale, zero_point], [(avals[0][0], shapes[0])]
            )
        base = f"/{op.lower()}_{len(self.nodes)}"  # no name of a parameter begins so
        names = [base, *(f"{base}_{index}" for index in range(1, len(avals)))]
        domain = _MICROSOFT if op in _OF_MICROSOFT else None
        asked = [np.dtype(dtype) for dtype, _ in avals]
        made = [np.dtype(_MADE.get(op) or _computed(op, dtype)) for dtype in asked]
        if domain is None:
            read = (None if x is None else x.dtype for x in inputs)
            _expect_known(op, self.opset, tuple(read), tuple(made), tuple(attributes))
        self.nodes.append(helper.make_node(op, given, names, base, domain=domain, **attributes))
        if op == "DequantizeLinear" and len(given) == 3 and inputs[0] is not None:
            self._dequantized[base] = inputs[0], [*given[1:], attributes], inputs[1:]
        tensors = map(Tensor, made, shapes, shapes, names)
        return [self.cast(x, dtype) for x, dtype in zip(tensors, asked, strict=True)]

    def _is_misread(self, source: tuple[Tensor, list[object], Inputs]) -> bool:
        """True if ONNX Runtime 1.32 fails to load moves of a dequantized tensor."""
        tensor, _, (scale, *_) = source
        is_one = scale is not None and scale.shape == ()
        return is_one and (
            tensor.dtype == np.int32 or (tensor.dtype == np.int8 and self.opset > 20)
        )

    def _is_small(self, scale: str) -> bool:
        """True for a scale that makes only finite floats of 8 bits."""
        values = self.initializers.get(scale, np.array(np.inf))
        return values.dtype == np.float32 and bool((np.abs(values) < _LARGE).all())

    def elementwise(
        self, op: str, xs: Sequence[Tensor], dtype: DTypeLike | None = None, **attributes: Any
    ) -> Tensor:
        """Adds a node that broadcasts as NumPy does; it computes no element twice.

        The output has the last operand's dtype, unless the operator or the caller has another.
        """
        result = np.dtype(dtype or _MADE.get(op, xs[-1].dtype))
        stored = _broadcast([x.stored for x in xs])
        node = self.node(op, [x.narrow for x in xs], result, stored, **attributes)
        return replace(node, shape=_broadcast([x.shape for x in xs]))

    def cast(self, x: Tensor, dtype: DTypeLike) -> Tensor:
        """Converts to a dtype; integers wrap."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.array is not None:
            return replace(x, dtype=dtype, array=x.array.astype(dtype))
        from onnx import helper

        return self.elementwise("Cast", [x], dtype, to=helper.np_dtype_to_tensor_dtype(dtype))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshapes, two in a row as one; one symbolic size is inferred."""
        shape = tuple(shape)
        x = self._reshaped.get(x.name, x) if x.is_whole else x
        if is_same_shape(x.shape, shape):
            return x
        if x.values is not None and is_static(shape):
            return constant(x.values.reshape(shape))
        symbolic = [size for size in shape if not isinstance(size, int)]
        inferred = len(symbolic) == 1 and 0 not in shape
        sizes = [size if isinstance(size, int) else -1 for size in shape]
        target = integers(sizes) if inferred else self.sizes(shape)
        allow = {"allowzero": 1} if 0 in shape else {}
        reshaped = self.node("Reshape", [x, target], x.dtype, shape, **allow)
        self._reshaped[reshaped.name] = x
        return reshaped

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Transposes; two in a row become one, or none."""
        axes = tuple(axes)
        if x.values is not None:
            return constant(x.values.transpose(axes))
        if x.is_whole and x.name in self._transposed:
            x, first = self._transposed[x.name]
            axes = tuple(first[axis] for axis in axes)
        if axes == tuple(range(len(x.shape))):
            return x
        shape = (x.shape[axis] for axis in axes)
        transposed = self.node("Transpose", [x], x.dtype, shape, perm=list(axes))
        self._transposed[transposed.name] = x, axes
        return transposed

    def broadcast(self, x: Tensor, shape: Shape, axes: Sequence[int]) -> Tensor:
        """Puts the axes of `x` at places of a larger shape; the node that reads it broadcasts."""
        stored = (1,) * (len(x.shape) - len(x.stored)) + x.stored
        sizes = dict(zip(axes, stored, strict=True))
        places = range(min(axes, default=len(shape)), len(shape))
        spread = self.reshape(x.narrow, [sizes.get(axis, 1) for axis in places])
        return replace(spread, shape=shape)

    def slice(
        self, x: Tensor, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
    ) -> Tensor:
        """Slices every axis as NumPy does; an end may be symbolic."""
        bounds = zip(starts, ends, steps, strict=True)
        shape = [-((start - end) // step) for start, end, step in bounds]
        same = [are_same(*sizes) for sizes in zip(shape, x.shape, strict=True)]
        cut = [axis for axis, step in enumerate(steps) if step != 1 or not same[axis]]
        if not cut:
            return x
        if x.values is not None and is_static(ends):
            slices = map(slice, starts, ends, steps)
            return constant(np.ascontiguousarray(x.values[tuple(slices)]))
        first, last = (self.sizes([sizes[axis] for axis in cut]) for sizes in (starts, ends))
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
        return self.interpret(program, tensors)

    def model(self, inputs: Sequence[Tensor], outputs: Mapping[str, Tensor]) -> onnx.ModelProto:
        """Makes the model of the nodes that the outputs need."""
        from onnx import helper, numpy_helper

        nodes = _with_outputs(self.nodes, {name: self.name(x) for name, x in outputs.items()})
        read = {name for node in nodes for name in node.input}
        constants = [pair for pair in self.initializers.items() if pair[0] in read]
        graph = helper.make_graph(
            nodes,
            "dmlax",
            [_value(x.name, x) for x in inputs],
            [_value(name, x) for name, x in outputs.items()],
            [numpy_helper.from_array(np.asarray(x, order="C"), name) for name, x in constants],
        )
        versions = {"": self.opset, _MICROSOFT: 1}
        domains = sorted({"", *(node.domain for node in nodes)})
        opsets = [helper.make_opsetid(domain, versions[domain]) for domain in domains]
        version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        more = {"opset_imports": opsets, "ir_version": version, "producer_name": "dmlax"}
        return helper.make_model(graph, **more)

    def interpret(self, program: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Writes a program; `Interpreter` does."""
        raise NotImplementedError


def _with_outputs(
    written: Sequence[onnx.NodeProto], ends: Mapping[str, str]
) -> list[onnx.NodeProto]:
    """The nodes that the outputs need, which carry the outputs' names."""
    from onnx import helper

    live = set(ends.values())
    nodes: list[onnx.NodeProto] = []
    for node in reversed(written):
        if live & {*node.output}:
            nodes.append(node)
            live |= {*node.input}
    nodes.reverse()
    made = {name for node in nodes for name in node.output}
    names = {end: name for name, end in reversed(list(ends.items())) if end in made}
    for node in nodes:
        for tensors in (node.input, node.output):
            tensors[:] = [names.get(name, name) for name in tensors]
    copies = [(names.get(end, end), name) for name, end in ends.items() if names.get(end) != name]
    return nodes + [helper.make_node("Identity", [source], [name]) for source, name in copies]


def _value(name: str, tensor: Tensor) -> onnx.ValueInfoProto:
    from onnx import helper

    sizes = [size if isinstance(size, int) else str(size) for size in tensor.shape]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(tensor.dtype), sizes)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of NumPy's rule, which the program has checked."""
    return functools.reduce(lambda a, b: broadcast_shapes(a, b) or (), shapes)


def _floordiv(size: Any, divisor: Any) -> Any:
    """Rounds down; a Div rounds to zero, so the size becomes positive first."""
    return jax.lax.div(jnp.asarray(size + _MULTIPLE * divisor), jnp.asarray(divisor)) - _MULTIPLE


_MULTIPLE = 1 << 16
_FUNCTIONS = {  # functions in the text of symbolic sizes
    "__builtins__": {},
    "floordiv": _floordiv,
    "mod": lambda size, divisor: size - divisor * _floordiv(size, divisor),
    "max": jnp.maximum,
    "min": jnp.minimum,
}
