"""CONVOLUTION_INTEGER: every value class at every structure, in few calls."""

from ...format.tensors import Tensor
from .._shared import convolution_covering as shared
from .._shared.convolution_cases import ConvolutionTopic
from .._shared.convolution_covering import Plan
from ..topics import Files
from .cases import OPERATOR

topics = Files(OPERATOR, ConvolutionTopic)

LARGE = """
1x840x1x71 2x840x1x1 uint8 uint8 absent each +
1x28x3x77 2x28x3x10 int8 int8 one each +
1x840x71x1 2x840x1x1 uint8 int8 one each +
1x60x73x2 2x60x7x2 int8 uint8 one each +
1x840x1 131x840x1 uint8 int8 one each +
1x841x1x2 135x841x1x1 int8 int8 one each +
1x30x5x28 1x30x4x7 uint8 uint8 one one + strides=1,2
6x840x1x3 1x840x1x1 uint8 int8 absent absent -
6x60x5x5 2x60x4x4 uint8 uint8 one one - strides=2,1 start=1,1
1x1260x1x9 1x1260x1x1 int8 int8 absent absent +
2x1260x3x3 1x1260x1x1 int8 int8 absent absent -
1x5040x4 12x840x1 uint8 uint8 one each + groups=6
1x6x1x860 6x1x1x841 uint8 int8 absent each + groups=6
5x6x29x60 6x1x28x30 int8 uint8 one each + groups=6 dilations=1,2
1x60x10x14 2x60x4x4 uint8 uint8 one one - dilations=2,3
1x30x5x28 2x30x4x7 uint8 uint8 one each + strides=1,2
1x60x83 2x60x14 uint8 int8 one one - strides=1
1x60x11x12 2x60x4x4 int8 int8 one each + dilations=2,2 start=2,1
1x841x17x1 1x841x1x1 uint8 uint8 one one -
3x60x4x35 1x60x3x6 uint8 int8 one one + strides=1,2 end=1,0
""".strip().splitlines()
SMALL = """
1x3x1x71 3x3x1x1 uint8 uint8 absent absent +
1x2x9x79 3x2x3x2 int8 int8 absent absent + start=1,0 end=0,1
1x4x71x1 3x4x1x1 uint8 int8 absent absent +
1x2x68x2 2x2x2x1 int8 uint8 absent absent +
1x5x1 129x5x1 uint8 int8 absent absent +
1x4x2x2 131x4x1x1 int8 int8 absent absent +
1x2x5x28 1x2x2x3 uint8 uint8 absent absent + strides=1,2
6x3x1x3 1x3x1x1 uint8 int8 absent absent +
6x2x5x5 2x2x2x2 uint8 uint8 absent absent + strides=2,1 start=1,1
1x20x5 10x4x1 uint8 uint8 absent absent + groups=5
1x6x1x70 6x1x1x4 uint8 int8 absent absent + groups=6
5x6x3x3 6x1x2x2 int8 uint8 absent absent + groups=6
1x3x3x3 4x3x2x2 int8 uint8 one one +
1x3x5 3x3x2 uint8 int8 one one -
1x1x3x3 2x1x1x1 uint8 int8 absent one +
1x1x9 1x1x2 uint8 uint8 one one +
1x2x17x13 2x2x3x4 uint8 int8 absent absent + dilations=2,3
""".strip().splitlines()
IMAGES = """
2x3x5x5 5x3x1x1 uint8 int8 one one + strides=2,2
5x6x1x1 5x6x1x1 int8 uint8 one each +
""".strip().splitlines()


@topics.file("covering")
def _covering_large(topic: ConvolutionTopic) -> None:
    for number, text in enumerate(LARGE, 1):
        plan, flags = Plan.of(text), "Large LargeAccumulator"
        x, w = shared.large(plan, 3000 + 2 * number)
        _add(topic, f"covering-{number}", plan, x, w, flags)


@topics.file("covering-small")
def _covering_small(topic: ConvolutionTopic) -> None:
    for number, text in enumerate(SMALL, 1):
        plan = Plan.of(text)
        _add(topic, f"covering-small-{number}", plan, *shared.small(plan, 3100 + 2 * number))


@topics.file("covering-images")
def _covering_images(topic: ConvolutionTopic) -> None:
    for number, text in enumerate(IMAGES, 1):
        plan = Plan.of(text)
        _add(topic, f"covering-images-{number}", plan, *shared.small(plan, 3200 + 2 * number))


def _add(
    topic: ConvolutionTopic, name: str, plan: Plan, x: Tensor, w: Tensor, flags: str = "Large"
) -> None:
    own, clause = shared.zero_points(plan), "CVI-1 CVI-2 CVI-3 CVI-4 CVI-5 CVI-7"
    topic.add(name, plan.about, clause, x, w, own, flags, plan.options)
