"""Finding the implementation under test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import NotStartable
from ..runner.host import command_of, load
from ..runner.program import Program
from ..terminal import complain, telling
from ..texts import printable

BUILT_IN = {
    "dmlax": "dmlax_conformance.adapters.dmlax:Dmlax",
    "oracle": "dmlax_conformance.adapters.oracle:Oracle",
    "numpy": "dmlax_conformance.adapters.numpy_adapter:Numpy",
    "jnp": "dmlax_conformance.adapters.jnp:Jnp",
    "onnxruntime": "dmlax_conformance.adapters.onnxruntime:OnnxRuntime",
    "onnx_reference": "dmlax_conformance.adapters.onnx_reference:OnnxReference",
    "torch": "dmlax_conformance.adapters.torch:Torch",
    "empty": "dmlax_conformance.runner.controls:Empty",
    "nothing": "dmlax_conformance.runner.controls:Nothing",
    "raising": "dmlax_conformance.runner.controls:Raising",
    "zeros": "dmlax_conformance.runner.controls:Zeros",
}
PROCESS = "process"


def program(name: str, time_limit: float | None = None) -> Program:
    """Start an adapter: a built-in name, `module.path:ClassName` or `process:command`."""
    first, _, rest = name.partition(":")
    if first == PROCESS:
        return Program(rest, time_limit)
    return Program(command_of(_path_of(name)), time_limit, label=name)


def start(name: str) -> Any:
    """Build an adapter in this process: a built-in name or `module.path:ClassName`."""
    return load(_path_of(name))


def _path_of(name: str) -> str:
    path = BUILT_IN.get(name, name)
    if not path.partition(":")[2]:
        raise NotStartable(f"{name!r} is none of {', '.join(BUILT_IN)} and not module:Class")
    return path


@contextmanager
def started(name: str, time_limit: float | None = None) -> Iterator[Program]:
    """Start an adapter, stop it at the end, and say what it answered without a question."""
    with telling(lambda: f"starting {printable(name)}"):
        adapter = program(name, time_limit)
    try:
        yield adapter
    finally:
        close(adapter)


def close(adapter: Program) -> None:
    """Stop an adapter, and say what it answered without a question."""
    adapter.close()
    for line in adapter.unasked:
        complain(f"the adapter wrote what nothing asked for: {line}", 0)
