"""The peak of resident memory of ten calls of a model, in a process of its own.

    python -m benchmarks.peak_memory {dmlax,onnxruntime} MODEL INPUTS

It prints the MiB beyond those after the imports: those of weights, programs and tensors.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

CALLS = 10
LIBRARIES = ("dmlax", "onnxruntime")


def measure(file: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the MiB of each library."""
    with tempfile.TemporaryDirectory() as folder:
        model, arrays = Path(folder) / "model.onnx", Path(folder) / "inputs.npz"
        onnx.save(file, model)
        np.savez(arrays, **inputs)  # type: ignore[arg-type]
        return {library: _measure(library, model, arrays) for library in LIBRARIES}


def _measure(library: str, model: Path, arrays: Path) -> float:
    command = [sys.executable, "-m", __name__, library, str(model), str(arrays)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def _peak() -> float:
    """The peak since the process began; `ru_maxrss` would begin at its parent's."""
    status = Path("/proc/self/status").read_text()
    kibibytes = next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]
    return int(kibibytes) / 1024


def _dmlax() -> Callable[[Path], Callable[[Mapping[str, np.ndarray]], Any]]:
    import jax

    import dmlax.onnx

    def load(path: Path) -> Callable[[Mapping[str, np.ndarray]], Any]:
        model = dmlax.onnx.load(path)
        return lambda inputs: jax.block_until_ready(model(inputs))

    return load


def _onnxruntime() -> Callable[[Path], Callable[[Mapping[str, np.ndarray]], Any]]:
    from benchmarks import onnx_peer
    from dmlax.onnx import peer

    def load(path: Path) -> Callable[[Mapping[str, np.ndarray]], Any]:
        session = peer.start(path, threads=onnx_peer.THREADS)
        return lambda inputs: session.run(None, dict(inputs))

    return load


def _run(library: str, model: Path, arrays: Path) -> float:
    """Load the model and call it; the library is imported first."""
    load = {"dmlax": _dmlax, "onnxruntime": _onnxruntime}[library]()
    with np.load(arrays) as file:
        inputs = dict(file)
    start = _peak()
    call = load(model)
    for _ in range(CALLS):
        call(inputs)
    return _peak() - start


if __name__ == "__main__":
    print(_run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
