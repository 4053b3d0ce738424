"""The rules of descs, by name, in our words; they are checked in this order."""

from . import OPERATORS

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


DESC_CLAUSES = _TENSOR | {
    f"{operator.prefix}-{name}": text
    for operator in OPERATORS.values()
    for name, text in operator.desc_clauses.items()
}
