"""NONZERO_COORDINATES: tables of thousands of rows, all of them compared."""

from ...format.recipe import Cycle
from ...format.tensors import from_recipe
from ..topics import Files
from .cases import OPERATOR, NonzeroTopic

topics = Files(OPERATOR, NonzeroTopic)
# One, NaN, a subnormal, an infinity, minus zero and so on: one element of eight is zero.
WORDS = (0x3C00, 0x7E00, 0x0001, 0x7C00, 0x8000, 0x83FF, 0xBC00, 0xFC00)


@topics.file("long-tables")
def _long_tables(topic: NonzeroTopic) -> None:
    x = from_recipe("float16", (1, 4800), Cycle(WORDS))
    text = "4,200 of 4,800 elements count, of every class of values; each row is compared"
    topic.add("rows-4200", text, "NZC-1 NZC-2 NZC-4 NZC-5", x, 1, "BlockEdge Large SpecialFloat")
