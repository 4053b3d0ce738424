"""Eager calls: one jitted program per set of options, and scalars kept on the device."""

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import dispatch
from dmlax._core.compat import DeviceArray
from dmlax._core.keywords import expect_call, explain_keywords
from dmlax._core.prepared_weights import PreparedWeights
from dmlax.errors import SpecError, UnsupportedError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_PROGRAMS, _SCALARS = 1024, 256  # programs that are kept, and scalars per program
_NUMBERS = frozenset({int, float, *(np.dtype(code).type for code in "bBhHiIlLqQefd")})
_Scalars = dict[Hashable, Array | object | None]
_ABSENT = object()
_STATIC = frozenset({int, str, type(None)})
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # all public functions, by their operators' names


def public_function(
    operator: dispatch.Operator[Any, Any, _R], *keywords: str
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes an operator's function, whose eager calls run one jitted program for a set of options.

    The program checks and plans while it is traced, so JAX finds it in C++ for later calls with the
    same dtypes and shapes. Numbers become device scalars, which are kept: they are arguments of the
    program, never constants. A call with a tracer, a NumPy array or an unusual option runs the
    function itself. The error for an unknown keyword names the right one.

    Args:
      operator: the operator, whose `plan` converts numbers to operands.
      *keywords: those that are arrays; every positional parameter is one.
    """
    arrays = frozenset(keywords)

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        names = tuple(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> _R:
            # Every step here counts: it is most of the time of a small call.
            try:
                numbers = False
                for value in args:
                    kind = type(value)
                    if kind is not DeviceArray and value is not None:
                        if kind in _NUMBERS:
                            numbers = True
                        elif not _is_on_device(value):
                            return function(*args, **kwargs)
                if not kwargs and not numbers:  # the branch below, with fewer steps
                    program: Callable[..., _R] = _program(function)
                    return program(*args)
                parameters: dict[str, Any] = {}
                options: list[Any] = []
                for name, option in kwargs.items():
                    kind = type(option)
                    if name in arrays:
                        parameters[name] = option
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
                    dtypes = tuple([x.dtype.num for x in args if type(x) is DeviceArray])
                    operands = functools.partial(_operands, operator, function, args, kwargs)
                    place = functools.partial(_place, scalars, dtypes, operands)
                    args = tuple(map(place, names, args))
                    parameters = {name: place(name, value) for name, value in parameters.items()}
                program = _program(function, *options)
                return program(*args, **parameters)
            except (SpecError, UnsupportedError) as error:
                error.__dict__.pop("__notes__", None)  # notes about frames that JAX hides
                raise
            except TypeError:
                explain_keywords(function, kwargs, args)
                raise

        FUNCTIONS[operator.name] = call
        return cast(Callable[_P, _R], call)

    return decorate


@functools.lru_cache(maxsize=_PROGRAMS, typed=True)  # True is equal to 1
def _program(function: Callable[..., _R], *options: Any) -> Callable[..., _R]:
    """Returns the jitted function of all but the options, which are names and values in turn."""
    fixed = dict(zip(options[::2], options[1::2], strict=True))
    return jax.jit(functools.partial(function, **fixed))


@functools.lru_cache(maxsize=_PROGRAMS, typed=True)  # True is equal to 1
def _scalars(function: Callable[..., object], *options: Hashable) -> _Scalars:
    """Returns the scalars of calls with these options, by what decides their values and dtypes."""
    return {}


def clear() -> None:
    """Forgets every program and scalar."""
    _program.cache_clear()
    _scalars.cache_clear()


def _is_static(option: object) -> bool:
    """True if an equal option means the same: 1.0 is equal to 1, but no stride."""
    if type(option) is tuple:
        return all(type(item) in _STATIC for item in option)
    return type(option) in _STATIC or isinstance(option, type | np.dtype)


def _is_on_device(value: object) -> bool:
    """True for prepared weights of which no array is a tracer or NumPy's."""
    if not isinstance(value, PreparedWeights):
        return False
    return all(leaf is None or type(leaf) is DeviceArray for leaf in value.arrays)


def _operands(
    operator: dispatch.Operator[Any, Any, _R],
    function: Callable[..., _R],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Returns the operands of a call, checked and converted."""
    expect_call(function, args, kwargs)
    options = {name: value for name, value in kwargs.items() if name != "implementation"}
    return operator.plan(*args, **options)[1]


def _place(
    scalars: _Scalars, dtypes: tuple[int, ...], operands: Callable[[], Any], name: str, value: Any
) -> Any:
    """Returns the operand that a call makes of a number, and any other value as it is."""
    kind = type(value)
    if kind not in _NUMBERS:
        return value
    key = name, kind, value, dtypes
    kept = scalars.get(key, _ABSENT)  # once: another thread may clear them
    if kept is not _ABSENT:
        return kept
    scalar = getattr(operands(), name)
    if isinstance(scalar, np.ndarray):
        scalar = jnp.asarray(scalar)
    if len(scalars) >= _SCALARS:
        scalars.clear()
    # Within a trace it may be a tracer, and where a mesh is set it may be bound to the mesh.
    if scalar is None or (type(scalar) is DeviceArray and not scalar.committed):
        scalars[key] = scalar
    return scalar
