"""Rules that both element-wise operators share, of calls and of descs."""

from .call_rules import Inputs, broadcasts, scale_values
from .desc_rules import Desc, Found, Violation, differing, same_counts

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


def same_shape(p: str, desc: Desc) -> Found:
    """Check that all tensors have the sizes of the input."""
    names = "ScaleTensor ZeroPointTensor OutputTensor"
    yield from same_counts(p, desc, names)
    for name in differing(desc, names, "Sizes"):
        yield Violation(f"{p}-same-sizes", "sizes", name)
