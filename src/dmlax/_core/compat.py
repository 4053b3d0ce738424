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
