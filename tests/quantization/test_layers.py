"""Layers of random attributes are equal to their operators, given the scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax
from dmlax import calibration
from dmlax.quantization import Rule, quantize

KEYWORDS = calibration.keywords
ACTIVATIONS = (lambda x: x, jax.nn.relu, jax.nn.relu6, lambda x: jnp.clip(x, 0, 1.5))


class Draw:
    """Draws of one layer, with the weights, the rule and the arithmetic."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.rule = Rule(
            dtype=self.pick("int8", "uint8"),
            weights_dtype=self.pick("int8", "uint8"),
            bits=self.pick(3, 4, 8, 8),
            per_channel=self.pick(False, True),
            symmetric=self.pick(False, True),
        )
        self.rounds = {"arithmetic": self.pick("exact", "float32")}
        self.active = self.pick(*ACTIVATIONS)
        self.scaled, self.biased = self.pick(False, True), self.pick(False, True)

    def pick(self, *values):
        return values[self.random.integers(len(values))]

    def size(self, low, high):
        return int(self.random.integers(low, high + 1))

    def normal(self, *shape):
        return jnp.float32(self.random.normal(size=shape))

    def bytes_of(self, x, scale):
        return dmlax.element_wise_quantize_linear(x, *scale, **self.rounds)

    def weights(self, values, axis, x_scale, bias):
        """The integers of the weights and of the bias."""
        rule = self.rule
        w = calibration.quantize_weights(
            values,
            axis=axis if rule.per_channel else None,
            dtype=rule.weights_dtype,
            symmetric=rule.symmetric,
            bits=rule.bits,
        )
        scales = {"input_scale": x_scale, "filter_scale": w.scale}
        return w, calibration.quantize_bias(bias, **scales)

    def check(self, function, params, x, by_hand):
        """`by_hand` maps the input and all scales, in order, to bytes."""
        quantized = quantize(function, params, [x], rules=[self.rule], **self.rounds)
        assert {line.runs for line in quantized.report.lines} == {self.rule.dtype}
        scales = [quantized.scales[n] for n in sorted(quantized.scales)]
        y = by_hand(x, scales)
        expected = dmlax.element_wise_dequantize_linear(y, *scales[-1])
        shape = jax.eval_shape(function, params, x).shape
        assert np.array_equal(jax.jit(quantized)(x), expected.reshape(shape))
        trained = jax.jit(quantized.training())(params, x)
        assert np.array_equal(trained, expected.reshape(shape))


def check_convolution(seed):
    draw = Draw(seed)
    rank = draw.pick(1, 2, 2)
    letters = "HW"[-rank:]
    first, last = f"N{letters}C", f"NC{letters}"
    layouts = draw.pick(first, last), draw.pick(f"{letters}IO", f"OI{letters}"), ""
    layouts = (*layouts[:2], draw.pick(first, last))
    groups, per_group = draw.pick(1, 1, 2, 3), draw.size(1, 3)
    outputs, taps = groups * draw.size(1, 3), [draw.size(1, 3) for _ in range(rank)]
    spread = [draw.pick(1, 1, 1, 2) for _ in range(rank)]
    strides, dilations = ([draw.pick(1, 1, 2, 3) for _ in range(rank)] for _ in range(2))
    pads = draw.pick("SAME", "VALID", [(draw.size(0, 2), draw.size(0, 2)) for _ in range(rank)])
    if max(spread) > 1 and isinstance(pads, str):
        pads = [(1, 0)] * rank
    pixels = dict(zip(letters, (draw.size(7, 9) for _ in range(rank)), strict=True))
    sizes = pixels | {"N": draw.size(1, 3), "C": groups * per_group}
    x = draw.normal(*(sizes[c] for c in layouts[0]))
    sizes = dict(zip(letters, taps, strict=True)) | {"I": per_group, "O": outputs}
    w = draw.normal(*(sizes[c] for c in layouts[1]))
    channels = [-1 if c == "C" else 1 for c in layouts[2]]
    factor, bias = draw.normal(outputs), draw.normal(outputs)
    options = {"dimension_numbers": layouts, "rhs_dilation": dilations, "lhs_dilation": spread}

    def function(params, x):
        w, factor, bias = params
        y = lax.conv_general_dilated(x, w, strides, pads, feature_group_count=groups, **options)
        y = y * factor.reshape(channels) if draw.scaled else y
        return draw.active(y + bias.reshape(channels) if draw.biased else y)

    def by_hand(x, scales):
        axis = layouts[1].index("O")
        shape = [-1 if i == axis else 1 for i in range(w.ndim)]
        values = w * factor.reshape(shape) if draw.scaled else w
        values, b = draw.weights(values, axis, scales[0].scale, bias if draw.biased else bias * 0)
        interior = [(0, 0, spread[letters.index(c)] - 1 if c in letters else 0) for c in layouts[0]]
        return dmlax.quantized_linear_convolution(
            lax.pad(draw.bytes_of(x, scales[0]), scales[0].zero_point, interior),
            values.values,
            b,
            **KEYWORDS(input=scales[0], filter=values, output=scales[1]),
            strides=strides,
            dilations=dilations,
            padding=pads,
            group_count=groups,
            dimension_numbers=layouts,
            **draw.rounds,
        )

    draw.check(function, (w, factor, bias), x, by_hand)


def check_product(seed):
    """An einsum of the input and of weights, or of two functions of the input."""
    draw = Draw(seed)
    letters = iter("abcdefgh")
    batch, free, sums, columns = (
        [next(letters) for _ in range(draw.size(low, high))]
        for low, high in ((0, 1), (1, 2), (1, 2), (1, 2))
    )
    sizes = {c: draw.size(1, 5) for c in "abcdefgh"}
    a, b, out = (
        "".join(draw.random.permutation([*batch, *part]))
        for part in ((*free, *sums), (*sums, *columns), (*free, *columns))
    )
    swapped, is_of_values = draw.pick(False, True), draw.pick(False, False, True)
    subscripts = f"{b},{a}->{out}" if swapped else f"{a},{b}->{out}"
    x, w = (draw.normal(*(sizes[c] for c in part)) for part in (a, b))
    first, count = x, [sizes[c] for c in columns]
    bias = draw.normal(*count)
    is_biased = draw.biased and not is_of_values
    place = [sizes[c] if c in columns else 1 for c in out]
    order = [columns.index(c) for c in out if c in columns]

    def multiplied(x, w):
        return jnp.einsum(subscripts, *((w, x) if swapped else (x, w)))

    def function(params, x):
        w, bias = params
        if is_of_values:
            x, w = (
                y.reshape(z.shape)
                for y, z in zip(jnp.split(x, [first.size]), (first, w), strict=True)
            )
        y = multiplied(x, w)
        y = y + bias.transpose(order).reshape(place) if is_biased else y
        return draw.active(y)

    def sorted_as(y, order, *groups):
        y = y.transpose([order.index(c) for group in groups for c in group])
        return y.reshape([int(np.prod([sizes[c] for c in group])) for group in groups])

    def by_hand(x, scales):
        if is_of_values:
            other, named, zeros = draw.bytes_of(x[first.size :], scales[1]), scales[1], None
            columns_of = sorted_as(other.reshape(w.shape), b, batch, sums, columns)
            x = x[: first.size].reshape(first.shape)
        else:
            flat = sorted_as(w, b, batch, sums, columns)
            held = bias.reshape(-1) if is_biased else jnp.zeros(flat.shape[-1])
            named, zeros = draw.weights(flat, -1, scales[0].scale, held)
            columns_of = named.values
        y = dmlax.quantized_linear_matrix_multiply(
            sorted_as(draw.bytes_of(x, scales[0]), a, batch, free, sums),
            columns_of,
            zeros,
            **KEYWORDS(a=scales[0], b=named, output=scales[-1]),
            **draw.rounds,
        )
        made = [*batch, *free, *columns]
        return y.reshape([sizes[c] for c in made]).transpose([made.index(c) for c in out])

    if is_of_values:
        x = draw.normal(x.size + w.size)
    draw.check(function, (w, bias), x, by_hand)


@pytest.mark.parametrize("seed", range(4))
def test_a_convolution_equals_its_operator(seed):
    check_convolution(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_product_equals_its_operator(seed):
    check_product(seed)
