"""Protobuf's wire format, to read the tensors of a file in place.

Protobuf's parser copies every tensor into a message, from which NumPy copies it again.
"""

import itertools
from collections.abc import Iterator
from typing import TypeAlias

Field: TypeAlias = tuple[int, int, int, int, int]
"""A field of a message: its number and type, where it and its value begin, and its end."""
GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # fields of a model, of a graph and of a tensor
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES = 10


class WireError(Exception):
    """The bytes are no message."""


def fields(data: memoryview) -> Iterator[Field]:
    """Yields the fields of a message.

    Raises:
      WireError: the message ends within a field, or has a field of an old type.
    """
    at = 0
    while at < len(data):
        start = at
        tag, value = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(data, value)
        elif kind == _BYTES:
            size, value = _varint(data, value)
            at = value + size
        elif kind in (_FIXED64, _FIXED32):
            at = value + (8 if kind == _FIXED64 else 4)
        else:
            raise WireError(f"byte {start} begins a field of type {kind}")
        if at > len(data):
            raise WireError(f"the field at byte {start} ends beyond {len(data)}")
        yield tag >> 3, kind, start, value, at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Reads a number of 7 bits a byte; returns it and the place behind it."""
    number = 0
    for i, byte in enumerate(data[at : at + _VARINT_BYTES]):
        number |= (byte & 127) << 7 * i
        if byte < 128:
            return number, at + i + 1
    raise WireError(f"the number at byte {at} does not end")


def cut(data: memoryview, number: int) -> tuple[bytes, list[memoryview]]:
    """Takes the fields of a number out of a message; returns the message and their values."""
    rest, values = list[memoryview](), list[memoryview]()
    for field, kind, start, value, end in fields(data):
        is_cut = field == number and kind == _BYTES
        (values if is_cut else rest).append(data[value if is_cut else start : end])
    return b"".join(rest), values


def count_fields(model: memoryview, most: int) -> int:
    """Counts the fields of a ModelProto and of its graphs and functions, at most `most` of them.

    Raises:
      WireError: a message is malformed, or graphs are nested too deep.
    """
    return sum(1 for _ in itertools.islice(_all_fields(model, "model", 0), most))


_COUNTED = {"model", "graph", "function"}  # a node counts once, with its fields
_MESSAGES = {  # the fields that are messages
    "model": {GRAPH: "graph", 25: "function"},
    "graph": {1: "node"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
}
_MOST_MESSAGES = 64  # nested


def _all_fields(data: memoryview, message: str, depth: int) -> Iterator[Field]:
    """The fields of a message and of the graphs in it."""
    if depth > _MOST_MESSAGES:
        raise WireError("its graphs are nested too deep")
    for field in fields(data):
        if message in _COUNTED:
            yield field
        number, kind, _, value, end = field
        inner = _MESSAGES[message].get(number)
        if inner is not None and kind == _BYTES:
            yield from _all_fields(data[value:end], inner, depth + 1)
