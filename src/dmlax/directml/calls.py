"""Each desc as a call of the function that it names, on logical tensors."""

from collections.abc import Callable, Mapping
from typing import Any

from jax import Array

import dmlax
from dmlax.directml.descs import (
    ConvolutionIntegerOperatorDesc,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
    NonzeroCoordinatesOperatorDesc,
    OperatorDesc,
    QuantizedLinearConvolutionOperatorDesc,
)

Tensors = Mapping[str, Array]
_LAYOUTS = {1: ("NCW", "OIW", "NCW"), 2: ("NCHW", "OIHW", "NCHW")}


def _nonzero(desc: NonzeroCoordinatesOperatorDesc, tensors: Tensors) -> Tensors:
    *_, size, coordinate_rank = desc.output_coordinates_tensor.sizes
    count, coordinates = dmlax.nonzero_coordinates(
        tensors["input_tensor"], size=size, coordinate_rank=coordinate_rank
    )
    return {"output_count_tensor": count, "output_coordinates_tensor": coordinates}


def _quantized(desc: QuantizedLinearConvolutionOperatorDesc, tensors: Tensors) -> Tensors:
    output = dmlax.quantized_linear_convolution(
        tensors["input_tensor"],
        tensors["filter_tensor"],
        _flat(tensors, "bias_tensor"),
        input_scale=_flat(tensors, "input_scale_tensor"),
        filter_scale=_flat(tensors, "filter_scale_tensor"),
        output_scale=_flat(tensors, "output_scale_tensor"),
        input_zero_point=_flat(tensors, "input_zero_point_tensor"),
        filter_zero_point=_flat(tensors, "filter_zero_point_tensor"),
        output_zero_point=_flat(tensors, "output_zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
        **_windows(desc),
    )
    return {"output_tensor": output}


def _integer(desc: ConvolutionIntegerOperatorDesc, tensors: Tensors) -> Tensors:
    output = dmlax.convolution_integer(
        tensors["input_tensor"],
        tensors["filter_tensor"],
        input_zero_point=_flat(tensors, "input_zero_point_tensor"),
        filter_zero_point=_flat(tensors, "filter_zero_point_tensor"),
        **_windows(desc),
    )
    return {"output_tensor": output}


def _quantize(desc: ElementWiseQuantizeLinearOperatorDesc, tensors: Tensors) -> Tensors:
    output = dmlax.element_wise_quantize_linear(
        tensors["input_tensor"],
        tensors["scale_tensor"],
        tensors.get("zero_point_tensor"),
        output_dtype=desc.output_tensor.dtype,
    )
    return {"output_tensor": output}


def _dequantize(desc: ElementWiseDequantizeLinearOperatorDesc, tensors: Tensors) -> Tensors:
    output = dmlax.element_wise_dequantize_linear(
        tensors["input_tensor"], tensors["scale_tensor"], tensors.get("zero_point_tensor")
    )
    return {"output_tensor": output}


def _flat(tensors: Tensors, name: str) -> Any:
    """A parameter as (1,) or (K,), whichever axis the desc has it on."""
    return tensors[name].reshape(-1) if name in tensors else None


def _windows(
    desc: QuantizedLinearConvolutionOperatorDesc | ConvolutionIntegerOperatorDesc,
) -> dict[str, Any]:
    return {
        "strides": desc.strides,
        "dilations": desc.dilations,
        "start_padding": desc.start_padding,
        "end_padding": desc.end_padding,
        "group_count": desc.group_count,
        "dimension_numbers": _LAYOUTS[desc.dimension_count],
    }


CALLS: dict[type[OperatorDesc], Callable[[Any, Tensors], Tensors]] = {
    NonzeroCoordinatesOperatorDesc: _nonzero,
    QuantizedLinearConvolutionOperatorDesc: _quantized,
    ConvolutionIntegerOperatorDesc: _integer,
    ElementWiseQuantizeLinearOperatorDesc: _quantize,
    ElementWiseDequantizeLinearOperatorDesc: _dequantize,
}
