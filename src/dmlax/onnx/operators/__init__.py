"""The operators of ONNX, a function each."""

from dmlax.onnx.operators import (
    attention,
    floats,
    gemm_add,
    gemm_function,
    layer_normalization,
    moves,
    nonzero,
    pools,
    quantized,
    recurrent,
    self_attention,
)
from dmlax.onnx.operators.table import Context, OperatorRow, find, rows, why_no_pass, why_not

__all__ = [
    "Context",
    "OperatorRow",
    "attention",
    "find",
    "floats",
    "gemm_add",
    "gemm_function",
    "layer_normalization",
    "moves",
    "nonzero",
    "pools",
    "quantized",
    "recurrent",
    "rows",
    "self_attention",
    "why_no_pass",
    "why_not",
]
