"""The softmax of 8 bits with ONNX Runtime's bits."""

from dmlax._core import dispatch, splitting
from dmlax._core.axis_names import of_rows
from dmlax._cpu import library
from dmlax._fused.softmax import xla
from dmlax._fused.softmax.cpu import lowering as native_cpu
from dmlax._fused.softmax.cuda import lowering as mosaic_gpu
from dmlax._fused.softmax.plan import local_plan, plan

SOFTMAX = dispatch.Operator(
    "quantized_softmax",
    plan,
    (
        dispatch.kernel("native_cpu", native_cpu.run, library.why_not_for, "cpu"),
        dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=lambda plan, operands: splitting.partition(operands.input),
    splitting=dispatch.Splitting(of_rows, local_plan),
)
