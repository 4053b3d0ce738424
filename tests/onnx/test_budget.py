"""Small files that would take much memory or time: each is refused before it does."""

import contextlib
import json
import signal
import tracemalloc
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlax
import dmlax.onnx
from support.onnx_files import message_field
from tools.zoo.networks import Network

SECONDS = 60  # a longer call has no bound; a refusal takes a fraction of a second
MEBIBYTES = 400  # a budget of 256 and what Python takes
HUGE = 1 << 40
LONG = np.ones(1 << 15, np.int64)
LARGE = np.ones(1 << 18, np.int64)  # 2 MiB
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT


@contextlib.contextmanager
def bounded(mebibytes=MEBIBYTES):
    """Fails if the body takes long, or much memory of Python and NumPy."""

    def stop(*_):
        raise AssertionError(f"it took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        assert peak < mebibytes << 20


@pytest.fixture
def small_budget(monkeypatch):
    """4 MiB for every file instead of 256."""
    monkeypatch.setattr(dmlax.onnx.budget, "FREE", 1 << 22)


def value_of(op, *inputs, opset=17, **attributes):
    """A model of the size of a value that is known while it is traced."""
    net = Network()
    names = [net.constant(each) if each is not None else "" for each in inputs]
    y = net.node("Add", "x", net.node("Size", net.node(op, *names, **attributes)))
    return net.model({"x": (INT64, [2])}, {y: (INT64, [2])}, opset=opset)


def last_of(build, type=INT64, shape=("a",)):
    """A model of the tensor that a function adds to a network of an input x."""
    net = Network()
    y = build(net)
    return net.model({"x": (type, list(shape))}, {y: (type, None)}, opset=18)


def known(net, value):
    """A value that is known when the rank of x is, and not before."""
    none = net.node("Shape", "x", start=0, end=0)
    return net.node("Expand", net.constant(value), none)


def many(op, *inputs, count, **attributes):
    """A model of the sizes of many values, each of which fits."""

    def build(net):
        names = [known(net, each) for each in inputs]
        y = "x"
        for _ in range(count):
            y = net.node("Add", y, net.node("Size", net.node(op, *names, **attributes)))
        return y

    return last_of(build)


def one_shape(*sizes):
    return np.array(sizes, np.int64)


def erf_of_floats(net):
    y, floats = "x", net.node("Cast", known(net, LARGE), to=FLOAT)
    for _ in range(16):
        y = net.node("Add", y, net.node("Size", net.node("Erf", floats)))
    return y


LARGE_VALUES = {
    "Range": value_of("Range", np.int64(0), np.int64(HUGE), np.int64(1)),
    "Range of 2 GiB": value_of("Range", np.int64(0), np.int64(1 << 28), np.int64(1)),
    "Tile": value_of("Tile", LONG, np.array([HUGE])),
    "Tile of a wrong count": value_of("Tile", LONG, np.array([1 << 20, 1 << 20, -1])),
    "Tile of a zero": value_of("Tile", LONG, np.array([HUGE, 0])),
    "Pad": value_of("Pad", LONG, np.array([0, HUGE])),
    "Expand": value_of("Expand", LONG, np.array([HUGE, 1])),
    "Gather": value_of("Gather", LONG.reshape(1, -1), np.zeros(1 << 15, np.int64)),
    "Add": value_of("Add", LONG, LONG.reshape(-1, 1)),
    "Equal": value_of("Equal", LONG, LONG.reshape(-1, 1)),
    "Max": value_of("Max", LONG, LONG.reshape(-1, 1)),
    "Mod": value_of("Mod", LONG, LONG.reshape(-1, 1)),
    "BitwiseAnd": value_of("BitwiseAnd", LONG, LONG.reshape(-1, 1), opset=18),
    "Sum": value_of("Sum", LONG, LONG.reshape(-1, 1)),
    "GatherND": value_of("GatherND", LONG.reshape(1, -1), np.zeros((1 << 15, 1), np.int64)),
    "Where": value_of("Where", LONG.astype(bool), LONG, LONG.reshape(-1, 1)),
    "Pow": value_of("Pow", LONG, LONG.reshape(-1, 1)),
    "Upsample": value_of("Upsample", LONG, np.float32([1e12]), mode="nearest", opset=9),
    "Resize": value_of("Resize", LONG, None, None, one_shape(1 << 28), mode="nearest"),
}
MANY_VALUES = {  # fit one by one, and do not fit `small_budget` together
    "ConstantOfShape": many(
        "ConstantOfShape",
        one_shape(1 << 16),
        value=helper.make_tensor("v", INT64, [1], [1]),
        count=16,
    ),
    "Range": many("Range", np.int64(0), np.int64(1 << 16), np.int64(1), count=16),
    "Concat": last_of(
        lambda net: net.node("Size", net.node("Concat", *[known(net, LONG)] * 40, axis=0))
    ),
    "Min": last_of(lambda net: net.node("Size", net.node("Min", *[known(net, LONG)] * 40))),
    "Cast": many("Cast", LARGE, to=INT64, count=8),
    "Not": many("Not", np.ones(1 << 21, bool), count=8),
    "NonZero": many("NonZero", np.ones((1,) * 8 + (1 << 15,), np.int64), count=8),
    "ReduceMax": many("ReduceMax", LARGE, one_shape(), noop_with_empty_axes=0, count=8),
    "Sqrt": many("Sqrt", LARGE, count=8),
    "Erf": last_of(erf_of_floats),
}


def check_that_a_value_is_refused(name, model, **bounds):
    text = (
        rf"{name.split()[0]}: its value, known while a program is traced, needs \d+ bytes of "
        r"memory, expected at most \d+: a file's values share 256 MiB and the file's size; "
        "store it as an initializer, or compute it from an input"
    )
    with pytest.raises(dmlax.UnsupportedError, match=text), bounded(**bounds):
        dmlax.onnx.load(model)


@pytest.mark.parametrize("name", LARGE_VALUES)
def test_a_known_value_of_very_many_bytes(name):
    check_that_a_value_is_refused(name, LARGE_VALUES[name])


@pytest.mark.parametrize("name", MANY_VALUES)
def test_known_values_that_take_many_bytes_together(name, small_budget):
    check_that_a_value_is_refused(name, MANY_VALUES[name], mebibytes=40)


def test_the_same_constant_in_many_nodes():
    def build(net):
        y, c = "x", net.constant(LARGE)
        for _ in range(250):
            y = net.node("Add", y, c)
        return y

    with bounded():
        assert dmlax.onnx.load(last_of(build, shape=LARGE.shape)).outputs


def test_views_of_a_constant_that_would_be_params():
    def build(net):
        c = net.constant(LARGE.astype(np.float32))
        parts = [net.node("Reshape", c, net.constant(one_shape(1, -1))) for _ in range(300)]
        return net.node(
            "Concat", net.node("Unsqueeze", "x", net.constant(one_shape(0))), *parts, axis=1
        )

    with bounded():
        model = dmlax.onnx.load(last_of(build, FLOAT))
    assert sum(each.nbytes for each in model.params.values()) < MEBIBYTES << 20


def test_a_known_value_of_a_call():
    """A size of an input becomes a large known value when a call is traced."""
    model = dmlax.onnx.load(
        last_of(
            lambda net: net.node(
                "Size",
                net.node(
                    "Range",
                    net.constant(np.int64(0)),
                    net.node(
                        "Mul",
                        net.node("Squeeze", net.node("Shape", "x")),
                        net.constant(np.int64(1 << 24)),
                    ),
                    net.constant(np.int64(1)),
                ),
            )
        )
    )
    with pytest.raises(dmlax.UnsupportedError, match=r"Range 'node_range_.': its value"), bounded():
        model(np.zeros(4, np.int64))
    assert model(np.zeros(0, np.int64))


SPLITS = {
    "num_outputs": ([], {"num_outputs": 1 << 28}, 18, r"expected num_outputs, which is 268435456"),
    "lengths": ([np.ones(1 << 20, np.int64)], {}, 13, r"expected 1048576, one per length"),
}


@pytest.mark.parametrize("name", SPLITS)
def test_a_split_into_very_many(name):
    inputs, attributes, opset, text = SPLITS[name]
    net = Network()
    y = net.node("Split", "x", *map(net.constant, inputs), **attributes)
    model = net.model({"x": (FLOAT, [1 << 20])}, {y: (FLOAT, None)}, opset=opset)
    with (
        pytest.raises(dmlax.onnx.ModelError, match=f"Split '.*': it has 1 outputs, .*{text}"),
        bounded(),
    ):
        dmlax.onnx.load(model)


def test_many_outputs_of_a_split():
    net = Network()
    net.node("Split", "x", outputs=2000, num_outputs=2000, axis=0)
    y = net.nodes[-1].output[-1]
    model = net.model({"x": (FLOAT, [2000])}, {y: (FLOAT, None)}, opset=18)
    with bounded():
        found = dmlax.onnx.load(model)(np.arange(2000, dtype=np.float32))
    assert found[y].tolist() == [1999]


@pytest.mark.parametrize("mode", ["wrap", "reflect"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_padding_of_very_many_turns(mode, is_known):
    pads = one_shape(0, 1 << 20)

    def build(net):
        x = net.constant(np.ones(2, np.int64)) if is_known else "x"
        return net.node("Size", net.node("Pad", x, net.constant(pads), mode=mode))

    model = last_of(build, shape=(2,))
    text = f"mode '{mode}' pads axis 0 of size 2 by 1048576, expected at most 32: take Tile"
    with pytest.raises(dmlax.UnsupportedError, match=text), bounded():
        dmlax.onnx.load(model)


@pytest.mark.parametrize("mode", ["wrap", "reflect"])
def test_a_padding_of_some_turns(mode):
    model = last_of(
        lambda net: net.node("Pad", "x", net.constant(one_shape(7, 9)), mode=mode), shape=(3,)
    )
    x = np.arange(3)
    (found,) = dmlax.onnx.load(model)(x).values()
    assert found.tolist() == np.pad(x, (7, 9), mode=mode).tolist()


def squares(net):
    size = net.node("Add", net.node("Shape", "x"), net.constant(one_shape(1)))
    for _ in range(30):
        size = net.node("Mul", size, size)
    return net.node("ConstantOfShape", size)


def minima(net):
    y = "x"
    for i in range(40):
        bounds = (one_shape(0), one_shape(1000 - i))
        y = net.node("Slice", y, *map(net.constant, bounds))
        y = net.node("Concat", y, "x", axis=0)
    return y


def products(net):
    shape = net.node("Add", net.node("Shape", "x"), net.constant(one_shape(1)))
    long = net.node("Expand", shape, net.constant(one_shape(1000)))
    return net.node("Add", "x", net.node("ReduceProd", long, net.constant(one_shape(0))))


def high_rank(net):
    return net.node("Unsqueeze", "x", net.constant(np.arange(1, 10_000)))


def rank_of_17(net):
    y = net.node("Unsqueeze", "x", net.constant(np.arange(8)))
    return net.node("Unsqueeze", y, net.constant(np.arange(8)))


def many_symbols(net):
    return net.node(
        "Size", net.node("Expand", net.node("Shape", "x"), net.constant(one_shape(1 << 20)))
    )


LONG_SHAPES = {
    "Reshape": one_shape(-1, *range(1, 1 << 20)),
    "Expand": np.arange(1 << 20),
    "Tile": np.arange(1 << 20),
    "ConstantOfShape": np.arange(1 << 20),
}


@pytest.mark.parametrize("op", LONG_SHAPES)
def test_a_shape_of_very_many_sizes(op):
    """Their product would have millions of digits."""
    shape = LONG_SHAPES[op]
    inputs = (LONG, shape) if op != "ConstantOfShape" else (shape,)
    text = f"{op}: its shape or axes are 1048576 integers, expected at most 16"
    with pytest.raises((dmlax.UnsupportedError, dmlax.onnx.ModelError), match=text), bounded():
        dmlax.onnx.load(value_of(op, *inputs))


SYMBOLIC = {
    "squares": (
        squares,
        r"its size a\^64 .* has 1364 characters, expected at most 1000: give input_shapes static",
    ),
    "minima": (minima, "has more than 4 max and min: give input_shapes static sizes"),
    "products": (products, r"the product of its sizes has \d+ terms, expected at most 10000"),
    "axes": (high_rank, "its shape or axes are 9999 integers, expected at most 16"),
    "rank": (rank_of_17, "its output has rank 17, expected at most 16"),
    "symbols": (many_symbols, "its value has 1048576 symbolic sizes, expected at most 1024"),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes_that_grow(name):
    build, text = SYMBOLIC[name]
    with pytest.raises(dmlax.UnsupportedError, match=text), bounded():
        dmlax.onnx.load(last_of(build))


SIZES = {
    "a^1000000": "has a power of more than 99: give input_shapes a name or a static size",
    "max(" * 60 + "a" + ",b)" * 60: "has more than 4 max and min",
    "(" * 100_000: "has 100000 characters, expected at most 1000",
    "(" * 900: "has the shape",
    "(": "has the shape",
    "a,b": r"has the shape \[a,b\], which is none",
    "-1": r"has the shape \[-1\], which is none",
}


@pytest.mark.parametrize("size", SIZES)
def test_a_size_of_an_input_that_costs_much(size):
    model = last_of(lambda net: net.node("Relu", "x"), FLOAT)
    with pytest.raises(dmlax.onnx.ModelError, match=f"input 'x' .*{SIZES[size]}"), bounded():
        dmlax.onnx.load(model, input_shapes={"x": [size]})


def test_an_input_of_very_many_axes():
    net = Network()
    y = net.node("Relu", "x")
    model = net.model({"x": (FLOAT, ["n"] * 10_000)}, {y: (FLOAT, None)})
    text = "input 'x' has rank 10000, expected at most 16"
    with pytest.raises(dmlax.onnx.ModelError, match=text), bounded():
        dmlax.onnx.load(model)


def bomb(path, **constants):
    """An archive whose constants are arrays of zeros, 1 MiB each."""
    array = np.zeros(1 << 18, np.float32)
    net = Network()
    y = net.node("Relu", "x")
    dmlax.onnx.load(net.model({"x": (FLOAT, [2])}, {y: (FLOAT, None)})).save(path)
    with zipfile.ZipFile(path) as file:
        graph = json.loads(file.read("graph.json"))
    graph["constants"] = {name: {"array": member} for name, member in constants.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("graph.json", json.dumps(graph))
        for member in set(constants.values()):
            with file.open(member, "w") as stream:
                np.lib.format.write_array(stream, array)
    return path


def test_arrays_that_expand(tmp_path, small_budget):
    path = bomb(tmp_path / "bomb.dmlax", **{f"c{i}": f"{i}.npy" for i in range(6)})
    text = (
        r"bomb.dmlax: \d.npy needs 1048704 bytes of memory, expected at most \d+: a file's values "
        "share 256 MiB and the file's size; store it without compression"
    )
    with pytest.raises(dmlax.onnx.ModelError, match=text), bounded():
        dmlax.onnx.load(path)


def test_an_array_that_is_read_once(tmp_path, small_budget):
    path = bomb(tmp_path / "same.dmlax", **{f"c{i}": "0.npy" for i in range(20)})
    with bounded():
        assert dmlax.onnx.load(path)(np.float32([1, -1]))["relu_0"].tolist() == [1, 0]


def test_json_that_expands(tmp_path, small_budget):
    path = tmp_path / "json.dmlax"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("graph.json", b"[" + b"[]," * (1 << 20) + b"1]")
    text = r"json.dmlax: graph.json needs \d+ bytes of memory, expected at most"
    with pytest.raises(dmlax.onnx.ModelError, match=text), bounded():
        dmlax.onnx.load(path)


def test_large_weights_that_compress_are_read_again(tmp_path, small_budget):
    """An archive is stored where a compressed one would expand beyond the budget."""
    net = Network()
    y = net.node("Gather", net.constant(np.zeros((1 << 18, 5), np.float32)), "x")
    model = dmlax.onnx.load(net.model({"x": (INT64, [2])}, {y: (FLOAT, None)}))
    model.save(tmp_path / "zeros.dmlax")
    again = dmlax.onnx.load(tmp_path / "zeros.dmlax")
    assert again.outputs == model.outputs


def with_initializers(count, **fields):
    """The bytes of a model with initializers beside it, which no node reads."""
    net = Network()
    y = net.node("Relu", "x")
    data = net.model({"x": (FLOAT, [2])}, {y: (FLOAT, None)}).SerializeToString()
    parts = [onnx.TensorProto(name=f"c{i}", **fields).SerializeToString() for i in range(count)]
    return data + message_field(7, b"".join(message_field(5, part) for part in parts))


def test_many_empty_initializers(small_budget):
    data = with_initializers(10_000, data_type=FLOAT, dims=[0])
    text = (
        r"the model, of \d+ nodes, tensors and other fields or more, needs \d+ bytes of memory, "
        r"expected at most \d+: a file's values share 256 MiB and the file's size"
    )
    with pytest.raises(dmlax.onnx.ModelError, match=text), bounded():
        dmlax.onnx.load(data)


def test_empty_fields_are_counted_before_they_are_read(small_budget):
    data = message_field(7, b"\x0a\x00" * (1 << 18))
    with pytest.raises(dmlax.onnx.ModelError, match="nodes, tensors and other fields"), bounded():
        dmlax.onnx.load(data)


def test_small_integers_that_expand(small_budget):
    """A zero is one byte of a file, and eight of an array."""
    data = with_initializers(1, data_type=INT64, dims=[1 << 20], int64_data=[0] * (1 << 20))
    with pytest.raises(
        dmlax.onnx.ModelError, match="initializer 'c0' needs 8388608 bytes of memory"
    ):
        dmlax.onnx.load(data)


def test_external_data_that_many_initializers_share(small_budget, tmp_path):
    (tmp_path / "weights.bin").write_bytes(bytes(1 << 20))
    location = onnx.StringStringEntryProto(key="location", value="weights.bin")
    fields = {"data_type": FLOAT, "dims": [1 << 18], "external_data": [location]}
    (tmp_path / "model.onnx").write_bytes(with_initializers(100, data_location=1, **fields))
    text = r"initializer 'c\d' needs 1048576 bytes of memory, expected at most"
    with pytest.raises(dmlax.onnx.ModelError, match=text), bounded():
        dmlax.onnx.load(tmp_path / "model.onnx")
