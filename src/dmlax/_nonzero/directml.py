"""DirectML's descriptor of nonzero_coordinates: its fields, support tables, rules and call."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from dmlax._core.arguments import effective_rank
from dmlax._directml import rules
from dmlax._directml.descs import BufferTensorDesc, OperatorDesc
from dmlax._directml.enums import DataType, FeatureLevel
from dmlax._directml.rules import Broken, Call, Rule, braces
from dmlax._directml.support import FLOATS, INTEGERS, Row, Support, Table, Tensors, page
from dmlax._nonzero.api import nonzero_coordinates


@dataclass(frozen=True, kw_only=True)
class NonzeroCoordinatesOperatorDesc(OperatorDesc):
    """DML_NONZERO_COORDINATES_OPERATOR_DESC."""

    operator: ClassVar[str] = "NonzeroCoordinates"
    input_tensor: BufferTensorDesc
    output_count_tensor: BufferTensorDesc
    output_coordinates_tensor: BufferTensorDesc


@dataclass(frozen=True, kw_only=True)
class CoordinateSizes(Rule):
    """OutputCoordinatesTensor is {1, ..., M, N}; each subclass looks at one part."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes = call.tensor("OutputCoordinatesTensor").sizes
        for wanted in self._wanted(call.tensor("InputTensor"), sizes):
            yield Broken("OutputCoordinatesTensor", f"has Sizes {braces(sizes)}, {wanted}")

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class LeadingOnes(CoordinateSizes):
    """All sizes but the last two are 1."""

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        if set(sizes[:-2]) - {1}:
            yield "expected 1 in all but the last two"


@dataclass(frozen=True, kw_only=True)
class RowPerElement(CoordinateSizes):
    """M is the number of elements of the input."""

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        if sizes[-2] != input.elements:
            wanted = f"{input.elements}, the elements of InputTensor {braces(input.sizes)}"
            yield f"so M is {sizes[-2]}, expected {wanted}"


@dataclass(frozen=True, kw_only=True)
class ColumnPerAxis(CoordinateSizes):
    """N is from the input's effective rank to its DimensionCount."""

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        low, high = effective_rank(input.sizes), input.dimension_count
        if not low <= sizes[-1] <= high:
            of = f"the effective rank and the DimensionCount of InputTensor {braces(input.sizes)}"
            yield f"so N is {sizes[-1]}, expected {low} to {high}: {of}"


_PAGE = page("ns-directml-dml_nonzero_coordinates_operator_desc")
_ANY = (*FLOATS, *INTEGERS)
_U32 = (DataType.UINT32,)
_RULES = (
    rules.OneElement(
        name="nonzero-count-scalar",
        sentence="The count is a scalar: all its sizes are 1.",
        page=_PAGE,
        tensor="OutputCountTensor",
    ),
    LeadingOnes(
        name="nonzero-coordinates-leading",
        sentence="The coordinates are a matrix: {1, ..., 1, M, N}.",
        page=_PAGE,
    ),
    RowPerElement(
        name="nonzero-coordinates-rows",
        sentence="M is the number of elements of the input, the worst case.",
        page=_PAGE,
    ),
    ColumnPerAxis(
        name="nonzero-coordinates-columns",
        sentence="N is at least the input's effective rank, which leaves leading sizes of 1 out, "
        "and at most its DimensionCount; it is at least 1, since no size may be 0.",
        page=_PAGE,
    ),
)
_SAME = rules.SameDimensionCount(
    name="nonzero-same-dimension-count",
    sentence="Input, count and coordinates have the same DimensionCount (until 4.0).",
    page=_PAGE,
    tensors=("InputTensor", "OutputCountTensor", "OutputCoordinatesTensor"),
)


def _call(desc: NonzeroCoordinatesOperatorDesc, tensors: Tensors) -> Tensors:
    *_, size, rank = desc.output_coordinates_tensor.sizes
    x = tensors["input_tensor"]
    count, coordinates = nonzero_coordinates(x, size=size, coordinate_rank=rank)
    return {"output_count_tensor": count, "output_coordinates_tensor": coordinates}


NONZERO_COORDINATES = Support(
    NonzeroCoordinatesOperatorDesc,
    _PAGE,
    (
        Table(
            FeatureLevel.LEVEL_3_0,
            (
                Row("InputTensor", "Input", (4, 5), _ANY, "{ [D0], D1, D2, D3, D4 }"),
                Row("OutputCountTensor", "Output", (4, 5), _U32, "{ [1], 1, 1, 1, 1 }"),
                Row("OutputCoordinatesTensor", "Output", (4, 5), _U32, "{ [1], 1, 1, M, N }"),
            ),
            (_SAME, *_RULES),
        ),
        Table(
            FeatureLevel.LEVEL_4_0,
            (
                Row(
                    *("InputTensor", "Input", (1, 8), _ANY),
                    "{ [D0], [D1], [D2], [D3], [D4], [D5], [D6], D7 }",
                ),
                Row(
                    *("OutputCountTensor", "Output", (1, 8), _U32),
                    "{ [1], [1], [1], [1], [1], [1], [1], 1 }",
                ),
                Row(
                    *("OutputCoordinatesTensor", "Output", (2, 8), _U32),
                    "{ [1], [1], [1], [1], [1], [1], M, N }",
                ),
            ),
            _RULES,
        ),
    ),
    _call,
)
