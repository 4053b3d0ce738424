"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: classes of values in many rows, columns and matrices."""

from collections.abc import Mapping, Sequence

from ...format.recipe import Cycle, Recipe
from ...format.tensors import Tensor, from_recipe
from .._shared.convolution_cases import Parameters
from .._shared.matmul_cases import operand
from .._shared.near_ties import NearTie
from ..topics import Files, bits, drawn
from .cases import OPERATOR
from .cases_rounding import FAMILIES, BiasTopic, chosen

topics = Files(OPERATOR, BiasTopic)
Sizes = tuple[int, ...]
STRUCTURES: Mapping[str, tuple[Sizes, Sizes, int]] = {  # A, B, and how many accumulators
    "rows": ((67, 1), (1, 1), 67),
    "columns": ((1, 1), (1, 131), 131),
    "matrices": ((5, 1, 1), (1, 7), 7),
}


@topics.file("rounding-structures")
def _rounding(topic: BiasTopic) -> None:
    """Let a bias of one row or one column make accumulators that floats misplace."""
    for number, (name, (a, b, count)) in enumerate(STRUCTURES.items()):
        is_row = "rows" in name
        for family, (rounds, flag) in FAMILIES.items():
            ties = chosen(family, 90 + number, rounds)[:7]
            given = _through(ties, count, is_row)
            own: Parameters = {**given, "zy": [3 * number - 7]}
            text = f"{count} accumulators on or beside k + 1/2: many {name}"
            _add(topic, f"many-{name}-{family}", text, "QMM-1 QMM-5", a, b, own, flag)
        ends = [2 * (end - 40) + step for end in (-128, 127) for step in (-3, -1, 1, 90)][:7]
        sizes = (count, 1) if is_row else (count,)
        bias = _over("int32", sizes, ends)
        own = {"bias": bias, "sa": [1], "sb": [1], "sy": [2], "zy": [40]}
        text = f"half steps around both ends of INT8: many {name}"
        _add(topic, f"many-{name}-ends", text, "QMM-6 QMM-5", a, b, own, "Saturation Tie")


def _through(ties: Sequence[NearTie], count: int, is_row: bool) -> Parameters:
    sizes = (count, 1) if is_row else (count,)
    words = _over("float32", sizes, [tie.filter_scale for tie in ties])
    first = bits("float32", (), [ties[0].input_scale])
    own: Parameters = {
        "bias": _over("int32", sizes, [tie.accumulator for tie in ties]),
        "sy": bits("float32", (), [ties[0].output_scale]),
    }
    return {**own, "sa": words, "sb": first} if is_row else {**own, "sa": first, "sb": words}


def _over(dtype: str, sizes: Sizes, words: Sequence[int]) -> Tensor:
    return from_recipe(dtype, sizes, Cycle(tuple(words)))


def _add(
    topic: BiasTopic,
    name: str,
    text: str,
    clause: str,
    a: Sizes,
    b: Sizes,
    own: Parameters,
    flags: str,
) -> None:
    """Add a call whose products are all 0."""
    held: Tensor = from_recipe("uint8", a, Recipe(0, 77, 77))
    given = {**own, "za": [77]}
    topic.add(name, text, clause, held, operand("int8", b, 97), given, f"{flags} BlockEdge")


@topics.file("parameter-structures")
def _parameters(topic: BiasTopic) -> None:
    a, b = operand("uint8", (35, 3), 331), operand("int8", (3, 9), 332)
    own: Parameters = {
        "za": operand("uint8", (35, 1), 333, True),
        "zb": operand("int8", (9,), 334, True),
        "zy": drawn("int8", (35, 1), 335, -60, 60),
        "sa": bits("float32", (35, 1), [0x3D000000 + 0x8421 * at for at in range(35)]),
        "sb": bits("float32", (9,), [0x3C000000 + 0x8421 * at for at in range(9)]),
        "sy": bits("float32", (35, 1), [0x40000000 + 0x8421 * at for at in range(35)]),
    }
    text = "every parameter for each of 35 rows, or of 9 columns"
    topic.add("each-of-many", text, "QMM-7", a, b, own, "PerChannel BlockEdge")
    a, b = operand("uint8", (3, 3), 336), operand("int8", (3, 3), 337)
    for name, sizes in (("rows", (3, 1)), ("elements", (3, 3))):
        own = {"bias": drawn("int32", sizes, 338, -20000, 20000), "sy": [128]}
        text = f"a bias of {list(sizes)} where all axes have 3 places"
        topic.add(f"square-bias-{name}", text, "QMM-9", a, b, own, "Broadcast")
