"""Arrays of words and of numbers, and comparing the words of tensors."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..format.tensors import DTYPES, Tensor, to_numpy
from ..oracle import exact as floats
from ..oracle.exact import Real

Words = npt.NDArray[Any]


def filled(items: Iterable[Any], sizes: tuple[int, ...]) -> Words:
    """Return objects in an array of the sizes."""
    listed = list(items)
    array = np.empty(len(listed), object)
    array[:] = listed
    return array.reshape(sizes)


def words_of(tensor: Tensor) -> Words:
    """Return the words in the tensor's sizes, as Python integers."""
    return filled(tensor.words, tensor.sizes)


def tensor_of(dtype: str, words: Words) -> Tensor:
    """Return the tensor of an array of words."""
    return Tensor(dtype, words.shape, tuple(int(word) for word in words.reshape(-1)))


@cache
def value_of(word: int, dtype: str) -> Fraction:
    """Return the number that a word stands for, which is finite."""
    return floats.decode(word, dtype).value if DTYPES[dtype].kind == "bits" else Fraction(word)


def values_of(tensor: Tensor) -> Words:
    """Return the numbers in the tensor's sizes."""
    return filled((value_of(word, tensor.dtype) for word in tensor.words), tensor.sizes)


def float32_of(values: Words) -> Tensor:
    """Return numbers rounded to float32."""
    return Tensor("float32", values.shape, tuple(map(word_of, values.flat)))


def word_of(value: Any) -> int:
    """Return the float32 bits of a number; a zero is positive."""
    number = value if isinstance(value, Real) else floats.exactly(Fraction(value))
    return floats.encode(number, "float32")


def number_of(tensor: Tensor) -> Fraction:
    """Return the number of a tensor of one element."""
    return value_of(tensor.words[0], tensor.dtype)


def combined(function: Callable[[Any, Any], Any], a: Tensor, b: Tensor) -> Words:
    """Return a function of the numbers of two tensors, which broadcast."""
    x, y = np.broadcast_arrays(values_of(a), values_of(b))
    return filled(map(function, x.flat, y.flat), x.shape)


def is_finite(word: int, dtype: str) -> bool:
    """Say whether a word stands for a finite number."""
    return DTYPES[dtype].kind != "bits" or floats.decode(word, dtype).kind == "finite"


def is_near(dtype: str, bound: Fraction, have: int, want: int) -> bool:
    """Say whether two words are finite numbers within a bound."""
    return is_finite(have, dtype) and abs(value_of(have, dtype) - value_of(want, dtype)) <= bound


def far_apart(have: Tensor, want: Tensor, bound: Fraction | None) -> list[int]:
    """Return the places where tensors of the same sizes differ, by more than a bound if any."""
    return [
        place
        for place, (x, y) in enumerate(zip(have.words, want.words, strict=True))
        if x != y and (bound is None or not is_near(want.dtype, bound, x, y))
    ]


def shown(tensor: Tensor, place: int) -> str:
    """Return the text of an element."""
    return repr(to_numpy(tensor).flat[place].item())
