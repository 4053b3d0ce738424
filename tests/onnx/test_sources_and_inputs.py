"""Models and inputs as people have them: files, bytes, pickles, other libraries' arrays, shapes."""

import copy
import io
import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files

FLOAT = TensorProto.FLOAT
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def proto(shape=("n", 3), dtype=FLOAT, op="Add", domain=""):
    """A model of one node: it adds 2, or computes another function of x."""
    weights = {"w": np.full(3, 2, np.float32)} if op == "Add" else {}
    node = helper.make_node(op, ["x", *weights], ["y"], domain=domain)
    file = onnx_files.model([node], {"x": (dtype, shape)}, ["y"], weights)
    file.opset_import.append(helper.make_opsetid("mine", 1))
    return file


def halve(x):
    return x / 2


def check(model, wanted=None):
    np.testing.assert_array_equal(model(X)["y"], X + 2 if wanted is None else wanted)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_sources(kind, tmp_path):
    data = proto().SerializeToString()
    check(dmlax.onnx.load(kind(data)))
    saved = io.BytesIO()
    dmlax.onnx.load(data).save(saved)
    check(dmlax.onnx.load(kind(saved.getvalue())))
    (tmp_path / "model").write_bytes(saved.getvalue())
    with open(tmp_path / "model", "rb") as file:
        check(dmlax.onnx.load(file))


def test_a_source_of_another_type():
    with pytest.raises(dmlax.SpecError, match="model is of type NoneType, expected a path, bytes"):
        dmlax.onnx.load(None)


def test_pickles_and_copies():
    model = dmlax.onnx.load(proto(), arithmetic="exact")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        check(again)
        assert list(again.params) == list(model.params)
    mine = dmlax.onnx.load(proto(op="Halve", domain="mine"), operators={"mine::Halve": halve})
    check(pickle.loads(pickle.dumps(mine)), X / 2)


class WithArray:
    """An array of a library that NumPy reads; its dtype is the library's."""

    dtype = "other.float32"

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    def __array__(self, dtype=None, copy=None):
        return self.array.astype(dtype or self.array.dtype)


class WithDlpack:
    """An array whose memory other libraries read."""

    def __init__(self, array):
        self.array = jnp.asarray(array)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class WithBoth(WithDlpack):
    """Stands for a tensor of PyTorch in bfloat16, for which NumPy has no dtype."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize("kind", [WithArray, WithDlpack, WithBoth])
def test_arrays_of_other_libraries(kind):
    model = dmlax.onnx.load(proto())
    for inputs in (kind(X), {"x": kind(X)}):
        np.testing.assert_array_equal(model(inputs)["y"], X + 2)
        np.testing.assert_array_equal(model.apply(model.params, inputs)["y"], X + 2)
        assert model.explain(inputs).before == {"Add": 1}
    assert model.export(kind(X)).in_avals[-1].shape == (2, 3)
    if kind is not WithArray:
        half = dmlax.onnx.load(proto(dtype=TensorProto.BFLOAT16, op="Neg"))
        result = half(kind(X.astype(ml_dtypes.bfloat16)))["y"]
        np.testing.assert_array_equal(np.float32(result), -X)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), r"x is of type object and has no numbers, expected float32\[n,3\]"),
        ("abc", "x is of type str and has no numbers"),
        ([[1.0], [2.0, 3.0]], "x is of type list, which NumPy does not read, expected float32"),
        (np.array([["a"]]), "x is of type ndarray and has no numbers"),
    ],
)
def test_values_that_are_no_arrays(value, message):
    with pytest.raises(dmlax.SpecError, match=message) as caught:
        dmlax.onnx.load(proto())({"x": value})
    assert caught.value.field == "x"


def test_params_that_lack_one():
    model = dmlax.onnx.load(proto())
    with pytest.raises(
        dmlax.SpecError, match=r"params has no 'w', expected those of model\.params"
    ):
        model.apply({}, X)
    np.testing.assert_array_equal(model.apply(model.params, X)["y"], X + 2)


@pytest.mark.parametrize("name", ["INT64", "UINT64"])
def test_64_bit_integers(name):
    model = dmlax.onnx.load(proto(["n"], getattr(TensorProto, name), "Identity"))
    dtype = np.dtype(name.lower())
    narrow = np.dtype(name.lower().replace("64", "32"))
    limits = np.iinfo(narrow)
    fits = np.array([limits.min, limits.max, 5], dtype)
    result = model(fits)["y"]
    assert result.dtype == narrow
    np.testing.assert_array_equal(np.asarray(result).astype(dtype), fits)
    for misfit in [limits.max + 1, *([limits.min - 1] if limits.min else [])]:
        x = np.array([5, limits.min, misfit], dtype)
        assert model(x)["y"].dtype == dtype
        np.testing.assert_array_equal(model(x)["y"], x)
    with jax.enable_x64(True):
        wide = dmlax.onnx.load(proto(["n"], getattr(TensorProto, name), "Identity"))
        assert int(wide(np.array([np.iinfo(dtype).max], dtype))["y"][0]) == np.iinfo(dtype).max


@pytest.mark.parametrize(
    "sizes",
    [
        ["max", "min", "mod"],
        ["floordiv", "floordiv_", "non_negative"],
        ["a.b", "a_b", "a-b"],
        ["?", "?", ""],
        ["p2o.DynamicDimension." + "9" * 100, "n", "N"],
    ],
)
def test_names_of_sizes(sizes):
    model = dmlax.onnx.load(proto(sizes, op="Neg"))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(model(x)["y"], -x)
    assert len({*map(str, model.inputs["x"].shape)}) == 3
    assert [*map(str, model.export().in_avals[-1].shape)] == [*map(str, model.inputs["x"].shape)]
    again = dmlax.onnx.load(proto(["a", "b", "c"], op="Neg"), input_shapes={"x": ["max", 3, "min"]})
    np.testing.assert_array_equal(again(x)["y"], -x)


@pytest.mark.parametrize("size", [None, -1, 3.0, True])
def test_sizes_that_are_none(size):
    text = 'input_shapes of x has the size .*, expected an integer of 0 or more, or a name as "n"'
    with pytest.raises(dmlax.SpecError, match=text):
        dmlax.onnx.load(proto(), input_shapes={"x": [size, 3]})
    check(dmlax.onnx.load(proto(), input_shapes={"x": ["n", 3]}))


def test_other_static_sizes():
    text = r"input_shapes of x is float32\[n,4\], and nodes need the file's float32\[n,3\]: Add 'y'"
    with pytest.raises(dmlax.SpecError, match=text):
        dmlax.onnx.load(proto(), input_shapes={"x": ["n", 4]})
    model = dmlax.onnx.load(proto(op="Neg"), input_shapes={"x": ["n", 4]})
    np.testing.assert_array_equal(model(np.ones((1, 4), np.float32))["y"], [[-1] * 4])


def with_defaults():
    """A product, a sum and a shape, whose constants are inputs too."""
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["p"]),
        helper.make_node("Add", ["p", "w"], ["s"]),
        helper.make_node("Reshape", ["s", "sizes"], ["y"]),
    ]
    types = {"x": (FLOAT, ["n", 3]), "factor": (FLOAT, []), "w": (FLOAT, [3])}
    types["sizes"] = (TensorProto.INT64, [2])
    constants = {"factor": np.float32(2), "w": np.float32([1, 2, 3]), "sizes": np.int64([-1, 1])}
    return onnx_files.model(nodes, types, ["y"], constants)


@pytest.mark.parametrize(
    "given", [{}, {"w": np.float32([5, 6, 7])}, {"factor": np.asarray(np.float32(3))}]
)
def test_inputs_that_have_a_constant(given):
    file = with_defaults()
    (wanted,) = peer.start(file).run(["y"], {"x": X, **given})
    model = dmlax.onnx.load(file)
    assert list(model.inputs) == ["x"]
    for each in (model, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(each({"x": X, **given})["y"], wanted)
    found = jax.jit(model.apply)(model.params, {"x": X, **given})
    np.testing.assert_array_equal(found["y"], wanted)
    assert len(model.export({"x": X, **given}).in_tree.children()[0].children()) == 2
    assert "Mul" in model.explain({"x": X, **given}).after


def test_a_constant_of_which_shapes_depend_stays():
    model = dmlax.onnx.load(with_defaults())
    with pytest.raises(dmlax.UnsupportedError, match="its shape, 'sizes', depends on values"):
        model({"x": X, "sizes": np.int64([1, -1])})
    with pytest.raises(dmlax.SpecError, match=r"w is float32\[2\], expected float32\[3\]"):
        model({"x": X, "w": np.ones(2, np.float32)})
