"""Operator descs as JSON: their rules, calls as descs, and the oracle's answer.

The rules of a tensor are those of
https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_buffer_tensor_desc
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from ..errors import SpecViolation, Unsupported
from ..format import layout
from ..format.descs import DATA_TYPES, DTYPES, gather, scatter, tensor_desc
from ..format.layout import ELEMENT_BITS
from ..format.tensors import Tensor, count
from ..format.vectors import Request
from . import OPERATORS
from . import operator as rules
from .fixed_point import FIELD
from .operator import LEVELS, Answer, Attributes, Desc, Found, Inputs, Outputs, Rows
from .operator import Violation as Violation

TABLES: Mapping[str, Mapping[str, Rows]] = {
    name: operator.tables for name, operator in OPERATORS.items() if operator.tables
}


def introduced(operator: str) -> str:
    """Return the level that brought the operator."""
    return next(iter(TABLES[operator]))


def table_level(operator: str, feature_level: str) -> str:
    """Return the level whose table holds at this one, which is not before the first."""
    held = LEVELS[: LEVELS.index(feature_level) + 1]
    return [level for level in TABLES[operator] if level in held][-1]


def tensor_names(operator: str) -> tuple[str, ...]:
    """Return the operator's tensors in the order of the desc."""
    return tuple(row.tensor for row in OPERATORS[operator].tensors)


def fields(operator: str) -> tuple[str, ...]:
    """Return all fields of the desc, in order."""
    return tensor_names(operator) + OPERATORS[operator].attributes


_TENSOR = {
    "operator-feature-level": "The feature level is at least the one that introduced the operator.",
    "tensor-required": "A tensor that the page does not call optional, at this level, is there.",
    "tensor-data-type": "The operator's table lists the data type; it never lists UNKNOWN.",
    "tensor-dimension-count": "The operator's table lists the DimensionCount, at most 8.",
    "tensor-sizes-count": "Sizes has DimensionCount entries.",
    "tensor-strides-count": "Strides, if there, has DimensionCount entries.",
    "tensor-sizes-positive": "DML_BUFFER_TENSOR_DESC: no size is 0.",
    "tensor-element-limit": "DML_BUFFER_TENSOR_DESC: a tensor has at most 2^32 - 1 elements.",
    "tensor-byte-size": "DML_BUFFER_TENSOR_DESC: TotalTensorSizeInBytes reaches to the end of the"
    " element with the largest offset, rounded up to a multiple of 4.",
    "tensor-byte-size-limit": "TotalTensorSizeInBytes holds at most 2^32 - 1 elements, padding"
    " included.",
    "tensor-alignment": "GuaranteedBaseOffsetAlignment is 0, or a power of two that is at least"
    " the size of an element.",
    "tensor-flags": "DML_TENSOR_FLAGS: only an input may be owned by DirectML.",
    "tensor-output-overlap": "No two elements of an output share an offset; they need not be"
    " nested. The pages say nothing, so this is a decision.",
    "tensor-buffer": "An element lies at the sum of its coordinates times the Strides, counted in"
    " elements. Gaps of an input hold anything; a stride of 0 repeats.",
}

# The rules of descs, by name, in our words; they are checked in this order.
DESC_CLAUSES = _TENSOR | {
    f"{operator.prefix}-{name}": text
    for operator in OPERATORS.values()
    for name, text in operator.desc_clauses.items()
}


def violations(operator: str, desc: Desc, feature_level: str) -> list[Violation]:
    """Return every rule that the desc breaks at the level: of the level, tensors and operator.

    Every rule that can be evaluated is, so that one mistake may break several.
    """
    if LEVELS.index(feature_level) < LEVELS.index(introduced(operator)):
        return [Violation("operator-feature-level", "feature_level", "FeatureLevel")]
    rows = TABLES[operator][table_level(operator, feature_level)]
    broken = [violation for row in rows for violation in _check_tensor(desc[row.tensor], row)]
    return [*broken, *OPERATORS[operator].check_desc(desc, feature_level)]


def _check_tensor(tensor: Desc | None, row: rules.Row) -> Found:
    """Check one tensor against its line of the table."""
    if tensor is None:
        if not row.is_optional:
            yield Violation("tensor-required", "missing_tensor", row.tensor)
        return
    for rule, code, is_kept in _tensor_rules(tensor, row):
        if not is_kept:
            yield Violation(f"tensor-{rule}", code, row.tensor)


def _tensor_rules(tensor: Desc, row: rules.Row) -> Iterator[tuple[str, str, bool]]:
    """Yield each rule of a tensor by name and code, and whether it is kept."""
    sizes, strides, count = tensor["Sizes"], tensor["Strides"], tensor["DimensionCount"]
    bits = ELEMENT_BITS.get(tensor["DataType"], 0)
    alignment = tensor["GuaranteedBaseOffsetAlignment"]
    steps = layout.strides_of(tensor)
    has_offsets = len(steps) == len(sizes) and min(sizes or [1]) > 0
    is_scattered = row.is_output and strides is not None and has_offsets
    yield "data-type", "data_type", tensor["DataType"] in row.data_types
    yield "dimension-count", "dimension_count", row.lowest <= count <= row.highest
    yield "sizes-count", "dimension_count", len(sizes) == count
    yield "strides-count", "strides", strides is None or len(strides) == count
    yield "sizes-positive", "sizes", all(size >= 1 for size in sizes)
    yield "element-limit", "sizes", prod(sizes) <= rules.UINT_MAX
    if bits:
        needed = layout.minimum_bytes(tensor["DataType"], sizes, steps) if has_offsets else 0
        yield "byte-size", "byte_size", tensor["TotalTensorSizeInBytes"] >= needed
        yield "byte-size-limit", "byte_size", layout.buffer_length(tensor) <= rules.UINT_MAX
    is_power = alignment > 0 and alignment & (alignment - 1) == 0
    yield "alignment", "alignment", alignment == 0 or (is_power and alignment * 8 >= bits)
    yield "flags", "flags", tensor["Flags"] == "NONE" or not row.is_output
    yield "output-overlap", "strides", not (is_scattered and layout.overlaps(sizes, strides))


def answer_desc(operator: str, desc: Desc, feature_level: str, buffers: Inputs) -> Answer:
    """Return the output buffers, their gaps 0, or raise `SpecViolation`."""
    for rule, code, field in violations(operator, desc, feature_level):
        raise SpecViolation(code, field, rule)
    inputs: dict[str, Tensor] = {name: gather(desc[name], held) for name, held in buffers.items()}
    results = OPERATORS[operator].compute(desc, inputs, requests(operator, desc))
    return {name: scatter(desc[name], tensor.words, 0) for name, tensor in results.items()}


def requests(operator: str, desc: Desc) -> dict[str, Request]:
    """Return what the desc asks of its outputs."""
    wanted = tensor_descs(operator, desc, "outputs")
    return {k: Request(DTYPES[v["DataType"]], tuple(v["Sizes"])) for k, v in wanted.items()}


def tensor_descs(operator: str, desc: Desc, kind: str) -> dict[str, Desc]:
    """Return the input or output tensors that are there."""
    rows = OPERATORS[operator].tensors
    names = (row.tensor for row in rows if row.is_output == (kind == "outputs"))
    return {name: desc[name] for name in names if desc[name] is not None}


def feature_levels(operator: str, desc: Desc) -> tuple[str, ...]:
    """Return the levels that accept the desc, lowest first; none if DirectML lacks the function."""
    if operator not in TABLES:
        return ()
    return tuple(level for level in LEVELS if not violations(operator, desc, level))


def needs(operator: str, desc: Desc) -> set[str]:
    """Return the capabilities that a vector with this desc requires."""
    tensors = (desc[name] for name in tensor_names(operator) if desc[name] is not None)
    is_strided = any(not layout.is_packed(tensor) for tensor in tensors)
    return {"descriptors", "strides"} if is_strided else {"descriptors"}


def express(
    operator: str, attributes: Attributes, inputs: Inputs, outputs: Outputs
) -> dict[str, Any]:
    """Return the desc of a functional call; it may be one that no feature level accepts.

    A tensor that no desc has makes the call `Unsupported`. Every tensor is packed, except one that
    repeats, which gets strides of 0.
    """
    for name in (*OPERATORS[operator].only_in_calls, FIELD):
        if name in inputs or name in attributes:
            raise Unsupported(f"no desc has a {name}")
    values: dict[str, Any] = dict.fromkeys(tensor_names(operator))
    sizes = OPERATORS[operator].desc_sizes(inputs, outputs)
    tensors: Mapping[str, Tensor | Request] = {**inputs, **outputs}
    for name, tensor in tensors.items():
        values[name] = _described(tensor, sizes.get(name, tensor.sizes))
    if attributes:
        values["DimensionCount"] = len(inputs["InputTensor"].sizes) - 2
    values |= attributes
    return {name: values[name] for name in fields(operator)}


def _described(tensor: Tensor | Request, sizes: rules.Sizes) -> dict[str, Any]:
    """Describe a tensor, which repeats unless it has as many elements; sizes align on the right.

    A type without a name in DirectML is UNKNOWN.
    """
    data_type = DATA_TYPES.get(tensor.dtype, "UNKNOWN")
    if count(tensor.sizes) == count(sizes):
        return tensor_desc(data_type, sizes)
    missing = len(sizes) - len(tensor.sizes)
    packed = zip(tensor.sizes, layout.packed_strides(tensor.sizes), strict=True)
    strides = [0] * missing + [step if size > 1 else 0 for size, step in packed]
    return tensor_desc(data_type, sizes, strides)
