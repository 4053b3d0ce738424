"""The operators of ONNX, a function each."""

from dmlax.onnx.operators import (
    attention,
    floats,
    functions,
    gemm_add,
    gemm_function,
    layer_normalization,
    moves,
    nonzero,
    pools,
    quantized,
    reductions,
    resize,
    selection,
    self_attention,
    spatial,
)
from dmlax.onnx.operators.table import Context, OperatorRow, find, rows, why_no_pass, why_not

__all__ = [
    "Context",
    "OperatorRow",
    "attention",
    "find",
    "floats",
    "functions",
    "gemm_add",
    "gemm_function",
    "layer_normalization",
    "moves",
    "nonzero",
    "pools",
    "quantized",
    "reductions",
    "resize",
    "rows",
    "selection",
    "self_attention",
    "spatial",
    "why_no_pass",
    "why_not",
]
