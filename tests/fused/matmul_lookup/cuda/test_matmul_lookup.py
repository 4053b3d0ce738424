"""A lookup in the epilogue of a product on Hopper, lowered on a CPU."""

import jax
import numpy as np
import pytest

import dmlax
from dmlax._fused.matmul_lookup.call import MATMUL_LOOKUP
from dmlax.onnx.graph import Node
from dmlax.onnx.operators import fused
from dmlax.onnx.operators.table import flatten
from support.emulated import kernels as emulated_kernels

SCALE, ZERO = np.asarray(0.02, np.float32), np.asarray(3, np.uint8)
PARAMETERS = ("x", "scale", "zero")
NODES = (
    Node("d", "DequantizeLinear", "", 13, PARAMETERS, ("f",), {}),
    Node("s", "Mul", "", 13, ("f", "f"), ("g",), {}),
    Node("q", "QuantizeLinear", "", 13, ("g", "scale", "zero"), ("y",), {}),
)


def product(a, b, zero=ZERO):
    return flatten(fused.quantized_gemm_function)(
        *(a, SCALE, ZERO, b, SCALE, None, None, SCALE, zero, SCALE, zero),
        nodes=NODES,
        names=PARAMETERS,
        arithmetic="float32",
    )


def shaped(*sizes, dtype="uint8"):
    return jax.ShapeDtypeStruct(sizes, dtype)


@pytest.mark.parametrize(("rows", "columns", "kernels"), [(25_216, 3072, 1), (25_216, 96, 2)])
def test_bytes_are_looked_up_where_the_table_has_room(lowered, rows, columns, kernels):
    text = lowered(product, shaped(rows, 768), shaped(768, columns, dtype="int8"))
    assert text.count("custom_call @mosaic_gpu") == kernels


def test_vmap_is_one_kernel(lowered):
    given = shaped(2, 12_608, 768), shaped(768, 3072, dtype="int8")
    text = lowered(jax.vmap(product, (0, None)), *given)
    assert text.count("custom_call @mosaic_gpu") == 1


def test_other_platforms_run_one_after_another(attached):
    given = shaped(3, 8), shaped(8, 5, dtype="int8")
    text = jax.jit(product).trace(*given).lower(lowering_platforms=("cpu",)).as_text()
    assert "mosaic_gpu" not in text


@pytest.fixture
def drawn():
    """Operands, and what the product and a lookup of the function give."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (7, 9), np.uint8), rng.integers(-64, 64, (9, 5)).astype(np.int8)
    values = np.arange(256, dtype=np.float32) - ZERO
    table = np.clip(np.rint((SCALE * values) ** 2 / SCALE) + ZERO, 0, 255).astype(np.uint8)
    options = {"a_scale": SCALE, "b_scale": SCALE, "output_scale": SCALE, "a_zero_point": ZERO}
    found = dmlax.quantized_linear_matrix_multiply(
        a, b, **options, output_zero_point=ZERO, arithmetic="float32"
    )
    return a, b, table[np.asarray(found)]


def test_it_is_a_product_and_a_lookup(drawn):
    a, b, wanted = drawn
    assert np.array_equal(product(a, b), wanted)


def test_the_kernel_has_the_same_table(monkeypatch, written, attached, choose_kernels, drawn):
    from dmlax._operators.matmul.cuda import kernel

    a, b, wanted = drawn
    assert np.array_equal(jax.jit(product)(a, b), wanted)
    monkeypatch.setattr(kernel, "multiply", emulated_kernels.multiply)
    plans = choose_kernels(MATMUL_LOOKUP)
    assert np.array_equal(jax.jit(lambda *given: product(*given))(a, b), wanted)
    assert plans
