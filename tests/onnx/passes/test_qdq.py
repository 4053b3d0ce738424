"""A QDQ file means what its nodes say, whether a quantized operator computes it or floats do."""

import jax
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import dmlax.onnx
from tools.differential import rationals
from tools.zoo.networks import Network

BOTH = ("float32", "exact")


class File(Network):
    """Writes a file of quantizations; arrays become inputs and everything else constants."""

    def __init__(self, opset=21):
        super().__init__()
        self.opset, self.inputs = opset, {}

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(array)
        return name

    def _parameters(self, scale, zero_point):
        scale = scale if isinstance(scale, np.ndarray) else np.float32(scale)
        return [self.constant(x) for x in (scale, zero_point) if x is not None]

    def d(self, x, scale=1.0, zero_point=None, **attributes):
        """DequantizeLinear of an input, or of a tensor by its name."""
        x = x if isinstance(x, str) else self.input(x)
        parameters = self._parameters(scale, zero_point)
        return self.node("DequantizeLinear", x, *parameters, **attributes)

    def w(self, array, scale=1.0, zero_point=None, **attributes):
        """DequantizeLinear of a constant."""
        return self.d(self.constant(array), scale, zero_point, **attributes)

    def q(self, x, scale=1.0, zero_point=None, **attributes):
        """QuantizeLinear."""
        return self.node("QuantizeLinear", x, *self._parameters(scale, zero_point), **attributes)

    def write(self, *outputs):
        """The model; ONNX infers the types of its outputs."""
        types = {
            name: (helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in self.inputs.items()
        }
        model = self.model(types, dict.fromkeys(outputs, (TensorProto.FLOAT, None)), self.opset)
        model.ir_version = 10
        for each in model.graph.output:
            each.ClearField("type")
        return model

    def run(self, *outputs, arithmetic="float32", **options):
        loaded = dmlax.onnx.load(self.write(*outputs), arithmetic=arithmetic, **options)
        found = loaded(self.inputs)
        self.ran = [node.op for node in loaded._graph.nodes]
        return [np.asarray(found[name]) for name in outputs]


def u8(*values):
    return np.array(values, np.uint8)


def s8(*values):
    return np.array(values, np.int8)


def image(value, dtype):
    return np.array([[[[value]]]], dtype)


def convolve(x_value, x_scale, w_scale, y_scale, bias, bias_scale, bias_zero=None):
    def make(f):
        x = f.d(image(x_value, np.uint8), x_scale)
        w = f.w(image(1, np.int8), w_scale)
        b = f.w(np.int32([bias]), bias_scale, bias_zero)
        return f.q(f.node("Conv", x, w, b), y_scale)

    return make


def bias_by_channel(f):
    w = f.w(np.ones((2, 1, 1, 1), np.int8), np.float32([1, 1]), axis=0)
    b = f.w(np.int32([3, 3]), np.float32([10, 1]), axis=0)
    return f.q(f.node("Conv", f.d(image(5, np.uint8)), w, b))


def computed_bias(f):
    b = f.d(np.int32([3]), 10)
    return f.q(f.node("Conv", f.d(image(5, np.uint8)), f.w(image(1, np.int8)), b))


def gemm_bias(f):
    b = f.w(np.int32([3]), 10)
    return f.q(f.node("Gemm", f.d(u8([5])), f.w(s8([1])), b))


def gemm_alpha(f):
    return f.q(f.node("Gemm", f.d(u8([5])), f.w(s8([1])), f.w(np.int32([3])), alpha=2.0))


def wide_softmax(f):
    x = f.d(np.uint16([[500, 500]]), 1e-4, np.uint16(0))
    return f.q(f.node("Softmax", x), 1 / 65536, np.uint16(0))


def wide(op, dtype, **attributes):
    def make(f):
        x = f.d(np.array([[4, 8]], dtype), 0.5, dtype(2))
        return f.q(f.node(op, x, **attributes), 0.25, dtype(1))

    return make


def wide_concatenation(f):
    x = [f.d(np.int16([[4, 8]]), scale, np.int16(0)) for scale in (0.5, 1)]
    return f.q(f.node("Concat", *x, axis=1), 0.5, np.int16(0))


def wide_sum(f):
    x = f.d(u8([1, 2]), 0.5), f.d(np.int16([[-300, 5]]), 1.0, np.int16(0))
    return f.q(f.node("Add", *x), 0.5, np.int16(0))


def int32_product(f):
    x = f.d(np.int32([[3, -4]]), 0.5)
    return f.q(f.node("Mul", x, x), 0.25)


def leaky_relu_of_other_dtype(f):
    x = f.d(u8([0, 10]), 1.0, np.uint8(5))
    return f.q(f.node("LeakyRelu", x, alpha=0.1), 0.1, np.int8(0))


def transposed_rows(f):
    x = f.d(u8([10, 20], [30, 40]), np.float32([1, 2]), axis=0)
    return f.q(f.node("Transpose", x, perm=[1, 0]), np.float32([1, 2]), axis=0)


def gathered_rows(f):
    x = f.d(u8(10, 20), np.float32([1, 2]), axis=0)
    return f.q(f.node("Gather", x, f.integers(1, 0)), np.float32([1, 2]), axis=0)


def product_of_scaled_depth(f):
    x = f.d(u8([[1, 1]]))
    return f.q(f.node("MatMul", x, f.w(s8([[1, 2], [3, 4]]), np.float32([1, 10]), axis=1)))


def to_columns(op):
    def make(f):
        x, w = f.d(u8([10, 20], [30, 40])), f.w(np.eye(2, dtype=np.int8))
        return f.q(f.node(op, x, w), np.float32([1, 2]), axis=1)

    return make


def sum_of_vectors(f):
    """A tie that QLinearAdd, which adds the zero point first, rounds the other way."""
    scale, zero_point = np.float32([2]), u8(131)
    x = f.d(u8([1]), 1, np.uint8(0)), f.d(u8([131]), scale, zero_point)
    return f.q(f.node("Add", *x), scale, zero_point)


def by_row(op, *others, **attributes):
    """An operator of rows with scales of their own."""

    def make(f):
        x = f.d(u8([10, 20], [30, 40]), np.float32([1, 2]), axis=0)
        names = [f.d(u8([1, 2], [3, 4])) for _ in others]
        return f.q(f.node(op, x, *names, **attributes), 0.5)

    return make


def signed_relu(f):
    return f.q(f.node("Relu", f.input(np.float32([-5, 3]))), output_dtype=TensorProto.INT8)


def unsigned_flatten(f):
    return f.q(f.node("Flatten", f.d(s8([-5, 3]))))


def negative_max(f):
    x = f.d(s8([[1, 3]]), -1, np.int8(0))
    return f.q(f.node("MaxPool", x, kernel_shape=[2]), -1, np.int8(0))


def negative_relu(dtype):
    return lambda f: f.q(f.node("Relu", f.input(np.float32([-5, 3]))), -1, dtype(0))


def transposed_weights(f):
    x = f.d(u8([1, 2], [3, 4]), 1, np.uint8(0))
    w = f.w(s8([1, 2], [3, 4]), np.float32([1, 10]), s8(0, 0), axis=1)
    return f.q(f.node("Gemm", x, f.node("Transpose", w, perm=[1, 0])), 1, np.uint8(0))


def negative_softmax(f):
    x = f.d(u8([0, 0], [0, 200]), -1, np.uint8(0))
    return f.q(f.node("Softmax", x), 1 / 256, np.uint8(0))


def average(f):
    x = np.arange(1, 17, dtype=np.uint8).reshape(1, 1, 4, 4)
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    pool |= {"ceil_mode": 1, "count_include_pad": 1}
    return f.q(f.node("AveragePool", f.d(x, 0.5, np.uint8(3)), **pool), 0.25, np.uint8(9))


def wide_max(f):
    x = f.d(np.int16([[[-300, 700, 20]]]), 0.5, np.int16(0))
    return f.q(f.node("MaxPool", x, kernel_shape=[2]), 0.5, np.int16(0))


def named_as_a_pass_names(f):
    x = f.input(np.float32([300]))
    f.nodes.append(helper.make_node("Identity", [x], ["zero@uint8"], "first"))
    one = f.q("zero@uint8", 1)
    y = f.node("Add", f.d(one, 1), f.d(u8(3)))
    return f.q(y, 1)


def zero_scale(f):
    return f.q(f.d(u8(5, 7), np.float32([0, 1]), axis=0))


def unaligned(f):
    """A convolution of five axes."""
    x, w = (np.ones((1, 1, 1, 1, 2), dtype) for dtype in (np.uint8, np.int8))
    return f.q(f.node("Conv", f.d(x), f.w(w)))


CASES = {
    "the scale of a bias": (convolve(5, 1, 1, 1, 3, 10), u8(35)),
    "the scale of a bias, far off": (convolve(20, 0.5, 0.25, 0.5, 40, 12.5), u8(255)),
    "the zero point of a bias": (convolve(20, 0.5, 0.25, 0.5, 40, 0.125, np.int32(8)), u8(13)),
    "the scale of a channel's bias": (bias_by_channel, u8(35, 8)),
    "the scale of a computed bias": (computed_bias, u8(35)),
    "the scale of a Gemm's bias": (gemm_bias, u8(35)),
    "alpha with a bias": (gemm_alpha, u8(13)),
    "a softmax of 16 bits": (wide_softmax, np.uint16([32768, 32768])),
    "a sigmoid of 16 bits": (wide("Sigmoid", np.uint16), np.uint16([4, 5])),
    "a leaky relu of 16 bits": (wide("LeakyRelu", np.int16, alpha=0.5), np.int16([5, 13])),
    "a concatenation of 16 bits": (wide_concatenation, np.int16([4, 8, 8, 16])),
    "a sum of 8 and 16 bits": (wide_sum, np.int16([-599, 12])),
    "a product of 32 bits": (int32_product, u8(9, 16)),
    "an output of another dtype": (leaky_relu_of_other_dtype, s8(-5, 50)),
    "scales of rows, transposed": (transposed_rows, u8(10, 60, 10, 40)),
    "scales of elements, gathered": (gathered_rows, u8(40, 5)),
    "scales along the depth of a product": (product_of_scaled_depth, u8(31, 42)),
    "scales of a product's columns": (to_columns("MatMul"), u8(10, 10, 30, 20)),
    "scales of a Gemm's columns": (to_columns("Gemm"), u8(10, 10, 30, 20)),
    "a sum with scales of rank 1": (sum_of_vectors, u8(131)),
    "a sum of scaled rows": (by_row("Add", 1), u8(22, 44, 126, 168)),
    "a product of scaled rows": (by_row("Mul", 1), u8(20, 80, 255, 255)),
    "a concatenation of scaled rows": (
        by_row("Concat", 1, axis=1),
        u8(20, 40, 2, 4, 120, 160, 6, 8),
    ),
    "a sigmoid of scaled rows": (by_row("Sigmoid"), u8(2, 2, 2, 2)),
    "a leaky relu of scaled rows": (by_row("LeakyRelu"), u8(20, 40, 120, 160)),
    "a softmax of scaled rows": (by_row("Softmax"), u8(0, 2, 0, 2)),
    "output_dtype": (signed_relu, s8(0, 3)),
    "an absent zero point": (unsigned_flatten, u8(0, 3)),
    "a negative scale and an order": (negative_max, s8(1)),
    "a negative scale and a clamp": (negative_relu(np.int8), s8(0, -3)),
    "a negative scale and a clamp of bytes": (negative_relu(np.uint8), u8(0, 0)),
    "transposed weights with scales": (transposed_weights, u8(41, 83, 83, 169)),
    "a negative scale and a softmax": (negative_softmax, u8(128, 128, 255, 0)),
    "an average of counted padding": (average, u8(9, 12, 11, 18, 25, 18, 16, 21, 15)),
    "a maximum of 16 bits": (wide_max, np.int16([700, 700])),
    "a name that a pass gives": (named_as_a_pass_names, u8(255)),
    "a scale of 0": (zero_scale, u8(0, 7)),
    "a convolution of five axes": (unaligned, u8(2)),
}


@pytest.mark.parametrize("arithmetic", BOTH)
@pytest.mark.parametrize("name", CASES)
def test_a_file_means_what_it_says(name, arithmetic):
    make, wanted = CASES[name]
    file = File()
    (found,) = file.run(make(file), arithmetic=arithmetic)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.ravel(), wanted.ravel())


def test_a_group_that_means_it_is_one_operator():
    file = File()
    make = convolve(20, 0.5, 0.25, 0.5, 40, 0.125)
    (found,) = file.run(make(file))
    assert file.ran == ["QLinearConv", "Transpose"]
    assert found.item() == 15


def test_a_bias_within_the_band_has_onnxruntimes_bits():
    """ONNX Runtime takes 400 steps of 0.126 for 400 of 0.125."""
    found = []
    for arithmetic in BOTH:
        file = File()
        make = convolve(20, 0.5, 0.25, 0.5, 400, 0.126)
        found += file.run(make(file), arithmetic=arithmetic)
        assert ("QLinearConv" in file.ran) == (arithmetic == "float32")
    assert [x.item() for x in found] == [105, 106]


def test_a_half_scale_makes_half_floats():
    file = File(23)
    x = s8(1, 2)
    half = file.d(x, np.array(0.5, np.float16))
    other = file.d(x, 0.5, output_dtype=TensorProto.FLOAT16)
    found = file.run(half, other)
    assert [each.dtype for each in found] == [np.float16] * 2
    assert [each.tolist() for each in found] == [[0.5, 1]] * 2


@pytest.mark.parametrize("op", ["Relu", "Flatten"])
def test_a_quantization_to_float8_takes_no_integer_for_a_float(op):
    file = File()
    zero_point = np.zeros((), ml_dtypes.float8_e4m3fn)
    x = np.float32([[0.3, 1.06, -500]])
    (found,) = file.run(file.q(file.node(op, file.input(x)), 1, zero_point))
    assert found.dtype == zero_point.dtype
    wanted = [0.3125, 1, 0] if op == "Relu" else [0.3125, 1, -448]
    assert found.astype(np.float32).tolist() == [wanted]


def test_floats_between_are_computed_where_they_are_outputs():
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 256, (2, 256, 256)).astype(np.uint8)
    file = File()
    total = file.node("Add", file.d(a, 0.013), file.d(b, 0.017))
    y = file.q(total, 0.0297, np.uint8(3))
    floats, found = file.run(total, y)
    real = a * np.float32(0.013) + b * np.float32(0.017)
    np.testing.assert_array_equal(floats, real)
    steps = np.rint(real / np.float32(0.0297)) + 3
    np.testing.assert_array_equal(found, np.clip(steps, 0, 255))


def test_floats_between_are_computed_where_something_else_reads_them():
    file = File()
    total = file.node("Add", file.d(u8(10, 20), 0.5), file.d(u8(1, 2), 0.25))
    first, second = file.q(total, 0.5), file.q(total, 0.25)
    assert [x.tolist() for x in file.run(first, second)] == [[10, 21], [21, 42]]


@pytest.mark.parametrize("values", [0, 3], ids=["zero", "nonzero"])
def test_nonzero_of_a_known_scalar(values):
    file = File()
    y = file.node("NonZero", file.constant(np.int64(values)))
    file.input(np.float32([1]))
    (found,) = file.run(y)
    assert found.shape == (1, int(values != 0))


def test_a_large_integer_is_not_wrapped():
    file = File()
    y = file.node("NonZero", file.input(np.array([0, 1 << 32, 5])))
    for is_wide in (False, True):
        with jax.enable_x64(is_wide):
            assert file.run(y, nonzero_size=2)[0].tolist() == [[1, 2]]


def test_outputs_are_in_the_files_order():
    file = File()
    x = file.input(np.float32([1]))
    for name, op in (("z", "Neg"), ("a", "Relu"), ("m", "Abs")):
        file.nodes.append(helper.make_node(op, [x], [name]))
    model = file.model(
        {x: (TensorProto.FLOAT, [1])},
        {name: (TensorProto.FLOAT, [1]) for name in ("z", "a", "m")},
    )
    assert list(dmlax.onnx.load(model)({x: np.float32([1])})) == ["z", "a", "m"]


def test_nodes_in_another_order_are_sorted():
    file = File()
    x = file.input(np.float32([-1, 2]))
    y = file.node("Relu", file.node("Neg", x))
    file.nodes.reverse()
    (found,) = file.run(y)
    assert found.tolist() == [1, 0]


def test_a_failing_node_is_named():
    file = File()
    x = file.node("Det", file.input(np.ones((2, 2), np.float32)))
    last = file.node("Relu", file.node("Neg", x))
    with pytest.raises(dmlax.UnsupportedError) as caught:
        file.run(last)
    *lines, ways = str(caught.value).splitlines()
    assert lines == [
        "1 node of the model cannot be computed:",
        "  Det: is not known (1 node: node_det_0)",
    ]
    assert "outputs=" in ways


def test_the_rationals_of_the_differential_session_have_the_same_meaning():
    for name in ("the scale of a bias", "a sum of 8 and 16 bits", "scales of rows, transposed"):
        make, wanted = CASES[name]
        file = File()
        y = make(file)
        said = rationals.evaluate(file.write(y), file.inputs, noise=0)[y]
        assert said.value.dtype == wanted.dtype
        np.testing.assert_array_equal(said.value.ravel(), wanted.ravel())


def test_explain_names_the_condition_that_a_float_node_misses():
    file = File()
    x = file.d(u8(1, 2, 3, 4).reshape(1, 4), 0.5)
    unread = file.q(file.node("Relu", x), 0.25)  # a branch that no output depends on
    product = file.node("MatMul", x, file.w(s8(1, 2, 3, 4).reshape(4, 1)))
    twice = file.q(file.node("Abs", product), 0.5, np.uint8(3))
    output = file.d(file.q(file.node("Add", file.d(twice, 0.5, np.uint8(3)), product), 0.5), 0.5)
    model = dmlax.onnx.load(file.write(output))
    assert [sentence.partition(": ")[2] for sentence in model.explain().floats] == [
        "no quantized operator computes Abs",
        f"its input {product} comes from no DequantizeLinear of constant parameters",
    ]
    assert "float32: Abs" in str(model.explain())
    assert unread not in model.tensors()
    with pytest.raises(dmlax.SpecError, match=f"no tensor '{unread}'"):
        model.apply(model.params, file.inputs, outputs=(unread,))
