"""Quantized convolution with an addend: ties, near ties and saturation at every structure."""

from collections.abc import Mapping
from itertools import chain, cycle, islice, takewhile

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared import near_ties
from .._shared.convolution_cases import attributes, scales
from .._shared.floats import round_half_even
from .._shared.near_ties import Draw, NearTie
from .._shared.rounding import RANGES
from .._shared.systematic import PERIOD, repeat
from ..topics import Files, bits, drawn, ints
from .cases import EIGHT, MIDDLES, OPERATOR, Added, AddTopic

topics = Files(OPERATOR, AddTopic)
FAMILIES = ("float32", "float64", "exact")
STRUCTURES: Mapping[str, tuple[int, ...]] = {  # images, filters, groups, spatial sizes
    "filters": (1, 35, 1, 1, 1),
    "groups": (1, 6, 3, 2, 2),
    "depthwise": (1, 9, 9, 1, 2),
    "rows": (1, 3, 1, 33, 1),
    "columns": (1, 3, 1, 1, 35),
    "images": (2, 3, 1, 2, 2),
    "line": (1, 3, 3, 35),
}


@topics.file("structures")
def _structures(topic: AddTopic) -> None:
    for number, (name, (images, filters, groups, *spatial)) in enumerate(STRUCTURES.items()):
        ties = _members(number, filters)
        x = from_recipe("uint8", (images, groups, *spatial), Recipe(0, 77, 77))
        w = ints("int8", (filters, 1) + (1,) * len(spatial), [1] * filters)
        shape = (1, filters) + (1,) * len(spatial)
        own = {"zx": [77], "sx": bits("float32", (1,), [ties[0].input_scale])}
        own |= {"sw": bits("float32", shape, [tie.filter_scale for tie in ties])}
        own |= {"sy": bits("float32", (1,), [ties[0].output_scale]), "zy": [101 + 2 * number]}
        own |= {"bias": ints("int32", shape, [tie.accumulator for tie in ties])}
        one, zero = (1,) * len(spatial), (0,) * len(spatial)
        options = attributes(one, one, zero, zero, groups)
        text = f"ties, and near ties that float32 and float64 misplace: {name}"
        flags = "BlockEdge Tie NearTieFloat32 NearTieFloat64"
        topic.add(f"many-{name}", text, topic.clauses("1 5"), x, w, own, flags, options)


def _members(seed: int, count: int) -> list[NearTie]:
    """Return so many members of every family in turn, which share two scales."""
    draw = Draw(70 + seed)
    while True:
        words = near_ties.shared_scales("exact", draw)
        found = [*takewhile(bool, (_of_family(name, words, seed) for name in FAMILIES))]
        if len(found) == len(FAMILIES):
            return [*islice(chain.from_iterable(zip(*map(cycle, found), strict=True)), count)]


def _of_family(name: str, scales: tuple[int, int], seed: int) -> list[NearTie]:
    rounds = near_ties.float32_rounds if name == "float32" else near_ties.float64_rounds
    members = islice(near_ties.channels(name, scales, seed), 40)
    near = (tie for tie in members if abs(tie.quotient) < 90 and abs(tie.accumulator) < 2**30)
    wrong = (tie for tie in near if rounds(tie) != round_half_even(tie.quotient))
    return [*islice(near if name == "exact" else wrong, 4)]


CLAMPED: Mapping[str, tuple[int, ...]] = {  # as above
    "filters": (1, 131, 1, 1, 1),
    "groups": (1, 6, 3, 3, 3),
    "depthwise": (2, 18, 18, 1, 3),
    "rows": (1, 2, 1, 67, 1),
    "columns": (1, 2, 1, 2, 67),
    "images": (5, 2, 1, 1, 3),
    "line": (1, 2, 2, 131),
}


@topics.file("clamp-structures")
def _clamp_structures(topic: AddTopic) -> None:
    """Let the convolution leave its range on both sides, and the addend bring the sum back."""
    for number, (name, (images, filters, groups, *spatial)) in enumerate(CLAMPED.items()):
        result, other, dtype = (EIGHT[number >> bit & 1] for bit in range(3))
        x = repeat(drawn("uint8", (PERIOD,), 90 + number, 0, 255), (images, groups, *spatial))
        w = ints("int8", (filters, 1) + (1,) * len(spatial), [*islice(cycle((1, -3, 2)), filters)])
        addend = repeat(
            drawn(other, (PERIOD,), 70 + number, *RANGES[other]), (images, filters, *spatial)
        )
        points = MIDDLES[other] + 3, MIDDLES[dtype] + 9
        added = Added.of(addend, scales([-1, 2]).words, points, dtype)
        own = {"zx": [110], "sx": [4], "sw": [1], "sy": [1], "zy": [MIDDLES[result] - 7]}
        one, zero = (1,) * len(spatial), (0,) * len(spatial)
        options = attributes(one, one, zero, zero, groups)
        text = f"the {result} result saturates before the sum: {name}"
        clause, flags = topic.clauses("6 16 24"), "BlockEdge Saturation"
        topic.add(f"clamped-{name}", text, clause, x, w, own, flags, options, result, added=added)
