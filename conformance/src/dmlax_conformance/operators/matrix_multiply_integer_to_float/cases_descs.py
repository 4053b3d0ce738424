"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT by descs."""

from collections.abc import Iterator, Mapping

from .._shared.matmul_descs import NO_ELEMENTS, Descs
from .._shared.matmul_rules import PARAMETERS
from .._shared.strided_descs import of_parameters
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic
from .cases import OPERATOR
from .rules import TYPES

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(OPERATOR, ("uint8", "uint8", "float32"), "MMF-3")
PACKED = SMALL = DESCS.make(is_bare=True)
at_ranks = DESCS.at_ranks
WHOLE = ("uint8", "int8", "uint16", "int16", "uint32", "int32")


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    pairs = {each: ("float32", "float16")[place % 2] for place, each in enumerate(WHOLE)}
    return {f"{a}-{y}": DESCS.make(2, types=(a, a, y)) for a, y in pairs.items()}


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield DESCS.rules(TYPES)
    yield DESCS.strides()
    yield of_parameters(OPERATOR, {"four dimensions": DESCS.make(), "two": DESCS.make(2, 2)})


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    whole = ("ATensor", "BTensor")
    scales = ("AScaleTensor", "BScaleTensor", "OutputTensor")
    DESCS.add_survivors(topic, base, {whole: "INT64", scales: "FLOAT64"})
    DESCS.refuse_parameter_ranks(topic, base, PARAMETERS)
    text = "B alone is INT8, without zero points"
    changed = PACKED.described("BTensor", data_type="INT8")
    topic.refused("desc-b-type-alone", text, base, "b-data-type", "BTensor", changed)
