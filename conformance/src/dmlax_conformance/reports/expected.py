"""Failures that are known: a strict file of `{"vector id[variant]": "reason"}`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import Malformed, WrongUsage, in_file
from ..format import limits, vectors
from ..runner import run as runner
from ..runner.adapter import Adapter
from ..runner.compare import Outcome
from ..runner.run import Result


@dataclass(frozen=True)
class Excused(Outcome):
    """A failure that the file gives a reason for; `was` is the verdict without the file."""

    was: str = "fail"
    reason: str = ""


def reasons(options: Any, adapter: Adapter) -> dict[str, str]:
    """Return the reasons for the failures that a command's options say are known."""
    if options.expected_failures is None:
        return {}
    cases = runner.cases(adapter, vectors.load_all(options.vectors), adapter.variants)
    try:
        return load(options.expected_failures, {key_of(v.id, variant) for v, variant in cases})
    except Malformed as error:
        raise WrongUsage(f"expected failures: {error}") from None


def load(path: Path, known: Collection[str]) -> dict[str, str]:
    """Return the reasons by key, or raise `Malformed`; `known` holds every key that can be run."""
    with in_file(path):
        value = vectors.parse(limits.read(path))
        if not isinstance(value, dict):
            raise Malformed("/", "is not an object of reasons")
        for key, reason in value.items():
            if key not in known:
                message = "is no id[variant] of this suite and implementation"
                raise Malformed(f"key {key!r}", message)
            if not isinstance(reason, str) or not reason.strip():
                raise Malformed(f"key {key!r}", "has no reason")
        return value


def key_of(name: str, variant: str) -> str:
    """Return how the file names one vector in one variant."""
    return f"{name}[{variant}]"


def apply(
    results: Iterable[Result], reasons: Mapping[str, str], bad: Collection[str]
) -> tuple[list[Result], list[str]]:
    """Excuse the failures that have a reason; complain about reasons for what did not fail."""
    excused, complaints = [], []
    for result in results:
        key = key_of(result.vector.id, result.variant)
        if key in reasons and result.verdict in bad:
            was = result.outcome
            outcome = Excused("expected", was.details, was.answer, was.verdict, reasons[key])
            result = replace(result, outcome=outcome)
        elif key in reasons:
            complaints.append(f"{key} is expected to fail, and is {result.verdict}")
        excused.append(result)
    return excused, complaints
