"""Strided tensors: padding, repeats, permuted axes, sliding windows, interleaved outputs."""

from collections.abc import Callable, Iterator, Sequence
from math import prod

from ...format.descs import gather, tensor_desc
from ...format.tensors import Tensor
from ...format.vectors import Request
from ...operators._shared.window_cases import attributes
from ...operators.topics import drawn
from .desc_builder import Call, DescTopic, call
from .desc_calls import (
    DEQUANTIZE,
    INTEGER,
    NONZERO,
    QUANTIZE,
    QUANTIZED,
    convolution,
    cycled,
    dequantize,
    integer,
    nonzero,
    parameter,
    quantize,
    quantized,
)
from .desc_nonzero import page

BUFFER = "tensor-buffer"
STRIDED = "Strided"
Make = Callable[[Sequence[int]], Call]


def topics() -> Iterator[DescTopic]:
    """Yield one file for each operator."""
    yield _nonzero()
    yield _convolutions(QUANTIZED, quantized(groups=2), quantized(3))
    yield _convolutions(INTEGER, integer(groups=2), integer(3))
    yield _element_wise(QUANTIZE)
    yield _element_wise(DEQUANTIZE)


def add(topic: DescTopic, name: str, comment: str, made: Call, **tensors: Sequence[int]) -> None:
    """Add a call of which some tensors have these strides."""
    for tensor, strides in tensors.items():
        made = made.laid_out(tensor, strides)
    topic.accepted(f"desc-strides-{name}", comment, made, clause=BUFFER, flags=STRIDED)


def short_by_one(topic: DescTopic, name: str, tensor: str) -> None:
    """Take 4 bytes from a strided tensor."""
    twin = f"desc-strides-{name}"
    old = topic.made(twin).desc[tensor]
    changed = {tensor: {**old, "TotalTensorSizeInBytes": old["TotalTensorSizeInBytes"] - 4}}
    text, error = f"{tensor} ends 4 bytes before its last element does", ("byte_size", tensor)
    flags = "Invalid Strided"
    topic.refused(f"{twin}-short", text, twin, "tensor-byte-size", error, changed, flags=flags)


def overlapping(topic: DescTopic, name: str, tensor: str, strides: Sequence[int]) -> None:
    """Let elements of an output share offsets."""
    twin = f"desc-strides-{name}"
    old = topic.made(twin).desc[tensor]
    least = tensor_desc(old["DataType"], old["Sizes"], strides)["TotalTensorSizeInBytes"]
    total = max(least, old["TotalTensorSizeInBytes"])
    changed = {tensor: tensor_desc(old["DataType"], old["Sizes"], strides, total)}
    text, error = f"{tensor} has strides {list(strides)}, so elements meet", ("strides", tensor)
    end, flags = "-".join(map(str, strides)), "Invalid Strided"
    rule = "tensor-output-overlap"
    topic.refused(f"{twin}-by-{end}", text, twin, rule, error, changed, flags=flags)


def sliding(dtype: str, length: int, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return the elements that overlapping strides read from a drawn row."""
    row = drawn(dtype, (length,), 17, 0, 3)
    return gather(tensor_desc(dtype.upper(), sizes, strides, length), row)


def _nonzero() -> DescTopic:
    topic = DescTopic(NONZERO, "desc-strides")
    plane, rows, count = nonzero((2, 3), 2, 1, 2), "OutputCoordinatesTensor", "OutputCountTensor"
    add(topic, "rows-padded", "input rows of 3 in 5", plane, InputTensor=(5, 1))
    short_by_one(topic, "rows-padded", "InputTensor")
    add(
        topic, "columns-first", "a column-major input: order is by index", plane, InputTensor=(1, 2)
    )
    text = "coordinates transposed and spread as by ONNX Runtime: strides {2, 2 * M}"
    add(topic, "transposed", text, plane, OutputCoordinatesTensor=(2, 12))
    for strides in ((1, 5), (0, 12), (2, 2), (2, 4)):
        overlapping(topic, "transposed", rows, strides)
    text = "coordinates in interleaved columns: strides {3, 2}"
    narrow = nonzero((1, 2), 2, 1, 2)
    add(topic, "interleaved", text, narrow, OutputCoordinatesTensor=(3, 2))
    overlapping(topic, "interleaved", rows, (2, 2))
    text = "rows of coordinates in 4 words"
    add(topic, "wide-rows", text, plane, OutputCoordinatesTensor=(4, 1))
    short_by_one(topic, "wide-rows", rows)
    text = "a count of one element with a stride nobody uses"
    add(topic, "count", text, plane, OutputCountTensor=(7,))
    text = "a count of {1,1} with strides of 0, which repeat nothing"
    add(topic, "count-0", text, nonzero((2, 3), 2, 2, 2), OutputCountTensor=(0, 0))
    roomy = plane.laid_out("InputTensor", (4, 1), 16).laid_out(rows, (3, 1), 100)
    roomy = roomy.laid_out(count, (2,), 12)
    text = "buffers larger than needed, all three"
    topic.accepted("desc-strides-roomy", text, roomy, clause=BUFFER, flags="Strided Buffer")
    repeats = {"InputTensor": cycled("uint8", (3, 2), (0, 7))}
    outputs = {count: Request("uint32", (1,)), rows: Request("uint32", (6, 2))}
    text = "one row repeated three times by a stride of 0"
    add(topic, "repeated-rows", text, call(NONZERO, repeats, outputs), InputTensor=(0, 1))
    windows = {"InputTensor": sliding("uint8", 6, (4, 3), (1, 1))}
    outputs = {count: Request("uint32", (1,)), rows: Request("uint32", (12, 2))}
    text = "overlapping windows of a row"
    add(topic, "windows", text, call(NONZERO, windows, outputs), InputTensor=(1, 1))
    text = "the printed example, its floats in every second word and NaN between"
    add(topic, "page", text, page(), InputTensor=(16, 16, 8, 2))
    return topic


def _convolutions(operator: str, made: Call, line: Call) -> DescTopic:
    topic = DescTopic(operator, "desc-strides")
    layouts: dict[str, tuple[str, dict[str, Sequence[int]]]] = {
        "nhwc-input": ("an input of {1,2,2,3} in NHWC", {"InputTensor": (12, 1, 6, 2)}),
        "nhwc-output": ("an output of {1,2,2,2} in NHWC", {"OutputTensor": (8, 1, 4, 2)}),
        "nhwc": (
            "input, filter and output in NHWC",
            {
                "InputTensor": (12, 1, 6, 2),
                "FilterTensor": (2, 1, 2, 1),
                "OutputTensor": (8, 1, 4, 2),
            },
        ),
        "rows-padded": (
            "rows of input and output padded to 8",
            {"InputTensor": (32, 16, 8, 1), "OutputTensor": (32, 16, 8, 1)},
        ),
        "interleaved": (
            "channels of 4 in every third word, images in every second of those: not nested",
            {"OutputTensor": (24, 12, 3, 2)},
        ),
        "filter-transposed": ("the columns of a filter first", {"FilterTensor": (1, 8, 4, 2)}),
        "filter-zero-points": (
            "filter zero points in every third byte",
            {"FilterZeroPointTensor": (9, 3, 1, 1)},
        ),
    }
    for name, (text, each) in layouts.items():
        add(topic, name, text, made, **each)
    for strides in ((8, 4, 2, 2), (0, 4, 0, 1), (8, 2, 2, 1)):
        overlapping(topic, "nhwc-output", "OutputTensor", strides)
    short_by_one(topic, "nhwc-input", "InputTensor")
    if operator == QUANTIZED:
        _repeated_parameters(topic)
    add(
        topic,
        "rank-3",
        "three dimensions, NWC",
        line,
        InputTensor=(6, 1, 2),
        OutputTensor=(4, 1, 2),
    )
    _shared(topic, operator)
    return topic


def _repeated_parameters(topic: DescTopic) -> None:
    """Repeat one bias and one filter scale over the channels."""
    given = dict(quantized().inputs)
    given["BiasTensor"] = cycled("int32", (1, 2, 1, 1), (3000,))
    given["FilterScaleTensor"] = cycled("float32", (1, 2, 1, 1), (0x3D000000,))
    made = convolution(QUANTIZED, given, "uint8", attributes())
    text = "one bias and one filter scale, repeated by a stride of 0"
    zeros = (0, 0, 0, 0)
    add(topic, "repeated", text, made, BiasTensor=zeros, FilterScaleTensor=zeros)
    text = "biases in every second word"
    add(topic, "bias", text, quantized(), BiasTensor=(4, 2, 1, 1))


def _shared(topic: DescTopic, operator: str) -> None:
    """Let the input's elements share offsets, which an input may."""
    dtype = "uint8" if operator == QUANTIZED else "int32"
    base = (quantized if operator == QUANTIZED else integer)(is_bare=True).inputs
    if operator == QUANTIZED:  # so that the small elements do not all come to 0
        scale = {"OutputScaleTensor": parameter([0x3D000000], "float32", 4)}
        base = {**base, **scale, "OutputZeroPointTensor": parameter([128], "uint8", 4)}
    for name, text, sizes, strides in (
        ("windows", "the rows of an input are overlapping windows", (1, 2, 2, 3), (0, 3, 1, 1)),
        ("channels", "one channel, read twice", (1, 2, 2, 3), (0, 0, 3, 1)),
        ("batch", "one image, read three times", (3, 2, 2, 3), (0, 6, 3, 1)),
    ):
        length = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        given = {
            **base,
            "InputTensor": sliding("uint8", -(-length // 4) * 4, sizes, strides),
        }
        made = convolution(operator, given, dtype, attributes())
        add(topic, f"shared-{name}", text, made, InputTensor=strides)


def _element_wise(operator: str) -> DescTopic:
    topic = DescTopic(operator, "desc-strides")
    sizes = (2, 2, 3)
    make: Make = quantize if operator == QUANTIZE else dequantize
    made = make(sizes)
    add(topic, "input-padded", "rows of 3 in 4", made, InputTensor=(8, 4, 1))
    short_by_one(topic, "input-padded", "InputTensor")
    add(topic, "input-permuted", "axes in another order", made, InputTensor=(1, 6, 2))
    add(topic, "output-permuted", "axes in another order", made, OutputTensor=(1, 6, 2))
    for strides in ((0, 6, 2), (1, 6, 1), (1, 3, 2)):
        overlapping(topic, "output-permuted", "OutputTensor", strides)
    text = "rows whose elements interleave: strides {3, 2} over {2, 2}"
    add(topic, "output-interleaved", text, make((2, 2)), OutputTensor=(3, 2))
    overlapping(topic, "output-interleaved", "OutputTensor", (1, 1))
    text = "the same twice, 6 apart: every third word stays free"
    add(topic, "output-woven", text, make((2, 2, 2)), OutputTensor=(6, 3, 2))
    _repeats(topic, make, sizes)
    text = "every tensor with its own layout"
    add(
        topic,
        "everything",
        text,
        made,
        InputTensor=(6, 1, 2),
        ScaleTensor=(1, 2, 4),
        ZeroPointTensor=(16, 8, 2),
        OutputTensor=(20, 5, 1),
    )
    roomy = made.laid_out("InputTensor", (7, 3, 1), 64).laid_out("OutputTensor", (7, 3, 1), 128)
    text = "strided buffers larger than needed"
    topic.accepted("desc-strides-roomy", text, roomy, clause=BUFFER, flags="Strided Buffer")
    if operator == QUANTIZE:
        _bytes(topic)
    return topic


def _repeats(topic: DescTopic, make: Make, sizes: tuple[int, ...]) -> None:
    """Repeat scale and zero point by strides of 0: over all, over rows, over channels."""
    made = make(sizes)
    scale, zero = made.inputs["ScaleTensor"].dtype, made.inputs["ZeroPointTensor"].dtype
    for name, text, strides in (
        ("one", "one scale and one zero point", (0, 0, 0)),
        ("columns", "a scale and zero point for each column", (0, 0, 1)),
        ("channels", "a scale and zero point for each of the first axis", (1, 0, 0)),
        ("middle", "a scale and zero point for each of the second axis", (0, 1, 0)),
    ):
        inputs = {
            **made.inputs,
            "ScaleTensor": _repeated(scale, sizes, strides, (0x3F000000, 0x3E800000, 0x3E000000)),
            "ZeroPointTensor": _repeated(zero, sizes, strides, (3, 5, 8)),
        }
        repeated = Call(made.operator, made.desc, inputs)
        where = {"ScaleTensor": strides, "ZeroPointTensor": strides}
        add(topic, f"repeat-{name}", f"{text}, by strides {list(strides)}", repeated, **where)


def _repeated(
    dtype: str, sizes: Sequence[int], strides: Sequence[int], words: Sequence[int]
) -> Tensor:
    reach = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    row = cycled(dtype, (reach,), words)
    packed = tensor_desc("UINT8", sizes, strides)
    return Tensor(dtype, tuple(sizes), gather(packed, row).words) if prod(sizes) else row


def _bytes(topic: DescTopic) -> None:
    """Round byte sizes of 8-bit tensors up to a multiple of 4, packed and strided."""
    made = quantize((5,))
    topic.accepted(
        "desc-bytes-5-of-8", "5 bytes need 8", made, clause="tensor-byte-size", flags="Buffer"
    )
    for name in ("ZeroPointTensor", "OutputTensor"):
        old = made.desc[name]
        changed = {name: {**old, "TotalTensorSizeInBytes": 5}}
        text, error = f"{name} has 5 bytes, which is no multiple of 4", ("byte_size", name)
        whole = f"desc-bytes-{'output' if name == 'OutputTensor' else 'zero-point'}-5"
        rule, flags = "tensor-byte-size", "Invalid Buffer"
        topic.refused(whole, text, "desc-bytes-5-of-8", rule, error, changed, flags=flags)
    text = "5 bytes, 3 apart, need 16"
    add(topic, "bytes", text, made, OutputTensor=(3,))
    short_by_one(topic, "bytes", "OutputTensor")
