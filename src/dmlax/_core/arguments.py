"""Converts arguments to arrays: weak types take their tensor's dtype, values are checked."""

import operator as python_operator
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat
from dmlax.errors import Code, SpecError


class Aval(NamedTuple):
    """A dtype and a shape: all that a plan knows of an array."""

    dtype: np.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=object))


def structs(avals: Any) -> Any:
    """Converts a pytree of avals to `jax.ShapeDtypeStruct`."""
    return jax.tree.map(
        lambda aval: jax.ShapeDtypeStruct(aval.shape, aval.dtype),
        avals,
        is_leaf=lambda leaf: isinstance(leaf, Aval),
    )


class Rules(NamedTuple):
    """Checks and converts the arguments of one operator; refuses with `SpecError`."""

    operator: str

    def fail(self, code: Code, field: str, message: str) -> NoReturn:
        """Raises `operator: field message`."""
        raise SpecError(f"{self.operator}: {field} {message}", code, field)

    def expect(self, holds: bool, code: Code, field: str, message: str) -> None:
        """Raises unless the rule holds."""
        if not holds:
            self.fail(code, field, message)

    def expect_dtype(self, field: str, aval: Aval, *allowed: Any) -> None:
        """Raises unless the tensor's dtype is one of `allowed`."""
        names = [jnp.dtype(dtype).name for dtype in allowed]
        listed = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
        self.expect(aval.dtype.name in names, "data_type", field, f"is {aval}, expected {listed}")

    def expect_choice(self, field: str, value: Any, allowed: Sequence[str]) -> None:
        """Raises unless an option's value is one of `allowed`."""
        known = isinstance(value, str) and value in allowed
        self.expect(known, "option", field, f"is {value!r}, expected one of {', '.join(allowed)}")

    def choose_output_dtype(
        self, asked: Any, zero_point: str, given: Any, default: Any
    ) -> np.dtype:
        """Chooses int8 or uint8: as asked, else a strongly typed zero point's, else the default."""
        dtype: np.dtype
        own = strong_dtype(given)
        if asked is None:
            dtype = np.dtype(default) if own is None else own
            field = "OutputTensor" if own is None else zero_point
        else:
            dtype, field = self._dtype(asked), "OutputTensor"
        wanted = f"has dtype {dtype.name}, expected int8 or uint8"
        self.expect(dtype.name in ("int8", "uint8"), "data_type", field, wanted)
        differs = f"has dtype {own}, expected {dtype.name}, the output_dtype"
        self.expect(own is None or own == dtype, "data_type", zero_point, differs)
        return dtype

    def _dtype(self, asked: Any) -> np.dtype:
        try:
            dtype: np.dtype = np.dtype(asked)
            return dtype
        except TypeError:
            self.fail("data_type", "OutputTensor", f"has dtype {asked!r}, expected int8 or uint8")

    def to_integer(self, field: str, value: Any, low: int, high: int | None = None) -> int:
        """Converts an option to a static integer within bounds."""
        try:
            number = python_operator.index(value)
        except (TypeError, jax.errors.ConcretizationTypeError):
            self.fail("option", field, f"is {_describe(value)}, expected a static integer")
        wanted = f"at least {low}" if high is None else f"from {low} to {high}"
        inside = low <= number and (high is None or number <= high)
        self.expect(inside, "option", field, f"is {number}, expected {wanted}")
        return number

    def to_array(self, field: str, value: Any) -> Array | np.ndarray:
        """Takes a tensor, which must be an array already; the plan checks its dtype."""
        if isinstance(value, np.ndarray | np.generic):
            return np.asarray(value).astype(value.dtype.newbyteorder("="), copy=False)
        if not isinstance(value, jax.Array):
            self.fail("data_type", field, f"is {_describe(value)}, expected an array")
        return value

    def to_parameter(self, field: str, value: Any, dtype: Any) -> Array | None:
        """Converts a parameter to `dtype` if it is weakly typed; a strong type it keeps."""
        if value is None:
            return None
        dtype = jnp.dtype(dtype)
        if isinstance(value, int | float) and not isinstance(value, bool | np.generic):
            return jnp.asarray(self._number(field, value, dtype))
        array = self.to_array(field, value)
        if isinstance(array, jax.Array) and compat.is_weak(array):
            return self._strengthen(field, array, dtype)
        return jnp.asarray(array)

    def to_scale(self, field: str, value: Any, dtype: Any) -> Array:
        """Converts a scale; a Python or NumPy one must be finite and nonzero after rounding."""
        if value is None:
            self.fail("missing_tensor", field, "is required")
        if isinstance(value, int | float | np.ndarray | np.generic):
            self._check_scale(field, value, jnp.dtype(dtype))
        array = self.to_parameter(field, value, dtype)
        assert array is not None
        return array

    def _check_scale(self, field: str, value: Any, dtype: np.dtype) -> None:
        if np.asarray(value).dtype.kind not in "fiuO":
            return  # the plan refuses a wrong dtype
        with np.errstate(all="ignore"):
            rounded = np.asarray(_bounded(value)).astype(dtype)
        bad = rounded[~(np.isfinite(rounded) & (rounded != 0))]
        found = f"is {value!r}" if rounded.ndim == 0 else f"holds {bad[:1].tolist()}"
        rule = f"expected finite nonzero values in {dtype.name}"
        self.expect(bad.size == 0, "value", field, f"{found}, {rule}")

    def _number(self, field: str, value: float, dtype: np.dtype) -> np.ndarray:
        if jnp.issubdtype(dtype, jnp.floating):
            with np.errstate(all="ignore"):
                return np.asarray(_bounded(value), dtype)
        if isinstance(value, float):
            self.fail("data_type", field, f"is the float {value!r}, expected {dtype.name}")
        limits = jnp.iinfo(dtype)
        inside = limits.min <= value <= limits.max
        rule = f"expected {dtype.name}, {limits.min} to {limits.max}"
        self.expect(inside, "value", field, f"is {value}, {rule}")
        return np.asarray(value, dtype)

    def _strengthen(self, field: str, array: Array, dtype: np.dtype) -> Array:
        loses = jnp.issubdtype(array.dtype, jnp.floating) and not jnp.issubdtype(
            dtype, jnp.floating
        )
        self.expect(not loses, "data_type", field, f"is {aval_of(array)}, expected {dtype.name}")
        return array.astype(dtype)


def _bounded(value: Any) -> Any:
    """A Python integer too large for any float is an infinity."""
    return np.inf if isinstance(value, int) and abs(value) > 2**200 else value


def _describe(value: Any) -> str:
    if isinstance(value, jax.Array):
        return f"the traced or device array {aval_of(value)}"
    return (
        f"{value!r}"[:60] if isinstance(value, int | float | str) else f"a {type(value).__name__}"
    )


def aval_of(array: Any) -> Aval:
    """The dtype and shape of an array or tracer."""
    return Aval(np.dtype(compat.canonical_dtype(array.dtype)), tuple(array.shape))


def effective_rank(sizes: tuple[int, ...]) -> int:
    """The rank without leading axes of size 1, at least 1."""
    leading = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
    return max(len(sizes) - leading, 1)


def strong_dtype(value: Any) -> np.dtype | None:
    """The dtype of a strongly typed array; None for Python numbers, weak arrays and None."""
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        return None
    weak = isinstance(value, jax.Array) and compat.is_weak(value)
    return None if weak else aval_of(value).dtype


def to_integers(
    rules: Rules, field: str, value: Any, count: int, default: int, low: int
) -> tuple[int, ...]:
    """Converts to `count` static integers; None is `default` for each."""
    if value is None:
        return (default,) * count
    if isinstance(value, str | jax.core.Tracer) or not hasattr(value, "__len__"):
        rules.fail("option", field, f"is {_describe(value)}, expected {count} integers")
    rules.expect(
        len(value) == count, "option", field, f"has {len(value)} entries, expected {count}"
    )
    return tuple(rules.to_integer(field, entry, low) for entry in value)
