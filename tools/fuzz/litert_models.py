"""Changed `.tflite` models: loading one gives a model, or an error of `dmlax`.

    python -m tools.fuzz.litert_models [seconds] [seed]

A file differs from a random one-operator model in some bytes, in some offsets and counts, or in
its tensors, operators and options. The judgement is that of `tools/fuzz/onnx_models.py`.
"""

import contextlib
import random
import struct
from typing import Any

import numpy as np

import dmlax.litert
from dmlax.litert.schema import BUILTINS
from tools.fuzz import onnx_models
from tools.fuzz.onnx_models import ODD_FLOATS, Outcome, change_bytes
from tools.litert.cases import CASES
from tools.litert.files import Op, Subgraph, Tensor, model

_ODD_WORDS = (0, 1, 2, 3, 4, 8, 0x7FFF, 0xFFFF, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 4)
_ODD_SIZES = (-1, 0, 1, 2, 3, 17, 1 << 16, (1 << 31) - 1)
_DTYPES = (np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float16, np.bool_)


def run(seconds: float, seed: int) -> Outcome:
    """Loads changed models until the time is over."""
    return onnx_models.run_cases(seconds, seed, make_case, try_to_load)


def try_to_load(data: bytes) -> str | None:
    """Returns the reason for which a load is a failure, "" for an error that is allowed."""
    return onnx_models.judge(lambda: dmlax.litert.load(data).outputs)


def make_case(chosen: random.Random) -> tuple[str, bytes]:
    """The name of a random model, and the bytes of a changed one."""
    name = chosen.choice(sorted(CASES))
    graph = CASES[name](np.random.default_rng(chosen.randrange(1 << 30)))
    kind = chosen.randrange(4)
    if kind == 0:
        return name, change_bytes(chosen, model(graph))
    if kind == 1:
        return name, change_words(chosen, model(graph))
    original = model(graph)
    for _ in range(chosen.choice((1, 1, 1, 2, 4))):
        change_graph(chosen, graph)
    with contextlib.suppress(struct.error, KeyError, ValueError, OverflowError, AssertionError):
        return name, model(graph)  # the format holds these values
    return name, change_words(chosen, original)


def change_words(chosen: random.Random, data: bytes) -> bytes:
    """Changes offsets, counts and lists of fields: aligned words of 16 and 32 bits."""
    changed = bytearray(data)
    for _ in range(chosen.choice((1, 1, 2, 4))):
        code, size, most = chosen.choice((("<H", 2, 0xFFFF), ("<I", 4, 0xFFFFFFFF)))
        place = chosen.randrange(len(changed) // size) * size
        (value,) = struct.unpack_from(code, changed, place)
        near = [value + each for each in (-8, -4, -1, 1, 4, 8)]
        odd = chosen.choice((*_ODD_WORDS, *near, len(changed), len(changed) - place))
        struct.pack_into(code, changed, place, odd & most)
    return bytes(changed)


def change_graph(chosen: random.Random, graph: Subgraph) -> None:
    """Changes a tensor, an operator or an option."""
    tensor = chosen.choice(list(graph.tensors.values()))
    op = chosen.choice(list(graph.operators))
    change = chosen.choice((_change_tensor, _change_constant, _change_options, _change_operands))
    change(chosen, tensor, op, graph)


def _change_tensor(chosen: random.Random, tensor: Tensor, op: Op, graph: Subgraph) -> None:
    shape = list(tensor.shape)
    kind = chosen.randrange(5)
    if kind == 0 and shape:
        shape[chosen.randrange(len(shape))] = chosen.choice(_ODD_SIZES)
        tensor.shape = shape
    elif kind == 1:
        tensor.shape = chosen.choice(([], [1], [*shape, 2], shape[:-1], [1] * 40, shape[::-1]))
    elif kind == 2:
        tensor.dtype = chosen.choice(_DTYPES)
    elif kind == 3:
        count = chosen.choice((0, 1, 1, 2, 3))
        tensor.scales = [chosen.choice((*ODD_FLOATS, 0.02)) for _ in range(count)]
        tensor.axis = chosen.choice((-1, 0, 1, 3, 99))
    else:
        zeros = (-(1 << 63), -129, -1, 0, 255, 256, (1 << 31) - 1, 1 << 40)
        tensor.zeros = [chosen.choice(zeros) for _ in range(max(len(tensor.scales), 1))]


def _change_constant(chosen: random.Random, tensor: Tensor, op: Op, graph: Subgraph) -> None:
    constants = [x for x in graph.tensors.values() if x.data is not None and x.data.size]
    if not constants or chosen.random() < 0.2:
        tensor.data = None if tensor.data is not None else np.zeros(3, np.int32)
        return
    data = chosen.choice(constants)
    assert data.data is not None
    changed = data.data.copy()
    odd = ODD_FLOATS if changed.dtype.kind == "f" else (*_ODD_SIZES, -(1 << 31), -7)
    value = np.asarray(chosen.choice(odd))
    with np.errstate(all="ignore"):
        changed.reshape(-1)[chosen.randrange(changed.size)] = value.astype(changed.dtype)
    data.data = changed


def _change_options(chosen: random.Random, tensor: Tensor, op: Op, graph: Subgraph) -> None:
    options: dict[str, Any] = dict(op.options)
    if options:
        key = chosen.choice(sorted(options))
        is_text = isinstance(options[key], str)
        words = ("SAME", "VALID", "RELU", "TANH", "SIGN_BIT", "")
        options[key] = chosen.choice(words if is_text else (*_ODD_SIZES, -(1 << 31)))
    op.options = options


def _change_operands(chosen: random.Random, tensor: Tensor, op: Op, graph: Subgraph) -> None:
    names = [*graph.tensors, ""]
    kind = chosen.randrange(5)
    if kind == 0:
        op.name = chosen.choice(BUILTINS)
        op.options = {}
    elif kind == 1 and op.inputs:
        places = list(op.inputs)
        places[chosen.randrange(len(places))] = chosen.choice(names)
        op.inputs = places
    elif kind == 2:
        op.inputs = [*op.inputs, chosen.choice(names)]
    elif kind == 3:
        op.inputs = list(op.inputs)[:-1]
    else:
        op.outputs = chosen.choice(([], [*op.outputs, *op.inputs], [*op.outputs] * 2))


if __name__ == "__main__":
    raise SystemExit(onnx_models.main(run))
