"""Vectors of the two element-wise operators: what they share."""

from collections.abc import Mapping

from ...format.tensors import Tensor
from ...format.vectors import Request
from ..topics import Listed, Topic, bits, floats, ints


def operands(x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> dict[str, Tensor]:
    """Return the named tensors of a call."""
    given = {"InputTensor": x, "ScaleTensor": scale}
    return given if zero_point is None else {**given, "ZeroPointTensor": zero_point}


def add(
    topic: Topic,
    name: str,
    comment: str,
    clause: str,
    given: Mapping[str, Tensor],
    dtype: str,
    flags: str = "",
    requires: str = "",
    listed: Listed | None = None,
) -> None:
    """Add a valid call whose output has the sizes of the input."""
    asked = {"OutputTensor": Request(dtype, given["InputTensor"].sizes)}
    topic.valid(name, comment, clause, given, asked, None, flags, requires, listed)


def words(dtype: str, *patterns: int) -> Tensor:
    """Return a vector of bit patterns."""
    return bits(dtype, (len(patterns),), patterns)


def row(dtype: str, *values: float) -> Tensor:
    """Return a vector of exact floats."""
    return floats(dtype, (len(values),), values)


def whole(dtype: str, *values: int) -> Tensor:
    """Return a vector of integers."""
    return ints(dtype, (len(values),), values)


def add_values(topic: Topic, base: str, dtype: str, clause: str) -> None:
    """Add one call for each scale that is zero or not finite."""
    patterns = {
        "float32": {"zero": 0, "minus-zero": 1 << 31, "nan": 0x7FC00000, "infinity": 0x7F800000},
        "float16": {"zero": 0, "nan": 0x7E00, "minus-infinity": 0xFC00},
    }
    for name, word in patterns[dtype].items():
        text = f"the {dtype} scale is {name}"
        name, scale = f"scale-{name}-{dtype}", {"ScaleTensor": words(dtype, word)}
        error, how = ("value", "ScaleTensor"), (None, None, "Invalid KnownValue", "values:known")
        topic.invalid(name, text, clause, base, error, scale, *how)


def add_too_deep(topic: Topic, base: str, clause: str, tensors: dict[str, Tensor]) -> None:
    """Give parameters more dimensions than the input has."""
    for field, tensor in tensors.items():
        name = "scale-rank-3" if field == "ScaleTensor" else "zero-point-rank-3"
        text = f"{field} of sizes {list(tensor.sizes)} does not repeat to [2, 3]"
        topic.invalid(name, text, clause, base, ("sizes", field), {field: tensor})
