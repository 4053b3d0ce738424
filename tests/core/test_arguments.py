"""Arguments into arrays: what no call of `tests/support/wrong_calls.py` shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core.arguments import Rules, aval_of
from dmlax.errors import SpecError

RULES = Rules("op")


def error(function, *args):
    with pytest.raises(SpecError) as caught:
        function(*args)
    return caught.value.code, caught.value.field, str(caught.value)


SCALES = [
    (0, "is 0"),
    (0.0, "is 0.0"),
    (-0.0, "is -0.0"),
    (float("nan"), "is nan"),
    (float("inf"), "is inf"),
    (1e-46, "is 1e-46"),  # zero once it is float32
    (1e39, "is 1e+39"),  # infinite once it is float32
    (10**400, "is 1000"),
    (np.float32(0), "is np.float32(0.0)"),
    (np.array([1.0, np.inf, np.nan], np.float32), "holds [inf]"),
    (np.array([1.0, 0.0]), "holds [0.0]"),
]


@pytest.mark.parametrize(("value", "found"), SCALES, ids=[repr(v)[:40] for v, _ in SCALES])
def test_known_scales_are_finite_and_not_zero_once_rounded(value, found):
    code, field, message = error(RULES.to_scale, "F", value, np.float32)
    assert (code, field) == ("value", "F")
    assert message.startswith(f"op: F {found}")
    assert message.endswith("expected finite nonzero values in float32")


def test_a_scale_is_judged_in_its_own_format():
    assert np.asarray(RULES.to_scale("F", 1e-45, np.float32)) == np.float32(1e-45)
    assert error(RULES.to_scale, "F", 1e-8, np.float16)[0] == "value"


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_device_array_is_never_looked_into(bad):
    with jax.transfer_guard_device_to_host("disallow"):
        assert RULES.to_scale("F", jnp.float32(bad), np.float32).dtype == np.float32
    assert jax.eval_shape(lambda s: RULES.to_scale("F", s, np.float32), np.float32(bad)).shape == ()


def test_a_boolean_is_no_parameter():
    message = "op: F is True, expected an array"
    assert error(RULES.to_parameter, "F", True, np.uint8) == ("data_type", "F", message)


def test_a_key_is_an_object():
    assert str(aval_of(jax.random.key(0))) == "object[]"


ROUNDED = [  # exact value, dtype, rounded once
    (2**60 + 2**36 + 256, np.float32, 2.0**60 + 2.0**37),
    (2**11 + 1, np.float16, 2.0**11),
    (2**11 + 3, np.float16, 2.0**11 + 4),
    (2**24 + 2**23 + 1, np.float32, 2.0**24 + 2.0**23),
]


@pytest.mark.parametrize(("value", "dtype", "rounded"), ROUNDED, ids=str)
@pytest.mark.parametrize("form", [int, np.int64, lambda v: np.array([v])])
def test_an_integer_is_rounded_once(value, dtype, rounded, form):
    found = RULES.to_parameter("F", form(value), dtype)
    assert (found.dtype, found.reshape(()).tolist()) == (dtype, rounded)


def test_a_large_integer_is_a_scale_until_float32_ends():
    assert RULES.to_scale("S", 2**127, np.float32) == np.float32(2.0**127)
    with pytest.raises(SpecError, match="expected finite nonzero values in float32"):
        RULES.to_scale("S", 2**128, np.float32)


@pytest.mark.parametrize("own", [np.int32, np.bool_, np.uint8])
def test_a_zero_point_of_another_dtype_than_the_output_is_refused(own):
    message = f"op: Z has dtype {np.dtype(own)}, expected int8, the output_dtype"
    found = error(RULES.choose_output_dtype, np.int8, "Z", own(0), np.uint8)
    assert found == ("data_type", "Z", message)


def test_a_long_value_is_cut_in_a_message():
    *_, message = error(RULES.to_integer, "F", "x" * 100, 0)
    assert message == f"op: F is '{'x' * 59}, expected a static integer"
