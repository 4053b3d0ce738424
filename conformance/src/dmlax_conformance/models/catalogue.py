"""The models. Scales make ties and near ties; zero points are odd and far from 0."""

from collections.abc import Callable
from typing import Any

from ..format.tensors import Tensor
from .builder import Builder, Definition, Ending, Quantized, float_scalar
from .graph import MICROSOFT

SAME = (1, 1, 1, 1)


def residual() -> Definition:
    """Return two convolutions with a sum around them, as ResNet has."""
    b = Builder(1)
    image = b.float_input("image", (2, 3, 6, 6), "1/64", -300, 300)
    x = b.quantize(image, "x", Ending("0.03125", 131))
    stem = [f"0.0{i}" for i in range(2, 8)]
    w, bias = b.weight("stem", (6, 3, 3, 3), stem), b.bias("stem_bias", 6)
    x = b.convolution(x, w, bias, "stem_out", Ending("6.4", 7), pads=SAME, strides=(1, 1))
    window = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": SAME}
    skip = b.move("MaxPool", x, [], "pooled", **window)
    w, bias = b.weight("first", (6, 6, 3, 3), ["0.03"] * 6), b.bias("first_bias", 6)
    y = b.convolution(skip, w, bias, "first_out", Ending("0.768", 0), pads=SAME)
    w = b.weight("second", (6, 6, 1, 1), ["0.01", "0.02", "0.03", "0.04", "0.05", "0.06"])
    y = b.convolution(y, w, "", "second_out", Ending("6.4", 129))
    x = b.binary("Add", y, skip, "sum", Ending("12.8", 65))
    w, bias = b.weight("down", (8, 6, 2, 3), ["0.0625"] * 8), b.bias("down_bias", 8)
    more = {"strides": (2, 1), "pads": (0, 1, 0, 0)}
    x = b.convolution(x, w, bias, "down_out", Ending("51.2", 93), **more)
    x = b.unary("GlobalAveragePool", x, "mean", Ending("51.2", 81))
    x = b.move("Flatten", x, [], "features", axis=1)
    w, bias = (
        b.weight("head", (5, 8), ["0.02", "0.03", "0.04", "0.05", "0.06"]),
        b.bias("head_bias", 5),
    )
    x = b.gemm(x, w, bias, "logits_quantized", Ending("102.4", 101), transB=1)
    return b.finish("residual", "A residual block and a classifier.", [b.dequantize(x, "logits")])


def depthwise() -> Definition:
    """Return a depthwise convolution with uneven padding, dilation and int8 activations."""
    b = Builder(2)
    x = b.input("image", b.draw("int8", (1, 8, 7, 9), -128, 127))
    q = b.quantized(x, Ending("0.1", -5, "int8"))
    w, bias = (
        b.weight("depthwise", (8, 1, 3, 3), [f"0.{i}" for i in range(1, 9)]),
        b.bias("bias", 8),
    )
    more = {"group": 8, "pads": (2, 0, 1, 3), "strides": (1, 2), "dilations": (2, 1)}
    q = b.convolution(q, w, bias, "depthwise_out", Ending("5.12", -17, "int8"), **more)
    alpha = float_scalar("0.1")
    q = b.unary("LeakyRelu", q, "leaky", Ending("2.56", -101, "int8"), alpha=alpha)
    w = b.weight("pointwise", (4, 8, 1, 1), ["0.05"])
    q = b.convolution(q, w, "", "pointwise_out", Ending("12.8", 3, "int8"))
    window = {"kernel_shape": (2, 3), "pads": (1, 1, 0, 1), "strides": (2, 1)}
    q = b.unary("AveragePool", q, "average", Ending("6.4", -7, "int8"), **window)
    w = b.weight("grouped", (6, 2, 2, 2), ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"])
    q = b.convolution(q, w, "", "grouped_out", Ending("409.6", 11, "int8"), group=2)
    return b.finish("depthwise", "Depthwise, pointwise and grouped, in int8.", [q.tensor])


def inverted_residual() -> Definition:
    """Return an inverted residual with a gate by a hard sigmoid, as MobileNetV3 has."""
    b = Builder(3)
    x = b.input("image", b.draw("uint8", (1, 4, 6, 6), 0, 255))
    q = b.quantized(x, Ending("0.1", 121))
    w, bias = (
        b.weight("expand", (12, 4, 1, 1), [f"0.0{i % 5 + 1}" for i in range(12)]),
        b.bias("expand_bias", 12),
    )
    y = b.convolution(q, w, bias, "expanded", Ending("0.128", 0))
    w, bias = b.weight("middle", (12, 1, 3, 3), ["0.03"] * 12), b.bias("middle_bias", 12)
    y = b.convolution(y, w, bias, "filtered", Ending("0.96", 45), pads=SAME, group=12)
    mean = b.unary("GlobalAveragePool", y, "mean", Ending("0.12", 45))
    w, bias = b.weight("squeeze", (3, 12, 1, 1), ["0.04"]), b.bias("squeeze_bias", 3)
    z = b.convolution(mean, w, bias, "squeezed", Ending("0.3", 0))
    w, bias = b.weight("excite", (12, 3, 1, 1), ["0.000625"]), b.bias("excite_bias", 12)
    z = b.convolution(z, w, bias, "excited", Ending("0.048", 127))
    real = b.dequantize(z, "excited_float")
    alpha, beta = float_scalar("1/6"), float_scalar("0.5")
    gate = b.node("HardSigmoid", [real], "gate_float", alpha=alpha, beta=beta)
    z = b.quantize(gate, "gate", Ending("1/256", 0))
    y = b.binary("Mul", y, z, "gated", Ending("0.06", 77))
    w = b.weight("project", (4, 12, 1, 1), ["0.05", "0.025", "0.1", "0.075"])
    y = b.convolution(y, w, "", "projected", Ending("0.4", 133))
    y = b.binary("Add", q, y, "sum", Ending("0.8", 91))
    return b.finish("inverted_residual", "A gated inverted residual.", [y.tensor])


def gated() -> Definition:
    """Return sigmoid gates whose results are joined, as EfficientNet and detectors have."""
    b = Builder(4)
    x = b.input("image", b.draw("uint8", (1, 4, 5, 7), 0, 255))
    q = b.quantized(x, Ending("0.05", 113))
    w, bias = (
        b.weight("left", (4, 4, 3, 3), ["0.001", "0.002", "0.003", "0.004"]),
        b.bias("left_bias", 4),
    )
    y = b.convolution(q, w, bias, "left_out", Ending("0.032", 127), pads=SAME)
    s = b.unary("Sigmoid", y, "left_sigmoid", Ending("1/256", 0))
    left = b.binary("Mul", y, s, "left_gated", Ending("0.016", 9))
    y = b.convolution(
        q, b.weight("right", (4, 4, 1, 1), ["0.1"]), "", "right_out", Ending("0.64", 99)
    )
    s = b.unary("Sigmoid", y, "right_sigmoid", Ending("0.004", 3))
    right = b.binary("Mul", s, y, "right_gated", Ending("0.32", 15))
    joined = b.concatenate([left, right, q], "joined", Ending("0.256", 55), 1)
    one = b.quantized(b.constant("offset", b.draw("uint8", (12, 1, 1), 0, 255)), Ending("0.1", 31))
    y = b.binary("Add", joined, one, "shifted", Ending("0.256", 87))
    return b.finish("gated", "Sigmoid gates, and a concatenation.", [y.tensor])


def attention() -> Definition:
    """Return one head of attention with a float softmax, behind which values have bounds."""
    b = Builder(5)
    x = b.float_input("tokens", (2, 5, 8), "1/32", -120, 120)
    q = b.quantize(x, "x", Ending("0.03125", 127))
    scales = [f"0.0{i}" for i in range(1, 9)]
    heads = [
        b.matrix_product(q, b.weight(name, (8, 8), scales), f"{name}_out", Ending(step, point))
        for name, step, point in (
            ("query", "0.25", 121),
            ("key", "0.2", 133),
            ("value", "0.16", 125),
        )
    ]
    key = b.move("Transpose", heads[1], [], "key_transposed", perm=(0, 2, 1))
    scores = b.matrix_product(heads[0], key, "scores", Ending("8.0", 127))
    factor = b.constant("factor", float_scalar("0.00390625"))
    real = b.node("Mul", [b.dequantize(scores, "scores_float"), factor], "scaled")
    chances = b.node("Softmax", [real], "probabilities", axis=-1)
    p = b.quantize(chances, "probabilities_quantized", Ending("1/256", 0))
    y = b.matrix_product(p, heads[2], "context", Ending("0.32", 119))
    y = b.binary("Add", y, q, "sum", Ending("0.4", 111))
    # A probability may be one step of 1/256 off, at five tokens: 5/256 of a value, whose range is
    # 131 steps of 0.16, is 1.3 steps of 0.32; with two roundings that is 2 at most, and then 2.
    bounds = {"probabilities": -20, "probabilities_quantized": 0, "context": 1, "sum": 1}
    return b.finish("attention", "One head, with a float softmax.", [y.tensor], bounds)


def quantized_softmax() -> Definition:
    """Return attention whose softmax is quantized, as in ONNX Runtime's QOperator transformers."""
    b = Builder(6)
    q = b.quantized(b.input("query", b.draw("uint8", (2, 4, 6), 0, 255)), Ending("0.0125", 131))
    k = b.quantized(b.input("key", b.draw("uint8", (2, 4, 6), 0, 255)), Ending("0.04", 117))
    k = b.move("Transpose", k, [], "key_transposed", perm=(0, 2, 1))
    scores = b.matrix_product(q, k, "scores", Ending("0.096", 119))
    y = b.quantized("probabilities", Ending("1/256", 0))
    more = {"axis": -1, "opset": 13}
    b.node("QLinearSoftmax", [*scores, y.scale, y.zero_point], y.tensor, MICROSOFT, **more)
    y = b.matrix_product(y, q, "context", Ending("0.0125", 121))
    return b.finish("quantized_softmax", "A softmax of bytes.", [y.tensor])


def detector() -> Definition:
    """Return a head at two sizes, whose boxes are those with a score above a threshold."""
    b = Builder(7)
    x = b.input("image", b.draw("uint8", (1, 3, 4, 6), 0, 255))
    q = b.quantized(x, Ending("0.02", 111))
    w, bias = b.weight("fine", (4, 3, 3, 3), ["0.03"]), b.bias("fine_bias", 4)
    fine = b.convolution(q, w, bias, "fine_out", Ending("0.0768", 103), pads=SAME)
    w, bias = (
        b.weight("coarse", (4, 4, 2, 2), ["0.02", "0.01", "0.03", "0.04"]),
        b.bias("coarse_bias", 4),
    )
    coarse = b.convolution(fine, w, bias, "coarse_out", Ending("0.3072", 141), strides=(2, 2))
    sizes = b.constant("factors", Tensor("float32", (4,), (0x3F800000,) * 2 + (0x40000000,) * 2))
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    large = b.move("Resize", coarse, ["", sizes], "resized", nearest_mode="floor", **modes)
    joined = b.concatenate([fine, large], "joined", Ending("0.128", 123), 1)
    w, bias = b.weight("head", (5, 8, 1, 1), ["0.0048"]), b.bias("head_bias", 5)
    y = b.convolution(joined, w, bias, "head_out", Ending("0.0786432", 127))
    y = b.unary("Sigmoid", y, "chances", Ending("1/256", 0))
    flat = b.move("Reshape", y, [b.integers("flat", 5, -1)], "flat_out")
    rows = b.move("Transpose", flat, [], "rows", perm=(1, 0))
    ends = [b.integers("four", 4), b.integers("five", 5), b.integers("one", 1)]
    score = b.move("Slice", rows, ends, "scores")
    threshold = b.constant("threshold", float_scalar("0.6"))
    is_box = b.node("Greater", [b.dequantize(score, "scores_float"), threshold], "is_box")
    places = b.node("NonZero", [is_box], "places")
    first = b.constant("first", Tensor("int64", (), (0,)))
    index = b.node("Gather", [places, first], "index", axis=0)
    boxes = b.node("Gather", [rows.tensor, index], "boxes", axis=0)
    return b.finish("detector", "A head with Resize, concatenation and NonZero.", [boxes, index])


def _qdq(name: str, seed: int, dtype: str, is_by_channel: bool) -> Definition:
    b = Builder(seed, is_qdq=True)
    low, shift = (0, 0) if dtype == "uint8" else (-128, -128)
    image = b.float_input("image", (2, 3, 8, 8), "1/64", -250, 250)

    def ending(scale: str, zero_point: int) -> Ending:
        return Ending(scale, zero_point + shift, dtype)

    def scales(count: int) -> list[str]:
        return [f"0.0{i + 2}" for i in range(count)] if is_by_channel else ["0.03"]

    x = b.quantize(image, "x", ending("0.046875", 121))
    w, bias = b.weight("stem", (4, 3, 3, 3), scales(4)), b.bias("stem_bias", 4)
    x = b.convolution(x, w, bias, "stem_out", Ending("0.18", low, dtype), pads=SAME, strides=(2, 2))
    w, bias = b.weight("branch", (4, 4, 3, 3), scales(4)), b.bias("branch_bias", 4)
    y = b.convolution(x, w, bias, "branch_out", ending("0.72", 135), pads=SAME)
    x = b.binary("Add", y, x, "sum", ending("0.72", 63))
    x = b.move("MaxPool", x, [], "pooled", kernel_shape=(2, 2), strides=(1, 1))
    x = b.unary("GlobalAveragePool", x, "mean", ending("0.72", 31))
    x = b.move("Reshape", x, [b.integers("flat", 2, -1)], "features")
    w, bias = b.weight("head", (6, 4), scales(6)), b.bias("head_bias", 6)
    x = b.gemm(x, w, bias, "logits", ending("2.4", 101), transB=1)
    weights = "by channel" if is_by_channel else "of one scale"
    comment = f"A QDQ file of {dtype} activations, with weights {weights}."
    return b.finish(name, comment, [x.tensor])


def qdq_u8_per_tensor() -> Definition:
    """Return a QDQ file of uint8 activations with one scale a weight."""
    return _qdq("qdq_u8_per_tensor", 8, "uint8", False)


def qdq_u8_per_channel() -> Definition:
    """Return a QDQ file of uint8 activations with a scale a channel."""
    return _qdq("qdq_u8_per_channel", 9, "uint8", True)


def qdq_s8_per_channel() -> Definition:
    """Return a QDQ file of int8 activations."""
    return _qdq("qdq_s8_per_channel", 10, "int8", True)


def _dynamic(b: Builder, x: str, name: str) -> Quantized:
    y = Quantized(f"{name}_bytes", f"{name}_scale", f"{name}_zero")
    b.node("DynamicQuantizeLinear", [x], y)
    return y


def _rescaled(b: Builder, sums: str, q: Quantized, w: Quantized, bias: Tensor, name: str) -> str:
    """Add what ONNX Runtime's quantizer writes after an integer product."""
    real = b.node("Cast", [sums], f"{name}_cast", to=1)
    scale = b.node("Mul", [q.scale, w.scale], f"{name}_factor")
    scaled = b.node("Mul", [real, scale], f"{name}_scaled")
    return b.node("Add", [scaled, b.constant(f"{name}_bias", bias)], f"{name}_out")


def _float_bias(b: Builder, sizes: tuple[int, ...]) -> Tensor:
    words = b.draw("int32", sizes, -100, 100).words
    return Tensor("float32", sizes, tuple(float_scalar(f"{word}/7").words[0] for word in words))


def dynamic_matmul() -> Definition:
    """Return matrix products of tensors that are quantized by their own range."""
    b = Builder(11)
    x = b.float_input("tokens", (2, 4, 8), "1/74", -300, 200)
    q, w = _dynamic(b, x, "first"), b.weight("first", (8, 6), ["0.03"])
    sums = b.node("MatMulInteger", [q.tensor, w.tensor, q.zero_point, w.zero_point], "first_sums")
    x = _rescaled(b, sums, q, w, _float_bias(b, (6,)), "first")
    x = b.node("Relu", [x], "active")
    q, w = _dynamic(b, x, "second"), b.weight("second", (6, 5), [f"0.0{i}" for i in range(1, 6)])
    sums = b.node("MatMulInteger", [q.tensor, w.tensor, q.zero_point, w.zero_point], "second_sums")
    x = _rescaled(b, sums, q, w, _float_bias(b, (5,)), "second")
    return b.finish("dynamic_matmul", "Two dynamically quantized products.", [x])


def dynamic_convolution() -> Definition:
    """Return convolutions of images that are quantized by their own range."""
    b = Builder(12)
    x = b.float_input("image", (1, 3, 6, 5), "1/74", 20, 300)
    q, w = _dynamic(b, x, "first"), b.weight("first", (4, 3, 3, 3), ["0.03"])
    inputs = [q.tensor, w.tensor, q.zero_point, w.zero_point]
    more: dict[str, Any] = {"kernel_shape": (3, 3), "pads": (1, 2, 0, 1), "strides": (1, 2)}
    sums = b.node("ConvInteger", inputs, "first_sums", **more)
    x = _rescaled(b, sums, q, w, _float_bias(b, (1, 4, 1, 1)), "first")
    q, w = _dynamic(b, x, "second"), b.weight("second", (4, 2, 2, 1), ["0.07"])
    inputs = [q.tensor, w.tensor, q.zero_point, w.zero_point]
    more = {"kernel_shape": (2, 1), "pads": (1, 0, 0, 1)}
    sums = b.node("ConvInteger", inputs, "second_sums", group=2, **more)
    x = _rescaled(b, sums, q, w, _float_bias(b, (1, 4, 1, 1)), "second")
    return b.finish("dynamic_convolution", "Two dynamically quantized convolutions.", [x])


def pools() -> Definition:
    """Return pools of every kind before a classifier."""
    b = Builder(13)
    image = b.float_input("image", (2, 4, 9, 8), "1/64", -400, 400)
    x = b.quantize(image, "x", Ending("0.05", 125))
    x = b.move("MaxPool", x, [], "largest", kernel_shape=(3, 2), strides=(1, 1), pads=(1, 0, 1, 1))
    window = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": SAME}
    y = b.unary(
        "AveragePool", x, "without_padding", Ending("0.05", 141), count_include_pad=0, **window
    )
    z = b.unary(
        "AveragePool", x, "with_padding", Ending("0.06", 137), count_include_pad=1, **window
    )
    x = b.binary("Add", y, z, "sum", Ending("0.12", 129))
    x = b.unary("GlobalAveragePool", x, "mean", Ending("0.06", 99))
    x = b.move("Flatten", x, [], "features", axis=1)
    w, bias = b.weight("head", (4, 6), ["0.02"]), b.bias("head_bias", 6)
    x = b.gemm(x, w, bias, "logits", Ending("0.16", 77), alpha=float_scalar("0.5"))
    return b.finish("pools", "Pools, and a product with a factor.", [x.tensor])


def products() -> Definition:
    """Return matrix products of each kind, with zero points of rows and columns."""
    b = Builder(14)
    left = b.input("left", b.draw("uint8", (2, 3, 7), 0, 255))
    right = b.input("right", b.draw("uint8", (7, 4), 0, 255))
    zero = b.zero_point("uint8", 131)
    columns = b.zero_point("uint8", 3, 100, 201, 254)
    b.node("MatMulInteger", [left, right, zero, columns], "sums")
    a = b.quantized(left, Ending("0.03", 119))
    c = b.quantized(right, Ending("0.05", 137))
    y = b.matrix_product(a, c, "quantized", Ending("0.384", 109))
    w = b.weight("matrix", (4, 6), [f"0.0{i}" for i in range(1, 7)])
    bias = b.constant("bias", _float_bias(b, (6,)))
    inputs = [y.tensor, w.tensor, y.scale, w.scale, y.zero_point, w.zero_point, bias]
    real = b.node("MatMulIntegerToFloat", inputs, "floats", MICROSOFT)
    v = b.weight("last", (6, 3), ["0.05"])
    bias = b.constant("last_bias", _float_bias(b, (3,)))
    inputs = [real, v.tensor, v.scale, v.zero_point, bias]
    b.node("DynamicQuantizeMatMul", inputs, "last_out", MICROSOFT)
    return b.finish("products", "Integer, quantized and float products.", ["sums", "last_out"])


DEFINITIONS: tuple[Callable[[], Definition], ...] = (
    residual,
    depthwise,
    inverted_residual,
    gated,
    attention,
    quantized_softmax,
    detector,
    qdq_u8_per_tensor,
    qdq_u8_per_channel,
    qdq_s8_per_channel,
    dynamic_matmul,
    dynamic_convolution,
    pools,
    products,
)
