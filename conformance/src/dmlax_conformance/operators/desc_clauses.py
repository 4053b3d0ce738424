"""The rules of descs, by name, in our words; `desc_rules.py` checks them in this order."""

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
_NONZERO = {
    "same-dimension-count": "The page of 3.0 wants the same DimensionCount in all three tensors;"
    " from 4.0 on it does not.",
    "count-scalar": "OutputCountTensor has only sizes of 1.",
    "coordinates-leading": "All sizes of OutputCoordinatesTensor but the last two are 1.",
    "coordinates-rows": "M, the last size but one, is the number of elements of the input.",
    "coordinates-columns": "N, the last size, is at least the effective rank of the input, at"
    " least 1, and at most its DimensionCount.",
}
_CONVOLUTION = {
    "input-zero-point-data-type": "InputZeroPointTensor has the data type of InputTensor.",
    "filter-zero-point-data-type": "FilterZeroPointTensor has the data type of FilterTensor.",
    "spatial-dimension-count": "DimensionCount is 2; for tensors of three dimensions, which the"
    " tables list from 4.0 and the text does not, it is 1: a decision.",
    "strides": "Strides has DimensionCount entries of at least 1.",
    "dilations": "Dilations has DimensionCount entries of at least 1.",
    "start-padding": "StartPadding has DimensionCount entries, each a UINT.",
    "end-padding": "EndPadding has DimensionCount entries, each a UINT.",
    "group-count": "GroupCount is at least 1.",
    "channels": "Input channels = filter channels * GroupCount.",
    "groups-divide": "GroupCount divides the number of filters.",
    "kernel-fits": "The dilated kernel is not larger than the padded input.",
    "output-sizes": "OutputTensor has the sizes that input, filter and windows give.",
    "input-zero-point-one": "InputZeroPointTensor has only sizes of 1.",
    "filter-zero-point-channels": "FilterZeroPointTensor is one value, or one for each output"
    " channel on axis 1 of 4; with fewer dimensions the page leaves the axis open.",
}
_QUANTIZED = {
    "same-dimension-count": "Filter, bias and output have the DimensionCount of the input.",
    "output-zero-point-data-type": "OutputZeroPointTensor has the data type of OutputTensor.",
    "input-scale-one": "InputScaleTensor has only sizes of 1.",
    "output-scale-one": "OutputScaleTensor has only sizes of 1.",
    "output-zero-point-one": "OutputZeroPointTensor has only sizes of 1.",
    "filter-scale-channels": "FilterScaleTensor is one value, or one for each output channel on"
    " axis 1 of 4; with fewer dimensions the page leaves the axis open.",
    "bias-channels": "BiasTensor is {1, K, 1, 1} for K output channels, {1, K, 1} with three"
    " dimensions.",
}
_INTEGER = {
    "same-dimension-count": "Filter and output have the DimensionCount of the input.",
    "zero-points-dimension-count": "Both zero points, if there, have the same DimensionCount.",
}
_ELEMENT_WISE = {
    "same-dimension-count": "Scale, zero point and output have the DimensionCount of the input.",
    "same-sizes": "Scale, zero point and output have the Sizes of the input; a stride of 0, not a"
    " size of 1, repeats.",
}
_QUANTIZE = {
    "scale-data-type": "ScaleTensor is FLOAT32 for an INT32 input, else it has the input's type.",
    "zero-point-data-type": "ZeroPointTensor has the data type of OutputTensor.",
}
_DEQUANTIZE = {
    "zero-point-data-type": "ZeroPointTensor has the data type of InputTensor.",
    "output-data-type": "OutputTensor has the data type of ScaleTensor.",
}


def _prefixed(prefix: str, *rules: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}-{name}": text for group in rules for name, text in group.items()}


DESC_CLAUSES = {
    **_TENSOR,
    **_prefixed("nonzero", _NONZERO),
    **_prefixed("qconv", _CONVOLUTION, _QUANTIZED),
    **_prefixed("intconv", _CONVOLUTION, _INTEGER),
    **_prefixed("quantize", _ELEMENT_WISE, _QUANTIZE),
    **_prefixed("dequantize", _ELEMENT_WISE, _DEQUANTIZE),
}
