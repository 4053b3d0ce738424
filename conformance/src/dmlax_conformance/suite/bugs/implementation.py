"""An implementation of all operators that is correct until one of its steps is replaced."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import SpecViolation, Unsupported
from ...format.tensors import from_numpy
from ...operators import OPERATORS
from ...operators.answer_desc import requests
from ...operators.desc_rules import Violation, violations
from ...operators.descs import tensor_descs
from ...operators.rules import RULES
from ..adapter import Case
from .convolution import IntegerConvolution, QuantizedConvolution, Requantize, Sums
from .element_wise import Dequantize, Quantize
from .layout import Layout
from .nonzero import Nonzero
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
    """An adapter; a bug is `replace(implementation, step=...)`."""

    nonzero: Nonzero = field(default_factory=Nonzero)
    sums: Sums = field(default_factory=Sums)
    requantize: Requantize = field(default_factory=Requantize)
    quantize: Quantize = field(default_factory=Quantize)
    dequantize: Dequantize = field(default_factory=Dequantize)
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
            outputs = {} if found else self._computed(call_of(case, self.layout), case)
        if case.desc is None:
            return outputs
        named = tensor_descs(case.operator, case.desc, "outputs")
        return {name: self.layout.scatter(named[name], own) for name, own in outputs.items()}

    def _computed(self, call: Call, case: Case) -> Outputs:
        by_prefix: dict[str, Callable[[Call], Outputs]] = {
            "nonzero": self.nonzero,
            "intconv": IntegerConvolution(self.sums),
            "qconv": QuantizedConvolution(self.sums, self.requantize),
            "quantize": self.quantize,
            "dequantize": self.dequantize,
        }
        compute = by_prefix[OPERATORS[case.operator].prefix]
        return self.finish(compute(self.read(call)), case)
