"""Device times of nonzero_coordinates on an attached GPU: `python -m benchmarks.gpu_nonzero`.

With `--peer`, those of PyTorch instead, in a process of its own: two profilers cannot share one.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import cases

REPEATS = 10
MOST = 2**26  # elements


def main() -> None:
    """Print a line of JSON for each array."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="time PyTorch")
    for row in (_peer if parser.parse_args().peer else _ours)():
        print(json.dumps(row), flush=True)


def _arrays() -> Iterator[tuple[str, np.ndarray]]:
    return ((case.name, case.array()) for case in cases.arrays("", MOST))


def _ours() -> Iterator[dict[str, Any]]:
    """Both implementations, checked first."""
    jax, dmlax = import_module("jax"), import_module("dmlax")
    profiler = import_module("jax.experimental.mosaic.gpu.profiler")
    for name, array in _arrays():
        x, row = jax.device_put(array), {"array": name}
        for implementation in ("mosaic_gpu", "xla"):
            call = _call(jax, dmlax, implementation)
            count, rows = call(x)
            wanted = np.argwhere(array)
            found = np.asarray(rows)
            good = int(count) == len(wanted) and np.array_equal(found[: len(wanted)], wanted)
            if not good or found[len(wanted) :].any():
                raise AssertionError(f"{implementation} is wrong on {name}")
            _, times = profiler.measure(call, iterations=REPEATS)(x)
            row[f"{implementation}_ms"] = statistics.median(times)
        yield row


def _call(jax: Any, dmlax: Any, implementation: str) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        return dmlax.nonzero_coordinates(x, implementation=implementation)

    compiled: Callable[[Any], Any] = jax.jit(call)
    return compiled


def _peer() -> Iterator[dict[str, Any]]:
    """PyTorch's two, and a copy, which is the ceiling."""
    torch = import_module("torch")
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copied = 2 * source.numel() / torch_ms(torch, lambda: target.copy_(source)) / 1e6
    yield {"copy_gb_per_s": copied}
    for name, array in _arrays():
        x = torch.from_numpy(array).cuda()
        whole = partial(torch.nonzero, x)
        static = partial(torch.nonzero_static, x, size=x.numel())
        times = {"torch_nonzero_ms": whole, "torch_nonzero_static_ms": static}
        yield {"array": name} | {key: torch_ms(torch, call) for key, call in times.items()}


def torch_ms(torch: Any, call: Callable[[], Any]) -> float:
    """Time on the device of one call, the mean of several."""
    profiler = import_module("torch.profiler")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(REPEATS):
            call()
        torch.cuda.synchronize()
    total = sum(event.self_device_time_total for event in found.key_averages())
    return float(total) / REPEATS / 1e3


if __name__ == "__main__":
    main()
