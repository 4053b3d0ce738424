"""Exports run elsewhere and say the same; results that come back are judged like any answer."""

import importlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.base import Unsupported
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.exports import dxdispatch
from dmlax_conformance.format import vectors
from dmlax_conformance.format.descs import gather
from dmlax_conformance.format.tensors import DTYPES, Tensor, encode, from_numpy
from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.operators import tables as desc_tables
from dmlax_conformance.operators.descs import feature_levels
from dmlax_conformance.operators.tables import TABLES
from dmlax_conformance.suite.runner import case_of

OPERATOR = "element_wise_quantize_linear"
FLAGS = ("Tie", "Invalid", "Strided", "Broadcast", "Buffer", "Row")
QUICK = ["--operator", OPERATOR, *(word for flag in FLAGS for word in ("--flag", flag))]
DATA_TYPE = {"pattern": "^(UNKNOWN|U?INT(8|16|32|64)|FLOAT(16|32|64))$"}
UINTS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
TENSOR = {
    "type": "object",
    "required": ["DataType", "Sizes"],
    "additionalProperties": False,
    "properties": {
        "DataType": DATA_TYPE,
        "Flags": {"enum": ["NONE", "OWNED_BY_DML"]},
        "Sizes": UINTS,
        "Strides": UINTS,
        "DimensionCount": {"type": "integer", "minimum": 1},
        "TotalTensorSizeInBytes": {"type": "integer", "minimum": 4},
        "GuaranteedBaseOffsetAlignment": {"type": "integer", "minimum": 0},
    },
}
CONSTANT = {
    "type": "object",
    "required": ["valueCount", "value"],
    "additionalProperties": False,
    "properties": {"valueCount": {"type": "integer", "minimum": 1}, "value": {"type": "number"}},
}
NAMES = {"type": "object", "additionalProperties": {"type": "string"}}
# DxDispatch's guide, as far as these models go.
DXDISPATCH = {
    "type": "object",
    "required": ["resources", "dispatchables", "commands"],
    "additionalProperties": False,
    "properties": {
        "resources": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["initialValues", "initialValuesDataType"],
                "additionalProperties": False,
                "properties": {
                    "initialValuesDataType": DATA_TYPE,
                    "initialValues": {
                        "oneOf": [
                            {"type": "array", "items": {"type": "number"}, "minItems": 1},
                            CONSTANT,
                        ]
                    },
                    "sizeInBytes": {"type": "integer", "minimum": 4},
                },
            },
        },
        "dispatchables": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["type", "desc"],
                "additionalProperties": False,
                "properties": {
                    "type": {"pattern": "^DML_OPERATOR_[A-Z_]+$"},
                    "desc": {
                        "type": "object",
                        "patternProperties": {"Tensor$": TENSOR, "((Start|End)Padding|s)$": UINTS},
                    },
                    "bindings": NAMES,
                },
            },
        },
        "commands": {
            "type": "array",
            "items": {
                "oneOf": [
                    {
                        "required": ["type", "dispatchable", "bindings"],
                        "additionalProperties": False,
                        "properties": {
                            "type": {"const": "dispatch"},
                            "dispatchable": {"type": "string"},
                            "bindings": NAMES,
                        },
                    },
                    {
                        "required": ["type", "resource"],
                        "additionalProperties": False,
                        "properties": {"type": {"const": "print"}, "resource": {"type": "string"}},
                    },
                    {
                        "required": ["type", "resource", "targetPath"],
                        "additionalProperties": False,
                        "properties": {
                            "type": {"const": "writeFile"},
                            "resource": {"type": "string"},
                            "targetPath": {"pattern": r"^[a-z0-9-]+\.[A-Za-z]+\.npy$"},
                        },
                    },
                ]
            },
        },
    },
}


def is_chosen(vector: Vector) -> bool:
    return vectors.matches(vector, [OPERATOR], None, FLAGS)


def is_small(vector: Vector) -> bool:
    return all(len(tensor.words) < 2_000 for tensor in vector.inputs.values())


@pytest.fixture(scope="module")
def models(suite: list[Vector]) -> dict[str, Any]:
    """Return the DxDispatch model of every third small vector that has one."""
    found = {}
    for vector in filter(is_small, suite[::3]):
        try:
            found[vector.id] = dxdispatch.model(vector)
        except Unsupported:
            assert not vector.is_valid or vector.desc is None
    return found


def test_every_dxdispatch_model_has_the_documented_form(
    suite: list[Vector], models: dict[str, Any]
) -> None:
    validator = jsonschema.Draft202012Validator(DXDISPATCH)
    described = [v for v in suite[::3] if v.is_valid and is_small(v) and v.operator in TABLES]
    # A product's call may have ranks, batches or a bias that no desc has.
    assert len(models) > 0.9 * sum("matrix" not in v.operator for v in described)
    assert models.keys() <= {vector.id for vector in suite if vector.operator in TABLES}
    for name, model in models.items():
        written = json.loads(json.dumps(model))
        for held in written["resources"].values():
            if isinstance(held["initialValues"], list):  # the schema looks at each, for long
                assert {type(value) for value in held["initialValues"]} == {int}
                del held["initialValues"][100:]
        error = jsonschema.exceptions.best_match(validator.iter_errors(written))
        assert error is None, (name, error)


def test_a_dxdispatch_model_binds_every_tensor_of_its_desc_once(models: dict[str, Any]) -> None:
    for model in models.values():
        operator = model["dispatchables"][dxdispatch.OPERATOR]
        tensors = {k: v for k, v in operator["desc"].items() if isinstance(v, dict)}
        dispatch, *others = model["commands"]
        bound = [*dispatch["bindings"], *operator.get("bindings", {})]
        assert sorted(bound) == sorted(tensors) == sorted(model["resources"])
        written = [each["resource"] for each in others if each["type"] == "writeFile"]
        assert sorted(written) == sorted(
            name for name in tensors if name.startswith("Output") and name in written
        )
        for name, tensor in tensors.items():
            assert model["resources"][name]["sizeInBytes"] == tensor["TotalTensorSizeInBytes"]


def test_the_initial_values_are_the_inputs_to_the_bit(
    suite: list[Vector], models: dict[str, Any]
) -> None:
    known = {vector.id: vector for vector in suite}
    for name, model in models.items():
        vector = known[name]
        desc = model["dispatchables"][dxdispatch.OPERATOR]["desc"]
        for tensor_name, tensor in vector.inputs.items():
            held = model["resources"][tensor_name]
            words, dtype = tuple(held["initialValues"]), DTYPES[tensor.dtype]
            assert dtype.width == int(held["initialValuesDataType"].lstrip("UINTFLOA"))
            if vector.desc is not None or words == tensor.words:
                assert words == tensor.words
            else:  # a parameter that repeats: the buffer has each value once, and a filling
                own = {"Strides": None, **desc[tensor_name]}
                read = gather(own, Tensor(tensor.dtype, (len(words),), words))
                wide = np.broadcast_to(np.reshape(tensor.words, tensor.sizes), own["Sizes"])
                assert read.words == tuple(wide.reshape(-1).tolist())


def test_a_functional_call_becomes_a_desc_that_some_level_accepts(
    suite: list[Vector], models: dict[str, Any]
) -> None:
    known = {vector.id: vector for vector in suite}
    for name, model in models.items():
        if known[name].desc is None:
            desc = model["dispatchables"][dxdispatch.OPERATOR]["desc"]
            tensors = {k: {"Strides": None, **v} for k, v in desc.items() if isinstance(v, dict)}
            full = dict.fromkeys(fields(known[name].operator)) | desc | tensors
            assert feature_levels(known[name].operator, full), name


def fields(operator: str) -> tuple[str, ...]:
    return tuple(desc_tables.fields(operator))


def test_onnx_models_run_in_onnx_runtime_with_the_expected_bits(tmp_path: Path) -> None:
    """Operators that it has kernels for, and those in which it is right everywhere.

    On x86-64 without VNNI, products of int8 inputs and uint8 filters saturate there at 16 bits.
    """
    onnx = importlib.import_module("onnx")
    runtime = importlib.import_module("onnxruntime")
    chosen = ["nonzero_coordinates", "convolution_integer"]
    operators = [part for name in chosen for part in ("--operator", name)]
    assert cli.main(["export", "--format", "onnx", "--output", str(tmp_path), *operators]) == 0
    runtime.set_default_logger_severity(4)
    state = runtime.capi.onnxruntime_pybind11_state
    ran, saturated, is_narrow = 0, 0, saturates(onnx, runtime)
    for folder in sorted(tmp_path.iterdir()):
        data = folder / "test_data_set_0"
        inputs = [read(onnx, path) for path in sorted(data.glob("input_*.pb"))]
        model = (folder / "model.onnx").read_bytes()
        try:
            session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
            (got,) = session.run(None, dict(inputs))
        except (state.NotImplemented, state.Fail):
            continue
        name, want = read(onnx, data / "output_0.pb")
        assert (name, got.dtype, got.shape) == ("y", want.dtype, want.shape), folder.name
        if is_narrow and (got != want).any() and dtypes(inputs) == ["int8", "uint8"]:
            saturated += 1
        else:
            np.testing.assert_array_equal(got, want, folder.name)
        ran += 1
    assert ran > 80
    assert saturated < ran / 4


def saturates(onnx: Any, runtime: Any) -> bool:
    """Return whether ConvInteger is wrong for the largest int8 inputs and uint8 filters."""
    x, w = np.full((1, 2, 1, 1), 127, "int8"), np.full((1, 2, 1, 1), 255, "uint8")
    make, kind = onnx.helper, onnx.TensorProto
    graph = make.make_graph(
        [make.make_node("ConvInteger", ["x", "w"], ["y"])],
        "largest",
        [make.make_tensor_value_info("x", kind.INT8, x.shape)],
        [make.make_tensor_value_info("y", kind.INT32, None)],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return bool(session.run(None, {"x": x})[0].item() != 2 * 255 * 127)


def dtypes(inputs: Iterable[tuple[str, Any]]) -> list[str]:
    """Return those of the input and the filter."""
    return [array.dtype.name for _, array in inputs][:2]


def read(onnx: Any, path: Path) -> tuple[str, Any]:
    tensor = onnx.TensorProto.FromString(path.read_bytes())
    return tensor.name, onnx.numpy_helper.to_array(tensor)


def test_json_has_the_call_and_not_the_answer(tmp_path: Path, suite: list[Vector]) -> None:
    assert cli.main(["export", "--format", "json", "--output", str(tmp_path), *QUICK]) == 0
    mine = [vector for vector in suite if is_chosen(vector)]
    assert {path.stem for path in tmp_path.iterdir()} == {vector.id for vector in mine}
    for vector in mine:
        value = json.loads((tmp_path / f"{vector.id}.json").read_text())
        assert "expect" not in value
        plain = {k: Tensor(v.dtype, v.sizes, v.words) for k, v in vector.inputs.items()}
        assert value["inputs"] == {k: encode(v) for k, v in plain.items()}


def test_nothing_to_export_is_not_a_success(tmp_path: Path) -> None:
    refused = ["--id", "quantize-int16-output"]
    assert cli.main(["export", "--format", "onnx", "--output", str(tmp_path), *refused]) == 3


@pytest.fixture
def results(tmp_path: Path, oracles_results: Path) -> Path:
    """Return a folder with the oracle's answers, which a test may change."""
    return shutil.copytree(oracles_results, tmp_path / "results")


@pytest.fixture(scope="module")
def oracles_results(tmp_path_factory: pytest.TempPathFactory, suite: list[Vector]) -> Path:
    """Return a folder with the oracle's answers: arrays for every third, JSON for the others."""
    tmp_path = tmp_path_factory.mktemp("results")
    chosen = [vector for vector in suite if is_chosen(vector)]
    for number, vector in enumerate(chosen):
        if isinstance(vector.expect, ExpectedError) or number % 3:
            (tmp_path / f"{vector.id}.json").write_text(json.dumps(answered(vector)))
        else:
            for name, array in Oracle().run(case_of(vector), "eager").items():
                np.save(tmp_path / f"{vector.id}.{name}.npy", array)
    return tmp_path


def answered(vector: Vector) -> dict[str, Any]:
    try:
        outputs = Oracle().run(case_of(vector), "eager")
    except SpecViolation as error:
        return {"refused": {"code": error.code, "field": error.field}}
    return {"outputs": {name: encode(from_numpy(array)) for name, array in outputs.items()}}


def check(folder: Path, *arguments: str) -> int:
    return cli.main(["check", "--results", str(folder), *QUICK, *arguments])


def test_the_oracles_results_are_accepted(results: Path) -> None:
    assert check(results) == 0


def test_a_flat_array_stands_for_a_tensor(results: Path) -> None:
    path = next(path for path in results.glob("*.npy") if np.load(path).ndim > 1)
    np.save(path, np.load(path).reshape(-1))
    assert check(results) == 0


def test_whole_buffers_stand_for_tensors(results: Path) -> None:
    """DxDispatch writes as many elements as its model has bytes for."""
    suite = {vector.id: vector for vector in vectors.load_all()}
    longer = 0
    for path in results.glob("*.npy"):
        name, tensor = path.name.split(".")[:2]
        array = np.load(path).reshape(-1)
        try:
            held = dxdispatch.model(suite[name])["resources"][tensor]["sizeInBytes"]
        except Unsupported:
            continue
        filling = np.full(held // array.itemsize - array.size, 85, array.dtype)
        np.save(path, np.concatenate([array, filling]))
        longer += filling.size > 0
    assert longer > 10
    assert check(results) == 0


def test_an_array_that_is_longer_than_its_buffer_fails(results: Path) -> None:
    path = next(results.glob("*.npy"))
    array = np.load(path).reshape(-1)
    np.save(path, np.concatenate([array, np.zeros(4, array.dtype)]))
    assert check(results) == 1


def test_a_wrong_element_fails(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in results.glob("*.npy") if np.load(path).size)
    array = np.load(path)
    np.save(path, array ^ 1)
    assert check(results) == 1
    shown = capsys.readouterr().out
    name = path.name.split(".")[0]
    assert f"FAIL {name}" in shown
    repeat = next(line for line in shown.splitlines() if "repeat: " in line)
    assert cli.main(repeat.split("repeat: dmlax-conformance ")[1].split()) == 1


def test_a_missing_result_is_unsupported(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next(results.glob("*.json")).unlink()
    assert check(results) == 0
    *_, total, _ = capsys.readouterr().out.splitlines()
    assert total.split()[-1] == "1"


def test_no_results_are_not_a_pass(tmp_path: Path) -> None:
    assert check(tmp_path) == 3
    assert check(tmp_path / "nowhere") == 2


@pytest.mark.parametrize("name", ["no-such-vector.json", "no-such-vector.OutputTensor.npy"])
def test_an_unknown_id_is_refused(
    name: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (results / name).write_text("{}")
    assert check(results) == 2
    assert "no-such-vector" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"outputs": {}, "refused": {}}', '{"error": "it died"}', "[" * 1000],
)
def test_a_broken_result_is_an_error_of_that_vector(text: str, results: Path) -> None:
    path = next(results.glob("*.json"))
    path.write_text(text)
    assert check(results) == 1


def test_two_kinds_of_result_for_one_vector_are_an_error(results: Path) -> None:
    path = next(results.glob("*.npy"))
    (results / f"{path.name.split('.')[0]}.json").write_text('{"unsupported": "or is it"}')
    assert check(results) == 1
