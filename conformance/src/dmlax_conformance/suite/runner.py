"""Giving vectors to an adapter and judging what comes back."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..errors import AdapterFailure, NotStartable, SpecViolation, Unsupported
from ..format import limits
from ..format.tensors import to_numpy
from ..format.vectors import ExpectedError, Vector
from ..texts import of_error, place_of, text_of
from .adapter import Adapter, Array, Case
from .compare import EXACT, Outcome, compare_outputs

VERDICTS = ("exact", "permitted", "fail", "error", "expected", "unsupported")
PASSED = frozenset({"exact", "permitted"})
CAPABILITIES = frozenset({"descriptors", "strides", "large"})
ENOUGH = 10  # values of an operator
MOST_OUTPUTS = 16  # that a report keeps
LARGEST_KEPT = 1 << 24  # bytes of one of them


@dataclass(frozen=True)
class Result:
    """One vector in one variant."""

    vector: Vector
    variant: str
    outcome: Outcome
    seconds: float

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        return self.outcome.verdict

    @property
    def judged(self) -> "Judged":
        """The verdicts that decide the success of a run."""
        return Judged(self.vector.operator, self.vector.is_valid, self.verdict)


class Judged(NamedTuple):
    """An operator, whether a vector of it wants values, and the verdict."""

    operator: str
    is_valid: bool
    verdict: str


@dataclass(frozen=True)
class Totals:
    """Counts that add up: total = applicable + unsupported."""

    counts: Counter[str]

    @classmethod
    def of(cls, results: Iterable[Result]) -> "Totals":
        """Count the verdicts."""
        return cls(Counter(result.verdict for result in results))

    @property
    def total(self) -> int:
        """All cases."""
        return self.counts.total()

    @property
    def applicable(self) -> int:
        """Cases that were not declined."""
        return self.total - self.counts["unsupported"]


def run(
    adapter: Adapter, vectors: Iterable[Vector], variants: Iterable[str], jobs: int = 1
) -> Iterator[Result]:
    """Yield one result for each vector in each variant, in order, `jobs` at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda case: _result(adapter, *case), cases(adapter, vectors, variants))


def cases(
    adapter: Adapter, vectors: Iterable[Vector], variants: Iterable[str]
) -> list[tuple[Vector, str]]:
    """Return each vector with each variant; descs only with the adapter's `desc_variants`."""
    for_descs: Collection[str] = getattr(adapter, "desc_variants", adapter.variants)
    every = itertools.product(vectors, tuple(variants))
    return [(v, variant) for v, variant in every if v.desc is None or variant in for_descs]


def variants_of(adapter: Adapter, asked: str | None) -> tuple[str, ...]:
    """Return the variant asked for, all of them, or those that the adapter runs usually."""
    if asked is None:
        usual: tuple[str, ...] = getattr(adapter, "usual_variants", adapter.variants)
        return usual
    if asked not in ("all", *adapter.variants):
        raise NotStartable(f"{adapter.name} has no variant {asked}")
    return adapter.variants if asked == "all" else (asked,)


def values_of(judged: Iterable[Judged]) -> Counter[str]:
    """Count the right values by operator: right answers to vectors that keep every rule."""
    return Counter(each.operator for each in judged if each.is_valid and each.verdict in PASSED)


def shortfalls(judged: Sequence[Judged], least: int | None) -> list[str]:
    """Return why a run proves too little, however right its answers are.

    An operator that was not declined as a whole needs the values of a tenth of its vectors, or ten.
    A run needs `least` values; one about refusals alone needs an answer.
    """
    asked = Counter(each.operator for each in judged if each.is_valid)
    answered = Counter(each.operator for each in judged if each.verdict != "unsupported")
    values = values_of(judged)
    has_values = asked or least is not None
    count, what = (values, "values") if has_values else (answered, "applicable cases")
    needed = max(least or 1, 1)
    if count.total() < needed:
        return [f"{count.total()} {what}, needed {needed}"]
    return [
        f"{operator}: {values[operator]} values of {number} asked for, needed {wanted}"
        for operator, number in asked.items()
        if answered[operator] and values[operator] < (wanted := min(ENOUGH, -(-number // ENOUGH)))
    ]


def _result(adapter: Adapter, vector: Vector, variant: str) -> Result:
    start = time.perf_counter()
    outcome = judge(adapter, vector, variant)
    return Result(vector, variant, outcome, time.perf_counter() - start)


def judge(adapter: Adapter, vector: Vector, variant: str) -> Outcome:
    """Return the verdict on one vector in one variant, and on the one paired with it, if any.

    A vector that zeros answer rightly proves nothing alone.
    """
    outcome = judge_alone(adapter, vector, variant)
    if vector.paired_with is None or outcome.verdict not in PASSED:
        return outcome
    other = judge_alone(adapter, vector.paired_with, variant)
    if other.verdict in PASSED:
        return outcome
    verdict = "unsupported" if other.verdict == "unsupported" else "fail"
    reason = f"right, but counts only beside {vector.paired_with.id}: {other.verdict}"
    return Outcome(verdict, (reason, *other.details), outcome.answer)


def judge_alone(
    adapter: Adapter, vector: Vector, variant: str, case: Case | None = None
) -> Outcome:
    """Return the verdict on one vector in one variant, whatever becomes of any other.

    The vector's case may be given, where many adapters answer it.
    """
    missing = missing_capabilities(adapter, vector)
    if missing:
        return Outcome("unsupported", (f"needs {' and '.join(missing)}",))
    if vector.memory and vector.memory > limits.memory():
        reason = f"needs {vector.memory} bytes, more than {limits.memory()}"
        return Outcome("unsupported", (f"{reason}; {limits.MEMORY} sets this",))
    try:
        return _judge_answer(adapter, vector, variant, case or case_of(vector))
    except BaseException as error:
        if is_users(error):
            raise
        return Outcome("error", (of_error(error), place_of(error)))


def is_users(error: BaseException) -> bool:
    """Say whether an error is an interrupt by the user, which only the main thread gets."""
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and is_main


def _judge_answer(adapter: Adapter, vector: Vector, variant: str, case: Case) -> Outcome:
    try:
        answer = adapter.run(case, variant)
    except Unsupported as reason:
        return Outcome("unsupported", (text_of(reason),))
    except SpecViolation as violation:
        return _judge_refusal(vector, violation)
    except AdapterFailure as failure:
        return Outcome("error", (text_of(failure), *failure.details))
    if isinstance(vector.expect, ExpectedError):
        return Outcome("fail", (f"accepted; {_wanted(vector.expect)}",), _kept(answer))
    outcome = compare_outputs(vector.expect, answer, vector.desc)
    return outcome if outcome == EXACT else replace(outcome, answer=_kept(answer))


def _kept(answer: object) -> dict[str, Array]:
    """Return copies of the outputs, which may change, for a report; large ones without elements."""
    if not isinstance(answer, Mapping):
        return {}
    arrays = {str(name): np.asarray(answer[name]) for name in islice(answer, MOST_OUTPUTS)}
    return {
        name: array.copy()
        if array.nbytes <= LARGEST_KEPT
        else np.broadcast_to(np.zeros((), array.dtype), array.shape)
        for name, array in arrays.items()
    }


def missing_capabilities(adapter: Adapter, vector: Vector) -> list[str]:
    """Return what the vector requires and the adapter must list, but does not."""
    listed: Collection[str] = getattr(adapter, "capabilities", frozenset())
    return sorted((vector.requires & CAPABILITIES).difference(listed))


def case_of(vector: Vector) -> Case:
    """Return what the adapter may see, all of it a copy that it may change."""
    return Case(
        id=vector.id,
        operator=vector.operator,
        requires=vector.requires,
        attributes=deepcopy(vector.attributes),
        inputs={name: to_numpy(tensor) for name, tensor in vector.inputs.items()},
        outputs=dict(vector.outputs),
        desc=deepcopy(vector.desc),
        feature_level=vector.feature_level,
    )


def _judge_refusal(vector: Vector, violation: SpecViolation) -> Outcome:
    expect = vector.expect
    if not isinstance(expect, ExpectedError):
        return Outcome("fail", (f"refused a call that keeps every rule: {violation}",))
    answered = (violation.code, violation.field)
    if answered == (expect.code, expect.field):
        return EXACT
    if answered in expect.also:
        return Outcome("permitted", (f"refused with {violation}; {_wanted(expect)}",))
    return Outcome("fail", (f"refused with {violation}; {_wanted(expect)}",))


def _wanted(expect: ExpectedError) -> str:
    return f"must be refused with {expect.code} on {expect.field}"
