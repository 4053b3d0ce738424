"""Operators made from descs: bit for bit what the functions of `dmlax` give."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from dmlax import SpecError, directml
from dmlax._operators.registry import SUPPORT
from support import WORDS, assert_same, draw
from support.cases.directml import (
    DESCS,
    VALID,
    dequantize,
    edited,
    integer,
    level,
    levels,
    made,
    nonzero,
    permuted,
    quantize,
    quantized,
)

pytestmark = pytest.mark.oldest

N, Q, I = "nonzero_coordinates", "quantized_linear_convolution", "convolution_integer"  # noqa: E741
E, D = "element_wise_quantize_linear", "element_wise_dequantize_linear"


def directml_name(name):
    return "".join(word.capitalize() for word in name.split("_"))


# --- calls ----------------------------------------------------------------------------


def values(seed, name, dtype, shape):
    """Anything for integers; small scales; floats with zeros of both signs among them."""
    rng = np.random.default_rng(seed)
    if name == "bias_tensor":
        return rng.integers(-3000, 3000, shape).astype(dtype)
    if "scale" in name:
        return rng.uniform(0.01, 0.5 if "output" not in name else 40, shape).astype(dtype)
    if dtype.kind == "f":
        return (rng.normal(0, 30, shape) * rng.integers(-1, 2, shape)).astype(dtype)
    words = draw(seed, WORDS[dtype.itemsize], shape) * rng.integers(0, 2, shape, np.uint8)
    return words.astype(WORDS[dtype.itemsize]).view(dtype)


def given(op, seed=0):
    """Inputs of an operator: every element of every buffer is drawn."""
    tensors = op.desc.tensors
    return {
        name: values(seed + place, name, tensor.dtype, tensor.shape)
        for place, name in enumerate(op.bind_order.inputs)
        for tensor in [tensors[directml_name(name)]]
    }


def assert_all_same(actual, wanted):
    assert set(actual) == set(wanted)  # jit sorts them
    for name, each in wanted.items():
        assert_same(actual[name], each)


# --- the example of the page --------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 3, 4])
def test_the_example_of_the_page(how, width):
    desc = made(N, nonzero(width=width))
    x = jnp.array([[[[1.0, 0.0, 0.0, 2.0], [-0.0, 3.5, 0.0, -5.2]]]])
    rows = np.zeros((1, 1, 8, width), np.uint32)
    rows[0, 0, :4, -2:] = [[0, 0], [0, 3], [1, 1], [1, 3]]
    for at in levels("3_0"):
        op = directml.create_operator(desc, feature_level=level(at))
        outputs = how(lambda x, op=op: op(input_tensor=x))(x)
        assert_all_same(
            outputs,
            {
                "output_count_tensor": np.full((1, 1, 1, 1), 4, np.uint32),
                "output_coordinates_tensor": rows,
            },
        )


# --- values -------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", VALID)
def test_every_level_gives_the_same(operator):
    """`tests/test_conformance.py` compares the outputs of packed and strided descs."""
    fields, first = VALID[operator]
    desc = made(operator, fields)
    op = directml.create_operator(desc, feature_level=level(first))
    inputs = given(op)
    wanted = op(**inputs)
    for at in levels(first):
        op = directml.create_operator(desc, feature_level=level(at))
        assert op.feature_level is level(at)
        assert_all_same(op(**inputs), wanted)


def test_counts_and_coordinates_are_of_words_not_of_values():
    op = directml.create_operator(made(N, nonzero((3,))), feature_level=level("4_0"))
    tiny = np.array([1e-45, -0.0, np.nan], np.float32)
    outputs = op(input_tensor=tiny)
    assert outputs["output_count_tensor"].tolist() == [2]
    assert outputs["output_coordinates_tensor"].tolist() == [[0], [2], [0]]


# --- strided ------------------------------------------------------------------------------


def strided(fields, more=0, **strides):
    """Fields with these Strides; `more` bytes than are needed."""
    edits = {name: {"Strides": list(steps)} for name, steps in strides.items()}
    changed = edited(fields, **edits)
    if more:
        for name in strides:
            least = directml.BufferTensorDesc.from_dict(changed[name]).minimum_size_in_bytes
            changed[name]["TotalTensorSizeInBytes"] = least + more
    return changed


NHWC = (0, 2, 3, 1)
STRIDED = {
    "coordinates in columns": (
        *(N, strided(nonzero(width=3), 20, OutputCoordinatesTensor=(48, 48, 2, 16))),
    ),
    "NHWC": (
        Q,
        strided(
            quantized(),
            InputTensor=permuted((1, 4, 4, 5), NHWC),
            FilterTensor=permuted((6, 2, 2, 3), NHWC),
            OutputTensor=permuted(quantized()["OutputTensor"]["Sizes"], NHWC),
        ),
    ),
    "interleaved": (E, strided(quantize((1, 1, 2, 3)), 4, OutputTensor=(9, 9, 3, 2))),
}


def test_gaps_of_outputs_are_zero():
    operator, fields = STRIDED["interleaved"]
    op = directml.create_operator(made(operator, fields), feature_level=level("3_0"))
    tensor = op.desc.output_tensor
    taken = [
        sum(i * step for i, step in zip(index, tensor.strides, strict=True))
        for index in np.ndindex(*tensor.sizes)
    ]
    buffer = np.asarray(op(**given(op))["output_tensor"])
    assert buffer.size == tensor.total_tensor_size_in_bytes
    assert not np.delete(buffer, taken).any()


# --- transformations ----------------------------------------------------------------------

BATCHED = {name: (name, fields) for name, (fields, _) in VALID.items()} | STRIDED


@pytest.mark.parametrize(("operator", "fields"), BATCHED.values(), ids=BATCHED)
def test_vmap_is_a_loop(operator, fields):
    op = directml.create_operator(made(operator, fields), feature_level=level("3_0"))
    calls = [given(op, 100 * number) for number in range(3)]
    stacked = {name: np.stack([each[name] for each in calls]) for name in op.bind_order.inputs}
    outputs = jax.vmap(lambda tensors: op(**tensors))(stacked)
    wanted = [op(**each) for each in calls]
    assert set(outputs) == set(op.bind_order.outputs)
    for name in outputs:
        assert_same(outputs[name], np.stack([np.asarray(each[name]) for each in wanted]))


def test_the_gradient_of_a_broadcast_scale_is_a_sum():
    fields = strided(dequantize((1, 1, 2, 3)), ScaleTensor=(0, 0, 1, 0))
    op = directml.create_operator(made(D, fields), feature_level=level("1_0"))
    inputs = given(op)

    def total(scale):
        return op(**{**inputs, "scale_tensor": scale})["output_tensor"].sum()

    gradient = jax.grad(total)(jnp.asarray(inputs["scale_tensor"]))
    difference = inputs["input_tensor"].astype(int) - inputs["zero_point_tensor"]
    assert_same(gradient, difference.sum(3).reshape(-1).astype(np.float32))


@pytest.mark.parametrize("operator", VALID)
def test_an_exported_operator_is_the_same(operator):
    fields, first = VALID[operator]
    op = directml.create_operator(made(operator, fields), feature_level=level(first))
    inputs = given(op)
    function = jax.jit(lambda tensors: op(**tensors))
    shapes = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in inputs.items()}
    stored = export.export(function, platforms=["cpu"])(shapes).serialize()
    assert_all_same(export.deserialize(stored).call(inputs), op(**inputs))


def test_shapes_are_known_without_running():
    operator, fields = STRIDED["coordinates in columns"]
    op = directml.create_operator(made(operator, fields), feature_level=level("3_0"))
    shapes = jax.eval_shape(
        lambda x: op(input_tensor=x), jax.ShapeDtypeStruct((1, 1, 2, 4), np.float32)
    )
    assert {name: (x.shape, x.dtype) for name, x in shapes.items()} == {
        "output_count_tensor": ((1, 1, 1, 1), np.uint32),
        "output_coordinates_tensor": ((52,), np.uint32),
    }


# --- one operator for equal descs ---------------------------------------------------------


@pytest.mark.parametrize("operator", VALID)
def test_equal_descs_give_the_same_operator_which_traces_once(operator, monkeypatch):
    fields, first = VALID[operator]
    fields = edited(fields, InputTensor={"GuaranteedBaseOffsetAlignment": 4096})
    traced, support = [], SUPPORT[DESCS[operator]]

    def counted(desc, tensors):
        traced.append(desc)
        return support.call(desc, tensors)

    monkeypatch.setitem(SUPPORT, support.desc, replace(support, call=counted))
    one, two = (
        directml.create_operator(made(operator, fields), feature_level=level(first))
        for _ in range(2)
    )
    assert one is two
    inputs = given(one)
    first_time = one(**inputs)
    assert len(traced) == 1
    two(**inputs)
    one(**{name: jnp.asarray(x) for name, x in inputs.items()})
    assert len(traced) == 1
    later = directml.create_operator(made(operator, fields), feature_level=level("6_4"))
    assert later is not one
    assert (one.feature_level, later.feature_level) == (level(first), level("6_4"))
    assert_all_same(later(**inputs), first_time)
    assert len(traced) == 1


# --- names --------------------------------------------------------------------------------

ALL = "input_tensor input_scale_tensor input_zero_point_tensor filter_tensor filter_scale_tensor "
ALL += "filter_zero_point_tensor bias_tensor output_scale_tensor output_zero_point_tensor"
BARE = "input_tensor input_scale_tensor filter_tensor filter_scale_tensor output_scale_tensor"
ELEMENTS = "input_tensor scale_tensor zero_point_tensor"
PRODUCTS = "input_tensor input_zero_point_tensor filter_tensor filter_zero_point_tensor"
BIASED = {**quantized(optional=False), "BiasTensor": quantized()["BiasTensor"]}
ORDERS = [
    (N, nonzero(), "3_0", "input_tensor", "output_count_tensor output_coordinates_tensor"),
    (Q, quantized(), "2_1", ALL, "output_tensor"),
    (Q, quantized(optional=False), "2_1", BARE, "output_tensor"),
    (Q, BIASED, "2_1", BARE.replace("output_scale", "bias_tensor output_scale"), "output_tensor"),
    (I, integer(), "2_1", PRODUCTS, "output_tensor"),
    (I, integer(optional=False), "2_1", "input_tensor filter_tensor", "output_tensor"),
    (E, quantize(), "1_0", ELEMENTS, "output_tensor"),
    (D, dequantize(zero_point=False), "6_2", "input_tensor scale_tensor", "output_tensor"),
]


@pytest.mark.parametrize(
    ("operator", "fields", "at", "inputs", "outputs"), ORDERS, ids=range(len(ORDERS))
)
def test_tensors_are_bound_in_directmls_order(operator, fields, at, inputs, outputs):
    op = directml.create_operator(made(operator, fields), feature_level=level(at))
    order = directml.BindOrder(tuple(inputs.split()), tuple(outputs.split()))
    assert op.bind_order == order
    assert list(op(**given(op))) == outputs.split()
    name = directml_name(operator)
    shown = f"{', '.join(order.inputs)} -> {', '.join(order.outputs)}"
    assert repr(op) == f"<{name} at DML_FEATURE_LEVEL_{at}: {shown}>"


# --- wrong calls --------------------------------------------------------------------------

X = np.zeros((1, 2, 3, 4), np.float32)
TENSORS = {"input_tensor": X, "scale_tensor": X, "zero_point_tensor": np.zeros(X.shape, np.uint8)}
PADDED_ROWS = strided(quantize(), 16, InputTensor=(60, 30, 8, 1))
SHAPE = "expected float32[1,2,3,4]"
FLAT = "expected float32[54], the flat buffer, as its Strides are not packed"
BARE_ELEMENTS = quantize(zero_point=False)
WRONG = [  # edits of the tensors, the code and the message
    ({"zero_point_tensor": None}, "missing_tensor", "ZeroPointTensor is missing"),
    ({"input_tensr": X}, "option", "InputTensr is no input; did you mean input_tensor?"),
    ({"output_tensor": X}, "option", "OutputTensor is no input; did you mean input_tensor?"),
    ({"scale": X}, "option", "Scale is no input; did you mean scale_tensor?"),
    (
        {"input_tensor": X.astype(np.float16)},
        "data_type",
        f"InputTensor is float16[1,2,3,4], {SHAPE}",
    ),
    ({"scale_tensor": np.zeros(3, np.int32)}, "data_type", f"ScaleTensor is int32[3], {SHAPE}"),
    ({"scale_tensor": X[..., :1]}, "sizes", f"ScaleTensor is float32[1,2,3,1], {SHAPE}"),
    ({"input_tensor": X.reshape(-1)}, "sizes", f"InputTensor is float32[24], {SHAPE}"),
    ({"scale_tensor": 1.0}, "data_type", f"ScaleTensor is a float, {SHAPE}"),
    ({"input_tensor": X.tolist()}, "data_type", f"InputTensor is a list, {SHAPE}"),
]
WRONG = [(quantize(), *each) for each in WRONG] + [
    (
        *(BARE_ELEMENTS, {}, "option"),
        "ZeroPointTensor is no input; expected one of input_tensor, scale_tensor",
    ),
    (PADDED_ROWS, {}, "sizes", f"InputTensor is float32[1,2,3,4], {FLAT}"),
    (
        *(PADDED_ROWS, {"input_tensor": np.zeros(50, np.float32)}, "sizes"),
        f"InputTensor is float32[50], {FLAT}",
    ),
]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("fields", "edits", "code", "text"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_call_is_refused(fields, edits, code, text, traced):
    at = "6_2"
    op = directml.create_operator(made(E, fields), feature_level=level(at))
    tensors = {k: v for k, v in {**TENSORS, **edits}.items() if v is not None}
    arrays = {k: v for k, v in tensors.items() if traced and isinstance(v, np.ndarray)}
    rest = {k: v for k, v in tensors.items() if k not in arrays}
    with pytest.raises(SpecError) as caught:
        jax.jit(lambda arrays: op(**arrays, **rest))(arrays)
    error = caught.value
    assert str(error) == f"ElementWiseQuantizeLinear: {text}"
    assert (error.code, error.field) == (code, text.partition(" ")[0])


def test_tensors_are_given_by_name_only():
    op = directml.create_operator(made(N, nonzero()), feature_level=level("3_0"))
    with pytest.raises(TypeError, match="positional"):
        op(X)


def test_nothing_runs_for_a_broken_desc(monkeypatch):
    def never(desc, tensors):
        raise AssertionError

    monkeypatch.setitem(SUPPORT, DESCS[N], replace(SUPPORT[DESCS[N]], call=never))
    desc = made(N, edited(nonzero(), OutputCountTensor={"Sizes": [1, 1, 1, 2]}))
    for _ in range(2):
        with pytest.raises(SpecError, match="OutputCountTensor has Sizes"):
            directml.create_operator(desc, feature_level=level("3_0"))


@pytest.mark.parametrize("operator", [Q, E, D])
@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_scales_in_numpy_are_checked_as_by_the_functions(operator, bad):
    fields, at = VALID[operator]
    op = directml.create_operator(made(operator, fields), feature_level=level(at))
    tensors = given(op)
    for name in filter(lambda name: name.endswith("scale_tensor"), tensors):
        wrong = tensors[name].copy()
        wrong.flat[-1] = bad
        with pytest.raises(SpecError, match="expected finite nonzero values") as caught:
            op(**tensors | {name: wrong})
        assert (caught.value.code, caught.value.field) == ("value", directml_name(name))
        assert op(**tensors | {name: jnp.asarray(wrong)})  # a device array is not read
