"""NONZERO_COORDINATES: every value class at every structure, in few calls."""

from functools import partial
from math import prod
from typing import NamedTuple

from ...format.tensors import DTYPES, Tensor
from .._shared.near_ties import Draw
from ..topics import Files, bits
from .cases import OPERATOR, NonzeroTopic
from .meaning import effective_rank

topics = Files(OPERATOR, NonzeroTopic)

WORDS = {  # of floats, but for the zeros
    "float32": (
        *(0x3F800000, 0x7FC00000, 0x7F800000, 0x00000001, 0xFF7FFFFF, 0xFF800000, 0x807FFFFF),
        *(0x7F7FFFFF, 0xBF800000, 0xFFC00001),
    ),
    "float16": (*(0x3C00, 0x7E00, 0x7C00, 0x0001, 0xFBFF, 0xFC00, 0x83FF, 0x7BFF, 0xBC00, 0xFE01),),
}
# Runs, single elements, and zeros between others; `-` is minus zero.
PATTERN = "x0x-xxx00x-0xxxx-x"


class Plan(NamedTuple):
    """A call: sizes, data type, how many columns, and whether some, all or no elements count."""

    number: int
    sizes: tuple[int, ...]
    dtype: str
    width: int
    share: str

    @classmethod
    def of(cls, text: str) -> "Plan":
        """Read a plan, such as `12 1x3x29 int8 narrow some`."""
        number, sizes, dtype, width, share = text.split()
        shape = tuple(map(int, sizes.split("x")))
        columns = max(effective_rank(shape), 1) if width == "narrow" else len(shape)
        return cls(int(number), shape, dtype, columns, share)

    @property
    def about(self) -> str:
        """The plan in words."""
        return f"every value class in sizes {list(self.sizes)}: {self.share} elements are non-zero"


def found_words(dtype: str) -> tuple[int, ...]:
    """Return words that are not zero, the unusual ones among them."""
    low, high = DTYPES[dtype].low, DTYPES[dtype].high
    if dtype in WORDS:
        return WORDS[dtype]
    return (1, high, low or high // 2 + 1, -1 if low else 2, 1, 6, high // 3, low + 1)


def zero_words(dtype: str) -> tuple[int, int]:
    """Return zero and minus zero, which an integer lacks."""
    return 0, 1 << (DTYPES[dtype].width - 1) if dtype in WORDS else 0


def tensor(plan: Plan) -> Tensor:
    """Return an input; values, zeros and runs take turns, each in its own time."""
    draw, found = Draw(plan.number), found_words(plan.dtype)
    zero, minus = zero_words(plan.dtype)
    marks = {"some": PATTERN, "all": "x", "no": "-0"}[plan.share]
    at, words = draw.below(100), list[int]()
    for index in range(prod(plan.sizes)):
        mark = marks[(plan.number + index) % len(marks)]
        at += mark == "x"
        words.append({"x": found[at % len(found)], "0": zero, "-": minus}[mark])
    return bits(plan.dtype, plan.sizes, words)


CLAUSE = "NZC-1 NZC-2 NZC-3 NZC-4 NZC-5 NZC-7 NZC-8"
COVERING = {  # by file
    "covering": """
22 7 int16 all all
59 1x5 float16 all some
58 2x64 uint8 all some
9 2x64 uint16 all some
23 2x95 float16 all some
49 2x95 uint8 all some
56 2x95 int8 all some
9 2x95 float16 all some
17 3x23 float16 all some
19 1x1x15 uint16 all all
16 1x3x95 uint8 narrow some
34 2x2x3 uint16 all some
40 2x2x3 int8 all some
49 2x2x3 float16 all some
0 2x2x23 int8 all some
53 2x2x23 uint8 all some
48 2x3x3 float16 all some
33 3x1x7 int8 all some
57 1x2x2x3 uint16 all some
1 2x1x2x7 uint8 all some
38 2x1x2x7 int8 all some
23 2x2x2x3 float16 all some
33 2x2x2x5 uint16 all some
5 2x2x2x7 uint16 all some
48 2x2x3x3 int8 all some
40 2x3x1x3 float16 all some
27 2x3x2x3 float16 all all
38 2x3x2x5 float32 all some
26 3x2x2x5 int8 all some
23 6 float32 all no
""",
    "covering-beyond-1000": """
19 1031 int8 all some
20 1031 float16 all some
23 22x48 uint8 all some
44 1031 uint8 all some
53 1031 float16 all some
3 11x95 int8 all some
""",
    "covering-ranks-5-to-7": """
5 1x1x1x2x5 int8 all some
47 1x1x1x2x9 float32 narrow all
5 2x1x2x1x3 float16 all some
39 2x2x2x1x3 uint8 all some
12 2x2x2x2x3 uint32 all some
39 2x2x2x2x3 int8 all some
9 2x2x2x2x3 float32 all some
34 2x2x2x2x5 float16 all some
52 2x2x2x2x5 int32 all some
26 3x2x2x2x3 uint8 all some
48 1x1x1x1x1x3 uint8 narrow some
22 1x1x1x1x2x3 int8 narrow some
14 2x2x2x2x2x2 uint8 all some
17 2x2x2x2x2x2 int32 all some
39 2x2x2x2x2x2 uint8 all some
52 2x2x2x2x2x2 float32 all some
8 2x2x2x2x2x2 int8 all some
44 3x2x2x2x2x2 float16 all some
14 1x1x1x1x1x2x2 float16 all some
23 1x1x1x1x2x2x2 int16 narrow all
42 1x1x1x1x2x2x2 float16 all some
0 1x1x1x2x2x2x2 float16 narrow some
2 2x2x2x2x2x2x2 int8 all some
24 2x2x2x2x2x2x2 uint8 all some
43 2x2x2x2x2x2x2 float16 all some
54 2x2x2x2x2x2x2 int8 all some
56 2x2x2x2x2x2x2 uint8 all some
16 2x2x2x2x3x3x2 float16 all some
3 1x1x2x2x5 float16 all no
""",
    "covering-divisors": """
5 9x41 uint8 all all
""",
    "covering-rank-8": """
32 1x1x1x1x1x1x2x2 float32 all some
49 1x1x1x1x1x1x2x2 int8 all some
16 2x2x2x2x2x2x2x2 float16 all some
28 2x2x2x2x2x2x2x2 int8 all some
54 2x2x2x2x2x2x2x2 uint8 all some
6 2x2x2x2x2x2x2x2 float16 all some
8 2x2x2x2x2x2x2x2 uint8 all some
24 2x2x2x2x2x3x2x2 int8 all some
""",
}


def _add(topic: NonzeroTopic, name: str, line: str, paired_with: str | None = None) -> None:
    plan = Plan.of(line)
    flags = "" if plan.share == "some" else "Density"
    topic.add(name, plan.about, CLAUSE, tensor(plan), plan.width, flags, "", paired_with)


def _add_all(lines: str, topic: NonzeroTopic) -> None:
    for number, line in enumerate(lines.split("\n")[1:-1], 1):
        other = f"{topic.topic}-1" if line.endswith(" no") else None
        _add(topic, f"{topic.topic}-{number}", line, other)


for _name, _lines in COVERING.items():
    topics.file(_name)(partial(_add_all, _lines))
