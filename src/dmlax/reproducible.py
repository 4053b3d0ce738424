"""Functions and sums of floats that have one answer: on every backend, for every batch.

They are fixed sequences of IEEE operations and integer operations, in plain XLA. `VERSION` names
them: a later version of dmlax has these bits, or another name.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.lib.array_utils import normalize_axis_tuple

from dmlax._core import float_functions, ieee, ordered_products, sums
from dmlax._core.arguments import Rules, aval_of, broadcast_shapes
from dmlax._core.float_functions import VERSION as VERSION
from dmlax._fused.exact_floats import call as _kernels  # noqa: F401  the import brings them

__all__ = [
    *("VERSION", "add", "atan", "cos", "divide", "dot", "erf", "exp", "exp2", "expm1", "gelu"),
    *("log", "log1p", "mean", "multiply", "pow", "reciprocal", "rsqrt", "sigmoid", "sin"),
    *("softplus", "sqrt", "subtract", "sum", "tanh"),
]

_Function = Callable[..., Any]
_P = ParamSpec("_P")
_FLOATS = (jnp.float32, jnp.float16, jnp.bfloat16)
_SECTIONS = """\
Args:
  {names}: float32, float16 or bfloat16 of any shape{broadcast}. Subnormal float32 numbers are 0.

Returns:
  {result}

Raises:
  SpecError: code `data_type` for another dtype{also}."""
_ROUNDED = "The dtype of {first}. Float16 and bfloat16 are computed in float32 and rounded once."
_OF_TWO = " and for two that differ; code `sizes` for shapes that do not broadcast"


def _documented(
    result: str = "At most 1 ulp from the real number, 0 up to 2**-126, one quiet NaN.",
    also: str = "",
) -> Callable[[Callable[_P, Array]], Callable[_P, Array]]:
    """Puts the sections that all functions share between a docstring's summary and its example."""

    def decorate(function: Callable[_P, Array]) -> Callable[_P, Array]:
        summary, _, example = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        parameters = inspect.signature(function).parameters.values()
        names = [x.name for x in parameters if x.annotation is ArrayLike]
        sections = _SECTIONS.format(
            names=", ".join(names),
            broadcast="; shapes broadcast" if names[1:] else "",
            result=f"{_ROUNDED.format(first=names[0])} {result}",
            also=(_OF_TWO if names[1:] else "") + also,
        )
        function.__doc__ = "\n\n".join(filter(None, (summary, sections, example)))
        return function

    return decorate


def _operands(name: str, **given: ArrayLike) -> list[Array]:
    """The operands, checked; a Python number takes the first array's dtype."""
    rules = Rules(name)
    arrays: list[Any] = [x if hasattr(x, "dtype") else jnp.asarray(x) for x in given.values()]
    is_weak = [getattr(x, "weak_type", False) for x in arrays]
    strong = [x.dtype for x, weak in zip(arrays, is_weak, strict=True) if not weak]
    first = strong[0] if strong else np.dtype(np.float32)
    typed = [x.astype(first) if weak else x for x, weak in zip(arrays, is_weak, strict=True)]
    for field, x in zip(given, typed, strict=True):
        rules.expect_dtype(field, aval_of(x), *_FLOATS)
        wanted = f"{typed[0].dtype.name}, that of {next(iter(given))}"
        message = f"has dtype {x.dtype.name}, expected {wanted}"
        rules.expect(x.dtype == typed[0].dtype, "data_type", field, message)
    *others, last = typed
    for other in others:
        message = f"is {aval_of(last)}, expected a shape that broadcasts with {aval_of(other)}"
        holds = broadcast_shapes(other.shape, last.shape) is not None
        rules.expect(holds, "sizes", [*given][-1], message)
    return [jnp.asarray(x) for x in typed]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
@functools.partial(jax.jit, static_argnums=(0, 1))  # an eager call runs the program of others
def _compute(function: _Function, usual: _Function, *operands: Array) -> Array:
    return sums.narrow(function(*map(sums.wide, operands)), operands[0].dtype)


@_compute.defjvp
def _tangent(function: Any, usual: Any, primals: Any, tangents: Any) -> tuple[Array, Array]:
    value: Array = _compute(function, usual, *primals)
    return value, jax.jvp(usual, primals, tangents)[1]


def _call(function: _Function, usual: _Function, **given: ArrayLike) -> Array:
    """Computes a function, whose derivatives are those of the usual one."""
    operands = _operands(function.__name__.partition("_")[0], **given)
    value: Array = _compute(_Applied(function), usual, *operands)
    return value


class _Applied(NamedTuple):
    """A function of any float32, elementwise."""

    function: _Function

    def __call__(self, *operands: Array) -> Array:
        return float_functions.apply(self.function, *jnp.broadcast_arrays(*operands))


class _Reduced(NamedTuple):
    """A sum along axes, which it keeps, or the mean."""

    is_mean: bool
    axes: tuple[int, ...]

    def __call__(self, x: Array) -> Array:
        total = ordered_products.total(x, self.axes)
        if not self.is_mean:
            return total
        count = math.prod(x.shape[axis] for axis in self.axes)
        return float_functions.finish(ieee.divide(total, jnp.asarray(count, total.dtype)))


class _Usual(NamedTuple):
    """A reduction of JAX's."""

    reduce: _Function
    axes: tuple[int, ...]

    def __call__(self, x: Array) -> Array:
        total: Array = self.reduce(x, axis=self.axes, keepdims=True)
        return total


_CORRECT = "Correctly rounded, 0 up to 2**-126, one quiet NaN."


@_documented(_CORRECT)
def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y."""
    return _call(ieee.add, jnp.add, x=x, y=y)


@_documented(_CORRECT)
def subtract(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y."""
    return _call(ieee.subtract, jnp.subtract, x=x, y=y)


@_documented(_CORRECT)
def multiply(x: ArrayLike, y: ArrayLike) -> Array:
    """x * y, which no sum that follows absorbs."""
    return _call(ieee.multiply, jnp.multiply, x=x, y=y)


@_documented(_CORRECT)
def divide(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y."""
    return _call(ieee.divide, jnp.divide, x=x, y=y)


@_documented()
def exp(x: ArrayLike) -> Array:
    """The exponential function.

    >>> from dmlax import reproducible
    >>> float(reproducible.exp(1.0)).hex()
    '0x1.5bf0a80000000p+1'
    """
    return _call(float_functions.exp, jnp.exp, x=x)


@_documented()
def exp2(x: ArrayLike) -> Array:
    """2**x."""
    return _call(float_functions.exp2, jnp.exp2, x=x)


@_documented()
def expm1(x: ArrayLike) -> Array:
    """exp(x) - 1."""
    return _call(float_functions.expm1, jnp.expm1, x=x)


@_documented()
def log(x: ArrayLike) -> Array:
    """The natural logarithm: -infinity of 0, NaN below."""
    return _call(float_functions.log, jnp.log, x=x)


@_documented()
def log1p(x: ArrayLike) -> Array:
    """log(1 + x)."""
    return _call(float_functions.log1p, jnp.log1p, x=x)


@_documented()
def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent."""
    return _call(float_functions.tanh, jnp.tanh, x=x)


@_documented()
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x))."""
    return _call(float_functions.sigmoid, jax.nn.sigmoid, x=x)


@_documented()
def erf(x: ArrayLike) -> Array:
    """The error function."""
    return _call(float_functions.erf, jax.scipy.special.erf, x=x)


@_documented()
def gelu(x: ArrayLike, *, approximate: bool = False) -> Array:
    """Multiplies x by the normal distribution function of x.

    `approximate=True` is x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x**3))), the form by tanh.

    >>> from dmlax import reproducible
    >>> float(reproducible.gelu(-1.0)), float(reproducible.gelu(-1.0, approximate=True))
    (-0.15865525603294373, -0.15880800783634186)
    """
    function = float_functions.gelu_tanh if approximate else float_functions.gelu
    usual = _gelu_tanh if approximate else _gelu
    return _call(function, usual, x=x)


_gelu = functools.partial(jax.nn.gelu, approximate=False)
_gelu_tanh = functools.partial(jax.nn.gelu, approximate=True)


@_documented()
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x))."""
    return _call(float_functions.softplus, jax.nn.softplus, x=x)


@_documented()
def sin(x: ArrayLike) -> Array:
    """The sine, for x of any size."""
    return _call(float_functions.sin, jnp.sin, x=x)


@_documented()
def cos(x: ArrayLike) -> Array:
    """The cosine, for x of any size."""
    return _call(float_functions.cos, jnp.cos, x=x)


@_documented()
def atan(x: ArrayLike) -> Array:
    """The arc tangent."""
    return _call(float_functions.atan, jnp.arctan, x=x)


@_documented()
def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x**y: 1 if x is 1 or y is 0, NaN for x below 0 and y that is no integer."""
    return _call(float_functions.pow, jnp.power, x=x, y=y)


@_documented(_CORRECT)
def sqrt(x: ArrayLike) -> Array:
    """The square root."""
    return _call(float_functions.sqrt, jnp.sqrt, x=x)


@_documented()
def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x)."""
    return _call(float_functions.rsqrt, jax.lax.rsqrt, x=x)


@_documented(_CORRECT)
def reciprocal(x: ArrayLike) -> Array:
    """1 / x."""
    return _call(float_functions.reciprocal, jnp.reciprocal, x=x)


_ORDER = "Its last bits depend on the summed sizes alone. Partial sums up to 2**-126 are 0."
_AXES = "; numpy.exceptions.AxisError for an axis that is not there"
Axes = int | tuple[int, ...] | None


@_documented(_ORDER, _AXES)
def sum(x: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """The sum along axes, by default all.

    Element i of the summed axes, in row-major order, is added to sum i % 64, one after another.
    The 64 sums are four vectors of 16: (0 + 1) + (2 + 3); then halves are added until one is left.

    >>> import jax.numpy as jnp
    >>> from dmlax import reproducible
    >>> float(reproducible.sum(jnp.float32([1e8, 1.0, -1e8])))
    1.0
    """
    return _reduce("sum", x, axis, keepdims)


@_documented(_ORDER, _AXES)
def mean(x: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """The `sum`, divided by the number of elements: one quotient, correctly rounded."""
    return _reduce("mean", x, axis, keepdims)


@_documented(_ORDER)
def dot(x: ArrayLike, y: ArrayLike) -> Array:
    """The `sum` along the last axis of the products, each of which is rounded."""
    x, y = map(sums.wide, _operands("dot", x=x, y=y))
    return sum(multiply(x, y), -1)


def _reduce(name: str, x: ArrayLike, axis: Axes, keepdims: bool) -> Array:
    (x,) = _operands(name, x=x)
    axes = tuple(range(x.ndim) if axis is None else sorted(normalize_axis_tuple(axis, x.ndim)))
    total: Array = _compute(_Reduced(name == "mean", axes), _Usual(getattr(jnp, name), axes), x)
    return total if keepdims else total.squeeze(axes)
