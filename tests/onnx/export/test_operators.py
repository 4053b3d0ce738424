"""Random calls of dmlax's operators: their exports have the same bits in ONNX Runtime."""

import jax
import numpy as np
import pytest

import dmlax
from support import exports

LAYOUTS = {
    "NCHW": ("NCHW", "OIHW", "NCHW"),
    "NHWC": ("NHWC", "HWIO", "NHWC"),
    "mixed": ("NCHW", "HWIO", "NHWC"),
}


class Draws:
    """Random tensors and options of calls."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def one_of(self, *options):
        return options[self.generator.integers(len(options))]

    def dtype(self):
        return np.dtype(self.one_of(np.int8, np.uint8))

    def bytes(self, dtype, *shape):
        ends = np.iinfo(dtype)
        return self.generator.integers(ends.min, ends.max + 1, shape).astype(dtype)

    def weights(self, dtype, *shape):
        """Bytes; int8 of 7 bits, as ONNX Runtime saturates others on processors without VNNI."""
        return self.bytes(dtype, *shape) // (2 if dtype == np.int8 else 1)

    def scale(self, *shape, around=0.02):
        return (self.generator.uniform(0.5, 2, shape) * around).astype(np.float32)

    def zero_point(self, dtype):
        return self.one_of(None, self.bytes(dtype), self.bytes(dtype, 1))

    def bias(self, count):
        return self.one_of(None, self.generator.integers(-3000, 3000, count, np.int32))

    def parameters(self, *names, dtypes, output):
        """Scales and zero points of operands, and those of the output."""
        options = {f"{name}_scale": self.scale() for name in names}
        pairs = zip(names, dtypes, strict=True)
        options |= {f"{name}_zero_point": self.zero_point(dtype) for name, dtype in pairs}
        return options | {
            "output_zero_point": self.one_of(None, self.bytes(output)),
            "output_dtype": output,
            "arithmetic": "float32",
        }

    def windows(self):
        strides, dilations = (self.one_of(1, 2, (2, 1)) for _ in range(2))
        padding = self.one_of("SAME", "VALID", ((0, 1), (2, 0)))
        return {"strides": strides, "dilations": dilations, "padding": padding}

    def convolution(self):
        name = self.one_of(*LAYOUTS)
        groups = self.one_of(1, 2, 4)
        sizes = {"O": 4 * groups, "I": 8 // groups, "H": self.one_of(1, 3), "W": 3}
        x, w, y = self.dtype(), self.dtype(), self.dtype()
        filter = self.weights(w, *(sizes[axis] for axis in LAYOUTS[name][1]))
        options = self.parameters("input", dtypes=[x], output=y)
        scales = self.one_of((), (sizes["O"],), (1, sizes["O"], 1, 1))
        options |= {"filter_scale": self.scale(*scales), "output_scale": self.scale(around=2)}
        options |= {"filter_zero_point": self.one_of(None, self.bytes(w)), **self.windows()}
        options |= {"group_count": groups, "dimension_numbers": LAYOUTS[name]}
        if self.one_of(True, False):
            numbers = {key: options.pop(key) for key in ("group_count", "dimension_numbers")}
            zero_point = options.pop("filter_zero_point")
            filter = dmlax.prepare_filter(
                filter,
                filter_zero_point=zero_point,
                packing=self.one_of("rows", "panels"),
                **numbers,
            )
        bias = self.bias(sizes["O"])
        shape = {"N": 2, "C": 8, "H": 9, "W": 7}
        image = self.bytes(x, *(shape[axis] for axis in LAYOUTS[name][0]))
        return (
            lambda x: dmlax.quantized_linear_convolution(x, filter, bias, **options),
            image,
        )

    def matrix_multiply(self):
        a, b, y = self.dtype(), self.dtype(), self.dtype()
        matrix = self.weights(b, 16, 6)
        options = self.parameters("a", dtypes=[a], output=y)
        options |= {"b_scale": self.scale(*self.one_of((), (6,))), "output_scale": self.scale()}
        options |= {"b_zero_point": self.one_of(None, self.bytes(b))}
        bias = self.bias(6)
        rows = self.bytes(a, *self.one_of((16,), (3, 16), (2, 3, 16)))
        return lambda x: dmlax.quantized_linear_matrix_multiply(x, matrix, bias, **options), rows

    def average_pooling(self):
        x, y, layout = self.dtype(), self.dtype(), self.one_of("NCHW", "NHWC")
        options = self.parameters("input", dtypes=[x], output=y)
        options |= {"output_scale": self.scale(), "dimension_numbers": layout}
        image = self.bytes(x, *((2, 5, 8, 7) if layout == "NCHW" else (2, 8, 7, 5)))
        if self.one_of(True, False):
            return lambda x: dmlax.quantized_linear_global_average_pooling(x, **options), image
        options |= {"window_size": self.one_of(2, (3, 2)), "strides": self.one_of(1, 2)}
        options |= {"start_padding": self.one_of(0, 1), "end_padding": self.one_of(0, (1, 0))}
        options |= {"include_padding": self.one_of(True, False)}
        return lambda x: dmlax.quantized_linear_average_pooling(x, **options), image

    def binary(self):
        a, b, y = self.dtype(), self.dtype(), self.dtype()
        options = self.parameters("a", "b", dtypes=[a, b], output=y)
        options["output_scale"] = self.scale()
        name = self.one_of("add", "multiply")
        function = getattr(dmlax, f"element_wise_quantized_linear_{name}")
        other = self.bytes(b, *self.one_of((4, 1, 7), (7,), (), (3, 4, 5, 7)))
        return lambda x: function(x, other, **options), self.bytes(a, 3, 4, 5, 7)

    def rest(self):
        """Operators without an arithmetic, or with one scale."""
        x, y = self.dtype(), self.dtype()
        table, scales, zeros = self.bytes(y, 256), self.scale(4), self.bytes(x, 4)
        matrix, filter = self.weights(y, 5, 3), self.weights(y, 2, 4, 3, 3)
        point = self.bytes(x)

        def function(x):
            return (
                dmlax.quantized_lookup(x, table),
                dmlax.element_wise_dequantize_linear(x, scales[0]).reshape(-1),
                dmlax.max_pooling(x, window_size=3, strides=2, end_padding=1),
                dmlax.element_wise_dequantize_linear(x, scales, zeros, axis=1),
                dmlax.element_wise_dequantize_linear(
                    x, scales[:, None, None], zeros[:, None, None]
                ),
                dmlax.matrix_multiply_integer(x, matrix, a_zero_point=point),
                dmlax.convolution_integer(x, filter, input_zero_point=point),
                dmlax.matrix_multiply_integer_to_float(
                    x,
                    matrix,
                    scales[:3],
                    a_scale=scales[3],
                    b_scale=scales[1:],
                    arithmetic="float32",
                ),
            )

        return function, self.bytes(x, 2, 4, 6, 5)


OPERATORS = ("convolution", "matrix_multiply", "average_pooling", "binary", "rest")


@pytest.mark.parametrize("name", OPERATORS)
def test_random_calls_have_the_same_bits(name):
    """Calls of one operator are outputs of one function, which compiles once."""
    draws = Draws(OPERATORS.index(name))
    calls = [getattr(draws, name)() for _ in range(1 if name == "rest" else 3)]
    inputs = [x for _, x in calls]
    exports.check(lambda *xs: [f(x) for (f, _), x in zip(calls, xs, strict=True)], *inputs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("name", OPERATORS)
def test_many_random_calls_have_the_same_bits(name, seed):
    function, x = getattr(Draws(seed), name)()
    exports.check(function, x)


def test_a_quantization_has_the_same_bits():
    draws = Draws(20)
    x = draws.generator.normal(0, 3, (3, 4, 5)).astype(np.float32)
    scales, zeros = draws.scale(4), draws.bytes(np.uint8, 4)

    def function(x):
        return (
            dmlax.element_wise_quantize_linear(x, scales, zeros, axis=1, arithmetic="float32"),
            dmlax.element_wise_quantize_linear(x, 0.01, output_dtype=np.int8, arithmetic="float32"),
            dmlax.dynamic_quantize_linear(x, arithmetic="float32"),
            dmlax.dynamic_quantize_linear(x, output_dtype=np.int8, arithmetic="float32"),
        )

    exports.check(function, x, forms=["qdq"])


def test_a_convolution_and_a_sum_are_two_nodes():
    draws = Draws(21)
    x, addend = draws.bytes(np.uint8, 1, 3, 5, 5), draws.bytes(np.uint8, 1, 2, 5, 5)
    filter = draws.weights(np.int8, 2, 3, 3, 3)
    scales = {"input_scale": 0.1, "filter_scale": 0.1, "output_scale": 2.0}
    sums = {"addend_scale": 1.0, "sum_scale": 2.5, "sum_zero_point": np.uint8(7)}
    sums |= {"addend_first": True}

    def function(x, addend):
        options = {**scales, **sums, "padding": "SAME", "arithmetic": "float32"}
        return dmlax.quantized_linear_convolution_add(x, filter, None, addend, **options)

    model = exports.check(function, x, addend, forms=["qoperator"])
    assert [node.op_type for node in model.graph.node] == ["QLinearConv", "QLinearAdd"]


def test_mapped_calls_have_the_same_bits():
    draws = Draws(22)
    filter, matrix = draws.weights(np.int8, 3, 3, 4, 6), draws.weights(np.int8, 6, 5)
    scales = {"arithmetic": "float32", "output_scale": 0.3}

    def image(x):
        y = dmlax.quantized_linear_convolution(
            x[None],
            filter,
            input_scale=0.02,
            filter_scale=0.01,
            dimension_numbers=LAYOUTS["NHWC"],
            **scales,
        )[0]
        rows = y.reshape(-1, 6)
        products = dmlax.quantized_linear_matrix_multiply(
            rows, matrix, a_scale=0.3, b_scale=0.01, **scales
        )
        row = dmlax.quantized_linear_matrix_multiply(
            rows[0], matrix, np.arange(5, dtype=np.int32), a_scale=0.3, b_scale=0.01, **scales
        )
        both = {"a_scale": 0.3, "b_scale": 0.3, **scales}
        return dmlax.element_wise_quantized_linear_add(products, row, **both), products.T

    def pair(x, y):
        return dmlax.quantized_linear_matrix_multiply(x, y, a_scale=0.1, b_scale=0.1, **scales)

    x = draws.bytes(np.uint8, 2, 3, 5, 5, 4)
    y = draws.bytes(np.uint8, 2, 4, 3)

    def function(x, y):
        return jax.vmap(jax.vmap(image), in_axes=1)(x), jax.vmap(pair, (0, None))(y, y[0].T)

    exports.check(function, x, y, forms=["qoperator"])


def test_a_constant_call_is_folded():
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def function(x):
        quantized = dmlax.element_wise_quantize_linear(weights, 0.01, output_dtype=np.int8)
        return dmlax.matrix_multiply_integer(x, quantized)

    model = exports.check(function, np.ones((2, 3), np.uint8), forms=["qdq"])
    assert [node.op_type for node in model.graph.node] == ["MatMulInteger"]


def test_forms_and_opsets():
    """Every opset gives the same bits, and a form has its operators."""
    filter = Draws(23).weights(np.int8, 2, 3, 3, 3)

    def function(x):
        scales = {"input_scale": 0.1, "filter_scale": 0.1, "output_scale": 2.0}
        y = dmlax.quantized_linear_convolution(x, filter, **scales, arithmetic="float32")
        return y, y.max(1), jax.numpy.sum(y, 1)

    x = Draws(24).bytes(np.uint8, 1, 3, 5, 5)
    for opset in (13, 18, 23):
        for form, op in (("qdq", "Conv"), ("qoperator", "QLinearConv")):
            model = exports.check(function, x, forms=[form], opset=opset)
            assert op in [node.op_type for node in model.graph.node]
            assert model.opset_import[0].version == opset
