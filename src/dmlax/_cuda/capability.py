"""Capability check: the one place that says where Hopper kernels run. It imports no Pallas."""

import functools
import importlib.util
from collections.abc import Callable

import jax
from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import Aval
from dmlax.errors import UnsupportedError

CHUNK = 16  # bytes that a thread copies at once; shared memory is swizzled in chunks
_MOST_BYTES = 2**35  # the largest output whose chunks have 32-bit numbers
_CAPABILITY = "9.0"
_JAX = (0, 11)  # has all that the kernels are written with


def why_not(platform: str) -> str | None:
    """The sentence that says why no kernel runs on the platform, or None."""
    if platform != "cuda":
        return "it is for NVIDIA GPUs of compute capability 9.0"
    if jax.__version_info__[:2] < _JAX:
        return f"it needs JAX 0.11 or newer, and this is {jax.__version__}"
    if importlib.util.find_spec("absl") is None:
        return "Pallas needs the package absl-py"
    if _attached_gpu() is None:
        return f"no GPU of compute capability {_CAPABILITY} is attached"
    return None


def why_not_so_many(output: Aval) -> str | None:
    """The sentence that says that an output has too many bytes to number its chunks, or None."""
    if output.size >= _MOST_BYTES:
        return f"its output has {_MOST_BYTES:,} bytes or more"
    return None


def refuse_elsewhere(operator: str, x: Array, why_not: Callable[[str], str | None]) -> Array:
    """Gives `x`; raises where the kernel cannot run, before it is traced or when it is lowered."""
    refusal = f"{operator}: mosaic_gpu cannot run here"
    if why := why_not("cuda"):
        raise UnsupportedError(f"{refusal}: {why}")
    others = tuple((platform, f"{refusal}: {why_not(platform)}") for platform in ("cpu", "tpu"))
    return compat.refuse(x, others)


def multiprocessors() -> int:
    """The multiprocessors of the attached GPU, or an H200's where there is none."""
    device = _attached_gpu()
    return 132 if device is None else int(device.core_count)


@functools.cache
def _attached_gpu() -> jax.Device | None:
    """The first GPU if it has the capability, else None."""
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError:
        return None
    return device if device.compute_capability == _CAPABILITY else None
