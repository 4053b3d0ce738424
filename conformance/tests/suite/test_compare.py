"""The comparator sees every difference that matters, and no other."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlax_conformance.format import tensors
from dmlax_conformance.format.vectors import ExpectedTensor, Listed
from dmlax_conformance.runner.compare import compare_outputs, describe

Array = npt.NDArray[Any]


def expected(array: Array, **changes: Any) -> dict[str, ExpectedTensor]:
    tensor = tensors.from_numpy(array)
    fields = {"words": tensor.words, "compare": "exact", "listed": {}} | changes
    return {"Y": ExpectedTensor(tensor.dtype, tensor.sizes, **fields)}


def bits(*words: int) -> dict[str, Array]:
    return {"Y": np.array(words, np.uint32).view(np.float32)}


def of(*values: int, dtype: str = "uint8") -> dict[str, Array]:
    return {"Y": np.array(values, dtype)}


ZERO, NAN, OTHER_NAN, INFINITY = 0, 0x7FC00000, 0xFF800001, 0x7F800000
BYTES, EMPTY = np.arange(6, dtype=np.uint8).reshape(2, 3), np.zeros((0, 3), np.int8)
WHOLE, ROWS = expected(BYTES), np.array([[1, 2], [3, 4], [0, 0]], np.uint32)
FREE = expected(ROWS, words=(1, 2, 3, 4), compare="exact_rows")
OPEN = expected(of(0, 7)["Y"], compare="exact_or_listed", listed={0: Listed((0, 255), "open")})
CASES: dict[str, tuple[dict[str, ExpectedTensor], Any, str]] = {
    "equal": (WHOLE, {"Y": BYTES}, "exact"),
    "empty": (expected(EMPTY), {"Y": EMPTY}, "exact"),
    "empty, of other sizes": (expected(EMPTY), {"Y": EMPTY[:, :2]}, "fail"),
    "the sign of zero": (expected(bits(0x80000000)["Y"]), bits(ZERO), "fail"),
    "another NaN": (expected(bits(NAN, ZERO)["Y"]), bits(OTHER_NAN, ZERO), "exact"),
    "infinity, not NaN": (expected(bits(NAN)["Y"]), bits(INFINITY), "fail"),
    "NaN, not zero": (expected(bits(ZERO)["Y"]), bits(NAN), "fail"),
    "swapped sizes": (WHOLE, {"Y": BYTES.reshape(3, 2)}, "fail"),
    "flat": (WHOLE, {"Y": BYTES.ravel()}, "fail"),
    "a column less": (WHOLE, {"Y": BYTES[:, :2]}, "fail"),
    "an axis more": (WHOLE, {"Y": BYTES[..., None]}, "fail"),
    "signed": (WHOLE, {"Y": BYTES.astype(np.int8)}, "fail"),
    "floats": (WHOLE, {"Y": BYTES.astype(np.float32)}, "fail"),
    "objects": (WHOLE, {"Y": BYTES.astype(object)}, "fail"),
    "no array": (WHOLE, {"Y": None}, "fail"),
    "no output": (WHOLE, {}, "fail"),
    "another output": (WHOLE, {"Y": BYTES, "Z": BYTES}, "fail"),
    "no mapping": (WHOLE, [BYTES], "error"),
    "other rows at the end": (FREE, {"Y": np.r_[ROWS[:2], [[99, 99]]].astype("uint32")}, "exact"),
    "fewer rows at the end": (FREE, {"Y": ROWS[:2]}, "fail"),
    "signed rows": (FREE, {"Y": ROWS.astype(np.int32)}, "fail"),
    "another row": (FREE, {"Y": np.r_[[[1, 5]], ROWS[1:]].astype("uint32")}, "fail"),
    "the first word listed": (OPEN, of(0, 7), "exact"),
    "the other word listed": (OPEN, of(255, 7), "permitted"),
    "a word that is not listed": (OPEN, of(254, 7), "fail"),
    "a listed word elsewhere": (OPEN, of(255, 255), "fail"),
}


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    want, have, verdict = CASES[name]
    assert compare_outputs(want, have).verdict == verdict


def test_the_first_differences_are_shown() -> None:
    want = np.arange(1200, dtype=np.int32)
    have = want + (want == 1000)
    assert compare_outputs(expected(want), {"Y": have}).details == ("Y[1000]: 1001, not 1000",)
    outcome = compare_outputs(expected(np.zeros((3, 4), np.uint8)), {"Y": np.ones((3, 4), "uint8")})
    assert outcome.details[0] == "Y[0,0]: 1, not 0"
    assert outcome.details[-1] == "Y: 7 more elements differ"
    outcome = compare_outputs(expected(np.zeros(6, np.uint8)), {"Y": np.ones(6, "uint8")})
    assert outcome.details[-1] == "Y: 1 more element differs"


def test_describe_prints_small_tensors_only() -> None:
    assert describe(tensors.from_numpy(bits(0x3F800000)["Y"])) == "float32[1] 1.0"
    assert describe(tensors.from_numpy(np.zeros(99, np.int8))) == "int8[99]"
