"""Exports run elsewhere and say the same; results that come back are judged like any answer."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.format import vectors
from dmlax_conformance.format.tensors import Tensor, encode, from_numpy
from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.runner.run import case_of

OPERATOR = "element_wise_quantize_linear"
FLAGS = ("Tie", "Invalid", "Strided", "Broadcast", "Buffer", "Row")
QUICK = ["--operator", OPERATOR, *(word for flag in FLAGS for word in ("--flag", flag))]
CONVOLUTION = """<ir_version: 8, opset_import: ["": 13]>
g (int8[1, 2, 1, 1] x, uint8[1, 2, 1, 1] w) => (int32[1, 1, 1, 1] y) { y = ConvInteger(x, w) }"""


def test_onnx_models_run_in_onnx_runtime_with_the_expected_bits(tmp_path: Path) -> None:
    """Operators that it has kernels for, and those in which it is right everywhere.

    On x86-64 without VNNI, products of int8 inputs and uint8 filters saturate there at 16 bits.
    """
    operators = ["--operator=nonzero_coordinates", "--operator=convolution_integer"]
    assert cli.main(["export", "--format", "onnx", "--output", str(tmp_path), *operators]) == 0
    onnxruntime.set_default_logger_severity(4)
    extremes = ("x", 127, "int8"), ("w", 255, "uint8")
    largest = [(name, np.full((1, 2, 1, 1), value, dtype)) for name, value, dtype in extremes]
    is_narrow = run(onnx.parser.parse_model(CONVOLUTION), largest).item() != 2 * 255 * 127
    ran, saturated = 0, 0
    for folder in sorted(tmp_path.iterdir()):
        data = folder / "test_data_set_0"
        inputs = [read(path) for path in sorted(data.glob("input_*.pb"))]
        got = run(onnx.load(folder / "model.onnx"), inputs)
        name, want = read(data / "output_0.pb")
        if got is None:
            continue
        assert (name, got.dtype, got.shape) == ("y", want.dtype, want.shape), folder.name
        may_saturate = is_narrow and [x.dtype for _, x in inputs[:2]] == ["int8", "uint8"]
        if may_saturate and (got != want).any():
            saturated += 1
        else:
            np.testing.assert_array_equal(got, want, folder.name)
        ran += 1
    assert ran > 80
    assert saturated < ran / 4


def run(model: Any, inputs: Any) -> Any:
    """Return the output of a model, or None if ONNX Runtime lacks the operator for its types."""
    state, providers = onnxruntime.capi.onnxruntime_pybind11_state, ["CPUExecutionProvider"]
    with suppress(state.NotImplemented, state.Fail):
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)
        return session.run(None, dict(inputs))[0]


def read(path: Path) -> tuple[str, Any]:
    tensor = onnx.TensorProto.FromString(path.read_bytes())
    return tensor.name, onnx.numpy_helper.to_array(tensor)


@pytest.fixture(scope="module")
def chosen(suite: list[Vector]) -> list[Vector]:
    return [vector for vector in suite if vectors.matches(vector, [OPERATOR], None, FLAGS)]


def test_json_has_the_call_and_not_the_answer(tmp_path: Path, chosen: list[Vector]) -> None:
    command = ["export", "--format", "json", "--output", str(tmp_path)]
    assert cli.main([*command, *QUICK]) == 0
    assert {path.stem for path in tmp_path.iterdir()} == {vector.id for vector in chosen}
    for vector in chosen:
        value = json.loads((tmp_path / f"{vector.id}.json").read_text())
        assert "expect" not in value
        plain = {k: Tensor(v.dtype, v.sizes, v.words) for k, v in vector.inputs.items()}
        assert value["inputs"] == {k: encode(v) for k, v in plain.items()}
    command[2] = "onnx"
    assert cli.main([*command, "--id", "quantize-int16-output"]) == 3  # there is nothing to export


@pytest.fixture(scope="module")
def oracles_results(tmp_path_factory: pytest.TempPathFactory, chosen: list[Vector]) -> Path:
    """Return a folder with the oracle's answers: arrays for every third, JSON for the others."""
    folder = tmp_path_factory.mktemp("results")
    for number, vector in enumerate(chosen):
        answer: dict[str, Any]
        try:
            outputs = Oracle().run(case_of(vector), "eager")
            answer = {"outputs": {n: encode(from_numpy(x)) for n, x in outputs.items()}}
        except SpecViolation as error:
            answer = {"refused": {"code": error.code, "field": error.field}}
        if isinstance(vector.expect, ExpectedError) or number % 3:
            (folder / f"{vector.id}.json").write_text(json.dumps(answer))
        else:
            for name, array in outputs.items():
                np.save(folder / f"{vector.id}.{name}.npy", array)
    return folder


@pytest.fixture
def results(tmp_path: Path, oracles_results: Path) -> Path:
    """Return a folder with the oracle's answers, which a test may change."""
    return shutil.copytree(oracles_results, tmp_path / "results")


def check(folder: Path) -> int:
    return cli.main(["check", "--results", str(folder), *QUICK])


def test_whole_buffers_stand_for_tensors(results: Path) -> None:
    """A buffer has a multiple of 4 bytes."""
    assert check(results) == 0
    longer = 0
    for path in results.glob("*.npy"):
        array = np.load(path).reshape(-1)
        filling = np.full(-array.nbytes % 4 // array.itemsize, 85, array.dtype)
        np.save(path, np.concatenate([array, filling]))
        longer += filling.size > 0
    assert longer > 10
    assert check(results) == 0


def test_a_wrong_element_fails_and_can_be_repeated(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(path for path in results.glob("*.npy") if np.load(path).size)
    np.save(path, np.load(path) ^ 1)
    next(results.glob("*.json")).unlink()
    assert check(results) == 1
    shown = capsys.readouterr().out
    assert f"FAIL {path.name.split('.')[0]}" in shown
    (total,) = (line for line in shown.splitlines() if line.startswith("all "))
    assert total.split()[-1] == "1"  # a missing result is unsupported
    repeat = next(line for line in shown.splitlines() if "repeat: " in line)
    assert cli.main(repeat.split("repeat: dmlax-conformance ")[1].split()) == 1


def test_unknown_or_no_results_are_not_a_pass(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("no-such-vector.json", "no-such-vector.OutputTensor.npy"):
        (results / name).write_text("{}")
        assert check(results) == 2
        assert "no-such-vector" in capsys.readouterr().err
        (results / name).unlink()
    assert check(results / "nowhere") == 2
    next(results.glob("*.json")).unlink()
    assert check(results) == 0
    for path in results.iterdir():
        path.unlink()
    assert check(results) == 3


BROKEN = ["", "{", "[]", "{}", '{"outputs": {}, "refused": {}}', '{"error": "it died"}', "[" * 1000]


@pytest.mark.parametrize("text", [*BROKEN, "too long", "two kinds"])
def test_a_broken_result_is_an_error_or_a_failure_of_that_vector(text: str, results: Path) -> None:
    array = next(results.glob("*.npy"))
    if text == "too long":
        words = np.load(array).reshape(-1)
        np.save(array, np.concatenate([words, np.zeros(4, words.dtype)]))
    elif text == "two kinds":
        (results / f"{array.name.split('.')[0]}.json").write_text('{"unsupported": "or is it"}')
    else:
        next(results.glob("*.json")).write_text(text)
    assert check(results) == 1
