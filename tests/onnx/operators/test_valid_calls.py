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
