"""Convolutions by every implementation in every layout, against the oracle."""

import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, draw, requantized, sums_of_products
from support.cases.convolution import (
    CASES,
    LAYOUTS,
    NARROW,
    expected,
    keywords,
    laid_out,
    operands,
)

IMPLEMENTATIONS = ["xla", "reference", *NATIVE]
SQUARE = [case for case in CASES if len(case.input) == 4]
LAID_OUT = [case for case in SQUARE if " to " not in case.name]
ZERO_POINTS = ("InputZeroPointTensor", "FilterZeroPointTensor")


def convolve_integer(case, x, w, **options):
    values = operands(case)
    return dmlax.convolution_integer(
        x, w, **keywords(values, *ZERO_POINTS), **case.options, **options
    )


def convolve_quantized(case, x, w, **options):
    values = operands(case)
    return dmlax.quantized_linear_convolution(
        *(x, w, values["BiasTensor"]),
        **keywords(values),
        **case.options,
        output_dtype=case.dtypes[2],
        **options,
    )


CONVOLUTIONS = {
    "convolution_integer": convolve_integer,
    "quantized_linear_convolution": convolve_quantized,
}


def run(operator, case, layout, implementation="auto"):
    """The result in the canonical layout, from operands in another."""
    values = operands(case)
    x, w = values["InputTensor"], values["FilterTensor"]
    canonical = case.canonical
    result = CONVOLUTIONS[operator](
        *(case, laid_out(x, canonical[0], layout[0]), laid_out(w, canonical[1], layout[1])),
        dimension_numbers=layout,
        implementation=implementation,
    )
    return laid_out(np.asarray(result), layout[2], canonical[2])


@pytest.mark.parametrize("operator", CONVOLUTIONS)
@pytest.mark.parametrize(
    ("case", "implementation"),
    [(case, IMPLEMENTATIONS[i % len(IMPLEMENTATIONS)]) for i, case in enumerate(CASES)],
    ids=str,
)
def test_a_convolution_is_the_oracles(case, implementation, operator):
    """The golden vectors do the same by each of the kernels and `xla`, which take turns here."""
    assert_same(run(operator, case, case.canonical, implementation), wanted(case, operator))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "NCHW"])
@pytest.mark.parametrize("case", LAID_OUT, ids=str)
def test_no_layout_changes_the_integer_convolution(case, layout):
    got = run("convolution_integer", case, LAYOUTS[layout])
    assert_same(got, wanted(case, "convolution_integer"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", ["NHWC", "mixed"])
@pytest.mark.parametrize("case", LAID_OUT, ids=str)
def test_no_layout_changes_the_quantized_convolution(case, layout):
    got = run("quantized_linear_convolution", case, LAYOUTS[layout])
    assert_same(got, wanted(case, "quantized_linear_convolution"))


@pytest.mark.parametrize(
    ("case", "layout"), [(CASES[1], "NHWC"), (CASES[12], "mixed"), (CASES[14], "odd")], ids=str
)
def test_no_layout_changes_the_reference(case, layout):
    got = run("quantized_linear_convolution", case, LAYOUTS[layout], "reference")
    assert_same(got, wanted(case, "quantized_linear_convolution"))


@pytest.mark.parametrize("layout", [("NWC", "WIO", "NWC"), ("NCW", "OIW", "NWC")], ids=str)
@pytest.mark.parametrize("case", [c for c in CASES if len(c.input) == 3], ids=str)
def test_no_layout_changes_a_convolution_of_rank_3(case, layout):
    got = run("quantized_linear_convolution", case, layout)
    assert_same(got, wanted(case, "quantized_linear_convolution"))


def wanted(case, operator):
    """The oracle's result; for no images an empty array, since the oracle takes none."""
    if case.input[0]:
        return expected(case, operator)
    dtype = np.int32 if operator == "convolution_integer" else case.dtypes[2]
    return np.zeros((0, 2, 3, 3), dtype)


def test_the_table_reaches_both_ends_of_the_range_and_between():
    outputs = [expected(case, "quantized_linear_convolution") for case in SQUARE if case.input[0]]
    unsigned = np.concatenate([y.ravel() for y in outputs if y.dtype == np.uint8])
    signed = np.concatenate([y.ravel() for y in outputs if y.dtype == np.int8])
    assert {0, 255} < set(unsigned.tolist())
    assert {-128, 127} < set(signed.tolist())
    assert len(np.unique(unsigned)) > 150
    assert len(np.unique(signed)) > 150


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("images", [1, 3, 7, 8])
def test_a_batch_in_parts_is_the_batch_at_once(images, layout):
    """A 15x17 image has about half the columns that a part should have."""
    x, w = draw(20, np.uint8, (images, 3, 15, 17)), draw(21, np.uint8, (4, 3, 2, 2))
    order = LAYOUTS[layout]
    got = dmlax.convolution_integer(
        laid_out(x, "NCHW", order[0]),
        laid_out(w, "OIHW", order[1]),
        input_zero_point=np.uint8(7),
        filter_zero_point=np.uint8(130),
        dimension_numbers=order,
    )
    assert_same(laid_out(np.asarray(got), order[2], "NCHW"), sums_of_products(x, w, 7, 130))


EXTREMES = {"uint8": (0, 255), "int8": (-128, 127)}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("x_dtype", EXTREMES)
@pytest.mark.parametrize("w_dtype", EXTREMES)
def test_accumulators_above_2_to_the_24_are_exact(x_dtype, w_dtype, layout):
    x = np.full((1, 1024, 3, 3), EXTREMES[x_dtype][1], x_dtype)
    w = np.full((2, 1024, 3, 3), EXTREMES[w_dtype][1], w_dtype)
    w[1], x[0, 0, 0, 0] = EXTREMES[w_dtype][0], 1
    zx, zw = EXTREMES[x_dtype][0], np.array(EXTREMES[w_dtype], w_dtype)
    order = LAYOUTS[layout]
    got = dmlax.convolution_integer(
        *(laid_out(x, "NCHW", order[0]), laid_out(w, "OIHW", order[1])),
        input_zero_point=zx,
        filter_zero_point=zw,
        dimension_numbers=order,
    )
    expected = sums_of_products(x, w, zx, zw)
    assert np.abs(expected).min() > 2**24
    assert (expected.astype(np.float32).astype(np.int64) != expected).all()
    assert_same(laid_out(np.asarray(got), order[2], "NCHW"), expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_accumulators_beyond_int32_wrap(implementation):
    x = np.full((1, 33_100, 1, 1), 255, np.uint8)
    w = np.full((1, 33_100, 1, 1), 255, np.uint8)
    got = dmlax.convolution_integer(x, w, implementation=implementation)
    assert got.tolist() == [[[[33_100 * 255 * 255 - 2**32]]]]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_depthwise_accumulator_is_exact_with_a_large_kernel(implementation):
    x, w = draw(22, np.uint8, (1, 2, 14, 14)), draw(23, np.int8, (2, 1, 11, 11))
    got = dmlax.convolution_integer(x, w, group_count=2, implementation=implementation)
    assert_same(got, sums_of_products(x, w, group_count=2))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("above", [0, 2])
def test_a_bias_is_added_before_the_scales_and_wraps(implementation, above):
    """Accumulators are the bias, and the filter's sums so many times, modulo 2**32."""
    bias = np.array([-(2**31), -(2**31) + 1, -5, 0, 3, 2**31 - 1], np.int32)
    x, w = np.full((1, 2, 1, 1), 9 + above, np.uint8), draw(24, np.int8, (6, 2, 1, 1))
    scales = np.float32(2**-10), np.float32([2**-15, 2**-15, 512, 1, 512, 2**-15]), np.float32(1)
    names = dict(zip(("input_scale", "filter_scale", "output_scale"), scales, strict=True))
    options = {"input_zero_point": 9, "output_dtype": "int8", "implementation": implementation}
    got = dmlax.quantized_linear_convolution(x, w, bias, **names, **options)
    sums = bias.astype(np.int64) + above * w.reshape(6, 2).sum(axis=1, dtype=np.int64)
    wanted = requantized(sums.astype(np.int32), scales, 0, np.int8)
    assert_same(np.asarray(got).reshape(-1), wanted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("case", [CASES[1], CASES[14]], ids=str)
def test_float32_arithmetic_is_numpys(case, implementation):
    values = operands(case)
    got = CONVOLUTIONS["quantized_linear_convolution"](
        *(case, values["InputTensor"], values["FilterTensor"]),
        arithmetic="float32",
        implementation=implementation,
    )
    channel = (-1, 1, 1)
    accumulator = expected(case, "convolution_integer") + values["BiasTensor"].reshape(channel)
    sx, sw, sy = (values[f"{n}ScaleTensor"] for n in ("Input", "Filter", "Output"))
    product = accumulator.astype(np.float32) * (sx * sw / sy).reshape(channel)
    limits = np.iinfo(case.dtypes[2])
    wanted = np.clip(
        np.rint(product) + int(values["OutputZeroPointTensor"]), limits.min, limits.max
    )
    assert_same(got, wanted.astype(case.dtypes[2]))


def test_window_options_follow_the_filters_spatial_axes_as_in_lax():
    x, w = draw(25, np.uint8, (1, 2, 7, 9)), draw(26, np.int8, (3, 2, 2, 3))
    windows = {
        "strides": (2, 1),
        "dilations": (1, 3),
        "start_padding": (0, 2),
        "end_padding": (1, 0),
    }
    layout = ("NCHW", "OIWH", "NCHW")
    swapped = {name: value[::-1] for name, value in windows.items()}
    got = dmlax.convolution_integer(x, w.swapaxes(2, 3), dimension_numbers=layout, **swapped)
    assert_same(got, sums_of_products(x, w, **windows))


def test_a_rank_3_convolution_is_the_rank_4_one_with_a_row():
    case = next(case for case in CASES if case.name == "rank 3")
    values = operands(case)
    x, w = values["InputTensor"], values["FilterTensor"]
    narrow = convolve_integer(case, x, w, dimension_numbers=NARROW)
    options = {k: (1 if k == "strides" else 0, *v) for k, v in case.windows}
    wide = dmlax.convolution_integer(
        x[:, :, None], w[:, :, None], **keywords(values, *ZERO_POINTS), **options
    )
    assert_same(narrow, np.asarray(wide)[:, :, 0])
