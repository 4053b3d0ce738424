"""The README's examples work."""

import re
from pathlib import Path
from typing import Any

from dmlax_conformance import errors, pytest_plugin
from dmlax_conformance.adapters.child import LONGEST_LINE, TIME_LIMIT
from dmlax_conformance.adapters.process import MOST_RESTARTS
from dmlax_conformance.format import limits
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.suite import runner

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_adapter_works(suite: list[Vector]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    valid = [vector for vector in suite if vector.is_valid]
    for result in runner.run(names["MyAdapter"](), valid, ["eager"]):
        is_mine = result.vector.operator == "nonzero_coordinates" and result.vector.desc is None
        assert result.verdict == ("exact" if is_mine else "unsupported"), result.vector.id


def test_codes_and_capabilities_are_documented(suite: list[Vector]) -> None:
    assert all(f"`{code}`" in README for code in errors.CODES)
    needs = {need for vector in suite for need in vector.requires if not need.startswith("dtype:")}
    assert all(f"`{need}`" in README for need in needs)


def test_ids_in_commands_exist(suite: list[Vector]) -> None:
    shown = set(re.findall(r"dmlax-conformance show (\S+)", README))
    assert shown
    assert shown <= {vector.id for vector in suite}


def test_the_program_is_the_one_that_is_tested() -> None:
    (shown,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    example = Path(__file__).parents[1] / "examples" / "nonzero_lines.py"
    assert example.read_text(encoding="utf-8").endswith(f'"""\n\n{shown}')


def test_limits_are_documented() -> None:
    assert f"| {limits.LARGEST_FILE >> 20} MiB" in README
    assert f"| {limits.DEEPEST} levels |" in README
    assert f"fewer than {limits.MOST_DIGITS} |" in README
    assert f"| dimensions | {limits.MOST_DIMENSIONS} |" in README
    assert f"1 GiB at {limits.HELD} bytes for each element; the environment variable" in README
    assert f"`{limits.MEMORY}`" in README
    assert limits.memory() == 1 << 30
    assert f"longer than {LONGEST_LINE >> 20} MiB" in README
    assert f"After {MOST_RESTARTS} such failures in a row" in README
    assert f"`--time-limit` seconds ({TIME_LIMIT:g})" in README


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
    assert len(options.names) == 10
    assert all(name in README for name in options.names)


def test_the_tensors_of_calls_are_documented(suite: list[Vector]) -> None:
    """The sizes are in words; data types and what may be absent are those of the vectors.

    An optional output is one of descs alone.
    """
    for operator in OPERATORS:
        calls = [v for v in suite if v.is_valid and v.desc is None and v.operator == operator]
        _, table = README.split(f"\n| `{operator}` | data types | sizes |\n|---|---|---|\n")
        lines = [line.split(" | ")[:2] for line in table.split("\n\n")[0].splitlines()]
        shown = [(name, types.split(": ")[0]) for name, types in lines]
        rows = [row for row in OPERATORS[operator].tensors if row.kind != "optional output"]
        assert shown == [described(row.tensor, calls) for row in rows]


def described(name: str, calls: list[Vector]) -> tuple[str, str]:
    found = [{**vector.inputs, **vector.outputs}.get(name) for vector in calls]
    plain = {t.dtype for v, t in zip(calls, found, strict=True) if t and not starred(v, t.dtype)}
    types = sorted({tensor.dtype for tensor in found if tensor is not None})
    shown = ", ".join(each if each in plain else f"{each}*" for each in types)
    return f"| `{name}`{', may be absent' if None in found else ''}", shown


def starred(vector: Vector, dtype: str) -> bool:
    return f"dtype:{dtype}" in vector.requires
