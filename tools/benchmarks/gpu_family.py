"""Device times of pools, sums, products and lookups on an attached GPU, and their table.

The peer is a copy of as many bytes as the operator reads and writes. Outputs are compared with
xla's, and at either end of the batch with the CPU's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

import dmlax
from tools.benchmarks import gpu
from tools.benchmarks.report import Report, Row

OPTIONS = ()
_BATCH = 128
_SUM_SHAPES = ((56, 256), (28, 512), (14, 1024), (7, 2048))  # of ResNet-50: side and channels
_GATE_SHAPES = ((112, 32), (56, 144), (28, 240), (14, 672), (7, 1152))  # of EfficientNet-B0
_SPEED = 0.8  # of a copy's


@dataclass(frozen=True)
class Work:
    """An operator at one size."""

    operator: str
    size: str
    call: Callable[..., jax.Array]
    operands: tuple[np.ndarray, ...]


def run() -> list[Report]:
    """Compare and time every work."""
    table = gpu.report_of("pools, sums, products and lookups", gpu.facts())
    for work in _works():
        row = _row(work)
        table.rows.append(row)
        what = f"{work.operator}, {work.size}: of the speed of a copy"
        table.add_target(what, row["of copy"], _SPEED, at_least=True)
    return [table]


def _works() -> Iterator[Work]:
    pool = partial(
        dmlax.max_pooling,
        window_size=3,
        strides=2,
        start_padding=1,
        end_padding=1,
        dimension_numbers="NHWC",
    )
    yield Work("max_pooling", "3x3, stride 2, of 112x112x64", pool, (_draw(112, 112, 64),))
    for arithmetic in ("exact", "float32"):
        for side, channels in _SUM_SHAPES:
            tensors = _draw(side, side, channels), _draw(side, side, channels, seed=1)
            add = _quantized(dmlax.element_wise_quantized_linear_add, arithmetic)
            yield Work(f"add, {arithmetic}", f"{side}x{side}x{channels}", add, tensors)
    for side, channels in _GATE_SHAPES:
        size, x = f"{side}x{side}x{channels}", _draw(side, side, channels)
        multiply = _quantized(dmlax.element_wise_quantized_linear_multiply, "exact")
        yield Work("multiply by gates", size, multiply, (_draw(1, 1, channels, seed=1), x))
        table = np.random.default_rng(2).permutation(256).astype(np.uint8)
        yield Work("lookup", size, dmlax.quantized_lookup, (x, table))


def _quantized(function: Callable[..., jax.Array], arithmetic: str) -> Callable[..., jax.Array]:
    return partial(
        function,
        a_scale=0.0371,
        b_scale=0.0213,
        output_scale=0.0457,
        a_zero_point=np.uint8(117),
        b_zero_point=np.uint8(121),
        output_zero_point=np.uint8(125),
        arithmetic=arithmetic,
    )


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (_BATCH, *shape), np.uint8)


def _row(work: Work) -> Row:
    operands = jax.device_put(work.operands)
    calls = {
        name: jax.jit(partial(work.call, implementation=name)) for name in ("mosaic_gpu", "xla")
    }
    output = gpu.assert_equal((call(*operands) for call in calls.values()), work.size)
    with gpu.on_cpu():  # a table of a lookup has no images
        ends = [x[gpu.ENDS] if len(x) == _BATCH else x for x in work.operands]
        gpu.assert_equal((output[gpu.ENDS], work.call(*ends, implementation="xla")), work.size)
    times = {f"{name} ms": gpu.jax_ms(call, *operands) for name, call in calls.items()}
    size = sum(x.size for x in (*work.operands, output))
    copied = jax.device_put(np.zeros(size // 8, np.uint32))
    copy = gpu.jax_ms(jax.jit(lambda x: x + np.uint32(1)), copied)
    return {
        "operator": work.operator,
        "size": work.size,
        **times,
        "copy ms": copy,
        "MB": 1e-6 * size,
        "of copy": copy / times["mosaic_gpu ms"],
    }
