"""The script of `nox -s models`, without torchvision: small networks and missing packages."""

import onnx
import pytest

from support.onnx_models import FLOAT_MODELS
from tools.benchmarks import families
from tools.benchmarks.__main__ import main
from tools.zoo import networks


def test_a_network_is_quantized_and_compared():
    is_good, text = families.compare(FLOAT_MODELS["classifier"], "qoperator")
    assert is_good
    assert text.endswith(" elements differ, output error 0")
    assert ", 0 of " in text


def test_an_operator_that_is_not_known_is_a_failure():
    net = networks.Network()
    y = net.node("Det", net.node("MatMul", "x", net.weight(4, 4)))
    shapes = {"x": (onnx.TensorProto.FLOAT, ["n", 4, 4])}
    model = net.model(shapes, {y: (onnx.TensorProto.FLOAT, ["n"])})
    is_good, text = families.compare(lambda: model, "qoperator")
    assert not is_good
    assert "qoperator: UnsupportedError: 1 node " in text


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(families, "missing", lambda: ["torch", "torchvision"])
    with pytest.raises(SystemExit, match="2"):
        main(["families"])
    assert capsys.readouterr().out == "missing: torch, torchvision; nothing is compared\n"
