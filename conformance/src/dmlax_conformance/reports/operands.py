"""The operands that feed one element of an output, cut out of their tensors."""

from collections.abc import Iterator, Mapping
from itertools import product
from operator import mul
from typing import Any

from ..format import tensors
from ..format.layout import coordinates, packed_strides
from ..format.tensors import Tensor
from ..format.vectors import Vector
from ..operators._shared.convolution import Windows

MOST = 256

Place = tuple[int, ...]
Axes = tuple[range, ...]  # the places on each axis; those outside the tensor are padding
Json = dict[str, Any]


def feeding(vector: Vector, sizes: Place, index: int) -> dict[str, Json]:
    """Return what feeds the element `index` of OutputTensor, by tensor; nothing for a desc.

    Elements outside a tensor are padding, and are null.
    """
    if vector.desc is not None:
        return {}
    found = {
        name: _axes(vector, name, tensor, _place(vector, name, coordinates(index, sizes)))
        for name, tensor in vector.inputs.items()
    }
    return {name: _cut(vector.inputs[name], axes) for name, axes in found.items()}


def _place(vector: Vector, name: str, place: Place) -> Place:
    """Return the place with the axes that operands of rank 1 take from a matrix product.

    The bias repeats over the output, which lacks them.
    """
    if not _is_product(vector) or name == "BiasTensor":
        return place
    row, column = (len(vector.inputs[name].sizes) == 1 for name in ("ATensor", "BTensor"))
    place = (*place, 0) if column else place
    return (*place[:-1], 0, place[-1]) if row else place


def _is_product(vector: Vector) -> bool:
    return "matrix" in vector.operator


def _axes(vector: Vector, name: str, tensor: Tensor, place: Place) -> Axes:
    """Return the places on each axis of one input that feed the element at `place`."""
    whole = tuple(map(range, tensor.sizes))
    if name == "TableTensor":
        return (_entry(vector, place),)
    if name in ("ATensor", "BTensor") and _is_product(vector):
        return _line(whole, place, inner=-1 if name == "ATensor" else -2)
    if name == "InputTensor" and "FilterTensor" in vector.inputs:
        return _window(vector.attributes, vector.inputs, place)
    if name == "InputTensor" and "pooling" in vector.operator:
        return (*map(_one, place[:2]), *_taps(vector.attributes, tensor.sizes[2:], place[2:]))
    if name == "FilterTensor":
        return (_one(place[1]), *whole[1:])
    if name != "AddendTensor" and (
        "convolution" in vector.operator or "pooling" in vector.operator
    ):
        return tuple(_one(place[1]) if len(axis) > 1 else axis for axis in whole)
    return _broadcast(whole, place)


def _one(place: int) -> range:
    return range(place, place + 1)


def _broadcast(whole: Axes, place: Place) -> Axes:
    """Return the element that sizes aligned on the right repeat; leading ones do not count."""
    more = max(len(whole) - len(place), 0)
    own = place[len(place) - len(whole) + more :]
    aligned = zip(whole[more:], own, strict=True)
    return whole[:more] + tuple(_one(at) if len(axis) > 1 else axis for axis, at in aligned)


def _entry(vector: Vector, place: Place) -> range:
    """Return the place of the table's entry that the input asks for."""
    x = vector.inputs["InputTensor"]
    (word,) = _words(x, tuple(map(_one, place)))
    return _one((word or 0) + (128 if x.dtype == "int8" else 0))


def _line(whole: Axes, place: Place, inner: int) -> Axes:
    """Return a row of A or a column of B: the whole inner axis."""
    if len(whole) == 1:
        return whole
    axes = list(_broadcast(whole[:-2], place[:-2]))
    row, column = whole[-2:]
    return (*axes, _one(place[-2]), column) if inner == -1 else (*axes, row, _one(place[-1]))


def _window(attributes: Mapping[str, Any], inputs: Mapping[str, Tensor], place: Place) -> Axes:
    """Return the image, the channels of the group and the window of an output of a convolution."""
    filters, channels, *kernel = inputs["FilterTensor"].sizes
    first = place[1] // (filters // attributes["GroupCount"]) * channels
    window = {**attributes, "WindowSize": kernel}
    spatial = _taps(window, inputs["InputTensor"].sizes[2:], place[2:])
    return (_one(place[0]), range(first, first + channels), *spatial)


def _taps(attributes: Mapping[str, Any], image: Place, place: Place) -> Axes:
    """Return the places of a window's taps on each spatial axis; without attributes, all."""
    if "WindowSize" not in attributes:
        return tuple(map(range, image))
    windows = Windows.of({"GroupCount": 1, **attributes})
    steps = attributes["WindowSize"], windows.strides, windows.dilations, windows.start, place
    rows = zip(*steps, strict=True)
    return tuple(range(at * s - a, at * s - a + size * d, d) for size, s, d, a, at in rows)


def _cut(tensor: Tensor, axes: Axes) -> Json:
    """Return a part of a tensor and where it is; of many elements only where."""
    value = {"dtype": tensor.dtype, "sizes": [*map(len, axes)], "axes": [*map(_text, axes)]}
    words = [] if tensors.count(tuple(map(len, axes))) > MOST else list(_words(tensor, axes))
    if not words:
        return value
    known = tuple(word for word in words if word is not None)
    ((key, encoded),) = tensors.encode_words(tensor.dtype, known).items()
    own = iter(encoded)
    return value | {key: [None if word is None else next(own) for word in words]}


def _text(axis: range) -> str:
    if len(axis) == 1:
        return str(axis[0])
    step = f":{axis.step}" if axis.step > 1 else ""
    return f"{axis.start}:{axis.stop - axis.step + 1}{step}"


def _words(tensor: Tensor, axes: Axes) -> Iterator[int | None]:
    strides = packed_strides(tensor.sizes)
    for place in product(*axes):
        inside = all(0 <= at < size for at, size in zip(place, tensor.sizes, strict=True))
        yield tensor.words[sum(map(mul, place, strides))] if inside else None
