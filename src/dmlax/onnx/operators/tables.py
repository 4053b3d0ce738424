"""Tables of 256 entries, made on the host while a model is loaded or traced.

With `arithmetic="float32"` they hold ONNX Runtime's bits: it makes such tables itself, by the same
float32 operations in the same order.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.requantize import Arithmetic
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import Node
from dmlax.onnx.operators import exact_softmax, float32_softmax
from dmlax.onnx.operators.error_function import polynomial
from dmlax.onnx.operators.exponential import exp_bounds
from dmlax.onnx.operators.rational import LOGISTIC
from dmlax.onnx.operators.table import find
from dmlax.onnx.operators.values import is_known

_FLOAT = np.float32


def sigmoid(dtype: Any, *parameters: Any) -> np.ndarray:
    """The sigmoid of every byte."""
    return _table(dtype, _sigmoid_float32, _sigmoid_bounds, *parameters)


def leaky_relu(dtype: Any, *parameters: Any) -> np.ndarray:
    """The leaky relu of every byte; the last two parameters are the slope and the arithmetic."""
    *others, alpha, arithmetic = parameters
    slope = _FLOAT(alpha)

    def of_fraction(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
        value = x if x >= 0 else Fraction(float(slope)) * x
        return value, value

    def of_float32(x: np.ndarray) -> np.ndarray:
        return np.where(x >= 0, x, slope * x)

    return _table(dtype, of_float32, of_fraction, *others, arithmetic)


def identity(dtype: Any, *parameters: Any) -> np.ndarray:
    """Every byte with other parameters."""
    return _table(dtype, lambda x: x, lambda x, digits: (x, x), *parameters)


def _table(dtype: Any, of_float32: Any, of_fraction: Any, *parameters: Any) -> np.ndarray:
    """A function's results, in the arithmetic that is the last of the parameters."""
    *others, arithmetic = parameters
    if arithmetic == "float32":
        return _float32_table(dtype, of_float32, *others)
    return _exact_table(dtype, of_fraction, *others)


def of_nodes(
    dtype: Any,
    source: str,
    nodes: tuple[Node, ...],
    constants: Mapping[str, Any],
    arithmetic: Arithmetic,
) -> np.ndarray:
    """The last node's output of every byte, which the source has."""
    found: dict[str, Any] = {"": None, **constants, source: _values(dtype).astype(dtype)}
    with jax.ensure_compile_time_eval():
        for node in nodes:
            row = find(node)
            assert row is not None
            given = {**node.attributes, "arithmetic": arithmetic}
            keywords = {name: given[name] for name in row.attributes if name in given}
            (output,) = node.outputs
            found[output] = np.asarray(row.function(*map(found.get, node.inputs), **keywords))
    table: np.ndarray = found[output].reshape(-1)
    return table


def equal(a: Any, b: Any) -> bool:
    """True where two parameters are known and equal."""
    if not (is_known(a) and is_known(b)):
        return False
    return bool(a.dtype == b.dtype and np.array_equal(a.ravel(), b.ravel()))


def multiply(a: Any, b: Any, arithmetic: str) -> Any:
    """The product of two scales, rounded to float32, which `"exact"` takes only if it is exact."""
    if not is_known(a):
        raise UnsupportedError("its a_scale is computed, and alpha is not 1")
    product = np.asarray(a * b, np.float32)
    if arithmetic == "exact":
        for one, value in zip(a.ravel(), product.ravel(), strict=True):
            if Fraction(float(one)) * Fraction(float(b)) != Fraction(float(value)):
                raise UnsupportedError(
                    f'a_scale times alpha, {b}, is no float32: take arithmetic="float32"'
                )
    return product


def _one(value: Any, what: str) -> Any:
    """A parameter of one known value."""
    if not is_known(value):
        raise UnsupportedError(f"its {what} is computed, expected a constant")
    if value.size != 1:
        raise UnsupportedError(f"its {what} has {value.size} values, expected 1")
    return value.reshape(())


def _parameters(x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any) -> tuple[Any, ...]:
    zero_points = [
        0 if each is None else int(_one(each, name))
        for each, name in ((x_zero, "x_zero_point"), (y_zero, "y_zero_point"))
    ]
    return _one(x_scale, "x_scale"), zero_points[0], _one(y_scale, "y_scale"), zero_points[1]


def _values(dtype: Any) -> np.ndarray:
    """Every value of an 8-bit dtype, ascending: the order of a table's entries."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1)


def _float32_table(
    dtype: Any, function: Callable[[np.ndarray], np.ndarray], *parameters: Any
) -> np.ndarray:
    x_scale, x_zero, y_scale, y_zero = _parameters(*parameters)
    with np.errstate(all="ignore"):
        values = x_scale * (_values(dtype) - x_zero).astype(np.float32)
        rounded = np.rint(function(values).astype(np.float32) / y_scale)
    output = _output_dtype(dtype, parameters[-1])
    limits = np.iinfo(output)
    clipped = np.clip(rounded, limits.min - y_zero, limits.max - y_zero)
    table: np.ndarray = (clipped + y_zero).astype(output)
    return table


def _output_dtype(dtype: Any, y_zero_point: Any) -> np.dtype:
    """The dtype of a zero point, or that of x where it is absent."""
    output: np.dtype = np.dtype(dtype if y_zero_point is None else y_zero_point.dtype)
    return output


def _sigmoid_float32(x: np.ndarray) -> np.ndarray:
    x = np.clip(x, _FLOAT(-18), _FLOAT(18))
    square = x * x
    numerator = polynomial(LOGISTIC[0], square) * x
    quotient = numerator / polynomial(LOGISTIC[1], square)
    found: np.ndarray = np.clip(quotient + _FLOAT(0.5), _FLOAT(0), _FLOAT(1))
    return found


def _exact_table(
    dtype: Any, bounds: Callable[[Fraction, int], tuple[Fraction, Fraction]], *parameters: Any
) -> np.ndarray:
    """Rounds each entry once: bounds of the function narrow until both round to one integer."""
    x_scale, x_zero, y_scale, y_zero = _parameters(*parameters)
    step, unit = Fraction(float(x_scale)), Fraction(float(y_scale))
    output = _output_dtype(dtype, parameters[-1])
    limits = np.iinfo(output)
    table = []
    for value in _values(dtype).tolist():
        x = (value - x_zero) * step
        rounded = _round_between(bounds, x, unit)
        table.append(min(max(rounded + y_zero, limits.min), limits.max))
    return np.asarray(table, output)


def _round_between(
    bounds: Callable[[Fraction, int], tuple[Fraction, Fraction]], x: Fraction, unit: Fraction
) -> int:
    digits = 64
    while True:
        low, high = (round(end / unit) for end in bounds(x, digits))
        if low == high:
            return low
        digits *= 2  # it ends: a sigmoid of a rational but 0 is no rational, so no tie


def _sigmoid_bounds(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """1 / (1 + exp(-x)) between two fractions, 2**-digits apart or less."""
    if x == 0:
        return Fraction(1, 2), Fraction(1, 2)
    if abs(x) > 2 * digits:  # exp(-|x|) is below 2**-digits
        tail = Fraction(1, 1 << digits)
        return (1 - tail, Fraction(1)) if x > 0 else (Fraction(0), tail)
    low, high = exp_bounds(-x, digits + 8)
    return 1 / (1 + high), 1 / (1 + low)


def softmax(x: Any, x_scale: Any, y_scale: Any, y_zero_point: Any, arithmetic: str) -> Array:
    """The softmax of 8 bits along the last axis, rounded once, or ONNX Runtime's.

    There the exponentials are a float32 table, summed in order; a quotient is rounded.
    """
    scale, inverse, y_zero = _softmax_parameters(x_scale, y_scale, y_zero_point)
    output = _output_dtype(x.dtype, y_zero_point)
    if output != x.dtype:  # the same elements, 128 apart
        half = np.asarray(y_zero + (-128 if output == np.uint8 else 128), x.dtype)
        apart = softmax(x, x_scale, y_scale, half, arithmetic)
        return apart.astype(output) ^ np.asarray(128, np.uint8).view(output)
    if x.shape[-1] == 0:
        return jnp.asarray(x)
    if arithmetic == "exact":
        return exact_softmax.softmax(jnp.asarray(x), scale, float(inverse), y_zero)
    return float32_softmax.softmax(jnp.asarray(x), scale, inverse, y_zero)


def bind_softmax(
    x: Any, x_scale: Any, y_scale: Any, y_zero_point: Any
) -> tuple[float32_softmax.SoftmaxPlan, float32_softmax.Softmax]:
    """Plans ONNX Runtime's softmax."""
    return float32_softmax.bind(x, *_softmax_parameters(x_scale, y_scale, y_zero_point))


def _softmax_parameters(x_scale: Any, y_scale: Any, y_zero_point: Any) -> tuple[float, Any, int]:
    y_zero = 0 if y_zero_point is None else int(_one(y_zero_point, "y_zero_point"))
    return float(_one(x_scale, "x_scale")), _one(y_scale, "y_scale"), y_zero
