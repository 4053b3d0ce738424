"""A vector file that is broken, wrongly typed or hostile is refused with its name and place."""

import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance.errors import Malformed, NotStartable
from dmlax_conformance.format import limits, vectors
from dmlax_conformance.format.json_schema import pointer
from dmlax_conformance.paths import vectors_dir

Edit = Callable[[dict[str, Any]], Any]
Write = Callable[[str, Edit], Path]

GOOD = "nonzero_coordinates/core/integers.json"
DESCS = "element_wise_quantize_linear/core/desc-strides.json"
FIRST, SECOND = ("vectors", 0), ("vectors", 1)
INPUTS, INPUT = (*FIRST, "inputs"), (*FIRST, "inputs", "InputTensor")
AT, AT_INPUT = pointer(*FIRST), pointer(*INPUT)
OUTPUTS = (*FIRST, "expect", "outputs")
ROWS = (*OUTPUTS, "OutputCoordinatesTensor", "rows")
DESC = (*FIRST, "desc")
IMAGE = (*DESC, "InputTensor")
AT_DESC = pointer(*DESC)
ABSENT = object()
LITTLE = 10_000_000  # bytes; the file itself, its objects and the schema are far below


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that copies a file, changes it, and returns the copy."""

    def write_changed(name: str, edit: Edit) -> Path:
        value = json.loads((vectors_dir() / name).read_text(encoding="utf-8"))
        edit(value)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write_changed


def refusal(root: Path) -> Malformed:
    """Return how a suite is refused, having made sure that little memory was taken."""
    vectors.load(vectors_dir() / GOOD)  # the schema stays in memory
    tracemalloc.start()
    try:
        with pytest.raises(Malformed) as caught:
            vectors.load_all(root)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LITTLE
    return caught.value


VALUES: list[Any] = [None, True, 5, 1.5, "text", ["text"], {"key": None}]
FILES = [
    GOOD,
    "quantized_linear_convolution/core/groups.json",
    "quantized_linear_average_pooling/core/desc-strides.json",
]


def places(value: Any, *at: object) -> Iterator[tuple[object, ...]]:
    """Yield where the values of a file are; of a list its first item stands for all."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, member in value.items():
            yield from places(member, *at, key)
    if isinstance(value, list) and value:
        yield from places(value[0], *at, 0)


@pytest.mark.parametrize("name", FILES)
def test_a_value_of_another_type_is_refused_at_its_place(name: str, write: Write) -> None:
    """Each place gets three of the values, by turns."""
    good = json.loads((vectors_dir() / name).read_text(encoding="utf-8"))
    good["vectors"] = [next(each for each in good["vectors"] if "beside" not in each)]
    path, values, tried = write(name, lambda value: None), cycle(VALUES), 0
    for *parents, last in places(good):
        holder: Any = good
        for part in parents:
            holder = holder[part]
        right = holder[last]
        is_strides = last == "Strides" and "desc" in parents  # null means packed
        for wrong in islice(values, 3):
            if type(wrong) is not type(right) and not (is_strides and wrong is None):
                holder[last] = wrong
                path.write_text(json.dumps(good), encoding="utf-8")
                with pytest.raises(Malformed) as caught:
                    vectors.load(path)
                assert caught.value.file == str(path)
                assert caught.value.position.startswith(pointer(*parents[:4])), (parents, wrong)
                tried += 1
        holder[last] = right
    assert tried > 100


def put(*path: Any, to: Any) -> Edit:
    """Return an edit that sets the value at a path, or takes it away."""

    def edit(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to
        if to is ABSENT:
            del value[path[-1]]

    return edit


def made(sizes: list[int], **changed: Any) -> dict[str, Any]:
    recipe = {"name": "splitmix64", "seed": "1", "low": 0, "high": 9, "one_in": 1}
    return {"dtype": "int8", "sizes": sizes, "recipe": recipe | changed, "sha256": "0" * 64}


def tensor(dtype: str, **words: Any) -> Edit:
    return put(*INPUT, to={"dtype": dtype, "sizes": [1], **words})


HUGE = {"dtype": "int8", "sizes": [0, 1 << 62], "data": []}
COUNT_ROWS = (*OUTPUTS, "OutputCountTensor", "rows")
EDITS: dict[str, tuple[Edit, str, str]] = {  # the place, and the message if the place is exact
    "unknown key": (put("extra", to=1), "/", "extra"),
    "unknown key inside": (put(*FIRST, "extra", to=1), AT, "extra"),
    "unknown operator": (put("operator", to="identity"), "/operator", "not one of"),
    "unknown input": (put(*INPUTS, "BiasTensor", to=made([5])), f"{AT}/inputs", "not one of Input"),
    "missing input": (put(*INPUTS, to={}), f"{AT}/inputs", "has no InputTensor"),
    "wrong length": (put(*INPUT, "data", to=[1, 2]), f"{AT_INPUT}/data", "sizes ask for"),
    "bits of an integer": (tensor("int8", bits=["00"]), AT_INPUT, ""),
    "upper-case bits": (tensor("float32", bits=["3F800000"]), f"{AT_INPUT}/bits/0", "match"),
    "rows without the mode": (put(*COUNT_ROWS, to=1), pointer(*COUNT_ROWS), "not allowed"),
    "too many rows": (put(*ROWS, to=1 << 40), pointer(*ROWS), "more than there are"),
    "wrong digest": (put(*INPUT, to=made([5])), f"{AT_INPUT}/sha256", "other bytes"),
    "recipe too large": (put(*INPUT, to=made([1 << 25])), f"{AT_INPUT}/sizes", "MEMORY"),
    "product overflows": (put(*INPUT, to=made([1 << 33] * 2)), f"{AT_INPUT}/sizes", "larger"),
    "high beyond the type": (put(*INPUT, to=made([5], high=128)), f"{AT_INPUT}/recipe", "int8"),
    "data of a huge shape": (put(*INPUT, "sizes", to=[1 << 25]), f"{AT_INPUT}/sizes", "MEMORY"),
    "empty and huge": (put(*INPUT, to=HUGE), f"{AT_INPUT}/sizes", "larger"),
    "many dimensions": (put(*INPUT, "sizes", to=[1] * 40), f"{AT_INPUT}/sizes", "40 dimensions"),
    "out of range": (put(*INPUT, "data", 0, to=10**30), f"{AT_INPUT}/data/0", "outside"),
    "long text": (tensor("int64", data=["9" * 5000]), f"{AT_INPUT}/data/0", "outside"),
    "duplicate id": (lambda x: x["vectors"].append(x["vectors"][0]), "/vectors/11/id", "is also"),
    "path as operator": (put("operator", to="../../etc"), "/operator", "does not match"),
    "a newline in an id": (put(*FIRST, "id", to="nonzero-a\n"), f"{AT}/id", r"\n is not to be"),
    "half a character": (put(*FIRST, "comment", to="surrogate \ud800"), f"{AT}/comment", r"\ud800"),
    "an escape in a key": (put("notes", "Odd\x07", to="no such flag"), "/notes", "key"),
    "an unknown clause": (put(*FIRST, "clause", 0, to="NZC-99"), f"{AT}/clause", "not explained"),
    "its own pair": (
        lambda value: value["vectors"][0].update(beside=value["vectors"][0]["id"]),
        f"{AT}/beside",
        "is the vector itself",
    ),
}
ALSO, LEVEL = (*SECOND, "expect", "error", "also"), (*FIRST, "feature_level")
OF_DESCS: dict[str, tuple[Edit, str, str]] = {
    "no level": (put(*LEVEL, to=ABSENT), AT, ""),
    "no such level": (put(*LEVEL, to="7_0"), f"{AT}/feature_level", ""),
    "level without a desc": (put(*DESC, to=ABSENT), AT, ""),
    "attributes": (put(*FIRST, "attributes", to={"GroupCount": 1}), f"{AT}/attributes", ""),
    "capability": (put(*FIRST, "requires", to=["strides"]), f"{AT}/requires", ""),
    "absent field": (put(*DESC, "ScaleTensor", to=ABSENT), AT_DESC, ""),
    "unknown field": (put(*DESC, "BiasTensor", to=None), AT_DESC, ""),
    "absent key": (put(*IMAGE, "Flags", to=ABSENT), f"{AT_DESC}/InputTensor", ""),
    "unknown type": (put(*IMAGE, "DataType", to="FLOAT"), pointer(*IMAGE, "DataType"), ""),
    "strides": (put(*IMAGE, "Strides", to="1"), pointer(*IMAGE, "Strides"), ""),
    "size below 0": (put(*IMAGE, "Sizes", 0, to=-1), pointer(*IMAGE, "Sizes", 0), ""),
    "flags": (put(*IMAGE, "Flags", to=0), pointer(*IMAGE, "Flags"), ""),
    "no input": (put(*INPUT, to=ABSENT), f"{AT_DESC}/InputTensor", ""),
    "no desc": (put(*DESC, "ZeroPointTensor", to=None), f"{AT_DESC}/ZeroPointTensor", ""),
    "length": (put(*IMAGE, "TotalTensorSizeInBytes", to=256), AT_INPUT, ""),
    "a huge length": (put(*IMAGE, "TotalTensorSizeInBytes", to=1 << 40), pointer(*IMAGE), ""),
    "packed, but flat": (put(*IMAGE, "Strides", to=None), AT_INPUT, ""),
    "another type": (put(*IMAGE, "DataType", to="INT32"), pointer(*IMAGE), ""),
    "sizes": (put(*DESC, "OutputTensor", "Sizes", to=[2, 3, 2]), f"{AT}/outputs/OutputTensor", ""),
    "also": (put(*ALSO, to=[{"code": "sizes"}]), pointer(*ALSO, 0), ""),
}


@pytest.mark.parametrize("name", [*EDITS, *OF_DESCS])
def test_an_edit_is_refused(name: str, write: Write, tmp_path: Path) -> None:
    edit, position, message = EDITS.get(name) or OF_DESCS[name]
    path = write(GOOD if name in EDITS else DESCS, edit)
    caught = refusal(tmp_path)
    assert caught.file == str(path)
    assert caught.position == position or (not message and caught.position.startswith(position))
    assert message in caught.message


def test_an_unchanged_copy_behind_a_link_is_fine(write: Write, tmp_path: Path) -> None:
    write(GOOD, lambda value: None)
    link = tmp_path.with_name(f"{tmp_path.name}-link")
    link.symlink_to(tmp_path)
    assert len(vectors.load_all(link)) == len(vectors.load(vectors_dir() / GOOD))


def test_the_environment_sets_the_memory(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD, put(*INPUT, to=made([1000])))
    monkeypatch.setenv(limits.MEMORY, "39999")
    assert "needs 40000 bytes, more than 39999" in str(refusal(tmp_path))
    monkeypatch.setenv(limits.MEMORY, "40000")
    assert "other bytes" in str(refusal(tmp_path))
    monkeypatch.setenv(limits.MEMORY, "much")
    with pytest.raises(NotStartable, match="'much' is not a number of bytes"):
        vectors.load_all(tmp_path)


TEXTS: dict[str, tuple[bytes, str, str]] = {
    "twice inside": (b'{"a": {"b": 1},\n "c": [{"b": "{", "b": 2}]}', "2:19", "twice"),
    "deep lists": (b'{"vectors":\n' + b"[" * 100_000, "2:32", "nested"),
    "a string without an end": (b'["' + b'\\"' * 100_000, "1:2", "Unterminated"),
    "brackets in a string": (b'"' + b"[" * 1000 + b'"', "/", "object"),
    "many digits": (b'{\n"schema": -' + b"9" * 5000 + b"}", "2:12", "digits"),
    "not UTF-8": (b'{"schema": "\xff"}', "byte 12", "UTF-8"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder for an operator's files."""
    path = tmp_path / "nonzero_coordinates"
    path.mkdir()
    return path


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_refused(name: str, folder: Path) -> None:
    raw, position, message = TEXTS[name]
    path = folder / "text.json"
    path.write_bytes(raw)
    caught = refusal(folder.parent)
    assert (caught.file, caught.position) == (str(path), position)
    assert message in caught.message


def test_neither_a_large_file_nor_a_pipe_is_read(folder: Path) -> None:
    large = folder / "large.json"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    assert f"more than {limits.LARGEST_FILE} bytes" in str(refusal(folder.parent))
    large.unlink()
    os.mkfifo(folder / "pipe.json")
    assert "is not a regular file" in str(refusal(folder.parent))


@pytest.mark.parametrize("place", ["nonzero_coordinates", GOOD])
def test_a_link_does_not_lead_out(place: str, tmp_path: Path) -> None:
    link = tmp_path / "suite" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(vectors_dir() / place)
    assert refusal(tmp_path / "suite").message == f"leads out of {tmp_path / 'suite'}"


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


def test_an_id_is_unique_among_files(folder: Path) -> None:
    for name in ("a.json", "b.json"):
        (folder / name).write_text((vectors_dir() / GOOD).read_text())
    caught = refusal(folder.parent)
    assert (caught.file, caught.position) == (str(folder / "b.json"), f"{AT}/id")
    assert str(folder / "a.json") in caught.message
