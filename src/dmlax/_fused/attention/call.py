"""An attention of 8 bits: two products, and the softmax between them."""

from dmlax._core import dispatch
from dmlax._cuda import first_use
from dmlax._fused.attention import xla
from dmlax._fused.attention.cuda import lowering as mosaic_gpu
from dmlax._fused.attention.plan import axis_names, local_plan, output_partition, plan

ATTENTION = dispatch.Operator(
    "quantized_attention",
    plan,
    (
        first_use.unless_not_run(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda")
        ),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)
