"""The softmax of 8 bits with ONNX Runtime's bits."""

from dmlax._core import compat, dispatch
from dmlax._softmax import bind, xla
from dmlax._softmax.cuda import lowering as mosaic_gpu

SOFTMAX = dispatch.Operator(
    "quantized_softmax",
    bind.plan,
    (
        dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=lambda plan, operands: compat.partition(operands.input),
)
