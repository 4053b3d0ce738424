"""A float function of an element has the same bits alone, in rows of any length and all at once."""

import jax
import numpy as np
import pytest
from onnx import TensorProto

import dmlax.onnx
from support.onnx_models import Network

OPS = (
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Exp"),
    *("HardSigmoid", "HardSwish", "Log", "Mish", "Reciprocal", "Selu", "Sigmoid", "Sin", "Sinh"),
    *("Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
)
LEAST = {"Acosh": 1.0, "Log": 0.001, "Sqrt": 0.0}
INSIDE_1 = ("Acos", "Asin", "Atanh")
COUNT, ALONE, ROWS = 7161, 160, (3, 7, 31)  # the lengths divide the count


@pytest.mark.parametrize("op", OPS)
def test_the_bits_of_an_element_do_not_depend_on_its_place(op):
    rng = np.random.default_rng(54)
    x = rng.standard_normal(COUNT) * rng.choice([0.1, 1, 4], COUNT)
    x = np.tanh(x) if op in INSIDE_1 else LEAST[op] + abs(x) if op in LEAST else x
    x = x.astype(np.float32)
    net = Network()
    y = net.node(op, "x")
    model = net.model({"x": (TensorProto.FLOAT, ["n"])}, {y: (TensorProto.FLOAT, ["n"])}, opset=22)
    loaded = dmlax.onnx.load(model)
    run = jax.jit(lambda x: loaded.apply(loaded.params, x)[y])
    whole = np.asarray(run(x)).view(np.int32)
    for length in (1, *ROWS):
        rows = x.reshape(-1, length)[:ALONE]
        parts = np.concatenate([np.asarray(run(row)) for row in rows])
        np.testing.assert_array_equal(parts.view(np.int32), whole[: parts.size])
