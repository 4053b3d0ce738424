"""Device times on an attached GPU, by CUPTI: JAX's or PyTorch's, as a process has one profiler."""

import statistics
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax

_REPEATS = 10
TIMES = (
    f"all kernels, by CUPTI; medians of {_REPEATS} (torch: means of {_REPEATS}, another process)"
)


def jax_ms(call: Callable[..., Any], *operands: Any) -> float:
    """Of one call, compiled before: the median of several."""
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
    """Of one call, the mean of several."""
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
