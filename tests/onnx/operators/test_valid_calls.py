"""Valid nodes as files of packages have them: broadcast parameters, empty tensors, any dtype."""

import itertools

import numpy as np
import pytest

import dmlax.onnx
from dmlax.onnx import peer
from support.onnx_files import File

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
    is_read = is_read and name not in ("mask of 7", "mask of 10")  # these leave the mask open
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


def no_boxes(file, batches=1, classes=2, boxes=0):
    operands = [
        file.input(normal((batches, boxes, 4))),
        file.input(normal((batches, classes, boxes))),
    ]
    operands += [file.constant(x) for x in (np.int64(3), np.float32(0.5), np.float32(0.1))]
    return file.node("NonMaxSuppression", *operands)


def empty(op, *shapes, dtype=np.float32, constants=(), **attributes):
    """Builds a node of empty tensors."""

    def build(file):
        inputs = [file.input(normal(shape).astype(dtype)) for shape in shapes]
        inputs += [file.constant(x) for x in constants]
        return file.node(op, *inputs, **attributes)

    return build


EMPTY = {  # nodes without elements, and the dtype of the result
    "no boxes": (no_boxes, np.int64),
    "no classes": (lambda file: no_boxes(file, 1, 0, 3), np.int64),
    "no batches": (lambda file: no_boxes(file, 0, 2, 3), np.int64),
    "no images": (empty("GridSample", (0, 2, 3, 3), (0, 4, 5, 2)), np.float32),
    "no channels": (empty("GridSample", (2, 0, 3, 3), (2, 4, 5, 2)), np.float32),
    "no points": (empty("GridSample", (2, 1, 3, 3), (2, 0, 5, 2)), np.float32),
    "no rows": (empty("ArgMax", (0, 0), axis=-1), np.int64),
    "no columns": (empty("Hardmax", (3, 0)), np.float32),
    "no kept": (empty("Compress", (0, 2), constants=[np.zeros(3, bool)], axis=0), np.float32),
    "no coordinates": (empty("GatherND", (2, 3), constants=[np.zeros((4, 0), int)]), np.float32),
    "no numbers": (empty("ReduceMin", (0, 3), dtype=np.int32, keepdims=0), np.int32),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_tensors(name):
    build, dtype = EMPTY[name]
    file = File(22)
    file.output(build(file), dtype)
    model = file.model()
    wanted = peer.run(peer.start(model, optimised=False, threads=1), file.inputs)
    found = dmlax.onnx.load(model, nonzero_size=4)(file.inputs)
    for name, x in wanted.items():
        y = np.asarray(found[name])
        np.testing.assert_array_equal(y[: len(x)] if f"{name}.count" in found else y, x)


@pytest.mark.parametrize("op", ["ReduceMin", "ReduceMax"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32, np.int32])
def test_extremes_of_integers(op, dtype):
    file = File(20)
    limits = np.iinfo(dtype)
    x = RNG.integers(limits.min, limits.max, (3, 4), dtype, endpoint=True)
    file.output(file.node(op, file.input(x), file.constant(np.int64([1]))), dtype)
    if dtype in (np.uint8, np.int8, np.int32):  # ONNX Runtime has no other
        file.compare()
    (y,) = dmlax.onnx.load(file.model())(file.inputs).values()
    reduce = np.min if op == "ReduceMin" else np.max
    np.testing.assert_array_equal(y, reduce(x, axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("op", ["QLinearConv", "ConvInteger"])
def test_convolutions_of_volumes(op, seed):
    rng = np.random.default_rng(seed)
    group, taps = int(rng.integers(1, 3)), rng.integers(1, 4, 3)
    file, channels, count = File(21), 2 * group, 3 * group
    dtype = [np.uint8, np.int8][seed % 2 if op == "QLinearConv" else 0]  # ONNX Runtime's
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, (2, channels, 5, 6, 5), dtype)
    w = rng.integers(-64, 65, (count, 2, *taps)).astype(np.int8)  # saturates on no processor
    zero = file.constant(dtype(limits.max // 2))
    attributes = {
        "group": group,
        "strides": rng.integers(1, 3, 3).tolist(),
        "pads": rng.integers(0, 3, 6).tolist(),
        "dilations": rng.integers(1, 3, 3).tolist(),
    }
    if op == "ConvInteger":
        inputs = [file.input(x), file.constant(w.astype(np.uint8)), zero]
        file.output(file.node(op, *inputs, **attributes), np.int32)
    else:
        scales = rng.uniform(0.01, 0.02, count).astype(np.float32)
        points = file.constant(np.zeros(count, np.int8))
        inputs = [file.input(x), file.constant(np.float32(0.05)), zero]
        inputs += [file.constant(w), file.constant(scales), points]
        inputs += [file.constant(np.float32(0.4)), zero]
        inputs += [file.constant(rng.integers(-999, 999, count).astype(np.int32))]
        file.output(file.node(op, *inputs, **attributes), dtype)
    file.compare()


@pytest.mark.parametrize("seed", range(40))
def test_resize_with_antialias(seed):
    rng = np.random.default_rng(seed)
    mode, rank = ["linear", "cubic"][seed % 2], [2, 4, 4][seed % 3]
    dtype = rng.choice(["float32", "uint8", "int8"]) if mode == "linear" else "float32"
    shape, spatial = rng.integers(2, 16, rank), range(rank)[-2:]
    sizes = shape.copy()
    sizes[-2:] = [rng.integers(1, max(2, shape[axis] * 3 // 2)) for axis in spatial]
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"]
    attributes = {
        "coordinate_transformation_mode": ways[rng.integers(5)],
        "exclude_outside": int(mode == "cubic" and rng.integers(2)),
        "extrapolation_value": 2.0,
        "cubic_coeff_a": [-0.75, -0.5][rng.integers(2)],
    }
    values = rng.normal(size=shape) if dtype == "float32" else rng.integers(0, 128, shape)
    if dtype == "int8":
        values = values * rng.choice([-1, 1], shape)
    file, roi = File(19), np.float32([0.0] * rank + [1.0] * rank)
    roi[[rank - 1, 2 * rank - 1]] = rng.choice([0, 0.1, -0.3]), rng.choice([1, 0.8, 1.4])
    inputs = [file.input(values.astype(dtype)), file.constant(roi), ""]
    if rng.integers(2) or attributes["coordinate_transformation_mode"] == ways[4]:
        inputs.append(file.constant(sizes))
    else:
        inputs[2] = file.constant(np.float32(sizes / shape))
    file.output(file.node("Resize", *inputs, mode=mode, antialias=1, **attributes), dtype)
    file.compare(1e-6 if dtype == "float32" else 0)
