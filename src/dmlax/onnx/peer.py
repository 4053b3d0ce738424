"""ONNX Runtime's sessions, for what is compared with it: its extras are `dmlax[compare]`."""

import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

FOLLOWS = "1.32"  # the release of ONNX Runtime whose bits "float32" has
_EXTRA = 'it needs onnxruntime: pip install "dmlax[compare]"'


def start(model: Any, *, optimised: bool = True, threads: int = 0) -> Any:
    """Starts a session on the CPU.

    Args:
      model: a path, the bytes of a model, or a ModelProto.
      optimised: False for the nodes of the file as they are.
      threads: as many of them, which sleep between calls; 0 leaves both to ONNX Runtime.

    Raises:
      ImportError: the package `onnxruntime` is not installed.
    """
    options = _options()
    if threads:
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimised:
        options.graph_optimization_level = _levels().ORT_DISABLE_ALL
    return _session(model, options)


def errors() -> tuple[type[Exception], ...]:
    """The classes of ONNX Runtime's exceptions; none if it is not installed."""
    if not find_spec("onnxruntime"):
        return ()
    state = _runtime().capi.onnxruntime_pybind11_state
    return (RuntimeError, *(x for x in vars(state).values() if _is_error(x)))


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def version() -> str:
    """The version of the installed ONNX Runtime."""
    return str(_runtime().__version__)


def run(session: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs a session; returns its outputs by name. Inputs that it does not have are left out."""
    names = [output.name for output in session.get_outputs()]
    wanted = {each.name: each.type for each in session.get_inputs()}
    given = {
        name: _as_type(np.asarray(x), wanted[name]) for name, x in inputs.items() if name in wanted
    }
    return dict(zip(names, session.run(names, given), strict=True))


def _as_type(array: np.ndarray, wanted: str) -> np.ndarray:
    """Integers in the session's dtype, which is wider than JAX's."""
    return (
        array.astype(np.int64) if wanted == "tensor(int64)" and array.dtype.kind == "i" else array
    )


def run_every_tensor(model: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the nodes of a ModelProto as they are; returns what each of them writes."""
    return run(start(with_every_output(model), optimised=False), inputs)


def with_every_output(model: Any) -> Any:
    """Copies a ModelProto; every tensor that a node writes is an output of the copy."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    have = {"", *(value.name for value in copy.graph.output)}
    names = [name for node in copy.graph.node for name in node.output if name not in have]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return copy


def fuse(model: Any) -> Any:
    """The ModelProto that ONNX Runtime's extended level makes of a model."""
    import onnx

    options = _options()
    options.graph_optimization_level = _levels().ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fused.onnx"
        options.optimized_model_filepath = str(path)
        _session(model, options)
        return onnx.load(path)


def _session(model: Any, options: Any) -> Any:
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    source = model if isinstance(model, bytes) else str(model)
    return _runtime().InferenceSession(source, options, ["CPUExecutionProvider"])


def _options() -> Any:
    options = _runtime().SessionOptions()
    options.log_severity_level = 3
    return options


def _levels() -> Any:
    return _runtime().GraphOptimizationLevel


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(_EXTRA) from None
    return onnxruntime
