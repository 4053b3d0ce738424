"""Evaluates a QDQ file in rational numbers: quantizations round once, and nothing else rounds."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
_OPTIONS = onnxruntime.SessionOptions()
_OPTIONS.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
_OPTIONS.intra_op_num_threads = 1
_OPTIONS.log_severity_level = 4
FLOAT32 = Fraction(1, 1 << 19)  # the error of a chain's result, relative to its largest terms
FLOAT16 = Fraction(1, 1 << 8)


class Real(NamedTuple):
    """Fractions as an object array, and how far float32 arithmetic may be from them."""

    value: Any
    error: Any  # 0 where floats are exact


class Steps(NamedTuple):
    """Integers, and the range in which float32 arithmetic may put them."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def real(array: Any, error: Any = 0) -> Real:
    value = np.frompyfunc(Fraction, 1, 1)(np.asarray(array, object))
    value = np.asarray(value, object)
    return Real(value, np.asarray(np.zeros(value.shape, object) + error, object))


def evaluate(
    model: onnx.ModelProto,
    inputs: dict[str, np.ndarray],
    noise: Any,
    slack: int = 0,
    whole_softmax: bool = False,
) -> dict[str, Any]:
    """Every tensor: Steps of quantized ones, Reals of floats, arrays of others.

    With a slack every quantization of a result may be that many steps off. A whole softmax may be
    multiplied by the whole part of 1 / y_scale, as ONNX Runtime's is.
    """
    scales = {
        node.input[0]: node.input[1]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear"
    }
    known: dict[str, Any] = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    known.update(inputs)
    opset = model.opset_import[0].version
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        operands = [known[name] if name else None for name in node.input]
        sizes = [np.size(x[0] if isinstance(x, Real | Steps) else x) for x in operands]
        if node.op_type not in _FUNCTIONS or 0 in sizes:
            known |= (found := _by_peer(node, operands, noise, opset))
            if node.op_type == "DynamicQuantizeLinear":
                _refuse_ties(operands[0], [found[name] for name in node.output], opset)
            continue
        found = _FUNCTIONS[node.op_type](operands, attributes, noise, opset)
        if whole_softmax and node.op_type == "Softmax" and node.output[0] in scales:
            found = _with_whole_factor(found, known[scales[node.output[0]]])
        if node.op_type == "QuantizeLinear" and node.input[0] not in inputs:
            found = _widen(found, slack)
        known[node.output[0]] = type(found)(*map(np.asarray, found))  # scalars as well
    return known


def _refuse_ties(x: Any, outputs: list[Any], opset: int) -> None:
    """Refuses quotients that a float32 division may round to a tie, and a rational does not."""
    _, scale, zero = (y[0] if isinstance(y, Real | Steps) else y for y in outputs)
    found = quantize((x, np.asarray(scale, np.float32), zero), {}, Fraction(1, 1 << 23), opset)
    if np.any(found.low != found.high):
        raise OverflowError("float32 may round a quotient of DynamicQuantizeLinear to a tie")


def _refuse_near_values(op: str, reals: list[Real]) -> None:
    """Refuses an index of floats whose errors may put them in another order."""
    for x in reals:
        apart = np.diff(np.sort(np.asarray(x.value).ravel()))
        if np.any(apart <= 2 * np.max(x.error, initial=0)):
            raise OverflowError(f"{op} may choose any of some floats")


def _with_whole_factor(x: Real, scale: np.ndarray) -> Real:
    unit = Fraction(abs(float(scale.ravel()[0])))
    lost = 1 - unit * math.floor(np.float32(1) / np.float32(unit))
    return Real(x.value, x.error + abs(x.value) * max(lost, 0))


def _widen(x: Steps, slack: int) -> Steps:
    limits = np.iinfo(x.value.dtype)
    low, high = x.low.astype(np.int64) - slack, x.high.astype(np.int64) + slack
    ends = np.maximum(low, limits.min), np.minimum(high, limits.max)
    return Steps(x.value, *(each.astype(x.value.dtype) for each in ends))


def _along(parameter: Any, x: Any, attributes: Any) -> Any:
    """A parameter in the shape that broadcasts to x."""
    parameter = np.asarray(parameter)
    if parameter.ndim == 0 or (parameter.size == 1):
        return parameter.reshape(())
    axis = attributes.get("axis", 1) % x.ndim
    if size := attributes.get("block_size"):
        return np.take(parameter, np.arange(x.shape[axis]) // size, axis)
    return parameter.reshape((1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1))


def dequantize(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    x, scale, *rest = operands
    steps = x if isinstance(x, Steps) else Steps(x, x, x)
    zero = rest[0] if rest else np.zeros((), np.int64)
    factor = real(_along(np.asarray(scale, np.float64), steps.value, attributes)).value
    offset = _along(zero, steps.value, attributes).astype(object)
    value, low, high = ((each.astype(object) - offset) * factor for each in steps)
    error = np.maximum(abs(low - value), abs(high - value))
    return Real(np.asarray(value, object), np.asarray(error + abs(value) * noise, object))


def quantize(operands: Any, attributes: Any, noise: Any, opset: int) -> Steps:
    x, scale, *rest = operands
    x = x if isinstance(x, Real) else real(np.asarray(x, np.float64))
    dtype = (
        rest[0].dtype
        if rest
        else np.dtype(helper.tensor_dtype_to_np_dtype(attributes.get("output_dtype", 2)))
    )
    zero = _along(rest[0] if rest else np.zeros((), dtype), x.value, attributes).astype(object)
    factor = real(_along(np.asarray(scale, np.float64), x.value, attributes)).value
    limits = np.iinfo(dtype)

    def to_steps(value: Any) -> np.ndarray:
        rounded = np.asarray(np.frompyfunc(round, 1, 1)(value / factor), object) + zero
        return (
            np.asarray(np.clip(rounded, limits.min, limits.max), object)
            .astype(np.int64)
            .astype(dtype)
        )

    error = x.error + abs(x.value) * noise
    ends = to_steps(x.value - error), to_steps(x.value + error)
    return Steps(to_steps(x.value), np.minimum(*ends), np.maximum(*ends))


def _reals(operands: Any) -> list[Real]:
    """The operands that are there."""
    found = [x if isinstance(x, Real) else real(x) for x in operands if x is not None]
    return [Real(*(np.asarray(each, object) for each in x)) for x in found]


def _linear(function: Any) -> Any:
    """A sum of products of the first two operands, plus others; `function` is bilinear."""

    def compute(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
        a, b, c, *_ = _reals([*operands, np.zeros(())])
        value = function(a.value, b.value, c.value, attributes)
        size = function(abs(a.value), abs(b.value), abs(c.value), attributes)
        if any(x.error.any() for x in (a, b, c)):
            noise = max(noise, FLOAT32)  # its operands are not exact
        error = (
            function(
                abs(a.value) + a.error, abs(b.value) + b.error, abs(c.value) + c.error, attributes
            )
            - size
        )
        return Real(value, abs(error) + abs(size) * noise)

    return compute


def _patches(x: Any, kernel: Any, attributes: Any) -> tuple[Any, Any, Any]:
    """Windows of the shape (images, channels, *places, *kernel).

    Returns:
      Their elements, 0 outside of x, which of them are inside, and which are inside of the padding.
    """
    rank = x.ndim - 2
    strides, dilations = (attributes.get(each) or (1,) * rank for each in ("strides", "dilations"))
    mode, pads = attributes.get("auto_pad", b"NOTSET"), attributes.get("pads", (0,) * 2 * rank)
    inside, counted = np.ones((1,) * 2 * rank, bool), np.ones((1,) * 2 * rank, bool)
    for axis, (stride, dilation, length) in enumerate(zip(strides, dilations, kernel, strict=True)):
        size, reach = x.shape[2 + 2 * axis], dilation * (length - 1) + 1
        low, high = pads[axis], pads[axis + rank]
        if mode in (b"SAME_UPPER", b"SAME_LOWER"):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            low, high = total // 2, total - total // 2
            low, high = (low, high) if mode == b"SAME_UPPER" else (high, low)
        steps = Fraction(size + low + high - reach, stride)
        count = (math.ceil(steps) if attributes.get("ceil_mode") else math.floor(steps)) + 1
        if attributes.get("ceil_mode") and (count - 1) * stride >= size + low:
            count -= 1
        places = np.arange(count)[:, None] * stride - low + np.arange(length) * dilation
        x = np.take(x, np.clip(places, 0, size - 1), 2 + 2 * axis)
        shape = [1] * 2 * rank
        shape[axis], shape[axis + rank] = places.shape
        inside = inside & ((places >= 0) & (places < size)).reshape(shape)
        counted = counted & (places < size + high).reshape(shape)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 2 + 2 * rank, 2)]
    return np.where(inside, x.transpose(order), Fraction(0)), inside, counted


def _convolve(x: Any, w: Any, c: Any, attributes: Any) -> Any:
    group, rank = attributes.get("group", 1), w.ndim - 2
    patches = _patches(x, w.shape[2:], attributes)[0]
    each = zip(np.split(patches, group, 1), np.split(w, group), strict=True)
    reduced = [1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)]
    parts = [np.tensordot(a, b, reduced) for a, b in each]
    y = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    return y + (c.reshape(-1, *(1,) * rank) if np.ndim(c) else 0)


def _gemm(a: Any, b: Any, c: Any, attributes: Any) -> Any:
    a = a.T if attributes.get("transA") else a
    b = b.T if attributes.get("transB") else b
    alpha, beta = (Fraction(float(attributes.get(name, 1.0))) for name in ("alpha", "beta"))
    return alpha * np.matmul(a, b) + beta * c


def _average(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    (x,) = _reals(operands)
    kernel = attributes.get("kernel_shape", x.value.shape[2:])  # global without one
    axes = tuple(range(x.value.ndim, x.value.ndim + len(kernel)))
    parts = [_patches(each, kernel, attributes) for each in (*x, abs(x.value))]
    inside, counted = parts[0][1:]
    which = counted if attributes.get("count_include_pad") else inside
    counts = np.maximum(which.sum(tuple(range(len(kernel), 2 * len(kernel)))), 1)
    value, error, size = (each.sum(axes) / counts.astype(object) for each, *_ in parts)
    is_exact = counts & (counts - 1) == 0  # a quotient by a power of 2
    return Real(value, error + size * np.where(is_exact, noise, max(noise, FLOAT32)))


def run_node(
    node: onnx.NodeProto, operands: Sequence[np.ndarray | None], opset: int
) -> dict[str, Any]:
    """The outputs of a node by their names; it raises if ONNX Runtime refuses the node."""
    pairs = zip(node.input, operands, strict=True)
    feeds = {name: np.asarray(x) for name, x in pairs if name and x is not None}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), _OPTIONS, ["CPUExecutionProvider"]
    )
    names = [x.name for x in outputs]
    return dict(zip(names, session.run(names, feeds), strict=True))


def _by_peer(node: onnx.NodeProto, operands: Any, noise: Any, opset: int) -> dict[str, Any]:
    """The outputs of a node that ONNX Runtime computes, near which other floats may be."""
    reals = _reals(x for x in operands if isinstance(x, Real))
    dtype = np.float16 if noise == FLOAT16 else np.float32
    arrays = [np.asarray(x.value) if isinstance(x, Real | Steps) else x for x in operands]
    arrays = [x if np.dtype(object) != getattr(x, "dtype", 0) else x.astype(dtype) for x in arrays]
    try:
        found = run_node(node, arrays, opset)
    except Exception:  # a mixture of floats
        arrays = [_widened(x) for x in arrays]
        found = run_node(node, arrays, opset)
    before = max((np.max(x.error, initial=0) for x in reals), default=0)
    outputs: dict[str, Any] = {}
    for name, y in found.items():
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise OverflowError(f"{node.op_type} gives {name} that no rational has")
        size = Fraction(float(np.abs(y).max(initial=0)))
        gain, loss = _GAINS.get(node.op_type, (8, max(noise, FLOAT32)))
        is_float = y.dtype.kind == "f"
        if before and not is_float and node.op_type in _CHOICES:
            _refuse_near_values(node.op_type, reals)
        error = before * gain + loss * size
        error += bool(before) if node.op_type in JUMPS else 0
        error += _LOST.get(node.op_type, 0)
        outputs[name] = real(y.astype(np.float64), error) if is_float else y
    return outputs


def _widened(x: Any) -> Any:
    return x.astype(np.float32) if x is not None and x.dtype == np.float16 else x


_MOVES = """
  Abs Cast Ceil Clip Concat DepthToSpace DequantizeLinear Dropout Expand Flatten Floor Gather
  GatherElements GlobalMaxPool Hardmax Identity Max MaxPool Min Neg Pad QuantizeLinear ReduceMax
  ReduceMin Relu Reshape Round Sign Slice SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze
  Where
"""
_CHOICES = ("ArgMax", "ArgMin", "MaxPool", "TopK")
JUMPS = ("Ceil", "Floor", "Hardmax", "Round", "Sign", "ThresholdedRelu")
_GAINS = dict.fromkeys(_MOVES.split(), (1, 0))  # the growth of errors, and the error of results
_GAINS["Sub"] = 2, 0
_LOST = {"Sigmoid": Fraction(1, 1 << 25)}  # ONNX Runtime's of -18 and below is 0


_FUNCTIONS: dict[str, Any] = {
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "Add": _linear(lambda a, b, c, _: a + b),
    "Mul": _linear(lambda a, b, c, _: a * b),
    "MatMul": _linear(lambda a, b, c, _: np.matmul(a, b)),
    "Gemm": _linear(_gemm),
    "Conv": _linear(_convolve),
    "AveragePool": _average,
    "GlobalAveragePool": _average,
}
