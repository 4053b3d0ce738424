"""Tensors as words: an integer element is its value, a float element is its bit pattern."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import Malformed
from . import limits, recipe


class DType(NamedTuple):
    """A kind of element and its width: `kind` is `bool`, `int`, `uint` or `bits`."""

    kind: str
    width: int

    @property
    def low(self) -> int:
        """Smallest word."""
        return -(1 << (self.width - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> int:
        """Largest word."""
        if self.kind == "bool":
            return 1
        return (1 << (self.width - (self.kind == "int"))) - 1


DTYPES: dict[str, DType] = {
    "bool": DType("bool", 8),
    **{f"int{width}": DType("int", width) for width in (8, 16, 32, 64)},
    **{f"uint{width}": DType("uint", width) for width in (8, 16, 32, 64)},
    **{f"float{width}": DType("bits", width) for width in (16, 32, 64)},
    "complex64": DType("bits", 64),
}


_HEX = re.compile("[0-9a-f]*")


@dataclass(frozen=True)
class Tensor:
    """A dense tensor, flat and row-major; `made_by` remembers the recipe of a large one.

    A sparse one may be larger than any list of its words, and has none.
    """

    dtype: str
    sizes: tuple[int, ...]
    words: tuple[int, ...]
    made_by: recipe.Recipe | recipe.Sparse | recipe.Cycle | None = None

    @property
    def is_sparse(self) -> bool:
        """True if only the recipe says what the elements are."""
        return isinstance(self.made_by, recipe.Sparse)


def count(sizes: Iterable[int]) -> int:
    """Return the number of elements."""
    return prod(sizes)


def from_recipe(
    dtype: str, sizes: tuple[int, ...], made_by: recipe.Recipe | recipe.Cycle
) -> Tensor:
    """Build a large tensor from its recipe."""
    return Tensor(dtype, sizes, recipe.expand(made_by, count(sizes)), made_by)


def sparse(dtype: str, sizes: tuple[int, ...], made_by: recipe.Sparse) -> Tensor:
    """Describe a tensor that only an array can hold."""
    return Tensor(dtype, sizes, (), made_by)


def to_numpy(tensor: Tensor) -> npt.NDArray[Any]:
    """Return the array with exactly these bits."""
    if isinstance(tensor.made_by, recipe.Sparse):
        flat = np.zeros(count(tensor.sizes), tensor.dtype)
        flat[list(tensor.made_by.places)] = tensor.made_by.values
        return flat.reshape(tensor.sizes)
    kind, width = DTYPES[tensor.dtype]
    if kind == "bits":
        words = np.array(tensor.words, f"uint{width}")
        return words.view(tensor.dtype).reshape(tensor.sizes)
    return np.array(tensor.words, tensor.dtype).reshape(tensor.sizes)


def from_numpy(array: npt.NDArray[Any]) -> Tensor:
    """Return the words of an array; the dtype must be one of `DTYPES`."""
    kind, width = DTYPES[array.dtype.name]
    flat = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).reshape(-1)
    if kind in ("bits", "bool"):
        flat = flat.view(f"uint{width}")
    return Tensor(array.dtype.name, array.shape, tuple(flat.tolist()))


def digest(tensor: Tensor) -> str:
    """Return the SHA-256 of the elements as little-endian bytes."""
    return digest_of(to_numpy(tensor))


def digest_of(array: npt.NDArray[Any]) -> str:
    """Return the SHA-256 of the elements as little-endian bytes."""
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return hashlib.sha256(raw).hexdigest()


def encode(tensor: Tensor) -> dict[str, Any]:
    """Return the JSON form."""
    head: dict[str, Any] = {"dtype": tensor.dtype, "sizes": list(tensor.sizes)}
    if isinstance(tensor.made_by, recipe.Sparse):
        return head | {"recipe": recipe.encode(tensor.made_by)}
    if isinstance(tensor.made_by, recipe.Cycle):
        words = encode_words(tensor.dtype, tensor.made_by.words)
        return head | {"recipe": {"name": "cycle", **words}}
    if tensor.made_by is not None:
        return head | {"recipe": recipe.encode(tensor.made_by), "sha256": digest(tensor)}
    return head | encode_words(tensor.dtype, tensor.words)


def encode_words(dtype: str, words: Iterable[int]) -> dict[str, list[Any]]:
    """Return `{"bits": [...]}` or `{"data": [...]}`."""
    kind, width = DTYPES[dtype]
    if kind == "bits":
        return {"bits": [f"{word:0{width // 4}x}" for word in words]}
    return {"data": [str(word) if width == 64 else word for word in words]}


def decode(value: Mapping[str, Any], pointer: str) -> Tensor:
    """Return the tensor of a JSON object that the schema has already accepted."""
    dtype, sizes = value["dtype"], tuple(value["sizes"])
    name = value.get("recipe", {}).get("name")
    if name == "sparse":
        return _decode_sparse(value, pointer)
    limits.check_sizes(sizes, f"{pointer}/sizes")
    if name == "cycle":
        given = {**value["recipe"], "dtype": dtype}
        return from_recipe(dtype, sizes, recipe.Cycle(decode_words(given, f"{pointer}/recipe")))
    if "recipe" in value:
        return _decode_recipe(value, pointer)
    words = decode_words(value, pointer)
    if len(words) != count(sizes):
        place = f"{pointer}/{'bits' if 'bits' in value else 'data'}"
        raise Malformed(place, f"{len(words)} elements where sizes ask for {count(sizes)}")
    return Tensor(dtype, sizes, words)


def decode_words(value: Mapping[str, Any], pointer: str) -> tuple[int, ...]:
    """Return the words of `bits` or `data`, each within the range of the dtype."""
    dtype = value["dtype"]
    key = "bits" if DTYPES[dtype].kind == "bits" else "data"
    if key not in value:
        raise Malformed(pointer, f"{dtype} needs {key!r}")
    items = value[key]
    if (words := _decode_all(DTYPES[dtype], items)) is not None:
        return words
    return tuple(
        decode_word(dtype, item, f"{pointer}/{key}/{index}") for index, item in enumerate(items)
    )


def _decode_all(dtype: DType, items: list[Any]) -> tuple[int, ...] | None:
    """Return the words at once where all are right, which is several times as fast, or None."""
    kinds = set(map(type, items))
    if dtype.kind == "bits" and kinds == {str} and set(map(len, items)) == {dtype.width // 4}:
        return tuple(int(item, 16) for item in items) if _HEX.fullmatch("".join(items)) else None
    is_read = dtype.kind != "bits" and dtype.width < 64 and kinds == {int}
    if is_read and dtype.low <= min(items) and max(items) <= dtype.high:
        return tuple(items)
    return None


def decode_word(dtype: str, item: Any, pointer: str) -> int:
    """Return one element."""
    kind, width = DTYPES[dtype]
    if kind == "bits":
        if not isinstance(item, str) or not re.fullmatch(f"[0-9a-f]{{{width // 4}}}", item):
            raise Malformed(pointer, f"{item!r} is not {width // 4} lower-case hex digits")
        return int(item, 16)
    if isinstance(item, str) != (width == 64):
        raise Malformed(pointer, f"{item!r}: only 64-bit integers are strings")
    if isinstance(item, str) and len(item) > 20:
        raise Malformed(pointer, f"{item[:20]}... is outside {dtype}")
    word = int(item)
    if not DTYPES[dtype].low <= word <= DTYPES[dtype].high:
        raise Malformed(pointer, f"{word} is outside {dtype}")
    return word


def _decode_sparse(value: Mapping[str, Any], pointer: str) -> Tensor:
    """Return a tensor of which nothing is made yet."""
    dtype, sizes = value["dtype"], tuple(value["sizes"])
    limits.check_shape(sizes, f"{pointer}/sizes")
    made_by = recipe.decode(value["recipe"])
    assert isinstance(made_by, recipe.Sparse)
    places, values, kind = made_by.places, made_by.values, DTYPES[dtype]
    ends = [-1, *places, count(sizes)]
    if len(places) != len(values) or any(a >= b for a, b in pairwise(ends)):
        raise Malformed(f"{pointer}/recipe/places", "do not ascend within the sizes, one a value")
    if kind.kind == "bits" or not all(kind.low <= word <= kind.high for word in values):
        raise Malformed(f"{pointer}/recipe/values", f"are not of {dtype}")
    return sparse(dtype, sizes, made_by)


def _decode_recipe(value: Mapping[str, Any], pointer: str) -> Tensor:
    if len(value["recipe"]["seed"]) > 20:
        raise Malformed(f"{pointer}/recipe/seed", "has more than 64 bits")
    made_by = recipe.decode(value["recipe"])
    assert isinstance(made_by, recipe.Recipe)
    dtype = DTYPES[value["dtype"]]
    if dtype.kind == "bits" or not dtype.low <= made_by.low <= made_by.high <= dtype.high:
        raise Malformed(f"{pointer}/recipe", f"cannot make {value['dtype']}")
    tensor = from_recipe(value["dtype"], tuple(value["sizes"]), made_by)
    if "sha256" in value and digest(tensor) != value["sha256"]:
        raise Malformed(f"{pointer}/sha256", "the recipe gives other bytes")
    return tensor
