"""Counts beside powers of two and of ten, where blocked and threaded code goes wrong.

Large tensors repeat words of a prime number, so that a few say what all elements have to be.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from ...format.recipe import Cycle, Recipe
from ...format.tensors import Tensor, from_recipe
from ...operators._shared import element_wise_cases as element_wise
from ...operators.convolution_integer import cases as integer
from ...operators.nonzero_coordinates import cases as nonzero
from ...operators.quantized_linear_convolution import cases as quantized
from ...operators.quantized_linear_convolution.cases import image
from ...operators.topics import Topic, drawn, floats, ints
from ..coverage import COUNTS

TOPIC = "size-classes"
PERIOD = 61  # divides none of the counts
LARGE = 999
SHAPES = {
    128: (2, 4, 4, 4),
    129: (3, 43),
    255: (15, 17),
    256: (4, 4, 4, 4),
    999: (27, 37),
    1000: (2, 5, 10, 10),
    1001: (7, 11, 13),
    65_535: (255, 257),
    65_536: (16, 16, 16, 16),
}
ELSEWHERE = {127, 128, 129, 255, 256, 257, 1001, 65_537}  # other files of coordinates have these
SHORT = {127, 255, 999, 1001}  # where a parameter or an image is one too short
FILTERS = {128: (4, 4, 8), 256: (4, 8, 8), 1000: (5, 10, 20)}  # outputs, height, width


def topics() -> Iterator[Topic]:
    """Yield one file for each operator."""
    for operator, make in MAKERS.items():
        topic = Topic(operator, TOPIC)
        for number, count in enumerate(COUNTS):
            make(topic, count, number)
        yield topic


def _repeat(tensor: Tensor, sizes: Iterable[int]) -> Tensor:
    """Return the first words of a tensor over and over."""
    return from_recipe(tensor.dtype, tuple(sizes), Cycle(tensor.words[:PERIOD]))


def _flags(count: int) -> str:
    return "BlockEdge Large" if count >= LARGE else "BlockEdge"


# -- convolutions ------------------------------------------------------------------------------


def _images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return input and filter of a convolution with so many output elements."""
    if count in FILTERS:
        outputs, height, width = FILTERS[count]
        x = image("uint8", (1, 2, height + 2, width + 1), seed)
        return x, image("int8", (outputs, 2, 3, 2), seed + 1)
    x = _repeat(image("uint8", (PERIOD,), seed), (1, 2, 1, count + 2))
    return x, image("int8", (1, 2, 1, 3), seed + 1)


def _integer(topic: Topic, count: int, number: int) -> None:
    x, w = _images(count, 600 + 2 * number)
    given = integer.operands(x, w, [5 + number], [number - 7])
    text = f"{count} output elements, {prod(x.sizes)} of the input"
    integer.add(topic, f"elements-{count}", text, "CVI-1 CVI-3", given, flags=_flags(count))
    _too_wide(topic, count, "CVI-3")


def _quantized(topic: Topic, count: int, number: int) -> None:
    x, w = _images(count, 640 + 2 * number)
    bias = [(-1) ** channel * 3000 * channel for channel in range(w.sizes[0])]
    sw = [0.03125 + 0.007 * channel for channel in range(w.sizes[0])]
    given = quantized.operands(x, w, [5 + number], [number - 7], bias, [128], sw=sw, sy=[4])
    text = f"{count} output elements, {prod(x.sizes)} of the input"
    quantized.add(topic, f"elements-{count}", text, "QLC-1 QLC-8", given, flags=_flags(count))
    _too_wide(topic, count, "QLC-8")


def _too_wide(topic: Topic, count: int, clause: str) -> None:
    """Add a kernel one wider than the input."""
    if count in SHORT:
        w = _repeat(image("int8", (PERIOD,), count), (1, 2, 1, count + 3))
        text = f"a kernel of {count + 3} columns over an input of {count + 2}"
        twin, error = f"elements-{count}", ("sizes", "FilterTensor")
        topic.invalid(f"kernel-{count + 3}", text, clause, twin, error, {"FilterTensor": w})


# -- element by element ------------------------------------------------------------------------


def _sizes(count: int) -> tuple[int, ...]:
    return SHAPES.get(count, (count,))


def _parameter_sizes(count: int) -> tuple[int, ...]:
    """Return those of the input, or of one value where there is no remainder of a block."""
    return (1,) * len(_sizes(count)) if count in (128, 256, 1000, 65_536) else _sizes(count)


def _scale(count: int) -> Tensor:
    values = [(5 + 3 * (i % 7)) / 16 * (-1) ** (i // 7) for i in range(PERIOD)]
    sizes = _parameter_sizes(count)
    if prod(sizes) == 1:
        return floats("float32", sizes, values[:1])
    return _repeat(floats("float32", (PERIOD,), values), sizes)


def _zero_point(dtype: str, count: int, seed: int) -> Tensor:
    sizes = _parameter_sizes(count)
    if prod(sizes) == 1:
        return ints(dtype, sizes, [3])
    return _repeat(drawn(dtype, (PERIOD,), seed, 0, 100), sizes)


def _quantize(topic: Topic, count: int, number: int) -> None:
    whole = drawn("int32", (PERIOD,), 680 + number, -600, 600)
    x = _repeat(floats("float32", (PERIOD,), (w / 8 for w in whole.words)), _sizes(count))
    dtype = ("uint8", "int8")[number % 2]
    zero = _zero_point(dtype, count, 700 + number)
    given = element_wise.operands(x, _scale(count), zero)
    text = f"{count} elements in sizes {list(x.sizes)}"
    element_wise.add(topic, f"elements-{count}", text, "QNT-1 QNT-5", given, dtype, _flags(count))
    _one_short(topic, count, given, "QNT-5")


def _dequantize(topic: Topic, count: int, number: int) -> None:
    dtype = ("uint8", "int8", "int16", "uint16")[number % 4]
    x = _repeat(drawn(dtype, (PERIOD,), 720 + number, 0, 127), _sizes(count))
    zero = _zero_point(dtype, count, 740 + number)
    given = element_wise.operands(x, _scale(count), zero)
    text = f"{count} elements in sizes {list(x.sizes)}"
    element_wise.add(
        topic, f"elements-{count}", text, "DQT-1 DQT-4", given, "float32", _flags(count)
    )
    _one_short(topic, count, given, "DQT-4")


def _one_short(topic: Topic, count: int, given: Mapping[str, Tensor], clause: str) -> None:
    """Add parameters that lack the last column of the input."""
    if count not in SHORT:
        return
    for name, field in (("scale", "ScaleTensor"), ("zero-point", "ZeroPointTensor")):
        *rest, last = given[field].sizes
        cut = _repeat(given[field], (*rest, last - 1))
        text = f"{field} of sizes {list(cut.sizes)} does not repeat to {[*rest, last]}"
        twin, error = f"elements-{count}", ("sizes", field)
        topic.invalid(f"{name}-short-{count}", text, clause, twin, error, {field: cut})


# -- coordinates -------------------------------------------------------------------------------


def _nonzero(topic: Topic, count: int, number: int) -> None:
    if count in ELSEWHERE:
        return
    sizes = _sizes(count)
    x = from_recipe("uint8", sizes, Recipe(760 + number, 1, 255, max(2, count // 50)))
    text = f"{count} elements in sizes {list(sizes)}"
    nonzero.add(topic, f"elements-{count}", text, "NZC-1 NZC-4", x, flags=_flags(count))


MAKERS = {
    "nonzero_coordinates": _nonzero,
    "quantized_linear_convolution": _quantized,
    "convolution_integer": _integer,
    "element_wise_quantize_linear": _quantize,
    "element_wise_dequantize_linear": _dequantize,
}
