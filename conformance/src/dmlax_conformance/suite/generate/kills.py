"""Calls that were written because a planted bug survived all others."""

from collections.abc import Iterator
from fractions import Fraction

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from ...operators._shared import floats as exact
from ...operators._shared.element_wise_cases import add, operands, words
from ...operators._shared.floats import round_half_even
from ...operators._shared.near_ties import Draw
from ...operators._shared.window_cases import attributes, parameter, scale_words
from ...operators.convolution_integer import cases as integer
from ...operators.nonzero_coordinates import cases as nonzero
from ...operators.quantized_linear_convolution import cases as quantized
from ...operators.quantized_linear_convolution.cases import image
from ...operators.topics import Topic, drawn, floats, ints

QUANTIZE, DEQUANTIZE = "element_wise_quantize_linear", "element_wise_dequantize_linear"
TOPIC = "kills"


def topics() -> Iterator[Topic]:
    """Yield one file for each operator."""
    yield _nonzero()
    yield _quantized()
    yield _integer()
    yield _quantize()
    yield _dequantize()


def _nonzero() -> Topic:
    """Count more than 16 bits hold, and write only the first rows into the file."""
    topic = Topic(nonzero.OPERATOR, TOPIC)
    full = from_recipe("uint8", (65_537,), Recipe(16, 1, 255))
    text = "65,537 non-zero elements; the file holds the first 32 rows"
    nonzero.add(topic, "count-65537", text, "NZC-5", full, flags="Large Density")
    topic.shorten("count-65537", "OutputCoordinatesTensor", 32)
    return topic


# -- convolutions ------------------------------------------------------------------------------


def _quantized() -> Topic:
    topic = Topic(quantized.OPERATOR, TOPIC)
    x, w = image("uint8", (3, 3, 3, 3), 101), image("int8", (3, 3, 3, 3), 102)
    bias, every_scale, points = [90_000, -70_000, 30_000], [0.03125, 0.05, 0.0078125], [-50, 0, 90]
    given = quantized.operands(x, w, [120], points, bias, [128], sw=every_scale, sy=[4])
    ring = attributes(start=(1, 1), end=(1, 1))
    text = "every axis of every tensor has 3 places, so that swapped axes keep all sizes"
    clause = "QLC-1 QLC-2 QLC-4 QLC-7 QLC-8"
    quantized.add(topic, "every-axis-3", text, clause, given, ring, flags="PerChannel Padding")
    given = quantized.operands(*_long("uint8", "int8"), [128], None, None, [128], sy=[4])
    text = "4,099 products of both signs, within 32 bits"
    flags = "Large OddContraction"
    quantized.add(topic, "contraction-4099", text, "QLC-2", given, flags=flags)
    twin = _twin(topic)
    _options(topic, twin, "QLC-8")
    tensor = parameter([5], "int32")
    error = ("sizes", "BiasTensor")
    text = "one bias for two output channels"
    topic.invalid("bias-1", text, "QLC-4", twin, error, {"BiasTensor": tensor})
    _by_input(topic)
    _first_scale(topic)
    return topic


def _twin(topic: Topic) -> str:
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    given = quantized.operands(x, w, [120], [1], [5, -5], [100], sw=[0.03125, 0.0625])
    text = "the twin: every tensor is present"
    quantized.add(topic, "twin-everything-kills", text, "QLC-1", given, flags="Optional")
    return "twin-everything-kills"


def _long(input_type: str, filter_type: str) -> tuple[Tensor, Tensor]:
    """Return 4,099 input channels, an odd number past a power of two, and two filters."""
    ends = {"uint8": (0, 255), "int8": (-128, 127)}
    x = from_recipe(input_type, (1, 4099, 1, 1), Recipe(31, *ends[input_type]))
    w = from_recipe(filter_type, (2, 4099, 1, 1), Recipe(32, *ends[filter_type]))
    return x, w


OPTIONS: dict[str, tuple[str, list[int]]] = {
    "second-stride-0": ("Strides", [1, 0]),
    "first-stride-minus-1": ("Strides", [-1, 1]),
    "first-dilation-0": ("Dilations", [0, 1]),
    "second-dilation-minus-1": ("Dilations", [1, -1]),
    "dilations-too-few": ("Dilations", [1]),
    "second-start-padding-negative": ("StartPadding", [0, -1]),
    "start-padding-too-many": ("StartPadding", [0, 0, 0]),
    "first-end-padding-negative": ("EndPadding", [-1, 0]),
    "end-padding-too-few": ("EndPadding", [0]),
}


def _options(topic: Topic, twin: str, clause: str) -> None:
    """Break each attribute on the axis, and in the direction, that other vectors leave."""
    for name, (field, value) in OPTIONS.items():
        text, error = f"{field} is {value}", ("option", field)
        topic.invalid(name, text, clause, twin, error, attributes={field: value})


def _by_input(topic: Topic) -> None:
    """Give one scale for each input channel, of which there are fewer."""
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    given = quantized.operands(x, w, [120], [1, 2, 3], None, [100], sw=[0.03125, 0.0625, 0.125])
    twin = "two-channels-in-three-out"
    text = "the twin: filter parameters for each of three output channels"
    quantized.add(topic, twin, text, "QLC-7", given, flags="PerChannel")
    wrong = {
        "FilterScaleTensor": scale_words([0x3D000000, 0x3D800000]),
        "FilterZeroPointTensor": parameter([1, 2], "int8"),
    }
    for field, tensor in wrong.items():
        name = "filter-scale-by-input" if "Scale" in field else "filter-zero-point-by-input"
        text = f"{field} has one value for each input channel"
        topic.invalid(name, text, "QLC-7", twin, ("sizes", field), {field: tensor})


def _first_scale(topic: Topic) -> None:
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    given = quantized.operands(x, w, sw=[0.03125, 0.0625])
    twin, flags, need = "known-filter-scales", "KnownValue", "values:known"
    text = "the twin: filter scales that are known and fine"
    quantized.add(topic, twin, text, "QLC-13", given, flags=flags, requires=need)
    tensor = {"FilterScaleTensor": scale_words([0, 0x3D000000])}
    error, text = ("value", "FilterScaleTensor"), "the first of two filter scales is zero"
    flags = "Invalid KnownValue"
    name = "filter-scale-first-zero"
    topic.invalid(name, text, "QLC-13", twin, error, tensor, flags=flags, requires=need)


def _integer() -> Topic:
    topic = Topic(integer.OPERATOR, TOPIC)
    x, w = image("uint8", (3, 3, 3, 3), 101), image("int8", (3, 3, 3, 3), 102)
    ring = attributes(start=(1, 1), end=(1, 1))
    text = "every axis of every tensor has 3 places, so that swapped axes keep all sizes"
    given = integer.operands(x, w, [120], [-50, 0, 90])
    clause, flags = "CVI-1 CVI-2 CVI-3 CVI-5", "PerChannel Padding"
    integer.add(topic, "every-axis-3", text, clause, given, ring, flags=flags)
    text = "4,099 products of both signs, within 32 bits"
    given = integer.operands(*_long("int8", "uint8"), [-3])
    integer.add(topic, "contraction-4099", text, "CVI-1", given, flags="Large OddContraction")
    given = integer.operands(
        image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12), [7], [1]
    )
    twin = "twin-kills"
    text = "the twin: every tensor is present"
    integer.add(topic, twin, text, "CVI-1", given, flags="Optional")
    _options(topic, twin, "CVI-3")
    _integer_sizes(topic, twin)
    return topic


def _integer_sizes(topic: Topic, twin: str) -> None:
    tall = {"FilterTensor": image("int8", (2, 2, 4, 2), 1)}
    text, error = "the kernel is higher than the padded input", ("sizes", "FilterTensor")
    topic.invalid("kernel-too-high", text, "CVI-3", twin, error, tall)
    text = "the dilated kernel spans 4 of 3 columns"
    wide = {"Dilations": [1, 3]}
    topic.invalid("dilated-kernel-too-wide", text, "CVI-3", twin, error, attributes=wide)
    text = "the filter has fewer channels than the input"
    narrow = {"FilterTensor": image("int8", (2, 1, 2, 2), 1)}
    topic.invalid("filter-channels-1", text, "CVI-3", twin, error, narrow)
    ranks = {
        "input-rank-5": ("InputTensor", image("uint8", (1, 2, 3, 3, 1), 1)),
        "filter-rank-3": ("FilterTensor", image("int8", (2, 2, 4), 1)),
    }
    for name, (field, tensor) in ranks.items():
        text, error = f"{field} has rank {len(tensor.sizes)}", ("dimension_count", field)
        topic.invalid(name, text, "CVI-7", twin, error, {field: tensor})
    twin = "two-channels-in-three-out"
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    text = "the twin: filter zero points for each of three output channels"
    given = integer.operands(x, w, [120], [1, 2, 3])
    integer.add(topic, twin, text, "CVI-5", given, flags="PerChannel")
    field = "FilterZeroPointTensor"
    text = "FilterZeroPointTensor has one value for each input channel"
    tensor, error = parameter([1, 2], "int8"), ("sizes", field)
    topic.invalid("filter-zero-point-by-input", text, "CVI-5", twin, error, {field: tensor})


# -- element by element ------------------------------------------------------------------------


def _quantize() -> Topic:
    topic = Topic(QUANTIZE, TOPIC)
    x, scale = _lost_ties()
    given = operands(x, scale, ints("int8", x.sizes, [1] * len(x.words)))
    text = "FLOAT16 ties that a reciprocal in FLOAT32 misplaces"
    add(topic, "float16-reciprocal-ties", text, "QNT-1 QNT-2", given, "int8", "Tie")
    cube = floats("float32", (3, 3, 3), (step * 0.75 for step in range(-13, 14)))
    scales = floats("float32", (1, 1, 3), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("int8", (1, 3, 1), [-40, 0, 40]))
    text = "every axis has 3 places; the scale is for axis 2, the zero point for axis 1"
    add(topic, "every-axis-3", text, "QNT-5", given, "int8", "Broadcast")
    scales = floats("float32", (3,), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("int8", (3, 1), [-40, 0, 40]))
    text = "every axis has 3 places; parameters of lower rank align on the right"
    add(topic, "every-axis-3-lower-rank", text, "QNT-5", given, "int8", "Broadcast")
    twin = "twin-kills"
    plane = floats("float32", (2, 3), range(6))
    given = operands(plane, floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3]))
    text = "the twin: scale and zero point for each column"
    add(topic, twin, text, "QNT-5", given, "uint8", "Broadcast")
    _too_deep(topic, twin, "QNT-5", {"ZeroPointTensor": ints("uint8", (1, 1, 3), [1, 2, 3])})
    return topic


def _lost_ties() -> tuple[Tensor, Tensor]:
    """Return twelve exact ties x / scale for which x * (1 / scale) in FLOAT32 is not one."""
    draw = Draw(7)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        scale, steps = draw.odd(6), 2 * draw.below(15) + 1
        x, s = exact.exactly(Fraction(scale * steps, 2)), exact.exactly(Fraction(scale))
        reciprocal = exact.divide(exact.exactly(Fraction(1)), s, "float32")
        rounded = round_half_even(exact.multiply(x, reciprocal, "float32").value)
        if rounded != round_half_even(Fraction(steps, 2)):
            found.append((exact.encode(x, "float16"), exact.encode(s, "float16")))
    return words("float16", *(x for x, _ in found)), words("float16", *(s for _, s in found))


def _dequantize() -> Topic:
    topic = Topic(DEQUANTIZE, TOPIC)
    cube = drawn("uint8", (3, 3, 3), 103, 0, 255)
    scales = floats("float32", (1, 1, 3), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("uint8", (1, 3, 1), [40, 0, 200]))
    text = "every axis has 3 places; the scale is for axis 2, the zero point for axis 1"
    add(topic, "every-axis-3", text, "DQT-4", given, "float32", "Broadcast")
    scales = floats("float32", (3,), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("uint8", (3, 1), [40, 0, 200]))
    text = "every axis has 3 places; parameters of lower rank align on the right"
    add(topic, "every-axis-3-lower-rank", text, "DQT-4", given, "float32", "Broadcast")
    twin = "twin-kills"
    plane = ints("uint8", (2, 3), range(6))
    given = operands(plane, floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3]))
    text = "the twin: scale and zero point for each column"
    add(topic, twin, text, "DQT-4", given, "float32", "Broadcast")
    error, field = ("sizes", "ZeroPointTensor"), "ZeroPointTensor"
    text = "ZeroPointTensor of sizes [4, 3] does not repeat to [2, 3]"
    tensor = {field: ints("uint8", (4, 3), [1] * 12)}
    topic.invalid("zero-point-grows-input", text, "DQT-4", twin, error, tensor)
    deep = {
        "ScaleTensor": floats("float32", (1, 1, 3), [1, 2, 3]),
        "ZeroPointTensor": ints("uint8", (1, 1, 3), [1, 2, 3]),
    }
    _too_deep(topic, twin, "DQT-4", deep)
    return topic


def _too_deep(topic: Topic, twin: str, clause: str, tensors: dict[str, Tensor]) -> None:
    """Give parameters more dimensions than the input has."""
    for field, tensor in tensors.items():
        name = "scale-rank-3" if field == "ScaleTensor" else "zero-point-rank-3"
        text = f"{field} of sizes {list(tensor.sizes)} does not repeat to [2, 3]"
        topic.invalid(name, text, clause, twin, ("sizes", field), {field: tensor})
