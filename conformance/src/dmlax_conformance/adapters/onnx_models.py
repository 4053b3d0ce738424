"""Operators as ONNX models of one node, and a case's tensors as their inputs.

ONNX spells some things differently: one value is a scalar, one for each channel is a vector, and
`pads` holds all starts and then all ends. QLinearConv has no optional zero point: 0 stands for a
missing one. Parameters of an element-wise operator are one value, or lie along one axis, or, with
`block_size` 1, have the shape of the input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from ..operators import OPERATORS
from .base import Array, Case, Unsupported
from .common import axes_of, channels, named, of_product, one_value, parameter_shape, zero

OPSET = 23
OUTPUT = "y"
WINDOWS = {"Strides": "strides", "Dilations": "dilations"}


@dataclass(frozen=True)
class Call:
    """One node: its type, its attributes, its inputs in order, and what its output is."""

    node: str
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Array]
    dtype: str
    rank: int
    domain: str = ""
    more: Mapping[str, str] = field(default_factory=dict)  # further outputs and their types


def call(case: Case) -> Call:
    """Return the node that asks what the case asks."""
    if case.desc is not None:
        raise Unsupported("ONNX has no descs")
    row = OPERATORS.get(case.operator)  # a later suite may have more of them
    if row is None or row.onnx not in _CALLS:
        raise Unsupported(f"no {case.operator}")
    return _CALLS[row.onnx](case)


def model(asked: Call, constants: frozenset[str] = frozenset()) -> Any:
    """Return the model; inputs named in `constants` are initializers."""
    onnx: Any = import_module("onnx")
    helper, type_of = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype
    names = [OUTPUT, *asked.more]
    node = helper.make_node(
        asked.node, list(asked.inputs), names, domain=asked.domain, **asked.attributes
    )
    given = [
        helper.make_tensor_value_info(name, type_of(array.dtype), list(array.shape))
        for name, array in asked.inputs.items()
        if name not in constants
    ]
    held = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in asked.inputs.items()
        if name in constants
    ]
    sizes = [None] * asked.rank
    result = helper.make_tensor_value_info(OUTPUT, type_of(np.dtype(asked.dtype)), sizes)
    results = [result] + [
        helper.make_tensor_value_info(name, type_of(np.dtype(dtype)), [])
        for name, dtype in asked.more.items()
    ]
    graph = helper.make_graph([node], asked.node, given, results, held)
    opsets = [helper.make_opsetid("", OPSET)]
    version = helper.find_min_ir_version_for(opsets)
    opsets += [helper.make_opsetid(asked.domain, 1)] if asked.domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=version)


def answer(case: Case, result: Array, *more: Array) -> Mapping[str, Array]:
    """Return the case's outputs from the node's."""
    if more:
        return named(case, (result, *more))
    is_rows = case.operator == "nonzero_coordinates"
    return named(case, np.moveaxis(result, 0, -1) if is_rows else result)


def _nonzero(case: Case) -> Call:
    """Return a NonZero."""
    return Call("NonZero", {}, {"x": case.inputs["InputTensor"]}, "int64", 2)


def _integer_convolution(case: Case) -> Call:
    """Return a ConvInteger."""
    given = case.inputs
    inputs = {"x": given["InputTensor"], "w": given["FilterTensor"]}
    inputs["x_zero_point"] = one_value(zero(case, "InputZeroPointTensor", inputs["x"].dtype))
    inputs["w_zero_point"] = channels(zero(case, "FilterZeroPointTensor", inputs["w"].dtype))
    return Call("ConvInteger", _windows(case), inputs, "int32", inputs["x"].ndim)


def _convolution(case: Case) -> Call:
    """Return a QLinearConv."""
    given, dtype = case.inputs, case.outputs["OutputTensor"].dtype
    x, w = given["InputTensor"], given["FilterTensor"]
    inputs = {
        "x": x,
        "x_scale": one_value(given["InputScaleTensor"]),
        "x_zero_point": one_value(zero(case, "InputZeroPointTensor", x.dtype)),
        "w": w,
        "w_scale": channels(given["FilterScaleTensor"]),
        "w_zero_point": channels(zero(case, "FilterZeroPointTensor", w.dtype)),
        "y_scale": one_value(given["OutputScaleTensor"]),
        "y_zero_point": one_value(zero(case, "OutputZeroPointTensor", dtype)),
    }
    if "BiasTensor" in given:
        bias = channels(given["BiasTensor"])
        inputs["B"] = bias.reshape(-1) if bias.ndim == 0 else bias
    return Call("QLinearConv", _windows(case), inputs, dtype, x.ndim)


def _windows(case: Case) -> dict[str, Any]:
    attributes = {name: list(case.attributes[field]) for field, name in WINDOWS.items()}
    pads = [*case.attributes["StartPadding"], *case.attributes["EndPadding"]]
    return {**attributes, "pads": pads, "group": case.attributes["GroupCount"]}


def _average_pool(case: Case) -> Call:
    """Return ONNX Runtime's QLinearAveragePool, which has no dilations."""
    if max(case.attributes["Dilations"], default=1) > 1:
        raise Unsupported("QLinearAveragePool has no dilations")
    attributes = _pool(case)
    del attributes["dilations"]
    attributes["count_include_pad"] = int(case.attributes["IncludePadding"])
    return _average(case, "QLinearAveragePool", attributes)


def _global_average_pool(case: Case) -> Call:
    """Return ONNX Runtime's QLinearGlobalAveragePool."""
    return _average(case, "QLinearGlobalAveragePool", {})


def _average(case: Case, node: str, attributes: Mapping[str, Any]) -> Call:
    given, dtype = case.inputs, case.outputs["OutputTensor"].dtype
    x = given["InputTensor"]
    inputs = {
        "x": x,
        "x_scale": one_value(given["InputScaleTensor"]),
        "x_zero_point": one_value(zero(case, "InputZeroPointTensor", x.dtype)),
        "y_scale": one_value(given["OutputScaleTensor"]),
        "y_zero_point": one_value(zero(case, "OutputZeroPointTensor", dtype)),
    }
    attributes = {**attributes, "channels_last": 0}
    return Call(node, attributes, inputs, dtype, x.ndim, "com.microsoft")


def _max_pool(case: Case) -> Call:
    """Return a MaxPool."""
    x = case.inputs["InputTensor"]
    return Call("MaxPool", _pool(case), {"x": x}, x.dtype.name, x.ndim)


def _pool(case: Case) -> dict[str, Any]:
    attributes = {name: list(case.attributes[field]) for field, name in WINDOWS.items()}
    pads = [*case.attributes["StartPadding"], *case.attributes["EndPadding"]]
    return {**attributes, "kernel_shape": list(case.attributes["WindowSize"]), "pads": pads}


def _quantize(case: Case) -> Call:
    """Return a QuantizeLinear."""
    onnx: Any = import_module("onnx")
    dtype = case.outputs["OutputTensor"].dtype
    asked = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return _element_wise(case, "QuantizeLinear", "y", {"output_dtype": asked}, dtype)


def _dequantize(case: Case) -> Call:
    """Return a DequantizeLinear."""
    dtype = case.outputs["OutputTensor"].dtype
    return _element_wise(case, "DequantizeLinear", "x", {}, dtype)


def _binary(case: Case) -> Call:
    """Return ONNX Runtime's own QLinearAdd or QLinearMul."""
    given, dtype = case.inputs, case.outputs["OutputTensor"].dtype
    inputs: dict[str, Array] = {}
    for label, short in {"A": "x", "B": "b", "Output": "y"}.items():
        own = given[f"{label}Tensor"].dtype if short != "y" else np.dtype(dtype)
        inputs |= {} if short == "y" else {short: given[f"{label}Tensor"]}
        inputs[f"{short}_scale"] = one_value(given[f"{label}ScaleTensor"])
        inputs[f"{short}_zero_point"] = one_value(zero(case, f"{label}ZeroPointTensor", own))
    rank = max(inputs["x"].ndim, inputs["b"].ndim)
    node = OPERATORS[case.operator].onnx
    return Call(node, {}, inputs, dtype, rank, "com.microsoft")


def _dynamic_quantize(case: Case) -> Call:
    """Return a DynamicQuantizeLinear."""
    x, dtype = case.inputs["InputTensor"], case.outputs["OutputTensor"].dtype
    if dtype != "uint8":
        raise Unsupported("ONNX quantizes dynamically to uint8 alone")
    more = {"y_scale": "float32", "y_zero_point": dtype}
    return Call("DynamicQuantizeLinear", {}, {"x": x}, dtype, x.ndim, more=more)


def _integer_product(case: Case) -> Call:
    """Return a MatMulInteger."""
    a, b = case.inputs["ATensor"], case.inputs["BTensor"]
    points = {f"{key}_zero_point": _product_point(case, key.upper()) for key in "ab"}
    rank = len(case.outputs["OutputTensor"].sizes)
    return Call("MatMulInteger", {}, {"x": a, "w": b, **points}, "int32", rank)


def _product(case: Case) -> Call:
    """Return a QLinearMatMul, whose scale and zero point have one shape."""
    if "BiasTensor" in case.inputs:
        raise Unsupported("a QLinearMatMul has no bias")
    dtype, given = case.outputs["OutputTensor"].dtype, dict[str, Array]()
    for name, key in {"A": "x", "B": "w", "Output": "y"}.items():
        own = [case.inputs[f"{name}ScaleTensor"], _point_of(case, name)]
        wide = [_lined(case, name, array) for array in np.broadcast_arrays(*map(one_value, own))]
        given |= {key: case.inputs[f"{name}Tensor"]} if key != "y" else {}
        given |= {f"{key}_scale": wide[0], f"{key}_zero_point": wide[1]}
    return Call("QLinearMatMul", {}, given, dtype, len(case.outputs["OutputTensor"].sizes))


def _float_product(case: Case) -> Call:
    """Return ONNX Runtime's MatMulIntegerToFloat, whose floats have one type."""
    dtype, given = case.outputs["OutputTensor"].dtype, case.inputs
    inputs = {"x": given["ATensor"], "w": given["BTensor"]}
    inputs["a_scale"] = one_value(given["AScaleTensor"])  # a vector would be one of columns
    inputs["b_scale"] = _lined(case, "B", one_value(given["BScaleTensor"]))
    inputs |= {f"{key}_zero_point": _product_point(case, key.upper()) for key in "ab"}
    if "BiasTensor" in given:
        inputs["bias"] = _of_columns(given["BTensor"], given["BiasTensor"])
    rank = len(case.outputs["OutputTensor"].sizes)
    return Call("MatMulIntegerToFloat", {}, inputs, dtype, rank, "com.microsoft")


def _product_point(case: Case, name: str) -> Array:
    return _lined(case, name, one_value(_point_of(case, name)))


def _point_of(case: Case, name: str) -> Array:
    """Return the zero point of a tensor, 0 if it is missing."""
    held = case.outputs["OutputTensor"] if name == "Output" else case.inputs[f"{name}Tensor"]
    return zero(case, f"{name}ZeroPointTensor", np.dtype(held.dtype))


def _lined(case: Case, name: str, array: Array) -> Array:
    """Return a parameter of rows or columns: a vector of a matrix, or with the axes of a batch."""
    a, b = (case.inputs[f"{own}Tensor"] for own in "AB")
    sizes = (
        b.shape if name == "B" else a.shape if name == "A" else case.outputs["OutputTensor"].sizes
    )
    if array.ndim == 0 or (name == "Output" and 1 in (a.ndim, b.ndim)):
        return of_product(case, name, array)
    if len(sizes) <= 2:
        return array.reshape(-1) if array.ndim == 2 else array
    whole = (*sizes[:-2], 1, sizes[-1]) if name == "B" else (*sizes[:-1], 1)
    try:
        return np.broadcast_to(array, whole)
    except ValueError:
        return array  # for the library to judge


def _of_columns(b: Array, bias: Array) -> Array:
    """Return a bias as a vector; ONNX Runtime takes any with as many elements as B has columns."""
    if bias.size != (bias.shape or (1,))[-1]:
        raise Unsupported("the bias of a MatMulIntegerToFloat is one of columns")
    columns = b.shape[-1] if b.ndim > 1 else 1
    return np.broadcast_to(bias.reshape(-1), columns) if bias.size == 1 else bias.reshape(-1)


def _element_wise(
    case: Case, node: str, prefix: str, attributes: Mapping[str, Any], dtype: str
) -> Call:
    """Give both parameters the one shape that ONNX wants, the simplest that holds them."""
    x = case.inputs["InputTensor"]
    names = {"scale": "ScaleTensor", "zero_point": "ZeroPointTensor"}
    given = {k: case.inputs[name] for k, name in names.items() if name in case.inputs}
    shape = parameter_shape(x, given.values())
    placed, own = (given, {}) if shape is None else _placed(given, shape, x.shape)
    inputs = {"x": x, **{f"{prefix}_{name}": array for name, array in placed.items()}}
    return Call(node, {**attributes, **own}, inputs, dtype, x.ndim)


def _placed(
    given: Mapping[str, Array], shape: tuple[int, ...], target: tuple[int, ...]
) -> tuple[Mapping[str, Array], dict[str, int]]:
    axes = axes_of(shape)
    if not axes:
        return {name: one_value(array) for name, array in given.items()}, {}
    if len(axes) == 1:
        length = shape[axes[0]]
        wide = {name: np.broadcast_to(channels(a), (length,)) for name, a in given.items()}
        return wide, {"axis": axes[0]}
    sizes = target if all(s in (1, t) for s, t in zip(shape, target, strict=True)) else shape
    return {n: np.broadcast_to(a, sizes) for n, a in given.items()}, {"axis": 0, "block_size": 1}


_CALLS: Mapping[str, Callable[[Case], Call]] = {
    "ConvInteger": _integer_convolution,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _integer_product,
    "MatMulIntegerToFloat": _float_product,
    "MaxPool": _max_pool,
    "NonZero": _nonzero,
    "QLinearAdd": _binary,
    "QLinearAveragePool": _average_pool,
    "QLinearConv": _convolution,
    "QLinearGlobalAveragePool": _global_average_pool,
    "QLinearMatMul": _product,
    "QLinearMul": _binary,
    "QuantizeLinear": _quantize,
}
