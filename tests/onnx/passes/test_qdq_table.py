"""Every operator of the table of QDQ groups, and what is special in some."""

import numpy as np
import pytest

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.passes.qdq import FUSIONS
from support import HAS_VNNI
from tests.onnx.passes.test_qdq import File
from tools.differential.__main__ import BAD
from tools.differential.graphs import describe, draw
from tools.differential.judge import check

BUSY = ("AveragePool", "Conv", "Gemm", "MatMul", "MaxPool", "Resize")  # these have many attributes
CASES = [(op, seed) for op in sorted(FUSIONS) for seed in range(8 if op in BUSY else 2)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("op", "seed"), CASES, ids=str)
def test_a_group_means_what_it_says(op, seed):
    """With drawn attributes, shapes, dtypes and readers, and with ONNX Runtime's bits."""
    tried = ((check(i, op), i) for i in range(seed, 1000, 100))  # ONNX Runtime refuses some
    (verdict, why), i = next(found for found in tried if found[0][0] != "skipped")
    assert verdict not in BAD, f"{why}\n{describe(draw(i, op)[0])}"


def gap(f, x):
    return f.node("GlobalAveragePool", x)


def weighted(op, *shape, **attributes):
    """An operator with int8 weights."""

    def make(f, x):
        w = np.random.default_rng(2).integers(-100, 100, shape).astype(np.int8)
        return f.node(op, x, f.w(w, 0.0213, np.int8(0)), **attributes)

    return make


TIES = 0.0179 * 0.0213 * 256  # products at this scale are often half a step
SIGNED = {  # the shape of the input, the operator, and the scale of its output
    "Add": ((4, 60, 40), lambda f, x: f.node("Add", x, draw_int8(f, (4, 60, 40))), 0.03),
    "Mul": ((4, 60, 40), lambda f, x: f.node("Mul", x, draw_int8(f, (4, 60, 40))), 0.03),
    "AveragePool": (
        (4, 8, 30, 30),
        lambda f, x: f.node("AveragePool", x, kernel_shape=[3, 3]),
        0.012,
    ),
    "GlobalAveragePool": ((64, 128, 7, 7), gap, 0.00223),
    "Concat": ((9, 90), lambda f, x: f.node("Concat", x, draw_int8(f, (9, 90)), axis=1), 0.03),
    "Sigmoid": ((90, 90), lambda f, x: f.node("Sigmoid", x), 1 / 256),
    "LeakyRelu": ((90, 90), lambda f, x: f.node("LeakyRelu", x, alpha=0.1), 0.0133),
    "Softmax": ((90, 90), lambda f, x: f.node("Softmax", x), 1 / 256),
    "Conv": ((2, 1, 70, 80), weighted("Conv", 32, 1, 1, 1), TIES),
    "Conv of windows": ((2, 32, 20, 21), weighted("Conv", 32, 32, 3, 3, pads=[1] * 4), 0.323),
    "Gemm": ((90, 1), weighted("Gemm", 1, 800), TIES),
    "MatMul": ((90, 1), weighted("MatMul", 1, 800), TIES),
    "MatMul of depth": ((90, 200), weighted("MatMul", 200, 80), 0.323),
}


def draw_int8(f, shape):
    x = np.random.default_rng(len(f.inputs)).normal(size=shape).astype(np.float32)
    return f.d(f.q(f.input(x), 0.0179, np.int8(3)), 0.0179, np.int8(3))


@pytest.mark.parametrize("readers", ["one", "an output"])
@pytest.mark.parametrize("op", SIGNED)
def test_int8_has_the_bits_of_the_extended_level(op, readers):
    """ONNX Runtime makes uint8 of int8 that one node reads, and leaves other int8."""
    if readers == "one" and " of " in op and not HAS_VNNI:  # of several terms
        pytest.skip("ONNX Runtime saturates sums of 8 bits on this processor")
    f = File(17)
    shape, make, scale = SIGNED[op]
    x = draw_int8(f, shape)
    y = f.q(make(f, x), scale, np.int8(22))
    outputs = [y if readers == "an output" else f.d(y, scale, np.int8(22))]
    file = f.write(*outputs)
    theirs = peer.run(peer.start(file, threads=1), f.inputs)
    ours = dmlax.onnx.load(file)(f.inputs)
    for name, wanted in theirs.items():
        np.testing.assert_array_equal(ours[name], wanted)


WEIGHTS = {"Conv": (0, (8, 16, 3, 3)), "Gemm": (1, (16, 24)), "MatMul": (1, (16, 24))}


@pytest.mark.parametrize("has_channels", [True, False])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op", WEIGHTS)
def test_weights_that_the_file_quantizes_are_those_of_a_quantized_file(op, dtype, has_channels):
    """As PyTorch writes them, and `quantize_static` with AddQDQPairToWeight."""
    axis, shape = WEIGHTS[op]
    f, rng = File(21), np.random.default_rng(3)
    scale = np.float32(rng.uniform(0.01, 0.02, shape[axis] if has_channels else None))
    zero, along = np.zeros(scale.shape, dtype), {"axis": axis} if has_channels else {}
    floats = f.constant(rng.normal(size=shape).clip(-0.6, 0.6).astype(np.float32))  # 7 bits
    w = f.d(f.q(floats, scale, zero, **along), scale, zero, **along)
    x = f.input(rng.normal(size=(99, 16, *shape[2:])).astype(np.float32))
    x = f.d(f.q(x, 0.0179, dtype(3)), 0.0179, dtype(3))
    y = f.d(f.q(f.node(op, x, w), 0.0631, dtype(100)), 0.0631, dtype(100))
    file = f.write(y)
    loaded = dmlax.onnx.load(file)
    assert not {"Conv", "Gemm", "MatMul", "dmlax.Conv"} & set(loaded.explain().after)
    assert {x.dtype for x in loaded.params.values()} == {np.dtype(dtype)}
    theirs = peer.run(peer.start(file, threads=1), f.inputs)[y]
    np.testing.assert_array_equal(loaded(f.inputs)[y], theirs)


@pytest.mark.parametrize("readers", ["x", "y"])
@pytest.mark.parametrize("op", SIGNED)
def test_int8_of_several_readers_is_at_most_a_step_from_the_extended_level(op, readers):
    """ONNX Runtime computes floats there; the operators with many ties differ most."""
    f = File(17)
    shape, make, scale = SIGNED[op]
    x = draw_int8(f, shape)
    y = f.d(f.q(make(f, x), scale, np.int8(22)), scale, np.int8(22))
    file = f.write(y, f.node("Neg", x if readers == "x" else y))
    loaded = dmlax.onnx.load(file)
    fused = {op for op in loaded.explain().after if "QLinear" in op or "QGemm" in op}
    assert len(fused) == 1, loaded.explain().after
    ours, theirs = loaded(f.inputs)[y], peer.run(peer.start(file, threads=1), f.inputs)[y]
    steps = np.abs(np.rint((ours - theirs) / np.float32(scale)))
    assert steps.max() <= 1
    most = {"Add": 0.0015, "Conv": 0.0034, "Gemm": 0.0036, "MatMul": 0.0036}
    assert steps.mean() <= most.get(op, 0)


def test_an_inner_int8_changes_nothing():
    f = File(17)
    shape, make, scale = SIGNED["AveragePool"]
    inner = f.q(make(f, draw_int8(f, shape)), scale, np.int8(22))
    output = f.d(inner, scale, np.int8(22))
    model = dmlax.onnx.load(f.write(output))
    both = model.apply(model.params, f.inputs, outputs=(inner, output))
    assert both[inner].dtype == np.int8
    np.testing.assert_array_equal(both[output], model(f.inputs)[output])


RESIZE = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 0.0}


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_resize_that_computes_stays_floats(arithmetic):
    f = File(13)
    line, none = np.array([[[2, 5, 4]]], np.uint8), f.constant(np.float32([]))
    sizes, roi = f.integers(1, 1, 6), f.constant(np.float32([0, 0, -1, 1, 1, 1]))
    linear = f.node("Resize", f.d(line), none, none, sizes, mode="linear")
    x = f.d(line, 1, np.uint8(128))
    cropped = f.node("Resize", x, roi, none, sizes, **RESIZE)
    cubic = f.node("Resize", f.d(line.repeat(3, 2)), none, none, sizes, mode="cubic")
    outputs = f.q(linear), f.d(f.q(cropped, 1, np.uint8(128)), 1, np.uint8(128)), f.q(cubic)
    found = f.run(*outputs, arithmetic=arithmetic)
    assert found[0].tolist() == [[[2, 3, 4, 5, 4, 4]]]
    assert found[1][0, 0, :3].tolist() == [0, 0, 0]
    assert found[2].shape == (1, 1, 6)


def test_a_gather_behind_the_last_coordinate_reads_the_float_0():
    f = File(17)
    places = f.node("Reshape", f.node("NonZero", f.input(np.float32([0, 1, 0, 2]))), f.integers(-1))
    x = f.d(np.array([10, 20, 30, 40], np.uint8), 1, np.uint8(128))
    y = f.d(f.q(f.node("Gather", x, places), 1, np.uint8(128)), 1, np.uint8(128))
    (found,) = f.run(y, nonzero_size=4)
    assert found.tolist() == [-108, -88, 0, 0]


def test_scales_of_a_vector_are_no_channels():
    f = File(17)
    x = f.d(np.array([[1, 1]], np.uint8), 1, np.uint8(0))
    w = f.w(np.int8([1, 2]), np.float32([1, 10]), np.int8([0, 0]), axis=0)
    (found,) = f.run(f.q(f.node("MatMul", x, w)))
    assert found.tolist() == [21]


def dead(op, is_input, **attributes):
    """A product whose first channel has the scale 0, with a bias; it has quantized operands."""
    f = File(17)
    is_convolution = op == "QLinearConv"
    x = np.arange(1, 5, dtype=np.uint8).reshape((2, 2, 1, 1) if is_convolution else (2, 2))
    w = np.ones((2, 2, 1, 1) if is_convolution else (2, 2), np.int8)
    first = [f.input(x), *map(f.constant, (np.float32(0.5), np.uint8(1)))]
    second = [*map(f.constant, (w, np.float32([0, 0.25]), np.int8([0, 0])))]
    bias = [(f.input if is_input else f.constant)(np.int32([100, 4]))]
    end = [*map(f.constant, (np.float32(0.5), np.uint8(7)))]
    if op == "QGemm":
        y = f.node(op, *first, *second, *bias, *end, domain="com.microsoft", **attributes)
    else:
        y = f.node(op, *first, *second, *end, *(bias if is_convolution else []))
    return f, y


@pytest.mark.parametrize("is_input", [False, True], ids=["constant", "input"])
@pytest.mark.parametrize("op", ["QLinearConv", "QGemm", "QGemm transB", "QLinearMatMul"])
@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_dead_channel_is_the_zero_point(op, is_input, arithmetic):
    """The bias counts in steps of 0, whether the file or a caller gives it."""
    op, *transposed = op.split()
    f, y = dead(op, is_input, **dict.fromkeys(transposed, 1))
    (found,) = f.run(y, arithmetic=arithmetic)
    wanted = peer.run(peer.start(f.write(y), threads=1), f.inputs)[y]
    assert (wanted.reshape(2, 2)[:, 0] == 7).all()
    np.testing.assert_array_equal(found, wanted)


def test_products_of_batches_of_matrices_stay_apart():
    f = File(17)
    x = f.d(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), 0.5, np.uint8(3))
    widths = (4, 5)
    w = [f.w(np.ones((2, 3, n), np.int8), 0.25, np.int8(0)) for n in widths]
    outputs = [f.node("MatMul", x, each) for each in w]
    theirs = peer.run(peer.start(f.write(*outputs), threads=1), f.inputs)
    for name, found in zip(outputs, f.run(*outputs), strict=True):
        np.testing.assert_array_equal(found, theirs[name])
