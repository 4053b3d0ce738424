"""Pairs of options and size classes of the two element-wise operators."""

from collections.abc import Mapping
from math import prod

from ...format.tensors import DTYPES, Tensor
from ..topics import Topic, drawn, floats, ints
from .covering import apart
from .systematic import PERIOD, SHORT, repeat, sizes_of

PARAMETERS = ("absent", "one", "axis", "each")
ALONG = [(("scale", "axis"), ("rank", "1")), (("zero point", "axis"), ("rank", "1"))]
APART = apart("with one axis, it is each element", *ALONG)
SHAPES = {
    "few": {"1": (6,), "2": (2, 3), "4": (1, 3, 1, 2)},
    "129": {"1": (129,), "2": (3, 43), "4": (1, 3, 1, 43)},
    "255": {"1": (255,), "2": (15, 17), "4": (5, 1, 3, 17)},
}


def _parameter_shape(kind: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    if kind == "each":
        return sizes
    place = next(axis for axis, size in enumerate(sizes) if size > 1) if kind == "axis" else -1
    return tuple(size if axis == place else 1 for axis, size in enumerate(sizes))


def scale(kind: str, dtype: str, sizes: tuple[int, ...]) -> Tensor:
    """Return a scale of this kind."""
    shape = _parameter_shape(kind, sizes)
    values = ((5 + 3 * (i % 7)) / 16 * (-1) ** (i // 7) for i in range(prod(shape)))
    return floats(dtype, shape, values)


def zero_point(kind: str, dtype: str, sizes: tuple[int, ...], number: int) -> Tensor | None:
    """Return a zero point of this kind."""
    if kind == "absent":
        return None
    low, high = DTYPES[dtype].low, DTYPES[dtype].high
    return drawn(dtype, _parameter_shape(kind, sizes), 970 + number, low, high)


def _parameter_sizes(count: int) -> tuple[int, ...]:
    """Return those of the input, or of one value where there is no remainder of a block."""
    return (1,) * len(sizes_of(count)) if count in (128, 256, 1000, 65_536) else sizes_of(count)


def scale_of_size(count: int) -> Tensor:
    """Return a scale for so many elements."""
    values = [(5 + 3 * (i % 7)) / 16 * (-1) ** (i // 7) for i in range(PERIOD)]
    sizes = _parameter_sizes(count)
    if prod(sizes) == 1:
        return floats("float32", sizes, values[:1])
    return repeat(floats("float32", (PERIOD,), values), sizes)


def zero_point_of_size(dtype: str, count: int, seed: int) -> Tensor:
    """Return a zero point for so many elements."""
    sizes = _parameter_sizes(count)
    if prod(sizes) == 1:
        return ints(dtype, sizes, [3])
    return repeat(drawn(dtype, (PERIOD,), seed, 0, 100), sizes)


def add_one_short(topic: Topic, count: int, given: Mapping[str, Tensor], clause: str) -> None:
    """Add parameters that lack the last column of the input."""
    if count not in SHORT:
        return
    for name, field in (("scale", "ScaleTensor"), ("zero-point", "ZeroPointTensor")):
        *rest, last = given[field].sizes
        cut = repeat(given[field], (*rest, last - 1))
        text = f"{field} of sizes {list(cut.sizes)} does not repeat to {[*rest, last]}"
        base, error = f"elements-{count}", ("sizes", field)
        topic.invalid(f"{name}-short-{count}", text, clause, base, error, {field: cut})
