"""dmlax.reproducible: errors, bits however a call is made, bad input, gradients."""

import hashlib
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from dmlax import SpecError, reproducible
from dmlax._core import exact

REAL = {
    "atan": np.arctan,
    "cos": np.cos,
    "erf": special.erf,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "gelu": lambda x: x * special.ndtr(x),
    "log": np.log,
    "log1p": np.log1p,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": special.expit,
    "sin": np.sin,
    "softplus": lambda x: np.logaddexp(0, x),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}
LEAST, MOST = 2.0**-126, float(np.finfo(np.float32).max)


def numbers(seed, count=1 << 14):
    """Float32 of random bits, and of sizes around 1."""
    random = np.random.default_rng(seed)
    some = random.integers(0, 2**32, count, np.uint32).view(np.float32)
    near = random.standard_normal(count) * 10.0 ** random.uniform(-3, 2, count)
    return np.concatenate([some, near.astype(np.float32)])


def errors(value, real):
    """Units in the last place, where the real value is a normal number."""
    is_normal = (np.abs(real) > LEAST) & (np.abs(real) < MOST)
    real = np.where(is_normal, real, 1)
    unit = (real.view(np.int64) & (0x7FF << 52)).view(np.float64) * 2.0**-23
    return np.where(is_normal, np.abs(np.asarray(value, np.float64) - real) / unit, 0)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_are_at_most_one_unit(name):
    x = numbers(len(name))
    x = x[~np.isnan(x) & (np.abs(x) >= LEAST)]
    value = getattr(reproducible, name)(x)
    assert errors(value, REAL[name](x.astype(np.float64))).max() <= 1
    assert bits(getattr(reproducible, name)(np.float32([np.nan, -np.nan]))) == [0x7FC00000] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_of_every_float_are_at_most_one_unit(name, record_property):
    """Of normal operands; the largest error is in JUnit's report."""
    function, step, most = jax.jit(getattr(reproducible, name)), 1 << 22, 0.0
    for first in range(0, 1 << 32, step):
        x = np.arange(first, first + step, dtype=np.uint32).view(np.float32)
        if LEAST <= abs(x[-1]) < np.inf:  # a block has one sign and one exponent
            most = max(most, errors(function(x), REAL[name](x.astype(np.float64))).max())
    record_property("largest error", most)
    print(f"{name}: {most:.4f} ulp")
    assert most <= 1


def test_powers_are_within_one_unit():
    random = np.random.default_rng(5)
    x = np.exp(random.standard_normal(1 << 14) * 5).astype(np.float32)
    y = (random.uniform(-80, 80, x.size) / np.log(x)).astype(np.float32)
    real = np.exp(np.longdouble(y) * np.log(np.longdouble(x))).astype(np.float64)
    assert errors(reproducible.pow(x, y), real).max() <= 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_of_special_numbers_are_those_of_ieee():
    special_ones = [0, -0.0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 3, -3, 2.0**24]
    x, y = np.meshgrid(*2 * [np.float32(special_ones)])
    real = np.power(x.astype(np.float64), y).astype(np.float32)
    np.testing.assert_array_equal(reproducible.pow(x, y), real)


def bits(x):
    return np.asarray(x, np.float32).view(np.uint32).tolist()


def test_subnormal_numbers_are_zero_and_the_sign_stays():
    least = np.float32(2.0**-126)
    assert bits(reproducible.multiply(least / 2, np.float32(4))) == 0
    assert bits(reproducible.multiply(-least, np.float32(0.5))) == 1 << 31
    assert bits(reproducible.add(least * 3, -least * 2.5)) == 0
    assert reproducible.log(least / 2) == -np.inf
    assert bits(reproducible.tanh(np.float32(-0.0))) == 1 << 31


def test_a_sum_has_the_documented_order():
    x = np.random.default_rng(3).standard_normal((2, 1000)).astype(np.float32)
    lanes = np.zeros((2, 64), np.float32)
    for first in range(0, 1000, 64):
        part = x[:, first : first + 64]
        lanes[:, : part.shape[1]] += part
    four = lanes.reshape(2, 4, 16)
    total = (four[:, 0] + four[:, 1]) + (four[:, 2] + four[:, 3])
    while total.shape[1] > 1:
        total = total[:, : total.shape[1] // 2] + total[:, total.shape[1] // 2 :]
    assert bits(reproducible.sum(x, -1)) == bits(total[:, 0])
    assert bits(reproducible.sum(x[:1], -1)) == bits(total[:1, 0])
    assert bits(reproducible.dot(x, np.ones(1000, np.float32))) == bits(total[:, 0])
    assert bits(reproducible.mean(x, 1)) == bits(total[:, 0] / np.float32(1000))


def test_partial_sums_below_2_to_the_minus_126_are_zero():
    """As arithmetic has them under "exact", in each form of a sum."""
    least = 2.0**-126
    x = np.float32([3 * least, *[0] * 63, -2.25 * least, 0, 1.5 * least])
    assert bits(reproducible.sum(x)) == bits(1.5 * least)  # 0.75 least is 0
    x = np.float32([1.75 * least, *[0] * 63, -least, 0, least])
    assert bits(reproducible.sum(x)) == bits(
        0
    )  # 0.75 least is 0, and so is the partial sum of least
    x = np.float32([1.75 * least, *[0] * 63, -0.75 * least])
    assert bits(reproducible.sum(x)) == bits(1.75 * least)  # a subnormal term is 0
    x = np.float32([3 * least, *[0] * 63, -1.5 * least])
    assert bits(reproducible.sum(x)) == bits(1.5 * least)
    assert bits(reproducible.dot(x, np.float32([0.3, *[1] * 64]))) == bits(-1.5 * least)
    random = np.random.default_rng(9)
    x = (random.standard_normal((3, 200)) * least * 2).astype(np.float32)
    exactly = exact.of(lambda x: (x.sum(-1), x @ jnp.ones(200)))(jnp.asarray(x))
    for found in exactly:
        assert bits(found) == bits(reproducible.sum(x, -1))
    assert bits(reproducible.dot(x, jnp.ones(200))) == bits(exactly[0])


def everything(x):
    """All functions in one program, in which XLA fuses what it can."""
    outputs = [getattr(reproducible, name)(x) for name in REAL]
    outputs += [reproducible.gelu(x, approximate=True), reproducible.pow(jnp.abs(x), outputs[0])]
    return jnp.stack([*outputs, reproducible.add(reproducible.multiply(x, x), outputs[3])])


def digest():
    """The SHA-256 of the outputs of one jitted program."""
    return hashlib.sha256(np.asarray(jax.jit(everything)(numbers(8, 1 << 9)))).hexdigest()


def test_bits_are_the_same_however_a_call_is_made():
    x = numbers(8, 1 << 9)
    whole = bits(jax.jit(everything)(x))
    assert bits(everything(x)) == whole
    mapped = jax.jit(jax.vmap(everything, 0, 1))(x.reshape(-1, 4))
    assert bits(mapped.reshape(len(whole), -1)) == whole
    assert bits(jax.jit(everything)(x[:7])) == [row[:7] for row in whole]


@pytest.mark.parametrize("flag", ["--xla_cpu_max_isa=SSE4_2", "--xla_cpu_max_isa=AVX2"])
def test_bits_are_the_same_on_every_instruction_set(flag):
    code = "import test_reproducible as t; print(t.digest())"
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{flag} --xla_cpu_multi_thread_eigen=false",
        "PYTHONPATH": os.path.dirname(__file__),
    }
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == digest()


@pytest.mark.parametrize("name", ["tanh", "gelu", "log"])
def test_gradients_are_the_usual_ones(name):
    usual = {"tanh": jnp.tanh, "gelu": lambda x: jax.nn.gelu(x, approximate=False), "log": jnp.log}
    x = jnp.float32([0.3, 0.7, 2.0])
    for order in (jax.grad, lambda f: jax.grad(jax.grad(f))):
        got = jax.vmap(order(getattr(reproducible, name)))(x)
        np.testing.assert_allclose(got, jax.vmap(order(usual[name]))(x), rtol=1e-5)
    mean = jax.grad(lambda x: reproducible.mean(reproducible.exp(x)))(x)
    np.testing.assert_allclose(mean, np.exp(x) / 3, rtol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_narrow_floats_are_rounded_once(dtype):
    x = jnp.linspace(-3, 3, 101).astype(dtype)
    got, wide = reproducible.exp(x), reproducible.exp(x.astype(jnp.float32))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, wide.astype(dtype))


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (
            lambda: reproducible.exp(jnp.arange(2)),
            "data_type",
            "exp: x is int32[2], expected one of float32, float16, bfloat16",
        ),
        (
            lambda: reproducible.pow(jnp.ones(2), jnp.ones(2, jnp.float16)),
            "data_type",
            "pow: y has dtype float16, expected float32, that of x",
        ),
        (
            lambda: reproducible.dot(jnp.ones(2), jnp.ones(3)),
            "sizes",
            "dot: y is float32[3], expected a shape that broadcasts with float32[2]",
        ),
    ],
)
def test_bad_input_is_refused(call, code, message):
    with pytest.raises(SpecError) as caught:
        call()
    assert (str(caught.value), caught.value.code) == (message, code)
