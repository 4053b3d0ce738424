"""QUANTIZED_LINEAR_MATRIX_MULTIPLY by descs."""

from collections.abc import Iterator, Mapping

from .._shared.matmul_descs import NO_ELEMENTS, Descs
from .._shared.matmul_rules import PARAMETERS, POINT_TYPES
from .._shared.strided_descs import of_parameters
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(OPERATOR, ("uint8", "int8", "uint8"), "QMM-3")
PACKED = SMALL = DESCS.make(is_bare=True)
at_ranks = DESCS.at_ranks


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    return {f"{a}-{b}": DESCS.make(types=(a, b, b)) for a, b in TYPED}


TYPED = (("uint8", "int8"), ("int8", "uint8"))


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield DESCS.rules(POINT_TYPES)
    levels, rule = DESCS.levels(), "tensor-dimension-count"
    for rank, own in ((4, 1), (2, 4)):
        text, made = f"parameters of rank {own} for tensors of rank {rank}", DESCS.make(rank, own)
        field = "ATensor" if rank < 4 else "AScaleTensor"
        levels.step(f"parameters-{own}-of-{rank}", text, made, ("3_1", "4_0"), rule, field)
    yield levels
    yield DESCS.strides()
    yield of_parameters(OPERATOR, {"four dimensions": DESCS.make(), "two": DESCS.make(2, 2)})


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    DESCS.add_survivors(topic, base, {})
    DESCS.refuse_parameter_ranks(topic, base, PARAMETERS)
