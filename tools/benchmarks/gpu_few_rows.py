"""Device times of products of few rows, as in a decoder, beside copies of as many bytes.

    python -m tools.benchmarks gpu_few_rows --json FILE

A program multiplies by several matrices, one after another. Then it reads more bytes than the
second cache holds, so that every run reads the matrices from memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dmlax
from dmlax._fused.block_product.plan import Blocks
from dmlax.onnx.operators import n_bits
from tools.benchmarks import gpu, report
from tools.benchmarks.report import Report, Row

OPTIONS = ()
_SIZES = (  # K, N
    (256, 256),
    (256, 4096),
    (4096, 256),
    (1024, 1024),
    (2048, 2048),
    (4096, 1024),
    (4096, 4096),
    (4096, 11_008),
)
_ROWS = (1, 8)
_MATRICES = 6  # of a program
_FLUSHED = (2**14, 2**11)  # int32 elements whose rows a program reduces last
_BLOCK = 32  # 4-bit weights that share a scale
_SHARE = 0.8  # of a copy's rate
_THREADS = 14  # that compile


class _Program(NamedTuple):
    """A compiled program and its operands."""

    compiled: Any
    operands: tuple[Any, ...]

    def microseconds(self) -> float:
        """Time of a product: all kernels less the last reduction, which takes longest."""
        profile = gpu._profiler().measure(self.compiled, aggregate=False, iterations=5)
        _, runs = profile(*self.operands)
        totals = [sum(times) - max(times) for times in ([ms for _, ms in run] for run in runs)]
        return 1e3 * float(median(totals)) / _MATRICES

    def outputs(self) -> list[np.ndarray]:
        """The products."""
        return [np.asarray(x) for x in self.compiled(*self.operands)[0]]


def run() -> list[Report]:
    """Make the table."""
    facts = report.environment() | gpu.ceilings() | {"times": "all kernels, by CUPTI; medians of 5"}
    tables = []
    for title, begin, check in (
        ("products of few rows", _begin, np.testing.assert_array_equal),
        ("products of few rows by 4-bit blocks", _begin_blocks, _assert_near),
    ):
        with ThreadPoolExecutor(_THREADS) as pool:
            cases = [begin(pool, rows, *size) for size in _SIZES for rows in _ROWS]
        tables.append(gpu.report_of(title, facts))
        for name, size, futures in cases:
            _measure(tables[-1], name, size, {k: x.result() for k, x in futures.items()}, check)
    return tables


def _assert_near(actual: np.ndarray, expected: np.ndarray, err_msg: str) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4, err_msg=err_msg)


def _measure(
    table: Report,
    name: str,
    size: int,
    programs: dict[str, _Program],
    check: Callable[..., None],
) -> None:
    """Add a row; the first program must give the outputs of `xla`."""
    first = next(iter(programs.values()))
    for x, y in zip(programs["xla"].outputs(), first.outputs(), strict=True):
        check(y, x, err_msg=name)
    times = {key: program.microseconds() for key, program in programs.items()}
    row: Row = {"M x K x N": name, "MiB": size / 2**20}
    row |= {f"{key} us": us for key, us in times.items()}
    for key in [key for key in times if key not in ("copy", "xla")]:
        share = times["copy"] / times[key]
        row[f"{key} over copy"] = share
        table.add_target(f"{name}: {key}, rate over a copy's", share, _SHARE, at_least=True)
    table.rows.append(row)


_Case = tuple[str, int, dict[str, Future[_Program]]]


def _begin(pool: ThreadPoolExecutor, rows: int, depth: int, columns: int) -> _Case:
    """Begin to compile the products of bytes."""
    rng = np.random.default_rng(depth + columns)
    draw = partial(rng.integers, size=(depth, columns), dtype=np.int8)
    matrices = [(dmlax.prepare_matrix(draw(-128, 128)),) for _ in range(_MATRICES)]
    x = rng.integers(0, 256, (rows, depth), np.uint8)
    quantized = partial(
        dmlax.quantized_linear_matrix_multiply,
        a_scale=0.01,
        b_scale=rng.uniform(0.5, 1.5, columns).astype(np.float32),
        output_scale=74 * depth**0.5 / 60 * 0.74,
        a_zero_point=np.uint8(120),
        output_zero_point=np.uint8(128),
    )
    calls = {
        "mosaic_gpu": partial(quantized, implementation="mosaic_gpu"),
        "int32": partial(dmlax.matrix_multiply_integer, implementation="mosaic_gpu"),
        "xla": partial(quantized, implementation="xla"),
    }
    return _submit(pool, f"{rows} x {depth} x {columns}", calls, x, matrices)


def _begin_blocks(pool: ThreadPoolExecutor, rows: int, depth: int, columns: int) -> _Case:
    """Begin to compile MatMulNBits; `xla` dequantizes columns, and multiplies by them."""
    rng = np.random.default_rng(depth + columns)
    blocks = depth // _BLOCK
    x = rng.normal(size=(rows, depth)).astype(np.float32)

    def draw() -> tuple[np.ndarray, ...]:
        held = rng.integers(0, 256, (columns, depth // 2), np.uint8)
        scale = rng.uniform(0.5, 1.5, (columns, blocks)).astype(np.float32) / depth
        return held, scale, rng.integers(0, 16, (columns, blocks), np.uint8)

    def by_columns(x: Any, held: Any, *parameters: Any) -> Any:
        weights = n_bits._Weights(held, 4, False, 0, _BLOCK, (columns, depth))
        return n_bits.multiply(x, weights, *parameters)

    def by_blocks(x: Any, *matrix: Any) -> Any:
        return n_bits.BLOCKS.call(*n_bits.BLOCKS.plan(Blocks(x, *matrix), _BLOCK))

    calls = {"MatMulNBits": by_blocks, "xla": by_columns}
    name = f"{rows} x {depth} x {columns}"
    return _submit(pool, name, calls, x, [draw() for _ in range(_MATRICES)])


def _submit(
    pool: ThreadPoolExecutor,
    name: str,
    calls: Mapping[str, Callable[..., Any]],
    x: np.ndarray,
    matrices: Sequence[tuple[Any, ...]],
) -> _Case:
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(matrices[0]))
    copied = [(np.ones(size // 8, np.int32) * i,) for i in range(_MATRICES)]
    futures = {key: pool.submit(_compile, call, x, matrices) for key, call in calls.items()}
    futures["copy"] = pool.submit(_compile, lambda x, y: y ^ 1, x, copied)
    return name, size, futures


def _compile(
    call: Callable[..., Any], x: np.ndarray, matrices: Sequence[tuple[Any, ...]]
) -> _Program:
    def run(x: Any, matrices: Any, flushed: Any) -> tuple[list[Any], Any]:
        return list(_chain(call, x, matrices)), flushed.max(1)

    flushed = jnp.zeros(_FLUSHED, jnp.int32)
    operands = jax.device_put((x, list(matrices), flushed))
    return _Program(jax.jit(run).lower(*operands).compile(), operands)


def _chain(call: Callable[..., Any], x: Any, matrices: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Products one after another; the compiler may join no two."""
    last = x
    for matrix in matrices:
        (x, matrix), _ = lax.optimization_barrier(((x, matrix), last))
        last = call(x, *matrix)
        yield last
