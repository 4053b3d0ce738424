"""Draws small networks: a residual, a keyword net, a decoder of images, a state and an LSTM."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tools.litert import cases
from tools.litert.files import Op, Subgraph, Tensor

Rng = np.random.Generator


class Network:
    """A graph of bytes that grows at its end; a method adds an operator and names its output."""

    def __init__(self, rng: Rng, graph: Subgraph | None = None) -> None:
        self.rng = rng
        self.tensors = dict(graph.tensors) if graph else {}
        self.operators = list(graph.operators) if graph else []

    def tensor(self, x: Tensor) -> str:
        """Adds a tensor."""
        name = f"t{len(self.tensors)}"
        self.tensors[name] = x
        return name

    def constant(self, values: Any) -> str:
        """Adds an int32 constant."""
        array = np.array(values, np.int32)
        return self.tensor(Tensor(np.int32, array.shape, array))

    def bytes(self, shape: Sequence[int], near: float = 0.02, like: str = "") -> str:
        """Adds a tensor of int8, with a scale near a number or those of another tensor."""
        scale, zero = cases._scale(self.rng, near), int(self.rng.integers(-128, 128))
        if like:
            return self.tensor(cases._like(self.tensors[like], shape))
        return self.tensor(Tensor(np.int8, shape, None, [scale], [zero]))

    def apply(self, name: str, inputs: Sequence[str], output: str, **options: Any) -> str:
        """Adds an operator."""
        self.operators.append(Op(name, inputs, [output], options))
        return output

    def product(
        self, name: str, x: str, w: Sequence[int], y: Sequence[int], axis: int = 0, **options: Any
    ) -> str:
        """Adds a convolution or a matrix product, whose outputs seldom saturate."""
        source, depth = self.tensors[x], math.prod(w) // w[axis]
        weights = cases._weights(self.rng, np.int8, w, axis)
        scales = [source.scales[0] * scale for scale in weights.scales]
        bias = self.rng.integers(-3000, 3000, w[axis]).astype(np.int32)
        wide = Tensor(np.int32, bias.shape, bias, scales, [0] * len(scales))
        inputs = [x, self.tensor(weights), self.tensor(wide)]
        if name == "TRANSPOSE_CONV":
            inputs = [self.constant(y), inputs[1], x, inputs[2]]
        output = self.bytes(y, max(scales) * 64 * math.sqrt(depth))
        return self.apply(name, inputs, output, **options)

    def convolution(
        self, x: str, channels: int, kernel: int = 1, stride: int = 1, activation: str = "RELU6"
    ) -> str:
        """Adds a CONV_2D with SAME padding, or with no channels a DEPTHWISE_CONV_2D."""
        n, h, w, c = self.tensors[x].shape
        size = (n, -(-h // stride), -(-w // stride), channels or c)
        options = {"padding": "SAME", "stride_h": stride, "stride_w": stride}
        options["activation"] = activation
        if channels:
            return self.product("CONV_2D", x, (channels, kernel, kernel, c), size, 0, **options)
        shape = (1, kernel, kernel, c)
        return self.product("DEPTHWISE_CONV_2D", x, shape, size, 3, multiplier=1, **options)

    def scores(self, x: str, count: int) -> str:
        """Adds a FULLY_CONNECTED of the flat tensor, and a SOFTMAX."""
        size = math.prod(self.tensors[x].shape)
        flat = self.bytes((1, size), like=x)
        self.apply("RESHAPE", [x, self.constant([1, size])], flat)
        logits = self.product("FULLY_CONNECTED", flat, (count, size), (1, count))
        y = self.tensor(Tensor(np.int8, (1, count), None, [1 / 256], [-128]))
        return self.apply("SOFTMAX", [logits], y, beta=1.0)

    def quantized(self, shape: Sequence[int]) -> tuple[str, str]:
        """Adds a float input and its QUANTIZE."""
        x = self.tensor(Tensor(np.float32, shape))
        return x, self.apply("QUANTIZE", [x], self.bytes(shape, 0.012))

    def end(self, x: str) -> Subgraph:
        """The graph of an input, whose outputs are all tensors that operators compute."""
        names = [name for op in self.operators for name in op.outputs]
        computed = [name for name in names if self.tensors[name].number is None]
        return Subgraph(self.tensors, self.operators, [x], computed)


def residual(rng: Rng) -> list[Subgraph]:
    """An inverted residual block, a mean and scores."""
    net = Network(rng)
    x = net.bytes((1, 8, 8, 8))
    inner = net.convolution(net.convolution(x, 24), 0, 3)
    projected = net.convolution(inner, 8, activation="")
    near = max(net.tensors[name].scales[0] for name in (x, projected))
    total = net.apply("ADD", [projected, x], net.bytes((1, 8, 8, 8), 1.5 * near))
    mean = net.bytes((1, 1, 1, 8), 0.4 * near)
    net.apply("MEAN", [total, net.constant([1, 2])], mean, keep_dims=True)
    net.scores(mean, 6)
    return [net.end(x)]


def keywords(rng: Rng) -> list[Subgraph]:
    """A net of depthwise and pointwise convolutions, from floats to floats."""
    net = Network(rng)
    x, y = net.quantized((1, 10, 8, 1))
    y = net.convolution(y, 12, 3, 2)
    for _ in range(2):
        y = net.convolution(net.convolution(y, 0, 3), 12)
    pooled = net.bytes((1, 1, 1, 12), like=y)
    window = {"filter_h": 5, "filter_w": 4, "stride_h": 1, "stride_w": 1}
    net.apply("AVERAGE_POOL_2D", [y], pooled, padding="VALID", **window)
    scores = net.scores(pooled, 4)
    net.apply("DEQUANTIZE", [scores], net.tensor(Tensor(np.float32, (1, 4))))
    return [net.end(x)]


def decoder(rng: Rng) -> list[Subgraph]:
    """A small image that grows twice, beside a skip connection that a gate scales."""
    net = Network(rng)
    x = net.bytes((1, 8, 8, 4))
    small = net.convolution(x, 6, 3, 2, "")
    swish = net.apply("HARD_SWISH", [small], net.bytes((1, 4, 4, 6), net.tensors[small].scales[0]))
    grown = net.bytes((1, 8, 8, 6), like=swish)
    net.apply("RESIZE_BILINEAR", [swish, net.constant([8, 8])], grown, half_pixel_centers=True)
    skip = net.convolution(x, 6, 3)
    gate = net.apply("LOGISTIC", [skip], net.bytes((1, 8, 8, 6)))
    net.tensors[gate].scales, net.tensors[gate].zeros = [1 / 256], [-128]
    product = net.bytes((1, 8, 8, 6), net.tensors[grown].scales[0])
    net.apply("MUL", [grown, gate], product)
    both = net.bytes((1, 8, 8, 12), like=product)
    net.apply("CONCATENATION", [product, product], both, axis=3)
    size = (1, 16, 16, 3)
    options: dict[str, Any] = {"padding": "SAME", "stride_h": 2, "stride_w": 2}
    net.product("TRANSPOSE_CONV", both, (3, 3, 3, 12), size, **options)
    return [net.end(x)]


def window(rng: Rng) -> list[Subgraph]:
    """The last five frames in a variable, which another graph begins, and a product of them."""
    net = Network(rng)
    x, frame = net.quantized((1, 1, 6))
    handle = {"shared_name": "frames"}
    resource = net.tensor(Tensor(np.int32, (), number=13))
    old, both, new = (net.bytes((1, n, 6), like=frame) for n in (5, 6, 5))
    net.operators += [Op("CALL_ONCE", [], [], {"init_graph": 1})]
    net.apply("VAR_HANDLE", [], resource, **handle)
    net.apply("READ_VARIABLE", [resource], old)
    net.apply("CONCATENATION", [old, frame], both, axis=1)
    places = [net.constant(each) for each in ([0, 1, 0], [1, 6, 6], [1, 1, 1])]
    net.apply("STRIDED_SLICE", [both, *places], new)
    net.operators += [Op("ASSIGN_VARIABLE", [resource, new], [])]
    net.scores(new, 5)
    graph = net.end(x)
    first = np.asarray(rng.integers(-128, 128, (1, 5, 6)), np.int8)
    parameters = graph.tensors[old].scales, graph.tensors[old].zeros
    tensors = {"h": Tensor(np.int32, (), number=13), "v": Tensor(np.int8, (1, 5, 6), first)}
    tensors["v"].scales, tensors["v"].zeros = parameters
    assigned = [Op("VAR_HANDLE", [], ["h"], handle), Op("ASSIGN_VARIABLE", ["h", "v"], [])]
    return [graph, Subgraph(tensors, assigned, [], [])]


def recurrent(rng: Rng) -> list[Subgraph]:
    """An LSTM of bytes, whose state goes on, and scores of its steps."""
    graph = cases.lstm(rng)
    while np.dtype(graph.tensors["x0"].dtype) != np.int8:
        graph = cases.lstm(rng)
    net = Network(rng, graph)
    net.scores("y0", 7)
    return [net.end("x0")]


def control(rng: Rng) -> list[Subgraph]:
    """A loop that multiplies by a constant and counts, and a branch that its count chooses."""
    shape, most = (int(rng.integers(1, 9)),), int(rng.integers(0, 6))
    number, count, yes = Tensor(np.float32, shape), Tensor(np.int32, ()), Tensor(np.bool_, ())
    factor = Tensor(np.float32, (), np.array(rng.uniform(-2, 2), np.float32))
    limit, one, few = (cases._constant(value) for value in (most, 1, 3))
    tensors = {"x": number, "i": cases._constant(0), "x2": number, "i2": count, "few": few}
    calls = [
        Op("WHILE", ["x", "i"], ["x2", "i2"], {"condition_graph": 1, "body_graph": 2}),
        Op("GREATER", ["i2", "few"], ["many"]),
        Op("IF", ["many", "x2"], ["y"], {"then_graph": 3, "else_graph": 4}),
    ]
    main = Subgraph({**tensors, "many": yes, "y": number}, calls, ["x"], ["y", "i2"])
    inner, less = {"x": number, "i": count}, [Op("LESS", ["i", "limit"], ["goes"])]
    condition = Subgraph({**inner, "limit": limit, "goes": yes}, less, [*inner], ["goes"])
    steps = [Op("MUL", ["x", "factor"], ["x2"]), Op("ADD", ["i", "one"], ["i2"])]
    made = {"factor": factor, "one": one, "x2": number, "i2": count}
    body = Subgraph({**inner, **made}, steps, [*inner], ["x2", "i2"])
    branches = [
        Subgraph({"x": number, "y": number}, [Op(name, ["x"], ["y"])], ["x"], ["y"])
        for name in ("NEG", "ABS")
    ]
    return [main, condition, body, *branches]


NETWORKS: dict[str, Callable[[Rng], list[Subgraph]]] = {
    f"network_{each.__name__}": each
    for each in (residual, keywords, decoder, window, recurrent, control)
}
