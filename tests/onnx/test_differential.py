"""A slice of `nox -s differential`, which draws thousands of graphs."""

import itertools

import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.passes import byte_functions, byte_moves, constants, qdq
from tools.differential import operators
from tools.differential.__main__ import BAD
from tools.differential.graphs import describe, draw
from tools.differential.judge import check


@pytest.mark.parametrize("start", range(0, 20, 10))
def test_random_graphs_mean_what_they_say(start):
    """Most of them run, and are compared bit by bit."""
    verdicts = []
    for seed in range(start, start + 10):
        verdict, why = check(seed)
        assert verdict not in BAD, f"seed {seed}: {why}\n{describe(draw(seed)[0])}"
        verdicts.append(verdict)
    assert verdicts.count("right") >= 6


def test_every_operator_that_a_pass_moves_or_fuses_is_drawn():
    rows = itertools.chain(*(rows for family in operators.FAMILIES.values() for rows, _ in family))
    drawn = {name for row in rows for name in row.ops.split()}
    element_wise = {op for op, domain in byte_functions._ELEMENT_WISE if not domain}
    known = {*qdq.FUSIONS, *byte_moves._MOVES, *constants._MOVES, *element_wise}
    assert known - drawn == {"DequantizeLinear", "QuantizeLinear"}


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [[-2, -1], [3, -2]])
def test_negative_axes_of_a_resize_are_those_counted_from_the_front(policy, axes):
    """ONNX Runtime 1.32 ignores the sizes if an axis is negative."""
    x = np.arange(56, dtype=np.float32).reshape(1, 1, 8, 7)

    def resize(axes):
        options = {"axes": axes, "keep_aspect_ratio_policy": policy, "mode": "linear"}
        node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **options)
        inputs = [helper.make_tensor_value_info("x", 1, x.shape)]
        sizes = numpy_helper.from_array(np.array([5, 3]), "sizes")
        graph = helper.make_graph([node], "resize", inputs, [ValueInfoProto(name="y")], [sizes])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)

    wanted = peer.run(peer.start(resize([axis % 4 for axis in axes])), {"x": x})["y"]
    y = np.asarray(dmlax.onnx.load(resize(axes))(x)["y"])
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
