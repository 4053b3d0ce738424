"""DirectML's descriptor of nonzero_coordinates: its fields, support tables, rules and call."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dmlax._core.arguments import effective_rank
from dmlax._descriptors import rules
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import FLOATS, INTEGERS, U32, FeatureLevel
from dmlax._descriptors.rules import Broken, Call, braces, rule
from dmlax._descriptors.support import Level, describe
from dmlax._operators.nonzero.api import nonzero_coordinates


@dataclass(frozen=True, kw_only=True)
class NonzeroCoordinatesOperatorDesc(OperatorDesc):
    """DML_NONZERO_COORDINATES_OPERATOR_DESC."""

    input_tensor: BufferTensorDesc
    output_count_tensor: BufferTensorDesc
    output_coordinates_tensor: BufferTensorDesc


_DATA_TYPES = {
    "InputTensor": (*FLOATS, *INTEGERS),
    "OutputCountTensor": U32,
    "OutputCoordinatesTensor": U32,
}


@rule("coordinates-leading", "sizes", "The coordinates are a matrix: {1, ..., 1, M, N}.")
def _leading(call: Call) -> Iterator[Broken]:
    _, sizes = call.sizes("InputTensor", "OutputCoordinatesTensor")
    if set(sizes[:-2]) - {1}:
        yield _broken(sizes, "expected 1 in all but the last two")


@rule("coordinates-rows", "sizes", "M is the number of elements of the input, the worst case.")
def _rows(call: Call) -> Iterator[Broken]:
    input, sizes = call.sizes("InputTensor", "OutputCoordinatesTensor")
    elements = call.tensor("InputTensor").elements
    if sizes[-2] != elements:
        expected = f"{elements}, the elements of InputTensor {braces(input)}"
        yield _broken(sizes, f"so M is {sizes[-2]}, expected {expected}")


@rule(
    *("coordinates-columns", "sizes"),
    "N is at least the input's effective rank, which leaves leading sizes of 1 out, and at most "
    "its DimensionCount; it is at least 1, since no size may be 0.",
)
def _columns(call: Call) -> Iterator[Broken]:
    input, sizes = call.sizes("InputTensor", "OutputCoordinatesTensor")
    low, high = effective_rank(input), len(input)
    if not low <= sizes[-1] <= high:
        ends = f"the effective rank and the DimensionCount of InputTensor {braces(input)}"
        yield _broken(sizes, f"so N is {sizes[-1]}, expected {low} to {high}: {ends}")


def _broken(sizes: tuple[int, ...], text: str) -> Broken:
    return Broken("OutputCoordinatesTensor", f"has Sizes {braces(sizes)}, {text}")


def _options(desc: OperatorDesc) -> Mapping[str, int]:
    *_, size, rank = desc.tensors["OutputCoordinatesTensor"].sizes
    return {"size": size, "coordinate_rank": rank}


NONZERO_COORDINATES = describe(
    NonzeroCoordinatesOperatorDesc,
    nonzero_coordinates,
    "nonzero",
    (
        Level(
            *(FeatureLevel.LEVEL_3_0, (4, 5)),
            data_types=_DATA_TYPES,
            dimensions=("{ [D0], D1, D2, D3, D4 }", "{ [1], 1, 1, 1, 1 }", "{ [1], 1, 1, M, N }"),
            rules=(rules.same_dimension_count(*_DATA_TYPES, note=" (until 4.0)"),),
        ),
        Level(
            *(FeatureLevel.LEVEL_4_0, (1, 8)),
            data_types=_DATA_TYPES,
            other_counts={"OutputCoordinatesTensor": (2, 8)},
            dimensions=(
                "{ [D0], [D1], [D2], [D3], [D4], [D5], [D6], D7 }",
                "{ [1], [1], [1], [1], [1], [1], [1], 1 }",
                "{ [1], [1], [1], [1], [1], [1], M, N }",
            ),
        ),
    ),
    (rules.one_element("OutputCountTensor", name="count-scalar"), _leading, _rows, _columns),
    options=_options,
)
