"""Rules of QUANTIZED_LINEAR_CONVOLUTION, of calls and of descs, and its tensor support tables."""

from ...format.tensors import count
from .._shared import convolution_rules as of_windows
from .._shared import quantized_convolution_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found, Violation, same_counts
from .._shared.tables import Tables

CLAUSES = shared.clauses("QLC")
UNBREAKABLE = shared.unbreakable("QLC")
DESC_CLAUSES = {
    **of_windows.desc_clauses(
        " ".join((*of_windows.TYPES, *of_windows.SINGLE, *of_windows.PER_CHANNEL))
    ),
    "same-dimension-count": "Filter, bias and output have the DimensionCount of the input.",
    "bias-channels": "BiasTensor is {1, K, 1, 1} for K output channels, {1, K, 1} with three"
    " dimensions.",
}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check a quantized convolution."""
    shared.check(attributes, inputs, outputs)


def desc_sizes(inputs: Inputs, outputs: Outputs) -> dict[str, tuple[int, ...]]:
    """Return {1, K, 1, 1} for a bias, whatever rank a call gives it, and the parameters' sizes."""
    sizes = of_windows.desc_sizes(inputs, outputs)
    if "BiasTensor" in inputs:
        rank = len(outputs["OutputTensor"].sizes)
        sizes["BiasTensor"] = (1, count(inputs["BiasTensor"].sizes), *[1] * (rank - 2))
    return sizes


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_counts("qconv", desc, "FilterTensor BiasTensor OutputTensor")
    yield from of_windows.check_convolution("qconv", desc)
    bias, kernel = desc["BiasTensor"], desc["FilterTensor"]
    is_comparable = bias is not None and kernel is not None
    if is_comparable and list(bias["Sizes"]) != of_windows.channel_sizes(
        kernel, len(bias["Sizes"])
    ):
        yield Violation("qconv-bias-channels", "sizes", "BiasTensor")


TABLES: Tables = {
    "2_1": shared.rows(4, 4, 4),
    "4_0": shared.rows(3, 3, 1),
    "5_2": shared.rows(3, 1, 1),
}
