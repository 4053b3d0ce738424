"""JAX's primitives: the nodes of some, and compositions of these for the others."""

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
_MOST_STEPS = 256  # of a scan, which is unrolled


class Site(NamedTuple):
    """An equation: where its nodes go, its parameters, and its first output."""

    w: Writer
    params: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype

    def node(self, op: str, inputs: Sequence[Tensor], **attributes: Any) -> Tensor:
        """Writes a node that gives the output."""
        return self.w.node(op, inputs, self.dtype, self.shape, **attributes)


Rule = Callable[..., Tensor | list[Tensor]]  # of a site and the inputs
Composed = Callable[..., Any]  # of a site and arrays


def _composed(function: Composed) -> Rule:
    return lambda s, *xs: s.w.run(functools.partial(function, s), *xs)


def _named(op: str, **attributes: Any) -> Rule:
    return lambda s, *xs: s.w.elementwise(op, xs, **attributes)


def _divide(s: Site, a: Tensor, b: Tensor) -> list[Tensor]:
    """A quotient; ONNX Runtime divides what is multiplied by a Div of one, by a Reciprocal not."""
    is_inverse = s.dtype == np.float32 and a.array is not None and bool((a.array == 1).all())
    return [s.w.elementwise("Reciprocal", [b]) if is_inverse else s.w.elementwise("Div", [a, b])]


def _logical(op: str) -> Rule:
    return lambda s, *xs: s.w.elementwise(op if s.dtype == bool else f"Bitwise{op}", xs, s.dtype)


def _round(s: Site, x: Tensor) -> Tensor | list[Tensor]:
    if s.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN:
        return s.w.elementwise("Round", [x])
    return s.w.run(lambda x: jnp.sign(x) * jnp.floor(jnp.abs(x) + 0.5), x)


def _convert(s: Site, x: Tensor) -> Tensor:
    """Casts; floats saturate to 8 and 16 bits."""
    dtype = np.dtype(s.params["new_dtype"])
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
        ends = (constant(getattr(np.iinfo(dtype), end), x.dtype) for end in ("min", "max"))
        x = s.w.elementwise("Clip", [x, *ends])
    return s.w.cast(x, dtype)


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
    starts = [max(0, -low) for low, _, _ in config]
    ends = [size + min(0, high) for size, (_, high, _) in zip(x.shape, config, strict=True)]
    x = s.w.slice(x, starts, ends, [1] * len(x.shape))
    sizes = [max(0, pair[end]) for end in (0, 1) for pair in config]
    return s.node("Pad", [x, integers(sizes), value]) if any(sizes) else x


def _reduced(op: str, s: Site, x: Tensor) -> Tensor:
    """A reduction; the opset decides whether its axes are an input."""
    axes = list(s.params["axes"])
    if not axes:
        return x
    if s.w.opset >= (13 if op == "ReduceSum" else 18):
        return s.node(op, [x, integers(axes)], keepdims=0)
    return s.node(op, [x], axes=axes, keepdims=0)


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
    if x.dtype.kind != "f" and not (op == "MaxPool" and x.dtype.itemsize == 1):
        raise Unwritable(f"of {x.dtype}")
    layout = (*still, *(axis for axis in range(x.ndim) if axis not in still))
    size, *windows = zip(*(options[axis] for axis in layout[2:]), strict=True)
    attributes = window_attributes(*windows, kernel_shape=list(size))
    if op == "AveragePool":
        attributes = without_dilations(**attributes) | {"count_include_pad": 1}
    shape = [s.shape[axis] for axis in layout]
    pooled = node(op, [lax.transpose(x, layout)], x.dtype, shape, **attributes)
    pooled = pooled * math.prod(size) if op == "AveragePool" else pooled
    return lax.transpose(pooled, np.argsort(layout))


def _convolution(s: Site, x: Array, filter: Array) -> Array:
    options, (input, specification, output) = s.params, s.params["dimension_numbers"]
    if any(size != 1 for size in options["lhs_dilation"]) or options["batch_group_count"] != 1:
        raise Unwritable("dilates its input or groups its batch")
    op = "ConvInteger" if x.dtype.itemsize == 1 and s.dtype == np.int32 else "Conv"
    if op == "Conv" and x.dtype.kind != "f":
        raise Unwritable(f"of {x.dtype} to {s.dtype}")
    windows = (options[name] for name in ("window_strides", "rhs_dilation", "padding"))
    attributes = window_attributes(*windows, group=options["feature_group_count"])
    operands, shape = [lax.transpose(x, input), lax.transpose(filter, specification)], s.shape
    result = node(op, operands, s.dtype, [shape[axis] for axis in output], **attributes)
    return lax.transpose(result, np.argsort(output))


def _dot(s: Site, a: Array, b: Array) -> Array:
    """A product of matrices, which have the axes of batches, of rows or columns, and of sums."""
    (of_a, of_b), (batch_a, batch_b) = s.params["dimension_numbers"]
    is_integer = a.dtype.itemsize == 1 and s.dtype == np.int32
    a, b = (x if is_integer else x.astype(s.dtype) for x in (a, b))
    free_a = [axis for axis in range(a.ndim) if axis not in (*of_a, *batch_a)]
    free_b = [axis for axis in range(b.ndim) if axis not in (*of_b, *batch_b)]
    depth = math.prod(a.shape[axis] for axis in of_a)
    batch, rows = ([a.shape[axis] for axis in axes] for axes in (batch_a, free_a))
    rows = [math.prod(rows)] if batch or not rows else rows
    columns = math.prod(b.shape[axis] for axis in free_b)
    left = a.transpose(*batch_a, *free_a, *of_a).reshape(*batch, *rows, depth)
    right = b.transpose(*batch_b, *of_b, *free_b).reshape(*batch, depth, columns)
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


def _fill_value(value: Any, dtype: np.dtype) -> Any:
    if value is None and jnp.issubdtype(dtype, jnp.integer):
        return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return (np.nan if dtype.kind == "f" else True) if value is None else value


def _dynamic_slice(s: Site, x: Array, *starts: Array) -> Array:
    """Takes places from starts that are moved into the array, as JAX does."""
    for axis, size in enumerate(s.params["slice_sizes"]):
        if not are_same(size, x.shape[axis]):
            places = jnp.clip(starts[axis], 0, x.shape[axis] - size) + jnp.arange(size)
            taken = x.at[(slice(None),) * axis + (places,)]
            x = taken.get(mode="promise_in_bounds", wrap_negative_indices=False)
    return x


def _update(s: Site, x: Array, update: Array, *starts: Array) -> Array:
    """A ScatterND from starts that are moved into the array, as JAX does."""
    axes = [
        jnp.clip(start, 0, size - length) + jnp.arange(length)
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
    return x * x if s.params["y"] == 2 else lax.pow(x, jnp.asarray(s.params["y"], x.dtype))


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
    return [*carry, *map(jnp.stack, zip(*rows, strict=True))]


def _cond(s: Site, index: Array, *args: Array) -> list[Array]:
    """All branches, and the choice of one."""
    results = (compat.function_of(branch)(*args) for branch in s.params["branches"])
    return [_choose(index, cases) for cases in zip(*results, strict=True)]


_UNARY = "abs neg sign floor ceil exp log tanh sqrt erf sin cos tan asin acos atan sinh cosh asinh"
_BINARY = "add sub mul div pow max min"
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual"}
_COMPARISONS |= {"gt": "Greater", "ge": "GreaterOrEqual"}
RULES: dict[str, Rule] = {
    **{name: _named(name.title()) for name in f"{_UNARY} acosh atanh {_BINARY}".split()},
    **{name: _named(op) for name, op in _COMPARISONS.items()},
    **{name: _logical(name.title()) for name in ("and", "or", "xor", "not")},
    **{
        f"reduce_{name}": functools.partial(_reduced, f"Reduce{name.title()}")
        for name in ("sum", "max", "min", "prod")
    },
    "add_any": _named("Add"),
    "div": _divide,
    "logistic": _named("Sigmoid"),
    **dict.fromkeys(("reshape", "squeeze"), lambda s, x: s.w.reshape(x, s.shape)),
    "rem": _named("Mod", fmod=1),
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
    "argmax": lambda s, x: s.node("ArgMax", [x], axis=s.params["axes"][0], keepdims=0),
    "argmin": lambda s, x: s.node("ArgMin", [x], axis=s.params["axes"][0], keepdims=0),
    "cumsum": _cumsum,
}
_COMPOSED: dict[str, Composed] = {
    "ne": lambda _, a, b: ~(a == b),
    "square": lambda _, x: x * x,
    "one_minus_square": lambda _, x: 1 - x * x,  # from JAX 0.12
    "rsqrt": lambda _, x: 1 / jnp.sqrt(x),
    "cbrt": lambda _, x: jnp.sign(x) * jnp.abs(x) ** (1 / 3),
    "log1p": lambda _, x: jnp.log(x + 1),
    "expm1": lambda _, x: jnp.exp(x) - 1,
    "exp2": lambda _, x: lax.pow(jnp.full_like(x, 2), x),
    "erfc": lambda _, x: 1 - lax.erf(x),
    "is_finite": lambda _, x: jnp.abs(x) < jnp.inf,
    "integer_pow": _pow,
    "clamp": lambda _, low, x, high: jnp.minimum(jnp.maximum(x, low), high),
    "reduce_and": lambda s, x: x.astype(jnp.int32).min(s.params["axes"]).astype(bool),
    "reduce_or": lambda s, x: x.astype(jnp.int32).max(s.params["axes"]).astype(bool),
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
RULES |= {name: _composed(function) for name, function in _COMPOSED.items()}
