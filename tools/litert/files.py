"""Writes `.tflite` files: a FlatBuffers writer, and models of a few operators."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmlax.litert.schema import ACTIVATIONS, BUILTINS, DTYPES, IDENTIFIER, OPTIONS, PADDINGS

_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_UNION = {  # the numbers of options in the schema's union
    "CONV_2D": 1, "DEPTHWISE_CONV_2D": 2, "AVERAGE_POOL_2D": 5, "MAX_POOL_2D": 5, "L2_POOL_2D": 5,
    "SVDF": 6, "FULLY_CONNECTED": 8, "SOFTMAX": 9, "CONCATENATION": 10, "ADD": 11,
    "L2_NORMALIZATION": 12, "RESIZE_BILINEAR": 15, "RESHAPE": 17, "SPACE_TO_DEPTH": 19, "MUL": 21,
    "GATHER": 23, "MEAN": 27, "SUM": 27, "REDUCE_MAX": 27, "REDUCE_MIN": 27, "REDUCE_PROD": 27,
    "REDUCE_ANY": 27, "REDUCE_ALL": 27, "SUB": 28, "DIV": 29, "SQUEEZE": 30, "STRIDED_SLICE": 32,
    "SPLIT": 35, "CAST": 37, "ARG_MAX": 40, "TRANSPOSE_CONV": 49, "SHAPE": 55, "ARG_MIN": 57,
    "PACK": 59, "ONE_HOT": 61, "UNPACK": 64, "UNIDIRECTIONAL_SEQUENCE_LSTM": 71,
    "RESIZE_NEAREST_NEIGHBOR": 74, "LEAKY_RELU": 75, "MIRROR_PAD": 77, "SPLIT_V": 79, "IF": 92,
    "WHILE": 93, "DEPTH_TO_SPACE": 94, "BATCH_MATMUL": 101, "CUMSUM": 102, "CALL_ONCE": 103,
    "VAR_HANDLE": 111, "GELU": 116,
}  # fmt: skip


class Table(dict[int, Any]):
    """The fields of a table by slot: ("b", 3), a table, an array, a text or a list of them."""


def write(root: Table, identifier: bytes = IDENTIFIER) -> bytes:
    """The bytes of a file; what a table points to follows it."""
    data = bytearray(8)
    data[4:8] = identifier
    pending = [(0, root)]
    while pending:
        place, value = pending.pop()
        data.extend(bytes(-len(data) % 16))
        if isinstance(value, Table):
            position, offsets = _write_table(data, value)
        else:
            position, offsets = _write_vector(data, value)
        struct.pack_into("<I", data, place, position - place)
        pending += offsets
    return bytes(data)


def _write_table(data: bytearray, table: Table) -> tuple[int, list[tuple[int, Any]]]:
    """Appends a list of fields and a table; returns its place, and those of offsets in it."""
    codes = {slot: x[0] if isinstance(x, tuple) else "I" for slot, x in table.items()}
    entries, size = [0] * (max(table, default=-1) + 1), 4
    for slot, code in codes.items():
        width = struct.calcsize(code)
        size += -size % width
        entries[slot] = size
        size += width
    head = struct.pack(f"<HH{len(entries)}H", 4 + 2 * len(entries), size, *entries)
    start = len(data)
    data.extend(head + bytes(-len(head) % 8))
    position, offsets = len(data), []
    data.extend(bytes(size))
    struct.pack_into("<i", data, position, position - start)
    for slot, value in table.items():
        place = position + entries[slot]
        if isinstance(value, tuple):
            struct.pack_into("<" + value[0], data, place, value[1])
        else:
            offsets.append((place, value))
    return position, offsets


def _write_vector(data: bytearray, value: Any) -> tuple[int, list[tuple[int, Any]]]:
    if isinstance(value, str):
        text = value.encode()
        data.extend(struct.pack("<I", len(text)) + text + b"\0")
        return len(data) - len(text) - 5, []
    if isinstance(value, np.ndarray):
        data.extend(bytes(12))  # the elements are aligned, and their count is before them
        position = len(data)
        data.extend(struct.pack("<I", value.size) + value.tobytes())
        return position, []
    position = len(data)
    data.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
    return position, [(position + 4 + 4 * i, each) for i, each in enumerate(value)]


@dataclass
class Tensor:
    """A tensor: a constant if it has data; its scales are one, or one for each slice of an axis."""

    dtype: Any
    shape: Sequence[int]
    data: np.ndarray | None = None
    scales: Sequence[float] = ()
    zeros: Sequence[int] = ()
    axis: int = 0
    is_variable: bool = False
    number: int | None = None  # the number of a dtype that NumPy lacks


@dataclass
class Op:
    """An operator, whose tensors have names."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    intermediates: Sequence[str] = ()
    version: int = 1


@dataclass
class Subgraph:
    """Tensors by name, and operators in order."""

    tensors: Mapping[str, Tensor]
    operators: Sequence[Op]
    inputs: Sequence[str]
    outputs: Sequence[str]


def model(*subgraphs: Subgraph) -> bytes:
    """The bytes of a model."""
    codes: dict[tuple[str, int], int] = {}
    buffers = [Table()]
    tables = [_subgraph(each, codes, buffers) for each in subgraphs]
    root = Table({0: ("I", 3), 1: [_code(*key) for key in codes], 2: tables, 4: buffers})
    return write(root)


def _code(name: str, version: int) -> Table:
    if name not in BUILTINS:
        number = BUILTINS.index("CUSTOM")
        return Table({0: ("b", number), 1: name, 2: ("i", version), 3: ("i", number)})
    number = BUILTINS.index(name)
    return Table({0: ("b", min(number, 127)), 2: ("i", version), 3: ("i", number)})


def _subgraph(graph: Subgraph, codes: dict[tuple[str, int], int], buffers: list[Table]) -> Table:
    places = {name: i for i, name in enumerate(graph.tensors)}

    def indices(names: Sequence[str]) -> np.ndarray:
        return np.array([places[name] if name else -1 for name in names], np.int32)

    operators = []
    for op in graph.operators:
        code = codes.setdefault((op.name, op.version), len(codes))
        table = Table({0: ("I", code), 1: indices(op.inputs), 2: indices(op.outputs)})
        if op.name in _UNION:
            table[3] = ("B", _UNION[op.name])
            table[4] = _options(op)
        if op.name not in BUILTINS:
            table[5] = flexbuffer(op.options)
        if op.intermediates:
            table[8] = indices(op.intermediates)
        operators.append(table)
    tensors = [_tensor(name, x, buffers) for name, x in graph.tensors.items()]
    return Table({0: tensors, 1: indices(graph.inputs), 2: indices(graph.outputs), 3: operators})


def _options(op: Op) -> Table:
    table, unknown = Table(), set(op.options)
    if op.name == "PACK":
        table[0] = ("i", len(op.inputs))
    for each in OPTIONS[op.name]:
        unknown.discard(each.name)
        if each.name not in op.options:
            continue
        value = op.options[each.name]
        if each.mark == "*":
            table[each.slot] = np.array(value, np.int32)
        elif each.mark == '"':
            table[each.slot] = value
        elif each.name in ("padding", "activation"):
            names = PADDINGS if each.name == "padding" else ACTIVATIONS
            table[each.slot] = ("b", names.index(value))
        else:
            table[each.slot] = ({"?": "?", ".": "b", "%": "f"}.get(each.mark, "i"), value)
    assert not unknown, unknown
    return table


def flexbuffer(options: Mapping[str, Any]) -> np.ndarray:
    """The bytes of FlexBuffers' map of numbers, all of 4 bytes."""
    data, places = bytearray(), []
    for key in sorted(options):
        places.append(len(data))
        data.extend(key.encode() + b"\0")
    data.extend(bytes(-len(data) % 4) + struct.pack("<I", len(options)))
    keys = len(data)
    for place in places:
        data.extend(struct.pack("<I", len(data) - place))
    data.extend(struct.pack("<III", len(data) - keys, 4, len(options)))
    start, types = len(data), bytearray()
    for _, value in sorted(options.items()):
        kind, code = (26, "I") if isinstance(value, bool) else (1, "i")
        kind, code = (3, "f") if isinstance(value, float) else (kind, code)
        data.extend(struct.pack("<" + code, value))
        types.append(kind << 2 | 2)
    data.extend(types)
    width = 1 if len(data) - start < 256 else 2
    data.extend(bytes(-len(data) % width))
    data.extend((len(data) - start).to_bytes(width, "little"))
    data.extend([9 << 2 | 2, width])
    return np.frombuffer(bytes(data), np.uint8)


def _tensor(name: str, tensor: Tensor, buffers: list[Table]) -> Table:
    number = _NUMBERS[np.dtype(tensor.dtype)] if tensor.number is None else tensor.number
    table = Table({0: np.array(tensor.shape, np.int32), 1: ("b", number), 3: name})
    if tensor.data is not None:
        data = np.ascontiguousarray(tensor.data)
        if data.dtype.name == "int4":
            low = np.append(data.astype(np.int8).ravel(), np.int8(0)) & 15
            data = low[: data.size + data.size % 2 : 2] | (low[1::2][: (data.size + 1) // 2] << 4)
        table[2] = ("I", len(buffers))
        buffers.append(Table({0: data.reshape(-1).view(np.uint8)}))
    if len(tensor.scales):
        zeros = tensor.zeros if len(tensor.zeros) else [0] * len(tensor.scales)
        table[4] = Table(
            {2: np.array(tensor.scales, np.float32), 3: np.array(zeros, np.int64)}
            | ({6: ("i", tensor.axis)} if tensor.axis else {})
        )
    if tensor.is_variable:
        table[5] = ("?", True)
    return table
