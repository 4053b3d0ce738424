"""The operands of a convolution in every form that an API user may pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core import dispatch
from support import assert_same, draw, requantized, sums_of_products

K = 3
X, W = draw(1, np.uint8, (1, 2, 3, 3)), draw(2, np.int8, (K, 2, 2, 2))
SCALES = {"input_scale": 0.5, "filter_scale": 0.25, "output_scale": 16.0}
ZERO_POINTS = {"input_zero_point": 7, "filter_zero_point": -3, "output_zero_point": 11}


def convolve(x=X, w=W, bias=None, **options):
    return dmlax.quantized_linear_convolution(x, w, bias, **{**SCALES, **ZERO_POINTS, **options})


def wanted(filter_scale=0.25, filter_zero_point=-3, bias=0, dtype=np.uint8):
    """The default call's answer, but for what is given."""
    channel = (-1, 1, 1)
    accumulator = sums_of_products(X, W, 7, filter_zero_point) + np.reshape(bias, channel)
    scales = 0.5, np.reshape(filter_scale, channel), 16.0
    return requantized(accumulator.astype(np.int32), scales, 11, dtype)


@pytest.fixture
def plans(monkeypatch):
    """The plans of all calls made."""
    made = []
    call = dispatch.Operator.call

    def spy(operator, plan, operands, implementation):
        made.append(plan)
        return call(operator, plan, operands, implementation)

    monkeypatch.setattr(dispatch.Operator, "call", spy)
    return made


ONE = [(), (1,), (1, 1), (1, 1, 1, 1)]
EACH = [(K,), (1, K), (K, 1), (1, K, 1, 1), (K, 1, 1, 1)]


@pytest.mark.parametrize("shape", ONE, ids=str)
@pytest.mark.parametrize("name", [*SCALES, *ZERO_POINTS])
def test_one_value_may_have_any_shape_of_ones(name, shape):
    dtype = {"input_zero_point": np.uint8, "filter_zero_point": np.int8}.get(
        name, np.uint8 if "zero" in name else np.float32
    )
    value = np.full(shape, {**SCALES, **ZERO_POINTS}[name], dtype)
    assert_same(convolve(**{name: value}), wanted())


@pytest.mark.parametrize("shape", EACH, ids=str)
def test_one_value_a_channel_may_have_any_shape_with_one_size_above_1(shape):
    sw, zw = np.float32([0.25, 0.5, -1]), np.int8([-3, 5, 0])
    bias = np.int32([1000, -2000, 3])
    got = convolve(
        *(X, W, bias),
        filter_scale=sw.reshape(shape),
        filter_zero_point=zw.reshape(shape),
    )
    assert_same(got, wanted(sw, zw, bias))


def test_one_filter_makes_one_value_and_one_a_channel_the_same():
    w = W[:1]
    for shape in [(), (1,), (1, 1, 1, 1)]:
        got = convolve(X, w, np.int32([5]), filter_scale=np.full(shape, 0.25, np.float32))
        assert_same(got, wanted(bias=5)[:, :1])


FORMS = {
    "Python": lambda value, dtype: value,
    "NumPy scalar": lambda value, dtype: dtype(value),
    "NumPy array": lambda value, dtype: np.asarray(value, dtype),
    "JAX array": lambda value, dtype: jnp.asarray(value, dtype),
    "weak JAX array": lambda value, dtype: jax.jit(lambda x: x)(value),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_parameter_gives_the_same_result(form):
    make = FORMS[form]
    options = {name: make(value, np.float32) for name, value in SCALES.items()}
    options["input_zero_point"] = make(7, np.uint8)
    options["filter_zero_point"] = make(-3, np.int8)
    options["output_zero_point"] = make(11, np.uint8)
    assert_same(convolve(**options), wanted())


def test_every_parameter_may_be_traced_weak_or_strong():
    traced = {**SCALES, **ZERO_POINTS}
    jitted = jax.jit(lambda x, w, bias, parameters: convolve(x, w, bias, **parameters))
    assert_same(jitted(X, W, np.int32([1, 2, 3]), traced), wanted(bias=[1, 2, 3]))
    strong = jax.tree.map(
        lambda v: np.float32(v) if isinstance(v, float) else np.uint8(v % 256), traced
    )
    strong["filter_zero_point"] = np.int8(-3)
    assert_same(jitted(X, W, np.int32([1, 2, 3]), strong), wanted(bias=[1, 2, 3]))


def test_the_forms_of_a_parameter_share_one_plan(plans):
    convolve()
    convolve(
        input_scale=np.float32(0.5), filter_scale=np.float64(0.25), input_zero_point=np.uint8(7)
    )
    jax.jit(lambda s, z: convolve(output_scale=s, output_zero_point=z))(16.0, 11)
    assert len(plans) == 3
    assert len(set(plans)) == 1


OUTPUT_DTYPES = [
    (np.uint8, None, None, np.uint8),
    (np.int8, None, None, np.int8),
    (np.uint8, 3, None, np.uint8),
    (np.uint8, np.int8(3), None, np.int8),
    (np.int8, np.uint8(3), None, np.uint8),
    (np.uint8, None, "int8", np.int8),
    (np.uint8, 3, np.int8, np.int8),
    (np.uint8, jnp.int8(3), jnp.int8, np.int8),
]


@pytest.mark.parametrize(("x", "zero_point", "asked", "dtype"), OUTPUT_DTYPES, ids=repr)
def test_the_output_dtype_is_as_asked_or_the_zero_points_or_the_inputs(x, zero_point, asked, dtype):
    def call(x, traced):
        options = {"output_zero_point": zero_point, "output_dtype": asked, "input_zero_point": None}
        return convolve(x, W, **options | traced)

    assert call(X.astype(x), {}).dtype == dtype
    assert jax.eval_shape(call, X.astype(x), {}).dtype == dtype
    if zero_point is not None:  # a tracer, weak or strong
        traced = {"output_zero_point": zero_point}
        assert jax.eval_shape(call, X.astype(x), traced).dtype == dtype


def test_window_options_are_any_sequences_of_integers():
    options = {
        "strides": (2, 1),
        "dilations": (1, 2),
        "start_padding": (0, 1),
        "end_padding": (3, 1),
    }
    expected = sums_of_products(X, W, 7, -3, **options)
    forms = [list, tuple, np.array, lambda v: tuple(map(np.int64, v))]
    for form in forms:
        got = dmlax.convolution_integer(
            *(X, W),
            input_zero_point=7,
            filter_zero_point=-3,
            group_count=np.int64(1),
            **{name: form(value) for name, value in options.items()},
        )
        assert_same(got, expected)


def test_dimension_numbers_are_those_of_lax():
    numbers = jax.lax.conv_dimension_numbers(X.shape, W.shape, ("NCHW", "OIHW", "NCHW"))
    for given in (numbers, ["NCHW", "OIHW", "NCHW"]):
        assert_same(convolve(dimension_numbers=given), wanted())


def test_one_stride_and_one_dilation_are_for_every_axis():
    options = {"strides": 2, "dilations": np.int64(1), "start_padding": 1}
    expected = sums_of_products(X, W, strides=(2, 2), start_padding=(1, 1))
    assert_same(dmlax.convolution_integer(X, W, **options), expected)


PADDINGS = ["SAME", "SAME_LOWER", "VALID", ((1, 2), (0, 3)), [(0, 0), [1, 1]], np.ones((2, 2), int)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_padding_is_that_of_lax(padding, dilation, stride):
    x, w = draw(3, np.uint8, (1, 2, 7, 6)), draw(4, np.int8, (3, 2, 3, 2))
    windows = padding if isinstance(padding, str) else [tuple(map(int, pair)) for pair in padding]
    expected = jax.lax.conv_general_dilated(
        *(x.astype(np.int32), w.astype(np.int32), (stride, stride), windows),
        rhs_dilation=(dilation, dilation),
    )
    options = {"strides": stride, "dilations": dilation, "padding": padding}
    assert_same(dmlax.convolution_integer(x, w, **options), expected)


def test_the_same_padding_of_a_symbolic_size_has_to_cancel_out():
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("1, 2, h, 4"), np.uint8)
    call = lambda x, **options: dmlax.convolution_integer(x, W, padding="SAME", **options)  # noqa: E731
    assert str(jax.export.export(jax.jit(call))(x).out_avals[0]) == "int32[1,3,h,4]"
    with pytest.raises(dmlax.SpecError, match="padding is 'SAME', which a symbolic size leaves"):
        jax.export.export(jax.jit(lambda x: call(x, strides=2)))(x)


@pytest.mark.parametrize("prepared", [False, True])
def test_an_input_and_a_filter_of_rank_3_are_channels_first(prepared):
    x, w = draw(5, np.uint8, (2, 3, 9)), draw(6, np.int8, (4, 3, 2))
    filter = dmlax.prepare_filter(w) if prepared else w
    expected = sums_of_products(x[:, :, None], w[:, :, None], strides=(1, 2))[:, :, 0]
    assert_same(dmlax.convolution_integer(x, filter, strides=2), expected)


class Variable:
    """An object that stands for an array, as flax's parameters do."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return jnp.asarray(self.value)


def test_objects_that_stand_for_arrays_are_operands():
    options = {name: Variable(np.float32(value)) for name, value in SCALES.items()}
    options |= {"output_zero_point": Variable(np.uint8(11))}
    assert_same(
        convolve(Variable(X), Variable(W), Variable(np.int32([0, 0, 0])), **options), wanted()
    )
    floats = dmlax.element_wise_quantize_linear(Variable(np.float32([1, 2])), Variable(0.5))
    assert dmlax.element_wise_dequantize_linear(Variable(floats), Variable(0.5)).tolist() == [1, 2]
    assert dmlax.nonzero_coordinates(Variable(np.array([0, 3]))).count == 1
