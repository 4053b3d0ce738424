"""ELEMENT_WISE_QUANTIZE_LINEAR by descs."""

from collections.abc import Iterator, Sequence

from ...format.vectors import Request
from .._shared.element_wise_descs import FOUR, HALVES, NO_ELEMENTS, Descs
from .._shared.strided_descs import StridedTopic
from ..desc_topics import Call, DescTopic, call, cycled
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

WORDS = {"float32": (0x40600000, 0xC0200000), "float16": (0x4300, 0xC100), "int32": (7, -5)}


def quantize(
    sizes: Sequence[int], source: str = "float32", result: str = "uint8", is_bare: bool = False
) -> Call:
    """Return a call whose tensors all have the same sizes."""
    scale = "float16" if source == "float16" else "float32"
    given = {
        "InputTensor": cycled(source, sizes, WORDS[source]),
        "ScaleTensor": cycled(scale, sizes, HALVES[scale]),
    }
    if not is_bare:
        given["ZeroPointTensor"] = cycled(result, sizes, (3, 5, 8))
    return call(OPERATOR, given, {"OutputTensor": Request(result, tuple(sizes))})


PACKED = quantize((1, 1, 2, 3))
SMALL = quantize((1, 1, 1, 2))
TOGETHER = {("InputTensor", "ScaleTensor"): "FLOAT64", ("ZeroPointTensor", "OutputTensor"): "INT16"}
DESCS = Descs(OPERATOR, quantize, TOGETHER)
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
    half, eight = quantize(FOUR, "float16"), quantize(FOUR, result="int8")
    steps = [("int32", "an INT32 input", quantize(FOUR, "int32"), early, "InputTensor")]
    steps += [("float16", "FLOAT16 input and scale", half, late, "InputTensor")]
    steps += [("int8", "INT8 zero point and output", eight, early, "ZeroPointTensor")]
    yield DESCS.levels(steps)
    yield _round_up_bytes(DESCS.strides())


def _round_up_bytes(topic: StridedTopic) -> StridedTopic:
    """Round byte sizes of 8-bit tensors up to a multiple of 4, packed and strided."""
    made, base, rule = quantize((5,)), "desc-bytes-5-of-8", "tensor-byte-size"
    topic.accepted(base, "5 bytes need 8", made, clause=rule, flags="Buffer")
    for short, name in (("zero-point", "ZeroPointTensor"), ("output", "OutputTensor")):
        changed, flags = made.patched(name, TotalTensorSizeInBytes=5), "Invalid Buffer"
        text = f"{name} has 5 bytes, which is no multiple of 4"
        topic.refused(f"desc-bytes-{short}-5", text, base, rule, name, changed, flags=flags)
    topic.add("bytes", "5 bytes, 3 apart, need 16", made, OutputTensor=(3,))
    topic.shorten_buffer("bytes", "OutputTensor")
    return topic
