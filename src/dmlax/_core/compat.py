"""The only file that touches what JAX keeps private or changes between versions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from dmlax.errors import UnsupportedError


def is_weak(array: Array) -> bool:
    """Whether a JAX array or tracer is weakly typed."""
    return bool(jax.typeof(array).weak_type)


def canonical_dtype(dtype: Any) -> Any:
    """The dtype an array has inside JAX: 64-bit ones narrow unless x64 is on."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return np.dtype(object)
    return jax.dtypes.canonicalize_dtype(dtype)


def axis_size(axis_name: Any) -> int:
    """The number of devices along a mapped axis."""
    return int(jax.lax.axis_size(axis_name))


def partition(array: Array) -> tuple[Any, ...]:
    """Which mesh axes split each axis of an array, where a mesh's axes are explicit."""
    return tuple(jax.typeof(array).sharding.spec)


def outside_explicit_mesh(
    function: Callable[[Any], Any], operands: Any, partitions: Callable[[Any], Any]
) -> Any:
    """function(operands), which need not say how each intermediate is split over a mesh.

    Args:
      function: reshapes and loops, for which a mesh with explicit axes asks a sharding each time.
      operands: a pytree of arrays.
      partitions: gives, for the operands, a partition for each output.
    """
    mesh = _explicit_mesh(operands)
    if mesh is None:
        return function(operands)
    shardings = jax.tree.map(
        lambda axes: NamedSharding(mesh, PartitionSpec(*axes)),
        partitions(operands),
        is_leaf=lambda x: type(x) is tuple,
    )
    return jax.sharding.auto_axes(function, out_sharding=shardings)(operands)


def _explicit_mesh(operands: Any) -> Any:
    """The mesh whose explicit axes split an operand, if there is one."""
    shardings = (jax.typeof(leaf).sharding for leaf in jax.tree.leaves(operands))
    split = (sharding for sharding in shardings if any(axis is not None for axis in sharding.spec))
    return next((sharding.mesh for sharding in split), None)


def refuse(x: Array, refusals: tuple[tuple[str, str], ...]) -> Array:
    """`x`, unless it is lowered for one of the platforms: then `UnsupportedError` says why.

    The platform is known only when lowering, and `lax.platform_dependent` traces every branch.
    """
    return _refuse.bind(x, refusals=refusals) if refusals else x


_refuse = Primitive("dmlax_refuse")
_refuse.def_impl(lambda x, *, refusals: x)
_refuse.def_abstract_eval(lambda x, *, refusals: x)
batching.primitive_batchers[_refuse] = lambda args, dims, **params: (
    _refuse.bind(*args, **params),
    dims[0],
)


def _lower_refuse(context: Any, x: Any, *, refusals: tuple[tuple[str, str], ...]) -> Any:
    platforms = context.platforms or context.module_context.platforms
    for platform, sentence in refusals:
        if platform in platforms:
            raise UnsupportedError(sentence)
    return [x]


mlir.register_lowering(_refuse, _lower_refuse)


def serialise_namedtuple(kind: type, name: str) -> None:
    """Lets `jax.export` serialise functions that return this NamedTuple."""
    jax.export.register_namedtuple_serialization(kind, serialized_name=name)


def serialise_pytree(
    kind: type, name: str, encode: Callable[[Any], bytes], decode: Callable[[Any], Any]
) -> None:
    """Lets `jax.export` serialise functions that take or return this pytree."""
    jax.export.register_pytree_node_serialization(
        kind, serialized_name=name, serialize_auxdata=encode, deserialize_auxdata=decode
    )
