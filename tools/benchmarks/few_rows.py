"""Products of few rows, as in a language model's decode step, against ONNX Runtime, on a CPU."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dmlax._core.dispatch import Implementation
from dmlax._fused.block_product.plan import Blocks
from dmlax.onnx.operators import n_bits
from tools.benchmarks import family, onnx_peer
from tools.benchmarks.options import ONLY, REPEATS
from tools.benchmarks.peaks import read_rate
from tools.benchmarks.report import Report, Row, tracked
from tools.benchmarks.works import Work, measure

OPTIONS = (ONLY, REPEATS)
_ROWS, _SIZES = (1, 2, 4, 8), (256, 1024, 4096)
_BLOCK = 32
_MOST_RATIO, _LEAST_SHARE = 1.0, 0.8


def run(only: str, repeats: int) -> Iterator[Report]:
    """Check, then time, every product whose operator matches."""
    works = [work for work in _works() if re.search(only, work[0].operator)]
    if not works:
        return
    report, _, overhead = onnx_peer.begin_report("few_rows", repeats)
    for work, weights, moved in tracked(works, report.name):
        report.rows.append(_row(measure(work, repeats, overhead), weights, moved))
    for name, weights in dict.fromkeys((row["operator"], row["weights"]) for row in report.rows):
        where = {"operator": name, "weights": weights}
        most, least = (
            max(report.column("ratio", **where)),
            min(report.column("of reading", **where)),
        )
        report.add_target(f"{name}, {weights}: largest ratio to ORT", most, _MOST_RATIO)
        report.add_target(f"{name}, {weights}: least share of reading", least, _LEAST_SHARE, True)
    yield report


def _row(times: Row, weights: str, moved: int) -> Row:
    """A product's times, and the rate of its weights beside that of reading as many bytes."""
    rate = moved / times["dmlax us"] * 1e6
    times = {name: value for name, value in times.items() if name != "arithmetic"}
    shares = {"GB/s": 1e-9 * rate, "of reading": rate / _read_rate(moved)}
    return {"operator": times.pop("operator"), "weights": weights, **times, **shares}


@cache
def _read_rate(size: int) -> float:
    return read_rate(size)


def _works() -> Iterator[tuple[Work, str, int]]:
    """Works, the form of their weights, and the weights' bytes."""
    for size, rows in product(_SIZES, _ROWS):
        integer = family.integer_product(1, rows, size, size)
        yield integer, "prepared", size * size
        fed = integer.operands["b"]
        yield replace(integer, operand=fed, fed=("b",)), "an input", size * size
        yield family.quantized_product(1, rows, size, size, "float32"), "prepared", size * size
        yield _block_product(rows, size), "4 bits", size * size // 2


def _block_product(rows: int, size: int) -> Work:
    """A MatMulNBits of 4 bits without zero points."""
    rng = np.random.default_rng(0)
    held = rng.integers(0, 256, (size, size // _BLOCK, _BLOCK // 2), np.uint8)
    scale = rng.uniform(0.5, 1.5, (size, size // _BLOCK)).astype(np.float32) / size

    def call(x: jax.Array, operand: Any, implementation: Implementation = "auto") -> jax.Array:
        if implementation == "xla" and len(x) > 1:  # their bits are the kernel's
            return jnp.concatenate([call(row, operand, "xla") for row in x[:, None]])
        plan, operands = n_bits.BLOCKS.plan(Blocks(x, *operand), _BLOCK)
        return n_bits.BLOCKS.call(plan, operands, implementation)

    return Work(
        "MatMulNBits",
        f"{rows}x{size}x{size}",
        "exact",
        call,
        rng.normal(size=(rows, size)).astype(np.float32),
        {"b": held, "scale": scale},
        (held.reshape(size, -1), scale, np.full((1, 1), 8, np.float32)),
        domain=onnx_peer.OWN_DOMAIN,
        attributes={"K": size, "N": size, "bits": 4, "block_size": _BLOCK},
    )
