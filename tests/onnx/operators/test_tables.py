"""The tables of 256 entries, and the float operators whose bits matter."""

import decimal
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import TensorProto

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.operators import error_function, tables
from dmlax.onnx.operators.table import Output, Quantized
from tools.zoo.networks import Network, quantize

TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
SCALES = [(0.03, 1 / 256), (0.5, 0.25), (2.0**-3, 2.0**-7)]


def unary(op, dtype, scales, zeros, *, count=256, **attributes):
    """A model of one operator of ONNX Runtime's own."""
    net = Network()
    parameters = [
        net.constant(each)
        for scale, zero in zip(scales, zeros, strict=True)
        for each in (np.float32(scale), dtype(zero))
    ]
    y = net.node(op, "x", *parameters, domain="com.microsoft", **attributes)
    shape = TYPES[dtype], ["n", count]
    return net.model({"x": shape}, {y: shape})


def every_byte(dtype):
    return np.arange(256).astype(np.uint8).view(dtype).reshape(1, 256)


def check(model, x):
    """Compares every output with ONNX Runtime's; returns the loaded model."""
    loaded, theirs = dmlax.onnx.load(model), peer.run_every_tensor(model, {"x": x})
    for name, found in loaded(x).items():
        np.testing.assert_array_equal(found, theirs[name])
    return loaded


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_tables_have_onnxruntimes_bits(op, scales, dtype):
    check(unary(op, dtype, scales, (100, 3)), every_byte(dtype))


def swish(dtype, order, zeros=(100, 3, 20)):
    """A model of x times its sigmoid."""
    net = Network()
    x, sigmoid, y = (
        (net.constant(np.float32(scale)), net.constant(dtype(zero)))
        for scale, zero in zip((0.05, 1 / 256, 0.04), zeros, strict=True)
    )
    found = net.node("QLinearSigmoid", "x", *x, *sigmoid, domain="com.microsoft")
    factors = [("x", *x), (found, *sigmoid)][::order]
    y = net.node("QLinearMul", *factors[0], *factors[1], *y, domain="com.microsoft")
    shape = TYPES[dtype], ["n", 256]
    return net.model({"x": shape}, {y: shape})


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", [1, -1])
def test_a_swish_is_one_lookup_and_has_onnxruntimes_bits(order, dtype):
    loaded = check(swish(dtype, order), every_byte(dtype))
    assert "after fuse byte functions: 1 nodes\n" in str(loaded.explain())
    (ours,) = loaded(every_byte(dtype)).values()
    assert len(np.unique(ours)) > 20


def test_an_exact_swish_is_rounded_twice():
    model, x = swish(np.uint8, 1), every_byte(np.uint8)
    loaded = dmlax.onnx.load(model, arithmetic="exact")
    (product,) = model.graph.output
    sigmoid = model.graph.node[0].output[0]
    found = loaded.apply(loaded.params, x, outputs=[sigmoid, product.name])
    wanted = dmlax.element_wise_quantized_linear_multiply(
        *(x, found[sigmoid]),
        a_scale=np.float32(0.05),
        b_scale=np.float32(1 / 256),
        output_scale=0.04,
        a_zero_point=100,
        b_zero_point=3,
        output_zero_point=20,
    )
    np.testing.assert_array_equal(found[product.name], wanted)


def gelu(form):
    """A quantized product, the error function's unit of it, and a product."""
    net = Network()
    y = net.gelu(net.linear("x", 8, 40))
    y = net.linear(y, 40, 5)
    float_model = net.model(
        {"x": (TensorProto.FLOAT, ["n", 6, 8])}, {y: (TensorProto.FLOAT, ["n", 6, 5])}
    )
    return quantize(float_model, form, True, samples=4)


@pytest.mark.parametrize("form", ["qoperator", "qdq"])
def test_the_unit_of_an_error_function_is_one_lookup_and_has_onnxruntimes_bits(form):
    model = gelu(form)
    x = np.random.default_rng(3).standard_normal((50, 6, 8)).astype(np.float32)
    loaded = check(model, x)
    assert "Erf" not in [node.op for node in loaded._graph.nodes]
    assert "dmlax.ByteFunction" in str(loaded.explain())


ELEMENT_WISE = [
    *(("Relu", {}), ("HardSwish", {})),
    *(("HardSigmoid", {}), ("HardSigmoid", {"alpha": 0.17, "beta": 0.41}), ("Clip", {})),
]


def between(op, attributes, dtype):
    """A model of a float operator between a dequantization and a quantization."""
    net = Network()
    x, y = (
        (net.constant(np.float32(scale)), net.constant(dtype(zero)))
        for scale, zero in ((0.05, 100), (0.02, 3))
    )
    limits = [net.constant(np.float32(limit)) for limit in (-0.3, 1.1)] if op == "Clip" else []
    floats = net.node(op, net.node("DequantizeLinear", "x", *x), *limits, **attributes)
    shape = TYPES[dtype], ["n", 256]
    return net.model({"x": shape}, {net.node("QuantizeLinear", floats, *y): shape})


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("op", "attributes"), ELEMENT_WISE)
def test_a_float_function_of_bytes_is_one_lookup_and_has_onnxruntimes_bits(op, attributes, dtype):
    loaded = check(between(op, attributes, dtype), every_byte(dtype))
    assert [node.op for node in loaded._graph.nodes] == ["ByteFunction"]


def average_of(dtype, divisor, *, erf=False):
    """A model of the averages of a quotient, beside the quantized quotient."""
    net = Network()
    x = net.constant(np.float32(0.05)), net.constant(dtype(100))
    floats = net.node("DequantizeLinear", "x", *x)
    floats = net.node("Erf", floats) if erf else floats
    floats = net.node("Div", floats, net.constant(np.float32(divisor)))
    outputs = {
        net.node("GlobalAveragePool", floats): (TensorProto.FLOAT, ["n", 20, 1, 1]),
        net.node("QuantizeLinear", floats, *x): (TYPES[dtype], ["n", 20, 5, 7]),
    }
    return net.model({"x": (TYPES[dtype], ["n", 20, 5, 7])}, outputs)


@pytest.mark.parametrize("dtype", TYPES)
def test_an_average_of_a_float_function_of_bytes_has_no_loop_and_onnxruntimes_bits(dtype):
    x = np.random.default_rng(1).integers(0, 256, (3, 20, 5, 7)).astype(np.uint8).view(dtype)
    loaded = check(average_of(dtype, 6), x)
    assert {"ByteAverage", "ByteFunction"} <= {node.op for node in loaded._graph.nodes}
    program = jax.jit(loaded.apply).lower(loaded.params, {"x": x})
    assert "while" not in program.as_text()


def test_an_average_of_an_error_function_is_of_the_programs_floats():
    loaded = dmlax.onnx.load(average_of(np.uint8, 6, erf=True))
    assert "GlobalAveragePool" in [node.op for node in loaded._graph.nodes]


@pytest.mark.parametrize("index", ["constant", "computed"])
def test_bytes_are_moved_in_place_of_floats_by_indices_that_are_known(index):
    net = Network()
    first, second = (
        (net.constant(np.float32(scale)), net.constant(np.uint8(zero)))
        for scale, zero in ((0.5, 3), (0.3, 7))
    )
    given = {"x": (TensorProto.UINT8, ["n", 3, 4])}
    place = net.constant(np.int64(1)) if index == "constant" else "place"
    if index == "computed":
        given["place"] = (TensorProto.INT64, [])
    y = net.node("Gather", net.node("DequantizeLinear", "x", *first), place, axis=1)
    y = net.node("QuantizeLinear", net.node("Transpose", y, perm=[1, 0]), *second)
    model = net.model(given, {y: (TensorProto.UINT8, [4, "n"])})
    inputs = {"x": np.arange(252).astype(np.uint8).reshape(21, 3, 4), "place": np.array(1)}
    inputs = {name: inputs[name] for name in given}
    loaded = dmlax.onnx.load(model)
    ops = [node.op for node in loaded._graph.nodes]
    assert (ops == ["Gather", "ByteFunction", "Transpose"]) is (index == "constant")
    (ours,) = loaded(inputs).values()
    np.testing.assert_array_equal(ours, peer.run_every_tensor(model, inputs)[y])


def test_error_functions_of_known_values_have_onnxruntimes_bits():
    values = np.random.default_rng(0).standard_normal(20_000) * 2
    x = np.concatenate([values, np.linspace(-5, 5, 20_001), [0, -0.0, 1e-40, -np.inf, np.nan]])
    x = x.astype(np.float32)
    net = Network()
    y = net.node("Erf", "x")
    model = net.model({"x": (TensorProto.FLOAT, ["n"])}, {y: (TensorProto.FLOAT, ["n"])})
    (theirs,) = peer.run_every_tensor(model, {"x": x}).values()
    ours = error_function.erf(x)
    np.testing.assert_array_equal(ours[:-1].view(np.uint32), theirs[:-1].view(np.uint32))
    assert np.isnan(ours[-1])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_has_onnxruntimes_bits(opset, dtype):
    model = unary("QLinearSoftmax", dtype, (0.1, 1 / 256), (0, 0), opset=opset, axis=1)
    x = np.random.default_rng(opset).integers(0, 256, (40, 256)).astype(np.uint8).view(dtype)
    check(model, x)


@pytest.mark.parametrize(
    ("dtype", "scale", "unit", "row", "theirs"),
    [
        (np.uint8, 0.01, 1 / 256, (255, 15, 10), (217, 20, 19)),
        (np.uint8, 0.091, 1 / 255, (146, 5, 127, 72), (215, 0, 38, 0)),
        (np.uint8, 0.051, 0.002, (214, 223, 215, 227), (89, 142, 94, 174)),
        (np.uint8, 0.023, 0.002, (179, 221, 119, 210), (84, 221, 21, 172)),
        (np.int8, 0.029, 1 / 255, (-98, 46, -74, -41), (-125, 97, -121, -110)),
        (np.int8, 0.022, 1 / 256, (126, 40, 74), (46, -102, -73)),
    ],
)
def test_near_ties_of_a_softmax_are_those_of_onnxruntime_1_32(dtype, scale, unit, row, theirs):
    """Up to 1.31 the product and the quotient were float32: every row has an element one off."""
    zeros = 0, np.iinfo(dtype).min
    model = unary("QLinearSoftmax", dtype, (scale, unit), zeros, count=len(row), opset=13)
    x = np.array([row], dtype)
    (ours,) = dmlax.onnx.load(model)(x).values()
    np.testing.assert_array_equal(ours, [theirs])
    np.testing.assert_array_equal(ours, *peer.run_every_tensor(model, {"x": x}).values())


@pytest.mark.parametrize(
    ("count", "dtype"), list(zip([1, 2, 64, 197, 1024], itertools.cycle(TYPES)))
)
def test_calibrated_softmaxes_have_onnxruntimes_bits(count, dtype):
    """Scales that make the largest weight the largest byte, and rows of few values, with ties."""
    rng, limits = np.random.default_rng(count), np.iinfo(dtype)
    every = (0.003, 1, 0), (0.04, 1, 5), (0.5, 30, 0), (0.5, 30, 5)
    for scale, step, above_lowest in every[count % 2 :: 2]:
        x = rng.integers(0, 256 // step, (20_000 // count, count)) // rng.choice([1, 20, 60]) * step
        weights = np.exp((x - x.max(-1, keepdims=True)) * scale)
        unit = (weights / weights.sum(-1, keepdims=True)).max() / 255
        x = (x + limits.min).astype(dtype)
        scales, zeros = (scale, unit), (0, limits.min + above_lowest)
        model = unary("QLinearSoftmax", dtype, scales, zeros, count=count, opset=13)
        check(model, x)


@pytest.mark.parametrize("unit", [2.0**-60, 0.01, 1.5, -0.01])
def test_a_softmax_is_rounded_once_with_any_multiplier(unit):
    x = np.random.default_rng(9).integers(0, 256, (300, 50), np.uint8)
    theirs = unary("QLinearSoftmax", np.uint8, (0.7, unit), (0, 99), count=50, opset=13)
    (theirs,) = peer.run_every_tensor(theirs, {"x": x}).values()
    given = *map(np.asarray, (np.float32(0.7), np.float32(unit), np.uint8(99))), "float32"
    np.testing.assert_array_equal(tables.softmax(jnp.asarray(x), *given), theirs)


@pytest.mark.parametrize(
    ("scale", "unit", "why"),
    [
        (0.0, 0.1, "x_scale"),
        (-1.0, 0.1, "x_scale"),
        (np.inf, 0.1, "x_scale"),
        (1.0, 0.0, "y_scale"),
    ],
)
def test_a_softmax_refuses_a_bad_scale(scale, unit, why):
    given = np.asarray(scale, np.float32), np.asarray(unit, np.float32), None, "float32"
    with pytest.raises(dmlax.UnsupportedError, match=f"{why} is n"):
        tables.softmax(jnp.zeros((1, 3), jnp.uint8), *given)


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_softmax_of_no_elements_has_none(arithmetic):
    model = unary("QLinearSoftmax", np.uint8, (0.1, 1 / 256), (0, 0), count=0, opset=13)
    (found,) = dmlax.onnx.load(model, arithmetic=arithmetic)(np.zeros((3, 0), np.uint8)).values()
    assert (found.shape, found.dtype) == ((3, 0), np.uint8)


def rounded_softmax(row, scale, unit, zero, dtype):
    """A row's softmax by decimals of 90 digits, rounded once."""
    limits = np.iinfo(dtype)
    with decimal.localcontext(prec=90):
        step, unit = (decimal.Decimal(float(np.float32(each))) for each in (scale, unit))
        terms = [(int(value) * step).exp() for value in row]
        quotients = [term / sum(terms) / unit for term in terms]
        rounded = [int(min(each.to_integral_value("ROUND_HALF_EVEN"), 1000)) for each in quotients]
    return np.clip(np.add(rounded, zero), limits.min, limits.max).astype(dtype)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("scale", "unit", "dtype"),
    [
        (0.1, 1 / 256, np.uint8),
        (0.01, 1 / 255, np.int8),
        (5.0, 0.01, np.uint8),
        (-0.03, 2**-12, np.int8),
        (1e-30, 0.001, np.uint8),
        (0.2, 2**-40, np.int8),
    ],
)
def test_an_exact_softmax_is_rounded_once(scale, unit, dtype):
    x = np.random.default_rng(7).integers(0, 256, (6, 9)).astype(np.uint8).view(dtype)
    x[0], x[1, 1:] = x[0, 0], x[1, 1:] // 16
    zero = np.iinfo(dtype).min + 3
    given = *map(np.asarray, (np.float32(scale), np.float32(unit), dtype(zero))), "exact"
    found = jax.jit(lambda x: tables.softmax(x, *given))(x)
    expected = [rounded_softmax(row, scale, unit, zero, dtype) for row in x]
    np.testing.assert_array_equal(found, np.stack(expected))


@pytest.mark.parametrize(("count", "unit"), [(4, 0.5), (512, 1 / 256)])
def test_a_tie_of_an_exact_softmax_is_rounded_to_even(count, unit):
    equal = jnp.full((2, count), 77, jnp.uint8)
    given = *map(np.asarray, (np.float32(0.1), np.float32(unit), np.uint8(0))), "exact"
    softmax = jax.jit(lambda x: tables.softmax(x, *given))
    assert not softmax(equal).any()
    assert softmax(equal[:, 1:]).tolist() == [[1] * (count - 1)] * 2


@pytest.mark.parametrize("unit", [0.0, -1.0, np.inf, np.nan])
def test_an_exact_softmax_refuses_a_bad_scale(unit):
    given = np.asarray(np.float32(1)), np.asarray(np.float32(unit)), None, "exact"
    with pytest.raises(dmlax.UnsupportedError, match="y_scale is not positive"):
        tables.softmax(jnp.zeros((1, 3), jnp.uint8), *given)


def test_bounds_of_a_sigmoid_enclose_it():
    for x in (Fraction(-17), Fraction(-1, 3), Fraction(1, 7), Fraction(9, 2), Fraction(40)):
        low, high = tables._sigmoid_bounds(x, 64)
        assert low <= Fraction(1 / (1 + math.exp(-float(x)))) + Fraction(1, 2**50)
        assert high >= Fraction(1 / (1 + math.exp(-float(x)))) - Fraction(1, 2**50)
        assert 0 <= high - low <= Fraction(1, 2**60)


@pytest.mark.parametrize("dtype", TYPES)
def test_exact_tables_round_once(dtype):
    given = (np.float32(0.03), dtype(9), np.float32(1 / 256), dtype(28))
    parameters = tuple(map(np.asarray, given))
    x, y = Quantized(np.zeros((), dtype), *parameters[:2]), Output(*parameters[2:])
    values = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    limits = np.iinfo(dtype)
    for found, function in (
        (tables.IDENTITY.table(x, y, "exact"), lambda x: x),
        (tables.leaky_relu(0.25).table(x, y, "exact"), lambda x: x if x > 0 else x / 4),
    ):
        for value, entry in zip(values.tolist(), found.tolist(), strict=True):
            real = function((value - 9) * Fraction(float(parameters[0]))) / Fraction(1, 256)
            assert entry == min(max(round(real) + int(parameters[3]), limits.min), limits.max)
