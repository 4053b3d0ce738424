"""Operator descs as JSON: calls as descs, and what a desc needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import Unsupported
from ..format import layout
from ..format.descs import DATA_TYPES, tensor_desc
from ..format.tensors import Tensor, count
from ..format.vectors import Request
from . import OPERATORS, tables
from .desc_rules import violations

Desc = Mapping[str, Any]


def express(
    operator: str,
    attributes: Mapping[str, Any],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Request],
) -> dict[str, Any]:
    """Return the desc of a functional call; it may be one that no feature level accepts.

    A tensor that no desc has makes the call `Unsupported`. Every tensor is packed, but one that
    repeats gets the strides of 0 that mean so.
    """
    for name in OPERATORS[operator].only_in_calls:
        if name in inputs:
            raise Unsupported(f"no desc has a {name}")
    tensors: dict[str, Any] = dict.fromkeys(tables.tensors(operator))
    sizes = OPERATORS[operator].desc_sizes(inputs, outputs)
    given: dict[str, Tensor | Request] = {**inputs, **outputs}
    for name, tensor in given.items():
        tensors[name] = _described(tensor, sizes.get(name, tensor.sizes))
    windows = dict(attributes)
    if windows:
        windows = {"DimensionCount": len(inputs["InputTensor"].sizes) - 2, **windows}
    return {name: {**tensors, **windows}[name] for name in tables.fields(operator)}


def feature_levels(operator: str, desc: Desc) -> tuple[str, ...]:
    """Return the levels that accept the desc, lowest first; none if DirectML lacks the function."""
    if operator not in tables.TABLES:
        return ()
    return tuple(level for level in tables.LEVELS if not violations(operator, desc, level))


def tensor_descs(operator: str, desc: Desc, kind: str) -> dict[str, Desc]:
    """Return the input or output tensors that are there."""
    rows = OPERATORS[operator].tensors
    names = (row.tensor for row in rows if row.is_output == (kind == "outputs"))
    return {name: desc[name] for name in names if desc[name] is not None}


def needs(operator: str, desc: Desc) -> set[str]:
    """Return the capabilities that a vector with this desc requires."""
    tensors = (desc[name] for name in tables.tensors(operator) if desc[name] is not None)
    is_strided = any(not layout.is_packed(tensor) for tensor in tensors)
    return {"descriptors", "strides"} if is_strided else {"descriptors"}


def _described(tensor: Tensor | Request, sizes: Sequence[int]) -> dict[str, Any]:
    """Describe a tensor, which repeats unless it has as many elements; sizes align on the right.

    A type without a name in DirectML is UNKNOWN.
    """
    data_type = DATA_TYPES.get(tensor.dtype, "UNKNOWN")
    if count(tensor.sizes) == count(tuple(sizes)):
        return tensor_desc(data_type, sizes)
    missing = len(sizes) - len(tensor.sizes)
    own = layout.packed_strides(tensor.sizes)
    pairs = zip(tensor.sizes, own, strict=True)
    strides = [0] * missing + [step if size > 1 else 0 for size, step in pairs]
    return tensor_desc(data_type, sizes, strides)
