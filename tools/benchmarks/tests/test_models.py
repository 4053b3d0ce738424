"""ViT and BERT: quantized operators have ONNX Runtime's bits, and outputs stay within a bound."""

import jax
import jax.export
import pytest

import dmlax.onnx
from dmlax.onnx import peer
from support.onnx_models import inputs_of, quantized
from tools.benchmarks.models import different_elements, largest_error

NAMES = ("vit", "bert")
BOUND = 0.05  # standard deviations of the output of two small layers
FORMS = ("qoperator", "qdq", pytest.param("dynamic", marks=pytest.mark.slow))  # IEEE floats compile
ONE_FAST = ("vit", pytest.param("bert", marks=pytest.mark.slow))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_no_element_differs_where_float_islands_are_onnxruntimes(name, form):
    file = quantized(name, form)
    differ, elements = different_elements(file, form, inputs_of(file))
    assert differ == 0
    assert elements > 30_000


@pytest.mark.parametrize("name", ONE_FAST[::-1])
def test_a_saved_transformer_is_close_end_to_end(name, tmp_path):
    file = quantized(name, "qoperator")
    inputs = inputs_of(file)
    theirs = peer.run(peer.start(file), inputs)
    dmlax.onnx.load(file).save(tmp_path / "model.dmlax")
    saved = dmlax.onnx.load(tmp_path / "model.dmlax")
    assert largest_error(saved(inputs), theirs) < BOUND


@pytest.mark.parametrize("name", ONE_FAST)
def test_a_transformer_is_mapped_over_its_batch(name):
    file = quantized(name, "qdq")
    model, inputs = dmlax.onnx.load(file), inputs_of(file)

    def of_one(each):
        return model.apply(model.params, {name: x[None] for name, x in each.items()})

    mapped = {name: x[:, 0] for name, x in jax.jit(jax.vmap(of_one))(inputs).items()}
    assert largest_error(mapped, peer.run(peer.start(file), inputs)) < BOUND


def exported(model):
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), model.params)
    return jax.export.export(jax.jit(model.apply))(params, model.inputs)


@pytest.mark.parametrize("name", ONE_FAST)
def test_a_symbolic_batch_is_exported(name):
    outputs = exported(dmlax.onnx.load(quantized(name, "qdq"))).out_avals
    assert {str(each.shape[0]) for each in outputs} == {"n"}


@pytest.mark.slow  # XLA alone compiles symbolic sizes, in a minute
@pytest.mark.parametrize("name", NAMES)
def test_an_export_computes_the_same(name):
    file = quantized(name, "qdq")
    model, inputs = dmlax.onnx.load(file), inputs_of(file)
    again = jax.export.deserialize(exported(model).serialize())
    assert largest_error(again.call(model.params, inputs), model(inputs)) < BOUND
