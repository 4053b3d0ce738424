"""DYNAMIC_QUANTIZE_LINEAR: calls at corners, and ranges that elements beyond the 4,096th set."""

from collections.abc import Iterator

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared.corners import add_corners, sized
from .._shared.large_pairs import Call
from ..topics import Files, Topic, ints
from .cases import OPERATOR
from .cases_large import CLAUSE, FACTORS, made

LATE = {  # words, of which all but the last ones are alike
    "the least is last": ("float16", (4097,), "uint8", (0x3C00, 0x4900), (0xC900,)),
    "both are late": ("float16", (17, 257), "int8", (0x3C00, 0xB800), (0x4B00, 0xCA80, 0x3E00)),
}


def late(dtype: str, sizes: tuple[int, ...], few: tuple[int, ...], last: tuple[int, ...]) -> Tensor:
    """Return a tensor whose last elements make its range."""
    count = 1
    for size in sizes:
        count *= size
    words = [few[at % len(few)] for at in range(count - len(last))]
    return ints(dtype, sizes, [*words, *last])


def late_ranges() -> Iterator[tuple[str, Call]]:
    """Yield calls of which only late elements make the range."""
    for text, (dtype, sizes, target, few, last) in LATE.items():
        asked = {
            "OutputTensor": Request(target, sizes),
            "OutputScaleTensor": Request("float32", (1,)),
            "OutputZeroPointTensor": Request(target, (1,)),
        }
        x = late(dtype, sizes, few, last)
        yield f"{dtype}, {len(x.words)} elements; {text}", Call({"InputTensor": x}, asked)


topics = Files(OPERATOR, Topic)
add_corners(topics, CLAUSE, sized(FACTORS, made))
add_corners(topics, CLAUSE, late_ranges(), "corner-late")
