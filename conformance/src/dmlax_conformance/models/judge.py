"""Judging what an implementation makes of a model."""

import time
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..errors import Unsupported
from ..format.tensors import DTYPES, Tensor, from_numpy
from ..format.vectors import ExpectedTensor
from ..operators._shared import floats
from ..suite.compare import EXACT, Outcome, compare_tensor
from ..suite.runner import is_users
from ..texts import of_error, printable
from .adapter import Array, ModelAdapter
from .arrays import value_of
from .golden import Golden

SHOWN = 3


class Verdict(NamedTuple):
    """The verdict on a variant of one model: `exact`, `fail`, `error` or `unsupported`."""

    model: str
    arithmetic: str
    variant: str
    verdict: str
    details: tuple[str, ...] = ()
    judged: int = 0
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """The name of this result among those of an implementation."""
        return f"{self.model}[{self.arithmetic},{self.variant}]"


def judge(adapter: ModelAdapter, golden: Golden, arithmetic: str, variant: str) -> Verdict:
    """Run a model and compare every tensor that is answered."""
    start = time.perf_counter()
    outcome, judged = _outcome(adapter, golden, arithmetic, variant)
    seconds = time.perf_counter() - start
    names = golden.name, arithmetic, variant
    return Verdict(*names, outcome.verdict, outcome.details, judged, seconds)


def _outcome(
    adapter: ModelAdapter, golden: Golden, arithmetic: str, variant: str
) -> tuple[Outcome, int]:
    if arithmetic not in getattr(adapter, "arithmetics", (arithmetic,)):
        return Outcome("unsupported", (f"has no arithmetic {arithmetic}",)), 0
    try:
        answer = adapter.run(golden.case(arithmetic), variant)
        if not isinstance(answer, Mapping):
            reason = f"the answer is a {type(answer).__name__}, not a mapping"
            return Outcome("error", (reason,)), 0
        return compare(golden, arithmetic, answer)
    except Unsupported as reason:
        return Outcome("unsupported", (printable(reason),)), 0
    except BaseException as error:
        if is_users(error):
            raise
        return Outcome("error", (of_error(error),)), 0


def compare(golden: Golden, arithmetic: str, answer: Mapping[str, Any]) -> tuple[Outcome, int]:
    """Return the verdict and how many tensors were judged: all of them, or the outputs alone."""
    written = golden.graph.written()
    has_inner = any(name in answer for name in written if name not in golden.graph.outputs)
    names = written if has_inner else [n for n in written if n in golden.graph.outputs]
    wrong = [f"{name}: missing" for name in names if name not in answer]
    wrong += [f"{name}: not asked for" for name in answer if name not in written]
    if wrong:
        return Outcome("fail", tuple(wrong)), 0
    failures = []
    for name in names:
        outcome = _compare_tensor(golden, arithmetic, name, answer[name])
        if outcome != EXACT:
            failures.append((name, outcome))
    if not failures:
        return EXACT, len(names)
    return _failed(golden, names, failures), len(names)


def _failed(golden: Golden, names: list[str], failures: list[tuple[str, Outcome]]) -> Outcome:
    """Say which tensor differs first, in the order of the nodes."""
    first, outcome = failures[0]
    op = next(node.op for node in golden.graph.nodes if first in node.outputs)
    head = f"{len(failures)} of {len(names)} tensors differ, the first is {first} of {op}"
    return Outcome("fail", (head, *outcome.details))


def _compare_tensor(golden: Golden, arithmetic: str, name: str, actual: Any) -> Outcome:
    expected = golden.values[arithmetic][name]
    if name in golden.bounds:
        return _compare_bounded(name, expected, np.asarray(actual), golden.bounds[name])
    wanted = ExpectedTensor(expected.dtype, expected.sizes, expected.words, "exact", {})
    return compare_tensor(name, wanted, actual)


def _compare_bounded(name: str, expected: Tensor, array: Array, exponent: int) -> Outcome:
    """Compare the numbers of a tensor behind an exponential."""
    form = (array.dtype.name, array.shape)
    if form != (expected.dtype, expected.sizes):
        wanted = f"{expected.dtype} of sizes {expected.sizes}"
        return Outcome("fail", (f"{name}: {form[0]} of sizes {form[1]}, not {wanted}",))
    bound, words = Fraction(2) ** exponent, from_numpy(array).words
    is_near = partial(near, expected.dtype, bound)
    pairs = enumerate(zip(words, expected.words, strict=True))
    wrong = [index for index, (have, want) in pairs if not is_near(have, want)]
    if not wrong:
        return EXACT
    lines = [
        f"{name}: element {i} is {_shown(words[i], expected.dtype)}, more than 2^{exponent} from "
        f"{_shown(expected.words[i], expected.dtype)}"
        for i in wrong[:SHOWN]
    ]
    more = len(wrong) - SHOWN
    return Outcome("fail", (*lines, *([f"{name}: {more} more"] if more > 0 else [])))


def near(dtype: str, bound: Fraction, have: int, want: int) -> bool:
    """Say whether two words are finite numbers within a bound."""
    is_number = is_finite(have, dtype)
    return is_number and abs(value_of(have, dtype) - value_of(want, dtype)) <= bound


def is_finite(word: int, dtype: str) -> bool:
    """Say whether a word stands for a finite number."""
    return DTYPES[dtype].kind != "bits" or floats.decode(word, dtype).kind == "finite"


def _shown(word: int, dtype: str) -> str:
    return f"{float(value_of(word, dtype))!r}" if is_finite(word, dtype) else f"{word:#x}"
