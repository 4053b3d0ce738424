"""A few plain calls, to tell a mistake of an adapter from one of the operator behind it."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ..errors import Unsupported
from ..format.vectors import ExpectedError, Vector, hint
from ..texts import of_error, printable
from .adapter import Adapter, Case
from .run import PASSED, judge_alone, reply

ADAPTER, OPERATOR, NEITHER = "adapter", "operator", "neither"
UNKNOWN = Case("unknown", "no_such_operator", frozenset(), {}, {}, {})


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


class Smoke(NamedTuple):
    """A call that any implementation gets right, and one that breaks a single rule."""

    plain: Vector
    broken: Vector


def smokes(suite: Sequence[Vector]) -> list[Smoke]:
    """Return for each operator its smallest call that another one breaks a rule of."""
    usual = [v for v in suite if v.desc is None and not v.requires and v.paired_with is None]
    plain = {vector.id: vector for vector in usual if vector.is_valid}
    chosen: dict[str, Smoke] = {}
    for broken in usual:
        twin = plain.get(broken.base or "")
        if twin is not None and not broken.is_valid:
            smoke = Smoke(twin, broken)
            chosen[twin.operator] = min(chosen.get(twin.operator, smoke), smoke, key=_order)
    return list(chosen.values())


def _order(smoke: Smoke) -> tuple[bool, int, str, str]:
    """Prefer rules about known data types, then small calls; names decide between equals."""
    assert isinstance(smoke.broken.expect, ExpectedError)
    sizes = [len(tensor.words) for tensor in smoke.plain.inputs.values()]
    is_type = smoke.broken.expect.code == "data_type"
    return is_type, sum(sizes), smoke.plain.id, smoke.broken.id


def findings(
    adapter: Adapter, suite: Sequence[Vector], valid_only: bool = False
) -> Iterator[Finding]:
    """Check an adapter that has started, in every variant; perhaps with valid calls alone."""
    calls, declared = smokes(suite), getattr(adapter, "operators", None)
    yield _introduction(adapter, [smoke.plain.operator for smoke in calls], declared)
    answered = 0
    for variant in adapter.variants:
        if declared is None:
            yield _unknown(adapter, variant)
        for smoke in calls:
            if declared is not None and smoke.plain.operator not in declared:
                continue
            checks = list(_operator(adapter, smoke, variant, valid_only))
            answered += len(checks) > 1
            yield from checks
    if not answered:
        yield Finding("all operators", ADAPTER, "declines every plain call")


def summary(findings: Sequence[Finding]) -> str:
    """Return what to mend first."""
    layers = {finding.layer for finding in findings}
    if ADAPTER in layers:
        return "The adapter is at fault: mend it before you trust any verdict."
    if OPERATOR in layers:
        return "The adapter is fine; the operator is at fault."
    return "All fine: run the suite."


def _introduction(
    adapter: Adapter, known: Sequence[str], declared: Collection[str] | None
) -> Finding:
    strange = sorted({*(declared or ())}.difference(known))
    if strange:
        near = hint(strange[0], known)
        why = f"declares {', '.join(strange)}, which no vector is about{near}"
        return Finding("start", ADAPTER, why)
    if not adapter.variants:
        return Finding("start", ADAPTER, "has no variants")
    number = len(known) if declared is None else len({*declared})
    what = f"{number} of {len(known)} operators" if declared is not None else "operators: any"
    return Finding("start", None, f"{adapter.name} with {', '.join(adapter.variants)}; {what}")


def _unknown(adapter: Adapter, variant: str) -> Finding:
    about = f"an unknown operator [{variant}]"
    wanted = "must be declined as unsupported unless the adapter declares its operators"
    answer = reply(adapter, UNKNOWN, variant)
    if isinstance(answer, Unsupported):
        return Finding(about, None, f"declined: {answer}")
    if isinstance(answer, Exception):
        details = of_error(answer), *getattr(answer, "details", ())
        return Finding(about, ADAPTER, "; ".join((wanted, *details)))
    return Finding(about, ADAPTER, f"{wanted}, but was answered")


def _operator(adapter: Adapter, smoke: Smoke, variant: str, valid_only: bool) -> Iterator[Finding]:
    """Call twice, break a rule, and call again; an answer may depend on nothing before it."""
    about = f"{smoke.plain.operator} [{variant}]"
    is_declared = getattr(adapter, "operators", None) is not None
    layer, why = _judged(adapter, smoke.plain, variant)
    if layer == NEITHER:
        what = "declares it but declines a plain call" if is_declared else "declined"
        yield Finding(about, ADAPTER if is_declared else None, f"{what}: {why}")
        return
    yield Finding(f"{about} plain call", layer, why)
    if layer is None:
        yield Finding(f"{about} the same again", *_again(adapter, smoke, variant))
    if valid_only:
        return
    blamed, reason = _judged(adapter, smoke.broken, variant)
    refusal = (None, f"declined: {reason}") if blamed == NEITHER else (blamed, reason)
    yield Finding(f"{about} a broken rule", *refusal)
    if layer is None:
        yield Finding(f"{about} after a broken rule", *_again(adapter, smoke, variant))


def _judged(adapter: Adapter, vector: Vector, variant: str) -> tuple[str | None, str]:
    """Return the layer at fault, if any, and why; a call that is declined is the fault of none."""
    outcome = judge_alone(adapter, vector, variant)
    why = "; ".join(outcome.details)
    if outcome.verdict in PASSED:
        return None, "right" if vector.is_valid else "refused"
    if outcome.verdict in ("unsupported", "error"):
        return NEITHER if outcome.verdict == "unsupported" else ADAPTER, why
    is_refused = outcome.answer is None
    if vector.is_valid:
        forms = {name: (x.dtype.name, x.shape) for name, x in (outcome.answer or {}).items()}
        return OPERATOR if is_refused or forms == vector.outputs else ADAPTER, why
    return ADAPTER if is_refused else OPERATOR, why


def _again(adapter: Adapter, smoke: Smoke, variant: str) -> tuple[str | None, str]:
    layer, why = _judged(adapter, smoke.plain, variant)
    if layer is None:
        return None, why
    return ADAPTER, f"right at first, but now: {'declined: ' * (layer == NEITHER)}{why}"
