"""Device times of matrix products on an attached GPU, and the table that they make.

    python -m tools.benchmarks gpu_matmul > ours
    python -m tools.benchmarks gpu_matmul --peer > theirs
    python -m tools.benchmarks gpu_matmul --table ours theirs --json FILE

The second command times PyTorch's `_int_mm`, the product alone, by cuBLAS, in another process
because two profilers cannot share one. The third compares the int32 outputs by checksums.
"""

import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import jax
import numpy as np

import dmlax
from tools.benchmarks import gpu
from tools.benchmarks.report import Report, Row

OPTIONS = (gpu.PEER, gpu.TABLE)
_SIZES = ((8192, 8192, 8192), (4096, 768, 768), (4096, 768, 3072), (4096, 3072, 768))  # M, K, N
_SPEED = 0.9  # of cuBLAS's


def run(peer: bool, table: Sequence[Path] | None) -> list[Report] | None:
    """Print the lines of either library, or make the table."""
    return gpu.staged(_ours, _peer, _tables, peer=peer, table=table)


def _operands(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + k + n)
    return rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)


def _ours() -> Iterator[Row]:
    yield gpu.facts()
    for m, k, n in _SIZES:
        a, b = _operands(m, k, n)
        x, prepared = jax.device_put(a), dmlax.prepare_matrix(b)
        quantized = partial(
            dmlax.quantized_linear_matrix_multiply,
            a_scale=0.01,
            b_scale=np.random.default_rng(n).uniform(0.5, 1.5, n).astype(np.float32),
            output_scale=74 * k**0.5 / 60 * 0.74,
            a_zero_point=np.int8(3),
        )
        calls = {
            name: jax.jit(partial(quantized, implementation=name)) for name in ("mosaic_gpu", "xla")
        }
        gpu.assert_equal((call(x, prepared) for call in calls.values()), f"{m} x {k} x {n}")
        integer = jax.jit(partial(dmlax.matrix_multiply_integer, implementation="mosaic_gpu"))
        yield {
            "M": m,
            "K": k,
            "N": n,
            "gop": 2e-9 * m * k * n,
            **{f"{name}_ms": gpu.jax_ms(call, x, prepared) for name, call in calls.items()},
            "int32_ms": gpu.jax_ms(integer, x, prepared),
            "checksum": zlib.crc32(np.asarray(integer(x, prepared)).tobytes()),
        }


def _peer() -> Iterator[Row]:
    """Time PyTorch's product of int8 into int32; cuBLAS wants the right matrix transposed."""
    torch = import_module("torch")
    yield {"torch": torch.__version__}
    for m, k, n in _SIZES:
        a, b = _operands(m, k, n)
        x, w = (torch.from_numpy(np.ascontiguousarray(y)).cuda() for y in (a, b.T))
        call = partial(torch._int_mm, x, w.T)
        checksum = zlib.crc32(call().cpu().numpy().tobytes())
        row = {"M": m, "K": k, "N": n, "checksum": checksum}
        yield row | {"torch_int_mm_ms": gpu.torch_ms(torch, call)}


def _tables(ours: gpu.Lines, theirs: gpu.Lines) -> list[Report]:
    (facts, rows), (peer, peer_rows) = ours, theirs
    table = gpu.report_of("matrix products", facts | peer)
    for row, other in zip(rows, peer_rows, strict=True):
        if row["checksum"] != other["checksum"]:
            raise SystemExit(f"outputs differ: {row} {other}")
        ms, torch = row["mosaic_gpu_ms"], other["torch_int_mm_ms"]
        size = f"{row['M']} x {row['K']} x {row['N']}"
        table.rows.append(
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
        table.add_target(f"{size}: speed over torch _int_mm", torch / ms, _SPEED, at_least=True)
    return [table]
