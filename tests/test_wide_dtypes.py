"""NumPy's 64-bit arrays: one rule, decided before JAX narrows them, with x64 off and on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support import assert_same

X, W = np.full((1, 1, 1, 2), 3, np.uint8), np.ones((1, 1, 1, 1), np.int8)
ONES = {"input_scale": 1.0, "filter_scale": 1.0, "output_scale": 1.0}
FLOATS, BYTES = np.float32([[1.0, -2.0, 600.0]]), np.uint8([[1, 2, 255]])
quantize, dequantize = dmlax.element_wise_quantize_linear, dmlax.element_wise_dequantize_linear


@pytest.fixture(params=[False, True], ids=["x64 off", "x64 on"], autouse=True)
def x64(request):
    """Every test runs with JAX's 64-bit types off, and on."""
    with jax.enable_x64(request.param):
        yield request.param


def convolve(bias=None, **options):
    return dmlax.quantized_linear_convolution(X, W, bias, **ONES | options)


FITTING = {
    "int64 bias": (lambda: convolve(np.array([5])), lambda: convolve(np.int32([5]))),
    "uint64 bias": (lambda: convolve(np.uint64([5])), lambda: convolve(np.int32([5]))),
    "big-endian bias": (lambda: convolve(np.array([5], ">i8")), lambda: convolve(np.int32([5]))),
    "int64 zero point": (
        lambda: convolve(input_zero_point=np.int64(3), output_zero_point=np.array(7)),
        lambda: convolve(input_zero_point=np.uint8(3), output_zero_point=np.uint8(7)),
    ),
    "int64 filter zero points": (
        lambda: dmlax.convolution_integer(X, W, filter_zero_point=np.array([-5])),
        lambda: dmlax.convolution_integer(X, W, filter_zero_point=np.int8([-5])),
    ),
    "int64 zero point of a prepared filter": (
        lambda: dmlax.prepare_filter(W, filter_zero_point=np.array([-5])).arrays.zero_point,
        lambda: np.int8(-5),
    ),
    "float64 scales": (
        lambda: convolve(input_scale=np.float64(0.1), filter_scale=np.array([0.7])),
        lambda: convolve(input_scale=np.float32(0.1), filter_scale=np.float32([0.7])),
    ),
    "an int64 scale": (lambda: quantize(FLOATS, np.array(2)), lambda: quantize(FLOATS, 2.0)),
    "a float64 scale of float16": (
        lambda: quantize(np.float16([1, 2]), np.array([0.1, 0.2])),
        lambda: quantize(np.float16([1, 2]), np.float16([0.1, 0.2])),
    ),
    "quantize's int64 zero point": (
        lambda: quantize(FLOATS, 1.0, np.int64(3)),
        lambda: quantize(FLOATS, 1.0, np.uint8(3)),
    ),
    "dequantize's int64 zero points": (
        lambda: dequantize(BYTES, 1.0, np.array([1, 2, 3]), axis=1),
        lambda: dequantize(BYTES, 1.0, np.uint8([1, 2, 3]), axis=1),
    ),
    "a float64 number to dequantize": (
        lambda: dequantize(BYTES, np.float64(0.1)),
        lambda: dequantize(BYTES, np.float32(0.1)),
    ),
    "a float64 tensor to quantize": (
        lambda: quantize(np.array([0.5 + 2**-40, 1e300, -np.inf, np.nan]), 1.0),
        lambda: quantize(np.float32([0.5, np.inf, -np.inf, np.nan]), 1.0),
    ),
    "a float64 tensor's zeros": (
        lambda: dmlax.nonzero_coordinates(np.array([1e-300, 0.0])).count,
        lambda: np.uint32(1),
    ),
}


@pytest.mark.parametrize("name", FITTING)
def test_a_number_that_fits_is_taken(name):
    """Value of its 32-bit or 8-bit equal; a float is rounded once."""
    wide, narrow = FITTING[name]
    assert_same(wide(), narrow())


INT32 = "expected int32, -2147483648 to 2147483647"
QUANTIZE, DEQUANTIZE = "element_wise_quantize_linear", "element_wise_dequantize_linear"
CONVOLVE = "quantized_linear_convolution"
INTEGERS = "int8, uint8, int16, uint16, int32, uint32"
REFUSED = {  # a call, and the message and the code of its error
    f"{CONVOLVE}: BiasTensor holds 4294967303, {INT32}": (
        *(lambda: convolve(np.array([2**32 + 7])), "value"),
    ),
    f"{CONVOLVE}: BiasTensor holds {2**64 - 1}, {INT32}": (
        *(lambda: convolve(np.uint64([2**64 - 1])), "value"),
    ),
    f"{CONVOLVE}: BiasTensor is float64[1], expected int32": (
        *(lambda: convolve(np.array([2.0])), "data_type"),
    ),
    f"{CONVOLVE}: InputZeroPointTensor is 256, expected uint8, 0 to 255": (
        *(lambda: convolve(input_zero_point=np.int64(256)), "value"),
    ),
    f"{QUANTIZE}: ZeroPointTensor is -1, expected uint8, 0 to 255": (
        *(lambda: quantize(FLOATS, 1.0, np.int64(-1)), "value"),
    ),
    f"{QUANTIZE}: ScaleTensor holds [0.0], expected finite nonzero values in float32": (
        *(lambda: quantize(FLOATS, np.array([1e-50, 1, 1])), "value"),
    ),
    f"{DEQUANTIZE}: InputTensor is int64[1], expected one of {INTEGERS}": (
        *(lambda: dequantize(np.array([2**33 + 5]), 1.0), "data_type"),
    ),
    f"{QUANTIZE}: InputTensor is int64[1], expected one of float32, float16, int32": (
        *(lambda: quantize(np.array([5]), 1.0), "data_type"),
    ),
    "convolution_integer: InputTensor is int64[1,1,1,2], expected one of int8, uint8": (
        *(lambda: dmlax.convolution_integer(X.astype(np.int64), W), "data_type"),
    ),
    "prepare_filter: FilterTensor is int64[1,1,1,1], expected one of int8, uint8": (
        *(lambda: dmlax.prepare_filter(W.astype(np.int64)), "data_type"),
    ),
    f"{DEQUANTIZE}: ScaleTensor is float64[3], expected one of float32, float16": (
        *(lambda: dequantize(BYTES, np.array([0.5, 2, 3]), axis=1), "data_type"),
    ),
    "nonzero_coordinates: OutputCoordinatesTensor has 1 columns, expected 2 to 2 for "
    "InputTensor float64[2,3]; coordinate_rank is their number": (
        *(lambda: dmlax.nonzero_coordinates(np.zeros((2, 3)), coordinate_rank=1), "sizes"),
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_refused_by_the_dtype_that_the_caller_gave(message):
    call, code = REFUSED[message]
    with pytest.raises(dmlax.SpecError) as caught:
        call()
    assert (str(caught.value), caught.value.code) == (message, code)


def test_a_jax_array_is_refused_by_its_dtype(x64):
    wide = np.int64 if x64 else np.int32
    with pytest.raises(dmlax.SpecError, match=rf"is {np.dtype(wide)}\[\], expected uint8"):
        convolve(input_zero_point=jnp.asarray(3, wide))
    if x64:
        with pytest.raises(dmlax.SpecError, match=r"BiasTensor is int64\[1\], expected int32"):
            convolve(jnp.array([5]))
        with pytest.raises(dmlax.SpecError, match=r"InputTensor is float64\[1\], expected one of"):
            quantize(jnp.array([5.0]), 1.0)
