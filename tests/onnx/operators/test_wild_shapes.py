"""Sizes as files of packages have them: positions, paddings, and what is assumed of them."""

import functools

import jax
import numpy as np
import pytest
from jax import export
from onnx import TensorProto, ValueInfoProto, helper

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files

FLOAT, INT, BYTE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8
MS = "com.microsoft"


class File:
    """A model of a few nodes."""

    def __init__(self, opset=17, **inputs):
        self.nodes, self.constants, self.opset, self.inputs = [], {}, opset, inputs

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def __call__(self, op, *names, **attributes):
        names = [x if isinstance(x, str) else self.constant(x) for x in names]
        output = f"t{len(self.nodes)}"
        domain, _, op = op.rpartition(":")
        self.nodes.append(helper.make_node(op, names, [output], domain=domain, **attributes))
        return output

    def size(self, name, axis):
        shape = self("Shape", name)
        return self("Slice", shape, np.int64([axis]), np.int64([axis + 1]))

    def model(self, *outputs):
        return onnx_files.model(self.nodes, self.inputs, outputs, self.constants, self.opset)


def check(file, outputs, *calls, rtol=0.0):
    """Compares calls with ONNX Runtime; returns the model."""
    proto = file.model(*outputs)
    model, session = dmlax.onnx.load(proto), peer.start(proto, optimised=False, threads=1)
    for inputs in calls:
        for name, wanted in peer.run(session, inputs).items():
            ours = np.asarray(model(inputs)[name])
            assert ours.shape == wanted.shape
            np.testing.assert_allclose(ours, wanted, rtol=rtol, atol=rtol)
    return model


def normal(*shape):
    return np.float32(np.random.default_rng(sum(shape)).standard_normal(shape))


def positions():
    """Embeddings of positions up to the text's length, as BERT and GPT have them."""
    file = File(ids=(INT, ["b", "n"]))
    table = file.constant(normal(16, 4))
    places = file("Slice", np.arange(16)[None], np.int64([0]), file.size("ids", 1), np.int64([1]))
    rows = file("Gather", table, places)
    return file, file("Add", file("Gather", table, "ids"), rows)


def test_positions_assume_that_the_text_fits_the_table():
    file, y = positions()
    calls = [{"ids": np.ones(shape, np.int64)} for shape in ((2, 3), (1, 16))]
    model = check(file, [y], *calls)
    (_, n) = model.inputs["ids"].shape
    assert n <= 16  # a constraint of the symbolic size
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), model.params)
    exported = export.export(jax.jit(model.apply))(params, model.inputs)
    assert str(exported.out_avals[0].shape) == "(b, n, 4)"
    found = exported.call(model.params, {"ids": np.ones((2, 3), np.int32)})[y]
    np.testing.assert_array_equal(found, model(calls[0])[y])
    with pytest.raises(ValueError, match="n <= 16"):
        exported.call(model.params, {"ids": np.ones((1, 17), np.int32)})


def test_inputs_whose_sizes_have_two_names():
    file = File(x=(FLOAT, ["m", 3]), y=(FLOAT, ["n", 3]))
    z = file("Concat", "x", file("Add", "x", "y"), axis=1)
    model = check(file, [z], {"x": normal(4, 3), "y": normal(4, 3)})
    inputs = model.inputs
    assert inputs["x"].shape == inputs["y"].shape


def test_a_call_may_have_other_sizes_than_are_assumed():
    file = File(x=(FLOAT, ["m", 3]), y=(FLOAT, ["n", 3]))
    check(file, [file("Add", "x", "y")], {"x": normal(4, 3), "y": normal(1, 3)})


@pytest.mark.parametrize("count", [5, 12])
def test_a_signal_is_padded_or_cut_to_a_length(count):
    file = File(x=(FLOAT, ["b", "n"]))
    missing = file("Sub", np.int64([8]), file.size("x", 1))
    y = file("Pad", "x", file("Concat", np.zeros(3, np.int64), missing, axis=0))
    z = file("Add", y, normal(1, 8))
    model = check(file, [y, z], {"x": normal(2, count)})
    assert model.outputs[y].shape[1] == 8


def test_reflections_assume_a_long_signal():
    file = File(x=(FLOAT, ["n"]))
    y = file("Pad", "x", np.int64([3, 3]), mode="reflect")
    model = check(file, [y], {"x": normal(7)}, {"x": normal(4)})
    (n,) = model.inputs["x"].shape
    assert n >= 4


def test_a_network_of_halves_and_doubles_assumes_multiples():
    """A feature pyramid adds an image that was halved and doubled to the one before."""
    file = File(x=(FLOAT, ["b", 1, "h", "w"]))
    halves = ["x"]
    for _ in range(5):
        options = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        halves.append(file("MaxPool", halves[-1], **options))
    scales = np.float32([1, 1, 2, 2])
    doubled = file("Resize", halves[5], "", scales, mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric")  # fmt: skip
    y = file("Add", doubled, halves[4])
    z = file("GlobalAveragePool", y)
    model = check(file, [y, z], {"x": normal(2, 1, 64, 32)}, rtol=1e-6)
    assert str(model.inputs["x"].shape) == "(b, 1, 32*h, 32*w)"


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_range_up_to_a_size(dtype):
    """YOLO's anchors count in float32."""
    file = File(x=(FLOAT, ["n", 2]))
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    size = file("Cast", file("Squeeze", file.size("x", 0)), to=number)
    y = file("Range", dtype(1), size, dtype(2))
    z = file("Mul", file("Cast", size, to=FLOAT), np.float32(0.5))
    model = check(file, [y, z], {"x": normal(7, 2)}, {"x": normal(8, 2)})
    assert model.outputs[y].dtype.kind == np.dtype(dtype).kind


def test_slices_up_to_a_computed_size():
    file = File(x=(FLOAT, ["b", "n"]))
    n = file.size("x", 1)
    end = file("Sub", n, file("Mod", n, np.int64([4])))
    y = file("Slice", "x", np.int64([2]), end, np.int64([1]))
    last = file("Slice", "x", file("Neg", np.int64([3])), n, np.int64([1]))
    far = file("Slice", "x", np.int64([0]), np.int64([10**9]), np.int64([0]))
    check(file, [y, last, file("Sub", "x", far)], {"x": normal(2, 11)}, {"x": normal(2, 8)})


def test_a_size_of_minus_1_is_dynamic():
    file = File(x=(FLOAT, [-1, 3]))
    check(file, [file("Relu", "x")], {"x": normal(4, 3)}, {"x": normal(2, 3)})


def test_sizes_that_cannot_be_assumed():
    """The remedy of sizes that JAX cannot compare is an input's shape."""
    file = File(x=(FLOAT, ["n", "m"]))
    n, m = file.size("x", 0), file.size("x", 1)
    sizes = [file("Add", file("Mul", n, m), np.int64([i])) for i in range(3)]
    parts = [file("Expand", np.float32([[1]]), file("Concat", size, np.int64([2]), axis=0))
             for size in sizes]  # fmt: skip
    y = file("Concat", *parts, axis=1)
    with pytest.raises(dmlax.UnsupportedError, match=r"it needs sizes with .*give input_shapes"):
        dmlax.onnx.load(file.model(y))


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
def test_sigmoid_and_tanh_have_onnx_runtimes_bits(op):
    file = File(x=(FLOAT, ["n"]))
    y = file(op, "x")
    z = file("Mul", y, "x")  # SiLU
    x = np.concatenate([normal(3000) * scale for scale in (0.1, 1, 5, 20)])
    check(file, [y, z], {"x": np.float32([*x, np.inf, -np.inf, np.nan, 0])})


def test_a_real_signal_without_its_last_axis():
    file = File(x=(FLOAT, ["b", "n"]))
    y = file("STFT", "x", np.int64(4), np.hanning(8).astype(np.float32))
    check(file, [y], {"x": normal(2, 32)}, rtol=2e-5)


def test_the_smaller_of_two_sizes():
    file = File(x=(FLOAT, ["b", "n"]))
    n = file.size("x", 1)
    least, most = file("Min", n, np.int64([4])), file("Max", n, np.int64([4]))
    y = file("Slice", "x", np.int64([0]), least, np.int64([1]))
    z = file("ConstantOfShape", most)
    check(file, [y, z], {"x": normal(2, 3)}, {"x": normal(2, 6)})


@pytest.mark.parametrize("rows", [(16, 1), ()])
def test_a_table_of_bytes_is_gathered_before_it_is_scaled(rows):
    file = File(ids=(INT, ["n"]))
    rng = np.random.default_rng(0)
    table, weights = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 4), (4, 3)))
    scaled = file("Mul", file("Cast", table, to=FLOAT), np.abs(normal(*rows)) + np.float32(0.1))
    picked = file("Gather", scaled, "ids")
    floats = file("Mul", file("Cast", weights, to=FLOAT), normal(1, 3))
    y, z = file("MatMul", picked, floats), file("Add", picked, np.float32(1))
    model = check(file, [y, picked, z], {"ids": np.array([3, -1, 0, 15])}, rtol=1e-4)
    assert model.explain().after.get("Cast", 0) == 1
    (held,) = (x for x in model.params.values() if x.shape == (16, 4))
    assert held.dtype == np.int8


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_a_state_of_one_sequence_beside_an_open_batch(op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * 5
    file = File(x=(FLOAT, ["steps", "batch", 4]), h=(FLOAT, [1, 1, 5]))
    states = ["h", "h"] if op == "LSTM" else ["h"]
    weights = normal(1, gates, 4), normal(1, gates, 5), normal(1, 2 * gates)
    y = file(op, "x", *weights, np.int32([2]), *states, hidden_size=5)
    calls = [{"x": normal(steps, 1, 4), "h": normal(1, 1, 5)} for steps in (2, 3)]
    model = check(file, [y], *calls, rtol=1e-5)
    assert [*map(str, model.inputs["x"].shape)] == ["steps", "1", "4"]
    text = r"x is float32\[2,3,4\], which the nodes do not fit: .*(initial_h|sequence_lens)"
    with pytest.raises(dmlax.SpecError, match=text):
        model({"x": normal(2, 3, 4), "h": normal(1, 1, 5)})


def test_squeezed_sizes_are_one_and_others_are_not():
    file = File(x=(FLOAT, ["n", 3, 1]))
    named = check(file, [file("Squeeze", "x", np.int64([0, -1]))], {"x": normal(1, 3, 1)})
    assert named.inputs["x"].shape == (1, 3, 1)
    file = File(x=(FLOAT, ["n", 3, 1]))
    y = file("Relu", file("Squeeze", "x"))
    check(file, [y], *({"x": normal(n, 3, 1)} for n in (1, 2, 5)))


def test_a_joined_size_is_assumed_to_fit():
    file = File(x=(FLOAT, ["n", 3]), y=(FLOAT, [1, 3]))
    check(file, [file("Concat", "x", "y", axis=1)], {"x": normal(1, 3), "y": normal(1, 3)})


def test_maxima_of_sizes_cancel():
    """A signal, padded to whole blocks as a pitch detector does, and windows of four blocks."""
    file = File(x=(FLOAT, [1, "samples"]))
    count = file.size("x", 1)
    missing = file("Max", file("Sub", np.int64([16]), count), np.int64([0]))
    padded = file("Pad", "x", file("Concat", np.int64([0, 0, 0]), missing, axis=0))
    length = file("Max", count, np.int64([16]))
    count_up = file("Div", file("Add", length, np.int64([15])), np.int64([16]))
    whole = file("Mul", count_up, np.int64([16]))
    ends = file("Concat", np.int64([0, 32, 0]), file("Sub", whole, length), axis=0)
    ends = file("Add", ends, np.int64([0, 0, 0, 32]))
    blocks = file("Reshape", file("Pad", padded, ends), np.int64([-1, 16]))
    rows = file("Max", file("Div", count, np.int64([16])), np.int64([1]))
    zero = np.int64([0])
    windows = [
        file("Slice", blocks, np.int64([k]), file("Add", rows, np.int64([k])), zero)
        for k in range(4)
    ]
    y = file("Concat", *windows, axis=1)
    model = check(file, [y], *({"x": normal(1, n)} for n in (3, 16, 17, 100)))
    (size, _) = model.outputs[y].shape
    assert str(size) == "max(floordiv(samples, 16), 1)"
    (blocks_size, _) = jax.eval_shape(
        functools.partial(model.apply, outputs=[blocks]), model.params, model.inputs
    )[blocks].shape
    assert str(blocks_size) == "floordiv(max(samples, 16) + 15, 16) + 4"


def test_a_slice_up_to_a_number_is_assumed_to_fit():
    """The nearest neighbours of the nodes of a graph, beside each node's number."""
    file = File(x=(FLOAT, ["n", "n"]))
    near = file("Slice", "x", np.int64([0]), np.int64([3]), np.int64([1]))
    near = file("Reshape", near, np.int64([-1]))
    tiled = file("Tile", file("Slice", "x", np.int64([0]), np.int64([1]), np.int64([1])), [1, 3])
    pairs = [file("Unsqueeze", file("Reshape", y, np.int64([-1])), [0]) for y in (near, tiled)]
    model = check(file, [file("Concat", *pairs, axis=0)], *({"x": normal(n, n)} for n in (3, 7)))
    assert model.inputs["x"].shape[0] >= 3


def of_bytes(*shape):
    return [np.float32(0.5), np.uint8(3), np.ones(shape, np.uint8), np.float32(0.5), np.uint8(3)]


BYTES, CHANNELS = of_bytes()[:2], [normal(5), normal(5), normal(5), abs(normal(5))]
FILTER, ROWS = np.ones((4, 5, 2, 2), np.uint8), np.ones((5, 4), np.uint8)
IMAGES, BLOCKS = [1, "n", 8, 8], {"axis": 0, "block_size": 2}
NIBBLES = {"K": 32, "N": 4, "bits": 4, "block_size": 16}
FITTING = (  # nodes that are computed for one n alone
    ("Gemm", [3, "n"], [normal(5, 4)], {}),
    ("Gemm", ["n", 3], [normal(5, 4)], {"transA": 1}),
    ("MatMul", ["n"], [normal(5, 4)], {}),
    ("MatMul", [3, "n"], ["z"], {}),
    ("Einsum", [2, "n"], [normal(5, 4)], {"equation": "ij,jk->ik"}),
    ("Conv", IMAGES, [normal(4, 5, 2, 2)], {}),
    ("Conv", IMAGES, [normal(4, 5, 2, 2)], {"group": 2}),
    ("ConvTranspose", IMAGES, [normal(5, 4, 2, 2)], {}),
    ("BatchNormalization", [2, "n", 8], CHANNELS, {}),
    ("InstanceNormalization", [2, "n", 8], CHANNELS[:2], {}),
    ("LayerNormalization", [2, "n"], CHANNELS[:2], {}),
    ("PRelu", [2, "n"], [normal(5)], {}),
    ("Concat", ["n", 3], [normal(5, 4)], {"axis": 1}),
    ("LSTM", [3, 2, "n"], [normal(1, 16, 5), normal(1, 16, 4)], {"hidden_size": 4}),
    ("GatherND", ["n", 3], [np.int64([[2]] * 5)], {"batch_dims": 1}),
    ("ReverseSequence", ["n", 3], [np.int64([1, 2, 3, 1, 3])], {"batch_axis": 0, "time_axis": 1}),
    ("MatMulInteger", [2, "n"], [ROWS], {}),
    ("ConvInteger", IMAGES, [FILTER], {}),
    ("QLinearMatMul", [2, "n"], [*of_bytes(5, 4), *BYTES], {}),
    ("QLinearConv", IMAGES, [*of_bytes(4, 5, 2, 2), *BYTES], {}),
    (f"{MS}:QGemm", [2, "n"], [*of_bytes(5, 4), "", *BYTES], {}),
    (f"{MS}:QLinearAdd", ["n", 4], [*of_bytes(5, 4), *BYTES], {}),
    ("DequantizeLinear", ["n", 3], [abs(normal(5))], {"axis": 0}),
    ("QuantizeLinear", ["n", 3], [abs(normal(5)), np.zeros(5, np.uint8)], {"axis": 0}),
    ("QuantizeLinear", ["n", 3], [abs(normal(3, 3)), np.zeros((3, 3), np.uint8)], BLOCKS),
    (f"{MS}:MatMulNBits", [2, "n"], [np.ones((4, 2, 8), np.uint8), abs(normal(8))], NIBBLES),
    (f"{MS}:FusedMatMul", ["n", 3], [normal(5, 4)], {"transA": 1}),
    (f"{MS}:BiasGelu", [1, 4, "n"], [normal(5)], {}),
)


@pytest.mark.parametrize("row", FITTING, ids=lambda row: row[0].rpartition(":")[2])
def test_a_size_that_must_equal_another_is_assumed_to_do_so(row):
    op, shape, operands, attributes = row
    is_byte = "QLinear" in op or "Integer" in op or op in (f"{MS}:QGemm", "DequantizeLinear")
    file = File(21, x=(BYTE if is_byte else FLOAT, shape), z=(FLOAT, ["m", 4]))
    y = file(op, "x", *operands, **attributes)
    outputs = [y, file("Identity", "z")]
    sizes = dmlax.onnx.load(file.model(*outputs)).inputs["x"].shape
    x = normal(*(size if isinstance(size, int) else 5 for size in sizes))
    inputs = {"x": (np.abs(9 * x).astype(np.uint8) if is_byte else x), "z": normal(5, 4)}
    check(file, outputs, inputs, rtol=2e-5)
    if not is_byte:
        wrong = {**inputs, "x": normal(*(7 if size == "n" else size for size in shape))}
        with pytest.raises((dmlax.SpecError, dmlax.UnsupportedError)):
            dmlax.onnx.load(file.model(*outputs))(wrong)


@pytest.mark.parametrize(
    ("op", "operand", "other"), [("Reshape", [-1], 15), ("Pad", [2, 0, 0, 0], (7, 3))]
)
def test_a_size_is_solved_for_that_of_another(op, operand, other):
    """`3*n == 15` and `n + 2 == 7`."""
    file = File(21, x=(FLOAT, ["n", 3]))
    y = file("Add", file(op, "x", np.int64(operand)), normal(*np.atleast_1d(other)))
    model = check(file, [y], {"x": normal(5, 3)})
    assert model.inputs["x"].shape == (5, 3)


@pytest.mark.parametrize("opset", [13, 18])
def test_a_mean_of_no_element_is_0(opset):
    file = File(opset, x=(FLOAT, ["n", 0, 3]))
    axes = {"axes": [1]} if opset == 13 else {}
    y = file("ReduceMean", "x", *([] if axes else [np.int64([1])]), **axes)
    check(file, [y], {"x": np.zeros((2, 0, 3), np.float32)})


def test_a_filter_without_channels_stays_float():
    file = File(21, x=(BYTE, [2, 0, 4, 4]))
    scale, zero = np.float32(0.5), np.uint8(3)
    floats = (
        file("DequantizeLinear", x, scale, zero) for x in ("x", np.zeros((1, 0, 1, 1), np.uint8))
    )
    y = file("QuantizeLinear", file("Conv", *floats), scale, zero)
    check(file, [y], {"x": np.zeros((2, 0, 4, 4), np.uint8)})


@pytest.mark.parametrize("height", ["h", 8])
def test_a_file_that_fits_no_size_is_malformed(height):
    file = File(x=(FLOAT, [1, 3, height, 8]))
    y = file("Conv", "x", normal(4, 3, 1, 1), normal(5))
    with pytest.raises(dmlax.onnx.ModelError, match=r"bias has the shape \[5\], expected \[4\]"):
        dmlax.onnx.load(file.model(y))


def branch(node):
    """A subgraph of one node."""
    return helper.make_graph([node], node.op_type, [], [ValueInfoProto(name=node.output[0])])


def guarded(then, otherwise):
    """A file that looks whether the last axis has one element, and its output."""
    file = File(x=(FLOAT, ["n", "m"]))
    is_one = file("Squeeze", file("Equal", file.size("x", 1), np.int64([1])))
    return file, file("If", is_one, then_branch=branch(then), else_branch=branch(otherwise))


def test_a_size_that_is_compared_with_a_number_is_assumed_to_be_larger():
    """A call may have the number, and an exported program refuses it."""
    then = helper.make_node("Neg", ["x"], ["a"])
    file, y = guarded(then, helper.make_node("Abs", ["x"], ["b"]))
    model = check(file, [y], *({"x": normal(2, m)} for m in (1, 2, 5)))
    assert model.inputs["x"].shape[1] >= 2
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), model.params)
    exported = export.export(jax.jit(model.apply))(params, model.inputs)
    with pytest.raises(ValueError, match="m >= 2"):
        exported.call(model.params, {"x": normal(2, 1)})


def test_nodes_that_need_other_sizes_than_are_assumed_name_the_input():
    """As Silero's, which squeezes the axis of one element before an LSTM."""
    then = helper.make_node("Squeeze", ["x", "axes"], ["a"])
    file, y = guarded(then, helper.make_node("Identity", ["x"], ["b"]))
    file.constants["axes"] = np.array([1])
    z = file("Concat", y, normal(3), axis=0)
    text = r'if m >= 2: give static sizes, as input_shapes=\{"x": \[\.\.\.\]\}'
    with pytest.raises(dmlax.UnsupportedError, match=text):
        dmlax.onnx.load(file.model(z))
    proto, x = file.model(z), {"x": normal(2, 1)}
    found = dmlax.onnx.load(proto, input_shapes={"x": ["n", 1]})(x)[z]
    np.testing.assert_array_equal(found, peer.run(peer.start(proto, optimised=False), x)[z])


def same_windows(op, x, *operands, kernel, stride, lower=False, **attributes):
    """A row of OPEN: windows whose padding depends on the size of the image."""
    pad = "SAME_LOWER" if lower else "SAME_UPPER"
    sizes = {"auto_pad": pad, "kernel_shape": kernel, "strides": stride}
    return op, x, operands, sizes | attributes


BYTES = np.random.default_rng(8).integers(0, 256, (2, 4, 7, 10)).astype(np.uint8)
PIXELS = (np.float32(0.03), np.uint8(100))
TAPS = BYTES[..., :3, :2].reshape(4, 2, 3, 2)
VOXELS = BYTES.reshape(2, 4, 7, 5, 2)
OPEN = {  # an operator, its input, constants, attributes
    "group": ("Conv", normal(2, 4, 7, 9), [normal(6, 2, 3, 3)], {"group": 2}),
    "depthwise": ("Conv", normal(2, 4, 9), [normal(4, 1, 3), normal(4)], {"group": 4}),
    "same": same_windows(
        "Conv", normal(2, 4, 7, 10), normal(6, 4, 5, 3), kernel=[5, 3], stride=[2, 3]
    ),
    "same lower": same_windows(
        "Conv", normal(2, 4, 7), normal(6, 2, 4), kernel=[4], stride=[3], lower=True, group=2
    ),
    "leaves pixels out": same_windows(
        "Conv", normal(2, 4, 7, 10), normal(6, 4, 1, 2), kernel=[1, 2], stride=[2, 3], lower=True
    ),
    "ConvInteger": same_windows(
        "ConvInteger", BYTES, TAPS, np.uint8(9), kernel=[3, 2], stride=[2, 3], group=2
    ),
    "ConvInteger of volumes": same_windows(
        *("ConvInteger", VOXELS, VOXELS[..., :3, :3, :1], np.uint8(9)),
        kernel=[3, 3, 1],
        stride=[2, 2, 2],
    ),
    "QLinearConv": same_windows(
        *("QLinearConv", BYTES, *PIXELS, TAPS, np.float32(0.02), np.uint8(120)),
        *(np.float32(2), np.uint8(99)),
        kernel=[3, 2],
        stride=[2, 3],
        group=2,
        lower=True,
    ),
    "ConvTranspose": ("ConvTranspose", normal(2, 4, 7), [normal(4, 3, 2)], {"group": 2}),
    "MatMul": ("MatMul", normal(2, 1, 3, 5), [normal(1, 1, 5, 4)], {}),
    "MatMul by a vector": ("MatMul", normal(2, 1, 3, 5), [normal(5)], {}),
    "MatMulInteger": ("MatMulInteger", BYTES, [BYTES[0, 0].T], {}),
    "QLinearMatMul": (
        *("QLinearMatMul", BYTES, [*PIXELS, BYTES[0, 0].T, *PIXELS, np.float32(9), np.uint8(99)]),
        {},
    ),
    "Expand": ("Expand", normal(3, 4), [np.int64([2, 3, 4])], {}),
    "GatherElements": ("GatherElements", normal(3, 4), [np.int64([[3, 0]])], {"axis": 1}),
}


@pytest.mark.parametrize("case", OPEN)
def test_the_constants_of_a_node_say_which_sizes_an_open_input_has(case):
    op, x, constants, attributes = OPEN[case]
    file = File(x=(helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim))
    check(file, [file(op, "x", *constants, **attributes)], {"x": x}, {"x": x[:1]}, rtol=2e-5)


def test_a_product_of_open_sizes_is_the_depth_of_a_matrix():
    file = File(x=(FLOAT, [None] * 4))
    check(
        file,
        [file("Gemm", file("Flatten", "x"), normal(24, 5))],
        {"x": normal(2, 4, 2, 3)},
        rtol=2e-5,
    )


def test_two_open_inputs_of_a_quantized_sum():
    file = File(a=(BYTE, [None] * 4), b=(BYTE, [None] * 4))
    y = file("com.microsoft:QLinearAdd", "a", *PIXELS, "b", *PIXELS, *PIXELS)
    check(file, [y], {"a": BYTES, "b": BYTES[:1]})


def test_a_chain_of_equal_sizes():
    """The lengths and the state of an LSTM have its batch, each under another name."""
    shapes = {"x": (FLOAT, [None] * 3), "n": (TensorProto.INT32, [None]), "h": (FLOAT, [None] * 3)}
    file = File(**shapes)
    weights = [normal(1, 12, 2), normal(1, 12, 3), normal(1, 24)]
    y = file("LSTM", "x", *weights, "n", "h", hidden_size=3)
    call = {"x": normal(5, 4, 2), "n": np.int32([1, 5, 3, 2]), "h": normal(1, 4, 3)}
    check(file, [y], call, rtol=2e-5)


@pytest.mark.parametrize("shape", [(0, 3, 0, 5), (2, 0, 3, 0), (0, 0, 0), (0, 2, 4)])
@pytest.mark.parametrize("is_last", [False, True])
def test_bytes_without_images_or_channels_have_no_averages(shape, is_last):
    shape = (shape[0], *shape[2:], shape[1]) if is_last else shape
    scale, zero = np.float32(0.5), np.uint8(3)
    file = File(x=(BYTE, shape))
    names = ("x", scale, zero, scale, zero)
    average = file(f"{MS}:QLinearGlobalAveragePool", *names, channels_last=int(is_last))
    y = dmlax.onnx.load(file.model(average))(np.zeros(shape, np.uint8))[average]
    ones = (1,) * (len(shape) - 2)
    channels = shape[-1] if is_last else shape[1]
    assert y.shape == ((shape[0], *ones, channels) if is_last else (shape[0], channels, *ones))
    assert y.dtype == np.uint8


@pytest.mark.parametrize("op", ["QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearConv"])
@pytest.mark.parametrize("reader", ["", "QLinearAdd", "QLinearSigmoid"])
def test_files_whose_bytes_are_channels_last(op, reader):
    rng = np.random.default_rng(0)
    scale, zero = np.float32(0.5), np.uint8(3)
    file, parameters = File(x=(BYTE, (2, 4, 5, 3))), (scale, zero)
    if op == "QLinearConv":
        weights = rng.integers(0, 255, (3, 3, 3, 3)).astype(np.uint8)
        names = ("x", *parameters, weights, *parameters, np.float32(40), zero)
        y = file(f"{MS}:{op}", *names, channels_last=1, pads=[1, 1, 1, 1])
    else:
        window = {"kernel_shape": [2, 3]} if op == "QLinearAveragePool" else {}
        y = file(f"{MS}:{op}", "x", *parameters, *parameters, channels_last=1, **window)
    if reader:
        addend = ("x", *parameters) if op == "QLinearConv" else (np.uint8([[9]]), *parameters)
        others = addend if reader == "QLinearAdd" else ()
        y = file(f"{MS}:{reader}", y, np.float32(0.1), zero, *others, *parameters)
    x = rng.integers(0, 255, (2, 4, 5, 3)).astype(np.uint8)
    check(file, [y], {"x": x})
