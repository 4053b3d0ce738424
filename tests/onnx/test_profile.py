"""`python -m dmlax.onnx --profile`: the time of each node."""

import html.parser
import re

import jax
import numpy as np
import onnx
import pytest
from onnx import TensorProto

import dmlax.onnx
from dmlax.onnx import profile as profiles
from dmlax.onnx.__main__ import main
from dmlax.onnx.inputs import draw_inputs
from dmlax.onnx.profile import profile
from support.onnx_files import File
from support.onnx_models import FLOAT_MODELS, quantized
from tools.zoo.networks import Network


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(profiles, "_NODE_SECONDS", 0.0)
    monkeypatch.setattr(profiles, "_MODEL_SECONDS", 0.0)


def _profile(file):
    model = dmlax.onnx.load(file)
    return model, profile(model, draw_inputs(model._saved, model.inputs))


def test_a_profile_has_every_node_of_a_call():
    model, times = _profile(quantized("classifier", "qdq"))
    assert [x.node.name for x in times.nodes] == [x.name for x in model._graph.nodes]
    assert [x.place for x in times.nodes] == [*range(1, len(times.nodes) + 1)]
    kinds = {x.node.type: x.kind for x in times.nodes}
    assert kinds["QuantizeLinear"] == kinds["DequantizeLinear"] == "both"
    assert {kind for op, kind in kinds.items() if "uantizeLinear" not in op} == {"integer"}
    assert times.nodes[0].outputs == "uint8[1,3,16,16]"
    assert min(x.seconds for x in times.nodes) > 0
    assert times.seconds > times.start > 0


def test_a_float_model_has_float_nodes():
    model, times = _profile(FLOAT_MODELS["bert"]())
    kinds = {x.node.type: x.kind for x in times.nodes}
    assert {kinds[op] for op in ("Gather", "LayerNormalization", "Softmax", "Where")} == {"float"}
    assert len(times.nodes) <= len(model._graph.nodes)


def test_dynamic_quantization_has_every_kind():
    _, times = _profile(quantized("classifier", "dynamic"))
    kinds = {x.node.type: x.kind for x in times.nodes}
    assert kinds["DynamicQuantizeLinear"] == "both"
    assert kinds["ConvInteger"] == "integer"
    assert kinds["Sigmoid"] == "float"


def test_totals_are_sums():
    _, times = _profile(quantized("classifier", "qdq"))
    for key in (lambda x: x.kind, lambda x: x.node.type):
        totals = times.totals(key)
        assert sum(x.nodes for x in totals) == len(times.nodes)
        assert sum(x.seconds for x in totals) == pytest.approx(times.sum)
        assert sum(times.share(x.seconds) for x in totals) == pytest.approx(100)
        assert [x.seconds for x in totals] == sorted((x.seconds for x in totals), reverse=True)


class _Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def test_the_command_prints_a_profile_and_writes_a_page(tmp_path, capsys):
    model = quantized("classifier", "qdq")
    name = "<script>$nodes & 'x'"
    next(node for node in model.graph.node if node.op_type == "MaxPool").name = name
    path, page = tmp_path / "model.onnx", tmp_path / "page.html"
    onnx.save(model, path)
    assert main([str(path), "--profile", "--html", str(page)]) == 0
    printed = capsys.readouterr()
    count = len(dmlax.onnx.load(path)._graph.nodes)
    assert not printed.err
    assert re.search(r"^whole model, one program: \d+\.\d\d ms a call$", printed.out, re.M)
    assert f"sum of {count} programs of one node each: " in printed.out
    assert "lacks what XLA fuses across nodes" in printed.out
    assert re.search(r"^\d+ QuantizeLinear \S.* both +\d+\.\d{3}", printed.out, re.M)
    shown = _Page(page.read_text("utf-8"))
    assert name in shown.text
    assert not {"script", "link", "img"} & {tag for tag, _ in shown.tags}
    assert not {"href", "src"} & {key for _, attributes in shown.tags for key in attributes}
    bars = [x for tag, x in shown.tags if tag == "i"]
    assert len(bars) == count + 2  # and two kinds
    assert "100.00%" in {x["style"].removeprefix("width:") for x in bars}


def test_the_slowest_nodes_are_shown_of_many(monkeypatch):
    _, times = _profile(quantized("classifier", "qdq"))
    monkeypatch.setattr(profiles, "_SHOWN", 3)
    lines = str(times).splitlines()
    assert lines[-1] == f"and {len(times.nodes) - 3} faster nodes, which --html lists"
    for x, line in zip(times.slowest, lines[-4:-1], strict=False):
        assert line.startswith(f"{x.place} {x.node.type} ")


def test_a_size_among_the_inputs():
    file, rng = File(21), np.random.default_rng(0)
    shapes = [(1, 1, 32), (1, 1, 16), (1, 1, 16), (1, 2, 6, 8), (1, 2, 6, 8)]
    names = [file.input(rng.normal(0, 1, shape).astype(np.float32)) for shape in shapes]
    names += [file.input(np.int32([5])), file.input(np.array(6, np.int32))]
    options = {"domain": "com.microsoft", "num_heads": 4, "kv_num_heads": 2}
    for name in file.node("GroupQueryAttention", *names, outputs=3, **options):
        file.output(name, np.float32)
    times = profile(dmlax.onnx.load(file.model()), file.inputs)
    assert [x.node.type for x in times.nodes] == ["com.microsoft.GroupQueryAttention"]


def test_the_nodes_are_those_of_the_shapes_of_a_call():
    net = Network()
    x = net.node("Reshape", "x", net.integers(-1, 4))
    model = dmlax.onnx.load(
        net.model(
            {"x": (TensorProto.FLOAT, ["n"])}, {net.node("Relu", x): (TensorProto.FLOAT, None)}
        )
    )
    times = profile(model, {"x": np.ones(12, np.float32)})
    assert [x.outputs for x in times.nodes] == ["float32[3,4]"] * 2


def test_errors_come_before_the_work(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(quantized("classifier", "qdq"), path)
    absent = tmp_path / "absent" / "page.html"
    assert main([str(path), "--profile", "--html", str(absent)]) == 2
    printed = capsys.readouterr()
    assert str(absent) in printed.err
    assert not printed.out
    with pytest.raises(SystemExit) as ended:
        main([str(path), "--html", str(tmp_path / "page.html")])
    assert ended.value.code == 2
    assert "--html needs --profile" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", x=np.ones((5, 1), np.float32))
    assert main([str(path), "--profile", "--inputs", str(tmp_path / "x.npz")]) == 2
    assert "Model: x is float32[5,1], expected" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", z=np.ones((5, 1), np.float32))
    assert main([str(path), "--profile", "--inputs", str(tmp_path / "x.npz")]) == 2
    assert "input x is missing" in capsys.readouterr().err


def test_a_median_is_of_calls_that_ended():
    function = jax.jit(lambda x: x @ x)
    x = jax.numpy.ones((300, 300))
    assert profiles._median(lambda: function(x), 0.0) > 1e-5
