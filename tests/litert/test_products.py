"""Products: what is rounded beside int8 weights, and which convolutions XNNPACK takes."""

import numpy as np
import pytest

import dmlax.litert
from tools.litert.files import Op, Subgraph, Tensor, model

RNG = np.random.default_rng(3)
X = np.float32(RNG.uniform(-1.5, 1.5, (2, 4, 5, 3)))


def convolve(x, w, scales, arithmetic, name="CONV_2D", stride=1):
    """The output of a file with one convolution, whose windows have no padding."""
    count = w.shape[3 if name == "DEPTHWISE_CONV_2D" else 0]
    _, h, width, _ = x.shape
    sizes = ((h - w.shape[1]) // stride + 1, (width - w.shape[2]) // stride + 1)
    axis = 3 if name == "DEPTHWISE_CONV_2D" else 0
    filter = Tensor(np.dtype(np.int8), w.shape, w, scales, [0] * len(scales), axis)
    bias = Tensor(np.dtype(np.float32), (count,), np.zeros(count, np.float32))
    options = {"padding": "VALID", "stride_h": stride, "stride_w": stride, "activation": ""}
    options |= {"multiplier": 1} if name == "DEPTHWISE_CONV_2D" else {}
    tensors = {"x": Tensor(np.float32, x.shape), "w": filter, "b": bias}
    tensors["y"] = Tensor(np.float32, (len(x), *sizes, count))
    graph = Subgraph(tensors, [Op(name, ["x", "w", "b"], ["y"], options)], ["x"], ["y"])
    return np.asarray(dmlax.litert.load(model(graph), arithmetic=arithmetic)(x)["y"])


def rounded(x, axes, is_symmetric=False):
    """Floats rounded to 256 steps of the range along some axes."""
    low, high = (f(x, axes, keepdims=True) for f in (np.min, np.max))
    low, high = np.minimum(low, 0), np.maximum(high, 0)
    if is_symmetric:
        scale = np.maximum(-low, high) / np.float32(127)
        return np.rint(x / scale) * scale
    scale = (high - low) / np.float32(255)
    zero = np.clip(np.rint(-128 - low / scale), -128, 127)
    return (np.clip(np.rint(x / scale) + zero, -128, 127) - zero) * scale


def weights(*shape):
    return RNG.integers(-127, 128, shape).astype(np.int8)


@pytest.mark.parametrize(
    ("arithmetic", "stride", "axes"),
    [("xnnpack", 1, (3,)), ("xnnpack", 2, (1, 2, 3)), ("reference", 1, (1, 2, 3))],
)
def test_xnnpack_rounds_each_pixel_of_a_pointwise_convolution(arithmetic, stride, axes):
    w, scales = weights(4, 1, 1, 3), [0.02, 0.03, 0.025, 0.01]
    wanted = rounded(X, axes)[:, ::stride, ::stride] @ (w[:, 0, 0].T * np.float32(scales))
    found = convolve(X, w, scales, arithmetic, stride=stride)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    one = convolve(X[..., :1], w[:1, ..., :1], scales[:1], arithmetic, stride=stride)
    wanted = rounded(X[..., :1], (1, 2, 3), arithmetic == "reference") * w[0, 0, 0, 0]
    np.testing.assert_allclose(one, wanted[:, ::stride, ::stride] * np.float32(0.02), atol=1e-5)


@pytest.mark.parametrize("is_equal", [True, False])
def test_the_reference_is_symmetric_beside_equal_scales(is_equal):
    w, scales = weights(2, 4, 5, 3), [0.02, 0.02 if is_equal else 0.03]
    x = rounded(X, (1, 2, 3), is_equal).reshape(2, 1, 1, -1)
    wanted = x @ (w.reshape(2, -1).T * np.float32(scales))
    np.testing.assert_allclose(convolve(X, w, scales, "reference"), wanted, atol=1e-5)


@pytest.mark.parametrize("arithmetic", ["xnnpack", "reference"])
def test_a_depthwise_convolution_has_a_scale_for_each_channel(arithmetic):
    w = weights(1, 4, 5, 1)
    wanted = (rounded(X[..., :1], (1, 2, 3)) * w).sum((1, 2, 3)) * np.float32(0.02)
    found = convolve(X[..., :1], w, [0.02], arithmetic, "DEPTHWISE_CONV_2D")
    np.testing.assert_allclose(found.ravel(), wanted, atol=1e-5)
    text = (
        "its filter has 1 scale for 3 channels, where LiteRT reads one a channel: give it as many"
    )
    with pytest.raises(dmlax.UnsupportedError, match=text):
        convolve(X, weights(1, 4, 5, 3), [0.02], arithmetic, "DEPTHWISE_CONV_2D")


@pytest.mark.parametrize("arithmetic", ["xnnpack", "reference"])
def test_a_transposed_convolution_is_asymmetric(arithmetic):
    """Its windows, as far apart as they are long, do not overlap."""
    w = weights(4, 2, 2, 3)
    tensors = {
        "sizes": Tensor(np.dtype(np.int32), (4,), np.int32([2, 8, 10, 4])),
        "w": Tensor(np.dtype(np.int8), w.shape, w, [0.02], [0]),
        "x": Tensor(np.float32, X.shape),
        "y": Tensor(np.float32, (2, 8, 10, 4)),
    }
    options = {"padding": "VALID", "stride_h": 2, "stride_w": 2}
    node = Op("TRANSPOSE_CONV", ["sizes", "w", "x"], ["y"], options)
    file = model(Subgraph(tensors, [node], ["x"], ["y"]))
    found = np.asarray(dmlax.litert.load(file, arithmetic=arithmetic)(X)["y"])
    wanted = np.einsum("bhwc,nklc->bhkwln", rounded(X, (1, 2, 3)), w * np.float32(0.02))
    np.testing.assert_allclose(found, wanted.reshape(found.shape), atol=1e-5)


def test_xnnpack_takes_a_valid_transposed_convolution_with_gaps():
    """One filter of a pixel gives the bytes of a convolution, between zeros."""
    w = weights(64, 1, 1, 16)
    x = RNG.integers(-128, 128, (1, 12, 12, 16)).astype(np.int8)
    found = {}
    for name, stride, size in (("CONV_2D", 1, 12), ("TRANSPOSE_CONV", 2, 23)):
        shape = (1, size, size, 64)
        tensors = {
            "sizes": Tensor(np.dtype(np.int32), (4,), np.int32(shape)),
            "w": Tensor(np.dtype(np.int8), w.shape, w, [0.020056188], [0]),
            "x": Tensor(np.dtype(np.int8), x.shape, None, [0.01777], [-3]),
            "y": Tensor(np.dtype(np.int8), shape, None, [0.21], [5]),
        }
        options = {"padding": "VALID", "stride_h": stride, "stride_w": stride}
        operands = ["x", "w"] if name == "CONV_2D" else ["sizes", "w", "x"]
        graph = Subgraph(tensors, [Op(name, operands, ["y"], options)], ["x"], ["y"])
        for arithmetic in ("xnnpack", "reference"):
            y = np.asarray(dmlax.litert.load(model(graph), arithmetic=arithmetic)(x)["y"])
            found[name, arithmetic] = y[:, ::stride, ::stride]
    np.testing.assert_array_equal(found["TRANSPOSE_CONV", "xnnpack"], found["CONV_2D", "xnnpack"])
    assert (found["CONV_2D", "xnnpack"] != found["CONV_2D", "reference"]).any()
