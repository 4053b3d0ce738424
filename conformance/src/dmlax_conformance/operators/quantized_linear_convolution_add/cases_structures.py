"""Quantized convolution with an addend: ties and near ties of the convolution anywhere."""

from collections.abc import Mapping
from itertools import chain, cycle, islice

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared import near_ties
from .._shared.convolution_cases import attributes
from .._shared.floats import round_half_even
from .._shared.near_ties import Draw, NearTie
from ..topics import Files, bits, ints
from .cases import OPERATOR, AddTopic

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
        scales = near_ties.shared_scales("exact", draw)
        found = [_of_family(name, scales, seed) for name in FAMILIES]
        if all(found):
            return [*islice(chain.from_iterable(zip(*map(cycle, found), strict=True)), count)]


def _of_family(name: str, scales: tuple[int, int], seed: int) -> list[NearTie]:
    rounds = near_ties.float32_rounds if name == "float32" else near_ties.float64_rounds
    members = islice(near_ties.channels(name, scales, seed), 40)
    near = [tie for tie in members if abs(tie.quotient) < 90 and abs(tie.accumulator) < 2**30]
    wrong = [tie for tie in near if rounds(tie) != round_half_even(tie.quotient)]
    return (near if name == "exact" else wrong)[:4]
