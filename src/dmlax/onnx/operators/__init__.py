"""The operators of ONNX; every module puts its functions into the table."""

import importlib

from dmlax.onnx.operators.table import Context, OperatorRow, find, rows, why_no_pass, why_not

__all__ = ["Context", "OperatorRow", "find", "rows", "why_no_pass", "why_not"]
_MODULES = (  # importing a module puts its functions into the table
    *("caches", "control", "convolutions", "experts", "floats", "functions", "fused"),
    *("linear_attention", "moves", "n_bits", "nonzero", "normalization", "pools", "quantized"),
    *("recurrent", "reductions", "resize", "selection", "signals", "spatial", "transformer"),
)
for _module in _MODULES:
    importlib.import_module(f"{__name__}.{_module}")
