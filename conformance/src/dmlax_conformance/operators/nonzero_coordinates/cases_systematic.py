"""NONZERO_COORDINATES: every pair of options, and every size class."""

from itertools import product
from math import prod

from ...format.recipe import Recipe
from ...format.tensors import DTYPES, from_recipe
from .._shared.covering import Factors, Row, apart
from .._shared.systematic import Systematic, flags_of, sizes_of
from ..topics import drawn, floats
from .cases import OPERATOR, NonzeroTopic

FACTORS: Factors = {
    "input": (*("uint8", "int8", "uint16", "int16", "uint32", "int32"), *("float32", "float16")),
    "rank": ("1", "2", "4", "8"),
    "width": ("rank", "effective rank"),
    "elements": ("few", "126", "255", "1001", "66000"),
}
FLOATS = product(("float32", "float16"), ("1001", "66000"))
APART = {
    **apart("rank 1 has one width", (("rank", "1"), ("width", "effective rank"))),
    **apart("recipes make integers", *((("input", t), ("elements", n)) for t, n in FLOATS)),
}
PRIMES = {
    "few": (2, 2, 3),
    "126": (2, 3, 3, 7),
    "255": (3, 5, 17),
    "1001": (7, 11, 13),
    "66000": (33, 40, 50),
}
ELSEWHERE = {127, 128, 129, 255, 256, 257, 1001, 65_537}  # other files of coordinates have these


def _pair(topic: NonzeroTopic, name: str, text: str, row: Row, number: int) -> None:
    rank, dtype = int(row["rank"]), row["input"]
    width = rank if row["width"] == "rank" else rank - 1
    sizes = (1,) * (rank - width) + _shape(PRIMES[row["elements"]], width)
    is_large, is_float = row["elements"] in ("1001", "66000"), DTYPES[dtype].kind == "bits"
    low, high = (-9, 9) if is_float else (DTYPES[dtype].low, DTYPES[dtype].high)
    recipe = Recipe(910 + number, low, high, max(2, prod(sizes) // 16))
    tensor = drawn("int32" if is_float else dtype, sizes, *recipe)
    if is_float:
        tensor = floats(dtype, sizes, tensor.words)
    if is_large:
        tensor = from_recipe(dtype, sizes, recipe)
    flags, clause = "Large" if is_large else "", "NZC-1 NZC-3 NZC-4 NZC-7 NZC-8"
    topic.add(name, text, clause, tensor, width, flags)


def _shape(primes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the sizes merged, or with 1 between them, to this rank; the first is not 1."""
    if rank < len(primes):
        return (*primes[: rank - 1], prod(primes[rank - 1 :]))
    return (primes[0], *(1,) * (rank - len(primes)), *primes[1:])


def _of_size(topic: NonzeroTopic, count: int, number: int) -> None:
    if count not in ELSEWHERE:
        sizes, recipe = sizes_of(count), Recipe(760 + number, 1, 255, max(2, count // 50))
        x, text = from_recipe("uint8", sizes, recipe), f"{count} elements in sizes {list(sizes)}"
        topic.add(f"elements-{count}", text, "NZC-1 NZC-4", x, flags=flags_of(count))


topics = Systematic(OPERATOR, NonzeroTopic, FACTORS, APART, _pair, _of_size)
