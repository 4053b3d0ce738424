"""A self-attention: a product makes queries, keys and values at once."""

from dmlax._core import dispatch
from dmlax._self_attention import bind, xla
from dmlax._self_attention.cuda import lowering as mosaic_gpu

SELF_ATTENTION = dispatch.Operator(
    "quantized_self_attention",
    bind.plan,
    (
        dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
        dispatch.Lowering("xla", xla.run),
    ),
)
