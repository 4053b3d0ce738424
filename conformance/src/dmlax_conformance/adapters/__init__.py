"""Finding the implementation under test."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from ..errors import NotStartable
from ..suite.runner import is_users
from ..terminal import complain
from ..texts import of_error
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


def start(name: str, time_limit: float | None = None) -> Adapter:
    """Start an adapter: a built-in name, `module.path:ClassName` or `process:command`."""
    module, _, attribute = BUILT_IN.get(name, name).partition(":")
    if module == PROCESS:
        return _process(attribute, time_limit)
    if not attribute:
        raise NotStartable(f"{name!r} is none of {', '.join(BUILT_IN)} and not module:Class")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # as `python -m` would have it, but not before the libraries
    try:
        adapter: Adapter = getattr(import_module(module), attribute)()
        wrong = _missing(adapter)
    except BaseException as error:
        if is_users(error):
            raise
        raise NotStartable(f"{name}: {of_error(error)}") from error
    if wrong:
        raise NotStartable(f"{name}: the adapter has no {' and no '.join(wrong)}")
    return adapter


def _missing(adapter: Adapter) -> list[str]:
    """Return an adapter's attributes that are missing or malformed."""
    variants = getattr(adapter, "variants", None)
    kept = {
        "name": isinstance(getattr(adapter, "name", None), str),
        "variants": isinstance(variants, tuple | list)
        and all(isinstance(v, str) for v in variants),
        "run": callable(getattr(adapter, "run", None)),
    }
    return [name for name, is_there in kept.items() if not is_there]


@contextmanager
def started(name: str, time_limit: float | None = None) -> Iterator[Adapter]:
    """Start an adapter, and let go of what it holds at the end."""
    adapter = start(name, time_limit)
    try:
        yield adapter
    finally:
        close(adapter)


def close(adapter: Adapter) -> None:
    """Let go of what the adapter holds; one without `close` holds nothing."""
    try:
        getattr(adapter, "close", lambda: None)()
    except BaseException as error:
        if is_users(error):
            raise
        complain(f"the adapter does not close: {of_error(error)}", 0)


def _process(command: str, time_limit: float | None) -> Adapter:
    from .process import Process

    return Process(command) if time_limit is None else Process(command, time_limit)
