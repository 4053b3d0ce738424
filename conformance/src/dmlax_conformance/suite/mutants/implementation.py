"""An implementation of all five operators that is right until one of its steps is replaced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import SpecViolation, Unsupported
from ...format.tensors import from_numpy
from ...operators.answer_desc import requests
from ...operators.desc_rules import Violation, violations
from ...operators.descs import tensor_descs
from ...operators.rules import RULES
from ..adapter import Case
from . import convolution
from .convolution import Requantize, Sums
from .element_wise import Dequantize, Quantize
from .layout import Layout
from .nonzero import Nonzero
from .steps import Call, Outputs

Refusal = tuple[str, str]


def as_found(call: Call, refusal: Refusal | None) -> Refusal | None:
    """Return the code and field of the first broken rule unchanged."""
    return refusal


def all_found(case: Case, found: Sequence[Violation]) -> Sequence[Violation]:
    """Return the broken rules of a desc unchanged."""
    return found


def as_computed(outputs: Outputs, case: Case) -> Outputs:
    """Return the outputs unchanged."""
    return outputs


@dataclass(frozen=True)
class Implementation:
    """An adapter; a bug is `replace(implementation, step=...)`."""

    nonzero: Nonzero = field(default_factory=Nonzero)
    sums: Sums = field(default_factory=Sums)
    requantize: Requantize = field(default_factory=Requantize)
    quantize: Quantize = field(default_factory=Quantize)
    dequantize: Dequantize = field(default_factory=Dequantize)
    layout: Layout = field(default_factory=Layout)
    refuse: Callable[[Call, Refusal | None], Refusal | None] = as_found
    inspect: Callable[[Case, Sequence[Violation]], Sequence[Violation]] = all_found
    finish: Callable[[Outputs, Case], Outputs] = as_computed
    declines: Callable[[Case], bool] = lambda case: False
    name: str = "mutant"
    variants: tuple[str, ...] = ("eager",)
    capabilities: frozenset[str] = frozenset({"descriptors", "strides"})

    def run(self, case: Case, variant: str) -> Outputs:
        """Answer one case through the door that it names."""
        if self.declines(case):
            raise Unsupported("declined")
        with np.errstate(all="ignore"):
            return self._called(case) if case.desc is None else self._described(case)

    def _called(self, case: Case) -> Outputs:
        """Answer a call; one that only a bug accepts gets zeros, as accepting is the mistake."""
        call = Call(case.attributes, case.inputs, case.outputs)
        honest = _first_broken(case)
        refusal = self.refuse(call, honest)
        if refusal is not None:
            raise SpecViolation(*refusal)
        if honest is not None:
            return {k: np.zeros(v.sizes, v.dtype) for k, v in case.outputs.items()}
        return self.finish(self._compute(case.operator, call), case)

    def _described(self, case: Case) -> Outputs:
        """Answer a desc; one that only a bug accepts gets no outputs."""
        assert case.desc is not None
        assert case.feature_level is not None
        honest = violations(case.operator, case.desc, case.feature_level)
        for broken in self.inspect(case, honest):
            raise SpecViolation(broken.code, broken.field, broken.rule)
        if honest:
            return {}
        given = {k: self.layout.gather(case.desc[k], v) for k, v in case.inputs.items()}
        call = Call(case.desc, given, requests(case.operator, case.desc))
        outputs = self.finish(self._compute(case.operator, call), case)
        named = tensor_descs(case.operator, case.desc, "outputs")
        return {k: self.layout.scatter(named[k], v) for k, v in outputs.items()}

    def _compute(self, operator: str, call: Call) -> Outputs:
        doors: Mapping[str, Callable[[], Outputs]] = {
            "nonzero_coordinates": lambda: self.nonzero(call),
            "convolution_integer": lambda: convolution.integer(self.sums, call),
            "quantized_linear_convolution": lambda: convolution.quantized(
                self.sums, self.requantize, call
            ),
            "element_wise_quantize_linear": lambda: self.quantize(call),
            "element_wise_dequantize_linear": lambda: self.dequantize(call),
        }
        return doors[operator]()


def _first_broken(case: Case) -> Refusal | None:
    inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
    try:
        RULES[case.operator](case.attributes, inputs, case.outputs)
    except SpecViolation as violation:
        return violation.code, violation.field
    return None
