"""A few plain calls, to tell a mistake of an adapter from one of the operator behind it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import SpecViolation, Unsupported
from ..texts import of_error, printable
from .adapter import Adapter, Array, Case
from .runner import is_users
from .smoke_cases import UNKNOWN, Smoke, smokes

ADAPTER, OPERATOR = "adapter", "operator"


class Finding(NamedTuple):
    """One check: what it is about, which layer is at fault if any, and why."""

    about: str
    layer: str | None
    why: str

    def lines(self) -> list[str]:
        """Return what is printed."""
        head = f"{'WRONG' if self.layer else 'ok   '} {self.about}"
        why = printable(self.why)
        if self.layer is None:
            return [f"{head}: {why}"]
        return [head, *(f"        {line}" for line in (f"at fault: the {self.layer}", why))]


def findings(adapter: Adapter) -> Iterator[Finding]:
    """Check an adapter that has started, in every variant."""
    yield _introduction(adapter)
    answered = 0
    for variant in adapter.variants:
        yield _unknown(adapter, variant)
        for smoke in smokes():
            found = list(_operator(adapter, smoke, variant))
            answered += len(found) > 1
            yield from found
    if not answered:
        yield Finding("all operators", ADAPTER, "declines every plain call")


def summary(found: Sequence[Finding]) -> list[str]:
    """Return every finding, and what to mend first."""
    lines = [line for finding in found for line in finding.lines()]
    layers = {finding.layer for finding in found}
    if ADAPTER in layers:
        return [*lines, "The adapter is at fault: mend it before you trust any verdict."]
    if OPERATOR in layers:
        return [*lines, "The adapter is fine; the operator is at fault."]
    return [*lines, "All fine: run the suite."]


def _introduction(adapter: Adapter) -> Finding:
    known = {smoke.call.operator for smoke in smokes()}
    strange = sorted(set(getattr(adapter, "operators", known)) - known)
    if strange:
        return Finding("start", ADAPTER, f"claims {', '.join(strange)}, which no vector is about")
    if not adapter.variants:
        return Finding("start", ADAPTER, "has no variants")
    return Finding("start", None, f"{adapter.name} with {', '.join(adapter.variants)}")


def _unknown(adapter: Adapter, variant: str) -> Finding:
    about = f"an unknown operator [{variant}]"
    try:
        getattr(adapter, "ask", adapter.run)(UNKNOWN, variant)
    except Unsupported as reason:
        return Finding(about, None, f"declined: {reason}")
    except BaseException as error:
        return Finding(about, ADAPTER, f"must be declined as unsupported; {_raised(error)}")
    return Finding(about, ADAPTER, "must be declined as unsupported, but was answered")


def _operator(adapter: Adapter, smoke: Smoke, variant: str) -> Iterator[Finding]:
    """Call twice, break a rule, and call again; an answer may depend on nothing before it."""
    operator = smoke.call.operator
    about = f"{operator} [{variant}]"
    try:
        first = _fault(adapter, smoke, variant)
    except Unsupported as reason:
        claims = operator in getattr(adapter, "operators", ())
        why = f"claims it but declines a plain call: {reason}" if claims else f"declined: {reason}"
        yield Finding(about, ADAPTER if claims else None, why)
        return
    yield Finding(f"{about} plain call", *(first or (None, "right")))
    if first is None:
        yield Finding(f"{about} the same again", *_again(adapter, smoke, variant))
    yield Finding(f"{about} a broken rule", *_refusal(adapter, smoke, variant))
    if first is None:
        yield Finding(f"{about} after a broken rule", *_again(adapter, smoke, variant))


Fault = tuple[str | None, str]


def _fault(adapter: Adapter, smoke: Smoke, variant: str) -> Fault | None:
    """Return what is wrong with the answer to the plain call."""
    try:
        answer = adapter.run(smoke.call, variant)
    except Unsupported:
        raise
    except SpecViolation as violation:
        return OPERATOR, f"refuses a call that keeps every rule: {violation}"
    except BaseException as error:
        return ADAPTER, _raised(error)
    return _form(smoke.call, answer) or _values(smoke, answer)


def _again(adapter: Adapter, smoke: Smoke, variant: str) -> Fault:
    try:
        fault = _fault(adapter, smoke, variant)
    except Unsupported as reason:
        fault = ADAPTER, f"declined: {reason}"
    return (ADAPTER, f"right at first, but now: {fault[1]}") if fault else (None, "right")


def _form(case: Case, answer: Any) -> Fault | None:
    """Return what is wrong with an answer before its values are looked at."""
    if not isinstance(answer, Mapping):
        return ADAPTER, f"the answer is a {type(answer).__name__}, not a mapping"
    if answer.keys() != case.outputs.keys():
        return ADAPTER, f"answers {sorted(answer)} where {sorted(case.outputs)} are asked for"
    for name, asked in case.outputs.items():
        array = np.asarray(answer[name])
        if (array.dtype.name, array.shape) != asked:
            got = f"{array.dtype.name}{list(array.shape)}"
            return ADAPTER, f"{name} is {got}, not {asked.dtype}{list(asked.sizes)}"
    return None


def _values(smoke: Smoke, answer: Mapping[str, Any]) -> Fault | None:
    for name, expected in smoke.expected.items():
        rows = smoke.rows if name == "OutputCoordinatesTensor" else None
        got, wanted = np.asarray(answer[name])[:rows], expected[:rows]
        if not np.array_equal(got, wanted):
            return OPERATOR, f"{name} is {_shown(got)}, not {_shown(wanted)}"
    return None


def _refusal(adapter: Adapter, smoke: Smoke, variant: str) -> Fault:
    code, field = smoke.refusal
    wanted = f"must be refused with {code} on {field}"
    try:
        adapter.run(smoke.broken, variant)
    except SpecViolation as violation:
        if (violation.code, violation.field) == smoke.refusal:
            return None, "refused"
        return ADAPTER, f"{wanted}, not with {violation.code} on {violation.field}"
    except Unsupported as reason:
        return None, f"declined: {reason}"
    except BaseException as error:
        return ADAPTER, f"{wanted}; {_raised(error)}"
    return OPERATOR, f"accepted, but {wanted}"


def _raised(error: BaseException) -> str:
    """Return what an adapter raised, but for an interrupt by the user."""
    if is_users(error):
        raise error
    return "; ".join((of_error(error), *getattr(error, "details", ())))


def _shown(array: Array) -> str:
    return str(array.tolist())
