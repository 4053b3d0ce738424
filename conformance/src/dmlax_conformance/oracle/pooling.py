"""Pools: average of quantized images, average of a whole image, and maximum."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

from ..format.layout import packed_strides
from ..format.tensors import DTYPES, Tensor
from . import convolution as windows
from . import exact, fixed_point
from . import operator as rules
from .convolution import Windows, parameter
from .exact import Real
from .operator import Answer, Attributes, Definition, Desc, DescSizes, Found, Inputs, Outputs

ENDS = ("Input", "Output")
SCALES = tuple(f"{name}ScaleTensor" for name in ENDS)
POINTS = tuple(f"{name}ZeroPointTensor" for name in ENDS)
PARAMETERS = ("InputScaleTensor", POINTS[0], "OutputScaleTensor", POINTS[1])
TYPES = {f"{name}ZeroPointTensor": f"{name}Tensor" for name in ENDS}
LOWEST = {"WindowSize": 1, **windows.LOWEST}


class Mean(NamedTuple):
    """A sum, how many elements it has, and the words of both scales."""

    total: int
    elements: int
    input: int
    output: int


def average(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return clamp(round(sum(input - zero point) * input scale / (output scale * n)) + zero point).

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_quantized_linear_average_pooling_operator_desc
    """
    sizes = _output_sizes(inputs["InputTensor"].sizes, attributes)
    dtype = outputs["OutputTensor"].dtype
    quotients = [(mean(each), point) for each, point in means(inputs, attributes)]
    return {"OutputTensor": Tensor(dtype, sizes, exact.rounded(quotients, dtype))}


def global_average(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the average over the whole image.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearGlobalAveragePool
    """
    window, mode = whole(inputs["InputTensor"].sizes), attributes.get(fixed_point.FIELD)
    return _requantized(window, inputs, outputs, mode) if mode else average(window, inputs, outputs)


def _requantized(attributes: Attributes, inputs: Inputs, outputs: Outputs, mode: str) -> Answer:
    """Return averages by the multiplier of their scales."""
    dtype, words = outputs["OutputTensor"].dtype, []
    for (total, count, *scales), point in means(inputs, attributes):
        values = [exact.decode(word, "float32").value for word in scales]
        mean = fixed_point.averaged(total, count, values, mode)
        words.append(exact.clamp(mean + point, dtype))
    sizes = _output_sizes(inputs["InputTensor"].sizes, attributes)
    return {"OutputTensor": Tensor(dtype, sizes, tuple(words))}


def maximum(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the largest element of each window, and the first place that has it if asked for.

    A desc may have floats and wider integers; no vector of floats has NaN or a window without
    elements.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_max_pooling2_operator_desc
    """
    x, sizes = inputs["InputTensor"], _output_sizes(inputs["InputTensor"].sizes, attributes)
    is_float = DTYPES[x.dtype].kind == "bits"
    values = [exact.decode(word, x.dtype).value for word in x.words] if is_float else x.words
    lowest = DTYPES[x.dtype].low
    largest = [
        max(places, key=lambda place: values[place]) if places else None
        for _, places in elements(x.sizes, attributes)
    ]
    words = tuple(lowest if place is None else x.words[place] for place in largest)
    answer = {"OutputTensor": Tensor(x.dtype, sizes, words)}
    if "OutputIndicesTensor" in outputs:
        places = tuple(place or 0 for place in largest)
        asked = outputs["OutputIndicesTensor"]
        answer["OutputIndicesTensor"] = Tensor(asked.dtype, sizes, places)
    return answer


def means(inputs: Inputs, attributes: Attributes) -> Iterator[tuple[Mean, int]]:
    """Yield what the mean of each window is made of, and the output zero point."""
    x = inputs["InputTensor"]
    every = prod(attributes["WindowSize"]) if attributes["IncludePadding"] else 0
    tensors = [inputs.get(name) for name in (*SCALES, *POINTS)]
    channels = [[parameter(each, channel) for each in tensors] for channel in range(x.sizes[1])]
    for channel, places in elements(x.sizes, attributes):
        sx, sy, zx, zy = channels[channel]
        total = sum(x.words[place] - zx for place in places)
        yield Mean(total, every or len(places), sx, sy), zy


@cache
def mean(given: Mean) -> Real:
    """Return one mean over the output scale; that of no elements is 0."""
    sx, sy = (exact.decode(word, "float32").value for word in (given.input, given.output))
    return exact.exactly(given.total * sx / max(given.elements, 1) / sy)


def whole(image: rules.Sizes) -> dict[str, Any]:
    """Return the attributes of the one window that is the image."""
    ones, zeros = [1] * len(image[2:]), [0] * len(image[2:])
    fields = {"WindowSize": [*image[2:]], "Strides": ones, "Dilations": ones}
    return {**fields, "StartPadding": zeros, "EndPadding": zeros, "IncludePadding": False}


def elements(image: rules.Sizes, attributes: Attributes) -> Iterator[tuple[int, list[int]]]:
    """Yield, for each output, its channel and the places of the elements in its window.

    Places count from the start of the input, in its order; padding has none.
    """
    rows = zip(image, packed_strides(image), _output_sizes(image, attributes), strict=True)
    (batch, *_), (channels, step, _), *spatial = rows
    axes = [
        _along(axis, size, packed, length, attributes)
        for axis, (size, packed, length) in enumerate(spatial)
    ]
    for number, channel in product(range(batch), range(channels)):
        first = (number * channels + channel) * step
        for under in product(*axes):
            yield channel, [first + sum(places) for places in product(*under)]


def _along(axis: int, size: int, packed: int, length: int, attributes: Attributes) -> Any:
    """Return the places on one axis of what lies inside, for each output."""
    names = ("WindowSize", "Strides", "Dilations", "StartPadding")
    window, stride, dilation, start = (attributes[name][axis] for name in names)
    taps = range(0, window * dilation, dilation)
    outputs = ([at * stride + tap - start for tap in taps] for at in range(length))
    return [[place * packed for place in places if 0 <= place < size] for places in outputs]


def _output_sizes(image: rules.Sizes, attributes: Attributes) -> rules.Sizes:
    """Return the sizes of the output; the window is as wide as its dilation makes it."""
    pool = Windows.of({**attributes, "GroupCount": 1})
    spatial = pool.output_sizes(image[2:], tuple(attributes["WindowSize"]))
    return (*image[:2], *spatial)


def check_average(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check input, windows and parameters."""
    check_maximum(attributes, inputs, outputs)
    _check_parameters(inputs, outputs)


def check_global_average(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check input and parameters."""
    _check_image(inputs)
    _check_parameters(inputs, outputs)


def check_maximum(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the input, then that one window fits."""
    _check_image(inputs)
    sizes = inputs["InputTensor"].sizes
    windows.check_options(attributes, len(sizes) - 2, LOWEST)
    rules.need(min(_output_sizes(sizes, attributes)[2:]) >= 1, "sizes", "WindowSize")


def _check_image(inputs: Inputs) -> None:
    rules.data_type(inputs, rules.EIGHT_BIT, "InputTensor")
    sizes = inputs["InputTensor"].sizes
    rules.need(len(sizes) in (3, 4, 5), "dimension_count", "InputTensor")
    rules.need(min(sizes[2:]) >= 1, "sizes", "InputTensor")


def _check_parameters(inputs: Inputs, outputs: Outputs) -> None:
    """Check the scales and zero points of an average, and the output."""
    rules.need(outputs["OutputTensor"].dtype in rules.EIGHT_BIT, "data_type", "OutputTensor")
    rules.data_type(inputs, ("float32",), *SCALES)
    types = inputs["InputTensor"].dtype, outputs["OutputTensor"].dtype
    for name, dtype in zip(POINTS, types, strict=True):
        rules.same_data_type(inputs, name, dtype)
    rules.lengths(inputs, (1, inputs["InputTensor"].sizes[1]), *PARAMETERS)
    rules.scale_values(inputs, *SCALES)


def _check_average_desc(desc: Desc, feature_level: str) -> Found:
    yield from rules.same_counts(desc, "OutputTensor")
    yield from rules.same_types(desc, TYPES)
    yield from _check_pool(desc)
    for name in PARAMETERS:
        yield from windows.per_channel(desc, name, "InputTensor", 1)


def _check_maximum_desc(desc: Desc, feature_level: str) -> Found:
    yield from rules.same_counts(desc, "OutputTensor", "OutputIndicesTensor")
    yield from rules.same_types(desc, _MAXIMUM_TYPES)
    yield from _check_pool(desc)
    for name in rules.differing(desc, ["OutputIndicesTensor"], "Sizes", "OutputTensor"):
        yield rules.Violation("indices-sizes", "sizes", name)


def _check_pool(desc: Desc) -> Found:
    """Check the attributes of windows, and the sizes that follow from them."""
    yield from windows.check_windows(desc, LOWEST)
    if desc["InputTensor"] is not None:
        yield from _window_sizes(desc, desc["InputTensor"]["Sizes"])


def _window_sizes(desc: Desc, image: Sequence[int]) -> Found:
    """Check window and output, as far as the options are sound."""
    axes = len(image) - 2
    is_sound = all(windows.is_option(desc[name], axes, low) for name, low in LOWEST.items())
    if axes < 1 or not is_sound:
        return
    sizes = _output_sizes(tuple(image), desc)
    if min(sizes[2:]) < 1:
        yield rules.Violation("window-fits", "sizes", "WindowSize")
    elif desc["OutputTensor"] is not None and tuple(desc["OutputTensor"]["Sizes"]) != sizes:
        yield rules.Violation("output-sizes", "sizes", "OutputTensor")


def _average_sizes(inputs: Inputs, outputs: Outputs) -> DescSizes:
    """Return {1} for each parameter without axes, which no desc has."""
    return {name: (1,) for name in PARAMETERS if name in inputs and not inputs[name].sizes}


_MAXIMUM_TYPES = {"OutputTensor": "InputTensor"}
_ATTRIBUTES: dict[str, type] = {
    "DimensionCount": int,
    **dict.fromkeys(("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations"), list),
}


def _average_table(image: int, parameter: int) -> rules.Rows:
    counts = (image, 5), (parameter, 5), (parameter, 5)
    return (*rules.quantized_rows("Input", *counts), *rules.quantized_rows("Output", *counts))


def _maximum_table(data_types: str, indices: str = "UINT32") -> rules.Rows:
    return (
        rules.row("InputTensor", "input", 4, 5, data_types),
        rules.row("OutputTensor", "output", 4, 5, data_types),
        rules.row("OutputIndicesTensor", "optional output", 4, 5, indices),
    )


_WINDOW_CLAUSES = {
    "spatial-dimension-count": "DimensionCount is 2 for tensors of 4 dimensions, 3 for those of 5.",
    **{
        rules.dashed(name): f"{name} has DimensionCount entries, each a UINT of at least {low}."
        for name, low in LOWEST.items()
    },
    "window-fits": "The dilated window is not larger than the padded input.",
    "output-sizes": "OutputTensor has the sizes that input and windows give; the page's formula"
    " forgets the dilation.",
}
_AVG = """
AVG-1 (result): The result is the mean of the dequantized elements over the output scale, in real
  arithmetic: sum(input - zero point) * input scale / (output scale * n).
AVG-2 (result): It is rounded once, to nearest, ties to even, before the zero point is added.
AVG-3 (result): The result is clamped to the full range of the output data type.
AVG-4: Each scale and zero point is one value, or one for each channel.
AVG-5: Input and output are INT8 or UINT8 independently; a zero point has the data type of its
  tensor; scales are FLOAT32.
AVG-6 (absent): A missing zero point is 0.
AVG-7: A scale is finite and not zero; its sign and size are free.
AVG-8: Input and output have rank 3, 4 or 5; DirectML's tables list 4 and 5.
AVG-9: No spatial axis is empty; without images the result is empty.
"""
_AVG_WINDOWS = """
AVG-10: Window, strides, dilations and padding of either side shape the windows: an axis has (padded
  - ((window - 1) * dilation + 1)) / stride + 1 of them, rounded down.
AVG-11 (result): A padded element is the input zero point. With IncludePadding n counts every
  element of the window, else those inside the image, so that it differs at the border.
AVG-12 (result): Where n is 0, the result is the output zero point.
"""
_MAX = """
MAX-1 (result): The result is the largest element of the window.
MAX-2 (result): Padding never wins: a window wholly in it gives the lowest value of the data type.
MAX-3: Window, strides, dilations and padding of either side shape the windows: an axis has (padded
  - ((window - 1) * dilation + 1)) / stride + 1 of them, rounded down.
MAX-4: Input and output are both INT8 or both UINT8; in a desc floats and wider integers as well.
MAX-5: Input and output have rank 3, 4 or 5; DirectML's tables list 4 and 5.
MAX-6: No spatial axis is empty; without images the result is empty.
MAX-7 (result): The indices, of descs alone, are the places in the whole input, of which the first
  of several with the largest element counts.
"""

AVERAGE = Definition(
    average,
    check_average,
    _AVG + _AVG_WINDOWS,
    {"6_2": _average_table(4, 1)},
    desc_clauses={
        **rules.type_clauses(TYPES),
        **_WINDOW_CLAUSES,
        "same-dimension-count": "Input and output have the same DimensionCount.",
        **{
            f"{rules.dashed(name)}-channels": f"{name} is one value, or one for each channel on"
            " axis 1 of 4 or 5; with fewer dimensions the page leaves the axis open."
            for name in PARAMETERS
        },
    },
    check_desc=_check_average_desc,
    desc_sizes=_average_sizes,
    attributes=_ATTRIBUTES | {"IncludePadding": bool},
)
GLOBAL_AVERAGE = Definition(
    global_average,
    check_global_average,
    _AVG.replace("AVG", "GAP") + fixed_point.clauses("GAP", 10, [fixed_point.DOUBLE]),
    rows=_average_table(3, 0),
    requantizations=(fixed_point.DOUBLE,),
)
MAXIMUM = Definition(
    maximum,
    check_maximum,
    _MAX,
    {
        "2_1": _maximum_table(rules.FLOATS),
        "3_0": _maximum_table(f"{rules.FLOATS} {rules.BYTES}"),
        "5_0": _maximum_table(f"{rules.FLOATS} {rules.WHOLE} INT64 UINT64", "UINT32 UINT64"),
    },
    desc_clauses={
        **_WINDOW_CLAUSES,
        "output-data-type": "OutputTensor has the data type of InputTensor.",
        "same-dimension-count": "Input, output and indices have the same DimensionCount.",
        "indices-sizes": "OutputIndicesTensor has the sizes of OutputTensor.",
    },
    check_desc=_check_maximum_desc,
    attributes=_ATTRIBUTES,
    struct="MAX_POOLING2",
)
