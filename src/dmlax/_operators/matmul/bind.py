"""Converts the arguments of the matrix products to operands."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import compat, requantize
from dmlax._core.arguments import ABSENT, Aval, Rules, aval_of, avals_of
from dmlax._core.prepared_weights import Prepared
from dmlax._operators.matmul.plan import (
    INTEGER_RULES,
    QUANTIZED_RULES,
    TO_FLOAT_RULES,
    MatrixShape,
    Operands,
    Product,
    ProductPlan,
    check_b_zero_point,
    matrix_shape,
    product_plan,
)
from dmlax._operators.matmul.prepare import PACKER, PreparedMatrix, to_b_zero_point

_ZERO_REMEDIES = {"b_scale": "a dead column has scale 1 and zeros"}
Arguments = Product[Any, Any]  # arrays, numbers and a prepared matrix


def plan(
    rules: Rules,
    a: ArrayLike,
    b: ArrayLike | PreparedMatrix,
    bias: ArrayLike | None = None,
    *,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    requantization: requantize.Requantization | None = None,
    **parameters: ArrayLike | None,
) -> tuple[ProductPlan, Operands]:
    """Plans a call of the product that `rules` name, and returns its operands."""
    arguments: Arguments = Product(a, b, bias=bias, **parameters)
    requantize.check_modes(rules, arithmetic, requantization)
    left = rules.to_array("ATensor", a)
    rules.expect_dtype("ATensor", aval_of(left), jnp.int8, jnp.uint8)
    shape, right, prepared = _matrix(rules, arguments)
    dtype = _output_dtype(rules, arguments, left, output_dtype)
    operands = _operands(rules, arguments, left, right, shape, dtype)
    avals = Product(*avals_of(operands._replace(b=ABSENT)))
    if not isinstance(right, Prepared) and compat.is_constant_of_trace(b, left):
        check_b_zero_point(rules, shape, avals.b_zero_point)
        packed = PACKER.pack_constant(shape, right, operands.b_zero_point)
        operands = operands._replace(b=packed, b_zero_point=None)
    checked = product_plan(rules, avals, shape, prepared, dtype, arithmetic, requantization)
    scales = operands.a_scale, operands.b_scale, operands.output_scale
    has_bias = operands.bias is not None
    threshold = requantize.factors_of_constants(scales, left, arithmetic, has_bias, requantization)
    if has_bias and requantize.saturates_beyond_int32(scales, left):
        checked = replace(checked, steep=True)
    return checked, operands._replace(threshold=threshold)


def _output_dtype(
    rules: Rules, arguments: Arguments, a: Array, asked: DTypeLike | None
) -> np.dtype:
    if rules is QUANTIZED_RULES:
        zero_point = arguments.output_zero_point
        return rules.choose_output_dtype(asked, "OutputZeroPointTensor", zero_point, a.dtype)
    return rules.choose_float_dtype(asked) if rules is TO_FLOAT_RULES else np.dtype(np.int32)


def _matrix(
    rules: Rules, arguments: Arguments
) -> tuple[MatrixShape, Array | Prepared, tuple[Aval | None, ...] | None]:
    """Takes the right matrix, raw or prepared, and the avals of a prepared one's arrays."""
    b = arguments.b
    if not isinstance(b, PreparedMatrix):
        array = rules.to_array("BTensor", b)
        return matrix_shape(rules, aval_of(array)), array, None
    again = "is given again: the prepared matrix holds it"
    rules.expect(arguments.b_zero_point is None, "option", "BZeroPointTensor", again)
    leaves: list[Any] = [x if x is None else rules.to_array("BTensor", x) for x in b.arrays]
    return b.weights, Prepared(*leaves), tuple(avals_of(leaves))


def _operands(
    rules: Rules,
    arguments: Arguments,
    a: Array,
    b: Array | Prepared,
    shape: MatrixShape,
    dtype: np.dtype,
) -> Operands:
    """Converts every parameter to an array; weakly typed ones take their tensor's dtype."""
    parameters = rules.to_parameters(arguments, {"a_zero_point": a.dtype})
    parameters["b_zero_point"] = to_b_zero_point(rules, shape, arguments.b_zero_point)
    of_bias = jnp.int32 if rules is QUANTIZED_RULES else dtype
    dtypes = {"bias": of_bias, "output_zero_point": dtype}
    dtypes |= dict.fromkeys(_SCALES[rules], jnp.float32)
    parameters |= rules.to_parameters(arguments, dtypes, _ZERO_REMEDIES)
    return Product(a, b, **parameters)


_SCALES = {
    INTEGER_RULES: (),
    QUANTIZED_RULES: ("a_scale", "b_scale", "output_scale"),
    TO_FLOAT_RULES: ("a_scale", "b_scale"),
}
