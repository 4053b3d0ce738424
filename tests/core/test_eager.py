"""Eager calls: one program for each set of options, and scalars kept on the device."""

import contextlib
import gc
import inspect
import sys
import threading
import types
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import dmlax
from dmlax._core import dispatch, eager
from dmlax._operators.registry import OPERATORS
from support.wrong_calls import VALID

PACKAGE = str(Path(dmlax.__file__).parent)  # a checkout's folder may have the same name
pytestmark = pytest.mark.oldest

X = np.arange(192, dtype=np.uint8).reshape(1, 3, 8, 8)
W = np.arange(-54, 54, dtype=np.int8).reshape(4, 3, 3, 3)
SCALES = {"input_scale": 0.5, "filter_scale": 0.25, "output_scale": 40.0}
ZERO_POINTS = {"input_zero_point": 3, "output_zero_point": 5}


def quantized(x, w, **options):
    return dmlax.quantized_linear_convolution(x, w, **options)


def integer(x, w, **options):
    return dmlax.convolution_integer(x, w, **options)


def quantize(x, w, **options):
    return dmlax.element_wise_quantize_linear(x.astype(np.float32), *options.values())


def dequantize(x, w, **options):
    return dmlax.element_wise_dequantize_linear(x, *options.values())


def nonzero(x, w, **options):
    return dmlax.nonzero_coordinates(x, **options)


CALLS = {
    quantized: {**SCALES, **ZERO_POINTS},
    integer: {"input_zero_point": 3},
    quantize: {"scale": 2.0, "zero_point": 3},
    dequantize: {"scale": 2.0, "zero_point": 3},
    nonzero: {},
}
every_call = pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)


@pytest.fixture(autouse=True)
def forget():
    eager.clear()
    yield
    eager.clear()


@pytest.fixture(scope="module")
def operands():
    return jnp.asarray(X), dmlax.prepare_filter(jnp.asarray(W))


def on_device(options):
    dtypes = {float: np.float32, int: np.uint8}
    return {name: jnp.asarray(value, dtypes[type(value)]) for name, value in options.items()}


def python_calls(function):
    """The number of Python functions that a call runs."""
    counted = []
    sys.setprofile(lambda frame, event, _: counted.append(frame) if event == "call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(counted)


def kept():
    """The scalars of every set of options."""
    calls = {function.__wrapped__ for function in vars(dmlax).values() if is_operator(function)}
    return [scalar for call in calls for scalar in eager._scalars(call).values()]


def is_operator(function):
    return hasattr(function, "__wrapped__")


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_a_lowering_is_at_most_six_calls_below_the_public_function(row):
    body, arguments = inspect.unwrap(row.function), dict(VALID[row.name])
    runs = {lowering.run.__code__ for lowering in row.operator.lowerings}
    trails = []

    def record(frame, event, _):
        if event == "call" and frame.f_code in runs:
            trail = []
            while frame is not None and frame.f_code is not body.__code__:
                is_ours = frame.f_code.co_filename.startswith(PACKAGE)
                trail += [frame.f_code.co_name] if is_ours else []
                frame = frame.f_back
            trails.append(trail)

    dispatch._program.cache_clear()
    tensors = [arguments.pop(x, None) for x, kind in kinds(body) if kind.name == "POSITIONAL_ONLY"]
    sys.setprofile(record)
    try:
        row.function(*tensors, **arguments, implementation="xla")
    finally:
        sys.setprofile(None)
    assert trails
    assert all(len(trail) <= 6 for trail in trails), trails


def kinds(function):
    return [(name, x.kind) for name, x in inspect.signature(function).parameters.items()]


@every_call
def test_a_later_call_checks_and_plans_nothing(call, operands):
    x, w = operands
    x = x.astype(jnp.float32) if call is quantize else x
    function = {
        quantized: dmlax.quantized_linear_convolution,
        integer: dmlax.convolution_integer,
        quantize: dmlax.element_wise_quantize_linear,
        dequantize: dmlax.element_wise_dequantize_linear,
        nonzero: dmlax.nonzero_coordinates,
    }[call]
    convolves = call in (quantized, integer)
    for options, most in ((on_device(CALLS[call]), 12), (CALLS[call], 24)):
        args, kwargs = (x, w) if convolves else (x, *options.values()), options if convolves else {}
        function(*args, **kwargs)
        assert python_calls(lambda a=args, k=kwargs: function(*a, **k)) <= most


@every_call
def test_arrays_numbers_numpy_and_a_jitted_call_give_the_same(call, operands):
    options = CALLS[call]
    expected = jax.tree.leaves(call(X, W, **options))
    jitted = jax.jit(call)(*operands, **options)
    scalars = {name: np.asarray(scalar)[()] for name, scalar in on_device(options).items()}
    for found in (
        jitted,
        *(call(*operands, **given) for given in (options, on_device(options), scalars) * 2),
    ):
        for one, other in zip(jax.tree.leaves(found), expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_numbers_are_arguments_of_one_program(operands):
    function = dmlax.element_wise_dequantize_linear
    for scale in (0.5, 2.0, 8.0):
        found = function(operands[0], scale, 3)
        np.testing.assert_array_equal(found, (X.astype(np.float32) - 3) * np.float32(scale))
    assert eager._program(function.__wrapped__)._cache_size() == 1
    assert {float(scalar) for scalar in kept()} == {0.5, 2.0, 8.0, 3.0}


def test_a_number_takes_the_dtype_that_each_call_gives_it(operands):
    for dtype in (np.uint8, np.int16):
        found = dmlax.element_wise_dequantize_linear(operands[0].astype(dtype), 2.0, 3)
        np.testing.assert_array_equal(found, (X.astype(dtype).astype(np.float32) - 3) * 2)
    for dtype in (np.int8, np.uint8):
        found = dmlax.element_wise_quantize_linear(
            jnp.ones(3), 1.0, -5 if dtype == np.int8 else 5, output_dtype=dtype
        )
        assert found.dtype == dtype


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"group_count": 1.0}, "GroupCount"),
        ({"strides": (1.0, 1.0)}, "Strides"),
        ({"input_zero_point": 256}, "InputZeroPointTensor"),
        ({"input_zero_point": 3.0}, "InputZeroPointTensor"),
    ],
)
def test_what_is_refused_stays_refused_after_an_equal_call(options, field, operands):
    good = {"group_count": 1, "strides": (1, 1), "input_zero_point": 3}
    dmlax.convolution_integer(*operands, **good)
    with pytest.raises(dmlax.SpecError) as caught:
        dmlax.convolution_integer(*operands, **{**good, **options})
    assert caught.value.field == field


def test_within_a_trace_nothing_is_kept(operands):
    x, w = operands
    found = jax.jit(lambda y: quantized(x, w, **CALLS[quantized]) + y)(jnp.uint8(0))
    assert all(isinstance(scalar, jax.Array) for scalar in kept())
    assert not any(isinstance(scalar, jax.core.Tracer) for scalar in kept())
    np.testing.assert_array_equal(found, quantized(x, w, **CALLS[quantized]))


def test_scalars_are_bounded(monkeypatch, operands):
    monkeypatch.setattr(eager, "_SCALARS", 4)
    for scale in range(1, 12):
        dmlax.element_wise_dequantize_linear(operands[0], float(scale))
        assert len(kept()) <= 4


class Shared(dict):
    """Scalars that another thread forgets after every look."""

    def forget(self):
        thread = threading.Thread(target=self.clear)
        thread.start()
        thread.join()

    def __contains__(self, key):
        found = super().__contains__(key)
        self.forget()
        return found

    def get(self, key, default=None):
        found = super().get(key, default)
        self.forget()
        return found


def test_another_thread_may_forget_a_scalar_while_it_is_looked_up():
    scalars, scale = Shared(), jnp.float32(0.5)
    operands = lambda: types.SimpleNamespace(scale=scale)  # noqa: E731
    for _ in range(2):
        assert eager._place(scalars, (), operands, "scale", 0.5) is scale
        scalars["scale", float, 0.5, ()] = scale


def test_no_array_of_the_user_is_kept():
    x = jnp.asarray(X) + 1
    dead = weakref.ref(x)
    dmlax.nonzero_coordinates(x)
    dequantize(x, None, scale=2.0)
    del x
    gc.collect()
    assert dead() is None


def with_mesh():
    return jax.set_mesh(jax.make_mesh((4,), ("d",)))


CONTEXTS = {
    "another default device": lambda: jax.default_device(jax.devices()[1]),
    "x64": lambda: jax.enable_x64(True),
    "mesh": with_mesh,
    "cleared caches": lambda: contextlib.nullcontext(jax.clear_caches()),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("call", [quantized, nonzero], ids=["quantized", "nonzero"])
def test_contexts_of_jax_change_no_result(call, context, operands):
    expected = call(*operands, **CALLS[call])
    with CONTEXTS[context]():
        found = call(*operands, **CALLS[call])
    again = call(*operands, **CALLS[call])
    for results in zip(*map(jax.tree.leaves, (expected, found, again)), strict=True):
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


def test_without_jit_the_result_is_the_same(operands):
    count, rows = nonzero(*operands, size=8)
    with jax.disable_jit():
        found = nonzero(*operands, size=8)
    assert (int(found.count), found.coordinates.tolist()) == (int(count), rows.tolist())


@pytest.mark.parametrize("call", [quantized, nonzero], ids=["quantized", "nonzero"])
def test_a_split_input_takes_the_scalars_of_one_device(call, operands):
    expected = call(*operands, **CALLS[call])
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(operands[0], NamedSharding(mesh, PartitionSpec(None, None, "d")))
    for one, other in zip(
        *map(jax.tree.leaves, (expected, call(x, operands[1], **CALLS[call]))), strict=True
    ):
        np.testing.assert_array_equal(one, other)
