"""Layer normalization from 8 bits to 8 bits.

Implementations sum and round the floats between in different orders, as libraries do.
"""

import functools

from dmlax._core import dispatch, splitting
from dmlax._core.axis_names import of_rows
from dmlax._cuda import first_use
from dmlax._fused.layer_normalization import xla
from dmlax._fused.layer_normalization.cuda import lowering as mosaic_gpu
from dmlax._fused.layer_normalization.plan import local_plan, plan

LAYER_NORMALIZATION = dispatch.Operator(
    "quantized_layer_normalization",
    plan,
    (
        first_use.unless_not_run(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda")
        ),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=lambda plan, operands: splitting.partition(operands.input),
    splitting=dispatch.Splitting(of_rows, local_plan),
    definition=lambda plan: functools.partial(xla.run, plan),
)
