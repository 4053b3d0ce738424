"""A mutant: the oracle with one step replaced."""

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt

from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.format import descs
from dmlax_conformance.format.tensors import Tensor, from_numpy, to_numpy
from dmlax_conformance.format.vectors import ExpectedError, Request, Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.calls import RULES
from dmlax_conformance.oracle.descriptors import Violation, requests, tensor_descs, violations
from dmlax_conformance.runner.adapter import Case
from dmlax_conformance.runner.compare import compare_outputs

Array = npt.NDArray[Any]
Violations = Sequence[Violation]

VALUES, REFUSALS, DESCS = "values", "refusals", "descs"  # groups of mutants
KEPT = "keep"  # the step that changes a call by the one before it


class Call(NamedTuple):
    """One call or desc: every input in its logical sizes."""

    attributes: Mapping[str, Any]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Request]


class Mutant(NamedTuple):
    """An oracle with one step replaced.

    The step `refuse` changes the broken rules, `read` the call, and `keep` the call by the one
    before it. The name of a function of the oracle replaces that function.
    """

    id: str
    operator: str
    clause: tuple[str, ...]
    group: str
    step: str
    change: Any

    def concerns(self, vector: Vector) -> bool:
        """Return whether a vector is about the mutant's clauses, and a call or a desc as it is."""
        is_desc = vector.desc is not None
        is_kind = {DESCS: is_desc, REFUSALS: not is_desc}.get(self.group, True)
        return is_kind and not {*self.clause}.isdisjoint(vector.clause)


class Subject(NamedTuple):
    """A vector, its case, the rules that the case breaks, and the case right before it."""

    vector: Vector
    case: Case
    broken: Violations
    earlier: Case | None = None


def mutant(operator: str, name: str, clause: str, group: str, step: str, change: Any) -> Mutant:
    """Return a mutant; its id begins with the operator's prefix."""
    label = f"{OPERATORS[operator].prefix}-{name}".replace("_", "-").lower()
    return Mutant(label, operator, tuple(clause.split()), group, step, change)


def broken_rules(case: Case) -> Violations:
    """Return the rules that a desc breaks, or the first that a call breaks."""
    if case.desc is not None:
        return violations(case.operator, case.desc, case.feature_level or "")
    inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
    try:
        RULES[case.operator](case.attributes, inputs, case.outputs)
    except SpecViolation as violation:
        return [Violation("", violation.code, violation.field)]
    return []


def is_failed(changed: Mutant | None, subject: Subject) -> bool:
    """Return whether a vector fails a mutant, or the oracle itself."""
    (vector, case, broken, earlier), expect = subject, subject.vector.expect
    is_refusing = changed is not None and changed.step == "refuse"
    left = changed.change(case, broken) if changed and is_refusing else broken
    if changed and left == broken and (broken or is_refusing):
        return False
    if left or isinstance(expect, ExpectedError):
        answered = [violation[1:] for violation in left[:1]]
        wanted = (expect[:2], *expect.also) if isinstance(expect, ExpectedError) else ()
        return not {*answered} & {*wanted}
    call = _call_of(case)
    try:
        with np.errstate(all="ignore"):
            if changed and changed.step in ("read", KEPT):
                if changed.step == KEPT and earlier is None:
                    return False
                given = [_call_of(earlier)] if earlier and changed.step == KEPT else []
                read = changed.change(*given, call)
                return read != call and _is_wrong(vector, _computed(case, read))
            return _is_wrong(vector, _computed(case, call, changed))
    except (AssertionError, ArithmeticError, LookupError, ValueError):
        return True  # without an answer


def _call_of(case: Case) -> Call:
    """Return a case that keeps every rule as a call; buffers of a desc are gathered."""
    inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
    if case.desc is None:
        return Call(case.attributes, inputs, case.outputs)
    inputs = {name: descs.gather(case.desc[name], held) for name, held in inputs.items()}
    return Call(case.desc, inputs, requests(case.operator, case.desc))


def _computed(case: Case, call: Call, changed: Mutant | None = None) -> dict[str, Array]:
    """Return what the oracle computes, perhaps with one of its functions replaced."""
    place, _, name = changed.step.rpartition(".") if changed else ("", "", "")
    compute = OPERATORS[case.operator].compute
    if changed and place:
        owner = resolve_name(f"dmlax_conformance.oracle.{place}")
        with mock.patch.object(owner, name, changed.change(getattr(owner, name))):
            tensors = compute(*call)
    else:
        tensors = compute(*call)
    if case.desc is not None:
        wanted = tensor_descs(case.operator, case.desc, "outputs")
        tensors = {k: descs.scatter(wanted[k], own.words, 0) for k, own in tensors.items()}
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}


def _is_wrong(vector: Vector, outputs: Mapping[str, Array]) -> bool:
    expect: Any = vector.expect
    return compare_outputs(expect, outputs, vector.desc).verdict == "fail"
