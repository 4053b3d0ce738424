"""What the README shows is true."""

import re
from pathlib import Path
from typing import Any

from dmlax_conformance import errors, runner
from dmlax_conformance.vectors import Vector

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
