"""The oracle against examples worked by hand, and against NumPy in 64-bit integers."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlax_conformance.format import tensors
from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.operators._shared import floats
from dmlax_conformance.operators._shared.convolution import (
    Windows,
    accumulators,
)
from dmlax_conformance.operators._shared.element_wise import broadcast
from dmlax_conformance.operators._shared.quantized_convolution import (
    quantized_linear_convolution,
)
from dmlax_conformance.operators._shared.rounding import requantize, requantize_float32, wrap_int32
from dmlax_conformance.operators.element_wise_dequantize_linear.meaning import (
    element_wise_dequantize_linear,
)
from dmlax_conformance.operators.element_wise_quantize_linear.meaning import (
    element_wise_quantize_linear,
)
from dmlax_conformance.operators.nonzero_coordinates.meaning import (
    effective_rank,
    nonzero_coordinates,
)

ONE = Fraction(1)
Array = npt.NDArray[Any]


def tensor(array: Any, dtype: str) -> Tensor:
    return tensors.from_numpy(np.asarray(array, dtype))


@pytest.mark.parametrize(
    ("sizes", "rank"),
    [((1, 2, 3, 4), 3), ((1, 1, 5, 5, 5), 3), ((1, 1, 1, 1), 0), ((1, 3, 1, 1), 3), ((7,), 1)],
)
def test_effective_rank(sizes: tuple[int, ...], rank: int) -> None:
    assert effective_rank(sizes) == rank


def test_the_printed_example() -> None:
    x = tensor([[[[1, 0, 0, 2], [-0.0, 3.5, 0, -5.2]]]], "float32")
    assert nonzero_coordinates(x, 3) == [(0, 0, 0), (0, 0, 3), (0, 1, 1), (0, 1, 3)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nonzero_matches_numpy(dtype: str) -> None:
    smallest = np.finfo(dtype).smallest_subnormal
    x = np.array([[0, smallest, np.nan], [-0.0, -smallest, np.inf]], dtype)
    assert nonzero_coordinates(tensor(x, dtype), 2) == list(
        zip(*map(list, x.nonzero()), strict=True)
    )


@pytest.mark.parametrize(
    ("accumulator", "scale", "zero_point", "result"),
    [
        (1, Fraction(2), 0, 0),
        (3, Fraction(2), 0, 2),
        (5, Fraction(2), 0, 2),
        (-1, Fraction(2), 0, 0),
        (-3, Fraction(2), 0, -2),
        (5, Fraction(2), 1, 3),
        (7, Fraction(2), 1, 5),
        (254, Fraction(2), 0, 127),
        (300, ONE, -50, 127),
        (-300, ONE, 50, -128),
        (3, Fraction(-2), 0, -2),
    ],
)
def test_requantize_by_hand(
    accumulator: int, scale: Fraction, zero_point: int, result: int
) -> None:
    assert requantize(accumulator, (ONE, ONE, scale), zero_point, "int8") == result


def test_a_whole_convolution_by_hand() -> None:
    inputs = {
        "InputTensor": tensor([[[[10, 12], [14, 16]]]], "uint8"),
        "InputZeroPointTensor": tensor([10], "uint8"),
        "FilterTensor": tensor([[[[1, -2], [3, -4]]]], "int8"),
        "BiasTensor": tensor([5], "int32"),
        "InputScaleTensor": tensor([0.5], "float32"),
        "FilterScaleTensor": tensor([0.5], "float32"),
        "OutputScaleTensor": tensor([2], "float32"),
        "OutputZeroPointTensor": tensor([3], "uint8"),
    }
    # Padding on the left: columns are (10, 10, 12) and (10, 14, 16), all less 10.
    # Sums: 1*0 - 2*0 + 3*0 - 4*4 = -16 and 1*0 - 2*2 + 3*4 - 4*6 = -16; plus 5 is -11.
    # -11 * 0.25 / 2 = -1.375, rounded -1, plus 3 is 2.
    windows = Windows((1, 1), (1, 1), (0, 1), (0, 0), 1)
    assert quantized_linear_convolution(inputs, windows, "uint8") == tensor([[[[2, 2]]]], "uint8")


def brute(x: Array, w: Array, windows: Windows) -> Array:
    """Convolve int64 arrays whose zero points are already gone."""
    pads = list(zip(windows.start, windows.end, strict=True))
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    sizes = windows.output_sizes(x.shape[2:], w.shape[2:])
    bare = Windows(windows.strides, windows.dilations, (0, 0), (0, 0), windows.groups)
    sizes = bare.output_sizes(x.shape[2:], w.shape[2:])
    y = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
    x = np.repeat(
        x.reshape(x.shape[0], windows.groups, -1, *x.shape[2:]), w.shape[0] // windows.groups, 1
    )
    for i, j in product(*map(range, w.shape[2:])):
        (sh, sw), (dh, dw) = windows.strides, windows.dilations
        part = x[..., i * dh :: sh, j * dw :: sw][..., : sizes[0], : sizes[1]]
        y += np.einsum("nkchw,kc->nkhw", part, w[:, :, i, j])
    return y


@pytest.mark.parametrize("seed", range(25))
def test_accumulators_match_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, channels = (int(n) for n in rng.integers(1, 4, 2))
    outputs = groups * int(rng.integers(1, 3))
    x = rng.integers(0, 256, (2, groups * channels, 6, 7))
    w = rng.integers(-128, 128, (outputs, channels, *rng.integers(1, 3, 2)))
    zx, zw = int(rng.integers(0, 256)), rng.integers(-128, 128, outputs)
    draws = [tuple(int(n) for n in rng.integers(low, low + 3, 2)) for low in (1, 1, 0, 0)]
    strides, dilations, start, end = draws
    windows = Windows(strides, dilations, start, end, groups)
    inputs = {
        "InputTensor": tensor(x, "uint8"),
        "FilterTensor": tensor(w, "int8"),
        "InputZeroPointTensor": tensor([zx], "uint8"),
        "FilterZeroPointTensor": tensor(zw, "int8"),
    }
    want = brute(x - zx, w - zw[:, None, None, None], windows)
    sizes, sums = accumulators(inputs, windows)
    assert sizes == want.shape
    assert sums == want.reshape(-1).tolist()


def test_wrapping() -> None:
    assert [wrap_int32(n) for n in (2**31, -(2**31) - 1, 2**31 - 1, 2**32)] == [
        *(-(2**31), 2**31 - 1, 2**31 - 1, 0)
    ]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_decode_and_encode_every_class(dtype: str) -> None:
    width, info = tensors.DTYPES[dtype].width, np.finfo(dtype)
    rng = np.random.default_rng(width)
    words = rng.integers(0, 2**width, 2000, dtype=np.uint64).astype(f"uint{width}")
    edge = np.array([0, info.smallest_subnormal, info.tiny, info.max, np.inf, 1], dtype)
    edges = np.concatenate([edge, -edge]).view(f"uint{width}")
    for word in np.concatenate([words, edges]).tolist():
        number = floats.decode(word, dtype)
        if number.kind != "nan":
            assert floats.encode(number, dtype) == word
        if number.kind == "finite":
            assert number.value == Fraction(float(np.array(word, f"uint{width}").view(dtype)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_encoding_rounds_as_numpy_does(dtype: str) -> None:
    rng = np.random.default_rng(7)
    tops = {"float16": (-26, 17), "float32": (-151, 129)}[dtype]
    values = np.ldexp(rng.uniform(-1, 1, 3000), rng.integers(*tops, 3000))
    halves = np.ldexp(rng.integers(-4096, 4096, 500) + 0.5, rng.integers(-20, 5, 500))
    with np.errstate(over="ignore", under="ignore"):
        for value in np.concatenate([values, halves]):
            want = tensors.from_numpy(np.array([value], dtype)).words[0]
            have = floats.encode(floats.exactly(Fraction(float(value))), dtype)
            assert have == want or value == 0


def test_float32_arithmetic_matches_numpy() -> None:
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**31, (4000, 3), dtype=np.uint32) | rng.integers(0, 2, (4000, 1)) << 31
    sums = rng.integers(-(2**31), 2**31, 4000)
    for accumulator, row in zip(sums.tolist(), words.astype(np.uint32), strict=True):
        scales = row.view(np.float32)
        if not np.isfinite(scales).all() or scales[2] == 0:
            continue
        with np.errstate(all="ignore"):
            product = np.float32(accumulator) * (scales[0] * scales[1] / scales[2])
            clamped = np.clip(np.nan_to_num(product, nan=-1e30), -1e6, 1e6)
        want = int(np.clip(np.rint(clamped) + 9, -128, 127))
        assert requantize_float32(accumulator, tuple(row.tolist()), 9, "int8") == want


def test_float32_arithmetic_of_nan_and_infinity() -> None:
    huge, tiny, one = 0x7F000000, 0x00000001, 0x3F800000
    assert requantize_float32(0, (huge, huge, one), 9, "uint8") == 0
    assert requantize_float32(1, (huge, huge, one), 9, "uint8") == 255
    assert requantize_float32(-1, (huge, huge, one), 9, "int8") == -128
    assert requantize_float32(5, (tiny, tiny, one), 9, "int8") == 9


def test_the_convolution_has_a_float32_mode() -> None:
    inputs = {
        "InputTensor": tensor([[[[0]]]], "uint8"),
        "FilterTensor": tensor([[[[0]]]], "int8"),
        "BiasTensor": tensor([2**24 + 1], "int32"),
        "InputScaleTensor": tensor([1], "float32"),
        "FilterScaleTensor": tensor([2**-25], "float32"),
        "OutputScaleTensor": tensor([1], "float32"),
    }
    windows = Windows((1, 1), (1, 1), (0, 0), (0, 0), 1)
    assert quantized_linear_convolution(inputs, windows, "int8").words == (1,)
    assert quantized_linear_convolution(inputs, windows, "int8", "float32").words == (0,)


def test_broadcast_matches_numpy() -> None:
    for sizes in ((), (1,), (4,), (3, 1), (2, 1, 4), (2, 3, 4)):
        array = np.arange(np.prod(sizes, dtype=int), dtype=np.int32).reshape(sizes)
        want = np.broadcast_to(array, (2, 3, 4)).reshape(-1).tolist()
        assert broadcast(tensors.from_numpy(array), (2, 3, 4)) == want


def test_quantize_by_hand() -> None:
    x = tensor([0.5, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-45], "float32")
    zero = tensor([1], "uint8")
    have = element_wise_quantize_linear(x, tensor([1], "float32"), zero, "uint8")
    assert have.words == (1, 3, 0, 255, 0, 0, 1)
    have = element_wise_quantize_linear(x, tensor([-1], "float32"), None, "int8")
    assert have.words == (0, -2, 2, -128, 127, -128, 0)


def test_dequantize_matches_float64_where_that_is_exact() -> None:
    rng = np.random.default_rng(5)
    x, z = rng.integers(-128, 128, 300), rng.integers(-128, 128, 300)
    s = rng.uniform(-2, 2, 300).astype(np.float32)
    want = ((x - z) * s.astype(np.float64)).astype(np.float32) + np.float32(0)
    have = element_wise_dequantize_linear(
        tensor(x, "int8"), tensor(s, "float32"), tensor(z, "int8")
    )
    assert have == tensors.from_numpy(want)
