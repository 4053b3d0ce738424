"""Every rule of the contract, its code, its field and its words."""

from typing import Any, NamedTuple

import pytest

from directml_cases import (
    DESCS,
    LEVELS,
    NAMES,
    VALID,
    averaged,
    dequantize,
    edited,
    integer,
    level,
    levels,
    made,
    multiplied,
    nonzero,
    quantize,
    quantized,
)
from dmlax import SpecError, directml
from dmlax._directml import tensors
from dmlax._operators import SUPPORT

N, Q, I = "nonzero_coordinates", "quantized_linear_convolution", "convolution_integer"  # noqa: E741
E, D = "element_wise_quantize_linear", "element_wise_dequantize_linear"
M, A = "matrix_multiply_integer", "quantized_linear_average_pooling"


class Broken(NamedTuple):
    """A desc that breaks one rule."""

    operator: str
    level: str
    fields: dict[str, Any]
    rule: str
    code: str
    field: str
    text: str

    @property
    def message(self) -> str:
        """Message with the operator's and the field's name."""
        return f"{NAMES[self.operator]}: {self.field} {self.text}"


def sized(*sizes: int, **others: Any) -> dict[str, Any]:
    return {"Sizes": list(sizes), **others}


def broken(operator, at, fields, rule, code, field, text, **edits):
    return Broken(operator, at, edited(fields, **edits), rule, code, field, text)


def of_tensors():
    """The rules of every tensor."""
    for operator, first, before in [
        (N, "3_0", "2_1"),
        (Q, "2_1", "2_0"),
        (I, "2_1", "2_0"),
    ]:
        text = f"is DML_FEATURE_LEVEL_{before}, expected at least DML_FEATURE_LEVEL_{first}, "
        rule = ("operator-feature-level", "feature_level", "FeatureLevel")
        yield broken(operator, before, VALID[operator][0], *rule, f"{text}which introduced it")
    missing = ("tensor-required", "missing_tensor")
    for operator, field in [(N, "InputTensor"), (Q, "FilterScaleTensor"), (I, "OutputTensor")]:
        text = "is missing; DML_FEATURE_LEVEL_4_0 requires it"
        edits = {field: None}
        yield broken(operator, "4_0", VALID[operator][0], *missing, field, text, **edits)
    for make, operator in [(quantize, E), (dequantize, D)]:
        fields = make(zero_point=False)
        text = "is missing; DML_FEATURE_LEVEL_6_1 requires it"
        yield broken(operator, "6_1", fields, *missing, "ZeroPointTensor", text)

    rule = ("tensor-data-type", "data_type")
    text = "has DataType FLOAT16, expected FLOAT32 at DML_FEATURE_LEVEL_5_2"
    for name in ("InputScaleTensor", "OutputScaleTensor"):
        edits = {name: {"DataType": "FLOAT16"}}
        yield broken(Q, "5_2", quantized(), *rule, name, text, **edits)
    yield broken(
        *(N, "4_0", nonzero(), *rule, "InputTensor"),
        "has DataType UNKNOWN, expected one of FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, "
        "UINT16, UINT8 at DML_FEATURE_LEVEL_4_0",
        InputTensor={"DataType": "UNKNOWN"},
    )
    yield broken(
        *(I, "2_1", integer(), *rule, "OutputTensor"),
        "has DataType UINT32, expected INT32 at DML_FEATURE_LEVEL_2_1",
        OutputTensor={"DataType": "UINT32"},
    )

    rule = ("tensor-dimension-count", "dimension_count")
    yield broken(
        *(N, "3_1", nonzero((1, 2, 3, 4, 5, 6), count_rank=4, rank=4, width=4)),
        *(*rule, "InputTensor"),
        "has DimensionCount 6, expected 4 to 5 at DML_FEATURE_LEVEL_3_1",
    )
    yield broken(
        *(N, "4_0", nonzero(), *rule, "OutputCoordinatesTensor"),
        "has DimensionCount 1, expected 2 to 8 at DML_FEATURE_LEVEL_4_0",
        OutputCoordinatesTensor=sized(8),
    )
    yield broken(
        *(N, "6_4", nonzero(), *rule, "OutputCountTensor"),
        "has DimensionCount 9, expected 1 to 8 at DML_FEATURE_LEVEL_6_4",
        OutputCountTensor=sized(*[1] * 9),
    )
    yield broken(
        *(N, "6_4", nonzero(), *rule, "OutputCountTensor"),
        "has DimensionCount 0, expected 1 to 8 at DML_FEATURE_LEVEL_6_4",
        OutputCountTensor=sized(),
    )
    yield broken(
        *(Q, "2_1", quantized(), *rule, "InputScaleTensor"),
        "has DimensionCount 1, expected 4 at DML_FEATURE_LEVEL_2_1",
        InputScaleTensor=sized(1),
    )

    rule = ("tensor-strides-count", "strides", "InputTensor")
    text = "has 3 Strides, expected DimensionCount 4"
    yield broken(N, "3_0", nonzero(), *rule, text, InputTensor={"Strides": [8, 4, 1]})
    text = "has 0 Strides, expected DimensionCount 4"
    yield broken(N, "3_0", nonzero(), *rule, text, InputTensor={"Strides": []})
    yield broken(
        *(D, "6_4", dequantize((2, 3)), "tensor-sizes-positive", "sizes", "ScaleTensor"),
        "has Sizes {2,0}, expected no 0",
        ScaleTensor=sized(2, 0),
    )
    yield broken(
        *(D, "6_4", dequantize((2, 3)), "tensor-element-limit", "sizes", "ZeroPointTensor"),
        "has Sizes {65536,65536} of 4294967296 elements, expected at most 4294967295",
        ZeroPointTensor=sized(2**16, 2**16, Strides=[0, 0]),
    )
    rule = ("tensor-byte-size", "byte_size", "InputTensor")
    for data_type, strides, size, least in [
        ("FLOAT32", None, 20, 24),
        ("FLOAT16", None, 11, 12),
        ("FLOAT16", [1, 2], 8, 12),
        ("UINT8", None, 6, 8),
        ("UINT8", [5, 2], 9, 12),
        ("UINT8", [0, 0], 1, 4),
        ("UINT8", [2**32 - 1, 0], 0, 2**32),
    ]:
        yield broken(
            *(N, "4_0", nonzero((2, 3), data_type), *rule),
            f"has TotalTensorSizeInBytes {size}, expected at least {least} for its Sizes, Strides",
            InputTensor={"Strides": strides, "TotalTensorSizeInBytes": size},
        )
    rule = ("tensor-byte-size-limit", "byte_size", "InputTensor")
    for data_type, size in [("UINT8", 2**32), ("FLOAT32", 2**34), ("FLOAT16", 2**64 - 1)]:
        width = {"UINT8": 1, "FLOAT16": 2, "FLOAT32": 4}[data_type]
        yield broken(
            *(N, "4_0", nonzero((2, 3), data_type), *rule),
            f"has TotalTensorSizeInBytes {size} for {size // width} elements, "
            "expected at most 4294967295",
            InputTensor={"TotalTensorSizeInBytes": size},
        )
    rule = ("tensor-alignment", "alignment")
    for data_type, found, least in [
        ("FLOAT32", 2, 4),
        ("FLOAT32", 12, 4),
        ("FLOAT16", 1, 2),
        ("UINT8", 3, 1),
        ("INT16", 2**32 - 1, 2),
    ]:
        yield broken(
            *(N, "4_0", nonzero((2, 3), data_type), *rule, "InputTensor"),
            f"has GuaranteedBaseOffsetAlignment {found}, expected 0, or a power of two of at "
            f"least {least}, the bytes of {data_type}",
            InputTensor={"GuaranteedBaseOffsetAlignment": found},
        )
    rule = ("tensor-flags", "flags")
    text = "has Flags OWNED_BY_DML, which only an input may have"
    for operator, field in [(N, "OutputCountTensor"), (Q, "OutputTensor"), (E, "OutputTensor")]:
        edits = {field: {"Flags": "OWNED_BY_DML"}}
        yield broken(operator, "4_0", VALID[operator][0], *rule, field, text, **edits)
    rule = ("tensor-output-overlap", "strides", "OutputTensor")
    for sizes, strides in [((2, 3), (0, 1)), ((2, 3), (2, 1)), ((3, 2), (2, 4)), ((4, 3), (2, 3))]:
        yield broken(
            *(E, "3_0", quantize(sizes), *rule),
            f"has Sizes {{{sizes[0]},{sizes[1]}}} and Strides {{{strides[0]},{strides[1]}}}, "
            "expected that no two elements of an output share a place",
            OutputTensor={"Strides": list(strides)},
        )


def of_nonzero():
    rule = ("nonzero-same-dimension-count", "dimension_count")
    for at in levels("3_0", "3_1"):
        for field, fields in [
            ("OutputCountTensor", nonzero((1, 1, 1, 2, 4), count_rank=4)),
            ("OutputCoordinatesTensor", nonzero((1, 1, 1, 2, 4), rank=4)),
        ]:
            text = "has DimensionCount 4, InputTensor has 5; DML_FEATURE_LEVEL_"
            yield broken(N, at, fields, *rule, field, f"{text}{at} requires them equal")
    yield broken(
        *(N, "3_0", nonzero(), "nonzero-count-scalar", "sizes", "OutputCountTensor"),
        "has Sizes {1,1,2,1}, expected {1,1,1,1}",
        OutputCountTensor=sized(1, 1, 2, 1),
    )
    rule = ("nonzero-coordinates-leading", "sizes", "OutputCoordinatesTensor")
    yield broken(
        *(N, "3_0", nonzero(), *rule, "has Sizes {1,2,8,4}, expected 1 in all but the last two"),
        OutputCoordinatesTensor=sized(1, 2, 8, 4),
    )
    rule = ("nonzero-coordinates-rows", "sizes", "OutputCoordinatesTensor")
    for rows in (7, 9):
        yield broken(
            *(N, "3_0", nonzero(), *rule),
            f"has Sizes {{1,1,{rows},4}}, so M is {rows}, expected 8, the elements of InputTensor "
            "{1,1,2,4}",
            OutputCoordinatesTensor=sized(1, 1, rows, 4),
        )
    rule = ("nonzero-coordinates-columns", "sizes", "OutputCoordinatesTensor")
    for sizes, low in [((1, 1, 2, 4), 2), ((1, 2, 1, 4), 3), ((1, 1, 1, 1), 1), ((2, 1, 1, 1), 4)]:
        for width in {low - 1, 5} - {0}:
            rows = sizes[0] * sizes[1] * sizes[2] * sizes[3]
            printed = "{" + ",".join(map(str, sizes)) + "}"
            yield broken(
                *(N, "3_0", nonzero(sizes, width=width), *rule),
                f"has Sizes {{1,1,{rows},{width}}}, so N is {width}, expected {low} to 4: the "
                f"effective rank and the DimensionCount of InputTensor {printed}",
            )


ONES = "has Sizes {1,2,1,1}, expected {1,1,1,1}"
ROWS = sized(1, 2, 1, 1)
PER_CHANNEL = "one per filter of FilterTensor"


def of_both_convolutions(operator, p, make):
    rule = (f"{p}-same-dimension-count", "dimension_count")
    names = ["FilterTensor", "OutputTensor"] + ["BiasTensor"] * (operator == Q)
    sizes = {"FilterTensor": (6, 2, 3), "OutputTensor": (1, 6, 3), "BiasTensor": (1, 6, 1)}
    for name in names:
        text = "has DimensionCount 3, InputTensor has 4; DML_FEATURE_LEVEL_4_0 requires them equal"
        edits = {name: sized(*sizes[name])}
        yield broken(operator, "4_0", make(), *rule, name, text, **edits)
    for name, other, found, wanted in [
        ("InputZeroPointTensor", "InputTensor", "INT8", "UINT8"),
        ("FilterZeroPointTensor", "FilterTensor", "UINT8", "INT8"),
    ]:
        short = other.removesuffix("Tensor").lower()
        yield broken(
            *(operator, "2_1", make()),
            *(f"{p}-{short}-zero-point-data-type", "data_type", name),
            f"has DataType {found}, {other} has {wanted}; they must be equal",
            **{name: {"DataType": found}},
        )
    rule = (f"{p}-spatial-dimension-count", "dimension_count", "DimensionCount")
    text = "is 3, expected 2, as InputTensor has DimensionCount 4"
    yield broken(operator, "2_1", make(), *rule, text, DimensionCount=3)
    text = "is 2, expected 1, as InputTensor has DimensionCount 3"
    narrow = make((1, 2, 5), (3, 2, 2), DimensionCount=2)
    for name in ("Strides", "Dilations", "StartPadding", "EndPadding"):
        narrow[name] = narrow[name] * 2
    yield broken(operator, "4_0", narrow, *rule, text)
    for name, short, least in [
        ("Strides", "strides", 1),
        ("Dilations", "dilations", 1),
        ("StartPadding", "start-padding", 0),
        ("EndPadding", "end-padding", 0),
    ]:
        rule = (f"{p}-{short}", "option", name)
        for found in ([1], [1, 1, 1], []):
            text = f"has {len(found)} entries, expected 2, DimensionCount"
            yield broken(operator, "2_1", make(), *rule, text, **{name: found})
        if least:
            text = "is {1,0}, expected at least 1 in each"
            yield broken(operator, "2_1", make(), *rule, text, **{name: [1, 0]})
    rule = (f"{p}-group-count", "option", "GroupCount")
    yield broken(operator, "2_1", make(), *rule, "is 0, expected at least 1", GroupCount=0)
    yield broken(
        *(operator, "2_1", make(), f"{p}-channels", "sizes", "FilterTensor"),
        "has Sizes {6,2,2,3}, expected FilterChannelCount * GroupCount 3 to be the "
        "InputChannelCount of {1,4,4,5}",
        GroupCount=3,
    )
    yield broken(
        *(operator, "2_1", make((1, 8, 4, 5), (6, 2, 2, 3))),
        *(f"{p}-groups-divide", "sizes", "GroupCount"),
        "is 4, expected a divisor of the 6 filters of FilterTensor {6,2,2,3}",
    )
    rule = (f"{p}-kernel-fits", "sizes", "FilterTensor")
    yield broken(
        *(operator, "2_1", make(), *rule),
        "has Sizes {6,2,2,3} and, with Dilations, spans {2,9} cells, expected at most the padded "
        "{4,8}",
        Dilations=[1, 4],
        StartPadding=[0, 1],
        EndPadding=[0, 2],
    )
    rule = (f"{p}-output-sizes", "sizes", "OutputTensor")
    for sizes in [(2, 6, 3, 3), (1, 5, 3, 3), (1, 6, 4, 3), (1, 6, 3, 2)]:
        printed = "{" + ",".join(map(str, sizes)) + "}"
        text = f"has Sizes {printed}, expected {{1,6,3,3}} of this InputTensor and FilterTensor"
        yield broken(operator, "2_1", make(), *rule, text, OutputTensor=sized(*sizes))
    rule = (f"{p}-input-zero-point-one", "sizes", "InputZeroPointTensor")
    yield broken(operator, "2_1", make(), *rule, ONES, InputZeroPointTensor=ROWS)
    yield from per_channel(operator, make, f"{p}-filter-zero-point-channels", "FilterZeroPoint")


def per_channel(operator, make, rule, name):
    field = f"{name}Tensor"
    for sizes in [(1, 5, 1, 1), (6, 1, 1, 1), (1, 1, 6, 1), (1, 6, 6, 1)]:
        printed = "{" + ",".join(map(str, sizes)) + "}"
        text = f"has Sizes {printed}, expected one element or {{1,6,1,1}}, {PER_CHANNEL}"
        edits = {field: sized(*sizes)}
        yield broken(operator, "2_1", make(), rule, "sizes", field, text, **edits)
    for sizes in [(5,), (6, 6), (1, 5, 1)]:
        fields = make(parameter_rank=len(sizes))
        printed = "{" + ",".join(map(str, sizes)) + "}"
        text = f"has Sizes {printed}, expected one element or 6 elements, {PER_CHANNEL}"
        edits = {field: sized(*sizes)}
        yield broken(operator, "5_2", fields, rule, "sizes", field, text, **edits)


def of_quantized_convolution():
    yield broken(
        *(Q, "2_1", quantized(), "qconv-output-zero-point-data-type", "data_type"),
        "OutputZeroPointTensor",
        "has DataType INT8, OutputTensor has UINT8; they must be equal",
        OutputZeroPointTensor={"DataType": "INT8"},
    )
    for short, name in [
        ("input-scale", "InputScaleTensor"),
        ("output-scale", "OutputScaleTensor"),
        ("output-zero-point", "OutputZeroPointTensor"),
    ]:
        rule = f"qconv-{short}-one"
        yield broken(Q, "2_1", quantized(), rule, "sizes", name, ONES, **{name: ROWS})
    yield from per_channel(Q, quantized, "qconv-filter-scale-channels", "FilterScale")
    rule = ("qconv-bias-channels", "sizes", "BiasTensor")
    for sizes in [(1, 5, 1, 1), (6, 1, 1, 1), (1, 1, 1, 1)]:
        printed = "{" + ",".join(map(str, sizes)) + "}"
        text = f"has Sizes {printed}, expected {{1,6,1,1}}, one per filter of FilterTensor"
        yield broken(Q, "2_1", quantized(), *rule, text, BiasTensor=sized(*sizes))
    text = "has Sizes {3,1,1}, expected {1,3,1}, one per filter of FilterTensor"
    narrow = quantized((1, 2, 5), (3, 2, 2))
    yield broken(Q, "4_0", narrow, *rule, text, BiasTensor=sized(3, 1, 1))


def of_integer_convolution():
    yield broken(
        *(I, "4_0", integer(), "intconv-zero-points-dimension-count", "dimension_count"),
        "FilterZeroPointTensor",
        "has DimensionCount 1, InputZeroPointTensor has 4; DML_FEATURE_LEVEL_4_0 requires them "
        "equal",
        FilterZeroPointTensor=sized(6),
    )


def of_elements(operator, p, make):
    for name in ("ScaleTensor", "ZeroPointTensor", "OutputTensor"):
        yield broken(
            *(operator, "3_0", make((2, 3))),
            *(f"{p}-same-dimension-count", "dimension_count", name),
            "has DimensionCount 1, InputTensor has 2; DML_FEATURE_LEVEL_3_0 requires them equal",
            **{name: sized(6)},
        )
        yield broken(
            *(operator, "3_0", make((2, 3)), f"{p}-same-sizes", "sizes", name),
            "has Sizes {1,3}, InputTensor has {2,3}; they must be equal (strides of 0 broadcast)",
            **{name: sized(1, 3)},
        )


def of_quantize():
    rule = ("quantize-scale-data-type", "data_type", "ScaleTensor")
    for given, wanted, found in [
        ("INT32", "FLOAT32", "FLOAT16"),
        ("FLOAT32", "FLOAT32", "FLOAT16"),
        ("FLOAT16", "FLOAT16", "FLOAT32"),
    ]:
        text = f"has DataType {found}, expected {wanted}, as InputTensor has {given}"
        fields = quantize(input=given)
        yield broken(E, "6_0", fields, *rule, text, ScaleTensor={"DataType": found})
    yield broken(
        *(E, "2_1", quantize(), "quantize-zero-point-data-type", "data_type", "ZeroPointTensor"),
        "has DataType INT8, OutputTensor has UINT8; they must be equal",
        ZeroPointTensor={"DataType": "INT8"},
    )


def of_dequantize():
    rule = ("dequantize-zero-point-data-type", "data_type", "ZeroPointTensor")
    text = "has DataType INT16, InputTensor has UINT8; they must be equal"
    yield broken(D, "2_1", dequantize(), *rule, text, ZeroPointTensor={"DataType": "INT16"})
    rule = ("dequantize-output-data-type", "data_type", "OutputTensor")
    text = "has DataType FLOAT16, ScaleTensor has FLOAT32; they must be equal"
    yield broken(D, "6_0", dequantize(), *rule, text, OutputTensor={"DataType": "FLOAT16"})


def of_integer_product():
    """The rules of matrices, which all three products have."""
    yield broken(
        *(M, "5_2", multiplied(), "intmatmul-inner-sizes", "sizes", "BTensor"),
        "has Sizes {1,2,3,5}, expected 4 rows, the columns of ATensor {1,2,3,4}",
        BTensor=sized(1, 2, 3, 5),
    )
    text = "expected all but the last two to be those of ATensor {1,2,3,4} (strides of 0 broadcast)"
    for sizes in [(2, 2, 4, 5), (1, 1, 4, 5)]:
        yield broken(
            *(M, "5_2", multiplied(), "intmatmul-batch-sizes", "sizes", "BTensor"),
            f"has Sizes {{{','.join(map(str, sizes))}}}, {text}",
            BTensor=sized(*sizes),
        )
    for sizes in [(1, 2, 3, 4), (1, 2, 5, 3), (1, 1, 3, 5)]:
        yield broken(
            *(M, "5_2", multiplied(), "intmatmul-output-sizes", "sizes", "OutputTensor"),
            f"has Sizes {{{','.join(map(str, sizes))}}}, expected {{1,2,3,5}} of this ATensor and "
            "BTensor",
            OutputTensor=sized(*sizes),
        )
    for name, each, wanted, words in [
        ("AZeroPointTensor", "rows", "{1,1,3,1}", "one per row of ATensor"),
        ("BZeroPointTensor", "columns", "{1,1,1,5}", "one per column of BTensor"),
    ]:
        rule = f"intmatmul-{name[0].lower()}-zero-point-{each}"
        for sizes in [(1, 1, 2, 1), (1, 1, 1, 3), (3, 1, 1, 1)]:
            text = f"expected one element or the last of {wanted}, {words}"
            yield broken(
                *(M, "5_2", multiplied(), rule, "sizes", name),
                f"has Sizes {{{','.join(map(str, sizes))}}}, {text}",
                **{name: sized(*sizes)},
            )


def of_average_pooling():
    """The rules of windows, which the maximum has too, and of channels."""
    yield broken(
        *(A, "6_2", averaged(), "avgpool-window-fits", "sizes", "WindowSize"),
        "is {2,3} and spans {2,9} pixels, expected at most the padded {4,8}",
        Dilations=[1, 4],
        StartPadding=[0, 1],
        EndPadding=[0, 2],
    )
    for sizes in [(2, 3, 3, 3), (1, 2, 3, 3), (1, 3, 4, 3), (1, 3, 3, 2)]:
        yield broken(
            *(A, "6_2", averaged(), "avgpool-output-sizes", "sizes", "OutputTensor"),
            f"has Sizes {{{','.join(map(str, sizes))}}}, expected {{1,3,3,3}} of this InputTensor "
            "and WindowSize",
            OutputTensor=sized(*sizes),
        )
    for short in ("input-scale", "input-zero-point", "output-scale", "output-zero-point"):
        name = short.title().replace("-", "") + "Tensor"
        rule = f"avgpool-{short}-channels"
        for sizes, wanted in [
            ((1, 2, 1, 1), "{1,3,1,1}"),
            ((1, 1, 3, 1), "{1,3,1,1}"),
            ((2, 1), "3 elements"),
            ((3, 3), "3 elements"),
        ]:
            yield broken(
                *(A, "6_2", averaged(), rule, "sizes", name),
                f"has Sizes {{{','.join(map(str, sizes))}}}, expected one element or {wanted}, one "
                "per channel of InputTensor",
                **{name: sized(*sizes)},
            )


BROKEN = [
    *of_tensors(),
    *of_nonzero(),
    *of_both_convolutions(Q, "qconv", quantized),
    *of_quantized_convolution(),
    *of_both_convolutions(I, "intconv", integer),
    *of_integer_convolution(),
    *of_elements(E, "quantize", quantize),
    *of_quantize(),
    *of_elements(D, "dequantize", dequantize),
    *of_dequantize(),
    *of_integer_product(),
    *of_average_pooling(),
]
IDS = [f"{number} {each.rule} {each.field}" for number, each in enumerate(BROKEN)]


@pytest.mark.parametrize("case", BROKEN, ids=IDS)
def test_a_broken_rule_is_the_only_one_and_says_so(case):
    found = directml.validate(made(case.operator, case.fields), feature_level=level(case.level))
    assert found == ((case.rule, case.code, case.field, case.message),)


@pytest.mark.parametrize("case", BROKEN, ids=IDS)
def test_what_validate_finds_create_operator_raises(case):
    desc = made(case.operator, case.fields)
    with pytest.raises(SpecError) as caught:
        directml.create_operator(desc, feature_level=level(case.level))
    error = caught.value
    assert (str(error), error.code, error.field) == (case.message, case.code, case.field)
    assert error.violations == directml.validate(desc, feature_level=level(case.level))
    assert not hasattr(error, "__notes__")


CONVOLUTION = {
    "first": ["same-dimension-count"],
    "structure": [
        "spatial-dimension-count",
        "strides",
        "dilations",
        "start-padding",
        "end-padding",
        "group-count",
    ],
    "sizes": ["channels", "groups-divide", "kernel-fits", "output-sizes", "input-zero-point-one"],
}
ORDER = {
    N: [
        "nonzero-same-dimension-count",
        "nonzero-count-scalar",
        "nonzero-coordinates-leading",
        "nonzero-coordinates-rows",
        "nonzero-coordinates-columns",
    ],
    Q: [
        "qconv-same-dimension-count",
        "qconv-input-zero-point-data-type",
        "qconv-filter-zero-point-data-type",
        "qconv-output-zero-point-data-type",
        *(f"qconv-{name}" for name in CONVOLUTION["structure"] + CONVOLUTION["sizes"]),
        "qconv-input-scale-one",
        "qconv-output-scale-one",
        "qconv-output-zero-point-one",
        "qconv-filter-scale-channels",
        "qconv-filter-zero-point-channels",
        "qconv-bias-channels",
    ],
    I: [
        "intconv-same-dimension-count",
        "intconv-zero-points-dimension-count",
        "intconv-input-zero-point-data-type",
        "intconv-filter-zero-point-data-type",
        *(f"intconv-{name}" for name in CONVOLUTION["structure"] + CONVOLUTION["sizes"]),
        "intconv-filter-zero-point-channels",
    ],
    E: [
        "quantize-same-dimension-count",
        "quantize-same-sizes",
        "quantize-scale-data-type",
        "quantize-zero-point-data-type",
    ],
    D: [
        "dequantize-same-dimension-count",
        "dequantize-same-sizes",
        "dequantize-zero-point-data-type",
        "dequantize-output-data-type",
    ],
}


def rules_of(support):
    return {rule for table in support.tables for rule in table.rules}


OF_TENSORS = {tensors.INTRODUCED.name, tensors.REQUIRED.name}
OF_TENSORS |= {rule.name for rule in tensors.TENSOR_RULES}


def test_every_kind_of_rule_is_broken_here():
    """The suite's vectors break every rule of every operator; here each kind says its words."""
    kinds = {rule.name: type(rule) for support in SUPPORT.values() for rule in rules_of(support)}
    assert {kinds[case.rule] for case in BROKEN if case.rule in kinds} == set(kinds.values())


@pytest.mark.parametrize("operator", ORDER)
def test_every_rule_of_these_operators_is_broken_here(operator):
    cases = [case for case in BROKEN if case.operator == operator]
    assert {case.rule for case in cases} - OF_TENSORS == set(ORDER[operator])


def test_every_rule_of_tensors_is_broken_here():
    of_operators = {rule.name for support in SUPPORT.values() for rule in rules_of(support)}
    assert {case.rule for case in BROKEN} - of_operators == OF_TENSORS


def test_rules_say_what_they_are_and_where_they_come_from():
    for support in SUPPORT.values():
        for rule in rules_of(support):
            assert rule.sentence.endswith(".")
            assert rule.page.startswith("https://learn.microsoft.com/")
    for rule in (tensors.INTRODUCED, tensors.REQUIRED, *tensors.TENSOR_RULES):
        assert rule.sentence.endswith(".")


def test_the_example_of_a_dimension_count():
    desc = made(N, nonzero((1, 1, 1, 2, 4), rank=4))
    with pytest.raises(SpecError) as caught:
        directml.create_operator(desc, feature_level=directml.FeatureLevel.LEVEL_3_0)
    assert str(caught.value) == (
        "NonzeroCoordinates: OutputCoordinatesTensor has DimensionCount 4, InputTensor has 5; "
        "DML_FEATURE_LEVEL_3_0 requires them equal"
    )


# --- order ------------------------------------------------------------------------------

TENSOR_ORDER = [
    "tensor-data-type",
    "tensor-dimension-count",
    "tensor-strides-count",
    "tensor-sizes-positive",
    "tensor-element-limit",
    "tensor-byte-size",
    "tensor-byte-size-limit",
    "tensor-alignment",
    "tensor-flags",
    "tensor-output-overlap",
]


def test_a_tensors_rules_are_checked_in_the_contracts_order():
    assert [rule.name for rule in tensors.TENSOR_RULES] == TENSOR_ORDER


@pytest.mark.parametrize("operator", ORDER)
def test_an_operators_rules_are_checked_in_the_contracts_order(operator):
    first, *others = SUPPORT[DESCS[operator]].tables
    assert [rule.name for rule in first.rules] == ORDER[operator]
    for table in others:
        late = set() if operator != N else {"nonzero-same-dimension-count"}
        assert [rule.name for rule in table.rules] == [
            name for name in ORDER[operator] if name not in late
        ]


def found(operator, fields, at):
    violations = directml.validate(made(operator, fields), feature_level=level(at))
    return [(each.rule, each.field) for each in violations]


def test_mistakes_in_several_tensors_are_all_reported_in_order():
    fields = edited(
        quantized(),
        InputTensor={"DataType": "INT16", "GuaranteedBaseOffsetAlignment": 3},
        InputScaleTensor=None,
        FilterScaleTensor={"TotalTensorSizeInBytes": 4},
        BiasTensor=sized(1, 0, 1, 1),
        OutputTensor={"Flags": "OWNED_BY_DML", "Strides": [0, 0, 0, 0]},
        Dilations=[1],
        GroupCount=0,
    )
    expected = [
        ("tensor-data-type", "InputTensor"),
        ("tensor-alignment", "InputTensor"),
        ("tensor-required", "InputScaleTensor"),
        ("tensor-byte-size", "FilterScaleTensor"),
        ("tensor-sizes-positive", "BiasTensor"),
        ("tensor-flags", "OutputTensor"),
        ("tensor-output-overlap", "OutputTensor"),
        ("qconv-dilations", "Dilations"),
        ("qconv-group-count", "GroupCount"),
    ]
    assert found(Q, fields, "2_1") == expected


def test_the_first_is_the_errors_own_and_the_others_are_its_notes():
    fields = edited(nonzero(), InputTensor=None, OutputCountTensor=sized(1, 1, 1, 2))
    desc = made(N, fields)
    with pytest.raises(SpecError) as caught:
        directml.create_operator(desc, feature_level=level("3_0"))
    error = caught.value
    messages = [
        "NonzeroCoordinates: InputTensor is missing; DML_FEATURE_LEVEL_3_0 requires it",
        "NonzeroCoordinates: OutputCountTensor has Sizes {1,1,1,2}, expected {1,1,1,1}",
    ]
    assert [each.message for each in error.violations] == messages
    assert (str(error), error.code, error.field) == (messages[0], "missing_tensor", "InputTensor")
    assert error.__notes__ == messages[1:]


# --- consequences -----------------------------------------------------------------------

ONLY = {
    "the level excuses all": (
        *(N, "1_0", edited(nonzero(), InputTensor=None, OutputCountTensor=sized(0))),
        [("operator-feature-level", "FeatureLevel")],
    ),
    "a size of 0 excuses byte size, places and what reads the tensor": (
        *(N, "3_0"),
        edited(nonzero(), InputTensor=sized(1, 0, 2, 4, TotalTensorSizeInBytes=0)),
        [("tensor-sizes-positive", "InputTensor")],
    ),
    "too few strides excuse the byte size and places": (
        *(E, "3_0"),
        edited(quantize(), OutputTensor={"Strides": [0], "TotalTensorSizeInBytes": 0}),
        [("tensor-strides-count", "OutputTensor")],
    ),
    "too many elements excuse the byte size": (
        *(E, "3_0"),
        edited(quantize((2, 2)), InputTensor=sized(2**16, 2**16, TotalTensorSizeInBytes=2**34)),
        [("tensor-element-limit", "InputTensor")],
    ),
    "a wrong input excuses the rows and columns": (
        *(N, "3_0"),
        edited(nonzero(), InputTensor=sized(2, 2, 2, 2, DataType="UINT4")),
        [("tensor-data-type", "InputTensor")],
    ),
    "a wrong DimensionCount excuses the sizes": (
        *(N, "3_0"),
        edited(nonzero(), OutputCoordinatesTensor=sized(1, 1, 1, 7, 6)),
        [("nonzero-same-dimension-count", "OutputCoordinatesTensor")],
    ),
    "a wrong filter excuses channels, windows and outputs": (
        *(Q, "2_1"),
        edited(quantized(), FilterTensor={"DataType": "INT16"}),
        [("tensor-data-type", "FilterTensor")],
    ),
    "a missing filter excuses all that compares with it": (
        *(Q, "2_1"),
        edited(quantized(), FilterTensor=None),
        [("tensor-required", "FilterTensor")],
    ),
    "a wrong stride excuses the output's sizes": (
        *(I, "2_1"),
        edited(integer(), Strides=[0, 2]),
        [("intconv-strides", "Strides")],
    ),
    "a wrong dilation excuses the kernel": (
        *(I, "2_1"),
        edited(integer(), Dilations=[0, 900]),
        [("intconv-dilations", "Dilations")],
    ),
    "a wrong DimensionCount excuses the arrays": (
        *(I, "2_1"),
        edited(integer(), DimensionCount=1, Strides=[2]),
        [("intconv-spatial-dimension-count", "DimensionCount")],
    ),
    "no groups excuse the channels": (
        *(I, "2_1"),
        edited(integer(), GroupCount=0),
        [("intconv-group-count", "GroupCount")],
    ),
    "a kernel that does not fit excuses the output": (
        *(I, "2_1"),
        edited(integer(), Dilations=[9, 9]),
        [("intconv-kernel-fits", "FilterTensor")],
    ),
    "a wrong DimensionCount excuses sizes of elements": (
        *(D, "3_0"),
        edited(dequantize((2, 3)), ScaleTensor=sized(6)),
        [("dequantize-same-dimension-count", "ScaleTensor")],
    ),
    "a wrong scale excuses the output's data type": (
        *(D, "5_0"),
        edited(dequantize((2, 3)), ScaleTensor={"DataType": "FLOAT16"}),
        [("tensor-data-type", "ScaleTensor")],
    ),
    "a wrong input excuses the zero point's data type": (
        *(D, "6_0"),
        edited(dequantize((2, 3)), InputTensor={"DataType": "INT64"}),
        [("tensor-data-type", "InputTensor")],
    ),
    "an unknown data type excuses the byte size": (
        *(N, "4_0"),
        edited(nonzero(), InputTensor={"DataType": "UNKNOWN", "TotalTensorSizeInBytes": 2**30}),
        [("tensor-data-type", "InputTensor")],
    ),
}


@pytest.mark.parametrize(("operator", "at", "fields", "expected"), ONLY.values(), ids=ONLY)
def test_consequences_are_not_reported(operator, at, fields, expected):
    assert found(operator, fields, at) == expected


# --- feature levels ---------------------------------------------------------------------

SPANS = {
    "nonzero": (N, nonzero(), "3_0", "6_4"),
    "nonzero of five axes": (N, nonzero((2, 1, 2, 1, 2)), "3_0", "6_4"),
    "nonzero of three axes": (N, nonzero((2, 2, 2)), "4_0", "6_4"),
    "nonzero of eight axes": (N, nonzero((1,) * 7 + (2,)), "4_0", "6_4"),
    "nonzero with a count of another rank": (N, nonzero(count_rank=1), "4_0", "6_4"),
    "quantized": (Q, quantized(), "2_1", "6_4"),
    "quantized without optional tensors": (Q, quantized(optional=False), "2_1", "6_4"),
    "quantized of three axes": (Q, quantized((1, 2, 5), (3, 2, 2)), "4_0", "6_4"),
    "quantized with flat parameters": (Q, quantized(parameter_rank=1, scale_rank=3), "4_0", "6_4"),
    "quantized with a flat filter scale": (Q, quantized(parameter_rank=1), "5_2", "6_4"),
    "integer": (I, integer(), "2_1", "6_4"),
    "integer of three axes": (I, integer((1, 2, 5), (3, 2, 2)), "4_0", "6_4"),
    "integer with flat zero points": (I, integer(parameter_rank=1), "4_0", "6_4"),
    "quantize": (E, quantize(), "1_0", "6_4"),
    "quantize to int8": (E, quantize(output="INT8"), "2_1", "6_4"),
    "quantize int32": (E, quantize(input="INT32"), "2_1", "6_4"),
    "quantize one axis": (E, quantize((5,)), "3_0", "6_4"),
    "quantize eight axes": (E, quantize((1,) * 8), "3_0", "6_4"),
    "quantize float16": (E, quantize(input="FLOAT16"), "6_0", "6_4"),
    "quantize without zero point": (E, quantize(zero_point=False), "6_2", "6_4"),
    "dequantize": (D, dequantize(), "1_0", "6_4"),
    "dequantize int8": (D, dequantize(input="INT8"), "2_1", "6_4"),
    "dequantize uint32": (D, dequantize(input="UINT32"), "2_1", "6_4"),
    "dequantize one axis": (D, dequantize((5,)), "3_0", "6_4"),
    "dequantize to float16": (D, dequantize(output="FLOAT16"), "6_0", "6_4"),
    "dequantize without zero point": (D, dequantize(zero_point=False), "6_2", "6_4"),
}


@pytest.mark.parametrize(("operator", "fields", "first", "last"), SPANS.values(), ids=SPANS)
def test_a_desc_is_accepted_from_one_level_on(operator, fields, first, last):
    desc = made(operator, fields)
    accepted = [at for at in LEVELS if not directml.validate(desc, feature_level=level(at))]
    assert accepted == levels(first, last)


@pytest.mark.parametrize("operator", DESCS)
def test_levels_between_two_tables_are_as_the_earlier_one(operator):
    support = SUPPORT[DESCS[operator]]
    starts = [table.feature_level for table in support.tables]
    assert starts == sorted(starts)
    for at in directml.FeatureLevel:
        if at >= support.introduced:
            before = max(start for start in starts if start <= at)
            assert support.at(at) is support.tables[starts.index(before)]


STARTS = {N: "3_0 4_0", Q: "2_1 4_0 5_2", I: "2_1 4_0", E: "1_0 2_1 3_0 6_0 6_2"}
STARTS[D] = STARTS[E]


@pytest.mark.parametrize("operator", STARTS)
def test_tables_begin_at_the_pages_levels(operator):
    starts = [table.feature_level for table in SUPPORT[DESCS[operator]].tables]
    assert starts == [level(name) for name in STARTS[operator].split()]


def test_any_distinct_places_will_do_for_an_output():
    fields = edited(quantize((2, 2)), OutputTensor={"Strides": [3, 2]})
    assert found(E, fields, "3_0") == []
    interleaved = edited(quantize((2, 3)), OutputTensor={"Strides": [3, 2]})
    assert found(E, interleaved, "3_0") == []


def test_inputs_may_overlap_and_be_owned():
    fields = edited(
        quantize((3, 4)),
        InputTensor={"Strides": [1, 1], "Flags": "OWNED_BY_DML"},
        ScaleTensor={"Strides": [0, 0]},
    )
    assert found(E, fields, "3_0") == []


# --- what is no desc or no level ----------------------------------------------------------

ENTRIES = {
    "validate": directml.validate,
    "create_operator": directml.create_operator,
}
NOT_DESCS = {
    "a dict": (nonzero(), "dict"),
    "a tensor": (directml.BufferTensorDesc(data_type=directml.DataType.INT8, sizes=(1,)), None),
    "nothing": (None, "NoneType"),
    "a class": (directml.NonzeroCoordinatesOperatorDesc, "type"),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("desc", "kind"), NOT_DESCS.values(), ids=NOT_DESCS)
def test_what_is_no_desc_is_refused(entry, desc, kind):
    with pytest.raises(SpecError) as caught:
        ENTRIES[entry](desc, feature_level=directml.FeatureLevel.LEVEL_6_4)
    kind = kind or "BufferTensorDesc"
    assert str(caught.value) == (
        f"dmlax.directml: desc is a {kind}, expected an operator desc of dmlax.directml"
    )
    assert (caught.value.code, caught.value.field) == ("option", "desc")


NOT_LEVELS = {
    "a string": "3_0",
    "its name": "LEVEL_3_0",
    "its value": 0x3000,
    "a float": 3.0,
    "nothing": None,
    "a list": [],
    "another enumeration": directml.DataType.FLOAT32,
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("given", NOT_LEVELS.values(), ids=NOT_LEVELS)
def test_what_is_no_feature_level_is_refused(entry, given):
    desc = made(N, nonzero())
    with pytest.raises(SpecError) as caught:
        ENTRIES[entry](desc, feature_level=given)
    assert str(caught.value) == (
        f"NonzeroCoordinates: feature_level is {given!r}, expected a FeatureLevel"
    )
    assert (caught.value.code, caught.value.field) == ("option", "feature_level")


def test_a_levels_value_is_refused_even_if_the_level_was_accepted_before():
    desc = made(N, nonzero((1, 1, 3, 3)))
    directml.create_operator(desc, feature_level=directml.FeatureLevel.LEVEL_3_0)
    with pytest.raises(SpecError, match="expected a FeatureLevel"):
        directml.create_operator(desc, feature_level=0x3000)


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_feature_level_is_by_keyword_only(entry):
    with pytest.raises(TypeError, match="positional"):
        ENTRIES[entry](made(N, nonzero()), directml.FeatureLevel.LEVEL_3_0)
