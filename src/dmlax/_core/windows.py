"""Windows in plain integers: dilated kernel sizes, output sizes and taps."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from dmlax._core.arguments import MOST_ELEMENTS, MOST_SIZE, Aval, Rules

_T = TypeVar("_T")


def dilated_size(kernel: int, dilation: int) -> int:
    """The pixels that a dilated kernel spans."""
    return (kernel - 1) * dilation + 1


def output_size(padded: int, span: int, stride: int) -> int:
    """The number of windows of `span` pixels, `stride` apart, that fit `padded` pixels."""
    return (padded - span) // stride + 1


def same_padding(size: int, span: int, stride: int) -> int:
    """The pixels that "SAME" adds, for a window at every stride of the input; may be negative."""
    return (-(-size // stride) - 1) * stride + span - size


def check_axis(rules: Rules, input: Aval, padded: int, stride: int, dilation: int) -> None:
    """Refuses windows along an axis whose pixels int32 does not count."""
    text = f"is {input}, has {padded} pixels on an axis with its padding"
    rules.expect_at_most(MOST_SIZE, padded, "InputTensor", text)
    rules.expect_at_most(MOST_SIZE, stride, "Strides", f"is {stride}")
    rules.expect_at_most(MOST_SIZE, dilation, "Dilations", f"is {dilation}")


def check_padded(
    rules: Rules, input: Aval, axes: Sequence[int], padding: Sequence[tuple[int, int]]
) -> None:
    """Refuses an input that padding makes larger than any tensor."""
    sizes = list(input.shape)
    for axis, (start, end) in zip(axes, padding, strict=True):
        sizes[axis] += start + end
    elements = math.prod(sizes)
    text = f"is {input}, has {elements} elements with its padding"
    rules.expect_at_most(MOST_ELEMENTS, elements, "InputTensor", text)


def taps(kernel: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every kernel position, row-major: the order in which a packed filter holds them."""
    return itertools.product(*map(range, kernel))


def replace_axes(
    values: Sequence[_T], axes: Iterable[int], others: Iterable[Any]
) -> tuple[_T, ...]:
    """The values of every axis, with others on some axes."""
    result = list(values)
    for axis, value in zip(axes, others, strict=True):
        result[axis] = value
    return tuple(result)


def two_axes(values: Sequence[_T], height: _T) -> tuple[_T, _T]:
    """The values of a height and a width; a single axis is a width."""
    return (values[0], values[1]) if len(values) == 2 else (height, values[0])


def tap_slices(
    tap: tuple[int, ...],
    output: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[slice, ...]:
    """The padded input's pixels that one tap multiplies, a slice per axis."""
    return tuple(
        slice(k * d, k * d + (o - 1) * s + 1, s)
        for k, o, s, d in zip(tap, output, strides, dilations, strict=True)
    )
