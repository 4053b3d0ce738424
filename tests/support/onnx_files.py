"""Files that tests build of a few nodes, and their outputs beside ONNX Runtime's."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import helper, numpy_helper

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.operators.values import DTYPES

RNG = np.random.default_rng(5)
NUMBERS = {dtype.name: number for number, dtype in DTYPES.items()}


def message_field(number: int, value: bytes) -> bytes:
    """A field of bytes or of a message in protobuf's wire format."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    varint = b""
    while number >= 128:
        varint, number = varint + bytes([number & 127 | 128]), number >> 7
    return varint + bytes([number])


def parse(text: str, opset: int = 18, **constants: ArrayLike) -> onnx.ModelProto:
    """A file in ONNX's text form, with initializers."""
    head = f'<ir_version: 9, opset_import: ["": {opset}]>'
    file = onnx.parser.parse_model(f"{head}\n{text}")
    arrays = {name: np.asarray(x) for name, x in constants.items()}
    file.graph.initializer.extend(numpy_helper.from_array(x, n) for n, x in arrays.items())
    return file


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, DTypeLike] | Iterable[str],
    constants: Mapping[str, ArrayLike] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    """A file of nodes: inputs are arrays, or dtypes and shapes; outputs may have dtypes."""
    empty, typed = helper.make_empty_tensor_value_info, helper.make_tensor_value_info
    dtypes = outputs if isinstance(outputs, Mapping) else {}
    types = {
        name: (x.dtype, x.shape) if isinstance(x, np.ndarray) else x for name, x in inputs.items()
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [typed(name, _number(dtype), shape) for name, (dtype, shape) in types.items()],
        [typed(n, _number(dtypes[n]), None) if n in dtypes else empty(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=13 if opset > 24 else 10)


def _number(dtype: DTypeLike | int) -> int:
    return dtype if isinstance(dtype, int) else NUMBERS[np.dtype(dtype).name]


class File:
    """Nodes, inputs, constants and outputs of a file that a test builds; it seeds `RNG`."""

    def __init__(self, opset: int = 25) -> None:
        RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.outputs: dict[str, DTypeLike] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: dict[str, np.ndarray] = {}

    def constant(self, array: ArrayLike) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def input(self, array: ArrayLike) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(array)
        return name

    def node(
        self, op: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any
    ) -> Any:
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def output(self, name: str, dtype: DTypeLike) -> None:
        self.outputs[name] = dtype

    def model(self) -> onnx.ModelProto:
        return model(self.nodes, self.inputs, self.outputs, self.constants, self.opset)

    def compare(self, tolerance: float = 0.0, optimised: bool = False) -> dmlax.onnx.Model:
        """Loads the file, and compares every output with ONNX Runtime's; returns the model."""
        file = self.model()
        wanted = peer.run(peer.start(file, optimised=optimised), self.inputs)
        loaded = dmlax.onnx.load(file)
        found = loaded(self.inputs)
        for name, want in wanted.items():
            got = np.asarray(found[name])
            assert got.shape == want.shape, name
            if tolerance:
                bound = tolerance * np.abs(want[np.isfinite(want)]).max(initial=1e-30)
                np.testing.assert_allclose(got, want, rtol=0, atol=bound, err_msg=name)
            else:
                np.testing.assert_array_equal(got, want, err_msg=name)
        return loaded


def scales(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    return RNG.uniform(0.05, 0.4, shape).astype(dtype)


def levels(shape: Sequence[int], name: str) -> np.ndarray:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if dtype.name.startswith("float8"):
        return RNG.normal(0, 4, shape).astype(dtype)
    limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    values = RNG.integers(int(limits.min), int(limits.max) + 1, shape)
    return values.astype(np.int32).astype(dtype)
