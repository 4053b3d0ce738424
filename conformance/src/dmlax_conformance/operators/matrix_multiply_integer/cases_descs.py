"""MATRIX_MULTIPLY_INTEGER by descs."""

from collections.abc import Iterator, Mapping

from .._shared.matmul_descs import NO_ELEMENTS, Descs
from .._shared.matmul_rules import POINT_TYPES
from .._shared.strided_descs import of_parameters
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(OPERATOR, ("uint8", "int8", "int32"), "MMI-2")
PACKED = SMALL = DESCS.make(is_bare=True)
at_ranks = DESCS.at_ranks


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    return {f"{a}-{b}": DESCS.make(types=(a, b, "int32")) for a, b in TYPED}


TYPED = (("uint8", "int8"), ("int8", "uint8"))


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield DESCS.rules(POINT_TYPES)
    levels, made = DESCS.levels(), DESCS.make(4, 4, 1)
    text, rule = "a zero point of B of rank 1", "tensor-dimension-count"
    levels.step("b-zero-point-1", text, made, ("5_1", "5_2"), rule, "BZeroPointTensor")
    text, made = "a zero point of A of rank 1, and one of B of rank 2", DESCS.make(4, 1, 2)
    levels.step("a-zero-point-1", text, made, ("3_1", "4_0"), rule, "AZeroPointTensor")
    yield levels
    yield DESCS.strides()
    yield of_parameters(OPERATOR, {"four dimensions": DESCS.make(), "two": DESCS.make(2, 2)})


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    DESCS.add_survivors(topic, base, {})
