"""Failures that are known: a strict file of `{"vector id[variant]": "reason"}`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import Malformed, WrongUsage, in_file
from ..format import vectors
from ..suite import runner
from ..suite.adapter import Adapter
from ..suite.compare import Outcome
from ..suite.runner import Result


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
    known = {key_of(vector.id, variant) for vector, variant in cases}
    try:
        return load(options.expected_failures, known)
    except Malformed as error:
        raise WrongUsage(f"expected failures: {error}") from None


def load(path: Path, known: Collection[str]) -> dict[str, str]:
    """Return the reasons by key, or raise `Malformed`; `known` holds every key that can be run."""
    with in_file(path):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Malformed("file", str(error)) from None
        return _checked(vectors.parse(text), known)


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
            result = _excuse(result, reasons[key])
        elif key in reasons:
            complaints.append(f"{key} is expected to fail, and is {result.verdict}")
        excused.append(result)
    return excused, complaints


def _excuse(result: Result, reason: str) -> Result:
    own = result.outcome
    outcome = Excused("expected", own.details, own.answer, was=own.verdict, reason=reason)
    return Result(result.vector, result.variant, outcome, result.seconds)


def _checked(value: object, known: Collection[str]) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Malformed("/", "is not an object of reasons")
    for key, reason in value.items():
        if key not in known:
            raise Malformed(f"key {key!r}", "is no id[variant] of this suite and implementation")
        if not isinstance(reason, str) or not reason.strip():
            raise Malformed(f"key {key!r}", "has no reason")
    return value
