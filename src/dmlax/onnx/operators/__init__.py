"""The operators of ONNX, a function each."""

from dmlax.onnx.operators import floats, layer_normalization, moves, nonzero, pools, quantized
from dmlax.onnx.operators.table import Context, OperatorRow, find, rows, why_no_pass, why_not

__all__ = [
    "Context",
    "OperatorRow",
    "find",
    "floats",
    "layer_normalization",
    "moves",
    "nonzero",
    "pools",
    "quantized",
    "rows",
    "why_no_pass",
    "why_not",
]
