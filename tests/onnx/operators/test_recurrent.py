"""Recurrent layers, floats and quantized, and signal operators: as ONNX Runtime computes them."""

import functools

import jax
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files

STEPS, BATCH, INPUTS, HIDDEN = 6, 3, 5, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OUTPUTS = {"LSTM": "yhc", "GRU": "yh", "RNN": "yh"}
DIRECTIONS = ("forward", "reverse", "bidirectional")
ACTIVATIONS = {  # whether each takes an alpha, and a beta
    "Affine": (1, 1),
    "Relu": (0, 0),
    "LeakyRelu": (1, 0),
    "ThresholdedRelu": (1, 0),
    "Tanh": (0, 0),
    "ScaledTanh": (1, 1),
    "Sigmoid": (0, 0),
    "HardSigmoid": (1, 1),
    "Elu": (1, 0),
    "Softsign": (0, 0),
    "Softplus": (0, 0),
}
OPTIONS = {  # operands and attributes beside x, w, r and b
    "plain": {},
    "without bias": {"bias": False},
    "initial states": {"states": True},
    "lengths": {"lengths": [4, 2, 3], "states": True},
    "a sequence of no step": {"lengths": [6, 1, 0]},
    "clip": {"clip": 0.4},
    "clip without bias": {"clip": 0.4, "bias": False},
    "last states": {"outputs": "hc", "lengths": [6, 2, 3]},
    "y alone": {"outputs": "y"},
}
OWN_OPTIONS = {
    "LSTM": {
        "peepholes": {"peepholes": True, "states": True, "clip": 0.6},
        "input_forget": {"input_forget": 1, "peepholes": True, "bias": False},
    },
    "GRU": {
        "linear": {"linear_before_reset": 1, "lengths": [4, 2, 3], "states": True},
        "linear without bias": {"linear_before_reset": 1, "bias": False},
    },
    "RNN": {},
}


class File:
    """A model of several nodes, and the inputs of a call."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.arrays, self.feeds, self.shapes, self.outputs = [], {}, {}, {}, []

    def floats(self, *shape):
        return (self.random.standard_normal(shape) / 2).astype(np.float32)

    def constant(self, array):
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.asarray(array)
        return name

    def input(self, array, shape=None):
        name = f"x{len(self.feeds)}"
        self.feeds[name] = np.asarray(array)
        self.shapes[name] = self.feeds[name].shape if shape is None else shape
        return name

    def node(self, op, *inputs, outputs="y", **attributes):
        """Adds a node; the outputs are letters, a blank for an absent one."""
        names = [f"{op}{len(self.nodes)}{each}" if each != " " else "" for each in outputs]
        attributes = {name: value for name, value in attributes.items() if value != []}
        self.nodes.append(helper.make_node(op, inputs, names, f"n{len(self.nodes)}", **attributes))
        self.outputs += [name for name in names if name]
        return names

    def layer(
        self,
        op,
        x,
        *,
        direction="forward",
        bias=True,
        lengths=None,
        states=False,
        peepholes=False,
        outputs=None,
        inputs=INPUTS,
        hidden=HIDDEN,
        batch=BATCH,
        **attributes,
    ):
        count, gates = 1 + (direction == "bidirectional"), GATES[op] * hidden
        state = functools.partial(self.floats, count, batch, hidden)
        arrays = [
            self.floats(count, gates, inputs),
            self.floats(count, gates, hidden),
            self.floats(count, 2 * gates) if bias else None,
            lengths if isinstance(lengths, str) or lengths is None else np.int32(lengths),
            state() if states else None,
            state() if states and op == "LSTM" else None,
            self.floats(count, 3 * hidden) if peepholes else None,
        ]
        arrays = arrays[: 7 if op == "LSTM" else 5]
        while arrays[-1] is None:
            arrays.pop()
        names = [
            each if isinstance(each, str) else "" if each is None else self.constant(each)
            for each in arrays
        ]
        wanted = OUTPUTS[op] if outputs is None else outputs
        letters = "".join(each if each in wanted else " " for each in OUTPUTS[op]).rstrip()
        own = {"direction": direction, "hidden_size": hidden}
        return self.node(op, x, *names, outputs=letters, **own, **attributes)

    def model(self, opset=22):
        types = {name: (self.feeds[name].dtype, shape) for name, shape in self.shapes.items()}
        return onnx_files.model(self.nodes, types, self.outputs, self.arrays, opset)


def run(model, feeds):
    """ONNX Runtime's outputs with one thread, which quantizes the state of a batch at once."""
    return peer.run(peer.start(model, threads=1), feeds)


def assert_close(found, wanted, bound=1e-6):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].shape == array.shape, name
        largest = max(float(np.abs(array).max(initial=0)), 1.0)
        np.testing.assert_allclose(found[name], array, rtol=0, atol=bound * largest, err_msg=name)


def check(file, opset=22, bound=1e-6, **options):
    model = file.model(opset)
    loaded = dmlax.onnx.load(model, **options)
    assert_close(loaded(file.feeds), run(model, file.feeds), bound)
    return loaded


def input_of(file, steps=STEPS, batch=BATCH, inputs=INPUTS, shape=None):
    return file.input(4 * file.floats(steps, batch, inputs), shape)


@pytest.mark.parametrize("op", GATES)
def test_operands_and_attributes(op):
    file = File()
    x = input_of(file)
    for name, options in {**OPTIONS, **OWN_OPTIONS[op]}.items():
        if (
            op == "RNN" and "lengths" in options
        ):  # no length 0, which ONNX Runtime reads garbage for
            options = {**options, "lengths": [4, 2, 3]}
        for direction in DIRECTIONS if name == "lengths" else DIRECTIONS[2:]:
            file.layer(op, x, direction=direction, **options)
    check(file)


@pytest.mark.parametrize("opset", [7, 14])
def test_opsets(opset):
    file = File()
    x = input_of(file)
    for op in GATES:
        file.layer(op, x, direction="bidirectional", lengths=[6, 2, 3], states=True)
    check(file, opset)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", GATES)
def test_activations(op):
    file, names = File(), list(ACTIVATIONS)
    x = input_of(file, steps=2)
    places = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    for shift in range(len(names)):
        given = [names[(shift + 4 * place) % len(names)] for place in range(2 * places)]
        counts = [sum(ACTIVATIONS[name][each] for name in given) for each in range(2)]
        if op == "RNN":  # ONNX Runtime reads one for each direction
            counts = [2, 2] if all(all(ACTIVATIONS[name]) for name in given) else [0, 0]
        alpha, beta = ([round(0.3 + 0.1 * i, 1) for i in range(count)] for count in counts)
        own = {"direction": "bidirectional", "activations": given}
        if shift % 3 == 0 and op != "RNN":
            file.layer(op, x, **own)  # the defaults
        file.layer(op, x, **own, activation_alpha=alpha, activation_beta=beta)
    check(file, bound=3e-6)


def test_lengths_and_sizes_of_a_call():
    file = File()
    x = input_of(file, shape=["t", "n", INPUTS])
    lengths = file.input(np.int32([4, 1, 2]), ["n"])
    for op in GATES:
        file.layer(op, x, direction="bidirectional", lengths=lengths)
    file.layer("GRU", x, direction="reverse")
    loaded = check(file)
    file.feeds = {x: file.floats(9, 2, INPUTS), lengths: np.int32([9, 5])}
    assert_close(loaded(file.feeds), run(file.model(), file.feeds))


@pytest.mark.parametrize("op", GATES)
def test_layout_1_is_batch_first(op):
    files = [File(), File()]
    for layout, file in enumerate(files):
        x = 4 * file.floats(STEPS, BATCH, INPUTS)
        name = file.input(x.swapaxes(0, 1) if layout else x)
        file.layer(op, name, direction="bidirectional", lengths=[4, 2, 3], layout=layout)
    first, last = (list(dmlax.onnx.load(file.model())(file.feeds).values()) for file in files)
    np.testing.assert_array_equal(first[0].transpose(2, 0, 1, 3), last[0])
    for a, b in zip(first[1:], last[1:], strict=True):
        np.testing.assert_array_equal(a.swapaxes(0, 1), b)


def test_float16_is_computed_in_float32():
    file = File()
    x = input_of(file)
    file.layer("GRU", x)
    wanted = run(file.model(), file.feeds)
    file.arrays = {name: array.astype(np.float16) for name, array in file.arrays.items()}
    file.feeds = {name: array.astype(np.float16) for name, array in file.feeds.items()}
    found = dmlax.onnx.load(file.model())(file.feeds)
    assert {array.dtype.name for array in found.values()} == {"float16"}
    assert_close(found, wanted, 5e-3)


def test_gradients_and_vmap():
    file = File()
    x = input_of(file, batch=1)
    file.layer("LSTM", x, batch=1, peepholes=True)
    file.layer("GRU", x, batch=1)
    model = dmlax.onnx.load(file.model())

    @jax.jit
    def total(x):
        return sum(each.sum() for each in model.apply(model.params, x).values())

    (x,) = file.feeds.values()
    slope, direction = jax.jit(jax.grad(total))(x), file.floats(*x.shape)
    step = np.float32(1e-2)
    difference = (total(x + step * direction) - total(x - step * direction)) / (2 * step)
    np.testing.assert_allclose((slope * direction).sum(), difference, rtol=2e-3)
    many = np.stack([x, 2 * x])
    found = jax.jit(jax.vmap(lambda x: model.apply(model.params, x)))(many)
    assert_close({name: array[1] for name, array in found.items()}, model(2 * x))


def quantized(file, folder, **options):
    """The model with DynamicQuantizeLSTM in place of LSTM; 7 bits saturate on no processor."""
    paths = [str(folder / name) for name in ("float.onnx", "bytes.onnx")]
    onnx.save(file.model(), paths[0])
    own = {"op_types_to_quantize": ["LSTM"], "reduce_range": True}
    quantize_dynamic(*paths, **own, **options)
    model = onnx.load(paths[1])
    assert {node.op_type for node in model.graph.node} == {"DynamicQuantizeLSTM"}
    return model


QUANTIZED = [
    {"direction": "forward"},
    {"direction": "reverse", "states": True, "peepholes": True, "clip": 2.0},
    {"direction": "bidirectional", "bias": False},
    {"direction": "bidirectional", "lengths": [13, 7, 0], "states": True},
    {"direction": "reverse", "lengths": "x1", "input_forget": 1},
    {"direction": "bidirectional", "lengths": [9, 3, 13], "outputs": "hc"},
]


@pytest.mark.parametrize(
    ("weights", "per_channel"), [(QuantType.QInt8, False), (QuantType.QUInt8, True)]
)
def test_dynamic_quantization(tmp_path, weights, per_channel):
    """The outputs are ONNX Runtime's: one other integer would differ by a step of quantization."""
    file = File()
    x = input_of(file, 16, inputs=16)
    file.feeds[x][13:] *= 8  # steps after some layers' longest sequence, outside of the ranges
    file.input(np.int32([11, 7, 12]))
    for options in QUANTIZED:
        file.layer("LSTM", x, hidden=16, inputs=16, **options)
    model = quantized(file, tmp_path, weight_type=weights, per_channel=per_channel)
    loaded = dmlax.onnx.load(model)
    assert_close(loaded(file.feeds), run(model, file.feeds))


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A quantized layer, and the inputs of a call."""
    file = File()
    x = input_of(file, 100, 1, 32, shape=["t", 1, 32])
    file.layer("LSTM", x, direction="bidirectional", hidden=32, inputs=32)
    return quantized(file, tmp_path_factory.mktemp("long")), file.feeds


def test_a_long_sequence_stays_equal(long):
    model, feeds = long
    assert_close(dmlax.onnx.load(model)(feeds), run(model, feeds))


def test_quantized_weights_are_packed_once(long, tmp_path):
    model, feeds = long
    loaded = dmlax.onnx.load(model)
    packed = {name: x for name, x in loaded.params.items() if isinstance(x, dmlax.PreparedMatrix)}
    assert len(packed) == 2
    assert {each.packed.dtype.name for each in packed.values()} == {"int8"}
    loaded.save(tmp_path / "long.dmlax")
    assert_close(dmlax.onnx.load(tmp_path / "long.dmlax")(feeds), loaded(feeds), 0)
    # Two nodes share weights, which stay as they are.
    twice = onnx.ModelProto()
    twice.CopyFrom(model)
    (node,) = twice.graph.node
    other = twice.graph.node.add()
    other.CopyFrom(node)
    other.name, other.output[:] = "other", [f"{name}2" for name in node.output]
    twice.graph.output.add().CopyFrom(helper.make_tensor_value_info(other.output[0], 1, None))
    found = dmlax.onnx.load(twice)(feeds)
    np.testing.assert_array_equal(found[other.output[0]], loaded(feeds)[node.output[0]])


def test_exact_arithmetic_is_close(long):
    model, feeds = long
    exact = dmlax.onnx.load(model, arithmetic="exact")(feeds)
    assert_close(exact, run(model, feeds), 2e-2)


def test_reverse_sequence():
    file = File()
    x = file.input(file.floats(4, 5, 2))
    for axes, lengths in (((1, 0), [1, 4, 0, 3, 2]), ((0, 1), [5, 0, 1, 3])):
        constant = file.constant(np.int64(lengths))
        file.node("ReverseSequence", x, constant, batch_axis=axes[0], time_axis=axes[1])
    check(file, 10, 0)


WINDOWS = ("HannWindow", "HammingWindow", "BlackmanWindow")


def test_windows_and_mel_matrices_are_equal():
    file = File()
    for op in WINDOWS:
        for size in (1, 2, 10, 400):
            for periodic in (0, 1)[size == 1 :]:  # a symmetric window of one element is NaN
                file.node(op, file.constant(np.int64(size)), periodic=periodic)
        file.node(op, file.constant(np.int32(9)), output_datatype=TensorProto.INT32)
    for count, length, rate, low, high in (
        (8, 16, 8192, 0, 4096),
        (80, 400, 16000, 0, 7900),
        (40, 512, 16000, 125, 7500),
    ):
        sizes = map(np.int64, (count, length, rate))
        operands = map(file.constant, (*sizes, np.float32(low), np.float32(high)))
        file.node("MelWeightMatrix", *operands)
    check(file, 17, 0)


@pytest.mark.parametrize("opset", [17, 20])
def test_fourier_transforms(opset):
    file = File()
    real, both = (file.input(file.floats(2, 10, 3, parts)) for parts in (1, 2))
    for x, inverse, onesided in (
        (real, 0, 0),
        (real, 0, 1),
        (real, 1, 0),
        (both, 0, 0),
        (both, 1, 0),
    ):
        for length in (None, 6, 16):
            for axis in (1, -2):
                name = "" if length is None else file.constant(np.int64(length))
                attributes = {"inverse": inverse, "onesided": onesided}
                if opset == 17:
                    file.node("DFT", x, name, axis=axis, **attributes)
                else:
                    file.node("DFT", x, name, file.constant(np.int64(axis)), **attributes)
    file.node("DFT", both, inverse=1, onesided=1)
    check(file, opset, 5e-6)


def test_short_time_fourier_transforms():
    file = File()
    real = file.input(file.floats(2, 50, 1), ["n", "t", 1])
    both = file.input(file.floats(2, 50, 2))
    step, length = file.constant(np.int64(4)), file.constant(np.int64(16))
    window = file.constant(np.hanning(16).astype(np.float32))
    for operands in ((window,), (window, length), ("", length)):
        file.node("STFT", real, step, *operands)
        file.node("STFT", both, step, *operands, onesided=0)
    check(file, 17, 5e-6)


def layer_file(op="LSTM", change=None, **options):
    file = File()
    file.layer(op, input_of(file), **options)
    if change is not None:
        change(file)
    return file.model()


def replaced(index, *shape):
    """Gives a constant another shape."""

    def change(file):
        name = file.nodes[0].input[index]
        file.arrays[name] = np.zeros(shape, file.arrays[name].dtype)

    return change


def signal_file(op, *operands, opset=17, shape=(2, 10, 1), names=None, **attributes):
    file = File()
    inputs = [file.input(file.floats(*shape), names)] if shape else []
    file.node(op, *inputs, *map(file.constant, operands), **attributes)
    return file.model(opset)


REFUSED = {
    "direction": (
        lambda: layer_file(direction="backward"),
        r"its direction is 'backward', expected \['forward', 'reverse', 'bidirectional'\]",
    ),
    "activation": (
        lambda: layer_file("GRU", activations=["Sigmoid", "Cube"]),
        "its activation 'cube' is not known",
    ),
    "activation count": (
        lambda: layer_file(activations=["Sigmoid"]),
        "it has 1 activations, expected 3",
    ),
    "layout": (lambda: layer_file(layout=2), "its layout is 2, expected 0 or 1"),
    "W": (
        lambda: layer_file(change=replaced(1, 1, 16, 9)),
        r"W has the shape \[1, 16, 9\], expected \[1, 16, 5\]",
    ),
    "R rank": (lambda: layer_file(change=replaced(2, 16, 4)), "X has rank 3 and R rank 2"),
    "B": (
        lambda: layer_file("RNN", change=replaced(3, 1, 4)),
        r"B has the shape \[1, 4\], expected \[1, 8\]",
    ),
    "length count": (
        lambda: layer_file(lengths=[1, 2]),
        r"sequence_lens has the shape \[2\], expected \[3\]",
    ),
    "length": (
        lambda: layer_file(lengths=[1, 2, 7]),
        "sequence_lens has a length outside of 0 to 6",
    ),
    "initial_h": (
        lambda: layer_file(states=True, change=replaced(5, 1, 1, 4)),
        r"initial_h has the shape \[1, 1, 4\], expected \[1, 3, 4\]",
    ),
    "reverse axes": (
        lambda: signal_file("ReverseSequence", np.int64([1, 1]), time_axis=2, opset=10),
        "batch_axis is 1 and time_axis 2 for rank 3, expected 0 and 1 for rank 2 or more",
    ),
    "reverse lengths": (
        lambda: signal_file("ReverseSequence", np.int64([1, 1]), opset=10),
        r"sequence_lens has the shape \[2\], expected \[10\]",
    ),
    "transform of a dynamic axis": (
        lambda: signal_file("DFT", names=["n", "t", 1]),
        "its length is t: give input_shapes static sizes",
    ),
    "transform length": (
        lambda: signal_file("DFT", np.int64(0)),
        "its length is 0, expected 1 or more",
    ),
    "transform axis": (lambda: signal_file("DFT", axis=2), "its axis is 2, expected one of"),
    "parts": (
        lambda: signal_file("DFT", shape=(2, 10, 3)),
        "its last axis has the size 3, expected 1 or 2",
    ),
    "onesided": (
        lambda: signal_file("DFT", shape=(2, 10, 2), onesided=1),
        "a onesided transform takes a real signal, and its inverse a complex one",
    ),
    "frame step": (lambda: signal_file("STFT", np.int64(0)), "frame_step is 0, expected 1 or more"),
    "frame length": (
        lambda: signal_file("STFT", np.int64(2), np.ones(16, np.float32)),
        "frame_length is 16, expected at most 10",
    ),
    "window size": (
        lambda: signal_file("HannWindow", np.int64(-1), shape=None),
        "size is -1, expected 0 or more",
    ),
    "huge window": (
        lambda: signal_file("HannWindow", np.int64(1 << 40), shape=None),
        "its value, known while a program is traced",
    ),
    "window dtype": (
        lambda: signal_file("HannWindow", np.int64(4), shape=None, output_datatype=8),
        "output_datatype is 8, which is not known",
    ),
    "mel edge": (
        lambda: signal_file(
            *("MelWeightMatrix", *np.int64([8, 16, 8192]), np.float32(0), np.float32(9000)),
            shape=None,
        ),
        "the edge 9000.0 Hz is beyond the spectrum of 16 samples",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    make, sentence = REFUSED[name]
    with pytest.raises((dmlax.UnsupportedError, dmlax.onnx.ModelError), match=sentence):
        dmlax.onnx.load(make())
