"""Finding the implementation under test."""

import os
import sys
from importlib import import_module

from ..errors import NotStartable
from .base import Adapter

BUILT_IN = {
    "dmlax": "dmlax_conformance.adapters.dmlax:Dmlax",
    "oracle": "dmlax_conformance.adapters.oracle:Oracle",
    "numpy": "dmlax_conformance.adapters.numpy_adapter:Numpy",
    "jnp": "dmlax_conformance.adapters.jnp:Jnp",
    "onnxruntime": "dmlax_conformance.adapters.onnxruntime:OnnxRuntime",
    "onnx_reference": "dmlax_conformance.adapters.onnx_reference:OnnxReference",
    "torch": "dmlax_conformance.adapters.torch:Torch",
    "empty": "dmlax_conformance.suite.controls:Empty",
    "nothing": "dmlax_conformance.suite.controls:Nothing",
    "raising": "dmlax_conformance.suite.controls:Raising",
    "zeros": "dmlax_conformance.suite.controls:Zeros",
}
PROCESS = "process"
TIME_LIMIT = 30.0  # seconds for one answer of an adapter in another process


def start(name: str, time_limit: float | None = None) -> Adapter:
    """Start an adapter: a built-in name, `module.path:ClassName` or `process:command`."""
    module, _, attribute = BUILT_IN.get(name, name).partition(":")
    if module == PROCESS:
        return _process(attribute, TIME_LIMIT if time_limit is None else time_limit)
    if not attribute:
        raise NotStartable(f"{name!r} is none of {', '.join(BUILT_IN)} and not module:Class")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # as `python -m` would have it, but not before the libraries
    try:
        adapter: Adapter = getattr(import_module(module), attribute)()
    except Exception as error:
        raise NotStartable(f"{name}: {type(error).__name__}: {error}") from error
    return adapter


def close(adapter: Adapter) -> None:
    """Let go of what the adapter holds; one without `close` holds nothing."""
    getattr(adapter, "close", lambda: None)()


def _process(command: str, time_limit: float) -> Adapter:
    from .process import Process

    return Process(command, time_limit)
