"""`load` of files with nodes that it cannot compute: outputs, operators, and errors."""

import jax
import numpy as np
import pytest
from onnx import TensorProto, helper

import dmlax
import dmlax.onnx
from support.onnx_models import inputs_of, quantized
from tools.zoo.networks import Network

FLOAT = TensorProto.FLOAT


def detector():
    """A product, a node of another domain, and one behind it."""
    net = Network()
    scores = net.node("MatMul", "x", net.weight(4, 4))
    boxes = net.node("Relu", scores)
    kept = net.node("Keep", boxes, "threshold", domain="my.domain", limit=3)
    y = net.node("Relu", kept)
    shapes = {"x": (FLOAT, ["n", 4]), "threshold": (FLOAT, [])}
    return net.model(shapes, {y: (FLOAT, ["n", 4])}), scores, boxes, y


X = np.random.default_rng(7).standard_normal((5, 4)).astype(np.float32)


def keep(x, threshold, limit):
    assert limit == 3
    return jax.numpy.where(x > threshold, x, -1)


def test_outputs_leave_out_nodes_and_inputs():
    file, scores, boxes, y = detector()
    with pytest.raises(dmlax.UnsupportedError) as caught:
        dmlax.onnx.load(file)
    ways = str(caught.value).splitlines()[-1]
    assert f'load(..., outputs=["{boxes}"]) leaves nodes out' in ways
    assert 'load(..., operators={"my.domain::Keep": f}) computes them' in ways
    model = dmlax.onnx.load(file, outputs=[boxes, scores, boxes])
    assert list(model.inputs) == ["x"]
    found = model(X)
    assert list(found) == [boxes, scores]
    np.testing.assert_array_equal(found[boxes], np.maximum(found[scores], 0))
    inner = model.apply(model.params, X, outputs=[scores])
    np.testing.assert_allclose(inner[scores], found[scores], rtol=1e-6)
    with pytest.raises(dmlax.SpecError, match=f"outputs has no tensor '{y}'"):
        model.apply(model.params, X, outputs=[y])


def test_saved_outputs(tmp_path):
    file, scores, boxes, _ = detector()
    model = dmlax.onnx.load(file, outputs=[boxes])
    model.save(tmp_path / "m.dmlax")
    again = dmlax.onnx.load(tmp_path / "m.dmlax")
    np.testing.assert_array_equal(again(X)[boxes], model(X)[boxes])
    assert list(dmlax.onnx.load(tmp_path / "m.dmlax", outputs=[scores])(X)) == [scores]


def test_wrong_outputs():
    file, *_ = detector()
    for outputs, text in (
        (["a", "b"], "load: outputs has no tensor 'a', 'b' of the file"),
        ([], "outputs is"),
        ("x", "expected a list of names"),
    ):
        with pytest.raises(dmlax.SpecError, match=text) as caught:
            dmlax.onnx.load(file, outputs=outputs)
        assert (caught.value.code, caught.value.field) == ("option", "outputs")


def test_operators_compute_nodes(tmp_path):
    file, _, boxes, y = detector()
    model = dmlax.onnx.load(file, operators={"my.domain::Keep": keep})
    inputs = {"x": X, "threshold": np.float32(0.01)}
    found = model(inputs)[y]
    wanted = np.asarray(model.apply(model.params, inputs, outputs=[boxes])[boxes])
    np.testing.assert_array_equal(found, np.where(wanted > np.float32(0.01), wanted, 0))
    model.save(tmp_path / "m.dmlax")
    with pytest.raises(dmlax.SpecError, match=r"no function for 'my\.domain::Keep'") as caught:
        dmlax.onnx.load(tmp_path / "m.dmlax")
    assert (caught.value.code, caught.value.field) == ("option", "operators")
    again = dmlax.onnx.load(tmp_path / "m.dmlax", operators={"my.domain::Keep": keep})
    np.testing.assert_array_equal(again(inputs)[y], found)
    gradient = jax.grad(lambda x: model.apply(model.params, {**inputs, "x": x})[y].sum())(X)
    assert np.any(gradient != 0)


def test_an_operator_in_place_of_one_of_dmlax():
    """Nothing fuses with the node: its operands are floats, though all around is quantized."""
    net = Network()
    scale, zero = net.constant(np.float32(0.1)), net.constant(np.uint8(128))
    x = net.node("DequantizeLinear", "x", scale, zero)
    x = net.node("Sigmoid", x)
    net.node("Split", x, net.constant(np.int64([1, 3])), axis=1, outputs=2)
    one, two = net.nodes[-1].output
    y = net.node("QuantizeLinear", two, scale, zero)
    z = net.node("Clip", one, "", net.constant(np.float32(0.5)))
    shapes = {y: (TensorProto.UINT8, [2, 3]), z: (FLOAT, [2, 1])}
    file = net.model({"x": (TensorProto.UINT8, [2, 4])}, shapes)
    calls = []

    def sigmoid(x):
        calls.append(x.dtype)
        return 2 * x

    def split(x, lengths, axis):
        assert axis == 1
        assert isinstance(lengths, np.ndarray)
        return list(jax.numpy.split(x, np.cumsum(lengths)[:-1], axis))

    def clip(x, least, most):
        assert least is None
        return jax.numpy.minimum(x, most)

    operators = {"Sigmoid": sigmoid, "::Split": split, "ai.onnx::Clip": clip}
    model = dmlax.onnx.load(file, operators=operators)
    assert str(model.explain()).count("Sigmoid") == 2
    x = np.arange(124, 132, dtype=np.uint8).reshape(2, 4)
    found = model(x)
    assert calls
    assert set(calls) == {np.dtype(np.float32)}
    real = 0.2 * (x.astype(np.float64) - 128)
    np.testing.assert_array_equal(found[y], np.round(real / 0.1)[:, 1:] + 128)
    np.testing.assert_allclose(found[z], np.minimum(real, 0.5)[:, :1], rtol=1e-6)


def test_no_pass_takes_an_operator_that_is_given():
    """A pool between quantized convolutions would be computed channels last."""
    file = quantized("classifier", "qdq")
    shapes = []

    def pool(x, **attributes):
        shapes.append(x.shape)
        assert attributes["kernel_shape"] == (3, 3)
        windows = (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)]
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, *windows)

    inputs = inputs_of(file)
    model = dmlax.onnx.load(file, operators={"MaxPool": pool})
    assert {*shapes} == {(shapes[0][0], 8, 8, 8)}
    (ours,), (wanted,) = (each(inputs).values() for each in (model, dmlax.onnx.load(file)))
    np.testing.assert_array_equal(ours, wanted)


def test_wrong_operators():
    file, *_ = detector()
    for operators, text in (
        ({"Spin": keep}, "names no operator of the model: 'Spin'"),
        ({"my.domain::Keep": 3}, "of 'my.domain::Keep' is a int, expected a function"),
    ):
        with pytest.raises(dmlax.SpecError, match=text):
            dmlax.onnx.load(file, operators=operators)

    def fail(*_, **__):
        raise ZeroDivisionError("of mine")

    text = r"my.domain::Keep: the function that operators gives for it raises ZeroDivisionError: of"
    with pytest.raises(dmlax.UnsupportedError, match=text):
        dmlax.onnx.load(file, operators={"my.domain::Keep": fail})
    text = "its output 1 is not computed"
    with pytest.raises(dmlax.UnsupportedError, match=text):
        dmlax.onnx.load(file, operators={"my.domain::Keep": lambda *_, **__: ()})


def test_nodes_behind_a_failing_one_are_checked():
    """ONNX's shape inference or the file's `value_info` gives their inputs' types."""
    net = Network()
    a = net.node("Det", "x")
    b = net.node("Spin", a, domain="my.domain")
    wide = net.node("Cast", b, to=TensorProto.DOUBLE)
    c = net.node("Exp", wide)
    d = net.node("Unknown", c, domain="my.domain")
    e = net.node("Relu", d)
    file = net.model({"x": (FLOAT, ["n", 3, 3])}, {e: (FLOAT, None)})
    texts = []
    for with_types in (False, True):
        if with_types:
            file.graph.value_info.append(helper.make_tensor_value_info(b, FLOAT, ["n"]))
        with pytest.raises(dmlax.UnsupportedError) as caught:
            dmlax.onnx.load(file)
        texts.append(str(caught.value))
    assert "float64 on a device needs x64" not in texts[0]
    names = f"node_{wide}, node_{c}, node_{e}"
    assert f"not checked, as they need outputs of those: 3 nodes: {names}" in texts[0]
    assert "Exp: float64 on a device needs x64" in texts[1]
    assert all(f"my.domain.{op}: is not known" in texts[1] for op in ("Spin", "Unknown"))


def test_a_size_that_must_be_static_is_named():
    net = Network()
    shape = net.node("Shape", "x")
    few = net.node("Less", shape, net.integers(4000))
    least = net.node("Where", few, shape, net.integers(4))
    y = net.node("ConstantOfShape", least)
    file = net.model({"x": (FLOAT, [2, "n", 5, "m"])}, {y: (FLOAT, None)})
    terms = [f"m{i}" for i in range(20)]  # too many for constraints that are assumed
    with pytest.raises(dmlax.UnsupportedError) as caught:
        dmlax.onnx.load(file, input_shapes={"x": (2, "n", 5, "+".join(terms))})
    names = ", ".join(sorted([*terms, "n"]))
    text = f"Less: it needs sizes that are symbolic here, {names}: give static sizes, as "
    assert text + f'input_shapes={{"x": [2, 128, 5, {20 * 224}]}}' in str(caught.value)
    assert dmlax.onnx.load(file, input_shapes={"x": (2, "n" * 90, 5, "2*m")}).outputs[y]
    assert len(str(caught.value).splitlines()) == 2 + 1  # no ways out, but what is behind
    assert dmlax.onnx.load(file, input_shapes={"x": (2, 3, 5, 4)}).outputs[y].shape == (2, 3, 5, 4)


def test_a_shape_of_values_is_no_malformed_file():
    net = Network()
    y = net.node("Spin", "x", domain="my.domain")
    file = net.model({"x": (FLOAT, [3])}, {y: (FLOAT, None)})
    model = dmlax.onnx.load(file, operators={"my.domain::Spin": lambda x: x[:1] if x.ndim else x})
    assert model(np.ones(3, np.float32))[y].shape == (1,)
