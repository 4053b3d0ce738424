"""Descs as records: what their fields hold, and how DirectML spells them."""

import json
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from dmlax import SpecError, directml
from support.cases.directml import DESCS, VALID, edited, made, nonzero, quantized, tensor
from support.cases.directml import NAMES as SPELLED

NAMES = "UNKNOWN, FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, "
NAMES += "INT64, UINT4, INT4"


def refused(call, *args):
    with pytest.raises(SpecError) as caught:
        call(*args)
    return caught.value


@pytest.mark.parametrize("operator", VALID)
def test_a_desc_survives_json(operator):
    desc = made(operator, VALID[operator][0])
    written = desc.to_dict()
    assert DESCS[operator].from_dict(json.loads(json.dumps(written))) == desc
    assert DESCS[operator].from_dict(written).to_dict() == written


def test_a_tensors_fields_are_directmls_in_directmls_order():
    written = directml.BufferTensorDesc(data_type=directml.DataType.INT8, sizes=(2, 3)).to_dict()
    assert list(written.items()) == [
        ("DataType", "INT8"),
        ("Flags", "NONE"),
        ("DimensionCount", 2),
        ("Sizes", [2, 3]),
        ("Strides", None),
        ("TotalTensorSizeInBytes", 8),
        ("GuaranteedBaseOffsetAlignment", 0),
    ]


def test_every_field_of_a_tensor_survives_json():
    written = {
        "DataType": "FLOAT16",
        "Flags": "OWNED_BY_DML",
        "DimensionCount": 2,
        "Sizes": [2, 3],
        "Strides": [8, 2],
        "TotalTensorSizeInBytes": 100,
        "GuaranteedBaseOffsetAlignment": 256,
    }
    desc = directml.BufferTensorDesc.from_dict(json.loads(json.dumps(written)))
    assert desc.to_dict() == written
    assert desc.flags is directml.TensorFlags.OWNED_BY_DML
    assert desc.data_type is directml.DataType.FLOAT16
    assert (desc.sizes, desc.strides) == ((2, 3), (8, 2))


@pytest.mark.parametrize("name", directml.DataType.__members__)
def test_data_types_may_be_spelled_in_full(name):
    full = tensor(f"DML_TENSOR_DATA_TYPE_{name}", [1])
    assert directml.BufferTensorDesc.from_dict(full).data_type is directml.DataType[name]


@pytest.mark.parametrize("name", directml.TensorFlags.__members__)
def test_flags_may_be_spelled_in_full(name):
    full = tensor("INT8", [1], Flags=f"DML_TENSOR_FLAG_{name}")
    assert directml.BufferTensorDesc.from_dict(full).flags is directml.TensorFlags[name]


def test_enumerations_have_directmls_values():
    assert [each.value for each in directml.DataType] == list(range(14))
    assert ", ".join(map(str, directml.DataType)) == NAMES
    assert [each.value for each in directml.TensorFlags] == [1]
    assert directml.FeatureLevel.LEVEL_6_4 == 0x6400
    assert str(directml.FeatureLevel.LEVEL_3_0) == "DML_FEATURE_LEVEL_3_0"
    assert len(directml.FeatureLevel) == 15
    assert list(directml.FeatureLevel) == sorted(directml.FeatureLevel)


UINT = "expected an integer from 0 to 4294967295"
ARRAY = "expected a sequence of UINT"
BUFFER = [  # fields of a tensor, and the message
    ({"DataType": "FLOAT23"}, "DataType is 'FLOAT23'; did you mean FLOAT32?"),
    ({"DataType": "float32"}, "DataType is 'float32'; did you mean FLOAT32?"),
    (
        {"DataType": "DML_TENSOR_FLAG_NONE"},
        f"DataType is 'DML_TENSOR_FLAG_NONE'; expected one of {NAMES}",
    ),
    ({"DataType": 1}, f"DataType is 1; expected one of {NAMES}"),
    ({"DataType": []}, f"DataType is a list; expected one of {NAMES}"),
    ({"DataType": None}, f"DataType is None; expected one of {NAMES}"),
    ({"Flags": "OWNED_BY_DM"}, "Flags is 'OWNED_BY_DM'; did you mean OWNED_BY_DML?"),
    ({"Sizes": "12"}, f"Sizes is '12', {ARRAY}"),
    ({"Sizes": 12}, f"Sizes is 12, {ARRAY}"),
    ({"Sizes": {}}, f"Sizes is a dict, {ARRAY}"),
    ({"Sizes": None}, f"Sizes is None, {ARRAY}"),
    ({"Sizes": [2, True]}, f"Sizes[1] is True, {UINT}"),
    ({"Sizes": [2.0]}, f"Sizes[0] is 2.0, {UINT}"),
    ({"Sizes": [-1]}, f"Sizes[0] is -1, {UINT}"),
    ({"Sizes": [2**32]}, f"Sizes[0] is 4294967296, {UINT}"),
    ({"Strides": [[1]]}, f"Strides[0] is a list, {UINT}"),
    ({"Strides": "1"}, f"Strides is '1', {ARRAY}"),
    *[
        ({"TotalTensorSizeInBytes": x}, f"TotalTensorSizeInBytes is {x}, {UINT[:-10]}{2**64 - 1}")
        for x in (True, 2**64)
    ],
    ({"GuaranteedBaseOffsetAlignment": -4}, f"GuaranteedBaseOffsetAlignment is -4, {UINT}"),
    ({"Size": [1]}, "Size is no field; did you mean Sizes?"),
    (
        {"total_tensor_size_in_bytes": 4},
        "total_tensor_size_in_bytes is no field; did you mean TotalTensorSizeInBytes?",
    ),
    (
        {"Colour": 1},
        "Colour is no field; expected one of DataType, Flags, Sizes, Strides, "
        "TotalTensorSizeInBytes, GuaranteedBaseOffsetAlignment, DimensionCount",
    ),
]
CODES = {
    "DataType": "data_type",
    "Flags": "flags",
    "Sizes": "sizes",
    "Strides": "strides",
    "TotalTensorSizeInBytes": "byte_size",
    "GuaranteedBaseOffsetAlignment": "alignment",
}


@pytest.mark.parametrize(("fields", "text"), BUFFER, ids=str)
def test_a_tensors_wrong_field_is_named(fields, text):
    """By itself, and in an operator, which names the tensor too."""
    (field,) = fields
    error = refused(directml.BufferTensorDesc.from_dict, tensor("FLOAT32", [1]) | fields)
    assert str(error) == f"BufferTensorDesc: {text}"
    assert (error.code, error.field) == (CODES.get(field, "option"), field)
    assert [each.message for each in error.violations] == [str(error)]
    error = refused(made, "nonzero_coordinates", edited(nonzero(), OutputCountTensor=fields))
    assert str(error) == f"NonzeroCoordinates: OutputCountTensor.{text}"
    assert (error.code, error.field) == (CODES.get(field, "option"), "OutputCountTensor")


@pytest.mark.parametrize("count", [5, 3, True, 4.0, None])
def test_a_dimension_count_that_is_not_the_number_of_sizes_is_refused(count):
    desc = edited(nonzero(), InputTensor={"DimensionCount": count})
    error = refused(made, "nonzero_coordinates", desc)
    text = f"InputTensor.DimensionCount is {count}, but Sizes has 4 entries"
    assert str(error) == f"NonzeroCoordinates: {text}"
    assert (error.code, error.field) == ("dimension_count", "InputTensor")
    assert [each.rule for each in error.violations] == ["tensor-sizes-count"]


def test_the_dimension_count_may_be_given():
    given = edited(nonzero(), InputTensor={"DimensionCount": 4})
    assert made("nonzero_coordinates", given) == made("nonzero_coordinates", nonzero())


OPERATOR = [  # fields of an operator, and the message
    ({"InputTensor": [1]}, "InputTensor is a list, expected a dict"),
    ({"InputTensor": "x"}, "InputTensor is 'x', expected a dict"),
    ({"Strides": "11"}, f"Strides is '11', {ARRAY}"),
    ({"Dilations": None}, f"Dilations is None, {ARRAY}"),
    ({"StartPadding": [0, 0.5]}, f"StartPadding[1] is 0.5, {UINT}"),
    ({"EndPadding": [-1, 0]}, f"EndPadding[0] is -1, {UINT}"),
    ({"GroupCount": True}, f"GroupCount is True, {UINT}"),
    ({"GroupCount": "1"}, f"GroupCount is '1', {UINT}"),
    ({"DimensionCount": 2**32}, f"DimensionCount is 4294967296, {UINT}"),
]


@pytest.mark.parametrize(("edits", "text"), OPERATOR, ids=str)
def test_an_operators_wrong_field_is_named(edits, text):
    error = refused(made, "quantized_linear_convolution", {**quantized(), **edits})
    assert str(error) == f"QuantizedLinearConvolution: {text}"
    assert (error.code, error.field) == ("option", next(iter(edits)))


@pytest.mark.parametrize("operator", VALID)
def test_an_unknown_key_is_refused_with_the_nearest_one(operator):
    name = SPELLED[operator]
    error = refused(made, operator, {**VALID[operator][0], "InputTenser": None})
    assert str(error) == f"{name}: InputTenser is no field; did you mean InputTensor?"
    assert (error.code, error.field) == ("option", "InputTenser")


@pytest.mark.parametrize("operator", VALID)
def test_only_optional_tensors_may_be_left_out(operator):
    complete, _ = VALID[operator]
    for name in complete:
        rest = {key: value for key, value in complete.items() if key != name}
        optional = name in ("BiasTensor",) or name.endswith("ZeroPointTensor")
        if optional:
            assert made(operator, rest) == made(operator, {**rest, name: None})
            continue
        error = refused(made, operator, rest)
        assert str(error) == f"{SPELLED[operator]}: {name} is missing"
        assert error.field == name
        assert error.code == ("missing_tensor" if name.endswith("Tensor") else "option")


@pytest.mark.parametrize("operator", VALID)
def test_what_is_no_dict_is_refused(operator):
    name = SPELLED[operator]
    error = refused(made, operator, [1])
    assert str(error) == f"{name}: is a list, expected a dict"
    assert (error.code, error.field) == ("option", name)


def test_all_problems_of_a_dict_are_on_the_error():
    desc = {
        "Inputtensor": None,
        "InputTensor": tensor("FLOAT23", [1, -1], [1], DimensionCount=3),
        "OutputCountTensor": 7,
    }
    error = refused(made, "nonzero_coordinates", desc)
    messages = [
        "NonzeroCoordinates: Inputtensor is no field; did you mean InputTensor?",
        "NonzeroCoordinates: InputTensor.DataType is 'FLOAT23'; did you mean FLOAT32?",
        "NonzeroCoordinates: InputTensor.Sizes[1] is -1, expected an integer from 0 to 4294967295",
        "NonzeroCoordinates: InputTensor.DimensionCount is 3, but Sizes has 2 entries",
        "NonzeroCoordinates: OutputCountTensor is 7, expected a dict",
        "NonzeroCoordinates: OutputCoordinatesTensor is missing",
    ]
    assert [each.message for each in error.violations] == messages
    assert str(error) == messages[0]
    assert error.__notes__ == messages[1:]
    assert {each.rule for each in error.violations} == {"desc-fields", "tensor-sizes-count"}


def test_constructors_check_too():
    count = directml.BufferTensorDesc(data_type=directml.DataType.UINT32, sizes=(1,))
    with pytest.raises(SpecError) as caught:
        directml.NonzeroCoordinatesOperatorDesc(
            input_tensor={"DataType": "INT8"},
            output_count_tensor=count,
            output_coordinates_tensor=count,
        )
    assert str(caught.value) == (
        "NonzeroCoordinates: InputTensor is a dict, expected a BufferTensorDesc"
    )
    with pytest.raises(SpecError) as caught:
        directml.BufferTensorDesc(data_type=1, sizes=(1, -1), flags="NONE")
    assert [each.message for each in caught.value.violations] == [
        "BufferTensorDesc: DataType is 1, expected a DataType",
        "BufferTensorDesc: Flags is 'NONE', expected a TensorFlags",
        "BufferTensorDesc: Sizes[1] is -1, expected an integer from 0 to 4294967295",
    ]


def test_sequences_become_tuples_of_python_integers():
    desc = directml.BufferTensorDesc(
        data_type=directml.DataType.INT8,
        sizes=[np.int64(2), np.uint8(3)],
        strides=range(2),
        total_tensor_size_in_bytes=np.int32(8),
    )
    assert (desc.sizes, desc.strides, desc.total_tensor_size_in_bytes) == ((2, 3), (0, 1), 8)
    assert {type(each) for each in (*desc.sizes, desc.total_tensor_size_in_bytes)} == {int}


@pytest.mark.parametrize("operator", VALID)
def test_descs_are_values(operator):
    one, two = (made(operator, VALID[operator][0]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one is not two
    assert len({one, two}) == 1
    other = edited(VALID[operator][0], InputTensor={"GuaranteedBaseOffsetAlignment": 64})
    assert made(operator, other) != one


@pytest.mark.parametrize("operator", VALID)
def test_descs_are_frozen(operator):
    desc = made(operator, VALID[operator][0])
    with pytest.raises(FrozenInstanceError):
        desc.input_tensor = None
    with pytest.raises(FrozenInstanceError):
        desc.input_tensor.sizes = ()


@pytest.mark.parametrize("cls", [*DESCS.values(), directml.BufferTensorDesc])
def test_fields_are_by_keyword_only(cls):
    assert all(each.kw_only for each in fields(cls))


def test_alike_descs_of_two_operators_are_not_equal():
    fields = VALID["element_wise_quantize_linear"][0]
    one, two = (made(f"element_wise_{name}_linear", fields) for name in ("quantize", "dequantize"))
    assert one != two


SIZES = {
    "one byte": ("UINT8", (3,), None, 4),
    "five bytes": ("INT8", (5,), None, 8),
    "no rest": ("INT8", (2, 4), None, 8),
    "two bytes": ("FLOAT16", (3, 1), None, 8),
    "four bytes": ("FLOAT32", (3,), None, 12),
    "eight bytes": ("INT64", (3,), None, 24),
    "four bits": ("UINT4", (3,), None, 4),
    "nine of four bits": ("INT4", (3, 3), None, 8),
    "gaps": ("UINT8", (2, 3), (5, 2), 12),
    "a gap behind the last is not needed": ("UINT8", (2, 4), (6, 1), 12),
    "broadcast": ("FLOAT32", (100, 100), (0, 0), 4),
    "broadcast along rows": ("FLOAT16", (100, 3), (0, 1), 8),
    "overlapping": ("INT16", (3, 3), (1, 1), 12),
    "transposed": ("FLOAT32", (2, 3), (1, 2), 24),
    "above UINT": ("FLOAT32", (2,), (2**32 - 1,), 2**34),
    "unknown": ("UNKNOWN", (5,), None, 0),
}


@pytest.mark.parametrize(("data_type", "sizes", "strides", "expected"), SIZES.values(), ids=SIZES)
def test_the_byte_size_reaches_the_last_element_and_is_a_multiple_of_4(
    data_type, sizes, strides, expected
):
    desc = directml.BufferTensorDesc(
        data_type=directml.DataType[data_type], sizes=sizes, strides=strides
    )
    assert desc.minimum_size_in_bytes == expected
    assert desc.total_tensor_size_in_bytes == expected


def test_a_given_byte_size_is_kept():
    given = tensor("INT8", [5], TotalTensorSizeInBytes=3)
    desc = directml.BufferTensorDesc.from_dict(given)
    assert desc.total_tensor_size_in_bytes == 3
    assert desc.minimum_size_in_bytes == 8


LARGE = [2**32 - 1] * 8


def test_a_tensor_larger_than_any_buffer_survives_json():
    desc = directml.BufferTensorDesc.from_dict(tensor("INT8", LARGE))
    assert directml.BufferTensorDesc.from_dict(desc.to_dict()) == desc


SHAPES = {
    "no strides": ("INT8", (2, 3), None, 8, (2, 3)),
    "packed strides": ("INT8", (2, 3), (3, 1), 8, (2, 3)),
    "larger than needed": ("INT8", (2, 3), None, 64, (2, 3)),
    "a stride of an axis of size 1": ("INT8", (1, 3), (9, 1), 4, (4,)),
    "transposed": ("INT8", (2, 3), (1, 2), 8, (8,)),
    "padded rows": ("FLOAT16", (2, 3), (4, 1), 20, (10,)),
}


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "size_in_bytes", "shape"), SHAPES.values(), ids=SHAPES
)
def test_packed_tensors_are_bound_as_arrays_and_others_flat(
    data_type, sizes, strides, size_in_bytes, shape
):
    given = tensor(data_type, sizes, strides, TotalTensorSizeInBytes=size_in_bytes)
    desc = directml.BufferTensorDesc.from_dict(given)
    assert desc.shape == shape
    assert desc.is_packed == (shape == sizes)
    assert desc.dtype == np.dtype(data_type.lower())
