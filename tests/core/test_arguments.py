"""Arguments into arrays: what takes its tensor's dtype, what keeps its own, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core.arguments import Aval, Rules, aval_of, effective_rank, strong_dtype, to_integers
from dmlax.errors import SpecError

RULES = Rules("op")


def weak(value):
    """A weakly typed device array."""
    return jax.jit(lambda x: x)(value)


def error(function, *args):
    with pytest.raises(SpecError) as caught:
        function(*args)
    return caught.value.code, caught.value.field, str(caught.value)


def test_an_aval_reads_as_dtype_and_shape():
    assert str(Aval(np.dtype(np.float32), (2, 3))) == "float32[2,3]"
    assert str(Aval(np.dtype(np.uint8), ())) == "uint8[]"
    assert Aval(np.dtype(np.uint8), (2**20, 2**20, 2**20)).size == 2**60


STRENGTH = [
    (1, None),
    (1.0, None),
    (True, None),
    (None, None),
    (np.int8(1), np.int8),
    (np.zeros(2, np.uint8), np.uint8),
    (np.float64(1), None),
    (np.zeros(2), None),
    (np.zeros(2, np.int64), None),
    (np.uint64(1), None),
    (np.zeros(2, ">i4"), np.int32),
    (jnp.float16(1), np.float16),
]


@pytest.mark.parametrize(("value", "dtype"), STRENGTH, ids=repr)
def test_arrays_are_strong_and_numbers_of_64_bits_are_not(value, dtype):
    assert strong_dtype(value) == (None if dtype is None else np.dtype(dtype))


def test_a_weak_array_is_not_strong():
    assert strong_dtype(weak(1)) is None
    assert strong_dtype(weak(1.0)) is None


PARAMETERS = [
    (7, np.uint8, np.uint8(7)),
    (-128, np.int8, np.int8(-128)),
    (2, np.float32, np.float32(2)),
    (0.1, np.float32, np.float32(0.1)),
    (1e-45, np.float32, np.float32(1e-45)),
    (0.1, np.float16, np.float16(0.1)),
    (np.uint8(7), np.uint8, np.uint8(7)),
    (np.uint8(7), np.int8, np.uint8(7)),  # strong: the plan will refuse it
    (np.float64(0.1), np.float32, np.float32(0.1)),
    (np.array([0.1, 1e-40]), np.float32, np.array([0.1, 1e-40], np.float32)),
    (np.array([1, 2], ">i4"), np.int32, np.array([1, 2], np.int32)),
]


@pytest.mark.parametrize(("value", "wanted", "expected"), PARAMETERS, ids=repr)
def test_weak_parameters_take_the_wanted_dtype_and_strong_ones_keep_theirs(value, wanted, expected):
    got = RULES.to_parameter("F", value, wanted)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(np.asarray(got), expected)
    assert strong_dtype(got) == expected.dtype


@pytest.mark.parametrize(("value", "wanted"), [(3, np.uint8), (3, np.float32), (1.5, np.float32)])
def test_a_weak_device_array_takes_the_wanted_dtype(value, wanted):
    got = RULES.to_parameter("F", weak(value), wanted)
    assert (strong_dtype(got), got.tolist()) == (np.dtype(wanted), value)


def test_an_absent_parameter_stays_absent():
    assert RULES.to_parameter("F", None, np.uint8) is None


REFUSED = [
    (256, np.uint8, "value", "op: F is 256, expected uint8, 0 to 255"),
    (-1, np.uint8, "value", "op: F is -1, expected uint8, 0 to 255"),
    (128, np.int8, "value", "op: F is 128, expected int8, -128 to 127"),
    (2**40, np.int32, "value", "op: F is 1099511627776, expected int32, -2147483648 to 2147483647"),
    (1.5, np.uint8, "data_type", "op: F is the float 1.5, expected uint8"),
    (True, np.uint8, "data_type", "op: F is True, expected an array"),
    ([1, 2], np.uint8, "data_type", "op: F is a list, expected an array"),
    ("7", np.uint8, "data_type", "op: F is '7', expected an array"),
]


@pytest.mark.parametrize(("value", "wanted", "code", "message"), REFUSED, ids=repr)
def test_parameters_that_do_not_fit_are_refused(value, wanted, code, message):
    assert error(RULES.to_parameter, "F", value, wanted) == (code, "F", message)


def test_a_weak_float_is_no_integer():
    message = "op: F is float32[], expected uint8"
    assert error(RULES.to_parameter, "F", weak(1.0), np.uint8) == ("data_type", "F", message)


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


def test_a_scale_is_required():
    assert error(RULES.to_scale, "F", None, np.float32) == (
        "missing_tensor",
        "F",
        "op: F is required",
    )


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_device_array_is_never_looked_into(bad):
    with jax.transfer_guard_device_to_host("disallow"):
        assert RULES.to_scale("F", jnp.float32(bad), np.float32).dtype == np.float32
    assert jax.eval_shape(lambda s: RULES.to_scale("F", s, np.float32), np.float32(bad)).shape == ()


INTEGERS = [
    (1.5, "is 1.5, expected a static integer"),
    ("2", "is '2', expected a static integer"),
    (None, "is a NoneType, expected a static integer"),
    (-1, "is -1, expected from 0 to 9"),
    (10, "is 10, expected from 0 to 9"),
]


@pytest.mark.parametrize(("value", "message"), INTEGERS)
def test_options_are_integers_within_bounds(value, message):
    assert error(RULES.to_integer, "F", value, 0, 9) == ("option", "F", f"op: F {message}")


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_any_static_integer_is_an_option(value):
    assert RULES.to_integer("F", value, 0, 9) == 3


def test_a_tracer_is_no_option():
    with pytest.raises(
        SpecError, match=r"F is the traced or device array int32\[\], expected a st"
    ):
        jax.eval_shape(lambda n: RULES.to_integer("F", n, 0, 9) * n, 3)


SEQUENCES = [
    (0, "is 0, expected at least 1"),
    (True, "is True, expected 2 integers"),
    (1.5, "is 1.5, expected 2 integers"),
    ("12", "is '12', expected 2 integers"),
    ((1,), "has 1 entries, expected 2"),
    ((1, 2, 3), "has 3 entries, expected 2"),
    ((1, 0), "is 0, expected at least 1"),
    ((1, 1.5), "is 1.5, expected a static integer"),
]


@pytest.mark.parametrize(("value", "message"), SEQUENCES)
def test_window_options_are_sequences_of_the_right_length(value, message):
    assert error(to_integers, RULES, "F", value, 2, 1, 1) == ("option", "F", f"op: F {message}")


@pytest.mark.parametrize("value", [(2, 3), [2, 3], np.array([2, 3])])
def test_any_sequence_gives_a_tuple(value):
    assert to_integers(RULES, "F", value, 2, 1, 1) == (2, 3)
    assert to_integers(RULES, "F", None, 2, 7, 1) == (7, 7)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_one_integer_is_for_every_axis(value):
    assert to_integers(RULES, "F", value, 2, 1, 1) == (3, 3)


def test_an_aval_of_a_64_bit_array_is_its_own():
    assert aval_of(np.zeros(2)) == (np.float64, (2,))


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


class Variable:
    """An object that stands for an array, as flax's parameters do."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


@pytest.mark.parametrize("value", [jnp.int8(3), np.int8(3), 3, np.int64(3), weak(3)], ids=repr)
def test_what_stands_for_an_array_is_one(value):
    assert RULES.to_parameter("F", Variable(value), np.int8) == np.int8(3)
    assert strong_dtype(Variable(value)) == strong_dtype(value)


def test_a_tensor_may_be_an_object_that_stands_for_it():
    array = jnp.ones(3)
    assert RULES.to_array("F", Variable(array)) is array
    assert error(RULES.to_array, "F", Variable([1]))[2] == "op: F is a list, expected an array"


RANKS = {(): 1, (1,): 1, (3,): 1, (1, 1): 1, (3, 1): 2, (1, 0, 3): 2, (1, 1, 1, 5, 6): 2}


@pytest.mark.parametrize(("sizes", "rank"), RANKS.items(), ids=str)
def test_leading_ones_do_not_count_as_rank(sizes, rank):
    assert effective_rank(sizes) == rank


def test_the_bounds_of_an_option_are_inside():
    assert [RULES.to_integer("F", value, 2, 5) for value in (2, 5)] == [2, 5]


def test_a_large_integer_is_a_scale_until_float32_ends():
    assert RULES.to_scale("S", 2**127, np.float32) == np.float32(2.0**127)
    with pytest.raises(SpecError, match="expected finite nonzero values in float32"):
        RULES.to_scale("S", 2**128, np.float32)


def test_a_scale_may_be_negative():
    assert RULES.to_scale("S", -0.5, np.float32) == -0.5


@pytest.mark.parametrize("own", [np.int32, np.bool_, np.uint8])
def test_a_zero_point_of_another_dtype_than_the_output_is_refused(own):
    message = f"op: Z has dtype {np.dtype(own)}, expected int8, the output_dtype"
    found = error(RULES.choose_output_dtype, np.int8, "Z", own(0), np.uint8)
    assert found == ("data_type", "Z", message)


def test_a_long_value_is_cut_in_a_message():
    *_, message = error(RULES.to_integer, "F", "x" * 100, 0)
    assert message == f"op: F is '{'x' * 59}, expected a static integer"


@pytest.mark.parametrize("value", [-128, 127])
def test_the_ends_of_a_range_are_within_it(value):
    assert RULES.to_parameter("F", value, np.int8) == value
