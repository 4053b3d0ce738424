"""Draws small QDQ models: one to four operators between dequantizations and quantizations."""

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.differential.operators import FAMILIES, NORMS, PATTERNS, Row
from tools.differential.rationals import FLOAT16, FLOAT32, MICROSOFT, run_node

TYPE = helper.np_dtype_to_tensor_dtype
_SMALL = ((2, 3), (3, 4), (1, 2, 4, 4), (2, 3, 3, 5), (2, 2, 3), (1, 4, 2, 2), (2, 4, 5))
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {  # the shapes of sums behind a batch
    "small": (*_SMALL, *_SMALL, (2, 2, 2, 2, 3), (1, 2, 7), (5,), (), (0, 3), (0, 2, 4, 4)),
    "sums": (
        *((64, 4, 4), (33,), (7, 33), (16, 65), (3, 130), (8, 7, 7), (1000,), (12, 9, 10)),
        (6, 40),
    ),
    "bytes": ((1, 8, 24, 20), (2, 4, 15, 17), (64, 40), (3, 16, 33), (1, 3, 32, 32)),
}
BYTES = ("uint8", "int8", "uint16", "int16")
_MOST = {"small": 400, "sums": 1 << 15, "bytes": 1 << 14}  # elements of a tensor


class Drawn(NamedTuple):
    """A model, its inputs, the relative error of its floats, and what is asked of it.

    Attributes:
      has_batch: True if the first axis of every input is a batch, and of no floats a product is.
      size: "small", or for tensors that are too large for rationals "sums" of many floats, or
        "bytes", of which ONNX Runtime makes quantized operators.
    """

    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    noise: Any
    has_batch: bool
    size: str


class Refused(Exception):
    """ONNX Runtime refuses a node, or it makes too much or no numbers."""


class Maker:
    """Adds nodes to one model, or one of an operator; it computes each of them."""

    def __init__(self, seed: int | list[int], op: str = "") -> None:
        self.rng, self.op = np.random.default_rng(seed), op
        sizes = ["small"] * 3 if op else ["small", "sums", "bytes"]
        self.size = str(self.rng.choice(sizes, p=[0.78, 0.12, 0.1]))
        self.is_exact = self.size == "small" and self.chance(0.75)  # scales are powers of 2
        has_batch = self.size == "sums" or (self.size == "small" and self.chance(0.35))
        self.batch = self.choose([2, 3, 5, 8]) if has_batch else 0
        self.opset = int(self.rng.integers(13, 26))
        self.main = np.dtype(self.choose(BYTES[: 2 if self.size == "bytes" else 4] + BYTES[:2]))
        self.half = self.opset >= 19 and self.chance(0.06)
        self.is_exact &= not self.half
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: dict[str, np.ndarray] = {}
        self.known: dict[str, np.ndarray] = {}
        self.quantized: dict[str, tuple[str, tuple]] = {}  # what floats were dequantized of
        self.current = ""  # the first input of the node that is drawn
        self.parts = 1
        self.count = 0

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choose(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def constant(self, array: Any) -> str:
        name = self.fresh()
        self.constants[name] = self.known[name] = np.asarray(array)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.asarray(values, np.int64))

    def input(self, array: np.ndarray) -> str:
        """An input, or a constant where the model has a batch and the array has none."""
        if self.batch and (array.ndim < 2 or len(array) != self.batch):
            return self.constant(array)
        name = self.fresh()
        self.inputs[name] = self.known[name] = array
        return name

    def floats(self, shape: Sequence[int], dtype: Any, least: int | None = None) -> str:
        """A constant, positive with a least exponent of 2; or a dequantized one."""
        if least is not None:
            factors = 2.0 ** self.rng.integers(-least, 3, shape)
            noise = 1 if self.is_exact else self.rng.uniform(0.8, 1.2, shape)
            return self.constant(np.asarray(factors * noise, dtype))
        if self.chance(0.2) and shape:
            return self.weight(tuple(shape), 0)[0]
        noise = 0 if self.is_exact else self.rng.random(shape) / 8
        return self.constant(np.asarray(self.rng.integers(-32, 32, shape) / 8 + noise, dtype))

    def node(self, op: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes) -> Any:
        """Adds a node; returns the name of its output, or several names."""
        names = [self.fresh() for _ in range(outputs)]
        made = helper.make_node(op, inputs, names, f"n{names[0]}", domain=domain, **attributes)
        try:
            found = run_node(made, [self.known.get(name) for name in inputs], self.opset)
        except Exception as error:
            raise Refused from error
        sizes = [x.size for x in found.values()]
        floats = [x for x in found.values() if x.dtype.kind == "f"]
        if max(sizes) > _MOST[self.size]:
            raise Refused
        if not all(np.isfinite(x).all() and float(np.abs(x).max(initial=0)) < 1e6 for x in floats):
            raise Refused
        self.known |= found
        self.nodes.append(made)
        return names[0] if outputs == 1 else names

    # --- quantization ---------------------------------------------------------------------

    def scale(self, shape: Sequence[int], reach: float = 0) -> np.ndarray:
        """Scales; with a reach most floats up to it become integers of 8 bits."""
        sign = -1 if self.chance(0.03) else 1
        dtype = np.float16 if self.half else np.float32
        unit = np.log2(max(reach, 1e-2) / 100) if reach else -1.0
        if self.is_exact or self.half:  # float16 products of few bits are exact, too
            low = int(np.clip(np.round(unit), -6, 8))
            return np.asarray(sign * 2.0 ** self.rng.integers(low - 1, low + 2, shape), dtype)
        return np.asarray(sign * 2**unit * self.rng.uniform(0.3, 1.5, shape), dtype)

    def zero_point(self, dtype: Any, shape: Sequence[int]) -> np.ndarray | None:
        if self.chance(0.2):
            return None
        if dtype == np.int32 or self.chance(0.3):
            return np.zeros(shape, dtype)
        if dtype == np.uint8 and self.chance(0.3):
            return np.full(shape, 128, dtype)
        low = max(np.iinfo(dtype).min, -128)
        return self.rng.integers(low, 127 if low else 255, shape).astype(dtype)

    def parameters(self, dtype: Any, shape: Sequence[int], reach: float = 0, per_axis=0.1) -> tuple:
        """A scale, a zero point or None, and the attributes of the axis and the block."""
        dims: tuple[int, ...] = ()
        attributes, axis = {}, 1
        axes = [i for i, size in enumerate(shape) if not self.batch or size != self.batch]
        if self.chance(per_axis) and axes:
            axis = self.choose(axes)
            dims = (shape[axis],)
            given = axis if self.chance(0.7) else axis - len(shape)
            if given != 1 or self.chance(0.5):
                attributes["axis"] = given
            if self.opset >= 21 and not self.batch and shape[axis] > 1 and self.chance(0.15):
                attributes["block_size"] = size = int(self.rng.integers(2, 4))
                dims = (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :])
        elif self.chance(0.1):
            dims = (1,)
        return self.scale(dims, reach), self.zero_point(np.dtype(dtype), dims), attributes

    def _domain(self, dtype: Any, parameters: tuple) -> dict[str, str]:
        scale, _, attributes = parameters
        needs = np.dtype(dtype).itemsize == 2 and self.opset < 21
        may = scale.dtype == np.float32 and "block_size" not in attributes
        return {"domain": MICROSOFT} if needs or (may and self.chance(0.05)) else {}

    def dequantize(self, tensor: str, parameters: tuple | None = None) -> str:
        array = self.known[tensor]
        parameters = parameters or self.parameters(array.dtype, array.shape)
        scale, zero_point, attributes = parameters
        names = [tensor, self.constant(scale)]
        if zero_point is not None:
            names.append(self.constant(zero_point))
        how = self._domain(array.dtype, parameters)
        if self.opset >= 23 and not how and self.chance(0.05):
            out = np.dtype(np.float16 if scale.dtype == np.float32 else np.float32)
            attributes = {**attributes, "output_dtype": TYPE(out)}
            self.half |= out == np.float16
        name = self.node("DequantizeLinear", *names, **how, **attributes)
        self.quantized[name] = tensor, parameters
        return name

    def quantize(self, x: str, dtype: Any = None, parameters: tuple | None = None) -> str:
        array = self.known[x]
        dtype = np.dtype(dtype or (self.main if self.chance(0.8) else self.choose(BYTES)))
        reach = float(np.abs(array).max(initial=0)) * self.choose([1, 0.5, 2])
        reach = reach if self.chance(0.7) else 0
        parameters = parameters or self.parameters(dtype, array.shape, reach)
        scale, zero_point, attributes = parameters
        extra: dict[str, Any] = {}
        if self.opset >= 23 and self.chance(0.1):
            extra["precision"] = 1
        if scale.dtype != array.dtype and (self.opset < 23 or self.chance(0.5)):
            scale = scale.astype(array.dtype)
        self.half |= scale.dtype == np.float16
        names = [x, self.constant(scale)]
        how = {} if extra else self._domain(dtype, parameters)
        if zero_point is not None:
            names.append(self.constant(zero_point))
        elif self.opset >= 21 and not how and self.chance(0.8):
            extra["output_dtype"] = TYPE(dtype)
        else:
            how = {}  # uint8
        name = self.node("QuantizeLinear", *names, **how, **extra, **attributes)
        self.quantized[name] = name, (scale, zero_point, attributes)
        return name

    def requantize(self, x: str, dtype: Any = None, odd: float = 0.05) -> str:
        """The floats of a quantized tensor; with an odd chance other parameters make them."""
        name = self.quantize(x, dtype)
        return self.dequantize(name, None if self.chance(odd) else self.quantized[name][1])

    def values(self, dtype: Any, shape: Sequence[int]) -> np.ndarray:
        limits = np.iinfo(dtype)
        ends = max(limits.min, -900), min(limits.max + 1, 900)
        return self.rng.integers(*ends, shape).astype(dtype)

    def source(self, shape: Sequence[int], is_first: bool = False) -> str:
        """A dequantized input, constant, or quantized float input."""
        dtype = self.main if self.chance(0.85) else self.choose([*BYTES, "int32"])
        kind = self.rng.random()
        if kind < 0.35 and dtype != "int32":
            steps = self.rng.integers(-120, 120, shape) / 8
            steps = steps if self.is_exact else steps + self.rng.random(shape)
            x = self.input(np.asarray(steps, np.float16 if self.half else np.float32))
            return self.requantize(x, dtype, 0.02)
        values = self.values(dtype, shape)
        is_input = kind < 0.85 or is_first or shape[:1] == (self.batch,)
        return self.dequantize((self.input if is_input else self.constant)(values))

    def weight(self, shape: tuple[int, ...], axis: int) -> tuple[str, np.ndarray]:
        """A dequantized constant, per tensor or along an axis."""
        dtype = np.dtype(self.choose(["int8", "int8", "int8", "uint8", "int16"]))
        limit = 64 if dtype != np.uint8 else 128
        values = self.rng.integers(0 if dtype == np.uint8 else -limit, limit, shape).astype(dtype)
        dims, attributes = (), {}
        if self.chance(0.5):
            if self.chance(0.15):
                axis = int(self.rng.integers(len(shape)))
            dims = (shape[axis],)
            attributes["axis"] = axis
        zero = np.zeros(dims, dtype) if self.chance(0.6) else self.zero_point(dtype, dims)
        scale = self.scale(dims)
        if dims and self.chance(0.05):
            scale[0] = 0  # a dead channel
        return self.dequantize(self.constant(values), (scale, zero, attributes)), scale

    def weights(
        self, x: np.ndarray, shape: tuple[int, ...], axis: int, count: int, shares: bool = False
    ) -> tuple[str, ...]:
        """Weights, and perhaps a bias of some channels, which broadcasts if it shares."""
        if self.chance(0.05):
            return (self.floats(shape, x.dtype),)
        w, scale = self.weight(shape, axis)
        bias = self.bias(count, scale, shares) if count else ""
        return (w, bias) if bias else (w,)

    def bias(self, count: int, w_scale: np.ndarray, shares: bool) -> str:
        """None, floats, or int32 with the product of the scales, or with odd ones."""
        kind = self.rng.random()
        if kind < 0.25:
            return ""
        dtype = np.float16 if self.half else np.float32
        if kind < 0.33:
            shape = self.choose([(count,), (1, count), (), (1,)]) if shares else (count,)
            return self.constant(np.asarray(self.rng.integers(-40, 40, shape) / 4, dtype))
        values = self.rng.integers(-200, 200, count).astype(np.int32)
        zero, attributes = None, {}
        x_scale = self.quantized[self.current][1][0] if self.current in self.quantized else None
        if kind < 0.8 and x_scale is not None and np.size(x_scale) == 1:
            scale = np.asarray(np.float32(x_scale).reshape(()) * np.float32(w_scale), dtype)
            if np.size(scale) not in (1, count):
                scale = scale[:1].reshape(())
            if kind > 0.72:
                scale = np.asarray(scale * self.choose([0.5, 1.005, 0.9999, 2, 1.0000001]), dtype)
        else:
            scale = self.scale((count,) if self.chance(0.4) else ())
        if self.chance(0.3):
            zero = np.zeros(scale.shape, np.int32)
        elif self.chance(0.1):
            zero = np.full(scale.shape, 8, np.int32)
        if scale.ndim:
            attributes["axis"] = 0
        name = (self.input if self.chance(0.05) else self.constant)(values)
        return self.dequantize(name, (scale, zero, attributes))

    # --- operators ------------------------------------------------------------------------

    def first_axis(self, x: np.ndarray) -> int:
        """0, or mostly 1 behind a batch."""
        return int(bool(self.batch) and x.ndim > 1 and self.chance(0.97))

    def other(self, x: np.ndarray, shape: Sequence[int] | None = None) -> str:
        """Another operand for an operator: of a shape, or of one that broadcasts with x."""
        if shape is None:
            ones = [x.shape[-1:], (1,) * x.ndim, ()]
            more = [(1, *x.shape), (2, *x.shape), (*x.shape[:1], *(1,) * (x.ndim - 1))]
            ones += [] if self.batch else more
            shape = x.shape if self.chance(0.65) else self.choose(ones)
        same = [
            name
            for name, array in self.known.items()
            if array.shape == tuple(shape) and array.dtype == x.dtype and name not in self.inputs
        ]
        if same and self.chance(0.35):
            return self.choose(same)
        is_float = shape[:1] != (self.batch,) and self.chance(0.1)
        return self.floats(shape, x.dtype) if is_float else self.source(shape)

    def attempt(self, row: Row, x: str) -> str:
        """Draws the attributes and the inputs of a node; returns its first output."""
        array = self.known[x]
        given: dict[str, Any] = {}
        for name, draw_value in row.attributes.items():
            value = draw_value(self, array, given)
            given |= {} if value is None else {name: value}
        names = [x, *row.inputs(self, array, given)]
        if row.mixes and self.chance(0.4):
            names = [names[i] for i in self.rng.permutation(len(names))]
        outputs = row.outputs(self, array, given)
        op = self.op or self.choose(row.ops.split())
        found = self.node(op, *names, outputs=outputs, **given)
        return found if outputs == 1 else self.choose(found)

    def step(self, x: str) -> str:
        """The output of a random node of x, or of several; x if it was not floats."""
        self.current, kind = x, self.rng.random()
        families = FAMILIES[self.size]
        rank = self.known[x].ndim
        if self.op:
            rows = [row for family, _ in families for row in family if self.op in row.ops.split()]
            return self.attempt(self.choose([row for row in rows if rank in row.ranks]), x)
        for family, share in families:
            kind -= share
            if kind < 0 and family is NORMS and not self.known[x].size:
                raise Refused  # ONNX Runtime 1.32 ends the process
            if kind < 0:
                rows = [row for row in family if rank in row.ranks]
                return self.attempt(self.choose(rows), x)
        return self.choose([make for make, ranks in PATTERNS if rank in ranks])(self, x)

    def steps(self, x: str) -> str:
        """A step that ONNX Runtime computes."""
        for _ in range(30):
            kept = dict(self.__dict__, nodes=[*self.nodes], inputs={**self.inputs})
            kept |= {name: {**kept[name]} for name in ("constants", "known", "quantized")}
            try:
                return self.step(x)
            except (Refused, ValueError, IndexError, TypeError, ZeroDivisionError):
                self.__dict__ |= kept
        if self.op:
            raise Refused  # another shape may have it
        return self.node("Identity", x)

    def model(self) -> onnx.ModelProto:
        is_one = self.op or self.size == "bytes" or self.chance(0.55)
        count = 1 if is_one else int(self.rng.integers(2, 5))
        first = self.choose(SHAPES[self.size])
        if self.batch:
            first = (self.batch, *(first[1:] if self.size == "small" else first))
        floats = [self.source(first, is_first=True)]
        for _ in range(count):
            x = floats[-1] if self.chance(0.85) else self.choose(floats)
            y = self.steps(x)
            if self.known[y].dtype.kind != "f":
                continue
            floats.append(y)
            if self.chance(0.88):
                dtype, parameters = self.kept_parameters() if self.chance(0.4) else (None, None)
                name = self.quantize(y, dtype, parameters)
                readers = 2 if self.chance(0.1) else 1
                for _ in range(readers if self.chance(0.85) and self.size != "bytes" else 0):
                    own = None if self.chance(0.1) else self.quantized[name][1]
                    floats.append(self.dequantize(name, own))
        made = [name for node in self.nodes for name in node.output]
        read = {name for node in self.nodes for name in node.input}
        ends = [name for name in made if name not in read]
        ends = [ends[-1], *(name for name in ends[:-1] if self.chance(0.6))]
        ends += [self.choose(made)] if self.chance(0.25) else []
        return self._finish(list(dict.fromkeys(ends)))

    def kept_parameters(self) -> tuple[Any, tuple | None]:
        """The dtype and the parameters of the last dequantization, as a move keeps them."""
        for tensor, parameters in reversed(self.quantized.values()):
            if (
                parameters[0].all()
                and parameters[0].size == 1
                and self.known[tensor].dtype.name in BYTES
            ):
                return self.known[tensor].dtype, (*parameters[:2], {})
        return None, None

    def _finish(self, ends: list[str]) -> onnx.ModelProto:
        if not self.inputs:  # everything is constant
            self.inputs["unused"] = np.zeros(1, np.float32)
        batch = ["n"] if self.batch else []
        inputs = [
            helper.make_tensor_value_info(name, TYPE(x.dtype), [*batch, *x.shape[len(batch) :]])
            for name, x in self.inputs.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in ends]
        read = {name for node in self.nodes for name in node.input}
        arrays = {name: x for name, x in self.constants.items() if name in read}
        constants = [numpy_helper.from_array(x, name) for name, x in arrays.items()]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


_OF_ROWS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "DynamicQuantizeLinear"}


def draw(seed: int, op: str = "") -> Drawn:
    """Draws a graph, or one of an operator; again if ONNX Runtime refuses a part of it."""
    for turn in itertools.count():
        maker = Maker(seed if turn == 0 else [seed, turn], op)
        with contextlib.suppress(Refused):
            model = maker.model()
            break
    noise = FLOAT16 if maker.half else 0 if maker.is_exact else FLOAT32
    floats = {"DynamicQuantizeLinear"} if maker.is_exact else _OF_ROWS
    nodes = model.graph.node
    is_free = floats.isdisjoint(node.op_type for node in nodes)
    is_free &= not any(  # its default axes hold the batch
        node.op_type == "MeanVarianceNormalization" and not node.attribute for node in nodes
    )
    has_batch = bool(maker.batch) and is_free and "unused" not in maker.inputs
    return Drawn(model, maker.inputs, noise, has_batch, maker.size)


def describe(model: onnx.ModelProto) -> str:
    """The model in lines of text."""
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}

    def show(name: str) -> str:
        if name not in arrays:
            return name or "-"
        x = arrays[name]
        return f"{x.dtype}{list(x.shape)}{x.tolist() if x.size <= 8 else '...'}"

    lines = [f"opset {model.opset_import[0].version}"]
    for x in model.graph.input:
        sizes = [d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim]
        dtype = TensorProto.DataType.Name(x.type.tensor_type.elem_type)
        lines.append(f"  {x.name}: {dtype}{sizes}")
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        call = f"{node.domain}:{node.op_type}({', '.join(map(show, node.input))})"
        lines.append(f"  {node.output[0]} = {call} {attributes or ''}")
    lines.append(f"  -> {[x.name for x in model.graph.output]}")
    return "\n".join(lines)
