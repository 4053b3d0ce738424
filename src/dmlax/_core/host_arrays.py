"""Arrays whose elements are known, and their copies on the host: for pickles and for packing."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike


def is_concrete(array: object) -> bool:
    """True for an array whose elements are known."""
    known = isinstance(array, np.ndarray | jax.Array)
    return known and not isinstance(array, jax.core.Tracer)


def is_on_host(array: Any) -> bool:
    """True where NumPy reads an array in place, and no device was asked for."""
    if isinstance(array, np.ndarray):
        return True
    return is_concrete(array) and not array.committed and bool(array.platform() == "cpu")


def to_host(leaf: object) -> Any:
    """Copies a concrete array of JAX to NumPy; returns anything else."""
    concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return np.asarray(leaf) if concrete else leaf


def to_device(leaf: object) -> Any:
    """Copies an array of NumPy to JAX; returns anything else."""
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def are_equal(left: ArrayLike | None, right: ArrayLike | None) -> bool:
    """True for arrays of the same dtype, shape and elements."""
    a, b = np.asarray(left), np.asarray(right)
    return a.dtype == b.dtype and np.array_equal(a, b)
