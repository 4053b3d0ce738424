"""Value classes and structures of QUANTIZED_LOOKUP."""

from typing import Any

import numpy as np

from ...format.tensors import DTYPES, to_numpy
from .._shared.cross import ELEMENTS as ELEMENTS_MEET
from .._shared.cross import Array, Cross, Meeting, each_at, impossible
from .._shared.output_structures import ELEMENTS, TYPES, OutputView, at_ranks


class View(OutputView):
    """The parts of a call that predicates read: the place in the table of each element."""

    @property
    def places(self) -> Array:
        """The place of each entry, from 0."""
        x = to_numpy(self.vector.inputs["InputTensor"]).reshape(-1).astype(np.int64)
        return np.asarray(x - DTYPES[self.dtype("InputTensor")].low)


def _end(name: str) -> Any:
    """Return whether an entry is an end of the range of its type."""
    return lambda view: view.expected == getattr(DTYPES[view.output], name)


CLASSES: dict[str, Any] = {
    "the first entry": lambda view: view.places == 0,
    "the last entry": lambda view: view.places == 255,
    "the last of the first half": lambda view: view.places == 127,
    "the first of the second half": lambda view: view.places == 128,
    "in the first half": lambda view: view.places < 128,
    "in the second half": lambda view: view.places >= 128,
    "an odd place": lambda view: view.places % 2 == 1,
    "beyond 16 places": lambda view: view.places >= 16,
    "the highest value": _end("high"),
    "the lowest value": _end("low"),
    "a negative value": lambda view: view.expected < 0,
    "beyond 7 bits": lambda view: view.expected > 127,
}
STRUCTURES: dict[str, Any] = {
    **ELEMENTS,
    **at_ranks(range(9)),
    **{
        f"rank {rank}, every axis varies": (
            lambda view, rank=rank: len(view.sizes) == rank and min(view.sizes) > 1
        )
        for rank in range(2, 9)
    },
    **{
        f"{dtype} input": (lambda view, dtype=dtype: view.dtype("InputTensor") == dtype)
        for dtype in ("int8", "uint8")
    },
    **TYPES,
}
IMPOSSIBLE = {
    **impossible(
        "UINT8 has no sign", *each_at(("a negative value", "*-without-sign"), ("uint8 output",))
    ),
    **impossible("INT8 has 7 bits and a sign", ("beyond 7 bits", "int8 output")),
    **impossible(
        "the other input has it", *each_at(("lookup-int8-*", "*-magnitudes"), ("uint8 input",))
    ),
    **impossible("the other input has it", ("lookup-uint8-*", "int8 input")),
}
MEETING = Meeting(
    ("in the * half", "the highest value", "the lowest value"),
    ("* input", "* output", "rank [2-8]"),
    ELEMENTS_MEET,
)
CROSS: Cross[View] = Cross(View, CLASSES, STRUCTURES, IMPOSSIBLE, (), MEETING)
