"""ONNX Runtime's operators and `arithmetic="float32"`: the same bits.

Scales make ties: powers of two, few decimals, and any. ONNX Runtime's addition depends on the order
of its operands, and it swaps them where one of them is constant.
"""

import dataclasses
import functools

import jax
import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

import dmlax
from support import NATIVE, assert_same, draw, onnx_files
from support.calls.convolution import call as random_convolution
from support.cases.convolution import LAYOUTS

BYTES = ("uint8", "int8")
PAIRS = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")]  # ONNX Runtime has kernels
NOT_MICROSOFTS = ("QLinearConv", "QLinearMatMul", "MatMulInteger", "DynamicQuantizeLinear")
MILLION = 1_000_000
IMPLEMENTATIONS = [*NATIVE, "xla"]


def session(operator, inputs, constants, outputs, attributes):
    """A model of one node, whose other operands are constants, as in a quantized network."""
    names = [name if name in inputs or value is not None else "" for name, value in
             (inputs | constants).items()]  # fmt: skip
    while not names[-1]:
        names.pop()
    domain = "" if operator in NOT_MICROSOFTS else "com.microsoft"
    node = helper.make_node(operator, names, [*outputs], domain=domain, **attributes)
    held = {name: value for name, value in constants.items() if value is not None}
    model = onnx_files.model([node], inputs, outputs, held, 17)
    settings = ort.SessionOptions()
    if next(iter(inputs.values())).dtype == np.uint8:  # else sums of 16 bits saturate without VNNI
        settings.add_session_config_entry("session.x64quantprecision", "1")
    provider = ["CPUExecutionProvider"]
    return ort.InferenceSession(model.SerializeToString(), settings, providers=provider)


def run(operator, x, constants, dtype, **attributes):
    """ONNX Runtime's result of one node."""
    started = session(operator, {"x": x}, constants, {"y": dtype}, attributes)
    return started.run(None, {"x": x})[0]


def until_a_million(check):
    elements = seed = 0
    while elements < MILLION:
        elements += check(seed).size
        seed += 1


# --- sums and products of two tensors -------------------------------------------------------

BINARY = {
    "QLinearAdd": dmlax.element_wise_quantized_linear_add,
    "QLinearMul": dmlax.element_wise_quantized_linear_multiply,
}
SHAPES = [
    *[((4099,), (4099,)), ((1,), (1,)), ((1, 1), (1,)), ((1,), (1000,)), ((1000,), (1,))],
    *[((7, 1), (7, 90)), ((7, 90), (7, 1)), ((7, 90), (90,)), ((90,), (7, 90))],
    *[((7, 1), (1, 90)), ((1, 90), (7, 1)), ((2, 5, 1, 1), (2, 5, 9, 11))],
    *[((1, 5, 1, 1), (2, 5, 9, 11)), ((2, 5, 9, 11), (5, 1, 1)), ((2, 1, 9, 1), (1, 5, 1, 11))],
    *[((3, 4, 1), (3, 4, 1)), ((3, 1, 1), (3, 4, 1)), ((1, 1, 8), (6, 5, 1))],
]


def scales(rng):
    kind = rng.integers(4)
    if kind == 0:
        return [np.float32(2.0 ** rng.integers(-4, 2)) for _ in range(3)]
    if kind == 1:
        return [np.float32(rng.integers(1, 40) * 0.05) for _ in range(3)]
    if kind == 2:
        return [np.float32(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-2, 0)) for _ in range(3)]
    return [np.float32(10.0 ** rng.uniform(-12, 12)) for _ in range(3)]  # some overflow an int32


def two_tensors(seed, dtype, a, b):
    sa, sb, sy = scales(np.random.default_rng(seed))
    za, zb, zy = (draw(seed + 2 + i, dtype) for i in range(3))
    found = {"a": draw(seed, dtype, a), "a_scale": sa, "a_zero_point": za}
    found |= {"b": draw(seed + 1, dtype, b), "b_scale": sb, "b_zero_point": zb}
    found |= {"output_scale": sy, "output_zero_point": zy}
    return {name: np.asarray(value) for name, value in found.items()}


@functools.cache
def binary_session(operator, dtype, a, b):
    return session(operator, two_tensors(0, dtype, a, b), {}, {"y": dtype}, {})


def binary_mismatches(operator, dtype, a, b, seeds, implementation):
    @jax.jit
    def call(given):
        options = {"arithmetic": "float32", "implementation": implementation}
        rest = {name: x for name, x in given.items() if name not in ("a", "b")}
        return BINARY[operator](given["a"], given["b"], **rest, **options)

    count = 0
    for seed in seeds:
        given = two_tensors(10 * seed, dtype, a, b)
        want = binary_session(operator, dtype, a, b).run(None, given)[0]
        got = np.asarray(call(given))
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        count += np.count_nonzero(want != got)
    return count


@pytest.mark.parametrize("implementation", NATIVE)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("operator", BINARY)
def test_every_way_to_broadcast_agrees_on_every_bit(operator, dtype, implementation):
    for a, b in SHAPES[BYTES.index(dtype) :: 2]:
        found = binary_mismatches(operator, dtype, a, b, range(8), implementation)
        assert found == 0, (a, b)


@pytest.mark.parametrize("operator", BINARY)
def test_the_elements_and_the_table_of_xla_agree_on_every_bit(operator):
    for (a, b), draws in ((((7, 1), (7, 90)), 20), (((600, 500), (600, 500)), 4)):
        assert binary_mismatches(operator, "uint8", a, b, range(draws), "xla") == 0


@pytest.mark.slow
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("operator", BINARY)
def test_a_million_elements_agree_on_every_bit(operator, dtype, implementation):
    given = operator, dtype, (4099,), (4099,), range(250), implementation
    assert binary_mismatches(*given) == 0


# --- convolutions ---------------------------------------------------------------------------


def convolutions(first, last, x_dtype, w_dtype):
    """Random calls that ONNX Runtime has too, channels first and in its arithmetic."""
    for call in map(random_convolution, range(first, last)):
        if call.output_dtype != "int32" and call.x.size:
            parameters = {**call.parameters, "arithmetic": "float32"}
            for tensor, dtype in (("input", x_dtype), ("filter", w_dtype), ("output", x_dtype)):
                zero = parameters.get(f"{tensor}_zero_point", np.zeros((), dtype))
                parameters[f"{tensor}_zero_point"] = zero.view(dtype)
            x, w, layout = call.x.view(x_dtype), call.w.view(w_dtype), LAYOUTS["NCHW"]
            given = {"parameters": parameters, "output_dtype": x_dtype, "layout": layout}
            yield dataclasses.replace(call, x=x, w=w, **given)


def run_convolution(call):
    windows, given = call.windows, call.parameters
    operands = {
        "x_scale": given["input_scale"],
        "x_zero_point": given["input_zero_point"],
        "w": call.w,
        "w_scale": given["filter_scale"],
        "w_zero_point": given["filter_zero_point"],
        "y_scale": given["output_scale"],
        "y_zero_point": given["output_zero_point"],
        "B": given.get("bias"),
    }
    pads = *windows["start_padding"], *windows["end_padding"]
    names = {name: windows[name] for name in ("strides", "dilations")}
    return run("QLinearConv", call.x, operands, call.x.dtype, pads=pads, group=call.groups, **names)


@pytest.mark.parametrize(
    ("first", "last"), [(0, 40), pytest.param(40, 1600, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("x_dtype", "w_dtype"), PAIRS)
def test_random_convolutions_agree_on_every_bit(x_dtype, w_dtype, first, last):
    calls = spread = 0
    for call in convolutions(first, last, x_dtype, w_dtype):
        wanted = run_convolution(call)
        assert_same(call("auto"), wanted)
        spread += len(np.unique(wanted)) > 1
        calls += 1
    assert spread > 0.7 * calls > 0.3 * (last - first)  # saturation would agree too easily


def test_a_pair_without_a_kernel_is_not_in_the_list():
    """The list has to grow if ONNX Runtime gains the fourth pair."""
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.NotImplemented):
        run_convolution(next(convolutions(0, 9, "int8", "uint8")))


# --- matrix products ------------------------------------------------------------------------------


def matrices(rng, a_dtype, b_dtype, rows, depth, columns):
    """Matrices and ONNX Runtime's other operands: parameters for one column or each."""
    limits = [np.iinfo(dtype) for dtype in (a_dtype, b_dtype)]

    def integers(place, shape=()):
        return rng.integers(
            limits[place].min, limits[place].max, shape, limits[place].dtype, endpoint=True
        )

    lengths = columns if rng.integers(2) else ()
    a, b = integers(0, (rows, depth)), integers(1, (depth, columns))
    b_zero = integers(1, lengths)
    if rng.integers(2):
        b_scale, a_scale = 2.0 ** rng.integers(-9, -5, lengths), np.float32(0.5)
    else:
        b_scale = rng.uniform(0.002, 0.02, lengths)
        a_scale = np.float32(rng.uniform(0.1, 2))
    return a, b, a_scale, np.float32(b_scale), integers(0), b_zero


def check_quantized(rng, pair, rows, implementation):
    """Sums of some thousands, so that outputs are in range and quotients are often ties."""
    depth, columns = int(rng.integers(1, 40)), int(rng.integers(1, 70))
    a, b, sa, sb, za, zb = matrices(rng, *pair, rows, depth, columns)
    sy, zy = (
        np.float32(rng.choice([1, 2, 4, 0.7]) * np.sqrt(depth)),
        a.dtype.type(rng.integers(100)),
    )
    options = {"a_scale": sa, "a_zero_point": za, "b_scale": sb, "b_zero_point": zb}
    options |= {"output_scale": sy, "output_zero_point": zy, "implementation": implementation}
    found = dmlax.quantized_linear_matrix_multiply(a, b, arithmetic="float32", **options)
    given = {"sa": sa, "za": za, "b": b, "sb": sb, "zb": zb, "sy": sy, "zy": zy}
    assert_same(found, run("QLinearMatMul", a, given, a.dtype))
    return found


def check_to_float(rng, pair, rows, implementation):
    depth, columns = int(rng.integers(1, 400)), int(rng.integers(1, 70))
    a, b, sa, sb, za, zb = matrices(rng, *pair, rows, depth, columns)
    bias = rng.standard_normal(columns).astype(np.float32) if rng.integers(2) else None
    options = {"a_scale": sa, "a_zero_point": za, "b_scale": sb, "b_zero_point": zb}
    options |= {"arithmetic": "float32", "implementation": implementation}
    found = dmlax.matrix_multiply_integer_to_float(a, b, bias, **options)
    given = {"b": b, "sa": sa, "sb": sb, "za": za, "zb": zb, "bias": bias}
    assert_same(found, run("MatMulIntegerToFloat", a, given, np.float32))
    return found


def check_integer(rng, pair, rows, implementation):
    depth, columns = int(rng.integers(1, 400)), int(rng.integers(1, 70))
    a, b, _, _, za, zb = matrices(rng, *pair, rows, depth, columns)
    options = {"a_zero_point": za, "b_zero_point": zb, "implementation": implementation}
    found = dmlax.matrix_multiply_integer(a, b, **options)
    assert_same(found, run("MatMulInteger", a, {"b": b, "za": za, "zb": zb}, np.int32))
    return found


PRODUCTS = {"quantized": check_quantized, "to float": check_to_float, "integer": check_integer}
every_product = (
    pytest.mark.parametrize("pair", PAIRS, ids="-".join),
    pytest.mark.parametrize("implementation", IMPLEMENTATIONS),
    pytest.mark.parametrize("name", PRODUCTS),
)


@pytest.mark.one_in(3)
@every_product[0]
@every_product[1]
@every_product[2]
def test_products_have_onnx_runtimes_bits(name, implementation, pair):
    found = PRODUCTS[name](np.random.default_rng(1), pair, 9, implementation)
    assert len(np.unique(found)) > 50  # saturation everywhere would agree too easily


@pytest.mark.slow
@every_product[0]
@every_product[1]
@every_product[2]
def test_a_million_products_have_onnx_runtimes_bits(name, implementation, pair):
    check = PRODUCTS[name]
    until_a_million(lambda seed: check(np.random.default_rng(seed), pair, 2000, implementation))


# --- pools and dynamic quantization ---------------------------------------------------------------

LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}


def check_average(seed, scale, operator):
    """An average pool: any values, or those near the zero point, whose averages are often ties."""
    rng = np.random.default_rng(seed)
    dtype, is_last = np.dtype(rng.choice(["int8", "uint8"])), bool(rng.integers(2))
    limits = np.iinfo(dtype)
    sx = np.float32(rng.choice([0.5, 0.1, 0.25, 1 / 3, 0.0173]))
    sy = np.float32(sx * rng.choice((1, 0.5, 2, 1 / 3, 0.25, 0.7)))
    zx, zy = rng.integers(limits.min, limits.max, 2, dtype, endpoint=True)
    parameters = {"input_scale": sx, "input_zero_point": zx}
    parameters |= {"output_scale": sy, "output_zero_point": zy}
    rank = int(rng.integers(1, 4))
    attributes = {"channels_last": int(is_last)}
    if operator == "QLinearGlobalAveragePool":
        shape = (3, 150 * scale, *rng.integers(1, 6, rank))
        function = dmlax.quantized_linear_global_average_pooling
    else:
        shape = (2, 5, *((100 * scale,), (40, 3 * scale), (12, 4, 3 * scale))[rank - 1])
        window = rng.integers(1, 5, rank)
        start, end = (rng.integers(0, window).tolist() for _ in range(2))
        strides, counted = rng.integers(1, 3, rank).tolist(), bool(rng.integers(2))
        attributes |= {"kernel_shape": window.tolist(), "strides": strides}
        attributes |= {"pads": [*start, *end], "count_include_pad": int(counted)}
        options = {"window_size": window.tolist(), "strides": strides, "start_padding": start}
        options |= {"end_padding": end, "include_padding": counted}
        function = functools.partial(dmlax.quantized_linear_average_pooling, **options)
    if rng.random() < 0.5:
        x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    else:
        x = np.clip(int(zx) + rng.integers(-3, 4, shape), limits.min, limits.max).astype(dtype)
    if is_last:
        x = np.moveaxis(x, 1, -1)
        function = functools.partial(function, dimension_numbers=LAST[x.ndim])
    wanted = run(operator, x, parameters, dtype, **attributes)
    assert_same(function(x, **parameters, arithmetic="float32"), wanted)
    return wanted


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
    wanted = session("DynamicQuantizeLinear", {"x": x}, {}, outputs, {}).run(None, {"x": x})
    found = dmlax.dynamic_quantize_linear(x, arithmetic="float32")
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)
    return x


OTHERS = {
    "average": functools.partial(check_average, operator="QLinearAveragePool"),
    "global average": functools.partial(check_average, operator="QLinearGlobalAveragePool"),
    "dynamic quantize": check_dynamic_quantize,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", OTHERS)
def test_pools_and_dynamic_quantization_have_onnx_runtimes_bits(name, seed):
    assert OTHERS[name](seed, 3).size > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_a_million_of_their_elements_have_onnx_runtimes_bits(name):
    until_a_million(lambda seed: OTHERS[name](seed, 60))
