"""Device times of nonzero_coordinates on an attached GPU, and the table that they make.

    python -m tools.benchmarks gpu_nonzero > ours
    python -m tools.benchmarks gpu_nonzero --peer > theirs
    python -m tools.benchmarks gpu_nonzero --table ours theirs --json FILE

The second command times PyTorch, in another process because two profilers cannot share one.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import jax
import numpy as np

import dmlax
from tools.benchmarks import cases, gpu
from tools.benchmarks.options import ONLY
from tools.benchmarks.report import Report, Row, Target

OPTIONS = (ONLY, gpu.PEER, gpu.TABLE)
_MOST = 2**26  # elements
_LEAST_OVER_TORCH = {16: 1, 20: 1, 22: 1.5, 24: 1.5, 26: 1.2}  # by the power of two of elements


def run(only: str, peer: bool, table: Sequence[Path] | None) -> list[Report] | None:
    """Print the lines of either library, or make the table."""
    arrays = cases.arrays(only, _MOST)
    ours, theirs = partial(_ours, arrays), partial(_peer, arrays)
    return gpu.staged(ours, theirs, _tables, peer=peer, table=table)


def _ours(arrays: Sequence[cases.Sparse]) -> Iterator[Row]:
    """Time both implementations, checked first."""
    yield gpu.facts()
    for case in arrays:
        array = case.array()
        x, wanted = jax.device_put(array), np.argwhere(array)
        row: Row = {"array": case.name}
        for implementation in ("mosaic_gpu", "xla"):
            call = jax.jit(partial(dmlax.nonzero_coordinates, implementation=implementation))
            count, rows = call(x)
            padded = np.zeros(rows.shape, np.uint32)
            padded[: len(wanted)] = wanted
            if int(count) != len(wanted) or not np.array_equal(rows, padded):
                raise AssertionError(f"{implementation} is wrong on {case.name}")
            row[f"{implementation}_ms"] = gpu.jax_ms(call, x)
        yield row


def _peer(arrays: Sequence[cases.Sparse]) -> Iterator[Row]:
    """Time PyTorch's two functions, and a copy, which is the ceiling."""
    torch = import_module("torch")
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copied = 2 * source.numel() / gpu.torch_ms(torch, lambda: target.copy_(source)) / 1e6
    yield {"torch": torch.__version__, "copy_gb_per_s": copied}
    for case in arrays:
        x = torch.from_numpy(case.array()).cuda()
        static = partial(torch.nonzero_static, x, size=x.numel())
        yield {
            "array": case.name,
            "torch_nonzero_ms": gpu.torch_ms(torch, partial(torch.nonzero, x)),
            "torch_nonzero_static_ms": gpu.torch_ms(torch, static),
        }


def _tables(ours: gpu.Lines, theirs: gpu.Lines) -> list[Report]:
    (facts, rows), (peer, peer_rows) = ours, theirs
    peers = {row["array"]: row for row in peer_rows}
    bytes_of = {case.name: _bytes(case) for case in cases.arrays("", _MOST)}
    table = gpu.report_of("nonzero", facts | peer)
    for row in rows:
        moved = 1e-6 * bytes_of[row["array"]] / row["mosaic_gpu_ms"]
        shares = {"share_of_copy": moved / peer["copy_gb_per_s"]}
        table.rows.append(row | peers[row["array"]] | shares)
    table.targets.extend(_targets(table.rows))
    return [table]


def _bytes(case: cases.Sparse) -> int:
    """Bytes of the input and of all coordinates."""
    return case.size * (np.dtype(case.dtype).itemsize + 4 * len(case.shape))


def _targets(rows: Sequence[Row]) -> Iterable[Target]:
    peers = ("torch_nonzero_ms", "torch_nonzero_static_ms")
    for power, limit in _LEAST_OVER_TORCH.items():
        flat = [row for row in rows if row["array"].startswith(f"flat.2^{power}.")]
        ratios = [row[peer] / row["mosaic_gpu_ms"] for row in flat for peer in peers]
        if ratios:
            what = f"2^{power}: over torch.nonzero and nonzero_static, least"
            yield Target(what, min(ratios), limit, at_least=True)
        if ratios and power >= 24:
            shares = [row["share_of_copy"] for row in flat]
            what = f"2^{power}: least share of a copy's speed"
            yield Target(what, min(shares), 0.6, at_least=True)
