"""The pass that computes one row of each image where nothing reads the others."""

import numpy as np
import pytest

import dmlax.onnx
from dmlax._core.arguments import Aval
from dmlax.onnx import passes
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.passes.row_selection import take_rows_first
from support.onnx_models import inputs_of, quantized

BYTES = np.dtype(np.uint8)
CONSTANTS = {
    "first": np.asarray(0),
    "last": np.asarray(-1),
    "both": np.asarray([0, 1]),
    "wide": np.asarray([-1, 8]),
    "deep": np.asarray([-1, 5, 8]),
}
AVALS = {
    **{name: Aval(BYTES, (2, 5, 8)) for name in "abcn"},
    **{name: Aval(BYTES, (10, 8)) for name in ("rows", "product")},
}


def node(op, inputs, output, domain="", **attributes):
    return Node(output, op, domain, 1, inputs, (output,), attributes)


SUM = node("QLinearAdd", ("a", "s", "z", "b", "s", "z", "s", "z"), "c", MICROSOFT)
NORMALIZED = node("QuantizedLayerNormalization", ("c", "s", "z", "w", "", "s", "z"), "n", OWN)
PRODUCTS = (
    node("Reshape", ("a", "wide"), "rows"),
    node("QGemm", ("rows", *["p"] * 8), "product", MICROSOFT),
    node("Reshape", ("product", "deep"), "n"),
)


def taken(nodes, row="first", outputs=("z",), others=()):
    """The operators after the pass, but one that reads the row of "n"."""
    last = node("Gather", ("n", row), "y", axis=1), node("Relu", ("y",), "z")
    graph = take_rows_first(Graph((*nodes, *others, *last), {}, outputs, CONSTANTS), AVALS)
    return [(each.op, *each.inputs[:1]) for each in graph.nodes if each.op != "Relu"]


@pytest.mark.parametrize("row", ["first", "last"])
def test_sums_and_normalizations_are_of_one_row(row):
    assert taken((SUM, NORMALIZED), row) == [
        ("Gather", "a"),
        ("Gather", "b"),
        ("QLinearAdd", "a@row"),
        ("QuantizedLayerNormalization", "c@row"),
    ]


def test_products_are_of_one_row():
    found = taken(PRODUCTS)
    assert found == [
        ("Gather", "a"),
        ("Identity", "a@row"),
        ("QGemm", "rows@row"),
        ("Identity", "product@row"),
    ]


def test_rows_of_a_product_are_taken_before_it():
    found = taken(PRODUCTS[1:])
    assert found[:3] == [("Reshape", "rows"), ("Gather", "rows@rows"), ("QGemm", "rows@row")]


@pytest.mark.parametrize(
    "changed",
    [
        {"row": "both"},
        {"outputs": ("z", "n")},
        {"others": (node("Relu", ("n",), "other"),), "outputs": ("z", "other")},
        {"others": (node("Gather", ("n", "last"), "other", axis=1),), "outputs": ("z", "other")},
    ],
    ids=["two rows", "an output", "read by another", "another row"],
)
def test_tensors_of_which_more_is_read_have_all_rows(changed):
    assert ("QuantizedLayerNormalization", "c") in taken((SUM, NORMALIZED), **changed)


def test_what_is_read_too_keeps_all_rows():
    found = taken((SUM, NORMALIZED), outputs=("z", "c"))
    assert found == [
        ("QLinearAdd", "a"),
        ("Gather", "c"),
        ("QuantizedLayerNormalization", "c@row"),
    ]


def test_readers_of_two_rows_get_one_each():
    first, last = (
        NORMALIZED.replace(inputs=("a", *NORMALIZED.inputs[1:]), outputs=(x,)) for x in "bn"
    )
    other = node("Gather", ("b", "first"), "x", axis=1)
    found = taken(
        (first, last), "last", outputs=("z", "w"), others=(other, node("Relu", ("x",), "w"))
    )
    sources = {each[1] for each in found if each[0] == "QuantizedLayerNormalization"}
    assert len(found) == 4
    assert sources == {"a@row", "a@row1"}


def test_a_product_of_columns_is_not_moved():
    transposed = PRODUCTS[1].replace(attributes={"transA": 1})
    assert ("QGemm", "rows") in taken((PRODUCTS[0], transposed, PRODUCTS[2]))


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_whole_model_has_the_same_bits(form, monkeypatch):
    model = quantized("vit", form)
    inputs = inputs_of(model)
    found = dmlax.onnx.load(model)
    assert any(
        node.op == "QGemm" and node.inputs[0].endswith("@row") for node in found._graph.nodes
    )
    others = tuple(each for each in passes.PASSES_OF_SHAPES if each is not take_rows_first)
    monkeypatch.setattr(passes, "PASSES_OF_SHAPES", others)
    wanted = dmlax.onnx.load(model)(inputs)
    for name, x in found(inputs).items():
        assert np.array_equal(x, wanted[name])
