"""Random calls of byte kernels and products with a bias, by mosaic_gpu and another implementation.

    PYTHONPATH=src:tests python3 tests/cuda/byte_kernels.py jitted 0 60

checks the calls of these seeds on the attached GPU, jitted or eager, and prints their counts. Names
behind the seeds (`pool lookup`) are those of the only kinds that are drawn.
"""

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

import dmlax
from dmlax._core import pairs
from dmlax._cuda import capability
from dmlax._fused.self_attention.plan import Layout
from dmlax._fused.softmax.call import SOFTMAX
from dmlax.onnx.graph import Node
from dmlax.onnx.operators import fused, quantized
from dmlax.onnx.operators.table import Output, Quantized
from support.random_calls import redraw

FACTORS = quantized.GemmFactors()
DTYPES = (np.int8, np.uint8)
SETS = 8  # a call has this many sets of values
PAIRS = [  # shapes that broadcast: rows that are repeated, and that XLA writes out
    ((7, 9, 48), (7, 1, 48)),
    ((5, 16), (5, 16)),
    ((3, 1, 16), (3, 33, 16)),
    ((3, 5, 7), (3, 1, 7)),
    ((2000,), ()),
    ((4, 1, 1), (4, 9, 16)),
    ((2, 8, 1, 32), (1, 8, 6, 32)),
    ((70_001,), (70_001,)),
]
Call = tuple[Callable[..., jax.Array], tuple[np.ndarray, ...], str]
"""A function of operands and an implementation, the operands, and what has the same bits."""


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Bytes of either dtype."""
    return rng.integers(0, 256, shape, np.uint8).view(rng.choice(DTYPES))


def draw_pool(rng: np.random.Generator) -> Call:
    """A max_pooling of one or two spatial axes, channels last."""
    rank = int(rng.integers(1, 3))
    size, strides = (rng.integers(1, 4, rank).tolist() for _ in range(2))
    start, end = ([int(rng.integers(taps)) for taps in size] for _ in range(2))
    x = draw(rng, 3, *rng.integers(3, 20, rank), int(rng.choice([4, 8, 12, 16, 20, 64, 96])))
    options = {
        "window_size": size,
        "strides": strides,
        "start_padding": start,
        "end_padding": end,
        "dimension_numbers": "NHWC" if rank == 2 else "NWC",
    }
    return functools.partial(dmlax.max_pooling, **options), (x,), "xla"


def draw_lookup(rng: np.random.Generator) -> Call:
    """A lookup of any count."""
    return dmlax.quantized_lookup, (draw(rng, int(rng.integers(1, 10**5))), draw(rng, 256)), "xla"


def draw_pair(rng: np.random.Generator) -> Call:
    """A sum or a product that broadcasts."""
    shapes = PAIRS[int(rng.integers(len(PAIRS)))]
    a, b = (draw(rng, *shape) for shape in shapes[:: int(rng.choice([1, -1]))])
    functions = (
        dmlax.element_wise_quantized_linear_add,
        dmlax.element_wise_quantized_linear_multiply,
    )
    scales = dict(zip(("a_scale", "b_scale", "output_scale"), rng.uniform(0.01, 1, 3), strict=True))
    options = {
        **{name: np.float32(scale) for name, scale in scales.items()},
        "a_zero_point": draw(rng).astype(a.dtype),
        "b_zero_point": draw(rng).astype(b.dtype),
        "output_dtype": rng.choice(DTYPES),
        "arithmetic": str(rng.choice(["exact", "float32"])),
    }
    return functools.partial(functions[int(rng.integers(2))], **options), (a, b), "reference"


def softmax_by(
    x: jax.Array, x_scale: float, y_scale: np.float32, y_zero_point: int, implementation: str
) -> jax.Array:
    """A softmax by an implementation."""
    return SOFTMAX.call(*SOFTMAX.plan(x, x_scale, y_scale, y_zero_point), implementation)


def product_by(implementation: str) -> Callable[..., jax.Array]:
    """The product of 8 bits by an implementation."""
    return functools.partial(dmlax.quantized_linear_matrix_multiply, implementation=implementation)


def draw_softmax(rng: np.random.Generator) -> Call:
    """A softmax of rows of any length."""
    zero_point = np.asarray(rng.choice([0, 3, 156]), np.uint8)
    dtype = rng.choice(DTYPES)
    softmax = functools.partial(
        softmax_by,
        x_scale=float(np.float32(rng.choice([0.003, 0.02, 0.1, 0.7]) * rng.uniform(0.5, 2))),
        y_scale=np.float32(rng.choice([1 / 256, 1 / 255, 0.02, 0.3, 1e-4, 4e-6])),
        y_zero_point=int(zero_point.view(dtype)),  # 156 is -100
    )
    rows = rng.integers(1, 200, int(rng.integers(1, 3)))
    count = int(rng.choice([2, 7, 8, 50, 197, 256, 1024]))
    # Shared memory holds so many elements of 32 rows.
    count = min(count, 1024 * capability.chosen().shared_bytes // capability.HOPPER.shared_bytes)
    x = rng.integers(0, 256, (*rows, count), np.uint8).view(dtype)
    return softmax, (x >> int(rng.integers(0, 8)),), "xla"


def draw_product(rng: np.random.Generator) -> Call:
    """A matrix product with a bias, some of it near the ends of int32, and known scales."""
    rows, depth, columns = (int(rng.integers(1, end)) for end in (300, 400, 200))
    multiply = functools.partial(
        dmlax.quantized_linear_matrix_multiply,
        a_scale=np.float32(0.02),
        b_scale=rng.uniform(0.001, 0.02, columns).astype(np.float32) / 50,
        output_scale=np.float32(rng.uniform(0.02, 20)),
        a_zero_point=np.uint8(rng.integers(256)),
        b_zero_point=np.int8(rng.integers(-128, 128)),
        output_zero_point=np.uint8(rng.integers(256)),
        arithmetic=str(rng.choice(["exact", "float32"])),
    )
    bias = rng.integers(-(2**31), 2**31, columns) >> rng.integers(0, 31, columns)
    a, b = draw(rng, rows, depth).view(np.uint8), draw(rng, depth, columns).view(np.int8)
    return multiply, (a, b, bias.astype(np.int32)), "xla"


def draw_attention(rng: np.random.Generator) -> Call:
    """An attention, beside its two products and its softmax by themselves."""
    batch, heads = (int(rng.integers(1, 5)) for _ in range(2))
    queries, keys = (int(rng.choice([1, 7, 16, 50, 130, 197])) for _ in range(2))
    depth, columns = (int(rng.choice([5, 16, 32, 64])) for _ in range(2))
    shapes = (queries, depth), (depth, keys), (keys, columns)
    zero_points = [np.asarray(draw(rng)) for _ in range(5)]  # q, k, scores, weights, v
    zero_points[3] = zero_points[3].astype(zero_points[2].dtype)  # a softmax keeps the dtype
    operands = tuple(
        rng.integers(0, 256, (batch, heads, *shape), np.uint8).view(zero.dtype)
        for shape, zero in zip(shapes, (*zero_points[:2], zero_points[4]), strict=True)
    )
    scales = [np.asarray(scale, np.float32) for scale in rng.uniform(0.01, 0.05, 5)]
    scales[2] *= np.float32(depth)
    pairs = list(zip(scales, zero_points, strict=True))
    last = np.asarray(0.02, np.float32), np.asarray(7, np.uint8)
    heads_last = int(rng.integers(2))

    def attend(q: jax.Array, k: jax.Array, v: jax.Array, implementation: str) -> jax.Array:
        of_scores = Quantized(q, *pairs[0]), Quantized(k, *pairs[1]), Output(*pairs[2])
        of_weights, of_values = Output(*pairs[3]), (Quantized(v, *pairs[4]), Output(*last))
        if implementation == "mosaic_gpu":
            return fused.quantized_attention(
                *of_scores, of_weights, *of_values, heads_last=heads_last, arithmetic="float32"
            )
        scores = quantized.multiply_matrices(*of_scores, "float32", product_by(implementation))
        scale, zero = pairs[3]
        weights = softmax_by(scores, float(scales[2]), scale[()], int(zero), implementation)
        output = quantized.multiply_matrices(
            Quantized(weights, *of_weights), *of_values, "float32", product_by(implementation)
        )
        return output.swapaxes(-2, -3) if heads_last else output

    return attend, operands, "xla"


def draw_self_attention(rng: np.random.Generator) -> Call:
    """A product and an attention of its thirds, beside both by themselves."""
    images, heads = (int(rng.integers(1, 5)) for _ in range(2))
    rows, depth = int(rng.choice([1, 7, 16, 50, 197])), int(rng.integers(1, 100))
    columns = int(rng.choice([16, 32, 64]))
    if rng.random() < 0.4:  # one kernel after the product
        rows, columns = int(rng.choice([33, 50, 128, 129, 197, 208, 256])), 64
    scale, zero_points = np.asarray(0.02, np.float32), [np.asarray(draw(rng)) for _ in range(3)]
    step = np.asarray(0.002 * np.sqrt(depth), np.float32)
    zeros = np.asarray(120, np.uint8), np.asarray(9, np.uint8)
    names = "scale", "step", "zero", *(f"zero_{i}" for i in range(3))
    constants = step, scale, zeros[0], *zero_points
    functions = tuple(_requantization(names, f"zero_{i}") for i in range(3))
    sizes, heads_last = (rows, heads, columns), int(rng.integers(2))
    of_scores = np.asarray(0.02 * columns**0.5, np.float32), zeros[0]
    of_weights = np.asarray(1 / 256, np.float32), np.asarray(0, np.uint8)
    q, k, v = ((scale, zero) for zero in zero_points)
    last = scale, zeros[1]
    b = rng.integers(-64, 64, (depth, 3 * heads * columns)).astype(np.int8)

    def attend(a: jax.Array, bias: jax.Array, implementation: str) -> jax.Array:
        left, right = Quantized(a, scale, zeros[1]), Quantized(b, scale / 20, None)
        gemm = left, right, bias, Output(step, zeros[0])
        if implementation == "mosaic_gpu":
            outputs = map(Output._make, (q, k, of_scores, of_weights, v, last))
            return fused.quantized_self_attention(
                *(*gemm, *outputs, *constants),
                functions=functions,
                names=names,
                sizes=sizes,
                heads_last=heads_last,
                factors=FACTORS,
                arithmetic="float32",
            )
        y = quantized.multiply_gemm(*gemm, FACTORS, "float32", product_by(implementation))
        known = dict(zip(names, constants, strict=True))
        parts = [
            dmlax.quantized_lookup(
                part, each.table(np.uint8, known, "float32"), implementation=implementation
            )
            for part, each in zip(Layout(*sizes, -1).split(y), functions, strict=True)
        ]
        of_keys = Quantized(parts[1].swapaxes(-1, -2), *k)
        scores = quantized.multiply_matrices(
            Quantized(parts[0], *q),
            of_keys,
            Output(*of_scores),
            "float32",
            product_by(implementation),
        )
        weights = softmax_by(scores, float(of_scores[0]), of_weights[0][()], 0, implementation)
        output = quantized.multiply_matrices(
            *(Quantized(weights, *of_weights), Quantized(parts[2], *v), Output(*last)),
            *("float32", product_by(implementation)),
        )
        return output.swapaxes(-2, -3) if heads_last else output

    a = rng.integers(0, 256, (images * rows, depth), np.uint8)
    return attend, (a, rng.integers(-9999, 9999, b.shape[1]).astype(np.int32)), "xla"


def _requantization(names: tuple[str, ...], zero_point: str) -> fused.Function:
    """A function of bytes: to another scale and zero point."""
    nodes = (
        Node("d", "DequantizeLinear", "", 13, ("x", "scale", "zero"), ("f",), {}),
        Node("q", "QuantizeLinear", "", 13, ("f", "step", zero_point), ("y",), {}),
    )
    return fused.Function(nodes, ("x", *names))


def draw_gemm_add(rng: np.random.Generator) -> Call:
    """A product and the sum of it and a residual, beside both by themselves."""
    rows, depth, columns = (int(rng.integers(1, end)) for end in (700, 400, 300))
    scale, zeros = np.float32([0.02, 0.01, 0.4, 0.03, 0.035]), [draw(rng) for _ in range(2)]
    first, columns = int(rng.integers(2)), int(rng.choice([columns, 128, 192, 256]))
    b, zero = rng.integers(-64, 64, (depth, columns)).astype(np.int8), np.asarray(117, np.uint8)
    x, s, y, z, t = map(np.asarray, scale)

    def multiply(a: jax.Array, addend: jax.Array, implementation: str) -> jax.Array:
        gemm = Quantized(a, x, zero), Quantized(b, s, None), None, Output(y, zero)
        terms = addend, z, np.asarray(zeros[0]), t, np.asarray(zeros[1])
        if implementation == "mosaic_gpu":
            return fused.quantized_gemm_add(
                *(*gemm, Quantized(*terms[:3]), Output(*terms[3:])),
                addend_first=first,
                factors=FACTORS,
                arithmetic="float32",
            )
        product = quantized.multiply_gemm(*gemm, FACTORS, "float32", product_by(implementation))
        pairs = [(product, y, zero), terms[:3]]
        (m, m_scale, m_zero), (n, n_scale, n_zero) = pairs[::-1] if first else pairs
        return dmlax.element_wise_quantized_linear_add(
            m,
            n,
            a_scale=m_scale,
            a_zero_point=m_zero,
            b_scale=n_scale,
            b_zero_point=n_zero,
            output_scale=t,
            output_zero_point=terms[4],
            arithmetic="float32",
            implementation=implementation,
        )

    a = rng.integers(0, 256, (rows, depth), np.uint8)
    addend = rng.integers(0, 256, (rows, columns), np.uint8).view(zeros[0].dtype)
    return multiply, (a, addend), "reference"


def draw_sliding_windows(rng: np.random.Generator) -> Call:
    """A convolution whose windows slide in shared memory: 7x7 or 3x3, to 64 channels."""
    first_layer = rng.random() < 0.5
    size, stride, channels = (7, 2, 3) if first_layer else (3, 1, 64)
    least = 112 if first_layer else 52
    x = draw(rng, int(rng.integers(8, 16)), *rng.integers(least, least + 30, 2), channels)
    w, bias = draw(rng, 64, channels, size, size), rng.integers(-(2**20), 2**20, 64, np.int32)
    windows = {
        side: tuple(rng.integers(0, size // 2 + 1, 2).tolist())
        for side in ("start_padding", "end_padding")
    }
    options = {
        "input_zero_point": draw(rng).view(x.dtype),
        "filter_zero_point": draw(rng).view(w.dtype) if rng.random() < 0.5 else None,
        "strides": stride,
        "dimension_numbers": ("NHWC", "OIHW", "NHWC"),
        **windows,
    }
    if rng.random() < 0.25:
        return functools.partial(dmlax.convolution_integer, **options), (x, w), "xla"
    convolve = functools.partial(
        dmlax.quantized_linear_convolution,
        input_scale=np.float32(0.02),
        filter_scale=rng.uniform(0.5, 2, 64).astype(np.float32),
        output_scale=np.float32(rng.uniform(50, 200) * size * channels**0.5 * 0.02),
        output_zero_point=draw(rng).view(x.dtype),
        arithmetic=str(rng.choice(["exact", "float32"])),
        **options,
    )
    return convolve, (x, w, bias), "xla"


DRAWN = (
    draw_pool,
    draw_lookup,
    draw_pair,
    draw_softmax,
    draw_product,
    draw_attention,
    draw_self_attention,
    draw_gemm_add,
    draw_sliding_windows,
)


def differing(
    seed: int, eager: bool, counts: Counter[str], kinds: Sequence[Callable[..., Call]] = DRAWN
) -> Iterator[str]:
    """The calls of a seed of which a kernel and another implementation have other bits.

    Some are mapped. A call that is compiled has several sets of values.
    """
    rng = np.random.default_rng(seed)
    drawn = kinds[seed % len(kinds)]
    function, operands, other = drawn(rng)
    axes = (0, *[None] * (len(operands) - 1))
    calls = [functools.partial(function, implementation=each) for each in ("mosaic_gpu", other)]
    if seed % 4 == 0:
        operands = np.stack([operands[0], ~operands[0]]), *operands[1:]
        calls = [jax.vmap(call, axes) for call in calls]
    if not eager:
        calls = [jax.jit(call) for call in calls]
    for number in range(SETS):
        if number:
            operands = tuple(redraw(x, rng) for x in operands)
        counts[drawn.__name__] += 1
        ours, wanted = (np.asarray(call(*operands)) for call in calls)
        if ours.dtype != wanted.dtype or not np.array_equal(ours, wanted):
            yield f"{drawn.__name__}, seed {seed}, values {number}"


def main() -> None:
    """The program."""
    from dmlax._operators.matmul.cuda import kernel

    pairs._WORTH_A_TABLE = 0  # so that few elements take the kernel too
    kernel.adds_in_wide_tiles = lambda problem, multiprocessors: True  # all products do
    mode, first, last, *names = sys.argv[1:]
    kinds = [each for each in DRAWN if not names or each.__name__.removeprefix("draw_") in names]
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(int(first), int(last)):
        wrong += differing(seed, mode == "eager", counts, kinds)
    print("\n".join(wrong))
    print(f"{jax.devices()[0]}, {mode}: {dict(counts)}, {len(wrong)} differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
