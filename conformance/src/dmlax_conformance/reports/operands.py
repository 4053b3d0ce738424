"""The operands that feed one element of an output, cut out of their tensors."""

from collections.abc import Iterator, Mapping
from itertools import product
from operator import mul
from typing import Any

from ..format import tensors
from ..format.layout import coordinates, packed_strides
from ..format.tensors import Tensor
from ..format.vectors import Vector

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
    place = coordinates(index, sizes)
    return {name: _cut(x, _axes(vector, name, x, place)) for name, x in vector.inputs.items()}


def _axes(vector: Vector, name: str, tensor: Tensor, place: Place) -> Axes:
    """Return the places on each axis of one input that feed the element at `place`."""
    whole, operator = tuple(map(range, tensor.sizes)), vector.operator
    if "matrix" in operator:
        return _of_product(vector, name, whole, place)
    if operator == "exact_sum":
        return (*_broadcast(whole[:-1], place), whole[-1])
    if name == "TableTensor":
        x = vector.inputs["InputTensor"]
        (word,) = _words(x, tuple(map(_one, place)))
        return (_one((word or 0) + (128 if x.dtype == "int8" else 0)),)
    if name == "AddendTensor" or not ("convolution" in operator or "pooling" in operator):
        return _broadcast(whole, place)
    if name == "InputTensor" and "FilterTensor" in vector.inputs:
        return _image(vector.attributes, vector.inputs, place)
    if name == "InputTensor":
        return (*map(_one, place[:2]), *_taps(vector.attributes, tensor.sizes[2:], place[2:]))
    if name == "FilterTensor":
        return (_one(place[1]), *whole[1:])
    return tuple(_one(place[1]) if len(axis) > 1 else axis for axis in whole)


def _one(place: int) -> range:
    return range(place, place + 1)


def _broadcast(whole: Axes, place: Place) -> Axes:
    """Return the element that sizes aligned on the right repeat; leading ones do not count."""
    more = max(len(whole) - len(place), 0)
    aligned = zip(whole[more:], place[len(place) - len(whole) + more :], strict=True)
    return whole[:more] + tuple(_one(at) if len(axis) > 1 else axis for axis, at in aligned)


def _of_product(vector: Vector, name: str, whole: Axes, place: Place) -> Axes:
    """Return a row of A, a column of B, or the element of a parameter.

    An operand of rank 1 takes an axis from the output, which only the bias repeats over.
    """
    if name != "BiasTensor":
        row, column = (len(vector.inputs[each].sizes) == 1 for each in ("ATensor", "BTensor"))
        place = (*place, 0) if column else place
        place = (*place[:-1], 0, place[-1]) if row else place
    if name not in ("ATensor", "BTensor"):
        return _broadcast(whole, place)
    if len(whole) == 1:
        return whole
    batch, (rows, columns) = _broadcast(whole[:-2], place[:-2]), whole[-2:]
    of_row = (_one(place[-2]), columns)
    return (*batch, *(of_row if name == "ATensor" else (rows, _one(place[-1]))))


def _image(attributes: Mapping[str, Any], inputs: Mapping[str, Tensor], place: Place) -> Axes:
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
    fields = (attributes[name] for name in ("WindowSize", "Strides", "Dilations", "StartPadding"))
    rows = zip(*fields, place, strict=True)
    return tuple(range(at * s - a, at * s - a + size * d, d) for size, s, d, a, at in rows)


def _cut(tensor: Tensor, axes: Axes) -> Json:
    """Return a part of a tensor and where it is; of many elements only where."""
    sizes = tuple(map(len, axes))
    value = {"dtype": tensor.dtype, "sizes": list(sizes), "axes": [*map(_text, axes)]}
    words = list(_words(tensor, axes)) if 0 < tensors.count(sizes) <= MOST else []
    if not words:
        return value
    known = tuple(word for word in words if word is not None)
    ((key, encoded),) = tensors.encode_words(tensor.dtype, known).items()
    items = iter(encoded)
    return value | {key: [None if word is None else next(items) for word in words]}


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
