"""The operators of LiteRT; every module puts its functions into the table of `dmlax.onnx`."""

import importlib

_MODULES = (
    *("control", "detection", "elementwise", "moves", "pools"),
    *("products", "recurrent", "reductions", "resize"),
)
for _module in _MODULES:
    importlib.import_module(f"{__name__}.{_module}")
