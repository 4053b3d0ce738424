"""Float rows: the kernels and plain XLA beside float64, special values, vmap and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core.arguments import aval_of
from dmlax._fused.rows import call, xla
from dmlax._fused.rows.plan import Rows, RowsPlan
from support import NATIVE

pytestmark = pytest.mark.oldest

_RANDOM = np.random.default_rng(0)
_SIZES = (2, 3, 15, 16, 17, 64, 100, 384, 1000)


def rows(size):
    return (_RANDOM.standard_normal((5, 7, size)) * 3 + 1).astype(np.float32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("is_centred", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("size", _SIZES)
def test_normalizations(size, has_bias, is_centred):
    x, scale, bias = rows(size), *_RANDOM.standard_normal((2, size)).astype(np.float32)
    bias = bias if has_bias else None
    centred = x.astype(np.float64) - (x.astype(np.float64).mean(-1, keepdims=True) * is_centred)
    wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale
    wanted = wanted + (0 if bias is None else bias)
    plan = RowsPlan(aval_of(x), 1e-5, is_centred)
    for found in (
        call.normalize(x, scale, bias, 1e-5, is_centred=is_centred),
        jax.jit(lambda *operands: xla.normalize(plan, Rows(*operands)))(x, scale, bias),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("size", _SIZES)
def test_softmaxes(size):
    x = rows(size)
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(call.softmax(x), powers / powers.sum(-1, keepdims=True), rtol=2e-6)


def test_special_values_of_a_softmax():
    infinity, nan = np.inf, np.nan
    x = np.float32(
        [
            *([0, -infinity, -1e9, -88, -100, -200], [-infinity] * 6, [nan, 1, 2, 3, 4, 5]),
            *([infinity, 0, 0, 0, 0, 0], [-3e38] * 6, [3e38, -3e38, 0, 0, 0, 0]),
        ]
    )
    found = np.asarray(call.softmax(x))
    assert found[0, 0] == 1
    assert (found[0, 1:] < np.finfo(np.float32).tiny).all()  # a CPU flushes exp(-88) to 0
    assert np.isnan(found[1:4]).all()
    np.testing.assert_allclose(found[4], np.full(6, 1 / 6), rtol=1e-6)
    assert found[5].tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4)])
def test_empty_rows(shape):
    x = np.zeros(shape, np.float32)
    assert call.softmax(x).shape == shape
    assert call.normalize(x, np.ones(shape[-1], np.float32), None, 1e-5).shape == shape


def test_vmap_and_gradients():
    x, scale = rows(40), _RANDOM.standard_normal((5, 40)).astype(np.float32)
    mapped = jax.vmap(lambda x, scale: call.normalize(x, scale, None, 1e-5))(x, scale)
    alone = [call.normalize(a, b, None, 1e-5) for a, b in zip(x, scale, strict=True)]
    np.testing.assert_allclose(mapped, np.stack(alone), rtol=0, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(call.softmax)(x), call.softmax(x), rtol=1e-6)
    found = jax.grad(lambda x: call.softmax(x)[0, 0, 0])(jnp.asarray(x))
    wanted = jax.grad(lambda x: jax.nn.softmax(x)[0, 0, 0])(jnp.asarray(x))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_float16_runs_plain_xla():
    x = rows(16).astype(np.float16)
    told = str(dmlax.explain(call.softmax, x))
    assert "softmax_rows" in told
    assert "its rows are float16, expected float32" in told
    assert call.softmax(x).dtype == np.float16


def averages(x, table):
    """The averages of bytes, summed in float32 in ONNX Runtime's order."""
    terms = np.moveaxis(table[x.astype(np.int32) - np.iinfo(x.dtype).min], -2, 0)
    whole = len(terms) // 4 * 4
    lanes = np.zeros((4, *terms.shape[1:]), np.float32)
    for first in range(0, whole, 4):
        lanes += terms[first : first + 4]
    total = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
    for term in terms[whole:]:
        total = total + term
    return total / np.float32(len(terms))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("pixels", "channels"), [(1, 1), (3, 16), (4, 17), (9, 5), (62, 40)])
def test_averages_of_bytes_are_summed_in_onnxruntimes_order(pixels, channels, dtype):
    table = _RANDOM.standard_normal(256).astype(np.float32)
    x = _RANDOM.integers(0, 256, (3, pixels, channels)).astype(np.uint8).view(dtype)
    plan, operands = call.AVERAGE.plan(x, table)
    wanted = averages(x, table)
    for implementation in ("xla", *NATIVE):
        found = call.AVERAGE.call(plan, operands, implementation)
        np.testing.assert_array_equal(found, wanted)
    mapped = jax.vmap(lambda x: call.AVERAGE.call(*call.AVERAGE.plan(x, table)))(x)
    np.testing.assert_array_equal(mapped, wanted)


@pytest.mark.parametrize(("pixels", "channels"), [(1, 1), (3, 16), (4, 17), (9, 5), (62, 40)])
def test_averages_of_floats_have_the_bits_of_averages_of_bytes(pixels, channels):
    table = _RANDOM.standard_normal(256).astype(np.float32)
    x = _RANDOM.integers(0, 256, (3, pixels, channels)).astype(np.uint8)
    plan, operands = call.AVERAGE.plan(table[x])
    for implementation in ("xla", *NATIVE):
        found = call.AVERAGE.call(plan, operands, implementation)
        np.testing.assert_array_equal(found, averages(x, table))
    mapped = jax.vmap(lambda x: call.AVERAGE.call(*call.AVERAGE.plan(x)))(table[x])
    np.testing.assert_array_equal(mapped, averages(x, table))
    gradient = jax.grad(lambda x: call.AVERAGE.call(*call.AVERAGE.plan(x)).sum())(table[x])
    np.testing.assert_allclose(gradient, np.full(x.shape, 1 / pixels), rtol=1e-6)
