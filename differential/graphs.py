"""Draws small QDQ models: one to four operators between dequantizations and quantizations."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from differential.rationals import FLOAT16, FLOAT32

TYPES = {
    np.dtype(name): getattr(TensorProto, name.upper())
    for name in ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16")
}
TYPES[np.dtype(np.float32)] = TensorProto.FLOAT
MICROSOFT = "com.microsoft"
SHAPES = ((2, 3), (3, 4), (1, 2, 4, 4), (2, 3, 3, 5), (2, 2, 3), (1, 4, 2, 2))


@dataclass
class Value:
    """A float tensor; `axis_of` says along which axis the tensor before has its scales."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype = field(default=np.dtype(np.float32))


class Maker:
    """Adds nodes to one model."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.is_exact = self.chance(0.75)  # scales are powers of 2, so that floats are exact
        self.opset = int(self.rng.choice([13, 17, 19, 21, 23]))
        self.main = np.dtype(self.choose(["uint8", "uint8", "int8", "uint16", "int16"]))
        self.half = self.opset >= 19 and self.chance(0.04)
        self.is_exact &= not self.half
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.outputs: list[str] = []
        self.scales: dict[str, tuple[np.ndarray, np.ndarray | None, int]] = {}
        self.count = 0

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choose(self, items):
        return items[int(self.rng.integers(len(items)))]

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def constant(self, array) -> str:
        name = self.fresh()
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.asarray(values, np.int64))

    def node(self, op: str, *inputs: str, domain: str = "", **attributes) -> str:
        output = self.fresh()
        made = helper.make_node(op, inputs, [output], f"n{output}", domain=domain, **attributes)
        self.nodes.append(made)
        return output

    # --- quantization ---------------------------------------------------------------------

    def scale(self, shape: tuple[int, ...]) -> np.ndarray:
        sign = -1 if self.chance(0.04) else 1
        dtype = np.float16 if self.half else np.float32
        if self.is_exact or self.half:  # of float16 products of few bits are exact, too
            return (sign * 2.0 ** self.rng.integers(-3, 2, shape)).astype(dtype)
        return (sign * self.rng.uniform(0.02, 0.4, shape)).astype(dtype)

    def zero_point(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray | None:
        if self.chance(0.25):
            return None
        if dtype == np.int32 or self.chance(0.3):
            return np.zeros(shape, dtype)
        if dtype == np.uint8 and self.chance(0.3):
            return np.full(shape, 128, dtype)
        limits = np.iinfo(dtype) if dtype.itemsize == 1 else np.iinfo(np.int8)
        return self.rng.integers(max(limits.min, np.iinfo(dtype).min), limits.max, shape).astype(
            dtype
        )

    def parameters(self, dtype, shape, per_axis: float = 0.12):
        """A scale, a zero point or None, and the attributes of the axis."""
        dims: tuple[int, ...] = ()
        attributes, axis = {}, 1
        if self.chance(per_axis) and shape:
            axis = int(self.rng.integers(len(shape)))
            dims = (shape[axis],)
            given = axis if self.chance(0.7) else axis - len(shape)
            if given != 1 or self.chance(0.5):
                attributes["axis"] = given
        elif self.chance(0.1):
            dims = (1,)
        return self.scale(dims), self.zero_point(np.dtype(dtype), dims), attributes

    def _domain(self, dtype, parameters) -> dict[str, str]:
        needs = np.dtype(dtype).itemsize == 2 and self.opset < 21
        scale, _, _attributes = parameters
        return (
            {"domain": MICROSOFT}
            if needs or (self.chance(0.05) and scale.dtype == np.float32)
            else {}
        )

    def dequantize(self, tensor: str, dtype, shape, parameters=None) -> Value:
        scale, zero_point, attributes = parameters or self.parameters(dtype, shape)
        names = [tensor, self.constant(scale)]
        if zero_point is not None:
            names.append(self.constant(zero_point))
        how = self._domain(dtype, (scale, zero_point, attributes))
        out = scale.dtype
        if self.opset >= 23 and not how and self.chance(0.05):
            out = np.dtype(np.float16 if scale.dtype == np.float32 else np.float32)
            attributes = {**attributes, "output_dtype": TYPES[out]}
            self.half |= out == np.float16
        name = self.node("DequantizeLinear", *names, **how, **attributes)
        return Value(name, shape, np.dtype(out))

    def quantize(self, x: Value, dtype=None, parameters=None) -> tuple[str, np.dtype, tuple]:
        dtype = np.dtype(
            dtype
            or (
                self.main if self.chance(0.8) else self.choose(["uint8", "int8", "uint16", "int16"])
            )
        )
        parameters = parameters or self.parameters(dtype, x.shape)
        scale, zero_point, attributes = parameters
        if x.dtype != scale.dtype:
            scale = scale.astype(x.dtype)
        names, extra = [x.name, self.constant(scale)], {}
        how = self._domain(dtype, parameters)
        if zero_point is not None:
            names.append(self.constant(zero_point))
        elif self.opset >= 21 and not how and self.chance(0.8):
            extra["output_dtype"] = TYPES[dtype]
        else:
            dtype = np.dtype(np.uint8)
            if how:
                how = {}
        name = self.node("QuantizeLinear", *names, **how, **extra, **attributes)
        return name, dtype, (scale, zero_point, attributes)

    def values(self, dtype, shape) -> np.ndarray:
        dtype = np.dtype(dtype)
        if dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            return self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
        low = 0 if dtype.kind == "u" else -900
        return self.rng.integers(low, 900, shape).astype(dtype)

    def source(self, shape, dtype=None, is_first: bool = False) -> Value:
        """A dequantized input, constant, or quantized float input."""
        dtype = np.dtype(
            dtype
            or (
                self.main
                if self.chance(0.85)
                else self.choose(["uint8", "int8", "uint16", "int16", "int32"])
            )
        )
        kind = self.rng.random()
        if kind < 0.35 and dtype != np.int32:
            name = self.fresh()
            steps = self.rng.integers(-120, 120, shape) / 8 + (
                0 if self.is_exact else self.rng.random(shape)
            )
            self.inputs[name] = steps.astype(np.float16 if self.half else np.float32)
            x = Value(name, tuple(shape), self.inputs[name].dtype)
            tensor, dtype, parameters = self.quantize(x, dtype)
            if self.chance(0.1):
                parameters = None
            elif parameters[1] is None and dtype != np.uint8:
                parameters = parameters  # the dtype alone says what it is
            return self.dequantize(tensor, dtype, tuple(shape), parameters)
        values = self.values(dtype, shape)
        if kind < 0.85 or is_first:
            name = self.fresh()
            self.inputs[name] = values
        else:
            name = self.constant(values)
        return self.dequantize(name, dtype, tuple(shape))

    def weight(self, shape, axis: int) -> tuple[Value, np.ndarray]:
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
        return self.dequantize(
            self.constant(values), dtype, tuple(shape), (scale, zero, attributes)
        ), scale

    def bias(self, count: int, x_scale, w_scale) -> Value | str | None:
        """None, floats, or int32 with the product of the scales, or with odd ones."""
        kind = self.rng.random()
        if kind < 0.25:
            return None
        dtype = np.float16 if self.half else np.float32
        if kind < 0.33:
            return Value(
                self.constant((self.rng.integers(-40, 40, count) / 4).astype(dtype)),
                (count,),
                np.dtype(dtype),
            )
        values = self.rng.integers(-200, 200, count).astype(np.int32)
        zero, attributes = None, {}
        if kind < 0.8 and x_scale is not None and np.size(x_scale) == 1:
            scale = (np.float32(x_scale).reshape(()) * w_scale.astype(np.float32)).astype(dtype)
            if np.size(scale) not in (1, count):
                scale = scale[:1].reshape(())
            if kind > 0.72:
                scale = (scale * self.choose([0.5, 1.005, 0.9999, 2, 1.0000001])).astype(dtype)
        else:
            scale = self.scale((count,) if self.chance(0.4) else ())
        if self.chance(0.3):
            zero = np.zeros(scale.shape, np.int32)
        elif self.chance(0.1):
            zero = np.full(scale.shape, 8, np.int32)
        if scale.ndim:
            attributes["axis"] = 0
        name = self.constant(values)
        if self.chance(0.05):
            name = self.fresh()
            self.inputs[name] = values
        return self.dequantize(name, np.dtype(np.int32), (count,), (scale, zero, attributes))

    def scale_of(self, x: Value):
        """The scale of a dequantized tensor."""
        arrays = {each.name: each for each in self.initializers}
        for node in self.nodes:
            if node.output[0] == x.name and node.op_type == "DequantizeLinear":
                return numpy_helper.to_array(arrays[node.input[1]])
        return None

    # --- operators ------------------------------------------------------------------------

    def moved(self, x: Value) -> Value:
        rank, shape = len(x.shape), x.shape
        names = [
            "Transpose",
            "Reshape",
            "Flatten",
            "Unsqueeze",
            "Slice",
            "Gather",
            "GatherElements",
            "Expand",
            "Tile",
            "Identity",
        ]
        names += (
            ["MaxPool", "MaxPool", "DepthToSpace", "SpaceToDepth", "Resize"] if rank == 4 else []
        )
        names += ["Squeeze"] if 1 in shape and rank > 1 else []
        op = self.choose(names)
        axis = int(self.rng.integers(rank))
        if op == "Transpose":
            perm = [int(i) for i in self.rng.permutation(rank)]
            return self.put(x, tuple(shape[i] for i in perm), op, perm=perm)
        if op == "Reshape":
            new = (int(np.prod(shape)),) if self.chance(0.5) else (shape[0], -1)
            size = int(np.prod(shape))
            return self.put(
                x, tuple(size // shape[0] if n == -1 else n for n in new), op, self.integers(*new)
            )
        if op == "Flatten":
            new = int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))
            return self.put(x, new, op, axis=axis)
        if op == "Unsqueeze":
            new = (*shape[:axis], 1, *shape[axis:])
            return self.put(x, new, op, self.integers(axis))
        if op == "Squeeze":
            axis = shape.index(1)
            return self.put(x, (*shape[:axis], *shape[axis + 1 :]), op, self.integers(axis))
        if op == "Slice":
            names = map(self.integers, (0, max(shape[axis] - 1, 1), axis))
            size = max(shape[axis] - 1, 1)
            return self.put(x, (*shape[:axis], size, *shape[axis + 1 :]), op, *names)
        if op == "Gather":
            places = self.rng.integers(0, shape[axis], 2)
            return self.put(
                x, (*shape[:axis], 2, *shape[axis + 1 :]), op, self.integers(*places), axis=axis
            )
        if op == "GatherElements":
            places = self.rng.integers(0, shape[axis], shape)
            return self.put(x, shape, op, self.constant(places.astype(np.int64)), axis=axis)
        if op == "Expand":
            return self.put(x, (2, *shape), op, self.integers(2, *shape))
        if op == "Tile":
            repeats = [2 if i == axis else 1 for i in range(rank)]
            return self.put(
                x,
                tuple(n * r for n, r in zip(shape, repeats, strict=False)),
                op,
                self.integers(*repeats),
            )
        if op == "MaxPool":
            return self.pool(x, op)
        if op == "Resize":
            scales = self.constant(np.float32([1, 1, 2, 1]))
            return self.put(
                x,
                (*shape[:2], 2 * shape[2], shape[3]),
                op,
                "",
                scales,
                mode="nearest",
                nearest_mode="floor",
                coordinate_transformation_mode="asymmetric",
            )
        if op == "DepthToSpace" and shape[1] % 4 == 0:
            return self.put(
                x, (shape[0], shape[1] // 4, shape[2] * 2, shape[3] * 2), op, blocksize=2
            )
        if op == "SpaceToDepth" and shape[2] % 2 == 0 and shape[3] % 2 == 0:
            return self.put(
                x, (shape[0], shape[1] * 4, shape[2] // 2, shape[3] // 2), op, blocksize=2
            )
        return self.put(x, shape, "Identity")

    def put(self, x: Value, shape, op: str, *others: str, **attributes) -> Value:
        return Value(self.node(op, x.name, *others, **attributes), tuple(map(int, shape)), x.dtype)

    def pool(self, x: Value, op: str) -> Value:
        h, w = x.shape[2:]
        kernel = [int(self.rng.integers(1, 4)) for _ in range(2)]
        kernel = [min(k, n) for k, n in zip(kernel, (h, w), strict=False)]
        strides = [int(self.rng.integers(1, 3)) for _ in range(2)]
        pads = [int(self.rng.integers(0, k)) if self.chance(0.5) else 0 for k in (*kernel, *kernel)]
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        is_ceil = self.chance(0.25)
        if is_ceil:
            attributes["ceil_mode"] = 1
        if op == "AveragePool" and self.chance(0.4):
            attributes["count_include_pad"] = 1
        name = self.node(op, x.name, **attributes)
        sizes = []
        for axis in range(2):
            size, total = x.shape[2 + axis], pads[axis] + pads[axis + 2]
            steps = (size + total - kernel[axis]) / strides[axis]
            count = (int(np.ceil(steps)) if is_ceil else int(steps)) + 1
            if is_ceil and (count - 1) * strides[axis] >= size + pads[axis]:
                count -= 1
            sizes.append(count)
        return Value(name, (*x.shape[:2], *sizes), x.dtype)

    def step(self, x: Value) -> Value:
        rank = len(x.shape)
        ops = ["move"] * 4 + [
            "Relu",
            "Clip",
            "Sigmoid",
            "LeakyRelu",
            "Softmax",
            "Add",
            "Mul",
            "Sub",
            "Concat",
            "Where",
        ]
        ops += ["AveragePool", "GlobalAveragePool", "Conv", "Conv"] if rank == 4 else []
        ops += ["Gemm", "Gemm", "Gemm", "MatMul"] if rank == 2 else []
        ops += ["MatMul"] if rank > 2 else []
        op = self.choose(ops)
        if op == "move":
            return self.moved(x)
        if op in ("Relu", "Sigmoid"):
            return self.put(x, x.shape, op)
        if op == "Clip":
            low, high = self.choose([(0, 6), (-2, 2), (0, 1000), (-1000, 1000), (0, None)])
            ends = [
                "" if end is None else self.constant(np.asarray(end, x.dtype))
                for end in (low, high)
            ]
            return self.put(x, x.shape, op, *ends)
        if op == "LeakyRelu":
            return self.put(x, x.shape, op, alpha=0.25 if self.is_exact else 0.1)
        if op == "Softmax":
            return self.put(x, x.shape, op, axis=int(self.rng.integers(-rank, rank)))
        if op in ("Add", "Mul", "Sub", "Where"):
            shape = x.shape
            if self.chance(0.3):
                shape = self.choose([(1,) * rank, x.shape[-1:], (x.shape[0], *(1,) * (rank - 1))])
            other = x if self.chance(0.05) else self.source(shape)
            if other.dtype != x.dtype:
                return self.put(x, x.shape, "Relu")
            pair = [x.name, other.name] if self.chance(0.6) else [other.name, x.name]
            if op == "Where":
                mask = self.constant(self.rng.integers(0, 2, x.shape).astype(bool))
                return Value(self.node(op, mask, *pair), x.shape, x.dtype)
            return Value(self.node(op, *pair), x.shape, x.dtype)
        if op == "Concat":
            others = [self.source(x.shape) for _ in range(int(self.rng.integers(1, 3)))]
            names = [x.name, *(each.name for each in others if each.dtype == x.dtype)]
            axis = int(self.rng.integers(rank))
            shape = list(x.shape)
            shape[axis] *= len(names)
            return Value(self.node(op, *names, axis=axis), tuple(shape), x.dtype)
        if op == "AveragePool":
            return self.pool(x, op)
        if op == "GlobalAveragePool":
            return self.put(x, (*x.shape[:2], 1, 1), op)
        return self.product(x, op)

    def product(self, x: Value, op: str) -> Value:
        x_scale = self.scale_of(x)
        if op == "Conv":
            channels, filters = x.shape[1], int(self.rng.integers(1, 4))
            group = channels if self.chance(0.2) else 1
            filters *= group
            kernel = [int(self.rng.integers(1, 3)) for _ in range(2)]
            w, w_scale = self.weight((filters, channels // group, *kernel), 0)
            pads = [int(self.chance(0.4)) for _ in range(4)]
            strides = [int(self.rng.integers(1, 3)) for _ in range(2)]
            sizes = [
                (n + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1
                for i, n in enumerate(x.shape[2:])
            ]
            shape, count, attributes = (
                (x.shape[0], filters, *sizes),
                filters,
                {"pads": pads, "strides": strides, "group": group},
            )
        elif op == "Gemm":
            columns = int(self.rng.integers(1, 5))
            flip_a, flip_b = self.chance(0.2), self.chance(0.5)
            depth, rows = (x.shape[0], x.shape[1]) if flip_a else (x.shape[1], x.shape[0])
            w, w_scale = self.weight(
                (columns, depth) if flip_b else (depth, columns), 0 if flip_b else 1
            )
            attributes = {"transA": int(flip_a), "transB": int(flip_b)}
            if self.chance(0.2):
                attributes["alpha"] = self.choose([2.0, 0.5, 1.5])
            if self.chance(0.15):
                attributes["beta"] = self.choose([2.0, 0.5])
            shape, count = (rows, columns), columns
        else:
            columns = int(self.rng.integers(1, 5))
            batch = x.shape[:-2] if self.chance(0.3) else ()
            w, w_scale = self.weight((*batch, x.shape[-1], columns), len(batch) + 1)
            if self.chance(0.3):
                w = self.source((*batch, x.shape[-1], columns))
            shape, count, attributes = (*x.shape[:-1], columns), 0, {}
        if w.dtype != x.dtype:
            return self.put(x, x.shape, "Relu")
        names = [x.name, w.name]
        bias = self.bias(count, x_scale, w_scale) if count else None
        if bias is not None and bias.dtype == x.dtype:
            names.append(bias.name)
        return Value(self.node(op, *names, **attributes), tuple(map(int, shape)), x.dtype)

    def model(self) -> onnx.ModelProto:
        steps = 1 if self.chance(0.6) else int(self.rng.integers(2, 5))
        x = self.source(self.choose(SHAPES), is_first=True)
        tensors = []
        for last in [False] * (steps - 1) + [True]:
            x = self.step(x)
            tensors.append(x.name)
            if int(np.prod(x.shape)) > 500:
                last = True
            if self.chance(0.88):
                parameters = None
                own = self.scale_of_source()
                if own is not None and self.chance(0.4):  # as a move keeps them
                    parameters = own
                name, dtype, parameters = self.quantize(
                    x, None if parameters is None else parameters[3], parameters and parameters[:3]
                )
                tensors.append(name)
                if last and self.chance(0.6):
                    break
                x = self.dequantize(name, dtype, x.shape, None if self.chance(0.1) else parameters)
                tensors.append(x.name)
            if last:
                break
        self.outputs = [tensors[-1]]
        if self.chance(0.15):
            self.outputs += [self.choose(tensors)]
        self.outputs = list(dict.fromkeys(self.outputs))
        return self._finish()

    def scale_of_source(self):
        """The parameters and the dtype of the last dequantization."""
        arrays = {each.name: numpy_helper.to_array(each) for each in self.initializers}
        for node in reversed(self.nodes):
            if node.op_type == "DequantizeLinear" and len(node.input) == 3:
                zero = arrays[node.input[2]]
                if zero.dtype == np.int32 or (zero.ndim and zero.size > 1):
                    return None
                return arrays[node.input[1]], zero, {}, zero.dtype
        return None

    def _finish(self) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, TYPES[x.dtype], x.shape)
            for name, x in self.inputs.items()
        ]
        if not inputs:  # everything is constant
            inputs = [helper.make_tensor_value_info("unused", TensorProto.FLOAT, [1])]
            self.inputs["unused"] = np.zeros(1, np.float32)
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, self.initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray], Any]:
    """A model, its inputs, and the relative error of its floats."""
    maker = Maker(seed)
    model = maker.model()
    noise = 0 if maker.is_exact else FLOAT32
    return model, maker.inputs, FLOAT16 if maker.half else noise


def describe(model: onnx.ModelProto) -> str:
    """The model in lines of text."""
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}

    def show(name: str) -> str:
        if name not in arrays:
            return name or "-"
        x = arrays[name]
        return f"{x.dtype}{list(x.shape)}{x.tolist() if x.size <= 4 else '...'}"

    lines = [f"opset {model.opset_import[0].version}"]
    for x in model.graph.input:
        sizes = [d.dim_value for d in x.type.tensor_type.shape.dim]
        lines.append(
            f"  {x.name}: {TensorProto.DataType.Name(x.type.tensor_type.elem_type)}{sizes}"
        )
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        call = f"{node.domain}:{node.op_type}({', '.join(map(show, node.input))})"
        lines.append(f"  {node.output[0]} = {call} {attributes or ''}")
    lines.append(f"  -> {[x.name for x in model.graph.output]}")
    return "\n".join(lines)
