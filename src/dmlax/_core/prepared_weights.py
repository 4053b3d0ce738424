"""Packed weights as a pytree, whose static part is plain values."""

import functools
import json
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import Rules
from dmlax._core.host_arrays import are_equal, to_device, to_host

Shape = TypeVar("Shape")  # a hashable description of the weights: all that is static


class Prepared(NamedTuple):
    """The arrays of prepared weights."""

    packed: Array
    """int8, a row for each output channel or column; uint8 re-based by 128."""
    sums: Array
    """int32, the sum of each packed row."""
    zero_point: Array | None
    """One value or one per row, of the weights' dtype; None is 0."""


class PreparedWeights(Generic[Shape]):
    """The base of `PreparedFilter` and `PreparedMatrix`.

    A subclass says how its `Shape` becomes plain values and back, and calls `register`.
    """

    __hash__ = None  # type: ignore[assignment]

    VERSION: ClassVar[int]  # of the packed form; another one must not read it
    _NOUN: ClassVar[str]

    def __init__(self, arrays: Prepared, weights: Shape) -> None:
        self.arrays = arrays
        self.weights = weights

    @property
    def packed(self) -> Array:
        """The rows that every implementation reads, of int8."""
        return self.arrays.packed

    @property
    def sums(self) -> Array:
        """The sum of each row, of int32."""
        return self.arrays.sums

    @property
    def zero_point(self) -> Array | None:
        """The zero point, of the weights' dtype, one value or one per row; None is 0."""
        return self.arrays.zero_point

    @staticmethod
    def to_plain(weights: Any) -> tuple[Any, ...]:
        """Converts a shape to strings, integers and tuples of them."""
        raise NotImplementedError

    @staticmethod
    def from_plain(*values: Any) -> Any:
        """The inverse of `to_plain`."""
        raise NotImplementedError

    @staticmethod
    def unpack_rows(weights: Any, packed: Any) -> Any:
        """Returns the weights whose packed rows are given, of NumPy or JAX."""
        raise NotImplementedError

    @functools.cached_property
    def _static(self) -> tuple[Any, ...]:
        """Plain values: they outlive a move of any class, in a pickle or an export.

        They are kept, as every call of a jitted function flattens its arguments.
        """
        return self.VERSION, *self.to_plain(self.weights)

    @classmethod
    def read_static(cls, static: tuple[Any, ...]) -> Shape:
        """Returns the shape of such values; refuses another version's."""
        version, *values = static
        if version != cls.VERSION:
            remedy = f"prepare the {cls._NOUN} again with this version of dmlax"
            found = f"is {version}, expected {cls.VERSION}: {remedy}"
            Rules(cls.__name__).fail("option", "version", found)
        shape: Shape = cls.from_plain(*values)
        return shape

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[Any, ...]]:
        """The arrays by name; everything else is static."""
        keys = map(jax.tree_util.GetAttrKey, Prepared._fields)
        return tuple(zip(keys, self.arrays, strict=True)), self._static

    def tree_flatten(self) -> tuple[Prepared, tuple[Any, ...]]:
        """The arrays; everything else is static."""
        return self.arrays, self._static

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: Any) -> Self:
        """The inverse of `tree_flatten`."""
        return cls(Prepared(*arrays), cls.read_static(static))

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and NumPy arrays, so that a pickle names no private module."""
        arrays = {name: to_host(leaf) for name, leaf in self.arrays._asdict().items()}
        return {"static": self._static, **arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.weights = self.read_static(state.pop("static"))
        self.arrays = Prepared(**{name: to_device(leaf) for name, leaf in state.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.weights == other.weights and all(map(are_equal, self.arrays, other.arrays))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weights})"


def unpack_on_host(prepared: PreparedWeights[Any]) -> np.ndarray:
    """Returns the weights that were prepared, by NumPy: while a program is traced too."""
    array: np.ndarray = prepared.unpack_rows(prepared.weights, np.asarray(prepared.packed))
    return array


def constants(packed: Prepared) -> Prepared:
    """Packed weights of NumPy as constants of the program that is traced."""
    with jax.ensure_compile_time_eval():
        arrays: Prepared = jax.tree.map(jnp.asarray, packed)
    return arrays


def register(kind: type[PreparedWeights[Any]]) -> None:
    """Makes a subclass a pytree, which `jax.export` serialises."""
    jax.tree_util.register_pytree_with_keys_class(kind)
    # JAX shows this name where it cannot load an export, which is before dmlax is imported.
    name = f"dmlax.{kind.__name__}, which `import dmlax` defines"
    compat.serialise_pytree(kind, name, encode, functools.partial(decode, kind))


def encode(static: tuple[Any, ...]) -> bytes:
    """Writes the static part for an export."""
    return json.dumps(static).encode()


def decode(kind: type[PreparedWeights[Any]], data: bytes) -> tuple[Any, ...]:
    """Reads it, and refuses another version's."""
    static: tuple[Any, ...] = _to_tuple(json.loads(bytes(data)))
    kind.read_static(static)
    return static


def _to_tuple(value: Any) -> Any:
    return tuple(map(_to_tuple, value)) if isinstance(value, list) else value
