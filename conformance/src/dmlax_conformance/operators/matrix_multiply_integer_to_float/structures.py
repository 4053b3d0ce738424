"""Value classes and structures of MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""

from functools import cached_property
from typing import Any

import numpy as np

from .._shared import floats
from .._shared import matmul_structures as shared
from .._shared.convolution_structures import MANY, has
from .._shared.cross import LINES, Array, Cross, Meeting, each_at, impossible
from .._shared.matmul_structures import MatmulView, repeats
from .sums import CLASSES, OF_BIAS, classes_of


class View(MatmulView):
    """The parts of a call that predicates read: what each sum is rounded from among them."""

    @cached_property
    def numbers(self) -> tuple[Array, ...]:
        """The sums, and the words of the scales and of the bias of each."""
        return (self.sums, *(self.each(n) for n in (shared.A_SCALE, shared.B_SCALE, shared.BIAS)))

    @cached_property
    def classes(self) -> dict[str, Array]:
        """The classes of each sum."""
        rows, inverse = np.unique(np.stack(self.numbers), axis=1, return_inverse=True)
        held = shared.BIAS in self.vector.inputs
        found = []
        for total, sa, sb, bias in rows.T.tolist():
            a, b = (floats.decode(word, "float32").value for word in (sa, sb))
            addend = floats.decode(bias, self.output) if held else None
            found.append(classes_of(total, a * b, addend, self.output))
        names = (*CLASSES, *OF_BIAS)
        masks = {name: np.array([name in each for each in found], bool) for name in names}
        return {name: mask[inverse.reshape(-1)] for name, mask in masks.items()}

    def errs(self, dtype: str) -> Array:
        """Return where a formula in a float type comes to another number."""
        totals, *words = self.numbers
        width = 16 if self.output == "float16" else 32
        held = words[2].astype(f"uint{width}").view(self.output)
        a, b = (w.astype(np.uint32).view(np.float32).astype(dtype) for w in words[:2])
        with np.errstate(all="ignore"):
            found = totals.astype(dtype) * (a * b) + held.astype(dtype)
            own = found.astype(self.output).view(f"uint{width}").astype(np.int64)
        is_nan = np.isnan(held) | np.isnan(found)
        return np.asarray((own != self.expected) & ~is_nan)


def _in(name: str) -> Any:
    return lambda view: view.classes[name]


VALUES: dict[str, Any] = {
    **{name: _in(name) for name in (*CLASSES, *OF_BIAS)},
    "float32 formula errs": lambda view: view.errs("float32"),
    "float64 formula errs": lambda view: view.errs("float64"),
}
STRUCTURES: dict[str, Any] = {
    **shared.STRUCTURES,
    "no bias": has(shared.BIAS, 0),
    "a bias": has(shared.BIAS, 1, MANY),
    **repeats("scale of A", shared.A_SCALE, False),
    **repeats("scale of B", shared.B_SCALE, False),
    "float32 output": lambda view: view.output == "float32",
    "float16 output": lambda view: view.output == "float16",
}
IMPOSSIBLE = {
    **impossible(
        "there is no bias",
        *each_at((*OF_BIAS, "floatmatmul-bias-*", "*-sign-of-bias"), ("no bias",)),
    ),
    **impossible(
        "it is rounded to that type",
        ("floatmatmul-through-float32", "float32 output"),
        ("floatmatmul-through-float16", "float16 output"),
    ),
}
OF_SUMS = tuple(
    f"floatmatmul-{name}*" for name in ("a-diff", "b-diff", "sums-", "pairs-", "products-")
)
OF_THEIR_OWN = ("floatmatmul-only-*", "floatmatmul-*-lost", "*-for-float16", "*-float32-sum")
MEETING = Meeting(
    ("rounded *", "subnormal", "overflows *"),
    ("*int8 A, *", "* output", "*zero point*", "*scale*", "*bias*", "A repeats", "B repeats"),
    LINES,
)
CROSS: Cross[View] = Cross(View, VALUES, STRUCTURES, IMPOSSIBLE, (*OF_SUMS, *OF_THEIR_OWN), MEETING)
