"""MATRIX_MULTIPLY_INTEGER: sums of more than 24 bits in many rows, columns and batches."""

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared.matmul_cases import operand
from ..topics import Files
from .cases import OPERATOR, IntegerTopic

topics = Files(OPERATOR, IntegerTopic)
STRUCTURES = {
    "columns": ((2, 399), (399, 67)),
    "rows": ((67, 401), (401, 2)),
    "batches": ((9, 3, 397), (397, 5)),
    "matrices": ((3, 1, 397), (3, 397, 9)),
    "vector": ((403,), (403, 131)),
}


@topics.file("large-sums")
def _large_sums(topic: IntegerTopic) -> None:
    for number, (name, (a, b)) in enumerate(STRUCTURES.items()):
        for turn, (low, high) in enumerate(((190, 255), (-128, -100))):
            left = from_recipe("uint8", a, Recipe(460 + number, 200, 255))
            kind = ("uint8", "int8")[turn]
            right = from_recipe(kind, b, Recipe(470 + number, low, high))
            own = {"zb": [1 if turn == 0 else 120]}
            text = f"{a[-1]} large products each, {('above', 'below')[turn]} 0: many {name}"
            flags = "Large LargeAccumulator BlockEdge"
            topic.add(f"large-{name}-{turn + 1}", text, "MMI-1 MMI-2", left, right, own, flags)
    left, right = operand("uint8", (67, 3), 480), operand("int8", (3, 67), 481)
    points = {"za": operand("uint8", (67, 1), 482, True), "zb": operand("int8", (67,), 483, True)}
    text = "zero points of 67 rows and 67 columns"
    topic.add("points-67", text, "MMI-5", left, right, points, "PerChannel BlockEdge")
