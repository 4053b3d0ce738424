"""The pools: random calls, near ties, laws between them, layouts."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core import labels
from dmlax._operators.pooling.plan import Pooling
from dmlax._operators.pooling.xla import maxima_of_words, sum_words
from support import NATIVE, assert_same, draw

pytestmark = pytest.mark.oldest

average = dmlax.quantized_linear_average_pooling
global_average = dmlax.quantized_linear_global_average_pooling
EVERY = ["xla", "reference", *NATIVE]


def near_ties(seed, count):
    """Sums, counts and scales whose quotient is a tie, or float32, or even float64, cannot tell."""
    rng = np.random.default_rng(seed)
    found = []
    while sum(map(len, found)) < count:
        sums = rng.integers(1, 255, 1 << 18) * rng.integers(1, 9)
        counts = rng.choice([2, 9, 49], sums.size)
        halves = rng.integers(0, 120, sums.size) + 0.5
        sy = rng.uniform(1, 2, sums.size).astype(np.float32)
        wanted = halves * counts * sy.astype(np.float64) / sums
        sx = wanted.astype(np.float32)
        off = np.abs(sx.astype(np.float64) / wanted - 1)
        near = (sums <= counts * 255) & (off < 2.0**-40)
        near[:: 1 << 9] |= (sums <= counts * 255)[:: 1 << 9]
        found.append(np.stack([sums, counts, sx, sy], axis=1)[near])
    return np.concatenate(found)[:count]


def check_near_ties(implementation, count):
    rows = near_ties(3, count)
    width = 50
    x = np.zeros((1, len(rows), 1, width), np.uint8)
    start = np.zeros(len(rows), int)
    for row, (total, n, _, _) in enumerate(rows):
        each, more = divmod(int(total), int(n))
        x[0, row, 0, : int(n)] = each
        x[0, row, 0, :more] += 1
        start[row] = n
    wanted = [
        min(round(Fraction(int(s), int(n)) * Fraction(float(a)) / Fraction(float(b))), 255)
        for s, n, a, b in rows
    ]
    found = np.zeros(len(rows), np.uint8)
    for n in np.unique(start):
        own = start == n
        sx, sy = (jnp.asarray(rows[own, i].astype(np.float32)) for i in (2, 3))
        y = global_average(
            x[:, own, :, :n], input_scale=sx, output_scale=sy, implementation=implementation
        )
        found[own] = np.asarray(y).ravel()
    assert_same(found, np.array(wanted, np.uint8))


@pytest.mark.parametrize("implementation", ["xla", *NATIVE])
def test_near_ties_are_rounded_rightly(implementation):
    check_near_ties(implementation, 200)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("pixels", [1, 7, 8, 31, 32, 33, 65, 97, 300])
def test_the_global_average_has_every_pixel(pixels, dtype):
    x = draw(pixels, dtype, (2, 70, 1, pixels))
    wanted = np.rint(x.sum(axis=-1, keepdims=True) / pixels).astype(dtype)
    scales = {"input_scale": 1.0, "output_scale": 1.0}
    assert_same(global_average(x, **scales), wanted)
    last = np.moveaxis(x, 1, -1)
    found = global_average(last, dimension_numbers="NHWC", **scales)
    assert_same(found, np.moveaxis(wanted, 1, -1))


@pytest.mark.parametrize("implementation", EVERY)
def test_a_window_of_padding_alone(implementation):
    """Dilation has both taps beyond the image."""
    x = np.int8([[[5]]])
    options = {"window_size": 2, "dilations": 2, "start_padding": 1, "end_padding": 1}
    found = average(
        *(x,),
        **options,
        input_scale=1.0,
        output_scale=1.0,
        output_zero_point=np.int8(-9),
        implementation=implementation,
    )
    assert np.asarray(found).tolist() == [[[-9]]]
    largest = dmlax.max_pooling(x, **options, implementation=implementation)
    assert np.asarray(largest).tolist() == [[[-128]]]


LAYOUTS = ["NCHW", "NHWC", "HWNC", "CHWN", ("NCHW", "OIHW", "NHWC"), ("HWNC", "IOHW", "NCHW")]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("implementation", EVERY)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_layout_gives_the_same(layout, implementation):
    x = draw(2, np.uint8, (2, 3, 4, 5))
    given, out = (layout, layout) if isinstance(layout, str) else (layout[0], layout[2])
    scale = np.float32([0.1, 0.2, 0.4])
    for call in (
        lambda x, **how: dmlax.max_pooling(x, window_size=(2, 3), **how),
        lambda x, **how: average(x, window_size=2, input_scale=scale, output_scale=0.3, **how),
    ):
        moved = x.transpose(["NCHW".index(axis) for axis in given])
        found = call(moved, dimension_numbers=layout, implementation=implementation)
        wanted = np.asarray(call(x)).transpose(["NCHW".index(axis) for axis in out])
        assert_same(found, wanted)


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4)])
@pytest.mark.parametrize("implementation", EVERY)
def test_without_images_or_channels_the_result_is_empty(shape, implementation):
    x = np.zeros(shape, np.uint8)
    how = {"implementation": implementation}
    assert dmlax.max_pooling(x, window_size=2, **how).shape == (*shape[:2], 3, 3)
    scales = {"input_scale": 1.0, "output_scale": 1.0}
    assert average(x, window_size=2, **scales, **how).shape == (*shape[:2], 3, 3)
    assert global_average(x, **scales, **how).shape == (*shape[:2], 1, 1)


@pytest.mark.parametrize("implementation", ["xla", *NATIVE])
def test_large_windows_are_pooled_in_blocks(implementation):
    x = draw(3, np.uint8, (1, 2, 70))
    for size, dilation, stride in ((9, 3, 1), (21, 1, 2)):
        windows = {"window_size": size, "dilations": dilation, "strides": stride}
        for call in (
            lambda windows=windows, **how: dmlax.max_pooling(x, **windows, **how),
            lambda windows=windows, **how: average(
                x, **windows, input_scale=0.7, output_scale=0.6, start_padding=2, **how
            ),
        ):
            assert_same(call(implementation=implementation), call(implementation="reference"))


def test_a_symbolic_batch_and_image_export():
    batch, size = jax.export.symbolic_shape("b, s", constraints=["s >= 4"])
    shape = jax.ShapeDtypeStruct((batch, 3, size, size), np.uint8)
    x = draw(4, np.uint8, (2, 3, 6, 6))
    scales = {"input_scale": 0.3, "output_scale": 0.1}
    for function in (
        lambda x: dmlax.max_pooling(x, window_size=3, strides=2, end_padding=1),
        lambda x: average(x, window_size=3, strides=2, end_padding=1, **scales),
        lambda x: global_average(x, **scales),
    ):
        exported = jax.export.export(jax.jit(function))(shape)
        assert_same(exported.call(x), function(x))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "options",
    [
        {"window_size": (3, 3), "strides": (2, 2), "start_padding": (1, 1), "end_padding": (1, 1)},
        {"window_size": (2, 9), "dilations": (3, 1), "end_padding": (4, 0)},
    ],
    ids=["ResNet's", "dilated"],
)
def test_maxima_of_words_are_those_of_their_bytes(dtype, options):
    x = draw(2, dtype, (2, 7, 10, 8))
    x[0, :, :, :4] = x[1, :, :, :4] & 1  # equal bytes above others that differ
    call = {**options, "dimension_numbers": "NHWC"}
    plan = plan_of(dmlax.max_pooling, x, call)
    maxima = jax.jit(functools.partial(maxima_of_words, plan))
    assert_same(maxima(x), dmlax.max_pooling(x, **call))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_sums_of_words_are_those_of_their_bytes(dtype):
    limits = np.iinfo(dtype)
    x = draw(3, dtype, (2, 257, 3, 8))
    x[0, :, :, :4] = limits.max  # 257 * 255 is all of 16 bits
    zero_point = draw(4, dtype, 8)
    call = {"input_scale": 0.1, "output_scale": 0.1, "dimension_numbers": "NHWC"}
    plan = plan_of(global_average, x, call | {"input_zero_point": zero_point})
    operands = Pooling(jnp.asarray(x), input_zero_point=jnp.asarray(zero_point))
    wanted = (x.astype(np.int32) - zero_point).sum((1, 2), keepdims=True, dtype=np.int32)
    sums = jax.jit(functools.partial(sum_words, plan))
    assert_same(sums(operands), wanted)
    assert "select" not in sums.lower(operands).as_text()  # XLA would store a select of all pixels


def plan_of(function, x, call):
    """The plan of a call."""
    (label,) = labels.labels(jax.make_jaxpr(lambda x: function(x, **call))(x).jaxpr)
    return label.plan


@pytest.mark.parametrize("size", [(4, 5), (3, 40)], ids=["few pixels", "many"])
def test_the_global_average_is_the_same_channels_last(size):
    x = draw(1, np.int8, (2, *size, 3))
    parameters = {
        "input_scale": np.float32([0.3, -0.7, 1e-3]),
        "output_scale": 0.1,
        "input_zero_point": np.int8([3, 0, -100]),
        "output_zero_point": np.uint8(9),
        "implementation": "xla",
    }
    found = global_average(x, **parameters, dimension_numbers="NHWC")
    wanted = global_average(np.moveaxis(x, -1, 1), **parameters)
    assert_same(found, np.moveaxis(np.asarray(wanted), 1, -1))
