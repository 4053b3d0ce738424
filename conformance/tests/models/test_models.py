"""Whole models: the golden files are right, sharp, and judged strictly."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.models import start, with_outputs
from dmlax_conformance.errors import NotStartable, Unsupported
from dmlax_conformance.format.tensors import Tensor, to_numpy
from dmlax_conformance.models import golden
from dmlax_conformance.models.adapter import ARITHMETICS
from dmlax_conformance.models.arrays import value_of, word_of
from dmlax_conformance.models.evaluate import FUNCTIONS
from dmlax_conformance.models.golden import Golden, MalformedModel
from dmlax_conformance.models.graph import Node
from dmlax_conformance.models.judge import compare, judge
from dmlax_conformance.paths import models_dir, schema_file

MODELS = {path.stem: golden.load(path) for path in golden.paths()}


def test_the_models_are_right_and_small_and_obey_the_schema() -> None:
    assert golden.problems() == []
    sizes = {path: path.stat().st_size for path in models_dir().iterdir()}
    assert len(sizes) == 2 * len(MODELS)
    assert max(size for path, size in sizes.items() if path.suffix == ".onnx") < 5_000
    assert sum(sizes.values()) < 400_000
    schema = json.loads(schema_file().with_name(f"{golden.SCHEMA}.json").read_text())
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(checker.schema)
    for path in golden.paths():
        assert not list(checker.iter_errors(json.loads(path.read_text())))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("products.json", "products.onnx"):
        shutil.copy(models_dir() / name, tmp_path)
    return tmp_path


def with_values(name: str, arithmetic: str, tensor: str, change: Callable[[int], int]) -> Golden:
    """Return a model with other words of a tensor."""
    values = MODELS[name].values[arithmetic]
    other = replace(values[tensor], words=tuple(map(change, values[tensor].words)))
    every = {**MODELS[name].values, arithmetic: {**values, tensor: other}}
    return replace(MODELS[name], values=every)


def with_graph(name: str, **parts: Any) -> Golden:
    return replace(MODELS[name], graph=replace(MODELS[name].graph, **parts))


def with_file(name: str, edit: Callable[[Any], object]) -> Golden:
    """Return a model with an edited ONNX file."""
    model = onnx.load_from_string(MODELS[name].file)
    edit(model)
    return replace(MODELS[name], file=model.SerializeToString())


def first_byte(name: str) -> Golden:
    """Return a model with a change in the first element of a constant."""

    def edit(model: Any) -> None:
        (tensor,) = (each for each in model.graph.initializer if each.name == name)
        tensor.raw_data = bytes([tensor.raw_data[0] ^ 1]) + tensor.raw_data[1:]

    return with_file(CHANNELS, edit)


def operand(output: str, place: int, name: str) -> Golden:
    """Return a model with another input of the node that writes a tensor."""

    def edit(model: Any) -> None:
        (node,) = (each for each in model.graph.node if output in each.output)
        node.input[place] = name

    return with_file(CHANNELS, edit)


TENSOR, CHANNELS = "qdq_u8_per_tensor", "qdq_u8_per_channel"
CONSTANTS, NODES = MODELS[TENSOR].graph.constants, MODELS["products"].graph.nodes
ZERO_BIAS = replace(CONSTANTS["stem_bias"], words=(0,) * len(CONSTANTS["stem_bias"].words))
ODD = Node("Odd", "", ("left", "right"), ("sums",), {})
PROBLEMS = {
    "products: exact quantized is 1, and the evaluator's is 0 at element 0": [
        with_values("products", "exact", "quantized", lambda word: word ^ 1)
    ],
    "dynamic_matmul: exact active is -0.0, and the evaluator's is 0.0 at element ": [
        with_values("dynamic_matmul", "exact", "active", lambda word: word or 1 << 31)
    ],
    "products: float32 floats is -28.9": [
        with_values("products", "float32", "floats", lambda word: word + (1 << 13))
    ],
    "products: float32 sums is ": [
        with_values("products", "float32", "sums", lambda word: word + 1)
    ],
    f"{TENSOR}: constant stem_bias: the file has ": [
        with_graph(TENSOR, constants={**CONSTANTS, "stem_bias": ZERO_BIAS})
    ],
    "products: the evaluator ends with KeyError: 'Odd'": [
        with_graph("products", nodes=(ODD, *NODES[1:]))
    ],
    "products: operator sets: the file has {'': 18": [
        with_file("products", lambda file: setattr(file.opset_import[0], "version", 18))
    ],
    "products: output sums: the file has TensorType(dtype='int64'": [
        with_file("products", lambda x: setattr(x.graph.output[0].type.tensor_type, "elem_type", 7))
    ],
    "residual: node 2: the file has ": [
        with_file("residual", lambda file: file.graph.node[2].attribute.pop())
    ],
    f"{CHANNELS}: node 1: the file has Node(op='DequantizeLinear'": [
        first_byte("stem_bias_scale"),
        first_byte("stem_bias_zero"),
        with_file(CHANNELS, lambda file: setattr(file.graph.node[2].attribute[0], "i", 1)),
        operand("stem_out", 2, "zero_uint8_63"),
    ],
    f"{CHANNELS}: node 4: the file has Node(op='DequantizeLinear'": [
        operand("pooled", 1, "scale_0.18")
    ],
}


@pytest.mark.parametrize("text", PROBLEMS)
def test_what_is_wrong_with_a_model_is_told(text: str, tmp_path: Path) -> None:
    for model in PROBLEMS[text]:
        (tmp_path / f"{model.name}.onnx").write_bytes(model.file)
        (tmp_path / f"{model.name}.json").write_text(golden.encode(model))
        found = golden.problems(tmp_path)
        assert any(line.startswith(text) for line in found), found


def test_a_file_in_another_form_or_alone_is_told(folder: Path) -> None:
    path, alone = folder / "products.json", folder / "other.onnx"
    path.write_text(path.read_text().replace("{\n", "{ \n", 1))
    alone.write_bytes(b"")
    other_form = "products: the JSON file is not in canonical form"
    assert golden.problems(folder) == [f"{alone}: no JSON file is beside it", other_form]


def test_the_models_differ_as_the_page_says() -> None:
    """Fifteen models use every operator; tensors of two have bounds, of `float32` alone."""
    assert len(MODELS) == 15
    assert {node.op for each in MODELS.values() for node in each.graph.nodes} == FUNCTIONS.keys()
    bounds = {name: len(model.bounds) for name, model in MODELS.items() if model.bounds}
    assert bounds == {"attention": 4, "exact_floats": 7}
    same = {name for name, each in MODELS.items() if each.values["exact"] == each.values["float32"]}
    assert same == {"detector", "quantized_softmax"}


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_is_right_and_any_change_of_a_tensor_is_wrong(name: str) -> None:
    model = MODELS[name]
    for arithmetic in ARITHMETICS:
        answer = {n: to_numpy(tensor) for n, tensor in model.values[arithmetic].items()}
        outcome, judged = compare(model, arithmetic, answer)
        assert (outcome.verdict, judged) == ("exact", len(answer))
        for changed, tensor in model.values[arithmetic].items():
            wrong = {
                **answer,
                changed: to_numpy(beyond(tensor, model.bounds_of(arithmetic).get(changed))),
            }
            outcome, _ = compare(model, arithmetic, wrong)
            assert outcome.verdict == "fail"
            assert f"the first is {changed} of" in outcome.details[0]


def beyond(tensor: Tensor, exponent: int | None) -> Tensor:
    """Change the last element by the least that is too much."""
    *words, last = tensor.words
    if exponent is None:
        changed = last ^ 1
    elif tensor.dtype == "float32":
        changed = word_of(value_of(last, "float32") + Fraction(2) ** exponent * Fraction(5, 4))
    else:
        step = 2**exponent + 1
        changed = last - step if last >= step else last + step
    return replace(tensor, words=(*words, changed))


def test_what_is_behind_an_exponential_may_differ_within_its_bound() -> None:
    model = MODELS["attention"]
    answer = {name: to_numpy(tensor) for name, tensor in model.values["float32"].items()}
    near: dict[str, Any] = {"probabilities": answer["probabilities"] + np.float32(2**-21)}
    near["context"] = answer["context"] ^ 1
    assert compare(model, "float32", {**answer, **near})[0].verdict == "exact"
    exact = {name: to_numpy(tensor) for name, tensor in model.values["exact"].items()}
    exact["probabilities"] = exact["probabilities"] + np.float32(2**-24)
    assert compare(model, "exact", exact)[0].verdict == "fail"
    for wrong in (np.nan, np.inf):
        odd = {"probabilities": answer["probabilities"] * wrong}
        assert compare(model, "float32", {**answer, **odd})[0].verdict == "fail"


def test_the_first_tensor_in_the_order_of_the_nodes_is_named() -> None:
    model = MODELS["depthwise"]
    answer = {name: to_numpy(x) + np.int8(1) for name, x in model.values["exact"].items()}
    outcome, _ = compare(model, "exact", answer)
    assert outcome.details[0] == "5 of 5 tensors differ, the first is depthwise_out of QLinearConv"


def test_exit_codes() -> None:
    for arguments, code in [
        ("oracle --model products", 0),
        ("oracle --model products --arithmetic float32", 3),
        ("nothing --model products", 1),
        ("oracle --model no-such-model", 2),
        ("no.such.module:Class", 2),
    ]:
        assert cli.main(["models", "--implementation", *arguments.split()]) == code, arguments


def test_the_table_says_what_was_judged(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["models", "--implementation", "onnxruntime", "--model", TENSOR])
    found = capsys.readouterr().out
    assert "qdq_u8_per_tensor  float32     all" in found
    assert "1 of 8" in found


BROKEN = [  # what a place holds instead, and what is said about it
    ("golden/exact/tensors/sums/data", lambda data: [99, *data[1:]], "another digest"),
    ("golden/exact/sha256", "", "another digest"),
    ("bounds/sums", 3, "another digest"),
    ("bounds/sums", 10**9, "exponent of a float32"),
    ("graph/nodes", lambda nodes: nodes[::-1], "no node before it writes"),
    ("graph/nodes/1/outputs", ["sums"], "exists already"),
    ("graph/outputs", ["sums", "z"], "no node writes 'z'"),
    ("golden/exact/tensors", {}, "'floats' is missing"),
    ("graph", {}, "KeyError"),
    ("graph/nodes", 3, "TypeError"),
    ("graph/inputs/left/dtype", "int9", "int9 is no"),
    ("graph/inputs/left/sizes", [2], "is not of the"),
    ("inputs/left/sizes", [1 << 40], "needs"),
    ("schema", "model-2", "is not model-1"),
    ("model", "other", "is not the file's name"),
    ("onnx_sha256", "0", "the ONNX file has other bytes"),
]


@pytest.mark.parametrize(("place", "new", "text"), BROKEN)
def test_a_broken_file_is_refused(place: str, new: Any, text: str, folder: Path) -> None:
    path = folder / "products.json"
    value = json.loads(path.read_text())
    *outer, last = place.split("/")
    part = reduce(lambda part, key: part[int(key) if key.isdigit() else key], outer, value)
    part[last] = new(part[last]) if callable(new) else new
    path.write_text(json.dumps(value))
    with pytest.raises(MalformedModel, match=r"products\.json") as caught:
        golden.load(path)
    assert text in str(caught.value)


def test_a_broken_folder_ends_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["models", "--implementation", "oracle", "--models", str(folder)]
    assert cli.main(command) == 0
    path = folder / "products.onnx"
    path.write_bytes(path.read_bytes()[:-20])
    assert cli.main(command) == 3
    assert "the ONNX file has other bytes" in capsys.readouterr().err
    path.unlink()
    assert cli.main(command) == 3
    (folder / "products.json").write_text("{")
    assert cli.main(command) == 3
    (folder / "products.json").unlink()
    assert cli.main(command) == 3


def test_an_adapter_of_vectors_is_no_adapter_of_models() -> None:
    for name in ("torch", "process:cat"):
        with pytest.raises(NotStartable, match="takes vectors"):
            start(name)


@pytest.mark.parametrize("variant", ["disabled", "basic", "extended", "all"])
def test_onnxruntime_gives_the_float32_values(variant: str) -> None:
    """A QDQ file without fusing, and int8 activations on x86-64, are computed in floats."""
    adapter = start("onnxruntime")
    verdicts = {
        name: judge(adapter, model, "float32", variant)
        for name, model in MODELS.items()
        if not name.startswith("qdq") or (variant != "disabled" and "u8" in name)
    }
    assert {each.verdict for each in verdicts.values()} == {"exact"}
    assert variant != "disabled" or verdicts["residual"].judged == 11


@pytest.mark.parametrize(
    ("name", "arithmetic", "variant", "judged"),
    [
        *(("qdq_u8_per_channel", "float32", "jit", 8), ("detector", "exact", "jit", 14)),
        ("detector", "float32", "outputs", 2),
        ("inverted_residual", "exact", "jit", 11),  # a hard sigmoid is rounded once
        *(("attention", "exact", "jit", 12), ("exact_floats", "exact", "outputs", 1)),
    ],
)
def test_dmlax(name: str, arithmetic: str, variant: str, judged: int) -> None:
    found = judge(start("dmlax"), MODELS[name], arithmetic, variant)
    assert (found.verdict, found.details, found.judged) == ("exact", (), judged)


class _OpenVino:
    """A library that answers zeros for the outputs of a model, and does not convert `row_sums`."""

    def read_model(self, file: bytes) -> list[str]:
        names = [output.name for output in with_outputs(file, []).graph.output]
        if "row_sums" in names:
            rule = "OpConversionFailure:\nNo conversion rule found for operations: a.B, C\n"
            raise RuntimeError(f"{rule}-- QLinearConv-19 with a message:\nWhile validating")
        return names

    def compile_model(self, names: list[str], device: str, options: object) -> Any:
        return lambda inputs: {name: np.zeros(1, np.uint8) for name in names}


def test_openvino_is_asked_for_outputs_or_tensors_and_declines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=_OpenVino))
    for variant, asked in (("outputs", 1), ("tensors", 8)):
        found = judge(start("openvino"), MODELS[TENSOR], "float32", variant)
        assert (found.verdict, found.judged) == ("fail", asked)
    case = MODELS["products"].case("float32")
    file = case.file.replace(b"last_out", b"row_sums")
    with pytest.raises(Unsupported, match=r"it does not convert a\.B, C, QLinearConv-19"):
        start("openvino").run(replace(case, file=file, outputs=("row_sums",)), "outputs")
