"""Comparing one answer with one expectation: exactly, or not at all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ..format import layout, tensors
from ..format.vectors import ExpectedTensor
from ..oracle import exact as floats
from ..texts import counted, printable
from .adapter import Array

SHOWN = 5
MOST_DETAILS = 12
RANK = ("exact", "permitted", "fail")  # the worst of several verdicts counts


@dataclass(frozen=True)
class Outcome:
    """A verdict and, when it is not `exact`, the first reasons and the answer itself."""

    verdict: str
    details: tuple[str, ...] = ()
    answer: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Cut what is long, and escape what is not to be printed."""
        kept = [printable(line) for line in self.details[:MOST_DETAILS]]
        more = len(self.details) - MOST_DETAILS
        kept += [f"... and {more} more"] if more > 0 else []
        object.__setattr__(self, "details", tuple(kept))


EXACT = Outcome("exact")


def compare_outputs(
    expected: Mapping[str, ExpectedTensor], actual: Any, desc: Mapping[str, Any] | None = None
) -> Outcome:
    """Compare the names, then every output; one that the desc does not pack is gathered."""
    if not isinstance(actual, Mapping):
        return Outcome("error", (f"the answer is a {type(actual).__name__}, not a mapping",))
    details = [f"{name}: missing" for name in expected if name not in actual]
    details += [f"{name}: not asked for" for name in actual if name not in expected]
    if details:
        return Outcome("fail", tuple(details))
    descs = desc or dict.fromkeys(expected)
    outcomes = [compare_tensor(n, expected[n], actual[n], descs[n]) for n in expected]
    verdict = max((outcome.verdict for outcome in outcomes), key=RANK.index)
    return Outcome(verdict, tuple(line for outcome in outcomes for line in outcome.details))


def compare_tensor(
    name: str, expected: ExpectedTensor, actual: Any, desc: Mapping[str, Any] | None = None
) -> Outcome:
    """Compare dtype, sizes and every element that is defined."""
    array = np.asarray(actual)
    if array.dtype.name != expected.dtype:
        return Outcome("fail", (f"{name}: dtype {array.dtype.name}, not {expected.dtype}",))
    if desc is not None and not layout.is_packed(desc):
        if array.shape != layout.array_sizes(desc):
            want = layout.array_sizes(desc)
            return Outcome("fail", (f"{name}: a buffer of sizes {array.shape}, not {want}",))
        array = logical(array, desc)
    if array.shape != expected.sizes:
        return Outcome("fail", (f"{name}: sizes {array.shape}, not {expected.sizes}",))
    if expected.sha256:  # no element is NaN, and none has other values that are permitted
        kept = array.reshape(-1)[: expected.rows * expected.sizes[-1]] if expected.rows else array
        if tensors.digest_of(kept) == expected.sha256:
            return EXACT
        text = f"{name}: the digest of its elements differs; a report shows which"
        return Outcome("fail", (text,))
    words = tensors.from_numpy(array).words
    wrong = list(differences(expected, words))
    verdict = "fail" if any(not permitted for _, permitted in wrong) else "permitted"
    wrong = [item for item in wrong if item[1] == (verdict == "permitted")]
    if not wrong:
        return EXACT
    lines = [_detail(name, expected, index, words[index]) for index, _ in wrong[:SHOWN]]
    if len(wrong) > SHOWN:
        rest = len(wrong) - SHOWN
        lines.append(f"{name}: {counted(rest, 'more element')} differ{'s' * (rest == 1)}")
    return Outcome(verdict, tuple(lines))


def logical(array: Array, desc: Mapping[str, Any]) -> Array:
    """Return the elements of a whole buffer in the desc's sizes."""
    places = layout.offsets(desc["Sizes"], desc["Strides"])
    return np.asarray(array[places].reshape(desc["Sizes"]))


def differences(expected: ExpectedTensor, words: tuple[int, ...]) -> Iterator[tuple[int, bool]]:
    """Yield the index of each differing element, and whether its word is permitted."""
    for index, (want, have) in enumerate(zip(expected.words, words, strict=False)):
        if want != have and not _both_nan(expected.dtype, want, have):
            listed = expected.listed.get(index)
            yield index, listed is not None and have in listed.any_of


def _both_nan(dtype: str, want: int, have: int) -> bool:
    return dtype in floats.FORMATS and all(floats.is_nan(x, dtype) for x in (want, have))


def _detail(name: str, expected: ExpectedTensor, index: int, have: int) -> str:
    place = np.unravel_index(index, expected.sizes)
    where = ",".join(str(int(axis)) for axis in place)
    want = expected.words[index]
    return f"{name}[{where}]: {shown(expected.dtype, have)}, not {shown(expected.dtype, want)}"


def shown(dtype: str, word: int) -> str:
    """Return an element as a number, a float with its bits."""
    if dtype not in floats.FORMATS:
        return f"{word}"
    return f"{_number(dtype, word)} (0x{word:0{tensors.DTYPES[dtype].width // 4}x})"


def _number(dtype: str, word: int) -> str:
    """Return an element as the shortest number that is no other element."""
    return str(tensors.to_numpy(tensors.Tensor(dtype, (), (word,))))


def describe(tensor: tensors.Tensor, limit: int = 64) -> str:
    """Return a tensor in one line, or only its type when it is large."""
    head = f"{tensor.dtype}{list(tensor.sizes)}"
    if prod(tensor.sizes) > limit:
        return head
    return f"{head} {' '.join(_number(tensor.dtype, word) for word in tensor.words)}"
