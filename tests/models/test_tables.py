"""The tables of 256 entries, and the float operators whose bits matter."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import TensorProto

import dmlax.onnx
from dmlax._core import float_bits
from dmlax.onnx.operators import floats, tables
from onnx_models import Builder, run_onnxruntime

TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
SCALES = [(0.03, 1 / 256), (0.5, 0.25), (2.0**-3, 2.0**-7)]


def unary(op, dtype, scales, zeros, **attributes):
    """A model of one operator of ONNX Runtime's own."""
    b = Builder()
    parameters = [
        b.constant(each)
        for scale, zero in zip(scales, zeros, strict=True)
        for each in (np.float32(scale), dtype(zero))
    ]
    y = b.node(op, "x", *parameters, domain="com.microsoft", **attributes)
    kind = TYPES[dtype]
    return b.model({"x": (kind, ["n", 256])}, {y: (kind, ["n", 256])})


def every_byte(dtype):
    return np.arange(256).astype(np.uint8).view(dtype).reshape(1, 256)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_tables_have_onnxruntimes_bits(op, scales, dtype):
    model = unary(op, dtype, scales, (100, 3))
    x = every_byte(dtype)
    (theirs,) = run_onnxruntime(model, {"x": x}, optimised=False).values()
    (ours,) = dmlax.onnx.load(model)(x).values()
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_has_onnxruntimes_bits(opset, dtype):
    model = unary("QLinearSoftmax", dtype, (0.1, 1 / 256), (0, 0), opset=opset, axis=1)
    x = np.random.default_rng(opset).integers(0, 256, (40, 256)).astype(np.uint8).view(dtype)
    (theirs,) = run_onnxruntime(model, {"x": x}, optimised=False).values()
    (ours,) = dmlax.onnx.load(model)(x).values()
    np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(dmlax.UnsupportedError, match='arithmetic="float32" alone'):
        dmlax.onnx.load(model, arithmetic="exact")


def test_bounds_of_a_sigmoid_enclose_it():
    for x in (Fraction(-17), Fraction(-1, 3), Fraction(1, 7), Fraction(9, 2), Fraction(40)):
        low, high = tables._sigmoid_bounds(x, 64)
        assert low <= Fraction(1 / (1 + math.exp(-float(x)))) + Fraction(1, 2**50)
        assert high >= Fraction(1 / (1 + math.exp(-float(x)))) - Fraction(1, 2**50)
        assert 0 <= high - low <= Fraction(1, 2**60)


@pytest.mark.parametrize("dtype", TYPES)
def test_exact_tables_round_once(dtype):
    given = (np.float32(0.03), dtype(9), np.float32(1 / 256), dtype(28))
    parameters = tuple(map(np.asarray, given))
    values = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    limits = np.iinfo(dtype)
    for found, function in (
        (tables.identity(dtype, *parameters, "exact"), lambda x: x),
        (tables.leaky_relu(dtype, *parameters, 0.25, "exact"), lambda x: x if x > 0 else x / 4),
    ):
        for value, entry in zip(values.tolist(), found.tolist(), strict=True):
            real = function((value - 9) * Fraction(float(parameters[0]))) / Fraction(1, 256)
            assert entry == min(max(round(real) + int(parameters[3]), limits.min), limits.max)


def wild(count, seed):
    """Floats of every kind."""
    bits = np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint64)
    special = [0, 1, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00800000, 0x7F7FFFFF]
    return np.concatenate([special, bits]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (floats.multiply, np.multiply),
        (floats.divide, np.divide),
        (float_bits.add, np.add),
        (float_bits.subtract, np.subtract),
    ],
)
def test_float_operators_are_ieees(ours, theirs):
    x, y = wild(20_000, 1), wild(20_000, 2)
    pairs = np.repeat(wild(0, 0), 8), np.tile(wild(0, 0), 8)
    x, y = (np.concatenate(each) for each in zip((x, y), pairs, strict=True))
    with np.errstate(all="ignore"):
        expected = theirs(x, y)
    found = np.asarray(jax.jit(ours)(x, y))
    same = found.view(np.uint32) == expected.view(np.uint32)
    assert (same | (np.isnan(found) & np.isnan(expected))).all()


def test_square_roots_are_ieees():
    x = np.concatenate([wild(20_000, 3), np.arange(1, 3000, dtype=np.float32) ** 2])
    with np.errstate(all="ignore"):
        expected = np.sqrt(x)
    found = np.asarray(float_bits.sqrt(jnp.asarray(x)))
    same = found.view(np.uint32) == expected.view(np.uint32)
    assert (same | (np.isnan(found) & np.isnan(expected))).all()
