"""ONNX Runtime's sessions, for comparisons: the extra `dmlax[compare]` installs it."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from onnx import ModelProto
    from onnxruntime import InferenceSession as InferenceSession
    from onnxruntime import SessionOptions

    from dmlax.onnx.protobuf import Source

FOLLOWS = "1.32"  # the release of ONNX Runtime whose bits "float32" has
_EXTRA = 'it needs onnxruntime: pip install "dmlax[compare]"'


def start(model: Source, *, optimised: bool = True, threads: int = 0) -> InferenceSession:
    """Starts a session on the CPU.

    Args:
      model: a path, the bytes of a model, or a ModelProto.
      optimised: False for the nodes of the file as they are.
      threads: the number of threads, which then sleep between calls; 0 for ONNX Runtime's default.

    Raises:
      ImportError: the package `onnxruntime` is not installed.
    """
    options = _options()
    if threads:
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimised:
        options.graph_optimization_level = _runtime().GraphOptimizationLevel.ORT_DISABLE_ALL
    return _session(model, options)


def errors() -> tuple[type[Exception], ...]:
    """The classes of ONNX Runtime's exceptions; none if it is not installed."""
    if not find_spec("onnxruntime"):
        return ()
    classes = vars(_runtime().capi.onnxruntime_pybind11_state).values()
    return (RuntimeError, *(x for x in classes if isinstance(x, type) and issubclass(x, Exception)))


def version() -> str:
    """The version of the installed ONNX Runtime."""
    return str(_runtime().__version__)


def run(session: InferenceSession, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs a session; returns its outputs by name. Inputs that it does not have are left out."""
    names = [output.name for output in session.get_outputs()]
    types = {x.name: x.type for x in session.get_inputs()}
    feeds = {name: _as_type(inputs[name], types[name]) for name in inputs.keys() & types.keys()}
    return dict(zip(names, session.run(names, feeds), strict=True))


def _as_type(tensor: np.ndarray, wanted: str) -> np.ndarray:
    """Widens integers of JAX to the session's dtype."""
    array = np.asarray(tensor)
    is_wide = wanted == "tensor(int64)" and array.dtype.kind == "i"
    return array.astype(np.int64) if is_wide else array


def run_every_tensor(model: ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the nodes of a ModelProto as they are; returns the tensors that they write."""
    return run(start(with_every_output(model), optimised=False), inputs)


def with_every_output(model: ModelProto) -> ModelProto:
    """Copies a ModelProto; every tensor that a node writes is an output of the copy."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    outputs = {"", *(value.name for value in copy.graph.output)}
    names = [name for node in copy.graph.node for name in node.output if name not in outputs]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return copy


def fuse(model: Source) -> ModelProto:
    """The ModelProto that ONNX Runtime's extended level makes of a model."""
    import onnx

    options = _options()
    options.graph_optimization_level = _runtime().GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fused.onnx"
        options.optimized_model_filepath = str(path)
        _session(model, options)
        return onnx.load(path)


def _session(model: Source, options: SessionOptions) -> InferenceSession:
    source = os.fspath(model) if isinstance(model, str | os.PathLike) else model
    if not isinstance(source, str | bytes):
        source = source.SerializeToString()
    return _runtime().InferenceSession(source, options, ["CPUExecutionProvider"])


def _options() -> SessionOptions:
    options = _runtime().SessionOptions()
    options.log_severity_level = 3
    return options


def _runtime() -> ModuleType:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        raise ImportError(_EXTRA) from None
