"""The README's examples work, and its tables are those of the suite."""

import re
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import adapters, errors, pytest_plugin
from dmlax_conformance.format import limits
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.program import LONGEST_LINE, MOST_RESTARTS, TIME_LIMIT

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
LABELS = {  # labels of the rows of the table of tensors, by operator
    "convolutions": "convolution",
    "functions and sums": "exact_",
    "pools": "pooling",
    "averages": "average_pooling",
    "matrix products": "matrix_multiply",
    "sums and products of two tensors": "element_wise_quantized_linear",
}


def test_the_adapter_works(
    suite: list[Vector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "readme_adapter.py").write_text(program, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    valid = [v for v in suite if v.is_valid and v.operator == "nonzero_coordinates"]
    with adapters.started("readme_adapter:MyAdapter") as adapter:
        for result in runner.run(adapter, valid, ["eager"]):
            is_asked = result.vector.desc is None and not result.vector.memory
            assert result.verdict == ("exact" if is_asked else "unsupported"), result.vector.id


def test_codes_and_capabilities_are_documented(suite: list[Vector]) -> None:
    assert all(f"`{code}`" in README for code in errors.CODES)
    needs = {need for vector in suite for need in vector.requires if not need.startswith("dtype:")}
    assert all(f"`{need}`" in README for need in needs)


def test_ids_in_commands_exist(suite: list[Vector]) -> None:
    shown = set(re.findall(r"dmlax-conformance show (\S+)", README))
    assert shown
    assert shown <= {vector.id for vector in suite}


def test_limits_are_documented() -> None:
    text = " ".join(README.split())
    assert f"more than {limits.LARGEST_FILE >> 20} MiB" in text
    assert f"beyond {limits.DEEPEST} levels" in text
    assert f"of {limits.MOST_DIGITS} digits or more" in text
    assert f"more than {limits.MOST_DIMENSIONS} dimensions" in text
    assert f"beyond 1 GiB at {limits.HELD} bytes for each element" in text
    assert f"`{limits.MEMORY}`" in text
    assert limits.memory() == 1 << 30
    assert f"longer than {LONGEST_LINE >> 20} MiB" in text
    assert f"After {MOST_RESTARTS} such failures in a row" in text
    assert f"`--time-limit` seconds ({TIME_LIMIT:g})" in text


class Options:
    """Takes down the names of options."""

    def __init__(self) -> None:
        """Start without any."""
        self.names: list[str] = []

    def getgroup(self, *text: str) -> "Options":
        """Return itself, for options are added to a group."""
        return self

    def addoption(self, name: str, **rest: Any) -> None:
        """Note one."""
        self.names.append(name)


def test_options_of_pytest_are_documented() -> None:
    options = Options()
    pytest_plugin.pytest_addoption(options)  # type: ignore[arg-type]
    assert len(options.names) == 13
    assert all(f"`{name}" in README for name in options.names)


def test_every_operator_has_its_formula() -> None:
    lines = README.splitlines()
    for name in OPERATORS:
        assert any(line.startswith((f"| `{name}` |", f"| [`{name}`](")) for line in lines), name


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_tensors_of_calls_are_documented(operator: str, suite: list[Vector]) -> None:
    """An optional output is one of descs alone."""
    calls = [v for v in suite if v.is_valid and v.desc is None and v.operator == operator]
    rows = list(rows_of(operator))
    for row in OPERATORS[operator].tensors:
        if row.kind != "optional output":
            (names, types), *more = [each for each in rows if f"`{row.tensor}`" in each[0]]
            assert not more
            found = [{**v.inputs, **v.outputs}.get(row.tensor) for v in calls]
            assert (None in found) <= ("may be absent" in names), row.tensor
            dtypes = {tensor.dtype for tensor in found if tensor is not None}
            is_anothers = "'s" in types or "that of" in types
            assert is_anothers or all(re.search(rf"\b{each}\b", types) for each in dtypes), names


def rows_of(operator: str) -> list[tuple[str, str]]:
    """Return the names and the data types of the rows about an operator."""
    _, table = README.split("| operators | tensor | data types | sizes |\n|---|---|---|---|\n")
    label, found = "", []
    for line in table.split("\n\n")[0].splitlines():
        first, names, types, _ = (
            line.strip("| ").split(" | ") if line[2] != "|" else ("", *cells(line))
        )
        label = first or label
        if label == f"`{operator}`" or LABELS.get(label, "-") in operator:
            found.append((names, types))
    return found


def cells(line: str) -> list[str]:
    """Return the cells of a line that goes on with the operators above it."""
    return line.removeprefix("| | ").removesuffix(" |").split(" | ")
