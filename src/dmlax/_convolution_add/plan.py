"""Checks a convolution and the sum of its result and an addend, and plans both."""

import functools
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._convolution import plan as convolution
from dmlax._convolution.plan import Convolution, ConvolutionPlan
from dmlax._core import compat
from dmlax._core.arguments import ABSENT, Aval, OptionalT, Rules, T, decide
from dmlax._core.fields import tensor_fields
from dmlax._core.quantized_sum import Quantized
from dmlax._core.requantize import Arithmetic

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

FIELDS: ConvolutionAdd[str, str] = tensor_fields(ConvolutionAdd)
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
    convolution: ConvolutionPlan,
    operands: Operands,
    addend_first: bool,
    output_dtype: np.dtype,
) -> ConvolutionAddPlan:
    """Checks the addend against the convolution's result, and the sum's parameters."""
    _check_addend(RULES, operands.addend, convolution.output)
    dtypes = (jnp.float32, operands.addend.dtype, jnp.float32, output_dtype)
    for name, dtype in zip(SUM_PARAMETERS, dtypes, strict=True):
        field, aval = getattr(FIELDS, name), getattr(operands, name)
        if aval is not None:
            RULES.expect_dtype(field, aval, dtype)
            RULES.expect(aval.size == 1, "sizes", field, f"is {aval}, expected one value")
    return ConvolutionAddPlan(convolution, operands.addend, addend_first, output_dtype)


def _check_addend(rules: Rules, addend: Aval, result: Aval) -> None:
    rank = f"is {addend}, expected rank {len(result.shape)}, as the convolution's result {result}"
    rules.expect(len(addend.shape) == len(result.shape), "dimension_count", FIELDS.addend, rank)
    sizes = f"is {addend}, expected the sizes of the convolution's result {result}"
    same = decide(lambda: addend.shape == result.shape, False)
    rules.expect(same, "sizes", FIELDS.addend, sizes)


def output_partition(plan: ConvolutionAddPlan, operands: Operands) -> compat.Partition:
    """The output is split over a mesh as the convolution's is."""
    return convolution.output_partition(plan.convolution, operands.convolution)


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
