"""Reads tables of a FlatBuffers file; every offset, size and count is checked before it is used."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dmlax.onnx.budget import Budget
from dmlax.onnx.errors import ModelError, expect

Number: TypeAlias = int | float | bool
_TABLE_BYTES = 512  # bytes of Python objects for a table
_NUMBER_BYTES = 32  # bytes of Python objects for a number of a vector


class File(NamedTuple):
    """The bytes of a file, and the memory that its values may take."""

    data: bytes
    budget: Budget

    def read(self, code: str, position: int, place: str) -> Any:
        """Reads a number of `struct`'s format."""
        self.expect_inside(position, struct.calcsize(code), place)
        return struct.unpack_from("<" + code, self.data, position)[0]

    def expect_inside(self, position: int, size: int, place: str) -> None:
        """Checks that bytes are of the file."""
        if not 0 <= position <= len(self.data) - size:
            text = f"{place} needs the bytes {position} to {position + size}"
            raise ModelError(f"{text} of a file of {len(self.data)}")

    def follow(self, position: int, place: str) -> int:
        """The position to which an offset points."""
        return position + int(self.read("I", position, place))

    def root(self, identifier: bytes) -> "Table":
        """The table of the whole file, whose bytes 4 to 8 are the identifier."""
        found = self.data[4:8]
        expect(found == identifier, f"it has the identifier {found!r}, expected {identifier!r}")
        return self.table(self.follow(0, "the root"), "the file")

    def table(self, position: int, place: str) -> "Table":
        """Reads the head of a table and of its list of fields."""
        self.budget.spend_on(place, _TABLE_BYTES)
        fields = position - int(self.read("i", position, place))
        size = int(self.read("H", fields, place))
        expect(size >= 4 and size % 2 == 0, f"{place} has a list of fields of {size} bytes")
        self.expect_inside(fields, size, place)
        return Table(self, position, fields, size, place)


class Table(NamedTuple):
    """A table of numbered fields, which may be absent."""

    file: File
    position: int
    fields: int
    size: int
    place: str

    def _find(self, slot: int) -> int:
        """The position of a field, 0 for an absent one."""
        entry = 4 + 2 * slot
        if entry + 2 > self.size:
            return 0
        offset = int(self.file.read("H", self.fields + entry, self.place))
        return self.position + offset if offset else 0

    def number(self, slot: int, code: str, default: Number = 0) -> Any:
        """Reads a number, or returns the default of an absent one."""
        position = self._find(slot)
        return self.file.read(code, position, self.place) if position else default

    def table(self, slot: int, name: str) -> "Table | None":
        """The table of a field."""
        position, place = self._find(slot), f"{self.place}: {name}"
        return self.file.table(self.file.follow(position, place), place) if position else None

    def _vector(self, slot: int, width: int, place: str) -> tuple[int, int]:
        """The position of the elements of a vector, and their count."""
        position = self._find(slot)
        if not position:
            return 0, 0
        start = self.file.follow(position, place)
        count = int(self.file.read("I", start, place))
        self.file.expect_inside(start + 4, count * width, f"{place} of {count} elements")
        return start + 4, count

    def bytes(self, slot: int, name: str) -> memoryview:
        """The bytes of a vector, in place."""
        start, count = self._vector(slot, 1, f"{self.place}: {name}")
        return memoryview(self.file.data)[start : start + count]

    def text(self, slot: int, name: str) -> str:
        """A string; bytes that are no UTF-8 are escaped."""
        data = self.bytes(slot, name)
        self.file.budget.spend_on(f"{self.place}: {name}", len(data))
        return str(data, "utf-8", "backslashreplace")

    def numbers(self, slot: int, dtype: str, name: str) -> tuple[Any, ...]:
        """The numbers of a vector."""
        place = f"{self.place}: {name}"
        width = np.dtype(dtype).itemsize
        start, count = self._vector(slot, width, place)
        self.file.budget.spend_on(place, count * _NUMBER_BYTES)
        values = np.frombuffer(self.file.data, np.dtype(dtype).newbyteorder("<"), count, start)
        return tuple(values.tolist())

    def tables(self, slot: int, name: str) -> "Iterator[Table]":
        """The tables of a vector."""
        start, count = self._vector(slot, 4, f"{self.place}: {name}s")
        for index in range(count):
            place = f"{self.place}: {name} {index}" if self.place != "the file" else ""
            place = place or f"{name} {index}"
            entry = start + 4 * index
            yield self.file.table(self.file.follow(entry, place), place)
