"""Tables of 256 entries, made on the host while a model is loaded or traced.

With `arithmetic="float32"` they hold ONNX Runtime's bits: it makes these tables, too, by the same
float32 operations in the same order.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._core import compat
from dmlax._core.rational import LOGISTIC
from dmlax._core.requantize import Arithmetic
from dmlax._fused.exact_floats.call import exact_function
from dmlax._fused.softmax.call import SOFTMAX
from dmlax._fused.softmax.plan import Softmax, SoftmaxPlan
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import Node
from dmlax.onnx.operators import exact_softmax
from dmlax.onnx.operators.error_function import polynomial
from dmlax.onnx.operators.table import Output, Quantized, Tensor, find
from dmlax.onnx.operators.values import is_known

_FLOAT = np.float32


class ByteFunction(NamedTuple):
    """A function of the real number that a byte stands for.

    Attributes:
      of_float32: computes it by ONNX Runtime's float32 operations.
      bounds: two fractions that enclose it, 2**-digits apart or less.
    """

    of_float32: Callable[[np.ndarray], np.ndarray]
    bounds: Callable[[Fraction, int], tuple[Fraction, Fraction]]

    def table(self, x: Quantized, y: Output, arithmetic: Arithmetic) -> np.ndarray:
        """The quantized results of all bytes."""
        x_zero = _integer(x.zero_point, "x_zero_point")
        y_zero = _integer(y.zero_point, "y_zero_point")
        scales = _one(x.scale, "x_scale"), _one(y.scale, "y_scale")
        steps = _values(x.values.dtype) - x_zero
        output = _output_dtype(x.values.dtype, y.zero_point)
        limits = np.iinfo(output)
        rounded = self._round_float32 if arithmetic == "float32" else self._round_once
        table = rounded(steps, *scales, limits.min - y_zero, limits.max - y_zero) + y_zero
        return np.asarray(table.astype(output))

    def _round_float32(
        self, steps: np.ndarray, scale: np.ndarray, unit: np.ndarray, low: int, high: int
    ) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = self.of_float32(scale * steps.astype(np.float32))
            rounded = np.rint(values.astype(np.float32) / unit)
        return np.asarray(np.clip(rounded, low, high))

    def _round_once(
        self, steps: np.ndarray, scale: np.ndarray, unit: np.ndarray, low: int, high: int
    ) -> np.ndarray:
        """Narrows the bounds of every result until both round to one integer."""
        step, quantum = Fraction(float(scale)), Fraction(float(unit))
        rounded = (self._round_between(count * step, quantum) for count in steps.tolist())
        return np.asarray([min(max(integer, low), high) for integer in rounded])

    def _round_between(self, x: Fraction, unit: Fraction) -> int:
        digits = 64
        while True:
            low, high = (round(end / unit) for end in self.bounds(x, digits))
            if low == high:
                return low
            digits *= 2  # it ends: a sigmoid of a rational but 0 is no rational, so no tie


def leaky_relu(alpha: float) -> ByteFunction:
    """The leaky relu of a slope."""
    slope = _FLOAT(alpha)
    of_fraction = _exactly(lambda x: x if x >= 0 else Fraction(float(slope)) * x)
    return ByteFunction(lambda x: np.where(x >= 0, x, slope * x), of_fraction)


def _exactly(
    function: Callable[[Fraction], Fraction],
) -> Callable[[Fraction, int], tuple[Fraction, Fraction]]:
    """The bounds of a function whose results are fractions."""
    return lambda x, digits: (function(x), function(x))


def _clip(x: np.ndarray, min: Any = None, max: Any = None) -> np.ndarray:
    x = x if min is None or np.isnan(min) else np.maximum(x, np.asarray(min, x.dtype))
    return x if max is None or np.isnan(max) else np.minimum(x, np.asarray(max, x.dtype))


_ON_HOST: Mapping[str, Callable[..., np.ndarray]] = {  # XLA's values, except subnormals
    "Add": np.add,
    "Clip": _clip,
    "Div": np.divide,
    "Mul": np.multiply,
    "Relu": lambda x: np.where(x <= 0, np.zeros_like(x), x),
    "Sub": np.subtract,
}


def of_nodes(
    dtype: DTypeLike,
    source: str,
    nodes: tuple[Node, ...],
    constants: Mapping[str, Any],
    arithmetic: Arithmetic,
) -> np.ndarray:
    """The last node's output of every byte, which the source has."""
    values: dict[str, Any] = {"": None, **constants, source: _values(dtype).astype(dtype)}
    with compat.on_cpu_at_once(), np.errstate(all="ignore"):
        for node in nodes:
            row = find(node)
            assert row is not None
            options = {**node.attributes, "arithmetic": arithmetic, "version": node.version}
            keywords = {name: options[name] for name in row.attributes if name in options}
            (output,) = node.outputs
            function: Callable[..., Any] = functools.partial(row.function, **keywords)
            if arithmetic == "exact":
                function = exact_function(function)
            elif node.op in _ON_HOST and not node.domain:
                function = functools.partial(_ON_HOST[node.op], **node.attributes)
            values[output] = np.asarray(function(*map(values.get, node.inputs)))
    table: np.ndarray = values[output].reshape(-1)
    return table


def of_function(
    dtype: DTypeLike,
    names: tuple[str, ...],
    nodes: tuple[Node, ...],
    constants: Sequence[Any],
    arithmetic: Arithmetic,
) -> np.ndarray:
    """`of_nodes`; the names are those of the source and of the constants."""
    source, *known = names
    return of_nodes(dtype, source, nodes, dict(zip(known, constants, strict=True)), arithmetic)


def equal(a: Tensor | None, b: Tensor | None) -> bool:
    """True if two parameters are known and equal."""
    if not (is_known(a) and is_known(b)):
        return False
    return bool(a.dtype == b.dtype and np.array_equal(a.ravel(), b.ravel()))


def multiply(a: Tensor, b: np.float32, arithmetic: Arithmetic) -> np.ndarray:
    """The product of two scales as float32; `"exact"` refuses an inexact product."""
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


def _one(value: Tensor, name: str) -> np.ndarray:
    """A parameter of one known value."""
    if not is_known(value):
        raise UnsupportedError(f"its {name} is computed, expected a constant")
    if value.size != 1:
        raise UnsupportedError(f"its {name} has {value.size} values, expected 1")
    return value.reshape(())


def _integer(zero_point: Tensor | None, name: str) -> int:
    """A zero point, 0 where it is absent."""
    return 0 if zero_point is None else int(_one(zero_point, name))


def _values(dtype: DTypeLike) -> np.ndarray:
    """Every value of an 8-bit dtype, ascending: the order of a table's entries."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1)


def _output_dtype(dtype: DTypeLike, y_zero_point: Tensor | None) -> np.dtype:
    """The dtype of a zero point, or of x if the zero point is absent."""
    output: np.dtype = np.dtype(dtype if y_zero_point is None else y_zero_point.dtype)
    return output


def _sigmoid_float32(x: np.ndarray) -> np.ndarray:
    x = np.clip(x, _FLOAT(-18), _FLOAT(18))
    square = x * x
    numerator = polynomial(LOGISTIC[0], square) * x
    quotient = numerator / polynomial(LOGISTIC[1], square)
    return np.asarray(np.clip(quotient + _FLOAT(0.5), _FLOAT(0), _FLOAT(1)))


def _sigmoid_bounds(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """1 / (1 + exp(-x)) between two fractions, 2**-digits apart or less."""
    if x == 0:
        return Fraction(1, 2), Fraction(1, 2)
    if abs(x) > 2 * digits:  # exp(-|x|) is below 2**-digits
        tail = Fraction(1, 1 << digits)
        return (1 - tail, Fraction(1)) if x > 0 else (Fraction(0), tail)
    low, high = exact_softmax.exp_bounds(-x, digits + 8)
    return 1 / (1 + high), 1 / (1 + low)


SIGMOID = ByteFunction(_sigmoid_float32, _sigmoid_bounds)
IDENTITY = ByteFunction(lambda x: x, _exactly(lambda x: x))


def softmax(
    x: Tensor, x_scale: Tensor, y_scale: Tensor, y_zero_point: Tensor | None, arithmetic: Arithmetic
) -> Array:
    """The softmax of 8 bits along the last axis: rounded once, or ONNX Runtime's.

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
    return SOFTMAX.call(*SOFTMAX.plan(jnp.asarray(x), scale, inverse, y_zero))


def plan_softmax(
    x: Tensor, x_scale: Tensor, y_scale: Tensor, y_zero_point: Tensor | None
) -> tuple[SoftmaxPlan, Softmax]:
    """Plans ONNX Runtime's softmax."""
    return SOFTMAX.plan(x, *_softmax_parameters(x_scale, y_scale, y_zero_point))


def _softmax_parameters(
    x_scale: Tensor, y_scale: Tensor, y_zero_point: Tensor | None
) -> tuple[float, Any, int]:
    y_zero = _integer(y_zero_point, "y_zero_point")
    return float(_one(x_scale, "x_scale")), _one(y_scale, "y_scale"), y_zero
