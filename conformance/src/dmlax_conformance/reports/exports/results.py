"""Answers that were written to files, as an implementation.

A folder has `<id>.json`, an answer of the protocol without `seq`, or `<id>.<tensor>.npy` for every
output. A flat array stands for the tensor with as many elements, or for its whole buffer.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from ...errors import AdapterFailure, Malformed, NotStartable, Unsupported
from ...format import layout, limits, tensors, vectors
from ...format.tensors import DTYPES
from ...runner import protocol
from ...runner.adapter import Array, Case
from ...runner.run import CAPABILITIES

SUFFIXES = (".json", ".npy")


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
            raise Unsupported("no result")
        kinds = {path.suffix for path in paths}
        if len(kinds) > 1:
            raise Malformed("/", "both JSON and arrays", case.id)
        if kinds == {".json"}:
            answer = {"seq": 1, **vectors.parse(limits.read(paths[0]))}
            protocol.check(answer, "answer")
            if "error" in answer:
                raise AdapterFailure(answer["error"])
            return protocol.outcome(answer)
        named = {path.name.split(".")[1]: path for path in paths}
        return {name: _array(path, case, name) for name, path in named.items()}


def _array(path: Path, case: Case, name: str) -> Array:
    """Return an array; a flat one gets the output's sizes, but in a strided buffer."""
    array: Array = np.load(path, allow_pickle=False)
    desc = (case.desc or {}).get(name)
    is_strided = desc is not None and not layout.is_packed(desc)  # the runner gathers it
    if name not in case.outputs or array.ndim != 1 or is_strided:
        return array
    asked = case.outputs[name]
    width, count = DTYPES[asked.dtype].width // 8, tensors.count(asked.sizes)
    least = (count * width + 3) // 4 * 4
    held = desc["TotalTensorSizeInBytes"] if desc is not None else least
    # The elements of the tensor, or of a whole buffer: of the fewest bytes, or of the desc's.
    whole = array.size in (count, least // width, held // width)
    return array[:count].reshape(asked.sizes) if whole else array
