"""Files that are no models: an error that names the node, the tensor or the file."""

import contextlib
import io
import json
import warnings
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlax
import dmlax.onnx
from support.onnx_files import message_field
from support.onnx_models import quantized
from tools.fuzz import onnx_models
from tools.zoo.networks import Network

FLOAT = TensorProto.FLOAT


def relu(**changes):
    """A model of one node, with other fields of the node."""
    fields = {"inputs": ["x"], "outputs": ["y"], "op_type": "Relu", **changes}
    net = Network()
    net.nodes.append(helper.make_node(**fields))
    return net.model({"x": (FLOAT, [2])}, {"y": (FLOAT, [2])})


def with_constant(**fields):
    """A model that adds a constant, whose message has other fields."""
    model = relu(op_type="Add", inputs=["x", "c"])
    tensor = numpy_helper.from_array(np.ones(2, np.float32), "c")
    for name, value in fields.items():
        if isinstance(value, list):
            tensor.ClearField(name)
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    model.graph.initializer.append(tensor)
    return model


def external(**entries):
    model = with_constant(data_location=TensorProto.EXTERNAL)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    for key, value in {"location": "weights.bin", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


def edited(change):
    model = relu()
    change(model)
    return model


def cycle(model):
    model.graph.node.append(helper.make_node("Relu", ["b"], ["a"], name="first"))
    model.graph.node.append(helper.make_node("Relu", ["a"], ["b"], name="second"))


def twice(model):
    model.graph.node.append(model.graph.node[0])


def attribute_twice(model):
    for _ in range(2):
        model.graph.node[0].attribute.append(helper.make_attribute("alpha", 1.0))


def unknown_input_type(model):
    model.graph.input[0].type.tensor_type.elem_type = 99


def sequence_input(model):
    model.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [2]))


def input_without_rank(model):
    model.graph.input[0].type.tensor_type.ClearField("shape")


def no_opset(model):
    del model.opset_import[:]


def sparse(model):
    model.graph.sparse_initializer.add()


def huge_opset(model):
    model.opset_import[0].version = 1 << 40


def nameless_input(model):
    model.graph.input.add().CopyFrom(helper.make_tensor_value_info("", FLOAT, [2]))


def input_of_strings(model):
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING


def strings(model):
    """Sums of strings would double them without end."""
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "c"], ["y"]))
    model.graph.initializer.append(helper.make_tensor("c", TensorProto.STRING, [2], [b"a", b"b"]))


def attribute_of_type(kind, **fields):
    def change(model):
        model.graph.node[0].op_type = "LeakyRelu"
        model.graph.node[0].attribute.add(name="alpha", type=kind, **fields)

    return edited(change)


def two_constants(model):
    array = np.ones(2, np.float32)
    model.graph.initializer.extend([numpy_helper.from_array(array, "c")] * 2)


MODELS = {
    "no node": (edited(lambda m: m.graph.ClearField("node")), "the model has no node"),
    "missing input": (relu(inputs=["z"]), r"reads 'z', which does not exist"),
    "cycle": (edited(cycle), r"node 'first' is in a cycle, or behind one"),
    "written twice": (edited(twice), r"writes 'y', which exists already"),
    "input written": (relu(outputs=["x"]), r"writes 'x', which exists already"),
    "output missing": (relu(outputs=["z"]), r"output 'y' is written by no node"),
    "no operator": (relu(op_type=""), r"has no operator or no output"),
    "no output": (relu(outputs=[]), r"has no operator or no output"),
    "attribute twice": (edited(attribute_twice), r"has attribute 'alpha' twice"),
    "input type": (edited(unknown_input_type), r"input 'x' has the unknown data type 99"),
    "sequence": (edited(sequence_input), r"input 'x' is not a tensor"),
    "no rank": (edited(input_without_rank), r"input 'x' has no rank"),
    "no opset": (edited(no_opset), r"imports no opset"),
    "sparse": (edited(sparse), r"sparse initializer"),
    "constant twice": (edited(two_constants), r"initializer 'c' has no name, or one twice"),
    "gigabyte": (with_constant(dims=[1 << 28]), r"'c' has 8 bytes, expected 1073741824"),
    "overflow": (with_constant(dims=[1 << 40, 1 << 40]), r"'c' has 8 bytes, expected"),
    "negative size": (with_constant(dims=[-2]), r"'c' has the shape \[-2\]"),
    "rank": (with_constant(dims=[1] * 40), r"'c' has the shape"),
    "short data": (with_constant(raw_data=b"123"), r"'c' has 3 bytes, expected 8"),
    "no data": (with_constant(raw_data=b""), r"'c' has 0 bytes, expected 8"),
    "data type": (with_constant(data_type=77), r"'c' has the unknown data type 77"),
    "no data type": (with_constant(data_type=0), r"'c'"),
    "typed data": (
        with_constant(data_type=TensorProto.INT64, dims=[3]),
        r"'c' has 8 bytes, expected 24",
    ),
    "in a file": (external(), r"'c' is in a file of its own: load the model by its path"),
    "shapes": (with_constant(dims=[3], raw_data=b"\0" * 12), "^Add 'y': "),
    "input name": (edited(nameless_input), "an input has no name"),
    "groups": (
        relu().SerializeToString() + b"\x0b\x0c",
        r"is not an ONNX model: byte \d+ begins a field of type 3",
    ),
    "UTF-8": (
        relu().SerializeToString().replace(b"Relu", b"R\xff\xfeu"),
        "node 0 has a name or a text that is not UTF-8",
    ),
    "huge opset": (edited(huge_opset), "imports opset 1099511627776 of domain ''"),
    "attribute of a function": (
        attribute_of_type(onnx.AttributeProto.FLOAT, ref_attr_name="alpha"),
        "refers to an attribute of a function",
    ),
}
UNSUPPORTED = {
    "strings": (edited(strings), "initializer 'c' holds strings, which no operator computes with"),
    "input of strings": (edited(input_of_strings), "input 'x' has the dtype object"),
    "attribute of no type": (attribute_of_type(0), "has the type 0, which is not read"),
    "string for a number": (
        attribute_of_type(onnx.AttributeProto.STRING, s=b"steep"),
        "LeakyRelu: its attribute alpha is a str",
    ),
    "quantization without a scale": (
        relu(op_type="QuantizeLinear"),
        "QuantizeLinear: it has 1 inputs, expected 2 to 3",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_malformed_model(name):
    model, text = MODELS[name]
    with pytest.raises(dmlax.onnx.ModelError, match=text):
        dmlax.onnx.load(model)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_model(name):
    model, text = UNSUPPORTED[name]
    with pytest.raises(dmlax.UnsupportedError, match=text):
        dmlax.onnx.load(model)


def test_a_constant_that_broadcasts():
    model = dmlax.onnx.load(with_constant(dims=[1, 2], raw_data=b"\0" * 8))
    assert model(np.ones(2, np.float32))["y"].shape == (1, 2)


LOCATIONS = {
    "outside": {"location": "../secret.bin"},
    "absolute": {"location": "/etc/hostname"},
    "no file": {"location": "absent.bin"},
    "folder": {"location": "."},
    "no location": {"location": ""},
    "beyond the end": {"offset": 9},
    "negative offset": {"offset": -4},
    "huge length": {"length": 1 << 40},
    "no number": {"offset": "two"},
    "nul": {"location": "a\0b"},
    "long": {"location": "a" * 300},
    "long path": {"location": "a/" * 4_000},
    "loop": {"location": "loop"},
}


@pytest.mark.parametrize("name", LOCATIONS)
def test_external_data_outside_of_its_file(name, tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(bytes(16))
    (folder / "loop").symlink_to("loop")
    path = folder / "model.onnx"
    path.write_bytes(external(**LOCATIONS[name]).SerializeToString())
    with pytest.raises(dmlax.onnx.ModelError, match="'c'"):
        dmlax.onnx.load(path)


def test_a_location_that_is_not_utf_8(tmp_path):
    data = external(location="weights.bin").SerializeToString().replace(b"weights", b"weight\xff")
    (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(
        dmlax.onnx.ModelError, match="initializer 'c' has a name or a text that is not UTF-8"
    ):
        dmlax.onnx.load(tmp_path / "model.onnx")


def test_external_strings(tmp_path):
    (tmp_path / "weights.bin").write_bytes(bytes(16))
    model = external()
    model.graph.initializer[0].data_type = TensorProto.STRING
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    text = "initializer 'c' holds strings, which no file of external data has"
    with pytest.raises(dmlax.onnx.ModelError, match=text):
        dmlax.onnx.load(tmp_path / "model.onnx")


def test_an_error_without_a_message(monkeypatch):
    """Stands for an assertion, or an error of another library."""

    def fail(*_):
        raise AssertionError

    monkeypatch.setattr("dmlax.onnx.operators.floats.jnp.where", fail)
    with pytest.raises(dmlax.onnx.ModelError, match=r"^Relu 'y': AssertionError$"):
        dmlax.onnx.load(relu())


def test_external_data_through_a_link(tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "model.onnx").write_bytes(external().SerializeToString())
    with pytest.raises(dmlax.onnx.ModelError, match="no file beside the model"):
        dmlax.onnx.load(folder / "model.onnx")


def test_external_data_beside_the_model(tmp_path):
    (tmp_path / "weights.bin").write_bytes(np.float32([0, 5, 7, 0]).tobytes())
    (tmp_path / "model.onnx").write_bytes(external(offset=4).SerializeToString())
    found = dmlax.onnx.load(tmp_path / "model.onnx")(np.ones(2, np.float32))
    assert found["y"].tolist() == [6, 8]


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"PK\x03\x04", b"\x0a\xff\xff\xff\xff\x7f"])
def test_bytes_that_are_no_model(data):
    with pytest.raises(dmlax.onnx.ModelError):
        dmlax.onnx.load(data)


def test_a_truncated_model():
    data = quantized("classifier", "qoperator").SerializeToString()
    for size in range(1, len(data), len(data) // 12):
        with pytest.raises((dmlax.onnx.ModelError, dmlax.UnsupportedError)):
            dmlax.onnx.load(data[:size])


def test_deep_nesting():
    data = b""
    for field in (6, 5, 1) * 200:  # a graph of a node of an attribute that is a graph
        data = message_field(field, data)
    with pytest.raises(dmlax.onnx.ModelError, match="is not an ONNX model"):
        dmlax.onnx.load(message_field(7, data))


def test_a_filter_that_a_convolution_computes():
    net = Network()
    one, zero = net.constant(np.float32(1)), net.constant(np.uint8(0))
    weights = net.constant(np.ones((1, 1, 1, 1), np.uint8))
    filter = net.node("QLinearConv", "x", one, zero, weights, one, zero, one, zero)
    y = net.node("QLinearConv", "x", one, zero, filter, one, zero, one, zero)
    shape = [1, 1, 2, 3]
    model = net.model({"x": (TensorProto.UINT8, shape)}, {y: (TensorProto.UINT8, None)})
    x = np.arange(6, dtype=np.uint8).reshape(shape)
    assert dmlax.onnx.load(model)(x)[y].tolist() == [[[[55]]]]


def test_changed_models_raise_no_other_error():
    outcome = onnx_models.run(seconds=2, seed=20)
    assert outcome.failures == []
    assert outcome.cases > outcome.loaded > 0


def test_everything_that_is_unsupported_is_listed():
    net = Network()
    x = net.node("Relu", "x")
    for _ in range(3):
        x = net.node("Det", x)
    x = net.node("Relu", x, slope=2.0)
    x = net.node("Spin", x, domain="my.domain")
    net.node("Floor", "x", outputs=2)
    shapes = {"x": (FLOAT, [2, 2])}
    last = net.nodes[-1].output[1]
    model = net.model(shapes, {x: (FLOAT, [2]), last: (FLOAT, [2])})
    with pytest.raises(dmlax.UnsupportedError) as caught:
        dmlax.onnx.load(model)
    text = str(caught.value)
    assert text.splitlines()[0] == "6 nodes of the model cannot be computed:"
    assert "Det: is not known (3 nodes: node_det_1, node_det_2, node_det_3)" in text
    assert "Relu: its attribute slope is not known (1 node: node_relu_4)" in text
    assert "my.domain.Spin: is not known" in text
    assert "Floor: its output 2 is not computed" in text


def test_an_unknown_form_of_a_known_operator():
    net = Network()
    y = net.node("Relu", "x")
    model = net.model({"x": (FLOAT, [2])}, {y: (FLOAT, [2])}, opset=5)
    with pytest.raises(dmlax.UnsupportedError, match="Relu: its form of opset 1 is not known"):
        dmlax.onnx.load(model)


WRONG_INPUTS = {
    "no input": ((), "missing_tensor", r"0 inputs are given, expected 1"),
    "two inputs": ((np.ones(2, np.float32),) * 2, "missing_tensor", r"2 inputs are given"),
    "another name": (({"z": np.ones(2, np.float32)},), "missing_tensor", r"input x is missing"),
    "dtype": ((np.ones(2, np.int32),), "data_type", r"x is int32\[2\], expected float32\[2\]"),
    "rank": ((np.ones((2, 2), np.float32),), "dimension_count", r"x is float32\[2,2\]"),
    "size": ((np.ones(3, np.float32),), "sizes", r"x is float32\[3\], expected float32\[2\]"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_inputs_of_a_call(name):
    inputs, code, text = WRONG_INPUTS[name]
    with pytest.raises(dmlax.SpecError, match=text) as caught:
        dmlax.onnx.load(relu())(*inputs)
    assert caught.value.code == code


def test_wrong_options_of_load():
    for options, text in (
        ({"arithmetic": "float64"}, "arithmetic is 'float64'"),
        ({"nonzero_size": {"absent": 3}}, "names no node of Compress, .*NonZero: 'absent'"),
        ({"nonzero_size": 0}, "nonzero_size is 0, expected at least 1"),
        ({"input_shapes": {"z": (2,)}}, "input_shapes has no input 'z'"),
        ({"input_shapes": {"x": (2, 2)}}, "expected rank 1"),
    ):
        with pytest.raises(dmlax.SpecError, match=text):
            dmlax.onnx.load(relu(), **options)
    model = dmlax.onnx.load(relu())
    with pytest.raises(dmlax.SpecError, match="outputs has no tensor 'z'"):
        model.apply(model.params, np.ones(2, np.float32), outputs=["z"])


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "model.dmlax"
    dmlax.onnx.load(with_constant()).save(path)
    return path


def rewritten(path, name, data):
    """The archive with another member."""
    with zipfile.ZipFile(path) as file:
        members = {each: file.read(each) for each in file.namelist()}
    members[name] = data
    members = {each: data for each, data in members.items() if data is not None}
    with zipfile.ZipFile(path, "w") as file:
        for each, content in members.items():
            file.writestr(each, content)
    return path


def npy(array, **changes):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f4", "fortran_order": False, "shape": array.shape, **changes}
    )
    return buffer.getvalue() + array.tobytes()


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"no array",
        npy(np.ones(2, np.float32), shape=(1 << 28,)),
        npy(np.ones(2, np.float32), descr="|O"),
        npy(np.ones(2, np.float32), shape=(1,)),
    ],
)
def test_a_malformed_array_of_an_archive(archive, data):
    with pytest.raises(dmlax.onnx.ModelError):
        dmlax.onnx.load(rewritten(archive, "0.npy", data))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", 99),
        ("version", None),
        ("nodes", [{"name": "a"}]),
        ("inputs", {"x": 3}),
        ("inputs", {"x": ["float99", [2]]}),
        ("inputs", {"x": ["float32", [1.5]]}),
        ("inputs", {"x": ["float32", ["1.5"]]}),
        ("constants", {"c": {"array": "absent.npy"}}),
        ("outputs", 3),
        ("outputs", ["absent"]),
        ("nodes", "none"),
    ],
)
def test_a_malformed_graph_of_an_archive(archive, key, value):
    with zipfile.ZipFile(archive) as file:
        data = json.loads(file.read("graph.json"))
    data[key] = value
    with pytest.raises(dmlax.onnx.ModelError):
        dmlax.onnx.load(rewritten(archive, "graph.json", json.dumps(data)))


@pytest.mark.parametrize("place", range(0, 240, 16))
def test_bytes_that_are_changed_in_an_archive(archive, place):
    data = bytearray(archive.read_bytes())
    data[-place - 12 : -place - 4] = bytes([255] * 8)
    archive.write_bytes(data)
    with contextlib.suppress(dmlax.onnx.ModelError):
        dmlax.onnx.load(archive)


def test_an_archive_without_a_graph(archive):
    with pytest.raises(dmlax.onnx.ModelError):
        dmlax.onnx.load(rewritten(archive, "graph.json", None))


def zipped(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as file, warnings.catch_warnings(action="ignore"):
        for name, data in members:
            file.writestr(name, data)
    return path


def members_of(path):
    with zipfile.ZipFile(path) as file:
        return [(name, file.read(name)) for name in file.namelist()]


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_of_another_compression(archive, method):
    text = f"graph.json is compressed by method {method}, expected 0 or 8"
    with pytest.raises(dmlax.onnx.ModelError, match=text):
        dmlax.onnx.load(zipped(archive, members_of(archive), method))


def test_an_archive_of_a_member_twice(archive):
    members = members_of(archive)
    with pytest.raises(dmlax.onnx.ModelError, match=r"model.dmlax: 0.npy is in the archive twice"):
        dmlax.onnx.load(zipped(archive, [*members, members[-1]]))


HEADERS = {
    "brackets": b"(" * 9000,
    "minus": b"-" * 9000 + b"1",
    "no dict": b"[1, 2]",
    "no UTF-8": b"\xff" * 60,
    "lambda": b"{'descr': lambda: 1}",
    "nul": b"{'descr': '\0'}",
    "huge": b" " * 60_000,
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_damaged_header_of_an_array(archive, name):
    header = HEADERS[name]
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with pytest.raises(dmlax.onnx.ModelError, match=r"model.dmlax is malformed: "):
        dmlax.onnx.load(rewritten(archive, "0.npy", data))


@pytest.mark.parametrize("dtype", ["<U2", "|S8", "<M8[s]", "<c8"])
def test_an_array_of_another_type(archive, dtype):
    with pytest.raises(dmlax.onnx.ModelError, match=r"0.npy has the dtype .*, expected numbers"):
        dmlax.onnx.load(rewritten(archive, "0.npy", npy(np.ones(2, np.float32), descr=dtype)))


@pytest.mark.parametrize("text", ["(" * 100_000, "[" * 100_000, '{"a":' * 100_000, "9" * 10_000])
def test_json_that_no_parser_ends(archive, text):
    with pytest.raises(dmlax.onnx.ModelError, match=r"model.dmlax is malformed: "):
        dmlax.onnx.load(rewritten(archive, "graph.json", text))


def edited_graph(path, change):
    """The archive with another graph, which a function changes."""
    data = json.loads(dict(members_of(path))["graph.json"])
    return rewritten(path, "graph.json", json.dumps(change(data) or data))


WRONG_JSON = {  # a value in the place of another, and the message
    "no dict": ((), [1], "the graph is of type list, expected dict"),
    "inputs": (("inputs",), [1], "inputs is of type list, expected dict"),
    "an input": (("inputs", "x"), "ab", "input 'x' is of type str, expected list"),
    "no input's name": (("inputs", ""), ["float32", [2]], "an input or a constant has no name"),
    "input and constant": (("inputs", "c"), ["float32", [2]], "'c' is an input and a constant"),
    "a dtype": (("inputs", "x"), [3, [2]], "input 'x': dtype is of type int, expected str"),
    "an object": (
        ("inputs", "x"),
        ["object", [2]],
        "input 'x' has the dtype object, expected numbers",
    ),
    "fields": (("inputs", "x"), ["i4,f4", [2]], "input 'x' has the dtype .*, expected numbers"),
    "an entry": (("constants", "c"), "0.npy", "constant 'c' is of type str, expected dict"),
    "an array": (("constants", "c"), {"array": 0}, "array is of type int"),
    "a node": (("nodes", 0), "a", "a node is of type str, expected dict"),
    "a node's name": (("nodes", 0, "name"), 1, "name is of type int, expected str"),
    "a version": (("nodes", 0, "version"), True, "version is of type bool"),
    "a node's inputs": (("nodes", 0, "inputs"), "xc", "inputs is of type str"),
    "an output": (
        ("nodes", 0, "outputs"),
        [["y"]],
        "outputs has a name of type list, expected str",
    ),
    "attributes": (("nodes", 0, "attributes"), [], "attributes is of type list"),
    "outputs": (("outputs",), "y", "outputs is of type str, expected list"),
    "arithmetic": (("arithmetic",), ["exact"], r"arithmetic is \['exact'\]"),
    "size": (("nonzero_size",), -1, "nonzero_size is -1, expected at least 1"),
    "sizes": (("nonzero_size",), {"a": "b"}, "nonzero_size is {'a': 'b'}"),
}


@pytest.mark.parametrize("name", WRONG_JSON)
def test_json_of_wrong_types(archive, name):
    places, value, text = WRONG_JSON[name]

    def change(data):
        if not places:
            return value
        for place in places[:-1]:
            data = data[place]
        data[places[-1]] = value

    with pytest.raises(dmlax.onnx.ModelError, match=rf"model.dmlax: (graph.json: )?{text}"):
        dmlax.onnx.load(edited_graph(archive, change))


def test_a_size_of_an_archive_that_no_parser_ends(archive):
    def change(data):
        data["inputs"]["x"][1] = ["(" * 900]

    with pytest.raises(dmlax.onnx.ModelError, match=r"input 'x' has the shape \["):
        dmlax.onnx.load(edited_graph(archive, change))
