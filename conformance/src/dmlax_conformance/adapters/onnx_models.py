"""Operators as ONNX models of one node, and a case's tensors as their inputs.

ONNX spells some things differently: one value is a scalar, one for each channel is a vector, and
`pads` holds all starts and then all ends. QLinearConv has no optional zero point: 0 stands for a
missing one. Parameters of an element-wise operator are one value, or lie along one axis, or, with
`block_size` 1, have the shape of the input.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from ..oracle import OPERATORS
from ..oracle.fixed_point import FIELD
from .base import Array, Case, Unsupported
from .common import axes_of, channels, named, of_product, one_value, parameter_shape, zero

OPSET = 23
OUTPUT = "y"
CONTRIBUTED = {  # operators of ONNX Runtime
    *("MatMulIntegerToFloat", "QLinearAdd", "QLinearAveragePool", "QLinearGlobalAveragePool"),
    "QLinearMul",
}
Parameters = Sequence[Array]  # a scale and a zero point


@dataclass(frozen=True)
class Call:
    """One node: its type, its inputs in order, its attributes, and what its output is."""

    node: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any]
    dtype: str
    rank: int
    more: Mapping[str, str] = field(default_factory=dict)  # further outputs and their types

    @property
    def domain(self) -> str:
        """The domain of the node's type."""
        return "com.microsoft" if self.node in CONTRIBUTED else ""


def operators(has_contributed: bool) -> list[str]:
    """Return the operators that are one node, of ONNX itself or also of ONNX Runtime."""
    left_out = set() if has_contributed else CONTRIBUTED
    return [name for name, row in OPERATORS.items() if row.onnx in _CALLS.keys() - left_out]


def call(case: Case) -> Call:
    """Return the node that asks what the case asks."""
    if case.desc is not None:
        raise Unsupported("ONNX has no descs")
    if FIELD in case.attributes:
        raise Unsupported(f"ONNX has no {FIELD}")
    row = OPERATORS.get(case.operator)  # a later suite may have more of them
    if row is None or row.onnx not in _CALLS:
        raise Unsupported(f"no {case.operator}")
    found = _CALLS[row.onnx](case)
    if any(isinstance(value, list | tuple) and not value for value in found.attributes.values()):
        raise Unsupported("a list of no numbers has no type in ONNX")
    return found


def model(asked: Call, constants: frozenset[str] = frozenset()) -> Any:
    """Return the model; inputs named in `constants` are initializers."""
    onnx: Any = import_module("onnx")
    helper = onnx.helper

    def info(name: str, dtype: Any, sizes: Sequence[int | None]) -> Any:
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), sizes
        )

    outputs = {OUTPUT: (asked.dtype, [None] * asked.rank)}
    outputs |= {name: (dtype, []) for name, dtype in asked.more.items()}
    graph = helper.make_graph(
        [
            helper.make_node(
                asked.node, list(asked.inputs), [*outputs], domain=asked.domain, **asked.attributes
            )
        ],
        asked.node,
        [info(k, x.dtype, list(x.shape)) for k, x in asked.inputs.items() if k not in constants],
        [info(name, *kind) for name, kind in outputs.items()],
        [onnx.numpy_helper.from_array(x, k) for k, x in asked.inputs.items() if k in constants],
    )
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


def _call(
    case: Case,
    inputs: Mapping[str, Array],
    attributes: Mapping[str, Any] | None = None,
    dtype: str = "",
    rank: int | None = None,
    **more: Any,
) -> Call:
    """Return the operator's node; by default its output has the data type that is asked for.

    The output's rank is that of `x`.
    """
    node, dtype = OPERATORS[case.operator].onnx, dtype or case.outputs["OutputTensor"].dtype
    return Call(
        node, inputs, attributes or {}, dtype, inputs["x"].ndim if rank is None else rank, **more
    )


def _quantized(
    case: Case,
    keys: Mapping[str, str],
    spelled: Callable[[str, Parameters], Parameters] = lambda _, pair: [*map(one_value, pair)],
) -> dict[str, Array]:
    """Return tensors, before their scales and zero points; the output has only the latter."""
    inputs: dict[str, Array] = {}
    for name, key in keys.items():
        if name != "Output":
            inputs[key] = case.inputs[f"{name}Tensor"]
        parameters = spelled(name, (case.inputs[f"{name}ScaleTensor"], _point_of(case, name)))
        inputs[f"{key}_scale"], inputs[f"{key}_zero_point"] = parameters
    return inputs


def _point_of(case: Case, name: str) -> Array:
    """Return the zero point of a tensor, 0 if it is missing."""
    held = case.outputs["OutputTensor"] if name == "Output" else case.inputs[f"{name}Tensor"]
    return zero(case, f"{name}ZeroPointTensor", np.dtype(held.dtype))


def _windows(case: Case, **more: Any) -> dict[str, Any]:
    """Return the attributes about windows."""
    given = case.attributes
    strides, dilations = (list(given[name]) for name in ("Strides", "Dilations"))
    pads = [*given["StartPadding"], *given["EndPadding"]]
    return {"strides": strides, "dilations": dilations, "pads": pads, **more}


def _integer_convolution(case: Case) -> Call:
    inputs = {"x": case.inputs["InputTensor"], "w": case.inputs["FilterTensor"]}
    inputs["x_zero_point"] = one_value(_point_of(case, "Input"))
    inputs["w_zero_point"] = channels(_point_of(case, "Filter"))
    return _call(case, inputs, _windows(case, group=case.attributes["GroupCount"]), "int32")


def _convolution(case: Case) -> Call:
    def spelled(name: str, pair: Parameters) -> Parameters:
        return [*map(channels if name == "Filter" else one_value, pair)]

    inputs = _quantized(case, {"Input": "x", "Filter": "w", "Output": "y"}, spelled)
    if "BiasTensor" in case.inputs:
        bias = channels(case.inputs["BiasTensor"])
        inputs["B"] = bias.reshape(-1) if bias.ndim == 0 else bias
    return _call(case, inputs, _windows(case, group=case.attributes["GroupCount"]))


def _average_pool(case: Case) -> Call:
    """Return a call without dilations."""
    if max(case.attributes["Dilations"], default=1) > 1:
        raise Unsupported("QLinearAveragePool has no dilations")
    attributes = _windows(case, kernel_shape=list(case.attributes["WindowSize"]))
    del attributes["dilations"]
    padding = int(case.attributes["IncludePadding"])
    return _global_average_pool(case, **attributes, count_include_pad=padding)


def _global_average_pool(case: Case, **attributes: Any) -> Call:
    inputs = _quantized(case, {"Input": "x", "Output": "y"})
    return _call(case, inputs, {**attributes, "channels_last": 0})


def _max_pool(case: Case) -> Call:
    x = case.inputs["InputTensor"]
    kernel_shape = list(case.attributes["WindowSize"])
    return _call(case, {"x": x}, _windows(case, kernel_shape=kernel_shape), x.dtype.name)


def _quantize(case: Case) -> Call:
    onnx: Any = import_module("onnx")
    dtype = np.dtype(case.outputs["OutputTensor"].dtype)
    return _element_wise(case, "y", output_dtype=onnx.helper.np_dtype_to_tensor_dtype(dtype))


def _binary(case: Case) -> Call:
    inputs = _quantized(case, {"A": "x", "B": "b", "Output": "y"})
    return _call(case, inputs, rank=max(inputs["x"].ndim, inputs["b"].ndim))


def _dynamic_quantize(case: Case) -> Call:
    if case.outputs["OutputTensor"].dtype != "uint8":
        raise Unsupported("ONNX quantizes dynamically to uint8 alone")
    more = {"y_scale": "float32", "y_zero_point": "uint8"}
    return _call(case, {"x": case.inputs["InputTensor"]}, more=more)


def _integer_product(case: Case) -> Call:
    inputs = {"x": case.inputs["ATensor"], "w": case.inputs["BTensor"]}
    inputs |= {f"{key}_zero_point": _product_point(case, key.upper()) for key in "ab"}
    return _call(case, inputs, dtype="int32", rank=len(case.outputs["OutputTensor"].sizes))


def _product(case: Case) -> Call:
    """Return a call of which scale and zero point have one shape."""
    if "BiasTensor" in case.inputs:
        raise Unsupported("a QLinearMatMul has no bias")

    def spelled(name: str, pair: Parameters) -> Parameters:
        try:
            wide = np.broadcast_arrays(*map(one_value, pair))
        except ValueError:
            raise Unsupported("a scale and a zero point have one shape in ONNX") from None
        return [_lined(case, name, array) for array in wide]

    inputs = _quantized(case, {"A": "x", "B": "w", "Output": "y"}, spelled)
    return _call(case, inputs, rank=len(case.outputs["OutputTensor"].sizes))


def _float_product(case: Case) -> Call:
    """Return a call of which the floats have one type."""
    given = case.inputs
    inputs = {"x": given["ATensor"], "w": given["BTensor"]}
    inputs["a_scale"] = one_value(given["AScaleTensor"])  # a vector would be one of columns
    inputs["b_scale"] = _lined(case, "B", one_value(given["BScaleTensor"]))
    inputs |= {f"{key}_zero_point": _product_point(case, key.upper()) for key in "ab"}
    if "BiasTensor" in given:
        inputs["bias"] = _of_columns(given["BTensor"], given["BiasTensor"])
    return _call(case, inputs, rank=len(case.outputs["OutputTensor"].sizes))


def _product_point(case: Case, name: str) -> Array:
    return _lined(case, name, one_value(_point_of(case, name)))


def _lined(case: Case, name: str, array: Array) -> Array:
    """Return a parameter of rows or columns: a vector of a matrix, or with the axes of a batch."""
    a, b = (case.inputs[f"{operand}Tensor"] for operand in "AB")
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
        return array  # the library judges it


def _of_columns(b: Array, bias: Array) -> Array:
    """Return a bias as a vector; ONNX Runtime takes any with as many elements as B has columns."""
    if bias.size != (bias.shape or (1,))[-1]:
        raise Unsupported("the bias of a MatMulIntegerToFloat is one of columns")
    columns = b.shape[-1] if b.ndim > 1 else 1
    return np.broadcast_to(bias.reshape(-1), columns) if bias.size == 1 else bias.reshape(-1)


def _element_wise(case: Case, prefix: str, **attributes: Any) -> Call:
    """Give both parameters the one shape that ONNX wants, the simplest that holds them."""
    x = case.inputs["InputTensor"]
    names = {"scale": "ScaleTensor", "zero_point": "ZeroPointTensor"}
    given = {k: case.inputs[name] for k, name in names.items() if name in case.inputs}
    shape = parameter_shape(x, given.values())
    placed, axis = (given, {}) if shape is None else _placed(given, shape, x.shape)
    inputs = {"x": x, **{f"{prefix}_{name}": array for name, array in placed.items()}}
    return _call(case, inputs, {**attributes, **axis})


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
    "DequantizeLinear": lambda case: _element_wise(case, "x"),
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _integer_product,
    "MatMulIntegerToFloat": _float_product,
    "MaxPool": _max_pool,
    "NonZero": lambda case: _call(case, {"x": case.inputs["InputTensor"]}, dtype="int64", rank=2),
    "QLinearAdd": _binary,
    "QLinearAveragePool": _average_pool,
    "QLinearConv": _convolution,
    "QLinearGlobalAveragePool": _global_average_pool,
    "QLinearMatMul": _product,
    "QLinearMul": _binary,
    "QuantizeLinear": _quantize,
}
