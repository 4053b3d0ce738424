"""Values known on the host, and values on the device."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dmlax.errors import UnsupportedError


def _has_x64() -> bool:
    return bool(jax.dtypes.canonicalize_dtype(np.int64) == np.int64)


_LARGEST = 1 << 28  # elements of a known value, so that no file has it allocate without bound
_FLOAT64 = "float64 on a device needs x64"


def is_known(value: Any) -> bool:
    """True for an array of NumPy: a constant, or computed of shapes while a program is traced."""
    return isinstance(value, np.ndarray)


def expect_size(*sizes: Any) -> None:
    """Refuses a known value of very many elements; symbolic sizes are of no known value."""
    if all(isinstance(size, int | np.integer) for size in sizes):
        count = math.prod(map(int, sizes))
        if count > _LARGEST:
            text = f"its value has {count} elements while a program is traced"
            raise UnsupportedError(f"{text}, expected at most {_LARGEST}")


def numpy_of(*values: Any) -> Any:
    """NumPy if every value is known, else JAX's."""
    return np if all(is_known(value) for value in values if value is not None) else jnp


def to_device(value: Any) -> Any:
    """Converts a known value to JAX; 64-bit integers must fit 32 bits unless x64 is on."""
    if not is_known(value):
        return value
    if value.dtype == object:  # sizes, some of them symbolic
        return jnp.stack([jnp.asarray(size) for size in value.ravel()]).reshape(value.shape)
    return jnp.asarray(narrow(value))


def narrow(array: np.ndarray) -> np.ndarray:
    """Narrows int64 to JAX's width; refuses what does not fit."""
    if _has_x64() or array.dtype not in (np.int64, np.uint64, np.float64):
        return array
    if array.dtype == np.float64:
        raise UnsupportedError(_FLOAT64, "data_type", "data type")
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        text = f"the constant {int(array.ravel()[np.abs(array).argmax()])} does not fit int32"
        raise UnsupportedError(f"{text}, and x64 is off", "value", "constant")
    return array.astype(np.int32)


def as_known(value: Any, dtype: Any) -> np.ndarray:
    """An array of a result of NumPy's, which gives the elements of scalar arrays bare."""
    if isinstance(value, np.ndarray):
        return value
    array = np.empty((), dtype)
    array[()] = value
    return array


def integers(value: Any) -> list[Any]:
    """Known integers, some of them perhaps symbolic sizes, as a list."""
    array = np.asarray(value)
    return [size if array.dtype == object else int(size) for size in array.ravel()]


def sizes_array(sizes: Any) -> np.ndarray:
    """Sizes as an int64 array, or as one of objects where some are symbolic."""
    sizes = list(sizes)
    if all(isinstance(size, int | np.integer) for size in sizes):
        return np.asarray(sizes, np.int64)
    array = np.empty(len(sizes), object)
    array[:] = sizes
    return array


def device_dtype(dtype: Any) -> np.dtype:
    """The dtype that JAX has for one of the file's: int32 for int64 unless x64 is on."""
    dtype = np.dtype(dtype)
    if dtype == np.float64 and not _has_x64():
        raise UnsupportedError(_FLOAT64, "data_type", "data type")
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))
