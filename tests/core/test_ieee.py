"""`ieee`: results inside one jitted program equal NumPy's, whatever XLA contracts or rewrites."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import ieee

pytestmark = pytest.mark.oldest

_SHAPE = (64, 512)
_K, _T = np.float32(0.0137), np.float32(0.31)
_RANDOM = np.random.default_rng(0)
_X, _Y, _Z = (_RANDOM.standard_normal(_SHAPE).astype(np.float32) for _ in range(3))
_P, _Q = (_RANDOM.uniform(0.5, 2, _SHAPE).astype(np.float32) for _ in range(2))
_I8 = _RANDOM.integers(-128, 128, _SHAPE).astype(np.int8)
_U8 = _RANDOM.integers(0, 256, _SHAPE).astype(np.uint8)
_TINY = np.finfo(np.float32).tiny


class _OfNumPy:
    """The operations of `ieee`, NumPy's."""

    add, subtract = staticmethod(np.add), staticmethod(np.subtract)
    multiply, divide = staticmethod(np.multiply), staticmethod(np.divide)
    sqrt = staticmethod(np.sqrt)


def _float32(x):
    return x.astype(np.float32)


def _k(x):
    return _K.astype(x.dtype)


_CASES = {
    "x*y + z": (lambda f, x, y, z: f.add(f.multiply(x, y), z), (_X, _Y, _Z)),
    "int8*k + z": (lambda f, i, z: f.add(f.multiply(_float32(i), _K), z), (_I8, _Z)),
    "(uint8-3)*k + z": (
        lambda f, i, z: f.add(f.multiply(f.subtract(_float32(i), np.float32(3)), _K), z),
        (_U8, _Z),
    ),
    "int8*k + uint8*t": (
        lambda f, i, u: f.add(f.multiply(_float32(i), _K), f.multiply(_float32(u), _T)),
        (_I8, _U8),
    ),
    "x*c + y*c": (lambda f, x, y: f.add(f.multiply(x, _k(x)), f.multiply(y, _k(y))), (_X, _Y)),
    "(x*k)*t": (lambda f, x: f.multiply(f.multiply(x, _k(x)), _T.astype(x.dtype)), (_X,)),
    "(x+k)+t": (lambda f, x: f.add(f.add(x, _k(x)), _T.astype(x.dtype)), (_X,)),
    "x/p": (lambda f, x, p: f.divide(x, p), (_X, _P)),
    "x/k": (lambda f, x: f.divide(x, _k(x)), (_X,)),
    "x/p[0, 0]": (lambda f, x, p: f.divide(x, p[:1, :1]), (_X, _P)),
    "k/p": (lambda f, p: f.divide(_k(p), p), (_P,)),
    "(x/p)/q": (lambda f, x, p, q: f.divide(f.divide(x, p), q), (_X, _P, _Q)),
    "x/(p/q)": (lambda f, x, p, q: f.divide(x, f.divide(p, q)), (_X, _P, _Q)),
    "sqrt(p)": (lambda f, p: f.sqrt(p), (_P,)),
    "x/sqrt(p)": (lambda f, x, p: f.divide(x, f.sqrt(p)), (_X, _P)),
    "1/sqrt(p)": (lambda f, p: f.divide(p.dtype.type(1), f.sqrt(p)), (_P,)),
    "sqrt(p*q + k)": (lambda f, p, q: f.sqrt(f.add(f.multiply(p, q), _k(p))), (_P, _Q)),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", list(_CASES))
def test_expressions_have_the_bits_of_numpy(name, dtype):
    expression, operands = _CASES[name]
    operands = [x if x.dtype.kind in "iu" else x.astype(dtype) for x in operands]
    if dtype == "float16" and any(x.dtype.kind in "iu" for x in operands):
        return  # float32 either way
    want = expression(_OfNumPy, *operands)
    got = jax.jit(lambda *operands: expression(ieee, *map(jnp.asarray, operands)))(*operands)
    np.testing.assert_array_equal(np.asarray(got), want)


def _floats(count):
    """Random bits, and special values in front."""
    bits = _RANDOM.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    values = bits.view(np.float32).copy()
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3.4e38, 1.2e-38])
    values[: count // 8] = _RANDOM.choice(special, count // 8)
    return values


def _is_outside(*values):
    """True where a value is subnormal."""
    return np.any([(np.abs(x) < _TINY) & (x != 0) for x in values], axis=0)


def _expect_equal(got, want, outside):
    got = np.asarray(got)
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    assert not np.count_nonzero(~same & ~outside)


@pytest.mark.parametrize("divide", [ieee.divide, jax.jit(ieee._quotient)], ids=["cpu", "residual"])
def test_quotients_of_any_normal_floats(divide):
    x, y = _floats(1 << 19), _floats(1 << 19)
    with np.errstate(all="ignore"):
        want = x / y
    underflows = (want == 0) & (x != 0) & np.isfinite(y)
    _expect_equal(divide(x, y), want, _is_outside(x, y, want) | underflows)


@pytest.mark.parametrize("sqrt", [ieee.sqrt, jax.jit(ieee._root)], ids=["cpu", "residual"])
def test_roots_of_any_normal_floats(sqrt):
    x = _floats(1 << 19)
    with np.errstate(all="ignore"):
        want = np.sqrt(x)
    _expect_equal(sqrt(x), want, _is_outside(x))


def test_residuals_correct_an_estimate_that_is_some_bits_off(monkeypatch):
    """A GPU's quotients and roots are approximate, which a CPU's are not."""
    x, y = _RANDOM.uniform(0.5, 2, (2, 1 << 16)).astype(np.float32)
    with monkeypatch.context() as patch:
        off = np.float32(1 + 2.0**-20)
        divide, root = jnp.divide, jnp.sqrt
        patch.setattr(jnp, "divide", lambda a, b: divide(a, b) * off)
        patch.setattr(jnp, "sqrt", lambda a: root(a) / off)
        quotient, square_root = jax.jit(lambda x, y: (ieee._quotient(x, y), ieee._root(x)))(x, y)
    np.testing.assert_array_equal(quotient, x / y)
    np.testing.assert_array_equal(square_root, np.sqrt(x))


def test_gradients_are_those_of_the_operations():
    def of(f):
        return lambda x, y: f.divide(f.sqrt(x), f.add(f.multiply(y, y), f.subtract(x, y)))

    got = jax.grad(of(ieee), (0, 1))(jnp.float32(2), jnp.float32(3))
    want = jax.grad(of(jnp), (0, 1))(jnp.float32(2), jnp.float32(3))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_vmap_and_export():
    x, y = jnp.asarray(_X[:4, :8]), jnp.asarray(_P[0, :8])
    np.testing.assert_array_equal(jax.vmap(ieee.divide, (0, None))(x, y), _X[:4, :8] / _P[0, :8])
    exported = jax.export.export(jax.jit(ieee.divide), platforms=["cpu", "cuda", "tpu"])(x, x)
    np.testing.assert_array_equal(exported.call(x, x), np.ones_like(x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_narrow_float_is_rounded_though_it_is_widened_again(dtype):
    wanted = _X.astype(jnp.dtype(dtype)).astype(np.float32)
    narrowed = jax.jit(lambda x: ieee.narrow(x, dtype).astype(np.float32) + np.float32(0))(_X)
    np.testing.assert_array_equal(narrowed, wanted)
