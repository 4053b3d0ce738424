"""Rules that the three matrix products share, of calls and of descs."""

from collections.abc import Mapping, Sequence
from math import prod

from ...format.vectors import Request
from . import call_rules as calls
from .call_rules import Inputs
from .desc_rules import Desc, Found, Violation, differing, same_counts, same_types, type_clauses
from .matmul import Sizes, shape_of
from .tables import Row, dashed

POINT_TYPES = {f"{name}ZeroPointTensor": f"{name}Tensor" for name in ("A", "B", "Output")}
PARAMETERS = tuple(
    f"{name}{kind}Tensor" for name in ("A", "B", "Output") for kind in ("Scale", "ZeroPoint")
)


def check_operands(inputs: Inputs) -> None:
    """Check both operands, and the types of their zero points."""
    for name in ("A", "B"):
        calls.data_type(inputs, f"{name}Tensor", calls.EIGHT_BIT)
        dtype = inputs[f"{name}Tensor"].dtype
        calls.same_data_type(inputs, f"{name}ZeroPointTensor", dtype)
    for name in ("ATensor", "BTensor"):
        calls.need(len(inputs[name].sizes) >= 1, "dimension_count", name)
    a, b, *_ = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    calls.need(a[-1] == b[-2], "sizes", "BTensor")
    pairs = zip(a[-3::-1], b[-3::-1], strict=False)
    calls.need(all(x == y or 1 in (x, y) for x, y in pairs), "sizes", "BTensor")


def check_parameters(inputs: Inputs) -> None:
    """Check the sizes of scales and zero points, then the values of scales."""
    shape = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    rows, columns = (*shape.a[:-1], 1), (*shape.b[:-2], 1, shape.b[-1])
    targets = {"A": rows, "B": columns, "Output": shape.rows}
    for name in PARAMETERS:
        target = targets[name.split("Scale")[0].split("Zero")[0]]
        if name in inputs and len(inputs[name].words) != 1:
            calls.broadcasts(_without_ones(inputs[name].sizes, len(target)), target, name)
    for name in inputs:
        if name.endswith("ScaleTensor"):
            calls.scale_values(inputs, name)


def check_bias(inputs: Inputs, dtype: str) -> None:
    """Check that a bias repeats to the output."""
    calls.same_data_type(inputs, "BiasTensor", dtype)
    if "BiasTensor" in inputs:
        output = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes).output
        calls.broadcasts(inputs["BiasTensor"].sizes, output, "BiasTensor")


def _without_ones(sizes: Sizes, rank: int) -> Sizes:
    """Drop leading sizes of 1 beyond a rank."""
    spare = max(len(sizes) - rank, 0)
    return sizes[spare:] if set(sizes[:spare]) <= {1} else sizes


def desc_sizes(
    inputs: Inputs, outputs: Mapping[str, Request], is_rank_shared: bool = True
) -> Mapping[str, Sizes]:
    """Return the sizes that the tensors of a call have in a desc; parameters may share a rank."""
    shape = shape_of(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    own = {name: inputs[name].sizes for name in PARAMETERS if name in inputs}
    rank = max((1, *(map(len, own.values()) if is_rank_shared else ())))
    batch = shape.batch
    return {
        "ATensor": (*batch, *shape.a[-2:]),
        "BTensor": (*batch, *shape.b[-2:]),
        "BiasTensor": outputs["OutputTensor"].sizes,
        **{name: (1,) * (rank - len(sizes)) + sizes for name, sizes in own.items()},
    }


# -- descs -------------------------------------------------------------------------------------


def desc_clauses(table: Sequence[Row], types: Mapping[str, str]) -> dict[str, str]:
    """Return what `check_products` checks, in words, for an operator with these tensors."""
    there = [row.tensor for row in table]
    found = {
        **type_clauses({name: own for name, own in types.items() if name in there}),
        "same-dimension-count": "B, output and bias have the DimensionCount of A.",
        "inner-sizes": "The last size of A is the last but one of B.",
        "batch-sizes": "A and B agree in all sizes but the last two; a stride of 0 repeats.",
        "output-sizes": "OutputTensor has the sizes that A and B give.",
    }
    for name in PARAMETERS:
        if name in there:
            axis, letter = ("columns", "N") if name.startswith("B") else ("rows", "M")
            where = "last size" if letter == "N" else "last size but one"
            text = f"{name} is one value, or its {where} is {letter} and the others are 1."
            found[f"{dashed(name)}-{axis}"] = text
    return found


def check_products(p: str, desc: Desc, types: Mapping[str, str]) -> Found:
    """Check data types, dimension counts, and the sizes of operands and parameters."""
    others = [name for name in ("BTensor", "BiasTensor", "OutputTensor") if name in desc]
    yield from same_counts(p, desc, " ".join(others), "ATensor")
    yield from same_types(p, desc, types)
    yield from _check_sizes(p, desc)
    for name in PARAMETERS:
        if desc.get(name) is not None:
            yield from _check_parameter(p, desc, name)


def same_parameter_counts(p: str, desc: Desc) -> Found:
    """Check that all parameters that are there have one DimensionCount."""
    there = [name for name in PARAMETERS if desc.get(name) is not None]
    for name in differing(desc, " ".join(there), "DimensionCount", there[0]) if there else ():
        yield Violation(f"{p}-parameters-dimension-count", "dimension_count", name)


def _check_sizes(p: str, desc: Desc) -> Found:
    a, b, y = (_sizes(desc, name) for name in ("ATensor", "BTensor", "OutputTensor"))
    if len(a) < 2 or len(b) < 2:
        return
    if a[-1] != b[-2]:
        yield Violation(f"{p}-inner-sizes", "sizes", "BTensor")
    if len(a) == len(b) and a[:-2] != b[:-2]:
        yield Violation(f"{p}-batch-sizes", "sizes", "BTensor")
    elif len(a) == len(y) and y != [*a[:-1], b[-1]]:
        yield Violation(f"{p}-output-sizes", "sizes", "OutputTensor")


def _sizes(desc: Desc, name: str) -> list[int]:
    return [] if desc[name] is None else list(desc[name]["Sizes"])


def _check_parameter(p: str, desc: Desc, name: str) -> Found:
    """Check for one element, or one for each column of B, or for each row of A."""
    sizes, is_column = list(desc[name]["Sizes"]), name.startswith("B")
    owner = _sizes(desc, "BTensor" if is_column else "ATensor")
    if prod(sizes) == 1 or len(owner) < 2:
        return
    wanted = [1, owner[-1]] if is_column else [owner[-2], 1]
    if ([1] * len(sizes) + wanted)[-len(sizes) :] != sizes:
        axis = "columns" if is_column else "rows"
        yield Violation(f"{p}-{dashed(name)}-{axis}", "sizes", name)
