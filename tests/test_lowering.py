"""Programs lowered for a TPU or a CUDA device, read on a CPU."""

import functools
import re

import jax
import numpy as np
import pytest

import dmlax
from support.laws import LAWS, MATRIX, W, X
from support.lowered import convolutions, operations, products, text

pytestmark = pytest.mark.lowering

PLATFORMS = ["cuda", "tpu"]
DEPTH = MATRIX.shape[0]  # the products' depth; CUDA pads it to 16
every_law = pytest.mark.parametrize("law", LAWS, ids=str)
every_platform = pytest.mark.parametrize("platform", PLATFORMS)


@functools.cache
def lowered(index, platform):
    law = LAWS[index]
    return text(law.function, *law.operands, platform=platform)


@pytest.mark.one_in(2)
@every_platform
@every_law
def test_nothing_is_lowered_to_float64_or_to_a_custom_call(law, platform):
    """A custom call would bind a program to one backend, or make it impossible to export."""
    found = lowered(LAWS.index(law), platform)
    assert "func.func public @main" in found
    assert not re.search(r"(?:x|<)(?:f64|complex)", found)
    assert "custom_call" not in found


@every_law
def test_every_product_on_cuda_is_of_int8_into_int32(law):
    """CUDA runs no integer convolution."""
    found = lowered(LAWS.index(law), "cuda")
    assert "stablehlo.convolution" not in operations(found)
    assert products(found) == [("i8", "i8", "i32", 16)] * (convolves(law) or multiplies(law))


@every_law
def test_every_product_on_a_tpu_is_of_int8_into_int32(law):
    """A convolution's second is of windows with ones, where the filter has zero points."""
    found = lowered(LAWS.index(law), "tpu")
    assert products(found) == [("i8", "i8", "i32", DEPTH)] * multiplies(law)
    count = 1 if law.name == "quantized, residual, float32" else 2
    assert convolutions(found) == [("i8", "i8", "i32")] * count * convolves(law)


def convolves(law):
    """True if it is a convolution with matrices, not depthwise."""
    is_convolution = law.name == "integer" or law.name.startswith("quantized")
    return is_convolution and not multiplies(law)


def multiplies(law):
    """True if it is a matrix product."""
    return "product" in law.name


@pytest.mark.parametrize("law", [law for law in LAWS if "float32" not in law.name], ids=str)
def test_exact_results_are_decided_without_float_comparisons_or_rounding(law):
    """Floats estimate; integers decide. Rounding and comparing are what naive code would do."""
    found = lowered(LAWS.index(law), "tpu")
    assert not operations(found) & {
        "stablehlo.round_nearest_even",
        "stablehlo.round_nearest_afz",
        "stablehlo.floor",
        "stablehlo.ceil",
    }
    assert not re.search(r"stablehlo\.compare .*FLOAT", found)


@every_platform
@pytest.mark.parametrize("size", [100, 2**20, 2**20 + 33, 2**24])
def test_nonzero_lowers_to_one_scatter_and_no_loop_elsewhere(size, platform):
    """Chunks are for a CPU's caches."""
    x = jax.ShapeDtypeStruct((size,), np.float32)
    found = text(lambda x: dmlax.nonzero_coordinates(x), x, platform=platform)
    assert found.count('"stablehlo.scatter"') == 1
    assert "stablehlo.while" not in operations(found)


def test_nonzero_goes_through_in_chunks_on_a_cpu():
    x = jax.ShapeDtypeStruct((2**24,), np.float32)
    by_xla = functools.partial(dmlax.nonzero_coordinates, implementation="xla")
    found = text(by_xla, x, platform="cpu")
    assert "stablehlo.while" in operations(found)


@every_platform
def test_a_batch_is_one_product_elsewhere(platform):
    """Parts of a batch are for a CPU's caches."""
    x, w = np.ones((8, 4, 15, 17), np.uint8), np.ones((4, 4, 2, 2), np.int8)
    by_xla = functools.partial(dmlax.convolution_integer, implementation="xla")
    assert "stablehlo.while" not in operations(text(by_xla, x, w, platform=platform))
    assert "stablehlo.while" in operations(text(by_xla, x, w, platform="cpu"))


@pytest.mark.parametrize("hold", [np.asarray, jax.numpy.asarray])
@pytest.mark.parametrize("implementation", ["auto", "xla", "reference"])
def test_a_filter_that_a_program_holds_is_packed_when_it_is_traced(hold, implementation):
    """XLA takes seconds to fold the sums of a filter's rows."""
    w = hold(np.arange(-54, 54, dtype=np.int8).reshape(4, 3, 3, 3).astype(np.uint8))
    x = np.arange(192, dtype=np.uint8).reshape(1, 3, 8, 8)

    def held(x, z):
        return dmlax.convolution_integer(
            x, w, filter_zero_point=z, input_zero_point=3, implementation=implementation
        )

    found = text(held, x, np.uint8(5), platform="cpu")
    assert "tensor<4x3x3x3xui8>" not in found
    expected = dmlax.convolution_integer(x, w, filter_zero_point=5, input_zero_point=3)
    np.testing.assert_array_equal(jax.jit(held)(x, np.uint8(5)), expected)


@pytest.mark.parametrize("hold", [np.asarray, jax.numpy.asarray])
@pytest.mark.parametrize("operator", ["convolution", "product"])
def test_scales_that_a_program_holds_are_divided_when_it_is_traced(operator, hold):
    scales = hold(np.float32([0.5, 0.25, 3.0, 0.125]))
    x, w = np.arange(12, dtype=np.uint8).reshape(1, 3, 2, 2), np.ones((4, 3, 1, 1), np.int8)
    rest = {"output_scale": np.float32(2), "implementation": "xla"}

    def call(x, scale):
        if operator == "convolution":
            return dmlax.quantized_linear_convolution(
                x, w, input_scale=0.5, filter_scale=scale, **rest
            )
        product = dmlax.quantized_linear_matrix_multiply
        return product(x[0, :, 0].T, w[:, :, 0, 0].T, a_scale=0.5, b_scale=scale, **rest)

    def held(x):
        return call(x, scales)

    assert "_threshold" in text(call, x, scales, platform="cpu")
    assert "_threshold" not in text(held, x, platform="cpu")
    np.testing.assert_array_equal(jax.jit(held)(x), jax.jit(call)(x, scales))


def test_the_exact_rounding_is_lowered_without_a_loop():
    arguments = (np.ones(8, np.int32), np.float32(0.5))
    assert "stablehlo.while" not in text(
        dmlax.element_wise_quantize_linear, *arguments, platform="cpu"
    )


def test_the_tpu_compiles_the_reference_from_an_int32_convolution():
    reference = functools.partial(dmlax.convolution_integer, implementation="reference")
    found = text(reference, X, W, platform="tpu")
    assert re.search(r"stablehlo\.convolution.*xi32>", found)


@every_law
def test_several_platforms_lower_to_one_program(law):
    traced = jax.jit(law.function).trace(*law.operands)
    found = traced.lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()
    assert "custom_call" not in found
    expected = {16, DEPTH} if multiplies(law) else {16} if convolves(law) else set()
    assert {product.contraction for product in products(found)} == expected


def test_a_chain_of_sums_by_xla_compiles():
    """Fused into one loop, each sum would repeat those before it; three took minutes."""
    add = next(law for law in LAWS if law.name == "add")
    x, *rest = add.operands

    def chain(x, implementation):
        for _ in range(8):
            x = add.function(x, *rest, implementation=implementation)
        return x

    found = jax.jit(functools.partial(chain, implementation="xla"))(x)
    np.testing.assert_array_equal(found, chain(x, "auto"))
