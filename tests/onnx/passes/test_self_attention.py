"""The pass that joins an attention with the product that makes queries, keys and values."""

import numpy as np
import pytest

from dmlax._core.arguments import Aval
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.passes.attention import fuse_self_attention

BYTES = np.dtype(np.uint8)
GEMM = Node("y", "QGemm", MICROSOFT, 1, ("a", *(f"g{i}" for i in range(8))), ("y",), {"transB": 1})
SPLIT = Node("s", "Reshape", "", 14, ("y", "shape"), ("s",), {})
FIRST = Node("t", "Transpose", "", 13, ("s",), ("t",), {"perm": (2, 0, 3, 1, 4)})
TAKEN = tuple(
    Node(name, "Gather", "", 13, ("t", f"i{i}"), (name,), {"axis": 0})
    for i, name in enumerate("qkv")
)
NODES = (Node("d", "DequantizeLinear", "", 13, ("q", "scale"), ("f",), {}),)
FUNCTION = Node(
    "fq", "ByteFunction", OWN, 1, ("q", "scale"), ("fq",), {"nodes": NODES, "names": ("q", "scale")}
)
TURNED = Node("kt", "Transpose", "", 13, ("k",), ("kt",), {"perm": (0, 1, 3, 2)})
OF_SCORES, OF_VALUES = tuple(f"p{i}" for i in range(6)), tuple(f"p{i}" for i in range(6, 12))
ATTENTION = Node(
    "o",
    "QLinearAttention",
    OWN,
    1,
    ("fq", *OF_SCORES[:2], "kt", *OF_SCORES[2:], *OF_VALUES[:2], "v", *OF_VALUES[2:]),
    ("o",),
    {"heads_last": 1},
)
CONSTANTS = {"shape": np.asarray([-1, 5, 3, 2, 8])} | {f"i{i}": np.asarray(i) for i in range(3)}


def fused(changes=(), constants=None, columns=48, outputs=("o",)):
    """The operators after the pass; changes are nodes in the place of those of their outputs."""
    changed = {node.outputs: node for node in changes}
    nodes = GEMM, SPLIT, FIRST, *TAKEN, FUNCTION, TURNED, ATTENTION
    given = tuple(changed.get(node.outputs, node) for node in nodes)
    graph = Graph(given, {}, outputs, CONSTANTS | (constants or {}))
    return fuse_self_attention(graph, {"y": Aval(BYTES, (10, columns))}).nodes


def test_it_is_one_node():
    (node,) = fused()
    assert (node.op, node.domain, node.outputs) == ("QLinearSelfAttention", OWN, ("o",))
    assert node.inputs == (*GEMM.inputs, *OF_SCORES, *OF_VALUES, "scale")
    assert node.attributes["sizes"] == (5, 2, 8)
    assert node.attributes["heads_last"] == node.attributes["transB"] == 1
    assert [each.names for each in node.attributes["functions"]] == [("q", "scale"), ("k",), ("v",)]
    assert [each.nodes for each in node.attributes["functions"]] == [NODES, (), ()]


@pytest.mark.parametrize(
    "changed",
    [
        {"changes": (FIRST.replace(attributes={"perm": (2, 0, 1, 3, 4)}),)},
        {"changes": (TURNED.replace(attributes={"perm": (0, 1, 2, 3)}),)},
        {"changes": (TAKEN[0].replace(attributes={"axis": 1}),)},
        {"constants": {"i0": np.asarray(2), "i2": np.asarray(0)}},
        {"constants": {"i0": np.asarray([0])}},
        {"constants": {"shape": np.asarray([-1, 5, 2, 3, 8])}},
        {"constants": {"shape": np.asarray([2, 5, 3, 2, 8])}},
        {"columns": 24},
        {"outputs": ("o", "y")},
        {"outputs": ("o", "t")},
        {"outputs": ("o", "v")},
    ],
    ids=[
        *("another order", "keys of rows", "another axis", "another order of parts", "a vector"),
        *("two parts", "a known batch", "rows of several images", "an output", "all", "values"),
    ],
)
def test_others_are_left_alone(changed):
    assert "QLinearSelfAttention" not in {node.op for node in fused(**changed)}
