"""Zero mismatches with rational arithmetic, on many calls; `slow` runs the full numbers."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grading import near_ties

import dmlax
from dmlax._core import requantize
from support import (
    coordinates,
    draw,
    oracle,
    padded_rows,
    sums_of_products,
    wild_floats,
    window_attributes,
)
from support.cases.convolution import keywords

pytestmark = pytest.mark.oldest

CHANNELS = 16  # what one draw of an input and an output scale has


def counts(fast, full):
    return [fast, pytest.param(full, marks=pytest.mark.slow)]


@functools.cache
def family(name, count):
    return near_ties.family(name, count, seed=2024)


def floats(words):
    return np.array(words, np.uint32).view(np.float32)


@pytest.mark.parametrize("implementation", ["auto", "xla"])
@pytest.mark.parametrize("count", counts(64, 1000))
@pytest.mark.parametrize("name", ["float32", "float64", "exact"])
def test_adversarial_near_ties_through_the_convolution(name, count, implementation, how):
    """A bias reaches every accumulator, where the input is its zero point."""
    x, w = np.full((1, 1, 1, 1), 9, np.uint8), draw(1, np.int8, (CHANNELS, 1, 1, 1))

    @how
    def call(bias, sx, sw, sy):
        return dmlax.quantized_linear_convolution(
            *(x, w, bias),
            input_scale=sx,
            filter_scale=sw,
            output_scale=sy,
            input_zero_point=9,
            output_zero_point=128,
            implementation=implementation,
        )

    seen = mismatches = 0
    for shared, group in itertools.groupby(family(name, count), lambda tie: (tie[1], tie[3])):
        ties = list(group)
        channels = (ties * CHANNELS)[:CHANNELS]
        bias = np.array([tie.accumulator for tie in channels], np.int32)
        sx, sy = floats(shared)
        got = call(bias, sx, floats([tie.filter_scale for tie in channels]), sy)
        expected = [min(max(round(tie.quotient) + 128, 0), 255) for tie in ties]
        mismatches += sum(np.asarray(got).reshape(-1)[: len(ties)] != expected)
        seen += len(ties)
    print(f"{seen} near-ties of family {name}: {mismatches} mismatches")
    assert (seen, mismatches) == (count, 0)


@pytest.mark.parametrize("count", counts(64, 1000))
@pytest.mark.parametrize("name", ["float32", "float64", "exact"])
def test_adversarial_near_ties_through_the_requantizer(name, count, how):
    ties = family(name, count)
    columns = np.array(ties, np.int64).T
    call = how(lambda a, *s: requantize.requantizer(*s, None, np.int8, "exact")(a))
    got = call(
        jnp.asarray(columns[0].astype(np.int32)), *(jnp.asarray(floats(c)) for c in columns[1:])
    )
    expected = [min(max(round(tie.quotient), -128), 127) for tie in ties]
    mismatches = int((np.asarray(got) != expected).sum())
    print(f"{count} near-ties of family {name}: {mismatches} mismatches")
    assert mismatches == 0


# --- random calls: few plans, many values, since a plan costs its compilation ----------


def nonzero_plan(seed):
    """A shape, a dtype and options; and a function from a seed to values."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(rng.choice(["int8", "uint16", "int32", "float16", "float32", "bool"]))
    shape = tuple(rng.integers(1, 12, rng.integers(1, 5)).tolist())
    size = int(np.prod(shape)) + int(rng.integers(-3, 40))
    options = {"size": max(size, 0), "fill_value": int(rng.integers(0, 2**32))}

    def values(draw_seed):
        density = np.random.default_rng(draw_seed).random()
        keep = np.random.default_rng(draw_seed + 1).random(shape) < density
        words = draw(draw_seed, f"uint{dtype.itemsize * 8}", shape) * keep
        return (keep if dtype.kind == "b" else words.view(dtype),)

    def expected(x):
        rows = coordinates(x)
        return np.uint32(len(rows)), padded_rows(rows, **options)

    return functools.partial(dmlax.nonzero_coordinates, **options), values, expected


def convolution_plan(seed):
    """Shapes and options of a quantized convolution; scales and zero points are values."""
    rng = np.random.default_rng(seed)
    groups, channels, per_group = (int(n) for n in rng.integers(1, 4, 3))
    kernel, strides, dilations = (tuple(rng.integers(1, 4, 2).tolist()) for _ in range(3))
    start, end = (tuple(rng.integers(0, 3, 2).tolist()) for _ in range(2))
    image = [
        max((k - 1) * d + 1 - a - b, 1) + int(rng.integers(0, 5))
        for k, d, a, b in zip(kernel, dilations, start, end, strict=True)
    ]
    outputs, batch = groups * per_group, int(rng.integers(1, 3))
    x_dtype, w_dtype, y_dtype = rng.choice(["int8", "uint8"], 3)
    zero = [(outputs,), ()][int(rng.integers(2))]
    options = {
        "strides": strides,
        "dilations": dilations,
        "start_padding": start,
        "end_padding": end,
        "group_count": groups,
    }

    def values(s):
        pick = np.random.default_rng(s)
        wild = [wild_floats(s + k, ()) for k in range(3)]
        tame = [pick.choice(np.float32([0.25, 0.3, -1.7, 1])) for _ in range(3)]
        sx, sw, sy = wild if pick.random() < 0.2 else tame
        return {
            "InputTensor": draw(s, x_dtype, (batch, groups * channels, *image)),
            "FilterTensor": draw(s + 1, w_dtype, (outputs, channels, *kernel)),
            "BiasTensor": draw(s + 2, np.int32, outputs) >> int(pick.integers(0, 20)),
            "InputScaleTensor": sx,
            "FilterScaleTensor": np.full(outputs, sw) / np.float32(1 + (np.abs(sw) > 1e-30)),
            "OutputScaleTensor": sy,
            "InputZeroPointTensor": draw(s + 3, x_dtype),
            "FilterZeroPointTensor": draw(s + 4, w_dtype, zero),
            "OutputZeroPointTensor": draw(s + 5, y_dtype),
        }

    def call(given):
        return dmlax.quantized_linear_convolution(
            *(given[name] for name in ("InputTensor", "FilterTensor", "BiasTensor")),
            **keywords(given),
            **options,
        )

    def expected(given):
        asked = {"OutputTensor": (y_dtype, ())}
        attributes = window_attributes(2, **options)
        return (oracle("quantized_linear_convolution", given, asked, **attributes)["OutputTensor"],)

    return call, lambda s: (values(s),), expected


PLANS = {"nonzero": nonzero_plan, "convolution": convolution_plan}
DRAWS = 10


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("plans", counts(3, 25))
@pytest.mark.parametrize("kind", PLANS)
def test_random_calls_agree_with_the_oracle(kind, plans, part):
    """Four parts, so that several workers share them; each call jitted and eager."""
    calls = mismatches = 0
    for plan in range(part * plans, (part + 1) * plans):
        function, values, expected = PLANS[kind](plan)
        jitted = jax.jit(lambda *arguments, function=function: function(*arguments))
        for seed in range(DRAWS):
            arguments = values(1000 * plan + 10 * seed)
            wanted = expected(*arguments)
            for call in (function, jitted):
                got = jax.tree.leaves(call(*arguments))
                mismatches += not all(map(np.array_equal, got, wanted))
            calls += 1
    print(f"{calls} random {kind} calls, jitted and eager: {mismatches} mismatches")
    assert (calls, mismatches) == (plans * DRAWS, 0)


# --- a million quotients ----------------------------------------------------------------


def rational_quotients(x, scale, zero_point, limits):
    """clamp(round(x / scale) + zero_point), in int64: x and scale are integers times powers of 2.

    Beyond 2**12 a quotient saturates, below 2**-12 it is 0; between, the two have a unit in
    common in which both fit, and `divmod` is exact.
    """
    (x_part, x_power), (s_part, s_power) = (np.frexp(v.astype(np.float64)) for v in (x, scale))
    x_whole, s_whole = ((p * 2**24).astype(np.int64) for p in (x_part, s_part))
    sign = np.sign(x_whole) * np.sign(s_whole)
    power = x_power.astype(np.int64) - s_power
    shift = np.clip(power, -13, 13)
    dividend = np.abs(x_whole) << (shift + 13)
    divisor = np.broadcast_to(np.abs(s_whole) << 13, dividend.shape)
    quotient, rest = np.divmod(dividend, divisor)
    up = (2 * rest > divisor) | ((2 * rest == divisor) & (quotient % 2 == 1))
    rounded = np.where(power < -13, 0, quotient + up)
    return np.clip(sign * rounded + zero_point, *limits)


def test_the_rational_quotient_is_that_of_fractions():
    x, scale = quotient_values(2_000, ())
    expected = oracle(
        "element_wise_quantize_linear",
        {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": np.int8(3)},
        {"OutputTensor": ("int8", x.shape)},
    )
    np.testing.assert_array_equal(
        rational_quotients(x, scale, 3, (-128, 127)), expected["OutputTensor"]
    )
    x = wild_floats(5, 2_000)
    scale = wild_floats(6, 2_000)
    inputs = {"InputTensor": x, "ScaleTensor": scale}
    expected = oracle("element_wise_quantize_linear", inputs, {"OutputTensor": ("uint8", x.shape)})
    np.testing.assert_array_equal(
        rational_quotients(x, scale, 0, (0, 255)), expected["OutputTensor"]
    )


def quotient_values(count, scale_shape):
    """A quarter anything, a quarter in range, half beside a tie; in rows of 1000."""
    rng = np.random.default_rng(3)
    scale = rng.uniform(0.001, 1000, scale_shape).astype(np.float32)
    shape = (count // 1000, 1000)
    spread = np.broadcast_to(scale.reshape(-1, 1) if scale_shape else scale, shape)
    ties = ((rng.integers(-300, 300, shape) + 0.5) * spread).astype(np.float32)
    beside = (ties.view(np.int32) + rng.integers(-2, 3, shape).astype(np.int32)).view(np.float32)
    inside = (rng.uniform(-300, 300, shape) * spread).astype(np.float32)
    which = rng.random(shape)
    x = np.where(which < 0.5, beside, np.where(which < 0.75, inside, wild_floats(4, shape)))
    return x, scale


@pytest.mark.parametrize("count", counts(20_000, 1_000_000))
@pytest.mark.parametrize("axis", [None, 0], ids=["scalar", "per axis"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_float32_values_are_quantized_to_the_rational_quotient(dtype, axis, count, how):
    x, scale = quotient_values(count, () if axis is None else (count // 1000,))
    zero, limits = dtype(7), np.iinfo(dtype)
    got = how(lambda x, s: dmlax.element_wise_quantize_linear(x, s, zero, axis=axis))(x, scale)
    column = scale if axis is None else scale[:, None]
    expected = rational_quotients(x, column, 7, (limits.min, limits.max))
    mismatches = int((np.asarray(got) != expected).sum())
    print(f"{x.size} values: {mismatches} mismatches with the rational quotient")
    assert (x.size, mismatches) == (count, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (7, 7)])
@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")], ids=str)
def test_layers_of_a_real_size_have_the_int64_sums(kernel, layout):
    x, w = draw(7, np.uint8, (2, 32, 28, 28)), draw(8, np.int8, (64, 32, *kernel))
    order = [["NCHW".index(a) for a in layout[0]], ["OIHW".index(a) for a in layout[1]]]
    windows = {"strides": (2, 1), "start_padding": (1, 2), "end_padding": (0, 3)}
    got = dmlax.convolution_integer(
        *(np.transpose(x, order[0]), np.transpose(w, order[1])),
        input_zero_point=130,
        filter_zero_point=-4,
        dimension_numbers=layout,
        **windows,
    )
    expected = sums_of_products(x, w, 130, -4, **windows)
    back = [layout[2].index(a) for a in "NCHW"]
    np.testing.assert_array_equal(np.transpose(np.asarray(got), back), expected)
