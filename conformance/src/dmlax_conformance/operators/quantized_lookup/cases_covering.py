"""QUANTIZED_LOOKUP: every value class at every structure, in few calls."""

from ...format.recipe import Cycle
from ...format.tensors import DTYPES, Tensor, from_recipe
from ..topics import Files, ints
from .cases import OPERATOR, LookupTopic

topics = Files(OPERATOR, LookupTopic)
PLACES = (255, 0, 127, 128, 17, 201, 91, 1, 254, 33, 178, 64, 145)
LINES = """
71 uint8 int8
71 int8 uint8
79 int8 int8
95 uint8 uint8
289 uint8 int8
291 int8 uint8
7 uint8 uint8
7 int8 int8
7 uint8 int8
7 int8 uint8
6 uint8 int8
6 int8 uint8
3x47 uint8 int8
5x39 int8 uint8
2x3x15 int8 int8
3x2x31 uint8 uint8
2x3x2x9 uint8 int8
3x2x2x7 int8 uint8
"""
DEEP = """
2x2x2x2x5 int8 int8
2x2x3x2x3 uint8 uint8
2x2x2x2x2x3 uint8 int8
3x2x2x2x2x2 int8 uint8
2x2x2x2x2x2x2 int8 int8
2x2x2x2x2x2x3 uint8 uint8
2x2x2x2x2x2x2x2 uint8 int8
3x2x2x2x2x2x2x2 int8 uint8
2x2x2x2x3 int8 uint8
2x2x2x3x2 uint8 int8
2x2x2x2x3x2 int8 int8
2x2x2x3x2x2 uint8 int8
2x2x2x2x2x3x2 int8 uint8
2x2x2x2x3x2x2 uint8 int8
2x2x2x2x2x2x3x2 int8 int8
2x2x2x2x2x3x2x2 uint8 int8
"""


def _table(dtype: str, number: int) -> Tensor:
    """Return entries in no order, the ends of the range among those that are read."""
    low = DTYPES[dtype].low
    steps = 2 * number + 77
    words = [(place * steps + 9 * number) % 256 + low for place in range(256)]
    ends = {0: low + 255, 255: low, 127: low, 128: low + 255}
    return ints(dtype, (256,), [ends.get(at, word) for at, word in enumerate(words)])


def _add(topic: LookupTopic, lines: str, first: int) -> None:
    for number, line in enumerate(lines.strip().splitlines(), first):
        text, source, result = line.split()
        sizes, turn = tuple(map(int, text.split("x"))), 5 * number % len(PLACES)
        words = [place + DTYPES[source].low for place in (*PLACES[turn:], *PLACES[:turn])]
        x = from_recipe(source, sizes, Cycle(tuple(words)))
        about, flags = f"{source} of sizes {list(sizes)}, entries of {result}", "Extreme BlockEdge"
        clause, made = "LUT-1 LUT-2 LUT-4 LUT-5", _table(result, number)
        topic.add(f"covering-{number}", about, clause, flags, x, made)


@topics.file("covering")
def _covering(topic: LookupTopic) -> None:
    _add(topic, LINES, 1)


@topics.file("covering-ranks")
def _covering_ranks(topic: LookupTopic) -> None:
    _add(topic, DEEP, 31)


@topics.file("covering-rank-0")
def _covering_rank_0(topic: LookupTopic) -> None:
    for number, place in enumerate((*PLACES[:4], 4, 200)):
        for source, result in (("uint8", "int8"), ("int8", "uint8")):
            x = ints(source, (), [place + DTYPES[source].low])
            name, about = f"covering-rank-0-{place}-{source}", f"one {source} of rank 0"
            made, clause = _table(result, number), "LUT-1 LUT-2 LUT-5"
            is_zero = made.words[place] == 0
            other = "covering-rank-0-0-int8" if is_zero else None
            topic.add(name, about, clause, "Extreme", x, made, paired_with=other)
