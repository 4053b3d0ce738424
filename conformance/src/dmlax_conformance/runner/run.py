"""Giving vectors to an adapter and judging what comes back."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import AdapterFailure, Malformed, NotStartable, SpecViolation, Unsupported
from ..format import limits, vectors
from ..format.tensors import to_numpy
from ..format.vectors import ExpectedError, Vector
from ..texts import counted, of_error, place_of, text_of
from .adapter import Adapter, Array, Case
from .compare import EXACT, Outcome, compare_outputs
from .program import Asked, Plan, Program, Reply

VERDICTS = ("exact", "permitted", "fail", "error", "expected", "unsupported")
PASSED = frozenset({"exact", "permitted"})
FAILED = frozenset({"fail", "error"})
CAPABILITIES = frozenset({"descriptors", "strides", "large", "requantization"})
# kinds of failures, the worst first
KINDS = ("wrong value", "error", "wrong refusal", "unproved answer")
REFUSED = "refused a call that keeps every rule"
BESIDE = "right, but counts only beside"
MOST_OUTPUTS = 16  # a report keeps at most these
LARGEST_KEPT = 1 << 24  # bytes of one of them
T = TypeVar("T")


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
    def kind(self) -> str:
        """One of `KINDS`, of a failure."""
        return kind_of(self.verdict, self.vector.is_valid, self.outcome.details)


def kind_of(verdict: str, is_valid: bool, details: Sequence[str]) -> str:
    """Return the kind of a failure; a valid call that is refused is a wrong refusal, too."""
    reason = "".join(details[:1])
    if verdict == "error":
        return "error"
    if reason.startswith(BESIDE):
        return "unproved answer"
    is_answered = is_valid and not reason.startswith(REFUSED)
    return "wrong value" if is_answered else "wrong refusal"


def totals(kinds: Counter[str]) -> str:
    """Return the numbers of failures by kind; that of unproved answers only if there are any."""
    shown = [kind for kind in KINDS if kinds[kind] or kind != KINDS[-1]]
    return ", ".join(counted(kinds[kind], kind) for kind in shown)


def worst_first(kind: str, is_valid: bool) -> tuple[int, bool]:
    """Return a key that sorts failures by kind, and valid calls before those to be refused."""
    return KINDS.index(kind), not is_valid


def in_turns(failures: Iterable[T], rank: Callable[[T], Any], name: Callable[[T], str]) -> list[T]:
    """Sort failures by rank; in a rank the operators take turns, so that each is seen early."""
    turns = Counter[Any]()

    def key(failure: T) -> tuple[Any, int]:
        place = rank(failure), name(failure)
        turns[place] += 1
        return place[0], turns[place]

    return sorted(failures, key=key)


def run(
    adapter: Adapter, suite: Iterable[Vector], variants: Iterable[str], jobs: int = 1
) -> Iterator[Result]:
    """Yield one result for each vector in each variant, in order, `jobs` at a time."""
    given = cases(adapter, suite, variants)
    plans = (_questions(adapter, *case) for case in given)
    results: dict[int, Result] = {}
    due = 0
    for plan in _answers(adapter, plans, jobs):
        vector, variant = given[plan.index]
        outcome = _judged(adapter, vector, variant, plan.replies)
        results[plan.index] = Result(vector, variant, outcome, plan.seconds)
        while due in results:
            yield results.pop(due)
            due += 1


def cases(
    adapter: Adapter, suite: Iterable[Vector], variants: Iterable[str]
) -> list[tuple[Vector, str]]:
    """Return every vector with every variant.

    Descs are given only to variants that take them. If none does, every variant declines them.
    """
    names = tuple(variants)
    for_descs = [name for name in names if _takes_descs(adapter, name)] or names
    return [
        (vector, name)
        for vector, name in product(suite, names)
        if vector.desc is None or name in for_descs
    ]


def _takes_descs(adapter: Adapter, variant: str) -> bool:
    listed: Collection[str] | None = getattr(adapter, "desc_variants", None)
    return listed is None or variant in listed


def before(vector: Vector) -> list[Vector]:
    """Return the vectors that run right before a vector, in the same process."""
    chain: list[Vector] = []
    while vector.after is not None:
        earlier = _in_file(vector.file).get(vector.after)
        if earlier is None or earlier in chain:
            raise Malformed(f"{vector.id}/after", f"no chain from {vector.after}", str(vector.file))
        vector = earlier
        chain.insert(0, vector)
    return chain


@cache
def _in_file(path: Path) -> dict[str, Vector]:
    return {vector.id: vector for vector in vectors.load(path)}


def variants_of(adapter: Adapter, asked: str | None) -> tuple[str, ...]:
    """Return the variant asked for, all of them, or those that the adapter runs usually."""
    if asked is None:
        usual: tuple[str, ...] = getattr(adapter, "usual_variants", adapter.variants)
        return usual
    if asked not in ("all", *adapter.variants):
        raise NotStartable(f"{adapter.name} has no variant {asked}")
    return adapter.variants if asked == "all" else (asked,)


# -- asking ----------------------------------------------------------------------------------------


def _questions(adapter: Adapter, vector: Vector, variant: str) -> list[Asked]:
    """Return what is asked about a vector: those before it, it, and the one that it counts with."""
    if why_declined(adapter, vector, variant):
        return []
    chain = [*before(vector), vector, *([vector.paired_with] if vector.paired_with else [])]
    is_far = isinstance(adapter, Program)
    return [
        (case_of(one, keeps_recipes=is_far), variant)
        for one in chain
        if one is vector or not why_declined(adapter, one, variant)
    ]


def _answers(adapter: Adapter, plans: Iterable[Sequence[Asked]], jobs: int = 1) -> Iterator[Plan]:
    """Ask a program, or an object of this process in turn."""
    if isinstance(adapter, Program):
        yield from adapter.answers(plans, jobs)
        return
    for index, asked in enumerate(plans):
        start = time.perf_counter()
        replies = [reply(adapter, *question) for question in asked]
        yield Plan(index, asked, dict(enumerate(replies)), time.perf_counter() - start)


def reply(adapter: Adapter, case: Case, variant: str) -> Reply:
    """Return the outputs for a case, or what is raised instead."""
    try:
        return adapter.run(case, variant)
    except Exception as error:
        return error


def why_declined(adapter: Adapter, vector: Vector, variant: str) -> str:
    """Return why a vector is not given to an adapter at all, which is unsupported then."""
    operators: Collection[str] | None = getattr(adapter, "operators", None)
    if operators is not None and vector.operator not in operators:
        return f"{adapter.name} does not claim {vector.operator}"
    listed: Collection[str] = getattr(adapter, "capabilities", frozenset())
    if missing := sorted((vector.requires & CAPABILITIES).difference(listed)):
        return f"needs {' and '.join(missing)}"
    if vector.desc is not None and not _takes_descs(adapter, variant):
        return f"{variant} takes no descs"
    if vector.memory and vector.memory > limits.memory():
        reason = f"needs {vector.memory} bytes, more than {limits.memory()}"
        return f"{reason}; {limits.MEMORY} sets this"
    return ""


def case_of(vector: Vector, keeps_recipes: bool = False) -> Case:
    """Return what the adapter may see, all of it a copy that it may change.

    Sparse inputs are made, unless they stay recipes on their way to a child.
    """
    inputs: dict[str, Any] = {
        name: tensor if keeps_recipes and tensor.is_sparse else to_numpy(tensor)
        for name, tensor in vector.inputs.items()
    }
    return Case(
        id=vector.id,
        operator=vector.operator,
        requires=vector.requires,
        attributes=deepcopy(vector.attributes),
        inputs=inputs,
        outputs=dict(vector.outputs),
        desc=deepcopy(vector.desc),
        feature_level=vector.feature_level,
    )


# -- judging ---------------------------------------------------------------------------------------


def judge(adapter: Adapter, vector: Vector, variant: str) -> Outcome:
    """Return the verdict on one vector in one variant."""
    (plan,) = _answers(adapter, [_questions(adapter, vector, variant)])
    return _judged(adapter, vector, variant, plan.replies)


def judge_alone(
    adapter: Adapter, vector: Vector, variant: str, case: Case | None = None
) -> Outcome:
    """Return the verdict on one vector in one variant, whatever becomes of any other.

    The vector's case may be given, where many adapters answer it.
    """
    reason = why_declined(adapter, vector, variant)
    if reason:
        return Outcome("unsupported", (reason,))
    return _verdict(vector, reply(adapter, case or case_of(vector), variant))


def _judged(adapter: Adapter, vector: Vector, variant: str, replies: Sequence[Reply]) -> Outcome:
    """Return the verdict on a vector, and on the one paired with it, if any.

    A vector that zeros answer rightly proves nothing alone.
    """
    if not replies:
        return Outcome("unsupported", (why_declined(adapter, vector, variant),))
    other = vector.paired_with
    if other is None:
        return _verdict(vector, replies[-1])
    reason = why_declined(adapter, other, variant)
    outcome = _verdict(vector, replies[-1 if reason else -2])
    if outcome.verdict not in PASSED:
        return outcome
    beside = Outcome("unsupported", (reason,)) if reason else _verdict(other, replies[-1])
    if beside.verdict in PASSED:
        return outcome
    verdict = "unsupported" if beside.verdict == "unsupported" else "fail"
    reason = f"{BESIDE} {other.id}: {beside.verdict}"
    return Outcome(verdict, (reason, *beside.details), outcome.answer)


def _verdict(vector: Vector, answer: Reply) -> Outcome:
    if isinstance(answer, Unsupported):
        return Outcome("unsupported", (text_of(answer),))
    if isinstance(answer, SpecViolation):
        return _judge_refusal(vector, answer)
    if isinstance(answer, AdapterFailure):
        return Outcome("error", (text_of(answer), *answer.details))
    if isinstance(answer, Exception):
        return Outcome("error", (of_error(answer), place_of(answer)))
    if isinstance(vector.expect, ExpectedError):
        return Outcome("fail", (f"accepted; {_wanted(vector.expect)}",), _kept(answer))
    outcome = compare_outputs(vector.expect, answer, vector.desc)
    return outcome if outcome == EXACT else replace(outcome, answer=_kept(answer))


def _kept(answer: Reply) -> dict[str, Array]:
    """Return the outputs for a report; large ones without elements."""
    if not isinstance(answer, dict):
        return {}
    arrays = {str(name): np.asarray(answer[name]) for name in islice(answer, MOST_OUTPUTS)}
    for name, array in arrays.items():
        if array.nbytes > LARGEST_KEPT:
            arrays[name] = np.broadcast_to(np.zeros((), array.dtype), array.shape)
    return arrays


def _judge_refusal(vector: Vector, violation: SpecViolation) -> Outcome:
    expect = vector.expect
    if not isinstance(expect, ExpectedError):
        return Outcome("fail", (f"{REFUSED}: {violation}",))
    answered = (violation.code, violation.field)
    if answered == (expect.code, expect.field):
        return EXACT
    verdict = "permitted" if answered in expect.also else "fail"
    return Outcome(verdict, (f"refused with {violation}; {_wanted(expect)}",))


def _wanted(expect: ExpectedError) -> str:
    return f"must be refused with {expect.code} on {expect.field}"
