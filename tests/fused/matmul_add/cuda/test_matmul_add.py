"""A residual in the epilogue of a product on Hopper, lowered on a CPU."""

import jax
import numpy as np
import pytest

from dmlax._fused.matmul_add.call import MATMUL_ADD
from dmlax.onnx.operators import fused
from dmlax.onnx.operators.table import flatten
from support.emulated import kernels as emulated_kernels

SCALE, ZERO = np.asarray(0.02, np.float32), np.asarray(3, np.uint8)
OTHER, OTHER_ZERO = np.asarray(0.03, np.float32), np.asarray(120, np.uint8)
WIDE = 25_216, 768, 768  # rows, depth, columns


def added(first=0, arithmetic="float32", zero=OTHER_ZERO):
    """A function of the operands."""

    def compute(a, b, bias, addend):
        return flatten(fused.quantized_gemm_add)(
            *(a, SCALE, ZERO, b, SCALE, None, bias, SCALE, ZERO, addend, OTHER, zero, OTHER, zero),
            addend_first=first,
            arithmetic=arithmetic,
        )

    return compute


def shaped(*sizes, dtype="uint8"):
    return jax.ShapeDtypeStruct(sizes, dtype)


def operands(rows, depth, columns):
    weight = shaped(depth, columns, dtype="int8"), shaped(columns, dtype="int32")
    return shaped(rows, depth), *weight, shaped(rows // 4, 4, columns)


@pytest.mark.parametrize(
    ("sizes", "kernels"), [(WIDE, 1), ((25_216, 3072, 768), 1), ((788, 768, 768), 2)]
)
def test_wide_tiles_have_the_addend(lowered, sizes, kernels):
    text = lowered(added(), *operands(*sizes))
    assert text.count("custom_call @mosaic_gpu") == kernels


def test_exact_sums_are_a_kernel_of_their_own(lowered):
    text = lowered(added(arithmetic="exact"), *operands(*WIDE))
    assert text.count("custom_call @mosaic_gpu") == 2


@pytest.mark.parametrize(("of_addend", "loops"), [(0, 0), (None, 1)])
def test_vmap_over_rows_and_addends_is_one_kernel(lowered, of_addend, loops):
    a, b, bias, addend = operands(*WIDE)
    mapped = jax.vmap(added(), (0, None, None, of_addend))
    addend = shaped(2, *addend.shape) if of_addend == 0 else addend
    text = lowered(mapped, shaped(2, *a.shape), b, bias, addend)
    assert text.count("custom_call @mosaic_gpu") == 1
    assert text.count("stablehlo.while") == loops


def test_other_platforms_run_one_after_another(attached):
    text = jax.jit(added()).trace(*operands(8, 8, 5)).lower(lowering_platforms=("cpu",)).as_text()
    assert "mosaic_gpu" not in text


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
    compute = added(first, zero=zero)
    wanted = run_without_gpu(compute, *given)
    assert wanted.dtype == zero.dtype
    plans = choose_kernels(MATMUL_ADD)
    monkeypatch.setattr(kernel, "multiply", emulated_kernels.multiply)
    monkeypatch.setattr(kernel, "adds_in_wide_tiles", lambda problem, multiprocessors: True)
    found = jax.jit(lambda *given: compute(*given))(*given)
    assert np.array_equal(found, wanted)
    assert plans
