"""The operators of LiteRT; every module puts its functions into the table of `dmlax.onnx`."""

import importlib

for _module in ("elementwise", "moves", "pools", "products", "recurrent", "reductions", "resize"):
    importlib.import_module(f"{__name__}.{_module}")
