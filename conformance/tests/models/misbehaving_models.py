"""Implementations of whole models that hang, end, or answer in a wrong form."""

import os
import time
from typing import Any

import numpy as np

from dmlax_conformance.adapters.models.oracle import Oracle
from dmlax_conformance.models.adapter import ModelCase


class Hangs(Oracle):
    """Answers one model, and hangs at another."""

    def run(self, case: ModelCase, variant: str) -> dict[str, Any]:
        """Hang."""
        if case.model == "depthwise":
            time.sleep(3600)
        return super().run(case, variant)


class Ends(Oracle):
    """Ends the process at one model."""

    def run(self, case: ModelCase, variant: str) -> dict[str, Any]:
        """End."""
        if case.model == "depthwise":
            os._exit(0)
        return super().run(case, variant)


class Changed(Oracle):
    """The oracle, whose answer a subclass changes."""

    def run(self, case: ModelCase, variant: str) -> dict[str, Any]:
        """Answer in a wrong form."""
        return self.change(case, super().run(case, variant))  # type: ignore[no-any-return]

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change an answer."""
        return answer


class WrongSizes(Changed):
    """Drops the first axis of a tensor."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return {**answer, "average": answer["average"][0]}


class WrongDtype(Changed):
    """Widens a tensor."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return {**answer, "average": answer["average"].astype("int32")}


class Missing(Changed):
    """Forgets an inner tensor."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return {name: array for name, array in answer.items() if name != "average"}


class NoOutputs(Changed):
    """Forgets the outputs."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return {name: array for name, array in answer.items() if name not in case.outputs}


class Unasked(Changed):
    """Answers a tensor that the model lacks."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return {**answer, "other": np.zeros(1)}


class Ragged(Changed):
    """Answers lists of several lengths."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return {**answer, "average": [[1], [1, 2]]}


class NoMapping(Changed):
    """Answers a list."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return list(answer.values())


class Exits(Changed):
    """Exits."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        raise SystemExit(0)


class OutputsAlone(Changed):
    """Has no inner tensors."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        return {name: answer[name] for name in case.outputs}


class SpoilsItsInputs(Changed):
    """Changes what it was given."""

    def change(self, case: ModelCase, answer: Any) -> Any:
        """Change."""
        for array in case.inputs.values():
            array[...] = np.zeros((), array.dtype)
        return answer
