"""Draws models of one operator: dtypes, shapes, quantization and options at random."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tools.litert.files import Op, Subgraph, Tensor

Rng = np.random.Generator
Sizes = Sequence[int]
ROWS = "rows of "
"""Begins the name of a detector's count, whose rows have so many columns: the rest is undefined."""
_FUSED = ("", "", "RELU", "RELU6", "RELU_N1_TO_1")
_NUMBERS = (np.int8, np.int8, np.int8, np.int16, np.float32, np.uint8)
_BYTES, _FLOATS, _TRUTHS = (np.int8, np.float32, np.uint8), (np.float32,), (np.bool_,)
_DILATED = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h": 2}


# Parts of a model ------------------------------------------------------------------------------


def _one(rng: Rng, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def _coin(rng: Rng) -> bool:
    return bool(rng.integers(2))


def _sizes(rng: Rng, low: Any, high: Any, count: Any = None) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(low, high, count))


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
    middle = 0 if limits.min < 0 else 128
    return int(_one(rng, limits.min, middle, rng.integers(limits.min, limits.max + 1)))


def _quantized(rng: Rng, dtype: Any, shape: Sizes, near: float = 0.02) -> Tensor:
    return Tensor(dtype, shape, None, [_scale(rng, near)], [_zero(rng, dtype)])


def _any(rng: Rng, dtype: Any, shape: Sizes, near: float = 0.02) -> Tensor:
    """Floats or truths as they are, integers quantized."""
    is_quantized = np.dtype(dtype).kind in "iu"
    return _quantized(rng, dtype, shape, near) if is_quantized else Tensor(dtype, shape)


def _like(x: Tensor, shape: Sizes, data: np.ndarray | None = None) -> Tensor:
    """A tensor with the parameters of another."""
    return Tensor(x.dtype, shape, data, x.scales, x.zeros)


def _draw(rng: Rng, dtype: Any, shape: Sizes) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _constant(values: Any, dtype: Any = np.int32, scales: Sequence[float] = ()) -> Tensor:
    array = np.asarray(values, dtype)
    return Tensor(array.dtype, array.shape, array, scales, [0] * len(scales))


def _weights(rng: Rng, dtype: Any, shape: Sizes, axis: int) -> Tensor:
    """Weights with a scale for each output channel, or one; int8 has no zero point."""
    if dtype == np.uint8:
        return Tensor(dtype, shape, _draw(rng, dtype, shape), [_scale(rng)], [_zero(rng, dtype)])
    count = shape[axis] if rng.integers(2) else 1
    data = np.maximum(_draw(rng, dtype, shape), -127)
    scales = [_scale(rng) for _ in range(count)]
    weights = _constant(data, dtype, scales if _coin(rng) else scales[:1] * count)
    weights.axis = axis if count > 1 else 0
    return weights


def _graph(
    name: str,
    operands: Sequence[Tensor | None],
    results: Sequence[Tensor],
    inner: Sequence[Tensor] = (),
    version: int = 1,
    **options: Any,
) -> Subgraph:
    """An operator, whose operands without data or a state are the inputs; None is absent."""
    xs = {f"x{i}": x for i, x in enumerate(operands) if x is not None}
    ys = {f"y{i}": y for i, y in enumerate(results)}
    inners = {f"m{i}": m for i, m in enumerate(inner)}
    given = [key for key, x in xs.items() if x.data is None and not x.is_variable]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    op = Op(name, names, [*ys], options, [*inners], version)
    return Subgraph({**xs, **ys, **inners}, [op], given, [*ys])


def _product(
    rng: Rng, name: str, dtype: Any, x: Sizes, w: Sizes, y: Sizes, options: dict[str, Any]
) -> Subgraph:
    """A convolution or a matrix product with a bias."""
    axis, outputs, is_wide = 3 if name == "DEPTHWISE_CONV_2D" else 0, y[-1], False
    if np.dtype(dtype).kind == "f":
        source, weights = Tensor(dtype, x), _constant(_draw(rng, dtype, w), dtype)
        bias, result = _constant(_draw(rng, dtype, (outputs,)), dtype), Tensor(dtype, y)
    else:
        source = _quantized(rng, dtype, x)
        weights = _weights(rng, np.uint8 if dtype == np.uint8 else np.int8, w, axis)
        size = np.iinfo(dtype).max / 4 if dtype == np.int16 else 64
        root = math.sqrt(math.prod(w) // w[axis])
        near = source.scales[0] * max(weights.scales) * 64 * size * root
        near /= np.iinfo(dtype).max if dtype != np.uint8 else 127
        is_wide = dtype == np.int16 and _coin(rng)
        most, scales = int(64 * size * root), [source.scales[0] * s for s in weights.scales]
        sums = rng.integers(-most, most, outputs)
        bias = _constant(sums, np.int64 if is_wide else np.int32, scales)
        result = _quantized(rng, dtype, y, near)
    operands = [source, weights, bias]
    if name == "TRANSPOSE_CONV":
        operands = [_constant(y), weights, source, bias]
    if dtype == np.int16 and name != "DEPTHWISE_CONV_2D":
        options = {**options, "bias_type": 4 if is_wide else 2}
    activation = "" if dtype == np.int16 else _one(rng, *_FUSED)
    return _graph(name, operands, [result], **options, activation=activation)


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


def _reduced(shape: Sizes, axes: Sizes, keeps: bool) -> list[int]:
    places = {axis % len(shape) for axis in axes}
    return [1 if i in places else n for i, n in enumerate(shape) if keeps or i not in places]


# Products and pools ----------------------------------------------------------------------------


def conv_2d(rng: Rng) -> Subgraph:
    """Any kernel, strides, padding; sometimes dilated."""
    dtype, batch = _one(rng, *_NUMBERS), int(rng.integers(1, 3))
    h, w, c, k = _sizes(rng, (3, 3, 1, 1), (9, 9, 20, 20))
    options, kernel, sizes = _windows(rng, h, w)
    if rng.integers(4) == 0 and dtype != np.int16:
        options, sizes = _DILATED | {"dilation_w": 2}, [h, w]
    shapes = (batch, h, w, c), (k, *kernel, c), (batch, *sizes, k)
    return _product(rng, "CONV_2D", dtype, *shapes, options)


def grouped_conv_2d(rng: Rng) -> Subgraph:
    """Groups of channels that do not meet."""
    groups, h, w, c, k = _sizes(rng, (2, 3, 3, 1, 1), (4, 8, 8, 6, 6))
    options, kernel, sizes = _windows(rng, h, w)
    shapes = (1, h, w, groups * c), (groups * k, *kernel, c), (1, *sizes, groups * k)
    return _product(rng, "CONV_2D", _one(rng, np.int8, np.float32), *shapes, options)


def four_bits(rng: Rng) -> Subgraph:
    """Bytes by weights of 4 bits."""
    h, w, c, k = _sizes(rng, (3, 3, 1, 1), (7, 7, 12, 12))
    options, kernel, sizes = _windows(rng, h, w)
    filter: tuple[int, ...] = (k, *kernel, c)
    name, x, y = "CONV_2D", [1, h, w, c], [1, *sizes, k]
    if rng.integers(2):
        name, x, filter, y, options = "FULLY_CONNECTED", [h, 2 * c], (k, 2 * c), [h, k], {}
    elif rng.integers(3) == 0:
        name, filter, y = "DEPTHWISE_CONV_2D", (1, *kernel, c), [1, *sizes, c]
        options["multiplier"] = 1
    graph = _product(rng, name, np.int8, x, filter, y, options)
    weights, result = graph.tensors["x1"], graph.tensors["y0"]
    weights.dtype, weights.data = jnp.int4, rng.integers(-7, 8, filter).astype(jnp.int4)
    result.scales = [result.scales[0] / 16]
    return graph


def depthwise_conv_2d(rng: Rng) -> Subgraph:
    """With a multiplier of channels, sometimes."""
    dtype, batch = _one(rng, *_NUMBERS), int(rng.integers(1, 3))
    h, w, c = _sizes(rng, (3, 3, 1), (9, 9, 20))
    multiplier = int(_one(rng, 1, 1, 2, 3))
    options, kernel, sizes = _windows(rng, h, w)
    if rng.integers(4) == 0 and dtype != np.int16:
        options, sizes = _DILATED | {"dilation_w": int(rng.integers(1, 3))}, [h, w]
    k = c * multiplier
    shapes = (batch, h, w, c), (1, *kernel, k), (batch, *sizes, k)
    return _product(rng, "DEPTHWISE_CONV_2D", dtype, *shapes, options | {"multiplier": multiplier})


def transpose_conv(rng: Rng) -> Subgraph:
    """Strides of 1 and 2."""
    dtype = _one(rng, np.int8, np.int8, np.int16, np.float32, np.uint8)
    h, w, c, k = _sizes(rng, (1, 1, 1, 1), (6, 6, 12, 12))
    kernel, strides = _sizes(rng, 1, 4, 2), _sizes(rng, 1, 3, 2)
    padding = _one(rng, "SAME", "VALID")
    sizes = [
        n * s if padding == "SAME" else (n - 1) * s + f
        for n, s, f in zip((h, w), strides, kernel, strict=True)
    ]
    options = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    shapes = (1, h, w, c), (k, *kernel, c), (1, *sizes, k)
    return _product(rng, "TRANSPOSE_CONV", dtype, *shapes, options)


def fully_connected(rng: Rng) -> Subgraph:
    """Rows of any rank."""
    dtype = _one(rng, *_NUMBERS)
    rows, depth, columns = _sizes(rng, 1, (6, 40, 33))
    batch = (rows,) if rng.integers(2) else (2, rows)
    keeps = len(batch) > 1 and _coin(rng)
    output = (*(batch if keeps else (math.prod(batch),)), columns)
    shapes = (*batch, depth), (columns, depth), output
    return _product(rng, "FULLY_CONNECTED", dtype, *shapes, {"keep_num_dims": keeps})


def batch_matmul(rng: Rng) -> Subgraph:
    """Either transposed."""
    dtype, (n, k, m) = _one(rng, np.int8, np.float32), _sizes(rng, 1, 12, 3)
    flips = {"adj_x": _coin(rng), "adj_y": _coin(rng)}
    x = _any(rng, dtype, (2, k, n) if flips["adj_x"] else (2, n, k))
    w = _any(rng, dtype, (2, m, k) if flips["adj_y"] else (2, k, m))
    y = _any(rng, dtype, (2, n, m), 1.0)
    if dtype == np.int8 and rng.integers(2):  # as XNNPACK takes it
        w.zeros = [0]
    return _graph("BATCH_MATMUL", [x, w], [y], **flips)


def dynamic(rng: Rng) -> Subgraph:
    """Products of floats and integer weights."""
    name = _one(rng, "FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")
    rows, depth, columns = _sizes(rng, 1, (5, 40, 20))
    axis, dtype = 0, np.int8
    if name == "FULLY_CONNECTED":
        dtype = _one(rng, np.int8, np.int8, jnp.int4)
        depth += depth % 2 if dtype == jnp.int4 else 0
        shapes: list[Sizes] = [(rows, depth), (columns, depth), (rows, columns)]
        options: dict[str, Any] = {"asymmetric": _coin(rng)}
    else:
        h, w, c = _sizes(rng, (3, 3, 1), (8, 8, 12))
        options, kernel, sizes = _windows(rng, h, w)
        filter: tuple[int, ...] = (columns, *kernel, c)
        if name == "DEPTHWISE_CONV_2D":
            options, columns, axis, filter = options | {"multiplier": 1}, c, 3, (1, *kernel, c)
        shapes = [(1, h, w, c), filter, (1, *sizes, columns)]
    count = columns if name != "FULLY_CONNECTED" or rng.integers(2) else 1
    most = 127 if dtype == np.int8 else 7
    data = rng.integers(-most, most + 1, shapes[1]).astype(dtype)
    scales = [_scale(rng) for _ in range(count)]
    weights = _constant(data, dtype, scales if _coin(rng) else scales[:1] * count)
    weights.axis = axis if count > 1 else 0
    bias = _constant(_draw(rng, np.float32, (columns,)), np.float32)
    x, y = Tensor(np.float32, shapes[0]), Tensor(np.float32, shapes[2])
    return _graph(name, [x, weights, bias], [y], activation=_one(rng, *_FUSED), **options)


def _pool_of(
    rng: Rng, name: str, dtype: Any, low: Sizes, high: Sizes, fused: Sequence[str]
) -> Subgraph:
    h, w, c = _sizes(rng, low, high)
    options, (filter_h, filter_w), sizes = _windows(rng, h, w, 4)
    options |= {"filter_h": filter_h, "filter_w": filter_w}
    options["activation"] = _one(rng, *fused) if fused else ""
    x, y = _any(rng, dtype, (1, h, w, c)), _any(rng, dtype, (1, *sizes, c))
    return _graph(name, [x], [_like(x, y.shape)], **options)


def pool(rng: Rng) -> Subgraph:
    """Maxima and averages."""
    name = _one(rng, "AVERAGE_POOL_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D")
    dtype = _one(rng, np.int8, np.int16, np.float32, np.uint8)
    fused = () if dtype == np.int16 else _FUSED
    return _pool_of(rng, name, dtype, (2, 2, 1), (9, 9, 20), fused)


def l2_pool(rng: Rng) -> Subgraph:
    """Roots of mean squares."""
    return _pool_of(rng, "L2_POOL_2D", np.float32, (2, 2, 1), (9, 9, 9), _FUSED)


# Functions of elements -------------------------------------------------------------------------


def _broadcast(rng: Rng) -> tuple[Sizes, Sizes, Sizes]:
    shape = _sizes(rng, 1, 7, rng.integers(1, 5))
    kind = rng.integers(4)
    other = tuple(n if rng.integers(2) else 1 for n in shape) if kind == 0 else shape
    other = shape[-1:] if kind == 1 else () if kind == 2 else other
    return (other, shape, shape) if rng.integers(4) == 0 and other else (shape, other, shape)


def _binary(name: str, dtypes: Sequence[Any], rng: Rng) -> Subgraph:
    dtype, (first, second, shape) = _one(rng, *dtypes), _broadcast(rng)
    near = 2e-4 if dtype == np.int16 else 0.05 if name == "MUL" else 0.02
    a, b = _any(rng, dtype, first, near), _any(rng, dtype, second, near)
    y = _any(rng, dtype, shape, near * _one(rng, 1, 2, 8))
    if dtype in (np.int8, np.int16) and rng.integers(3) == 0:
        b.data = _draw(rng, dtype, second)
    options: dict[str, Any] = {"activation": "" if dtype == np.int16 else _one(rng, *_FUSED)}
    if dtype == np.int16 and name in ("ADD", "SUB"):
        options["pot_scale_int16"] = False
    return _graph(name, [a, b], [y], **options)


_COMPARISONS = "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL"
_PLAIN = (  # functions of tensors of one shape, their dtypes, and how many tensors they take
    ("CEIL COS FLOOR NEG ROUND SIGN SIN SQRT SQUARE", _FLOATS, 1),
    ("ATAN2 FLOOR_DIV FLOOR_MOD POW", _FLOATS, 2),
    ("ABS ELU EXP LOG", (np.float32, np.int8), 1),
    ("SQUARED_DIFFERENCE", (np.float32, np.int8), 2),
    ("HARD_SWISH RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1", _BYTES, 1),
    (f"MAXIMUM MINIMUM {_COMPARISONS}", _BYTES, 2),
    ("LOGICAL_NOT", _TRUTHS, 1),
    ("LOGICAL_AND LOGICAL_OR", _TRUTHS, 2),
)


def _plain(name: str, dtypes: Sequence[Any], count: int, rng: Rng) -> Subgraph:
    """The scales are any; those of extremes are one."""
    dtype, shape = _one(rng, *dtypes), _sizes(rng, 1, 9, rng.integers(1, 5))
    operands = [_any(rng, dtype, shape) for _ in range(count)]
    is_truth = name in _COMPARISONS.split()
    result = Tensor(np.bool_, shape) if is_truth else _any(rng, dtype, shape)
    if name in ("MAXIMUM", "MINIMUM"):
        operands[1] = result = _like(operands[0], shape)
    return _graph(name, operands, [result])


def far_scales(rng: Rng) -> Subgraph:
    """A sum, difference or product, whose scales XNNPACK often leaves to the built-in kernels."""
    dtype, count = _one(rng, np.int8, np.uint8), int(rng.integers(1, 70))
    nears = [2.0 ** rng.uniform(-8, 2)]
    other = int(_one(rng, 1, count))
    nears += [2.0 ** rng.uniform(-8, 2), 2.0 ** rng.uniform(-14, -2)]
    sizes = zip((count, other, count), nears, strict=True)
    x, y, z = (_quantized(rng, dtype, (1, size), near) for size, near in sizes)
    fused = _one(rng, *_FUSED)
    return _graph(_one(rng, "ADD", "SUB", "MUL"), [x, y], [z], version=2, activation=fused)


def integers(rng: Rng) -> Subgraph:
    """Two tensors of int32 without a scale; no divisor is 0."""
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 9)))
    compares = ("LESS", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
    divides = ("DIV", "FLOOR_DIV", "FLOOR_MOD")
    name = _one(rng, "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", *divides, *compares)
    values = rng.integers(1, 50, shape) * rng.choice([-1, 1], shape)
    result = Tensor(np.bool_ if name in compares else np.int32, shape)
    return _graph(name, [Tensor(np.int32, shape), _constant(values)], [result])


def gelu(rng: Rng) -> Subgraph:
    """By the error function, and by the hyperbolic tangent."""
    dtype = _one(rng, np.float32, np.int8)
    x, y = (_any(rng, dtype, (3, 40)) for _ in range(2))
    return _graph("GELU", [x], [y], approximate=_coin(rng))


def rsqrt(rng: Rng) -> Subgraph:
    """Of floats above 0, or of bytes of which none is below the zero point."""
    dtype = _one(rng, np.float32, np.int8, np.int8)
    x, y = _any(rng, dtype, (2, 90)), _any(rng, dtype, (2, 90), 0.05)
    x.zeros = [-128] if dtype == np.int8 else []
    return _graph("RSQRT", [x], [y])


def _sigmoid(name: str, rng: Rng) -> Subgraph:
    dtype = _one(rng, *_BYTES)
    x, y = _any(rng, dtype, (2, 50), 0.05), _any(rng, dtype, (2, 50))
    if dtype != np.float32:
        low = int(np.iinfo(dtype).min)
        y.scales, y.zeros = ([1 / 128], [low + 128]) if name == "TANH" else ([1 / 256], [low])
    return _graph(name, [x], [y])


def softmax(rng: Rng) -> Subgraph:
    """Rows of bytes or floats."""
    dtype = _one(rng, *_BYTES)
    shape = (int(rng.integers(1, 5)), int(rng.integers(1, 40)))
    x, y = _any(rng, dtype, shape, _one(rng, 0.02, 0.2)), _any(rng, dtype, shape)
    if dtype != np.float32:
        y.scales, y.zeros = [1 / 256], [int(np.iinfo(dtype).min)]
    return _graph("SOFTMAX", [x], [y], beta=float(_one(rng, 1.0, 1.0, 0.5)))


def rows_of_floats(rng: Rng) -> Subgraph:
    """Normalized rows, their logarithms, and softmax of any rank."""
    shape = _sizes(rng, 1, 8, int(rng.integers(2, 5)))
    name = _one(rng, "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX")
    options = {"beta": 1.0} if name == "SOFTMAX" else {}
    return _graph(name, [Tensor(np.float32, shape)], [Tensor(np.float32, shape)], **options)


def leaky_relu(rng: Rng) -> Subgraph:
    """Any slope below 1."""
    dtype = _one(rng, np.int8, np.int16, np.float32, np.uint8)
    x, y = (_any(rng, dtype, (3, 40), 2e-4 if dtype == np.int16 else 0.02) for _ in range(2))
    return _graph("LEAKY_RELU", [x], [y], alpha=float(np.float32(rng.uniform(0.01, 0.9))))


def prelu(rng: Rng) -> Subgraph:
    """A slope for each channel."""
    dtype = _one(rng, *_BYTES)
    shape = (1, int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(1, 20)))
    slope = _any(rng, dtype, (1, 1, shape[-1]), 0.005)
    slope.data = _draw(rng, dtype, slope.shape)
    return _graph("PRELU", [_any(rng, dtype, shape), slope], [_any(rng, dtype, shape)])


def quantize(rng: Rng) -> Subgraph:
    """Floats, and integers of another scale."""
    pairs = ["f4 i1", "f4 u1", "f4 i2", "i1 i1", "u1 i1", "i1 u1", "i2 i1", "i2 i2"]
    dtypes = [np.dtype(name) for name in _one(rng, *pairs).split()]
    shape = int(rng.integers(1, 4)), int(rng.integers(1, 50))
    x, y = (_any(rng, each, shape, 1e-4 if each == np.int16 else 0.01) for each in dtypes)
    return _graph("QUANTIZE", [x], [y])


def dequantize(rng: Rng) -> Subgraph:
    """Integers of 8 and 16 bits."""
    x = _any(rng, _one(rng, np.int8, np.uint8, np.int16), (2, 30))
    return _graph("DEQUANTIZE", [x], [Tensor(np.float32, (2, 30))])


def cast(rng: Rng) -> Subgraph:
    """Numbers and truth values."""
    kinds = {np.float32: 0, np.int32: 2, np.uint8: 3, np.bool_: 6, np.int16: 7, np.int8: 9}
    source, target = _one(rng, *kinds), _one(rng, *kinds)
    if source == np.float32 and target != np.bool_:
        target = np.int32  # negative floats have no uint8
    options = {"in_type": kinds[source], "out_type": kinds[target]}
    return _graph("CAST", [Tensor(source, (3, 9))], [Tensor(target, (3, 9))], **options)


def select(rng: Rng) -> Subgraph:
    """Rows, elements, and with SELECT_V2 tensors that broadcast."""
    name, shape = _one(rng, "SELECT", "SELECT_V2"), _sizes(rng, 1, 6, 3)
    dtype = _one(rng, np.int8, np.float32, np.int32)
    condition = _one(rng, shape, shape[:1] if name == "SELECT" else (*shape[:2], 1))
    other = shape if name == "SELECT" else _one(rng, shape, shape[-1:])
    x = Tensor(dtype, shape) if dtype == np.int32 else _any(rng, dtype, shape)
    return _graph(name, [Tensor(np.bool_, condition), x, _like(x, other)], [_like(x, shape)])


# Functions of axes -----------------------------------------------------------------------------


def mean(rng: Rng) -> Subgraph:
    """Any axes, with and without them kept."""
    dtype = _one(rng, np.int8, np.int8, np.float32, np.uint8)
    shape = _sizes(rng, 1, 8, 4)
    axes = _one(rng, [1, 2], [1, 2], [3], [0, 1], [2], [1], [1, 2, 3], [-1])
    keeps = _coin(rng)
    x, y = _any(rng, dtype, shape), _any(rng, dtype, _reduced(shape, axes, keeps))
    return _graph("MEAN", [x, _constant(axes)], [y], keep_dims=keeps)


def reduce(rng: Rng) -> Subgraph:
    """Sums of floats, and extremes of integers of one scale."""
    name = _one(rng, "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    dtype = np.float32 if name in ("SUM", "REDUCE_PROD") else _one(rng, *_BYTES)
    shape = _sizes(rng, 1, 6, 3)
    axes, keeps = _one(rng, [0], [1, 2], [2], [0, 1, 2]), _coin(rng)
    kept = _reduced(shape, axes, keeps)
    x, y = _any(rng, dtype, shape), _any(rng, dtype, kept)
    y = _like(x, kept)
    if rng.integers(5) == 0:
        x, y = Tensor(np.int32, shape), Tensor(np.int32, kept)
    elif name == "SUM" and rng.integers(2):
        x, y = _any(rng, np.int8, shape), _any(rng, np.int8, kept, 0.05)
    return _graph(name, [x, _constant(axes)], [y], keep_dims=keeps)


def any_and_all(rng: Rng) -> Subgraph:
    """Truth values over axes."""
    shape, keeps = _sizes(rng, 1, 5, 3), _coin(rng)
    axes = _one(rng, [0], [1, 2], [-1])
    x, y = Tensor(np.bool_, shape), Tensor(np.bool_, _reduced(shape, axes, keeps))
    name = _one(rng, "REDUCE_ANY", "REDUCE_ALL")
    return _graph(name, [x, _constant(axes)], [y], keep_dims=keeps)


def places(rng: Rng) -> Subgraph:
    """Places of extremes."""
    shape, axis = _sizes(rng, 1, 7, 3), int(rng.integers(-3, 3))
    x = _any(rng, _one(rng, *_BYTES), shape)
    y = Tensor(np.int32, _reduced(shape, [axis], False))
    return _graph(_one(rng, "ARG_MAX", "ARG_MIN"), [x, _constant(axis)], [y], output_type=2)


def sums(rng: Rng) -> Subgraph:
    """Sums up to each element, which begin at either end."""
    dtype, shape = _one(rng, np.float32, np.int32), _sizes(rng, 1, 7, 3)
    options = {"exclusive": _coin(rng), "reverse": _coin(rng)}
    axis = _constant(int(rng.integers(-3, 3)))
    return _graph("CUMSUM", [Tensor(dtype, shape), axis], [Tensor(dtype, shape)], **options)


def fourier(rng: Rng) -> Subgraph:
    """The real Fourier transform of rows, and a real function of it."""
    h, w = (int(2**n) for n in rng.integers(0, 5, 2))
    w, shape = max(w, 2), (2, h, max(w, 2) // 2 + 1)
    x, z = Tensor(np.float32, (2, h, w)), Tensor(np.complex64, shape)
    tensors = {"x": x, "sizes": _constant([h, w]), "z": z, "y": Tensor(np.float32, shape)}
    last = Op(_one(rng, "REAL", "IMAG", "COMPLEX_ABS"), ["z"], ["y"])
    return Subgraph(tensors, [Op("RFFT2D", ["x", "sizes"], ["z"]), last], ["x"], ["y"])


# Moves -----------------------------------------------------------------------------------------


def resize(rng: Rng) -> Subgraph:
    """Bilinear and nearest, in all three conventions."""
    name = _one(rng, "RESIZE_BILINEAR", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    dtype = _one(rng, np.int8, np.int8, np.float32, np.uint8)
    h, w, c, oh, ow = _sizes(rng, 1, (9, 9, 20, 20, 20))
    options = _one(rng, {}, {"half_pixel_centers": True}, {"align_corners": True})
    x = _any(rng, dtype, (1, h, w, c))
    return _graph(name, [x, _constant([oh, ow])], [_like(x, (1, oh, ow, c))], **options)


Moved = tuple[Any, ...]  # constants, the outputs' shapes, and perhaps options


def _padded(rng: Rng, n: int, h: int, w: int, c: int) -> Moved:
    pads = rng.integers(0, 2, (4, 2))
    return [pads], [np.add((n, h, w, c), pads.sum(1))]


def _transposed(rng: Rng, *shape: int) -> Moved:
    order = rng.permutation(4)
    return [order], [[shape[i] for i in order]]


def _tiled(rng: Rng, *shape: int) -> Moved:
    counts = rng.integers(1, 3, 4)
    return [counts], [np.multiply(shape, counts)]


def _strided(rng: Rng, n: int, h: int, w: int, c: int) -> Moved:
    steps, shrinks = [1, int(_one(rng, 1, 2, -1)), 1, 1], int(_one(rng, 0, 1))
    if rng.integers(2):  # x[..., None, 1:-1]
        constants, options = [[0, 0, 1], [0, 0, -1], [1] * 3], {"ellipsis_mask": 1}
        return constants, [[n, h, w, 1, c - 2]], options | {"new_axis_mask": 2}
    sizes = [len(range(0, size, abs(s))) for size, s in zip((n, h, w, c), steps, strict=True)]
    options = {"begin_mask": 15, "end_mask": 15, "shrink_axis_mask": shrinks}
    return [[0] * 4, [n, h, w, c], steps], [sizes[shrinks:]], options


def _gathered(rng: Rng, n: int, h: int, w: int, c: int) -> Moved:
    places = rng.integers(0, 4, 3)
    if rng.integers(3) == 0:
        options = {"axis": 2, "batch_dims": 2}
        return [rng.integers(0, w, (1, 4, 3))], [[1, 4, 3, c]], options
    return [places], [[1, 3, w, c]], {"axis": 1}


def _mirrored(rng: Rng, n: int, h: int, w: int, c: int) -> Moved:
    pads = [[0, 0], [1, 1], [1, 0], [0, 2]]
    return [pads], [[n, h + 2, w + 1, c + 2]], {"mode": int(rng.integers(2))}


def _cut(rng: Rng, n: int, h: int, w: int, c: int) -> Moved:
    sizes = [c - 3, -1 if rng.integers(2) else 3]
    return [sizes, 3], [[1, h, w, c - 3], [1, h, w, 3]], {"num_splits": 2}


_MOVES: dict[str, Callable[..., Moved]] = {
    "BATCH_TO_SPACE_ND": lambda rng, n, h, w, c: (
        [[2, 2], [[0, 1], [1, 0]]],
        [[1, 7, 2 * w - 1, c]],
    ),
    "BROADCAST_TO": lambda rng, n, h, w, c: ([[2, h, w, c]], [[2, h, w, c]]),
    "DEPTH_TO_SPACE": lambda rng, n, h, w, c: ([], [[1, 2 * h, 2 * w, c // 4]], {"block_size": 2}),
    "EMBEDDING_LOOKUP": lambda rng, n, h, w, c: ([[0] * 3], [[3, h, w, c]]),
    "EXPAND_DIMS": lambda rng, *shape: ([-1], [[*shape, 1]]),
    "GATHER": _gathered,
    "GATHER_ND": lambda rng, n, h, w, c: ([rng.integers(0, (1, 4), (5, 2))], [[5, w, c]]),
    "MIRROR_PAD": _mirrored,
    "PAD": _padded,
    "PADV2": _padded,
    "RESHAPE": lambda rng, n, h, w, c: ([[-1, c]], [[n * h * w, c]]),
    "REVERSE_V2": lambda rng, *shape: ([[int(rng.integers(4))]], [shape]),
    "SLICE": lambda rng, n, h, w, c: ([[0, 1, 0, 2], [1, 2, -1, 2]], [[1, 2, w, 2]]),
    "SPACE_TO_BATCH_ND": lambda rng, n, h, w, c: (
        [[2, 2], [[0, 0], [1, 1]]],
        [[4, h // 2, (w + 2) // 2, c]],
    ),
    "SPACE_TO_DEPTH": lambda rng, n, h, w, c: (
        *([], [[1, h // 2, w // 2, 4 * c]], {"block_size": 2}),
    ),
    "SPLIT": lambda rng, n, h, w, c: ([1], [[1, h // 2, w, c]] * 2, {"num_splits": 2}),
    "SPLIT_V": _cut,
    "SQUEEZE": lambda rng, n, h, w, c: ([], [[h, w, c]], {"squeeze_dims": [0]}),
    "STRIDED_SLICE": _strided,
    "TILE": _tiled,
    "TRANSPOSE": _transposed,
    "UNPACK": lambda rng, n, h, w, c: ([], [[1, w, c]] * h, {"num": h, "axis": 1}),
}


def _images(rng: Rng) -> tuple[Any, int, int, int, int]:
    """A dtype, and sizes that blocks of 2 divide."""
    dtype = _one(rng, *_BYTES)
    return dtype, 1, 4, int(rng.integers(1, 4)) * 2, int(rng.integers(1, 4)) * 4


def _moves(name: str, rng: Rng) -> Subgraph:
    """An operator that moves elements."""
    dtype, n, h, w, c = _images(rng)
    constants, shapes, *options = _MOVES[name](rng, n, h, w, c)
    x = _any(rng, dtype, (4 if name == "BATCH_TO_SPACE_ND" else n, h, w, c))
    operands = [x, *map(_constant, constants)]
    if name in ("SPLIT", "EMBEDDING_LOOKUP"):
        operands.reverse()
    if name == "PADV2":
        operands.append(_like(x, (1,), _draw(rng, dtype, (1,))))
    version = 2 if name == "BROADCAST_TO" else 1
    results = [_like(x, shape) for shape in shapes]
    return _graph(name, operands, results, version=version, **dict(*options))


def _joins(name: str, rng: Rng) -> Subgraph:
    """Several tensors, along an axis or a new one."""
    dtype, *shape = _images(rng)
    axis, count = int(rng.integers(-4, 4)), int(rng.integers(1, 4))
    output, options = list(shape), {"axis": axis}
    if name == "PACK":
        output.insert(axis % 5 if axis < 0 else axis, count)
    else:
        output[axis] *= count
        options |= {"activation": _one(rng, *_FUSED)} if rng.integers(4) == 0 else {}
    x = _any(rng, dtype, shape)
    return _graph(name, [_like(x, shape) for _ in range(count)], [_like(x, output)], **options)


def descriptions(rng: Rng) -> Subgraph:
    """Operators that describe a tensor or fill one from constants."""
    shape = _sizes(rng, 1, 6, int(rng.integers(1, 5)))
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


# States and detectors --------------------------------------------------------------------------


def lstm(rng: Rng) -> Subgraph:
    """Bytes, with a cell of 16 bits; or floats."""
    steps, features, units = _sizes(rng, 1, (5, 12, 12))
    is_float = rng.integers(3) == 0
    dtype, wide = (np.float32, np.float32) if is_float else (np.int8, np.int16)
    x, cell = _any(rng, dtype, (1, steps, features), 0.02), 2.0 ** -int(rng.integers(9, 16))
    hidden: Any = [_scale(rng, 1 / 128)], [int(rng.integers(-20, 20))]
    if is_float:
        hidden = [], []

    def weights(depth: int) -> Tensor:
        data = np.maximum(_draw(rng, dtype, (units, depth)), -127)
        return _constant(data, dtype, [] if is_float else [_scale(rng, 0.01)])

    def gate() -> tuple[Tensor, Tensor, Tensor]:
        w, r = weights(features), weights(units)
        if is_float:
            return w, r, _constant(_draw(rng, np.float32, (units,)), np.float32)
        sums = rng.integers(-3000, 3000, units)
        return w, r, _constant(sums, np.int32, [x.scales[0] * w.scales[0]])

    w, r, b = zip(*(gate() for _ in range(4)), strict=True)
    h = Tensor(dtype, (1, units), None, *hidden, is_variable=True)
    c = Tensor(wide, (1, units), None, [] if is_float else [cell], [] if is_float else [0])
    c.is_variable = True
    inner = [] if is_float else [Tensor(np.int16, (), None, [2.0**-12], [0]) for _ in range(4)]
    inner += [] if is_float else [Tensor(np.int8, (), None, *hidden)]
    none = [None]
    operands = [x, *w, *r, *none * 3, *b, *none * 2, h, c, *none * 4]
    options = {"activation": "TANH", "cell_clip": float(_one(rng, 0.0, 1.5))}
    result = Tensor(dtype, (1, steps, units), None, *hidden)
    return _graph("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [result], inner, **options)


def svdf(rng: Rng) -> Subgraph:
    """Bytes, with a state of 16 bits; or floats."""
    features, units, memory = _sizes(rng, 1, (10, 8, 8))
    rank, is_float = int(rng.integers(1, 3)), rng.integers(3) == 0
    filters = units * rank
    dtype, wide = (np.float32, np.float32) if is_float else (np.int8, np.int16)
    x, f = _any(rng, dtype, (1, features)), _any(rng, dtype, (filters, features), 0.02)
    data = _draw(rng, wide, (filters, memory))
    t = _constant(data, wide, [] if is_float else [_scale(rng, 3e-5)])
    scales, zeros = ([], []) if is_float else ([_scale(rng, 1e-3)], [0])
    s = Tensor(wide, (1, filters * memory), None, scales, zeros, is_variable=True)
    y = _any(rng, dtype, (1, units), 0.1)
    f = _constant(np.maximum(_draw(rng, dtype, f.shape), -127), dtype, f.scales)
    if is_float:
        b = _constant(_draw(rng, np.float32, (units,)), np.float32)
    else:
        scales = [s.scales[0] * t.scales[0]]
        b = _constant(rng.integers(-100000, 100000, units), np.int32, scales)
    activation = _one(rng, "RELU", "") if is_float else "RELU"
    return _graph("SVDF", [x, f, t, b, s], [y], rank=rank, activation=activation)


def _detection(is_regular: bool, rng: Rng) -> Subgraph:
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
    outputs = {"boxes": (1, most, 4), "classes": (1, most), "scores": (1, most)}
    outputs[f"{ROWS}{columns}"] = (1,)
    scores = (1, count, classes + background)
    shapes = {"x": (1, count, 4), "p": scores, "rounded": scores, **outputs}
    tensors = {name: Tensor(np.float32, shape) for name, shape in shapes.items()}
    tensors["a"] = _constant(anchors, np.float32)
    has_ties = _coin(rng)
    inputs = ["x", "rounded" if has_ties else "p", "a"]
    operators = [Op("ROUND", ["p"], ["rounded"])] if has_ties else []
    operators += [Op("TFLite_Detection_PostProcess", inputs, [*outputs], options)]
    return Subgraph(tensors, operators, ["x", "p"], [*outputs])


_FUNCTIONS = (
    *(conv_2d, grouped_conv_2d, four_bits, depthwise_conv_2d, transpose_conv, fully_connected),
    *(batch_matmul, dynamic, pool, l2_pool, far_scales, integers, gelu, rsqrt, softmax),
    *(rows_of_floats, leaky_relu, prelu, quantize, dequantize, cast, select, mean, reduce),
    *(any_and_all, places, sums, fourier, resize, descriptions, lstm, svdf),
)
_BOTH = (np.int8, np.int8, np.int16, np.float32, np.uint8)
CASES: dict[str, Callable[[Rng], Subgraph]] = {
    **{each.__name__: each for each in _FUNCTIONS},
    **{x.lower(): functools.partial(_binary, x, _BOTH) for x in ("ADD", "SUB", "MUL")},
    "div": functools.partial(_binary, "DIV", _FLOATS),
    **{
        x.lower(): functools.partial(_plain, x, dtypes, count)
        for names, dtypes, count in _PLAIN
        for x in names.split()
    },
    **{x.lower(): functools.partial(_sigmoid, x) for x in ("LOGISTIC", "TANH")},
    **{x.lower(): functools.partial(_moves, x) for x in _MOVES},
    **{x.lower(): functools.partial(_joins, x) for x in ("CONCATENATION", "PACK")},
    "detection": functools.partial(_detection, False),
    "detection_by_class": functools.partial(_detection, True),
}
