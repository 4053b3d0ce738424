"""QUANTIZED_LINEAR_CONVOLUTION by descs."""

from collections.abc import Iterator, Mapping
from typing import Any

from .._shared.convolution_cases import parameter, scale_words
from .._shared.convolution_descs import (
    NO_ELEMENTS,
    Descs,
    convolution,
    exchanged,
    operands,
    plain,
    replaced,
    zero_points,
)
from .._shared.strided_descs import add_strided
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic, cycled

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

OPERATOR = "quantized_linear_convolution"


def quantized(
    rank: int = 4,
    parameters: int | None = None,
    filter_scale: int | None = None,
    is_bare: bool = False,
    groups: int = 1,
    options: Mapping[str, Any] | None = None,
) -> Call:
    """Return a call with every tensor, or with the required ones; parameters have own ranks."""
    own = parameters or rank
    given = operands(rank, groups) | {
        "InputScaleTensor": scale_words([0x3D800000], own),
        "FilterScaleTensor": scale_words([0x3D000000, 0x3C800000], filter_scale or own),
        "OutputScaleTensor": scale_words([0x40000000], own),
    }
    if not is_bare:
        given |= zero_points(own) | {
            "BiasTensor": parameter([3000, -3000], "int32", rank),
            "OutputZeroPointTensor": parameter([100], "uint8", own),
        }
    return convolution(OPERATOR, given, "uint8", options or plain(rank, groups))


PACKED = SMALL = quantized(is_bare=True)
POINTS = {
    "InputZeroPointTensor": "InputTensor",
    "FilterZeroPointTensor": "FilterTensor",
    "OutputZeroPointTensor": "OutputTensor",
}
SINGLE = ("InputZeroPointTensor", "InputScaleTensor", "OutputScaleTensor", "OutputZeroPointTensor")
PER_CHANNEL = ("FilterZeroPointTensor", "FilterScaleTensor")
DESCS = Descs(OPERATOR, quantized, POINTS, SINGLE, PER_CHANNEL, "QLC-8")


def at_ranks(ranks: Mapping[str, int], is_bare: bool) -> Call:
    """Return a call whose tensors have these dimension counts."""
    rank, own = ranks["InputTensor"], ranks["InputZeroPointTensor"]
    return quantized(rank, own, ranks["FilterScaleTensor"], is_bare)


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    return {"int8-uint8": exchanged(quantized()), "uint8-int8": quantized()}


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield from DESCS.rules()
    yield _levels()
    parameters = {
        "OutputScaleTensor": scale_words([0x3D000000]),
        "OutputZeroPointTensor": parameter([128], "uint8"),
    }  # so that the small elements do not all come to 0
    yield DESCS.strides(_repeated_parameters, parameters)


def _levels() -> DescTopic:
    topic = DESCS.levels()
    text, field = "parameters of rank 1, but for the filter scale", "InputScaleTensor"
    DESCS.step(topic, "parameters-1", text, quantized(4, 1, 4), field=field)
    for rank, levels in ((1, ("4_0", "5_2")), (2, ("5_1", "5_2"))):
        name, text = f"filter-scale-{rank}", f"a filter scale of rank {rank}"
        DESCS.step(topic, name, text, quantized(4, 4, rank), levels, "FilterScaleTensor")
    for own, rank in ((3, 4), (4, 3)):
        text = f"parameters of rank {own} for tensors of rank {rank}, at 4_0"
        made, clause = quantized(rank, own), "tensor-dimension-count"
        topic.accepted(f"desc-parameters-{own}", text, made, "4_0", clause, "Level")
    return topic


def _repeated_parameters(topic: DescTopic) -> None:
    """Repeat one bias and one filter scale over the channels."""
    bias = cycled("int32", (1, 2, 1, 1), (3000,))
    scale = cycled("float32", (1, 2, 1, 1), (0x3D000000,))
    made = replaced(quantized(), {"BiasTensor": bias, "FilterScaleTensor": scale})
    text = "one bias and one filter scale, repeated by a stride of 0"
    zeros = (0, 0, 0, 0)
    add_strided(topic, "repeated", text, made, BiasTensor=zeros, FilterScaleTensor=zeros)
    text = "biases in every second word"
    add_strided(topic, "bias", text, quantized(), BiasTensor=(4, 2, 1, 1))


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    DESCS.add_survivors(topic, base)
    # Parameters that may be of each channel, in five dimensions.
    point, half = parameter([-5], "int8"), scale_words([0x3D000000])
    scale = "FilterScaleTensor"
    for level, field in (("4_0", PER_CHANNEL[0]), ("5_2", PER_CHANNEL[0]), ("5_2", scale)):
        made = replaced(quantized(), {field: half if field == scale else point})
        DESCS.refuse_rank(topic, level, field, 5, made)
