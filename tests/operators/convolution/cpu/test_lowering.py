"""The native convolutions: calls of the kernel, threads, refusals."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support.raw_calls import GOOD

TARGET = "dmlax_convolution_v1"
SCALES = {"input_scale": 0.1, "filter_scale": 0.2, "output_scale": 3.0}


def test_padded_copies_of_many_images_are_made_some_at_a_time():
    x = np.random.default_rng(0).integers(0, 256, (130, 64, 64, 64), np.uint8)
    filter = np.random.default_rng(1).integers(-128, 128, (3, 3, 64, 1), np.int8)

    def call(x):
        numbers = ("NHWC", "HWIO", "NHWC")
        return dmlax.convolution_integer(x, filter, dimension_numbers=numbers, padding="SAME")

    np.testing.assert_array_equal(call(x), np.concatenate([call(x[:65]), call(x[65:])]))


def layer(batch=2):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (batch, 16, 20, 20), np.uint8)
    w = rng.integers(-128, 128, (24, 16, 3, 3), np.int8)
    return x, w, rng.integers(-1000, 1000, 24, np.int32)


def test_vmap_is_one_call_of_the_kernel():
    x, w, bias = layer()

    def call(x, implementation):
        return dmlax.quantized_linear_convolution(
            x[None], w, bias, **SCALES, implementation=implementation
        )

    mapped = jax.jit(jax.vmap(lambda x: call(x, "native_cpu")))
    text = mapped.lower(x).as_text()
    assert text.count(f"@{TARGET}(") == 1
    assert "while" not in text.split(TARGET)[1]
    np.testing.assert_array_equal(mapped(x), [call(image, "xla") for image in x])


@pytest.mark.parametrize("layouts", [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NHWC", "NHWC")])
@pytest.mark.parametrize(("kernel", "dtype"), [((7, 7), np.uint8), ((2, 11), np.int8)])
def test_a_first_layer_of_three_channels_is_exact(layouts, kernel, dtype):
    """The kernel's windows are short lines, the last of which end where the input does."""
    rng = np.random.default_rng(7)
    x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (2, 31, 45, 3), dtype)
    w = rng.integers(-128, 128, (*kernel, 3, 70), np.int8)
    sums = dmlax.convolution_integer(
        x if layouts[0] == "NHWC" else np.moveaxis(x, 3, 1),
        w,
        input_zero_point=dtype(3),
        strides=2,
        start_padding=(1, 2),
        dimension_numbers=(layouts[0], "HWIO", layouts[1]),
        implementation="native_cpu",
    )
    padded = np.pad(x - np.int32(3), [(0, 0), (1, 0), (2, 0), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, (1, 2))[:, ::2, ::2]
    expected = np.einsum("nyxcij,ijco->nyxo", windows, np.int32(w))
    found = sums if layouts[1] == "NHWC" else np.moveaxis(sums, 1, 3)
    np.testing.assert_array_equal(found, expected)


PATCHES = [  # kernel, channels; panels hold the depth without gaps if a kernel row is whole words
    *(((4, 16), 3), ((3, 4), 1), ((2, 2), 2), ((2, 34), 2)),
    *(((3, 5), 3), ((2, 3), 2), ((7, 7), 3)),
]


@pytest.mark.parametrize("packing", ["rows", "panels"])
@pytest.mark.parametrize(("kernel", "channels"), PATCHES)
def test_patches_of_few_channels_are_exact(kernel, channels, packing):
    rng = np.random.default_rng(11)
    x = rng.integers(0, 256, (2, 3 * kernel[0], 3 * kernel[1], channels), np.uint8)
    w = rng.integers(-128, 128, (*kernel, channels, 70), np.int8)
    layouts = ("NHWC", "HWIO", "NHWC")
    prepared = dmlax.prepare_filter(w, dimension_numbers=layouts, packing=packing)
    sums = dmlax.convolution_integer(
        x, prepared, input_zero_point=np.uint8(3), strides=kernel, implementation="native_cpu"
    )
    shape = (2, 3, kernel[0], 3, kernel[1], channels)
    patches = (x - np.int32(3)).reshape(shape)
    np.testing.assert_array_equal(sums, np.einsum("nyixjc,ijco->nyxo", patches, np.int32(w)))


@pytest.mark.parametrize(("kernel", "dilation"), [((1, 1), 1000), ((2, 1), 90), ((3, 2), 45)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_depthwise_taps_far_apart_are_met(kernel, dilation, stride):
    rng = np.random.default_rng(stride)
    x = rng.integers(0, 256, (1, 5, 200, 190), np.uint8)
    w = rng.integers(-128, 128, (5, 1, *kernel), np.int8)
    ours, theirs = (
        dmlax.convolution_integer(
            *(x, w),
            strides=(stride, stride),
            dilations=(dilation, dilation),
            start_padding=(1, 1),
            input_zero_point=9,
            group_count=5,
            implementation=implementation,
        )
        for implementation in ("native_cpu", "xla")
    )
    np.testing.assert_array_equal(ours, theirs)


def test_a_prepared_filter_is_not_packed_again():
    x, w, bias = layer()
    prepared = dmlax.prepare_filter(jnp.asarray(w))
    call = jax.jit(lambda x, w: dmlax.quantized_linear_convolution(x, w, bias, **SCALES))
    assert "transpose" in call.lower(x, w).as_text()
    assert "transpose" not in call.lower(x, prepared).as_text()
    np.testing.assert_array_equal(call(x, w), call(x, prepared))


def test_the_handler_sums_the_rows_of_a_filter_that_is_not_prepared():
    x, w, bias = layer()
    given = SCALES | {"input_zero_point": 3, "filter_zero_point": 5}
    call = jax.jit(lambda x, w: dmlax.quantized_linear_convolution(x, w, bias, **given))
    assert "reduce" not in call.lower(x, w).as_text()
    reference = dmlax.quantized_linear_convolution(x, w, bias, **given, implementation="reference")
    np.testing.assert_array_equal(call(x, w), reference)


def windows(**changes):
    """Kernel, strides, dilations, start and end padding: two of each, the first two changed."""
    names = ("kernel", "strides", "dilations", "start", "end")
    good = dict(zip(names, GOOD.attributes["windows"].reshape(5, 2).tolist(), strict=True))
    return GOOD.with_attributes(
        windows=np.array([*(good | changes).values()], np.int64).reshape(-1)
    )


def test_a_valid_call_of_the_handler_is_answered():
    assert GOOD().shape == (1, 4, 3, 3)
    assert windows(kernel=[2, 2])().shape == (1, 4, 3, 3)


INVALID_CALLS = {
    "input's rank": (
        GOOD.with_operands(input=((1, 2, 16), "uint8")),
        "operand 0 is not of the batch's",
    ),
    "input's type": (GOOD.with_operands(input=((1, 2, 4, 4), "int16")), "of another element type"),
    "input's zero's type": (
        GOOD.with_operands(input_zero=((1,), "int8")),
        "element type is not the",
    ),
    "channels": (GOOD.with_operands(input=((1, 3, 4, 4), "uint8")), "not taps times channels"),
    "filter's depth": (GOOD.with_operands(filter=((4, 9), "int8")), "not taps times channels"),
    "filter's rows": (GOOD.with_operands(filter=((5, 8), "int8")), "and the filter's channels"),
    "no rows": (GOOD.with_operands(filter=((0, 8), "int8")), "groups do not divide the channels"),
    "filter's type": (GOOD.with_operands(filter=((4, 8), "uint8")), "of another element type"),
    "few sums": (GOOD.with_operands(sums=((3,), "int32")), "neither one value nor one per"),
    "sums' type": (
        GOOD.with_operands(sums=((4,), "float32")),
        "element type is not the operator's",
    ),
    "few zeros": (GOOD.with_operands(filter_zero=((3,), "int8")), "neither one value nor one per"),
    "two input zeros": (
        GOOD.with_operands(input_zero=((2,), "uint8")),
        "neither one value nor one per",
    ),
    "one bias": (GOOD.with_operands(bias=((1,), "int32")), "neither one value nor one per"),
    "no scale": (
        GOOD.with_operands(filter_scale=((0,), "float32")),
        "neither one value nor one per",
    ),
    "scale's type": (
        GOOD.with_operands(output_scale=((1,), "int32")),
        "element type is not the operator's",
    ),
    "groups": (GOOD.with_attributes(groups=np.int64(3)), "groups do not divide the channels"),
    "no group": (GOOD.with_attributes(groups=np.int64(0)), "groups do not divide the channels"),
    "few windows": (
        GOOD.with_attributes(windows=np.ones(9, np.int64)),
        "the output is not of rank 4",
    ),
    "no stride": (windows(strides=[0, 1]), "windows do not fit"),
    "a negative padding": (windows(start=[-1, 0]), "windows do not fit"),
    "a large kernel": (windows(kernel=[5, 2]), "windows do not fit"),
    "a huge dilation": (windows(dilations=[2**62, 1]), "windows do not fit"),
    "a huge padding": (windows(end=[2**62, 0]), "windows do not fit"),
    "output's size": (replace(GOOD, output=((1, 4, 4, 3), "uint8")), "windows do not fit"),
    "output's images": (replace(GOOD, output=((2, 4, 3, 3), "uint8")), "is not of the input's"),
    "output's rank": (replace(GOOD, output=((4, 3, 3), "uint8")), "the output is not of rank 4"),
    "output's type": (replace(GOOD, output=((1, 4, 3, 3), "int16")), "of another element type"),
    "batch": (replace(GOOD, output=((2, 1, 4, 3, 3), "uint8")), "operand 0 is not of the batch's"),
}


@pytest.mark.parametrize("name", INVALID_CALLS)
def test_what_does_not_fit_is_refused_before_it_is_read(name):
    call, message = INVALID_CALLS[name]
    with pytest.raises(Exception, match=f"convolution: .*{message}"):
        jax.block_until_ready(call())


@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "stride"),
    [(512, 512, 3, 1), (1024, 2048, 1, 2), (512, 2048, 1, 1)],
)
def test_panels_that_take_more_memory_than_the_image_are_exact(channels, outputs, kernel, stride):
    """Threads read panels of their own, and fetch the next while they multiply one."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (1, 7 * stride, 7 * stride, channels), np.uint8)
    w = rng.integers(-128, 128, (outputs, channels, kernel, kernel), np.int8)
    layouts = "NHWC", "OIHW", "NHWC"
    call = partial(
        dmlax.quantized_linear_convolution,
        **SCALES | {"output_scale": 500.0},
        input_zero_point=np.uint8(117),
        strides=stride,
        padding="SAME",
        dimension_numbers=layouts,
    )
    prepared = dmlax.prepare_filter(w, dimension_numbers=layouts, packing="auto")
    found = jax.jit(partial(call, implementation="native_cpu"))(x, prepared)
    np.testing.assert_array_equal(found, jax.jit(partial(call, implementation="xla"))(x, w))
