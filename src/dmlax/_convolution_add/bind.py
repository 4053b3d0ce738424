"""Converts the arguments of a convolution and a sum to operands."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from dmlax._convolution import bind as convolution
from dmlax._convolution.prepared_filter import PreparedFilter
from dmlax._convolution_add.plan import (
    FIELDS,
    RULES,
    SUM_PARAMETERS,
    ConvolutionAdd,
    ConvolutionAddPlan,
    Operands,
    convolution_add_plan,
)
from dmlax._core.arguments import ABSENT, aval_of, avals_of


def plan(
    input: ArrayLike,
    filter: ArrayLike | PreparedFilter,
    bias: ArrayLike | None,
    addend: ArrayLike,
    /,
    *,
    sum_dtype: DTypeLike | None = None,
    addend_first: bool = False,
    **others: Any,
) -> tuple[ConvolutionAddPlan, Operands]:
    """Plans a call, and returns its operands; `others` are the sum's and the convolution's."""
    is_bool = f"is {addend_first!r}, expected True or False"
    RULES.expect(type(addend_first) is bool, "option", "AddendFirst", is_bool)
    parameters = {name: others.pop(name, None) for name in SUM_PARAMETERS}
    planned, operands = convolution.plan(RULES, input, filter, bias, **others)
    array = RULES.to_array(FIELDS.addend, addend)
    RULES.expect_dtype(FIELDS.addend, aval_of(array), jnp.int8, jnp.uint8)
    result, zero_point = planned.output.dtype, parameters["sum_zero_point"]
    dtype = RULES.choose_output_dtype(
        sum_dtype, FIELDS.sum_zero_point, zero_point, result, "sum_dtype"
    )
    dtypes = dict.fromkeys(("addend_scale", "sum_scale"), np.dtype(np.float32))
    dtypes |= {"addend_zero_point": array.dtype, "sum_zero_point": dtype}
    arguments = ConvolutionAdd(ABSENT, ABSENT, **parameters)
    of_sum = RULES.to_parameters(FIELDS, arguments, dtypes)
    added: Operands = ConvolutionAdd(*operands, addend=array, **of_sum)
    avals = ConvolutionAdd(*avals_of(added._replace(filter=ABSENT, threshold=ABSENT)))
    return convolution_add_plan(planned, avals, addend_first, dtype), added
