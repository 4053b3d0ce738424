"""A self-attention: a product makes queries, keys and values at once."""

from dmlax._core import dispatch
from dmlax._cuda import first_use
from dmlax._fused.self_attention import xla
from dmlax._fused.self_attention.cuda import lowering as mosaic_gpu
from dmlax._fused.self_attention.plan import axis_names, local_plan, plan

SELF_ATTENTION = dispatch.Operator(
    "quantized_self_attention",
    plan,
    (
        first_use.unless_not_run(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda")
        ),
        dispatch.Lowering("xla", xla.run),
    ),
    splitting=dispatch.Splitting(axis_names, local_plan),
)
