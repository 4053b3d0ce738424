"""Every refusal: its code, its field and its words, the same however the call is made."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax.errors import CODES

nonzero = dmlax.nonzero_coordinates
integer = dmlax.convolution_integer
quantized = dmlax.quantized_linear_convolution
convolution_add = dmlax.quantized_linear_convolution_add
quantize = dmlax.element_wise_quantize_linear
dequantize = dmlax.element_wise_dequantize_linear
average = dmlax.quantized_linear_average_pooling
global_average = dmlax.quantized_linear_global_average_pooling
largest = dmlax.max_pooling
dynamic = dmlax.dynamic_quantize_linear
add = dmlax.element_wise_quantized_linear_add
multiply = dmlax.element_wise_quantized_linear_multiply
lookup = dmlax.quantized_lookup
prepare = dmlax.prepare_filter

X, W = np.ones((1, 4, 5, 5), np.uint8), np.ones((6, 4, 3, 3), np.int8)
FLAT, Q = np.ones((2, 3), np.float32), np.ones((2, 3), np.int8)
BIAS = np.ones(6, np.int32)
PADDINGS = "SAME, SAME_LOWER, VALID"
SCALES = {"input_scale": 1.0, "filter_scale": 1.0, "output_scale": 1.0}
SUM_SCALES = {"addend_scale": 1.0, "sum_scale": 1.0}
ADDEND = np.ones((1, 6, 3, 3), np.int8)


def like(array, *shape, dtype=None):
    return np.ones(shape or array.shape, dtype or array.dtype)


class InvalidCall(NamedTuple):
    """A call that breaks one rule: `arrays` are traced, `options` are not."""

    function: Any
    arrays: tuple[Any, ...]
    options: dict[str, Any]
    code: str
    field: str
    message: str


def expected_error(function, text):
    """Code, field and message; in the table they are one text."""
    code, rest = text.split(" ", 1)
    return code, rest.split(" ", 1)[0], f"{function.__name__}: {rest}"


def nonzeros():
    def invalid(x, text, **options):
        return InvalidCall(nonzero, (x,), options, *expected_error(nonzero, text))

    dtypes = (
        "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
        "float16, bfloat16, float32, float64"
    )
    limits = "expected from 0 to 4294967295"
    return [
        invalid(
            FLAT.astype(np.complex64),
            f"data_type InputTensor is complex64[2,3], expected one of {dtypes}",
        ),
        invalid(
            jnp.ones(2, jnp.int4),
            f"data_type InputTensor is int4[2], expected one of {dtypes}",
        ),
        invalid(np.float32(1), "dimension_count InputTensor is float32[], expected rank 1 to 8"),
        invalid(
            FLAT,
            "sizes OutputCoordinatesTensor has 1 columns, expected 2 to 2 for InputTensor "
            "float32[2,3]",
            coordinate_rank=1,
        ),
        invalid(
            like(FLAT, 1, 1, 3),
            "sizes OutputCoordinatesTensor has 4 columns, expected 1 to 3 for InputTensor "
            "float32[1,1,3]",
            coordinate_rank=4,
        ),
        invalid(FLAT, "option coordinate_rank is -1, expected at least 0", coordinate_rank=-1),
        invalid(
            FLAT,
            "option coordinate_rank is 2.0, expected a static integer",
            coordinate_rank=2.0,
        ),
        invalid(FLAT, f"option size is -1, {limits}", size=-1),
        invalid(FLAT, f"option size is 4294967296, {limits}", size=2**32),
        invalid(FLAT, "option size is '4', expected a static integer", size="4"),
        invalid(FLAT, f"option fill_value is -1, {limits}", fill_value=-1),
        invalid(FLAT, f"option fill_value is 4294967296, {limits}", fill_value=2**32),
        invalid(
            FLAT,
            "option fill_value is nan, expected a static integer",
            fill_value=float("nan"),
        ),
        invalid(
            FLAT,
            "option implementation is 'best', expected one of auto, reference, xla, native_cpu, "
            "mosaic_gpu",
            implementation="best",
        ),
        invalid(
            FLAT,
            "option implementation is None, expected one of auto, reference, xla, native_cpu, "
            "mosaic_gpu",
            implementation=None,
        ),
    ]


def convolutions(function, fixed):
    """Invalid calls of either convolution."""

    def invalid(text, x=X, w=W, **options):
        return InvalidCall(function, (x, w), fixed | options, *expected_error(function, text))

    one = "expected one value, as () or (1, 1, 1, 1)"
    each = "expected one value or 6, one per output channel"
    orders = "expected three orders of the same axes, as ('NCHW', 'OIHW', 'NCHW')"
    odd = ("NCHW", "OIHW", "NCXY")
    pairs = 'expected "SAME", "SAME_LOWER", "VALID" or 2 pairs (start, end)'
    narrow = ("NCW", "OIW", "NCW")
    from_0, from_1 = (f"expected from {low} to 4294967295" for low in (0, 1))
    x, w = X.dtype, W.dtype
    return [
        invalid(
            "data_type InputTensor is int32[1,4,5,5], expected one of int8, uint8",
            like(X, dtype=np.int32),
        ),
        invalid(
            "data_type InputTensor is complex64[1,4,5,5], expected one of int8, uint8",
            like(X, dtype=np.complex64),
        ),
        invalid(
            "data_type FilterTensor is float32[6,4,3,3], expected one of int8, uint8",
            w=like(W, dtype=np.float32),
        ),
        invalid(
            "dimension_count InputTensor is uint8[], expected rank 4, as FilterTensor is "
            "int8[6,4,3,3]",
            like(X, 1)[0],
        ),
        invalid(
            "dimension_count InputTensor is uint8[4,5,5], expected rank 4, as FilterTensor is "
            "int8[6,4,3,3]",
            like(X, 4, 5, 5),
        ),
        invalid(
            "dimension_count FilterTensor is int8[6,4,3], expected rank 4 for dimension_numbers "
            "('NCHW', 'OIHW', 'NCHW')",
            w=like(W, 6, 4, 3),
        ),
        invalid("dimension_count FilterTensor is int8[6,4], expected rank 3 or 4", w=like(W, 6, 4)),
        invalid(
            "dimension_count FilterTensor is int8[6,4,3,3], expected rank 3 for dimension_numbers "
            "('NCW', 'OIW', 'NCW')",
            dimension_numbers=narrow,
        ),
        invalid("sizes FilterTensor is int8[6,0,3,3], expected no size 0", w=like(W, 6, 0, 3, 3)),
        invalid(
            "sizes FilterTensor is int8[6,3,3,3], expected 4 InputTensor channels / GroupCount 1 "
            "input channels, as InputTensor is uint8[1,4,5,5]",
            w=like(W, 6, 3, 3, 3),
        ),
        invalid(
            "sizes FilterTensor is int8[6,4,3,3], expected 4 InputTensor channels / GroupCount 2 "
            "input channels, as InputTensor is uint8[1,4,5,5]",
            group_count=2,
        ),
        invalid(
            "sizes FilterTensor is int8[6,4,6,3], spans 6 cells at dilation 1, expected at most "
            "the 5 of the padded InputTensor uint8[1,4,5,5]",
            w=like(W, 6, 4, 6, 3),
        ),
        invalid(
            "sizes FilterTensor is int8[6,4,3,3], spans 9 cells at dilation 4, expected at most "
            "the 8 of the padded InputTensor uint8[1,4,5,5]",
            dilations=(1, 4),
            start_padding=(0, 1),
            end_padding=(0, 2),
        ),
        invalid(
            "sizes GroupCount is 4, expected a divisor of the 6 filters of int8[6,1,3,3]",
            w=like(W, 6, 1, 3, 3),
            group_count=4,
        ),
        invalid("option GroupCount is 0, expected at least 1", group_count=0),
        invalid("option GroupCount is 1.5, expected a static integer", group_count=1.5),
        invalid("option Strides is 0, expected at least 1", strides=(1, 0)),
        invalid("option Strides has 1 entries, expected 2", strides=(1,)),
        invalid("option Strides is 0, expected at least 1", strides=0),
        invalid(f"option Strides is 4294967296, {from_1}", strides=2**32),
        invalid(f"option Strides is {2**63}, {from_1}", strides=(2**63, 1)),
        invalid(f"option GroupCount is {2**64}, {from_1}", group_count=2**64),
        invalid(f"option Dilations is {2**62}, {from_1}", dilations=2**62, padding="SAME"),
        invalid(f"option padding is {2**63}, {from_0}", padding=((2**63, 0), (0, 0))),
        invalid("option Strides is True, expected 2 integers", strides=True),
        invalid(f"option padding is 'FULL', expected one of {PADDINGS}", padding="FULL"),
        invalid(
            f"option padding is ((1, 1),), {pairs}",
            padding=((1, 1),),
        ),
        invalid(f"option padding is (1, 1), {pairs}", padding=(1, 1)),
        invalid(f"option padding is 1, {pairs}", padding=1),
        invalid("option padding is -1, expected at least 0", padding=((0, 0), (-1, 0))),
        invalid("option padding has 3 entries, expected 2", padding=((0, 0), (1, 2, 3))),
        invalid(
            "option padding is given, and so is start_padding or end_padding",
            padding="SAME",
            end_padding=(0, 0),
        ),
        invalid("option Dilations is 0, expected at least 1", dilations=(0, 1)),
        invalid("option Dilations is 1.5, expected a static integer", dilations=(1, 1.5)),
        invalid("option StartPadding is -1, expected at least 0", start_padding=(-1, 0)),
        invalid("option StartPadding is 'SAME', expected 2 integers", start_padding="SAME"),
        invalid("option EndPadding has 3 entries, expected 2", end_padding=(0, 0, 0)),
        invalid("option EndPadding is -2, expected at least 0", end_padding=(0, -2)),
        invalid(f"option dimension_numbers is {odd!r}, {orders}", dimension_numbers=odd),
        invalid(f"option dimension_numbers is 'NCHW', {orders}", dimension_numbers="NCHW"),
        invalid(f"option dimension_numbers is 4, {orders}", dimension_numbers=4),
        invalid(
            "data_type InputZeroPointTensor is int8[], expected uint8",
            input_zero_point=np.int8(1),
        ),
        invalid(
            "data_type InputZeroPointTensor is the float 1.0, expected uint8",
            input_zero_point=1.0,
        ),
        invalid(
            "value InputZeroPointTensor is 256, expected uint8, 0 to 255",
            input_zero_point=256,
        ),
        invalid("value InputZeroPointTensor is -1, expected uint8, 0 to 255", input_zero_point=-1),
        invalid(f"sizes InputZeroPointTensor is uint8[4], {one}", input_zero_point=np.ones(4, x)),
        invalid(
            f"sizes InputZeroPointTensor is uint8[1,1,1,1,1], {one}",
            input_zero_point=np.ones((1,) * 5, x),
        ),
        invalid(
            "data_type FilterZeroPointTensor is uint8[6], expected int8",
            filter_zero_point=np.ones(6, np.uint8),
        ),
        invalid(
            "value FilterZeroPointTensor is 128, expected int8, -128 to 127",
            filter_zero_point=128,
        ),
        invalid(f"sizes FilterZeroPointTensor is int8[4], {each}", filter_zero_point=np.ones(4, w)),
        invalid(
            f"sizes FilterZeroPointTensor is int8[2,3], {each}",
            filter_zero_point=np.ones((2, 3), w),
        ),
        invalid(
            f"sizes FilterZeroPointTensor is int8[1,1,1,1,6], {each}",
            filter_zero_point=np.ones((1, 1, 1, 1, 6), w),
        ),
        invalid(
            "option implementation is 'best', expected one of auto, reference, xla, native_cpu, "
            "mosaic_gpu",
            implementation="best",
        ),
    ]


def quantizeds():
    """Invalid calls of the quantized convolution alone."""

    def invalid(text, bias=BIAS, **options):
        arrays = (X, W, bias)
        return InvalidCall(quantized, arrays, SCALES | options, *expected_error(quantized, text))

    one = "expected one value, as () or (1, 1, 1, 1)"
    each = "expected one value or 6, one per output channel"
    values = "expected 6 values, one per output channel, as (6,) or (1, 6, 1, 1)"
    finite = "expected finite nonzero values in float32"
    rows = [
        invalid("data_type BiasTensor is float32[6], expected int32", bias=BIAS.astype(np.float32)),
        invalid(f"sizes BiasTensor is int32[4], {values}", bias=BIAS[:4]),
        invalid(f"sizes BiasTensor is int32[], {values}", bias=BIAS[0]),
        invalid(f"sizes BiasTensor is int32[2,3], {values}", bias=BIAS.reshape(2, 3)),
        invalid(f"sizes BiasTensor is int32[1,1,1,6], {values}", bias=BIAS.reshape(1, 1, 1, 6)),
        invalid(f"sizes InputScaleTensor is float32[6], {one}", input_scale=np.ones(6, np.float32)),
        invalid(
            f"sizes FilterScaleTensor is float32[4], {each}",
            filter_scale=np.ones(4, np.float32),
        ),
        invalid(
            f"sizes OutputScaleTensor is float32[0], {one}",
            output_scale=np.ones(0, np.float32),
        ),
        invalid(
            "value OutputZeroPointTensor is 256, expected uint8, 0 to 255",
            output_zero_point=256,
        ),
        invalid(
            "value OutputZeroPointTensor is 200, expected int8, -128 to 127",
            output_zero_point=200,
            output_dtype="int8",
        ),
        invalid(
            "data_type OutputZeroPointTensor has dtype int8, expected uint8, the output_dtype",
            output_zero_point=np.int8(1),
            output_dtype="uint8",
        ),
        invalid(
            "data_type OutputZeroPointTensor has dtype int32, expected int8 or uint8",
            output_zero_point=np.int32(1),
        ),
        invalid(
            f"sizes OutputZeroPointTensor is uint8[6], {one}",
            output_zero_point=np.ones(6, np.uint8),
        ),
        invalid(
            "data_type OutputTensor has dtype int16, expected int8 or uint8",
            output_dtype=np.int16,
        ),
        invalid(
            "data_type OutputTensor has dtype 'eight', expected int8 or uint8",
            output_dtype="eight",
        ),
        invalid("option arithmetic is 'fast', expected one of exact, float32", arithmetic="fast"),
        invalid("option arithmetic is None, expected one of exact, float32", arithmetic=None),
    ]
    for name in ("Input", "Filter", "Output"):
        field, keyword = f"{name}ScaleTensor", f"{name.lower()}_scale"
        remedy = "a dead channel has scale 1 and a zero filter and bias"
        zero = f"{finite}; {remedy}" if name == "Filter" else finite
        rows += [
            invalid(f"value {field} is 0, {zero}", **{keyword: 0}),
            invalid(f"value {field} is 0.0, {zero}", **{keyword: 0.0}),
            invalid(f"value {field} is nan, {finite}", **{keyword: float("nan")}),
            invalid(f"value {field} is inf, {finite}", **{keyword: float("inf")}),
            invalid(f"value {field} is 1e-50, {zero}", **{keyword: 1e-50}),
            invalid(f"value {field} is np.float32(nan), {finite}", **{keyword: np.float32("nan")}),
            invalid(f"value {field} holds [0.0], {zero}", **{keyword: np.zeros(1, np.float32)}),
            invalid(
                f"data_type {field} is float16[], expected float32", **{keyword: np.float16(1)}
            ),
            invalid(f"data_type {field} is a list, expected an array", **{keyword: [1.0]}),
            invalid(f"missing_tensor {field} is required", **{keyword: None}),
        ]
    return rows


def element_wise(function, x, zero_dtype):
    """Invalid calls of either element-wise operator."""

    def invalid(text, x=x, scale=1.0, zero_point=None, **options):
        traced = isinstance(scale, np.ndarray) and np.isfinite(scale).all() and (scale != 0).all()
        arrays = (x, scale) if traced else (x,)
        call = function if traced else functools.partial(function_of_scale, function, scale)
        if zero_point is not None:
            call = functools.partial(function_of_zero, call, zero_point)
        return InvalidCall(call, arrays, options, *expected_error(function, text))

    this = f"InputTensor {x.dtype}[2,3]"
    name = zero_dtype.name
    finite = "expected finite nonzero values in float32"
    return [
        invalid(f"dimension_count InputTensor is {x.dtype}[], expected rank 1 to 8", x[0, 0]),
        invalid(
            f"sizes ScaleTensor is float32[2], expected a shape that broadcasts to {this}",
            scale=FLAT[:, 0],
        ),
        invalid(
            f"sizes ScaleTensor is float32[1,2,3], expected a shape that broadcasts to {this}",
            scale=FLAT[None],
        ),
        invalid(
            f"sizes ScaleTensor is float32[3], expected one value or 2, as axis 0 of {this}",
            scale=FLAT[0],
            axis=0,
        ),
        invalid(
            f"sizes ScaleTensor is float32[2,3], expected one value or 3, as axis 1 of {this}",
            scale=FLAT,
            axis=-1,
        ),
        invalid(
            f"sizes ZeroPointTensor is {name}[2], expected a shape that broadcasts to {this}",
            zero_point=np.ones(2, zero_dtype),
        ),
        invalid(f"data_type ZeroPointTensor is the float 1.5, expected {name}", zero_point=1.5),
        invalid(
            f"value ZeroPointTensor is 300, expected {name}, {np.iinfo(zero_dtype).min} to "
            f"{np.iinfo(zero_dtype).max}",
            zero_point=300,
        ),
        invalid(f"option axis is 2, expected -2 to 1 for {this}", axis=2),
        invalid(f"option axis is -3, expected -2 to 1 for {this}", axis=-3),
        invalid("option axis is 1.0, expected a static integer", axis=1.0),
        invalid("option axis is 100, expected from -64 to 63", axis=100),
        invalid(f"value ScaleTensor is 0.0, {finite}", scale=0.0),
        invalid(f"value ScaleTensor is nan, {finite}", scale=float("nan")),
        invalid(f"value ScaleTensor holds [inf], {finite}", scale=np.float32([1, 1, np.inf])),
        invalid("missing_tensor ScaleTensor is required", scale=None),
        invalid(
            "option implementation is 'best', expected one of auto, reference, xla, native_cpu, "
            "mosaic_gpu",
            implementation="best",
        ),
    ]


def function_of_scale(function, scale, x, *rest, **options):
    return function(x, scale, *rest, **options)


def function_of_zero(function, zero_point, *arrays, **options):
    return function(*arrays, zero_point, **options)


def quantizes():
    def invalid(x, scale, text, zero_point=None, **options):
        call = functools.partial(function_of_zero, quantize, zero_point)
        return InvalidCall(call, (x, scale), options, *expected_error(quantize, text))

    one, half = np.ones((), np.float32), np.ones((), np.float16)
    return [
        *element_wise(quantize, FLAT, np.dtype(np.uint8)),
        invalid(
            Q,
            one,
            "data_type InputTensor is int8[2,3], expected one of float32, float16, int32",
        ),
        invalid(
            FLAT.astype(np.complex64),
            one,
            "data_type InputTensor is complex64[2,3], expected one of float32, float16, int32",
        ),
        invalid(FLAT, half, "data_type ScaleTensor is float16[], expected float32"),
        invalid(
            FLAT.astype(np.float16),
            one,
            "data_type ScaleTensor is float32[], expected float16",
        ),
        invalid(
            FLAT.astype(np.int32),
            half,
            "data_type ScaleTensor is float16[], expected float32",
        ),
        invalid(
            FLAT,
            one,
            "data_type ZeroPointTensor has dtype int32, expected int8 or uint8",
            np.int32(1),
        ),
        invalid(
            FLAT,
            one,
            "data_type ZeroPointTensor has dtype int8, expected uint8, the output_dtype",
            np.int8(1),
            output_dtype="uint8",
        ),
        invalid(
            FLAT,
            one,
            "data_type OutputTensor has dtype float32, expected int8 or uint8",
            output_dtype=np.float32,
        ),
        invalid(
            FLAT,
            one,
            "option arithmetic is 'float64', expected one of exact, float32",
            arithmetic="float64",
        ),
    ]


def dequantizes():
    def invalid(x, scale, text, zero_point=None, **options):
        call = functools.partial(function_of_zero, dequantize, zero_point)
        return InvalidCall(call, (x, scale), options, *expected_error(dequantize, text))

    one = np.ones((), np.float32)
    dtypes = "int8, uint8, int16, uint16, int32, uint32"
    return [
        *element_wise(dequantize, Q, np.dtype(np.int8)),
        invalid(FLAT, one, f"data_type InputTensor is float32[2,3], expected one of {dtypes}"),
        invalid(
            Q,
            one.astype(jnp.bfloat16),
            "data_type ScaleTensor is bfloat16[], expected one of float32, float16",
        ),
        invalid(
            Q,
            one.astype(np.int32),
            "data_type ScaleTensor is int32[], expected one of float32, float16",
        ),
        invalid(Q, one, "data_type ZeroPointTensor is uint8[], expected int8", np.uint8(1)),
    ]


def convolution_adds():
    """Invalid addends and parameters of the sum."""

    def invalid(text, addend=ADDEND, **options):
        arrays, scales = (X, W, BIAS, addend), SCALES | SUM_SCALES
        error = expected_error(convolution_add, text)
        return InvalidCall(convolution_add, arrays, scales | options, *error)

    finite = "expected finite nonzero values in float32"
    result = "the convolution's result uint8[1,6,3,3]"
    pair = np.ones(2, np.float32)
    rows = [
        invalid(
            "data_type AddendTensor is int32[1,6,3,3], expected one of int8, uint8",
            ADDEND.astype(np.int32),
        ),
        invalid(
            f"dimension_count AddendTensor is int8[6,3,3], expected rank 4, as {result}", ADDEND[0]
        ),
        invalid(
            f"sizes AddendTensor is int8[1,6,1,3], expected the sizes of {result}",
            ADDEND[:, :, :1],
        ),
        invalid(
            "data_type AddendZeroPointTensor is uint8[], expected int8",
            addend_zero_point=np.uint8(1),
        ),
        invalid(
            "value AddendZeroPointTensor is 128, expected int8, -128 to 127", addend_zero_point=128
        ),
        invalid(
            "sizes AddendZeroPointTensor is int8[6], expected one value",
            addend_zero_point=np.ones(6, np.int8),
        ),
        invalid(
            "data_type SumZeroPointTensor has dtype uint8, expected int8, the sum_dtype",
            sum_zero_point=np.uint8(1),
            sum_dtype="int8",
        ),
        invalid(
            "value SumZeroPointTensor is -1, expected uint8, 0 to 255",
            sum_zero_point=-1,
        ),
        invalid(
            "sizes SumZeroPointTensor is int8[2], expected one value",
            sum_zero_point=np.ones(2, np.int8),
        ),
        invalid(
            "data_type OutputTensor has dtype int32, expected int8 or uint8", sum_dtype=np.int32
        ),
        invalid("option AddendFirst is 1, expected True or False", addend_first=1),
        invalid(
            "option arithmetic is 'fast', expected one of exact, float32",
            arithmetic="fast",
        ),
    ]
    for name in ("Addend", "Sum"):
        field, keyword = f"{name}ScaleTensor", f"{name.lower()}_scale"
        rows += [
            invalid(f"value {field} is 0.0, {finite}", **{keyword: 0.0}),
            invalid(f"missing_tensor {field} is required", **{keyword: None}),
            invalid(f"sizes {field} is float32[2], expected one value", **{keyword: pair}),
            invalid(
                f"data_type {field} is float16[], expected float32", **{keyword: np.float16(1)}
            ),
        ]
    return rows


def binaries(function):
    def invalid(text, a, b, **options):
        scales = {"a_scale": 1.0, "b_scale": 0.5, "output_scale": 1.0}
        return InvalidCall(function, (a, b), scales | options, *expected_error(function, text))

    a, b = np.ones((2, 3), np.uint8), np.ones((2, 1), np.int8)
    finite = "expected finite nonzero values in float32"
    return [
        invalid("data_type ATensor is float32[2,3], expected one of int8, uint8", FLAT, b),
        invalid(
            "data_type BTensor is int16[2,1], expected one of int8, uint8", a, b.astype(np.int16)
        ),
        invalid(
            "sizes BTensor is int8[4], expected a shape that broadcasts with ATensor uint8[2,3]",
            a,
            like(b, 4),
        ),
        invalid("missing_tensor BScaleTensor is required", a, b, b_scale=None),
        invalid(f"value AScaleTensor is 0.0, {finite}", a, b, a_scale=0.0),
        invalid(f"value OutputScaleTensor is inf, {finite}", a, b, output_scale=np.inf),
        invalid(
            "data_type BScaleTensor is float16[], expected float32", a, b, b_scale=np.float16(1)
        ),
        invalid(
            "sizes AScaleTensor is float32[3], expected one value",
            *(a, b),
            a_scale=np.ones(3, np.float32),
        ),
        invalid(
            "data_type BZeroPointTensor is uint8[], expected int8",
            *(a, b),
            b_zero_point=np.uint8(1),
        ),
        invalid("value AZeroPointTensor is 256, expected uint8, 0 to 255", a, b, a_zero_point=256),
        invalid(
            "sizes OutputZeroPointTensor is int8[1,2], expected one value",
            *(a, b),
            output_zero_point=np.ones((1, 2), np.int8),
        ),
        invalid(
            "data_type OutputTensor has dtype int32, expected int8 or uint8",
            *(a, b),
            output_dtype=np.int32,
        ),
        invalid(
            "option arithmetic is 'exakt', expected one of exact, float32",
            *(a, b),
            arithmetic="exakt",
        ),
    ]


def lookups():
    def invalid(text, input, table):
        return InvalidCall(lookup, (input, table), {}, *expected_error(lookup, text))

    table = np.zeros(256, np.int8)
    entries = "expected 256 entries, one for each value of InputTensor"
    return [
        invalid(
            "data_type InputTensor is int32[2,3], expected one of int8, uint8",
            *(Q.astype(np.int32), table),
        ),
        invalid(
            "data_type TableTensor is float32[256], expected one of int8, uint8",
            *(Q, table.astype(np.float32)),
        ),
        invalid(
            "dimension_count TableTensor is int8[16,16], expected rank 1",
            *(Q, table.reshape(16, 16)),
        ),
        invalid(
            "dimension_count InputTensor is int8[1,1,1,1,1,1,1,2,3], expected rank 0 to 8",
            *(Q.reshape(*[1] * 7, 2, 3), table),
        ),
        invalid(f"sizes TableTensor is int8[255], {entries}", Q, table[1:]),
    ]


def prepares():
    def invalid(text, w=W, **options):
        return InvalidCall(prepare, (w,), options, *expected_error(prepare, text))

    orders = "expected three orders of the same axes, as ('NCHW', 'OIHW', 'NCHW')"
    return [
        invalid(
            "data_type FilterTensor is int32[6,4,3,3], expected one of int8, uint8",
            like(W, dtype=np.int32),
        ),
        invalid(
            "dimension_count FilterTensor is int8[4,3,3], expected rank 4 for dimension_numbers "
            "('NCHW', 'OIHW', 'NCHW')",
            W[0],
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        ),
        invalid("dimension_count FilterTensor is int8[3,3], expected rank 3 or 4", W[0, 0]),
        invalid("sizes FilterTensor is int8[6,4,0,3], expected no size 0", W[:, :, :0]),
        invalid(
            "sizes GroupCount is 4, expected a divisor of the 6 filters of int8[6,4,3,3]",
            group_count=4,
        ),
        invalid("option GroupCount is -1, expected at least 1", group_count=-1),
        invalid(f"option dimension_numbers is 3, {orders}", dimension_numbers=3),
        invalid(
            "data_type FilterZeroPointTensor is uint8[], expected int8",
            filter_zero_point=np.uint8(1),
        ),
        invalid(
            "value FilterZeroPointTensor is 128, expected int8, -128 to 127",
            filter_zero_point=128,
        ),
        invalid(
            "sizes FilterZeroPointTensor is int8[4], expected one value or 6, one per output "
            "channel",
            filter_zero_point=np.ones(4, np.int8),
        ),
    ]


def pools(function, fixed):
    """Invalid calls of any pool."""

    def invalid(text, x=X, **options):
        return InvalidCall(function, (x,), fixed | options, *expected_error(function, text))

    orders = "expected one order of axes, as 'NHWC', or the convolution's three"
    image = "InputTensor is uint8"
    return [
        invalid(
            "data_type InputTensor is float32[1,4,5,5], expected one of int8, uint8",
            like(X, dtype=np.float32),
        ),
        invalid(f"dimension_count {image}[5,5], expected rank 3 to 5", X[0, 0]),
        invalid(
            f"dimension_count {image}[1,1,1,1,5,5], expected rank 3 to 5", like(X, 1, 1, 1, 1, 5, 5)
        ),
        invalid(
            f"dimension_count {image}[1,4,5,5], expected rank 3 for dimension_numbers 'NWC'",
            dimension_numbers="NWC",
        ),
        invalid(f"sizes {image}[1,4,0,5], expected no spatial axis of size 0", X[:, :, :0]),
        invalid(f"option dimension_numbers is 'NHWD', {orders}", dimension_numbers="NHWD"),
        invalid(f"option dimension_numbers is 4, {orders}", dimension_numbers=4),
        invalid(
            "option implementation is 'best', expected one of auto, reference, xla, native_cpu, "
            "mosaic_gpu",
            implementation="best",
        ),
    ]


def windows(function, fixed):
    """Invalid windows of either pool that has them."""

    def invalid(text, **options):
        return InvalidCall(function, (X,), fixed | options, *expected_error(function, text))

    padded = "expected at most the"
    from_0, from_1 = (f"expected from {low} to 4294967295" for low in (0, 1))
    return [
        invalid("option WindowSize is None, expected 2 integers", window_size=None),
        invalid("option WindowSize is 0, expected at least 1", window_size=(2, 0)),
        invalid("option WindowSize has 3 entries, expected 2", window_size=(2, 2, 2)),
        invalid("option WindowSize is True, expected 2 integers", window_size=True),
        invalid("option Strides is 0, expected at least 1", strides=0),
        invalid("option Dilations is 0, expected at least 1", dilations=(1, 0)),
        invalid("option StartPadding is -1, expected at least 0", start_padding=-1),
        invalid("option EndPadding is 1.5, expected a static integer", end_padding=(0, 1.5)),
        invalid(f"option WindowSize is 4294967296, {from_1}", window_size=2**32),
        invalid(f"option Strides is {2**63}, {from_1}", strides=(2**63, 1)),
        invalid(f"option StartPadding is {2**62}, {from_0}", start_padding=(0, 2**62)),
        invalid(f"option EndPadding is {2**64}, {from_0}", end_padding=2**64),
        invalid(f"option Dilations is {2**62}, {from_1}", dilations=2**62),
        invalid(
            f"sizes WindowSize is (6, 2), spans 6 pixels at dilation 1, {padded} 5 of the padded "
            "InputTensor uint8[1,4,5,5]",
            window_size=(6, 2),
        ),
        invalid(
            f"sizes WindowSize is (2, 3), spans 9 pixels at dilation 4, {padded} 8 of the padded "
            "InputTensor uint8[1,4,5,5]",
            window_size=(2, 3),
            dilations=(1, 4),
            start_padding=(0, 1),
            end_padding=(0, 2),
        ),
    ]


def averages(function, fixed):
    """Invalid parameters of either average."""

    def invalid(text, **options):
        return InvalidCall(function, (X,), fixed | options, *expected_error(function, text))

    each = "expected one value or 4, one per channel"
    finite = "expected finite nonzero values in float32"
    rows = [
        invalid("option arithmetic is 'fast', expected one of exact, float32", arithmetic="fast"),
        invalid(
            "data_type OutputTensor has dtype int16, expected int8 or uint8", output_dtype="int16"
        ),
        invalid(
            "data_type OutputZeroPointTensor has dtype int8, expected uint8, the output_dtype",
            output_zero_point=np.int8(1),
            output_dtype="uint8",
        ),
        invalid(
            "data_type InputZeroPointTensor is int8[], expected uint8", input_zero_point=np.int8(1)
        ),
        invalid(
            "value InputZeroPointTensor is 256, expected uint8, 0 to 255", input_zero_point=256
        ),
    ]
    for name in ("Input", "Output"):
        scale, zero_point = f"{name}ScaleTensor", f"{name}ZeroPointTensor"
        keyword, other = f"{name.lower()}_scale", f"{name.lower()}_zero_point"
        rows += [
            invalid(f"missing_tensor {scale} is required", **{keyword: None}),
            invalid(f"value {scale} is 0.0, {finite}", **{keyword: 0.0}),
            invalid(f"value {scale} is nan, {finite}", **{keyword: float("nan")}),
            invalid(
                f"data_type {scale} is float16[], expected float32", **{keyword: np.float16(1)}
            ),
            invalid(f"sizes {scale} is float32[5], {each}", **{keyword: np.ones(5, np.float32)}),
            invalid(
                f"sizes {scale} is float32[2,2], {each}", **{keyword: np.ones((2, 2), np.float32)}
            ),
            invalid(f"sizes {zero_point} is uint8[5], {each}", **{other: np.ones(5, np.uint8)}),
            invalid(
                f"sizes {zero_point} is uint8[1,1,1,1,1,4], {each}",
                **{other: np.ones((1, 1, 1, 1, 1, 4), np.uint8)},
            ),
        ]
    return rows


def dynamics():
    def invalid(text, x=FLAT, **options):
        return InvalidCall(dynamic, (x,), options, *expected_error(dynamic, text))

    return [
        invalid("data_type InputTensor is int8[2,3], expected one of float32, float16", Q),
        invalid("dimension_count InputTensor is float32[], expected rank 1 to 8", FLAT[0, 0]),
        invalid(
            "data_type OutputTensor has dtype int32, expected int8 or uint8", output_dtype="int32"
        ),
        invalid("option arithmetic is 'fast', expected one of exact, float32", arithmetic="fast"),
    ]


AVERAGE = {"input_scale": 1.0, "output_scale": 1.0}
INVALID_CALLS = [
    *pools(average, AVERAGE | {"window_size": 1}),
    *pools(global_average, AVERAGE),
    *pools(largest, {"window_size": 1}),
    *windows(average, AVERAGE | {"window_size": 2}),
    *windows(largest, {"window_size": 2}),
    *averages(average, AVERAGE | {"window_size": 2}),
    *averages(global_average, AVERAGE),
    InvalidCall(
        average,
        (X,),
        AVERAGE | {"window_size": 2, "include_padding": 1},
        *expected_error(average, "option IncludePadding is 1, expected True or False"),
    ),
    *dynamics(),
    *nonzeros(),
    *convolutions(integer, {}),
    *convolutions(quantized, SCALES),
    *quantizeds(),
    *convolution_adds(),
    *quantizes(),
    *dequantizes(),
    *binaries(add),
    *binaries(multiply),
    *lookups(),
    *prepares(),
]


def batched(array):
    """One more leading axis, to be taken off again by vmap."""
    return jnp.stack([jnp.asarray(array)] * 2)


WAYS = {
    "eager": lambda call, arrays: call(*arrays),
    "eager on JAX arrays": lambda call, arrays: call(*map(jnp.asarray, arrays)),
    "jit": lambda call, arrays: jax.jit(call)(*arrays),
    "vmap": lambda call, arrays: jax.vmap(call)(*map(batched, arrays)),
    "eval_shape": lambda call, arrays: jax.eval_shape(call, *arrays),
}


@pytest.mark.parametrize(
    ("invalid", "way"),
    [
        pytest.param(invalid, way, marks=() if not j or j == 1 + i % 4 else pytest.mark.slow)
        for i, invalid in enumerate(INVALID_CALLS)
        for j, way in enumerate(WAYS)
    ],
    ids=lambda each: each if isinstance(each, str) else each.message[:70],
)
def test_an_invalid_call_says_what_is_wrong(invalid, way):
    call = functools.partial(invalid.function, **invalid.options)
    with pytest.raises(dmlax.SpecError) as caught:
        WAYS[way](call, invalid.arrays)
    assert str(caught.value) == invalid.message
    assert (caught.value.code, caught.value.field) == (invalid.code, invalid.field)
    assert caught.value.code in CODES


def test_the_table_has_every_code_that_the_functions_can_raise():
    codes = {"data_type", "dimension_count", "sizes", "missing_tensor", "option", "value"}
    assert {invalid.code for invalid in INVALID_CALLS} == codes


NOT_ARRAYS = [
    (nonzero, ([1, 2],), "InputTensor", "is a list, expected an array"),
    (nonzero, (3,), "InputTensor", "is 3, expected an array"),
    (nonzero, ("x",), "InputTensor", "is 'x', expected an array"),
    (integer, (None, W), "InputTensor", "is a NoneType, expected an array"),
    (integer, (X, [[1]]), "FilterTensor", "is a list, expected an array"),
    (
        functools.partial(convolution_add, **SCALES, **SUM_SCALES),
        (X, W, BIAS, None),
        "AddendTensor",
        "is a NoneType, expected an array",
    ),
    (quantize, (1.0, 1.0), "InputTensor", "is 1.0, expected an array"),
    (dequantize, ((1, 2), 1.0), "InputTensor", "is a tuple, expected an array"),
    (lookup, (Q, list(range(256))), "TableTensor", "is a list, expected an array"),
    (prepare, (3,), "FilterTensor", "is 3, expected an array"),
    (dynamic, ([1.0],), "InputTensor", "is a list, expected an array"),
]


def name_of(function):
    return getattr(function, "func", function).__name__


@pytest.mark.parametrize(("function", "arguments", "field", "message"), NOT_ARRAYS)
def test_a_tensor_has_to_be_an_array(function, arguments, field, message):
    with pytest.raises(dmlax.SpecError) as caught:
        function(*arguments)
    assert (caught.value.code, caught.value.field) == ("data_type", field)
    assert str(caught.value) == f"{name_of(function)}: {field} {message}"


TRACED_OPTIONS = [
    (lambda n: nonzero(FLAT, size=n), "size"),
    (lambda n: nonzero(FLAT, fill_value=n), "fill_value"),
    (lambda n: integer(X, W, strides=(n, 1)), "Strides"),
    (lambda n: integer(X, W, group_count=n), "GroupCount"),
    (lambda n: quantize(FLAT, 1.0, axis=n), "axis"),
]


@pytest.mark.parametrize(("call", "field"), TRACED_OPTIONS)
def test_a_traced_option_is_refused(call, field):
    with pytest.raises(dmlax.SpecError, match=r"is the traced or device array int32\[\]") as caught:
        jax.jit(call)(1)
    assert (caught.value.code, caught.value.field) == ("option", field)


def test_errors_are_also_what_python_would_raise():
    with pytest.raises(ValueError, match="rank 1 to 8"):
        nonzero(np.float32(1))
    with pytest.raises(NotImplementedError, match="mosaic_gpu does not exist"):
        dmlax.element_wise_quantize_linear(FLAT, 1.0, implementation="mosaic_gpu")


def test_a_sum_that_int32_does_not_hold_is_not_supported():
    sizes = (2048, 4113)  # 8,423,424
    for function in (functools.partial(average, window_size=sizes), global_average):
        call = functools.partial(function, **AVERAGE)
        shape = jax.ShapeDtypeStruct((1, 1, *sizes), np.uint8)
        with pytest.raises(dmlax.UnsupportedError, match="has 8423424 elements"):
            jax.eval_shape(call, shape)


TOO_LARGE = [
    (
        {"window_size": 1, "start_padding": 2**31},
        "InputTensor is uint8[1,4,5,5], has 2147483653 pixels on an axis with its padding, "
        "expected at most 2147483647",
    ),
    ({"window_size": 1, "strides": 2**31}, "Strides is 2147483648, expected at most 2147483647"),
    (
        {"window_size": 1, "dilations": 2**32 - 1},
        "Dilations is 4294967295, expected at most 2147483647",
    ),
    (
        {"window_size": 1, "end_padding": 2**30, "strides": 2**29},
        f"InputTensor is uint8[1,4,5,5], has {4 * (5 + 2**30) ** 2} elements with its padding, "
        "expected at most 17592186044416",
    ),
]
WINDOWED = [
    largest,
    functools.partial(average, **AVERAGE),
    lambda x, window_size, **options: integer(x, W[:, :, :1, :1], **options),
]


@pytest.mark.parametrize("call", WINDOWED, ids=("max", "average", "convolution"))
@pytest.mark.parametrize(("options", "message"), TOO_LARGE)
def test_windows_that_int32_does_not_reach_are_not_supported(call, options, message):
    refused(functools.partial(call, X, **options), message)


def refused(call, message):
    """Checks an `UnsupportedError` of a call that is too large."""
    with pytest.raises(dmlax.UnsupportedError) as caught:
        call()
    assert str(caught.value).partition(": ")[2] == message
    assert (caught.value.code, caught.value.field) == ("sizes", message.partition(" ")[0])


def test_a_window_has_as_many_elements_as_int32_counts():
    options = {"window_size": 2**16, "end_padding": 2**16}
    message = "WindowSize has 4294967296 elements, expected at most 2147483647"
    refused(lambda: largest(X, **options), message)


def test_products_that_int64_does_not_count_are_not_supported():
    x = jax.ShapeDtypeStruct((1, 2**11, 2**20, 2**11), np.uint8)
    w = jax.ShapeDtypeStruct((2**20, 2**11, 1, 1), np.int8)
    message = (
        "OutputTensor is int32[1,1048576,1048576,2048], sums 4611686018427387904 products, "
        "expected at most 1152921504606846976"
    )
    refused(lambda: jax.eval_shape(integer, x, w), message)


@pytest.mark.parametrize("implementation", ["auto", "xla", "reference"])
def test_an_output_that_xla_cannot_size_is_not_supported(implementation):
    a, b = np.zeros((2**40, 0), np.uint8), np.zeros((0, 2**40), np.uint8)
    message = (
        "OutputTensor is int32[1099511627776,1099511627776], has 1208925819614629174706176 "
        "elements, expected at most 17592186044416"
    )
    multiply_integer = dmlax.matrix_multiply_integer
    refused(lambda: multiply_integer(a, b, implementation=implementation), message)


def test_errors_survive_a_pickle():
    import pickle

    error = dmlax.SpecError("a message", "sizes", "InputTensor")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.code, copy.field) == ("a message", "sizes", "InputTensor")


BAD = {"zero": 0.0, "minus zero": -0.0, "nan": np.nan, "inf": np.inf, "minus inf": -np.inf}
TRACED_SCALES = {
    "input": lambda s: quantized(X, W, input_scale=s, filter_scale=1.0, output_scale=1.0),
    "filter": lambda s: quantized(X, W, input_scale=1.0, filter_scale=s, output_scale=1.0),
    "output": lambda s: quantized(X, W, input_scale=1.0, filter_scale=1.0, output_scale=s),
    "all": lambda s: quantized(X, W, BIAS, input_scale=s, filter_scale=s, output_scale=s),
    "float32": lambda s: quantized(
        *(X, W, BIAS), input_scale=s, filter_scale=1.0, output_scale=s, arithmetic="float32"
    ),
    "quantize": lambda s: quantize(FLAT, s),
    "quantize, float32": lambda s: quantize(FLAT, s, arithmetic="float32"),
    "quantize int32": lambda s: quantize(FLAT.astype(np.int32), s),
    "dequantize": lambda s: dequantize(Q, s),
    "average": lambda s: average(X, window_size=2, input_scale=s, output_scale=1.0),
    "average's output": lambda s: average(X, window_size=2, input_scale=1.0, output_scale=s),
    "average, float32": lambda s: average(
        X, window_size=2, input_scale=s, output_scale=s, arithmetic="float32"
    ),
    "global average": lambda s: global_average(X, input_scale=s, output_scale=s),
}


@pytest.mark.parametrize("name", TRACED_SCALES)
def test_a_bad_traced_scale_finishes_with_the_right_shape(name):
    """Its elements are unspecified; there is no crash, and no wait without end."""
    call = jax.jit(TRACED_SCALES[name])
    shape = jax.eval_shape(call, np.float32(1))
    for bad in BAD.values():
        result = call(np.float32(bad)).block_until_ready()
        assert (result.shape, result.dtype) == (shape.shape, shape.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("implementation", ["xla", "reference"])
def test_a_traced_nan_scale_dequantizes_to_nan(dtype, implementation):
    call = jax.jit(lambda x, s, z: dequantize(x, s, z, implementation=implementation))
    x = np.uint8([[3, 4, 255], [3, 0, 7]])
    found = np.asarray(call(x, dtype([[np.nan], [2.0]]), np.uint8(3)))
    assert np.isnan(found[0]).all()
    assert found[1].tolist() == [0.0, -6.0, 8.0]


def test_a_dead_channel_has_scale_1_and_a_zero_filter_and_bias():
    """The remedy that a zero filter scale is refused with gives its channel's zero point."""
    scale, bias = np.float32([0.5, 1.0]), np.int32([7, 0])
    w = np.int8([[[[2]]], [[[0]]]])
    y = quantized(X[:, :1], w, bias, **SCALES | {"filter_scale": scale}, output_zero_point=9)
    assert (np.asarray(y)[:, 1] == 9).all()


def test_a_bad_scale_on_a_device_is_not_looked_at():
    result = quantize(FLAT, jnp.float32(0))
    assert (result.shape, result.dtype) == ((2, 3), np.uint8)
