"""A convolution and the sum of its result and an addend: plan and lowerings."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._convolution import plan as convolution
from dmlax._convolution.cuda import lowering as mosaic_gpu
from dmlax._convolution.plan import Convolution, ConvolutionPlan
from dmlax._core.arguments import Aval, Rules, decide
from dmlax._core.dispatch import Lowering
from dmlax._core.pairs import map_pairs
from dmlax._core.quantized_sum import Quantized, quantized_sum
from dmlax._core.requantize import Arithmetic
from dmlax._cpu import binary
from dmlax._cuda import byte_pairs
from dmlax._cuda.sum_types import Addend, SumTypes

Sum = Callable[[Quantized, Quantized, Array, Array | None, DTypeLike, Arithmetic], Array]


class ConvolutionAdd(NamedTuple):
    """The operands: the convolution's, then those of the sum; absent ones are None."""

    input: Any
    filter: Any
    input_zero_point: Any = None
    filter_zero_point: Any = None
    bias: Any = None
    input_scale: Any = None
    filter_scale: Any = None
    output_scale: Any = None
    output_zero_point: Any = None
    threshold: Any = None
    addend: Any = None
    addend_scale: Any = None
    addend_zero_point: Any = None
    sum_scale: Any = None
    sum_zero_point: Any = None

    @property
    def convolution(self) -> Convolution:
        """Those of the convolution."""
        return Convolution(*self[: len(Convolution._fields)])


FIELDS = ConvolutionAdd(
    *convolution.FIELDS,
    addend="AddendTensor",
    addend_scale="AddendScaleTensor",
    addend_zero_point="AddendZeroPointTensor",
    sum_scale="SumScaleTensor",
    sum_zero_point="SumZeroPointTensor",
)
SUM_PARAMETERS = ("addend_scale", "addend_zero_point", "sum_scale", "sum_zero_point")


@dataclass(frozen=True)
class ConvolutionAddPlan:
    """Everything static that a lowering reads."""

    convolution: ConvolutionPlan
    addend: Aval
    addend_first: bool
    output_dtype: np.dtype

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
    rules: Rules,
    convolution: ConvolutionPlan,
    operands: ConvolutionAdd,
    addend_first: bool,
    output_dtype: np.dtype,
) -> ConvolutionAddPlan:
    """Checks the addend against the convolution's result, and the sum's parameters."""
    _check_addend(rules, operands.addend, convolution.output)
    dtypes = (jnp.float32, operands.addend.dtype, jnp.float32, output_dtype)
    for name, dtype in zip(SUM_PARAMETERS, dtypes, strict=True):
        field, aval = getattr(FIELDS, name), getattr(operands, name)
        if aval is not None:
            rules.expect_dtype(field, aval, dtype)
            rules.expect(aval.size == 1, "sizes", field, f"is {aval}, expected one value")
    return ConvolutionAddPlan(convolution, operands.addend, addend_first, output_dtype)


def _check_addend(rules: Rules, addend: Aval, result: Aval) -> None:
    rank = f"is {addend}, expected rank {len(result.shape)}, as the convolution's result {result}"
    rules.expect(len(addend.shape) == len(result.shape), "dimension_count", FIELDS.addend, rank)
    sizes = f"is {addend}, expected the sizes of the convolution's result {result}"
    same = decide(lambda: addend.shape == result.shape, False)
    rules.expect(same, "sizes", FIELDS.addend, sizes)


def output_partition(plan: ConvolutionAddPlan, operands: ConvolutionAdd) -> tuple[Any, ...]:
    """The output is split over a mesh as the convolution's is."""
    return convolution.output_partition(plan.convolution, operands.convolution)


def add_to(lowering: Lowering) -> Lowering:
    """The lowering of a convolution, and after it, or in its kernel, the sum."""
    run = functools.partial(_run, lowering.run, lowering.name)
    if lowering.name == "mosaic_gpu":
        run = functools.partial(_run_in_kernel, run)
    return replace(
        lowering,
        run=run,
        why_not=functools.partial(_why_not, lowering.why_not),
    )


def _run(
    convolve: Callable[[ConvolutionPlan, Convolution], Array],
    name: str,
    plan: ConvolutionAddPlan,
    operands: ConvolutionAdd,
) -> Array:
    """Rounds twice: the convolution, then the sum."""
    output = convolve(plan.convolution, operands.convolution)
    terms = [
        Quantized(output, _value(operands.output_scale), _value(operands.output_zero_point)),
        Quantized(
            operands.addend, _value(operands.addend_scale), _value(operands.addend_zero_point)
        ),
    ]
    a, b = reversed(terms) if plan.addend_first else terms
    scale, zero_point = _value(operands.sum_scale), _value(operands.sum_zero_point)
    arithmetic = plan.convolution.options.arithmetic
    return _sum_of(name, plan)(a, b, scale, zero_point, plan.output_dtype, arithmetic)


def _run_in_kernel(
    run: Callable[[ConvolutionAddPlan, ConvolutionAdd], Array],
    plan: ConvolutionAddPlan,
    operands: ConvolutionAdd,
) -> Array:
    """One kernel where it can add, else by `run`."""
    if not mosaic_gpu.fuses_sum(plan.convolution):
        return run(plan, operands)
    addend = Addend(operands.addend, *(getattr(operands, name) for name in SUM_PARAMETERS))
    types = SumTypes(plan.addend.dtype, plan.output_dtype, plan.addend_first)
    return mosaic_gpu.run_with_sum(plan.convolution, types, operands.convolution, addend)


def _value(parameter: Any) -> Any:
    """The one value of a parameter."""
    return None if parameter is None else parameter.reshape(())


def _sum_by_pairs(
    mapped: Callable[..., Array],
    a: Quantized,
    b: Quantized,
    scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Array:
    """`quantized_sum` of tensors of one shape, mapped over their pairs."""

    def add(x: Array, y: Array, parameters: Any) -> Array:
        a_scale, a_zero, b_scale, b_zero, scale, zero_point = parameters
        terms = Quantized(x, a_scale, a_zero), Quantized(y, b_scale, b_zero)
        return quantized_sum(*terms, scale, zero_point, dtype, arithmetic)

    parameters = *a[1:], *b[1:], scale, zero_point
    return mapped(add, a.values, b.values, parameters, Aval(np.dtype(dtype), a.values.shape))


def _sum_of(name: str, plan: ConvolutionAddPlan) -> Sum:
    """The sum of a lowering; a kernel may write it where the convolution's result is."""
    if name == "native_cpu":
        return functools.partial(binary.add, overwritten=int(plan.addend_first))
    if name == "reference":
        return quantized_sum
    table_kernel = functools.partial(byte_pairs.map_pairs, "dmlax_quantized_sum")
    return functools.partial(_sum_by_pairs, table_kernel if name == "mosaic_gpu" else map_pairs)


def _why_not(
    why_not: Callable[[Any, str], str | None], plan: ConvolutionAddPlan | None, platform: str
) -> str | None:
    return why_not(plan and plan.convolution, platform)
