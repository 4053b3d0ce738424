"""Converts arguments to arrays, and checks values that are known.

A tensor keeps its dtype. A parameter, whose dtype the call fixes, takes that dtype if it is a
number without a dtype: a Python number, an array of NumPy's default types, which have
64 bits, or a weakly typed JAX array. NumPy arrays stay NumPy's, so that a plan sees their dtype and
not the one that JAX would narrow it to; they are typed as the JAX arrays that a program makes of
them.
"""

import functools
import itertools
import math
import operator as python_operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._core import compat
from dmlax.errors import Code, SpecError, UnsupportedError

UINT = 2**32 - 1  # the largest integer of DirectML's fields
ABSENT: Any = None  # the default of an operand that may be None
MOST_DIMENSIONS = 8  # the most axes of a DirectML tensor
MOST_SIZE = 2**31 - 1  # pixels of a padded axis, which int32 counts
MOST_ELEMENTS = 2**44  # XLA ends the process if int64 does not hold a product of sizes
_UNTYPED = (np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64))  # NumPy's defaults


T = TypeVar("T")  # required operands: arrays or their avals
_Operands = TypeVar("_Operands", bound=NamedTuple)
OptionalT = TypeVar("OptionalT")  # operands that may be None


class Aval(NamedTuple):
    """A dtype and a shape: all that a plan knows of an array."""

    dtype: np.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_static(self) -> bool:
        """False if a size is a symbolic dimension of `jax.export`."""
        return is_static(self.shape)


def is_static(sizes: Iterable[int]) -> bool:
    """True for integers, False if a size is a symbolic dimension of `jax.export`."""
    return all(isinstance(size, int) for size in sizes)


def decide(comparison: Callable[[], bool], undecided: bool) -> bool:
    """Compares sizes; what symbolic ones leave open counts as `undecided`."""
    try:
        return bool(comparison())
    except jax.errors.InconclusiveDimensionOperation:
        return undecided


def are_same(size: int, other: int) -> bool:
    """True for equal sizes; symbolic ones that may differ are not."""
    return decide(lambda: size == other, False)


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of NumPy's rule, or None where the two do not broadcast."""
    pairs = list(itertools.zip_longest(reversed(a), reversed(b), fillvalue=1))
    if not all(are_same(1, x) or are_same(1, y) or are_same(x, y) for x, y in pairs):
        return None
    return tuple(y if are_same(1, x) else x for x, y in reversed(pairs))


def broadcasts_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if a shape of at most that rank becomes `wanted` by NumPy's rule."""
    missing = len(wanted) - len(shape)
    pairs = zip(shape, wanted[max(missing, 0) :], strict=False)
    return missing >= 0 and all(are_same(size, 1) or are_same(size, to) for size, to in pairs)


@functools.cache
def directml_name(name: str) -> str:
    """A name as DirectML spells it: `input_scale_tensor` is InputScaleTensor."""
    return "".join(map(str.capitalize, name.split("_")))


def structs(avals: object) -> Any:
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

    def expect_at_most(self, most: int, size: int, field: str, message: str) -> None:
        """Raises `UnsupportedError` if a valid call is too large; symbolic sizes may be."""
        if not decide(lambda: size <= most, True):
            text = f"{self.operator}: {field} {message}, expected at most {most}"
            raise UnsupportedError(text, "sizes", field)

    def expect_dtype(self, field: str, aval: Aval, *allowed: DTypeLike) -> None:
        """Raises unless the tensor's dtype is one of `allowed`."""
        names = [jnp.dtype(dtype).name for dtype in allowed]
        listed = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
        self.expect(aval.dtype.name in names, "data_type", field, f"is {aval}, expected {listed}")

    def expect_rank(self, field: str, aval: Aval, lowest: int = 1) -> None:
        """Raises unless a tensor has `lowest` to 8 dimensions; an axis of `vmap` does not count."""
        holds = lowest <= len(aval.shape) <= MOST_DIMENSIONS
        wanted = f"is {aval}, expected rank {lowest} to {MOST_DIMENSIONS}"
        self.expect(holds, "dimension_count", field, wanted)

    def expect_choice(self, field: str, value: object, allowed: Sequence[str]) -> None:
        """Raises unless an option's value is one of `allowed`."""
        known = isinstance(value, str) and value in allowed
        self.expect(known, "option", field, f"is {value!r}, expected one of {', '.join(allowed)}")

    def choose_output_dtype(
        self,
        asked: DTypeLike | None,
        field: str,
        zero_point: object,
        default: DTypeLike,
        option: str = "output_dtype",
    ) -> np.dtype:
        """Chooses int8 or uint8: as asked, else a strongly typed zero point's, else the default."""
        strong = strong_dtype(zero_point)
        if asked is None and strong is not None:
            dtype, origin = strong, field
        else:
            dtype, origin = self._dtype(default if asked is None else asked), "OutputTensor"
        wanted = f"has dtype {dtype.name}, expected int8 or uint8"
        self.expect(dtype.name in ("int8", "uint8"), "data_type", origin, wanted)
        differs = f"has dtype {strong}, expected {dtype.name}, the {option}"
        self.expect(strong is None or strong == dtype, "data_type", field, differs)
        return dtype

    def choose_float_dtype(self, asked: DTypeLike | None) -> np.dtype:
        """Takes float32 or float16 as the dtype of the output."""
        wanted = "float32 or float16"
        dtype = self._dtype(asked, wanted)
        is_float = dtype.name in ("float32", "float16")
        message = f"has dtype {dtype.name}, expected {wanted}"
        self.expect(is_float, "data_type", "OutputTensor", message)
        return dtype

    def _dtype(self, asked: DTypeLike | None, wanted: str = "int8 or uint8") -> np.dtype:
        try:
            return np.dtype(asked)
        except TypeError:
            self.fail("data_type", "OutputTensor", f"has dtype {asked!r}, expected {wanted}")

    def to_integer(self, field: str, value: Any, low: int, high: int | None = None) -> int:
        """Converts an option to a static integer within bounds."""
        try:
            number = python_operator.index(value)
        except (TypeError, jax.errors.ConcretizationTypeError):
            self.fail("option", field, f"is {_describe(value)}, expected a static integer")
        most = UINT if high is None else high
        wanted = f"from {low} to {most}" if high is not None or number > most else f"at least {low}"
        inside = low <= number <= most
        self.expect(inside, "option", field, f"is {number}, expected {wanted}")
        return number

    def to_array(self, field: str, value: object) -> Array:
        """Takes a tensor, which must be an array already; the plan checks its dtype."""
        if isinstance(value, jax.Array):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return cast(Array, np.asarray(value, value.dtype.newbyteorder("=")))
        if hasattr(value, "__jax_array__"):
            return self.to_array(field, value.__jax_array__())
        self.fail("data_type", field, f"is {_describe(value)}, expected an array")

    def to_parameter(self, field: str, value: Any, dtype: DTypeLike) -> Array | None:
        """Converts a parameter without a dtype to `dtype`, and keeps any other."""
        if value is None:
            return None
        if isinstance(value, jax.Array):
            return self._strengthen(field, value, dtype) if compat.is_weak(value) else value
        if _is_number(value):
            return self._convert(field, value, np.dtype(dtype))
        if hasattr(value, "__jax_array__"):
            return self.to_parameter(field, value.__jax_array__(), dtype)
        array = self.to_array(field, value)
        return self._convert(field, array, np.dtype(dtype)) if array.dtype in _UNTYPED else array

    def to_scale(self, field: str, value: Any, dtype: DTypeLike, zero_remedy: str = "") -> Array:
        """Converts a scale; a Python or NumPy one must be finite and nonzero after rounding."""
        array = self.to_parameter(field, value, dtype)
        if array is None:
            self.fail("missing_tensor", field, "is required")
        if isinstance(array, np.ndarray) and array.dtype == dtype and array.dtype.kind == "f":
            self._check_scale(field, value, array, zero_remedy)
        return array

    def to_parameters(
        self,
        arguments: NamedTuple,
        dtypes: Mapping[str, DTypeLike],
        zero_remedies: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Converts parameters: `..._scale` as scales, the others as `to_parameter` does.

        Args:
          arguments: the values, by keyword.
          dtypes: of the parameters to convert, by keyword.
          zero_remedies: the end of the message of a scale that is 0, by keyword.
        """
        parameters: dict[str, Any] = {}
        for name, dtype in dtypes.items():
            field, value = directml_name(f"{name}_tensor"), getattr(arguments, name)
            if name.endswith("_scale"):
                parameters[name] = self.to_scale(field, value, dtype, zero_remedies.get(name, ""))
            else:
                parameters[name] = self.to_parameter(field, value, dtype)
        return parameters

    def expect_dtypes(
        self, operands: NamedTuple, dtypes: Mapping[str, DTypeLike]
    ) -> Iterator[tuple[str, str, Aval]]:
        """Checks the dtypes of operands by keyword; yields name, field and aval of each present."""
        for name, dtype in dtypes.items():
            field, aval = directml_name(f"{name}_tensor"), getattr(operands, name)
            if aval is not None:
                self.expect_dtype(field, aval, dtype)
                yield name, field, aval

    def _check_scale(self, field: str, value: object, scale: np.ndarray, zero_remedy: str) -> None:
        bad = scale[~(np.isfinite(scale) & (scale != 0))]
        if bad.size:
            held = f"is {value!r}" if scale.ndim == 0 else f"holds {bad[:1].tolist()}"
            rule = f"expected finite nonzero values in {scale.dtype.name}"
            remedy = f"; {zero_remedy}" if zero_remedy and bad[0] == 0 else ""
            self.fail("value", field, f"{held}, {rule}{remedy}")

    def _convert(self, field: str, value: Any, dtype: np.dtype) -> Array:
        """Converts a number, or an array of 64-bit ones: floats round once, integers must fit."""
        if dtype.kind == "f":
            return cast(Array, _round(value, dtype))
        if isinstance(value, float):
            self.fail("data_type", field, f"is the float {value!r}, expected {dtype.name}")
        array = np.asarray(value)
        if array.dtype.kind == "f":
            return cast(Array, array)  # the plan refuses it
        limits = np.iinfo(dtype)
        outside = array[(array < limits.min) | (array > limits.max)]
        if outside.size:
            held = f"is {array}" if array.ndim == 0 else f"holds {outside[0]}"
            rule = f"expected {dtype.name}, {limits.min} to {limits.max}"
            self.fail("value", field, f"{held}, {rule}")
        return cast(Array, array.astype(dtype))

    def _strengthen(self, field: str, array: Array, dtype: DTypeLike) -> Array:
        dtype = np.dtype(dtype)
        loses = jnp.issubdtype(array.dtype, jnp.floating) and not jnp.issubdtype(
            dtype, jnp.floating
        )
        self.expect(not loses, "data_type", field, f"is {aval_of(array)}, expected {dtype.name}")
        return array.astype(dtype)


def _is_number(value: object) -> bool:
    """True for a Python number, and for NumPy's scalars that are one."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _round(value: Any, dtype: np.dtype) -> np.ndarray:
    """Rounds a number, or an array of 64-bit ones, to a float dtype."""
    if isinstance(value, int) and abs(value) > 2**200:
        value = np.inf  # too large for any float
    array = np.asarray(value)
    if dtype == np.float16 and array.dtype.kind in "iu":
        array = array.astype(np.float64)  # NumPy would round to float32 between
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _describe(value: object) -> str:
    if isinstance(value, jax.Array):
        return f"the traced or device array {aval_of(value)}"
    return (
        f"{value!r}"[:60] if isinstance(value, int | float | str) else f"a {type(value).__name__}"
    )


def aval_of(array: Any) -> Aval:
    """The dtype and shape of an array or tracer; a key's dtype is an object's."""
    dtype = array.dtype
    return Aval(dtype if isinstance(dtype, np.dtype) else np.dtype(object), tuple(array.shape))


def narrow_float64(array: Array) -> Array:
    """Rounds NumPy's default floats to float32, as they are a tensor's only dtype to be rounded."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float64:
        return array
    with np.errstate(all="ignore"):
        return array.astype(np.float32)


def avals_of(operands: Iterable[Any]) -> list[Any]:
    """The avals of operands, None for those that are None."""
    return [None if operand is None else aval_of(operand) for operand in operands]


def renew_avals(avals: _Operands, arrays: NamedTuple) -> _Operands:
    """The avals of arrays, where an operand has both an aval and an array; the others stay."""
    pairs = zip(avals, arrays, strict=True)
    return avals._make(x if x is None or array is None else aval_of(array) for x, array in pairs)


def expand_rank(array: Array, rank: int, scalars: bool = False) -> Array:
    """Puts axes of size 1 first, as strict modes want equal ranks but of scalars.

    Kernels want equal ranks of `scalars`, too.
    """
    missing = rank - array.ndim
    expands = missing > 0 and (scalars or array.ndim > 0)
    return array.reshape((1,) * missing + array.shape) if expands else array


def effective_rank(sizes: tuple[int, ...]) -> int:
    """The rank without leading axes of size 1, at least 1."""
    leading = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
    return max(len(sizes) - leading, 1)


def strong_dtype(value: object) -> np.dtype | None:
    """The dtype of a strongly typed array; None for all else."""
    if isinstance(value, jax.Array):
        return None if compat.is_weak(value) else aval_of(value).dtype
    if isinstance(value, np.ndarray | np.generic):
        return None if value.dtype in _UNTYPED else value.dtype.newbyteorder("=")
    return strong_dtype(value.__jax_array__()) if hasattr(value, "__jax_array__") else None


def to_integers(
    rules: Rules, field: str, value: Any, count: int, default: int, low: int
) -> tuple[int, ...]:
    """Converts to `count` static integers; a single one, or `default` for None, is repeated."""
    if value is None:
        return (default,) * count
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return (rules.to_integer(field, value, low),) * count
    if isinstance(value, str | jax.core.Tracer) or not hasattr(value, "__len__"):
        rules.fail("option", field, f"is {_describe(value)}, expected {count} integers")
    rules.expect(
        len(value) == count, "option", field, f"has {len(value)} entries, expected {count}"
    )
    return tuple(rules.to_integer(field, entry, low) for entry in value)
