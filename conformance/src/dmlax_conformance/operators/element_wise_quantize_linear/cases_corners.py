"""ELEMENT_WISE_QUANTIZE_LINEAR: calls at corners, and infinities over large scales."""

from collections.abc import Iterator

from ...format.vectors import Request
from .._shared.corner_element_wise import calls
from .._shared.corners import add_corners
from .._shared.large_pairs import Call, cycled, points, sizes_of
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import CLAUSE, FACTORS, made

LARGE = {  # scales by which the largest finite number is a small one, and that number
    "float32": ((0x7F7FFFFF, 0x7E800000, 0x3F800000), 0x7F7FFFFF),
    "float16": ((0x7BFF, 0x7800, 0x3C00), 0x7BFF),
}


def infinities() -> Iterator[tuple[str, Call]]:
    """Yield calls whose infinities are divided by large scales."""
    plans = (("2x67", "67"), ("67x3", "67x1"), ("1", "1"), ("131", "1"), ("2x3x5", "3x1"))
    for number, (sizes, own) in enumerate(plans * 2):
        dtype, target = ("float32", "float16")[number % 2], ("int8", "uint8")[number // 2 % 2]
        scales, most = LARGE[dtype]
        infinity, sign = most + 1, 1 << (31 if dtype == "float32" else 15)
        infinity &= ~0x3FF if dtype == "float16" else ~0x7FFFFF
        words = (infinity, most, infinity | sign, 0, most | sign, sign, infinity)
        given = {
            "InputTensor": cycled(dtype, sizes_of(sizes), words),
            "ScaleTensor": cycled(dtype, sizes_of(own), [*scales, scales[0] | sign]),
            "ZeroPointTensor": points(target, (1,), number),
        }
        asked = {"OutputTensor": Request(target, sizes_of(sizes))}
        yield f"{dtype} {sizes}: infinities over large scales of sizes {own}", Call(given, asked)


topics = Files(OPERATOR, Topic)
add_corners(topics, CLAUSE, calls(FACTORS, made))
add_corners(topics, f"{CLAUSE} QNT-7", infinities(), "corner-infinities")
