"""Products: ONNX Runtime and `arithmetic="float32"` agree on every bit."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import dmlax
from support import NATIVE, assert_same

PAIRS = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")]  # what has a kernel
IMPLEMENTATIONS = [*NATIVE, "xla"]


def run(operator, a, constants, output_dtype):
    """ONNX Runtime's result of one node; all but `a` are constants, as in a quantized network."""
    domain = "com.microsoft" if operator == "MatMulIntegerToFloat" else ""
    given = {name: np.asarray(value) for name, value in constants.items() if value is not None}
    names = ["a", *(name if name in given else "" for name in constants)]
    node = helper.make_node(operator, names, ["y"], domain=domain)
    kind, output = map(helper.np_dtype_to_tensor_dtype, (a.dtype, np.dtype(output_dtype)))
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("a", kind, a.shape)],
        [helper.make_tensor_value_info("y", output, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in given.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    settings = ort.SessionOptions()
    if a.dtype == np.uint8:  # else 16-bit sums saturate on x64 processors without VNNI
        settings.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"a": a})[0]


def operands(rng, a_dtype, b_dtype, rows, depth, columns):
    """Matrices, zero points, and scales of few bits or of any, for one column or each."""

    def draw(dtype, shape=()):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)

    by_column = bool(rng.integers(2))
    a, b = draw(a_dtype, (rows, depth)), draw(b_dtype, (depth, columns))
    b_zero_point = draw(b_dtype, columns if by_column else ())
    if rng.integers(2):
        b_scale = 2.0 ** rng.integers(-9, -5, columns if by_column else ())
        a_scale = np.float32(0.5)
    else:
        b_scale = rng.uniform(0.002, 0.02, columns if by_column else ())
        a_scale = np.float32(rng.uniform(0.1, 2))
    return a, b, a_scale, np.float32(b_scale), draw(a_dtype), b_zero_point


def check_quantized(rng, pair, rows, implementation):
    """Sums of some thousands, so that outputs are in range and quotients are often ties."""
    depth, columns = int(rng.integers(1, 40)), int(rng.integers(1, 70))
    a, b, a_scale, b_scale, a_zero, b_zero = operands(rng, *pair, rows, depth, columns)
    y_scale = np.float32(rng.choice([1, 2, 4, 0.7]) * np.sqrt(depth))
    y_zero = a.dtype.type(rng.integers(100))
    constants = {
        "a_scale": a_scale,
        "a_zero": a_zero,
        "b": b,
        "b_scale": b_scale,
        "b_zero": b_zero,
        "y_scale": y_scale,
        "y_zero": y_zero,
    }
    found = dmlax.quantized_linear_matrix_multiply(
        a,
        b,
        a_scale=a_scale,
        a_zero_point=a_zero,
        b_scale=b_scale,
        b_zero_point=b_zero,
        output_scale=y_scale,
        output_zero_point=y_zero,
        arithmetic="float32",
        implementation=implementation,
    )
    assert_same(found, run("QLinearMatMul", a, constants, a.dtype))
    return found


def check_to_float(rng, pair, rows, implementation):
    depth, columns = int(rng.integers(1, 400)), int(rng.integers(1, 70))
    a, b, a_scale, b_scale, a_zero, b_zero = operands(rng, *pair, rows, depth, columns)
    bias = rng.standard_normal(columns).astype(np.float32) if rng.integers(2) else None
    constants = {
        "b": b,
        "a_scale": a_scale,
        "b_scale": b_scale,
        "a_zero": a_zero,
        "b_zero": b_zero,
        "bias": bias,
    }
    while list(constants.values())[-1] is None:
        constants.popitem()
    found = dmlax.matrix_multiply_integer_to_float(
        a,
        b,
        bias,
        a_scale=a_scale,
        a_zero_point=a_zero,
        b_scale=b_scale,
        b_zero_point=b_zero,
        arithmetic="float32",
        implementation=implementation,
    )
    assert_same(found, run("MatMulIntegerToFloat", a, constants, np.float32))
    return found


def check_integer(rng, pair, rows, implementation):
    depth, columns = int(rng.integers(1, 400)), int(rng.integers(1, 70))
    a, b, _, _, a_zero, b_zero = operands(rng, *pair, rows, depth, columns)
    constants = {"b": b, "a_zero": a_zero, "b_zero": b_zero}
    found = dmlax.matrix_multiply_integer(
        a, b, a_zero_point=a_zero, b_zero_point=b_zero, implementation=implementation
    )
    assert_same(found, run("MatMulInteger", a, constants, np.int32))
    return found


CHECKS = {"quantized": check_quantized, "to float": check_to_float, "integer": check_integer}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", CHECKS)
def test_products_have_onnx_runtimes_bits(name, implementation, pair):
    found = CHECKS[name](np.random.default_rng(1), pair, 9, implementation)
    assert len(np.unique(found)) > 50  # saturation everywhere would agree too easily


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", CHECKS)
def test_a_million_products_have_onnx_runtimes_bits(name, implementation, pair):
    elements = seed = 0
    while elements < 1_000_000:
        rng = np.random.default_rng(seed)
        elements += CHECKS[name](rng, pair, 2000, implementation).size
        seed += 1
