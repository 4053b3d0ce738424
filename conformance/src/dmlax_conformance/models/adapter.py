"""The interface of an implementation of whole models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .graph import Graph

Array = npt.NDArray[np.generic]
ARITHMETICS = ("float32", "exact")


@dataclass(frozen=True)
class ModelCase:
    """A model without the values of its tensors: all that an implementation may see.

    `file` is the ONNX file, and `graph` what it computes. `tensors` has the data type of each
    tensor to answer; an implementation that has no inner tensors may answer `outputs` alone.
    """

    model: str
    arithmetic: str
    file: bytes
    graph: Graph
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    tensors: Mapping[str, str]


class ModelAdapter(Protocol):
    """One implementation of whole models, in one or more variants.

    An attribute `arithmetics` names those that it has, if not both, and `usual_variants` the
    variants that run unless others are asked for.
    """

    name: str
    variants: tuple[str, ...]

    def run(self, case: ModelCase, variant: str) -> Mapping[str, Any]:
        """Return the tensors by name; raise `Unsupported` to decline the model."""
        ...
