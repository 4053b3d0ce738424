"""Converts the arguments of an operator on two quantized tensors to operands."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from dmlax._add_multiply.plan import FIELDS, Binary, BinaryPlan, Kind, Operands, binary_plan
from dmlax._core import requantize
from dmlax._core.arguments import Rules, aval_of, avals_of


def plan(
    rules: Rules,
    kind: Kind,
    *tensors: ArrayLike,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    **parameters: ArrayLike | None,
) -> tuple[BinaryPlan, Operands]:
    """Plans a call, and returns its operands."""
    arguments = Binary(*tensors, **parameters)
    rules.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
    a, b = (rules.to_array(getattr(FIELDS, name), getattr(arguments, name)) for name in "ab")
    rules.expect_dtype(FIELDS.a, aval_of(a), jnp.int8, jnp.uint8)
    rules.expect_dtype(FIELDS.b, aval_of(b), jnp.int8, jnp.uint8)
    dtype = rules.choose_output_dtype(
        output_dtype, FIELDS.output_zero_point, arguments.output_zero_point, a.dtype
    )
    dtypes = {f"{name}_scale": np.dtype(np.float32) for name in ("a", "b", "output")}
    dtypes |= {"a_zero_point": a.dtype, "b_zero_point": b.dtype, "output_zero_point": dtype}
    operands: Operands = Binary(a, b, **rules.to_parameters(FIELDS, arguments, dtypes))
    return binary_plan(rules, kind, Binary(*avals_of(operands)), dtype, arithmetic), operands
