"""ViT and BERT: quantized operators have ONNX Runtime's bits, and outputs stay within a bound."""

import jax
import jax.export
import pytest

import dmlax.onnx
from benchmarks.models import different_elements, largest_error
from dmlax.onnx import peer
from onnx_models import inputs_of, quantized

NAMES = ("vit", "bert")


@pytest.mark.parametrize("form", ["qoperator", "qdq", "dynamic"])
@pytest.mark.parametrize("name", NAMES)
def test_no_element_differs_where_float_islands_are_onnxruntimes(name, form):
    file = quantized(name, form)
    differ, elements = different_elements(file, form, inputs_of(file))
    assert differ == 0
    assert elements > 30_000


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_close_end_to_end(name):
    file = quantized(name, "qoperator")
    inputs = inputs_of(file)
    theirs = peer.run(peer.start(file), inputs)
    assert largest_error(dmlax.onnx.load(file)(inputs), theirs) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_a_transformer_is_a_function_of_jax(name, tmp_path):
    file = quantized(name, "qdq")
    model, inputs = dmlax.onnx.load(file), inputs_of(file)
    expected = model(inputs)

    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), model.params)
    exported = jax.export.export(jax.jit(model.apply))(params, model.inputs)
    again = jax.export.deserialize(exported.serialize())
    model.save(tmp_path / "model.dmlax")
    saved = dmlax.onnx.load(tmp_path / "model.dmlax")
    on_each = jax.vmap(
        lambda each: model.apply(model.params, {name: x[None] for name, x in each.items()})
    )(inputs)

    assert largest_error(again.call(model.params, inputs), expected) == 0
    assert largest_error(saved(inputs), expected) == 0
    assert largest_error({key: x[:, 0] for key, x in on_each.items()}, expected) < 0.05
