"""QuantizeLinear, DequantizeLinear and Cast of integers of 2 to 16 bits and floats of 8."""

import jax
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.operators.packed import PackedIntegers
from dmlax.onnx.operators.values import DTYPES

RNG = np.random.default_rng(5)
NUMBERS = {dtype.name: number for number, dtype in DTYPES.items()}
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint4", "int4", "uint2", "int2")
FLOATS8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
SHAPE = (3, 10, 4)


class File:
    """Nodes, inputs, constants and outputs of a file that a test builds."""

    def __init__(self, opset=25):
        self.opset, self.nodes, self.outputs = opset, [], {}
        self.constants, self.inputs = [], {}

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(array)
        return name

    def node(self, op, *inputs, domain="", outputs=1, **attributes):
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def output(self, name, dtype):
        self.outputs[name] = NUMBERS[np.dtype(dtype).name]

    def model(self):
        return helper.make_model(
            helper.make_graph(
                self.nodes,
                "g",
                [
                    helper.make_tensor_value_info(name, NUMBERS[x.dtype.name], x.shape)
                    for name, x in self.inputs.items()
                ],
                [
                    helper.make_tensor_value_info(name, number, None)
                    for name, number in self.outputs.items()
                ],
                self.constants,
            ),
            opset_imports=[
                helper.make_opsetid("", self.opset),
                helper.make_opsetid("com.microsoft", 1),
            ],
            ir_version=13 if self.opset > 24 else 10,
        )

    def compare(self, tolerance=0.0, optimised=False):
        """Loads the file, and compares every output with ONNX Runtime's; returns the model."""
        model = self.model()
        wanted = peer.run(peer.start(model, optimised=optimised), self.inputs)
        loaded = dmlax.onnx.load(model)
        found = loaded(self.inputs)
        for name, want in wanted.items():
            got = np.asarray(found[name])
            assert got.shape == want.shape, name
            if tolerance:
                bound = tolerance * np.abs(want[np.isfinite(want)]).max(initial=1e-30)
                np.testing.assert_allclose(got, want, rtol=0, atol=bound, err_msg=name)
            else:
                np.testing.assert_array_equal(got, want, err_msg=name)
        return loaded


def scales(shape, dtype):
    return RNG.uniform(0.05, 0.4, shape).astype(dtype)


def levels(shape, dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype.name.startswith("float8"):
        return RNG.normal(0, 4, shape).astype(dtype)
    limits = ml_dtypes.iinfo(dtype)
    values = RNG.integers(int(limits.min), int(limits.max) + 1, shape)
    return values.astype(np.int32).astype(dtype)


PLACES = {  # of the parameters: their shape, and the attributes
    "one": ((), {}),
    "axis": ((10,), {"axis": 1}),
    "last axis": ((4,), {"axis": -1}),
    "blocks": ((3, 4, 4), {"axis": 1, "block_size": 3}),
    "blocks of the first axis": ((2, 10, 4), {"axis": 0, "block_size": 2}),
}


@pytest.mark.parametrize("float_dtype", ["float32", "float16"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS8])
def test_every_place_of_the_parameters(dtype, float_dtype):
    file = File()
    values = RNG.normal(0, 30, SHAPE)
    values[0, :4, 0] = 6e4, -6e4, np.inf, -np.inf
    x = file.input(values.astype(float_dtype))
    q = (
        file.input(levels(SHAPE, "uint8"))
        if dtype == "uint8"
        else file.constant(levels(SHAPE, dtype))
    )
    for shape, attributes in PLACES.values():
        if dtype in FLOATS8 and attributes.get("block_size"):
            continue  # ONNX Runtime has none
        scale = file.constant(scales(shape, float_dtype))
        zero = np.zeros(shape, np.dtype(getattr(ml_dtypes, dtype, dtype)))
        point = file.constant(zero if dtype in FLOATS8 else levels(shape, dtype))
        y = file.node("QuantizeLinear", x, scale, point, **attributes)
        file.output(file.node("DequantizeLinear", y, scale, point, **attributes), float_dtype)
        file.output(file.node("DequantizeLinear", q, scale, **attributes), float_dtype)
        file.output(file.node("DequantizeLinear", q, scale, point, **attributes), float_dtype)
        y = file.node("QuantizeLinear", x, scale, output_dtype=NUMBERS[dtype], **attributes)
        file.output(file.node("DequantizeLinear", y, scale, **attributes), float_dtype)
    file.compare()
