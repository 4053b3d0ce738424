"""The oracle against an example worked by hand, and against NumPy. `verify` has the vectors."""

import inspect
from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from dmlax_conformance.adapters import fixed_point as by_numpy
from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import tensors, vectors
from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.format.vectors import Request
from dmlax_conformance.oracle import OPERATORS, exact, fixed_point
from dmlax_conformance.oracle.calls import answer, with_elements
from dmlax_conformance.oracle.convolution import Windows, accumulators
from dmlax_conformance.oracle.exact_floats import sequences, single

Array = npt.NDArray[Any]


def tensor(array: Any, dtype: str) -> Tensor:
    return tensors.from_numpy(np.asarray(array, dtype))


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_formula_cites_its_page(operator: str) -> None:
    row = OPERATORS[operator]
    cited = inspect.getdoc(row.compute) or ""
    pages = "https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_"
    if row.tables:
        assert f"{pages}{row.struct.lower()}_operator_desc" in cited
    else:
        assert "https://onnx.ai/" in cited or "https://github.com/microsoft/onnxruntime/" in cited


# Of -1.5, -1.25, 1.25, 1.5: the multiplier is 2^30, and t half up of x / 2: -3, -2, 3, 3.
BY_HAND = {
    "fixed_point_single": [-1, -1, 1, 2],
    "fixed_point_double": [-2, -1, 2, 2],
    "fixed_point_half_up": [-1, -1, 2, 2],
    "float64": [-2, -1, 1, 2],
}


@pytest.mark.parametrize("mode", BY_HAND)
def test_requantizations_by_hand_and_by_numpy(mode: str) -> None:
    assert [fixed_point.scaled(x, Fraction(1, 4), mode) for x in (-6, -5, 5, 6)] == BY_HAND[mode]
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**31), 2**31, 2000) >> rng.integers(0, 31, 2000)
    real = 2.0 ** rng.uniform(-34, 8, 2000)
    real[::3] = 2.0 ** rng.integers(-31, 8, real[::3].size)  # ties
    wanted = [
        fixed_point.scaled(*pair, mode)
        for pair in zip(x.tolist(), map(Fraction, real), strict=True)
    ]
    assert by_numpy.scaled(x, real, mode).tolist() == wanted


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
    ones = {"Strides": [1, 1], "Dilations": [1, 1], "GroupCount": 1}
    windows = {**ones, "StartPadding": [0, 1], "EndPadding": [0, 0]}
    asked = {"OutputTensor": Request("uint8", (1, 1, 1, 2))}
    have = answer("quantized_linear_convolution", windows, inputs, asked)
    assert have == {"OutputTensor": tensor([[[[2, 2]]]], "uint8")}


def brute(x: Array, w: Array, windows: Windows) -> Array:
    """Convolve int64 arrays whose zero points are already gone, with a kernel that has holes."""
    steps = tuple(slice(None, None, step) for step in windows.dilations)
    sizes = [(n - 1) * step + 1 for n, step in zip(w.shape[2:], windows.dilations, strict=True)]
    kernel = np.zeros((*w.shape[:2], *sizes), np.int64)
    kernel[:, :, *steps] = w
    padded = np.pad(x, [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)])
    strides = tuple(slice(None, None, step) for step in windows.strides)
    under = sliding_window_view(padded, sizes, (2, 3))[:, :, *strides]
    groups = np.split(under, windows.groups, 1), np.split(kernel, windows.groups)
    sums = [np.einsum("nchwij,kcij->nkhw", *pair) for pair in zip(*groups, strict=True)]
    return np.concatenate(sums, 1)


@pytest.mark.parametrize("seed", range(25))
def test_accumulators_match_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, channels = (int(n) for n in rng.integers(1, 4, 2))
    outputs = groups * int(rng.integers(1, 3))
    x = rng.integers(0, 256, (2, groups * channels, 6, 7))
    w = rng.integers(-128, 128, (outputs, channels, *rng.integers(1, 3, 2)))
    zx, zw = int(rng.integers(0, 256)), rng.integers(-128, 128, outputs)
    draws = [tuple(int(n) for n in rng.integers(low, low + 3, 2)) for low in (1, 1, 0, 0)]
    windows = Windows(*draws, groups)
    inputs = {
        "InputTensor": tensor(x, "uint8"),
        "FilterTensor": tensor(w, "int8"),
        "InputZeroPointTensor": tensor([zx], "uint8"),
        "FilterZeroPointTensor": tensor(zw, "int8"),
    }
    want = brute(x - zx, w - zw[:, None, None, None], windows)
    assert accumulators(inputs, windows) == (want.shape, want.reshape(-1).tolist())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_decode_and_encode_every_class(dtype: str) -> None:
    width, info = tensors.DTYPES[dtype].width, np.finfo(dtype)
    rng = np.random.default_rng(width)
    words = rng.integers(0, 2**width, 2000, dtype=np.uint64).astype(f"uint{width}")
    edge = np.array([0, info.smallest_subnormal, info.tiny, info.max, np.inf, 1], dtype)
    edges = np.concatenate([edge, -edge]).view(f"uint{width}")
    for word in np.concatenate([words, edges]).tolist():
        number = exact.decode(word, dtype)
        if number.kind != "nan":
            assert exact.encode(number, dtype) == word
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
            have = exact.encode(exact.exactly(Fraction(float(value))), dtype)
            assert have == want or value == 0


def test_the_oracle_makes_the_elements_of_a_digest(tmp_path: Path) -> None:
    suite = vectors.load_all(operators=["matrix_multiply_integer"])
    vector: Any = next(vector for vector in suite if vector.has_digests)
    assert vector.expect["OutputTensor"].words == ()
    known: Any = with_elements(vector)
    assert len(known.expect["OutputTensor"].words) == prod(vector.outputs["OutputTensor"].sizes)
    foreign = replace(vector, file=tmp_path / "large.json")  # may ask for any time
    assert with_elements(foreign) is foreign
    wrong = replace(vector.expect["OutputTensor"], sha256="0" * 64)
    with pytest.raises(Malformed, match="is not the oracle's digest"):
        with_elements(replace(vector, id="wrong", expect={"OutputTensor": wrong}))


@pytest.mark.parametrize("operator", ["exact_function", "exact_sum"])
def test_a_processor_that_flushes_every_subnormal_number_has_the_same_answers(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some keep them on the way to a result, and some do not."""
    rounded, suite = single._rounded, vectors.load_all(operators=[operator])
    monkeypatch.setattr(single, "_rounded", lambda *parts: sequences.flush(rounded(*parts)))
    for vector in (each for each in suite if each.is_valid and not each.has_digests):
        expect: Any = vector.expect
        found = answer(operator, vector.attributes, vector.inputs, vector.outputs)["OutputTensor"]
        assert found.words == expect["OutputTensor"].words, vector.id


@pytest.mark.parametrize("seed", range(3))
def test_single_operations_are_numpys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, (2, 2000), np.uint32)
    words[:, 1000:] = (words[:, 1000:] % 2**26) + (126 << 23)  # near each other
    words[:, :40] &= 0x807FFFFF  # subnormal
    x, y = words.view(np.float32)
    a, b = ([single.Single(int(word)) for word in row] for row in words)
    with np.errstate(all="ignore"):
        for name in ("add", "subtract", "multiply", "divide"):
            want = getattr(np, name)(x, y)
            have = [sequences.BINARY[name](*pair).word for pair in zip(a, b, strict=True)]
            found = np.array(have, np.uint32).view(np.float32)
            np.testing.assert_array_equal(found, want)
            assert (np.signbit(found) == np.signbit(want))[~np.isnan(want)].all()
        roots = [single.root(abs(each)).word for each in a if not each.is_nan]
        want = np.sqrt(np.abs(x[~np.isnan(x)]))
        np.testing.assert_array_equal(np.array(roots, np.uint32).view(np.float32), want)
