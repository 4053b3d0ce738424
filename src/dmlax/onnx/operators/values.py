"""Values known on the host, and values on the device.

A size that is an `int` here may be one of JAX's symbolic sizes, as in `Array.shape`.
"""

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._core import ieee
from dmlax.errors import UnsupportedError
from dmlax.onnx import budget

_Array = TypeVar("_Array", Array, np.ndarray)
Tensor = Array | np.ndarray
"""An operand; a constant of the file is one of the model's params."""


def has_x64() -> bool:
    """True if JAX has 64-bit types."""
    return bool(jax.dtypes.canonicalize_dtype(np.int64) == np.int64)


_SYMBOL_BYTES = 1 << 10  # the memory of a symbolic size, a Python object of JAX
_MOST_SYMBOLS = 1 << 10  # symbolic sizes in one known value
_MOST_TERMS = 10_000  # terms in the product of a tensor's sizes
_MOST_CHARACTERS = 1000  # characters in a symbolic size
_MOST_LIMITS = 4  # calls of max and min in a symbolic size; each doubles JAX's time
DTYPES = {  # ONNX's numbers
    number: np.dtype(getattr(jnp, name))
    for number, name in {
        1: "float32",
        2: "uint8",
        3: "int8",
        4: "uint16",
        5: "int16",
        6: "int32",
        7: "int64",
        9: "bool_",
        10: "float16",
        11: "float64",
        12: "uint32",
        13: "uint64",
        16: "bfloat16",
        17: "float8_e4m3fn",
        18: "float8_e4m3fnuz",
        19: "float8_e5m2",
        20: "float8_e5m2fnuz",
        21: "uint4",
        22: "int4",
        25: "uint2",
        26: "int2",
    }.items()
}
NEEDS_X64 = 'float64 on a device needs x64: jax.config.update("jax_enable_x64", True)'
NARROWED = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.uint64): np.dtype(np.uint32)}
"""The dtypes on the device of integers that are 64 bits wide in a file, if they fit."""


class FloatSizes(np.ndarray):
    """Symbolic sizes that were converted to float32, for a Range."""


@dataclass(frozen=True)
class Float64:
    """A tensor on the device that is float64 in the file, while JAX has no float64.

    Attributes:
      array: the float32 that each element is.
      is_rounded: True if an element is no float32, and rounds to that of `array`.
    """

    array: Array
    is_rounded: bool = False

    @property
    def dtype(self) -> np.dtype:
        """The dtype in the file."""
        return np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.array.shape


def is_known(value: object) -> TypeGuard[np.ndarray]:
    """True for an array of NumPy: a constant, or a value computed from shapes during tracing."""
    return isinstance(value, np.ndarray)


def expect_memory(dtype: DTypeLike, *sizes: int) -> None:
    """Counts a known value against the file's budget before an operator makes it.

    Sizes of 0 and below count as 1, because NumPy tiles one axis after another. A value whose
    shape is symbolic is on the device, and not counted.

    Raises:
      UnsupportedError: the value does not fit.
    """
    if not all(map(is_size, sizes)):
        return
    item, count = np.dtype(dtype).itemsize, math.prod(max(int(size), 1) for size in sizes)
    if np.dtype(dtype).hasobject:
        item = _SYMBOL_BYTES
        if count > _MOST_SYMBOLS:
            text = f"its value has {count} symbolic sizes"
            raise UnsupportedError(f"{text}, expected at most {_MOST_SYMBOLS}: make them static")
    try:
        budget.spend(item * count)
    except budget.OverBudget as error:
        text = f"its value, known while a program is traced, {error}"
        text += "; store it as an initializer, or compute it from an input"
        raise UnsupportedError(text) from None


# The functions in symbolic sizes.
SIZE_FUNCTIONS = ("floordiv", "max", "min", "mod", "non_negative")


def size_names(text: str) -> list[str]:
    """The names in a symbolic size."""
    return [name for name in re.findall(r"[A-Za-z_]\w*", text) if name not in SIZE_FUNCTIONS]


def with_short_names(text: str) -> str:
    """A symbolic size or a comparison as it would be with names of one letter."""
    names = "|".join(map(re.escape, {*size_names(text)}))
    return re.sub(rf"\b(?:{names})\b", "n", text) if names else text


def why_costly(size: str) -> str | None:
    """The reason for which JAX would compute with a symbolic size for long, or None."""
    size = with_short_names(size)
    if len(size) > _MOST_CHARACTERS:
        return f"has {len(size)} characters, expected at most {_MOST_CHARACTERS}"
    if len(re.findall(r"\b(?:max|min)\b", size)) > _MOST_LIMITS:
        return f"has more than {_MOST_LIMITS} max and min"
    return "has a power of more than 99" if re.search(r"\^\s*\w{3}", size) else None


def expect_simple_sizes(value: object) -> None:
    """Refuses tensors of very many axes, and symbolic sizes that slow JAX down.

    Raises:
      UnsupportedError: the tensor's shape, or a known value of sizes, costs too much.
    """
    shape = getattr(value, "shape", ())
    if len(shape) > budget.MAXIMUM_RANK:
        text = f"its output has rank {len(shape)}, expected at most {budget.MAXIMUM_RANK}"
        raise UnsupportedError(text)
    expect_simple_product(shape)
    if is_known(value) and value.dtype == object:
        for size in value.ravel():
            expect_simple_product([size])


class UndecidedSizes(UnsupportedError):
    """An operator depends on a fact that dynamic sizes leave open.

    Attributes:
      fact: a comparison of two sizes, as JAX's constraints are written.
    """

    def __init__(self, fact: str) -> None:
        super().__init__(f"it needs sizes with {fact}: give input_shapes static sizes", "sizes")
        self.fact = fact


class NotKnown(UnsupportedError):
    """A value of which a shape depends is not known while a program is traced."""


def undecided(error: BaseException | None) -> UndecidedSizes | None:
    """The error that names the fact that JAX could not decide, and the remedy; or None."""
    if isinstance(error, UndecidedSizes) or error is None:
        return error
    inconclusive = isinstance(error, jax.errors.InconclusiveDimensionOperation)
    if inconclusive and (comparison := _COMPARISON.search(str(error))):
        left, operator, right = comparison.groups()
        return UndecidedSizes(f"{left} {_USUAL[operator]} {right}")
    return undecided(error.__cause__)


_COMPARISON = re.compile(r"comparison '([^']+)' ([<>]=?) '([^']+)'")  # a part of JAX's message
_USUAL = {">=": ">=", "<=": "<=", "<": ">=", ">": "<="}  # what is true of most calls


def expect_at_least(size: int, least: int) -> None:
    """Refuses a symbolic size that may be too small.

    Raises:
      UndecidedSizes: the size is smaller in some call.
    """
    try:
        is_enough = size >= least
    except jax.errors.InconclusiveDimensionOperation:
        is_enough = False
    if not is_enough:
        raise UndecidedSizes(f"{size} >= {least}")


def expect_equal_sizes(one: int, other: int) -> None:
    """Refuses two sizes that may differ if one is symbolic.

    Raises:
      UndecidedSizes: the sizes differ in some call.
    """
    if one == other or (is_size(one) and is_size(other)):
        return
    for is_left in (str.isidentifier, _is_product):
        for left, right in ((one, other), (other, one)):
            names = re.findall(r"\w+", str(left))
            if is_left(str(left)) and not {*names} & {*re.findall(r"\w+", str(right))}:
                raise UndecidedSizes(f"{left} == {right}")
    for text in map(str, (one, other)):  # a slice up to a number compares this way
        if least := re.search(r"\bmin\((\w+), (\d+)\)", text):
            raise UndecidedSizes(f"{least[1]} >= {least[2]}")
    expect_at_least(one, other)
    expect_at_least(other, one)


def _is_product(size: str) -> bool:
    return all(map(str.isidentifier, size.split("*")))


def is_size(value: object) -> bool:
    """True for a number, and False for a symbolic size."""
    return isinstance(value, int | np.integer)


def expect_broadcast(*shapes: Sequence[int]) -> None:
    """Refuses shapes whose symbolic sizes may not broadcast.

    Raises:
      UndecidedSizes: two sizes of an axis may differ, and none of them is 1.
    """
    for sizes in itertools.zip_longest(*map(reversed, shapes), fillvalue=1):
        wider = [size for size in sizes if not (is_size(size) and size == 1)]
        for size in wider[1:]:
            expect_equal_sizes(size, wider[0])


def expect_product(a: Tensor, b: Tensor) -> None:
    """Refuses matrices whose symbolic sizes may not fit.

    Raises:
      UndecidedSizes: the columns of a may not be the rows of b, or the batches not broadcast.
    """
    for columns, rows in zip(a.shape[-1:], b.shape[-2:], strict=False):
        expect_equal_sizes(columns, rows)
    expect_broadcast(a.shape[:-2], b.shape[:-2])


def larger_size(one: int, other: int) -> int:
    """The larger of two sizes; max(c - n, d) is max(n + d, c) - n, of which sums with n cancel.

    JAX takes seconds to compare sizes in which max(c - n, d) and max(n, c) stay.
    """
    for size, limit in ((one, other), (other, one)):
        if is_size(limit) and (constant := _CONSTANT_LESS.match(str(size))):
            rest = int(constant[1]) - size
            return jax.core.max_dim(rest + limit, int(constant[1])) - rest
    return jax.core.max_dim(one, other)


_CONSTANT_LESS = re.compile(r"- .* \+ (\d+)$")  # a symbolic size as JAX writes it


def expect_simple_product(sizes: Iterable[object]) -> None:
    """Refuses sizes whose product has very many terms."""
    terms = 1
    for size in sizes:
        if is_size(size):
            continue
        text = str(size)
        if why := why_costly(text):
            text = f"{text[:60]}..." if text[60:] else text
            raise UnsupportedError(f"its size {text} {why}: give input_shapes static sizes")
        terms *= 1 + text.count(" + ") + text.count(" - ")
    if terms > _MOST_TERMS:
        text = f"the product of its sizes has {terms} terms, expected at most {_MOST_TERMS}"
        raise UnsupportedError(f"{text}: give input_shapes static sizes")


@overload
def to_device(value: Tensor) -> Array: ...
@overload
def to_device(value: object) -> Any: ...
def to_device(value: object) -> object:
    """Converts a known value to JAX; 64-bit integers must fit 32 bits unless x64 is on."""
    if isinstance(value, Float64):
        raise UnsupportedError(NEEDS_X64, "data_type", "data type")
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == object:  # sizes, some of them symbolic
        sizes = jnp.stack([jnp.asarray(size) for size in value.ravel()]).reshape(value.shape)
        return sizes.astype(np.float32) if isinstance(value, FloatSizes) else sizes
    value = native(value)
    return jnp.asarray(value if has_x64() else budget.compute_once(narrow, value))


def native(array: _Array) -> _Array:
    """An array with the machine's order of bytes; JAX's cached programs read bytes as they are."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def narrow(array: np.ndarray) -> np.ndarray:
    """Narrows integers of 64 bits to JAX's width; refuses a value that does not fit."""
    if has_x64() or array.dtype not in (*NARROWED, np.float64):
        return array
    if array.dtype == np.float64:
        raise UnsupportedError(NEEDS_X64, "data_type", "data type")
    dtype = NARROWED[array.dtype]
    if not fits(array, dtype):
        limits = np.iinfo(dtype)
        misfit = array[(array < limits.min) | (array > limits.max)][0]
        text = f"the value {int(misfit)} does not fit {dtype.name}"
        raise UnsupportedError(f"{text}, and x64 is off", "value", "constant")
    expect_memory(dtype, array.size)
    return array.astype(dtype)


def fits(array: np.ndarray, dtype: np.dtype | None) -> bool:
    """True if a dtype of integers holds every element of an array, or is None."""
    if dtype is None or not array.size:
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= array.min() and array.max() <= limits.max)


def integers(array: np.ndarray) -> list[int]:
    """Known integers, some of them perhaps symbolic sizes, as a list."""
    return [size if array.dtype == object else int(size) for size in array.ravel()]


def sizes_of(value: np.ndarray) -> list[int]:
    """A known shape, or known axes, as a list; refuses more integers than a tensor has axes."""
    if value.size > budget.MAXIMUM_RANK:
        text = f"its shape or axes are {value.size} integers, expected at most"
        raise UnsupportedError(f"{text} {budget.MAXIMUM_RANK}")
    return integers(value)


def sizes_array(sizes: Sequence[int]) -> np.ndarray:
    """Sizes as an int64 array, or as one of objects where some are symbolic."""
    if all(map(is_size, sizes)):
        return np.asarray(sizes, np.int64)
    array = np.empty(len(sizes), object)
    array[:] = sizes
    return array


def by_channel(values: Tensor, rank: int) -> Array:
    """Values of channels on the device, in a shape that broadcasts to images of a rank."""
    return to_device(values).reshape((1, -1) + (1,) * (rank - 2))


def by_first_axis(values: _Array, rank: int) -> _Array:
    """Values along the first axis, in a shape that broadcasts to tensors of a rank."""
    return values.reshape((-1,) + (1,) * (rank - 1))


def device_dtype(dtype: DTypeLike) -> np.dtype:
    """The dtype that JAX has for one of the file's: int32 for int64 unless x64 is on."""
    dtype = np.dtype(dtype)
    if dtype == np.float64 and not has_x64():
        raise UnsupportedError(NEEDS_X64, "data_type", "data type")
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def is_float8(dtype: DTypeLike) -> bool:
    """True for the floats of 8 bits."""
    return str(np.dtype(dtype).name).startswith("float8")


def bits_of(dtype: DTypeLike) -> int:
    """The bits of an element in a file, which packs the dtypes of 2 and 4 bits."""
    name = np.dtype(dtype).name
    return int(name[-1]) if name in NARROW else np.dtype(dtype).itemsize * 8


NARROW = ("uint4", "int4", "uint2", "int2")


def convert(x: Tensor, dtype: np.dtype, saturate: bool = True) -> Array:
    """Converts as ONNX Runtime's Cast does; `saturate` clamps conversions to floats of 8 bits."""
    x, is_float = to_device(x), jnp.issubdtype(x.dtype, np.floating)
    if is_float8(dtype):
        wide = x.astype(np.float32)
        largest = np.float32(jnp.finfo(dtype).max)  # type: ignore[no-untyped-call]
        wide = jnp.clip(wide, -largest, largest) if saturate else wide
        return ieee.narrow(wide, dtype)
    if dtype.name in _BY_INT32 and (is_float or dtype.name in NARROW):  # then the lowest bits
        if is_float:
            x = x.astype(np.float32)
            wide = jnp.trunc(x)
            if dtype.name in NARROW:  # a half is rounded away from 0
                wide = wide + jnp.where(abs(x - wide) >= 0.5, jnp.sign(x), np.float32(0))
            x = jnp.where(abs(wide) < 2.0**31, wide, np.float32(-(2.0**31)))
        return x.astype(np.int32).astype(dtype)
    if is_float and dtype == np.int64:  # a float out of range becomes the least integer, as on x86
        x = x.astype(np.float32) if x.dtype.itemsize == 2 else x  # which has 2**63
        x = jnp.where(abs(x) < x.dtype.type(2.0**63), x, x.dtype.type(-(2.0**63)))
    is_narrow = dtype.itemsize == 2 and jnp.issubdtype(dtype, np.floating)
    if is_narrow:
        return ieee.narrow(x, dtype)
    return x.astype(dtype)


_BY_INT32 = (*NARROW, "int8", "uint8", "int16", "uint16", "int32")
