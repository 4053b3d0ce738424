"""The softmax of 8 bits with ONNX Runtime's bits."""

from dmlax._core import dispatch, splitting
from dmlax._cpu import library
from dmlax._fused.softmax import xla
from dmlax._fused.softmax.cpu import lowering as native_cpu
from dmlax._fused.softmax.cuda import lowering as mosaic_gpu
from dmlax._fused.softmax.plan import axis_names, local_plan, plan

SOFTMAX = dispatch.Operator(
    "quantized_softmax",
    plan,
    (
        dispatch.kernel("native_cpu", native_cpu.run, library.why_not_for, "cpu"),
        dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=lambda plan, operands: splitting.partition(operands.input),
    splitting=dispatch.Splitting(axis_names, local_plan),
)
