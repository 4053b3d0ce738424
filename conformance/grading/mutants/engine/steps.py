"""Helpers that the steps of all operators share."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dmlax_conformance.format.tensors import from_numpy
from dmlax_conformance.format.vectors import Request
from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.exact import Real

Array = npt.NDArray[Any]
Sizes = tuple[int, ...]
Outputs = Mapping[str, Array]


class Call(NamedTuple):
    """One call or desc: every tensor in its logical sizes."""

    attributes: Mapping[str, Any]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Request]


@cache
def real(word: int, dtype: str) -> Real:
    """Return what one element stands for."""
    if dtype in floats.FORMATS:
        return floats.decode(word, dtype)
    return floats.exactly(Fraction(word))


def reals(array: Array) -> list[Real]:
    """Return what the elements stand for, row-major."""
    return [real(word, array.dtype.name) for word in from_numpy(array).words]


def fractions(scales: Array) -> list[Fraction]:
    """Return the scales as fractions; one that a mutant misreads as not finite is 1."""
    return [number.value if number.kind == "finite" else Fraction(1) for number in reals(scales)]


def of_float(value: Any) -> Real:
    """Return a NumPy float as an exact number."""
    return reals(np.asarray(value))[0]


def to_float(value: Fraction, dtype: str) -> Any:
    """Return the NumPy float nearest to a fraction."""
    bits = floats.encode(floats.exactly(value), dtype)
    width = np.dtype(dtype).itemsize * 8
    return np.array(bits, f"uint{width}").view(dtype)[()]
