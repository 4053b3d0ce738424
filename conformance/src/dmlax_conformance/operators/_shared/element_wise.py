"""ELEMENT_WISE_QUANTIZE_LINEAR and ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from fractions import Fraction

from ...format.tensors import DTYPES, Tensor, count
from ..nonzero_coordinates.meaning import coordinates
from . import floats
from .rounding import quantize


def broadcast(tensor: Tensor, sizes: tuple[int, ...]) -> list[int]:
    """Return the words repeated to `sizes`; sizes align on the right and 1 repeats."""
    offset = len(sizes) - len(tensor.sizes)
    words = []
    for index in range(count(sizes)):
        own = 0
        for size, place in zip(tensor.sizes, coordinates(index, sizes)[offset:], strict=True):
            own = own * size + (place if size > 1 else 0)
        words.append(tensor.words[own])
    return words


def element_wise_quantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: str
) -> Tensor:
    """Return clamp(round(x / scale) + zero_point)."""
    rows = zip(x.words, broadcast(scale, x.sizes), _zero_points(zero_point, x), strict=True)
    words = (
        quantize(_real(word, x.dtype), floats.decode(s, scale.dtype).value, zero, dtype)
        for word, s, zero in rows
    )
    return Tensor(dtype, x.sizes, tuple(words))


def element_wise_dequantize_linear(x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    """Return (x - zero_point) * scale, rounded once to the dtype of the scale."""
    rows = zip(x.words, broadcast(scale, x.sizes), _zero_points(zero_point, x), strict=True)
    words = (
        floats.encode(
            floats.exactly((word - zero) * floats.decode(s, scale.dtype).value), scale.dtype
        )
        for word, s, zero in rows
    )
    return Tensor(scale.dtype, x.sizes, tuple(words))


def _zero_points(zero_point: Tensor | None, x: Tensor) -> list[int]:
    return [0] * len(x.words) if zero_point is None else broadcast(zero_point, x.sizes)


def _real(word: int, dtype: str) -> floats.Real:
    if DTYPES[dtype].kind == "bits":
        return floats.decode(word, dtype)
    return floats.exactly(Fraction(word))
