"""ONNX's own backend node tests of these operators, as the installed `onnx` makes them.

`NODES` is all of ONNX's semantics that its cases need, in terms of dmlax: the transposed int64
coordinates of NonZero, `pads`, `group`, the default axis, and blocked parameters.
"""

from importlib import import_module

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import node as onnx_cases
from onnx.helper import get_attribute_value, tensor_dtype_to_np_dtype

import dmlax
from support import assert_same

FLOAT8 = "DirectML has no 8-bit floats"
NARROW = "DirectML quantizes to 8 bits, and takes no fewer"
WIDE = "DirectML quantizes to 8 bits"
EXCLUDED = {
    "test_quantizelinear_e4m3fn": FLOAT8,
    "test_quantizelinear_e5m2": FLOAT8,
    "test_quantizelinear_uint16": WIDE,
    "test_quantizelinear_int16": WIDE,
    "test_quantizelinear_blocked_symmetric": WIDE,
    "test_quantizelinear_uint4": NARROW,
    "test_quantizelinear_int4": NARROW,
    "test_quantizelinear_uint2": NARROW,
    "test_quantizelinear_int2": NARROW,
    "test_quantizelinear_float4e2m1": NARROW,
    "test_dequantizelinear_e4m3fn": FLOAT8,
    "test_dequantizelinear_e4m3fn_float16": FLOAT8,
    "test_dequantizelinear_e4m3fn_zero_point": FLOAT8,
    "test_dequantizelinear_e5m2": FLOAT8,
    "test_dequantizelinear_uint4": NARROW,
    "test_dequantizelinear_int4": NARROW,
    "test_dequantizelinear_uint2": NARROW,
    "test_dequantizelinear_int2": NARROW,
    "test_dequantizelinear_float4e2m1": NARROW,
}


def nonzero(options, x):
    count, rows = dmlax.nonzero_coordinates(x, size=x.size, coordinate_rank=x.ndim)
    return np.asarray(rows)[: int(count)].T.astype(np.int64)


def windows(options):
    pads = options.pop("pads", (0, 0, 0, 0))
    half = len(pads) // 2
    known = {name: options.pop(name) for name in ("strides", "dilations") if name in options}
    groups = options.pop("group", 1)
    assert not options.keys() - {"kernel_shape"}
    return known | {
        "start_padding": tuple(pads[:half]),
        "end_padding": tuple(pads[half:]),
        "group_count": groups,
    }


def q_linear_conv(options, x, sx, zx, w, sw, zw, sy, zy, bias=None):
    return dmlax.quantized_linear_convolution(
        *(x, w, bias),
        input_scale=sx,
        input_zero_point=zx,
        filter_scale=sw,
        filter_zero_point=zw,
        output_scale=sy,
        output_zero_point=zy,
        **windows(options),
    )


def conv_integer(options, x, w, zx=None, zw=None):
    return dmlax.convolution_integer(
        x, w, input_zero_point=zx, filter_zero_point=zw, **windows(options)
    )


def placed(options, x, *parameters):
    """One value, a vector along `axis`, or one for each block of `block_size` along it."""
    axis, block = options.pop("axis", 1), options.pop("block_size", 0)
    assert not options
    if block:
        return {}, [np.repeat(each, block, axis) for each in parameters]
    return {} if parameters[0].size == 1 else {"axis": axis}, parameters


def quantize_linear(options, x, *parameters):
    dtype = options.pop("output_dtype", None)
    own, parameters = placed(options, x, *parameters)
    if dtype is not None:
        own["output_dtype"] = tensor_dtype_to_np_dtype(dtype)
    return dmlax.element_wise_quantize_linear(x, *parameters, **own)


def dequantize_linear(options, x, *parameters):
    own, parameters = placed(options, x, *parameters)
    return dmlax.element_wise_dequantize_linear(x, *parameters, **own)


NODES = {
    "NonZero": nonzero,
    "QLinearConv": q_linear_conv,
    "ConvInteger": conv_integer,
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
}


def collected():
    """Importing the module of an operator makes its cases."""
    for name in NODES:
        import_module(f"{onnx_cases.__name__}.{name.lower()}")
    cases = {case.name: case for case in onnx_cases._NodeTestCases}
    nodes = {name: [one.op_type for one in case.model.graph.node] for name, case in cases.items()}
    return {name: cases[name] for name, own in nodes.items() if own[1:] == [] and own[0] in NODES}


CASES = collected()


def test_the_cases_are_all_there():
    """A renamed or added case is a change to look at, and an exclusion has to name one."""
    assert EXCLUDED.keys() < CASES.keys()
    assert len(CASES) == 31
    assert len(CASES) - len(EXCLUDED) == 12


@pytest.mark.parametrize("name", [name for name in CASES if name not in EXCLUDED])
def test_a_case_gives_the_bits_that_onnx_expects(name):
    inputs, outputs = operands(name)
    assert outputs[0].size
    assert_same(call(name, inputs), outputs[0])


@pytest.mark.parametrize("name", EXCLUDED)
def test_an_excluded_case_is_refused_for_its_data_type(name):
    """An exclusion of what is accepted would hide a case."""
    with pytest.raises(dmlax.SpecError) as caught:
        call(name, operands(name)[0])
    assert caught.value.code == "data_type"


def call(name, inputs):
    (node,) = CASES[name].model.graph.node
    options = {one.name: get_attribute_value(one) for one in node.attribute}
    return NODES[node.op_type](options, *inputs)


def operands(name):
    ((inputs, outputs),) = CASES[name].data_sets
    return [array(each) for each in inputs], [array(each) for each in outputs]


def array(value):
    is_proto = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if is_proto else np.asarray(value)
