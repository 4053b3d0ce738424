"""Where a window lies: effective kernel sizes, output sizes and taps, in plain integers."""

import itertools
from collections.abc import Iterator


def dilated(kernel: int, dilation: int) -> int:
    """The cells that a dilated kernel spans."""
    return (kernel - 1) * dilation + 1


def output_size(padded: int, span: int, stride: int) -> int:
    """How many windows of `span` cells fit `padded` cells, `stride` apart."""
    return (padded - span) // stride + 1


def taps(kernel: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every kernel position, row-major: the order in which a packed filter holds them."""
    return itertools.product(*map(range, kernel))


def tap_slices(
    tap: tuple[int, ...],
    output: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[slice, ...]:
    """The padded input's cells that one tap meets, an axis each."""
    return tuple(
        slice(k * d, k * d + (o - 1) * s + 1, s)
        for k, o, s, d in zip(tap, output, strides, dilations, strict=True)
    )
