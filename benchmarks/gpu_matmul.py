"""Device times of matrix products on an attached GPU, and the table that they make.

    python -m benchmarks.gpu_matmul > ours
    python -m benchmarks.gpu_matmul --peer > theirs
    python -m benchmarks.gpu_matmul --table ours theirs

The second are PyTorch's `_int_mm`, the product alone, by cuBLAS, in a process of their own: two
profilers cannot share one. The third compares their int32 outputs by checksums, and writes
results/.
"""

import argparse
import json
import zlib
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

import dmlax
from benchmarks import device_timing, report

SIZES = ((8192, 8192, 8192), (4096, 768, 768), (4096, 768, 3072), (4096, 3072, 768))  # M, K, N
SPEED = 0.9  # of cuBLAS's


def main() -> None:
    """Print a line of JSON for the machine, then one for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="time PyTorch")
    parser.add_argument("--table", nargs=2, type=Path, help="files of what the others printed")
    options = parser.parse_args()
    if options.table:
        return _write(*map(report.read_lines, options.table))
    for row in (_peer if options.peer else _ours)():
        print(json.dumps(row), flush=True)


def _operands(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + k + n)
    return rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)


def _ours() -> Iterator[dict[str, Any]]:
    yield report.environment() | device_timing.ceilings()
    for m, k, n in SIZES:
        a, b = _operands(m, k, n)
        x, prepared = jax.device_put(a), dmlax.prepare_matrix(b)
        scales = np.random.default_rng(n).uniform(0.5, 1.5, n).astype(np.float32)
        spread: dict[str, Any] = {
            "a_scale": 0.01,
            "b_scale": scales,
            "output_scale": 74 * k**0.5 / 60 * 0.74,
        }
        quantized = partial(
            dmlax.quantized_linear_matrix_multiply, a_zero_point=np.int8(3), **spread
        )
        integer = dmlax.matrix_multiply_integer
        found: dict[str, Any] = {"M": m, "K": k, "N": n, "gop": 2e-9 * m * k * n}
        outputs = []
        for implementation in ("mosaic_gpu", "xla"):
            call = jax.jit(partial(quantized, implementation=implementation))
            outputs.append(np.asarray(call(x, prepared)))
            found[f"{implementation}_ms"] = device_timing.jax_ms(call, x, prepared)
        np.testing.assert_array_equal(outputs[0], outputs[1], strict=True)
        call = jax.jit(partial(integer, implementation="mosaic_gpu"))
        found["int32_ms"] = device_timing.jax_ms(call, x, prepared)
        yield found | {"checksum": zlib.crc32(np.asarray(call(x, prepared)).tobytes())}


def _peer() -> Iterator[dict[str, Any]]:
    """PyTorch's product of int8 into int32; the right matrix is transposed, as cuBLAS wants it."""
    torch = import_module("torch")
    yield {"torch": torch.__version__}
    for m, k, n in SIZES:
        a, b = _operands(m, k, n)
        x, w = (torch.from_numpy(np.ascontiguousarray(y)).cuda() for y in (a, b.T))
        call = partial(torch._int_mm, x, w.T)
        checksum = zlib.crc32(call().cpu().numpy().tobytes())
        found = {"M": m, "K": k, "N": n, "checksum": checksum}
        yield found | {"torch_int_mm_ms": device_timing.torch_ms(torch, call)}


def _write(ours: Any, theirs: Any) -> None:
    """The table and its targets, shown and written."""
    (facts, rows), (peer, peer_rows) = ours, theirs
    found = report.Report(f"matrix products on an {report.chip_of(facts)}")
    for row, other in zip(rows, peer_rows, strict=True):
        if row["checksum"] != other["checksum"]:
            raise SystemExit(f"outputs differ: {row} {other}")
        ms, torch = row["mosaic_gpu_ms"], other["torch_int_mm_ms"]
        size = f"{row['M']} x {row['K']} x {row['N']}"
        found.rows.append(
            {
                "M x K x N": size,
                "Gop": row["gop"],
                "mosaic_gpu ms": ms,
                "mosaic_gpu int32 ms": row["int32_ms"],
                "xla ms": row["xla_ms"],
                "torch _int_mm ms": torch,
                "over torch": torch / ms,
                "Top/s": row["gop"] / ms,
            }
        )
        name = f"{size}: speed over torch _int_mm"
        found.targets.append(report.Target(name, torch / ms, SPEED, at_least=True))
    found.show(Console())
    report.write_of_gpu("matmul", [found], facts | peer | {"times": device_timing.TIMES})


if __name__ == "__main__":
    main()
