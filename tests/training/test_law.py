"""The forward law: a training function quantized again has the bits of its operator."""

import functools
import inspect
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax import training
from support import assert_same

BYTES = (np.int8, np.uint8)
QUICK = 14  # two calls of every operator
SEEDS = [
    pytest.param(seed, marks=pytest.mark.slow if seed >= QUICK else ()) for seed in range(1400)
]


class Draw:
    """Random operands of one call: floats, their parameters, and the options."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.options = {"arithmetic": self.pick("exact", "float32")}
        self.tensors, self.axes = {}, {}

    def pick(self, *values):
        return values[self.rng.integers(len(values))]

    def scale(self, shape=()):
        sign = self.rng.choice([-1, 1, 1, 1], shape)
        return (sign * np.exp2(self.rng.uniform(-9, 1, shape))).astype(np.float32)

    def parameters(self, name, scale=(), zero_point=(), dtype=None):
        """Adds a scale, and perhaps a zero point and a dtype."""
        dtype = dtype or self.pick(*BYTES)
        limits = np.iinfo(dtype)
        self.options[f"{name}_scale"] = self.scale(scale)
        self.options[f"{name}_dtype"] = dtype
        if self.pick(True, False):
            zero = self.rng.integers(limits.min, limits.max + 1, zero_point)
            self.options[f"{name}_zero_point"] = zero.astype(dtype)
        return dtype

    def floats(self, name, shape, scale=(), zero_point=(), axis=None):
        """A tensor, some of whose elements lie outside of its range."""
        dtype = self.parameters(name, scale, zero_point)
        step, zero = self.spread(name, axis, len(shape))
        limits = np.iinfo(dtype)
        levels = self.rng.uniform(limits.min - 9, limits.max + 9, shape)
        x = (levels - (0 if zero is None else zero.astype(np.float32))) * step
        self.tensors[name] = x.astype(self.pick(np.float32, jnp.bfloat16))
        self.axes[name] = axis

    def spread(self, name, axis, rank):
        """A scale and a zero point, which broadcast to a tensor."""
        across = [-1 if i == axis else 1 for i in range(rank)]
        parameters = (self.options.get(f"{name}_{part}") for part in ("scale", "zero_point"))
        return [
            x
            if x is None
            else x.reshape(() if x.size == 1 else x.shape if axis is None else across)
            for x in parameters
        ]

    def integers(self, name):
        """The operand that `element_wise_quantize_linear` makes of a float."""
        x = self.tensors[name]
        if name == "bias":
            return x if x is None else np.rint(x / self.bias_scale).astype(np.int32)
        return dmlax.element_wise_quantize_linear(
            x.astype(np.float32).reshape(x.shape or 1),
            *self.spread(name, self.axes[name], x.ndim),
            output_dtype=self.options[f"{name}_dtype"],
            arithmetic=self.options["arithmetic"],
        ).reshape(x.shape)

    def bias(self, shape, scale):
        """A bias, whose integers are float32 quotients, half to even."""
        self.tensors["bias"], self.bias_scale = None, np.broadcast_to(scale, shape)
        if self.pick(True, False):
            self.tensors["bias"] = np.float32(self.rng.uniform(-5e3, 5e3, shape)) * self.bias_scale


def windows(draw, rank):
    pads = {name: tuple(draw.rng.integers(0, 2, rank)) for name in ("start_padding", "end_padding")}
    return {name: tuple(map(int, x)) for name, x in pads.items()} | {
        "strides": tuple(map(int, draw.rng.integers(1, 3, rank))),
        "dilations": tuple(map(int, draw.rng.integers(1, 3, rank))),
    }


def convolution(draw):
    last, groups = draw.pick(True, False), draw.pick(1, 2)
    layout = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
    image, filter = ((2, 5, 6, 4), (3, 2, 4 // groups, 6)) if last else ((2, 4, 5, 6), None)
    filter = filter or (6, 4 // groups, 3, 2)
    per_channel = draw.pick((), (6,), (1, 6, 1, 1))
    axis = 3 if last else 0
    draw.floats("input", image, (1,) * draw.pick(0, 1, 4))
    draw.floats("filter", filter, per_channel, draw.pick((), (6,)), axis)
    product = draw.options["input_scale"].reshape(()) * draw.options["filter_scale"].reshape(-1)
    draw.bias((6,), product)
    draw.parameters("output", zero_point=(1,) * draw.pick(0, 4))
    draw.options["output_scale"] *= np.float32(200)
    draw.options |= windows(draw, 2) | {"group_count": groups, "dimension_numbers": layout}


def convolution_add(draw):
    convolution(draw)
    call = functools.partial(training.quantized_linear_convolution, **draw.options)
    shape = jax.eval_shape(call, *draw.tensors.values()).shape
    draw.floats("addend", shape)
    draw.parameters("sum")
    draw.options["addend_first"] = draw.pick(True, False)


def product(draw):
    vectors = draw.pick("", "", "", "a", "b")
    a_shape = (7,) if vectors == "a" else (2, 5, 7)
    b_shape = (7,) if vectors == "b" else draw.pick((7, 3), (2, 7, 3))
    rows = () if vectors == "a" else draw.pick((), (5, 1), (2, 5, 1))
    columns = () if vectors == "b" else draw.pick((), (3,), (1, 3))
    draw.floats("a", a_shape, rows, rows)
    draw.floats("b", b_shape, columns, columns)
    output = np.matmul(np.zeros(a_shape), np.zeros(b_shape)).shape
    scale = draw.options["a_scale"] * draw.options["b_scale"]
    if vectors and scale.size > 1:  # the output lacks an axis of size 1
        scale = scale.reshape(-1 if vectors == "a" else scale.shape[:-1])
    draw.bias(output, scale)
    draw.parameters("output", *([() if vectors == "a" else draw.pick((), (5, 1))] * 2))
    draw.options["output_scale"] *= np.float32(100)


def binary(draw):
    shapes = draw.pick(((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((4,), (3, 4)), ((), (5,)))
    for name, shape in zip("ab", shapes, strict=True):
        draw.floats(name, shape)
    draw.parameters("output")


def average(draw):
    channels, axis = draw.pick(((), None), ((3,), 1))
    draw.floats("input", (2, 3, 5, 6), channels, draw.pick((), channels), axis)
    draw.parameters("output", draw.pick((), channels), draw.pick((), (3,)))


def average_of_windows(draw):
    sizes = {"window_size": draw.pick(2, (3, 2)), "include_padding": draw.pick(True, False)}
    draw.options |= windows(draw, 2) | sizes
    average(draw)


OPERATORS = {
    "quantized_linear_convolution": convolution,
    "quantized_linear_convolution_add": convolution_add,
    "quantized_linear_matrix_multiply": product,
    "element_wise_quantized_linear_add": binary,
    "element_wise_quantized_linear_multiply": binary,
    "quantized_linear_average_pooling": average_of_windows,
    "quantized_linear_global_average_pooling": average,
}


def requantized(name, draw, result, arithmetic, dtype):
    """A result of training, quantized with the parameters of the output."""
    output = "sum" if name.endswith("convolution_add") else "output"
    axis = 1 if name.endswith("pooling") else None
    parameters = draw.spread(output, axis, result.ndim)
    if name.endswith("matrix_multiply") and draw.tensors["b"].ndim == 1:  # one value per row
        parameters = [x if x is None or x.size == 1 else x.reshape(-1) for x in parameters]
    parameters = [x if x is None or x.size > 1 else x.reshape(()) for x in parameters]
    return dmlax.element_wise_quantize_linear(
        result.reshape(result.shape or 1), *parameters, output_dtype=dtype, arithmetic=arithmetic
    ).reshape(result.shape)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_result_quantized_again_is_the_operators(seed):
    name = list(OPERATORS)[seed % len(OPERATORS)]
    draw = Draw(seed)
    OPERATORS[name](draw)
    draw.options["implementation"] = draw.pick("auto", "auto", "xla")
    inner = {f"{tensor}_dtype" for tensor in draw.tensors}
    options = {key: value for key, value in draw.options.items() if key not in inner}

    @jax.jit
    def both():
        result = getattr(training, name)(*draw.tensors.values(), **draw.options)
        wanted = getattr(dmlax, name)(*map(draw.integers, draw.tensors), **options)
        again = [
            requantized(name, draw, result, arithmetic, wanted.dtype)
            for arithmetic in ("exact", "float32")
        ]
        return result, wanted, again

    with jax.numpy_rank_promotion("raise"):
        result, wanted, again = both()
    assert result.dtype == jnp.float32
    assert wanted.dtype == (draw.options.get("sum_dtype") or draw.options["output_dtype"])
    assert seed >= QUICK or len(np.unique(wanted)) > 1
    for found in again:
        assert_same(found, wanted)


REQUANTIZATIONS = {
    "quantized_linear_convolution": ("input filter", [(2, 2, 4, 9), (3, 2, 1, 2)]),
    "quantized_linear_matrix_multiply": ("a b", [(9, 8), (8, 9)]),
    "element_wise_quantized_linear_add": ("a b", [(200,), (200,)]),
    "element_wise_quantized_linear_multiply": ("a b", [(200,), (200,)]),
    "quantized_linear_global_average_pooling": ("input", [(20, 9, 2, 2)]),
}


@pytest.mark.parametrize("name", REQUANTIZATIONS)
def test_a_requantization_is_the_operators(name):
    """The results are ties, which some mode of each operator rounds in another way."""
    names, shapes = REQUANTIZATIONS[name]
    rng, own, deployed = np.random.default_rng(3), getattr(training, name), getattr(dmlax, name)
    bytes_ = [rng.integers(-9, 10, shape).astype(np.int8) for shape in shapes]
    scales = {f"{tensor}_scale": 0.5 for tensor in names.split()} | {"output_scale": 2.0}
    dtypes = {f"{tensor}_dtype": np.int8 for tensor in (*names.split(), "output")}
    floats = [np.float32(0.5) * x for x in bytes_]
    kind = inspect.signature(deployed).parameters["requantization"].annotation
    modes = [mode for each in get_args(kind) for mode in get_args(each)]
    results = {None: deployed(*bytes_, **scales, output_dtype=np.int8)}
    for mode in modes:
        results[mode] = deployed(*bytes_, **scales, output_dtype=np.int8, requantization=mode)
        found = own(*floats, **scales, **dtypes, requantization=mode)
        assert_same(found, 2 * np.asarray(results[mode], np.float32))
    assert any((results[mode] != results[None]).any() for mode in modes)
    slopes = jax.grad(lambda x: own(x, *floats[1:], **scales, **dtypes).sum())(floats[0])
    found = jax.grad(
        lambda x: own(x, *floats[1:], **scales, **dtypes, requantization=modes[0]).sum()
    )(floats[0])
    assert_same(found, slopes)


def test_sizes_may_be_symbolic():
    (count,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((count, 3), np.float32)
    matrix, bias = np.ones((3, 2), np.float32), np.ones(2, np.float32)
    scales = {"a_scale": 0.5, "b_scale": np.float32([0.1, 0.2]), "output_scale": 0.5}

    def product(x):
        return training.quantized_linear_matrix_multiply(x, matrix, bias, **scales)

    exported = jax.export.export(jax.jit(product))(x)
    assert exported.out_avals[0].shape == (count, 2)
    rows = np.float32([[1, 2, 3], [4, 5, 6]])
    assert_same(exported.call(rows), product(rows))
