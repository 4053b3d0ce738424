"""Operators on an attached GPU: bits first, then device times beside a copy's and PyTorch's.

    python -m tools.benchmarks gpu_operators > ours
    python -m tools.benchmarks gpu_operators --peer > theirs
    python -m tools.benchmarks gpu_operators --table ours theirs --json FILE

The second command times PyTorch, in another process because two profilers cannot share one: bf16
convolutions, `_int_mm`, `nonzero`. The copy reads and writes as many bytes as the operator.
Products of few rows are timed several in a program, which then reads more bytes than the second
cache holds, so that every run reads the weights from memory.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dmlax
from dmlax._fused.block_product.plan import Blocks
from dmlax.onnx.operators import n_bits
from tools.benchmarks import cases, gpu
from tools.benchmarks.report import ONLY, Report, Row
from tools.benchmarks.timing import Call

OPTIONS = (gpu.PEER, gpu.TABLE, ONLY)
_BATCH = 128
_SUM_SHAPES = ((56, 256), (28, 512), (14, 1024), (7, 2048))  # ResNet-50: side and channels
_GATE_SHAPES = ((112, 32), (56, 144), (28, 240), (14, 672), (7, 1152))  # EfficientNet-B0
_PRODUCTS = ((8192, 8192, 8192), (4096, 768, 768), (4096, 768, 3072), (4096, 3072, 768))  # M, K, N
_FEW_ROWS, _WEIGHTS = (1, 8), ((256, 256), (1024, 1024), (4096, 1024), (4096, 4096), (4096, 11_008))
_MATRICES = 6  # a program that multiplies few rows has this many
_FLUSHED = (2**14, 2**11)  # int32 elements whose rows such a program reduces last
_BLOCK = 32  # 4-bit weights that share a scale
_MOST = 2**26  # elements of an array whose nonzero elements are listed
_SUM: dict[str, Any] = {
    "addend_scale": 0.0123,
    "addend_zero_point": np.uint8(117),
    "sum_scale": 0.0371,
    "sum_zero_point": np.uint8(121),
}


class Work(NamedTuple):
    """An operator at one size.

    Attributes:
      call: the operator, a function of the operands and of `implementation`.
      batch: images of the first operands, whose ends are compared with the CPU's results; 0 if the
        results are compared with `xla`'s.
      products: of bytes.
      peers: functions that build PyTorch's calls, by their names.
      weights: of products of few rows: the operands after the first, for several products.
      error: how far results may be from `xla`'s.
    """

    operator: str
    size: str
    call: Callable[..., Any]
    operands: tuple[Any, ...]
    batch: int = 0
    products: int = 0
    peers: Mapping[str, Callable[..., Call]] = MappingProxyType({})
    weights: Sequence[tuple[Any, ...]] = ()
    error: float = 0.0

    def compiled(self, implementation: str) -> Callable[..., Any]:
        """The jitted operator."""
        return jax.jit(partial(self.call, implementation=implementation))


def run(peer: bool, table: Sequence[Path] | None, only: str) -> list[Report] | None:
    """Print the lines of either library, or make the table."""
    return gpu.staged(partial(_ours, only), partial(_peer, only), _tables, peer=peer, table=table)


def _works(only: str) -> Iterator[Work]:
    """Draw the works whose names match, one at a time: together they would fill the memory."""
    kinds: list[tuple[str, Callable[[], Iterator[Work]]]] = [
        *((f"convolution, {a}", partial(_convolutions, a)) for a in ("exact", "float32")),
        *((f"convolution and sum, {a}", partial(_with_sums, a)) for a in ("exact", "float32")),
        ("product", _matrix_products),
        ("product of few rows", _few_rows),
        ("4-bit product of few rows", _block_products),
        *((f"add, {a}", partial(_sums, a)) for a in ("exact", "float32")),
        ("multiply, max pool, lookup", _of_images),
        ("nonzero", _nonzero),
    ]
    for name, works in kinds:
        if re.search(only, name):
            yield from works()


def _convolutions(arithmetic: str) -> Iterator[Work]:
    layers = [*product(cases.layers(""), (32, _BATCH)), *product(cases.layers("", "survey"), (32,))]
    for layer, batch in layers:
        yield _convolution(cases.Problem.of(layer, batch, "NHWC"), batch, arithmetic)


def _convolution(problem: cases.Problem, batch: int, arithmetic: str) -> Work:
    layer = problem.layer

    def torch_bf16(torch: Any) -> Call:
        def draw(*shape: int) -> Any:
            drawn = torch.randn(shape, dtype=torch.bfloat16, device="cuda")
            return drawn.to(memory_format=torch.channels_last)

        return partial(
            torch.nn.functional.conv2d,
            draw(batch, layer.in_channels, layer.size, layer.size),
            draw(layer.out_channels, layer.in_channels // layer.groups, *2 * (layer.kernel,)),
            stride=layer.stride,
            padding=layer.padding,
            groups=layer.groups,
        )

    return Work(
        f"convolution, {arithmetic}",
        f"{layer.name}, batch {batch}",
        partial(problem.call, arithmetic=arithmetic),
        (problem.x, problem.filter()),
        batch,
        problem.products,
        {"torch bf16": torch_bf16},
    )


def _with_sums(arithmetic: str) -> Iterator[Work]:
    """The last 1x1 convolutions of ResNet-50's stages, with a residual."""
    for side, outputs in _SUM_SHAPES:
        layer = cases.Layer("", outputs // 4, side, outputs, 1, 1, 0, 1)
        problem = cases.Problem.of(layer, _BATCH, "NHWC")

        def call(x: Any, addend: Any, filter: Any, problem: Any = problem, **options: Any) -> Any:
            parameters = problem.parameters | _SUM | {"arithmetic": arithmetic} | options
            add = dmlax.quantized_linear_convolution_add
            return add(x, filter, problem.bias, addend, **parameters)

        operands = problem.x, _images(side, side, outputs), problem.filter()
        name = f"{side}x{side}x{outputs // 4} to {outputs}"
        yield Work(
            f"convolution and sum, {arithmetic}", name, call, operands, _BATCH, problem.products
        )


def _multiply(depth: int, columns: int) -> Callable[..., Any]:
    scale = np.random.default_rng(columns).uniform(0.5, 1.5, columns).astype(np.float32)
    return partial(
        dmlax.quantized_linear_matrix_multiply,
        a_scale=0.01,
        b_scale=scale,
        output_scale=74 * depth**0.5 / 60 * 0.74,
    )


def _matrix_products() -> Iterator[Work]:
    for m, k, n in _PRODUCTS:
        rng = np.random.default_rng(m + k + n)
        a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((m, k), (k, n)))

        def int_mm(torch: Any, a: Any = a, b: Any = b) -> Call:
            # cuBLAS wants the right matrix transposed.
            x, w = (torch.from_numpy(np.ascontiguousarray(y)).cuda() for y in (a, b.T))
            return partial(torch._int_mm, x, w.T)

        operands, peers = (a, dmlax.prepare_matrix(b)), {"torch _int_mm": int_mm}
        size = f"{m}x{k}x{n}"
        yield Work("product", size, _multiply(k, n), operands, 0, m * k * n, peers)
        integers = dmlax.matrix_multiply_integer
        yield Work("product, int32", size, integers, operands, 0, m * k * n, peers)


def _few_rows() -> Iterator[Work]:
    for (depth, columns), rows in product(_WEIGHTS, _FEW_ROWS):
        rng = np.random.default_rng(depth + columns)
        draw = partial(rng.integers, -128, 128, (depth, columns), np.int8)
        weights = [(dmlax.prepare_matrix(draw()),) for _ in range(_MATRICES)]
        x = rng.integers(-128, 128, (rows, depth), np.int8)
        name, size = "product of few rows", f"{rows}x{depth}x{columns}"
        yield Work(name, size, _multiply(depth, columns), (x, *weights[0]), weights=weights)


def _block_products() -> Iterator[Work]:
    """MatMulNBits of 4 bits with zero points; `xla` dequantizes columns, and multiplies by them."""
    for (depth, columns), rows in product(_WEIGHTS, _FEW_ROWS):
        rng = np.random.default_rng(depth + columns)
        shape = columns, depth // _BLOCK
        weights = [
            (
                rng.integers(0, 256, (columns, depth // 2), np.uint8),
                rng.uniform(0.5, 1.5, shape).astype(np.float32) / depth,
                rng.integers(0, 16, shape, np.uint8),
            )
            for _ in range(_MATRICES)
        ]

        def call(
            x: Any, held: Any, *rest: Any, implementation: str, size: Any = (columns, depth)
        ) -> Any:
            if implementation == "xla":
                matrix = n_bits._Weights(held, 4, False, 0, _BLOCK, size)
                return n_bits.multiply(x, matrix, *rest)
            return n_bits.BLOCKS.call(*n_bits.BLOCKS.plan(Blocks(x, held, *rest), _BLOCK))

        x = rng.normal(size=(rows, depth)).astype(np.float32)
        name, size = "4-bit product of few rows", f"{rows}x{depth}x{columns}"
        yield Work(name, size, call, (x, *weights[0]), weights=weights, error=1e-4)


def _images(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (_BATCH, *shape), np.uint8)


def _binary(function: Callable[..., jax.Array], arithmetic: str) -> Callable[..., jax.Array]:
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


def _sums(arithmetic: str) -> Iterator[Work]:
    for side, channels in _SUM_SHAPES:
        tensors = _images(side, side, channels), _images(side, side, channels, seed=1)
        add = _binary(dmlax.element_wise_quantized_linear_add, arithmetic)
        yield Work(f"add, {arithmetic}", f"{side}x{side}x{channels}", add, tensors, _BATCH)


def _of_images() -> Iterator[Work]:
    sides: dict[str, Any] = {"start_padding": 1, "end_padding": 1, "dimension_numbers": "NHWC"}
    pool = partial(dmlax.max_pooling, window_size=3, strides=2, **sides)
    yield Work("max pool", "3x3, stride 2, of 112x112x64", pool, (_images(112, 112, 64),), _BATCH)
    for side, channels in _GATE_SHAPES:
        size, x = f"{side}x{side}x{channels}", _images(side, side, channels)
        multiply = _binary(dmlax.element_wise_quantized_linear_multiply, "exact")
        yield Work("multiply", size, multiply, (_images(1, 1, channels, seed=1), x), _BATCH)
        table = np.random.default_rng(2).permutation(256).astype(np.uint8)
        yield Work("lookup", size, dmlax.quantized_lookup, (x, table), _BATCH)


def _nonzero() -> Iterator[Work]:
    for case in cases.arrays("", _MOST):
        x = case.array()

        def nonzero(torch: Any, x: Any = x) -> Call:
            return partial(torch.nonzero, torch.from_numpy(x).cuda())

        def static(torch: Any, x: Any = x) -> Call:
            return partial(torch.nonzero_static, torch.from_numpy(x).cuda(), size=x.size)

        peers = {"torch.nonzero": nonzero, "torch.nonzero_static": static}
        yield Work("nonzero", case.name, dmlax.nonzero_coordinates, (x,), peers=peers)


# Measuring -------------------------------------------------------------------------------------


def _ours(only: str) -> Iterator[Row]:
    yield gpu.facts()
    for work in _works(only):
        yield _row(work)


def _row(work: Work) -> Row:
    """Check, then time."""
    operands = jax.device_put(work.operands)
    call = work.compiled("mosaic_gpu")
    outputs = jax.tree.map(np.asarray, call(*operands))
    by_xla = None if work.operator.startswith("convolution") else work.compiled("xla")
    if work.batch:
        with gpu.on_cpu():
            held = jax.tree.map(np.asarray, work.operands)
            ends = [x[gpu.ENDS] if np.ndim(x) == 4 else x for x in held]
            expected = work.call(*ends, implementation="auto")
        _check(work, outputs[gpu.ENDS], expected)
    elif by_xla:
        _check(work, outputs, by_xla(*operands))
    moved = sum(x.nbytes for x in jax.tree.leaves((work.operands, outputs)))
    us, xla_us = (
        call and (_cold_us(work, call) if work.weights else 1e3 * gpu.jax_ms(call, *operands))
        for call in (call, by_xla)
    )
    return {
        "operator": work.operator,
        "size": work.size,
        "us": us,
        "xla us": xla_us or "",
        "copy us": _copy_us(moved, bool(work.weights)),
        "Gop": 2e-9 * work.products,
        "MB": 1e-6 * moved,
    }


def _check(work: Work, outputs: Any, expected: Any) -> None:
    for x, y in zip(jax.tree.leaves(outputs), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, work.error, work.error, err_msg=work.size)


@cache
def _copy_us(size: int, cold: bool) -> float:
    """Time a kernel that reads and writes half of the bytes each."""
    x = jax.device_put(np.zeros(max(size // 8, 1), np.uint32))

    def copy(x: jax.Array) -> jax.Array:
        return x + np.uint32(1)

    if not cold:
        return 1e3 * gpu.jax_ms(jax.jit(copy), x)
    words = [(np.full(x.shape, i, np.uint32),) for i in range(_MATRICES)]
    return _cold_us(
        Work("", "", copy, (np.uint32(0), *words[0]), weights=words), lambda _, x: x + 1
    )


def _cold_us(work: Work, call: Callable[..., Any]) -> float:
    """Time a product whose weights are in no cache: all kernels less the last reduction."""

    def run(x: Any, weights: Any, flushed: Any) -> Any:
        outputs, last = [], x
        for weight in weights:  # one after another: the compiler may join no two
            (x, weight), _ = lax.optimization_barrier(((x, weight), last))
            last = call(x, *weight)
            outputs.append(last)
        return outputs, flushed.max(1)

    flushed = jnp.zeros(_FLUSHED, jnp.int32)
    operands = jax.device_put((work.operands[0], list(work.weights), flushed))
    compiled = jax.jit(run).lower(*operands).compile()
    runs = ([ms for _, ms in run] for run in gpu.jax_runs(compiled, *operands))
    return 1e3 * float(median(sum(times) - max(times) for times in runs)) / _MATRICES


def _peer(only: str) -> Iterator[Row]:
    torch = import_module("torch")
    torch.backends.cudnn.benchmark = True
    yield {"torch": torch.__version__}
    for work in _works(only):
        names = {"operator": work.operator, "size": work.size}
        for peer, build in work.peers.items():
            yield names | {"peer": peer, "us": 1e3 * gpu.torch_ms(torch, build(torch))}


def _tables(ours: gpu.Lines, theirs: gpu.Lines) -> list[Report]:
    (facts, rows), (peer, peer_rows) = ours, theirs
    table = gpu.report_of("operators", facts | peer)
    for row in rows:
        names = row["operator"], row["size"]
        times = [x["us"] for x in peer_rows if (x["operator"], x["size"]) == names]
        least_us = max(
            1e3 * row.pop("Gop") / facts["int8_top_per_s"],
            1e3 * row.pop("MB") / facts["copy_gb_per_s"],
        )
        shares = {
            "torch us": min(times, default=""),
            "over torch": min(times) / row["us"] if times else "",
            "of copy": row["copy us"] / row["us"],
            "of bound": least_us / row["us"],
        }
        table.rows.append(row | shares)
    return [table]
