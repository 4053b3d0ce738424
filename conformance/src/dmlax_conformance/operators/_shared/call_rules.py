"""Rules that calls of several operators share; the first one broken is raised."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...errors import SpecViolation
from ...format.tensors import Tensor
from ...format.vectors import Request
from . import floats

Attributes = Mapping[str, Any]
Inputs = Mapping[str, Tensor]
Outputs = Mapping[str, Request]
Rule = Callable[[Attributes, Inputs, Outputs], None]

EIGHT_BIT = ("int8", "uint8")
INTEGERS = tuple(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32))


def need(condition: bool, code: str, field: str) -> None:
    """Raise unless a rule is kept."""
    if not condition:
        raise SpecViolation(code, field)


def data_type(inputs: Inputs, name: str, allowed: Iterable[str]) -> None:
    """Check a tensor's data type."""
    need(inputs[name].dtype in allowed, "data_type", name)


def same_data_type(inputs: Inputs, name: str, dtype: str) -> None:
    """Check the data type of a tensor that may be absent."""
    if name in inputs:
        data_type(inputs, name, (dtype,))


def lengths(inputs: Inputs, name: str, *allowed: int) -> None:
    """Allow one value in any shape of ones, or one per channel in {K}, {1,K} or {1,K,1,1}."""
    if name not in inputs:
        return
    sizes = inputs[name].sizes
    long = [size for size in sizes if size != 1]
    need(len(long) <= 1 and (long or [1])[0] in allowed, "sizes", name)


def broadcasts(sizes: tuple[int, ...], target: tuple[int, ...], name: str) -> None:
    """Check that sizes repeat to the target."""
    need(len(sizes) <= len(target), "sizes", name)
    pairs = zip(reversed(sizes), reversed(target), strict=False)
    need(all(size in (1, wanted) for size, wanted in pairs), "sizes", name)


def scale_values(inputs: Inputs, name: str) -> None:
    """Check that every scale is finite and not zero."""
    for word in inputs[name].words:
        number = floats.decode(word, inputs[name].dtype)
        need(number.kind == "finite" and not number.is_zero, "value", name)
