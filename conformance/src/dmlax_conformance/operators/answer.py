"""The answer of an operator to a call: check the rules, then compute."""

from . import OPERATORS
from ._shared.call_rules import Attributes, Inputs, Outputs
from ._shared.operator import Answer

__all__ = ["Answer", "Inputs", "answer", "compute"]


def answer(operator: str, attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the output tensors, or raise `SpecViolation`."""
    OPERATORS[operator].check(attributes, inputs, outputs)
    return compute(operator, attributes, inputs, outputs)


def compute(operator: str, attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the output tensors of a call that keeps the rules."""
    return OPERATORS[operator].compute(attributes, inputs, outputs)
