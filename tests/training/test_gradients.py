"""Gradients: the float operator's inside of the clamp, zero outside, LSQ's for scales."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from dmlax import training
from support import needs_kernels

SLOW = pytest.mark.slow
SCALES = {"input_scale": np.float32(0.1), "filter_scale": np.float32([0.02, 0.05, 0.03])}
OUTPUT = {"output_scale": np.float32(0.4), "output_zero_point": np.uint8(7)}


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def rounded(x, scale, low, high, zero=0):
    """Dequantized values, and whether the clamp leaves them alone."""
    levels = np.rint(x / scale) + zero
    return (np.clip(levels, low, high) - zero) * scale, (levels >= low) & (levels <= high)


def convolve(x, w, b, strides=(1, 1)):
    return lax.conv_general_dilated(x, w, strides, ((1, 1), (1, 1))) + b[:, None, None]


def average(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 1, 1), "VALID") / 4


CASES = {
    "quantized_linear_convolution": (
        (normal(1, 2, 3, 6, 6) * 6, normal(2, 3, 3, 3, 3) * 2, normal(3, 3) * 9),
        convolve,
        {**SCALES, "padding": ((1, 1), (1, 1))},
    ),
    "quantized_linear_matrix_multiply": (
        (normal(4, 2, 5, 7) * 6, normal(5, 7, 3) * 2, normal(6, 3)),
        lambda a, b, bias: a @ b + bias,
        {"a_scale": np.float32(0.1), "b_scale": SCALES["filter_scale"]},
    ),
    "element_wise_quantized_linear_add": (
        (normal(7, 4, 50) * 9, normal(8, 50) * 20),
        operator.add,
        {"a_scale": np.float32(0.13), "b_scale": np.float32(0.37)},
    ),
    "element_wise_quantized_linear_multiply": (
        (normal(9, 4, 50) * 9, normal(10, 50) * 20),
        operator.mul,
        {"a_scale": np.float32(0.13), "b_scale": np.float32(0.37)},
    ),
    "quantized_linear_average_pooling": (
        (normal(11, 2, 3, 6, 6) * 30,),
        average,
        {"input_scale": np.float32(0.0871), "window_size": 2},
    ),
    "quantized_linear_global_average_pooling": (
        (normal(12, 2, 40, 3, 3) * 30,),
        lambda x: x.mean((2, 3), keepdims=True),
        {"input_scale": np.float32(0.0871)},
    ),
}


def call_of(name, options):
    """The operator's function of its tensors and of all scales, by int8 inputs."""
    dtypes = {key.replace("scale", "dtype"): np.int8 for key in options if key.endswith("_scale")}

    def call(tensors, scales):
        return getattr(training, name)(
            *tensors, **{**options, **OUTPUT, **dtypes, "output_dtype": np.uint8, **scales}
        )

    return call


def scales_of(options):
    scales = {key: value for key, value in options.items() if key.endswith("_scale")}
    return {**scales, "output_scale": OUTPUT["output_scale"]}


@pytest.mark.parametrize("name", CASES)
def test_nan_gives_nan_where_the_float_operator_does_and_its_gradient_is_nan(name):
    tensors, compute, options = CASES[name]
    scales = scales_of(options)
    # Padding times NaN is NaN or 0, as XLA likes.
    inner = (..., *[slice(1, -1)] * 2) if "padding" in options else ...
    call = jax.jit(lambda *x: call_of(name, options)(x, scales))
    whole = call(*tensors)
    for i, tensor in enumerate(tensors):
        first = (0,) * tensor.ndim
        poisoned = [*tensors[:i], jnp.asarray(tensor).at[first].set(jnp.nan), *tensors[i + 1 :]]
        is_nan = np.isnan(compute(*poisoned))
        assert is_nan.any()
        assert name.startswith("quantized_linear_matrix") or not is_nan.all()
        wanted = np.where(is_nan, np.nan, whole)
        for got in (call(*poisoned), call_of(name, options)(poisoned, scales)):
            np.testing.assert_array_equal(got[inner], wanted[inner])
        gradient = jax.grad(lambda *x: call(*x).sum(), i)(*poisoned)
        assert np.isnan(gradient[first])
        if i == 0 and tensor.shape[0] > 1 and is_nan.ndim == tensor.ndim:
            assert np.isfinite(gradient[-1]).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, jnp.int4])
def test_nan_stays_nan_in_fake_quantization(dtype):
    x = jnp.float32([1, np.nan, 0.5])
    fake = lambda x, scale: training.fake_quantize(x, scale, dtype=dtype)  # noqa: E731
    for run in (fake, jax.jit(fake), jax.vmap(fake, (0, None))):
        np.testing.assert_array_equal(run(x, 0.25), x)
    sums = lambda x, scale: fake(x, scale).sum()  # noqa: E731
    np.testing.assert_array_equal(jax.grad(sums)(x, 0.25), [1, np.nan, 1])
    assert np.isnan(jax.grad(sums, 1)(x, jnp.float32(0.25)))


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_float_operators_inside_and_zero_outside(name):
    tensors, compute, options = CASES[name]
    scales = scales_of(options)
    steps = [scales[key] for key in scales][:2]
    across = {0: lambda s: s.reshape(-1, 1, 1, 1), 1: lambda s: s}["matrix" in name]
    steps = [step if step.ndim == 0 else across(step) for step in steps]
    limits = [(-128, 127)] * 2
    if len(tensors) == 3:
        steps.append(scales[next(iter(scales))] * SCALES["filter_scale"])
        limits.append((-(2**31), 2**31 - 1))
    pairs = [rounded(x, s, *each) for x, s, each in zip(tensors, steps, limits, strict=False)]
    reals, inside = zip(*pairs, strict=True)
    assert not all(mask.all() for mask in inside)

    @jax.jit
    def both(weights):
        _, back = jax.vjp(call_of(name, options), tensors, scales)
        wanted, float_back = jax.vjp(compute, *reals)
        levels = jnp.rint(wanted / OUTPUT["output_scale"]) + 7
        left = (levels >= 0) & (levels <= 255)
        error = jnp.clip(levels, 0, 255) - 7 - jnp.where(left, wanted / OUTPUT["output_scale"], 0)
        slopes = float_back(jnp.where(left, weights, 0))
        return back(weights), slopes, (error * weights).sum(), left

    shape = jax.eval_shape(call_of(name, options), tensors, scales).shape
    (found, of_scales), slopes, of_output, left = both(normal(13, *shape))
    assert not left.all()
    for slope, wanted, mask in zip(found, slopes, inside, strict=True):
        np.testing.assert_allclose(slope, np.where(mask, wanted, 0), rtol=1e-4, atol=1e-5)
        assert (np.asarray(slope)[~mask] == 0).all()
        assert np.asarray(slope).any()
    np.testing.assert_allclose(of_scales["output_scale"], of_output, rtol=1e-3)
    assert all(np.all(np.isfinite(slope) & (slope != 0)) for slope in of_scales.values())


def test_a_convolution_and_a_sum_have_the_gradients_of_the_two():
    (x, w, b), _, options = CASES["quantized_linear_convolution"]
    options = {**options, **OUTPUT, "input_dtype": np.int8}
    residual = normal(14, 2, 3, 6, 6) * 40
    added = {"addend_scale": 0.5, "addend_zero_point": np.int8(3)}

    def fused(tensors, scale):
        return training.quantized_linear_convolution_add(
            *tensors, **{**options, **added, "output_scale": scale}, sum_scale=0.9
        )

    def apart(tensors, scale):
        *tensors, residual = tensors
        y = training.quantized_linear_convolution(*tensors, **{**options, "output_scale": scale})
        terms = {"a_scale": scale, "a_zero_point": np.uint8(7), "output_scale": 0.9}
        named = {key.replace("addend", "b"): value for key, value in added.items()}
        return training.element_wise_quantized_linear_add(y, residual, **terms, **named)

    @jax.jit
    def slopes(weights):
        return [
            jax.grad(lambda *args, call=call: (call(*args) * weights).sum(), (0, 1))(
                (x, w, b, residual), OUTPUT["output_scale"]
            )
            for call in (fused, apart)
        ]

    found, wanted = map(jax.tree.leaves, slopes(normal(15, *residual.shape)))
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)
        assert np.asarray(left).any()


@pytest.mark.parametrize(
    ("dtype", "low", "high", "zero"),
    [(np.int8, -128, 127, None), (np.uint8, 0, 255, np.uint8(100)), (jnp.int4, -8, 7, None)],
)
def test_the_scales_gradient_is_lsqs(dtype, low, high, zero):
    """Esser et al. 2020, equation 3, where the clamp follows the rounding."""
    x = normal(16, 4, 500) * 50
    scale = np.float32([0.1, 0.3, 1.0, 4.0])[:, None]
    middle = 0 if zero is None else int(zero)
    weights = normal(17, 4, 500)

    def total(x, scale, **axis):
        return (training.fake_quantize(x, scale, zero, dtype=dtype, **axis) * weights).sum()

    of_x, of_scale = jax.jit(jax.grad(total, (0, 1)))(x, scale)
    steps = x / scale
    level = np.rint(steps) + middle
    inside = (level >= low) & (level <= high)
    slope = np.where(inside, np.rint(steps) - steps, np.clip(level, low, high) - middle)
    np.testing.assert_allclose(of_scale, (slope * weights).sum(1, keepdims=True), rtol=1e-4)
    np.testing.assert_array_equal(of_x, np.where(inside, weights, 0))
    along = jax.jit(jax.grad(functools.partial(total, axis=0), 1))(x, scale[:, 0])
    np.testing.assert_allclose(along, of_scale[:, 0], rtol=1e-6)
    values, _ = rounded(x, scale, low, high, middle)
    found = jax.jit(functools.partial(training.fake_quantize, dtype=dtype))(x, scale, zero)
    np.testing.assert_array_equal(found, values)


def test_a_scales_gradient_is_scaled_as_in_lsq():
    def total(scale):
        return training.fake_quantize(normal(18, 100), scale, dtype=jnp.int4).sum()

    scale = jnp.float32(0.2)
    plain = jax.jit(jax.grad(total))(scale)
    lsq = functools.partial(training.scale_gradient, count=100, dtype=jnp.int4)
    found = jax.jit(jax.grad(lambda scale: total(lsq(scale))))(scale)
    np.testing.assert_allclose(found, plain / np.sqrt(100 * 7), rtol=1e-6)
    assert training.scale_gradient(scale, 100) == scale


def test_a_value_that_rounds_to_the_limit_is_not_clamped():
    """Round trips of floats do not cut gradients: 255 * s / s may be slightly above 255."""
    scale = np.exp2(np.linspace(-5, 5, 999)).astype(np.float32)
    x = (255 * scale).astype(np.float32)
    assert (x / scale > 255).any()
    total = jax.jit(lambda x: training.fake_quantize(x, scale, dtype=np.uint8).sum())
    slope = jax.grad(total)(x)
    assert (slope == 1).all()


TRANSFORMS = {
    "remat": jax.checkpoint,
    "vmap": lambda f: lambda x, *rest: jax.vmap(lambda x: f(x[None], *rest)[0])(x),
    "scan": lambda f: (
        lambda x, *rest: lax.scan(lambda _, x: (None, f(x[None], *rest)[0]), None, x)[1]
    ),
    "shard_map": lambda f: jax.shard_map(
        f,
        mesh=jax.make_mesh((2,), ("n",), axis_types=(AxisType.Auto,)),
        in_specs=(PartitionSpec("n"), PartitionSpec(), PartitionSpec(), PartitionSpec()),
        out_specs=PartitionSpec("n"),
    ),
}


OPERANDS = *CASES["quantized_linear_convolution"][0], SCALES["filter_scale"]


@functools.cache
def plain_value_and_slopes():
    return _value_and_slopes(layer, OPERANDS)


def check_value_and_slopes(slopes, y):
    wanted, plain = plain_value_and_slopes()
    np.testing.assert_array_equal(y, plain)
    for found, other in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-3)


def layer(x, w, b, scale):
    options = {**CASES["quantized_linear_convolution"][2], **OUTPUT, "filter_scale": scale}
    return training.quantized_linear_convolution(x, w, b, **options)


def _value_and_slopes(function, operands):
    def loss(*operands):
        y = function(*operands)
        return (jnp.sin(y) * y).sum(), y

    return jax.jit(jax.grad(loss, (0, 1, 2, 3), has_aux=True))(*operands)


@pytest.mark.parametrize(
    "how", ["vmap", "scan", *(pytest.param(how, marks=SLOW) for how in ("remat", "shard_map"))]
)
def test_transformations_change_nothing(how):
    check_value_and_slopes(*_value_and_slopes(TRANSFORMS[how](layer), OPERANDS))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_a_batch_split_over_devices_changes_nothing(kind):
    x, *rest = OPERANDS
    mesh = jax.make_mesh((2,), ("n",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("n")))
        slopes, y = _value_and_slopes(layer, (x, *rest))
    check_value_and_slopes(slopes, y)


def test_bfloat16_has_its_dtype_in_gradients_and_float32_in_results():
    x, w = jnp.bfloat16(normal(19, 2, 4)), jnp.bfloat16(normal(20, 4, 3))

    def product(x, w):
        scales = {"a_scale": 0.1, "b_scale": 0.1, "output_scale": 0.1}
        return training.quantized_linear_matrix_multiply(x, w, a_dtype=jnp.int8, **scales)

    @jax.jit
    def both(x, w):
        result, back = jax.vjp(product, x, w)
        wide = product(x.astype(jnp.float32), w.astype(jnp.float32))
        return result, wide, back(jnp.ones_like(result))

    result, wide, slopes = both(x, w)
    assert result.dtype == jnp.float32
    assert [slope.dtype for slope in slopes] == [jnp.bfloat16] * 2
    np.testing.assert_array_equal(result, wide)


def test_forward_mode_is_the_transpose_of_reverse_mode():
    x, scale = jnp.asarray(normal(21, 30) * 9), jnp.float32(0.1)
    step, weights = normal(22, 30), normal(23, 30)
    round_ = jax.jit(training.fake_quantize)
    _, forward = jax.jvp(round_, (x, scale), (step, jnp.float32(0.5)))
    of_x, of_scale = jax.vjp(round_, x, scale)[1](weights)
    np.testing.assert_allclose(forward @ weights, of_x @ step + 0.5 * of_scale, rtol=1e-4)


def test_training_lowers_a_loss_that_integer_operators_leave_alone():
    """The issue's example: 20 steps of gradient descent."""
    x, wanted = normal(24, 64, 8), normal(24, 64, 8) @ normal(25, 8, 3) / 4

    @jax.jit
    def step(w):
        def loss(w):
            scales = {"a_scale": 0.03, "b_scale": 0.01, "output_scale": 0.05}
            zeros = {"a_zero_point": 128, "output_zero_point": np.uint8(128)}
            y = training.quantized_linear_matrix_multiply(x, w, **scales, **zeros)
            return ((y - wanted) ** 2).mean()

        value, slope = jax.value_and_grad(loss)(w)
        return w - 0.5 * slope, value

    w, values = jnp.asarray(normal(26, 8, 3)) / 4, []
    for _ in range(20):
        w, value = step(w)
        values.append(float(value))
    assert values[-1] < 0.3 * values[0]


@needs_kernels  # without one XLA fuses the masks away and keeps floats
def test_a_step_keeps_little_more_memory_than_float_fake_quantization():
    images = jnp.zeros((4, 16, 16, 16), jnp.float32)
    filters = [jnp.ones((3, 3, 16, 16), jnp.float32)] * 6
    layout = {"padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}

    def deployed(x, w):
        scales = {"input_scale": 0.1, "filter_scale": 0.1, "output_scale": 0.1}
        return training.quantized_linear_convolution(x, w, **scales, **layout)

    def fake(x, low, high):
        return x + lax.stop_gradient(jnp.clip(jnp.rint(x / 0.1), low, high) * 0.1 - x)

    def float_twin(x, w):
        x, w = fake(x, 0, 255), fake(w, -128, 127)
        return fake(lax.conv_general_dilated(x, w, (1, 1), **layout), 0, 255)

    def megabytes_of_a_step(layer):
        def loss(filters):
            return functools.reduce(layer, filters, images).mean()

        step = jax.jit(jax.value_and_grad(loss)).lower(filters).compile()
        return step.memory_analysis().temp_size_in_bytes / 1e6

    assert megabytes_of_a_step(deployed) < 1.3 * megabytes_of_a_step(float_twin)
