"""QUANTIZED_LINEAR_CONVOLUTION by descs."""

from collections.abc import Iterator

from .._shared.convolution_cases import parameter, scale_words
from .._shared.convolution_descs import NO_ELEMENTS, Descs, step_rank
from .._shared.convolution_rules import PER_CHANNEL
from .._shared.strided_descs import StridedTopic, of_parameters
from ..desc_topics import DescTopic, cycled
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(OPERATOR, "uint8", "QLC-8")
PACKED = SMALL = DESCS.make(is_bare=True)
at_ranks, typed = DESCS.at_ranks, DESCS.typed


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield from DESCS.rules()
    topic, field = DESCS.levels(), "InputScaleTensor"
    text = "parameters of rank 1, but for the filter scale"
    step_rank(topic, "parameters-1", text, DESCS.make(4, 1, 4), field=field)
    for rank, levels in ((1, ("4_0", "5_2")), (2, ("5_1", "5_2"))):
        name, text = f"filter-scale-{rank}", f"a filter scale of rank {rank}"
        step_rank(topic, name, text, DESCS.make(4, 4, rank), levels, "FilterScaleTensor")
    for own, rank in ((3, 4), (4, 3)):
        text = f"parameters of rank {own} for tensors of rank {rank}, at 4_0"
        made, clause = DESCS.make(rank, own), "tensor-dimension-count"
        topic.accepted(f"desc-parameters-{own}", text, made, "4_0", clause, "Level")
    yield topic
    scale, zero = scale_words([0x3D000000]), parameter([128], "uint8")
    visible = {"OutputScaleTensor": scale, "OutputZeroPointTensor": zero}  # small elements show
    yield DESCS.strides(_repeat_parameters, visible)
    yield of_parameters(OPERATOR, {"plain": DESCS.make(), "groups": DESCS.make(groups=2)})


def _repeat_parameters(topic: StridedTopic) -> None:
    """Repeat one bias and one filter scale over the channels."""
    words = {"BiasTensor": ("int32", 3000), "FilterScaleTensor": ("float32", 0x3D000000)}
    own = {name: cycled(dtype, (1, 2, 1, 1), [word]) for name, (dtype, word) in words.items()}
    text = "one bias and one filter scale, repeated by a stride of 0"
    made, zeros = DESCS.replaced(DESCS.make(), own), dict.fromkeys(words, (0, 0, 0, 0))
    topic.add("repeated", text, made, **zeros)
    topic.add("bias", "biases in every second word", DESCS.make(), BiasTensor=(4, 2, 1, 1))


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    DESCS.add_survivors(topic, base)
    # Parameters that may be of each channel, in five dimensions.
    point, scale = PER_CHANNEL
    for level, field in (("4_0", point), ("5_2", point), ("5_2", scale)):
        DESCS.refuse_rank(topic, level, field, 5, DESCS.make())
