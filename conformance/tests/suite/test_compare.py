"""The comparator sees every difference that matters, and no other."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlax_conformance.format import tensors
from dmlax_conformance.format.vectors import ExpectedTensor, Listed
from dmlax_conformance.suite.compare import compare_outputs, describe

NAN, OTHER_NAN = 0x7FC00000, 0xFF800001
Array = npt.NDArray[Any]


def expected(array: Array, **changes: Any) -> dict[str, ExpectedTensor]:
    tensor = tensors.from_numpy(array)
    fields = {"words": tensor.words, "compare": "exact", "listed": {}} | changes
    return {"Y": ExpectedTensor(tensor.dtype, tensor.sizes, **fields)}


def bits(*words: int) -> Array:
    return np.array(words, np.uint32).view(np.float32)


def verdict(want: dict[str, ExpectedTensor], have: Any) -> str:
    return compare_outputs(want, have).verdict


def test_equal_and_empty_are_exact() -> None:
    for array in (np.arange(6, dtype=np.uint8).reshape(2, 3), np.zeros((0, 3), np.int32)):
        assert verdict(expected(array), {"Y": array}) == "exact"


def test_zero_signs_differ_and_nans_do_not() -> None:
    assert verdict(expected(bits(0x80000000)), {"Y": bits(0)}) == "fail"
    assert verdict(expected(bits(NAN, 0)), {"Y": bits(OTHER_NAN, 0)}) == "exact"
    assert verdict(expected(bits(NAN)), {"Y": bits(0x7F800000)}) == "fail"
    assert verdict(expected(bits(0)), {"Y": bits(NAN)}) == "fail"


@pytest.mark.parametrize(
    "have",
    [
        np.zeros((3, 2), np.uint8),
        np.zeros(6, np.uint8),
        np.zeros((2, 2), np.uint8),
        np.zeros((2, 3, 1), np.uint8),
        np.zeros((2, 3), np.int8),
        np.zeros((2, 3), np.float32),
        np.zeros((2, 3), object),
        None,
    ],
)
def test_wrong_shape_or_dtype_fails(have: Any) -> None:
    assert verdict(expected(np.zeros((2, 3), np.uint8)), {"Y": have}) == "fail"


def test_empty_shapes_are_compared() -> None:
    assert verdict(expected(np.zeros((0, 3), np.int8)), {"Y": np.zeros((0, 2), np.int8)}) == "fail"


def test_missing_and_extra_outputs_fail() -> None:
    array = np.zeros(2, np.uint8)
    assert verdict(expected(array), {}) == "fail"
    assert verdict(expected(array), {"Y": array, "Z": array}) == "fail"
    assert verdict(expected(array), [array]) == "error"


def test_off_by_one_at_element_1000() -> None:
    want = np.arange(1200, dtype=np.int32)
    have = want.copy()
    have[1000] += 1
    outcome = compare_outputs(expected(want), {"Y": have})
    assert outcome.verdict == "fail"
    assert outcome.details == ("Y[1000]: 1001, not 1000",)


def test_only_the_first_differences_are_shown() -> None:
    want = np.zeros((3, 4), np.uint8)
    outcome = compare_outputs(expected(want), {"Y": want + np.uint8(1)})
    assert outcome.details[0] == "Y[0,0]: 1, not 0"
    assert outcome.details[-1] == "Y: 7 more elements differ"


def test_tail_rows_are_free_but_not_their_shape() -> None:
    rows = np.array([[1, 2], [3, 4], [0, 0]], np.uint32)
    want = expected(rows, words=(1, 2, 3, 4), compare="exact_rows")
    other = rows.copy()
    other[2] = 99
    assert verdict(want, {"Y": other}) == "exact"
    assert verdict(want, {"Y": rows[:2]}) == "fail"
    assert verdict(want, {"Y": rows.astype(np.int32)}) == "fail"
    other[1, 1] = 5
    assert verdict(want, {"Y": other}) == "fail"


def test_listed_words_are_permitted_at_their_element_only() -> None:
    array = np.array([0, 7], np.uint8)
    want = expected(array, compare="exact_or_listed", listed={0: Listed((0, 255), "open")})
    assert verdict(want, {"Y": array}) == "exact"
    assert verdict(want, {"Y": np.array([255, 7], np.uint8)}) == "permitted"
    assert verdict(want, {"Y": np.array([254, 7], np.uint8)}) == "fail"
    assert verdict(want, {"Y": np.array([255, 255], np.uint8)}) == "fail"


def test_describe_prints_small_tensors_only() -> None:
    assert describe(tensors.from_numpy(bits(0x3F800000))) == "float32[1] 0x3f800000"
    assert describe(tensors.from_numpy(np.zeros(99, np.int8))) == "int8[99]"
