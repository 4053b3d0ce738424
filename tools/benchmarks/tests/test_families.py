"""The script of `nox -s models`, without torchvision: small networks and what is missing."""

import onnx
import pytest

import dmlax.onnx
from support.onnx_models import FLOAT_MODELS
from tools.benchmarks import families
from tools.benchmarks.__main__ import main
from tools.zoo import networks


def test_a_network_is_quantized_and_compared():
    outcome = families.compare("classifier", FLOAT_MODELS["classifier"], "qoperator")
    assert outcome.is_good
    assert outcome.elements > 1000
    assert str(outcome).endswith(f"0 of {outcome.elements} elements differ, output error 0")


def test_an_operator_that_is_not_known_is_a_failure():
    net = networks.Network()
    y = net.node("Det", net.node("MatMul", "x", net.weight(4, 4)))
    shapes = {"x": (onnx.TensorProto.FLOAT, ["n", 4, 4])}
    model = net.model(shapes, {y: (onnx.TensorProto.FLOAT, ["n"])})
    outcome = families.compare("determinant", lambda: model, "qoperator")
    assert not outcome.is_good
    assert "determinant, qoperator: UnsupportedError: 1 node " in str(outcome)


def test_what_is_missing_is_said(monkeypatch, capsys):
    monkeypatch.setattr(families, "missing", lambda: ["torch", "torchvision"])
    with pytest.raises(SystemExit, match="2"):
        main(["families"])
    assert capsys.readouterr().out == "missing: torch, torchvision; nothing is compared\n"


def test_the_networks_are_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(families, "missing", lambda: ["torch"])
    monkeypatch.setattr(networks, "NETWORKS", {"small": FLOAT_MODELS["classifier"]})
    main(["families", "--write", str(tmp_path)])
    assert "missing: torch; mobilenet_v3_large is not written" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    assert path.name == "small-qoperator.onnx"
    assert dmlax.onnx.load(path).inputs["x"].shape[1:] == (3, 16, 16)
