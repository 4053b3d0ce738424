"""The peak of resident memory of ten calls of a model, in a separate process.

The process prints the MiB beyond those after the imports: weights, programs and tensors.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx

CALLS = 10
Model = Callable[[Mapping[str, np.ndarray]], object]
Load = Callable[[Path], Model]


def measure(file: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the MiB of both libraries."""
    with tempfile.TemporaryDirectory() as folder:
        model, arrays = Path(folder) / "model.onnx", Path(folder) / "inputs.npz"
        onnx.save(file, model)
        np.savez(arrays, **inputs)  # type: ignore[arg-type]
        found = {}
        for library in LIBRARIES:
            command = [sys.executable, "-m", __name__, library, str(model), str(arrays)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[library] = float(done.stdout.split()[-1])
        return found


def _peak() -> float:
    """The peak since the process began; `ru_maxrss` would begin at its parent's."""
    (kibibytes,) = re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    return int(kibibytes) / 1024


def _dmlax() -> Load:
    import jax

    import dmlax.onnx

    def load(path: Path) -> Model:
        model = dmlax.onnx.load(path)
        return lambda inputs: jax.block_until_ready(model(inputs))

    return load


def _onnxruntime() -> Load:
    from dmlax.onnx import peer
    from tools.benchmarks import onnx_peer

    def load(path: Path) -> Model:
        session = peer.start(path, threads=onnx_peer.THREADS)
        return lambda inputs: session.run(None, dict(inputs))

    return load


LIBRARIES: dict[str, Callable[[], Load]] = {"dmlax": _dmlax, "onnxruntime": _onnxruntime}


def _run(library: str, model: Path, arrays: Path) -> float:
    """Load the model and call it; the library is imported first."""
    load = LIBRARIES[library]()
    with np.load(arrays) as file:
        inputs = dict(file)
    start = _peak()
    call = load(model)
    for _ in range(CALLS):
        call(inputs)
    return _peak() - start


if __name__ == "__main__":
    print(_run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
