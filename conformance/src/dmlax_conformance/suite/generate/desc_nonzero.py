"""NONZERO_COORDINATES by descs: its rules, and what each level's page allows."""

from collections.abc import Iterator

from ...format.descs import tensor_desc
from ...format.tensors import Tensor
from ...format.vectors import Request
from ...operators.topics import ints
from .desc_builder import Call, DescTopic, call
from .desc_calls import NONZERO, nonzero

COORDINATES = "OutputCoordinatesTensor"
PAGE = (0x3F800000, 0, 0, 0x40000000, 0x80000000, 0x40600000, 0, 0xC0A66666)


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield _rules()
    yield _levels()


def _rules() -> DescTopic:
    topic = DescTopic(NONZERO, "desc-rules")
    topic.accepted("desc-rules-twin", "the twin: {1,1,2,3}, N = 3", nonzero((1, 1, 2, 3), 3))
    wrong = {
        "count-2": ("count-scalar", "OutputCountTensor", [1, 1, 1, 2]),
        "count-leading-2": ("count-scalar", "OutputCountTensor", [2, 1, 1, 1]),
        "leading-2": ("coordinates-leading", COORDINATES, [1, 2, 6, 3]),
        "rows-5": ("coordinates-rows", COORDINATES, [1, 1, 5, 3]),
        "rows-7": ("coordinates-rows", COORDINATES, [1, 1, 7, 3]),
        "rows-in-front": ("coordinates-leading", COORDINATES, [1, 6, 1, 3]),
        "transposed": ("coordinates-rows", COORDINATES, [1, 1, 3, 6]),
        "width-1": ("coordinates-columns", COORDINATES, [1, 1, 6, 1]),
        "width-5": ("coordinates-columns", COORDINATES, [1, 1, 6, 5]),
    }
    for name, (rule, field, sizes) in wrong.items():
        changed = {field: tensor_desc("UINT32", sizes)}
        text = f"{field} has sizes {sizes} for an input of {{1,1,2,3}}"
        error, twin = ("sizes", field), "desc-rules-twin"
        topic.refused(f"desc-{name}", text, twin, f"nonzero-{rule}", error, changed)
    _widths(topic)
    return topic


def _widths(topic: DescTopic) -> None:
    """Try N around the effective rank of {1,1,1,1}, which is 0, and of a lower rank."""
    one = call(
        NONZERO,
        {"InputTensor": ints("int32", (1, 1, 1, 1), [-7])},
        {
            "OutputCountTensor": Request("uint32", (1, 1, 1, 1)),
            COORDINATES: Request("uint32", (1, 1, 1, 1)),
        },
    )
    text = "the twin: effective rank 0, N = 1 because no size is 0"
    topic.accepted("desc-one-element", text, one, "3_0", flags="EffectiveRank")
    changed = {COORDINATES: tensor_desc("UINT32", [1, 1, 1, 0], size_in_bytes=4)}
    error, rule = ("sizes", COORDINATES), "tensor-sizes-positive"
    text = "effective rank 0, N = 0"
    topic.refused("desc-width-0", text, "desc-one-element", rule, error, changed)
    low = nonzero((6,), 1, 4, 4)
    text = "the twin: an input of rank 1, coordinates of rank 4, N = 1"
    topic.accepted("desc-rank-1-of-4", text, low, "4_0", flags="EffectiveRank")
    changed = {COORDINATES: tensor_desc("UINT32", [1, 1, 6, 2])}
    text = "N = 2 is above the DimensionCount of the input, 1, whatever the coordinates have"
    rule = "nonzero-coordinates-columns"
    topic.refused("desc-width-2-of-1", text, "desc-rank-1-of-4", rule, error, changed)


def _levels() -> DescTopic:
    topic = DescTopic(NONZERO, "desc-levels")
    for level in ("3_0", "3_1", "4_0", "5_2", "6_4"):
        name = f"desc-page-{level.replace('_', '-')}"
        text = f"the printed example, {{1,1,2,4}} with N = 3, at {level}"
        topic.accepted(name, text, page(), level, "NZC-1 NZC-2 NZC-6", "PageExample Level")
    clause = "nonzero-same-dimension-count"
    five = nonzero((1, 1, 1, 2, 3), 2, dtype="float16")
    topic.accepted("desc-rank-5", "rank 5 in all three", five, "3_0", clause, "Level")
    mixed = {
        "count": ("OutputCountTensor", [1, 1, 1, 1]),
        "coordinates": (COORDINATES, [1, 1, 6, 2]),
    }
    for short, (field, sizes) in mixed.items():
        made = five.changed({field: tensor_desc("UINT32", sizes)})
        twin, clause = f"desc-mixed-{short}-4-0", "nonzero-same-dimension-count"
        text = f"the twin: {field} has 4 dimensions, the input 5, from 4_0 on"
        topic.accepted(twin, text, made, "4_0", clause, "Level")
        for level in ("3_0", "3_1"):
            name = f"desc-mixed-{short}-{level.replace('_', '-')}"
            text = f"{field} has 4 dimensions, the input 5, at {level}"
            error, flags = ("dimension_count", field), "Invalid Level"
            topic.refused(name, text, twin, clause, error, level=level, flags=flags)
    _callers(topic)
    return topic


def _callers(topic: DescTopic) -> None:
    """Ask as DirectMLX does: a count of {1}, coordinates of {M, N}, whatever the input."""
    for sizes in ((5,), (2, 3), (2, 1, 3), (2, 1, 2, 1, 1, 2, 1, 2)):
        rank = len(sizes)
        text = f"rank {rank} with a count of {{1}} and coordinates of {{M, {rank}}}"
        made = nonzero(sizes, rank, 1, 2, "int16")
        topic.accepted(f"desc-flat-outputs-{rank}", text, made, "4_0", "NZC-8", "Level")


def page() -> Call:
    """Return the printed example."""
    outputs = {
        "OutputCountTensor": Request("uint32", (1, 1, 1, 1)),
        COORDINATES: Request("uint32", (1, 1, 8, 3)),
    }
    return call(NONZERO, {"InputTensor": Tensor("float32", (1, 1, 2, 4), PAGE)}, outputs)
