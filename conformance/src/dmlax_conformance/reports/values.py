"""Calls, expectations and answers as the suite writes them; large tensors without elements."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ..format import layout, tensors
from ..format.tensors import DTYPES, Tensor
from ..format.vectors import ExpectedError, ExpectedTensor, Request, Vector
from ..oracle.calls import with_elements
from ..runner.compare import differences, logical

MOST = 512
FIRST = 16

Json = dict[str, Any]
Expected = Mapping[str, ExpectedTensor]


def call(vector: Vector) -> Json:
    """Return what an implementation is given, and what it must answer."""
    by_desc = {"desc": vector.desc, "feature_level": vector.feature_level}
    return {
        **({"attributes": dict(vector.attributes)} if vector.desc is None else by_desc),
        "inputs": {
            name: tensors.encode(x) if x.made_by is not None or len(x.words) <= MOST else _form(x)
            for name, x in vector.inputs.items()
        },
        "outputs": {name: _form(asked) for name, asked in vector.outputs.items()},
        "expect": _expectation(vector.expect),
    }


def data_types(vector: Vector) -> dict[str, str]:
    """Return the data type of every tensor, in lower case; a desc may name those of no array."""
    if vector.desc is not None:
        named = {name: each for name, each in vector.desc.items() if isinstance(each, dict)}
        return {name: str(each["DataType"]).lower() for name, each in named.items()}
    given = {name: tensor.dtype for name, tensor in vector.inputs.items()}
    return given | {name: asked.dtype for name, asked in vector.outputs.items()}


def evidence(vector: Vector, answer: Any) -> Json:
    """Return the call, what was answered, and where outputs of the right form are wrong.

    `got` has the outputs of the answer; one in a strided buffer is the tensor that it holds.
    `differs` has the first wrong places, and `first` the first wrong elements of the outputs whose
    elements are left out.
    """
    expect = with_elements(vector).expect if vector.is_valid else {}
    assert not isinstance(expect, ExpectedError)
    given = answer if isinstance(answer, Mapping) else {}
    arrays = {str(name): _logical(vector, name, value) for name, value in given.items()}
    forms = {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    wrong = {
        name: list(_wrong(want, arrays[name]))
        for name, want in expect.items()
        if forms.get(name) == (want.dtype, want.sizes)
    }
    told = call(vector)
    shown = told["expect"].get("outputs", {})
    return {
        **told,
        "got": {name: _array(array, expect.get(name)) for name, array in arrays.items()},
        "differs": {name: [each["index"] for each in own] for name, own in wrong.items() if own},
        "first": {
            name: own[:FIRST]
            for name, own in wrong.items()
            if own and not {"data", "bits"} & shown[name].keys()
        },
    }


def _wrong(want: ExpectedTensor, array: npt.NDArray[Any]) -> Iterator[Json]:
    """Yield the first wrong elements."""
    have = tensors.from_numpy(array).words
    for index, _ in islice(differences(want, have), MOST):
        expected, got = _words(want.dtype, (want.words[index], have[index]))
        yield {"index": index, "expected": expected, "got": got}


def _logical(vector: Vector, name: str, value: Any) -> npt.NDArray[Any]:
    """Return the output as an array of its sizes where its buffer can be read."""
    try:
        array = np.asarray(value)
    except Exception:  # the answer's library raises any
        return np.asarray(None)
    desc: Any = (vector.desc or {}).get(name)
    is_strided = isinstance(desc, dict) and vector.is_valid and not layout.is_packed(desc)
    if not is_strided or array.shape != layout.array_sizes(desc):
        return array
    return logical(array, desc)


def _rows(tensor: ExpectedTensor) -> int:
    """Return how many rows of a tensor are defined where not all are."""
    return tensor.rows or len(tensor.words) // max(tensor.sizes[-1], 1)


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


def _form(tensor: Tensor | Request | ExpectedTensor) -> Json:
    return {"dtype": tensor.dtype, "sizes": list(tensor.sizes)}


def _expectation(expect: Expected | ExpectedError) -> Json:
    if isinstance(expect, ExpectedError):
        also = [{"code": code, "field": field} for code, field in expect.also]
        error = {"code": expect.code, "field": expect.field}
        return {"error": error | ({"also": also} if also else {})}
    return {"outputs": {name: _expected(tensor) for name, tensor in expect.items()}}


def _expected(tensor: ExpectedTensor) -> Json:
    value = _form(tensor) | {"compare": tensor.compare}
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
