"""A sum after a convolution or a product is fused into it, and changes no bit."""

import numpy as np
import pytest
from onnx import helper

import dmlax.onnx
from dmlax._core.arguments import Aval
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.passes.epilogues import fuse_adds, fuse_gemm_adds
from support import assert_same, draw, onnx_files

pytestmark = pytest.mark.oldest

X = draw(1, np.uint8, (2, 3, 5, 4))
CONSTANTS = {
    "w": draw(2, np.int8, (3, 3, 3, 3)),
    "w_scale": np.float32([0.01, 0.02, 0.005]),
    "w_zero": np.zeros(3, np.int8),
    "bias": np.int32([100, -200, 300]),
    "scale": np.float32(0.03),
    "zero": np.uint8(120),
    "y_scale": np.float32(0.05),
    "y_zero": np.uint8(99),
    "other_scale": np.float32(0.07),
}
CONVOLUTION = ("scale", "zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias")
RESULT, RESIDUAL = ("y", "y_scale", "y_zero"), ("x", "scale", "zero")


def model(first=RESULT, second=RESIDUAL, outputs=("sum",)):
    """A residual block."""
    add = (*first, *second, "other_scale", "zero")
    nodes = [
        helper.make_node("QLinearConv", ["x", *CONVOLUTION], ["y"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("QLinearAdd", add, ["sum"], "add", domain="com.microsoft"),
    ]
    inputs = {"x": (np.uint8, ["n", 3, 5, 4])}
    return onnx_files.model(nodes, inputs, outputs, CONSTANTS, 17)


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("order", [(RESULT, RESIDUAL), (RESIDUAL, RESULT)])
def test_it_changes_no_bit(order, arithmetic):
    loaded = dmlax.onnx.load(model(*order), arithmetic=arithmetic)
    text = str(loaded.explain())
    assert "dmlax.QLinearConv 1" in text
    assert "after fuse adds: 1 nodes\n" in text
    alone = loaded.apply(loaded.params, X, outputs=["sum", "y"])
    assert_same(loaded(X)["sum"], alone["sum"])
    assert len(np.unique(alone["sum"])) > 20


@pytest.mark.parametrize(
    ("first", "outputs"),
    [(RESULT, ("sum", "y")), (("y", "other_scale", "y_zero"), ("sum",))],
    ids=["a result that is asked for", "another scale"],
)
def test_it_is_left_alone(first, outputs):
    loaded = dmlax.onnx.load(model(first, outputs=outputs))
    assert "dmlax.QLinearConv" not in str(loaded.explain())
    assert_same(loaded(X)["sum"], loaded.apply(loaded.params, X, outputs=["y", "sum"])["sum"])


def test_the_pass_alone():
    conv = Node("conv", "QLinearConv", "", 10, ("x", *CONVOLUTION), ("y",), {"group": 1})
    inputs = (*RESIDUAL, *RESULT, "other_scale", "zero")
    add = Node("add", "QLinearAdd", "com.microsoft", 1, inputs, ("sum",), {})
    graph = Graph((conv, add), {}, ("sum",), {n: np.asarray(x) for n, x in CONSTANTS.items()})
    image = Aval(np.dtype(np.uint8), X.shape)
    (node,) = fuse_adds(graph, {"x": image, "y": image}).nodes
    assert (node.op, node.domain, node.outputs) == ("QLinearConv", OWN, ("sum",))
    assert node.inputs == ("x", *CONVOLUTION[:-1], *RESIDUAL, "other_scale", "zero", "bias")
    assert node.attributes == {"group": 1, "addend_first": 1}
    row = Aval(np.dtype(np.uint8), X.shape[1:])
    assert len(fuse_adds(graph, {"x": row, "y": image}).nodes) == 2
    assert len(fuse_adds(graph.replace(outputs=("y", "sum")), {"x": image, "y": image}).nodes) == 2


GEMM = ("x", "scale", "zero", "w", "w_scale", "w_zero", "bias", "y_scale", "y_zero")
PRODUCT = Node("gemm", "QGemm", MICROSOFT, 1, GEMM, ("rows",), {"transB": 1})
RESHAPED = Node("reshape", "Reshape", "", 14, ("rows", "shape"), ("y",), {})
IMAGES, ROWS = Aval(np.dtype(np.uint8), (2, 4, 8)), Aval(np.dtype(np.uint8), (8, 8))


def sum_of(first=RESULT, second=("r", "scale", "zero"), outputs=("sum",), residual=IMAGES):
    """The nodes after the pass of a product, a reshape and a sum."""
    inputs = (*first, *second, "other_scale", "zero")
    add = Node("add", "QLinearAdd", MICROSOFT, 1, inputs, ("sum",), {})
    constants = {name: np.asarray(x) for name, x in CONSTANTS.items()}
    graph = Graph((PRODUCT, RESHAPED, add), {}, outputs, constants)
    avals = {"r": residual, "y": IMAGES, "rows": ROWS}
    return fuse_gemm_adds(graph, avals).nodes


@pytest.mark.parametrize("first", [0, 1])
def test_a_product_takes_the_residual(first):
    order = (("r", "scale", "zero"), RESULT) if first else (RESULT, ("r", "scale", "zero"))
    (node,) = sum_of(*order)
    assert (node.op, node.domain, node.outputs) == ("QGemmAdd", OWN, ("sum",))
    assert node.inputs == (*GEMM, "r", "scale", "zero", "other_scale", "zero")
    assert node.attributes == {"transB": 1, "addend_first": first}


@pytest.mark.parametrize(
    "changed",
    [
        {"outputs": ("sum", "y")},
        {"outputs": ("sum", "rows")},
        {"first": ("y", "other_scale", "y_zero")},
        {"residual": Aval(np.dtype(np.uint8), (1, 4, 8))},
    ],
    ids=["a reshaped output", "an output", "another scale", "a residual that broadcasts"],
)
def test_other_sums_of_products_are_left_alone(changed):
    assert [node.op for node in sum_of(**changed)][-1] == "QLinearAdd"
