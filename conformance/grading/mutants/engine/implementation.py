"""An implementation of an operator that is correct until a mutant replaces one of its steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.format import layout
from dmlax_conformance.format.tensors import from_numpy
from dmlax_conformance.oracle.calls import RULES
from dmlax_conformance.oracle.descriptors import Violation, requests, tensor_descs, violations
from dmlax_conformance.runner.adapter import Case

from .steps import Array, Call, Outputs

Desc = Mapping[str, Any]
Violations = Sequence[Violation]
Strides = Callable[[Desc], list[int]]


def gathered(desc: Desc, held: Array, strides: Strides = layout.strides_of) -> Array:
    """Return the elements of a buffer in the desc's sizes."""
    if layout.is_packed(desc):
        return held
    places = np.array(layout.offsets(desc["Sizes"], strides(desc)))
    return np.asarray(held[places % held.size].reshape(desc["Sizes"]))


def scattered(
    desc: Desc, array: Array, gap: int = 0, strides: Strides = layout.strides_of
) -> Array:
    """Return the buffer that holds these elements; `gap`, or NaN in its place, fills the gaps."""
    if layout.is_packed(desc) or array.shape != tuple(desc["Sizes"]):
        return array
    filling = np.nan if gap and array.dtype.kind == "f" else gap
    held = np.full(layout.buffer_length(desc), filling).astype(array.dtype)
    held[np.array(layout.offsets(desc["Sizes"], strides(desc))) % held.size] = array.reshape(-1)
    return held


def broken_rules(case: Case) -> Violations:
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


@dataclass(frozen=True)
class Implementation:
    """An implementation in steps; a mutant is `replace(implementation, step=...)`.

    The first of the operator's parts takes the call. Each later part takes the result of the part
    before it and the call. The last returns the outputs.
    """

    parts: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    from_buffer: Callable[[Desc, Array], Array] = gathered
    to_buffer: Callable[[Desc, Array], Array] = scattered
    refuse: Callable[[Case, Violations], Violations] = lambda case, broken: broken
    read: Callable[[Call], Call] = lambda call: call
    finish: Callable[[Outputs, Case], Outputs] = lambda outputs, case: outputs

    def answer(self, case: Case, broken: Violations) -> Outputs:
        """Answer a case that breaks these rules; nothing if only a mutant accepts it."""
        with np.errstate(all="ignore"):
            for violation in self.refuse(case, broken):
                raise SpecViolation(violation.code, violation.field, violation.rule)
            outputs = {} if broken else self.compute(self.call_of(case), case)
        if case.desc is None:
            return outputs
        descs = tensor_descs(case.operator, case.desc, "outputs")
        return {name: self.to_buffer(descs[name], y) for name, y in outputs.items()}

    def call_of(self, case: Case) -> Call:
        """Return a case that keeps every rule as a call; buffers of a desc are gathered."""
        if case.desc is None:
            return Call(case.attributes, case.inputs, case.outputs)
        inputs = {name: self.from_buffer(case.desc[name], x) for name, x in case.inputs.items()}
        return Call(case.desc, inputs, requests(case.operator, case.desc))

    def compute(self, call: Call, case: Case) -> Outputs:
        """Return the outputs of a call that keeps every rule."""
        read = self.read(call)
        first, *others = self.parts.values()
        result = first(read)
        for part in others:
            result = part(result, read)
        return self.finish(result, case)
