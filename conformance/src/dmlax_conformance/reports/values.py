"""Calls, expectations and answers as the suite writes them; large tensors without elements."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ..format import layout, tensors
from ..format.tensors import DTYPES, Tensor
from ..format.vectors import ExpectedError, ExpectedTensor, Vector
from ..operators.answer import with_elements
from ..suite.compare import differences, logical

MOST = 512
FIRST = 16

Json = dict[str, Any]
Expected = Mapping[str, ExpectedTensor]


def call(vector: Vector) -> Json:
    """Return what an implementation is given, and what it must answer."""
    by_desc = {"desc": vector.desc, "feature_level": vector.feature_level}
    return {
        **({"attributes": dict(vector.attributes)} if vector.desc is None else by_desc),
        "inputs": {name: _tensor(tensor) for name, tensor in vector.inputs.items()},
        "outputs": {
            name: {"dtype": asked.dtype, "sizes": list(asked.sizes)}
            for name, asked in vector.outputs.items()
        },
        "expect": _expectation(vector.expect),
    }


def data_types(vector: Vector) -> dict[str, str]:
    """Return the data type of every tensor, in lower case; a desc may name those of no array."""
    if vector.desc is not None:
        named = {name: each for name, each in vector.desc.items() if isinstance(each, dict)}
        return {name: str(each["DataType"]).lower() for name, each in named.items()}
    given = {name: tensor.dtype for name, tensor in vector.inputs.items()}
    return given | {name: asked.dtype for name, asked in vector.outputs.items()}


def got(vector: Vector, answer: Any) -> Json:
    """Return the outputs of an answer; those in a strided buffer as the tensors they hold."""
    if not isinstance(answer, Mapping):
        return {}
    expect = {} if isinstance(vector.expect, ExpectedError) else with_elements(vector).expect
    assert not isinstance(expect, ExpectedError)
    return {
        str(name): _array(_logical(vector, name, value), expect.get(name))
        for name, value in answer.items()
    }


def differing(vector: Vector, answer: Any) -> dict[str, list[int]]:
    """Return the first places where outputs of the right data type and sizes are wrong."""
    found = {
        name: [index for index, _ in islice(differences(want, have), MOST)]
        for name, want, have in _alike(vector, answer)
    }
    return {name: wrong for name, wrong in found.items() if wrong}


def first_differing(vector: Vector, answer: Any) -> dict[str, list[Json]]:
    """Return the first wrong elements of the outputs whose elements are left out."""
    large = [each for each in _alike(vector, answer) if _is_left_out(vector, *each[:2])]
    found = {name: list(_elements(want, have)) for name, want, have in large}
    return {name: wrong for name, wrong in found.items() if wrong}


def _is_left_out(vector: Vector, name: str, want: ExpectedTensor) -> bool:
    assert not isinstance(vector.expect, ExpectedError)
    return len(want.words) > MOST or bool(vector.expect[name].sha256)


def _elements(want: ExpectedTensor, have: tuple[int, ...]) -> Iterator[Json]:
    for index, _ in islice(differences(want, have), FIRST):
        expected, got = _words(want.dtype, (want.words[index], have[index]))
        yield {"index": index, "expected": expected, "got": got}


def _alike(vector: Vector, answer: Any) -> Iterator[tuple[str, ExpectedTensor, tuple[int, ...]]]:
    """Yield the outputs of the right data type and sizes: what is wanted, and the words given."""
    if isinstance(vector.expect, ExpectedError) or not isinstance(answer, Mapping):
        return
    expect = with_elements(vector).expect
    assert not isinstance(expect, ExpectedError)
    for name, want in expect.items():
        have = _logical(vector, name, answer.get(name))
        if (have.dtype.name, have.shape) == (want.dtype, want.sizes):
            yield name, want, tensors.from_numpy(have).words


def _logical(vector: Vector, name: str, value: Any) -> npt.NDArray[Any]:
    """Return the output as an array of its sizes where its buffer can be read."""
    array = _as_array(value)
    desc = vector.desc.get(name) if vector.desc is not None else None
    if not isinstance(desc, dict) or not vector.is_valid or layout.is_packed(desc):
        return array
    if array.shape != layout.array_sizes(desc):
        return array
    return logical(array, desc)


def _rows(tensor: ExpectedTensor) -> int:
    """Return how many rows of a tensor are defined where not all are."""
    return tensor.rows or len(tensor.words) // max(tensor.sizes[-1], 1)


def _as_array(value: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(value)
    except Exception:  # of whatever library the answer comes from
        return np.asarray(None)


def _array(array: npt.NDArray[Any], want: ExpectedTensor | None) -> Json:
    """Return an output; of a large one only the defined rows, if they are few."""
    value: Json = {"dtype": array.dtype.name, "sizes": list(array.shape)}
    if array.dtype.name not in DTYPES:
        return value
    if array.size > MOST and want is not None and want.compare == "exact_rows" and array.ndim:
        array = array.reshape(-1)[: _rows(want) * array.shape[-1]]
    if array.size > MOST:
        return value
    return value | tensors.encode_words(array.dtype.name, tensors.from_numpy(array).words)


def _tensor(tensor: Tensor) -> Json:
    if len(tensor.words) <= MOST or tensor.made_by is not None:
        return tensors.encode(tensor)
    return {"dtype": tensor.dtype, "sizes": list(tensor.sizes)}


def _expectation(expect: Expected | ExpectedError) -> Json:
    if isinstance(expect, ExpectedError):
        also = [{"code": code, "field": field} for code, field in expect.also]
        error = {"code": expect.code, "field": expect.field}
        return {"error": error | ({"also": also} if also else {})}
    return {"outputs": {name: _expected(tensor) for name, tensor in expect.items()}}


def _expected(tensor: ExpectedTensor) -> Json:
    value: Json = {"dtype": tensor.dtype, "sizes": list(tensor.sizes), "compare": tensor.compare}
    if tensor.compare == "exact_rows":
        value["rows"] = _rows(tensor)
    if len(tensor.words) > MOST or tensor.sha256:
        return value
    if tensor.listed:
        value["listed"] = [
            {"index": index, "any_of": _words(tensor.dtype, listed.any_of), "why": listed.why}
            for index, listed in tensor.listed.items()
        ]
    return value | tensors.encode_words(tensor.dtype, tensor.words)


def _words(dtype: str, words: tuple[int, ...]) -> list[Any]:
    (items,) = tensors.encode_words(dtype, words).values()
    return items
