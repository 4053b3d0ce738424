"""A hostile file is refused at its place, before anything large is made of it."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance.errors import Malformed, NotStartable
from dmlax_conformance.format import limits, vectors
from dmlax_conformance.paths import vectors_dir

Edit = Callable[[dict[str, Any]], Any]

INPUT = ("vectors", 0, "inputs", "InputTensor")
AT_INPUT = "/vectors/0/inputs/InputTensor"
ROWS = ("OutputCoordinatesTensor",)
LITTLE = 10_000_000  # bytes; the file itself, its objects and the schema are far below


def set_at(*path: Any, to: Any) -> Edit:
    def edit(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return edit


def made(sizes: list[int], **changed: Any) -> dict[str, Any]:
    recipe = {"name": "splitmix64", "seed": "1", "low": 0, "high": 9, "one_in": 1}
    return {"dtype": "int8", "sizes": sizes, "recipe": recipe | changed, "sha256": "0" * 64}


def without_rows(sizes: list[int]) -> Edit:
    """Ask for a huge output of which nothing is defined."""

    def edit(value: Any) -> None:
        vector = value["vectors"][0]
        vector["outputs"]["OutputCoordinatesTensor"]["sizes"] = sizes
        expected = vector["expect"]["outputs"]["OutputCoordinatesTensor"]
        expected |= {"sizes": sizes, "rows": 0, "data": []}

    return edit


def twice(value: Any) -> None:
    value["vectors"].append(value["vectors"][0])


EDITS: dict[str, tuple[Edit, str, str]] = {
    "wrong digest": (set_at(*INPUT, to=made([5])), f"{AT_INPUT}/sha256", "other bytes"),
    "recipe too large": (set_at(*INPUT, to=made([1 << 25])), f"{AT_INPUT}/sizes", "MEMORY"),
    "recipe beyond 64 bits": (set_at(*INPUT, to=made([1 << 70])), f"{AT_INPUT}/sizes", "larger"),
    "product overflows": (set_at(*INPUT, to=made([1 << 33] * 2)), f"{AT_INPUT}/sizes", "larger"),
    "product wraps to 0": (set_at(*INPUT, to=made([1 << 32] * 2)), f"{AT_INPUT}/sizes", "larger"),
    "seed too long": (
        set_at(*INPUT, to=made([5], seed="9" * 3000)),
        f"{AT_INPUT}/recipe/seed",
        "64 bits",
    ),
    "high beyond the type": (set_at(*INPUT, to=made([5], high=128)), f"{AT_INPUT}/recipe", "int8"),
    "data of a huge shape": (
        set_at(*INPUT, "sizes", to=[1 << 25]),
        f"{AT_INPUT}/sizes",
        "MEMORY",
    ),
    "empty and huge": (
        set_at(*INPUT, to={"dtype": "int8", "sizes": [0, 1 << 62], "data": []}),
        f"{AT_INPUT}/sizes",
        "larger",
    ),
    "many dimensions": (set_at(*INPUT, "sizes", to=[1] * 40), f"{AT_INPUT}/sizes", "40 dimensions"),
    "output too large": (
        without_rows([1 << 25, 1]),
        "/vectors/0/outputs/OutputCoordinatesTensor/sizes",
        "MEMORY",
    ),
    "more rows than there are": (
        set_at("vectors", 0, "expect", "outputs", *ROWS, "rows", to=1 << 40),
        "/vectors/0/expect/outputs/OutputCoordinatesTensor/rows",
        "more than there are",
    ),
    "whole decimal": (set_at(*INPUT, "data", 0, to=1.0), f"{AT_INPUT}/data/0", "integer"),
    "truth value": (set_at(*INPUT, "data", 0, to=True), f"{AT_INPUT}/data/0", "integer"),
    "out of range": (set_at(*INPUT, "data", 0, to=10**30), f"{AT_INPUT}/data/0", "outside"),
    "long text": (
        set_at(*INPUT, to={"dtype": "int64", "sizes": [1], "data": ["9" * 5000]}),
        f"{AT_INPUT}/data/0",
        "outside",
    ),
    "duplicate id": (twice, "/vectors/11/id", "is also the id at"),
    "path as operator": (set_at("operator", to="../../etc"), "/operator", "not one of"),
    "path as topic": (set_at("topic", to="../integers"), "/topic", "does not match"),
    "path as id": (set_at("vectors", 0, "id", to="../x"), "/vectors/0/id", "does not match"),
    "a newline in an id": (
        lambda value: value["vectors"][0].update(id=value["vectors"][0]["id"] + "\n"),
        "/vectors/0/id",
        r"\n is not to be printed",
    ),
    "a surrogate in a comment": (
        set_at("vectors", 1, "comment", to="a comment \ud800"),
        "/vectors/1/comment",
        r"\ud800 is not to be printed",
    ),
    "an escape in a comment": (
        set_at("vectors", 1, "comment", to="a \x1b[31mred comment"),
        "/vectors/1/comment",
        r"\x1b is not to be printed",
    ),
    "an escape in a key": (
        lambda value: value["notes"].update({"Odd\x07": "no such flag"}),
        "/notes",
        "",
    ),
    "an unknown clause": (
        lambda value: value["vectors"][2]["clause"].append("NZC-99"),
        "/vectors/2/clause",
        "NZC-99 is not explained in clauses",
    ),
    "an unknown flag": (
        lambda value: value["vectors"][2]["flags"].append("Strange"),
        "/vectors/2/flags",
        "Strange is not explained in notes",
    ),
    "its own pair": (
        lambda value: value["vectors"][0].update(beside=value["vectors"][0]["id"]),
        "/vectors/0/beside",
        "is the vector itself",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refused(name: str, edited: Callable[[Edit], Path], good: str) -> None:
    edit, pointer, message = EDITS[name]
    root = edited(edit)
    caught = refusal(root)
    assert caught.file == str(root / good)
    assert caught.position == pointer
    assert message in caught.message


def refusal(root: Path) -> Malformed:
    """Return how a suite is refused, having made sure that little memory was taken."""
    vectors.load(vectors_dir() / "nonzero_coordinates" / "page.json")  # the schema stays in memory
    tracemalloc.start()
    try:
        with pytest.raises(Malformed) as caught:
            vectors.load_all(root)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LITTLE
    return caught.value


TEXTS: dict[str, tuple[bytes, str, str]] = {
    "deep lists": (b'{"vectors":\n' + b"[" * 100_000, "2:32", "nested"),
    "deep objects": (b'{"a":' * 100_000, "1:161", "nested"),
    "deep and closed": (b"[" * 5000 + b"]" * 5000, "1:33", "nested"),
    "a string without an end": (b'["' + b'\\"' * 100_000, "1:2", "Unterminated"),
    "brackets in a string": (b'"' + b"[" * 1000 + b'"', "/", "is not of type 'object'"),
    "many digits": (b'{\n"schema": -' + b"9" * 5000 + b"}", "2:12", "digits"),
    "infinity": (b'{"schema": Infinity}', "1:12", "token Infinity is not JSON"),
    "not UTF-8": (b'{"schema": "\xff"}', "byte 12", "UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf{}", "1:1", "BOM"),
    "empty": (b"", "1:1", "Expecting value"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_refused(name: str, tmp_path: Path) -> None:
    raw, position, message = TEXTS[name]
    path = tmp_path / "nonzero_coordinates" / "text.json"
    path.parent.mkdir()
    path.write_bytes(raw)
    caught = refusal(tmp_path)
    assert (caught.file, caught.position) == (str(path), position)
    assert message in caught.message


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "nonzero_coordinates" / "large.json"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert f"more than {limits.LARGEST_FILE} bytes" in str(refusal(tmp_path))


def test_a_link_does_not_lead_out(tmp_path: Path, good: str) -> None:
    root = tmp_path / "suite"
    (root / "nonzero_coordinates").mkdir(parents=True)
    link = root / "nonzero_coordinates" / "integers.json"
    link.symlink_to(vectors_dir() / good)
    caught = refusal(root)
    assert (caught.file, caught.message) == (str(link), f"leads out of {root}")


def test_a_linked_folder_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "nonzero_coordinates").symlink_to(vectors_dir() / "nonzero_coordinates")
    assert "leads out of" in str(refusal(tmp_path))


def test_the_suite_itself_may_be_a_link(tmp_path: Path, edited: Callable[[Edit], Path]) -> None:
    root = tmp_path / "link"
    root.symlink_to(edited(lambda value: None))
    assert vectors.load_all(root)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "nonzero_coordinates").mkdir()
    os.mkfifo(tmp_path / "nonzero_coordinates" / "pipe.json")
    assert "is not a regular file" in str(refusal(tmp_path))


@pytest.mark.parametrize("place", ["nonzero_coordinates", "nonzero_coordinates/loop.json"])
def test_a_loop_of_links_is_not_followed(place: str, tmp_path: Path) -> None:
    link = tmp_path / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(link)
    if link.suffix:
        assert str(refusal(tmp_path)).startswith(f"{link}:/: ")
    else:
        assert vectors.load_all(tmp_path) == []
    with pytest.raises(Malformed, match=r"link|regular file"):
        vectors.load(link)


def test_an_id_is_unique_among_files(tmp_path: Path, good: str) -> None:
    text = (vectors_dir() / good).read_text()
    folder = tmp_path / "nonzero_coordinates"
    folder.mkdir()
    (folder / "a.json").write_text(text)
    (folder / "b.json").write_text(text)
    caught = refusal(tmp_path)
    assert (caught.file, caught.position) == (str(folder / "b.json"), "/vectors/0/id")
    assert str(folder / "a.json") in caught.message


def test_the_environment_sets_the_memory(
    edited: Callable[[Edit], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = edited(set_at(*INPUT, to=made([1000])))
    monkeypatch.setenv(limits.MEMORY, "39999")
    assert "needs 40000 bytes, more than 39999" in str(refusal(root))
    monkeypatch.setenv(limits.MEMORY, "40000")
    assert "other bytes" in str(refusal(root))
    monkeypatch.setenv(limits.MEMORY, "much")
    with pytest.raises(NotStartable, match="'much' is not a number of bytes"):
        vectors.load_all(root)


DESC = "element_wise_dequantize_linear/desc-strides.json"


def is_strided(vector: dict[str, Any]) -> bool:
    return "outputs" in vector["expect"] and bool(vector["desc"]["OutputTensor"]["Strides"])


def test_a_desc_does_not_ask_for_a_huge_buffer(tmp_path: Path) -> None:
    value = json.loads((vectors_dir() / DESC).read_text())
    at, vector = next((i, v) for i, v in enumerate(value["vectors"]) if is_strided(v))
    vector["desc"]["OutputTensor"]["TotalTensorSizeInBytes"] = 1 << 40
    path = tmp_path / DESC
    path.parent.mkdir()
    path.write_text(json.dumps(value))
    assert refusal(tmp_path).position == f"/vectors/{at}/desc/OutputTensor"
