"""Products: what is rounded beside int8 weights, and which convolutions XNNPACK takes."""

import numpy as np
import pytest

import dmlax.litert
from tools.litert.cases import _constant, _graph
from tools.litert.files import Tensor, model

RNG = np.random.default_rng(3)
X = np.float32(RNG.uniform(-1.5, 1.5, (2, 4, 5, 3)))


def output(graph, x, arithmetic):
    """The output of a file of one operator."""
    return np.asarray(dmlax.litert.load(model(graph), arithmetic=arithmetic)(x)["y0"])


def convolve(x, w, scales, arithmetic, name="CONV_2D", stride=1):
    """The output of a convolution whose windows have no padding."""
    axis = 3 if name == "DEPTHWISE_CONV_2D" else 0
    filter = _constant(w, np.int8, scales)
    filter.axis = axis
    sizes = [(n - k) // stride + 1 for n, k in zip(x.shape[1:3], w.shape[1:3], strict=True)]
    operands = [Tensor(np.float32, x.shape), filter, _constant(np.zeros(w.shape[axis]), np.float32)]
    options = {"padding": "VALID", "stride_h": stride, "stride_w": stride, "activation": ""}
    options |= {"multiplier": 1} if axis else {}
    y = Tensor(np.float32, (len(x), *sizes, w.shape[axis]))
    return output(_graph(name, operands, [y], **options), x, arithmetic)


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
    shape = (2, 8, 10, 4)
    operands = [_constant(shape), _constant(w, np.int8, [0.02]), Tensor(np.float32, X.shape)]
    options = {"padding": "VALID", "stride_h": 2, "stride_w": 2}
    graph = _graph("TRANSPOSE_CONV", operands, [Tensor(np.float32, shape)], **options)
    found = output(graph, X, arithmetic)
    wanted = np.einsum("bhwc,nklc->bhkwln", rounded(X, (1, 2, 3)), w * np.float32(0.02))
    np.testing.assert_allclose(found, wanted.reshape(found.shape), atol=1e-5)


def test_xnnpack_takes_a_valid_transposed_convolution_with_gaps():
    """One filter of a pixel gives the bytes of a convolution, between zeros."""
    w = weights(64, 1, 1, 16)
    x = RNG.integers(-128, 128, (1, 12, 12, 16)).astype(np.int8)
    found = {}
    for name, stride, size in (("CONV_2D", 1, 12), ("TRANSPOSE_CONV", 2, 23)):
        shape = (1, size, size, 64)
        given = Tensor(np.int8, x.shape, None, [0.01777], [-3])
        filter = _constant(w, np.int8, [0.020056188])
        operands = [given, filter] if name == "CONV_2D" else [_constant(shape), filter, given]
        options = {"padding": "VALID", "stride_h": stride, "stride_w": stride}
        graph = _graph(name, operands, [Tensor(np.int8, shape, None, [0.21], [5])], **options)
        for arithmetic in ("xnnpack", "reference"):
            y = output(graph, x, arithmetic)
            found[name, arithmetic] = y[:, ::stride, ::stride]
    np.testing.assert_array_equal(found["TRANSPOSE_CONV", "xnnpack"], found["CONV_2D", "xnnpack"])
    assert (found["CONV_2D", "xnnpack"] != found["CONV_2D", "reference"]).any()
