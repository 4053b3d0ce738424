"""Capability check: the one place that says where GPU kernels run. It imports no Pallas."""

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import NamedTuple

import jax
from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import Aval
from dmlax.errors import UnsupportedError

CHUNK = 16  # bytes that a thread copies at once; shared memory is swizzled in chunks
RESERVED = 1024  # bytes of shared memory that every block takes beside what it asks for
REGISTERS = 65_536  # of a multiprocessor
_MOST_BYTES = 2**35  # the largest output whose chunks have 32-bit numbers
_JAX = (0, 11)  # has all that the kernels are written with
_OVERRIDE = "DMLAX_CUDA_ISA"


class Capability(NamedTuple):
    """A compute capability: what a multiprocessor of such a GPU has.

    `wgmma` multiplies where there is one, else `mma.sync`. `was_run` says that somebody ran the
    kernels on such a GPU; on others they were only assembled.
    """

    version: tuple[int, int]
    shared_bytes: int
    threads: int
    blocks: int
    wgmma: bool = False
    was_run: bool = False

    @property
    def name(self) -> str:
        """The name in the environment."""
        return "sm{}{}".format(*self.version)

    def __str__(self) -> str:
        return "{}.{}".format(*self.version)


HOPPER = Capability((9, 0), 228 * 1024, 2048, 32, wgmma=True, was_run=True)
CAPABILITIES = {
    str(row): row
    for row in (
        Capability((8, 0), 164 * 1024, 2048, 32),  # A100
        Capability((8, 6), 100 * 1024, 1536, 16),  # RTX 30, A10, A40
        Capability((8, 9), 100 * 1024, 1536, 24),  # RTX 40, L4, L40
        HOPPER,  # H100, H200
        Capability((10, 0), 228 * 1024, 2048, 32),  # B200
        Capability((12, 0), 100 * 1024, 1536, 24),  # RTX 50
    )
}
*_MOST, _LAST = CAPABILITIES
KNOWN = f"{', '.join(_MOST)} or {_LAST}"


def why_not(platform: str) -> str | None:
    """The sentence that says why no kernel runs on the platform, or None."""
    if platform != "cuda":
        return f"it is for NVIDIA GPUs of compute capability {_MOST[0]} or newer"
    if jax.__version_info__[:2] < _JAX:
        return f"it needs JAX 0.11 or newer, and this is {jax.__version__}"
    if importlib.util.find_spec("absl") is None:
        return "Pallas needs the package absl-py"
    gpu = _attached_gpu()
    if gpu is None:
        return "no NVIDIA GPU is attached"
    if _capability(gpu) is None:
        return f"the GPU has compute capability {gpu.compute_capability}, not {KNOWN}"
    if _override() not in (None, *choices()):
        return f"{_OVERRIDE} names none of what this GPU has: {', '.join(choices())}"
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
    gpu = _attached_gpu()
    return 132 if gpu is None or _capability(gpu) is None else int(gpu.core_count)


def attached() -> Capability:
    """The capability of the attached GPU, or an H200's where there is none that is known."""
    gpu = _attached_gpu()
    return (None if gpu is None else _capability(gpu)) or HOPPER


def chosen() -> Capability:
    """The capability that kernels are written for: the GPU's, or what the environment names."""
    return choices().get(_override() or "", attached())


def choices() -> dict[str, Capability]:
    """The capabilities that the environment may name: the GPU's, and older ones."""
    gpu = attached()
    older = (row for row in CAPABILITIES.values() if row.version < gpu.version and not row.wgmma)
    return {row.name: row for row in (gpu, *older)}


def _override() -> str | None:
    return os.environ.get(_OVERRIDE) or None


def _capability(gpu: jax.Device) -> Capability | None:
    return CAPABILITIES.get(gpu.compute_capability)


@functools.cache
def _attached_gpu() -> jax.Device | None:
    """The first GPU, or None."""
    try:
        return jax.devices("cuda")[0]
    except RuntimeError:
        return None
