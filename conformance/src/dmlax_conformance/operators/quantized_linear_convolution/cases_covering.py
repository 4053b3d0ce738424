"""QUANTIZED_LINEAR_CONVOLUTION: every value class at every structure, in few calls.

The image of a call is constant but for some pixels, so that the sum of a filter is known: it, or
the bias, makes the accumulator of one class at nearly every pixel. With one filter and one scale,
each pixel makes its own.
"""

from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...format.tensors import Tensor
from .._shared import convolution_covering as shared
from .._shared import near_ties
from .._shared.convolution_cases import parameter, scale_words
from .._shared.convolution_covering import Plan
from .._shared.near_ties import Draw
from .._shared.quantized_convolution_cases import QuantizedTopic
from .._shared.rescale_covering import KINDS, SX, SY, Half, Member, half_over, member, weights
from .._shared.rounding import RANGES
from ..topics import Files, ints
from .cases import OPERATOR

topics = Files(OPERATOR, QuantizedTopic)

# -- operands ----------------------------------------------------------------------------------


class Room(NamedTuple):
    """The zero points of a call, and the centred values that image and filter may have."""

    own: dict[str, list[int] | None]
    image: tuple[int, int]
    filters: list[tuple[int, int]]


def room(plan: Plan) -> Room:
    """Return zero points, of the filters perhaps one each."""
    (xl, xh), (wl, wh) = (RANGES[dtype] for dtype in plan.types)
    zx = 0 if plan.points[0] == "absent" else (xl + xh) // 2
    middle = (wl + wh) // 2
    each = {
        "absent": [0],
        "one": [middle],
        "each": [middle + k % 5 for k in range(plan.filters[0])],
    }
    zw = each[plan.points[1]]
    own = {
        "zx": None if plan.points[0] == "absent" else [zx],
        "zw": None if plan.points[1] == "absent" else zw,
        "zy": None if "nozy" in plan.words else [-3 if "int8" in plan.words else 121],
    }
    ends = [(wl - point, wh - point) for point in zw]
    return Room(own, (xl - zx, xh - zx), [ends[k % len(ends)] for k in range(plan.filters[0])])


STEPS = (1, 16, 120)  # what the channels hold, so that few weights make any sum


def constant_image(plan: Plan, zx: int, draw: Draw) -> Tensor:
    """Return an image whose channels are constant, but for a few drawn elements."""
    _, channels, *spatial = plan.image
    one_in = 8 if prod(plan.filters[2:]) == 1 else 60
    low, high = RANGES[plan.types[0]]
    words = []
    for index in range(prod(plan.image)):
        is_drawn = prod(spatial) > 8 and draw.below(one_in) == 0
        channel = index // prod(spatial) % channels
        words.append(low + draw.below(high - low + 1) if is_drawn else zx + STEPS[channel % 3])
    return ints(plan.types[0], plan.image, words)


def _by_filters(plan: Plan, number: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return operands and parameters: each filter makes accumulators of one kind."""
    draw, given = Draw(4000 + number), room(plan)
    zx, zy = ((given.own[name] or [0])[0] for name in ("zx", "zy"))
    width, *kernel = plan.filters[1:]
    words, bias, scales = list[int](), list[int](), list[Fraction]()
    for k, (low, high) in enumerate(given.filters):
        groups = plan.windows.get("groups", 1)
        first = k // (plan.filters[0] // groups) * width
        taps = [STEPS[(first + c) % 3] for c in range(width) for _ in range(prod(kernel))]
        kind = KINDS[(k + 5 * number) % len(KINDS)]
        own = member(kind, plan.words, zy, draw)
        if "nobias" in plan.words and own.accumulator < 0 == low:
            own = Member(-own.accumulator, -own.scale)
        if "nobias" in plan.words:
            chosen = weights(own.accumulator, taps, low, high)
        else:
            chosen = [low + draw.below(high - low + 1) for _ in taps]
            bias.append(own.accumulator - sum(w * tap for w, tap in zip(chosen, taps, strict=True)))
        point = (given.own["zw"] or [0])[k % len(given.own["zw"] or [0])]
        words += [w + point for w in chosen]
        scales.append(own.scale)
    own_words = {**given.own, "sw": scales, "bias": bias or None}
    return constant_image(plan, zx, draw), ints(plan.types[1], plan.filters, words), own_words


def _by_pixels(plan: Plan, number: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return operands and parameters with one scale: each pixel makes accumulators of a kind."""
    draw, given = Draw(4000 + number), room(plan)
    zy, zx = ((given.own[name] or [0])[0] for name in ("zy", "zx"))
    divisor = 7 if "near" in plan.words else (105, 117, 15)[number % 3]
    near, shift = Half(61, divisor), 17 * ("near" in plan.words)
    batch, channels, *spatial = plan.image
    points = given.own["zw"] or [0]
    taps = [STEPS[c % 3] for c in range(channels)]
    words = [tap + points[k % len(points)] for k in range(plan.filters[0]) for tap in taps]
    has_bias, planes = "nobias" not in plan.words, list[list[int]]()
    for pixel in range(batch * prod(spatial)):
        kind = KINDS[(pixel + 5 * number) % len(KINDS)]
        target = half_over(kind, divisor, plan.words, zy, draw).accumulator
        target = (0, 1, -1, 7 - pixel)[pixel % 4] if shift else target
        planes.append(weights(target, taps, *given.image))
    x = np.array(planes).reshape(batch, prod(spatial), channels).swapaxes(1, 2) + zx
    scale = Half(1, divisor).scale(shift) * (2**40 if "far" in plan.words else 1)
    bias = [2 * divisor * (k % 3 - 1) for k in range(plan.filters[0])] if has_bias else None
    bias = [(-1) ** number * near.accumulator << shift] if shift else bias
    own = {**given.own, "sw": [scale], "bias": bias}
    image = ints(plan.types[0], plan.image, x.reshape(-1).tolist())
    return image, ints(plan.types[1], plan.filters, words), own


# -- calls -------------------------------------------------------------------------------------


FILTERS = """
1x3x1x71 22x3x1x1 uint8 uint8 one each +
1x3x1x79 22x3x1x1 int8 int8 absent one + int8 nobias
1x3x71x1 22x3x1x1 uint8 int8 one one + nobias
1x3x67x1 22x3x1x1 int8 uint8 one each + int8
""".strip().splitlines()
CHANNELS = """
1x3x1 172x3x1 uint8 int8 absent each + int8
1x2x1x1 172x2x1x1 int8 uint8 one absent + int8
6x3x1x2 22x3x1x1 uint8 int8 one one + int8 nobias
7x3x2 22x3x1 int8 int8 one each +
1x18x1x2 66x3x1x1 int8 int8 one each + groups=6
1x6x1x4 66x1x1x3 int8 uint8 one one + groups=6 int8
1x6x2x3 66x1x2x2 uint8 uint8 one each + groups=6 start=1,0 end=0,1
""".strip().splitlines()
WINDOWS = """
1x3x5x9 22x3x3x2 uint8 int8 one one + strides=2,3 start=1,0 end=0,1
1x3x7x8 22x3x2x3 int8 int8 one each + dilations=3,2 start=2,0 end=1,1 int8
1x3x6x9 22x3x2x2 int8 uint8 one one + strides=3,2 dilations=1,3
1x3x2x3 22x3x1x1 int8 int8 one each + nozy int8
1x2x5x5 22x2x1x1 uint8 uint8 absent absent + int8 nozy
""".strip().splitlines()
PANELS = """
2x3x4 32x3x1 uint8 uint8 absent one + strides=2
""".strip().splitlines()
SUMS = """
1x840x1x2 1x840x1x1 uint8 int8 absent absent +
6x60x2x3 1x60x2x7 uint8 uint8 one one - end=0,5
1x60x3x15 1x60x2x7 uint8 uint8 one one - dilations=2,2
""".strip().splitlines()
PIXELS = """
1x3x1x71 1x3x1x1 uint8 uint8 one one +
1x3x67x2 1x3x1x1 int8 int8 one one + int8 nobias
3x3x40 1x3x1 uint8 int8 one absent + nobias nozy
1x3x9x9 2x3x1x1 int8 uint8 one each + int8
2x3x5x6 1x3x1x1 uint8 int8 one one + far
2x3x9x9 1x3x1x1 uint8 int8 one one + near
3x3x67 1x3x1 int8 uint8 one absent + near int8
1x3x69x3 1x3x1x1 uint8 uint8 absent one + near
1x3x1x71 1x3x1x1 uint8 int8 one one + near
1x3x71x1 1x3x1x1 int8 uint8 one one + near int8
7x3x2x2 1x3x1x1 int8 int8 one absent + near
1x4x9x9 1x4x1x1 uint8 uint8 one one + near int8 nozy strides=2,1 dilations=2,2
2x4x5x7 1x4x1x1 int8 uint8 one one + near int8 nozy strides=1,2 dilations=2,2
1x3x67 1x3x1 int8 uint8 one absent + far nobias int8
""".strip().splitlines()


@topics.file("covering")
def _covering(topic: QuantizedTopic) -> None:
    for number, text in enumerate(FILTERS, 1):
        plan = Plan.of(text)
        _add(topic, f"covering-{number}", plan, *_by_filters(plan, number))


@topics.file("covering-channels")
def _covering_channels(topic: QuantizedTopic) -> None:
    for number, text in enumerate(CHANNELS, 1):
        plan = Plan.of(text)
        _add(topic, f"covering-channels-{number}", plan, *_by_filters(plan, number + len(FILTERS)))


@topics.file("covering-windows")
def _covering_windows(topic: QuantizedTopic) -> None:
    for number, text in enumerate(WINDOWS, 1):
        plan, first = Plan.of(text), len(FILTERS) + len(CHANNELS)
        _add(topic, f"covering-windows-{number}", plan, *_by_filters(plan, number + first))


@topics.file("covering-panels")
def _covering_panels(topic: QuantizedTopic) -> None:
    for number, text in enumerate(PANELS, 1):
        plan = Plan.of(text)
        _add(topic, f"covering-panels-{number}", plan, *_by_filters(plan, number + 40))


@topics.file("covering-pixels")
def _covering_pixels(topic: QuantizedTopic) -> None:
    for number, text in enumerate(PIXELS, 1):
        plan = Plan.of(text)
        _add(topic, f"covering-pixels-{number}", plan, *_by_pixels(plan, number))
    for number, text in enumerate(SUMS, 1):
        plan = Plan.of(text)
        x, w = shared.large(plan, 4100 + 2 * number)
        own = {**shared.zero_points(plan), "sw": [Fraction(7001, 2)], "zy": [7], "bias": None}
        _add(topic, f"covering-sums-{number}", plan, x, w, own)


CLAUSE = "QLC-1 QLC-2 QLC-3 QLC-4 QLC-5 QLC-6 QLC-7 QLC-8 QLC-9 QLC-10 QLC-11 QLC-13"
FLAGS = "Tie NearTieFloat32 NearTieFloat64 LargeAccumulator Saturation OddScale"


def _add(
    topic: QuantizedTopic, name: str, plan: Plan, x: Tensor, w: Tensor, own: dict[str, Any]
) -> None:
    scales = {"sx": [SX], "sy": [SY], "sw": own["sw"]}
    words = {
        key: scale_words([near_ties.float32(Fraction(each)) for each in values], len(plan.image))
        for key, values in scales.items()
    }
    given = {**own, **words}
    if own["bias"] is not None:
        given["bias"] = parameter(own["bias"], "int32", len(plan.image))
    dtype = "int8" if "int8" in plan.words else "uint8"
    topic.add(name, plan.about, CLAUSE, x, w, given, FLAGS, plan.options, dtype)
