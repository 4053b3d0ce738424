"""Answers that were written to files, as an implementation.

A folder has, for each vector, `<id>.json` or one `<id>.<tensor>.npy` for each output. The JSON is
an answer of the protocol without its `seq`: `outputs`, `refused`, `unsupported` or `error`. An
array of one dimension stands for the tensor with as many elements, since a buffer has no sizes; it
may be a whole buffer, which DirectML ends at a multiple of 4 bytes.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from ..errors import Malformed, NotStartable, Unsupported
from ..format import layout, limits, tensors, vectors
from ..format.tensors import DTYPES
from ..suite import protocol
from ..suite.adapter import Array, Case
from ..suite.runner import CAPABILITIES

SUFFIXES = (".json", ".npy")
MISSING = "no result"


class FailedElsewhereError(Exception):
    """The error that a result tells of."""


class Results:
    """Answers from files; a vector without one is unsupported."""

    name = "results"
    variants: tuple[str, ...] = ("files",)
    capabilities = CAPABILITIES - {"large"}

    def __init__(self, folder: Path, known: Collection[str]) -> None:
        """Find the files, and refuse those of no vector."""
        if not folder.is_dir():
            raise NotStartable(f"{folder} is not a folder")
        self._files: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(folder.iterdir()):
            if path.suffix in SUFFIXES:
                self._files[path.name.split(".")[0]].append(path)
        unknown = sorted(self._files.keys() - set(known))
        if unknown:
            raise NotStartable(f"{folder}: no vector has the id {', '.join(unknown[:5])}")

    def run(self, case: Case, variant: str) -> Mapping[str, Array]:
        """Return what the files say."""
        paths = self._files.get(case.id, [])
        if not paths:
            raise Unsupported(MISSING)
        kinds = {path.suffix for path in paths}
        if len(kinds) > 1:
            raise Malformed("/", "both JSON and arrays", case.id)
        return _answer(paths[0]) if kinds == {".json"} else _arrays(paths, case)


def _answer(path: Path) -> Mapping[str, Array]:
    text = limits.read(path)
    limits.check_text(text)
    answer = {"seq": 1, **vectors.parse(text)}
    protocol.check(answer, "answer")
    if "error" in answer:
        raise FailedElsewhereError(answer["error"])
    return protocol.outcome(answer)


def _arrays(paths: list[Path], case: Case) -> Mapping[str, Array]:
    return {path.name.split(".")[1]: _array(path, case) for path in paths}


def _array(path: Path, case: Case) -> Array:
    array: Array = np.load(path, allow_pickle=False)
    name = path.name.split(".")[1]
    if name not in case.outputs or array.ndim != 1 or _is_strided(case, name):
        return array
    sizes = case.outputs[name].sizes
    count = tensors.count(sizes)
    return array[:count].reshape(sizes) if array.size in (count, _held(case, name)) else array


def _is_strided(case: Case, name: str) -> bool:
    """Say whether an output stays flat, as the runner gathers it."""
    return case.desc is not None and not layout.is_packed(case.desc[name])


def _held(case: Case, name: str) -> int:
    """Return how many elements the whole buffer of an output has."""
    asked = case.outputs[name]
    width = DTYPES[asked.dtype].width // 8
    if case.desc is not None:
        return int(case.desc[name]["TotalTensorSizeInBytes"]) // width
    return (tensors.count(asked.sizes) * width + 3) // 4 * 4 // width
