"""The operators of ONNX, a function each."""

from dmlax.onnx.operators import floats, moves, nonzero, pools, quantized
from dmlax.onnx.operators.table import OperatorRow, find, rows, why_not

__all__ = [
    "OperatorRow",
    "find",
    "floats",
    "moves",
    "nonzero",
    "pools",
    "quantized",
    "rows",
    "why_not",
]
