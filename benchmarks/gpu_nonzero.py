"""Device times of nonzero_coordinates on an attached GPU, and the table that they make.

    python -m benchmarks.gpu_nonzero > ours
    python -m benchmarks.gpu_nonzero --peer > theirs
    python -m benchmarks.gpu_nonzero --table ours theirs

The second are PyTorch's, in a process of their own: two profilers cannot share one. The third
writes results/.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

import dmlax
from benchmarks import cases, device_timing, report

MOST = 2**26  # elements


def main() -> None:
    """Print a line of JSON for what is known beforehand, then one for each array."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="time PyTorch")
    parser.add_argument("--table", nargs=2, type=Path, help="files of what the others printed")
    options = parser.parse_args()
    if options.table:
        return _write(*map(report.read_lines, options.table))
    for row in (_peer if options.peer else _ours)():
        print(json.dumps(row), flush=True)


def _arrays() -> Iterator[tuple[str, np.ndarray]]:
    return ((case.name, case.array()) for case in cases.arrays("", MOST))


def _ours() -> Iterator[dict[str, Any]]:
    """Time both implementations, checked first."""
    yield report.environment() | device_timing.ceilings()
    for name, array in _arrays():
        x, wanted = jax.device_put(array), np.argwhere(array)
        row: dict[str, Any] = {"array": name}
        for implementation in ("mosaic_gpu", "xla"):
            call = jax.jit(partial(dmlax.nonzero_coordinates, implementation=implementation))
            count, rows = call(x)
            found = np.asarray(rows)
            good = int(count) == len(wanted) and np.array_equal(found[: len(wanted)], wanted)
            if not good or found[len(wanted) :].any():
                raise AssertionError(f"{implementation} is wrong on {name}")
            row[f"{implementation}_ms"] = device_timing.jax_ms(call, x)
        yield row


def _peer() -> Iterator[dict[str, Any]]:
    """PyTorch's two, and a copy, which is the ceiling."""
    torch = import_module("torch")
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copied = 2 * source.numel() / device_timing.torch_ms(torch, lambda: target.copy_(source)) / 1e6
    yield {"torch": torch.__version__, "copy_gb_per_s": copied}
    for name, array in _arrays():
        x = torch.from_numpy(array).cuda()
        whole = partial(torch.nonzero, x)
        static = partial(torch.nonzero_static, x, size=x.numel())
        times = {"torch_nonzero_ms": whole, "torch_nonzero_static_ms": static}
        yield {"array": name} | {
            key: device_timing.torch_ms(torch, call) for key, call in times.items()
        }


def _write(ours: Any, theirs: Any) -> None:
    """The table and its targets, shown and written."""
    (facts, rows), (peer, peer_rows) = ours, theirs
    peers = {row["array"]: row for row in peer_rows}
    bytes_of = {case.name: _bytes(case) for case in cases.arrays("", MOST)}
    found = report.Report(f"nonzero on an {report.chip_of(facts)}")
    for row in rows:
        moved = 1e-6 * bytes_of[row["array"]] / row["mosaic_gpu_ms"]
        found.rows.append(
            row | peers[row["array"]] | {"share_of_copy": moved / peer["copy_gb_per_s"]}
        )
    found.targets = list(_targets(found.rows))
    found.show(Console())
    report.write_of_gpu("nonzero", [found], facts | peer | {"times": device_timing.TIMES})


def _bytes(case: cases.Sparse) -> int:
    """Read once and written once."""
    return case.size * (np.dtype(case.dtype).itemsize + 4 * len(case.shape))


def _targets(rows: list[report.Row]) -> Iterable[report.Target]:
    flat = {row["array"]: row for row in rows if row["array"].startswith("flat.")}
    peers = ("torch_nonzero_ms", "torch_nonzero_static_ms")

    def least_over(power: int) -> float:
        of_size = [row for name, row in flat.items() if name.startswith(f"flat.2^{power}.")]
        least: float = min(row[peer] / row["mosaic_gpu_ms"] for row in of_size for peer in peers)
        return least

    for power, limit in {16: 1, 20: 1, 22: 1.5, 24: 1.5, 26: 1.2}.items():
        name = f"2^{power}: over torch.nonzero and nonzero_static, least"
        yield report.Target(name, least_over(power), limit, at_least=True)
    for power in (24, 26):
        shares = [row["share_of_copy"] for name, row in flat.items() if f"^{power}." in name]
        yield report.Target(
            f"2^{power}: least share of a copy's speed", min(shares), 0.6, at_least=True
        )


if __name__ == "__main__":
    main()
