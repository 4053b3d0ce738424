"""Observers, the parameters that they give, weights, biases and the report of errors."""

import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax
from dmlax import calibration, training

OBSERVERS = {
    "min_max": calibration.min_max,
    "moving_average": functools.partial(calibration.moving_average, 0.5),
    "percentile": functools.partial(calibration.percentile, 99.0, bins=256),
    "mse": functools.partial(calibration.mse, bins=256),
}
BATCHES = np.random.default_rng(0).normal(size=(4, 2, 3, 40)).astype(np.float32)
BATCHES *= np.exp2(np.arange(4.0, dtype=np.float32))[:, None, None, None]


def after(observer, batches):
    return functools.reduce(lambda seen, batch: seen.observe(batch), batches, observer)


@pytest.mark.parametrize("name", ["moving_average", "mse"])
def test_a_scan_sees_what_a_loop_sees(name):
    """A histogram's bins become wider with each of these tensors."""
    start = OBSERVERS[name](axis=1, channels=3)

    @jax.jit
    def scanned(start, batches):
        return lax.scan(lambda seen, batch: (seen.observe(batch), None), start, batches)[0]

    observer = scanned(start, BATCHES)
    for found, wanted in zip(*map(jax.tree.leaves, (observer, after(start, BATCHES))), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["min_max", "percentile"])
def test_channels_have_a_scale_each_or_one_together(name):
    observer = after(OBSERVERS[name](axis=1, channels=3), BATCHES)
    several = calibration.quantization(observer, np.int8, symmetric=True)
    assert several.scale.shape == several.zero_point.shape == (3,)
    assert (several.scale.dtype, several.zero_point.dtype) == (np.float32, np.int8)
    one = calibration.quantization(observer, per_channel=False)
    whole = calibration.quantization(after(OBSERVERS[name](), BATCHES))
    assert one.scale.shape == ()
    np.testing.assert_array_equal(one.scale, whole.scale)
    assert one.zero_point == whole.zero_point


def test_a_histogram_counts_what_wide_bins_would_have_counted():
    x = np.random.default_rng(1).normal(size=3000).astype(np.float32) ** 3
    parts = np.split(np.sort(x)[np.argsort(np.abs(np.sort(x)))], 10)  # ever larger values
    observer = after(calibration.percentile(bins=64), [np.zeros(5, np.float32), *parts])
    width = 2.0 ** int(observer.exponent[0])
    edges = (np.arange(65) - 32) * width
    counts, _ = np.histogram(np.append(x, np.zeros(5)), edges)
    np.testing.assert_array_equal(observer.counts[0], counts)
    assert np.abs(x).max() >= 16 * width
    assert observer.counts.sum() == 3005


@pytest.mark.parametrize("size", [1e-30, 1.0, 3e38])
def test_a_histogram_has_bins_for_every_magnitude(size):
    x = np.float32([0.25, -0.5, 1, 1, 1]) * np.float32(size)
    observer = calibration.percentile(100.0, bins=4096).observe(x)
    exact = calibration.min_max().observe(x)
    np.testing.assert_array_equal(
        calibration.quantization(observer).scale, calibration.quantization(exact).scale
    )


@pytest.mark.parametrize("kept", [50.0, pytest.param(99.0, marks=pytest.mark.slow)])
def test_a_percentile_is_numpys_within_a_bin(kept):
    x = np.random.default_rng(2).gamma(2, size=20_000).astype(np.float32) - 1
    observer = calibration.percentile(kept).observe(x)
    width = 2.0 ** float(observer.exponent[0])
    low, high = np.percentile(x, [(100 - kept) / 2, 50 + kept / 2])
    found = calibration.quantization(observer)
    wanted = (max(high, 0) - min(low, 0)) / 255
    np.testing.assert_allclose(found.scale, wanted, atol=3 * width / 255)


def test_mse_has_no_greater_error_than_min_max_or_percentiles():
    x = np.random.default_rng(3).standard_t(3, size=20_000).astype(np.float32)
    errors = {}
    for name, observer in {
        "mse": calibration.mse(),
        "min_max": calibration.min_max(),
        **{str(kept): calibration.percentile(kept) for kept in (99.0, 99.9, 99.99)},
    }.items():
        scale, _ = calibration.quantization(observer.observe(x), np.int8, symmetric=True)
        quantized = dmlax.element_wise_quantize_linear(x, scale, output_dtype=np.int8)
        real = dmlax.element_wise_dequantize_linear(quantized, scale)
        errors[name] = float(np.square(x - real).sum())
    best = errors.pop("mse")
    assert best <= 1.02 * min(errors.values())
    assert best < 0.9 * errors["min_max"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("low", "high"), [(-1, 3), (2, 3), (-3, -2), (0, 0), (-5, 0)])
def test_the_range_and_zero_are_representable(dtype, symmetric, low, high):
    x = np.float32([low, high])
    observer = calibration.min_max().observe(x)
    scale, zero_point = calibration.quantization(observer, dtype, symmetric=symmetric)
    assert zero_point.dtype == dtype
    quantized = dmlax.element_wise_quantize_linear(x, scale, zero_point)
    real = dmlax.element_wise_dequantize_linear(quantized, scale, zero_point)
    np.testing.assert_allclose(real, x, atol=0.5001 * float(scale))
    if symmetric:
        assert int(zero_point) == (0 if dtype == np.int8 else 128)
    if low == high == 0:
        assert float(scale) == 1
    else:
        reach = max(-low, high) / 127 if symmetric else (max(high, 0) - min(low, 0)) / 255
        np.testing.assert_allclose(scale, reach, rtol=1e-6)


def test_zero_points_are_those_of_dynamic_quantization():
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=50).astype(np.float32) + seed
        found = calibration.quantization(calibration.min_max().observe(x), np.uint8)
        wanted = dmlax.dynamic_quantize_linear(x)
        np.testing.assert_allclose(found.scale, wanted.scale, rtol=1e-6)
        assert found.zero_point == wanted.zero_point


def test_a_moving_average_begins_with_the_first_tensor():
    observer = calibration.moving_average(0.75).observe(np.float32([-4, 8]))
    assert (observer.low[0], observer.high[0]) == (-4, 8)
    observer = observer.observe(np.float32([0, 0]))
    assert (observer.low[0], observer.high[0]) == (-3, 6)


def test_weights_have_a_scale_for_each_channel():
    weights = np.random.default_rng(4).normal(size=(3, 2, 5)).astype(np.float32)
    weights[1] = 0
    found = calibration.quantize_weights(weights)
    np.testing.assert_array_equal(np.abs(found.values).max((1, 2)), [127, 0, 127])
    assert found.scale[1] == 1
    real = np.float32(found.values) * np.asarray(found.scale)[:, None, None]
    np.testing.assert_allclose(real, weights, atol=0.02)
    last = calibration.quantize_weights(weights, axis=-1, dtype=np.uint8, symmetric=False)
    assert last.scale.shape == (5,)
    assert last.values.dtype == last.zero_point.dtype == np.uint8
    assert calibration.quantize_weights(weights, axis=None).scale.shape == ()
    clipped = calibration.quantize_weights(weights, observer=calibration.mse(axis=0, channels=3))
    assert (clipped.scale <= found.scale).all()


@pytest.mark.parametrize("bits", [2, 4, 7, 8])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_weights_of_few_bits_have_the_scale_of_their_integers(bits, dtype):
    weights = np.random.default_rng(6).normal(size=(3, 40)).astype(np.float32)
    found = calibration.quantize_weights(weights, axis=0, bits=bits, dtype=dtype)
    most, zero = 2 ** (bits - 1) - 1, 0 if dtype == np.int8 else 2 ** (bits - 1)
    np.testing.assert_array_equal(found.zero_point, [zero] * 3)
    integers = np.int32(found.values) - zero
    np.testing.assert_array_equal(np.abs(integers).max(1), [most] * 3)
    assert found.values.dtype == dtype
    scale = np.asarray(found.scale)[:, None]
    assert (np.abs(integers * scale - weights) <= 0.5001 * scale).all()
    options = {"axis": 0, "bits": bits, "dtype": dtype}
    levels = calibration.quantize_weights(weights, symmetric=False, **options).values
    assert (np.ptp(np.int32(levels), axis=1) == 2**bits - 1).all()
    clipping = calibration.percentile(50, axis=0, channels=3)
    clipped = calibration.quantize_weights(weights, bits=bits, dtype=dtype, observer=clipping)
    integers = np.int32(clipped.values) - zero
    assert (integers.min(), integers.max()) == (-most - 1, most)


def test_the_scale_of_weights_has_no_gradient():
    def total(weights):
        return calibration.quantize_weights(weights, axis=0).scale.sum()

    assert not jax.grad(total)(jnp.ones((2, 3))).any()


def test_four_bits_are_the_remedy_for_the_dtype_int4():
    message = "quantize_weights: dtype is int4, expected int8 or uint8, also for the `bits` of"
    with pytest.raises(dmlax.SpecError, match=message):
        calibration.quantize_weights(np.ones((2, 2), np.float32), axis=0, dtype=jnp.int4)


def test_parameters_for_the_wrong_axis_are_told_the_right_one():
    weights = np.ones((3, 3, 2, 8), np.float32)
    scales = calibration.keywords(filter=calibration.quantize_weights(weights))
    x, layouts = np.ones((1, 5, 5, 2), np.float32), ("NHWC", "HWIO", "NHWC")
    wrong = r"FilterZeroPointTensor is int8\[3\], expected one value or 8, one per output channel, "
    wrong += r"axis 3 of FilterTensor int8\[3,3,2,8\] by dimension_numbers"
    with pytest.raises(dmlax.SpecError, match=wrong):
        training.quantized_linear_convolution(
            x, weights, input_scale=1.0, output_scale=1.0, dimension_numbers=layouts, **scales
        )
    rows = calibration.quantize_weights(weights[0, 0], axis=0)
    wrong = "keywords: b has scales along axis -2, expected -1: quantize_weights\\(b, axis=-1\\)"
    with pytest.raises(dmlax.SpecError, match=wrong):
        calibration.keywords(b=rows)
    scales = calibration.keywords(b=calibration.Quantization(*rows[1:]))
    wrong = r"BZeroPointTensor is int8\[2\], .*, the last axis of BTensor int8\[2,8\]"
    with pytest.raises(dmlax.SpecError, match=wrong):
        training.quantized_linear_matrix_multiply(
            x, weights[0, 0], a_scale=1.0, output_scale=1.0, **scales
        )


def test_a_bias_is_rounded_half_to_even_and_saturates():
    bias = np.float32([0.5, 1.5, -2.5, 1e30, -1e30, 2**31])
    found = calibration.quantize_bias(bias, input_scale=2.0, filter_scale=np.float32([0.5] * 6))
    assert found.tolist() == [0, 2, -2, 2**31 - 1, -(2**31), 2**31 - 1]
    filter_scale = np.float32([0.25, 0.5]).reshape(1, 2, 1, 1)
    two = calibration.quantize_bias(bias[:2], input_scale=1.0, filter_scale=filter_scale)
    assert two.tolist() == [2, 3]


def test_bias_correction_removes_the_mean_error_of_each_channel():
    expected = np.random.default_rng(5).normal(size=(7, 3, 2, 2)).astype(np.float32)
    shift = np.float32([0.5, -1, 0])
    actual = expected + shift[:, None, None]
    found = calibration.corrected_bias(np.float32([1, 2, 3]), expected, actual)
    np.testing.assert_allclose(found, np.float32([1, 2, 3]) - shift, atol=1e-5)
    with pytest.raises(dmlax.SpecError, match=r"actual has shape \(7, 3\)") as caught:
        calibration.corrected_bias(shift, expected, actual[:, :, 0, 0])
    assert caught.value.code == "sizes"
    last = [np.moveaxis(x, 1, -1) for x in (expected, actual)]
    channels = r"bias has shape \(3,\), expected one value for each channel, axis 1 of `expected`"
    with pytest.raises(dmlax.SpecError, match=channels):
        calibration.corrected_bias(shift, *last)
    np.testing.assert_allclose(
        calibration.corrected_bias(shift, *last, axis=-1), np.zeros(3), atol=1e-5
    )


def test_the_report_has_a_row_for_each_layer():
    expected = {"a": np.float32([3, 4]), "last one": np.zeros(2, np.float32)}
    report = calibration.error_report(expected, {"last one": np.ones(2), "a": np.float32([3, 4.5])})
    first, last = report.layers
    assert (first.name, first.greatest, first.mean) == ("a", 0.5, 0.25)
    np.testing.assert_allclose(first.signal_to_noise, 20)
    assert last.signal_to_noise == -np.inf
    assert str(report).splitlines()[1] == "a         20.0 dB          0.5             0.25"
    for actual, code in (({"a": 1}, "option"), ({"a": np.ones(3), "last one": 1}, "sizes")):
        with pytest.raises(dmlax.SpecError) as caught:
            calibration.error_report(expected, actual)
        assert (caught.value.code, caught.value.field) == (code, "actual")
    names = r"actual has the extra names \['b'\], and lacks \['last one'\] of `expected`"
    with pytest.raises(dmlax.SpecError, match=names):
        calibration.error_report(expected, {"a": np.ones(2), "b": np.ones(2)})


EMPTY = {name: make() for name, make in OBSERVERS.items()}
NAN = calibration.min_max().observe(np.float32([1, np.nan]))
SQUARE = np.ones((3, 3), np.float32)
WRONG = {
    **{
        f"nothing: {name}": (functools.partial(calibration.quantization, seen), "value", "observer")
        for name, seen in EMPTY.items()
    },
    "NaN": (lambda: calibration.quantization(NAN), "value", "observer"),
    "dtype": (
        lambda: calibration.quantization(EMPTY["mse"], np.int16),
        "data_type",
        "dtype",
    ),
    "channels": (
        lambda: calibration.quantization(EMPTY["min_max"], per_channel=True),
        "option",
        "per_channel",
    ),
    "an array": (lambda: calibration.quantization(np.ones(3)), "option", "observer"),
    "a tuple": (lambda: calibration.keywords(a=(1.0, 0)), "option", "a"),
    "9 bits": (
        lambda: calibration.quantize_weights(np.ones((2, 2), np.float32), axis=0, bits=9),
        "option",
        "bits",
    ),
    "no size": (lambda: calibration.min_max(axis=1), "option", "channels"),
    "bins": (lambda: calibration.mse(bins=100), "option", "bins"),
    "no axis": (lambda: calibration.quantize_weights(SQUARE), "option", "axis"),
    "an axis too many": (lambda: calibration.quantize_weights(SQUARE, axis=2), "option", "axis"),
    "another axis": (
        lambda: calibration.quantize_weights(
            SQUARE, axis=0, observer=calibration.min_max(axis=1, channels=3)
        ),
        "option",
        "observer",
    ),
    "another axis of b": (
        lambda: calibration.keywords(b=calibration.quantize_weights(SQUARE, axis=0)),
        "option",
        "b",
    ),
    "kept": (lambda: calibration.percentile(101), "option", "kept"),
    "a share": (lambda: calibration.percentile(0.999), "option", "kept"),
    "momentum": (lambda: calibration.moving_average(-0.1), "option", "momentum"),
    "sizes": (
        lambda: calibration.min_max(axis=1, channels=3).observe(np.ones((3, 2), np.float32)),
        "sizes",
        "x",
    ),
    "scale": (
        lambda: calibration.quantize_bias(np.ones(1, np.float32), input_scale=0, filter_scale=1.0),
        "value",
        "InputScaleTensor",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused(name):
    call, code, field = WRONG[name]
    with pytest.raises(dmlax.SpecError) as caught:
        call()
    assert (caught.value.code, caught.value.field) == (code, field)


def test_a_traced_observer_that_saw_nothing_gives_nan():
    scale, _ = jax.jit(calibration.quantization)(EMPTY["min_max"])
    assert jnp.isnan(scale)


def test_keywords_name_the_scale_and_the_zero_point_of_each_tensor():
    weights = calibration.quantize_weights(jnp.float32([[1.0], [-2.0]]), axis=-1)
    activations = calibration.Quantization(jnp.float32(0.5), jnp.uint8(7))
    assert calibration.keywords(a=activations, b=weights) == {
        "a_scale": activations.scale,
        "a_zero_point": activations.zero_point,
        "b_scale": weights.scale,
        "b_zero_point": weights.zero_point,
    }


@pytest.mark.parametrize("axis", [0, -1, None])
def test_weights_remember_their_axis(axis):
    weights = calibration.quantize_weights(jnp.arange(9.0).reshape(3, 3), axis=axis)
    wanted = None if axis is None else axis % 2 - 2
    mapped = jax.vmap(lambda w: calibration.quantize_weights(w, axis=axis))(jnp.ones((4, 3, 3)))
    copies = (jax.tree.map(jnp.array, weights), copy.deepcopy(weights), mapped)
    assert {x.axis for x in (weights, jax.jit(lambda x: x)(weights), *copies)} == {wanted}
    values, scale, zero_point = weights
    assert values is weights.values
    assert scale.shape == zero_point.shape
