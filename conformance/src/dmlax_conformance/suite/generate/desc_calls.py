"""Small calls of every operator, as packed descs: what the desc vectors start from."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ...format.tensors import DTYPES, Tensor
from ...format.vectors import Request
from ...operators._shared.convolution import Windows
from ...operators._shared.window_cases import attributes
from ...operators.topics import bits, drawn, ints
from .desc_builder import Call, call

NONZERO = "nonzero_coordinates"
QUANTIZED = "quantized_linear_convolution"
INTEGER = "convolution_integer"
QUANTIZE = "element_wise_quantize_linear"
DEQUANTIZE = "element_wise_dequantize_linear"
ONES = {"float32": 0x3F800000, "float16": 0x3C00}


def nonzero(
    sizes: Sequence[int],
    width: int | None = None,
    count_rank: int | None = None,
    rows_rank: int | None = None,
    dtype: str = "uint8",
) -> Call:
    """Return a call whose outputs have these ranks, by default the input's."""
    width, rank = width or len(sizes), len(sizes)
    rows = (1,) * ((rows_rank or rank) - 2) + (prod(sizes), width)
    outputs = {
        "OutputCountTensor": Request("uint32", (1,) * (count_rank or rank)),
        "OutputCoordinatesTensor": Request("uint32", rows),
    }
    return call(NONZERO, {"InputTensor": sparse(dtype, sizes)}, outputs)


def sparse(dtype: str, sizes: Sequence[int]) -> Tensor:
    """Return zeros and ones, every third a one, the last too."""
    last = prod(sizes) - 1
    words = (int(i % 3 == 0 or i == last) * ONES.get(dtype, 1) for i in range(last + 1))
    return Tensor(dtype, tuple(sizes), tuple(words))


def parameter(values: Sequence[int], dtype: str, rank: int) -> Tensor:
    """Return one value, or one for each channel, in this rank."""
    sizes = (len(values),) if rank == 1 else (1, len(values), 1, 1)[:rank]
    return Tensor(dtype, sizes, tuple(values))


def operands(rank: int, groups: int = 1) -> dict[str, Tensor]:
    """Return an image of two channels and two filters, of 3 or 4 dimensions."""
    image, kernel = ((1, 2, 3), (2, 2 // groups, 2))
    if rank == 4:
        image, kernel = ((1, 2, 2, 3), (2, 2 // groups, 1, 2))  # type: ignore[assignment]
    return {
        "InputTensor": drawn("uint8", image, 11, 0, 255),
        "FilterTensor": drawn("int8", kernel, 12, -128, 127),
    }


def quantized(
    rank: int = 4,
    parameters: int | None = None,
    filter_scale: int | None = None,
    is_bare: bool = False,
    groups: int = 1,
    options: Mapping[str, Any] | None = None,
) -> Call:
    """Return a call with every tensor, or with the required ones; parameters have own ranks."""
    own = parameters or rank
    given = operands(rank, groups) | {
        "InputScaleTensor": parameter([0x3D800000], "float32", own),
        "FilterScaleTensor": parameter([0x3D000000, 0x3C800000], "float32", filter_scale or own),
        "OutputScaleTensor": parameter([0x40000000], "float32", own),
    }
    if not is_bare:
        given |= {
            "InputZeroPointTensor": parameter([120], "uint8", own),
            "FilterZeroPointTensor": parameter([-5, 9], "int8", own),
            "BiasTensor": parameter([3000, -3000], "int32", rank),
            "OutputZeroPointTensor": parameter([100], "uint8", own),
        }
    return convolution(QUANTIZED, given, "uint8", options or _plain(rank, groups))


def integer(
    rank: int = 4,
    parameters: int | None = None,
    is_bare: bool = False,
    groups: int = 1,
    options: Mapping[str, Any] | None = None,
) -> Call:
    """Return a call with both zero points, or with none."""
    given, own = operands(rank, groups), parameters or rank
    if not is_bare:
        given |= {
            "InputZeroPointTensor": parameter([120], "uint8", own),
            "FilterZeroPointTensor": parameter([-5, 9], "int8", own),
        }
    return convolution(INTEGER, given, "int32", options or _plain(rank, groups))


def convolution(
    operator: str, given: Mapping[str, Tensor], dtype: str, options: Mapping[str, Any]
) -> Call:
    """Return a call of either convolution, with the output that its windows give."""
    image, kernel = given["InputTensor"].sizes, given["FilterTensor"].sizes
    spatial = Windows.of(options).output_sizes(image[2:], kernel[2:])
    asked = {"OutputTensor": Request(dtype, (image[0], kernel[0], *spatial))}
    return call(operator, given, asked, options)


def _plain(rank: int, groups: int) -> dict[str, Any]:
    ones, zeros = (1,) * (rank - 2), (0,) * (rank - 2)
    return attributes(ones, ones, zeros, zeros, groups)


def quantize(
    sizes: Sequence[int] = (2, 3),
    source: str = "float32",
    result: str = "uint8",
    is_bare: bool = False,
) -> Call:
    """Return a call whose tensors all have the same sizes."""
    words = {"float32": (0x40600000, 0xC0200000), "float16": (0x4300, 0xC100), "int32": (7, -5)}
    scale = "float16" if source == "float16" else "float32"
    halves = {"float32": (0x3F000000, 0x3E800000), "float16": (0x3800, 0x3400)}[scale]
    given = {
        "InputTensor": cycled(source, sizes, words[source]),
        "ScaleTensor": cycled(scale, sizes, halves),
    }
    if not is_bare:
        given["ZeroPointTensor"] = cycled(result, sizes, (3, 5, 8))
    return call(QUANTIZE, given, {"OutputTensor": Request(result, tuple(sizes))})


def dequantize(
    sizes: Sequence[int] = (2, 3),
    source: str = "uint8",
    scale: str = "float32",
    is_bare: bool = False,
) -> Call:
    """Return a call whose tensors all have the same sizes."""
    halves = {"float32": (0x3F000000, 0x3E800000), "float16": (0x3800, 0x3400)}[scale]
    given = {
        "InputTensor": cycled(source, sizes, (DTYPES[source].high, 1, 9, 4)),
        "ScaleTensor": cycled(scale, sizes, halves),
    }
    if not is_bare:
        given["ZeroPointTensor"] = cycled(source, sizes, (3, 5, 8))
    return call(DEQUANTIZE, given, {"OutputTensor": Request(scale, tuple(sizes))})


def cycled(dtype: str, sizes: Sequence[int], words: Sequence[int]) -> Tensor:
    """Return a tensor that runs through the words again and again."""
    make = bits if DTYPES[dtype].kind == "bits" else ints
    return make(dtype, sizes, (words[i % len(words)] for i in range(prod(sizes))))
