"""Times on an attached GPU, and the options of the benchmarks that measure it.

CUPTI measures the kernels of JAX or of PyTorch: a process has one profiler. The clocks are read
while JAX's products run.
"""

import contextlib
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tools.benchmarks import report, timing
from tools.benchmarks.report import Report, Row, option
from tools.benchmarks.timing import Call

PEER = option("--peer", action="store_true", help="print lines of PyTorch's times")
TABLE = option(
    "--table", nargs=2, type=Path, metavar=("OURS", "THEIRS"), help="make the tables of both lines"
)
FILES = option("--files", type=Path, metavar="FOLDER", help="quantized files to use or write")

ENDS = np.r_[:2, -2:0]  # images at either end of a batch, which are computed on the CPU, too
NHWC = ("NHWC", "OIHW", "NHWC")
Lines = tuple[Row, list[Row]]
_IN_A_ROW = 20  # calls
_REPEATS = 10
_SIDE = 8192  # the product of matrices of this side measures the highest rate
_COPIED = 2**30  # bytes, read and written
_CLOCKS = {"sm_mhz": "clocks.sm", "memory_mhz": "clocks.mem", "most_sm_mhz": "clocks.max.sm"}


def facts() -> Row:
    """The machine, its rates, and how times are taken."""
    times = (
        f"all kernels, by CUPTI; medians of {_REPEATS} "
        f"(torch: means of {_REPEATS}, another process)"
    )
    return report.environment() | ceilings() | {"times": times}


def staged(
    ours: Callable[[], Iterator[Row]],
    theirs: Callable[[], Iterator[Row]],
    tables: Callable[[Lines, Lines], list[Report]],
    *,
    peer: bool,
    table: Sequence[Path] | None,
) -> list[Report] | None:
    """Print lines of dmlax's or PyTorch's times, or make the tables of both files of lines."""
    if table:
        first, second = table
        return tables(report.read_lines(first), report.read_lines(second))
    report.print_lines(theirs() if peer else ours())
    return None


def report_of(title: str, measured_on: Row) -> Report:
    """An empty report whose title ends with the name of the GPU."""
    chip = str(measured_on["device"]).split()[1]  # the second word of "NVIDIA H100 80GB HBM3"
    return Report(f"{title} on an {chip}", measured_on=measured_on)


def ceilings() -> dict[str, float]:
    """The rates of an int8 product and of a copy, and the clocks in MHz while products run."""
    copied = jax.device_put(np.zeros(_COPIED // 4, np.float32))
    matrices = _bytes(0), _bytes(1)
    rates = {
        "int8_top_per_s": 2e-9 * _SIDE**3 / jax_ms(_product, *matrices),
        "copy_gb_per_s": 2e-6 * _COPIED / jax_ms(jax.jit(lambda x: x + 1), copied),
    }
    return rates | _clocks(lambda: jax.block_until_ready(_product(*matrices)))


def _bytes(seed: int) -> jax.Array:
    drawn = np.random.default_rng(seed).integers(-128, 128, (_SIDE, _SIDE), np.int8)
    placed: jax.Array = jax.device_put(drawn)
    return placed


@jax.jit
def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    axes = (((1,), (1,)), ((), ()))
    product: jax.Array = lax.dot_general(a, b, axes, preferred_element_type=jnp.int32)
    return product


def _clocks(call: Call) -> dict[str, float]:
    """Read the clocks with NVIDIA's tool while calls run."""
    query = ",".join(_CLOCKS.values())
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading:
        while reading.poll() is None:
            call()
        assert reading.stdout is not None
        values = reading.stdout.readline().split(",")
    return dict(zip(_CLOCKS, map(float, values), strict=True))


def jax_ms(call: Callable[..., object], *operands: object) -> float:
    """Time the kernels of one call without compiling: the median of several."""
    jax.block_until_ready(call(*operands))
    _, times = _profiler().measure(call, iterations=_REPEATS)(*operands)
    return float(statistics.median(times))


def jax_kernels(call: Callable[..., object], *operands: object) -> list[tuple[str, float]]:
    """Names and milliseconds of the kernels of one call, in their order: medians of several."""
    return [
        (kernel[0][0], float(statistics.median(ms for _, ms in kernel)))
        for kernel in zip(*jax_runs(call, *operands), strict=True)
    ]


def jax_runs(call: Callable[..., object], *operands: object) -> list[list[tuple[str, float]]]:
    """Names and milliseconds of the kernels of several calls."""
    jax.block_until_ready(call(*operands))
    profile = _profiler().measure(call, aggregate=False, iterations=_REPEATS)
    runs: list[list[tuple[str, float]]] = profile(*operands)[1]
    return runs


def _profiler() -> Any:
    return import_module("jax.experimental.mosaic.gpu.profiler")


def torch_ms(torch: Any, call: Call) -> float:
    """Time the kernels of one call of PyTorch: the mean of several."""
    profiler = import_module("torch.profiler")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_REPEATS):
            call()
        torch.cuda.synchronize()
    total = sum(event.self_device_time_total for event in profile.key_averages())
    return float(total) / _REPEATS / 1e3


def in_a_row_ms(
    call: Call, wait: Callable[[list[object]], object] = jax.block_until_ready, repeats: int = 5
) -> float:
    """Wall time of one of several calls in a row, whose outputs are waited for together."""

    def calls() -> None:
        wait([call() for _ in range(_IN_A_ROW)])

    calls()
    return timing.alone(calls, repeats) / _IN_A_ROW


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Have JAX place arrays on the CPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield
