"""Passes that fuse what float and dynamically quantized files spell out."""

import collections

import jax
import numpy as np
import pytest
from onnx import TensorProto

import dmlax.onnx
from support.onnx_files import RNG, File

_WIDTH = 48


def types(model):
    return collections.Counter(node.type for node in model._graph.nodes)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def scalar(value):
    return np.float32(value)


def norm(file, x, *, centred, square="Pow", inverse="Div", **changes):
    """The nodes of a normalization, some of them changed."""
    axes = changes.get("axes", [-1])
    constant = file.constant

    def mean(name):
        if file.opset < 18:
            return file.node("ReduceMean", name, axes=axes)
        return file.node("ReduceMean", name, constant(np.int64(axes)))

    x = file.node("Sub", x, mean(x)) if centred else x
    of = changes.get("of", x)
    two = constant(scalar(changes.get("power", 2)))
    squares = file.node("Pow", of, two) if square == "Pow" else file.node("Mul", of, of)
    root = file.node("Sqrt", file.node("Add", mean(squares), constant(scalar(1e-3))))
    if inverse == "Div":
        y = file.node("Div", x, root)
    elif inverse == "Reciprocal":
        y = file.node("Mul", file.node("Reciprocal", root), x)
    else:
        y = file.node("Mul", x, file.node("Div", constant(scalar(inverse)), root))
    y = file.node("Mul", constant(changes.get("scale", normal(_WIDTH))), y)
    if changes.get("bias", True):
        y = file.node("Add", y, constant(normal(_WIDTH)))
    return y


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("inverse", ["Div", "Reciprocal", 1])
def test_normalizations_become_one_node(opset, square, inverse):
    file = File(opset)
    x = file.input(normal(3, 5, _WIDTH))
    for centred in (False, True):
        for bias in (False, True):
            y = norm(file, x, centred=centred, square=square, inverse=inverse, bias=bias)
            file.output(y, np.float32)
    found = types(file.compare(1e-5))
    assert found["LayerNormalization"] == 2
    assert found["dmlax.RootMeanSquareNormalization"] == 2
    assert "ReduceMean" not in found


@pytest.mark.parametrize(
    "changes",
    [
        {"power": 3},
        {"axes": [1]},
        {"axes": [-2, -1]},
        {"inverse": 2},
        {"scale": np.float32([[0.5]])},
        {"of": "x0", "centred": True},
    ],
    ids=str,
)
def test_other_quotients_keep_their_nodes(changes):
    file = File(17)
    x = file.input(np.abs(normal(3, 5, _WIDTH)))
    file.output(norm(file, x, **({"centred": False} | changes)), np.float32)
    found = types(file.compare(1e-5))
    assert "LayerNormalization" not in found
    assert "dmlax.RootMeanSquareNormalization" not in found


def test_a_chain_of_normalizations_grows_linearly():
    def program(count):
        file = File(17)
        x = file.input(normal(2, 8, _WIDTH))
        for _ in range(count):
            x = norm(file, x, centred=False)
        file.output(x, np.float32)
        model = dmlax.onnx.load(file.model())
        return len(jax.jit(model.apply).lower(model.params, file.inputs).as_text().splitlines())

    sizes = [program(count) for count in (4, 8, 16)]
    assert sizes[2] - sizes[1] <= 2.2 * (sizes[1] - sizes[0])


def product(file, x, columns, *, bias=True, per_column=False, swapped=False, zero_points=True):
    """A dynamically quantized product, as ONNX Runtime's quantizer writes it."""
    levels, scale, zero_point = x
    weight = RNG.integers(-64, 65, (_WIDTH, columns)).astype(np.int8)  # saturates on no processor
    zero = np.int8(RNG.integers(-3, 3, columns if per_column else ()))
    given = [zero_point, file.constant(zero)] if zero_points else []
    sums = file.node("MatMulInteger", levels, file.constant(weight), *given)
    floats = file.node("Cast", sums, to=TensorProto.FLOAT)
    weight_scale = RNG.uniform(0.01, 0.02, columns if per_column else ()).astype(np.float32)
    pair = scale, file.constant(weight_scale)
    both = file.node("Mul", *(pair[::-1] if swapped else pair))
    y = file.node("Mul", *((both, floats) if swapped else (floats, both)))
    if bias:
        y = file.node("Add", *((file.constant(normal(columns)), y)[:: -1 if swapped else 1]))
    return y


def quantized(file, *shape):
    return file.node("DynamicQuantizeLinear", file.input(normal(*shape)), outputs=3)


OPTIONS = (
    {},
    {"bias": False},
    {"per_column": True, "swapped": True},
    {"zero_points": False},
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_scales_and_biases_are_a_part_of_the_product(options):
    file = File(17)
    x = quantized(file, 3, 5, _WIDTH)
    file.output(product(file, x, 70, **options), np.float32)
    found = types(file.compare())  # the bits of the nodes
    assert found == {"DynamicQuantizeLinear": 1, "com.microsoft.MatMulIntegerToFloat": 1}


def test_products_of_one_matrix_are_joined():
    file = File(17)
    x = quantized(file, 3, 5, _WIDTH)
    for i, options in enumerate(OPTIONS[:3]):
        file.output(product(file, x, 40 + i, **options), np.float32)
    other = quantized(file, 3, 5, _WIDTH)
    file.output(product(file, other, 40), np.float32)
    model = file.compare()
    found = types(model)
    assert found["com.microsoft.MatMulIntegerToFloat"] == 2
    assert found["Split"] == 1
    first = next(iter(file.outputs))
    alone = model.apply(model.params, file.inputs, outputs=[first])[first]
    np.testing.assert_array_equal(alone, model(file.inputs)[first])


def test_joined_weights_are_held_once_and_saved_as_the_file_has_them(tmp_path):
    file = File(17)
    x = quantized(file, 2, _WIDTH)
    for columns in (40, 41):
        file.output(product(file, x, columns), np.float32)
    model = file.compare()
    weights = [node.input[1] for node in file.nodes if node.op_type == "MatMulInteger"]
    held = model._file.constants
    assert not any(isinstance(held.data[name], np.ndarray) for name in weights)
    model.save(tmp_path / "model.zip")
    again = dmlax.onnx.load(tmp_path / "model.zip")
    for name in weights:
        bytes_of_file = file.constants[name].tobytes()
        assert again._file.constants[name].tobytes() == held[name].tobytes() == bytes_of_file
    for name, value in model(file.inputs).items():
        np.testing.assert_array_equal(again(file.inputs)[name], value)


@pytest.mark.parametrize("scale", [0.0, np.inf])
def test_a_scale_that_is_no_number_keeps_the_nodes(scale):
    file = File(17)
    levels, a_scale, zero_point = quantized(file, 2, _WIDTH)
    weight = file.constant(np.ones((_WIDTH, 3), np.int8))
    sums = file.node("MatMulInteger", levels, weight, zero_point)
    floats = file.node("Cast", sums, to=TensorProto.FLOAT)
    both = file.node("Mul", a_scale, file.constant(scalar(scale)))
    file.output(file.node("Mul", floats, both), np.float32)
    assert "com.microsoft.MatMulIntegerToFloat" not in types(file.compare())


def test_exact_models_keep_the_nodes_of_products():
    file = File(17)
    file.output(product(file, quantized(file, 2, _WIDTH), 7), np.float32)
    model = dmlax.onnx.load(file.model(), arithmetic="exact")
    assert types(model)["MatMulInteger"] == 1


@pytest.mark.parametrize("rows", [1, 5])
def test_a_transposed_matrix_is_read_as_it_lies(rows):
    file = File(17)
    a, b = file.input(normal(2, 3, rows, 16)), file.input(normal(2, 3, 70, 16))
    y = file.node("MatMul", a, file.node("Transpose", b, perm=[0, 1, 3, 2]))
    file.output(y, np.float32)
    assert types(file.compare(1e-6)) == {"com.microsoft.FusedMatMul": 1}
    file = File(17)
    a, b = file.input(normal(2, 3, rows, 16)), file.input(normal(2, 70, 3, 16))
    y = file.node("MatMul", a, file.node("Transpose", b, perm=[0, 2, 3, 1]))
    file.output(y, np.float32)
    assert types(file.compare(1e-6))["MatMul"] == 1


def test_small_and_large_inputs_of_the_host_give_the_same():
    file = File(17)
    x = file.input(normal(2, 1 << 17))
    file.output(file.node("Mul", x, x), np.float32)
    model = file.model()
    loaded = dmlax.onnx.load(model, input_shapes={x: ["n", 1 << 17]})
    for rows in (1, 2, 4):
        data = normal(rows, 1 << 17)
        np.testing.assert_array_equal(loaded(data)[next(iter(file.outputs))], data * data)
