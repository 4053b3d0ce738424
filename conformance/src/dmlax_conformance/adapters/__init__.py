"""Finding the implementation under test."""

from importlib import import_module

from ..errors import NotStartable
from .base import Adapter

BUILT_IN = {
    "dmlax": "dmlax_conformance.adapters.dmlax:Dmlax",
    "oracle": "dmlax_conformance.adapters.oracle:Oracle",
    "empty": "dmlax_conformance.adapters.empty:Empty",
    "nothing": "dmlax_conformance.adapters.nothing:Nothing",
}


def start(name: str) -> Adapter:
    """Import and build an adapter, given a built-in name or `module.path:ClassName`."""
    module, _, attribute = BUILT_IN.get(name, name).partition(":")
    if not attribute:
        raise NotStartable(f"{name!r} is none of {', '.join(BUILT_IN)} and not module:Class")
    try:
        adapter: Adapter = getattr(import_module(module), attribute)()
    except Exception as error:
        raise NotStartable(f"{name}: {type(error).__name__}: {error}") from error
    return adapter
