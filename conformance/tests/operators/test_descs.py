"""The checker of descs against the sentences of the pages, one by one."""

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlax_conformance.format import layout
from dmlax_conformance.format.descs import buffer, gather, scatter, tensor_desc
from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.operators.desc_rules import violations
from dmlax_conformance.operators.descs import express, feature_levels, needs
from dmlax_conformance.operators.tables import LEVELS, TABLES, fields, introduced, rows

NONZERO, QUANTIZED = "nonzero_coordinates", "quantized_linear_convolution"
AVERAGE = "quantized_linear_average_pooling"
INTEGER, QUANTIZE = "convolution_integer", "element_wise_quantize_linear"
DEQUANTIZE = "element_wise_dequantize_linear"


def nonzero(image: list[int], rows: list[int], count: list[int] | None = None) -> dict[str, Any]:
    return {
        "InputTensor": tensor_desc("FLOAT32", image),
        "OutputCountTensor": tensor_desc("UINT32", count or [1] * len(image)),
        "OutputCoordinatesTensor": tensor_desc("UINT32", rows),
    }


def integer(image: list[int], kernel: list[int], result: list[int]) -> dict[str, Any]:
    axes = len(image) - 2
    return {
        "InputTensor": tensor_desc("UINT8", image),
        "InputZeroPointTensor": None,
        "FilterTensor": tensor_desc("INT8", kernel),
        "FilterZeroPointTensor": None,
        "OutputTensor": tensor_desc("INT32", result),
        "DimensionCount": axes,
        "Strides": [1] * axes,
        "Dilations": [1] * axes,
        "StartPadding": [0] * axes,
        "EndPadding": [0] * axes,
        "GroupCount": 1,
    }


def quantize(sizes: list[int], result: str = "UINT8") -> dict[str, Any]:
    return {
        "InputTensor": tensor_desc("FLOAT32", sizes),
        "ScaleTensor": tensor_desc("FLOAT32", sizes),
        "ZeroPointTensor": tensor_desc(result, sizes),
        "OutputTensor": tensor_desc(result, sizes),
    }


def broken(operator: str, desc: dict[str, Any], level: str = "6_4") -> list[str]:
    return [f"{rule} {field}" for rule, _, field in violations(operator, desc, level)]


def edited(desc: dict[str, Any], name: str, **changes: Any) -> dict[str, Any]:
    return {**desc, name: {**desc[name], **changes}}


PAGE = nonzero([1, 1, 2, 4], [1, 1, 8, 3])


def test_the_printed_example_is_valid_from_its_level_on() -> None:
    assert feature_levels(NONZERO, PAGE) == LEVELS[LEVELS.index("3_0") :]
    assert violations(NONZERO, PAGE, "2_1") == [
        ("operator-feature-level", "feature_level", "FeatureLevel")
    ]


@pytest.mark.parametrize("width", [0, 1, 2, 3, 4, 5])
def test_sixty_elements_of_effective_rank_2(width: int) -> None:
    """Sizes of the form {1,1,60,N} are valid for N >= 2, but not above 4."""
    desc = nonzero([1, 1, 12, 5], [1, 1, 60, width])
    assert (broken(NONZERO, desc, "3_0") == []) == (2 <= width <= 4)


@pytest.mark.parametrize(
    ("image", "rank"), [([1, 2, 3, 4], 3), ([1, 1, 5, 5, 5], 3), ([1, 1, 1, 1], 1)]
)
def test_effective_ranks_of_the_page(image: list[int], rank: int) -> None:
    """{1,1,1,1} has effective rank 0, and a size of 0 is not possible."""
    count = [1] * len(image)
    elements = 1
    for size in image:
        elements *= size
    lead = [1] * (len(image) - 2)
    assert broken(NONZERO, nonzero(image, [*lead, elements, rank], count)) == []
    assert broken(NONZERO, nonzero(image, [*lead, elements, rank - 1], count)) != []


def test_mixed_dimension_counts_wait_for_4_0() -> None:
    desc = nonzero([1, 1, 1, 2, 3], [1, 1, 6, 2], [1] * 4)
    both = [
        "nonzero-same-dimension-count OutputCountTensor",
        "nonzero-same-dimension-count OutputCoordinatesTensor",
    ]
    assert broken(NONZERO, desc, "3_0") == broken(NONZERO, desc, "3_1") == both
    assert broken(NONZERO, desc, "4_0") == []
    assert feature_levels(NONZERO, nonzero([7], [7, 1], [1]))[0] == "4_0"


TENSOR: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"DataType": "UNKNOWN"}, "data-type"),
    "int64": ({"DataType": "INT64", "TotalTensorSizeInBytes": 64}, "data-type"),
    "fewer sizes": ({"Sizes": [1, 2, 4]}, "sizes-count"),
    "empty strides": ({"Strides": []}, "strides-count"),
    "one byte short": ({"TotalTensorSizeInBytes": 31}, "byte-size"),
    "short by strides": ({"Strides": [8, 8, 5, 1]}, "byte-size"),
    "room for 2^32 elements": ({"TotalTensorSizeInBytes": 2**34}, "byte-size-limit"),
    "alignment 2 for 4 bytes": ({"GuaranteedBaseOffsetAlignment": 2}, "alignment"),
    "alignment 12": ({"GuaranteedBaseOffsetAlignment": 12}, "alignment"),
}


@pytest.mark.parametrize("name", TENSOR)
def test_a_tensor_rule(name: str) -> None:
    changes, rule = TENSOR[name]
    desc = edited(PAGE, "InputTensor", **changes)
    assert broken(NONZERO, desc) == [f"tensor-{rule} InputTensor"]


FINE: dict[str, dict[str, Any]] = {
    "the most elements": {"TotalTensorSizeInBytes": 2**34 - 1},
    "alignment 4": {"GuaranteedBaseOffsetAlignment": 4},
    "owned": {"Flags": "OWNED_BY_DML"},
    "stride 0": {"Strides": [0, 0, 0, 1]},
    "overlap": {"Strides": [8, 8, 1, 1]},
    "padded": {"Strides": [10, 10, 5, 1], "TotalTensorSizeInBytes": 36},
}


@pytest.mark.parametrize("name", FINE)
def test_what_an_input_may_be(name: str) -> None:
    assert broken(NONZERO, edited(PAGE, "InputTensor", **FINE[name])) == []


def test_outputs_are_neither_owned_nor_overlapping() -> None:
    name = "OutputCoordinatesTensor"
    assert broken(NONZERO, edited(PAGE, name, Flags="OWNED_BY_DML")) == [f"tensor-flags {name}"]
    roomy = edited(PAGE, name, TotalTensorSizeInBytes=400)
    overlap = [f"tensor-output-overlap {name}"]
    assert broken(NONZERO, edited(roomy, name, Strides=[0, 0, 2, 1])) == overlap
    assert broken(NONZERO, edited(roomy, name, Strides=[0, 0, 0, 1])) == overlap
    assert broken(NONZERO, edited(roomy, name, Strides=[0, 0, 2, 17])) == []


def test_one_mistake_is_reported_with_all_that_follows() -> None:
    desc = edited(PAGE, "InputTensor", Sizes=[1, 1, 2, 0])
    assert broken(NONZERO, desc) == [
        "tensor-sizes-positive InputTensor",
        "nonzero-coordinates-rows OutputCoordinatesTensor",
    ]
    assert broken(NONZERO, {**PAGE, "InputTensor": None}) == ["tensor-required InputTensor"]


CONVOLUTION: dict[str, tuple[dict[str, Any], list[str]]] = {
    "fine": ({}, []),
    "no dimensions": (
        {"DimensionCount": 0, "Strides": [], "Dilations": []},
        [
            "spatial-dimension-count DimensionCount",
            "start-padding StartPadding",
            "end-padding EndPadding",
        ],
    ),
    "stride 0": ({"Strides": [0, 1]}, ["strides Strides"]),
    "padding below 0": ({"EndPadding": [0, -1]}, ["end-padding EndPadding"]),
    "no groups": ({"GroupCount": 0}, ["group-count GroupCount", "channels FilterTensor"]),
    "span 4 of 3": ({"Dilations": [1, 3]}, ["kernel-fits FilterTensor"]),
    "both": ({"Strides": [], "Dilations": [1, 3]}, ["strides Strides", "kernel-fits FilterTensor"]),
    "stride 2": ({"Strides": [1, 2]}, ["output-sizes OutputTensor"]),
    "padding": ({"StartPadding": [0, 1]}, ["output-sizes OutputTensor"]),
    "three groups": (
        {"GroupCount": 3},
        ["channels FilterTensor", "groups-divide GroupCount"],
    ),
}


@pytest.mark.parametrize("name", CONVOLUTION)
def test_a_convolution_rule(name: str) -> None:
    changes, found = CONVOLUTION[name]
    desc = integer([1, 2, 2, 3], [2, 2, 1, 2], [1, 2, 2, 2]) | changes
    assert broken(INTEGER, desc) == [f"intconv-{line}" for line in found]


def test_zero_points_of_a_convolution() -> None:
    desc = integer([1, 2, 2, 3], [2, 2, 1, 2], [1, 2, 2, 2])
    name = "FilterZeroPointTensor"
    for sizes in ([1, 2, 1, 1], [1, 1, 1, 1], [2], [1], [1, 2], [2, 1], [1, 2, 1], [1, 1, 2]):
        assert broken(INTEGER, {**desc, name: tensor_desc("INT8", sizes)}) == []
    for sizes in ([2, 1, 1, 1], [1, 1, 2, 1], [1, 3, 1, 1], [3], [2, 2]):
        wrong = {**desc, name: tensor_desc("INT8", sizes)}
        assert broken(INTEGER, wrong) == [f"intconv-filter-zero-point-channels {name}"]
    other = {**desc, name: tensor_desc("UINT8", [1, 2, 1, 1])}
    assert broken(INTEGER, other) == [f"intconv-filter-zero-point-data-type {name}"]
    differing = {**desc, name: tensor_desc("INT8", [2])}
    differing["InputZeroPointTensor"] = tensor_desc("UINT8", [1, 1])
    assert broken(INTEGER, differing) == [f"intconv-zero-points-dimension-count {name}"]


def test_three_dimensions_come_with_4_0_and_mean_one_spatial_dimension() -> None:
    desc = integer([1, 2, 3], [2, 2, 2], [1, 2, 2])
    assert feature_levels(INTEGER, desc)[0] == "4_0"
    found = broken(INTEGER, {**desc, "DimensionCount": 2})
    assert found[0] == "intconv-spatial-dimension-count DimensionCount"


def test_quantizing_at_each_level() -> None:
    plain = quantize([1, 1, 2, 2])
    assert feature_levels(QUANTIZE, plain) == LEVELS
    assert feature_levels(QUANTIZE, quantize([1, 1, 2, 2], "INT8"))[0] == "2_1"
    assert feature_levels(QUANTIZE, quantize([4]))[0] == "3_0"
    assert feature_levels(QUANTIZE, quantize([1] * 8))[0] == "3_0"
    assert feature_levels(QUANTIZE, quantize([1] * 9)) == ()
    assert feature_levels(QUANTIZE, {**plain, "ZeroPointTensor": None})[0] == "6_2"
    half = quantize([1, 1, 2, 2])
    half |= {name: tensor_desc("FLOAT16", [1, 1, 2, 2]) for name in ("InputTensor", "ScaleTensor")}
    assert feature_levels(QUANTIZE, half)[0] == "6_0"


def test_nothing_broadcasts_by_its_size() -> None:
    desc = quantize([2, 3])
    desc["ScaleTensor"] = tensor_desc("FLOAT32", [1, 3])
    assert broken(QUANTIZE, desc) == ["quantize-same-sizes ScaleTensor"]
    desc["ScaleTensor"] = tensor_desc("FLOAT32", [2, 3], [0, 1])
    assert broken(QUANTIZE, desc) == []


def test_tables_have_the_tensors_of_the_desc() -> None:
    for operator, tables in TABLES.items():
        names = [[row.tensor for row in table] for table in tables.values()]
        assert all(each == names[0] for each in names)
        assert fields(operator)[: len(names[0])] == tuple(names[0])


@pytest.mark.parametrize("operator", TABLES)
def test_a_later_level_takes_back_only_what_the_page_says(operator: str) -> None:
    """Bounds only widen from one table to the next."""
    tables = list(TABLES[operator].values())
    for old, new in pairwise(tables):
        for before, after in zip(old, new, strict=True):
            assert after.lowest <= before.lowest
            assert after.highest >= before.highest
            assert after.data_types >= before.data_types
            assert after.is_optional >= before.is_optional


# -- layout ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=4))
@settings(deadline=None, max_examples=300)
def test_overlap_is_exact(axes: list[tuple[int, int]]) -> None:
    sizes, strides = [n for n, _ in axes], [s for _, s in axes]
    places = product(*map(range, sizes))
    found = [sum(i * s for i, s in zip(place, strides, strict=True)) for place in places]
    assert layout.overlaps(sizes, strides) == (len(set(found)) < len(found))
    assert layout.offsets(sizes, strides) == found


@given(st.lists(st.tuples(st.integers(2, 5), st.integers(1, 30)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=300)
def test_the_search_for_large_tensors_is_exact_too(axes: list[tuple[int, int]]) -> None:
    axes = sorted(axes, key=lambda axis: axis[1], reverse=True)
    assert layout._meets(axes) == layout.overlaps([n for n, _ in axes], [s for _, s in axes])


def test_large_layouts_cost_nothing() -> None:
    assert not layout.overlaps([2**31, 2**31], [2**31, 1])
    assert layout.overlaps([2**31, 2**31], [2**31 - 1, 1])
    assert not layout.overlaps([40000, 40000], [40001, 40000])
    assert layout.overlaps([40002, 40002], [40001, 40000])


def test_huge_numbers_do_not_crash_the_checker() -> None:
    huge = tensor_desc("UINT32", [2**32 - 1] * 4, [2**32 - 1] * 4)
    desc = dict.fromkeys(PAGE, huge)
    assert "tensor-element-limit InputTensor" in broken(NONZERO, desc)


def test_bytes_are_rounded_up_to_4() -> None:
    assert layout.minimum_bytes("UINT8", [5], [1]) == 8
    assert layout.minimum_bytes("UINT8", [5], [3]) == 16
    assert layout.minimum_bytes("INT4", [9], [1]) == 8
    assert layout.minimum_bytes("FLOAT16", [2, 3], [0, 0]) == 4
    assert layout.minimum_bytes("UINT64", [], []) == 8


def test_scatter_and_gather() -> None:
    desc = tensor_desc("UINT8", [2, 2], [3, 2], 8)
    held = scatter(desc, (1, 2, 3, 4), 99)
    assert held == Tensor("uint8", (8,), (1, 99, 2, 3, 99, 4, 99, 99))
    assert gather(desc, held) == Tensor("uint8", (2, 2), (1, 2, 3, 4))
    packed = tensor_desc("UINT8", [2, 2], None, 64)
    assert scatter(packed, (1, 2, 3, 4), 99).sizes == (2, 2)


# -- functional calls as descs -----------------------------------------------------------------


def test_express_spells_a_call_as_directml_does() -> None:
    inputs = {"InputTensor": Tensor("float32", (1, 1, 2, 4), (0,) * 8)}
    outputs = {
        "OutputCountTensor": Request("uint32", (1, 1, 1, 1)),
        "OutputCoordinatesTensor": Request("uint32", (1, 1, 8, 3)),
    }
    assert express(NONZERO, {}, inputs, outputs) == PAGE


def test_express_repeats_a_parameter_by_strides_of_0() -> None:
    row, one = Tensor("float32", (3,), (1, 2, 3)), Tensor("uint8", (1,), (7,))
    image = Tensor("float32", (2, 3), (0,) * 6)
    inputs = {"InputTensor": image, "ScaleTensor": row, "ZeroPointTensor": one}
    desc = express(QUANTIZE, {}, inputs, {"OutputTensor": Request("uint8", (2, 3))})
    assert desc["ScaleTensor"] == tensor_desc("FLOAT32", [2, 3], [0, 1])
    assert desc["ZeroPointTensor"] == tensor_desc("UINT8", [2, 3], [0, 0])
    assert feature_levels(QUANTIZE, desc)[0] == "3_0"
    assert needs(QUANTIZE, desc) == {"descriptors", "strides"}
    assert buffer(desc["ZeroPointTensor"], one).words == (7, 0, 0, 0)
    assert gather(desc["ScaleTensor"], buffer(desc["ScaleTensor"], row)).words == (1, 2, 3) * 2


@pytest.mark.parametrize("sizes", [(2,), (1, 2), (1, 2, 1, 1)])
def test_express_gives_a_bias_the_sizes_of_directml(sizes: tuple[int, ...]) -> None:
    one, image = Tensor("float32", (1,), (1,)), Tensor("uint8", (1, 1, 1, 1), (7,))
    inputs = dict.fromkeys(("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor"), one)
    inputs |= {"InputTensor": image, "FilterTensor": Tensor("int8", (2, 1, 1, 1), (1, 2))}
    inputs["BiasTensor"] = Tensor("int32", sizes, (3, 4))
    ones = {"Strides": [1, 1], "Dilations": [1, 1], "GroupCount": 1}
    windows = {**ones, "StartPadding": [0, 0], "EndPadding": [0, 0]}
    outputs = {"OutputTensor": Request("uint8", (1, 2, 1, 1))}
    desc = express(QUANTIZED, windows, inputs, outputs)
    assert desc["BiasTensor"] == tensor_desc("INT32", [1, 2, 1, 1])
    assert feature_levels(QUANTIZED, desc)[0] == "5_2"


@pytest.mark.parametrize(
    ("scale", "output", "spelled"),
    [((1, 2, 1, 1), (1,), (1, 2, 1, 1)), ((2,), (1, 1, 1), (2,)), ((1, 2, 1, 1), (), (2,))],
)
def test_express_spells_parameters_as_vectors_if_one_has_no_axes(
    scale: tuple[int, ...], output: tuple[int, ...], spelled: tuple[int, ...]
) -> None:
    image, kernel = Tensor("uint8", (1, 1, 1, 1), (7,)), Tensor("int8", (2, 1, 1, 1), (1, 2))
    inputs = {"InputTensor": image, "FilterTensor": kernel}
    inputs["InputScaleTensor"] = Tensor("float32", (1,), (1,))
    inputs["FilterScaleTensor"] = Tensor("float32", scale, (1, 1))
    inputs["OutputScaleTensor"] = Tensor("float32", output, (1,))
    ones = {"Strides": [1, 1], "Dilations": [1, 1], "GroupCount": 1}
    windows = {**ones, "StartPadding": [0, 0], "EndPadding": [0, 0]}
    desc = express(QUANTIZED, windows, inputs, {"OutputTensor": Request("uint8", (1, 2, 1, 1))})
    assert desc["FilterScaleTensor"]["Sizes"] == list(spelled)
    assert desc["OutputScaleTensor"]["Sizes"] == list(output or (1,))
    assert "5_2" in feature_levels(QUANTIZED, desc)


def test_express_gives_a_parameter_of_a_pool_an_axis() -> None:
    one = Tensor("float32", (), (1,))
    inputs = {"InputTensor": Tensor("uint8", (1, 1, 1, 2), (7, 8)), "InputScaleTensor": one}
    inputs |= {"OutputScaleTensor": one, "OutputZeroPointTensor": Tensor("uint8", (1, 1), (3,))}
    pairs = {name: [1, 1] for name in ("Strides", "Dilations", "WindowSize")}
    windows = {**pairs, "StartPadding": [0, 0], "EndPadding": [0, 0], "IncludePadding": False}
    outputs = {"OutputTensor": Request("uint8", (1, 1, 1, 2))}
    desc = express(AVERAGE, windows, inputs, outputs)
    assert desc["OutputScaleTensor"] == tensor_desc("FLOAT32", [1])
    assert desc["OutputZeroPointTensor"] == tensor_desc("UINT8", [1, 1])
    assert feature_levels(AVERAGE, desc)[0] == "6_2"


def test_no_level_accepts_what_directml_has_no_name_for() -> None:
    inputs = {"InputTensor": Tensor("bool", (4,), (0,) * 4)}
    outputs = {
        "OutputCountTensor": Request("uint32", (1,)),
        "OutputCoordinatesTensor": Request("uint32", (4, 1)),
    }
    desc = express(NONZERO, {}, inputs, outputs)
    assert desc["InputTensor"]["DataType"] == "UNKNOWN"
    assert feature_levels(NONZERO, desc) == ()


def test_most_valid_calls_can_be_expressed(suite: list[Vector]) -> None:
    calls = [vector for vector in suite if vector.is_valid and vector.desc is None]
    for vector in (vector for vector in calls if vector.operator in TABLES):
        if OPERATORS[vector.operator].only_in_calls and "BiasTensor" in vector.inputs:
            continue
        desc = express(vector.operator, vector.attributes, vector.inputs, vector.outputs)
        levels = feature_levels(vector.operator, desc)
        beyond = any(need.startswith(("dtype:", "sizes:")) for need in vector.requires)
        beyond |= "matrix_multiply" in vector.operator  # any rank, batches that repeat
        beyond |= "pool" in vector.operator and len(vector.inputs["InputTensor"].sizes) == 3
        beyond |= "-corners-" in vector.id  # parameters of any rank
        assert beyond or levels, vector.id
        assert not levels or levels[-1] == "6_4"
        assert all(
            LEVELS.index(each) >= LEVELS.index(introduced(vector.operator)) for each in levels
        )


def test_rows_are_found_by_level() -> None:
    assert rows(QUANTIZED, "5_1") == TABLES[QUANTIZED]["4_0"]
    assert rows(DEQUANTIZE, "6_4") == TABLES[DEQUANTIZE]["6_2"]
