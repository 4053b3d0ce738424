"""Names of DirectML's fields, from those of operands."""

from typing import NamedTuple, TypeVar

_Names = TypeVar("_Names", bound=NamedTuple)


def tensor_fields(kind: type[_Names]) -> _Names:
    """The fields of an operator's tensors: `input_scale` is InputScaleTensor."""
    words = (name.split("_") for name in kind._fields)
    return kind._make("".join(map(str.capitalize, name)) + "Tensor" for name in words)
