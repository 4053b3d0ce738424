"""element_wise_quantized_linear_add and element_wise_quantized_linear_multiply."""

import functools
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import compat, dispatch, eager, pairs, requantize
from dmlax._core.arguments import Rules, avals_of
from dmlax._core.quantized_sum import SumRequantization
from dmlax._cuda import capability, first_use
from dmlax._operators.add_multiply import reference, xla
from dmlax._operators.add_multiply.arithmetic import known_factors
from dmlax._operators.add_multiply.cpu import lowering as native_cpu
from dmlax._operators.add_multiply.cuda import lowering as mosaic_gpu
from dmlax._operators.add_multiply.plan import (
    Binary,
    BinaryPlan,
    Kind,
    Operands,
    axis_names,
    local_plan,
    output_partition,
    plan,
)

_FEW = 1 << 10  # elements that XLA computes as fast as a kernel looks them up


class _Binary(dispatch.Operator[BinaryPlan, Operands, Array]):
    """Either operator."""

    def call(
        self, plan: BinaryPlan, operands: Operands, implementation: dispatch.Implementation = "auto"
    ) -> Array:
        """Runs the operator; a GPU takes the table of a program that knows its parameters."""
        scales = operands.a_scale, operands.b_scale, operands.output_scale
        is_known = plan.requantization is not None and all(
            any(compat.is_constant_of_trace(x, tensor) for tensor in operands[:2]) for x in scales
        )
        if is_known and operands.factors is None:
            factors: Any = known_factors(plan, *scales)
            operands = operands._replace(factors=factors)
        if implementation in ("auto", "mosaic_gpu"):
            operands = self.with_table(plan, operands)
        return super().call(plan, operands, implementation)

    def with_table(self, plan: BinaryPlan, operands: Operands) -> Operands:
        """Adds the table where a GPU's program knows the parameters."""
        if operands.table is not None or not self._may_take_table(plan, operands):
            return operands
        return operands._replace(table=self._table(plan, operands))

    def _may_take_table(self, plan: BinaryPlan, operands: Operands) -> bool:
        known = (
            x is None or any(compat.is_constant_of_trace(x, tensor) for tensor in operands[:2])
            for x in operands.parameters
        )
        many = plan.output.is_static and plan.output.size >= _FEW
        return many and all(known) and capability.why_not("cuda") is None

    def _table(self, plan: BinaryPlan, operands: Operands) -> Array:
        """The result of every pair, at the places where a GPU looks it up, computed on a CPU."""
        every = np.arange(256, dtype=np.uint8)
        first, second = every[:, None], pairs.spread_over_banks(every[:, None], every[None])
        a, b = first.view(operands.a.dtype), second.view(operands.b.dtype)
        values: Operands = jax.tree.map(np.asarray, Binary(a, b, *operands.parameters))
        output = plan.output._replace(shape=second.shape)
        every_pair = replace(
            plan, operands=Binary(*avals_of(values._replace(factors=None))), output=output
        )
        with compat.on_cpu_at_once():
            table = np.asarray(super().call(every_pair, values))
        return jnp.asarray(table.view(np.uint8).reshape(-1))


ADD_RULES, MULTIPLY_RULES = (
    Rules(f"element_wise_quantized_linear_{kind}") for kind in ("add", "multiply")
)


def _operator(rules: Rules, kind: Kind) -> _Binary:
    general = dispatch.Lowering("xla", xla.run)

    def first_calls() -> first_use.Calls:
        a, b = first_use.draw(1, np.uint8, 3, 700), first_use.draw(2, np.int8, 3, 700)
        options = {"a_scale": 0.02, "b_scale": 0.03, "output_scale": 0.05, "a_zero_point": a[0, 0]}
        planned, operands = operator.plan(a, b, **options)
        return [(planned, operands._replace(table=operator.with_table(planned, operands).table))]

    operator = _Binary(
        rules.operator,
        functools.partial(plan, rules, kind),
        (
            dispatch.Lowering("native_cpu", native_cpu.run, native_cpu.why_not, ("cpu",)),
            first_use.checked(
                dispatch.Lowering("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, ("cuda",)),
                general,
                first_calls,
            ),
            general,
            dispatch.Lowering("reference", reference.run),
        ),
        partition=output_partition,
        splitting=dispatch.Splitting(axis_names, local_plan),
    )
    return operator


ADD, MULTIPLY = _operator(ADD_RULES, "add"), _operator(MULTIPLY_RULES, "multiply")


@eager.public_function(ADD, *Binary._fields)
def element_wise_quantized_linear_add(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    requantization: SumRequantization | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Adds two quantized tensors and quantizes the sum, correctly rounded.

    `clamp(round(((a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale) / output_scale)
    + output_zero_point)`, where `round` is to nearest, ties to even, of the real number, and the
    clamp is the output dtype's range.

    Args:
      a: int8 or uint8, of rank 0 to 8; `a` and `b` broadcast as NumPy's arrays do.
      b: int8 or uint8, of rank 0 to 8.
      a_scale: float32, one value, as all scales finite and not zero, of either sign.
      b_scale: float32, one value.
      output_scale: float32, one value.
      a_zero_point: of the dtype of `a`, one value; default 0.
      b_zero_point: of the dtype of `b`, one value; default 0.
      output_zero_point: of the output's dtype, one value; default 0.
      output_dtype: int8 or uint8; default that of an `output_zero_point` array, else that of `a`.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's QLinearAdd, whose fused
        multiply-adds depend on the order of `a` and `b`.
      requantization: instead, LiteRT's formula of integers: "fixed_point_double", its reference
        kernel's: each term, shifted left by 20, times the multiplier of its scale over twice the
        greater one, and the sum times that of twice the greater over `2**20 * output_scale`, all
        of 31 bits and rounded as by `quantized_linear_convolution`; or "fixed_point_single",
        XNNPACK's: `(x * ma + y * mb + 2**(k - 1)) >> k` of the terms x and y, where
        `ma = rint(a_scale / output_scale * 2**k)` and `mb` have 21 bits at most. XNNPACK takes
        such ratios from 2**-10 to 2**8; beyond, outputs are unspecified.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int8 or uint8, of the shape to which `a` and `b` broadcast.
      Its gradients are zero: train with `dmlax.training.element_wise_quantized_linear_add`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field: ATensor, BScaleTensor and so on), `option` (arithmetic,
        requantization), `value` (a Python or NumPy scale that is 0, NaN or infinite; a Python or
        NumPy zero point out of range).
      UnsupportedError: the named implementation does not exist for this operator.

    DirectML:
      DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC. The page leaves `round` open: here ties
      go to even. Accepted beyond the page: `a` and `b` broadcast, parameters in any shape of one
      element. Traced scales that are 0, NaN or infinite give unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> a, b = jnp.array([10, 20, 250], jnp.uint8), jnp.array([-1, 0, 127], jnp.int8)
      >>> scales = dict(a_scale=0.5, b_scale=0.25, output_scale=0.5)
      >>> dmlax.element_wise_quantized_linear_add(a, b, output_zero_point=3, **scales).tolist()
      [13, 23, 255]
    """
    return ADD.call(
        *plan(
            ADD_RULES,
            "add",
            a,
            b,
            a_scale=a_scale,
            b_scale=b_scale,
            output_scale=output_scale,
            a_zero_point=a_zero_point,
            b_zero_point=b_zero_point,
            output_zero_point=output_zero_point,
            output_dtype=output_dtype,
            arithmetic=arithmetic,
            requantization=requantization,
        ),
        implementation,
    )


@eager.public_function(MULTIPLY, *Binary._fields)
def element_wise_quantized_linear_multiply(
    a: ArrayLike,
    b: ArrayLike,
    /,
    *,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
    output_zero_point: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
    requantization: Literal["fixed_point_double"] | None = None,
    implementation: dispatch.Implementation = "auto",
) -> Array:
    """Multiplies two quantized tensors and quantizes the product, correctly rounded.

    `clamp(round((a - a_zero_point) * (b - b_zero_point) * a_scale * b_scale / output_scale)
    + output_zero_point)`, where `round` is to nearest, ties to even, of the real number, and the
    clamp is the output dtype's range.

    Args:
      a: int8 or uint8, of rank 0 to 8; `a` and `b` broadcast as NumPy's arrays do.
      b: int8 or uint8, of rank 0 to 8.
      a_scale: float32, one value, as all scales finite and not zero, of either sign.
      b_scale: float32, one value.
      output_scale: float32, one value.
      a_zero_point: of the dtype of `a`, one value; default 0.
      b_zero_point: of the dtype of `b`, one value; default 0.
      output_zero_point: of the output's dtype, one value; default 0.
      output_dtype: int8 or uint8; default that of an `output_zero_point` array, else that of `a`.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's QLinearMul:
        `rint(float32(product) * ((a_scale * b_scale) / output_scale) + output_zero_point)`.
      requantization: "fixed_point_double" for the formula of LiteRT's reference kernel instead:
        the integer product times a 31-bit multiplier, the nearest to the float32
        `a_scale * b_scale / output_scale`, rounded as by `quantized_linear_convolution`.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      int8 or uint8, of the shape to which `a` and `b` broadcast.
      Its gradients are zero: train with
      `dmlax.training.element_wise_quantized_linear_multiply`.

    Raises:
      SpecError: code `data_type`, `dimension_count`, `sizes` or `missing_tensor` (the tensor's
        field: ATensor, BScaleTensor and so on), `option` (arithmetic,
        requantization), `value` (a Python or NumPy scale that is 0, NaN or infinite; a Python or
        NumPy zero point out of range).
      UnsupportedError: the named implementation does not exist for this operator.

    DirectML:
      It has no such operator. The contract is that of DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD, with
      a product. Traced scales that are 0, NaN or infinite give unspecified elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> x = jnp.array([[10, 20], [30, 40]], jnp.uint8)
      >>> gate = jnp.array([[64], [128]], jnp.uint8)
      >>> scales = dict(a_scale=0.5, b_scale=0.0078125, output_scale=0.5)
      >>> dmlax.element_wise_quantized_linear_multiply(x, gate, **scales).tolist()
      [[5, 10], [30, 40]]
    """
    return MULTIPLY.call(
        *plan(
            MULTIPLY_RULES,
            "multiply",
            a,
            b,
            a_scale=a_scale,
            b_scale=b_scale,
            output_scale=output_scale,
            a_zero_point=a_zero_point,
            b_zero_point=b_zero_point,
            output_zero_point=output_zero_point,
            output_dtype=output_dtype,
            arithmetic=arithmetic,
            requantization=requantization,
        ),
        implementation,
    )
