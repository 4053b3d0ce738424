"""ELEMENT_WISE_DEQUANTIZE_LINEAR: pairs of options in large calls, and calls of equal sizes."""

from ...format.tensors import DTYPES
from ...format.vectors import Request
from .._shared.covering import Row
from .._shared.large_element_wise import (
    PARAMETERS,
    PRIMES,
    SIZES,
    add_later_scales,
    sizes_of_parameter,
)
from .._shared.large_pairs import Call, add_equal_sizes, add_files, cycled, drawn, sizes_of
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "DQT-1 DQT-2 DQT-3 DQT-4 DQT-6"
FACTORS = {
    "sizes": SIZES,
    "input": ("int8", "uint8", "int16", "uint16", "int32", "uint32"),
    "output": ("float32", "float16"),
    "scale": PARAMETERS,
    "zero point": ("absent", *PARAMETERS),
    "signs": ("plus", "minus"),
}
SCALES = {  # normal, tiny, subnormal and large ones
    "float32": (0x3DCCCCCD, 0x3EAAAAAB, 0x3F800000, 0x00400001, 0x3FC00000, 0x58F00001, 0x33D6BF95),
    "float16": (0x2E66, 0x3555, 0x3C00, 0x0201, 0x3E01, 0x4C01, 0x0001),
}


def made(row: Row, number: int) -> Call:
    """Return a call whose elements, scales and zero points change."""
    sizes, source, target = sizes_of(row["sizes"]), row["input"], row["output"]
    low, high = DTYPES[source].low, DTYPES[source].high
    flip = 0x8000 if target == "float16" else 1 << 31
    words = [
        word | (flip if row["signs"] == "minus" and at % 2 == 0 else 0)
        for at, word in enumerate(SCALES[target])
    ]
    own = sizes_of_parameter(row["scale"], sizes)
    turn = number % 3 if len(own) == 1 and own[0] == 1 else 0
    given = {
        "InputTensor": drawn(source, sizes, 3000 + number, low, high),
        "ScaleTensor": cycled(target, own, words[turn:] if turn else words),
    }
    if row["zero point"] != "absent":
        own = sizes_of_parameter(row["zero point"], sizes)
        middle = (low + high + 1) // 2
        points = [middle + 5, low, middle - 3, high, middle + 1, low + 1, high - 9]
        given["ZeroPointTensor"] = cycled(source, own, points)
    return Call(given, {"OutputTensor": Request(target, sizes)})


topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, made)
EQUAL = {"input": "int8", "output": "float32", "scale": "last axis", "zero point": "last axis"}
add_equal_sizes(topics, CLAUSE, made({**EQUAL, "sizes": "2x3x5", "signs": "plus"}, PRIMES[0]))


@topics.file("later-scales")
def _later_scales(topic: Topic) -> None:
    add_later_scales(topic, "DQT-5", cycled("int8", (2, 9), range(-9, 9)), "float32")
