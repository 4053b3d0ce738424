"""The native element-wise kernels: values, threads, refusals."""

import jax
import numpy as np
import pytest

import dmlax
from support import assert_same, draw, wild_floats
from support.raw_calls import call_handler

quantize, dequantize = dmlax.element_wise_quantize_linear, dmlax.element_wise_dequantize_linear
TARGETS = ["dmlax_quantize_linear_v1", "dmlax_dequantize_linear_v1"]


SHAPES = [  # 2^18 elements or more, which threads share, and parameters
    ((300_007,), ()),
    ((3, 5, 20, 1000), (5, 1, 1)),
    ((5, 600, 7, 13), (600, 1, 1)),
    ((1700, 7, 23), (7, 1)),
    ((8000, 33), (33,)),
    ((5, 20_000, 3), (20_000, 1)),
    ((800, 333), (800, 333)),
    ((1, 256, 33, 33), (256, 1, 1)),
]


@pytest.mark.parametrize(("shape", "parameter"), SHAPES, ids=str)
def test_large_inputs_are_shared_between_threads(shape, parameter):
    scale = np.random.default_rng(1).uniform(0.001, 0.01, parameter).astype(np.float32)
    zero = draw(2, np.int8, parameter)
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    q = draw(4, np.int8, shape)
    for call in (
        lambda **how: quantize(x, scale, zero, **how),
        lambda **how: dequantize(q, scale, zero, **how),
    ):
        assert_same(call(implementation="native_cpu"), call(implementation="xla"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("scale", [0.5, -0.3, 3e-39, 1e38, 7.1])
def test_every_zero_point_is_added(scale, arithmetic):
    wild = wild_floats(1, 40)
    with np.errstate(over="ignore"):
        ties = ((np.arange(-300, 300) + 0.5) * scale).astype(np.float32)
    x = np.concatenate([wild, ties, np.float32([0, -0.0, np.nan, np.inf, -np.inf, 1e-45])])
    zero = np.arange(256)
    for dtype in (np.int8, np.uint8):
        call = jax.jit(
            lambda x, z, how: quantize(
                x, scale, z, axis=0, arithmetic=arithmetic, implementation=how
            ),
            static_argnums=2,
        )
        column = np.broadcast_to(x, (256, x.size))
        assert_same(*(call(column, zero.astype(dtype), how) for how in ("native_cpu", "xla")))


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("scale", [0.0371, -0.3, 2.0**-5, 1.3 * 2.0**118, 3 * 2.0**-121])
def test_a_shared_scale_rounds_near_ties_and_takes_nan_to_the_lowest_byte(scale, arithmetic):
    rng = np.random.default_rng(7)
    bits = ((rng.integers(-260, 260, 2000) + 0.5) * scale).astype(np.float32).view(np.int32)
    near_ties = (bits + rng.integers(-3, 4, bits.size, np.int32)).view(np.float32)
    nans = (rng.integers(1, 2**23, 2000) | 0x7F800000 | (1 << 31)).astype(np.uint32)
    nans[::2] ^= 1 << 31
    x = (rng.uniform(-280, 280, 200_000) * scale).astype(np.float32)
    x[::100] = rng.permutation(np.concatenate([near_ties, nans.view(np.float32)]))[:2000]
    for zero in (np.int8(-7), np.uint8(117)):
        results = (
            quantize(x, np.float32(scale), zero, arithmetic=arithmetic, implementation=how)
            for how in ("native_cpu", "xla")
        )
        assert_same(*results)


@pytest.mark.parametrize("scale", [1.0, 0.0371, -5.96e-8, 6.1e-5, 60000.0])
@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
def test_every_float16_is_quantized(scale, arithmetic):
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    got = quantize(x, scale, np.int8(-7), arithmetic=arithmetic, implementation="native_cpu")
    assert_same(got, quantize(x, scale, np.int8(-7), arithmetic=arithmetic, implementation="xla"))


@pytest.mark.parametrize("scale", [1.0, 0.0371, -6e-8, 7e-6, 60000.0])
@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_every_16_bit_integer_is_dequantized_to_float16(dtype, scale):
    x, scale = np.arange(2**16, dtype=np.uint16).view(dtype), np.float16(scale)
    got = dequantize(x, scale, x[700], implementation="native_cpu")
    with np.errstate(over="ignore"):
        wanted = ((x.astype(np.float64) - float(x[700])) * float(scale)).astype(np.float16)
    assert_same(got, np.where(x == x[700], np.float16(0), wanted))


@pytest.mark.parametrize("scale", [3, -7, 2**-30, 3 * 2.0**-130, 1e-45, 1.0000001])
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_32_bit_differences_are_rounded_once(dtype, scale):
    """Near ties of float32: integers around odd multiples of powers of two."""
    rng = np.random.default_rng(5)
    words = (2 * rng.integers(2**24, 2**25, 4000) + 1) << rng.integers(0, 7, 4000)
    x = (words + rng.integers(-1, 2, 4000)).astype(np.uint32).view(dtype)
    zero = np.asarray(np.iinfo(dtype).min, dtype)
    calls = (dequantize(x, scale, zero, implementation=how) for how in ("native_cpu", "reference"))
    assert_same(*calls)


@pytest.mark.parametrize("in_axes", [(0, None, None), (None, 0, None), (None, None, 0), (1, 0, 0)])
def test_vmap_is_one_call_of_the_kernel(in_axes):
    x = np.random.default_rng(0).standard_normal((6, 6, 6), np.float32)
    given = [
        value if axis is not None else value[0]
        for value, axis in zip(
            (x, np.float32(np.arange(1, 37).reshape(6, 6)) / 99, draw(1, np.int8, (6, 6))),
            in_axes,
            strict=True,
        )
    ]
    maps = [
        jax.jit(
            jax.vmap(
                lambda x, s, z, how=how: quantize(x, s, z, axis=1, implementation=how),
                in_axes=in_axes,
            )
        )
        for how in ("native_cpu", "xla")
    ]
    text = maps[0].lower(*given).as_text()
    assert text.count(f"@{TARGETS[0]}(") == 1
    assert "while" not in text
    assert_same(*(mapped(*given) for mapped in maps))


QUANTIZED = ("float32", "float32", "int8", "int8")
DEQUANTIZED = ("uint16", "float32", "uint16", "float32")
SAME = ((2, 3),) * 4
INVALID_CALLS = [
    (TARGETS[0], ("float64", *QUANTIZED[1:]), SAME, "element type"),
    (TARGETS[0], ("float32", "float16", "int8", "int8"), SAME, "element type"),
    (TARGETS[0], ("float16", *QUANTIZED[1:]), SAME, "element type"),
    (TARGETS[0], ("float32", "float32", "uint8", "int8"), SAME, "element type"),
    (TARGETS[0], ("float32", "float32", "int16", "int16"), SAME, "element type"),
    (TARGETS[1], ("int64", "float32", "int64", "float32"), SAME, "element type"),
    (TARGETS[1], ("int8", "float32", "uint8", "float32"), SAME, "element type"),
    (TARGETS[1], ("int8", "float32", "int8", "float16"), SAME, "element type"),
    (TARGETS[1], ("int8", "int32", "int8", "int32"), SAME, "element type"),
    *(
        (target, dtypes, shapes, "does not broadcast")
        for target, dtypes in zip(TARGETS, (QUANTIZED, DEQUANTIZED), strict=True)
        for shapes in (
            ((2, 3), (3,), (2, 3), (2, 3)),
            ((2, 3), (2, 3), (2, 2), (2, 3)),
            ((2, 3), (2, 6), (2, 3), (2, 3)),
            ((3, 3), (1, 1), (1, 1), (2, 3)),
            ((2, 3), (0, 3), (2, 3), (2, 3)),
            ((), (1,), (1,), (1,)),
        )
    ),
]


@pytest.mark.parametrize(("target", "dtypes", "shapes", "message"), INVALID_CALLS, ids=str)
def test_what_does_not_fit_is_refused_before_it_is_read(target, dtypes, shapes, message):
    attributes = {"exact": True} if target == TARGETS[0] else {}
    with jax.enable_x64(True), pytest.raises(Exception, match=f"element_wise: .*{message}"):
        jax.block_until_ready(call_handler(target, dtypes, shapes, **attributes))


def test_the_kernel_broadcasts_its_input_too():
    shapes = ((1, 1), (2, 1), (1, 3), (2, 3))
    found = call_handler(TARGETS[0], QUANTIZED, shapes, exact=True)
    assert found.tolist() == [[2] * 3] * 2
