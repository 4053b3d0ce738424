"""Small models of float operators, and the digests of their outputs."""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

import dmlax.onnx
from support.onnx_files import File

_UNARY = (
    *("Exp", "Log", "Tanh", "Sigmoid", "Erf", "Softplus", "Softsign", "Elu", "Selu", "Celu"),
    *("Mish", "HardSwish", "Gelu", "Sin", "Cos", "Atan", "Sqrt", "Reciprocal", "Neg", "Relu"),
    *("LeakyRelu", "Floor", "HardSigmoid", "Sign", "Abs"),
)
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")
_ROWS = ("Softmax", "LogSoftmax", "LpNormalization", "CumSum")
_REDUCTIONS = ("ReduceMean", "ReduceSumSquare", "ReduceL2", "ReduceLogSumExp", "ReduceMax")
_SHAPE = (3, 5, 7)
Graph = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def _floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def random_graph(seed: int, count: int = 9) -> Graph:
    """Random operators on tensors of one shape, whose first axis is the batch."""
    random, file = np.random.default_rng(seed), File(22)
    known = [file.input(_floats(random, *_SHAPE)), file.input(3 * _floats(random, *_SHAPE))]
    for _ in range(count):
        kind = random.integers(6)
        x, y = (known[i] for i in random.integers(len(known), size=2))
        if kind < 2:
            made = file.node(str(random.choice(_UNARY)), x)
        elif kind == 2:
            made = file.node(str(random.choice(_BINARY)), x, y)
        elif kind == 3:
            op = str(random.choice(_ROWS))
            axis = [file.constant(np.int64(2))] if op == "CumSum" else []
            along: dict[str, Any] = {} if axis else {"axis": int(random.integers(1, 3))}
            made = file.node(op, x, *axis, **along)
        elif kind == 4:
            op = str(random.choice(_REDUCTIONS))
            made = file.node("Sub", y, file.node(op, x, file.constant(np.array([2])), keepdims=1))
        else:
            made = file.node("MatMul", x, file.constant(_floats(random, 7, 7)))
        known.append(made)
    for name in known[-3:]:
        file.output(name, np.float32)
    return file.model(), file.inputs


def transformer() -> Graph:
    """A block whose products are quantized, and an attention of floats."""
    random, file, width = np.random.default_rng(1), File(22), 16

    def quantized(x: str, scale: float) -> Any:
        parameters = file.constant(np.float32(scale)), file.constant(np.uint8(121))
        return file.node(
            "DequantizeLinear", file.node("QuantizeLinear", x, *parameters), *parameters
        )

    def linear(x: str, depth: int, columns: int) -> Any:
        w = file.constant(random.integers(-127, 128, (depth, columns)).astype(np.int8))
        parameters = file.constant(np.float32(0.007)), file.constant(np.int8(0))
        y = file.node("MatMul", quantized(x, 0.05), file.node("DequantizeLinear", w, *parameters))
        return quantized(file.node("Add", y, file.constant(_floats(random, columns))), 0.04)

    def normal(x: str) -> Any:
        parameters = (file.constant(_floats(random, width)) for _ in range(2))
        return file.node("LayerNormalization", x, *parameters)

    def heads(x: str) -> Any:
        apart = file.node("Reshape", x, file.constant(np.array([0, 6, 2, 8])))
        return file.node("Transpose", apart, perm=[0, 2, 1, 3])

    x = file.input(_floats(random, 3, 6, width))
    rows = normal(x)
    q, k, v = (heads(linear(rows, width, width)) for _ in range(3))
    scores = file.node("MatMul", q, file.node("Transpose", k, perm=[0, 1, 3, 2]))
    shares = file.node("Softmax", file.node("Mul", scores, file.constant(np.float32(0.3535))))
    y = file.node("Transpose", file.node("MatMul", shares, v), perm=[0, 2, 1, 3])
    y = linear(file.node("Reshape", y, file.constant(np.array([0, 6, width]))), width, width)
    x = file.node("Add", x, y)
    wide = linear(normal(x), width, 40)
    share = file.node("Erf", file.node("Div", wide, file.constant(np.float32(2**0.5))))
    share = file.node("Add", share, file.constant(np.float32(1)))
    half = file.node("Mul", wide, file.constant(np.float32(0.5)))
    file.output(file.node("Add", x, linear(file.node("Mul", half, share), 40, width)), np.float32)
    return file.model(), file.inputs


def decoder() -> Graph:
    """A step of products with 4-bit blocks, at level 4 and of floats, and an attention."""
    random, file, width = np.random.default_rng(2), File(24), 64

    def linear(x: str, columns: int, level: int) -> Any:
        held = file.constant(random.integers(0, 256, (columns, 2, 16)).astype(np.uint8))
        scales = file.constant(random.uniform(0.01, 0.02, columns * 2).astype(np.float32))
        sizes: dict[str, Any] = {"K": width, "N": columns, "bits": 4, "block_size": 32}
        options = sizes | {"accuracy_level": level, "domain": "com.microsoft"}
        return file.node("MatMulNBits", x, held, scales, **options)

    x = file.input(_floats(random, 3, 2, width))
    rows = file.node("RMSNormalization", x, file.constant(_floats(random, width)))
    q, k = linear(rows, 32, 4), linear(rows, 32, 0)
    past = [file.input(_floats(random, 3, 2, 5, 16)) for _ in range(2)]
    found, *_ = file.node(
        *("Attention", q, k, k, "", *past), outputs=3, q_num_heads=2, kv_num_heads=2, is_causal=1
    )
    gate = file.node("Swish", linear(x, 32, 4))
    file.output(file.node("Mul", found, gate), np.float32)
    return file.model(), file.inputs


def images() -> Graph:
    """Convolutions: plain, of each channel, transposed; normalizations and pools."""
    random, file = np.random.default_rng(3), File(22)
    x = file.input(_floats(random, 3, 3, 9, 9))
    x = file.node(
        "Conv", x, file.constant(_floats(random, 8, 3, 3, 3)), strides=[2, 2], pads=[1] * 4
    )
    of_channels = [file.constant(_floats(random, 8)) for _ in range(3)]
    positive = file.constant(random.uniform(0.5, 2, 8).astype(np.float32))
    x = file.node("HardSwish", file.node("BatchNormalization", x, *of_channels, positive))
    x = file.node("Conv", x, file.constant(_floats(random, 8, 1, 3, 3)), group=8, dilations=[2, 2])
    x = file.node("ConvTranspose", x, file.constant(_floats(random, 8, 4, 2, 2)), strides=[2, 2])
    of_channels = [file.constant(_floats(random, 4)) for _ in range(2)]
    x = file.node("InstanceNormalization", x, *of_channels)
    x = file.node("MaxPool", file.node("AveragePool", x, kernel_shape=[2, 1]), kernel_shape=[1, 2])
    x = file.node("Flatten", x)
    file.output(file.node("Gemm", x, file.constant(_floats(random, 5, 4)), transB=1), np.float32)
    return file.model(), file.inputs


MODELS: Mapping[str, Callable[[], Graph]] = {
    "transformer": transformer,
    "decoder": decoder,
    "images": images,
    **{f"random {seed}": functools.partial(random_graph, seed) for seed in range(3)},
}


def digests() -> dict[str, list[str]]:
    """The digests of every model's outputs."""
    found = {}
    for name, make in MODELS.items():
        model, inputs = make()
        loaded = dmlax.onnx.load(model, arithmetic="exact")
        found[name] = [x.sha256 for x in dmlax.onnx.digest(loaded, inputs)]
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))
