"""An implementation of an operator that is correct until one of its steps is replaced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import SpecViolation, Unsupported
from ...format.tensors import from_numpy
from ...operators.answer_desc import requests
from ...operators.desc_rules import Violation, violations
from ...operators.descs import tensor_descs
from ...operators.rules import RULES
from ..adapter import Case
from .layout import Layout
from .steps import Call, Outputs

Found = Sequence[Violation]


def broken_rules(case: Case) -> Found:
    """Return the rules that a desc breaks, or the first that a call breaks."""
    if case.desc is not None:
        assert case.feature_level is not None
        return violations(case.operator, case.desc, case.feature_level)
    inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
    try:
        RULES[case.operator](case.attributes, inputs, case.outputs)
    except SpecViolation as violation:
        return [Violation("", violation.code, violation.field)]
    return []


def call_of(case: Case, layout: Layout) -> Call:
    """Return a case that keeps every rule as a call; buffers of a desc are gathered."""
    if case.desc is None:
        return Call(case.attributes, case.inputs, case.outputs)
    given = {name: layout.gather(case.desc[name], held) for name, held in case.inputs.items()}
    return Call(case.desc, given, requests(case.operator, case.desc))


@dataclass(frozen=True)
class Implementation:
    """An adapter; a bug is `replace(implementation, step=...)`.

    The first of the operator's parts takes the call, each other one what the part before returned
    and the call; the last returns the outputs.
    """

    parts: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    refuse: Callable[[Case, Found], Found] = lambda case, found: found
    read: Callable[[Call], Call] = lambda call: call
    finish: Callable[[Outputs, Case], Outputs] = lambda outputs, case: outputs
    declines: Callable[[Case], bool] = lambda case: False
    name: str = "planted bug"
    variants: tuple[str, ...] = ("eager",)
    capabilities: frozenset[str] = frozenset({"descriptors", "strides"})

    def run(self, case: Case, variant: str) -> Outputs:
        """Answer one case."""
        return self.answer(case, broken_rules(case))

    def answer(self, case: Case, found: Found) -> Outputs:
        """Answer a case that breaks these rules; nothing, if only a bug accepts it."""
        if self.declines(case):
            raise Unsupported("declined")
        with np.errstate(all="ignore"):
            for broken in self.refuse(case, found):
                raise SpecViolation(broken.code, broken.field, broken.rule)
            outputs = {} if found else self.compute(call_of(case, self.layout), case)
        if case.desc is None:
            return outputs
        named = tensor_descs(case.operator, case.desc, "outputs")
        return {name: self.layout.scatter(named[name], own) for name, own in outputs.items()}

    def compute(self, call: Call, case: Case) -> Outputs:
        """Return the outputs of a call that keeps every rule."""
        read = self.read(call)
        first, *others = self.parts.values()
        found = first(read)
        for part in others:
            found = part(found, read)
        return self.finish(found, case)
