"""Reads FlexBuffers' map of numbers, which holds the options of a custom operator."""

import struct
from typing import Any

from dmlax.onnx.errors import ModelError, expect

_MAP = 9
_CODES = {1: "bhiq", 2: "BHIQ", 3: " efd", 26: "BHIQ"}  # of int, uint, float, bool, by width
_INDIRECT = 5  # from a type to that of an offset to it
_MOST = 256  # entries of a map


def read_map(data: bytes, place: str) -> dict[str, int | float]:
    """The numbers of a map by name; other values are left out."""
    reader = _Reader(data, place)
    expect(len(data) >= 3, f"{place} has {len(data)} bytes")
    width, kind = data[-1], data[-2]
    expect(kind >> 2 == _MAP, f"{place} is no map")
    start = reader.follow(len(data) - 2 - width, width)
    width = 1 << (kind & 3)
    count = reader.number("BHIQ", start - width, width)
    expect(count <= _MOST, f"{place} has {count} entries")
    names, of_names = reader.follow(start - 3 * width, width), start - 2 * width
    name_width = reader.number("BHIQ", of_names, width)
    found: dict[str, int | float] = {}
    for i in range(count):
        name = reader.text(reader.follow(names + i * name_width, name_width))
        kind = reader.number("BHIQ", start + count * width + i, 1)
        position, size = start + i * width, width
        if kind >> 2 in (1 + _INDIRECT, 2 + _INDIRECT, 3 + _INDIRECT):
            position, size = reader.follow(position, width), 1 << (kind & 3)
            kind -= _INDIRECT << 2
        if kind >> 2 in _CODES:
            found[name] = reader.number(_CODES[kind >> 2], position, size)
    return found


class _Reader:
    """Bytes, of which every position is checked."""

    def __init__(self, data: bytes, place: str) -> None:
        self.data, self.place = data, place

    def number(self, codes: str, position: int, width: int) -> Any:
        """A number of 1, 2, 4 or 8 bytes, by the letters of `struct`."""
        code = codes[width.bit_length() - 1] if width in (1, 2, 4, 8) else " "
        if code == " " or not 0 <= position <= len(self.data) - width:
            text = f"{self.place} has a number of {width} bytes at {position}"
            raise ModelError(f"{text} of {len(self.data)}")
        return struct.unpack_from("<" + code, self.data, position)[0]

    def follow(self, position: int, width: int) -> int:
        """The position to which an offset points, before it."""
        return position - int(self.number("BHIQ", position, width))

    def text(self, position: int) -> str:
        """A name, which a zero ends."""
        end = self.data.find(0, position) if position >= 0 else -1
        expect(end >= 0, f"{self.place} has a name at {position} without an end")
        return str(self.data[position:end], "utf-8", "backslashreplace")
