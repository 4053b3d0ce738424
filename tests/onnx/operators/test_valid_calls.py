"""Valid nodes as files of packages have them: broadcast parameters, empty tensors, any dtype."""

import itertools

import numpy as np
import pytest

from tests.support.onnx_files import File

RNG = np.random.default_rng(11)


def normal(shape):
    return np.float32(RNG.normal(size=shape))


def broadcast(shape, rank):
    """A random shape of up to a rank that broadcasts to another one."""
    sizes = [size if RNG.random() < 0.6 else 1 for size in shape]
    return tuple(sizes[len(sizes) - RNG.integers(0, rank + 1) :])


@pytest.mark.parametrize("seed", range(12))
def test_scales_and_biases_of_normalizations_broadcast(seed):
    RNG.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    file = File(23)
    for rank, has_bias in itertools.product((2, 3), (False, True)):
        shape = tuple(RNG.integers(1, 5, rank))
        parameters = [file.constant(normal(broadcast(shape, rank))) for _ in range(1 + has_bias)]
        axis = int(RNG.integers(-rank, rank))
        x = file.input(normal(shape))
        file.output(file.node("LayerNormalization", x, *parameters, axis=axis), np.float32)
        file.output(file.node("RMSNormalization", x, parameters[0], axis=axis), np.float32)
    file.compare(1e-5)


@pytest.mark.parametrize("shapes", [[(4,), (1,)], [(4,)], [(1,), (4,)], [(4,), (3, 4)], [(3, 4)]])
@pytest.mark.parametrize("columns", [4, 1])
def test_fused_normalizations_broadcast(shapes, columns):
    file = File(17)
    x, two, epsilon = (file.constant(np.float32(value)) for value in (0.05, 2, 1e-5))
    data = file.input(RNG.integers(0, 256, (2, 3, columns)).astype(np.uint8))
    zero = file.constant(np.uint8(120))
    parameters = [file.constant(normal(shape)) for shape in shapes]
    floats = file.node("DequantizeLinear", data, x, zero)
    square = file.node("ReduceMean", file.node("Pow", floats, two), axes=[-1])
    root = file.node("Sqrt", file.node("Add", square, epsilon))
    spelled = file.node("Mul", file.node("Div", floats, root), parameters[0])
    if parameters[1:]:
        spelled = file.node("Add", spelled, parameters[1])
    file.output(spelled, np.float32)
    if columns == 4:
        whole = file.node("LayerNormalization", floats, *parameters)
        file.output(file.node("QuantizeLinear", whole, x, zero), np.uint8)
    file.compare(1e-5)


OPTIONAL_OUTPUTS = {  # operator, opset, shapes of inputs, outputs, attributes
    "mask of 7": ("Dropout", 7, [(2, 3)], 2, {}),
    "mask of 10": ("Dropout", 10, [(2, 3)], 2, {}),
    "mask": ("Dropout", 22, [(2, 3)], 2, {}),
    "indices": ("MaxPool", 22, [(1, 2, 4, 4)], 2, {"kernel_shape": [2, 2]}),
    "statistics": ("LayerNormalization", 17, [(2, 3), (3,)], 3, {}),
    "states": ("LSTM", 22, [(3, 2, 4), (1, 20, 4), (1, 20, 5)], 3, {"hidden_size": 5}),
    "batch of 7": ("BatchNormalization", 7, [(2, 3, 4), *[(3,)] * 4], 5, {}),
    "batch of 9": ("BatchNormalization", 9, [(2, 3, 4), *[(3,)] * 4], 5, {"momentum": 0.3}),
    "batch": ("BatchNormalization", 15, [(2, 3, 4), *[(3,)] * 4], 3, {"training_mode": 1}),
}


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("name", OPTIONAL_OUTPUTS)
def test_optional_outputs(name, is_read):
    op, opset, shapes, count, attributes = OPTIONAL_OUTPUTS[name]
    file = File(opset)
    inputs = [file.input(np.abs(normal(shape))) for shape in shapes]
    outputs = file.node(op, *inputs, outputs=count, **attributes)
    is_read = is_read and name not in ("mask of 7", "mask of 10")  # which leave the mask open
    dtypes = {"mask": bool, "indices": np.int64}
    for output in outputs[: count if is_read else 1]:
        is_first = output == outputs[0]
        file.output(output, np.float32 if is_first else dtypes.get(name, np.float32))
    file.compare(1e-5)


def test_a_mask_that_nothing_reads_does_not_hinder_fusions():
    file = File(22)
    scale, zero = file.constant(np.float32(0.05)), file.constant(np.uint8(120))
    x = file.input(RNG.integers(0, 256, (2, 3)).astype(np.uint8))
    floats, _ = file.node("Dropout", file.node("DequantizeLinear", x, scale, zero), outputs=2)
    weights = file.constant(RNG.integers(-128, 128, (3, 4)).astype(np.int8))
    w = file.node("DequantizeLinear", weights, scale, file.constant(np.int8(0)))
    y = file.node("QuantizeLinear", file.node("MatMul", floats, w), scale, zero)
    file.output(y, np.uint8)
    model = file.compare(optimised=True)
    assert model.explain(file.inputs).after == {"QLinearMatMul": 1}
