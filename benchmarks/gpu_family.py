"""Device times of pools, sums, products and lookups on an attached GPU, and their table.

    python -m benchmarks.gpu_family

The peer is a copy of the same bytes, those read and those written. Outputs are compared with
xla's, and at either end of the batch with the CPU's. Writes results/.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from rich.console import Console

import dmlax
from benchmarks import device_timing, report

BATCH = 128
CHECKED = 2  # images at either end, on the CPU
SUM_SHAPES = ((56, 256), (28, 512), (14, 1024), (7, 2048))  # of ResNet-50: side and channels
GATE_SHAPES = ((112, 32), (56, 144), (28, 240), (14, 672), (7, 1152))  # of EfficientNet-B0
SPEED = 0.8  # of a copy's
ARITHMETICS = ("exact", "float32")


@dataclass(frozen=True)
class Work:
    """An operator at one size."""

    operator: str
    size: str
    call: Callable[..., Any]
    operands: tuple[np.ndarray, ...]


def main() -> None:
    """Compare and time every work."""
    facts = report.environment() | device_timing.ceilings()
    found = report.Report(f"pools, sums, products and lookups on an {report.chip_of(facts)}")
    for work in _works():
        row = _row(work)
        found.rows.append(row)
        what = f"{row['operator']}, {row['size']}: of the speed of a copy"
        found.targets.append(report.Target(what, row["of copy"], SPEED, at_least=True))
    found.show(Console())
    report.write_of_gpu("family", [found], facts | {"times": device_timing.TIMES})


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
    for arithmetic in ARITHMETICS:
        for side, channels in SUM_SHAPES:
            tensors = _draw(side, side, channels), _draw(side, side, channels, seed=1)
            add = _quantized(dmlax.element_wise_quantized_linear_add, arithmetic)
            yield Work(f"add, {arithmetic}", f"{side}x{side}x{channels}", add, tensors)
    for side, channels in GATE_SHAPES:
        size, x = f"{side}x{side}x{channels}", _draw(side, side, channels)
        multiply = _quantized(dmlax.element_wise_quantized_linear_multiply, "exact")
        yield Work("multiply by gates", size, multiply, (_draw(1, 1, channels, seed=1), x))
        table = np.random.default_rng(2).permutation(256).astype(np.uint8)
        yield Work("lookup", size, dmlax.quantized_lookup, (x, table))


def _quantized(function: Callable[..., Any], arithmetic: str) -> Callable[..., Any]:
    parameters = {
        "a_scale": 0.0371,
        "b_scale": 0.0213,
        "output_scale": 0.0457,
        "a_zero_point": np.uint8(117),
        "b_zero_point": np.uint8(121),
        "output_zero_point": np.uint8(125),
    }
    return partial(function, **parameters, arithmetic=arithmetic)


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (BATCH, *shape), np.uint8)


def _row(work: Work) -> dict[str, Any]:
    given = jax.device_put(work.operands)
    found: dict[str, Any] = {"operator": work.operator, "size": work.size}
    outputs = {}
    for name in ("mosaic_gpu", "xla"):
        call = jax.jit(partial(work.call, implementation=name))
        outputs[name] = np.asarray(call(*given))
        found[f"{name} ms"] = device_timing.jax_ms(call, *given)
    np.testing.assert_array_equal(outputs["mosaic_gpu"], outputs["xla"], str(work.size))
    checked = np.r_[:CHECKED, -CHECKED:0]
    np.testing.assert_array_equal(outputs["xla"][checked], _on_cpu(work, checked))
    size = sum(x.size for x in (*work.operands, outputs["xla"]))
    copied = jax.device_put(np.zeros(size // 8, np.uint32))
    copy = device_timing.jax_ms(jax.jit(lambda x: x + np.uint32(1)), copied)
    return found | {"copy ms": copy, "MB": 1e-6 * size, "of copy": copy / found["mosaic_gpu ms"]}


def _on_cpu(work: Work, checked: np.ndarray) -> np.ndarray:
    """Outputs of some images on the CPU; a table has no images."""
    operands = [x[checked] if len(x) == BATCH else x for x in work.operands]
    with jax.default_device(jax.devices("cpu")[0]):
        return np.asarray(work.call(*operands, implementation="xla"))


if __name__ == "__main__":
    main()
