"""Rules that the pools share, of calls and of descs."""

from collections.abc import Sequence

from . import call_rules as calls
from .call_rules import Attributes, Inputs, Outputs
from .convolution_rules import LOWEST as STEPS
from .convolution_rules import is_option, per_channel
from .desc_rules import Desc, Found, Violation
from .pooling import output_sizes
from .tables import dashed

LOWEST = {"WindowSize": 1, **STEPS}
ATTRIBUTES = (
    *("DimensionCount", "Strides", "WindowSize", "StartPadding", "EndPadding"),
    "Dilations",
)
ENDS = ("Input", "Output")
SCALES = tuple(f"{name}ScaleTensor" for name in ENDS)
POINTS = tuple(f"{name}ZeroPointTensor" for name in ENDS)
TYPES = {f"{name}ZeroPointTensor": f"{name}Tensor" for name in ENDS}
PARAMETERS = ("InputScaleTensor", POINTS[0], "OutputScaleTensor", POINTS[1])
WINDOW_CLAUSES = {
    "spatial-dimension-count": "DimensionCount is 2 for tensors of 4 dimensions, 3 for those of 5.",
    **{
        dashed(name): f"{name} has DimensionCount entries, each a UINT of at least {low}."
        for name, low in LOWEST.items()
    },
    "window-fits": "The dilated window is not larger than the padded input.",
    "output-sizes": "OutputTensor has the sizes that input and windows give; the page's formula"
    " forgets the dilation.",
}


def average_clauses(label: str) -> dict[str, str]:
    """Return what `check_average` and the arithmetic of an average say, in words."""
    texts = (
        "The result is the mean of the dequantized elements over the output scale, in real"
        " arithmetic: sum(input - zero point) * input scale / (output scale * n).",
        "It is rounded once, to nearest, ties to even, before the zero point is added.",
        "The result is clamped to the full range of the output data type.",
        "Each scale and zero point is one value, or one for each channel.",
        "Input and output are INT8 or UINT8 independently; a zero point has the data type of its"
        " tensor; scales are FLOAT32.",
        "A missing zero point is 0.",
        "A scale is finite and not zero; its sign and size are free.",
        "Input and output have rank 3, 4 or 5; DirectML's tables list 4 and 5.",
        "No spatial axis is empty; without images the result is empty.",
    )
    return {f"{label}-{number}": text for number, text in enumerate(texts, 1)}


def result_clauses(label: str) -> dict[str, str]:
    """Return the clauses of an average that no call can break, and why."""
    return {f"{label}-{n}": "result" for n in (1, 2, 3)} | {f"{label}-6": "absent"}


def check_image(inputs: Inputs) -> None:
    """Check data type, rank and sizes of the input."""
    calls.data_type(inputs, "InputTensor", calls.EIGHT_BIT)
    sizes = inputs["InputTensor"].sizes
    calls.need(len(sizes) in (3, 4, 5), "dimension_count", "InputTensor")
    calls.need(min(sizes[2:]) >= 1, "sizes", "InputTensor")


def check_windows(attributes: Attributes, inputs: Inputs) -> None:
    """Check the attributes of windows, and that one window fits."""
    sizes = inputs["InputTensor"].sizes
    for name, low in LOWEST.items():
        is_kept = len(attributes[name]) == len(sizes) - 2 and min(attributes[name]) >= low
        calls.need(is_kept, "option", name)
    calls.need(min(output_sizes(sizes, attributes)[2:]) >= 1, "sizes", "WindowSize")


def check_parameters(inputs: Inputs, outputs: Outputs) -> None:
    """Check the scales and zero points of an average, and the output."""
    calls.need(outputs["OutputTensor"].dtype in calls.EIGHT_BIT, "data_type", "OutputTensor")
    for name in SCALES:
        calls.data_type(inputs, name, ("float32",))
    types = inputs["InputTensor"].dtype, outputs["OutputTensor"].dtype
    for name, dtype in zip(POINTS, types, strict=True):
        calls.same_data_type(inputs, name, dtype)
    for name in PARAMETERS:
        calls.lengths(inputs, name, 1, inputs["InputTensor"].sizes[1])
    for name in SCALES:
        calls.scale_values(inputs, name)


def check_pool(p: str, desc: Desc) -> Found:
    """Check the attributes of windows, and the sizes that follow from them."""
    image = desc["InputTensor"]
    if image is not None and desc["DimensionCount"] != image["DimensionCount"] - 2:
        yield Violation(f"{p}-spatial-dimension-count", "dimension_count", "DimensionCount")
    for field, lowest in LOWEST.items():
        if not is_option(desc[field], desc["DimensionCount"], lowest):
            yield Violation(f"{p}-{dashed(field)}", "option", field)
    if image is not None:
        yield from _window_sizes(p, desc, image["Sizes"])


def _window_sizes(p: str, desc: Desc, image: Sequence[int]) -> Found:
    """Check window and output, as far as the options are sound."""
    axes = len(image) - 2
    if axes < 1 or not all(is_option(desc[f], axes, low) for f, low in LOWEST.items()):
        return
    sizes = output_sizes(tuple(image), desc)
    if min(sizes[2:]) < 1:
        yield Violation(f"{p}-window-fits", "sizes", "WindowSize")
    elif desc["OutputTensor"] is not None and tuple(desc["OutputTensor"]["Sizes"]) != sizes:
        yield Violation(f"{p}-output-sizes", "sizes", "OutputTensor")


def check_channels(p: str, desc: Desc) -> Found:
    """Check that each parameter is one value, or one for each channel."""
    for name in PARAMETERS:
        yield from per_channel(f"{p}-{dashed(name)}-channels", desc, name, "InputTensor", 1)
