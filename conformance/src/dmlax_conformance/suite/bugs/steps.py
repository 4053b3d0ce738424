"""Helpers that the steps of all operators share."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...format.vectors import Request
from ...operators._shared import floats
from ...operators._shared.floats import Real

Array = npt.NDArray[Any]
Sizes = tuple[int, ...]
Outputs = Mapping[str, Array]


class Call(NamedTuple):
    """One call or desc: every tensor in its logical sizes."""

    attributes: Mapping[str, Any]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Request]


def words(array: Array) -> list[int]:
    """Return the elements: bit patterns of floats, else values."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.kind == "f":
        flat = flat.view(f"uint{8 * array.dtype.itemsize}")
    found: list[int] = flat.tolist()
    return found


@cache
def real(word: int, dtype: str) -> Real:
    """Return what one element stands for."""
    if dtype in floats.FORMATS:
        return floats.decode(word, dtype)
    return floats.exactly(Fraction(word))


def reals(array: Array) -> list[Real]:
    """Return what each element stands for, row-major."""
    return [real(word, array.dtype.name) for word in words(array)]


def fractions(scales: Array) -> list[Fraction]:
    """Return each scale as a fraction; one that a bug misreads as not finite is 1."""
    return [number.value if number.kind == "finite" else Fraction(1) for number in reals(scales)]


def of_float(value: Any) -> Real:
    """Return a NumPy float as an exact number."""
    return reals(np.asarray(value))[0]


def to_float(value: Fraction, dtype: str) -> Any:
    """Return the NumPy float nearest to a fraction."""
    bits = floats.encode(floats.exactly(value), dtype)
    width = np.dtype(dtype).itemsize * 8
    return np.array(bits, f"uint{width}").view(dtype)[()]
