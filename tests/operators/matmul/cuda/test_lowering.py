"""The Hopper kernel of the matrix products: lowered on a CPU, refused where it cannot run.

tests/support/calls/matmul.py compares what it computes, on a GPU.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._cuda import tuning
from dmlax._operators.matmul.api import QUANTIZED, TO_FLOAT
from dmlax._operators.matmul.cuda import lowering
from support.calls.matmul import OPERATORS
from support.calls.matmul import call as random_call
from support.emulated import kernels as emulated_kernels

SCALES = {"a_scale": 0.1, "b_scale": 0.2, "output_scale": 3.0}
integer = partial(dmlax.matrix_multiply_integer, implementation="mosaic_gpu")
quantized = partial(dmlax.quantized_linear_matrix_multiply, **SCALES, implementation="mosaic_gpu")
FUSED = "tensor<{}xui8>"


def shaped(*sizes, dtype="uint8"):
    return jax.ShapeDtypeStruct(sizes, dtype)


def explained(a, b):
    """The choice on CUDA."""
    return dmlax.explain(dmlax.matrix_multiply_integer, a, b).choices[1]


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_other_platforms_are_refused(platform):
    assert "compute capability 9.0" in lowering.why_not(None, platform)


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


@pytest.mark.parametrize("name", OPERATORS)
def test_named_where_it_cannot_run_it_raises(name):
    count = {OPERATORS[0]: 0, OPERATORS[1]: 3, OPERATORS[2]: 2}[name]
    options = dict([*SCALES.items()][:count])
    with pytest.raises(dmlax.UnsupportedError, match=f"{name}: mosaic_gpu cannot run here"):
        getattr(dmlax, name)(
            *(jnp.ones((2, 3), jnp.uint8), jnp.ones((3, 2), jnp.int8)),
            **options,
            implementation="mosaic_gpu",
        )


def test_auto_is_the_kernel(lowered):
    text = lowered(dmlax.matrix_multiply_integer, shaped(4, 16), shaped(16, 8, dtype="int8"))
    assert "mosaic_gpu" in text
    assert explained(shaped(4, 16), shaped(16, 8, dtype="int8")).implementation == "mosaic_gpu"


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


@pytest.mark.parametrize(
    ("a", "b", "groups"),
    [
        ((5, 4, 16), (16, 8), "1x20x8"),
        ((5, 4, 16), (1, 16, 8), "1x20x8"),
        ((4, 16), (5, 16, 8), "5x4x8"),
        ((5, 4, 16), (5, 16, 8), "5x4x8"),
        ((5, 1, 4, 16), (2, 16, 8), "10x4x8"),
        ((16,), (16,), "1x1x1"),
    ],
)
def test_a_batch_of_right_matrices_is_groups_and_one_of_left_ones_is_rows(lowered, a, b, groups):
    text = lowered(integer, shaped(*a), shaped(*b, dtype="int8"))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert f"tensor<{groups}xi32>" in text


@pytest.mark.parametrize(
    ("axes", "groups"), [((0, None), "1x12x8"), ((0, 0), "3x4x8"), ((None, 0), "3x4x8")]
)
@pytest.mark.parametrize("function", [integer, quantized])
def test_vmap_is_one_kernel(lowered, function, axes, groups):
    a = shaped(*([3] if axes[0] == 0 else []), 4, 16)
    b = shaped(*([3] if axes[1] == 0 else []), 16, 8, dtype="int8")
    text = lowered(jax.vmap(function, axes), a, b)
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.while" not in text
    assert f"tensor<{groups}x" in text


@pytest.mark.parametrize("name", ["a_zero_point", "output_zero_point", "output_scale"])
def test_vmap_over_a_parameter_of_all_columns_loops_over_the_kernel(lowered, name):
    dtype = "float32" if name.endswith("scale") else "uint8"
    text = lowered(
        jax.vmap(lambda value, a, b: quantized(a, b, **{name: value}), (0, None, None)),
        *(shaped(3, dtype=dtype), shaped(4, 16), shaped(16, 8, dtype="int8")),
    )
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.while" in text


@pytest.mark.parametrize(
    ("a", "b"), [((0, 16), (16, 8)), ((4, 16), (16, 0)), ((0, 4, 16), (16, 8))]
)
def test_nothing_is_launched_for_an_empty_output(lowered, a, b):
    text = lowered(integer, shaped(*a), shaped(*b, dtype="int8"))
    assert "mosaic_gpu" not in text


def test_an_empty_vmap_launches_nothing(lowered):
    text = lowered(jax.vmap(integer), shaped(0, 4, 16), shaped(0, 16, 8, dtype="int8"))
    assert "mosaic_gpu" not in text


def test_what_a_batch_makes_too_large_is_mapped_one_by_one(lowered, monkeypatch):
    monkeypatch.setattr(lowering, "_SIZE_LIMIT", 200)  # bytes: 128 each, and of all 384
    call = partial(dmlax.matrix_multiply_integer, a_zero_point=5, implementation="mosaic_gpu")
    text = lowered(jax.vmap(call), shaped(3, 4, 16), shaped(3, 16, 8, dtype="int8"))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.while" in text


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
