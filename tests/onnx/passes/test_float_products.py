"""Float convolutions and products with the nodes that follow them, beside ONNX Runtime."""

import pickle

import jax
import numpy as np
import onnxruntime
import pytest
from onnx import helper

import dmlax.onnx
from support import NATIVE, needs_kernels, onnx_files

FUNCTIONS = (
    *(("Relu", {}), ("HardSwish", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {})),
    *(("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Clip", {}), ("Swish", {}), ("Elu", {})),
)


class Builder:
    """Nodes, constants and the shapes of tensors of a random network."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.shapes = [], {}, {}

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, np.float32)
        return name

    def numbers(self, *shape, least=-1.0):
        return self.constant(self.rng.uniform(least, 1, shape))

    def node(self, op, *inputs, shape=None, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.shapes[name] = self.shapes[inputs[0]] if shape is None else shape
        return name

    def convolution(self, x):
        count, channels, *sizes = self.shapes[x]
        axes, rng = len(sizes), self.rng
        groups = int(rng.choice([n for n in (1, 2, channels) if channels % n == 0]))
        outputs = groups * int(rng.choice([1, 2, 5])) if groups > 1 else int(rng.choice([3, 8, 20]))
        kernel, strides = rng.integers(1, 4, axes), rng.integers(1, 3, axes)
        dilations = rng.integers(1, 3, axes)
        spans = (kernel - 1) * dilations + 1
        pads = np.maximum(rng.integers(0, 3, 2 * axes), [*(spans - 1), *[0] * axes])
        result = [
            (n + a + b - span) // stride + 1
            for n, a, b, span, stride in zip(
                sizes, pads[:axes], pads[axes:], spans, strides, strict=True
            )
        ]
        inputs = [x, self.numbers(outputs, channels // groups, *kernel)]
        inputs += [self.numbers(outputs)] if rng.random() < 0.5 else []
        options = {"dilations": dilations, "pads": pads, "strides": strides, "group": groups}
        options = {name: np.asarray(value).tolist() for name, value in options.items()}
        return self.node("Conv", *inputs, shape=(count, outputs, *map(int, result)), **options)

    def follow(self, x):
        """One of the nodes that a convolution may take in, or that only stand beside it."""
        count, channels, *sizes = self.shapes[x]
        kind = self.rng.choice(["norm", "scale", "offset", "sum", "function", "function", "pair"])
        ones = [1] * len(sizes)
        if kind == "norm":
            values = [self.numbers(channels) for _ in range(3)] + [
                self.numbers(channels, least=0.1)
            ]
            return self.node("BatchNormalization", x, *values, epsilon=1e-3)
        if kind in ("scale", "offset"):
            shape = [channels, *ones] if self.rng.random() < 0.7 else [count, channels, *ones]
            shape = shape if self.rng.random() < 0.8 else []
            operands = [x, self.numbers(*shape)]
            operands = operands[:: int(self.rng.choice([1, -1]))]
            name = self.node("Mul" if kind == "scale" else "Add", *operands, shape=self.shapes[x])
            return name
        if kind == "sum":
            return self.node("Add", x, self.residual(x))
        if kind == "pair":
            return self.node("Mul", x, self.node("Sigmoid", self.residual(x)))
        op, attributes = FUNCTIONS[int(self.rng.integers(len(FUNCTIONS)))]
        if op == "Elu" and self.rng.random() < 0.5:  # as exporters spell a HardSwish
            six = self.constant(6.0)
            moved = self.node("Add", x, self.constant(3.0))
            limited = self.node("Clip", moved, self.constant(0.0), six)
            return self.node("Div", self.node("Mul", x, limited), six)
        if op == "Swish":
            return self.node("Mul", x, self.node("Sigmoid", x))
        limits = [self.constant(-0.5), self.constant(0.7)] if op == "Clip" else []
        limits = ["", *limits[1:]] if limits and self.rng.random() < 0.3 else limits
        return self.node(op, x, *limits, **attributes)

    def residual(self, x):
        """A tensor of the shape of another, or another that broadcasts to it."""
        names = [name for name, shape in self.shapes.items() if shape == self.shapes[x]]
        return str(self.rng.choice(names))

    def model(self, x):
        inputs = {"x": (np.float32, ["n", *self.shapes["x"][1:]])}
        return onnx_files.model(self.nodes, inputs, [x], self.constants, 17)


def images(seed):
    """A network of convolutions, and an input."""
    builder = Builder(seed)
    axes = (2, 2, 1, 3)[seed % 4]
    sizes = tuple(map(int, builder.rng.integers(5, 9, axes)))
    x, shape = "x", (1, int(builder.rng.choice([1, 3, 6, 16])), *sizes)
    builder.shapes["x"] = shape
    for _ in range(3):
        x = builder.convolution(x)
        for _ in range(int(builder.rng.integers(0, 4))):
            x = builder.follow(x)
        if axes == 2 and builder.rng.random() < 0.3 and min(builder.shapes[x][2:]) > 2:
            count, channels, *inner = builder.shapes[x]
            pooled = (count, channels, *((size - 1) // 2 + 1 for size in inner))
            options = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
            x = builder.node("MaxPool", x, shape=pooled, **options)
        if axes == 2 and builder.rng.random() < 0.3:
            mean = builder.node("GlobalAveragePool", x, shape=(*builder.shapes[x][:2], 1, 1))
            x = builder.node("Mul", x, mean)
    return builder.model(x), shape, builder.rng


def products(seed):
    """A network of matrix products, and an input."""
    builder = Builder(seed)
    rank = 2 + seed % 3
    shape = (*(1, 3, 2)[: rank - 1], 5)
    x, builder.shapes["x"] = "x", shape
    for _ in range(3):
        *rows, depth = builder.shapes[x]
        columns = int(builder.rng.choice([1, 5, 33, 70]))
        if rank == 2 and builder.rng.random() < 0.7:
            transposed, alpha = int(builder.rng.integers(2)), float(builder.rng.choice([1, 1, 0.5]))
            w = builder.numbers(*((columns, depth) if transposed else (depth, columns)))
            bias = builder.numbers(*((columns,), (1, columns), (1,), ())[builder.rng.integers(4)])
            x = builder.node(
                "Gemm", x, w, bias, shape=(*rows, columns), transB=transposed, alpha=alpha
            )
        else:
            x = builder.node("MatMul", x, builder.numbers(depth, columns), shape=(*rows, columns))
            if builder.rng.random() < 0.7:
                sizes = ((columns,), (1, columns), (1,), ())[int(builder.rng.integers(4))]
                x = builder.node("Add", builder.numbers(*sizes), x, shape=builder.shapes[x])
        kind = builder.rng.choice(["sum", "function", "none"])
        if kind == "sum":
            x = builder.node("Add", builder.residual(x), x)
        elif kind == "function":
            op, attributes = FUNCTIONS[int(builder.rng.integers(6))]
            x = builder.node(op, x, **attributes)
    return builder.model(x), shape, builder.rng


def by_onnx_runtime(model, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def check(model, shape, rng):
    loaded = dmlax.onnx.load(model.SerializeToString())
    batches = [rng.standard_normal((n, *shape[1:])).astype(np.float32) for n in (1, 3)]
    for x in batches:
        wanted = by_onnx_runtime(model, x)
        (found,) = loaded(x).values()
        bound = 2e-5 * max(1e-3, float(np.abs(wanted).max()))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
    whole = next(iter(loaded(batches[1]).values()))
    for i in range(3 if NATIVE else 0):  # XLA orders the sums of a product by its shape
        alone = next(iter(loaded(batches[1][i : i + 1]).values()))
        np.testing.assert_array_equal(whole[i : i + 1], alone)
    return loaded


@pytest.mark.parametrize("seed", range(16))
def test_random_networks_of_convolutions(seed):
    check(*images(seed))


@pytest.mark.parametrize("seed", range(9))
def test_random_networks_of_products(seed):
    check(*products(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(16, 216, 20))
def test_many_random_networks(first):
    for seed in range(first, first + 20):
        check(*images(seed))
        check(*products(seed))


@needs_kernels
def test_a_residual_block_is_two_convolutions():
    """A batch norm, a residual and clips end convolutions, all channels last."""
    builder = Builder(0)
    builder.shapes["x"] = (1, 8, 6, 6)

    def convolve(x):
        weight = builder.numbers(8, 8, 3, 3)
        return builder.node("Conv", x, weight, pads=[1] * 4)

    values = [builder.numbers(8, least=0.1) for _ in range(4)]
    y = builder.node("Relu", builder.node("BatchNormalization", convolve("x"), *values))
    model = builder.model(builder.node("Relu", builder.node("Add", convolve(y), "x")))
    loaded = check(model, (1, 8, 6, 6), builder.rng)
    after = loaded.explain().after
    assert after["dmlax.FloatConv"] == 2
    assert set(after) <= {"dmlax.FloatConv", "Transpose"}


@needs_kernels
@pytest.mark.parametrize("is_silu", [False, True])
def test_a_sigmoid_has_the_same_bits_in_an_epilogue(is_silu):
    """Also beyond 18, where ONNX Runtime's is 0 or 1."""
    builder = Builder(0)
    builder.shapes["x"] = (1, 3)
    y = builder.node("MatMul", "x", builder.constant(np.eye(3)))
    z = builder.node("Sigmoid", y)
    z = builder.node("Mul", y, z) if is_silu else z
    loaded = dmlax.onnx.load(builder.model(z).SerializeToString())
    assert loaded.explain().after == {"dmlax.FloatGemm": 1}
    x = np.concatenate([np.linspace(-30, 30, 2999), [np.inf, -np.inf, np.nan, 0]])
    x = np.concatenate([x, x, x]).astype(np.float32).reshape(-1, 3)
    x[~np.isfinite(x).all(1)] = x[~np.isfinite(x).all(1), :1]  # a row of the same numbers
    apart = jax.jit(lambda params, x: loaded.apply(params, x, outputs=[y, z]))
    np.testing.assert_array_equal(loaded(x)[z], apart(loaded.params, x)[z])


@pytest.mark.parametrize("make", [images, products])
@pytest.mark.parametrize("seed", [0, 1, 2])  # means of channels are not written
def test_a_loaded_network_is_written_again(seed, make):
    model, shape, rng = make(seed)
    loaded = dmlax.onnx.load(model.SerializeToString())
    x = rng.standard_normal((1, *shape[1:])).astype(np.float32)
    written = dmlax.onnx.from_jax(lambda x: loaded.apply(loaded.params, {"x": x}), x)
    session = onnxruntime.InferenceSession(
        written.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {session.get_inputs()[0].name: x})[0]
    wanted = next(iter(loaded(x).values()))
    bound = 2e-5 * max(1e-3, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@needs_kernels
def test_params_are_the_weights_of_the_file():
    """Packed weights are read back bit for bit, saved and differentiated."""
    model, shape, rng = images(2)
    loaded = dmlax.onnx.load(model.SerializeToString())
    x = rng.standard_normal((2, *shape[1:])).astype(np.float32)
    again = pickle.loads(pickle.dumps(loaded))
    for a, b in zip(loaded(x).values(), again(x).values(), strict=True):
        np.testing.assert_array_equal(a, b)

    def total(params, x):
        return sum(y.sum() for y in loaded.apply(params, {"x": x}).values())

    gradients = jax.grad(total)(loaded.params, x)
    assert jax.tree.structure(gradients) == jax.tree.structure(loaded.params)
    step, name = 1e-2, next(iter(loaded.params))
    moved = jax.tree.map(lambda p, g: p - step * g / (1 + abs(g).max()), loaded.params, gradients)
    assert name in moved
    assert total(moved, x) < total(loaded.params, x)
