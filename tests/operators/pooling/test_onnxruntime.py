"""The "float32" arithmetic of pools and dynamic quantization has ONNX Runtime's bits."""

import functools

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper

import dmlax
from support import assert_same

TYPES = {np.dtype(np.uint8): T.UINT8, np.dtype(np.int8): T.INT8, np.dtype(np.float32): T.FLOAT}
LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
RATIOS = (1, 0.5, 2, 1 / 3, 0.25, 0.7)


def run(operator, x, outputs, tensors=(), **attributes):
    """ONNX Runtime's results for one node."""
    domain = "" if operator == "DynamicQuantizeLinear" else "com.microsoft"
    given = {f"p{i}": value for i, value in enumerate(tensors)}
    node = helper.make_node(operator, ["x", *given], [*outputs], domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TYPES[x.dtype], x.shape)],
        [
            helper.make_tensor_value_info(name, TYPES[np.dtype(t)], None)
            for name, t in outputs.items()
        ],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in given.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def parameters(rng, dtype):
    """Scales whose quotients are often ties, and zero points."""
    limits = np.iinfo(dtype)
    sx = np.float32(rng.choice([0.5, 0.1, 0.25, 1 / 3, 0.0173]))
    sy = np.float32(sx * rng.choice(RATIOS))
    zx, zy = rng.integers(limits.min, limits.max, 2, dtype, endpoint=True)
    return {"input_scale": sx, "input_zero_point": zx, "output_scale": sy, "output_zero_point": zy}


def image(rng, dtype, shape, zero_point):
    """Any values, or those near the zero point, whose averages are often ties."""
    limits = np.iinfo(dtype)
    if rng.random() < 0.5:
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    near = int(zero_point) + rng.integers(-3, 4, shape)
    return np.clip(near, limits.min, limits.max).astype(dtype)


def check_average(seed, operator, scale):
    rng = np.random.default_rng(seed)
    dtype, is_last = np.dtype(rng.choice(["int8", "uint8"])), bool(rng.integers(2))
    own = parameters(rng, dtype)
    rank = int(rng.integers(1, 4))
    attributes = {"channels_last": int(is_last)}
    if operator == "QLinearGlobalAveragePool":
        shape = (3, 150 * scale, *rng.integers(1, 6, rank))
        function = dmlax.quantized_linear_global_average_pooling
    else:
        shape = (2, 5, *((100 * scale,), (40, 3 * scale), (12, 4, 3 * scale))[rank - 1])
        window = rng.integers(1, 5, rank)
        start, end = (rng.integers(0, window) for _ in range(2))
        strides, counted = rng.integers(1, 3, rank), bool(rng.integers(2))
        options = {
            "window_size": window.tolist(),
            "strides": strides.tolist(),
            "start_padding": start.tolist(),
            "end_padding": end.tolist(),
            "include_padding": counted,
        }
        attributes |= {
            "kernel_shape": window.tolist(),
            "strides": strides.tolist(),
            "pads": [*start.tolist(), *end.tolist()],
            "count_include_pad": int(counted),
        }
        function = functools.partial(dmlax.quantized_linear_average_pooling, **options)
    x = image(rng, dtype, shape, own["input_zero_point"])
    if is_last:
        x = np.moveaxis(x, 1, -1)
        function = functools.partial(function, dimension_numbers=LAST[x.ndim])
    (wanted,) = run(operator, x, {"y": dtype}, own.values(), **attributes)
    assert_same(function(x, **own, arithmetic="float32"), wanted)
    return wanted.size


def check_dynamic_quantize(seed, scale):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 1000 * scale))
    kind = rng.integers(4)
    if kind == 0:
        x = rng.integers(-255, 256, count) * np.float32(rng.choice([1, 0.5, 0.1, 1 / 3]))
    elif kind == 1:
        x = rng.standard_normal(count) * 10.0 ** rng.integers(-35, 35)
    elif kind == 2:
        x = rng.integers(-2000, 2000, count) * 2.0**-149
    else:
        x = np.abs(rng.standard_normal(count)) * rng.integers(0, 2)
    x = x.astype(np.float32)
    outputs = {"y": np.uint8, "scale": np.float32, "zero_point": np.uint8}
    wanted = run("DynamicQuantizeLinear", x, outputs)
    found = dmlax.dynamic_quantize_linear(x, arithmetic="float32")
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)
    return count


CHECKS = {
    "average": lambda seed, scale: check_average(seed, "QLinearAveragePool", scale),
    "global average": lambda seed, scale: check_average(seed, "QLinearGlobalAveragePool", scale),
    "dynamic quantize": check_dynamic_quantize,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CHECKS)
def test_it_has_onnx_runtimes_bits(name, seed):
    assert CHECKS[name](seed, 3) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_million_elements_have_onnx_runtimes_bits(name):
    elements = seed = 0
    while elements < 1_000_000:
        elements += CHECKS[name](seed, 60)
        seed += 1
