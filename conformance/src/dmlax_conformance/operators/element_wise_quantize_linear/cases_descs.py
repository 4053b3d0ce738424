"""ELEMENT_WISE_QUANTIZE_LINEAR by descs."""

from collections.abc import Iterator

from .._shared.element_wise_descs import FOUR, NO_ELEMENTS, Descs
from .._shared.strided_descs import StridedTopic
from ..desc_topics import DescTopic
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

WORDS = {"float32": (0x40600000, 0xC0200000), "float16": (0x4300, 0xC100), "int32": (7, -5)}
DESCS = Descs(
    OPERATOR,
    source="float32",
    result="uint8",
    words=lambda source: WORDS[source],
    others=lambda source, result: ("float16" if source == "float16" else "float32", result),
    together={
        ("InputTensor", "ScaleTensor"): "FLOAT64",
        ("ZeroPointTensor", "OutputTensor"): "INT16",
    },
)
PACKED, SMALL = DESCS.make((1, 1, 2, 3)), DESCS.make((1, 1, 1, 2))
at_ranks, typed, add_survivors = DESCS.at_ranks, DESCS.typed, DESCS.add_survivors


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    rules = DESCS.rules()
    for source, result in (("float32", "uint8"), ("float16", "int8"), ("int32", "uint8")):
        point = "INT8" if result == "uint8" else "UINT8"
        scale = "FLOAT32" if source == "float16" else "FLOAT16"
        wrong = {"ZeroPointTensor": point, "ScaleTensor": scale}
        DESCS.add_types(rules, source, result, "QNT-4", wrong)
    yield rules
    early, late = ("2_0", "2_1"), ("5_2", "6_0")
    half, eight = DESCS.make(FOUR, "float16"), DESCS.make(FOUR, result="int8")
    steps = [("int32", "an INT32 input", DESCS.make(FOUR, "int32"), early, "InputTensor")]
    steps += [("float16", "FLOAT16 input and scale", half, late, "InputTensor")]
    steps += [("int8", "INT8 zero point and output", eight, early, "ZeroPointTensor")]
    yield DESCS.levels(steps)
    yield _round_up_bytes(DESCS.strides())


def _round_up_bytes(topic: StridedTopic) -> StridedTopic:
    """Round byte sizes of 8-bit tensors up to a multiple of 4, packed and strided."""
    made, base, rule = DESCS.make((5,)), "desc-bytes-5-of-8", "tensor-byte-size"
    topic.accepted(base, "5 bytes need 8", made, clause=rule, flags="Buffer")
    for short, name in (("zero-point", "ZeroPointTensor"), ("output", "OutputTensor")):
        changed, flags = made.patched(name, TotalTensorSizeInBytes=5), "Invalid Buffer"
        text = f"{name} has 5 bytes, which is no multiple of 4"
        topic.refused(f"desc-bytes-{short}-5", text, base, rule, name, changed, flags=flags)
    topic.add("bytes", "5 bytes, 3 apart, need 16", made, OutputTensor=(3,))
    topic.shorten_buffer("bytes", "OutputTensor")
    return topic
