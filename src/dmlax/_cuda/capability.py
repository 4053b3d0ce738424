"""Where the kernels for Hopper GPUs can run, asked in one place and without importing Pallas."""

import functools
import importlib.util
from collections.abc import Callable

import jax
from jax import Array

from dmlax._core import compat
from dmlax.errors import UnsupportedError

CHUNK = 16  # bytes that a thread copies, and shared memory swizzles, as one
_CAPABILITY = "9.0"
_JAX = (0, 11)  # what the kernels are written with appeared, or moved, before it


def why_not(platform: str) -> str | None:
    """The sentence that says why no kernel runs on the platform, or None."""
    if platform != "cuda":
        return "it is for NVIDIA GPUs of compute capability 9.0"
    if jax.__version_info__[:2] < _JAX:
        return f"it needs JAX 0.11 or newer, and this is {jax.__version__}"
    if importlib.util.find_spec("absl") is None:
        return "Pallas needs the package absl-py"
    if _attached() is None:
        return f"no GPU of compute capability {_CAPABILITY} is attached"
    return None


def refuse_elsewhere(operator: str, x: Array, why_not: Callable[[str], str | None]) -> Array:
    """`x`, refused before the kernel is traced, or lowered, where it cannot run."""
    named = f"{operator}: mosaic_gpu cannot run here"
    if why := why_not("cuda"):
        raise UnsupportedError(f"{named}: {why}")
    others = tuple((platform, f"{named}: {why_not(platform)}") for platform in ("cpu", "tpu"))
    return compat.refuse(x, others)


def processors() -> int:
    """The multiprocessors of the attached GPU, or an H200's where there is none."""
    device = _attached()
    return 132 if device is None else int(device.core_count)


@functools.cache
def _attached() -> jax.Device | None:
    """The first GPU, if it has the capability; a platform that is not there has none."""
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError:
        return None
    return device if device.compute_capability == _CAPABILITY else None
