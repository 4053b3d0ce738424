"""Weights are held once: read in place, packed on the device, and given back by `save`."""

import gc
import mmap
import weakref

import jax
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import dmlax.onnx
from dmlax.onnx import archive, memory, protobuf, wire
from support import compilations
from support.onnx_files import File, message_field
from support.onnx_models import quantized

pytestmark = pytest.mark.oldest

FORMS = [("classifier", "qoperator"), ("classifier", "qdq-s8"), ("attention", "dynamic")]


def assert_alike(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_path_bytes_and_a_message_are_the_same_file(form, tmp_path):
    file = quantized(*form)
    (tmp_path / "model.onnx").write_bytes(file.SerializeToString())
    graphs = map(protobuf.read, (file, file.SerializeToString(), tmp_path / "model.onnx"))
    from_message, from_bytes, from_path = (graph.constants for graph in graphs)
    assert len(from_message) > 5
    assert_alike(from_bytes, from_message)
    assert_alike(from_path, from_message)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_saved_model_has_the_tensors_of_the_file(form, tmp_path):
    file = quantized(*form)
    dmlax.onnx.load(file).save(tmp_path / "model.dmlax")
    saved, _ = archive.read(tmp_path / "model.dmlax")
    assert_alike(saved.constants, protobuf.read(file).constants)


def test_a_loaded_model_does_not_hold_the_files_bytes(tmp_path, monkeypatch):
    memories = []

    class Memory(mmap.mmap):
        def __new__(cls, *arguments):
            memory = super().__new__(cls, *arguments)
            memories.append(weakref.ref(memory))
            return memory

    monkeypatch.setattr(mmap, "mmap", Memory)
    onnx.save(quantized("classifier", "qoperator"), tmp_path / "model.onnx")
    monkeypatch.setattr(protobuf, "_IN_PLACE_BYTES", 64)
    model = dmlax.onnx.load(tmp_path / "model.onnx")
    gc.collect()
    assert len(memories) == 1
    assert memories[0]() is None
    assert model.params


@pytest.mark.parametrize("external", [True, False])
def test_a_params_memory_is_that_which_the_file_was_read_into(external, tmp_path, monkeypatch):
    """No tensor is copied, so that loading takes the memory of the params."""
    held, allocate = [], memory.allocate
    monkeypatch.setattr(memory, "allocate", lambda count: held.append(allocate(count)) or held[-1])
    weight = np.random.default_rng(0).integers(0, 256, (3000, 1, 16), np.uint8)
    names = {"K": 32, "N": 3000, "bits": 4, "block_size": 32}
    file = File(21)
    constants = (file.constant(weight), file.constant(np.ones(3000, np.float32)))
    inputs = (file.input(np.ones((1, 32), np.float32)), *constants)
    file.output(file.node("MatMulNBits", *inputs, domain="com.microsoft", **names), np.float32)
    places = {"save_as_external_data": external, "size_threshold": 0}
    onnx.save(file.model(), tmp_path / "model.onnx", **places)
    params = dmlax.onnx.load(tmp_path / "model.onnx").params
    (param,) = (x for x in params.values() if x.dtype == np.uint8)
    np.testing.assert_array_equal(param, weight)
    assert sum(np.shares_memory(np.asarray(param), x) for x in held) == 1
    assert sum(x.nbytes for x in held) <= sum(x.nbytes for x in jax.tree.leaves(params))
    data = file.model().SerializeToString()
    (param,) = (x for x in dmlax.onnx.load(data).params.values() if x.dtype == np.uint8)
    assert not np.shares_memory(np.asarray(param), np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("name", ["classifier", "vit"])
def test_loading_compiles_only_what_known_values_need(name):
    """A program for each operator of known values, once: nothing is compiled for weights."""
    file = quantized(name, "qoperator")
    jax.clear_caches()
    with compilations() as programs:
        model = dmlax.onnx.load(file)
    assert model.params
    assert bool(programs) == (name == "vit")
    with compilations() as programs:
        dmlax.onnx.load(file)
    assert not programs


def test_large_tensors_are_read_in_place():
    weights = np.arange(5000, dtype=np.int8)
    tensors = [numpy_helper.from_array(weights[:size], str(size)) for size in (5000, 10)]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [], [])
    graph.input.add(name="x").type.tensor_type.shape.SetInParent()
    graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    graph.output.add(name="y")
    graph.initializer.extend(tensors)
    data = onnx.helper.make_model(graph).SerializeToString()
    constants = protobuf.read(data).constants
    whole = np.frombuffer(data, np.uint8)
    assert np.shares_memory(constants["5000"], whole)
    assert not np.shares_memory(constants["10"], whole)


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05abc", b"\x0b", b"\x09abc", b"\xff" * 11])
def test_bytes_that_are_no_message(data):
    with pytest.raises(wire.WireError):
        list(wire.fields(memoryview(data)))


def test_a_message_is_cut():
    data = message_field(3, b"rest") + message_field(200, b"x" * 300) + b"\x08\x96\x01"
    rest, values = wire.cut(memoryview(data), 200)
    assert rest == message_field(3, b"rest") + b"\x08\x96\x01"
    assert [bytes(each) for each in values] == [b"x" * 300]
