"""The vectors as a whole: generated, complete, explained, and covering what was promised."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import cli
from dmlax_conformance.errors import CODES
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.operators.clauses import CLAUSES
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import lint
from dmlax_conformance.suite.generate import driver

Edit = Callable[[dict[str, Any]], Any]


def test_generate_check_notices_every_kind_of_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = vectors_dir() / "convolution_integer"
    stored = {f"{folder.name}/{path.name}": path.read_text() for path in folder.iterdir()}
    monkeypatch.setattr(driver, "files", lambda: stored)
    assert driver.write(tmp_path) == len(stored)
    arguments = ["generate", "--check", "--vectors", str(tmp_path)]
    assert cli.main(arguments) == 0
    first, second, *_ = vectors.find(tmp_path)
    first.write_text(first.read_text() + " ")
    second.rename(second.with_name("other.json"))
    assert len(driver.stale(tmp_path)) == 3
    assert cli.main(arguments) == 3


LINT: dict[str, Edit] = {
    "shares": lambda value: value["vectors"].append(value["vectors"][0]),
    "explained in notes but not used": lambda value: value["notes"].update(Strange="no vector"),
    "not in canonical form": lambda value: None,
    "named after": lambda value: value.update(topic="other"),
}


@pytest.mark.parametrize("message", LINT)
def test_lint_complains(message: str, edited: Callable[[Edit], Path]) -> None:
    found = lint.problems(edited(LINT[message]))
    assert any(message.removeprefix("not in ") in line for line in found)


def test_lint_complains_about_bases(tmp_path: Path) -> None:
    path = tmp_path / "convolution_integer" / "invalid.json"
    path.parent.mkdir()
    text = (vectors_dir() / "convolution_integer" / "invalid.json").read_text()
    path.write_text(text.replace('"twin": "intconv-twin"', '"twin": "qconv-depthwise"', 1))
    assert any("intconv-float-input: twin" in line for line in lint.problems(tmp_path))


BESIDE: dict[str, tuple[str | None, str]] = {
    "names no vector beside it": (None, "nonzero-only-none-of-257"),
    "zeros answer it too": ("nonzero-empty-0", "nonzero-only-none-of-257"),
    "counts alone": ("nonzero-length-31", "nonzero-length-32"),
}


@pytest.mark.parametrize("message", BESIDE)
def test_lint_complains_about_what_zeros_answer(message: str, tmp_path: Path) -> None:
    beside, name = BESIDE[message]
    path = "nonzero_coordinates/sizes.json"
    value = vectors.parse((vectors_dir() / path).read_text())
    (vector,) = (vector for vector in value["vectors"] if vector["id"] == name)
    vector.pop("beside", None)
    vector |= {} if beside is None else {"beside": beside}
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(json.dumps(value))
    assert any(f"{name}: " in line and message in line for line in lint.problems(tmp_path))


def test_every_clause_is_used_and_has_a_valid_vector(suite: list[Vector]) -> None:
    used = {clause for vector in suite if vector.is_valid for clause in vector.clause}
    assert used == set(CLAUSES)


def test_errors_use_the_closed_codes_and_name_a_field(suite: list[Vector]) -> None:
    refused = [vector for vector in suite if isinstance(vector.expect, ExpectedError)]
    codes = {vector.expect.code for vector in refused if isinstance(vector.expect, ExpectedError)}
    assert codes == CODES


TWO_CHANGES = {
    "intconv-groups-do-not-divide": "groups need a filter with fewer channels",
    "intconv-desc-groups-divide": "three output channels need another output",
    "qconv-desc-groups-divide": "three output channels need another output and filter scale",
    "nonzero-input-rank-0-float32": "another number of elements needs other output sizes",
    "nonzero-input-rank-0-uint8": "another number of elements needs other output sizes",
}


TOGETHER = "-together-"  # in the ids of descs in which fields that must agree change together


def test_a_call_differs_from_its_base_in_one_place(suite: list[Vector]) -> None:
    known = {vector.id: vector for vector in suite}
    for vector in suite:
        if vector.base is None:
            continue
        base = known[vector.base]
        changed = [k for k in vector.inputs if vector.inputs[k] != base.inputs.get(k)]
        changed += [k for k in vector.attributes if vector.attributes[k] != base.attributes[k]]
        if vector.desc is not None and base.desc is not None:
            changed = [k for k in vector.desc if vector.desc[k] != base.desc[k]]
            changed += ["FeatureLevel"] * (vector.feature_level != base.feature_level)
        else:
            changed += [k for k in vector.outputs if vector.outputs[k] != base.outputs[k]]
        is_one = len(changed) == 1 or vector.id in TWO_CHANGES or TOGETHER in vector.id
        assert is_one, (vector.id, changed)


COVERED = {
    "nonzero_coordinates": {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    },
    "element_wise_quantize_linear": {"float32", "float16", "int32"},
    "element_wise_dequantize_linear": {"int8", "int16", "int32", "uint8", "uint16", "uint32"},
    "quantized_lookup": {"int8", "uint8"},
    "dynamic_quantize_linear": {"float32", "float16"},
    "quantized_linear_average_pooling": {"int8", "uint8"},
    "quantized_linear_global_average_pooling": {"int8", "uint8"},
    "max_pooling": {
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32"),
    },
}


@pytest.mark.parametrize("operator", COVERED)
def test_data_types_are_covered(operator: str, suite: list[Vector]) -> None:
    mine = [vector for vector in suite if vector.operator == operator and vector.is_valid]
    assert {vector.inputs["InputTensor"].dtype for vector in mine} == COVERED[operator]


def test_convolution_data_types_are_covered(suite: list[Vector]) -> None:
    found = {
        (
            v.inputs["InputTensor"].dtype,
            v.inputs["FilterTensor"].dtype,
            v.outputs["OutputTensor"][0],
        )
        for v in suite
        if v.operator == "quantized_linear_convolution" and v.is_valid
    }
    eight = ("int8", "uint8")
    assert found == {(x, w, y) for x in eight for w in eight for y in eight}


def test_ranks_and_widths_are_covered(suite: list[Vector]) -> None:
    mine = [v for v in suite if v.operator == "nonzero_coordinates" and v.is_valid]
    ranks = {len(vector.inputs["InputTensor"].sizes) for vector in mine}
    widths = {vector.outputs["OutputCoordinatesTensor"].sizes[-1] for vector in mine}
    assert ranks == widths == set(range(1, 9))
    assert max(len(vector.inputs["InputTensor"].words) for vector in mine) > 65_536


def test_extensions_are_declared(suite: list[Vector]) -> None:
    for vector in suite:
        dtypes = {tensor.dtype for tensor in vector.inputs.values()}
        wide = {f"dtype:{dtype}" for dtype in dtypes & {"bool", "int64", "uint64", "float64"}}
        assert wide <= vector.requires or vector.desc is not None, vector.id  # a desc has its own
        if "Overflow" in vector.flags:
            assert "overflow:wrap" in vector.requires, vector.id
