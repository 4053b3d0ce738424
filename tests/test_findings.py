"""Findings: the first lines of each script are a row of docs/elsewhere.md."""

import re
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(set((ROOT / "findings").glob("*.sh")) - {ROOT / "findings/environment.sh"})
UPSTREAM = sorted((ROOT / "docs/upstream").glob("*.md"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_begins_with_its_row_and_pins_what_it_names(script):
    first, *lines = script.read_text("utf-8").splitlines()
    assert first == "#!/usr/bin/env bash"
    top = takewhile(lambda line: line.startswith("# "), lines)
    cells = " ".join(line[2:] for line in top).split(" | ")
    assert len(cells) == 5
    assert all(cell.strip() and cell[0] != " " for cell in cells)
    version = re.match(r"[\d.]+", cells[1])
    assert version
    assert f"=={version[0]}" in script.read_text("utf-8")
    assert re.search(r"\bassert |SystemExit\(|^\[ ", script.read_text("utf-8"), re.M)
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_a_text_for_maintainers_is_short_and_has_versions_a_program_and_both_answers():
    assert len(UPSTREAM) == 10
    for path in UPSTREAM:
        text = path.read_text("utf-8")
        assert len(text.splitlines()) <= 35, path
        assert re.search(r"^# .+\n\nFor \[.+\]\(https://github.com/.+/issues\)", text), path
        assert re.search(r"Versions:[^.]*\s\d+\.\d+", text), path
        assert "Printed" in text, path
        assert re.search("[Ee]xpected", text.rpartition("```")[2]), path
        (program,) = re.findall(r"```python\n(.*?)```", text, re.S)
        compile(program, str(path), "exec")
