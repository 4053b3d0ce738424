"""Products that passes join with what follows them: attentions, and functions of bytes."""

import collections
import functools

import jax
import numpy as np
import pytest

import dmlax.onnx
from support.onnx_models import inputs_of, quantized

# Two blocks have these.
JOINED = {"dmlax.QLinearSelfAttention": 2, "dmlax.QGemm": 2, "dmlax.QGemmAdd": 2}


def types(graph):
    return collections.Counter(node.type for node in graph.nodes)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_attentions_and_functions_of_bytes_are_nodes(form):
    loaded = dmlax.onnx.load(quantized("vit", form))
    found = types(loaded._graph)
    assert {name: found[name] for name in JOINED} == JOINED
    assert "com.microsoft.QLinearSoftmax" not in found
    assert "QLinearMatMul" not in found
    attentions = [node for node in loaded._graph.nodes if node.op == "QLinearSelfAttention"]
    assert [node.attributes["heads_last"] for node in attentions] == [1] * 2
    assert [node.attributes["sizes"] for node in attentions] == [(17, 2, 16)] * 2


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_split_that_something_else_reads_is_not_joined(form):
    loaded = dmlax.onnx.load(quantized("vit", form))
    split = next(name for name in loaded.tensors() if name.startswith("transpose_16"))
    asked = types(loaded._graph_for((split, *loaded._file.outputs), ()))
    assert (asked["dmlax.QLinearSelfAttention"], asked["dmlax.QLinearAttention"]) == (1, 1)


def test_a_tensor_that_is_asked_for_is_computed_by_itself():
    loaded = dmlax.onnx.load(quantized("vit", "qdq"))
    graph = loaded._graph_for((), ())
    joined = [node for node in loaded._graph.nodes if node.type in JOINED]
    inputs = inputs_of(quantized("vit", "qdq"))
    softmax, gemm = (
        next(name for name in loaded.tensors() if name.startswith(start))
        for start in ("softmax_24_Quantize", "gemm_34_Quantize")
    )
    assert joined
    assert not graph.nodes
    asked = types(loaded._graph_for((softmax, gemm, *loaded._file.outputs), ()))
    assert {name: asked[name] for name in JOINED} == dict.fromkeys(JOINED, 1) | {
        "dmlax.QGemmAdd": 2
    }
    call = functools.partial(loaded.apply, outputs=(*loaded._file.outputs, softmax))
    given = jax.jit(call)(loaded.params, inputs)
    for name, x in loaded(inputs).items():
        assert np.array_equal(given[name], x)
