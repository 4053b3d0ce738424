"""Arrays of words, which moves of elements are written with, and numbers of tensors."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..format.tensors import DTYPES, Tensor
from ..operators._shared import floats
from ..operators._shared.floats import Real

Words = npt.NDArray[Any]


def words_of(tensor: Tensor) -> Words:
    """Return the words in the tensor's sizes, as Python integers."""
    array = np.empty(len(tensor.words), object)
    array[:] = tensor.words
    return array.reshape(tensor.sizes)


def tensor_of(dtype: str, words: Words) -> Tensor:
    """Return the tensor of an array of words."""
    return Tensor(dtype, words.shape, tuple(int(word) for word in words.reshape(-1)))


@cache
def value_of(word: int, dtype: str) -> Fraction:
    """Return the number that a word stands for, which is finite."""
    return floats.decode(word, dtype).value if DTYPES[dtype].kind == "bits" else Fraction(word)


def values_of(tensor: Tensor) -> Words:
    """Return the numbers in the tensor's sizes."""
    array = np.empty(len(tensor.words), object)
    array[:] = [value_of(word, tensor.dtype) for word in tensor.words]
    return array.reshape(tensor.sizes)


def float32_of(values: Words) -> Tensor:
    """Return numbers rounded to float32."""
    flat = [word_of(value) for value in values.reshape(-1)]
    return Tensor("float32", values.shape, tuple(flat))


def word_of(value: Any) -> int:
    """Return the float32 bits of a number; a zero is positive."""
    number = value if isinstance(value, Real) else floats.exactly(Fraction(value))
    return floats.encode(number, "float32")


def integers_of(tensor: Tensor | None) -> tuple[int, ...]:
    """Return the elements of a tensor of integers."""
    return () if tensor is None else tensor.words


def combined(a: Tensor, b: Tensor, function: Callable[[Any, Any], Any]) -> Words:
    """Return a function of the numbers of two tensors, which broadcast."""
    pairs = np.broadcast_arrays(values_of(a), values_of(b))
    flat = [function(x, y) for x, y in zip(*(p.reshape(-1) for p in pairs), strict=True)]
    return filled(flat, pairs[0].shape)


def filled(items: Iterable[Any], sizes: tuple[int, ...]) -> Words:
    """Return objects in an array of the sizes."""
    listed = list(items)
    array = np.empty(len(listed), object)
    array[:] = listed
    return array.reshape(sizes)
