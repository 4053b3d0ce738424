"""NONZERO_COORDINATES by descs."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared.strided_descs import StridedTopic, sliding
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic, call, cycled, dashed
from ..topics import Files, ints
from .cases import OPERATOR

plain, strided = Files(OPERATOR, DescTopic), Files(OPERATOR, StridedTopic)
COUNT, COORDINATES = "OutputCountTensor", "OutputCoordinatesTensor"
TENSORS = ("InputTensor", COUNT, COORDINATES)
ONES = {"float32": 0x3F800000, "float16": 0x3C00}
PAGE = (0x3F800000, 0, 0, 0x40000000, 0x80000000, 0x40600000, 0, 0xC0A66666)


def nonzero(
    sizes: Sequence[int],
    width: int | None = None,
    count_rank: int | None = None,
    rows_rank: int | None = None,
    dtype: str = "uint8",
) -> Call:
    """Return a call whose outputs have these ranks, by default the input's.

    Every third element is a one, and the last.
    """
    elements, rank = prod(sizes), len(sizes)
    ones = (int(i % 3 == 0 or i == elements - 1) * ONES.get(dtype, 1) for i in range(elements))
    rows = (1,) * ((rows_rank or rank) - 2) + (elements, width or rank)
    return _call(Tensor(dtype, tuple(sizes), tuple(ones)), (1,) * (count_rank or rank), rows)


def _call(x: Tensor, count: tuple[int, ...], rows: tuple[int, ...]) -> Call:
    asked = {COUNT: Request("uint32", count), COORDINATES: Request("uint32", rows)}
    return call(OPERATOR, {"InputTensor": x}, asked)


PRINTED = _call(Tensor("float32", (1, 1, 2, 4), PAGE), (1, 1, 1, 1), (1, 1, 8, 3))
PACKED, SMALL = nonzero((1, 1, 2, 3)), nonzero((1, 1, 2, 2))
NO_ELEMENTS = {"InputTensor": [0, 1, 2, 2], COORDINATES: [1, 1, 0, 4]}


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield from plain()
    yield from strided()


def at_ranks(ranks: Mapping[str, int], is_bare: bool) -> Call:
    """Return a call whose tensors have these dimension counts."""
    image, count, rows = (ranks[name] for name in TENSORS)
    return nonzero((1,) * (image - 1) + (4,), None, count, rows)


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    dtypes = (dtype.lower() for dtype in sorted(lines["InputTensor"].data_types))
    return {dtype: nonzero((1, 1, 1, 3), dtype=dtype) for dtype in dtypes}


WRONG = {
    "count-2": ("count-scalar", COUNT, [1, 1, 1, 2]),
    "count-leading-2": ("count-scalar", COUNT, [2, 1, 1, 1]),
    "leading-2": ("coordinates-leading", COORDINATES, [1, 2, 6, 3]),
    "rows-5": ("coordinates-rows", COORDINATES, [1, 1, 5, 3]),
    "rows-7": ("coordinates-rows", COORDINATES, [1, 1, 7, 3]),
    "rows-in-front": ("coordinates-leading", COORDINATES, [1, 6, 1, 3]),
    "transposed": ("coordinates-rows", COORDINATES, [1, 1, 3, 6]),
    "width-1": ("coordinates-columns", COORDINATES, [1, 1, 6, 1]),
    "width-5": ("coordinates-columns", COORDINATES, [1, 1, 6, 5]),
}


@plain.file("desc-rules")
def _rules(topic: DescTopic) -> None:
    base = "desc-rules-twin"
    topic.accepted(base, "the twin: {1,1,2,3}, N = 3", nonzero((1, 1, 2, 3), 3))
    for name, (rule, field, sizes) in WRONG.items():
        text = f"{field} has sizes {sizes} for an input of {{1,1,2,3}}"
        topic.refuse(name, text, base, rule, {field: sizes})
    # N around the effective rank of {1,1,1,1}, which is 0, and of a lower rank.
    one = _call(ints("int32", (1, 1, 1, 1), [-7]), (1, 1, 1, 1), (1, 1, 1, 1))
    text, base = "the twin: effective rank 0, N = 1 because no size is 0", "desc-one-element"
    topic.accepted(base, text, one, "3_0", flags="EffectiveRank")
    changed = one.described(COORDINATES, [1, 1, 1, 0], size_in_bytes=4)
    text, rule = "effective rank 0, N = 0", "tensor-sizes-positive"
    topic.refused("desc-width-0", text, base, rule, COORDINATES, changed)
    low, base = nonzero((6,), 1, 4, 4), "desc-rank-1-of-4"
    text = "the twin: an input of rank 1, coordinates of rank 4, N = 1"
    topic.accepted(base, text, low, "4_0", flags="EffectiveRank")
    text = "N = 2 is above the DimensionCount of the input, 1, whatever the coordinates have"
    wrong = {COORDINATES: [1, 1, 6, 2]}
    topic.refuse("width-2-of-1", text, base, "coordinates-columns", wrong)


@plain.file("desc-levels")
def _levels(topic: DescTopic) -> None:
    for level in ("3_0", "3_1", "4_0", "5_2", "6_4"):
        name = f"desc-page-{dashed(level)}"
        text = f"the printed example, {{1,1,2,4}} with N = 3, at {level}"
        topic.accepted(name, text, PRINTED, level, "NZC-1 NZC-2 NZC-6", "PageExample Level")
    clause = "nonzero-same-dimension-count"
    five = nonzero((1, 1, 1, 2, 3), 2, dtype="float16")
    topic.accepted("desc-rank-5", "rank 5 in all three", five, "3_0", clause, "Level")
    mixed = {"count": (COUNT, [1, 1, 1, 1]), "coordinates": (COORDINATES, [1, 1, 6, 2])}
    for short, (field, sizes) in mixed.items():
        made, base = five.changed(five.described(field, sizes)), f"desc-mixed-{short}-4-0"
        text = f"the twin: {field} has 4 dimensions, the input 5, from 4_0 on"
        topic.accepted(base, text, made, "4_0", clause, "Level")
        for level in ("3_0", "3_1"):
            name = f"desc-mixed-{short}-{dashed(level)}"
            text, flags = f"{field} has 4 dimensions, the input 5, at {level}", "Invalid Level"
            topic.refused(name, text, base, clause, field, level=level, flags=flags)
    for sizes in ([5], [2, 3], [2, 1, 3], [2, 1, 2, 1, 1, 2, 1, 2]):  # as DirectMLX asks
        rank = len(sizes)
        text = f"rank {rank} with a count of {{1}} and coordinates of {{M, {rank}}}"
        made = nonzero(sizes, rank, 1, 2, "int16")
        topic.accepted(f"desc-flat-outputs-{rank}", text, made, "4_0", "NZC-8", "Level")


@strided.file("desc-strides")
def _strides(topic: StridedTopic) -> None:
    plane = nonzero((2, 3), 2, 1, 2)
    topic.add("rows-padded", "input rows of 3 in 5", plane, InputTensor=(5, 1))
    topic.shorten_buffer("rows-padded", "InputTensor")
    text = "a column-major input: order is by index"
    topic.add("columns-first", text, plane, InputTensor=(1, 2))
    text = "coordinates transposed and spread as by ONNX Runtime: strides {2, 2 * M}"
    topic.add("transposed", text, plane, OutputCoordinatesTensor=(2, 12))
    topic.overlap("transposed", COORDINATES, (1, 5), (0, 12), (2, 2), (2, 4))
    text, narrow = "coordinates in interleaved columns: strides {3, 2}", nonzero((1, 2), 2, 1, 2)
    topic.add("interleaved", text, narrow, OutputCoordinatesTensor=(3, 2))
    topic.overlap("interleaved", COORDINATES, (2, 2))
    text = "rows of coordinates in 4 words"
    topic.add("wide-rows", text, plane, OutputCoordinatesTensor=(4, 1))
    topic.shorten_buffer("wide-rows", COORDINATES)
    text = "a count of one element with a stride nobody uses"
    topic.add("count", text, plane, OutputCountTensor=(7,))
    text, square = "a count of {1,1} with strides of 0, which repeat nothing", nonzero((2, 3), 2)
    topic.add("count-0", text, square, OutputCountTensor=(0, 0))
    sizes = {"InputTensor": ((4, 1), 16), COORDINATES: ((3, 1), 100), COUNT: ((2,), 12)}
    topic.add_roomy("buffers larger than needed, all three", plane, **sizes)
    text = "one row repeated three times by a stride of 0"
    repeated = _call(cycled("uint8", (3, 2), (0, 7)), (1,), (6, 2))
    topic.add("repeated-rows", text, repeated, InputTensor=(0, 1))
    windows = _call(sliding("uint8", 6, (4, 3), (1, 1)), (1,), (12, 2))
    topic.add("windows", "overlapping windows of a row", windows, InputTensor=(1, 1))
    text = "the printed example, its floats in every second word and NaN between"
    topic.add("page", text, PRINTED, InputTensor=(16, 16, 8, 2))


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    name, text = "desc-output-count-sizes-too-few", f"{COUNT} has 2 Sizes for a DimensionCount of 4"
    rule, changed = "tensor-sizes-count", SMALL.patched(COUNT, Sizes=[1, 1])
    topic.refused(name, text, base, rule, COUNT, changed, flags="Invalid Layout")
    base = f"{base}-3-0"
    topic.accepted(base, "the twin: four dimensions at 3_0", SMALL, "3_0", flags="Level")
    for rank, image, rows in ((3, [1, 2, 2], [1, 4, 3]), (6, [1] * 4 + [2, 2], [1] * 4 + [4, 4])):
        sizes = {"InputTensor": image, COUNT: [1] * rank, COORDINATES: rows}
        text, rule = f"all three tensors have {rank} dimensions, at 3_0", "tensor-dimension-count"
        topic.refuse(f"together-3-0-rank-{rank}", text, base, rule, sizes, "Invalid Row")
