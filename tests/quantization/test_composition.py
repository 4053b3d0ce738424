"""Random networks, written once and computed in float and with dmlax's operators, are equal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax
from dmlax import calibration
from dmlax.quantization import Rule, quantize

NHWC = ("NHWC", "HWIO", "NHWC")
EVERY = {kind: np.arange(np.iinfo(kind).min, np.iinfo(kind).max + 1, dtype=kind) for kind in "bB"}
FUNCTIONS = {
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "hard swish": jax.nn.hard_swish,
    "reversed sigmoid": lambda x: 1 - jax.nn.sigmoid(x),
    "softplus": jax.nn.softplus,
    "leaky relu": jax.nn.leaky_relu,
}
ACTIVATIONS = (lambda x: x, jax.nn.relu, jax.nn.relu6)


class Floats:
    """The layers of floats. `seen` has the values that bytes stand for, in order."""

    def __init__(self, params):
        self.params, self.seen = params, []

    def seen_as(self, value):
        self.seen.append(value)
        return value

    def convolution(self, name, x, groups, active):
        p = self.params[name]
        options = {"feature_group_count": groups, "dimension_numbers": NHWC}
        y = lax.conv_general_dilated(x, p["kernel"], (1, 1), "SAME", **options) + p["bias"]
        return self.seen_as(ACTIVATIONS[active](y))

    def dense(self, name, x):
        p = self.params[name]
        return self.seen_as(jnp.tensordot(x, p["kernel"], 1) + p["bias"])

    def heads(self, name, x):
        """A matrix for each head, the batch axis of a product."""
        return self.seen_as(jnp.einsum("nqhk,hkm->nqhm", x, self.params[name]["kernel"]))

    def places(self, name, x):
        return self.seen_as(x + self.seen_as(self.params[name]["kernel"]))

    def function(self, name, x):
        return self.seen_as(FUNCTIONS[name](x))

    def add(self, a, b):
        return self.seen_as(a + b)

    def multiply(self, a, b):
        return self.seen_as(a * b)

    def joined(self, name, *parts):
        """With one row of the parameters."""
        row = jnp.broadcast_to(self.params[name]["kernel"], (*parts[0].shape[:-1], 1))
        return self.seen_as(jnp.concatenate([*parts, row], -1))

    def attention(self, q, k, v):
        """Of (N, rows, heads, width), as Flax writes it."""
        logits = self.seen_as(jnp.einsum("nqhd,nkhd->nhqk", q, k))
        shares = self.seen_as(jax.nn.softmax(logits))
        return self.seen_as(jnp.einsum("nhqk,nkhd->nqhd", shares, v))

    def mean(self, x):
        return self.seen_as(x.mean((1, 2)))

    def moved(self, function, x):
        return function(x)


class Bytes(Floats):
    """The same layers of dmlax's operators; a value is bytes and their `Quantization`."""

    def __init__(self, params, scales, rule, arithmetic):
        self.params, self.scales, self.rule = params, iter(scales), rule
        self.options = {"arithmetic": arithmetic}

    def quantized(self, real):
        scale = next(self.scales)
        return self.to_bytes(real, scale), scale

    def to_bytes(self, real, scale):
        return dmlax.element_wise_quantize_linear(real, *scale, **self.options)

    def weights(self, name, x, rank):
        p = self.params[name]
        axis = -1 if self.rule.per_channel else None
        w = calibration.quantize_weights(p["kernel"], axis=axis, symmetric=self.rule.symmetric)
        scales = {"input_scale": x[1].scale, "filter_scale": w.scale}
        return w, calibration.quantize_bias(p["bias"], **scales)

    def named(self, output, **tensors):
        return {**self.options, **calibration.keywords(**tensors, output=output)}

    def convolution(self, name, x, groups, active):
        (w, bias), output = self.weights(name, x, 4), next(self.scales)
        named = self.named(output, input=x[1], filter=w)
        named |= {"padding": "SAME", "group_count": groups, "dimension_numbers": NHWC}
        return dmlax.quantized_linear_convolution(x[0], w.values, bias, **named), output

    def product(self, a, b, values, bias=None):
        output = next(self.scales)
        named = self.named(output, a=a[1], b=b[1])
        return dmlax.quantized_linear_matrix_multiply(a[0], values, bias, **named), output

    def dense(self, name, x):
        w, bias = self.weights(name, x, 2)
        return self.product(x, (w.values, w), w.values, bias)

    def heads(self, name, x):
        w, _ = self.weights(name, x, 3)
        y, output = self.product((x[0].swapaxes(1, 2), x[1]), (w.values, w), w.values)
        return y.swapaxes(1, 2), output

    def places(self, name, x):
        return self.add(x, self.quantized(self.params[name]["kernel"]))

    def function(self, name, x):
        return self.looked_up(FUNCTIONS[name], x, next(self.scales))

    def looked_up(self, function, x, output):
        every = dmlax.element_wise_dequantize_linear(EVERY[x[0].dtype.char], *x[1])
        table = self.to_bytes(function(every), output)
        return dmlax.quantized_lookup(x[0], table), output

    def binary(self, operator, a, b):
        output = next(self.scales)
        return operator(a[0], b[0], **self.named(output, a=a[1], b=b[1])), output

    def add(self, a, b):
        return self.binary(dmlax.element_wise_quantized_linear_add, a, b)

    def multiply(self, a, b):
        return self.binary(dmlax.element_wise_quantized_linear_multiply, a, b)

    def joined(self, name, *parts):
        output = next(self.scales)
        row = jnp.broadcast_to(self.params[name]["kernel"], (*parts[0][0].shape[:-1], 1))
        bytes_of = [self.looked_up(lambda x: x, part, output)[0] for part in parts]
        row = self.to_bytes(row, output)
        return jnp.concatenate([*bytes_of, row], -1), output

    def attention(self, q, k, v):
        (q, k, v), scales = (x[0].swapaxes(1, 2) for x in (q, k, v)), [x[1] for x in (q, k, v)]
        logits = self.product((q, scales[0]), (k, scales[1]), k.mT)
        shares = self.quantized(
            jax.nn.softmax(dmlax.element_wise_dequantize_linear(*_flat(logits)))
        )
        mixed, output = self.product(shares, (v, scales[2]), v)
        return mixed.swapaxes(1, 2), output

    def mean(self, x):
        output = next(self.scales)
        named = self.named(output, input=x[1])
        y = dmlax.quantized_linear_global_average_pooling(x[0], **named, dimension_numbers="NHWC")
        return y.reshape(len(y), -1), output

    def moved(self, function, x):
        """A padding of bytes pads with the zero point."""
        return function(x[0], x[1].zero_point), x[1]


def _flat(x):
    return x[0], *x[1]


def pad(x, zero=0.0):
    return jnp.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0)), constant_values=zero)


class Network:
    """A random network of 4 channels, and its parameters."""

    def __init__(self, seed):
        draw = self.draw = np.random.default_rng(seed)
        self.blocks = [*draw.permutation(["residual", "gate", "joined", "pad", "depthwise"])[:3]]
        self.functions = draw.choice([*FUNCTIONS], 6)
        self.active = draw.integers(3, size=9)
        self.end = ["attention", "squeeze"][seed % 2]
        self.product_first = seed % 3 == 0
        shapes = {f"conv{i}": (3, 3, 4, 4) for i in range(4)} | {"deep": (3, 3, 1, 4)}
        shapes |= {f"dense{i}": (4, 4) for i in range(5)} | {"heads": (2, 2, 2)}
        shapes |= {"row": (1,), "wide": (3, 3, 5, 4), "places": (2, 2)}
        self.params = {
            name: {"kernel": jnp.float32(draw.normal(size=shape))} for name, shape in shapes.items()
        }
        for p in self.params.values():
            p["bias"] = jnp.float32(draw.normal(size=p["kernel"].shape[-1]))

    def __call__(self, ops, x):
        active, functions = iter(self.active), iter(self.functions)

        def convolution(name, x, groups=1):
            return ops.convolution(name, x, groups, next(active))

        x = ops.function(next(functions), convolution("conv0", x))
        for block in self.blocks:
            y = None if block == "joined" else convolution("conv1", x)
            if block == "residual":
                x = ops.add(x, ops.function(next(functions), y))
            elif block == "gate":
                x = ops.multiply(y, ops.function(next(functions), convolution("conv2", x)))
            elif block == "joined":
                x = convolution("wide", ops.joined("row", x))
            elif block == "pad":
                x = ops.moved(pad, y)
            else:
                x = convolution("deep", y, 4)
        if self.end == "squeeze":
            x = ops.mean(ops.function(next(functions), x))
        else:
            x = ops.moved(lambda y, *_: y.reshape(2, -1, 2, 2), x)
            x = ops.heads("heads", ops.places("places", x))
            x = ops.moved(lambda y, *_: y.reshape(2, -1, 4), x)
            q, k, v = (
                ops.moved(lambda y, *_: y.reshape(2, -1, 2, 2), ops.dense(f"dense{i}", x))
                for i in range(3)
            )
            x = ops.moved(lambda y, *_: y.reshape(2, -1, 4), ops.attention(q, k, v))
        y = ops.dense("dense4", x)
        x = ops.add(y, x) if self.product_first else ops.add(x, y)
        return ops.dense("dense3", x)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_network_equals_its_operators(seed):
    network = Network(seed)
    draw = network.draw
    rule = Rule(
        dtype=[np.int8, np.uint8][draw.integers(2)],
        per_channel=bool(draw.integers(2)),
        symmetric=bool(draw.integers(2)),
    )
    arithmetic = ["exact", "float32"][draw.integers(2)]
    batches = [jnp.float32(draw.normal(size=(2, 6, 5, 4))) for _ in range(2)]

    def function(params, x):
        return network(Floats(params), x)

    rules = {"rules": [rule], "arithmetic": arithmetic}
    quantized = quantize(function, network.params, batches, **rules)
    assert {x.runs for x in quantized.report.lines} == {np.dtype(rule.dtype).name}
    assert quantized.report.integer_share == 1

    def seen(params, x):
        floats = Floats(params)
        floats.seen_as(x)
        network(floats, x)
        return floats.seen

    observers = [calibration.min_max() for _ in jax.eval_shape(seen, network.params, batches[0])]
    for batch in batches:
        values = jax.jit(seen)(network.params, batch)
        observers = [o.observe(value) for o, value in zip(observers, values, strict=True)]
    wanted = [calibration.quantization(observer, rule.dtype) for observer in observers]
    scales = [quantized.scales[number] for number in sorted(quantized.scales)]
    # Two programs of the same floats differ in last bits, so the scales are near, not equal.
    near = [x.scale for x in wanted]
    np.testing.assert_allclose([x.scale for x in scales], near, rtol=1e-5)

    bytes_ops = Bytes(network.params, scales, rule, arithmetic)
    y, scale = network(bytes_ops, bytes_ops.quantized(batches[1]))
    expected = dmlax.element_wise_dequantize_linear(y, *scale)
    assert np.array_equal(jax.jit(quantized)(batches[1]), expected), network.blocks
    assert np.array_equal(jax.jit(quantized.training())(network.params, batches[1]), expected)
    assert len(np.unique(expected)) > 3
