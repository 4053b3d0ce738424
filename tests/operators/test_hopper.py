"""The operators' Hopper kernels, lowered on a CPU: how many, in what loops, with which results.

`tests/support/calls` compares what they compute, on a GPU.
"""

from functools import partial

import jax
import numpy as np
import pytest

import dmlax
from dmlax._operators.convolution.cuda import lowering as convolution
from dmlax._operators.matmul.cuda import lowering as matmul
from dmlax._operators.nonzero.cuda import lowering as nonzero
from dmlax._operators.registry import OPERATORS
from support import shaped

LAST = ("NHWC", "OIHW", "NHWC")
SCALES = {"input_scale": 0.1, "filter_scale": 0.2, "output_scale": 3.0}
PRODUCT_SCALES = {"a_scale": 0.1, "b_scale": 0.2, "output_scale": 3.0}
ON_GPU = {"implementation": "mosaic_gpu"}
convolve = partial(dmlax.quantized_linear_convolution, **SCALES, dimension_numbers=LAST, **ON_GPU)
integer = partial(dmlax.matrix_multiply_integer, **ON_GPU)
quantized = partial(dmlax.quantized_linear_matrix_multiply, **PRODUCT_SCALES, **ON_GPU)
coordinates = partial(dmlax.nonzero_coordinates, **ON_GPU)


def pool(x):
    numbers = {3: "NWC", 4: "NHWC", 5: "NDHWC"}[x.ndim]
    windows = {"window_size": 3, "strides": 2, "start_padding": 1, "dimension_numbers": numbers}
    return dmlax.max_pooling(x, **windows, **ON_GPU)


def convolve_and_add(x, w, addend, arithmetic="exact", **options):
    sums = {"addend_scale": 0.3, "sum_scale": 0.7, "arithmetic": arithmetic} | SCALES | ON_GPU
    call = dmlax.quantized_linear_convolution_add
    return call(x, w, None, addend, **sums, dimension_numbers=LAST, **options)


def weights(*sizes):
    return shaped(*sizes, dtype="int8")


IMAGE, FILTER = shaped(2, 8, 8, 16), weights(8, 16, 3, 3)
IMAGES = shaped(5, *IMAGE.shape)
A, B = shaped(4, 16), weights(16, 8)
SMALL = shaped(2, 4, 4, 16)
ARRAYS = ((1,), (70_000,), (3, 5, 7), (2, 3, 4, 5, 6))
LOWERED = {  # the function, its operands, the number of kernels, and a type that the program has
    "convolution of no image": (convolve, (shaped(0, 8, 8, 16), FILTER), 0, ""),
    "auto": (partial(dmlax.convolution_integer, dimension_numbers=LAST), (IMAGE, FILTER), 1, ""),
    **{
        f"sum, {arithmetic}, {outputs} outputs, {dtype}": (
            partial(convolve_and_add, arithmetic=arithmetic),
            (
                shaped(2, 4, 4, 16),
                weights(outputs, 16, 1, 1),
                shaped(2, 4, 4, outputs, dtype=dtype),
            ),
            *(1, ""),
        )
        for arithmetic in ("exact", "float32")
        for outputs in (8, 33, 64)
        for dtype in ("int8", "uint8")
    },
    **{
        f"many sums, {arithmetic}": (
            partial(convolve_and_add, arithmetic=arithmetic),
            (shaped(64, 32, 32, 64), weights(128, 64, 1, 1), shaped(64, 32, 32, 128)),
            *(1, ""),
        )
        for arithmetic in ("exact", "float32")
    },
    "depthwise sum": (
        partial(convolve_and_add, group_count=16),
        (shaped(1, 4, 4, 16), weights(16, 1, 3, 3), shaped(1, 2, 2, 16)),
        *(1, "tensor<1x2x2x16xi32>"),
    ),
    "auto product": (dmlax.matrix_multiply_integer, (A, B), 1, ""),
    "product of no row": (integer, (shaped(0, 16), B), 0, ""),
    "product of no column": (integer, (A, weights(16, 0)), 0, ""),
    "no product": (integer, (shaped(0, 4, 16), B), 0, ""),
    **{
        f"product {a} {b}": (integer, (shaped(*a), weights(*b)), 1, f"tensor<{groups}xi32>")
        for a, b, groups in (
            ((5, 4, 16), (16, 8), "1x20x8"),
            ((5, 4, 16), (1, 16, 8), "1x20x8"),
            ((4, 16), (5, 16, 8), "5x4x8"),
            ((5, 4, 16), (5, 16, 8), "5x4x8"),
            ((5, 1, 4, 16), (2, 16, 8), "10x4x8"),
            ((16,), (16,), "1x1x1"),
        )
    },
    **{
        f"nonzero {dtype} {shape}": (coordinates, (shaped(*shape, dtype=dtype),), 1, "")
        for dtype in ("bool", "int8", "uint16", "bfloat16", "float16", "float32")
        for shape in ARRAYS
    },
    **{
        f"nonzero {options}": (
            partial(coordinates, coordinate_rank=1, **options),
            (shaped(1, 9, dtype="float32"),),
            *(1, ""),
        )
        for options in ({"size": 3}, {"size": 0}, {"size": 99, "fill_value": 7})
    },
    **{
        f"pool {shape} {dtype}": (pool, (shaped(*shape, dtype=dtype),), 1, f"max.{short}16x2")
        for shape in ((2, 9, 4), (2, 9, 8, 20), (1, 112, 112, 64))
        for dtype, short in (("uint8", "u"), ("int8", "s"))
    },
}
MAPPED = {  # the function, the mapped axes, the operands, the number of kernels, loops, and a type
    "inputs": (convolve, (0, None), (IMAGES, FILTER), 1, 0, ""),
    "filters": (convolve, (None, 0), (IMAGE, weights(5, *FILTER.shape)), 1, 1, ""),
    "inputs and filters": (convolve, (0, 0), (IMAGES, weights(5, *FILTER.shape)), 1, 1, ""),
    "no inputs": (convolve, (0, None), (shaped(0, *IMAGE.shape), FILTER), 0, 0, ""),
    **{
        f"a sum, addend {axis}": (
            *(convolve_and_add, (0, None, axis)),
            (shaped(3, 2, 4, 4, 16), weights(32, 16, 1, 1), shaped(*first, 2, 4, 4, 32)),
            *(1, axis is None, ""),
        )
        for axis, first in ((0, (3,)), (None, ()))
    },
    **{
        f"{call.func.__name__} {axes}": (
            *(call, axes),
            tuple(
                shaped(*[3] * (axis == 0), *x.shape, dtype=x.dtype)
                for x, axis in zip((A, B), axes, strict=True)
            ),
            *(1, 0, f"tensor<{groups}x"),
        )
        for axes, groups in (((0, None), "1x12x8"), ((0, 0), "3x4x8"), ((None, 0), "3x4x8"))
        for call in (integer, quantized)
    },
    **{
        f"product, {name}": (
            lambda value, a, b, name=name: quantized(a, b, **{name: value}),
            (0, None, None),
            (shaped(3, dtype="float32" if name.endswith("scale") else "uint8"), A, B),
            *(1, 1, ""),
        )
        for name in ("a_zero_point", "output_zero_point", "output_scale")
    },
    "no products": (integer, (0, 0), (shaped(0, 4, 16), weights(0, 16, 8)), 0, 0, ""),
    "nonzero": (coordinates, (0,), (shaped(4, 9, dtype="float32"),), 1, 1, ""),
    "pool": (pool, (0,), (shaped(3, 2, 9, 8, 16),), 1, 0, ""),
}


@pytest.mark.parametrize(("call", "operands", "kernels", "words"), LOWERED.values(), ids=LOWERED)
def test_a_call_is_so_many_kernels(lowered, call, operands, kernels, words):
    text = lowered(lambda *given: call(*given), *operands)
    assert text.count("custom_call @mosaic_gpu") == kernels
    assert "stablehlo.while" not in text
    assert "stablehlo.dot_general" not in text
    assert "stablehlo.scatter" not in text
    assert words in text


@pytest.mark.parametrize(
    ("call", "axes", "operands", "kernels", "loops", "words"), MAPPED.values(), ids=MAPPED
)
def test_vmap_is_one_kernel_or_a_loop(lowered, call, axes, operands, kernels, loops, words):
    text = lowered(jax.vmap(lambda *given: call(*given), axes), *operands)
    assert text.count("custom_call @mosaic_gpu") == kernels
    assert ("stablehlo.while" in text) == bool(loops)
    assert words in text


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("elements", [9, 2**22, 2**24])
def test_wide_elements_are_lowered(lowered, dtype, elements):
    with jax.enable_x64(True):
        assert "mosaic_gpu" in lowered(coordinates, shaped(elements, dtype=dtype))


@pytest.mark.parametrize(
    ("module", "limit", "call", "axes", "operands"),
    [
        (convolution, 300, convolve, (0, None), (shaped(5, 2, 8, 8, 4), weights(8, 4, 1, 1))),
        (matmul, 200, partial(integer, a_zero_point=5), 0, (shaped(3, 4, 16), weights(3, 16, 8))),
    ],
)
def test_what_a_batch_makes_too_large_is_mapped_one_by_one(
    lowered, monkeypatch, module, limit, call, axes, operands
):
    monkeypatch.setattr(module, "_SIZE_LIMIT", limit)
    text = lowered(jax.vmap(lambda *given: call(*given), axes), *operands)
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.while" in text


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("module", [convolution, matmul, nonzero])
def test_other_platforms_are_refused(module, platform):
    assert "compute capability 8.0 or newer" in module.why_not(None, platform)


NAMED = {
    "convolution_integer": ((np.ones((1, 4, 3, 3), np.uint8), np.ones((2, 4, 1, 1), np.int8)), {}),
    "matrix_multiply_integer": ((np.ones((2, 3), np.uint8), np.ones((3, 2), np.int8)), {}),
    "nonzero_coordinates": ((np.ones(3, np.float32),), {}),
    "max_pooling": ((np.ones((1, 4, 3, 3), np.uint8),), {"window_size": 2}),
}
NAMED["quantized_linear_convolution"] = NAMED["convolution_integer"][0], SCALES
NAMED["quantized_linear_matrix_multiply"] = NAMED["matrix_multiply_integer"][0], PRODUCT_SCALES
NAMED["matrix_multiply_integer_to_float"] = (
    NAMED["matrix_multiply_integer"][0],
    {"a_scale": 0.1, "b_scale": 0.2},
)


@pytest.mark.parametrize("name", NAMED)
def test_named_where_it_cannot_run_it_raises(name):
    assert name in {row.name for row in OPERATORS}
    operands, options = NAMED[name]
    with pytest.raises(dmlax.UnsupportedError, match=f"{name}: mosaic_gpu cannot run here"):
        getattr(dmlax, name)(*operands, **options, **ON_GPU)


def test_auto_is_the_kernel(attached):
    calls = (
        (dmlax.convolution_integer, shaped(1, 1, 8, 8), weights(1, 1, 3, 3)),
        (*(dmlax.matrix_multiply_integer, A, B),),
    )
    for call in calls:
        assert dmlax.explain(*call).choices[1].implementation == "mosaic_gpu"
