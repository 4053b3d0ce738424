"""`load(trainable=True)`: the values of the deployed integers, and the gradients of floats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax.litert
from dmlax.errors import UnsupportedError
from tools.litert.cases import CASES
from tools.litert.compare import draw_inputs
from tools.litert.files import Op, Subgraph, Tensor, model

RNG = np.random.default_rng(5)
REFUSED = {"lstm", "svdf"}


def real(x, tensor):
    """The floats of a quantized tensor's integers; other tensors as they are."""
    if not tensor.scales or x.dtype.kind not in "iu":
        return x
    return (x.astype(np.int64) - tensor.zeros[0]).astype(np.float32) * np.float32(tensor.scales[0])


@pytest.mark.parametrize("name", sorted(CASES))
def test_values_are_those_of_the_deployed_integers(name):
    """A random file of each operator."""
    rng = np.random.default_rng([17, *name.encode()])
    graph = CASES[name](rng)
    resolver = ("xnnpack", "reference")[int(rng.integers(2))]
    try:
        deployed = dmlax.litert.load(model(graph), arithmetic=resolver)
    except UnsupportedError:
        pytest.skip("the file is refused")
    if name in REFUSED and graph.tensors[graph.inputs[0]].scales:
        with pytest.raises(UnsupportedError, match=r"^trainable: no float twin of litert"):
            dmlax.litert.load(model(graph), arithmetic=resolver, trainable=True)
        return
    ours = dmlax.litert.load(model(graph), arithmetic=resolver, trainable=True)
    details = {x: {"dtype": y.dtype, "shape": y.shape} for x, y in deployed.inputs.items()}
    inputs = draw_inputs(details, rng)
    wanted = deployed(inputs)
    outputs = ours({x: real(np.asarray(y), graph.tensors[x]) for x, y in inputs.items()})
    for output, array in wanted.items():
        expected = real(np.asarray(array), graph.tensors[output])
        np.testing.assert_array_equal(outputs[output], expected)


def classifier():
    """A convolution with RELU6, a mean and a product, without clamped outputs."""
    filter = RNG.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8)
    matrix = RNG.integers(-127, 128, (3, 4)).astype(np.int8)
    tensors = {
        "image": Tensor(np.int8, (1, 5, 5, 2), None, [0.02], [-4]),
        "w": Tensor(np.int8, filter.shape, filter, [0.01, 0.02, 0.01, 0.015], [0] * 4),
        "b": Tensor(np.int32, (4,), np.arange(4, dtype=np.int32) * 500, [0.0002] * 4, [0] * 4),
        "conv": Tensor(np.int8, (1, 5, 5, 4), None, [0.06], [-50]),
        "axes": Tensor(np.int32, (2,), np.array([1, 2], np.int32)),
        "mean": Tensor(np.int8, (1, 4), None, [0.05], [0]),
        "m": Tensor(np.int8, (3, 4), matrix, [0.02], [0]),
        "c": Tensor(np.int32, (3,), np.arange(3, dtype=np.int32), [0.001], [0]),
        "scores": Tensor(np.int8, (1, 3), None, [0.2], [2]),
    }
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "activation": "RELU6"}
    operators = [
        Op("CONV_2D", ["image", "w", "b"], ["conv"], options),
        Op("MEAN", ["conv", "axes"], ["mean"]),
        Op("FULLY_CONNECTED", ["mean", "m", "c"], ["scores"]),
    ]
    return model(Subgraph(tensors, operators, ["image"], ["scores"]))


CLASSIFIER = classifier()
IMAGES = RNG.normal(0, 1, (6, 5, 5, 2)).astype(np.float32)


def test_gradients_are_those_of_floats():
    """The last layer's by hand; those of inner weights are not zero where nothing is clamped."""
    ours = dmlax.litert.load(CLASSIFIER, trainable=True)
    assert {x.dtype for x in ours.params.values()} == {np.dtype(np.float32)}

    def loss(params, images):
        return jnp.sum(ours.apply(params, images)["scores"] * jnp.arange(3.0))

    of_params, of_images = jax.grad(loss, (0, 1))(ours.params, IMAGES)
    features = np.asarray(ours.apply(ours.params, IMAGES, outputs=["mean"])["mean"])
    wanted = np.outer(np.arange(3), features.sum(0))
    np.testing.assert_allclose(of_params["m"], wanted, rtol=1e-5)
    np.testing.assert_allclose(of_params["c"], 6 * np.arange(3), rtol=1e-6)
    assert np.abs(of_params["w"]).max() > 0
    assert np.abs(of_params["b"]).max() > 0
    assert np.abs(of_images).max() > 0
    outside = IMAGES.copy()
    outside[0, 0, 0, 0] = 9  # 450 steps
    assert jax.grad(loss, 1)(ours.params, outside)[0, 0, 0, 0] == 0


def test_the_last_layer_learns_and_a_saved_model_stays_trainable(tmp_path):
    ours = dmlax.litert.load(CLASSIFIER, arithmetic="reference", trainable=True)
    targets = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2]] * 4

    @jax.jit
    def step(params):
        def loss(last):
            return jnp.mean((ours.apply({**params, **last}, IMAGES)["scores"] - targets) ** 2)

        value, slopes = jax.value_and_grad(loss)({name: params[name] for name in ("m", "c")})
        return {**params, **{x: params[x] - 0.05 * slopes[x] for x in slopes}}, value

    params, values = ours.params, []
    for _ in range(20):
        params, value = step(params)
        values.append(value)
    assert values[-1] < values[0]
    ours.save(tmp_path / "classifier.dmlax")
    again = dmlax.litert.load(tmp_path / "classifier.dmlax", trainable=True)
    for name, array in again.apply(params, IMAGES).items():
        np.testing.assert_array_equal(array, ours.apply(params, IMAGES)[name])
    assert np.isnan(ours.apply({**params, "m": params["m"] * jnp.nan}, IMAGES)["scores"]).all()


@pytest.mark.parametrize("name", ["conv_2d", "depthwise_conv_2d", "fully_connected"])
def test_weights_of_floats_are_plain_arrays(name):
    """`trainable=True` packs none; both give the same floats, to their last bits."""
    graph = next(
        graph
        for seed in range(100)
        for graph in [CASES[name](np.random.default_rng(seed))]
        if graph.tensors["x1"].dtype == np.float32 == graph.tensors["x0"].dtype
    )
    ours, trained = (
        dmlax.litert.load(model(graph), trainable=trainable) for trainable in (False, True)
    )
    assert all(isinstance(x, jax.Array) for x in trained.params.values())
    inputs = {x: RNG.uniform(-1, 1, y.shape).astype(y.dtype) for x, y in ours.inputs.items()}
    (result,) = ours(inputs).values()
    (wanted,) = trained(inputs).values()
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    (name_of_output,) = graph.outputs
    slopes = jax.grad(lambda p: trained.apply(p, inputs)[name_of_output].sum())(trained.params)
    assert jax.tree.map(jnp.shape, slopes) == jax.tree.map(jnp.shape, trained.params)
