"""Device times on an attached GPU, by CUPTI: JAX's or PyTorch's, as a process has one profiler.

Its ceilings are those of JAX's own programs, and its clocks those while one runs.
"""

import statistics
import subprocess
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_REPEATS = 10
TIMES = (
    f"all kernels, by CUPTI; medians of {_REPEATS} (torch: means of {_REPEATS}, another process)"
)


SIDE = 8192  # of the matrices whose product is the ceiling
COPIED = 2**30  # bytes, read and written
_CLOCKS = {"sm_mhz": "clocks.sm", "memory_mhz": "clocks.mem", "most_sm_mhz": "clocks.max.sm"}


def ceilings() -> dict[str, float]:
    """The rates of an int8 product and of a copy, and the clocks in MHz while products run."""
    copied = jax.device_put(np.zeros(COPIED // 4, np.float32))
    matrices = _bytes(0), _bytes(1)
    found = {
        "int8_top_per_s": 2e-9 * SIDE**3 / jax_ms(_product, *matrices),
        "copy_gb_per_s": 2e-6 * COPIED / jax_ms(jax.jit(lambda x: x + 1), copied),
    }
    return found | _clocks(lambda: jax.block_until_ready(_product(*matrices)))


def _bytes(seed: int) -> jax.Array:
    drawn = np.random.default_rng(seed).integers(-128, 128, (SIDE, SIDE), np.int8)
    placed: jax.Array = jax.device_put(drawn)
    return placed


@jax.jit
def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    axes = (((1,), (1,)), ((), ()))
    product: jax.Array = lax.dot_general(a, b, axes, preferred_element_type=jnp.int32)
    return product


def _clocks(call: Callable[[], Any]) -> dict[str, float]:
    """Read the clocks with NVIDIA's tool while calls run."""
    query = ",".join(_CLOCKS.values())
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading:
        while reading.poll() is None:
            call()
        assert reading.stdout is not None
        values = reading.stdout.readline().split(",")
    return dict(zip(_CLOCKS, map(float, values), strict=True))


def jax_ms(call: Callable[..., Any], *operands: Any) -> float:
    """Time one call, compiled before: the median of several."""
    profiler = import_module("jax.experimental.mosaic.gpu.profiler")
    jax.block_until_ready(call(*operands))
    _, times = profiler.measure(call, iterations=_REPEATS)(*operands)
    return float(statistics.median(times))


def jax_kernels(call: Callable[..., Any], *operands: Any) -> list[tuple[str, float]]:
    """Names and milliseconds of the kernels of one call, in their order: medians of several."""
    profiler = import_module("jax.experimental.mosaic.gpu.profiler")
    jax.block_until_ready(call(*operands))
    _, calls = profiler.measure(call, aggregate=False, iterations=_REPEATS)(*operands)
    return [
        (each[0][0], float(statistics.median(ms for _, ms in each)))
        for each in zip(*calls, strict=True)
    ]


def torch_ms(torch: Any, call: Callable[[], Any]) -> float:
    """Time one call: the mean of several."""
    profiler = import_module("torch.profiler")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(_REPEATS):
            call()
        torch.cuda.synchronize()
    total = sum(event.self_device_time_total for event in found.key_averages())
    return float(total) / _REPEATS / 1e3
