"""Convolutions: integer sums, quantized, and quantized with an addend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..format.tensors import Tensor, count
from . import binary, exact, fixed_point
from . import operator as rules
from .exact import wrap_int32
from .operator import Answer, Attributes, Definition, Desc, DescSizes, Found, Inputs, Outputs

POINT = "OutputZeroPointTensor"
SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
LOWEST = {"Strides": 1, "Dilations": 1, "StartPadding": 0, "EndPadding": 0}
TYPES = {f"{name}ZeroPointTensor": f"{name}Tensor" for name in ("Input", "Filter", "Output")}
SINGLE = ("InputZeroPointTensor", "InputScaleTensor", "OutputScaleTensor", POINT)
PER_CHANNEL = ("FilterZeroPointTensor", "FilterScaleTensor")
TERMS = {  # the terms of the sum as the tensors of an addition
    "ConvolvedTensor": "ATensor",
    "OutputScaleTensor": "AScaleTensor",
    "OutputZeroPointTensor": "AZeroPointTensor",
    "AddendTensor": "BTensor",
    "AddendScaleTensor": "BScaleTensor",
    "AddendZeroPointTensor": "BZeroPointTensor",
    "SumScaleTensor": "OutputScaleTensor",
    "SumZeroPointTensor": "OutputZeroPointTensor",
}


@dataclass(frozen=True)
class Windows:
    """The attributes of a convolution."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]
    groups: int

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> "Windows":
        """Read the DirectML fields."""
        fields = ("Strides", "Dilations", "StartPadding", "EndPadding")
        strides, dilations, start, end = (tuple(attributes[field]) for field in fields)
        return cls(strides, dilations, start, end, attributes["GroupCount"])

    def output_sizes(self, image: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the spatial output sizes; one that is not positive means that nothing fits."""
        rows = zip(image, kernel, self.strides, self.dilations, self.start, self.end, strict=True)
        return tuple((n + a + b - ((k - 1) * d + 1)) // s + 1 for n, k, s, d, a, b in rows)


def integer(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the sums of (input - zero point) * (filter - zero point).

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_convolution_integer_operator_desc
    """
    sizes, sums = accumulators(inputs, Windows.of(attributes))
    return {"OutputTensor": Tensor("int32", sizes, tuple(sums))}


def quantized(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return clamp(round((sum + bias) * input scale * filter scale / output scale) + zero point).

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_quantized_linear_convolution_operator_desc
    """
    dtype = outputs["OutputTensor"].dtype
    return {"OutputTensor": _quantized(attributes, inputs, dtype)}


def quantized_sum(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the sum of the convolution's result, which is rounded and clamped, and the addend.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearAdd
    """
    return binary.add({}, _terms(attributes, inputs), outputs)


def sum_quotients(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> binary.Quotients:
    """Return the exact quotient of each element of the sum, and its zero point."""
    return binary.add_quotients({}, _terms(attributes, inputs), outputs)


def accumulators(inputs: Inputs, windows: Windows) -> tuple[rules.Sizes, list[int]]:
    """Return the sizes and the int32 sums of products, row-major.

    Sums of int64 wrap modulo 2^64, so that they are right modulo 2^32.
    """
    x, w = (_centred(inputs, name) for name in ("Input", "Filter"))
    (images, _, *image), (filters, channels, *kernel) = x.shape, w.shape
    output = windows.output_sizes(tuple(image), tuple(kernel))
    padded = np.pad(x, [(0, 0), (0, 0), *[(0, 1)] * len(image)])  # a zero after each axis
    padded = padded.reshape(images, windows.groups, channels, *padded.shape[2:])
    w = w.reshape(windows.groups, filters // windows.groups, *w.shape[1:])
    steps = (windows.strides, windows.dilations, windows.start)
    places = [_places(*axis) for axis in zip(image, kernel, output, *steps, strict=True)]
    sums = np.zeros((images, *w.shape[:2], *output), np.int64)
    for taps in product(*map(range, kernel)):
        under: Any = np.ix_(*(rows[tap] for rows, tap in zip(places, taps, strict=True)))
        at: Any = (..., *taps)
        sums += np.einsum("igc...,gfc->igf...", padded[:, :, :, *under], w[at])
    return (images, filters, *output), [wrap_int32(total) for total in sums.reshape(-1).tolist()]


def parameter(tensor: Tensor | None, channel: int) -> int:
    """Return the one value, or the channel's; a missing tensor is 0."""
    if tensor is None:
        return 0
    return tensor.words[channel if len(tensor.words) > 1 else 0]


def _quantized(attributes: Attributes, inputs: Inputs, dtype: str) -> Tensor:
    """Return the rounded and clamped result of a convolution."""
    sizes, sums = accumulators(inputs, Windows.of(attributes))
    zero_point = parameter(inputs.get(POINT), 0)
    bias = [parameter(inputs.get("BiasTensor"), channel) for channel in range(sizes[1])]
    multipliers = []
    for channel in range(sizes[1]):
        words = (parameter(inputs[name], channel) for name in SCALES)
        sx, sw, sy = (exact.decode(word, "float32").value for word in words)
        multipliers.append(sx * sw / sy)
    channels = (place[1] for place in product(*map(range, sizes)))
    mode = attributes.get(fixed_point.FIELD)
    rescale = partial(fixed_point.rescale, mode=mode) if mode else exact.rescale
    words = (
        rescale(wrap_int32(total + bias[c]), multipliers[c], zero_point, dtype)
        for total, c in zip(sums, channels, strict=True)
    )
    return Tensor(dtype, sizes, tuple(words))


def _terms(attributes: Attributes, inputs: Inputs) -> Inputs:
    """Name the operands of the sum as those of an addition."""
    convolved = _quantized(attributes, inputs, _convolved_dtype(inputs))
    tensors = {**inputs, "ConvolvedTensor": convolved}
    return {term: tensors[name] for name, term in TERMS.items() if name in tensors}


def _convolved_dtype(inputs: Inputs) -> str:
    """Return the data type of a result that is not an output: its zero point's, or the input's."""
    return inputs[POINT if POINT in inputs else "InputTensor"].dtype


def _centred(inputs: Inputs, name: str) -> npt.NDArray[Any]:
    """Subtract the zero point: one value, or one for each filter."""
    tensor, point = inputs[f"{name}Tensor"], inputs.get(f"{name}ZeroPointTensor")
    points = np.array(point.words if point else (0,), np.int64)
    words = np.array(tensor.words, np.int64).reshape(tensor.sizes)
    return words - points.reshape(-1, *[1] * (words.ndim - 1))


def _places(
    size: int, taps: int, outputs: int, stride: int, dilation: int, start: int
) -> list[npt.NDArray[Any]]:
    """Return, for each tap on an axis, the places under it; the axis ends where padding is."""
    first = np.arange(outputs, dtype=np.int64) * stride - start
    places = [first + tap * dilation for tap in range(taps)]
    return [np.where((at >= 0) & (at < size), at, size) for at in places]


def check_integer(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check both tensors, their zero points and the windows."""
    rules.data_type(inputs, rules.EIGHT_BIT, "InputTensor", "FilterTensor")
    for name in ("Input", "Filter"):
        rules.same_data_type(inputs, f"{name}ZeroPointTensor", inputs[f"{name}Tensor"].dtype)
    image, kernel = inputs["InputTensor"].sizes, inputs["FilterTensor"].sizes
    rules.need(len(image) in (3, 4), "dimension_count", "InputTensor")
    rules.need(len(kernel) == len(image), "dimension_count", "FilterTensor")
    check_options(attributes, len(image) - 2, LOWEST)
    groups = attributes["GroupCount"]
    rules.need(groups >= 1, "option", "GroupCount")
    rules.need(image[1] == kernel[1] * groups, "sizes", "FilterTensor")
    rules.need(kernel[0] % groups == 0, "sizes", "GroupCount")
    sizes = Windows.of(attributes).output_sizes(image[2:], kernel[2:])
    rules.need(min(sizes) >= 1, "sizes", "FilterTensor")
    rules.lengths(inputs, (1,), "InputZeroPointTensor")
    rules.lengths(inputs, (1, kernel[0]), "FilterZeroPointTensor")


def check_quantized(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the integer convolution, then scales, bias and the output's data type."""
    _check_quantized(attributes, inputs, outputs["OutputTensor"].dtype, "OutputTensor")


def check_quantized_sum(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check the convolution, then the addend and the parameters of the sum."""
    _check_quantized(attributes, inputs, _convolved_dtype(inputs), POINT)
    rules.data_type(inputs, rules.EIGHT_BIT, "AddendTensor")
    dtype = outputs["OutputTensor"].dtype
    rules.need(dtype in rules.EIGHT_BIT, "data_type", "OutputTensor")
    rules.same_data_type(inputs, "SumZeroPointTensor", dtype)
    rules.same_data_type(inputs, "AddendZeroPointTensor", inputs["AddendTensor"].dtype)
    scales = ("AddendScaleTensor", "SumScaleTensor")
    rules.data_type(inputs, ("float32",), *scales)
    image, kernel = inputs["InputTensor"].sizes, inputs["FilterTensor"].sizes
    spatial = Windows.of(attributes).output_sizes(image[2:], kernel[2:])
    sizes, addend = (image[0], kernel[0], *spatial), inputs["AddendTensor"].sizes
    rules.need(len(addend) == len(sizes), "dimension_count", "AddendTensor")
    rules.need(addend == sizes, "sizes", "AddendTensor")
    rules.lengths(inputs, (1,), *scales, "AddendZeroPointTensor", "SumZeroPointTensor")
    rules.scale_values(inputs, *scales)


def check_options(attributes: Attributes, axes: int, lowest: Mapping[str, int]) -> None:
    """Check that options have an entry for each spatial axis, each large enough."""
    for name, low in lowest.items():
        is_kept = len(attributes[name]) == axes and min(attributes[name]) >= low
        rules.need(is_kept, "option", name)


def _check_quantized(attributes: Attributes, inputs: Inputs, dtype: str, typed_by: str) -> None:
    """Check a quantized convolution whose result has a data type that a tensor gives."""
    check_integer(attributes, inputs, {})
    rules.data_type(inputs, ("float32",), *SCALES)
    rules.same_data_type(inputs, "BiasTensor", "int32")
    rules.need(dtype in rules.EIGHT_BIT, "data_type", typed_by)
    rules.same_data_type(inputs, POINT, dtype)
    channels, rank = inputs["FilterTensor"].sizes[0], len(inputs["InputTensor"].sizes)
    rules.lengths(inputs, (1,), "InputScaleTensor", "OutputScaleTensor", POINT)
    rules.lengths(inputs, (1, channels), "FilterScaleTensor")
    rules.lengths(inputs, (channels,), "BiasTensor")
    if "BiasTensor" in inputs and channels != 1:
        allowed = [(channels,), (1, channels), (1, channels, 1, 1)]
        allowed += [(1, channels, 1)] if rank == 3 else []
        rules.need(inputs["BiasTensor"].sizes in allowed, "sizes", "BiasTensor")
    rules.scale_values(inputs, *SCALES)


def check_windows(desc: Desc, lowest: Mapping[str, int]) -> Found:
    """Check that DimensionCount and options of windows fit the input."""
    image = desc["InputTensor"]
    if image is not None and desc["DimensionCount"] != image["DimensionCount"] - 2:
        yield rules.Violation("spatial-dimension-count", "dimension_count", "DimensionCount")
    for name, low in lowest.items():
        if not is_option(desc[name], desc["DimensionCount"], low):
            yield rules.Violation(rules.dashed(name), "option", name)


def is_option(entries: Sequence[int], count: int, lowest: int) -> bool:
    """Return whether an option has so many entries, each a UINT that is large enough."""
    return len(entries) == count and all(lowest <= entry <= rules.UINT_MAX for entry in entries)


def per_channel(desc: Desc, name: str, owner: str, axis: int) -> Found:
    """Check for one element, or one for each channel of the owner, whose channels have this axis.

    The parameter's channels lie on axis 1 of four or more, on any axis of fewer.
    """
    tensor, other = desc.get(name), desc[owner]
    if tensor is None or other is None or prod(tensor["Sizes"]) == 1:
        return
    sizes, channels = list(tensor["Sizes"]), list(other["Sizes"][axis : axis + 1])
    if len(sizes) > 3:
        is_kept = sizes == [1, *(channels or [-1]), *[1] * (len(sizes) - 2)]
    else:
        is_kept = [size for size in sizes if size != 1] == channels
    if not is_kept:
        yield rules.Violation(f"{rules.dashed(name)}-channels", "sizes", name)


def _check_integer_desc(desc: Desc, feature_level: str) -> Found:
    yield from rules.same_counts(desc, "FilterTensor", "OutputTensor")
    points = "FilterZeroPointTensor", "InputZeroPointTensor"
    for name in rules.differing(desc, points[:1], "DimensionCount", points[1]):
        yield rules.Violation("zero-points-dimension-count", "dimension_count", name)
    yield from _check_convolution(desc)


def _check_quantized_desc(desc: Desc, feature_level: str) -> Found:
    yield from rules.same_counts(desc, "FilterTensor", "BiasTensor", "OutputTensor")
    yield from _check_convolution(desc)
    bias, kernel = desc["BiasTensor"], desc["FilterTensor"]
    if bias is not None and kernel is not None:
        channels = kernel["Sizes"][:1] or [-1]  # a filter without sizes has no channels
        if list(bias["Sizes"]) != [1, *channels, *[1] * (len(bias["Sizes"]) - 2)]:
            yield rules.Violation("bias-channels", "sizes", "BiasTensor")


def _check_convolution(desc: Desc) -> Found:
    """Check data types, windows, and the sizes of parameters."""
    yield from rules.same_types(desc, TYPES)
    yield from check_windows(desc, LOWEST)
    if not 1 <= desc["GroupCount"] <= rules.UINT_MAX:
        yield rules.Violation("group-count", "option", "GroupCount")
    if desc["FilterTensor"] is not None:
        groups, kernel = desc["GroupCount"], desc["FilterTensor"]["Sizes"]
        sizes = desc["InputTensor"]["Sizes"] if desc["InputTensor"] else []
        if len(sizes) > 1 and len(kernel) > 1 and sizes[1] != kernel[1] * groups:
            yield rules.Violation("channels", "sizes", "FilterTensor")
        if len(kernel) > 0 and groups >= 1 and kernel[0] % groups:
            yield rules.Violation("groups-divide", "sizes", "GroupCount")
        yield from _window_sizes(desc, sizes, kernel)
    yield from rules.all_ones(desc, *SINGLE)
    for name in PER_CHANNEL:
        yield from per_channel(desc, name, "FilterTensor", 0)


def _window_sizes(desc: Desc, image: Sequence[int], kernel: Sequence[int]) -> Found:
    """Check kernel and output, as far as the options are sound."""
    axes = len(image) - 2
    sound = {name for name, low in LOWEST.items() if is_option(desc[name], axes, low)}
    if axes < 1 or len(kernel) != len(image) or not LOWEST.keys() - {"Strides"} <= sound:
        return
    windows = Windows.of({**desc, "Strides": [1] * axes})
    room = windows.output_sizes(tuple(image[2:]), tuple(kernel[2:]))
    if min(room) < 1:
        yield rules.Violation("kernel-fits", "sizes", "FilterTensor")
    elif "Strides" in sound and desc["OutputTensor"] is not None:
        spatial = [
            (places - 1) // step + 1 for places, step in zip(room, desc["Strides"], strict=True)
        ]
        if list(desc["OutputTensor"]["Sizes"]) != [image[0], kernel[0], *spatial]:
            yield rules.Violation("output-sizes", "sizes", "OutputTensor")


def _desc_sizes(inputs: Inputs, outputs: Outputs) -> DescSizes:
    """Return {1, K, 1, 1} for a bias of any rank, and vectors for parameters.

    Parameters are vectors if one has no axes, or zero points of integer sums differ in rank.
    """
    sizes: dict[str, rules.Sizes] = {}
    own = {name: inputs[name].sizes for name in (*SINGLE, *PER_CHANNEL) if name in inputs}
    ranks = {len(each) for name, each in own.items() if name.endswith("ZeroPointTensor")}
    is_integer = "InputScaleTensor" not in inputs
    if not all(own.values()) or (is_integer and len(ranks) > 1):
        sizes = {name: (count(each),) for name, each in own.items()}
    if "BiasTensor" in inputs:
        rank = len(outputs["OutputTensor"].sizes)
        sizes["BiasTensor"] = (1, count(inputs["BiasTensor"].sizes), *[1] * (rank - 2))
    return sizes


ATTRIBUTES: dict[str, type] = {
    "DimensionCount": int,
    **dict.fromkeys(("Strides", "Dilations", "StartPadding", "EndPadding"), list),
    "GroupCount": int,
}


def _quantized_table(lowest: int, filter_scale: int, parameter: int) -> rules.Rows:
    tensors, single = (lowest, 4), (parameter, 4)
    return (
        *rules.quantized_rows("Input", tensors, single, single),
        *rules.quantized_rows("Filter", tensors, (filter_scale, 4), single),
        rules.row("BiasTensor", "optional", *tensors, "INT32"),
        *rules.quantized_rows("Output", tensors, single, single),
    )


def _desc_clauses(table: rules.Rows) -> dict[str, str]:
    """Return what `_check_convolution` checks, in words, for an operator with these tensors."""
    there = {row.tensor for row in table}
    return {
        **rules.type_clauses({name: own for name, own in TYPES.items() if name in there}),
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
        **rules.one_clauses(name for name in SINGLE if name in there),
        **{
            f"{rules.dashed(name)}-channels": f"{name} is one value, or one for each output channel"
            " on axis 1 of 4; with fewer dimensions the page leaves the axis open."
            for name in PER_CHANNEL
            if name in there
        },
    }


_INTEGER_TABLES = {
    "2_1": rules.integer_rows(4, Input=4, Filter=4),
    "4_0": rules.integer_rows(3, Input=1, Filter=1),
}
_QLC = """
QLC-1 (result): The result equals dequantizing, convolving and quantizing in real arithmetic.
QLC-2 (result): The accumulator sums (input - zero point) * (filter - zero point of the channel).
QLC-3 (result): A padded cell dequantizes to zero: it holds the input zero point.
QLC-4: Bias is INT32, one for each output channel, and is added to the accumulator.
QLC-5 (result): The quotient is rounded to nearest, ties to even, before the zero point is added.
QLC-6 (result): The result is clamped to the full range of the output data type.
QLC-7: Filter scale and filter zero point are, each on its own, one value or one for each output
  channel; the other scales and zero points are one value.
QLC-8: Strides, dilations and padding of either side shape the windows.
QLC-9: Groups split the channels: input channels = filter channels * groups, and groups divide the
  output channels.
QLC-10: Input, filter and output are INT8 or UINT8 independently; a zero point has the data type of
  its tensor; scales are FLOAT32.
QLC-11 (absent): A missing zero point is 0 and a missing bias adds nothing.
QLC-12 (open): The page leaves overflow of the 32-bit sum open; here it wraps.
QLC-13: A scale is finite and not zero; its sign and size are free.
QLC-14: Input and filter have rank 4, or 3 from feature level 4.0.
"""
_QLC_BIAS = """
QLC-15: A bias of K values is {K}, {1, K} or {1, K, 1, 1}, with rank 3 also {1, K, 1}.
"""
_QCA = """
QCA-15 (result): QCA-1 to QCA-14 give the convolution's result, which is not an output: it has the
  data type of OutputZeroPointTensor, and without one that of the input.
QCA-16 (result): The output is clamp(round((a + b) / sum scale) + sum zero point) in real
  arithmetic, where a is (result - output zero point) * output scale of the rounded and clamped
  result, and b is (addend - addend zero point) * addend scale.
QCA-17 (result): The quotient of the sum is rounded to nearest, ties to even, before the sum zero
  point is added.
QCA-18 (result): The sum is clamped to the full range of the output data type.
QCA-19: Addend and output are INT8 or UINT8, each on its own; AddendZeroPointTensor has the data
  type of the addend, SumZeroPointTensor that of the output; both scales are FLOAT32.
QCA-20: The addend has the rank and the sizes of the convolution's result.
QCA-21: Scale and zero point of the addend and of the sum are one value each.
QCA-22: The scales of the addend and of the sum are finite and not zero.
QCA-23 (absent): A missing zero point of the addend or of the sum is 0.
QCA-24 (result): AddendFirst says which operand of the sum is the first; an exact sum is the same.
QCA-25: A bias of K values is {K}, {1, K} or {1, K, 1, 1}, with rank 3 also {1, K, 1}.
"""
_CVI = """
CVI-1 (result): The output is INT32: the sum of (input - zero point) * (filter - zero point).
CVI-2 (result): A padded cell holds the input zero point, so that it contributes nothing.
CVI-3: Strides, dilations, padding and groups shape the windows.
CVI-4: Input and filter are INT8 or UINT8 independently; zero points match their tensor.
CVI-5: The filter zero point is one value or one for each output channel.
CVI-6 (open): The page leaves overflow of the 32-bit sum open; here it wraps.
CVI-7: Input and filter have rank 4, or 3 from feature level 4.0.
"""

INTEGER = Definition(
    integer,
    check_integer,
    _CVI,
    _INTEGER_TABLES,
    desc_clauses=_desc_clauses(_INTEGER_TABLES["4_0"])
    | {
        "same-dimension-count": "Filter and output have the DimensionCount of the input.",
        "zero-points-dimension-count": "Both zero points, if there, have the same DimensionCount.",
    },
    check_desc=_check_integer_desc,
    desc_sizes=_desc_sizes,
    attributes=ATTRIBUTES,
)

_QUANTIZED_TABLES = {
    "2_1": _quantized_table(4, 4, 4),
    "4_0": _quantized_table(3, 3, 1),
    "5_2": _quantized_table(3, 1, 1),
}
QUANTIZED = Definition(
    quantized,
    check_quantized,
    _QLC + _QLC_BIAS + fixed_point.clauses("QLC", 16),
    _QUANTIZED_TABLES,
    desc_clauses=_desc_clauses(_QUANTIZED_TABLES["5_2"])
    | {
        "same-dimension-count": "Filter, bias and output have the DimensionCount of the input.",
        "bias-channels": "BiasTensor is {1, K, 1, 1} for K output channels, {1, K, 1} with three"
        " dimensions.",
    },
    check_desc=_check_quantized_desc,
    desc_sizes=_desc_sizes,
    attributes=ATTRIBUTES,
    requantizations=fixed_point.OF_SUMS,
)

*_CONVOLUTION, _OUTPUT = _quantized_table(3, 1, 1)
QUANTIZED_SUM = Definition(
    quantized_sum,
    check_quantized_sum,
    _QLC.replace("QLC", "QCA") + _QCA,
    rows=(
        *_CONVOLUTION,
        *rules.quantized_rows("Addend", (3, 4), (1, 4), (1, 4)),
        rules.row("SumScaleTensor", "input", 1, 4, "FLOAT32"),
        rules.row("SumZeroPointTensor", "optional", 1, 4, rules.BYTES),
        _OUTPUT,
    ),
    attributes=ATTRIBUTES | {"AddendFirst": bool},
)
