"""The Hopper kernels that whole models call: lowered on a CPU, with the bits of the operators.

`tests/cuda/byte_kernels.py` runs them on a GPU.
"""

import jax
import numpy as np
import pytest

import dmlax
from dmlax._fused.concatenation.call import concatenate
from dmlax._fused.matmul_epilogue.call import MATMUL_ADD, MATMUL_LOOKUP
from dmlax._fused.softmax.call import SOFTMAX
from dmlax.onnx.graph import Node
from dmlax.onnx.operators import fused
from dmlax.onnx.operators.table import flatten
from support import shaped
from support.emulated import kernels as emulated_kernels

SCALE, ZERO = np.asarray(0.02, np.float32), np.asarray(3, np.uint8)
OTHER, OTHER_ZERO = np.asarray(0.03, np.float32), np.asarray(120, np.uint8)
NAMES = ("x", "scale", "zero")
NODES = (
    Node("d", "DequantizeLinear", "", 13, NAMES, ("f",), {}),
    Node("s", "Mul", "", 13, ("f", "f"), ("g",), {}),
    Node("q", "QuantizeLinear", "", 13, ("g", "scale", "zero"), ("y",), {}),
)


def join(*tensors, axis=1):
    return concatenate(list(tensors), axis)


def softmax(x, y_scale=1 / 256):
    return SOFTMAX.call(*SOFTMAX.plan(x, 0.1, np.float32(y_scale), 3))


def normalize(x, scale, bias=None, *, x_scale=0.02, arithmetic="float32"):
    given = x, np.float32(x_scale), np.asarray(3, x.dtype), scale, bias, np.float32(0.03)
    return flatten(fused.normalize)(*given, np.uint8(7), arithmetic=arithmetic)


def look_up(a, b):
    """A product, and a lookup of its squares."""
    given = a, SCALE, ZERO, b, SCALE, None, None, SCALE, ZERO, SCALE, ZERO
    compute = flatten(fused.quantized_gemm_function)
    return compute(*given, nodes=NODES, names=NAMES, arithmetic="float32")


def add(a, b, bias, addend, first=0, arithmetic="float32", zero=OTHER_ZERO):
    """A product, and its sum with a residual."""
    given = a, SCALE, ZERO, b, SCALE, None, bias, SCALE, ZERO, addend, OTHER, zero, OTHER, zero
    compute = flatten(fused.quantized_gemm_add)
    return compute(*given, addend_first=first, arithmetic=arithmetic)


def factors(count):
    return [shaped(count, dtype="float32")] * 2


def summed(rows, depth, columns):
    weight = shaped(depth, columns, dtype="int8"), shaped(columns, dtype="int32")
    return shaped(rows, depth), *weight, shaped(rows // 4, 4, columns)


def weights(*sizes):
    return shaped(*sizes, dtype="int8")


WIDE = 25_216, 768, 768  # rows, depth, columns
LOWERED = {  # the function, its operands and options, and the number of kernels
    "join rows": (join, (shaped(64, 1, 768), shaped(64, 196, 768)), {}, 1),
    "join from the end": (join, (shaped(64, 1, 768), shaped(64, 196, 768)), {"axis": -2}, 1),
    "join three": (join, (shaped(1024, 512), shaped(1024, 528), shaped(1024, 16)), {}, 1),
    "join parts of chunks": (join, (shaped(1024, 512), shaped(1024, 520)), {}, 0),
    "join few": (join, (shaped(8, 1, 768), shaped(8, 3, 768)), {}, 0),
    **{
        f"softmax {shape} {dtype}": (softmax, (shaped(*shape, dtype=dtype),), {}, 1)
        for shape in ((2, 12, 197, 197), (129, 2), (5, 16), (1, 1024))
        for dtype in ("uint8", "int8")
    },
    "long softmax": (softmax, (shaped(3, 1025),), {}, 0),
    "softmax of a small scale": (softmax, (shaped(3, 7),), {"y_scale": 2**-38}, 0),
    "softmax of a negative scale": (softmax, (shaped(3, 7),), {"y_scale": -0.1}, 0),
    **{
        f"norm {shape} {dtype}": (
            *(normalize, (shaped(*shape, dtype=dtype), *factors(shape[-1])), {}, 1),
        )
        for shape in ((2, 197, 768), (5, 4), (1, 4096), (3, 132))
        for dtype in ("uint8", "int8")
    },
    "norm without a bias": (normalize, (shaped(2, 64), factors(64)[0]), {}, 1),
    "long norm": (normalize, (shaped(3, 4100), *factors(4100)), {}, 0),
    "norm of parts": (normalize, (shaped(3, 62), *factors(62)), {}, 0),
    "exact norm": (normalize, (shaped(3, 64), *factors(64)), {"arithmetic": "exact"}, 0),
    "norm of a small scale": (normalize, (shaped(3, 64), *factors(64)), {"x_scale": 1e-20}, 0),
    "lookup": (look_up, (shaped(25_216, 768), weights(768, 3072)), {}, 1),
    "lookup without room": (look_up, (shaped(25_216, 768), weights(768, 96)), {}, 2),
    "sum": (add, summed(*WIDE), {}, 1),
    "deep sum": (add, summed(25_216, 3072, 768), {}, 1),
    "sum of few rows": (add, summed(788, 768, 768), {}, 2),
    "exact sum": (add, summed(*WIDE), {"arithmetic": "exact"}, 2),
}
MAPPED = {  # the function, the mapped axes, the operands, and the number of loops
    "join": (join, (0, None), (shaped(3, 64, 16, 768), shaped(64, 16, 768)), 0),
    "softmax": (softmax, 1, (shaped(4, 3, 7, 50),), 0),
    "norm": (normalize, (1, None, None), (shaped(4, 3, 7, 64), *factors(64)), 0),
    "lookup": (look_up, (0, None), (shaped(2, 12_608, 768), weights(768, 3072)), 0),
    **{
        f"sum, {loops} loops": (
            *(add, (0, None, None, axis)),
            (shaped(2, *WIDE[:2]), *summed(*WIDE)[1:3], shaped(*first, 6304, 4, 768)),
            loops,
        )
        for axis, first, loops in ((0, (2,), 0), (None, (), 1))
    },
}


@pytest.mark.parametrize(("call", "operands", "options", "kernels"), LOWERED.values(), ids=LOWERED)
def test_a_function_is_so_many_kernels(lowered, call, operands, options, kernels):
    text = lowered(lambda *given: call(*given, **options), *operands)
    assert text.count("custom_call @mosaic_gpu") == kernels
    assert not kernels or "stablehlo.while" not in text
    assert not kernels or "stablehlo.sqrt" not in text


@pytest.mark.parametrize(("call", "axes", "operands", "loops"), MAPPED.values(), ids=MAPPED)
def test_vmap_is_one_kernel(lowered, call, axes, operands, loops):
    text = lowered(jax.vmap(call, axes), *operands)
    assert text.count("custom_call @mosaic_gpu") == 1
    assert text.count("stablehlo.while") == loops


@pytest.mark.parametrize(
    ("call", "operands"), [(look_up, (shaped(3, 8), weights(8, 5))), (add, summed(8, 8, 5))]
)
def test_other_platforms_run_one_after_another(attached, call, operands):
    text = jax.jit(call).trace(*operands).lower(lowering_platforms=("cpu",)).as_text()
    assert "mosaic_gpu" not in text


def test_sizes_that_differ_are_refused(attached):
    with pytest.raises(TypeError, match="concatenate"):
        jax.eval_shape(join, shaped(64, 100, 768), shaped(63, 100, 768))


def test_elsewhere_xla_joins():
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert np.array_equal(join(x, x[:, :1]), np.concatenate([x, x[:, :1]], 1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("zero", [OTHER_ZERO, np.asarray(-5, np.int8)])
@pytest.mark.parametrize("first", [0, 1])
def test_the_kernel_has_the_same_sums(
    monkeypatch, written, attached, choose_kernels, run_without_gpu, first, zero
):
    from dmlax._operators.matmul.cuda import kernel

    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (8, 9), np.uint8), rng.integers(-64, 64, (9, 5)).astype(np.int8)
    bias, addend = rng.integers(-99, 99, 5).astype(np.int32), rng.integers(0, 256, (2, 4, 5))
    given = a, b, bias, addend.astype(np.uint8).view(zero.dtype)
    wanted = run_without_gpu(lambda *given: add(*given, first, zero=zero), *given)
    assert wanted.dtype == zero.dtype
    plans = choose_kernels(MATMUL_ADD)
    monkeypatch.setattr(kernel, "multiply", emulated_kernels.multiply)
    monkeypatch.setattr(kernel, "adds_in_wide_tiles", lambda problem, multiprocessors: True)
    found = jax.jit(lambda *given: add(*given, first, zero=zero))(*given)
    assert np.array_equal(found, wanted)
    assert plans


def test_the_kernel_has_the_same_table(monkeypatch, written, attached, choose_kernels):
    from dmlax._operators.matmul.cuda import kernel

    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (7, 9), np.uint8), rng.integers(-64, 64, (9, 5)).astype(np.int8)
    values = np.arange(256, dtype=np.float32) - ZERO
    table = np.clip(np.rint((SCALE * values) ** 2 / SCALE) + ZERO, 0, 255).astype(np.uint8)
    options = {"a_scale": SCALE, "b_scale": SCALE, "output_scale": SCALE, "a_zero_point": ZERO}
    product = dmlax.quantized_linear_matrix_multiply(
        a, b, **options, output_zero_point=ZERO, arithmetic="float32"
    )
    wanted = table[np.asarray(product)]
    assert np.array_equal(look_up(a, b), wanted)
    assert np.array_equal(jax.jit(look_up)(a, b), wanted)
    monkeypatch.setattr(kernel, "multiply", emulated_kernels.multiply)
    plans = choose_kernels(MATMUL_LOOKUP)
    assert np.array_equal(jax.jit(lambda *given: look_up(*given))(a, b), wanted)
    assert plans
