"""Models over four devices, each with a part of the batch: the bits of one."""

import functools
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dmlax.onnx
from support import NATIVE

MODELS = Path(__file__).parents[2] / "conformance/golden_models"
BATCH, EVERYWHERE = PartitionSpec("batch"), PartitionSpec()
NAMES = ("gated", "quantized_softmax")
KERNEL = "dmlax_"  # begins the names of the custom calls
COLLECTIVE = re.compile(
    r"= (\S+) (?:all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)"
    r"(?:-start)?\("
)


@functools.cache
def load(name):
    """A small golden model whose first sizes are dynamic, inputs of 8, and its outputs."""
    path = MODELS / f"{name}.onnx"
    inputs = dmlax.onnx.load(path).inputs
    shapes = {name: ("n", *struct.shape[1:]) for name, struct in inputs.items()}
    generator = np.random.default_rng(7)
    drawn = {
        name: generator.integers(0, 100, (8, *struct.shape[1:])).astype(struct.dtype)
        for name, struct in inputs.items()
    }
    model = dmlax.onnx.load(path, input_shapes=shapes)
    outputs = model(drawn)
    assert all(len(np.unique(output)) > 5 for output in outputs.values())
    return model, drawn, outputs


def make_mesh(kind):
    assert jax.device_count() == 4
    return jax.make_mesh((4,), ("batch",), axis_types=(kind,))


def run(function, name, mesh):
    """Runs a function of params and inputs that are split; returns its compiled text."""
    model, inputs, expected = load(name)
    params = jax.device_put(model.params, NamedSharding(mesh, EVERYWHERE))
    parts = jax.device_put(inputs, NamedSharding(mesh, BATCH))
    compiled = jax.jit(function).lower(params, parts).compile()
    outputs = compiled(params, parts)
    for output, array in expected.items():
        assert outputs[output].sharding.spec[0] == "batch"
        np.testing.assert_array_equal(outputs[output], array, strict=True)
    return compiled.as_text()


@pytest.mark.parametrize(
    ("name", "kind"),
    [(NAMES[0], AxisType.Auto), (NAMES[0], AxisType.Explicit), (NAMES[1], AxisType.Auto)],
    ids=str,
)
def test_a_batch_over_four_devices_exchanges_nothing(name, kind):
    model, _, _ = load(name)
    assert not COLLECTIVE.findall(run(model.apply, name, make_mesh(kind)))


@pytest.mark.parametrize("name", NAMES)
def test_shard_map_keeps_the_kernels(name):
    model, _, _ = load(name)
    mesh = make_mesh(AxisType.Auto)
    specs = (EVERYWHERE, BATCH)
    mapped = jax.shard_map(model.apply, mesh=mesh, in_specs=specs, out_specs=BATCH)
    text = run(mapped, name, mesh)
    assert not COLLECTIVE.findall(text)
    assert (KERNEL in text) == bool(NATIVE)


@pytest.mark.slow  # IEEE floats compile for seconds
def test_a_dynamic_model_exchanges_only_ranges():
    model, _, _ = load("dynamic_matmul")
    text = run(model.apply, "dynamic_matmul", make_mesh(AxisType.Auto))
    assert set(COLLECTIVE.findall(text)) == {"s32[]"}
