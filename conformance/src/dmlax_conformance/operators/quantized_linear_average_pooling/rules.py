"""Rules of QUANTIZED_LINEAR_AVERAGE_POOLING, of calls and of descs, and its table."""

from .._shared import pooling_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found, same_counts, same_types, type_clauses
from .._shared.tables import BYTES, Tables, dashed, row

CLAUSES = {
    **shared.average_clauses("AVG"),
    "AVG-10": "Window, strides, dilations and padding of either side shape the windows: an axis has"
    " (padded - ((window - 1) * dilation + 1)) / stride + 1 of them, rounded down.",
    "AVG-11": "A padded element is the input zero point. With IncludePadding n counts every element"
    " of the window, else those inside the image, so that it differs at the border.",
    "AVG-12": "Where n is 0, the result is the output zero point.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {
    **shared.result_clauses("AVG"),
    **dict.fromkeys(("AVG-11", "AVG-12"), "result"),
}


DESC_CLAUSES = {
    **type_clauses(shared.TYPES),
    **shared.WINDOW_CLAUSES,
    "same-dimension-count": "Input and output have the same DimensionCount.",
    **{
        f"{dashed(name)}-channels": f"{name} is one value, or one for each channel on axis 1 of 4"
        " or 5; with fewer dimensions the page leaves the axis open."
        for name in shared.PARAMETERS
    },
}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check input, windows and parameters."""
    shared.check_image(inputs)
    shared.check_windows(attributes, inputs)
    shared.check_parameters(inputs, outputs)


def desc_sizes(inputs: Inputs, outputs: Outputs) -> dict[str, tuple[int, ...]]:
    """Return {1} for each parameter without axes, which no desc has."""
    return {name: (1,) for name in shared.PARAMETERS if name in inputs and not inputs[name].sizes}


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_counts("avgpool", desc, "OutputTensor")
    yield from same_types("avgpool", desc, shared.TYPES)
    yield from shared.check_pool("avgpool", desc)
    yield from shared.check_channels("avgpool", desc)


TABLES: Tables = {
    "6_2": (
        row("InputTensor", "input", 4, 5, BYTES),
        row("InputScaleTensor", "input", 1, 5, "FLOAT32"),
        row("InputZeroPointTensor", "optional", 1, 5, BYTES),
        row("OutputScaleTensor", "input", 1, 5, "FLOAT32"),
        row("OutputZeroPointTensor", "optional", 1, 5, BYTES),
        row("OutputTensor", "output", 4, 5, BYTES),
    )
}
