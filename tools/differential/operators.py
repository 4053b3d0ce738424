"""The operators that graphs are drawn of: tables of attributes and inputs, and their drawers.

A drawer takes the maker of a graph, the array of the operator's first input, and the attributes
drawn before. An attribute that is None is absent; so is an input that is "". Drawers need not agree
with each other: a node that ONNX Runtime refuses is drawn again.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

INT_MAX = np.iinfo(np.int32).max, np.iinfo(np.int64).max
Drawer = Callable[[Any, np.ndarray, Mapping[str, Any]], Any]


class Row(NamedTuple):
    """Operators with the same attributes.

    Attributes:
      ops: their types.
      inputs: draws the names of the inputs behind the first.
      ranks: of the first input.
      outputs: draws how many outputs the node has.
      mixes: True if the inputs may be in any order.
      attributes: drawers.
    """

    ops: str
    inputs: Drawer
    ranks: range
    outputs: Drawer
    mixes: bool
    attributes: Mapping[str, Drawer]


def row(
    ops: str,
    inputs: Drawer = lambda m, x, given: (),
    ranks: range = range(1, 6),
    outputs: Drawer = lambda m, x, given: 1,
    mixes: bool = False,
    **attributes: Drawer,
) -> Row:
    return Row(ops, inputs, ranks, outputs, mixes, attributes)


def pick(*values: Any) -> Drawer:
    return lambda m, x, given: m.choose(values)


def maybe(drawer: Drawer, share: float = 0.5) -> Drawer:
    return lambda m, x, given: drawer(m, x, given) if m.chance(share) else None


def since(opset: int, drawer: Drawer) -> Drawer:
    return lambda m, x, given: drawer(m, x, given) if m.opset >= opset else None


def axis(m: Any, x: np.ndarray, given: Mapping[str, Any]) -> int:
    """An axis, from the front or from the back; not of the batch, if there is one."""
    place = int(m.rng.integers(m.first_axis(x), max(x.ndim, 1)))
    return place if m.chance(0.6) else place - max(x.ndim, 1)


def axes(m: Any, x: np.ndarray, given: Mapping[str, Any]) -> list[int]:
    places = np.arange(m.first_axis(x), x.ndim)
    chosen = m.rng.permutation(places)[: int(m.rng.integers(1, len(places) + 1))]
    return [int(i) - (x.ndim if m.chance(0.3) else 0) for i in chosen]


def integers(drawer: Drawer, share: float = 1.0) -> Drawer:
    """Draws one input of integers, which may be absent."""

    def draw(m: Any, x: np.ndarray, given: Mapping[str, Any]) -> tuple[str, ...]:
        return (m.integers(*drawer(m, x, given)),) if m.chance(share) else ()

    return draw


def _strides(m: Any, x: np.ndarray, given: Any) -> list[int]:
    return m.rng.integers(1, 4, x.ndim - 2).tolist()


def _kernel(m: Any, x: np.ndarray, given: Any) -> list[int]:
    return [int(m.rng.integers(1, min(n, 3) + 1)) for n in x.shape[2:]]


def _dilations(m: Any, x: np.ndarray, given: Any) -> list[int]:
    pairs = zip(given["kernel_shape"], x.shape[2:], strict=True)
    return [1 + int(2 * k - 1 <= n and m.chance(0.6)) for k, n in pairs]


def _same(m: Any, x: np.ndarray, given: Any) -> str | None:
    """Mostly None; always where ONNX Runtime 1.32 pads by other numbers than ONNX says."""
    ways = zip(given["kernel_shape"], given.get("strides", (1,) * 3), strict=False)
    has_gaps = max(given.get("dilations", (1,))) > 1 or any(k < stride for k, stride in ways)
    return None if has_gaps else m.choose([*[None] * 4, "SAME_UPPER", "SAME_LOWER"])


def _pads(m: Any, x: np.ndarray, given: Any) -> list[int] | None:
    return None if "auto_pad" in given else m.rng.integers(0, 2, 2 * x.ndim - 4).tolist()


def _permutation(m: Any, x: np.ndarray, given: Any) -> list[int]:
    first = m.first_axis(x)
    return [*range(first), *(int(i) + first for i in m.rng.permutation(x.ndim - first))]


def _new_shape(m: Any, x: np.ndarray, given: Any) -> tuple[int, ...]:
    batch = (0,) if m.first_axis(x) else ()
    targets = [(*batch, -1), (0, -1), (-1, *x.shape[-1:]), (*x.shape, 1), (1, *x.shape), (0, 0, -1)]
    targets += [x.shape, (*batch, -1, 2), (x.size,), (*x.shape[::-1],)]
    return m.choose(targets[:2] if m.batch and m.chance(0.8) else targets)


def _new_axes(m: Any, x: np.ndarray, given: Any) -> list[int]:
    count = int(m.rng.integers(1, 3)) if x.ndim < 4 else 1
    places = m.rng.permutation(np.arange(m.first_axis(x), x.ndim + count))[:count]
    return [int(i) - (x.ndim + count if m.chance(0.3) else 0) for i in places]


def _ones(m: Any, x: np.ndarray, given: Any) -> list[int]:
    places = [i for i, n in enumerate(x.shape) if n == 1]
    chosen = places if m.chance(0.5) else places[:1]
    return [i - (x.ndim if m.chance(0.3) else 0) for i in chosen]


def _slice(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    chosen = axes(m, x, given) if m.chance(0.8) else list(range(x.ndim))
    limits = [x.shape[i] for i in chosen]
    steps = [m.choose([1, 1, 1, 2, -1, -2, 3]) for _ in chosen]
    low, high = np.int64(-(2**62)), m.choose(INT_MAX)
    starts = [int(m.rng.integers(-n - 1, n + 2)) for n in limits]
    ends = [m.choose([int(m.rng.integers(-n - 1, n + 2)), int(high), int(low)]) for n in limits]
    is_all = chosen == list(range(x.ndim))
    names = [m.integers(*starts), m.integers(*ends)]
    if set(steps) != {1} or m.chance(0.5):
        return (*names, "" if is_all and m.chance(0.3) else m.integers(*chosen), m.integers(*steps))
    return (*names,) if is_all and m.chance(0.5) else (*names, m.integers(*chosen))


def _places(m: Any, x: np.ndarray, given: Any) -> tuple[str]:
    n = x.shape[given.get("axis") or 0]
    shape = m.choose([(), (1,), (2,), (3,), (2, 2)])
    return (m.constant(m.rng.integers(-n, n, shape).astype(m.choose(["int64", "int32"]))),)


def _element_places(m: Any, x: np.ndarray, given: Any) -> tuple[str]:
    along = (given.get("axis") or 0) % x.ndim
    n = x.shape[along]
    shape = [int(m.rng.integers(1, 4)) if i == along else size for i, size in enumerate(x.shape)]
    return (m.constant(m.rng.integers(-n, n, shape).astype(np.int64)),)


def _broadcast(m: Any, x: np.ndarray, given: Any) -> tuple[int, ...]:
    if m.batch:
        return m.choose([(1,) * x.ndim, (1, *(n if n > 1 else 2 for n in x.shape[1:]))])
    return m.choose([(2, *x.shape), x.shape, (1,), (*(3 if n == 1 else n for n in x.shape),)])


def _repeats(m: Any, x: np.ndarray, given: Any) -> list[int]:
    first = m.first_axis(x)
    return [1] * first + [m.choose([1, 1, 2, 3, 0]) for _ in x.shape[first:]]


def _resize(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    """The region, and scales or sizes: of some axes if the node names them.

    ONNX Runtime 1.32 copies a tensor whose sizes stay, and crops no axis of scale 1.
    """
    count = len(given.get("axes", x.shape))
    spatial = ["axes" in given or i >= 2 for i in range(count)]
    shape = [x.shape[i] for i in given["axes"]] if "axes" in given else [*x.shape]
    crops = given.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crops:
        starts, ends = m.rng.integers(-2, 5, count) / 8, m.rng.integers(5, 11, count) / 8
    has_scales = m.chance(0.5) and "keep_aspect_ratio_policy" not in given
    if has_scales:
        factors = np.float32(
            [m.choose([1, 2, 0.5, 1.5, 3, 0.7, 1.25]) if s else 1 for s in spatial]
        )
        new = [int(factor * n) for factor, n in zip(factors, shape, strict=True)]
        factors = factors if new != shape else np.ones_like(factors)
    else:
        new = [int(m.rng.integers(1, 8)) if s else n for s, n in zip(spatial, shape, strict=True)]
    roi = ""
    if crops:
        moved = factors != 1 if has_scales else np.not_equal(new, shape)
        bounds = np.where(spatial & moved, starts, 0), np.where(spatial & moved, ends, 1)
        roi = m.constant(np.concatenate(bounds).astype(np.float32))
    return (roi, m.constant(factors)) if has_scales else (roi, "", m.integers(*new))


def _resize_axes(m: Any, x: np.ndarray, given: Any) -> list[int] | None:
    return m.choose([[i - x.ndim for i in range(2, x.ndim)], list(range(2, x.ndim)), [2]])


def _policy(m: Any, x: np.ndarray, given: Any) -> str | None:
    """None beside negative axes, where ONNX Runtime 1.32 leaves sizes as they are, and in crops."""
    kinds = ("not_larger", "not_smaller", "stretch")
    crops = given.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    is_left = crops or min(given.get("axes", (0,))) < 0
    return None if is_left else m.choose([None, None, *kinds])


def _pad(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    first = m.first_axis(x)
    chosen = axes(m, x, given) if m.opset >= 18 and m.chance(0.3) else None
    count = x.ndim if chosen is None else len(chosen)
    low = -1 if m.chance(0.3) else 0
    pads = m.rng.integers(low, 3, (2, count))
    pads[:, : first if chosen is None else 0] = 0
    if x.size == 0:
        pads[:] = 0  # nothing to reflect
    value = m.constant(np.asarray(m.choose([0, 1.5, -3]), x.dtype)) if m.chance(0.5) else ""
    return (m.integers(*pads.ravel()), value, *(() if chosen is None else (m.integers(*chosen),)))


def _lengths(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    n, count = x.shape[given.get("axis") or 0], m.parts
    cuts = np.sort(m.rng.integers(0, n + 1, count - 1))
    return (m.integers(*np.diff([0, *cuts, n])),)


def _draw_parts(m: Any, x: np.ndarray, given: Any) -> int:
    m.parts = int(m.rng.integers(1, 4))
    return m.parts


def _of_channels(m: Any, x: np.ndarray, given: Any) -> tuple[str, str]:
    return m.floats(x.shape[1:2], x.dtype), m.floats(x.shape[1:2], x.dtype)


def _statistics(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    mean, variance = m.floats(x.shape[1:2], x.dtype), m.floats(x.shape[1:2], x.dtype, 1)
    return (*_of_channels(m, x, given), mean, variance)


def _of_groups(m: Any, x: np.ndarray, given: Any) -> tuple[str, str]:
    count = given["num_groups"] if m.opset < 21 else x.shape[1]
    return m.floats((count,), x.dtype), m.floats((count,), x.dtype)


def _groups(m: Any, x: np.ndarray, given: Any) -> int:
    return int(m.choose([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0]))


def _normalized(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    shape = x.shape[given.get("axis", -1) :]
    shape = shape if m.chance(0.8) else (*(1 if m.chance(0.5) else n for n in shape),)
    bias = (m.floats(x.shape[given.get("axis", -1) :], x.dtype),) if m.chance(0.6) else ()
    return (m.floats(shape, x.dtype), *bias)


def _conv(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    channels, group = x.shape[1], given.get("group", 1)
    filters = group * int(m.rng.integers(1, 4))
    return m.weights(x, (filters, channels // group, *given["kernel_shape"]), 0, filters)


def _conv_transpose(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    filters = int(m.rng.integers(1, 4))
    shape = (x.shape[1], filters, *given["kernel_shape"])
    return m.weights(x, shape, 1, filters * given.get("group", 1))


def _group(m: Any, x: np.ndarray, given: Any) -> int | None:
    divisors = [n for n in range(2, x.shape[1] + 1) if x.shape[1] % n == 0]
    return m.choose([1, *divisors]) if m.chance(0.5) else None


def _gemm(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    columns, depth = int(m.rng.integers(1, 5)), x.shape[0 if given.get("transA") else 1]
    flip = bool(given.get("transB"))
    return m.weights(
        x, (columns, depth) if flip else (depth, columns), 0 if flip else 1, columns, shares=True
    )


def _matmul(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    if m.batch and x.ndim < 2:
        raise ValueError("it would sum over the batch")
    columns = m.choose([(), (int(m.rng.integers(1, 5)),)]) if m.chance(0.2) else (3,)
    batch = x.shape[:-2] if m.chance(0.3) and columns and not m.batch else ()
    shape = (*batch, x.shape[-1], *columns)
    if m.chance(0.3) and not m.batch:
        return (m.other(x, shape),)
    return m.weights(x, shape, len(shape) - 1, 0)


def _joined(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    shapes = [list(x.shape) for _ in range(int(m.rng.integers(0, 3)))]
    for shape in shapes:
        shape[given["axis"]] = m.choose([shape[given["axis"]], 1, 2, 0])
    return (*(m.other(x, tuple(shape)) for shape in shapes),)


def _divisor(m: Any, x: np.ndarray, given: Any) -> tuple[str]:
    return (m.floats(m.choose([(), x.shape[-1:], (1,)]), x.dtype, 1),)


def _bounds(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    ends = m.choose([(0, 6), (-2, 2), (0,), (None, 1.5), (-1000, 1000), (), (3, -3), (0, None)])
    return (*("" if end is None else m.constant(np.asarray(end, x.dtype)) for end in ends),)


def _dropout(m: Any, x: np.ndarray, given: Any) -> tuple[str, ...]:
    ratio = m.constant(np.asarray(m.choose([0.5, 0.1]), x.dtype))
    return m.choose([(), (ratio,), (ratio, m.constant(np.asarray(False)))])


_ANY, _IMAGES, _FOUR = range(6), range(3, 6), range(4, 5)  # ranks
_SHIFTS = {"strides": maybe(_strides), "auto_pad": _same, "pads": maybe(_pads)}
_WINDOW = {"kernel_shape": _kernel, **_SHIFTS}
_DILATED = {"kernel_shape": _kernel, "dilations": maybe(_dilations, 0.3), **_SHIFTS}
_EPSILON = {"epsilon": pick(None, 1e-5, 1e-3, 0.5)}
_KEEP = {"keepdims": pick(None, 0, 1)}
_NOOP = {**_KEEP, "noop_with_empty_axes": pick(None, None, 0, 1)}
_SUMS = (
    "ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ReduceProd"
)
_CORNERS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize")
_RESIZE = {
    "mode": pick("nearest", "linear", "linear", "cubic", None),
    "coordinate_transformation_mode": pick(None, *_CORNERS, "half_pixel_symmetric"),
    "nearest_mode": pick(None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "cubic_coeff_a": pick(None, None, -0.5),
    "exclude_outside": pick(None, None, 0, 1),
    "extrapolation_value": pick(None, 0.0, 1.5, -2.0),
    "antialias": since(18, pick(None, 0, 1)),
    "axes": since(18, maybe(_resize_axes)),
    "keep_aspect_ratio_policy": since(18, _policy),
}
_ALPHA = {"alpha": pick(None, 0.25, 0.1, 1.5, 0.0, -0.5)}

MOVES = (
    row("Transpose", ranks=_ANY, perm=maybe(_permutation, 0.85)),
    row("Reshape", integers(_new_shape), _ANY, allowzero=since(14, pick(None, None, 0))),
    row("Flatten", ranks=_ANY, axis=maybe(lambda m, x, given: m.choose([1, -1, 0, x.ndim]))),
    row("Unsqueeze", integers(_new_axes), _ANY),
    row("Squeeze", integers(_ones, 0.8), _ANY),
    row("Slice", _slice),
    row("Gather", _places, axis=axis),
    row("GatherElements", _element_places, axis=axis),
    row("Expand", integers(_broadcast), _ANY),
    row("Tile", integers(_repeats)),
    row("Identity", ranks=_ANY),
    row("DepthToSpace", ranks=_FOUR, blocksize=pick(2, 1), mode=pick(None, "DCR", "CRD")),
    row("SpaceToDepth", ranks=_FOUR, blocksize=pick(2, 1)),
    row("Resize", _resize, _IMAGES, **_RESIZE),
    row("Resize", _resize, _IMAGES, **_RESIZE),
    row("Pad", _pad, mode=pick(None, "constant", "reflect", "edge", "wrap")),
    row("Split", _lengths, outputs=_draw_parts, axis=axis),
    row("Split", outputs=lambda m, x, given: m.parts, num_outputs=_draw_parts, axis=axis),
    row("Concat", _joined, mixes=True, axis=axis),
    row("Dropout", _dropout, _ANY, outputs=pick(1, 2)),
    row("Trilu", ranks=range(2, 6), upper=pick(None, 0, 1)),
)
_POOL = {**_WINDOW, "ceil_mode": pick(None, None, 0, 1)}
_COUNTED = {"count_include_pad": pick(None, 0, 1)}
_MAX = {**_DILATED, **_POOL, "storage_order": pick(None, 0, 1)}
POOLS = (
    row("MaxPool", ranks=_IMAGES, outputs=pick(1, 1, 2), **_MAX),
    row("AveragePool", ranks=_IMAGES, **_POOL, **_COUNTED),
    row("AveragePool", ranks=_IMAGES, **{**_DILATED, **_POOL, **_COUNTED}),
    row("LpPool", ranks=_IMAGES, **_WINDOW, p=pick(None, 1, 2, 3)),
    row("GlobalAveragePool GlobalAveragePool GlobalMaxPool", ranks=_IMAGES),
    row("GlobalLpPool", ranks=_IMAGES, p=pick(None, 1, 2)),
)
REDUCTIONS = (
    row(_SUMS, axes=maybe(axes, 0.85), **_KEEP),
    row(_SUMS, integers(axes, 0.85), **_NOOP),
    row("ReduceSum ReduceSum", integers(axes, 0.85), **_NOOP),
    row("Softmax LogSoftmax Hardmax", axis=maybe(axis, 0.8)),
    row("ArgMax ArgMin", axis=axis, **_KEEP, select_last_index=pick(None, 0, 1)),
)
_SCALES = {"alpha": pick(None, 0.5), "beta": pick(None, 0.5), "bias": pick(None, 2.0)}
NORMS = (
    row("BatchNormalization", _statistics, range(2, 6), **_EPSILON, momentum=pick(None, 0.5)),
    row("InstanceNormalization", _of_channels, _IMAGES, **_EPSILON),
    row("GroupNormalization", _of_groups, _IMAGES, num_groups=_groups, **_EPSILON),
    row("LayerNormalization", _normalized, outputs=pick(1, 1, 2, 3), axis=maybe(axis), **_EPSILON),
    row("RMSNormalization", lambda *args: _normalized(*args)[:1], axis=maybe(axis), **_EPSILON),
    row("LpNormalization", axis=axis, p=pick(None, 1, 2)),
    row("LRN", ranks=_FOUR, size=pick(1, 3, 5), **_SCALES),
    row("MeanVarianceNormalization", ranks=_FOUR, axes=maybe(axes)),
)
FUNCTIONS = (
    row(
        "Relu Relu Sigmoid Sigmoid Erf Tanh Abs Neg Floor Ceil Round Softplus Softsign", ranks=_ANY
    ),
    row("HardSwish Mish Gelu Sign", ranks=_ANY),
    row("Gelu", ranks=_ANY, approximate=pick("none", "tanh")),
    row("LeakyRelu LeakyRelu Elu ThresholdedRelu", ranks=_ANY, **_ALPHA),
    row("HardSigmoid", ranks=_ANY, alpha=pick(None, 0.125, 0.3), beta=pick(None, 0.25)),
    row("Clip Clip", _bounds, _ANY),
    row("PRelu", lambda m, x, given: (m.floats(m.choose([(), x.shape[-1:]]), x.dtype),)),
)
SUMS = (
    row("Add Add Mul Mul Sub", lambda m, x, given: (m.other(x),), _ANY, mixes=True),
    row(
        "Min Max Sum Mean",
        lambda m, x, given: [m.other(x)] * m.choose([0, 1, 1, 2]),
        _ANY,
        mixes=True,
    ),
    row("Div", _divisor, _ANY),
    row("Pow", lambda m, x, given: (m.constant(x.dtype.type(m.choose([2, 3, 1]))),), _ANY),
)
_FLIPS = {
    "transA": lambda m, x, given: m.choose([None, 0, 0 if m.batch else 1]),
    "transB": pick(None, 0, 1),
}
_FACTORS = {
    "alpha": pick(None, None, None, 1.0, 2.0, 0.5, 1.5),
    "beta": pick(*[None] * 4, 1.0, 0.5),
}
PRODUCTS = (
    row("Conv", _conv, _IMAGES, **_DILATED, group=_group),
    row("Conv", _conv, _IMAGES, **_DILATED, group=_group),
    row("ConvTranspose", _conv_transpose, _IMAGES, **_DILATED, group=_group),
    *[row("Gemm", _gemm, range(2, 3), **_FLIPS, **_FACTORS)] * 3,
    row("MatMul", _matmul),
)


# --- several nodes ------------------------------------------------------------------------------


def _where(m: Any, x: str) -> str:
    shape = m.known[x].shape
    mask = m.constant(m.rng.integers(0, 2, m.choose([shape, shape[-1:]])).astype(bool))
    pair = [x, m.other(m.known[x])]
    return m.node("Where", mask, *(pair if m.chance(0.5) else pair[::-1]))


def _swish(m: Any, x: str) -> str:
    return m.node("Mul", x, m.node("Sigmoid", x))


def _gelu(m: Any, x: str) -> str:
    dtype = m.known[x].dtype
    half, one, root = (m.constant(np.asarray(c, dtype)) for c in (0.5, 1, math.sqrt(2)))
    error = m.node("Add", m.node("Erf", m.node("Div", x, root)), one)
    return m.node("Mul", m.node("Mul", x, error), half)


def _norm(m: Any, x: str) -> str:
    """A layer or root-mean-square normalization that is spelled out."""

    def mean(name: str) -> str:
        old = m.opset < 18
        more = () if old else (m.integers(-1),)
        return m.node("ReduceMean", name, *more, **({"axes": [-1]} if old else {}))

    array = m.known[x]
    centred = m.node("Sub", x, mean(x)) if m.chance(0.6) else x
    two, epsilon = (m.constant(np.asarray(c, array.dtype)) for c in (2, 1e-3))
    square = m.node("Pow", centred, two) if m.chance(0.5) else m.node("Mul", centred, centred)
    root = m.node("Sqrt", m.node("Add", mean(square), epsilon))
    y = (
        m.node("Div", centred, root)
        if m.chance(0.7)
        else m.node("Mul", centred, m.node("Reciprocal", root))
    )
    y = m.node("Mul", y, m.floats(array.shape[-1:], array.dtype))
    return m.node("Add", y, m.floats(array.shape[-1:], array.dtype)) if m.chance(0.6) else y


def _dynamic_products(m: Any, x: str) -> str:
    """Products that share a dynamically quantized matrix."""
    depth, dtype = m.known[x].shape[-1], m.known[x].dtype
    integers, scale, zero = m.node("DynamicQuantizeLinear", x, outputs=3)
    products = []
    for _ in range(int(m.rng.integers(1, 3))):
        w = m.constant(m.rng.integers(-64, 64, (depth, 3)).astype(m.choose(["int8", "uint8"])))
        more = (m.constant(np.zeros((), m.known[w].dtype)),) if m.chance(0.3) else ()
        product = m.node("Cast", m.node("MatMulInteger", integers, w, zero, *more), to=1)
        scales = m.node("Mul", scale, m.floats(m.choose([(), (3,)]), dtype, 1))
        y = m.node("Mul", product, scales)
        products.append(m.node("Add", y, m.floats((3,), dtype)) if m.chance(0.5) else y)
    return m.node("Concat", *products, axis=-1)


def _attention(m: Any, x: str) -> str:
    """Two products with a softmax between them, all quantized."""
    rank = m.known[x].ndim
    flipped = m.node("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = m.requantize(m.node("MatMul", x, m.requantize(flipped)))
    y = m.requantize(m.node("MatMul", m.requantize(m.node("Softmax", scores, axis=-1)), x))
    return m.node("Transpose", y, perm=[0, 2, 1, 3]) if rank == 4 else y


def _class_token(m: Any, x: str) -> str:
    """A product of all rows, of which one is read."""
    array = m.known[x]
    flat = m.node("Reshape", x, m.integers(-1, array.shape[-1]))
    product = m.requantize(m.node("Gemm", flat, *_gemm(m, m.known[flat], {})))
    rows = m.node("Reshape", product, m.integers(-1, array.shape[1], m.known[product].shape[-1]))
    return m.node("Gather", rows, m.constant(np.asarray(m.choose([0, -1]), np.int64)), axis=1)


PATTERNS = (  # the functions and the ranks that they take
    (_where, _ANY),
    (_swish, _ANY),
    (_gelu, _ANY),
    (_norm, range(2, 6)),
    (_dynamic_products, range(2, 4)),
    (_attention, range(2, 5)),
    (_class_token, range(3, 4)),
)
FUSED = (
    row("AveragePool", ranks=_IMAGES, **_POOL, **_COUNTED),
    row("GlobalAveragePool", ranks=_IMAGES),
    row("Sigmoid Relu", ranks=_ANY),
    row("LeakyRelu", ranks=_ANY, **_ALPHA),
    row("Softmax", axis=axis),
    row("Concat", _joined, mixes=True, axis=axis),
    *[row("Add Mul", lambda m, x, given: (m.other(x),), _ANY, mixes=True)] * 3,
    *(each for each in PRODUCTS if each.ops != "ConvTranspose"),
)
FAMILIES = {  # shares of the steps by the size of graphs; the rest are patterns
    "small": (
        *((MOVES, 0.26), (POOLS, 0.12), (REDUCTIONS, 0.12), (NORMS, 0.1), (FUNCTIONS, 0.1)),
        *((SUMS, 0.11), (PRODUCTS, 0.15)),
    ),
    "sums": ((POOLS, 0.3), (REDUCTIONS, 0.4), (NORMS, 0.3)),
    "bytes": ((FUSED, 0.9), (MOVES, 0.1)),
}
