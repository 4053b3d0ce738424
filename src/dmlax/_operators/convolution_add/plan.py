"""Checks a convolution and the sum of its result and an addend, and plans both."""

import functools
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core.arguments import ABSENT, Aval, OptionalT, Rules, T, aval_of, avals_of, decide
from dmlax._core.axis_names import AxisNames, whole
from dmlax._core.partitions import partition_by_names
from dmlax._core.quantized_sum import Quantized
from dmlax._core.requantize import Arithmetic
from dmlax._operators.convolution import bind
from dmlax._operators.convolution import plan as convolution
from dmlax._operators.convolution.plan import Convolution, ConvolutionPlan
from dmlax._operators.convolution.prepare import PreparedFilter

RULES = Rules("quantized_linear_convolution_add")


class ConvolutionAdd(NamedTuple, Generic[T, OptionalT]):
    """The operands: the convolution's, then those of the sum; absent ones are None."""

    input: T
    filter: T
    input_zero_point: OptionalT = ABSENT
    filter_zero_point: OptionalT = ABSENT
    bias: OptionalT = ABSENT
    input_scale: OptionalT = ABSENT
    filter_scale: OptionalT = ABSENT
    output_scale: OptionalT = ABSENT
    output_zero_point: OptionalT = ABSENT
    threshold: OptionalT = ABSENT
    addend: OptionalT = ABSENT
    addend_scale: OptionalT = ABSENT
    addend_zero_point: OptionalT = ABSENT
    sum_scale: OptionalT = ABSENT
    sum_zero_point: OptionalT = ABSENT

    @property
    def convolution(self) -> Convolution[T, OptionalT]:
        """The convolution's operands."""
        operands: tuple[Any, ...] = self[: len(Convolution._fields)]
        return Convolution(*operands)


Operands = ConvolutionAdd[Any, Any]
SUM_PARAMETERS = ("addend_scale", "addend_zero_point", "sum_scale", "sum_zero_point")


@dataclass(frozen=True)
class ConvolutionAddPlan:
    """Everything static that a lowering reads."""

    convolution: ConvolutionPlan
    addend: Aval
    addend_first: bool
    output_dtype: np.dtype

    @property
    def input(self) -> Aval:
        """The dtype and shape of the input."""
        return self.convolution.input

    @property
    def output(self) -> Aval:
        """The dtype and shape of the sum."""
        return Aval(self.output_dtype, self.convolution.output.shape)

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return self.convolution.notes()

    def __str__(self) -> str:
        return f"{self.convolution}, {self.addend} -> {self.output}"


@functools.lru_cache(maxsize=4096)
def convolution_add_plan(
    convolution: ConvolutionPlan, operands: Operands, addend_first: bool, output_dtype: np.dtype
) -> ConvolutionAddPlan:
    """Checks the addend against the convolution's result, and the sum's parameters."""
    _check_addend(RULES, operands.addend, convolution.output)
    dtypes = parameter_dtypes(operands.addend.dtype, output_dtype)
    for _, field, aval in RULES.expect_dtypes(operands, dtypes):
        RULES.expect(aval.size == 1, "sizes", field, f"is {aval}, expected one value")
    return ConvolutionAddPlan(convolution, operands.addend, addend_first, output_dtype)


def parameter_dtypes(addend: np.dtype, output: np.dtype) -> dict[str, np.dtype]:
    """The dtypes of the sum's scales and zero points, for tensors of these dtypes."""
    float32 = np.dtype(np.float32)
    return dict(zip(SUM_PARAMETERS, (float32, addend, float32, output), strict=True))


def _check_addend(rules: Rules, addend: Aval, result: Aval) -> None:
    rank = f"is {addend}, expected rank {len(result.shape)}, as the convolution's result {result}"
    rules.expect(len(addend.shape) == len(result.shape), "dimension_count", "AddendTensor", rank)
    sizes = f"is {addend}, expected the sizes of the convolution's result {result}"
    same = decide(lambda: addend.shape == result.shape, False)
    rules.expect(same, "sizes", "AddendTensor", sizes)


def axis_names(plan: ConvolutionAddPlan, operands: Operands) -> AxisNames:
    """Images and output channels may be split, and the addend with them."""
    names = convolution.axis_names(plan.convolution, operands.convolution)
    added = jax.tree.map(whole, operands)._replace(**names.operands._asdict(), addend=names.outputs)
    return names._replace(operands=added)


output_partition = partition_by_names(axis_names)


def local_plan(plan: ConvolutionAddPlan, operands: Operands) -> tuple[ConvolutionAddPlan, Operands]:
    """Plans for a part of the images and output channels."""
    local, of_convolution = convolution.local_plan(plan.convolution, operands.convolution)
    operands = operands._replace(**of_convolution._asdict())
    return replace(plan, convolution=local, addend=aval_of(operands.addend)), operands


def terms(
    plan: ConvolutionAddPlan, operands: Operands, output: Array
) -> tuple[Quantized, Quantized, Array, Array | None, np.dtype, Arithmetic]:
    """The arguments of `quantized_sum`, of a convolution's result and the addend."""
    result = Quantized(output, *map(_value, (operands.output_scale, operands.output_zero_point)))
    addend = Quantized(
        operands.addend, *map(_value, (operands.addend_scale, operands.addend_zero_point))
    )
    a, b = (addend, result) if plan.addend_first else (result, addend)
    scale, zero_point = map(_value, (operands.sum_scale, operands.sum_zero_point))
    return a, b, scale, zero_point, plan.output_dtype, plan.convolution.options.arithmetic


def _value(parameter: Array | None) -> Any:
    """The one value of a parameter."""
    return None if parameter is None else parameter.reshape(())


def plan(
    input: ArrayLike,
    filter: ArrayLike | PreparedFilter,
    bias: ArrayLike | None,
    addend: ArrayLike,
    *,
    addend_scale: ArrayLike | None = None,
    addend_zero_point: ArrayLike | None = None,
    sum_scale: ArrayLike | None = None,
    sum_zero_point: ArrayLike | None = None,
    sum_dtype: DTypeLike | None = None,
    addend_first: bool = False,
    **keywords: Unpack[bind.Keywords],
) -> tuple[ConvolutionAddPlan, Operands]:
    """Plans a call, and returns its operands; `keywords` are the convolution's."""
    is_bool = f"is {addend_first!r}, expected True or False"
    RULES.expect(type(addend_first) is bool, "option", "AddendFirst", is_bool)
    planned, operands = bind.plan(RULES, input, filter, bias, **keywords)
    array = RULES.to_array("AddendTensor", addend)
    RULES.expect_dtype("AddendTensor", aval_of(array), jnp.int8, jnp.uint8)
    dtype = RULES.choose_output_dtype(
        sum_dtype, "SumZeroPointTensor", sum_zero_point, planned.output.dtype, "sum_dtype"
    )
    parameters = addend_scale, addend_zero_point, sum_scale, sum_zero_point
    arguments: ConvolutionAdd[Any, Any] = ConvolutionAdd(
        ABSENT, ABSENT, **dict(zip(SUM_PARAMETERS, parameters, strict=True))
    )
    of_sum = RULES.to_parameters(arguments, parameter_dtypes(array.dtype, dtype))
    added: Operands = ConvolutionAdd(*operands, addend=array, **of_sum)
    avals = ConvolutionAdd(*avals_of(added._replace(filter=ABSENT, threshold=ABSENT)))
    return convolution_add_plan(planned, avals, addend_first, dtype), added
