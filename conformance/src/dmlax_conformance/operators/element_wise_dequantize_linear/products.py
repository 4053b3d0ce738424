"""Products of a difference and a scale: exact, rounded once, and of arithmetic that errs."""

from functools import cached_property
from typing import Any

import numpy as np

from ...format.tensors import DTYPES
from .._shared.cross import Array
from .._shared.floats import FORMATS, Format

MANTISSA = 24  # bits of a scale, of which FLOAT16 leaves some 0


class Products:
    """The products of a call: which of them are rounded how, and which are easily done wrong.

    Arrays `x`, `zero_point` and `scale` have the same elements; the first two are integers.
    """

    x: Array
    zero_point: Array
    scale: Array
    source: str

    @property
    def output(self) -> str:
        """The data type of the output."""
        return str(self.scale.dtype.name)

    @property
    def form(self) -> Format:
        """The widths of the output's fields."""
        return FORMATS[self.output]

    @cached_property
    def difference(self) -> Array:
        """The difference of input and zero point, in 64 bits."""
        return np.asarray(self.x.astype(np.int64) - self.zero_point)

    @cached_property
    def result(self) -> Array:
        """The exact product, rounded once."""
        return self.rounded(self.difference)

    @cached_property
    def rounding(self) -> tuple[Array, Array, Array]:
        """Integers of each product: what is kept, what is lost, and half of the last place."""
        kept, lost, half, _ = self._split(self.difference)
        return kept, lost, half

    def rounded(self, integers: Array) -> Array:
        """Return the products of integers and the scale, rounded once."""
        kept, lost, half, exponent = self._split(integers)
        is_tie = (lost == half) & (lost > 0)
        magnitude = kept + ((lost > half) | (is_tie & (kept % 2 == 1)))
        with np.errstate(all="ignore"):
            value = np.ldexp(np.sign(integers) * np.sign(self.scale) * magnitude, exponent)
            return np.asarray(np.where(integers == 0, 0, value).astype(self.output))

    def product_errs(self, dtype: str) -> Array:
        """Return where a product in this float type, then rounded, is another number."""
        with np.errstate(all="ignore"):
            product = self.difference.astype(dtype) * self.scale.astype(dtype)
            return np.asarray(product.astype(self.output) != self.result)

    def integers_first_err(self, dtype: str) -> Array:
        """Return where integers that are rounded to this float type have another difference."""
        with np.errstate(all="ignore"):
            x, zero_point = (v.astype(dtype) for v in (self.x, self.zero_point))
            is_finite = np.isfinite(x) & np.isfinite(zero_point)
            apart = x.astype(np.float64) - zero_point.astype(np.float64)
            difference = np.where(is_finite, apart, 0).astype(np.int64)
        return np.asarray(is_finite & (self.rounded(difference) != self.result))

    def products_first_err(self) -> Array:
        """Return where rounded products of input and zero point have another difference."""
        x, zero_point = (self.rounded(v.astype(np.int64)) for v in (self.x, self.zero_point))
        with np.errstate(all="ignore"):
            is_finite = np.isfinite(x) & np.isfinite(zero_point)
            return np.asarray(is_finite & (x - zero_point != self.result))

    def leaves(self, low: int, high: int) -> Array:
        """Return where the difference is not in a range."""
        return np.asarray((self.difference < low) | (self.difference > high))

    def leaves_own_type(self) -> Array:
        """Return where the difference is not in the range of the input's data type."""
        return self.leaves(DTYPES[self.source].low, DTYPES[self.source].high)

    def _split(self, integers: Array) -> tuple[Array, Array, Array, Array]:
        """Split the magnitudes of products where the output ends; return its last exponent too."""
        mantissa, exponent = np.frexp(np.abs(self.scale.astype(np.float64)))
        exponent = exponent - MANTISSA
        magnitude = np.abs(integers) * (mantissa * 2**MANTISSA).astype(np.int64)
        highest = exponent + _bit_length(magnitude) - 1
        last_place = np.maximum(highest - self.form.fraction, self.form.smallest)
        shift = np.maximum(last_place - exponent, 0).astype(np.int64)
        kept = magnitude >> shift
        return kept, magnitude - (kept << shift), (np.int64(1) << shift) >> 1, exponent + shift


def _bit_length(magnitude: Array) -> Any:
    """Return the bit lengths of integers up to 62 bits, which a float may round up."""
    _, bits = np.frexp(magnitude.astype(np.float64))
    return bits - (magnitude < np.int64(1) << np.maximum(bits - 1, 0).astype(np.int64))
