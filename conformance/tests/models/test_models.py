"""Whole models: the golden files are right, sharp, and judged strictly."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

from dmlax_conformance import cli
from dmlax_conformance.adapters.models import onnxruntime, start
from dmlax_conformance.adapters.models.oracle import Oracle
from dmlax_conformance.adapters.models.worker import TIME_LIMIT, Worker
from dmlax_conformance.errors import NotStartable, Unsupported
from dmlax_conformance.format.tensors import Tensor, to_numpy
from dmlax_conformance.models import catalogue, generate, golden
from dmlax_conformance.models.adapter import ARITHMETICS
from dmlax_conformance.models.arrays import value_of, word_of
from dmlax_conformance.models.catalogue import DEFINITIONS
from dmlax_conformance.models.evaluate import FUNCTIONS, Functions, evaluate
from dmlax_conformance.models.golden import Golden, MalformedModel
from dmlax_conformance.models.judge import compare, judge
from dmlax_conformance.paths import model_schema_file, models_dir

HERE = Path(__file__).parent
MODELS = {path.stem: golden.load(path) for path in golden.paths()}
DEPTHWISE, ATTENTION = MODELS["depthwise"], MODELS["attention"]


def test_the_files_are_those_of_the_catalogue() -> None:
    assert [define.__name__ for define in DEFINITIONS] == [define().name for define in DEFINITIONS]
    reference = onnxruntime.float32_values, onnxruntime.disagreements
    assert list(generate.problems(models_dir(), *reference)) == []


def test_the_files_are_small() -> None:
    sizes = {path: path.stat().st_size for path in models_dir().iterdir()}
    assert len(sizes) == 2 * len(MODELS)
    assert max(size for path, size in sizes.items() if path.suffix == ".onnx") < 5_000
    assert sum(sizes.values()) < 1_000_000


def test_the_files_obey_the_schema() -> None:
    checker = jsonschema.Draft202012Validator(json.loads(model_schema_file().read_text()))
    checker.check_schema(checker.schema)
    for path in golden.paths():
        assert not list(checker.iter_errors(json.loads(path.read_text())))


def test_a_graph_that_the_file_contradicts_is_noticed() -> None:
    right = catalogue.qdq_u8_per_tensor()
    bias = right.graph.constants["stem_bias"]
    other = Tensor("int32", bias.sizes, tuple(word + 2000 for word in bias.words))
    graph = replace(right.graph, constants={**right.graph.constants, "stem_bias": other})
    wrong = replace(right, graph=graph)
    exact = evaluate(wrong.graph, wrong.inputs)
    assert "another stem_out at the fused graph" in " ".join(
        onnxruntime.disagreements(wrong, exact)
    )
    float32 = MODELS["qdq_u8_per_tensor"].values["float32"]
    assert list(generate.far_apart(right, float32)) == []
    assert "stem_out: float32 is more than a step from exact" in generate.far_apart(wrong, float32)


def test_the_readme_lists_them() -> None:
    text = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert len(MODELS) == 14
    assert "has fourteen small" in text
    assert all(f"`{name}`" in text for name in MODELS)
    assert f"plants {len(FAULTS)} faults" in text
    assert {name: len(each.bounds) for name, each in MODELS.items() if each.bounds} == {
        "attention": 4
    }
    assert "All tensors are exact but four of `attention`" in text
    assert f"`--time-limit` seconds ({TIME_LIMIT:g})" in text


def test_every_operator_of_the_evaluator_is_in_a_model() -> None:
    used = {node.op for each in MODELS.values() for node in each.graph.nodes}
    assert used == FUNCTIONS.keys()


def test_the_arithmetics_differ_where_operators_round() -> None:
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
            wrong = {**answer, changed: to_numpy(beyond(tensor, model.bounds.get(changed)))}
            outcome, _ = compare(model, arithmetic, wrong)
            assert outcome.verdict == "fail"
            assert f"the first is {changed} of" in outcome.details[0]


def beyond(tensor: Tensor, exponent: int | None) -> Tensor:
    """Change the last element by the least that is too much."""
    last = tensor.words[-1]
    if exponent is None:
        changed = last ^ 1
    elif tensor.dtype == "float32":
        changed = word_of(value_of(last, "float32") + Fraction(2) ** exponent * Fraction(5, 4))
    else:
        step = 2**exponent + 1
        changed = last - step if last >= step else last + step
    return Tensor(tensor.dtype, tensor.sizes, (*tensor.words[:-1], changed))


def test_what_is_behind_an_exponential_may_differ_within_its_bound() -> None:
    answer = {name: to_numpy(tensor) for name, tensor in ATTENTION.values["exact"].items()}
    near = {**answer, "probabilities": answer["probabilities"] + np.float32(2**-21)}
    near["context"] = answer["context"] ^ 1
    assert compare(ATTENTION, "exact", near)[0].verdict == "exact"
    for wrong in (np.nan, np.inf):
        outcome, _ = compare(
            ATTENTION, "exact", {**answer, "probabilities": answer["probabilities"] * wrong}
        )
        assert outcome.verdict == "fail"


def test_the_first_tensor_in_the_order_of_the_nodes_is_named() -> None:
    answer = {name: to_numpy(x) + np.int8(1) for name, x in DEPTHWISE.values["exact"].items()}
    outcome, _ = compare(DEPTHWISE, "exact", answer)
    assert outcome.details[0] == "5 of 5 tensors differ, the first is depthwise_out of QLinearConv"


MISBEHAVING = {
    "WrongSizes": ("fail", "average: sizes (4, 3, 5), not (1, 4, 3, 5)"),
    "WrongDtype": ("fail", "average: dtype int32, not int8"),
    "Missing": ("fail", "average: missing"),
    "NoOutputs": ("fail", "grouped_out: missing"),
    "Unasked": ("fail", "other: not asked for"),
    "Ragged": ("error", "ValueError"),
    "NoMapping": ("error", "the answer is a list, not a mapping"),
    "Exits": ("error", "SystemExit"),
    "OutputsAlone": ("exact", ""),
    "SpoilsItsInputs": ("exact", ""),
}


@pytest.mark.parametrize("name", MISBEHAVING)
def test_wrong_forms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    verdict, text = MISBEHAVING[name]
    found = judge(start(f"misbehaving_models:{name}"), DEPTHWISE, "exact", "eager")
    assert found.verdict == verdict
    assert text in " ".join(found.details)


def test_what_hangs_or_ends_gets_a_verdict_and_the_next_model_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(HERE)
    models = [DEPTHWISE, MODELS["products"]]
    for name, reason in (("Hangs", "no answer within 2.5 seconds"), ("Ends", "ended the process")):
        with closing(Worker(f"misbehaving_models:{name}", 2.5)) as worker:
            first, second = map(worker.ask, worker.questions(models, None, None))
        assert (first.verdict, second.verdict) == ("error", "exact")
        assert reason in first.details[0]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["oracle", "--model", "products"], 0),
        (["oracle", "--model", "products", "--arithmetic", "float32"], 3),
        (["nothing", "--model", "products"], 1),
        (["oracle", "--model", "no-such-model"], 2),
        (["no.such.module:Class"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int) -> None:
    assert cli.main(["models", "--implementation", *arguments]) == code


def test_the_table_says_what_was_judged(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["models", "--implementation", "onnxruntime", "--model", "qdq_u8_per_tensor"])
    found = capsys.readouterr().out
    assert "qdq_u8_per_tensor  float32     all" in found
    assert "1 of 8" in found


Edit = Callable[[Any], Any]


def edit_tensor(value: Any) -> None:
    value["golden"]["exact"]["tensors"]["sums"]["data"][0] += 1


def read_before_writing(value: Any) -> None:
    value["graph"]["nodes"].reverse()


def write_twice(value: Any) -> None:
    value["graph"]["nodes"][1]["outputs"] = ["sums"]


MALFORMED: dict[str, tuple[Edit, str]] = {
    "tensor": (edit_tensor, "the tensors have another digest"),
    "digest": (lambda value: value["golden"]["exact"].update(sha256=""), "another digest"),
    "bounds": (lambda value: value["bounds"].update(sums=3), "another digest"),
    "bound": (lambda value: value["bounds"].update(sums=10**9), "exponent of a float32"),
    "order": (read_before_writing, "no node before it writes"),
    "twice": (write_twice, "exists already"),
    "output": (lambda value: value["graph"]["outputs"].append("z"), "no node writes 'z'"),
    "no tensor": (
        lambda value: value["golden"]["exact"]["tensors"].pop("sums"),
        "'sums' is missing",
    ),
    "no graph": (lambda value: value.pop("graph"), "KeyError"),
    "nodes": (lambda value: value["graph"].update(nodes=3), "TypeError"),
    "dtype": (lambda value: value["graph"]["inputs"]["left"].update(dtype="int9"), "int9 is no"),
    "input": (lambda value: value["graph"]["inputs"]["left"].update(sizes=[2]), "is not of the"),
    "huge": (lambda value: value["inputs"]["left"].update(sizes=[1 << 40]), "needs"),
    "schema": (lambda value: value.update(schema="model-2"), "is not model-1"),
    "name": (lambda value: value.update(model="other"), "is not the file's name"),
    "onnx": (lambda value: value.update(onnx_sha256="0"), "the ONNX file has other bytes"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for suffix in (".json", ".onnx"):
        (tmp_path / f"products{suffix}").write_bytes(
            (models_dir() / f"products{suffix}").read_bytes()
        )
    return tmp_path


@pytest.mark.parametrize("name", MALFORMED)
def test_a_broken_file_is_refused(name: str, folder: Path) -> None:
    change, text = MALFORMED[name]
    path = folder / "products.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(MalformedModel, match=r"products\.json") as caught:
        golden.load(path)
    assert text in str(caught.value)


def test_a_broken_onnx_file_ends_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_an_empty_folder_is_not_a_pass(tmp_path: Path) -> None:
    assert cli.main(["models", "--implementation", "oracle", "--models", str(tmp_path)]) == 3


def test_what_is_no_longer_as_written_is_told(folder: Path) -> None:
    path = folder / "products.json"
    found = golden.load(path)
    values = {**found.values, "float32": found.values["exact"]}
    path.write_text(golden.encode(Golden(**{**vars(found), "values": values})))
    lines = list(generate.problems(folder, onnxruntime.float32_values, onnxruntime.disagreements))
    assert "products: ONNX Runtime computes another floats" in lines
    assert sum("is not a regular file" in line or "not beside" in line for line in lines) == 13


def test_without_onnxruntime_the_rest_is_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert cli.main(["generate-models", "--check", "--models", str(folder)]) == 3
    found = capsys.readouterr()
    assert "are not computed again" in found.err
    assert "products" not in found.out


def test_an_adapter_of_vectors_is_no_adapter_of_models() -> None:
    for name in ("torch", "process:cat"):
        with pytest.raises(NotStartable, match="takes vectors"):
            start(name)


def faults() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile((HERE / "faults.py").read_text(), "faults.py", "exec"), names)
    found: dict[str, Any] = names["FAULTS"]
    return found


FAULTS = faults()


BY_SIZE = sorted(
    MODELS.values(), key=lambda m: sum(len(x.words) for x in m.values["exact"].values())
)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    adapter = Oracle()
    adapter.functions = {**FUNCTIONS, **FAULTS[name]}
    wrong = (each for each in BY_SIZE if is_wrong_somewhere(each, FAULTS[name]))
    assert any(judge(adapter, each, "exact", "eager").verdict == "fail" for each in wrong)


def is_wrong_somewhere(model: Golden, functions: Functions) -> bool:
    """Say whether a node with one of the functions gives another tensor, of right operands."""
    known = {**model.graph.constants, **model.inputs, **model.values["exact"]}
    for node in model.graph.nodes:
        if node.op in functions:
            operands = tuple(known[name] if name else None for name in node.inputs)
            found = functions[node.op](node, operands)
            if found != tuple(known[name] for name in node.outputs):
                return True
    return False


@pytest.mark.parametrize(
    ("name", "arithmetic", "variant", "judged"),
    [
        ("qdq_u8_per_channel", "float32", "jit", 8),
        ("detector", "exact", "jit", 14),
        ("detector", "float32", "outputs", 2),
    ],
)
def test_dmlax(name: str, arithmetic: str, variant: str, judged: int) -> None:
    found = judge(start("dmlax"), MODELS[name], arithmetic, variant)
    assert (found.verdict, found.details, found.judged) == ("exact", (), judged)


def test_dmlax_rounds_a_hard_sigmoid_once() -> None:
    found = judge(start("dmlax"), MODELS["inverted_residual"], "exact", "jit")
    assert found.verdict == "exact"


class _OpenVino:
    """A library that answers zeros for the outputs of a model, and does not convert `row_sums`."""

    def read_model(self, file: bytes) -> list[str]:
        names = [output.name for output in onnxruntime.with_outputs(file, []).graph.output]
        if "row_sums" in names:
            rule = "OpConversionFailure:\nNo conversion rule found for operations: a.B, C\n"
            raise RuntimeError(f"{rule}-- QLinearConv-19 with a message:\nWhile validating")
        return names

    def compile_model(self, names: list[str], device: str, options: object) -> Any:
        return lambda inputs: {name: np.zeros(1, np.uint8) for name in names}


OPEN_VINO = SimpleNamespace(Core=_OpenVino)


@pytest.mark.parametrize(("variant", "asked"), [("outputs", 1), ("tensors", 8)])
def test_openvino_is_asked_for_outputs_or_for_tensors(
    monkeypatch: pytest.MonkeyPatch, variant: str, asked: int
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", OPEN_VINO)
    verdict = judge(start("openvino"), MODELS["qdq_u8_per_tensor"], "float32", variant)
    assert (verdict.verdict, verdict.judged) == ("fail", asked)


def test_openvino_declines_what_it_does_not_convert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", OPEN_VINO)
    file = MODELS["products"].case("float32").file
    named = onnxruntime.with_outputs(file, []).SerializeToString().replace(b"last_out", b"row_sums")
    case = replace(MODELS["products"].case("float32"), file=named, outputs=("row_sums",))
    with pytest.raises(Unsupported, match=r"it does not convert a\.B, C, QLinearConv-19"):
        start("openvino").run(case, "outputs")
