"""Evaluates a QDQ file in rational numbers: quantizations round once, and nothing else rounds."""

import itertools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

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
    return Real(value, np.zeros(value.shape, object) + error)


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
        compute = _FUNCTIONS[node.op_type]
        found = compute(operands, attributes, noise, opset)
        if whole_softmax and node.op_type == "Softmax" and node.output[0] in scales:
            found = _with_whole_factor(found, known[scales[node.output[0]]])
        if node.op_type == "QuantizeLinear" and node.input[0] not in inputs:
            found = _widen(found, slack)
        known[node.output[0]] = found
    return known


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
    return [x if isinstance(x, Real) else real(np.asarray(x, np.float64)) for x in operands]


def _linear(function: Any) -> Any:
    """A sum of products of the first two operands, plus others; `function` is bilinear."""

    def compute(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
        a, b, *rest = _reals(operands)
        c = rest[0] if rest else real(np.zeros(()))
        value = function(a.value, b.value, c.value, attributes)
        size = function(abs(a.value), abs(b.value), abs(c.value), attributes)
        error = (
            function(
                abs(a.value) + a.error, abs(b.value) + b.error, abs(c.value) + c.error, attributes
            )
            - size
        )
        return Real(value, abs(error) + abs(size) * noise)

    return compute


def _convolve(x: Any, w: Any, c: Any, attributes: Any) -> Any:
    pads, strides = attributes.get("pads", (0,) * 4), attributes.get("strides", (1, 1))
    group = attributes.get("group", 1)
    padded = np.zeros(
        (*x.shape[:2], x.shape[2] + pads[0] + pads[2], x.shape[3] + pads[1] + pads[3]), object
    )
    padded[:, :, pads[0] : pads[0] + x.shape[2], pads[1] : pads[1] + x.shape[3]] = x
    filters, depth, kh, kw = w.shape
    sizes = [(n - k) // s + 1 for n, k, s in zip(padded.shape[2:], (kh, kw), strides, strict=False)]
    y = np.zeros((x.shape[0], filters, *sizes), object)
    for f, i, j in itertools.product(range(filters), *map(range, sizes)):
        start = f // (filters // group) * depth
        window = padded[
            :,
            start : start + depth,
            i * strides[0] : i * strides[0] + kh,
            j * strides[1] : j * strides[1] + kw,
        ]
        y[:, f, i, j] = (window * w[f]).sum((1, 2, 3)) + (c.reshape(-1)[f] if np.ndim(c) else 0)
    return y


def _gemm(a: Any, b: Any, c: Any, attributes: Any) -> Any:
    a = a.T if attributes.get("transA") else a
    b = b.T if attributes.get("transB") else b
    alpha, beta = (Fraction(float(attributes.get(name, 1.0))) for name in ("alpha", "beta"))
    return alpha * np.matmul(a, b) + beta * c


def _windows(x: Real, attributes: Any) -> Any:
    """The output sizes, and each window as slices, without what lies outside."""
    kernel, is_ceil = attributes["kernel_shape"], attributes.get("ceil_mode", 0)
    pads, strides = attributes.get("pads", (0,) * 4), attributes.get("strides", (1, 1))
    sizes = []
    for axis, size in enumerate(x.value.shape[2:]):
        steps = Fraction(size + pads[axis] + pads[axis + 2] - kernel[axis], strides[axis])
        count = (math.ceil(steps) if is_ceil else math.floor(steps)) + 1
        if is_ceil and (count - 1) * strides[axis] >= size + pads[axis]:
            count -= 1
        sizes.append(count)
    found = {}
    for place in itertools.product(*map(range, sizes)):
        parts, counted = [], 1
        for axis, size in enumerate(x.value.shape[2:]):
            start = place[axis] * strides[axis] - pads[axis]
            end = start + kernel[axis]
            parts.append(slice(max(start, 0), min(end, size)))
            counted *= min(end, size + pads[axis + 2]) - start
        found[place] = parts, counted
    return sizes, found


def _pool(is_average: bool) -> Any:
    def compute(operands: Any, attributes: Any, noise: Any, opset: int) -> Any:
        x = operands[0] if isinstance(operands[0], Real) else _reals(operands)[0]
        sizes, windows = _windows(x, attributes)
        value, error = (np.zeros((*x.value.shape[:2], *sizes), object) for _ in range(2))
        for (i, j), (parts, counted) in windows.items():
            window, errors = (each[:, :, parts[0], parts[1]] for each in x)
            if is_average:
                inside = window.shape[2] * window.shape[3]
                count = counted if attributes.get("count_include_pad") else inside
                value[:, :, i, j] = window.sum((2, 3)) / Fraction(count)
                size = abs(window).sum((2, 3)) / Fraction(count)
                error[:, :, i, j] = errors.sum((2, 3)) / Fraction(count) + size * _of_count(
                    noise, count
                )
            else:
                value[:, :, i, j] = window.max((2, 3))
                error[:, :, i, j] = errors.max((2, 3))
        return Real(value, error)

    return compute


def global_average(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    (x,) = _reals(operands)
    count = x.value.shape[2] * x.value.shape[3]
    value, error, size = (
        each.sum((2, 3), keepdims=True) / Fraction(count) for each in (*x, abs(x.value))
    )
    return Real(value, error + size * _of_count(noise, count))


def _of_count(noise: Any, count: int) -> Any:
    """The error of a quotient: that by a power of 2 has none."""
    return noise if count & (count - 1) == 0 else max(noise, FLOAT32)


def _function(function: Any, slope: int = 1, is_float: bool = True) -> Any:
    def compute(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
        (x, *_) = _reals(operands[:1])
        value = np.asarray(
            np.frompyfunc(lambda each: Fraction(function(each, attributes)), 1, 1)(x.value), object
        )
        error = x.error * slope + (
            abs(value) * max(noise, FLOAT32) + Fraction(1, 1 << 30) if is_float else 0
        )
        return Real(value, error)

    return compute


def softmax(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    (x,) = _reals(operands)
    array = x.value.astype(np.float64)
    axis = attributes.get("axis", -1 if opset >= 13 else 1)
    terms = np.exp(array - array.max(axis, keepdims=True))
    value = real(terms / terms.sum(axis, keepdims=True)).value
    return Real(
        value, value * max(noise, FLOAT32) * 4 + x.error.max(initial=0) + Fraction(1, 1 << 30)
    )


def clip(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    (x,) = _reals(operands[:1])
    value = x.value
    for way, end in zip((np.maximum, np.minimum), operands[1:], strict=False):
        value = value if end is None else way(value, Fraction(float(end)))
    return Real(np.asarray(value, object), x.error)


def _moved(function: Any) -> Any:
    """Moves the values and their errors by one function."""

    def compute(operands: Any, attributes: Any, noise: Any, opset: int) -> Any:
        x, *rest = operands
        if isinstance(x, Real | Steps):
            return type(x)(*(function(np.asarray(each), attributes, *rest) for each in x))
        return function(np.asarray(x), attributes, *rest)

    return compute


def _blocks(to_space: bool) -> Any:
    def move(x: Any, attributes: Any) -> Any:
        n, c, h, w = x.shape
        b = attributes["blocksize"]
        if to_space:
            split = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
            return split.reshape(n, c // b**2, h * b, w * b)
        return (
            x.reshape(n, c, h // b, b, w // b, b)
            .transpose(0, 3, 5, 1, 2, 4)
            .reshape(n, c * b**2, h // b, w // b)
        )

    return move


def _slice(x: Any, attributes: Any, starts: Any, ends: Any, axes: Any) -> Any:
    index = [slice(None)] * x.ndim
    index[int(axes[0])] = slice(int(starts[0]), int(ends[0]))
    return x[tuple(index)]


def concatenate(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    parts = _reals(operands)
    return Real(*(np.concatenate(each, attributes["axis"]) for each in zip(*parts, strict=True)))


def where(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    a, b = _reals(operands[1:])
    return Real(*(np.where(operands[0], x, y) for x, y in zip(a, b, strict=True)))


_FUNCTIONS: dict[str, Any] = {
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "Add": _linear(lambda a, b, c, _: a + b),
    "Sub": lambda operands, *rest: _subtract(operands, *rest),
    "Mul": _linear(lambda a, b, c, _: a * b),
    "MatMul": _linear(lambda a, b, c, _: np.matmul(a, b)),
    "Gemm": _linear(_gemm),
    "Conv": _linear(_convolve),
    "Relu": _function(lambda x, _: max(x, 0), is_float=False),
    "Clip": clip,
    "Sigmoid": _function(lambda x, _: 1 / (1 + math.exp(-float(max(min(x, 700), -700))))),
    "LeakyRelu": lambda operands, attributes, noise, opset: _function(
        lambda x, given: x if x >= 0 else x * Fraction(float(np.float32(given["alpha"]))),
        is_float=bool(noise),
    )(operands, attributes, noise, opset),
    "Softmax": softmax,
    "MaxPool": _pool(False),
    "AveragePool": _pool(True),
    "GlobalAveragePool": global_average,
    "Concat": concatenate,
    "Where": where,
    "Identity": _moved(lambda x, _: x),
    "Transpose": _moved(lambda x, given: x.transpose(given["perm"])),
    "Reshape": _moved(lambda x, _, shape: x.reshape(shape)),
    "Flatten": _moved(lambda x, given: x.reshape(math.prod(x.shape[: given["axis"]]), -1)),
    "Unsqueeze": _moved(lambda x, _, axes: np.expand_dims(x, tuple(axes))),
    "Squeeze": _moved(lambda x, _, axes: np.squeeze(x, tuple(axes))),
    "Slice": _moved(_slice),
    "Gather": _moved(lambda x, given, places: np.take(x, places, given["axis"])),
    "GatherElements": _moved(lambda x, given, places: np.take_along_axis(x, places, given["axis"])),
    "Expand": _moved(
        lambda x, _, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
    ),
    "Tile": _moved(lambda x, _, repeats: np.tile(x, repeats)),
    "Resize": _moved(lambda x, _, roi, scales: x.repeat(2, 2)),
    "DepthToSpace": _moved(_blocks(True)),
    "SpaceToDepth": _moved(_blocks(False)),
}


def _subtract(operands: Any, attributes: Any, noise: Any, opset: int) -> Real:
    a, b = _reals(operands)
    return _FUNCTIONS["Add"]([a, Real(-b.value, b.error)], attributes, noise, opset)
