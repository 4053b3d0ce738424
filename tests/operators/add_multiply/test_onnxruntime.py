"""ONNX Runtime's QLinearAdd and QLinearMul, and `arithmetic="float32"`: the same bits.

Its addition depends on the order of its operands, and it swaps them where one of them is constant.
"""

import functools

import jax
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlax
from support import NATIVE, draw

OPERATORS = {
    "QLinearAdd": dmlax.element_wise_quantized_linear_add,
    "QLinearMul": dmlax.element_wise_quantized_linear_multiply,
}
TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
SHAPES = [
    ((4099,), (4099,)),
    ((1,), (1,)),
    ((1, 1), (1,)),
    ((1,), (1000,)),
    ((1000,), (1,)),
    ((7, 1), (7, 90)),
    ((7, 90), (7, 1)),
    ((7, 90), (90,)),
    ((90,), (7, 90)),
    ((7, 1), (1, 90)),
    ((1, 90), (7, 1)),
    ((2, 5, 1, 1), (2, 5, 9, 11)),
    ((1, 5, 1, 1), (2, 5, 9, 11)),
    ((2, 5, 9, 11), (5, 1, 1)),
    ((2, 1, 9, 1), (1, 5, 1, 11)),
    ((3, 4, 1), (3, 4, 1)),
    ((3, 1, 1), (3, 4, 1)),
    ((1, 1, 8), (6, 5, 1)),
]
NAMES = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point")
NAMES += ("output_scale", "output_zero_point")


@functools.cache
def session(operator, dtype, a, b):
    """A model of one node, everything an input."""
    shapes = {"a": a, "b": b}
    inputs = [
        helper.make_tensor_value_info(
            name, TensorProto.FLOAT if "scale" in name else TYPES[dtype], shapes.get(name, ())
        )
        for name in NAMES
    ]
    node = helper.make_node(operator, NAMES, ["y"], domain="com.microsoft")
    output = helper.make_tensor_value_info("y", TYPES[dtype], None)
    graph = helper.make_graph([node], "one", inputs, [output])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def scales(rng):
    """Prone to ties: powers of two, few decimals, and any."""
    kind = rng.integers(4)
    if kind == 0:
        return [np.float32(2.0 ** rng.integers(-4, 2)) for _ in range(3)]
    if kind == 1:
        return [np.float32(rng.integers(1, 40) * 0.05) for _ in range(3)]
    if kind == 2:
        return [np.float32(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-2, 0)) for _ in range(3)]
    return [np.float32(10.0 ** rng.uniform(-12, 12)) for _ in range(3)]  # some overflow an int32


def values(seed, dtype, a, b):
    rng = np.random.default_rng(seed)
    found = {"a": draw(seed, dtype, a), "b": draw(seed + 1, dtype, b)}
    found |= dict(zip(("a_scale", "b_scale", "output_scale"), scales(rng), strict=True))
    points = ("a_zero_point", "b_zero_point", "output_zero_point")
    found |= {name: draw(seed + 2 + i, dtype) for i, name in enumerate(points)}
    return {name: np.asarray(found[name]) for name in NAMES}


def call(operator, implementation):
    def function(given):
        given = dict(given)
        return OPERATORS[operator](
            given.pop("a"),
            given.pop("b"),
            arithmetic="float32",
            implementation=implementation,
            **given,
        )

    return jax.jit(function)


def count_mismatches(operator, dtype, a, b, seeds, implementation):
    function, count = call(operator, implementation), 0
    for seed in seeds:
        given = values(10 * seed, dtype, a, b)
        want = session(operator, dtype, a, b).run(None, given)[0]
        got = np.asarray(function(given))
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        count += np.count_nonzero(want != got)
    return count


@pytest.mark.parametrize("implementation", NATIVE)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_way_to_broadcast_agrees_on_every_bit(operator, dtype, implementation):
    wrong = {
        (a, b): found
        for a, b in SHAPES[list(TYPES).index(dtype) :: 2]
        if (found := count_mismatches(operator, dtype, a, b, range(8), implementation))
    }
    assert wrong == {}


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_elements_and_the_table_of_xla_agree_on_every_bit(operator):
    for (a, b), draws in ((((7, 1), (7, 90)), 20), (((600, 500), (600, 500)), 4)):
        assert count_mismatches(operator, "uint8", a, b, range(draws), "xla") == 0


@pytest.mark.slow
@pytest.mark.parametrize("implementation", [*NATIVE, "xla"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_million_elements_agree_on_every_bit(operator, dtype, implementation):
    shape = (4099,)
    assert count_mismatches(operator, dtype, shape, shape, range(250), implementation) == 0
