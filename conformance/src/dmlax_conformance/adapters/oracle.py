"""The oracle as an implementation."""

from ..format.tensors import from_numpy, to_numpy
from ..oracle import OPERATORS
from ..oracle.calls import RULES, answer
from ..oracle.descriptors import answer_desc
from .base import Array, Case, Unsupported


class Oracle:
    """Answers from exact integers and fractions."""

    name = "oracle"
    variants: tuple[str, ...] = ("eager",)
    concurrent = True
    operators = tuple(OPERATORS)
    capabilities = frozenset({"descriptors", "strides", "requantization"})

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Compute the outputs, or raise what the rules raise."""
        if case.operator not in RULES:
            raise Unsupported(case.operator)
        inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
        if case.desc is None or case.feature_level is None:
            outputs = answer(case.operator, case.attributes, inputs, case.outputs)
        else:
            outputs = answer_desc(case.operator, case.desc, case.feature_level, inputs)
        return {name: to_numpy(tensor) for name, tensor in outputs.items()}
