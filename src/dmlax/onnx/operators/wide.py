"""Integers of 64 bits where JAX has 32.

A tensor that is int64 or uint64 in the file is int32 or uint32 on the device if its range fits, as
the ranges of indices do. `compute` calls the operators of other tensors in 64 bits, also with x64
off. Every rule gives the range of an operator's results.
"""

import functools
import math
import operator
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dmlax._core import compat
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import Node
from dmlax.onnx.operators.nonzero import OUTSIDE, Counted
from dmlax.onnx.operators.values import (
    DTYPES,
    NARROWED,
    NEEDS_X64,
    fits,
    has_x64,
    is_known,
    is_size,
    to_device,
)


class Range(NamedTuple):
    """The least and the greatest value of a tensor that is int64 or uint64 in the file."""

    low: int
    high: int
    is_signed: bool = True

    @property
    def dtype(self) -> np.dtype:
        """The dtype in the file."""
        return np.dtype(np.int64 if self.is_signed else np.uint64)

    @property
    def is_narrow(self) -> bool:
        """True if half of the bits hold every value."""
        return self._fits(NARROWED[self.dtype])

    def _fits(self, dtype: np.dtype) -> bool:
        limits = np.iinfo(dtype)
        return bool(limits.min <= self.low and self.high <= limits.max)

    def of(self, *values: int) -> "Range":
        """The range of values; the whole dtype's if one of them wraps."""
        found = self._replace(low=min(values), high=max(values))
        return found if found._fits(self.dtype) else _whole(self.dtype)


Ranges: TypeAlias = MutableMapping[str, Range]
_Found: TypeAlias = tuple[Range, ...]  # the ranges of the results, then of intermediate values
_Rule: TypeAlias = Callable[[Sequence[Range], Node, Sequence[Any]], _Found]
INDICES = Range(-1, OUTSIDE)
_SIZES = Range(-OUTSIDE, OUTSIDE)


def _whole(dtype: np.dtype) -> Range:
    limits = np.iinfo(dtype)
    return Range(int(limits.min), int(limits.max), dtype.kind == "i")


def of_inputs(dtypes: Mapping[str, np.dtype], values: Mapping[str, Any]) -> dict[str, Range]:
    """The ranges of inputs that have 64 bits in the file, by the width that they are given in."""
    wide = (name for name, dtype in dtypes.items() if dtype in NARROWED and name in values)
    return {name: _whole(np.dtype(values[name].dtype)) for name in wide}


def widen(value: Any, range_: Range | None = None) -> Any:
    """A tensor on the device, of 64 bits if it has them in the file: in the loops of JAX."""
    if has_x64() or (range_ is None and not (is_known(value) and value.dtype in NARROWED)):
        return to_device(value)
    dtype = value.dtype if range_ is None else range_.dtype
    if is_known(value):
        with jax.enable_x64(True):
            return jnp.asarray(value)
    return compat.in_64_bits(lambda x: x.astype(dtype), value)


def output(value: Any) -> Any:
    """A result on the device: known integers have 64 bits if they need them."""
    needs = is_known(value) and not fits(value, NARROWED.get(value.dtype))
    return widen(value) if needs else to_device(value)


def zero(dtype: np.dtype) -> Any:
    """0 on the device."""
    with jax.enable_x64(has_x64() or dtype in NARROWED):
        return jnp.zeros((), dtype)


def _saturate(value: Any) -> Any:
    """An index of 32 bits: one that does not fit is outside of every tensor."""
    limits = np.iinfo(np.int32)
    if is_known(value):
        return np.clip(value, limits.min, limits.max)
    signed = compat.in_64_bits(
        lambda x: jnp.clip(x, max(limits.min, np.iinfo(x.dtype).min), limits.max).astype(np.int32),
        value,
    )
    return signed


def _saturate_exponent(value: Any) -> Any:
    """An exponent of 32 bits, as odd as its float64, in which ONNX Runtime raises to a power."""
    if is_known(value):
        return _keep_parity(np, value)
    return compat.in_64_bits(lambda x: _keep_parity(jnp, x), value)


def _keep_parity(library: Any, value: Any) -> Any:
    parity = (value.astype(np.float64) % 2).astype(np.int32)
    least, most = 2 - 2**31 if value.dtype.kind == "i" else 0, 2**31 - 2
    low_or_high = library.clip(value, least, most).astype(np.int32)
    return low_or_high - low_or_high % 2 + parity


def _range_of(value: Any, found: Range | None) -> Range | None:
    """The range of an operand that has 64 bits in the file, None of others."""
    dtype = getattr(value, "dtype", None)
    if found is not None or not isinstance(dtype, np.dtype):
        return found
    if is_known(value) and dtype.hasobject:
        return _SIZES
    if dtype not in NARROWED:
        return None
    if is_known(value) and value.size:
        return Range(int(value.min()), int(value.max()), dtype.kind == "i")
    return Range(0, 0, dtype.kind == "i") if is_known(value) else _whole(dtype)


def compute(
    node: Node, function: Callable[..., Any], operands: Sequence[Any], ranges: Ranges
) -> Any:
    """Calls the function of a node, in 64 bits if a result or an operand may need them.

    Args:
      node: the node, whose operator has a rule.
      function: takes the operands; returns an output or a tuple.
      operands: the node's inputs.
      ranges: of the tensors of 64 bits in the file, by name; the outputs' are added.
    """
    if has_x64():
        return function(*operands)
    values = list(operands)
    inputs = [*node.inputs, *[""] * (len(values) - len(node.inputs))]
    limits = [_range_of(x, ranges.get(name)) for x, name in zip(values, inputs, strict=True)]
    if node.graphs:
        return function(
            *(x if is_known(x) else widen(x, y) for x, y in zip(values, limits, strict=True))
        )
    places = _INDICES.get(node.op, ()) if not node.domain else range(len(values))
    for i in places:
        if i < len(values) and (index := limits[i]) is not None:
            saturate = _saturate_exponent if node.op == "Pow" else _saturate
            values[i], limits[i] = values[i] if index.is_narrow else saturate(values[i]), None
    computed = [i for i in places_of(node, values) if values[i] is not None]
    if any(limits[i] is None and np.dtype(values[i].dtype).kind in "iu" for i in computed):
        # A size beside an int32 is an int32 in the file: a Cast of a size is a size.
        pairs = zip(values, limits, strict=True)
        limits = [None if is_known(x) and x.dtype.hasobject else limit for x, limit in pairs]
    found = _find(node, values, limits)
    needs = [*found, *(limits[i] for i in places_of(node, values))]
    of_outputs: list[Range | None] = [found[0] if found else None] * max(len(node.outputs), 1)
    for i in _INDEX_OUTPUTS.get(node.op, ()):
        of_outputs[i:] = [INDICES] * len(node.outputs[i:])
    if all(x is None or x.is_narrow for x in needs):
        outputs = function(*values)
    elif all(x is None or is_known(x) for x in values):
        with jax.enable_x64(not any(x is not None and x.dtype.hasobject for x in values)):
            outputs = function(*values)
    else:
        outputs = _compute_wide(function, values, limits, of_outputs)
    tensors = outputs if isinstance(outputs, tuple) else (outputs,)
    for name, tensor, range_ in zip(node.outputs, tensors, of_outputs, strict=False):
        rows = tensor.rows if isinstance(tensor, Counted) else tensor
        if range_ is not None and not is_known(rows) and rows.dtype.kind in "iu":
            ranges[name] = range_
    return outputs


def _compute_wide(
    function: Callable[..., Any],
    values: Sequence[Any],
    limits: Sequence[Range | None],
    of_outputs: Sequence[Range | None],
) -> Any:
    """Calls a function in 64 bits; results whose range fits get 32."""
    numbers = {
        i: to_device(x)
        for i, x in enumerate(values)
        if x is not None and not (is_known(x) and not x.dtype.hasobject)
    }

    def narrow(output: Any, range_: Range | None) -> Any:
        if isinstance(output, Counted):
            return Counted(narrow(output.rows, range_), narrow(output.count, INDICES))
        if output.dtype == np.float64:
            raise UnsupportedError(NEEDS_X64, "data_type", "data type")
        is_narrow = range_ is not None and range_.is_narrow and output.dtype in NARROWED
        return to_device(output.astype(NARROWED[output.dtype]) if is_narrow else output)

    def call(numbers: Mapping[int, Any]) -> Any:
        operands = list(values)
        for i, x in numbers.items():
            range_ = limits[i]
            operands[i] = x if range_ is None else x.astype(range_.dtype)
        outputs = function(*operands)
        if not isinstance(outputs, tuple):
            return narrow(outputs, of_outputs[0])
        return tuple(map(narrow, outputs, (*of_outputs, *[None] * len(outputs))))

    return compat.in_64_bits(call, numbers)


def places_of(node: Node, values: Sequence[Any]) -> list[int]:
    """The operands whose values an operator computes with or returns."""
    if node.op in _RULES:
        return [i for i in _VALUES.get(node.op, range(len(values))) if i < len(values)]
    return [i for i, x in enumerate(values) if not is_known(x)] or [*range(len(values))]


def _find(node: Node, values: Sequence[Any], limits: Sequence[Range | None]) -> _Found:
    """The range of the results that have 64 bits in the file, if there are any."""
    if node.op in _CASTS and not node.domain:
        return _of_cast(node, values, limits)
    operands = [x for i in places_of(node, values) if (x := limits[i]) is not None]
    if not operands:
        return ()
    rule: _Rule | None = _RULES.get(node.op, _any)
    return () if rule is None else rule(operands, node, values)


def _of_cast(node: Node, values: Sequence[Any], limits: Sequence[Range | None]) -> _Found:
    """A cast keeps a value that fits, and a constant of 64 bits is known."""
    attributes, first = node.attributes, limits[0]
    if node.op == "ConstantOfShape":
        return () if (x := _range_of(attributes.get("value"), None)) is None else (x,)
    if node.op == "Range":
        return (_SIZES,) if any(x.dtype.hasobject for x in values) else ()
    like = limits[1] if node.op == "CastLike" else None
    to = attributes.get("to", attributes.get("dtype", 0))
    dtype = like.dtype if like else DTYPES.get(to) if node.op != "CastLike" else None
    if node.op == "EyeLike" and not to and first is not None:
        dtype = first.dtype
    if dtype not in NARROWED or dtype is None:
        return ()
    if node.op == "EyeLike":
        return (Range(0, 1, dtype.kind == "i"),)
    source = np.dtype(values[0].dtype)
    if first is None and source.kind == "b":
        first = Range(0, 1)
    if first is None and source.kind not in "iu":
        return (_whole(dtype),)
    first = first or _whole(source)
    return (first._replace(is_signed=dtype.kind == "i").of(first.low, first.high),)


def _any(ranges: Sequence[Range], *_: Any) -> _Found:
    return (_whole(ranges[0].dtype),)


def _union(ranges: Sequence[Range], *_: Any) -> _Found:
    """The operands' elements, and the 0 of places outside of a tensor."""
    return (ranges[0].of(0, *(x.low for x in ranges), *(x.high for x in ranges)),)


def _extreme(ranges: Sequence[Range], node: Node, values: Sequence[Any]) -> _Found:
    """One element of each group; the dtype's limit of none."""
    return _any(ranges) if 0 in values[0].shape else _union(ranges)


def _scattered(ranges: Sequence[Range], node: Node, values: Sequence[Any]) -> _Found:
    is_kept = node.attributes.get("reduction", "none") in ("none", "min", "max")
    return _union(ranges) if is_kept else _any(ranges)


def _at_ends(function: Callable[[int, int], int]) -> _Rule:
    """A function of two operands, or more from the first on, that is largest at ends of ranges."""

    def combine(a: Range, b: Range) -> Range:
        return a.of(*(function(x, y) for x, y in product(a[:2], b[:2])))

    return lambda ranges, *_: (functools.reduce(combine, ranges),)


def _magnitude(x: Range) -> int:
    return max(abs(x.low), abs(x.high))


def _quotient(ranges: Sequence[Range], *_: Any) -> _Found:
    """Rounded towards zero; by 0 it is XLA's -1."""
    a, b = ranges
    if b.low > 0:
        return (a.of(-(-a.low // b.low) if a.low < 0 else 0, max(a.high, 0) // b.low),)
    return (a.of(-_magnitude(a) - 1, _magnitude(a)) if a.is_signed else _whole(a.dtype),)


def _remainder(ranges: Sequence[Range], node: Node, values: Sequence[Any]) -> _Found:
    """With the divisor's sign, or the dividend's; by 0 it is the dividend."""
    a, b = ranges
    most = max(_magnitude(b) - 1, 0)
    is_positive = (a.low if node.attributes.get("fmod") else b.low) >= 0
    found = a.of(0 if is_positive else -most, most)
    return _union([a, found]) if b.low <= 0 <= b.high else (found,)


def _clipped(ranges: Sequence[Range], node: Node, values: Sequence[Any]) -> _Found:
    x, *limits = ranges
    if len(values) > 1 and values[1] is not None:
        least = limits.pop(0)
        x = x._replace(low=max(x.low, least.low), high=max(x.high, least.high))
    for most in limits:
        x = x._replace(low=min(x.low, most.low), high=min(x.high, most.high))
    return (x,)


def _total(power: int, is_mean: bool = False) -> _Rule:
    """Sums of up to all elements, or of their magnitudes or squares."""

    def rule(ranges: Sequence[Range], node: Node, values: Sequence[Any]) -> _Found:
        x, count = ranges[0], math.prod(values[0].shape)
        if not is_size(count):
            return _any(ranges)
        most = _magnitude(x) ** max(power, 1)
        total = x.of(0, count * most) if power else x.of(0, count * x.low, count * x.high)
        return (*_union(ranges), total) if is_mean else (total,)

    return rule


_CASTS = ("Cast", "CastLike", "ConstantOfShape", "EyeLike", "Range")
MOVES = (
    *("Compress", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements"),
    *("GatherND", "Identity", "Pad", "Relu", "Reshape", "ReverseSequence", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze"),
)
_RULES: Mapping[str, _Rule | None] = {
    **dict.fromkeys(MOVES, _union),
    **dict.fromkeys(("Concat", "OneHot", "Where"), _union),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), _scattered),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extreme),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), None),
    **dict.fromkeys(("ArgMax", "ArgMin", "Shape", "Size", *_CASTS), None),
    "Abs": lambda ranges, *_: (ranges[0].of(0, _magnitude(ranges[0])),),
    **dict.fromkeys(("Add", "Sum"), _at_ends(operator.add)),
    "Clip": _clipped,
    "CumSum": _total(0),
    "Div": _quotient,
    "Max": _at_ends(max),
    "Min": _at_ends(min),
    "Mod": _remainder,
    "Mul": _at_ends(operator.mul),
    "Neg": lambda ranges, *_: (ranges[0].of(-ranges[0].low, -ranges[0].high),),
    "Pow": _any,
    "ReduceL1": _total(1),
    "ReduceMean": _total(0, is_mean=True),
    "ReduceSum": _total(0),
    "ReduceSumSquare": _total(2),
    "Sign": lambda ranges, *_: (ranges[0].of(-1 if ranges[0].is_signed else 0, 1),),
    "Sub": _at_ends(operator.sub),
}
"""The range of an operator's results; None if they have no 64 bits. Others need all bits."""
_VALUES = {
    **dict.fromkeys((*MOVES, "ReduceMax", "ReduceMin", "CumSum"), (0,)),
    **dict.fromkeys(("ReduceL1", "ReduceMean", "ReduceSum", "ReduceSumSquare"), (0,)),
    **dict.fromkeys(("Pad", "Scatter", "ScatterElements", "ScatterND"), (0, 2)),
    **dict.fromkeys(("ConstantOfShape", "EyeLike", "Range", "Shape", "Size"), ()),
    **dict.fromkeys(("Cast", "CastLike", "Pow"), (0,)),
    "OneHot": (2,),
    "Where": (1, 2),
}
_INDICES = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "MaxUnpool"), (1,)),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), (1,)),
    **dict.fromkeys(("ReverseSequence", "Scatter", "ScatterElements", "ScatterND"), (1,)),
    "Attention": (6,),
    "NonZero": (0,),
    "OneHot": (0,),
    "Pow": (1,),
    "RoiAlign": (2,),
    "RotaryEmbedding": (3,),
    "TensorScatter": (2,),
}
"""Operands that are indices, lengths or compared with 0: 32 bits hold all that they say."""
_INDEX_OUTPUTS = {
    **dict.fromkeys(("ArgMax", "ArgMin", "NonMaxSuppression", "NonZero"), (0,)),
    **dict.fromkeys(("MaxPool", "TopK"), (1,)),
}
