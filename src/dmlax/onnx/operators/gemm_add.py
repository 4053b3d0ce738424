"""A QGemm, and the sum of its output and a residual.

The kernel of a GPU adds before it stores, where that takes it no smaller tiles.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

import dmlax
from dmlax._binary.api import ADD
from dmlax._binary.plan import Binary, BinaryPlan
from dmlax._core import dispatch
from dmlax._core.arguments import Aval
from dmlax._core.requantize import Arithmetic
from dmlax._cuda import capability
from dmlax._cuda.sum_types import Addend, SumTypes
from dmlax._matmul.api import QUANTIZED
from dmlax._matmul.cuda import lowering as mosaic_gpu
from dmlax._matmul.plan import Product, output_partition
from dmlax.onnx.graph import OWN
from dmlax.onnx.operators.fused_plan import FusedPlan
from dmlax.onnx.operators.quantized import multiply_gemm
from dmlax.onnx.operators.table import Parameter, Tensor, operator


@operator("QGemmAdd", 1, domain=OWN)
def quantized_gemm_add(
    a: Tensor,
    a_scale: Parameter,
    a_zero_point: Parameter,
    b: Tensor,
    b_scale: Parameter,
    b_zero_point: Parameter,
    bias: Tensor | None,
    y_scale: Parameter,
    y_zero_point: Parameter,
    addend: Tensor,
    addend_scale: Parameter,
    addend_zero_point: Parameter,
    sum_scale: Parameter,
    sum_zero_point: Parameter,
    /,
    *,
    addend_first: int = 0,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies matrices, and adds a residual of as many elements, whose shape the sum has."""
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias, y_scale, y_zero_point)
    attributes = alpha, transA, transB, arithmetic

    def add(product: Any, implementation: Any = "auto") -> Any:
        terms = [(product, y_scale, y_zero_point), (addend, addend_scale, addend_zero_point)]
        first, second = terms[::-1] if addend_first else terms
        return dmlax.element_wise_quantized_linear_add(
            first[0],
            second[0],
            a_scale=first[1],
            a_zero_point=first[2],
            b_scale=second[1],
            b_zero_point=second[2],
            output_scale=sum_scale,
            output_zero_point=sum_zero_point,
            arithmetic=arithmetic,
            implementation=implementation,
        )

    if arithmetic == "exact" or capability.why_not("cuda"):
        return add(multiply_gemm(operands, *attributes).reshape(addend.shape))
    bind = dispatch.Bind(plan=True)
    plan, product = multiply_gemm(operands, *attributes, bind)
    of_sum, terms = add(jnp.zeros(addend.shape, plan.output.dtype), bind)
    both = GemmAddPlan(plan, of_sum, bool(addend_first))
    terms = terms._replace(**{both.place: None})
    return dispatch.call(GEMM_ADD, both, GemmAdd(product, terms), "auto")


class GemmAdd(NamedTuple):
    """The operands; what the product gives the sum is absent."""

    product: Product
    sum: Binary


@dataclass(frozen=True)
class GemmAddPlan(FusedPlan):
    """All that is static of the product and the sum."""

    sum: BinaryPlan
    addend_first: bool

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the sum."""
        return self.sum.output

    @property
    def place(self) -> str:
        """Which term of the sum the product is."""
        return "b" if self.addend_first else "a"

    @property
    def addend(self) -> str:
        """Which term the residual is."""
        return "a" if self.addend_first else "b"

    def __str__(self) -> str:
        return f"{self.product}; {self.sum}"


def _why_not(plan: GemmAddPlan, platform: str) -> str | None:
    """The sentence that says why the kernel does not take the plan, or None."""
    if why := mosaic_gpu.why_not_fused(plan.product, platform):
        return why
    return None if plan.output.size else "its output is empty"


def _kernel(plan: GemmAddPlan, operands: GemmAdd) -> Array:
    """Runs the product's kernel, with the addend."""
    terms, place = operands.sum._asdict(), plan.addend
    columns = plan.product.output.shape[-1]
    addend = Addend(
        terms[place].reshape(-1, columns),
        terms[f"{place}_scale"],
        terms[f"{place}_zero_point"],
        terms["output_scale"],
        terms["output_zero_point"],
    )
    types = SumTypes(addend.addend.dtype, plan.output.dtype, plan.addend_first)
    found = mosaic_gpu.run_with_sum(plan.product, operands.product, types, addend)
    return _one_by_one(plan, operands) if found is None else found.reshape(plan.output.shape)


def _one_by_one(plan: GemmAddPlan, operands: GemmAdd) -> Array:
    """Runs each as it runs alone."""
    product = dispatch.call(QUANTIZED, plan.product, operands.product, "auto")
    terms = operands.sum._replace(**{plan.place: product.reshape(plan.output.shape)})
    found: Array = dispatch.call(ADD, plan.sum, terms, "auto")
    return found


def _partition(plan: GemmAddPlan, operands: GemmAdd) -> tuple[Any, ...]:
    """The sum is split over a mesh as the product's rows are."""
    rows, *_ = output_partition(plan.product, operands.product)
    return (rows, *(None,) * (len(plan.output.shape) - 1))


GEMM_ADD = dispatch.Operator(
    "quantized_linear_matrix_multiply_add",
    (
        dispatch.kernel("mosaic_gpu", _kernel, _why_not, "cuda"),
        dispatch.Lowering("xla", _one_by_one),
    ),
    partition=_partition,
)
