"""Rules that both convolutions share, of calls and of descs."""

from collections.abc import Sequence
from math import prod

from ...format.tensors import count
from . import call_rules as calls
from .call_rules import Attributes, Inputs, Outputs
from .convolution import Windows
from .desc_rules import UINT_MAX, Desc, Found, Violation, all_ones, same_types, type_clauses
from .tables import dashed

ATTRIBUTES = (
    *("DimensionCount", "Strides", "Dilations", "StartPadding", "EndPadding"),
    "GroupCount",
)
LOWEST = {"Strides": 1, "Dilations": 1, "StartPadding": 0, "EndPadding": 0}
TYPES = {f"{name}ZeroPointTensor": f"{name}Tensor" for name in ("Input", "Filter", "Output")}
SINGLE = ("InputZeroPointTensor", "InputScaleTensor", "OutputScaleTensor", "OutputZeroPointTensor")
PER_CHANNEL = ("FilterZeroPointTensor", "FilterScaleTensor")


def desc_clauses(tensors: str) -> dict[str, str]:
    """Return what `check_convolution` checks, in words, for an operator with these parameters."""
    there = tensors.split()
    return {
        **type_clauses({name: own for name, own in TYPES.items() if name in there}),
        "spatial-dimension-count": "DimensionCount is 2; for tensors of three dimensions, which the"
        " tables list from 4.0 and the text does not, it is 1: a decision.",
        "strides": "Strides has DimensionCount entries of at least 1.",
        "dilations": "Dilations has DimensionCount entries of at least 1.",
        "start-padding": "StartPadding has DimensionCount entries, each a UINT.",
        "end-padding": "EndPadding has DimensionCount entries, each a UINT.",
        "group-count": "GroupCount is at least 1.",
        "channels": "Input channels = filter channels * GroupCount.",
        "groups-divide": "GroupCount divides the number of filters.",
        "kernel-fits": "The dilated kernel is not larger than the padded input.",
        "output-sizes": "OutputTensor has the sizes that input, filter and windows give.",
        **{f"{dashed(n)}-one": f"{n} has only sizes of 1." for n in SINGLE if n in there},
        **{
            f"{dashed(name)}-channels": f"{name} is one value, or one for each output channel on"
            " axis 1 of 4; with fewer dimensions the page leaves the axis open."
            for name in PER_CHANNEL
            if name in there
        },
    }


def check_sums(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check both tensors, their zero points and the windows."""
    calls.data_type(inputs, "InputTensor", calls.EIGHT_BIT)
    calls.data_type(inputs, "FilterTensor", calls.EIGHT_BIT)
    calls.same_data_type(inputs, "InputZeroPointTensor", inputs["InputTensor"].dtype)
    calls.same_data_type(inputs, "FilterZeroPointTensor", inputs["FilterTensor"].dtype)
    image, kernel = inputs["InputTensor"].sizes, inputs["FilterTensor"].sizes
    calls.need(len(image) in (3, 4), "dimension_count", "InputTensor")
    calls.need(len(kernel) == len(image), "dimension_count", "FilterTensor")
    for name, low in LOWEST.items():
        is_kept = len(attributes[name]) == len(image) - 2 and min(attributes[name]) >= low
        calls.need(is_kept, "option", name)
    groups = attributes["GroupCount"]
    calls.need(groups >= 1, "option", "GroupCount")
    calls.need(image[1] == kernel[1] * groups, "sizes", "FilterTensor")
    calls.need(kernel[0] % groups == 0, "sizes", "GroupCount")
    sizes = Windows.of(attributes).output_sizes(image[2:], kernel[2:])
    calls.need(min(sizes) >= 1, "sizes", "FilterTensor")
    calls.lengths(inputs, "InputZeroPointTensor", 1)
    calls.lengths(inputs, "FilterZeroPointTensor", 1, kernel[0])


def desc_sizes(inputs: Inputs, outputs: Outputs) -> dict[str, tuple[int, ...]]:
    """Return that parameters are vectors in a desc, if one has no axes or zero points differ."""
    own = {name: inputs[name].sizes for name in (*SINGLE, *PER_CHANNEL) if name in inputs}
    points = {len(sizes) for name, sizes in own.items() if name.endswith("ZeroPointTensor")}
    is_integer = "InputScaleTensor" not in inputs
    if all(own.values()) and not (is_integer and len(points) > 1):
        return {}
    return {name: (count(sizes),) for name, sizes in own.items()}


def check_convolution(p: str, desc: Desc) -> Found:
    """Check data types, windows, and the sizes of parameters."""
    yield from same_types(p, desc, TYPES)
    yield from _check_windows(p, desc)
    for name in SINGLE:
        yield from all_ones(f"{p}-{dashed(name)}-one", desc, name)
    for name in PER_CHANNEL:
        if name in desc:
            yield from per_channel(f"{p}-{dashed(name)}-channels", desc, name, "FilterTensor", 0)


def _check_windows(p: str, desc: Desc) -> Found:
    """Check the options, then the sizes that follow from them."""
    image = desc["InputTensor"]
    if image is not None and desc["DimensionCount"] != image["DimensionCount"] - 2:
        yield Violation(f"{p}-spatial-dimension-count", "dimension_count", "DimensionCount")
    for field, lowest in LOWEST.items():
        if not is_option(desc[field], desc["DimensionCount"], lowest):
            yield Violation(f"{p}-{dashed(field)}", "option", field)
    if not 1 <= desc["GroupCount"] <= UINT_MAX:
        yield Violation(f"{p}-group-count", "option", "GroupCount")
    if desc["FilterTensor"] is not None:
        groups, kernel = desc["GroupCount"], desc["FilterTensor"]["Sizes"]
        sizes = image["Sizes"] if image else []
        if len(sizes) > 1 and len(kernel) > 1 and sizes[1] != kernel[1] * groups:
            yield Violation(f"{p}-channels", "sizes", "FilterTensor")
        if len(kernel) > 0 and groups >= 1 and kernel[0] % groups:
            yield Violation(f"{p}-groups-divide", "sizes", "GroupCount")
        yield from _window_sizes(p, desc, sizes, kernel)


def is_option(entries: Sequence[int], count: int, lowest: int) -> bool:
    """Return whether an attribute has so many entries, each a UINT that is large enough."""
    return len(entries) == count and all(lowest <= entry <= UINT_MAX for entry in entries)


def _window_sizes(p: str, desc: Desc, image: Sequence[int], kernel: Sequence[int]) -> Found:
    """Check kernel and output, as far as the options are sound."""
    axes = len(image) - 2
    sound = [f for f, low in LOWEST.items() if is_option(desc[f], axes, low)]
    if axes < 1 or len(kernel) != len(image) or not LOWEST.keys() - {"Strides"} <= {*sound}:
        return
    pads = zip(desc["StartPadding"], desc["EndPadding"], strict=True)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel[2:], desc["Dilations"], strict=True)]
    rows = zip(image[2:], pads, spans, strict=True)
    room = [size + start + end - span for size, (start, end), span in rows]
    if any(left < 0 for left in room):
        yield Violation(f"{p}-kernel-fits", "sizes", "FilterTensor")
    elif "Strides" in sound and desc["OutputTensor"] is not None:
        spatial = [left // step + 1 for left, step in zip(room, desc["Strides"], strict=True)]
        if list(desc["OutputTensor"]["Sizes"]) != [image[0], kernel[0], *spatial]:
            yield Violation(f"{p}-output-sizes", "sizes", "OutputTensor")


def per_channel(rule: str, desc: Desc, name: str, owner: str, axis: int) -> Found:
    """Check for one element, or one for each channel of the owner, which lie on this axis of it.

    Those of a parameter lie on axis 1 of four or more, on any axis of fewer.
    """
    tensor, other = desc[name], desc[owner]
    if tensor is None or other is None or prod(tensor["Sizes"]) == 1:
        return
    sizes, channels = list(tensor["Sizes"]), list(other["Sizes"][axis : axis + 1])
    if len(sizes) > 3:
        is_kept = sizes == [1, *(channels or [-1]), *[1] * (len(sizes) - 2)]
    else:
        is_kept = [size for size in sizes if size != 1] == channels
    if not is_kept:
        yield Violation(rule, "sizes", name)


def channel_sizes(kernel: Desc, rank: int) -> list[int]:
    """Return {1, K, 1, ...}; a filter without sizes has no K, so nothing equals it."""
    return [1, *(kernel["Sizes"][:1] or [-1]), *[1] * (rank - 2)]
