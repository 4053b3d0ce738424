"""Draws models of one operator: dtypes, shapes, quantization and options at random."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tools.litert.files import Op, Subgraph, Tensor

Rng = np.random.Generator
CASES: dict[str, Callable[[Rng], Subgraph]] = {}
ROWS = "rows of "
"""Begins the name of a detector's count, whose rows have so many columns: the rest is undefined."""
_FUSED = ("", "", "RELU", "RELU6", "RELU_N1_TO_1")


def case(function: Callable[[Rng], Subgraph]) -> Callable[[Rng], Subgraph]:
    """Adds a function that draws a model to the list."""
    CASES[function.__name__] = function
    return function


def _one(rng: Rng, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def _scale(rng: Rng, near: float = 0.02) -> float:
    """A scale: a power of two, a short fraction, or any float32."""
    exact = near * 2.0 ** rng.uniform(-2, 2)
    kind = rng.integers(4)
    if kind == 0:
        return float(2.0 ** round(math.log2(exact)))
    return float(np.float32(round(exact, 3) or exact)) if kind == 1 else float(np.float32(exact))


def _zero(rng: Rng, dtype: Any) -> int:
    if np.dtype(dtype).itemsize > 1:
        return 0
    limits = np.iinfo(dtype)
    return int(
        _one(
            rng, limits.min, 0 if limits.min < 0 else 128, rng.integers(limits.min, limits.max + 1)
        )
    )


def _quantized(rng: Rng, dtype: Any, shape: Sequence[int], near: float = 0.02) -> Tensor:
    return Tensor(dtype, shape, None, [_scale(rng, near)], [_zero(rng, dtype)])


def _draw(rng: Rng, dtype: Any, shape: Sequence[int]) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _weights(rng: Rng, dtype: Any, shape: Sequence[int], axis: int) -> Tensor:
    """Weights with a scale for each output channel, or one; int8 has no zero point."""
    dtype = np.dtype(dtype)
    if dtype == np.uint8:
        return Tensor(dtype, shape, _draw(rng, dtype, shape), [_scale(rng)], [_zero(rng, dtype)])
    count = shape[axis] if rng.integers(2) else 1
    data = np.maximum(_draw(rng, dtype, shape), -127)
    return Tensor(
        dtype,
        shape,
        data,
        [_scale(rng) for _ in range(count)],
        [0] * count,
        axis if count > 1 else 0,
    )


def _constant(values: Any, dtype: Any = np.int32) -> Tensor:
    array = np.asarray(values, dtype)
    return Tensor(array.dtype, array.shape, array)


def _product(
    rng: Rng,
    name: str,
    dtype: Any,
    x: Sequence[int],
    w: Sequence[int],
    y: Sequence[int],
    axis: int,
    depth: int,
    options: dict[str, Any],
    sizes: Tensor | None = None,
) -> Subgraph:
    """A convolution or a matrix product with a bias."""
    outputs, is_float = y[-1], np.dtype(dtype).kind == "f"
    if is_float:
        tensors = {
            "x": Tensor(dtype, x),
            "w": Tensor(dtype, w, _draw(rng, dtype, w)),
            "b": Tensor(dtype, (outputs,), _draw(rng, dtype, (outputs,))),
            "y": Tensor(dtype, y),
        }
    else:
        source = _quantized(rng, dtype, x)
        weights = _weights(rng, np.uint8 if dtype == np.uint8 else np.int8, w, axis)
        size = np.iinfo(dtype).max / 4 if dtype == np.int16 else 64
        near = source.scales[0] * max(weights.scales) * 64 * size * math.sqrt(depth)
        near /= np.iinfo(dtype).max if dtype != np.uint8 else 127
        wide = dtype == np.int16 and rng.integers(2)
        most = int(64 * size * math.sqrt(depth))
        bias = rng.integers(-most, most, outputs).astype(np.int64 if wide else np.int32)
        scales = [source.scales[0] * s for s in weights.scales]
        tensors = {
            "x": source,
            "w": weights,
            "b": Tensor(bias.dtype, (outputs,), bias, scales, [0] * len(scales)),
            "y": _quantized(rng, dtype, y, near),
        }
    inputs = ["x", "w", "b"]
    if sizes is not None:
        tensors["sizes"] = sizes
        inputs = ["sizes", "w", "x", "b"]
    activation = "" if dtype == np.int16 else _one(rng, *_FUSED)
    if dtype == np.int16 and name != "DEPTHWISE_CONV_2D":
        options = {**options, "bias_type": 4 if wide else 2}
    op = Op(name, inputs, ["y"], {**options, "activation": activation})
    return Subgraph(tensors, [op], ["x"], ["y"])


def _windows(
    rng: Rng, h: int, w: int, most: int = 3
) -> tuple[dict[str, Any], tuple[int, int], list[int]]:
    """Options of windows, a kernel and the output's size."""
    padding = _one(rng, "SAME", "VALID")
    kernel = (int(rng.integers(1, min(most, h) + 1)), int(rng.integers(1, min(most, w) + 1)))
    strides = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    sizes = [
        -(-n // s) if padding == "SAME" else -(-(n - k + 1) // s)
        for n, k, s in zip((h, w), kernel, strides, strict=True)
    ]
    return {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}, kernel, sizes


_NUMBERS = (np.int8, np.int8, np.int8, np.int16, np.float32, np.uint8)


@case
def conv_2d(rng: Rng) -> Subgraph:
    """Any kernel, strides, padding; sometimes dilated."""
    dtype, batch = _one(rng, *_NUMBERS), int(rng.integers(1, 3))
    h, w, c, k = (int(n) for n in rng.integers((3, 3, 1, 1), (9, 9, 20, 20)))
    options, kernel, sizes = _windows(rng, h, w)
    if rng.integers(4) == 0 and dtype != np.int16:
        options |= {
            "padding": "SAME",
            "stride_h": 1,
            "stride_w": 1,
            "dilation_h": 2,
            "dilation_w": 2,
        }
        sizes = [h, w]
    shapes = (batch, h, w, c), (k, *kernel, c), (batch, *sizes, k)
    return _product(rng, "CONV_2D", dtype, *shapes, 0, kernel[0] * kernel[1] * c, options)


@case
def grouped_conv_2d(rng: Rng) -> Subgraph:
    """Groups of channels that do not meet."""
    groups, h, w, c, k = (int(n) for n in rng.integers((2, 3, 3, 1, 1), (4, 8, 8, 6, 6)))
    options, kernel, sizes = _windows(rng, h, w)
    shapes = (1, h, w, groups * c), (groups * k, *kernel, c), (1, *sizes, groups * k)
    depth = kernel[0] * kernel[1] * c
    return _product(rng, "CONV_2D", _one(rng, np.int8, np.float32), *shapes, 0, depth, options)


@case
def four_bits(rng: Rng) -> Subgraph:
    """Bytes by weights of 4 bits."""
    h, w, c, k = (int(n) for n in rng.integers((3, 3, 1, 1), (7, 7, 12, 12)))
    options, kernel, sizes = _windows(rng, h, w)
    filter: tuple[int, ...] = (k, *kernel, c)
    name, x, y = "CONV_2D", [1, h, w, c], [1, *sizes, k]
    if rng.integers(2):
        name, x, filter, y, options = "FULLY_CONNECTED", [h, 2 * c], (k, 2 * c), [h, k], {}
    axis, terms = 0, math.prod(filter[1:])
    if name == "CONV_2D" and rng.integers(3) == 0:
        name, filter, y = "DEPTHWISE_CONV_2D", (1, *kernel, c), [1, *sizes, c]
        axis, terms, options["multiplier"] = 3, math.prod(kernel), 1
    graph = _product(rng, name, np.int8, x, filter, y, axis, terms, options)
    weights = graph.tensors["w"]
    data = rng.integers(-7, 8, filter)
    weights.dtype, weights.data = jnp.int4, data.astype(jnp.int4)
    graph.tensors["y"].scales = [graph.tensors["y"].scales[0] / 16]
    return graph


@case
def depthwise_conv_2d(rng: Rng) -> Subgraph:
    """With a multiplier of channels, sometimes."""
    dtype, batch = _one(rng, *_NUMBERS), int(rng.integers(1, 3))
    h, w, c = (int(n) for n in rng.integers((3, 3, 1), (9, 9, 20)))
    multiplier = int(_one(rng, 1, 1, 2, 3))
    options, kernel, sizes = _windows(rng, h, w)
    k = c * multiplier
    options["multiplier"] = multiplier
    if rng.integers(4) == 0 and dtype != np.int16:
        options |= {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        options |= {"dilation_h": 2, "dilation_w": int(rng.integers(1, 3))}
        sizes = [h, w]
    shapes = (batch, h, w, c), (1, *kernel, k), (batch, *sizes, k)
    return _product(rng, "DEPTHWISE_CONV_2D", dtype, *shapes, 3, kernel[0] * kernel[1], options)


@case
def transpose_conv(rng: Rng) -> Subgraph:
    """Strides of 1 and 2."""
    dtype = _one(rng, np.int8, np.int8, np.int16, np.float32, np.uint8)
    h, w, c, k = (int(n) for n in rng.integers((1, 1, 1, 1), (6, 6, 12, 12)))
    kernel, strides = (
        [int(n) for n in rng.integers(1, 4, 2)],
        [int(n) for n in rng.integers(1, 3, 2)],
    )
    padding = _one(rng, "SAME", "VALID")
    sizes = [
        n * s if padding == "SAME" else (n - 1) * s + max(f, s if s > f else f)
        for n, s, f in zip((h, w), strides, kernel, strict=True)
    ]
    if padding == "VALID":
        sizes = [(n - 1) * s + f for n, s, f in zip((h, w), strides, kernel, strict=True)]
    options = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    shapes = (1, h, w, c), (k, *kernel, c), (1, *sizes, k)
    return _product(
        rng,
        "TRANSPOSE_CONV",
        dtype,
        *shapes,
        0,
        kernel[0] * kernel[1] * c,
        options,
        _constant([1, *sizes, k]),
    )


@case
def fully_connected(rng: Rng) -> Subgraph:
    """Rows of any rank."""
    dtype = _one(rng, *_NUMBERS)
    rows, depth, columns = (int(n) for n in rng.integers(1, (6, 40, 33)))
    shape, keeps = (
        ((rows, depth), False) if rng.integers(2) else ((2, rows, depth), bool(rng.integers(2)))
    )
    count = math.prod(shape[:-1])
    output = (*shape[:-1], columns) if keeps else (count, columns)
    return _product(
        rng,
        "FULLY_CONNECTED",
        dtype,
        shape,
        (columns, depth),
        output,
        0,
        depth,
        {"keep_num_dims": keeps},
    )


@case
def batch_matmul(rng: Rng) -> Subgraph:
    """Either transposed."""
    dtype, (n, k, m) = _one(rng, np.int8, np.float32), (int(n) for n in rng.integers(1, 12, 3))
    options = {"adj_x": bool(rng.integers(2)), "adj_y": bool(rng.integers(2))}
    x = (2, k, n) if options["adj_x"] else (2, n, k)
    y = (2, m, k) if options["adj_y"] else (2, k, m)
    tensors = {
        "x": _any(rng, dtype, x),
        "w": _any(rng, dtype, y),
        "y": _any(rng, dtype, (2, n, m), 1.0),
    }
    if dtype == np.int8 and rng.integers(2):  # as XNNPACK takes it
        tensors["w"].zeros = [0]
    return Subgraph(tensors, [Op("BATCH_MATMUL", ["x", "w"], ["y"], options)], ["x", "w"], ["y"])


def _any(rng: Rng, dtype: Any, shape: Sequence[int], near: float = 0.02) -> Tensor:
    return (
        Tensor(dtype, shape)
        if np.dtype(dtype).kind != "i" and dtype != np.uint8
        else _quantized(rng, dtype, shape, near)
    )


def _broadcast(rng: Rng) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 5)))
    kind = rng.integers(4)
    other = tuple(n if rng.integers(2) else 1 for n in shape) if kind == 0 else shape
    other = shape[-1:] if kind == 1 else () if kind == 2 else other
    return (other, shape, shape) if rng.integers(4) == 0 and other else (shape, other, shape)


def _binary(name: str, dtypes: Sequence[Any]) -> Callable[[Rng], Subgraph]:
    def draw(rng: Rng) -> Subgraph:
        dtype, (a, b, y) = _one(rng, *dtypes), _broadcast(rng)
        near = 0.02 if name != "MUL" else 0.05
        if dtype == np.int16:
            near = 2e-4
        tensors = {"a": _any(rng, dtype, a, near), "b": _any(rng, dtype, b, near)}
        tensors["y"] = _any(rng, dtype, y, near * _one(rng, 1, 2, 8))
        if dtype in (np.int8, np.int16) and rng.integers(3) == 0:
            data = _draw(rng, dtype, b)
            tensors["b"].data = data
        options = {"activation": "" if dtype == np.int16 else _one(rng, *_FUSED)}
        inputs = ["a"] if tensors["b"].data is not None else ["a", "b"]
        if dtype == np.int16 and name in ("ADD", "SUB"):
            options["pot_scale_int16"] = False
        return Subgraph(tensors, [Op(name, ["a", "b"], ["y"], options)], inputs, ["y"])

    return draw


for _name in ("ADD", "SUB", "MUL"):
    CASES[_name.lower()] = _binary(_name, (np.int8, np.int8, np.int16, np.float32, np.uint8))


def _plain(
    name: str, *, same: bool, dtypes: Sequence[Any], count: int = 1, out: Any = None
) -> None:
    """A function of tensors of one shape, whose scales are the same or any."""

    def draw(rng: Rng) -> Subgraph:
        dtype = _one(rng, *dtypes)
        shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 5)))
        names = ["a", "b", "c"][:count]
        tensors = {each: _any(rng, dtype, shape) for each in names}
        tensors["y"] = Tensor(out, shape) if out else _any(rng, dtype, shape)
        if same:
            for each in [*names, "y"]:
                if tensors["a"].scales and tensors[each].scales:
                    tensors[each].scales, tensors[each].zeros = (
                        tensors["a"].scales,
                        tensors["a"].zeros,
                    )
        return Subgraph(tensors, [Op(name, names, ["y"])], names, ["y"])

    CASES[name.lower()] = draw


for _name in (
    "ABS",
    "CEIL",
    "COS",
    "ELU",
    "EXP",
    "FLOOR",
    "LOG",
    "NEG",
    "ROUND",
    "SIN",
    "SQRT",
    "SQUARE",
):
    _plain(_name, same=False, dtypes=(np.float32,))
for _name in ("MAXIMUM", "MINIMUM"):
    _plain(_name, same=True, dtypes=(np.int8, np.float32, np.uint8), count=2)
_plain("SQUARED_DIFFERENCE", same=False, dtypes=(np.float32, np.int8), count=2)
_plain("FLOOR_MOD", same=False, dtypes=(np.float32,), count=2)
CASES["div"] = _binary("DIV", (np.float32,))
for _name in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"):
    _plain(_name, same=False, dtypes=(np.int8, np.float32, np.uint8), count=2, out=np.bool_)
for _name in ("RELU", "RELU6", "RELU_N1_TO_1"):
    _plain(_name, same=False, dtypes=(np.int8, np.float32, np.uint8))
_plain("HARD_SWISH", same=False, dtypes=(np.int8, np.float32, np.uint8))
_plain("RELU_0_TO_1", same=False, dtypes=(np.int8, np.float32, np.uint8))
_plain("LOGICAL_NOT", same=True, dtypes=(np.bool_,))
_plain("SIGN", same=True, dtypes=(np.float32,))
for _name in ("LOGICAL_AND", "LOGICAL_OR"):
    _plain(_name, same=True, dtypes=(np.bool_,), count=2)
for _name in ("ATAN2", "POW", "FLOOR_DIV"):
    _plain(_name, same=False, dtypes=(np.float32,), count=2)


@case
def gelu(rng: Rng) -> Subgraph:
    """By the error function, and by the hyperbolic tangent."""
    dtype = _one(rng, np.float32, np.int8)
    x, y = (_any(rng, dtype, (3, 40)) for _ in range(2))
    return _graph("GELU", [x], [y], approximate=bool(rng.integers(2)))


for _name in ("ABS", "ELU", "EXP", "LOG"):
    _plain(_name, same=False, dtypes=(np.float32, np.int8))


@case
def rsqrt(rng: Rng) -> Subgraph:
    """Of floats above 0, or of bytes of which none is below the zero point."""
    dtype = _one(rng, np.float32, np.int8, np.int8)
    tensors = {"x": _any(rng, dtype, (2, 90)), "y": _any(rng, dtype, (2, 90), 0.05)}
    if dtype == np.int8:
        tensors["x"].zeros = [-128]
    return Subgraph(tensors, [Op("RSQRT", ["x"], ["y"])], ["x"], ["y"])


def _sigmoid(name: str) -> Callable[[Rng], Subgraph]:
    def draw(rng: Rng) -> Subgraph:
        dtype = _one(rng, np.int8, np.float32, np.uint8)
        tensors = {"x": _any(rng, dtype, (2, 50), 0.05), "y": _any(rng, dtype, (2, 50))}
        if dtype != np.float32:
            low = int(np.iinfo(dtype).min)
            is_tanh = name == "TANH"
            tensors["y"].scales = [1 / 128 if is_tanh else 1 / 256]
            tensors["y"].zeros = [low + 128 if is_tanh else low]
        return Subgraph(tensors, [Op(name, ["x"], ["y"])], ["x"], ["y"])

    return draw


for _name in ("LOGISTIC", "TANH"):
    CASES[_name.lower()] = _sigmoid(_name)


@case
def softmax(rng: Rng) -> Subgraph:
    """Rows of bytes or floats."""
    dtype = _one(rng, np.int8, np.float32, np.uint8)
    shape = (int(rng.integers(1, 5)), int(rng.integers(1, 40)))
    tensors = {"x": _any(rng, dtype, shape, _one(rng, 0.02, 0.2)), "y": _any(rng, dtype, shape)}
    if dtype != np.float32:
        tensors["y"].scales, tensors["y"].zeros = [1 / 256], [int(np.iinfo(dtype).min)]
    beta = float(_one(rng, 1.0, 1.0, 0.5))
    return Subgraph(tensors, [Op("SOFTMAX", ["x"], ["y"], {"beta": beta})], ["x"], ["y"])


@case
def leaky_relu(rng: Rng) -> Subgraph:
    """Any slope below 1."""
    dtype = _one(rng, np.int8, np.int16, np.float32, np.uint8)
    near = 2e-4 if dtype == np.int16 else 0.02
    tensors = {"x": _any(rng, dtype, (3, 40), near), "y": _any(rng, dtype, (3, 40), near)}
    alpha = float(np.float32(rng.uniform(0.01, 0.9)))
    return Subgraph(tensors, [Op("LEAKY_RELU", ["x"], ["y"], {"alpha": alpha})], ["x"], ["y"])


@case
def prelu(rng: Rng) -> Subgraph:
    """A slope for each channel."""
    dtype = _one(rng, np.int8, np.float32, np.uint8)
    shape = (1, int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(1, 20)))
    slope = _any(rng, dtype, (1, 1, shape[-1]), 0.005)
    slope.data = _draw(rng, dtype, slope.shape)
    tensors = {"x": _any(rng, dtype, shape), "a": slope, "y": _any(rng, dtype, shape)}
    return Subgraph(tensors, [Op("PRELU", ["x", "a"], ["y"])], ["x"], ["y"])


@case
def pool(rng: Rng) -> Subgraph:
    """Maxima and averages."""
    name = _one(rng, "AVERAGE_POOL_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D")
    dtype = _one(rng, np.int8, np.int16, np.float32, np.uint8)
    h, w, c = (int(n) for n in rng.integers((2, 2, 1), (9, 9, 20)))
    options, kernel, sizes = _windows(rng, h, w, 4)
    options |= {"filter_h": kernel[0], "filter_w": kernel[1]}
    options["activation"] = "" if dtype == np.int16 else _one(rng, *_FUSED)
    tensors = {"x": _any(rng, dtype, (1, h, w, c)), "y": _any(rng, dtype, (1, *sizes, c))}
    tensors["y"].scales, tensors["y"].zeros = tensors["x"].scales, tensors["x"].zeros
    return Subgraph(tensors, [Op(name, ["x"], ["y"], options)], ["x"], ["y"])


@case
def mean(rng: Rng) -> Subgraph:
    """Any axes, with and without them kept."""
    dtype = _one(rng, np.int8, np.int8, np.float32, np.uint8)
    shape = tuple(int(n) for n in rng.integers(1, 8, 4))
    axes = _one(rng, [1, 2], [1, 2], [3], [0, 1], [2], [1], [1, 2, 3], [-1])
    keeps = bool(rng.integers(2))
    places = {axis % 4 for axis in axes}
    kept = [1 if i in places else n for i, n in enumerate(shape) if keeps or i not in places]
    tensors = {"x": _any(rng, dtype, shape), "axes": _constant(axes), "y": _any(rng, dtype, kept)}
    op = Op("MEAN", ["x", "axes"], ["y"], {"keep_dims": keeps})
    return Subgraph(tensors, [op], ["x"], ["y"])


@case
def reduce(rng: Rng) -> Subgraph:
    """Sums of floats, and extremes of integers of one scale."""
    name = _one(rng, "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    dtype = (
        np.float32 if name in ("SUM", "REDUCE_PROD") else _one(rng, np.int8, np.float32, np.uint8)
    )
    shape = tuple(int(n) for n in rng.integers(1, 6, 3))
    axes, keeps = _one(rng, [0], [1, 2], [2], [0, 1, 2]), bool(rng.integers(2))
    kept = [1 if i in axes else n for i, n in enumerate(shape) if keeps or i not in axes]
    tensors = {"x": _any(rng, dtype, shape), "axes": _constant(axes), "y": _any(rng, dtype, kept)}
    tensors["y"].scales, tensors["y"].zeros = tensors["x"].scales, tensors["x"].zeros
    if rng.integers(5) == 0:
        tensors |= {key: Tensor(np.int32, tensors[key].shape) for key in ("x", "y")}
    elif name == "SUM" and rng.integers(2):
        tensors |= {"x": _any(rng, np.int8, shape), "y": _any(rng, np.int8, kept, 0.05)}
    return Subgraph(tensors, [Op(name, ["x", "axes"], ["y"], {"keep_dims": keeps})], ["x"], ["y"])


@case
def quantize(rng: Rng) -> Subgraph:
    """Floats, and integers of another scale."""
    source, target = _one(
        rng,
        (np.float32, np.int8),
        (np.float32, np.uint8),
        (np.float32, np.int16),
        (np.int8, np.int8),
        (np.uint8, np.int8),
        (np.int8, np.uint8),
        (np.int16, np.int8),
        (np.int16, np.int16),
    )
    shape, near = (int(rng.integers(1, 4)), int(rng.integers(1, 50))), 0.01
    fine = 1e-4 if np.int16 in (source, target) else near
    tensors = {
        "x": _any(rng, source, shape, fine if source == np.int16 else near),
        "y": _any(rng, target, shape, fine if target == np.int16 else near),
    }
    return Subgraph(tensors, [Op("QUANTIZE", ["x"], ["y"])], ["x"], ["y"])


@case
def dequantize(rng: Rng) -> Subgraph:
    """Integers of 8 and 16 bits."""
    dtype = _one(rng, np.int8, np.uint8, np.int16)
    tensors = {"x": _any(rng, dtype, (2, 30)), "y": Tensor(np.float32, (2, 30))}
    return Subgraph(tensors, [Op("DEQUANTIZE", ["x"], ["y"])], ["x"], ["y"])


@case
def resize(rng: Rng) -> Subgraph:
    """Bilinear and nearest, in all three conventions."""
    name = _one(rng, "RESIZE_BILINEAR", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    dtype = _one(rng, np.int8, np.int8, np.float32, np.uint8)
    h, w, c, oh, ow = (int(n) for n in rng.integers(1, (9, 9, 20, 20, 20)))
    options = _one(rng, {}, {"half_pixel_centers": True}, {"align_corners": True})
    tensors = {"x": _any(rng, dtype, (1, h, w, c)), "sizes": _constant([oh, ow])}
    tensors["y"] = Tensor(dtype, (1, oh, ow, c), None, tensors["x"].scales, tensors["x"].zeros)
    return Subgraph(tensors, [Op(name, ["x", "sizes"], ["y"], options)], ["x"], ["y"])


def _moves(name: str, rng: Rng) -> Subgraph:
    """Operators that move elements."""
    dtype = _one(rng, np.int8, np.float32, np.uint8)
    n, h, w, c = shape = (1, 4, int(rng.integers(1, 4)) * 2, int(rng.integers(1, 4)) * 4)
    constants: list[Any] = []
    options: dict[str, Any] = {}
    count, outputs = 1, 1
    if name == "TRANSPOSE":
        order = rng.permutation(4)
        constants, output = [order], [shape[i] for i in order]
    elif name in ("PAD", "PADV2", "MIRROR_PAD"):
        pads = (
            rng.integers(0, 2, (4, 2))
            if name != "MIRROR_PAD"
            else np.array([(0, 0), (1, 1), (1, 0), (0, 2)])
        )
        constants, output = [pads], list(np.add(shape, pads.sum(1)))
        options = {"mode": int(rng.integers(2))} if name == "MIRROR_PAD" else {}
    elif name == "STRIDED_SLICE":
        begin, steps = rng.integers(0, 1, 4), np.array([1, int(_one(rng, 1, 2, -1)), 1, 1])
        options = {"begin_mask": 15, "end_mask": 15, "shrink_axis_mask": int(_one(rng, 0, 1))}
        constants = [begin, np.array(shape), steps]
        output = [len(range(0, n, abs(s))) for n, s in zip(shape, steps.tolist(), strict=True)]
        output = output[1:] if options["shrink_axis_mask"] else output
        if rng.integers(2):  # x[..., None, 1:-1]
            options = {"ellipsis_mask": 1, "new_axis_mask": 2}
            constants = [np.array(x) for x in ([0, 0, 1], [0, 0, -1], [1, 1, 1])]
            output = [n, h, w, 1, c - 2]
    elif name == "SLICE":
        begin, size = np.array([0, 1, 0, 2]), np.array([1, 2, -1, 2])
        constants, output = [begin, size], [1, 2, w, 2]
    elif name == "DEPTH_TO_SPACE":
        options, output = {"block_size": 2}, [1, h * 2, w * 2, c // 4]
    elif name == "SPACE_TO_DEPTH":
        options, output = {"block_size": 2}, [1, h // 2, w // 2, c * 4]
    elif name == "RESHAPE":
        constants, output = [np.array([-1, c])], [n * h * w, c]
    elif name in ("CONCATENATION", "PACK"):
        axis, count = int(rng.integers(-4, 4)), int(rng.integers(1, 4))
        options = {"axis": axis}
        output = list(shape)
        if name == "CONCATENATION" and rng.integers(4) == 0:
            options["activation"] = _one(rng, *_FUSED)
        if name == "PACK":
            output.insert(axis % 5 if axis < 0 else axis, count)
        else:
            output[axis] *= count
    elif name == "TILE":
        counts = rng.integers(1, 3, 4)
        constants, output = [counts], list(np.multiply(shape, counts))
    elif name == "REVERSE_V2":
        constants, output = [np.array([int(rng.integers(4))])], list(shape)
    elif name == "GATHER":
        constants, output = [rng.integers(0, 4, 3)], [1, 3, w, c]
        options = {"axis": 1}
        if rng.integers(3) == 0:
            constants, output = [rng.integers(0, w, (1, 4, 3))], [1, 4, 3, c]
            options = {"axis": 2, "batch_dims": 2}
    elif name == "GATHER_ND":
        constants, output = [rng.integers(0, (1, 4), (5, 2))], [5, w, c]
    elif name == "EMBEDDING_LOOKUP":
        constants, output = [np.zeros(3)], [3, h, w, c]
    elif name == "BATCH_TO_SPACE_ND":
        shape = (4, h, w, c)
        constants, output = [np.array([2, 2]), np.array([[0, 1], [1, 0]])], [1, 7, 2 * w - 1, c]
    elif name == "SPLIT_V":
        outputs, constants = 2, [np.array([c - 3, -1 if rng.integers(2) else 3]), np.array(3)]
        options, output = {"num_splits": 2}, [1, h, w, c - 3]
    elif name == "EXPAND_DIMS":
        constants, output = [np.array(-1)], [*shape, 1]
    elif name == "SQUEEZE":
        options, output = {"squeeze_dims": [0]}, [h, w, c]
    elif name == "SPACE_TO_BATCH_ND":
        constants = [np.array([2, 2]), np.array([[0, 0], [1, 1]])]
        output = [4, h // 2, (w + 2) // 2, c]
    elif name in ("SPLIT", "UNPACK"):
        outputs = 2 if name == "SPLIT" else h
        constants = [np.array(1)] if name == "SPLIT" else []
        options = {"num_splits": 2} if name == "SPLIT" else {"num": h, "axis": 1}
        output = [1, h // 2, w, c] if name == "SPLIT" else [1, w, c]
    else:
        constants, output = [np.array([2, h, w, c])], [2, h, w, c]
    x = _any(rng, dtype, shape)
    names = [f"x{i}" for i in range(count)]
    tensors = {each: Tensor(dtype, shape, None, x.scales, x.zeros) for each in names}
    tensors |= {f"c{i}": _constant(value) for i, value in enumerate(constants)}
    results = [f"y{i}" for i in range(outputs)]
    tensors |= {each: Tensor(dtype, output, None, x.scales, x.zeros) for each in results}
    others = [f"c{i}" for i in range(len(constants))]
    is_last = name in ("SPLIT", "EMBEDDING_LOOKUP")
    operands = [*others, *names] if is_last else [*names, *others]
    if name == "SPLIT_V":
        tensors["y1"] = Tensor(dtype, [1, h, w, 3], None, x.scales, x.zeros)
    if name == "PADV2":
        tensors["v"] = Tensor(dtype, (1,), _draw(rng, dtype, (1,)), x.scales, x.zeros)
        operands.append("v")
    version = 2 if name == "BROADCAST_TO" else 1
    operator = Op(name, operands, results, options, version=version)
    return Subgraph(tensors, [operator], names, results)


_MOVES = """
    BATCH_TO_SPACE_ND BROADCAST_TO CONCATENATION DEPTH_TO_SPACE EMBEDDING_LOOKUP EXPAND_DIMS GATHER
    GATHER_ND MIRROR_PAD PACK PAD PADV2 RESHAPE REVERSE_V2 SLICE SPACE_TO_BATCH_ND SPACE_TO_DEPTH
    SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE UNPACK
"""
for _name in _MOVES.split():
    CASES[_name.lower()] = functools.partial(_moves, _name)


def _graph(
    name: str, operands: Sequence[Tensor], results: Sequence[Tensor], **options: Any
) -> Subgraph:
    """An operator, whose operands without data are the inputs."""
    xs = {f"x{i}": x for i, x in enumerate(operands)}
    ys = {f"y{i}": y for i, y in enumerate(results)}
    given = [key for key, x in xs.items() if x.data is None]
    return Subgraph({**xs, **ys}, [Op(name, [*xs], [*ys], options)], given, [*ys])


@case
def dynamic(rng: Rng) -> Subgraph:
    """Products of floats and integer weights."""
    name = _one(rng, "FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")
    rows, depth, columns = (int(n) for n in rng.integers(1, (5, 40, 20)))
    if name == "FULLY_CONNECTED":
        dtype = _one(rng, np.int8, np.int8, jnp.int4)
        depth += depth % 2 if dtype == jnp.int4 else 0
        shapes: list[Sequence[int]] = [(rows, depth), (columns, depth), (rows, columns)]
        axis = 0
        options: dict[str, Any] = {"asymmetric": bool(rng.integers(2))}
    else:
        h, w, c = (int(n) for n in rng.integers((3, 3, 1), (8, 8, 12)))
        windows, kernel, sizes = _windows(rng, h, w)
        dtype, is_depthwise = np.int8, name != "CONV_2D"
        options = windows | ({"multiplier": 1} if is_depthwise else {})
        columns, axis = (c, 3) if is_depthwise else (columns, 0)
        filter = (1, *kernel, c) if is_depthwise else (columns, *kernel, c)
        shapes = [(1, h, w, c), filter, (1, *sizes, columns)]
    count = columns if name != "FULLY_CONNECTED" or rng.integers(2) else 1
    data = rng.integers(-7 if dtype != np.int8 else -127, 8 if dtype != np.int8 else 128, shapes[1])
    scales, axis = [_scale(rng) for _ in range(count)], axis if count > 1 else 0
    weights = Tensor(dtype, shapes[1], data.astype(dtype), scales, [0] * count, axis)
    bias = Tensor(np.float32, (columns,), _draw(rng, np.float32, (columns,)))
    x, y = Tensor(np.float32, shapes[0]), Tensor(np.float32, shapes[2])
    return _graph(name, [x, weights, bias], [y], activation=_one(rng, *_FUSED), **options)


@case
def integers(rng: Rng) -> Subgraph:
    """Two tensors of int32 without a scale; no divisor is 0."""
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 9)))
    compares = ("LESS", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
    divides = ("DIV", "FLOOR_DIV", "FLOOR_MOD")
    name = _one(rng, "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", *divides, *compares)
    values = rng.integers(1, 50, shape) * rng.choice([-1, 1], shape)
    result = Tensor(np.bool_ if name in compares else np.int32, shape)
    return _graph(name, [Tensor(np.int32, shape), _constant(values)], [result])


@case
def select(rng: Rng) -> Subgraph:
    """Rows, elements, and with SELECT_V2 tensors that broadcast."""
    name, shape = _one(rng, "SELECT", "SELECT_V2"), tuple(int(n) for n in rng.integers(1, 6, 3))
    dtype = _one(rng, np.int8, np.float32, np.int32)
    condition = _one(rng, shape, shape[:1] if name == "SELECT" else (*shape[:2], 1))
    other = shape if name == "SELECT" else _one(rng, shape, shape[-1:])
    x = Tensor(dtype, shape) if dtype == np.int32 else _any(rng, dtype, shape)
    a, b, y = (Tensor(dtype, size, None, x.scales, x.zeros) for size in (shape, other, shape))
    return _graph(name, [Tensor(np.bool_, condition), a, b], [y])


@case
def places(rng: Rng) -> Subgraph:
    """Places of extremes."""
    shape, axis = tuple(int(n) for n in rng.integers(1, 7, 3)), int(rng.integers(-3, 3))
    x = _any(rng, _one(rng, np.int8, np.float32, np.uint8), shape)
    y = Tensor(np.int32, [n for i, n in enumerate(shape) if i != axis % 3])
    return _graph(_one(rng, "ARG_MAX", "ARG_MIN"), [x, _constant(axis)], [y], output_type=2)


@case
def sums(rng: Rng) -> Subgraph:
    """Sums up to each element, which begin at either end."""
    dtype, shape = _one(rng, np.float32, np.int32), tuple(int(n) for n in rng.integers(1, 7, 3))
    options = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
    axis = _constant(int(rng.integers(-3, 3)))
    return _graph("CUMSUM", [Tensor(dtype, shape), axis], [Tensor(dtype, shape)], **options)


@case
def rows_of_floats(rng: Rng) -> Subgraph:
    """Normalized rows, their logarithms, and softmax of any rank."""
    shape = tuple(int(n) for n in rng.integers(1, 8, int(rng.integers(2, 5))))
    name = _one(rng, "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX")
    options = {"beta": 1.0} if name == "SOFTMAX" else {}
    return _graph(name, [Tensor(np.float32, shape)], [Tensor(np.float32, shape)], **options)


@case
def any_and_all(rng: Rng) -> Subgraph:
    """Truth values over axes."""
    shape, keeps = tuple(int(n) for n in rng.integers(1, 5, 3)), bool(rng.integers(2))
    axes = _one(rng, [0], [1, 2], [-1])
    kept = [n if i not in {a % 3 for a in axes} else 1 for i, n in enumerate(shape)]
    kept = kept if keeps else [n for i, n in enumerate(shape) if i not in {a % 3 for a in axes}]
    name, x, y = (
        _one(rng, "REDUCE_ANY", "REDUCE_ALL"),
        *(Tensor(np.bool_, n) for n in (shape, kept)),
    )
    return _graph(name, [x, _constant(axes)], [y], keep_dims=keeps)


@case
def l2_pool(rng: Rng) -> Subgraph:
    """Roots of mean squares."""
    h, w, c = (int(n) for n in rng.integers((2, 2, 1), (9, 9, 9)))
    options, kernel, sizes = _windows(rng, h, w, 4)
    options |= {"filter_h": kernel[0], "filter_w": kernel[1], "activation": _one(rng, *_FUSED)}
    x, y = Tensor(np.float32, (1, h, w, c)), Tensor(np.float32, (1, *sizes, c))
    return _graph("L2_POOL_2D", [x], [y], **options)


@case
def descriptions(rng: Rng) -> Subgraph:
    """Operators that describe a tensor or fill one from constants."""
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 5))))
    name = _one(rng, "SHAPE", "RANK", "FILL", "RANGE", "ONE_HOT", "ZEROS_LIKE")
    dtype = _one(rng, np.float32, np.int32)
    x = Tensor(dtype, shape)
    if name == "SHAPE":
        return _graph(name, [x], [Tensor(np.int32, (len(shape),))], out_type=2)
    if name == "RANK":
        return _graph(name, [x], [Tensor(np.int32, ())])
    if name == "FILL":
        return _graph(name, [_constant(shape), Tensor(dtype, ())], [x])
    if name == "RANGE":
        values = [_constant(value, dtype) for value in _one(rng, (2, 9, 3), (5, -2, -2))]
        return _graph(name, values, [Tensor(dtype, (3 if values[0].data == 2 else 4,))])
    if name == "ZEROS_LIKE":
        return _graph(name, [x], [x])
    indices, axis = _constant(rng.integers(-1, 5, shape[:2])), int(_one(rng, -1, 0))
    output = (4, *shape[:2]) if axis == 0 else (*shape[:2], 4)
    values = [Tensor(dtype, ()), _constant(0, dtype)]
    return _graph(name, [indices, _constant(4), *values], [Tensor(dtype, output)], axis=axis)


@case
def cast(rng: Rng) -> Subgraph:
    """Numbers and truth values."""
    kinds = {np.float32: 0, np.int32: 2, np.uint8: 3, np.bool_: 6, np.int16: 7, np.int8: 9}
    source, target = _one(rng, *kinds), _one(rng, *kinds)
    if source == np.float32 and target != np.bool_:
        target = np.int32  # negative floats have no uint8
    options = {"in_type": kinds[source], "out_type": kinds[target]}
    return _graph("CAST", [Tensor(source, (3, 9))], [Tensor(target, (3, 9))], **options)


@case
def fourier(rng: Rng) -> Subgraph:
    """The real Fourier transform of rows, and a real function of it."""
    h, w = (int(2**n) for n in rng.integers(0, 5, 2))
    w, shape = max(w, 2), (2, h, max(w, 2) // 2 + 1)
    tensors = {
        "x": Tensor(np.float32, (2, h, w)),
        "sizes": _constant([h, w]),
        "z": Tensor(np.complex64, shape),
        "y": Tensor(np.float32, shape),
    }
    last = Op(_one(rng, "REAL", "IMAG", "COMPLEX_ABS"), ["z"], ["y"])
    return Subgraph(tensors, [Op("RFFT2D", ["x", "sizes"], ["z"]), last], ["x"], ["y"])


@case
def lstm(rng: Rng) -> Subgraph:
    """Bytes, with a cell of 16 bits; or floats."""
    steps, features, units = (int(n) for n in rng.integers(1, (5, 12, 12)))
    is_float = rng.integers(3) == 0
    tensors: dict[str, Tensor] = {}
    dtype = np.float32 if is_float else np.int8
    tensors["x"] = _any(rng, dtype, (1, steps, features), 0.02)
    cell = 2.0 ** -int(rng.integers(9, 16))
    hidden = ([_scale(rng, 1 / 128)], [int(rng.integers(-20, 20))])
    for gate in "ifco":
        for kind, depth in (("w", features), ("r", units)):
            data = (
                np.maximum(_draw(rng, dtype, (units, depth)), -127)
                if not is_float
                else _draw(rng, dtype, (units, depth))
            )
            scales = [] if is_float else [_scale(rng, 0.01)]
            tensors[kind + gate] = Tensor(dtype, data.shape, data, scales, [0] * len(scales))
        bias = (
            _draw(rng, np.float32, (units,))
            if is_float
            else rng.integers(-3000, 3000, units).astype(np.int32)
        )
        scales = [] if is_float else [tensors["x"].scales[0] * tensors["w" + gate].scales[0]]
        tensors["b" + gate] = Tensor(bias.dtype, (units,), bias, scales, [0] * len(scales))
    tensors["h"] = Tensor(
        dtype,
        (1, units),
        None,
        [] if is_float else hidden[0],
        [] if is_float else hidden[1],
        is_variable=True,
    )
    tensors["c"] = Tensor(
        np.float32 if is_float else np.int16,
        (1, units),
        None,
        [] if is_float else [cell],
        [] if is_float else [0],
        is_variable=True,
    )
    tensors["y"] = Tensor(dtype, (1, steps, units), None, *([[], []] if is_float else hidden))
    inner = []
    if not is_float:
        for i in range(5):
            inner.append(f"m{i}")
            scales, zeros = hidden if i == 4 else ([2.0**-12], [0])
            tensors[f"m{i}"] = Tensor(np.int8 if i == 4 else np.int16, (), None, scales, zeros)
    inputs = [
        "x",
        "wi",
        "wf",
        "wc",
        "wo",
        "ri",
        "rf",
        "rc",
        "ro",
        "",
        "",
        "",
        "bi",
        "bf",
        "bc",
        "bo",
    ]
    inputs += ["", "", "h", "c", "", "", "", ""]
    options = {"activation": "TANH", "cell_clip": float(_one(rng, 0.0, 1.5))}
    op = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, ["y"], options, inner)
    return Subgraph(tensors, [op], ["x"], ["y"])


@case
def svdf(rng: Rng) -> Subgraph:
    """Bytes, with a state of 16 bits; or floats."""
    features, units, memory = (int(n) for n in rng.integers(1, (10, 8, 8)))
    rank, is_float = int(rng.integers(1, 3)), rng.integers(3) == 0
    filters, batch = units * rank, 1
    dtype = np.float32 if is_float else np.int8
    wide = np.float32 if is_float else np.int16
    tensors = {
        "x": _any(rng, dtype, (batch, features)),
        "f": _any(rng, dtype, (filters, features), 0.02),
        "t": Tensor(
            wide,
            (filters, memory),
            _draw(rng, wide, (filters, memory)),
            [] if is_float else [_scale(rng, 3e-5)],
        ),
        "b": Tensor(np.float32 if is_float else np.int32, (units,)),
        "s": Tensor(
            wide,
            (batch, filters * memory),
            None,
            [] if is_float else [_scale(rng, 1e-3)],
            is_variable=True,
        ),
        "y": _any(rng, dtype, (batch, units), 0.1),
    }
    tensors["f"].data = np.maximum(
        _draw(rng, dtype, (filters, features)), -127 if not is_float else -2
    )
    if not is_float:
        tensors["f"].zeros = [0]
        scale = tensors["s"].scales[0] * tensors["t"].scales[0]
        tensors["b"].scales = [scale]
        tensors["t"].zeros = tensors["s"].zeros = [0]
        tensors["b"].data = rng.integers(-100000, 100000, units).astype(np.int32)
    else:
        tensors["b"].data = _draw(rng, np.float32, (units,))
    activation = _one(rng, "RELU", "") if is_float else "RELU"
    options = {"rank": rank, "activation": activation}
    return Subgraph(tensors, [Op("SVDF", ["x", "f", "t", "b", "s"], ["y"], options)], ["x"], ["y"])


@case
def far_scales(rng: Rng) -> Subgraph:
    """A sum, difference or product, whose scales XNNPACK often leaves to the built-in kernels."""
    dtype, count = _one(rng, np.int8, np.uint8), int(rng.integers(1, 70))
    tensors = {
        name: _quantized(rng, dtype, (1, size), near)
        for name, size, near in (
            ("x", count, 2.0 ** rng.uniform(-8, 2)),
            ("y", int(_one(rng, 1, count)), 2.0 ** rng.uniform(-8, 2)),
            ("z", count, 2.0 ** rng.uniform(-14, -2)),
        )
    }
    options = {"activation": _one(rng, *_FUSED)}
    operator = Op(_one(rng, "ADD", "SUB", "MUL"), ["x", "y"], ["z"], options, version=2)
    return Subgraph(tensors, [operator], ["x", "y"], ["z"])


@case
def detection(rng: Rng) -> Subgraph:
    """Boxes of an SSD detector, of any class."""
    return _detection(rng, False)


@case
def detection_by_class(rng: Rng) -> Subgraph:
    """Boxes of an SSD detector, class by class."""
    return _detection(rng, True)


def _detection(rng: Rng, is_regular: bool) -> Subgraph:
    """Equal scores and boxes are among them, and sometimes none at all is found."""
    count, classes = int(rng.integers(8, 40)), int(rng.integers(1, 12))
    background = int(rng.integers(2))
    options: dict[str, Any] = {
        "max_detections": int(rng.integers(1, 12)),
        "max_classes_per_detection": int(rng.integers(1, classes + 1)),
        "detections_per_class": int(rng.integers(1, 12)),
        "use_regular_nms": is_regular,
        "nms_score_threshold": float(_one(rng, -1.0, 0.0, 0.5, 0.5, 2.0)),
        "nms_iou_threshold": float(_one(rng, 0.3, 0.6)),
        "num_classes": classes,
        **{f"{name}_scale": float(_one(rng, 5.0, 10.0)) for name in "yxhw"},
    }
    if rng.integers(4) == 0:
        del options["detections_per_class"]
    anchors = rng.uniform(0.1, 0.9, (count, 4)).astype(np.float32)
    anchors[::3] = anchors[0]
    most = options["max_detections"] * options["max_classes_per_detection"]
    columns = 1 if is_regular else options["max_classes_per_detection"]
    found = f"{ROWS}{columns}"
    outputs = {"boxes": (1, most, 4), "classes": (1, most), "scores": (1, most), found: (1,)}
    scores = (1, count, classes + background)
    tensors = {
        "x": Tensor(np.float32, (1, count, 4)),
        "p": Tensor(np.float32, scores),
        "rounded": Tensor(np.float32, scores),
        "a": Tensor(np.float32, anchors.shape, anchors),
        **{name: Tensor(np.float32, shape) for name, shape in outputs.items()},
    }
    has_ties = bool(rng.integers(2))
    inputs = ["x", "rounded" if has_ties else "p", "a"]
    operators = [Op("ROUND", ["p"], ["rounded"])] if has_ties else []
    operators += [Op("TFLite_Detection_PostProcess", inputs, [*outputs], options)]
    return Subgraph(tensors, operators, ["x", "p"], [*outputs])
