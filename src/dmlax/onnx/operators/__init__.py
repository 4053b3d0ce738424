"""The operators of ONNX, a function each."""

from dmlax.onnx.operators import (
    attention,
    control,
    floats,
    gemm_add,
    gemm_function,
    layer_normalization,
    moves,
    nonzero,
    pools,
    quantized,
    self_attention,
)
from dmlax.onnx.operators.table import Context, OperatorRow, find, rows, why_no_pass, why_not

__all__ = [
    "Context",
    "OperatorRow",
    "attention",
    "control",
    "find",
    "floats",
    "gemm_add",
    "gemm_function",
    "layer_normalization",
    "moves",
    "nonzero",
    "pools",
    "quantized",
    "rows",
    "self_attention",
    "why_no_pass",
    "why_not",
]
