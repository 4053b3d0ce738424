"""Packed weights as a pytree, whose static part is plain values."""

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat, dispatch, labels
from dmlax._core.arguments import Aval, Rules
from dmlax._core.byte_packing import from_int8
from dmlax._core.host_arrays import are_equal, is_concrete, is_on_host, to_device, to_host
from dmlax._core.panels import Packing, PanelShape, pack_panels, unpack_panels
from dmlax.errors import Code

# A hashable description of the weights, all that is static; it begins with their aval.
Shape = TypeVar("Shape", bound=tuple[Any, ...])
_WHEN = "packed whenever the program runs; outside of one, once, and on the host by NumPy"


class PackedShape(Protocol):
    """The part of a shape that packing reads."""

    @property
    def packing(self) -> Packing:
        """The order of the packed bytes."""

    @property
    def panels(self) -> PanelShape:
        """The packed rows as panels."""


PackedShapeT = TypeVar("PackedShapeT", bound=PackedShape)


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

    A subclass names its class of shapes, says how rows become weights, and calls `register`.
    """

    __hash__ = None  # type: ignore[assignment]

    VERSION: ClassVar[int]  # another version must not read the packed form
    SHAPE: ClassVar[type[Any]]
    _NOUN: ClassVar[str]

    def __init__(self, arrays: Prepared, weights: Shape) -> None:
        self.arrays = arrays
        self.weights = weights

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the weights, int8 or uint8."""
        dtype: np.dtype = self.weights[0].dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weights, in their layout."""
        sizes: tuple[int, ...] = self.weights[0].shape
        return sizes

    @property
    def packing(self) -> Packing:
        """The order of the bytes of `packed`: "rows" or "panels"."""
        order: Packing = self.weights[-1]
        return order

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

    def unpack(self) -> Array:
        """Returns the weights that were prepared, bit for bit."""
        weights: Array = _unpack(type(self), self.weights, self.packed)
        return weights

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def to_plain(weights: Any) -> tuple[Any, ...]:
        """Converts a shape to strings, integers and tuples of them."""
        aval, *rest = weights
        return aval.dtype.name, aval.shape, *rest

    @classmethod
    @functools.lru_cache(maxsize=4096)
    def from_plain(cls, dtype: str, sizes: tuple[int, ...], *rest: object) -> Any:
        """The inverse of `to_plain`."""
        return cls.SHAPE(Aval(np.dtype(dtype), sizes), *rest)

    @staticmethod
    def from_rows(weights: Any, rows: Array) -> Array:
        """Returns the weights of packed rows, of NumPy or JAX, as int8."""
        raise NotImplementedError

    @classmethod
    def unpack_bytes(cls, weights: Any, packed: Array) -> Array:
        """Returns the weights of packed bytes, of NumPy or JAX."""
        rows = unpack_panels(weights.panels, packed) if weights.packing == "panels" else packed
        return from_int8(cls.from_rows(weights, rows), weights[0].dtype)

    @functools.cached_property
    def _static(self) -> tuple[Any, ...]:
        """Plain values: they outlive a move of any class, in a pickle or an export.

        They are kept, as every call of a jitted function flattens its arguments.
        """
        return self.VERSION, *self.to_plain(self.weights)

    @classmethod
    def read_static(cls, static: tuple[Any, ...]) -> Shape:
        """Returns the shape of static values; refuses another version's."""
        version, *values = static
        if version != cls.VERSION:
            remedy = f"prepare the {cls._NOUN} again with this version of dmlax"
            message = f"is {version}, expected {cls.VERSION}: {remedy}"
            Rules(cls.__name__).fail("option", "version", message)
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
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: Iterable[Any]) -> Self:
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


@functools.partial(jax.jit, static_argnums=(0, 1))
def _unpack(kind: type[PreparedWeights[Any]], weights: tuple[Any, ...], packed: Array) -> Array:
    return kind.unpack_bytes(weights, packed)


def unpack_on_host(prepared: PreparedWeights[Any]) -> np.ndarray:
    """Returns the weights that were prepared, by NumPy: while a program is traced too."""
    packed = jax.tree.map(np.asarray, prepared.packed)
    return np.asarray(prepared.unpack_bytes(prepared.weights, packed))


class Preparation(NamedTuple):
    """Weights that a program packs, which `explain` finds there."""

    operator: str
    shape: PackedShape

    def __repr__(self) -> str:
        return f"{self.operator}({self.shape})"

    def explain(self) -> dispatch.Explanation:
        """Plain XLA everywhere."""
        choices = (dispatch.Choice(platform, "xla", {}) for platform in dispatch.PLATFORMS)
        return dispatch.Explanation(self.operator, str(self.shape), tuple(choices), (_WHEN,))


@dataclass(frozen=True, eq=False)
class Packer(Generic[PackedShapeT]):
    """Packs one kind of weights, of NumPy or JAX: rows or panels, and their sums.

    Attributes:
      operator: the public function that prepares them.
      to_rows: makes the int8 rows of weights of a shape.
      as_parameter: reshapes a zero point as prepared weights hold it.
    """

    operator: str
    to_rows: Callable[[PackedShapeT, Array], Array]
    as_parameter: Callable[[Array], Array]

    def pack(self, shape: PackedShapeT, weights: Array, zero_point: Array | None) -> Prepared:
        """Packs weights where they lie."""
        rows = self.to_rows(shape, weights)
        packed = pack_panels(shape.panels, rows) if shape.packing == "panels" else rows
        zero_point = jax.tree.map(self.as_parameter, zero_point)
        return Prepared(packed, rows.sum(axis=-1, dtype=np.int32), zero_point)

    def prepare(self, shape: PackedShapeT, weights: Array, zero_point: Array | None) -> Prepared:
        """Packs on the host if the weights lie there, else in a program; drops a known 0."""
        if is_concrete(zero_point) and not np.any(zero_point):
            zero_point = None
        if is_on_host(weights) and (zero_point is None or is_on_host(zero_point)):
            packed = self.pack(shape, *jax.tree.map(np.asarray, (weights, zero_point)))
            arrays: Prepared = jax.device_put(jax.tree.map(np.array, packed))
            return arrays
        return self._program(shape, weights, zero_point)

    def pack_constant(
        self, shape: PackedShapeT, weights: Array, zero_point: Array | None
    ) -> Prepared:
        """Packs weights that a program holds: XLA takes seconds to fold the sums of rows."""
        arrays = constants(self.pack(shape, jax.tree.map(np.asarray, weights), None))
        return arrays._replace(zero_point=jax.tree.map(self.as_parameter, zero_point))

    @functools.cached_property
    def _program(self) -> Callable[[PackedShapeT, Array, Array | None], Prepared]:
        def pack(shape: PackedShapeT, weights: Array, zero_point: Array | None) -> Prepared:
            packed = self.pack(shape, weights, zero_point)
            return labels.label(packed, Preparation(self.operator, shape))

        pack.__name__ = self.operator  # jaxprs and profiles show the name
        return jax.jit(pack, static_argnums=0)


def constants(packed: Prepared) -> Prepared:
    """Packed weights of NumPy as constants of the program that is traced."""
    with jax.ensure_compile_time_eval():
        arrays: Prepared = jax.tree.map(jnp.asarray, packed)
    return arrays


def as_rows(shape: PackedShape, prepared: Prepared) -> Prepared:
    """Returns prepared weights whose bytes are rows."""
    if shape.packing == "rows":
        return prepared
    return prepared._replace(packed=unpack_panels(shape.panels, prepared.packed))


def check_arrays(
    rules: Rules,
    field: str,
    plural: str,
    shape: PackedShape,
    arrays: Sequence[Aval | None],
    expected: Sequence[Sequence[Aval | None]],
) -> None:
    """Checks the arrays of prepared weights, whose tree anyone may change.

    Args:
      rules: of the operator that takes the weights.
      field: the tensor's.
      plural: the noun of several weights.
      shape: all that is static of the weights.
      arrays: the avals of the packed bytes, the sums and the zero point.
      expected: the avals that the first of these arrays may have.
    """
    for name, aval, options in zip(Prepared._fields, arrays, expected, strict=False):
        if aval in options:
            continue
        avals = [option for option in options if option is not None]
        dtypes = [option.dtype for option in avals]
        code: Code = "sizes" if aval is not None and aval.dtype in dtypes else "data_type"
        message = f"is prepared, its {name} is {aval}, expected {' or '.join(map(str, avals))}"
        sizes = () if aval is None else aval.shape
        stacked = any(sizes[1:] == option.shape != sizes for option in avals)
        remedy = f"; map over stacked {plural} with jax.vmap or lax.scan" if stacked else ""
        rules.fail(code, field, f"{message} for {shape}{remedy}")


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


def _to_tuple(value: object) -> Any:
    return tuple(map(_to_tuple, value)) if isinstance(value, list) else value
