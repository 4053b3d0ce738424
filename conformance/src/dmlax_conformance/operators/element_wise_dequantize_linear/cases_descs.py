"""ELEMENT_WISE_DEQUANTIZE_LINEAR by descs."""

from collections.abc import Iterator

from ...format.tensors import DTYPES
from .._shared.element_wise_descs import FOUR, NO_ELEMENTS, Descs
from ..desc_topics import DescTopic
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(
    OPERATOR,
    source="uint8",
    result="float32",
    words=lambda source: (DTYPES[source].high, 1, 9, 4),
    others=lambda source, result: (result, source),
    together={
        ("InputTensor", "ZeroPointTensor"): "INT64",
        ("ScaleTensor", "OutputTensor"): "FLOAT64",
    },
)
PACKED, SMALL = DESCS.make((1, 1, 2, 3)), DESCS.make((1, 1, 1, 2))
at_ranks, typed, add_survivors = DESCS.at_ranks, DESCS.typed, DESCS.add_survivors


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    rules = DESCS.rules()
    kinds = (("uint8", "INT8", "float32"), ("int16", "UINT16", "float16"))
    for source, point, scale in (*kinds, ("uint32", "INT32", "float32")):
        output = "FLOAT16" if scale == "float32" else "FLOAT32"
        wrong = {"ZeroPointTensor": point, "OutputTensor": output}
        DESCS.add_types(rules, source, scale, "DQT-3", wrong)
    yield rules
    sources, early = ("int8", "int16", "int32", "uint16", "uint32"), ("2_0", "2_1")
    steps = [
        (each, f"an {each.upper()} input", DESCS.make(FOUR, each), early, "InputTensor")
        for each in sources
    ]
    half, late = DESCS.make(FOUR, result="float16"), ("5_2", "6_0")
    steps += [("float16", "FLOAT16 scale and output", half, late, "ScaleTensor")]
    yield DESCS.levels(steps)
    yield DESCS.strides()
