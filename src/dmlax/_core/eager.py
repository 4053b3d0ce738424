"""Eager calls: one jitted program for each set of options, and scalars kept on the device."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from dmlax._core import dispatch
from dmlax._core.compat import DeviceArray
from dmlax.errors import SpecError, UnsupportedError

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PROGRAMS, _SCALARS = 1024, 256  # how many programs are kept, and scalars of each
_NUMBERS = frozenset({int, float, *(np.dtype(code).type for code in "bBhHiIlLqQefd")})
_STATIC = frozenset({int, str, type(None)})
_REFUSALS = SpecError, UnsupportedError, TypeError


def jit_eager_calls(
    *operands: str, leaves: Callable[[Any], tuple[Any, ...]] = lambda value: ()
) -> Callable[[_Function], _Function]:
    """Has eager calls of an operator run one jitted program for each set of options.

    The program checks and plans while it is traced, so JAX finds it in C++ for later calls with the
    same dtypes and shapes. Numbers become device scalars, which are kept: they are arguments of the
    program, never constants. A call with a tracer, a NumPy array or an unusual option runs the
    function itself.

    Args:
      *operands: the keywords that are arrays; every positional parameter is one.
      leaves: the arrays of an operand that is a pytree, none of any other value.
    """
    arrays = frozenset(operands)

    def decorate(function: _Function) -> _Function:
        names = tuple(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            # Every step here counts: it is most of the time of a small call.
            numbers = False
            for value in args:
                kind = type(value)
                if kind is not DeviceArray and value is not None:
                    if kind in _NUMBERS:
                        numbers = True
                    elif not _are_on_device(leaves(value)):
                        return function(*args, **kwargs)
            if not kwargs and not numbers:  # as below, with fewer steps
                try:
                    return _program(function)(*args)
                except _REFUSALS:
                    return function(*args)
            keywords: dict[str, Any] = {}
            options: list[Any] = []
            for name, option in kwargs.items():
                kind = type(option)
                if name in arrays:
                    keywords[name] = option
                    if kind is not DeviceArray and option is not None:
                        if kind not in _NUMBERS:
                            return function(*args, **kwargs)
                        numbers = True
                elif kind in _STATIC or kind is bool or _is_static(option):
                    options += (name, option)
                else:
                    return function(*args, **kwargs)
            if numbers:
                scalars = _scalars(function, *options)
                dtypes = tuple([value.dtype.num for value in args if type(value) is DeviceArray])
                bind = functools.partial(_bind, function, args, kwargs)
                place = functools.partial(_place, scalars, dtypes, bind)
                args = tuple(map(place, names, args))
                keywords = {name: place(name, value) for name, value in keywords.items()}
            try:
                return _program(function, *options)(*args, **keywords)
            except _REFUSALS:  # without the notes that JAX adds to a trace's
                return function(*args, **kwargs)

        return cast(_Function, call)

    return decorate


@functools.lru_cache(maxsize=_PROGRAMS, typed=True)  # True is equal to 1
def _program(function: Callable[..., Any], *options: Any) -> Any:
    """Returns the jitted function of all but the options, which are names and values in turn."""
    fixed = dict(zip(options[::2], options[1::2], strict=True))
    return jax.jit(functools.partial(function, **fixed))


@functools.lru_cache(maxsize=_PROGRAMS, typed=True)  # True is equal to 1
def _scalars(function: Callable[..., Any], *options: Any) -> dict[Any, Any]:
    """Returns the scalars of calls with these options, by what decides their values and dtypes."""
    return {}


def clear() -> None:
    """Forgets every program and scalar."""
    _program.cache_clear()
    _scalars.cache_clear()


def _is_static(option: Any) -> bool:
    """True if an equal option means the same: 1.0 is equal to 1, but no stride."""
    if type(option) is tuple:
        return all(type(item) in _STATIC for item in option)
    return type(option) in _STATIC or isinstance(option, type | np.dtype)


def _are_on_device(leaves: tuple[Any, ...]) -> bool:
    """True if there are leaves, and none is a tracer or a NumPy array."""
    return bool(leaves) and all(leaf is None or type(leaf) is DeviceArray for leaf in leaves)


def _bind(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Returns the operands of a call by name, checked and converted."""
    return function(*args, **{**kwargs, "implementation": dispatch.Bind()})


def _place(
    scalars: dict[Any, Any], dtypes: Any, bind: Callable[[], Any], name: str, value: Any
) -> Any:
    """Returns the operand that a call makes of a number, and any other value as it is."""
    kind = type(value)
    if kind not in _NUMBERS:
        return value
    key = name, kind, value, dtypes
    if key in scalars:
        return scalars[key]
    scalar = getattr(bind(), name)
    if isinstance(scalar, np.ndarray):
        scalar = jnp.asarray(scalar)
    if len(scalars) >= _SCALARS:
        scalars.clear()
    # Within a trace it may be a tracer, and where a mesh is set it may be bound to the mesh.
    if scalar is None or (type(scalar) is DeviceArray and not scalar.committed):
        scalars[key] = scalar
    return scalar
