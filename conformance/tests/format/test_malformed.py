"""A broken file is refused with its name and the place where it is broken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import cli
from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import vectors
from dmlax_conformance.paths import vectors_dir

Edit = Callable[[dict[str, Any]], Any]

FIRST = ("vectors", 0, "inputs", "InputTensor")


def set_at(*path: Any, to: Any) -> Edit:
    def edit(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return edit


CASES = {
    "unknown key": (set_at("extra", to=1), "/"),
    "unknown key inside": (set_at("vectors", 0, "extra", to=1), "/vectors/0"),
    "unknown operator": (set_at("operator", to="identity"), "/operator"),
    "unknown input": (set_at("vectors", 0, "inputs", "BiasTensor", to={}), "/vectors/0/inputs"),
    "unknown code": (
        set_at("vectors", 0, "expect", to={"error": {"code": "bad", "field": "InputTensor"}}),
        "/vectors/0",
    ),
    "decimal float": (set_at(*FIRST, "data", 1, to=1.5), "/vectors/0/inputs/InputTensor/data/1"),
    "string": (set_at(*FIRST, "data", 1, to="1"), "/vectors/0/inputs/InputTensor/data/1"),
    "out of range": (set_at(*FIRST, "data", 3, to=500), "/vectors/0/inputs/InputTensor/data/3"),
    "wrong length": (set_at(*FIRST, "data", to=[1, 2]), "/vectors/0/inputs/InputTensor/data"),
    "bits of an integer": (
        set_at(*FIRST, to={"dtype": "int8", "sizes": [1], "bits": ["00"]}),
        "/vectors/0/inputs/InputTensor",
    ),
    "bad hex": (
        set_at(*FIRST, to={"dtype": "float32", "sizes": [1], "bits": ["3F800000"]}),
        "/vectors/0/inputs/InputTensor/bits/0",
    ),
    "short hex": (
        set_at(*FIRST, to={"dtype": "float16", "sizes": [1], "bits": ["3c0"]}),
        "/vectors/0/inputs/InputTensor/bits/0",
    ),
    "expectation not asked for": (
        set_at("vectors", 0, "outputs", "OutputCountTensor", "sizes", to=[2]),
        "/vectors/0/expect/outputs/OutputCountTensor",
    ),
    "rows without the mode": (
        set_at("vectors", 0, "expect", "outputs", "OutputCountTensor", "rows", to=1),
        "/vectors/0/expect/outputs/OutputCountTensor/rows",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_names_file_and_pointer(name: str, edited: Callable[[Edit], Path], good: str) -> None:
    edit, pointer = CASES[name]
    root = edited(edit)
    with pytest.raises(Malformed) as caught:
        vectors.load_all(root)
    assert caught.value.file == str(root / good)
    assert caught.value.position.startswith(pointer)
    assert str(caught.value).startswith(f"{root / good}:{pointer}")


TEXTS = {
    "twice inside": ('{"a": {"b": 1},\n "c": [{"b": "{", "b": 2}]}', "2:19"),
    "syntax": ('{\n  "schema": oops\n}', "2:13"),
    "truncated": ('{\n  "schema": ', "2:13"),
    "nan": ('{"schema": NaN}', "1:12"),
    "twice": ('{"schema": 1, "schema": 2}', "1:15"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_names_file_and_line(name: str, tmp_path: Path) -> None:
    text, position = TEXTS[name]
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(Malformed) as caught:
        vectors.load(path)
    assert (caught.value.file, caught.value.position) == (str(path), position)


def test_the_command_exits_with_3(
    edited: Callable[[Edit], Path], good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = edited(set_at("extra", to=1))
    code = cli.main(["run", "--implementation", "oracle", "--vectors", str(root)])
    assert code == 3
    assert str(root / good) in capsys.readouterr().err


def test_the_unchanged_copy_is_fine(edited: Callable[[Edit], Path], good: str) -> None:
    root = edited(lambda value: None)
    assert len(vectors.load_all(root)) == len(vectors.load(vectors_dir() / good))
