"""The rules of every tensor, whatever its operator: its row of the table, and its buffer."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dmlax._descriptors import layout
from dmlax._descriptors.descs import BufferTensorDesc
from dmlax._descriptors.enums import FeatureLevel, TensorFlags
from dmlax._descriptors.rules import braces
from dmlax._descriptors.support import REFERENCE, Row
from dmlax.errors import Code

LIMIT = 2**32 - 1
_BUFFER = f"{REFERENCE}ns-directml-dml_buffer_tensor_desc"
_FLAGS = f"{REFERENCE}ne-directml-dml_tensor_flags"
_Check = Callable[[Row, BufferTensorDesc, FeatureLevel], str | None]


def _elsewhere(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    """None: the rule is checked before there is a row or a record."""
    return None


class TensorRule(NamedTuple):
    """One binding sentence about tensors.

    Attributes:
      name: unique; the suite's invalid vectors name it.
      code: the code of its violations.
      sentence: the rule in our words.
      page: where it is stated; None for the operator's page, "" for nowhere.
      broken: the words that follow the tensor's name in the message, or None.
    """

    name: str
    code: Code
    sentence: str
    page: str | None = None
    broken: _Check = _elsewhere


def _rule(
    name: str, code: Code, sentence: str, page: str | None = None
) -> Callable[[_Check], TensorRule]:
    """Decorates a check, which becomes the `TensorRule` of that name, with "tensor-" before it."""
    return lambda check: TensorRule(f"tensor-{name}", code, sentence, page, check)


INTRODUCED = TensorRule(
    "operator-feature-level", "feature_level", "The feature level has the operator."
)
SIZES_COUNT = TensorRule(
    "tensor-sizes-count", "dimension_count", "Sizes has DimensionCount entries.", _BUFFER
)
REQUIRED = TensorRule(
    "tensor-required", "missing_tensor", "A tensor is there unless the table calls it optional."
)


@_rule("data-type", "data_type", "The table lists the DataType; UNKNOWN is never listed.")
def _data_type(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    if tensor.data_type in row.data_types:
        return None
    names = ", ".join(map(str, row.data_types))
    expected = names if len(row.data_types) == 1 else f"one of {names}"
    return f"has DataType {tensor.data_type}, expected {expected} at {level}"


@_rule("dimension-count", "dimension_count", "The table lists the DimensionCount; none is above 8.")
def _dimension_count(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    low, high = row.dimension_counts
    if low <= tensor.dimension_count <= high:
        return None
    expected = f"{low}" if low == high else f"{low} to {high}"
    return f"has DimensionCount {tensor.dimension_count}, expected {expected} at {level}"


@_rule("strides-count", "strides", "Strides, if given, has DimensionCount entries.", _BUFFER)
def _strides_count(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    if tensor.strides is None or len(tensor.strides) == tensor.dimension_count:
        return None
    return f"has {len(tensor.strides)} Strides, expected DimensionCount {tensor.dimension_count}"


@_rule("sizes-positive", "sizes", "No size is 0.", _BUFFER)
def _sizes_positive(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    return f"has Sizes {braces(tensor.sizes)}, expected no 0" if 0 in tensor.sizes else None


@_rule("element-limit", "sizes", "A tensor has at most 2^32 - 1 elements.", _BUFFER)
def _element_limit(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    if tensor.elements <= LIMIT:
        return None
    text = f"has Sizes {braces(tensor.sizes)} of {tensor.elements} elements"
    return f"{text}, expected at most {LIMIT}"


@_rule(
    *("byte-size", "byte_size"),
    "TotalTensorSizeInBytes reaches the last element, and is rounded up to 4.",
    _BUFFER,
)
def _byte_size(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    size, least = tensor.total_tensor_size_in_bytes, tensor.minimum_size_in_bytes
    if size >= least or not tensor.data_type.bits:
        return None
    return f"has TotalTensorSizeInBytes {size}, expected at least {least} for its Sizes, Strides"


@_rule(
    *("byte-size-limit", "byte_size"),
    "TotalTensorSizeInBytes, padding included, is at most 2^32 - 1 elements.",
    _BUFFER,
)
def _byte_size_limit(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    if tensor.buffer_elements <= LIMIT or not tensor.data_type.bits:
        return None
    text = f"has TotalTensorSizeInBytes {tensor.total_tensor_size_in_bytes}"
    return f"{text} for {tensor.buffer_elements} elements, expected at most {LIMIT}"


@_rule(
    *("alignment", "alignment"),
    "GuaranteedBaseOffsetAlignment is 0, or a power of two not below the element's size.",
    _BUFFER,
)
def _alignment(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    alignment = tensor.guaranteed_base_offset_alignment
    least = -(-tensor.data_type.bits // 8)
    if alignment == 0 or (alignment.bit_count() == 1 and alignment >= least):
        return None
    return (
        f"has GuaranteedBaseOffsetAlignment {alignment}, expected 0, or a power of two of at least "
        f"{least}, the bytes of {tensor.data_type}"
    )


@_rule("flags", "flags", "OWNED_BY_DML is for inputs only.", _FLAGS)
def _flags(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    allowed = TensorFlags.NONE if row.is_output else TensorFlags.OWNED_BY_DML
    if not tensor.flags & ~allowed:
        return None
    return f"has Flags {tensor.flags}, which only an input may have"


@_rule(
    *("output-overlap", "strides"),
    "No two elements of an output share a place (no page says it; the result would depend on the "
    "order of writing).",
    "",
)
def _output_overlap(row: Row, tensor: BufferTensorDesc, level: FeatureLevel) -> str | None:
    if not row.is_output or tensor.strides is None:
        return None
    if layout.is_distinct(tensor.sizes, tensor.strides):
        return None
    text = f"has Sizes {braces(tensor.sizes)} and Strides {braces(tensor.strides)}"
    return f"{text}, expected that no two elements of an output share a place"


_FUNDAMENTAL = (_strides_count, _sizes_positive, _element_limit)
TENSOR_RULES = (
    *(_data_type, _dimension_count, *_FUNDAMENTAL),
    *(_byte_size, _byte_size_limit, _alignment, _flags, _output_overlap),
)


def broken_rules(
    row: Row, tensor: BufferTensorDesc, level: FeatureLevel
) -> Iterator[tuple[TensorRule, str]]:
    """Every rule that a tensor breaks, and how; a fundamental rule excuses those that follow."""
    for rule in TENSOR_RULES:
        text = rule.broken(row, tensor, level)
        if text is not None:
            yield rule, text
            if rule in _FUNDAMENTAL:
                return
