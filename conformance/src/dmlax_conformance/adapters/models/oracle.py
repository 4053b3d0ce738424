"""The suite's own evaluator as an implementation."""

from ...format.tensors import from_numpy, to_numpy
from ...models.adapter import Array, ModelCase
from ...models.evaluate import FUNCTIONS, Functions, evaluate


class Oracle:
    """Evaluates the graph with one rounding an operator."""

    name = "oracle"
    variants: tuple[str, ...] = ("eager",)
    arithmetics: tuple[str, ...] = ("exact",)
    functions: Functions = FUNCTIONS

    def run(self, case: ModelCase, variant: str) -> dict[str, Array]:
        """Return every tensor."""
        inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
        found = evaluate(case.graph, inputs, self.functions)
        return {name: to_numpy(tensor) for name, tensor in found.items()}
