"""A QGemm, and a function of each byte of its output.

The kernel of a GPU looks bytes up before it stores them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from jax import Array

import dmlax
from dmlax._core import dispatch
from dmlax._core.arguments import Aval
from dmlax._core.requantize import Arithmetic
from dmlax._cuda import capability
from dmlax._lookup.api import LOOKUP
from dmlax._lookup.cuda.lowering import table_of_bytes
from dmlax._lookup.plan import Lookup, LookupPlan
from dmlax._matmul.api import QUANTIZED
from dmlax._matmul.cuda import lowering as mosaic_gpu
from dmlax._matmul.plan import Product, output_partition
from dmlax.onnx.graph import OWN, Node
from dmlax.onnx.operators import tables
from dmlax.onnx.operators.fused_plan import FusedPlan
from dmlax.onnx.operators.quantized import multiply_gemm
from dmlax.onnx.operators.table import Parameter, Tensor, operator


@operator("QGemm", 1, domain=OWN)
def quantized_gemm_function(
    a: Tensor,
    a_scale: Parameter,
    a_zero_point: Parameter,
    b: Tensor,
    b_scale: Parameter,
    b_zero_point: Parameter,
    bias: Tensor | None = None,
    y_scale: Parameter | None = None,
    y_zero_point: Parameter | None = None,
    /,
    *constants: Parameter,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies matrices, and looks up what nodes compute of every byte, as a ByteFunction."""
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias, y_scale, y_zero_point)
    attributes = alpha, transA, transB, arithmetic
    known = dict(zip(names[1:], constants, strict=True))

    def table_of(dtype: Any) -> Any:
        return tables.of_nodes(dtype, names[0], nodes, known, arithmetic)

    if capability.why_not("cuda"):
        product = multiply_gemm(operands, *attributes)
        return dmlax.quantized_lookup(product, table_of(product.dtype))
    bind = dispatch.Bind(plan=True)
    plan, product = multiply_gemm(operands, *attributes, bind)
    table = table_of(plan.output.dtype)
    lookup = LookupPlan(plan.output, Aval(table.dtype, table.shape))
    of_both = GemmFunctionPlan(plan, lookup)
    return dispatch.call(GEMM_FUNCTION, of_both, GemmFunction(product, table), "auto")


class GemmFunction(NamedTuple):
    """The operands."""

    product: Product
    table: Any


@dataclass(frozen=True)
class GemmFunctionPlan(FusedPlan):
    """All that is static of the product and the lookup."""

    lookup: LookupPlan

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the output."""
        return self.lookup.output

    def __str__(self) -> str:
        return f"{self.product}; {self.lookup}"


def _why_not(plan: GemmFunctionPlan, platform: str) -> str | None:
    """The sentence that says why the kernel does not take the plan, or None."""
    if why := mosaic_gpu.why_not_fused(plan.product, platform):
        return why
    return None if plan.output.size else "its output is empty"


def _kernel(plan: GemmFunctionPlan, operands: GemmFunction) -> Array:
    """Runs the product's kernel, with the table."""
    entries = table_of_bytes(plan.lookup, operands.table)
    output = mosaic_gpu.run_with_lookup(plan.product, operands.product, entries)
    return output.astype(plan.output.dtype)


def _one_by_one(plan: GemmFunctionPlan, operands: GemmFunction) -> Array:
    """Runs each as it runs alone."""
    product = dispatch.call(QUANTIZED, plan.product, operands.product, "auto")
    found: Array = dispatch.call(LOOKUP, plan.lookup, Lookup(product, operands.table), "auto")
    return found


GEMM_FUNCTION = dispatch.Operator(
    "quantized_linear_matrix_multiply_lookup",
    (
        dispatch.kernel("mosaic_gpu", _kernel, _why_not, "cuda"),
        dispatch.Lowering("xla", _one_by_one),
    ),
    partition=lambda plan, operands: output_partition(plan.product, operands.product),
)
