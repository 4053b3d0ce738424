"""Lookup: both types of the input at every rank, and whole blocks of them."""

from itertools import product

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared.rounding import RANGES
from ..topics import Files
from .cases import EIGHT_BIT, OPERATOR, LookupTopic, table

topics = Files(OPERATOR, LookupTopic)
SIZES = (
    *((), (37,), (3, 19), (3, 3, 5), (2, 3, 1, 7), (2, 1, 3, 2, 5), (1, 2, 1, 2, 3, 3)),
    *((2, 1, 2, 1, 2, 3, 2), (1, 2, 1, 2, 1, 2, 3, 3), (131, 2), (2, 131)),
)


@topics.file("structures")
def _structures(topic: LookupTopic) -> None:
    for number, (sizes, source) in enumerate(product(SIZES, EIGHT_BIT)):
        x = from_recipe(source, sizes, Recipe(300 + number, *RANGES[source]))
        own = table(EIGHT_BIT[(number + number // 2) % 2], 330 + number)
        name, text = f"{source}-{'-'.join(map(str, sizes)) or 'none'}", f"sizes {list(sizes)}"
        text = f"{source} of {text}"
        topic.add(name, text, "LUT-1 LUT-2 LUT-4 LUT-5", "BlockEdge", x, own)
