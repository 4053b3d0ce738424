"""JAX's primitives: a node each, or a composition of nodes."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import compat
from dmlax._core.arguments import are_same
from dmlax.onnx.export.nodes import node, window_attributes, without_dilations
from dmlax.onnx.export.writer import Tensor, Unwritable, Writer, constant, integers

_LAST = np.iinfo(np.int64).max
_MOST_STEPS = 256  # a scan is unrolled


class Site(NamedTuple):
    """An equation: where its nodes go, its parameters, and its first output."""

    w: Writer
    params: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype

    def node(self, op: str, inputs: Sequence[Tensor], **attributes: Any) -> Tensor:
        """Writes a node that gives the output."""
        return self.w.node(op, inputs, self.dtype, self.shape, **attributes)


Rule = Callable[..., Tensor | list[Tensor]]  # a function of a site and the inputs
Composed = Callable[..., Any]  # a function of a site and arrays


def _composed(function: Composed) -> Rule:
    return lambda s, *xs: s.w.run(functools.partial(function, s), *xs)


def _named(op: str, **attributes: Any) -> Rule:
    return lambda s, *xs: s.w.elementwise(op, xs, **attributes)


def _quotient(op: str, s: Site, a: Tensor, b: Tensor, **attributes: Any) -> list[Tensor]:
    """A Div or a Mod; ONNX Runtime fails by 0, and by -1 may overflow."""
    if s.dtype.kind not in "iu":
        # it divides where a file multiplies by a Div of 1, but not by a Reciprocal
        is_inverse = s.dtype == np.float32 and a.array is not None and bool((a.array == 1).all())
        if op == "Div" and is_inverse:
            return [s.w.elementwise("Reciprocal", [b])]
        return [s.w.elementwise(op, [a, b], **attributes)]
    values = [0] if s.dtype.kind == "u" else [0, -1]
    values = [x for x in values if b.array is None or bool((b.array == x).any())]
    if not values:
        return [s.w.elementwise(op, [a, b], **attributes)]
    (safe,) = s.w.run(
        lambda b: jnp.where(functools.reduce(jnp.logical_or, [b == x for x in values]), 1, b), b
    )

    def replace(a: Array, b: Array, quotient: Array) -> Array:
        if op == "Mod":
            return jnp.where(b == 0, a, quotient)
        negated = jnp.where(b == -1, -quotient, quotient) if -1 in values else quotient
        return jnp.where(b == 0, ~jnp.zeros_like(b), negated)

    return s.w.run(replace, a, b, s.w.elementwise(op, [a, safe], **attributes))


def _logical(op: str) -> Rule:
    return lambda s, *xs: s.w.elementwise(op if s.dtype == bool else f"Bitwise{op}", xs, s.dtype)


def _round(s: Site, x: Tensor) -> Tensor | list[Tensor]:
    if s.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN:
        return s.w.elementwise("Round", [x])
    return s.w.run(_round_away, x)


def _round_away(x: Array) -> Array:
    size = jnp.abs(x)
    whole = jnp.floor(size)
    return jnp.sign(x) * (whole + (size - whole >= 0.5).astype(x.dtype))


def _convert(s: Site, x: Tensor) -> Tensor | list[Tensor]:
    """Casts; floats saturate to integers, and NaN becomes 0."""
    dtype = np.dtype(s.params["new_dtype"])
    if not jnp.issubdtype(x.dtype, jnp.floating) or dtype.kind not in "iu":
        return s.w.cast(x, dtype)
    return s.w.run(functools.partial(_saturate, dtype), x)


def _saturate(dtype: np.dtype, x: Array) -> Array:
    from onnx import helper

    x = _in_float32(x)
    ends = np.iinfo(dtype)
    top = x.dtype.type(ends.max)
    if int(top) > ends.max:  # the end is no float, but the next integer is
        top = np.nextafter(top, x.dtype.type(0))
    inside = node("Clip", [jnp.where(x == x, x, 0), x.dtype.type(ends.min), top], x.dtype, x.shape)
    y = node("Cast", [inside], dtype, x.shape, to=helper.np_dtype_to_tensor_dtype(dtype))
    return y if int(top) == ends.max else jnp.where(x > top, dtype.type(ends.max), y)


def _in_float32(x: Array) -> Array:
    """Widens floats of 16 bits, so that a composition of nodes rounds to them once."""
    return x.astype(jnp.float32) if x.dtype.itemsize == 2 else x


def _select(s: Site, which: Tensor, *cases: Tensor) -> Tensor | list[Tensor]:
    if which.dtype != bool:
        return s.w.run(lambda which, *cases: _choose(which, cases), which, *cases)
    return s.w.elementwise("Where", [which, *reversed(cases)])


def _choose(which: Array, cases: Sequence[Array]) -> Array:
    """The case of a number from 0 on."""
    *cases, chosen = cases
    for place, case in reversed(list(enumerate(cases))):
        chosen = jnp.where(which <= place, case, chosen)
    return chosen


def _iota(s: Site) -> Tensor:
    axis = s.params["dimension"]
    size, ends = s.shape[axis], [constant(np.int64(value)) for value in (0, 1)]
    count = s.w.reshape(s.w.sizes([size]), ())
    places = s.w.node("Range", [ends[0], count, ends[1]], np.int64, [size])
    return s.w.broadcast(s.w.cast(places, s.dtype), s.shape, [axis])


def _slice(s: Site, x: Tensor) -> Tensor:
    starts, ends = s.params["start_indices"], s.params["limit_indices"]
    return s.w.slice(x, starts, ends, s.params["strides"] or (1,) * len(x.shape))


def _reverse(s: Site, x: Tensor) -> Tensor:
    axes = s.params["dimensions"]
    starts, ends, steps = (integers([value] * len(axes)) for value in (-1, -_LAST, -1))
    return s.node("Slice", [x, starts, ends, integers(axes), steps])


def _pad(s: Site, x: Tensor, value: Tensor) -> Tensor:
    config = s.params["padding_config"]
    if any(interior for _, _, interior in config):
        raise Unwritable("pads between elements")
    sizes = [max(0, pair[end]) for end in (0, 1) for pair in config]
    if any(sizes):
        pairs = zip(x.shape, config, strict=True)
        shape = [size + max(0, low) + max(0, high) for size, (low, high, _) in pairs]
        x = s.w.node("Pad", [x, integers(sizes), value], x.dtype, shape)
    ends = [size + min(0, high) for size, (_, high, _) in zip(x.shape, config, strict=True)]
    return s.w.slice(x, [max(0, -low) for low, _, _ in config], ends, [1] * len(x.shape))


def _identity(name: str, dtype: np.dtype) -> Any:
    """The reduction of no elements."""
    if name in ("max", "min"):
        return _end(dtype, "min" if name == "max" else "max")
    return ~np.zeros((), dtype) if name == "and" else int(name == "prod")


def _end(dtype: np.dtype, name: str) -> Any:
    """The first or the last value of a dtype."""
    if dtype == np.bool_:
        return name == "max"
    if dtype.kind in "iu":
        return getattr(np.iinfo(dtype), name)
    return np.inf if name == "max" else -np.inf


def _reduced(name: str, s: Site, x: Tensor) -> Tensor | list[Tensor]:
    """A reduction; ONNX Runtime computes sums and products of integers in float64."""
    axes = list(s.params["axes"])
    if not axes:
        return x
    if any(are_same(x.shape[axis], 0) for axis in axes):
        identity = constant(_identity(name, s.dtype), s.dtype)
        return s.w.broadcast(identity, s.shape, ())
    if s.dtype == np.bool_ and name != "xor":
        reduce = lax.reduce_min if name in ("and", "min") else lax.reduce_max
        return s.w.run(lambda x: reduce(x.astype(jnp.int32), axes).astype(bool), x)
    is_wide = s.dtype.kind in "iu" and s.dtype.itemsize == 8
    if s.dtype.kind in "biu" and name not in ("max", "min", *(() if is_wide else ("sum",))):
        return s.w.run(functools.partial(_fold_halves, name, s), x)
    op = f"Reduce{name.title()}"
    if s.w.opset >= (13 if op == "ReduceSum" else 18):  # axes are an input
        return s.node(op, [x, integers(axes)], keepdims=0)
    return s.node(op, [x], axes=axes, keepdims=0)


_HALVES = {"sum": lax.add, "prod": lax.mul, "and": lax.bitwise_and, "or": lax.bitwise_or}
_HALVES |= {"xor": lax.bitwise_xor}


def _fold_halves(name: str, s: Site, x: Array) -> Array:
    """A reduction of one half with the other, until one element is left."""
    axes = s.params["axes"]
    count = math.prod(x.shape[axis] for axis in axes)
    if not isinstance(count, int):
        raise Unwritable(f"of {x.dtype} along a dynamic size")
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    x = x.transpose(*axes, *rest).reshape(count, *s.shape)
    while count > 1:
        half = count // 2
        x = jnp.concatenate([_HALVES[name](x[:half], x[half : 2 * half]), x[2 * half :]])
        count -= half
    return x.reshape(s.shape)


def _place(op: str, s: Site, x: Tensor) -> Tensor | list[Tensor]:
    """The place of an end; JAX takes the first NaN, and ONNX Runtime only one in front."""
    (axis,) = s.params["axes"]
    found = s.node(op, [x], axis=axis, keepdims=0)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return found

    def replace(x: Array, found: Array) -> Array:
        is_nan = x != x
        first = lax.argmax(is_nan.astype(jnp.int32), axis, s.dtype)
        return jnp.where(is_nan.any(axis), first, found)

    return s.w.run(replace, x, found)


def _cumsum(s: Site, x: Tensor) -> Tensor:
    axis, reverse = (int(s.params[name]) for name in ("axis", "reverse"))
    return s.node("CumSum", [x, constant(np.int64(axis))], reverse=reverse)


def _pool(op: str, s: Site, x: Array) -> Array:
    """A window's maximum, or its sum: the mean of a padded window times its size."""
    names = ("window_dimensions", "window_strides", "window_dilation", "padding")
    options = list(zip(*(s.params[name] for name in names), strict=True))
    still = [axis for axis in range(x.ndim) if options[axis] == (1, 1, 1, (0, 0))][:2]
    if len(still) < 2 or x.ndim < 3 or any(size != 1 for size in s.params["base_dilation"]):
        raise Unwritable("has windows along all axes except one, or dilates its input")
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    if not is_float and not (op == "MaxPool" and _are_bytes(x)):
        raise Unwritable(f"of {x.dtype}")
    layout = (*still, *(axis for axis in range(x.ndim) if axis not in still))
    x = lax.transpose(x, layout)
    size, *windows = zip(*(options[axis] for axis in layout[2:]), strict=True)
    if any(max(pair) >= size or step > 1 for size, _, step, pair in options if max(pair)):
        # ONNX Runtime refuses so much padding, and gives its maximum another value than JAX
        value = jnp.asarray(_end(x.dtype, "min") if op == "MaxPool" else 0, x.dtype)
        x = lax.pad(x, value, [(0, 0, 0), (0, 0, 0), *((*pair, 0) for pair in windows[-1])])
        windows[-1] = ((0, 0),) * len(size)
    attributes = window_attributes(*windows, kernel_shape=list(size))
    if op == "AveragePool":
        attributes = without_dilations(**attributes) | {"count_include_pad": 1}
    shape = [s.shape[axis] for axis in layout]
    pooled = node(op, [x], x.dtype, shape, **attributes)
    pooled = pooled * math.prod(size) if op == "AveragePool" else pooled
    return lax.transpose(pooled, np.argsort(layout))


def _are_bytes(*xs: Array) -> bool:
    return all(x.dtype in (np.int8, np.uint8) for x in xs)


def _convolution(s: Site, x: Array, filter: Array) -> Array:
    options, (input, specification, output) = s.params, s.params["dimension_numbers"]
    if any(size != 1 for size in options["lhs_dilation"]) or options["batch_group_count"] != 1:
        raise Unwritable("dilates its input or groups its batch")
    op = "ConvInteger" if _are_bytes(x, filter) and s.dtype == np.int32 else "Conv"
    if op == "Conv" and not jnp.issubdtype(s.dtype, jnp.floating):
        raise Unwritable(f"of {x.dtype} to {s.dtype}")
    x, filter = (y if op == "ConvInteger" else y.astype(s.dtype) for y in (x, filter))
    windows = (options[name] for name in ("window_strides", "rhs_dilation", "padding"))
    attributes = window_attributes(*windows, group=options["feature_group_count"])
    operands, shape = [lax.transpose(x, input), lax.transpose(filter, specification)], s.shape
    result = node(op, operands, s.dtype, [shape[axis] for axis in output], **attributes)
    return lax.transpose(result, np.argsort(output))


def _dot(s: Site, a: Array, b: Array) -> Array:
    """A product of matrices, which have the axes of batches, of rows or columns, and of sums."""
    (of_a, of_b), (batch_a, batch_b) = s.params["dimension_numbers"]
    is_integer = _are_bytes(a, b) and s.dtype == np.int32
    a, b = (x if is_integer else x.astype(s.dtype) for x in (a, b))
    free_a = [axis for axis in range(a.ndim) if axis not in (*of_a, *batch_a)]
    free_b = [axis for axis in range(b.ndim) if axis not in (*of_b, *batch_b)]
    depth = math.prod(a.shape[axis] for axis in of_a)
    batch, rows = ([a.shape[axis] for axis in axes] for axes in (batch_a, free_a))
    rows = [math.prod(rows)] if batch or not rows else rows
    columns = math.prod(b.shape[axis] for axis in free_b)
    left = a.transpose(*batch_a, *free_a, *of_a).reshape(*batch, *rows, depth)
    right = b.transpose(*batch_b, *of_b, *free_b).reshape(*batch, depth, columns)
    if are_same(depth, 0):
        return jnp.zeros(s.shape, s.dtype)
    op = "MatMulInteger" if is_integer else "MatMul"
    return node(op, [left, right], s.dtype, [*batch, *rows, columns]).reshape(s.shape)


def _gather(s: Site, x: Array, places: Array) -> Array:
    """A Gather or a GatherND along the axes that are not taken whole."""
    numbers, sizes = s.params["dimension_numbers"], s.params["slice_sizes"]
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = (axis for axis in range(x.ndim) if axis not in gone)
    offsets = dict(zip(kept, numbers.offset_dims, strict=True))
    whole = {axis: to for axis, to in offsets.items() if are_same(sizes[axis], x.shape[axis])}
    indexed = [axis for axis in range(x.ndim) if axis not in whole]
    rows = [axis for axis in range(len(s.shape)) if axis not in whole.values()]
    inside, *coordinates = _coordinates(s, x, indexed, offsets, rows, places)
    if len(indexed) == 1:
        before = [to for axis, to in whole.items() if axis < indexed[0]]
        order = [*before, *rows, *(to for to in whole.values() if to not in before)]
        shape = [s.shape[axis] for axis in order]
        taken = node("Gather", [x, *coordinates], s.dtype, shape, axis=indexed[0])
    else:
        order = [*rows, *whole.values()]
        operands = x.transpose(*indexed, *whole), jnp.stack(coordinates, -1)
        taken = node("GatherND", operands, s.dtype, [s.shape[axis] for axis in order])
    taken = taken.transpose(np.argsort(order))
    if s.params["mode"] != lax.GatherScatterMode.FILL_OR_DROP:
        return taken
    value = np.asarray(_fill_value(s.params["fill_value"], x.dtype), x.dtype)
    return jnp.where(lax.broadcast_in_dim(inside, s.shape, rows), taken, value)


def _coordinates(
    s: Site, x: Array, indexed: list[int], offsets: dict[int, int], rows: list[int], places: Array
) -> list[Array]:
    """True for elements whose slice is inside of the array, and their places along each axis."""
    numbers, shape = s.params["dimension_numbers"], [s.shape[axis] for axis in rows]
    places = _wide_enough(places)
    batch = [place for place, axis in enumerate(rows) if axis not in numbers.offset_dims]
    inside, coordinates = jnp.ones(shape, bool), []
    for axis in indexed:
        parts = []
        if axis in numbers.start_index_map:
            start = moved = places[..., numbers.start_index_map.index(axis)]
            if s.params["mode"] != lax.GatherScatterMode.PROMISE_IN_BOUNDS:
                moved = jnp.clip(start, 0, x.shape[axis] - s.params["slice_sizes"][axis])
            inside &= lax.broadcast_in_dim(moved == start, shape, batch)
            parts.append(lax.broadcast_in_dim(moved.astype(jnp.int32), shape, batch))
        if axis in offsets:
            parts.append(lax.broadcasted_iota(jnp.int32, shape, rows.index(offsets[axis])))
        if axis in numbers.operand_batching_dims:
            place = numbers.operand_batching_dims.index(axis)
            along = batch[numbers.start_indices_batching_dims[place]]
            parts.append(lax.broadcasted_iota(jnp.int32, shape, along))
        coordinates.append(functools.reduce(jnp.add, parts))
    return [inside, *coordinates]


def _wide_enough(places: Array) -> Array:
    """Places of a dtype that holds every size."""
    return places.astype(jnp.int32) if places.dtype.itemsize < 4 else places


def _fill_value(value: Any, dtype: np.dtype) -> Any:
    if value is None and jnp.issubdtype(dtype, jnp.integer):
        return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return (np.nan if dtype.kind == "f" else True) if value is None else value


def _dynamic_slice(s: Site, x: Array, *starts: Array) -> Array:
    """Takes places from starts that are moved into the array, as JAX does."""
    for axis, size in enumerate(s.params["slice_sizes"]):
        if not are_same(size, x.shape[axis]):
            places = jnp.clip(_wide_enough(starts[axis]), 0, x.shape[axis] - size) + jnp.arange(
                size
            )
            taken = x.at[(slice(None),) * axis + (places,)]
            x = taken.get(mode="promise_in_bounds", wrap_negative_indices=False)
    return x


def _update(s: Site, x: Array, update: Array, *starts: Array) -> Array:
    """A ScatterND from starts that are moved into the array, as JAX does."""
    axes = [
        jnp.clip(_wide_enough(start), 0, size - length) + jnp.arange(length)
        for start, size, length in zip(starts, x.shape, update.shape, strict=True)
    ]
    index = jnp.stack(jnp.meshgrid(*axes, indexing="ij"), -1)
    return node("ScatterND", [x, index, update], s.dtype, s.shape)


def _tile(s: Site, x: Array) -> Array:
    repeats = s.params["reps"]
    pairs = [part for pair in zip(repeats, x.shape, strict=True) for part in pair]
    spread = lax.broadcast_in_dim(x, pairs, range(1, 2 * x.ndim, 2))
    return spread.reshape([r * size for r, size in zip(repeats, x.shape, strict=True)])


def _stack(s: Site, *xs: Array) -> Array:
    axis = s.params["axis"]
    return jnp.concatenate([jnp.expand_dims(x, axis) for x in xs], axis)


def _split(s: Site, x: Array) -> list[Array]:
    ends = np.cumsum(s.params["sizes"])
    pairs = zip((0, *ends), ends, strict=False)
    return [lax.slice_in_dim(x, int(a), int(b), axis=s.params["axis"]) for a, b in pairs]


def _unstack(s: Site, x: Array) -> list[Array]:
    axis = s.params["axis"]
    return [lax.index_in_dim(x, place, axis, keepdims=False) for place in range(x.shape[axis])]


def _pow(s: Site, x: Array) -> Array:
    power = s.params["y"]
    if power == 2 or (power > 0 and x.dtype.kind in "iu"):
        half = x if power < 4 else _pow(s._replace(params={"y": power // 2}), x)
        square = half * half if power > 1 else x
        return square * x if power % 2 and power > 1 else square
    return lax.pow(x, jnp.asarray(power, x.dtype)) if power else jnp.ones_like(x)


def _scan(s: Site, *args: Array) -> list[Array]:
    """A scan, unrolled."""
    length, reverse = s.params["length"], s.params["reverse"]
    program, num_consts, num_carry = compat.scan_of(**s.params)
    if not isinstance(length, int) or length > _MOST_STEPS:
        raise Unwritable(f"has {length} steps, and at most {_MOST_STEPS} are unrolled")
    consts, carry = args[:num_consts], list(args[num_consts:][:num_carry])
    rows: list[Any] = [None] * length
    for step in reversed(range(length)) if reverse else range(length):
        xs = (x[step] for x in args[num_consts + num_carry :])
        outputs = compat.function_of(program)(*consts, *carry, *xs)
        carry, rows[step] = outputs[:num_carry], outputs[num_carry:]
    stacked = map(jnp.stack, zip(*rows, strict=True))
    empty = (jnp.zeros((0, *x.shape), x.dtype) for x in program.out_avals[num_carry:])
    return [*carry, *(stacked if length else empty)]


def _cond(s: Site, index: Array, *args: Array) -> list[Array]:
    """All branches, and the choice of one."""
    results = (compat.function_of(branch)(*args) for branch in s.params["branches"])
    return [_choose(index, cases) for cases in zip(*results, strict=True)]


def _half(function: Callable[[Array], Array]) -> Composed:
    """A function of floats of at least 32 bits."""
    return lambda _, x: function(_in_float32(x)).astype(x.dtype)


def _expm1(x: Array) -> Array:
    """By tanh(x / 2) near 0, where exp(x) - 1 cancels."""
    tangent = jnp.tanh(x / 2)
    return jnp.where(jnp.abs(x) < 0.5, 2 * tangent / (1 - tangent), jnp.exp(x) - 1)


def _log1p(x: Array) -> Array:
    """log(y) * x / (y - 1) of y = 1 + x, whose errors of rounding cancel."""
    y = 1 + x
    return jnp.where((y == 1) | (x == jnp.inf), x, jnp.log(y) * (x / (y - 1)))


_ERFC = (
    *(-0.059842702, 0.288369805, -0.495058239, 0.286999553, -0.0326891579),
    *(0.205189347, 0.242494255, 0.282454967, 0.28208217),
)


def _erfc(x: Array) -> Array:
    """exp(-x**2) * t * P(t) with t = 1 / (1 + |x| / 2), to 5e-8 before exp rounds."""
    if x.dtype != jnp.float32:
        raise Unwritable(f"of {x.dtype}")
    size = jnp.abs(x)
    t = 1 / (1 + size / 2)
    sum = jnp.zeros_like(t)
    for coefficient in _ERFC:
        sum = sum * t + coefficient
    tail = jnp.where(size == jnp.inf, 0, t * sum * jnp.exp(-x * x))
    return jnp.where(x < 0, 2 - tail, tail)


def _less_in_order(_: Site, a: Array, b: Array) -> Array:
    """Orders zeros by their signs, and NaN after all."""
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return a < b
    zeros = (a == 0) & (b == 0) & (1 / a < 1 / b)
    return (a < b) | ((b != b) & (a == a)) | zeros


def _equal_in_order(_: Site, a: Array, b: Array) -> Array:
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return a == b
    return ((a == b) & ~((a == 0) & (1 / a != 1 / b))) | ((a != a) & (b != b))


_UNARY = "abs neg sign floor ceil exp log tanh sqrt erf sin cos tan asin acos atan sinh cosh asinh"
_BINARY = "add sub mul max min"
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual"}
_COMPARISONS |= {"gt": "Greater", "ge": "GreaterOrEqual"}
RULES: dict[str, Rule] = {
    **{name: _named(name.title()) for name in f"{_UNARY} acosh atanh {_BINARY}".split()},
    **{name: _named(op) for name, op in _COMPARISONS.items()},
    **{name: _logical(name.title()) for name in ("and", "or", "xor", "not")},
    **{
        f"reduce_{name}": functools.partial(_reduced, name)
        for name in ("sum", "max", "min", "prod", "and", "or", "xor")
    },
    "add_any": _named("Add"),
    "div": functools.partial(_quotient, "Div"),
    "rem": functools.partial(_quotient, "Mod", fmod=1),
    "pow": lambda s, x, y: s.w.elementwise("Pow", [x, y], s.dtype),
    **dict.fromkeys(("reshape", "squeeze"), lambda s, x: s.w.reshape(x, s.shape)),
    "round": _round,
    "convert_element_type": _convert,
    "select_n": _select,
    "iota": _iota,
    "dim_as_value": lambda s: s.w.cast(s.w.reshape(s.w.sizes([s.params["dim"]]), ()), s.dtype),
    "broadcast_in_dim": lambda s, x: s.w.broadcast(x, s.shape, s.params["broadcast_dimensions"]),
    "transpose": lambda s, x: s.w.transpose(x, s.params["permutation"]),
    "slice": _slice,
    "rev": _reverse,
    "pad": _pad,
    "concatenate": lambda s, *xs: s.node("Concat", xs, axis=s.params["dimension"]),
    "argmax": functools.partial(_place, "ArgMax"),
    "argmin": functools.partial(_place, "ArgMin"),
    "cumsum": _cumsum,
}
COMPOSED: dict[str, Composed] = {
    "ne": lambda _, a, b: ~(a == b),
    "square": lambda _, x: x * x,
    "one_minus_square": lambda _, x: (1 + x) * (1 - x),
    "rsqrt": _half(lambda x: 1 / jnp.sqrt(x)),
    "cbrt": _half(lambda x: jnp.sign(x) * jnp.abs(x) ** (1 / 3)),
    "log1p": _half(_log1p),
    "expm1": _half(_expm1),
    "exp2": _half(lambda x: lax.pow(jnp.full_like(x, 2), x)),
    "logistic": _half(lambda x: 1 / (1 + jnp.exp(-x))),  # a Sigmoid is absolutely precise
    "erfc": _half(_erfc),
    "lt_to": _less_in_order,
    "le_to": lambda s, a, b: _less_in_order(s, a, b) | _equal_in_order(s, a, b),
    "eq_to": _equal_in_order,
    "call_hi_primitive": lambda s, *xs: compat.expand(*xs, **s.params),
    "is_finite": lambda _, x: jnp.abs(x) < jnp.inf,
    "integer_pow": _pow,
    "clamp": lambda _, low, x, high: jnp.minimum(jnp.maximum(x, low), high),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _update,
    "gather": _gather,
    "tile": _tile,
    "stack": _stack,
    "unstack": _unstack,
    "split": _split,
    "scan": _scan,
    "cond": _cond,
    "reduce_window_max": functools.partial(_pool, "MaxPool"),
    "reduce_window_sum": functools.partial(_pool, "AveragePool"),
    "conv_general_dilated": _convolution,
    "dot_general": _dot,
}
RULES |= {name: _composed(function) for name, function in COMPOSED.items()}
