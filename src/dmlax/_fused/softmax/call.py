"""The softmax of 8 bits with ONNX Runtime's bits."""

import jax.numpy as jnp
import numpy as np

from dmlax._core import dispatch, splitting
from dmlax._core.axis_names import of_rows
from dmlax._cpu import library
from dmlax._cuda import first_use
from dmlax._fused.softmax import xla
from dmlax._fused.softmax.cpu import lowering as native_cpu
from dmlax._fused.softmax.cuda import lowering as mosaic_gpu
from dmlax._fused.softmax.plan import local_plan, plan

_XLA = dispatch.Lowering("xla", xla.run)


def _first_calls() -> first_use.Calls:
    """Rows of an odd length."""
    x = jnp.asarray(first_use.draw(1, np.uint8, 40, 197))
    return [plan(x, 0.02, np.float32(1 / 256), 3)]


SOFTMAX = dispatch.Operator(
    "quantized_softmax",
    plan,
    (
        dispatch.kernel("native_cpu", native_cpu.run, library.why_not_for, "cpu"),
        first_use.checked(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
            _XLA,
            _first_calls,
        ),
        _XLA,
    ),
    partition=lambda plan, operands: splitting.partition(operands.input),
    splitting=dispatch.Splitting(of_rows, local_plan),
)
