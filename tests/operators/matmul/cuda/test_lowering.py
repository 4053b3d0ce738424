"""The Hopper kernel of the matrix products: lowered on a CPU, refused where it cannot run.

tests/support/calls/matmul.py compares what it computes, on a GPU.
"""

from functools import partial

import jax
import numpy as np
import pytest

import dmlax
from dmlax._cuda import tuning
from dmlax._operators.matmul.api import QUANTIZED, TO_FLOAT
from dmlax._operators.matmul.cuda import lowering
from support import shaped
from support.calls.matmul import call as random_call
from support.emulated import kernels as emulated_kernels

SCALES = {"a_scale": 0.1, "b_scale": 0.2, "output_scale": 3.0}
integer = partial(dmlax.matrix_multiply_integer, implementation="mosaic_gpu")
quantized = partial(dmlax.quantized_linear_matrix_multiply, **SCALES, implementation="mosaic_gpu")


def explained(a, b):
    """The choice on CUDA."""
    return dmlax.explain(dmlax.matrix_multiply_integer, a, b).choices[1]


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ((3, 0), (0, 5), "it sums no products"),
        ((2**31, 1), (1, 1), "2,147,483,648 rows or more"),
        ((2**16, 2**15, 1), (1, 1), "2,147,483,648 rows or more"),
        ((1, 2**16), (2**16, 2**15), "or the right matrix as many bytes"),
    ],
)
def test_a_product_that_the_kernel_cannot_take_is_refused_in_a_sentence(attached, a, b, sentence):
    choice = explained(shaped(*a), shaped(*b, dtype="int8"))
    assert choice.implementation == "xla"
    assert sentence in choice.why_not["mosaic_gpu"]


def test_symbolic_sizes_are_refused(attached):
    (rows,) = jax.export.symbolic_shape("m")
    choice = explained(shaped(rows, 8), shaped(8, 4, dtype="int8"))
    assert choice.why_not["mosaic_gpu"].startswith("it needs static shapes")


@pytest.mark.parametrize("seed", [*range(12), 30, 40, 50])
def test_random_calls_are_lowered_to_one_kernel(lowered, seed):
    text = lowered(lambda call: call("mosaic_gpu"), random_call(seed))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.dot_general" not in text
    assert "stablehlo.while" not in text


def test_scales_of_columns_are_fused(lowered):
    columns = np.linspace(0.1, 1, 24, dtype=np.float32)
    text = lowered(partial(quantized, b_scale=columns), shaped(4, 16), shaped(16, 24, dtype="int8"))
    assert "tensor<4x24xui8>" in text
    assert "tensor<4x24xi32>" not in text


@pytest.mark.parametrize(
    ("scale", "fused"),
    [(3.0, True), (2.0**20, False), (np.linspace(1, 2, 24, dtype=np.float32), True)],
)
def test_a_bias_is_fused_where_sums_that_no_int32_holds_saturate(lowered, scale, fused):
    multiply = partial(quantized, output_scale=3.0, b_scale=np.float32(0.6) / scale)
    operands = shaped(4, 16), shaped(16, 24, dtype="int8"), shaped(24, dtype="int32")
    text = lowered(multiply, *operands)
    assert text.count("custom_call @mosaic_gpu") == 1
    assert ("tensor<4x24xi32>" not in text) is fused
    mapped = lowered(jax.vmap(multiply, (None, None, 0)), *operands[:2], shaped(3, 24, dtype="i4"))
    assert mapped.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.while" not in mapped


@pytest.mark.parametrize("name", ["a_scale", "output_scale", "a_zero_point", "output_zero_point"])
def test_parameters_of_rows_follow_int32_sums(lowered, name):
    dtype = np.float32 if name.endswith("scale") else np.uint8
    rows = {name: np.arange(1, 5, dtype=dtype)[:, None]}
    text = lowered(partial(quantized, **rows), shaped(4, 16), shaped(16, 24, dtype="int8"))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "tensor<4x24xi32>" in text


def test_the_derivative_of_a_float_product_runs_where_the_kernel_does(lowered):
    a, b = shaped(4, 16), shaped(16, 8, dtype="int8")
    call = partial(dmlax.matrix_multiply_integer_to_float, b_scale=0.5)
    text = lowered(jax.grad(lambda s, a, b: call(a, b, a_scale=s).sum()), np.float32(2), a, b)
    assert "dot_general" in text
    assert TO_FLOAT.tangent is not None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("columns", [24, 29])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_operands_of_padded_columns_and_large_biases(monkeypatch, written, batch, columns):
    from dmlax._operators.matmul.cuda import kernel

    stored = []

    def multiply(problem, *given):
        stored.append(problem.stored)
        return emulated_kernels.multiply(problem, *given)

    monkeypatch.setattr(kernel, "multiply", multiply)
    monkeypatch.setattr(lowering.capability, "refuse_elsewhere", lambda operator, x, why: x)
    monkeypatch.setattr(tuning, "FEWEST_PADDED_OUTPUTS", 0)
    rng = np.random.default_rng(columns)
    a, b = (rng.integers(0, 256, (*batch, *shape), np.uint8) for shape in ((5, 40), (40, columns)))
    bias = (rng.integers(-(2**31), 2**31, columns) >> rng.integers(0, 31, columns)).astype(np.int32)
    bias[:2] = 2**31 - 1, -(2**31)
    scales = np.float32(0.02), rng.uniform(1, 2, columns).astype(np.float32) / 100, np.float32(3)
    zero_points = np.uint8(9), np.uint8(200), np.uint8(131)
    names = ("a_scale", "b_scale", "output_scale")
    zero_names = ("a_zero_point", "b_zero_point", "output_zero_point")
    options = dict(zip((*names, *zero_names), (*scales, *zero_points), strict=True))

    def run(a, b, bias):
        return lowering.run(*QUANTIZED.plan(a, b, bias, arithmetic="float32", **options))

    multiply_by_xla = partial(
        dmlax.quantized_linear_matrix_multiply,
        **options,
        arithmetic="float32",
        implementation="xla",
    )
    np.testing.assert_array_equal(jax.jit(run)(a, b, bias), jax.jit(multiply_by_xla)(a, b, bias))
    assert stored == [32 if columns == 29 else 24]
