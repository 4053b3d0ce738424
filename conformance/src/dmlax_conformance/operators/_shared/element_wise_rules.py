"""Rules that both element-wise operators share, of calls and of descs, and their tables."""

from .call_rules import Inputs, Outputs, broadcasts, scale_values
from .desc_rules import Desc, Found, Violation, differing, same_counts
from .tables import Rows, row

DESC_CLAUSES = {
    "same-dimension-count": "Scale, zero point and output have the DimensionCount of the input.",
    "same-sizes": "Scale, zero point and output have the Sizes of the input; a stride of 0, not a"
    " size of 1, repeats.",
}


def check_parameters(inputs: Inputs) -> None:
    """Check that scale and zero point repeat to the input."""
    for name in ("ScaleTensor", "ZeroPointTensor"):
        if name in inputs:
            broadcasts(inputs[name].sizes, inputs["InputTensor"].sizes, name)
    scale_values(inputs, "ScaleTensor")


def desc_sizes(inputs: Inputs, outputs: Outputs) -> dict[str, tuple[int, ...]]:
    """Return that the parameters of a desc have the sizes of its input."""
    return dict.fromkeys(("ScaleTensor", "ZeroPointTensor"), inputs["InputTensor"].sizes)


def same_shape(p: str, desc: Desc) -> Found:
    """Check that all tensors have the sizes of the input."""
    names = "ScaleTensor ZeroPointTensor OutputTensor"
    yield from same_counts(p, desc, names)
    for name in differing(desc, names, "Sizes"):
        yield Violation(f"{p}-same-sizes", "sizes", name)


def element_wise(
    counts: tuple[int, int], source: str, scale: str, zero_point: str, result: str, kind: str
) -> Rows:
    """Return a table whose tensors have the same dimension counts."""
    return (
        row("InputTensor", "input", *counts, source),
        row("ScaleTensor", "input", *counts, scale),
        row("ZeroPointTensor", kind, *counts, zero_point),
        row("OutputTensor", "output", *counts, result),
    )
