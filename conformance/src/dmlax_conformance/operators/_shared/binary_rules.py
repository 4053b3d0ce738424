"""Rules that the operators on two quantized tensors share, of calls and of descs."""

from itertools import zip_longest

from . import call_rules as calls
from .binary import broadcast_sizes
from .call_rules import Inputs, Outputs
from .desc_rules import Desc, Found, Violation, all_ones, differing, same_counts, same_types
from .desc_rules import type_clauses as of_types
from .tables import BYTES, Rows, dashed, row

TENSORS = ("ATensor", "BTensor", "OutputTensor")
SCALES = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
POINTS = ("AZeroPointTensor", "BZeroPointTensor", "OutputZeroPointTensor")
TYPES = dict(zip(POINTS, TENSORS, strict=True))
DESC_CLAUSES = {
    **of_types(TYPES),
    "same-dimension-count": "All tensors have the DimensionCount of ATensor.",
    "same-sizes": "BTensor and OutputTensor have the Sizes of ATensor; a stride of 0 repeats.",
    **{f"{dashed(name)}-one": f"{name} has only sizes of 1." for name in (*SCALES, *POINTS)},
}


def clauses(prefix: str, formula: str) -> dict[str, str]:
    """Return the clauses of a call."""
    texts = (
        f"The result is clamp(round({formula} / output scale) + output zero point) in real"
        " arithmetic, where a and b are (tensor - zero point) * scale.",
        "Rounding is to nearest, ties to even, and comes before the output zero point.",
        "The result is clamped to the full range of the output data type.",
        "A, B and the output are INT8 or UINT8, each on its own, as is the zero point of each;"
        " scales are FLOAT32.",
        "A and B repeat along sizes of 1 and missing leading sizes to the sizes of the output.",
        "A scale or zero point is one value, in any shape of one element.",
        "A scale is finite and not zero.",
        "A missing zero point is 0.",
    )
    return {f"{prefix}-{number}": text for number, text in enumerate(texts, 1)}


def unbreakable(prefix: str) -> dict[str, str]:
    """Return the clauses that no call can break, and why."""
    return {f"{prefix}-{number}": "result" for number in (1, 2, 3)} | {f"{prefix}-8": "absent"}


def check(inputs: Inputs, outputs: Outputs) -> None:
    """Check dtypes, then that both tensors repeat, then the parameters."""
    for name in ("ATensor", "BTensor"):
        calls.data_type(inputs, name, calls.EIGHT_BIT)
    for name in SCALES:
        calls.data_type(inputs, name, ("float32",))
    dtype = outputs["OutputTensor"].dtype
    calls.need(dtype in calls.EIGHT_BIT, "data_type", "OutputTensor")
    dtypes = {name: tensor.dtype for name, tensor in inputs.items()} | {"OutputTensor": dtype}
    for name, tensor in TYPES.items():
        calls.same_data_type(inputs, name, dtypes[tensor])
    a, b = inputs["ATensor"].sizes, inputs["BTensor"].sizes
    pairs = zip_longest(reversed(a), reversed(b), fillvalue=1)
    calls.need(all(x == y or 1 in (x, y) for x, y in pairs), "sizes", "BTensor")
    for name in (*SCALES, *POINTS):
        calls.lengths(inputs, name, 1)
    for name in SCALES:
        calls.scale_values(inputs, name)


def check_desc(p: str, desc: Desc) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_types(p, desc, TYPES)
    others = " ".join(name for name in desc if name != "ATensor")
    yield from same_counts(p, desc, others, "ATensor")
    for name in differing(desc, "BTensor OutputTensor", "Sizes", "ATensor"):
        yield Violation(f"{p}-same-sizes", "sizes", name)
    for name in (*SCALES, *POINTS):
        yield from all_ones(f"{p}-{dashed(name)}-one", desc, name)


def desc_sizes(inputs: Inputs, outputs: Outputs) -> dict[str, tuple[int, ...]]:
    """Return the sizes of a desc: those of the output, and for parameters as many sizes of 1."""
    sizes = broadcast_sizes(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    parameters = dict.fromkeys((*SCALES, *POINTS), (1,) * len(sizes))
    return dict.fromkeys(("ATensor", "BTensor"), sizes) | parameters


def table(lowest: int, highest: int) -> Rows:
    """Return the table whose tensors all have the same dimension counts."""
    counts, rows = (lowest, highest), []
    for name in ("A", "B", "Output"):
        tensor = row(f"{name}Tensor", "output" if name == "Output" else "input", *counts, BYTES)
        scale = row(f"{name}ScaleTensor", "input", *counts, "FLOAT32")
        point = row(f"{name}ZeroPointTensor", "optional", *counts, BYTES)
        rows += [scale, point, tensor] if name == "Output" else [tensor, scale, point]
    return tuple(rows)
