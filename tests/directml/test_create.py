"""Operators made from descs: bit for bit what the functions of `dmlax` give."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import dmlax
from directml_cases import (
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
from dmlax import SpecError, directml
from dmlax._operators import SUPPORT
from support import WORDS, assert_same, draw

N, Q, I = "nonzero_coordinates", "quantized_linear_convolution", "convolution_integer"  # noqa: E741
E, D = "element_wise_quantize_linear", "element_wise_dequantize_linear"
SNAKE = {
    "InputTensor": "input_tensor",
    "InputScaleTensor": "input_scale_tensor",
    "InputZeroPointTensor": "input_zero_point_tensor",
    "FilterTensor": "filter_tensor",
    "FilterScaleTensor": "filter_scale_tensor",
    "FilterZeroPointTensor": "filter_zero_point_tensor",
    "BiasTensor": "bias_tensor",
    "OutputScaleTensor": "output_scale_tensor",
    "OutputZeroPointTensor": "output_zero_point_tensor",
    "ScaleTensor": "scale_tensor",
    "ZeroPointTensor": "zero_point_tensor",
    "OutputTensor": "output_tensor",
    "OutputCountTensor": "output_count_tensor",
    "OutputCoordinatesTensor": "output_coordinates_tensor",
}
DIRECTML = {snake: name for name, snake in SNAKE.items()}
LAYOUTS = {3: ("NCW", "OIW", "NCW"), 4: ("NCHW", "OIHW", "NCHW")}


# --- the same by hand ---------------------------------------------------------------------


def length(tensor):
    return tensor.total_tensor_size_in_bytes // tensor.dtype.itemsize


def logical(tensor, bound):
    """The array of Sizes that a bound array or buffer holds."""
    if tensor.is_packed:
        return bound
    steps = [stride * bound.itemsize for stride in tensor.strides]
    view = np.lib.stride_tricks.as_strided(bound, tensor.sizes, steps, writeable=False)
    return np.ascontiguousarray(view)


def bound(tensor, array):
    """The buffer that holds an array, zero where it holds none."""
    if tensor.is_packed:
        return array
    buffer = np.zeros(length(tensor), array.dtype)
    for index in np.ndindex(*tensor.sizes):
        buffer[sum(i * stride for i, stride in zip(index, tensor.strides, strict=True))] = array[
            index
        ]
    return buffer


def values(seed, name, dtype, shape):
    """Anything for integers; small scales; floats with zeros of both signs among them."""
    rng = np.random.default_rng(seed)
    if name == "BiasTensor":
        return rng.integers(-3000, 3000, shape).astype(dtype)
    if "Scale" in name:
        return rng.uniform(0.01, 0.5 if "Output" not in name else 40, shape).astype(dtype)
    if dtype.kind == "f":
        return (rng.normal(0, 30, shape) * rng.integers(-1, 2, shape)).astype(dtype)
    words = draw(seed, WORDS[dtype.itemsize], shape) * rng.integers(0, 2, shape, np.uint8)
    return words.astype(WORDS[dtype.itemsize]).view(dtype)


def given(op, seed=0):
    """Inputs of an operator: every element of every buffer is drawn."""
    tensors = op.desc.tensors
    names = [DIRECTML[name] for name in op.bind_order.inputs]
    return {
        SNAKE[name]: values(seed + place, name, tensors[name].dtype, tensors[name].shape)
        for place, name in enumerate(names)
    }


def expected(operator, fields, inputs):
    """The outputs of the function of `dmlax` for the same tensors, bound."""
    tensors = made(operator, fields).tensors
    x = {DIRECTML[name]: logical(tensors[DIRECTML[name]], each) for name, each in inputs.items()}
    flat = {name: each.reshape(-1) for name, each in x.items()}
    if operator == N:
        *_, size, width = fields["OutputCoordinatesTensor"]["Sizes"]
        found = dmlax.nonzero_coordinates(x["InputTensor"], size=size, coordinate_rank=width)
        outputs = {"OutputCountTensor": found.count, "OutputCoordinatesTensor": found.coordinates}
    elif operator in (Q, I):
        options = {
            "strides": tuple(fields["Strides"]),
            "dilations": tuple(fields["Dilations"]),
            "start_padding": tuple(fields["StartPadding"]),
            "end_padding": tuple(fields["EndPadding"]),
            "group_count": fields["GroupCount"],
            "dimension_numbers": LAYOUTS[x["InputTensor"].ndim],
            "input_zero_point": flat.get("InputZeroPointTensor"),
            "filter_zero_point": flat.get("FilterZeroPointTensor"),
        }
        arrays = x["InputTensor"], x["FilterTensor"]
        if operator == I:
            result = dmlax.convolution_integer(*arrays, **options)
        else:
            result = dmlax.quantized_linear_convolution(
                *(*arrays, flat.get("BiasTensor")),
                input_scale=flat["InputScaleTensor"],
                filter_scale=flat["FilterScaleTensor"],
                output_scale=flat["OutputScaleTensor"],
                output_zero_point=flat.get("OutputZeroPointTensor"),
                output_dtype=tensors["OutputTensor"].dtype,
                **options,
            )
        outputs = {"OutputTensor": result}
    else:
        arrays = x["InputTensor"], x["ScaleTensor"], x.get("ZeroPointTensor")
        if operator == E:
            dtype = tensors["OutputTensor"].dtype
            result = dmlax.element_wise_quantize_linear(*arrays, output_dtype=dtype)
        else:
            result = dmlax.element_wise_dequantize_linear(*arrays)
        outputs = {"OutputTensor": result}
    return {
        SNAKE[name]: bound(tensors[name], np.asarray(each).reshape(tensors[name].sizes))
        for name, each in outputs.items()
    }


def assert_all_same(actual, wanted):
    assert set(actual) == set(wanted)  # jit sorts them
    for name, each in wanted.items():
        assert_same(actual[name], each)


def check(operator, fields, at, transform=lambda function: function, seed=0):
    op = directml.create_operator(made(operator, fields), feature_level=level(at))
    inputs = given(op, seed)
    assert_all_same(
        transform(lambda tensors: op(**tensors))(inputs), expected(operator, fields, inputs)
    )


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


# --- packed -------------------------------------------------------------------------------

PADDED = {"StartPadding": [1, 0], "EndPadding": [0, 2]}
PACKED = {
    "nonzero float16": (N, nonzero((1, 2, 3, 4), "FLOAT16"), "3_0"),
    "nonzero int32 of five axes": (N, nonzero((1, 2, 1, 3, 2), "INT32", width=4), "3_0"),
    "nonzero of one axis": (N, nonzero((9,), "UINT16", rank=3, width=1), "4_0"),
    "nonzero of ones": (N, nonzero((1, 1, 1, 1), "INT8", width=1), "3_0"),
    "nonzero with outputs of other ranks": (N, nonzero((2, 3), count_rank=8, rank=7), "4_0"),
    "quantized, per channel, padded, groups": (Q, quantized(**PADDED), "2_1"),
    "quantized, without optional tensors": (Q, quantized(optional=False), "2_1"),
    "quantized, one scale": (Q, quantized(per_channel=False, Strides=[2, 3]), "2_1"),
    "quantized to int8": (Q, quantized(data_types=("INT8", "UINT8", "INT8")), "2_1"),
    "quantized of three axes": (
        *(Q, quantized((2, 2, 7), (3, 2, 2), Dilations=[2], StartPadding=[1])),
        "4_0",
    ),
    "quantized, flat parameters": (Q, quantized(parameter_rank=1, scale_rank=3), "4_0"),
    "quantized, flat scale": (Q, quantized(parameter_rank=1), "5_2"),
    "integer, per channel, padded, groups": (I, integer(**PADDED, Strides=[2, 1]), "2_1"),
    "integer without zero points": (I, integer(optional=False, data_types=("INT8",) * 2), "2_1"),
    "integer of three axes": (I, integer((2, 2, 7), (3, 2, 2), parameter_rank=2), "4_0"),
    "quantize": (E, quantize(), "1_0"),
    "quantize int32 to int8": (E, quantize(input="INT32", output="INT8"), "2_1"),
    "quantize one axis": (E, quantize((7,)), "3_0"),
    "quantize float16": (E, quantize(input="FLOAT16"), "6_0"),
    "quantize without zero point": (E, quantize(output="INT8", zero_point=False), "6_2"),
    "dequantize": (D, dequantize(), "1_0"),
    "dequantize int32": (D, dequantize(input="INT32"), "2_1"),
    "dequantize uint16 of eight axes": (
        D,
        dequantize((1, 2, 1, 1, 2, 1, 1, 3), input="UINT16"),
        "3_0",
    ),
    "dequantize to float16": (D, dequantize(input="INT8", output="FLOAT16"), "6_0"),
    "dequantize without zero point": (D, dequantize(zero_point=False), "6_2"),
}


@pytest.mark.parametrize(("operator", "fields", "first"), PACKED.values(), ids=PACKED)
def test_at_every_level_the_operator_is_the_function(operator, fields, first):
    desc = made(operator, fields)
    op = directml.create_operator(desc, feature_level=level(first))
    inputs = given(op)
    wanted = expected(operator, fields, inputs)
    for at in levels(first):
        op = directml.create_operator(desc, feature_level=level(at))
        assert op.feature_level is level(at)
        assert_all_same(op(**inputs), wanted)


@pytest.mark.parametrize(("operator", "fields", "first"), PACKED.values(), ids=PACKED)
def test_jitted_it_is_the_same(operator, fields, first):
    check(operator, fields, first, jax.jit, seed=50)


def test_a_larger_byte_size_changes_no_packed_array():
    fields = edited(quantize((2, 3)), InputTensor={"TotalTensorSizeInBytes": 4096})
    check(E, fields, "3_0")


def test_explicit_packed_strides_are_packed():
    fields = edited(quantize((2, 3)), InputTensor={"Strides": [3, 1]})
    check(E, fields, "3_0")


def test_owned_tensors_are_given_with_the_others():
    fields = edited(quantized(), FilterTensor={"Flags": "OWNED_BY_DML"})
    check(Q, fields, "2_1")


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
        N,
        strided(nonzero(width=3), OutputCoordinatesTensor=(24, 24, 1, 8)),
    ),
    "coordinates in columns, every other": (
        *(N, strided(nonzero(width=3), 20, OutputCoordinatesTensor=(48, 48, 2, 16))),
    ),
    "coordinates, rows padded": (
        *(N, strided(nonzero(width=3), OutputCoordinatesTensor=(32, 32, 4, 1))),
    ),
    "a count whose strides are not packed": (
        *(N, strided(nonzero(), 8, OutputCountTensor=(5, 5, 5, 5))),
    ),
    "an input read backwards in memory order": (
        *(N, strided(nonzero((1, 2, 3, 4), "UINT8"), InputTensor=(24, 1, 2, 6))),
    ),
    "one element repeated": (N, strided(nonzero((1, 1, 2, 4)), InputTensor=(0, 0, 0, 0))),
    "overlapping windows of the input": (N, strided(nonzero(), InputTensor=(9, 9, 2, 1))),
    "NHWC": (
        Q,
        strided(
            quantized(**PADDED),
            InputTensor=permuted((1, 4, 4, 5), NHWC),
            FilterTensor=permuted((6, 2, 2, 3), NHWC),
            OutputTensor=permuted(quantized(**PADDED)["OutputTensor"]["Sizes"], NHWC),
        ),
    ),
    "padded rows": (
        Q,
        strided(quantized(), 12, InputTensor=(200, 40, 8, 1), OutputTensor=(99, 16, 5, 1)),
    ),
    "a scale for all channels": (
        Q,
        strided(
            quantized(),
            FilterScaleTensor=(0, 0, 0, 0),
            FilterZeroPointTensor=(0, 0, 0, 0),
            BiasTensor=(0, 0, 0, 0),
        ),
    ),
    "every other scale": (Q, strided(quantized(), FilterScaleTensor=(12, 2, 1, 1))),
    "integer, NHWC to padded NCHW": (
        I,
        strided(
            integer(), 4, InputTensor=permuted((1, 4, 4, 5), NHWC), OutputTensor=(60, 10, 3, 1)
        ),
    ),
    "quantize with a scale per channel": (
        E,
        strided(quantize((1, 3, 2, 2)), ScaleTensor=(0, 1, 0, 0), ZeroPointTensor=(0, 1, 0, 0)),
    ),
    "quantize, one scale, transposed output": (
        E,
        strided(quantize((1, 2, 3, 4)), ScaleTensor=(0,) * 4, OutputTensor=(24, 1, 8, 2)),
    ),
    "quantize to interleaved places": (
        E,
        strided(quantize((1, 1, 2, 3)), 4, OutputTensor=(9, 9, 3, 2)),
    ),
    "dequantize a sliding window": (
        D,
        strided(dequantize((1, 1, 4, 3)), InputTensor=(1, 1, 1, 1), OutputTensor=(40, 40, 8, 2)),
    ),
    "dequantize blocks": (
        D,
        strided(dequantize((2, 3, 1, 4)), ScaleTensor=(3, 1, 1, 0), ZeroPointTensor=(3, 1, 1, 0)),
    ),
}


@pytest.mark.parametrize(("operator", "fields"), STRIDED.values(), ids=STRIDED)
def test_strided_tensors_are_buffers(how, operator, fields):
    check(operator, fields, "3_0", how)


@pytest.mark.parametrize("name", ["NHWC", "quantize to interleaved places"])
def test_gaps_of_inputs_are_not_read_and_of_outputs_are_zero(name):
    operator, fields = STRIDED[name]
    op = directml.create_operator(made(operator, fields), feature_level=level("3_0"))
    tensor = op.desc.output_tensor
    taken = bound(tensor, np.ones(tensor.sizes, np.uint8))
    outputs = op(**given(op))
    assert outputs["output_tensor"].shape == (length(tensor),)
    assert not np.asarray(outputs["output_tensor"])[taken == 0].any()


# --- transformations ----------------------------------------------------------------------

BATCHED = {
    **{name: PACKED[name][:2] for name in ("nonzero int32 of five axes", "dequantize")},
    "quantized, per channel, padded, groups": PACKED["quantized, per channel, padded, groups"][:2],
    "integer, per channel, padded, groups": PACKED["integer, per channel, padded, groups"][:2],
    "coordinates in columns, every other": STRIDED["coordinates in columns, every other"],
    "NHWC": STRIDED["NHWC"],
    "quantize to interleaved places": STRIDED["quantize to interleaved places"],
}


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


def test_vmap_over_one_tensor():
    op = directml.create_operator(made(Q, quantized()), feature_level=level("2_1"))
    inputs = given(op)
    images = draw(3, "uint8", (3, *inputs["input_tensor"].shape))
    outputs = jax.vmap(lambda x: op(**{**inputs, "input_tensor": x})["output_tensor"])(images)
    each = [op(**{**inputs, "input_tensor": x})["output_tensor"] for x in images]
    assert_same(outputs, np.stack(list(map(np.asarray, each))))


def test_the_scale_of_dequantize_has_a_gradient():
    op = directml.create_operator(made(D, dequantize()), feature_level=level("1_0"))
    inputs = given(op)

    def total(scale):
        return op(**{**inputs, "scale_tensor": scale})["output_tensor"].sum()

    gradient = jax.grad(total)(jnp.asarray(inputs["scale_tensor"]))
    difference = inputs["input_tensor"].astype(int) - inputs["zero_point_tensor"]
    assert_same(gradient, difference.astype(np.float32))


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
    outputs = export.deserialize(stored).call(inputs)
    assert_all_same(outputs, expected(operator, fields, inputs))


def test_shapes_are_known_without_running():
    operator, fields = STRIDED["coordinates in columns, every other"]
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


def test_another_desc_is_another_operator():
    at = level("3_0")
    one = directml.create_operator(made(N, nonzero()), feature_level=at)
    other = directml.create_operator(made(N, nonzero(width=2)), feature_level=at)
    assert one is not other
    assert one.desc != other.desc


@pytest.mark.parametrize("operator", VALID)
def test_an_operator_knows_its_desc(operator):
    fields, first = VALID[operator]
    desc = made(operator, fields)
    op = directml.create_operator(desc, feature_level=level(first))
    assert isinstance(op, directml.CompiledOperator)
    assert op.desc == desc


# --- names --------------------------------------------------------------------------------

ALL = "input_tensor input_scale_tensor input_zero_point_tensor filter_tensor filter_scale_tensor "
ALL += "filter_zero_point_tensor bias_tensor output_scale_tensor output_zero_point_tensor"
BARE = "input_tensor input_scale_tensor filter_tensor filter_scale_tensor output_scale_tensor"
ORDERS = {
    "nonzero": (
        *(N, nonzero(), "3_0", "input_tensor"),
        "output_count_tensor output_coordinates_tensor",
    ),
    "quantized": (Q, quantized(), "2_1", ALL, "output_tensor"),
    "quantized, bare": (Q, quantized(optional=False), "2_1", BARE, "output_tensor"),
    "quantized with a bias": (
        *(Q, {**quantized(optional=False), "BiasTensor": quantized()["BiasTensor"]}, "2_1"),
        BARE.replace("output_scale", "bias_tensor output_scale"),
        "output_tensor",
    ),
    "integer": (
        *(I, integer(), "2_1"),
        "input_tensor input_zero_point_tensor filter_tensor filter_zero_point_tensor",
        "output_tensor",
    ),
    "integer, bare": (
        I,
        integer(optional=False),
        "2_1",
        "input_tensor filter_tensor",
        "output_tensor",
    ),
    "quantize": (
        E,
        quantize(),
        "1_0",
        "input_tensor scale_tensor zero_point_tensor",
        "output_tensor",
    ),
    "dequantize, bare": (
        *(D, dequantize(zero_point=False), "6_2"),
        "input_tensor scale_tensor",
        "output_tensor",
    ),
}


@pytest.mark.parametrize(
    ("operator", "fields", "at", "inputs", "outputs"), ORDERS.values(), ids=ORDERS
)
def test_tensors_are_bound_in_directmls_order(operator, fields, at, inputs, outputs):
    op = directml.create_operator(made(operator, fields), feature_level=level(at))
    order = directml.BindOrder(tuple(inputs.split()), tuple(outputs.split()))
    assert op.bind_order == order
    assert list(op(**given(op))) == outputs.split()
    name = "".join(word.capitalize() for word in operator.split("_"))
    shown = f"{', '.join(order.inputs)} -> {', '.join(order.outputs)}"
    assert repr(op) == f"<{name} at DML_FEATURE_LEVEL_{at}: {shown}>"


# --- wrong calls --------------------------------------------------------------------------

X = np.zeros((1, 2, 3, 4), np.float32)
ELEMENTS = {"input_tensor": X, "scale_tensor": X, "zero_point_tensor": np.zeros(X.shape, np.uint8)}
PADDED_ROWS = strided(quantize(), 16, InputTensor=(60, 30, 8, 1))
WRONG = {
    "a missing tensor": (
        *(quantize(), {"zero_point_tensor": None}, "missing_tensor"),
        "ZeroPointTensor is missing",
    ),
    "an optional tensor that the desc has not": (
        *(quantize(zero_point=False), {}, "option"),
        "ZeroPointTensor is no input; expected one of input_tensor, scale_tensor",
    ),
    "a misspelt name": (
        *(quantize(), {"input_tensr": X}, "option"),
        "InputTensr is no input; did you mean input_tensor?",
    ),
    "an output": (
        *(quantize(), {"output_tensor": X}, "option"),
        "OutputTensor is no input; did you mean input_tensor?",
    ),
    "the function's name": (
        *(quantize(), {"scale": X}, "option"),
        "Scale is no input; did you mean scale_tensor?",
    ),
    "a data type": (
        *(quantize(), {"input_tensor": X.astype(np.float16)}, "data_type"),
        "InputTensor is float16[1,2,3,4], expected float32[1,2,3,4]",
    ),
    "a data type and sizes": (
        *(quantize(), {"scale_tensor": np.zeros(3, np.int32)}, "data_type"),
        "ScaleTensor is int32[3], expected float32[1,2,3,4]",
    ),
    "sizes": (
        *(quantize(), {"scale_tensor": X[..., :1]}, "sizes"),
        "ScaleTensor is float32[1,2,3,1], expected float32[1,2,3,4]",
    ),
    "flat for packed": (
        *(quantize(), {"input_tensor": X.reshape(-1)}, "sizes"),
        "InputTensor is float32[24], expected float32[1,2,3,4]",
    ),
    "packed for flat": (
        *(PADDED_ROWS, {}, "sizes"),
        "InputTensor is float32[1,2,3,4], expected float32[54], the flat buffer, as its Strides "
        "are not packed",
    ),
    "a buffer that is too short": (
        *(PADDED_ROWS, {"input_tensor": np.zeros(50, np.float32)}, "sizes"),
        "InputTensor is float32[50], expected float32[54], the flat buffer, as its Strides are "
        "not packed",
    ),
    "a Python scalar": (
        *(quantize(), {"scale_tensor": 1.0}, "data_type"),
        "ScaleTensor is a float, expected float32[1,2,3,4]",
    ),
    "a list": (
        *(quantize(), {"input_tensor": X.tolist()}, "data_type"),
        "InputTensor is a list, expected float32[1,2,3,4]",
    ),
}


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("fields", "edits", "code", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_call_is_refused(fields, edits, code, text, traced):
    at = "6_2"
    op = directml.create_operator(made(E, fields), feature_level=level(at))
    tensors = {k: v for k, v in {**ELEMENTS, **edits}.items() if v is not None}
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
