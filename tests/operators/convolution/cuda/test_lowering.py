"""The Hopper kernels of the convolutions: lowered on a CPU, refused where they cannot run.

tests/support/calls/convolution.py compares what they compute, on a GPU.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core.arguments import Aval
from dmlax._operators.convolution.cuda import lowering
from support import shaped
from support.calls.convolution import call as random_call
from support.cases.convolution import integer_plan

LAST = ("NHWC", "OIHW", "NHWC")
SCALES = {"input_scale": 0.1, "filter_scale": 0.2, "output_scale": 3.0}
named = partial(
    dmlax.quantized_linear_convolution,
    **SCALES,
    dimension_numbers=LAST,
    implementation="mosaic_gpu",
)


def plan(input=(2, 8, 9, 64), filter=(32, 64, 3, 3), groups=1, padding=1, strides=1):
    """Plan of convolution_integer, channels last, that pads and strides alike along both axes."""
    x, w = Aval(jnp.dtype(jnp.uint8), input), Aval(jnp.dtype(jnp.int8), filter)
    return integer_plan(x, w, LAST, groups, (strides,) * 2, (1, 1), ((padding, padding),) * 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"input": (2**14, 512, 512, 4), "filter": (1, 4, 1, 1), "padding": 0}, "2,147,483,648"),
        (
            {"input": (1, 2**16, 2**14, 4), "filter": (1, 4, 1, 1), "padding": 0},
            "a padded image or the",
        ),
        ({"input": (1, 0, 8, 4), "filter": (1, 4, 3, 3), "padding": 2}, "input is empty"),
        ({"input": (1, 8, 8, 4), "filter": (1, 4, 1, 1), "padding": 2**14}, "a padded image"),
        ({"input": (1, 40, 40, 8), "filter": (8, 1, 5, 13), "groups": 8}, "more than 64 taps"),
        ({"input": (1, 40, 40, 8), "filter": (8, 8, 16, 17)}, "add up to more than 32"),
        ({"input": (1, 1, 1, 1), "filter": (2**27 + 1, 1, 1, 1), "padding": 0}, "or the filter"),
    ],
)
def test_what_a_kernel_cannot_take_is_refused_in_a_sentence(attached, options, sentence):
    why = lowering.why_not(plan(**options), "cuda")
    assert why is not None
    assert sentence in why


def test_a_long_kernel_runs_where_nothing_is_padded_or_channels_are_apart(attached):
    long = plan(input=(1, 40, 40, 8), filter=(8, 8, 16, 17), padding=0)
    apart = plan(input=(1, 40, 40, 8), filter=(8, 1, 1, 40), groups=8)
    assert lowering.why_not(long, "cuda") is lowering.why_not(apart, "cuda") is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", [*range(60), 150, 200, 250, 300])
def test_random_calls_are_lowered_to_one_kernel(lowered, seed):
    text = lowered(lambda: random_call(seed)("mosaic_gpu"))
    empty = 0 in random_call(seed).x.shape
    assert text.count("custom_call @mosaic_gpu") == (0 if empty else 1)
    assert "stablehlo.dot_general" not in text
    assert "stablehlo.while" not in text


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_merged_and_split_are_inverses(axis):
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    merged = lowering._merge_first_axis(jnp.asarray(x), axis)
    assert merged.shape[axis] == 2 * x.shape[axis + 1]
    np.testing.assert_array_equal(lowering._split_axis(merged, axis, 2), x)


@pytest.mark.parametrize(("outputs", "stored"), [(255, 256), (50, 52), (64, 64), (21, 21)])
def test_many_output_channels_are_stored_as_whole_words(lowered, outputs, stored):
    text = lowered(named, shaped(1, 4, 4, 16), shaped(outputs, 16, 1, 1, dtype="int8"))
    assert f"tensor<16x{stored}xui8>" in text


@pytest.mark.parametrize("channels", [4, 20, 32, 96, 144, 150, 192, 240, 384, 576, 672, 960, 1152])
def test_few_threads_of_a_depthwise_tile_are_idle(written, channels):
    from dmlax._operators.convolution.cuda import depthwise
    from dmlax._operators.convolution.cuda.problem import ConvProblem

    problem = ConvProblem.of(plan((2, 8, 9, channels), (channels, 1, 3, 3), channels))
    quads = -(-channels // 4)
    tile = depthwise.choose_tile(problem)
    assert min(quads, 16) <= tile.quads <= 64
    assert depthwise._busy(quads, tile) >= 0.93


@pytest.mark.parametrize(
    ("pixels", "channels", "outputs", "columns"), [(14, 1024, 256, 256), (7, 2048, 512, 128)]
)
def test_a_long_sum_takes_a_tile_for_each_multiprocessor(
    lowered, monkeypatch, pixels, channels, outputs, columns
):
    from dmlax._operators.convolution.cuda import kernel

    schedules, choose = [], kernel.choose_schedule
    monkeypatch.setattr(
        kernel, "choose_schedule", lambda *given: schedules.append(choose(*given)) or schedules[0]
    )
    x, w = shaped(128, pixels, pixels, channels), shaped(outputs, channels, 1, 1, dtype="int8")
    assert lowered(named, x, w).count("custom_call @mosaic_gpu") == 1
    tiles = [schedule.tile for schedule in schedules]
    assert [(tile.rows, tile.columns) for tile in tiles] == [(192, columns)]


@pytest.mark.parametrize(
    ("sizes", "slides"),
    [
        ({"input": (8, 224, 224, 3), "filter": (64, 3, 7, 7), "strides": 2, "padding": 3}, True),
        ({"input": (1, 224, 224, 3), "filter": (64, 3, 7, 7), "strides": 2, "padding": 3}, False),
        ({"input": (8, 56, 56, 64), "filter": (64, 64, 3, 3)}, True),
        ({"input": (8, 56, 56, 64), "filter": (64, 64, 3, 3), "padding": 0}, True),
        ({"input": (6, 56, 56, 64), "filter": (64, 64, 3, 3)}, False),
        ({"input": (8, 56, 56, 64), "filter": (64, 64, 3, 3), "strides": 2}, False),
        ({"input": (8, 56, 56, 64), "filter": (128, 64, 3, 3)}, False),
        ({"input": (8, 56, 56, 64), "filter": (64, 64, 1, 1), "padding": 0}, False),
        ({"input": (8, 56, 56, 64), "filter": (64, 64, 9, 9), "padding": 4}, False),
        ({"input": (8, 56, 900, 64), "filter": (64, 64, 3, 3)}, False),
        ({"input": (8, 56, 56, 128), "filter": (64, 64, 3, 3), "groups": 2}, False),
    ],
)
def test_windows_slide_where_filters_are_narrow_and_pixels_many(
    lowered, monkeypatch, sizes, slides
):
    from dmlax._operators.convolution.cuda import kernel

    taken, choose = [], kernel.choose_schedule
    monkeypatch.setattr(kernel, "choose_schedule", lambda *x: taken.append(x[0]) or choose(*x))
    options = {"padding": [(sizes.get("padding", 1),) * 2] * 2, "strides": sizes.get("strides", 1)}
    x, w = shaped(*sizes["input"]), shaped(*sizes["filter"], dtype="int8")
    call = partial(named, **options, group_count=sizes.get("groups", 1))
    assert lowered(call, x, w).count("custom_call @mosaic_gpu") == 1
    assert [product.sliding is not None for product in taken] == [slides]


@pytest.mark.parametrize(("channels", "taps"), [(16, (4, 4)), (16, (1, 8)), (64, (3, 3))])
def test_a_window_that_slides_has_its_taps_at_the_offsets_of_its_depth(written, channels, taps):
    from dmlax._cuda.tile import Sliding

    image = np.arange(12 * 10 * channels).reshape(12, 10, channels)
    sliding = Sliding(channels, 10, taps)
    flat, (rows, columns) = image.reshape(-1), taps
    for y, x in ((0, 0), (2, 1), (12 - rows, 10 - columns)):
        window = image[y : y + rows, x : x + columns].reshape(-1)
        start = (y * 10 + x) * channels
        found = [flat[start + sliding.offset(depth)] for depth in range(window.size)]
        assert found == window.tolist()
    last = (12 * 10 - sliding.pixels_beyond - 1) * channels + sliding.offset(window.size - 1)
    assert last == flat.size - 1


@pytest.mark.parametrize("sizes", [(8, 14, 14, 128), (8, 56, 56, 64)], ids=["gathered", "slide"])
@pytest.mark.parametrize(
    ("padding", "zero_point", "scratch"), [(1, None, 0), (1, 7, 1), (0, 7, 0), (0, None, 0)]
)
def test_zero_points_are_written_where_padding_is_not_zero(
    attached, written, sizes, padding, zero_point, scratch
):
    from dmlax._compile import find_kernels

    channels = sizes[-1]
    call = partial(
        named,
        padding=((padding,) * 2,) * 2,
        input_zero_point=None if zero_point is None else np.uint8(zero_point),
    )
    trace = jax.jit(call).trace(shaped(*sizes), shaped(64, channels, 3, 3, dtype="int8"))
    (kernel,) = find_kernels(trace.lower(lowering_platforms=("cuda",)))
    assert len(kernel.outputs) == 1 + scratch


@pytest.mark.parametrize(("zero_point", "scratch"), [(None, 0), (7, 1)])
def test_sums_of_windows_end_with_the_last_tap(attached, written, zero_point, scratch):
    """They are of nine taps of 16 bytes, and steps of more: what follows is the zero point."""
    from dmlax._compile import find_kernels

    zero_points = {"filter_zero_point": np.int8(3)}
    if zero_point is not None:
        zero_points["input_zero_point"] = np.uint8(zero_point)
    trace = jax.jit(partial(named, **zero_points)).trace(
        shaped(2, 8, 8, 16), shaped(32, 16, 3, 3, dtype="int8")
    )
    (kernel,) = find_kernels(trace.lower(lowering_platforms=("cuda",)))
    assert len(kernel.outputs) == 1 + scratch
