"""Quantization by rules: random networks equal their composition by hand; errors; the report."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax
from dmlax import calibration, training
from dmlax.quantization import Rule, quantize

KEYWORDS = calibration.keywords


class Network:
    """A random network, written once for floats and once by hand for bytes."""

    def __init__(self, seed):
        self.draw, self.residual_first = np.random.default_rng(seed), bool(seed % 2)
        self.params, self.layers = {}, []
        self.seen = {}
        channels = int(self.draw.integers(1, 4))
        self.shape = (2, 8, 8, channels)
        self.rule = Rule(
            dtype=self.pick([np.int8, np.uint8]),
            per_channel=bool(self.draw.integers(2)),
            symmetric=bool(self.draw.integers(2)),
            bits=int(self.pick([4, 8])),
        )
        self.arithmetic = str(self.pick(["exact", "float32"]))
        kinds = ["convolution", *self.pick([["residual"], ["max"], ["mean"], ["transpose"], []])]
        kinds += self.pick([["residual"], ["tanh", "convolution"], ["norm"], []])
        for kind in [*kinds, self.pick(["global", "flat"]), "product"]:
            self.layers.append((kind, f"{kind}{len(self.layers)}", bool(self.draw.integers(2))))

    def pick(self, values):
        return values[self.draw.integers(len(values))]

    def parameters(self, name, shape):
        if name not in self.params:
            kernel, bias = self.draw.normal(size=shape), self.draw.normal(size=shape[-1])
            self.params[name] = {"kernel": jnp.float32(kernel), "bias": jnp.float32(bias)}
        return self.params[name]

    def taps(self, name, value):
        self.seen[name] = value
        return value

    def floats(self, params, x):
        """The float network; notes the values that bytes stand for."""
        relu = jax.nn.relu

        def of(name, shape):
            return self.parameters(name, shape) if params is None else params[name]

        self.taps("input", x)
        for kind, name, active in self.layers:
            after = relu if active else lambda y: y
            if kind in ("convolution", "residual", "norm"):
                p = of(name, (3, 3, x.shape[-1], x.shape[-1] if kind == "residual" else 4))
                y = lax.conv_general_dilated(
                    x, p["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
                y = y * 2.0 + p["bias"] if kind == "norm" else y + p["bias"]
                if kind == "residual":
                    y = self.taps(name + "/layer", y)
                    y = after(x + y if self.residual_first else y + x)
                else:
                    y = after(y)
            elif kind == "product":
                p = of(name, (x.shape[-1], 5))
                y = after(x @ p["kernel"] + p["bias"])
            elif kind == "max":
                y = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
            elif kind == "mean":
                y = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
            elif kind == "global":
                y = x.mean((1, 2))
            elif kind == "transpose":
                y = x.transpose(0, 2, 1, 3)
            else:
                y = x.reshape(2, -1) if kind == "flat" else jnp.tanh(x)
            x = self.taps(name, y)
        return x

    def by_hand(self, x, of):
        """The same network of dmlax's operators."""
        rounds = {"arithmetic": self.arithmetic}
        scale = of["input"]
        x = dmlax.element_wise_quantize_linear(x, *scale, **rounds)
        for kind, name, _ in self.layers:
            output = of.get(name)  # None of a move
            if kind in ("convolution", "residual", "norm", "product"):
                p = self.params[name]
                factor = 2.0 if kind == "norm" else 1.0
                w = calibration.quantize_weights(
                    p["kernel"] * factor,
                    axis=-1 if self.rule.per_channel else None,
                    symmetric=self.rule.symmetric,
                    bits=self.rule.bits,
                )
                bias = calibration.quantize_bias(
                    p["bias"], input_scale=scale.scale, filter_scale=w.scale
                )
            if kind == "product":
                named = KEYWORDS(a=scale, b=w, output=output)
                x = dmlax.quantized_linear_matrix_multiply(x, w.values, bias, **named, **rounds)
            elif kind in ("convolution", "residual", "norm"):
                inner = of[name + "/layer"] if kind == "residual" else output
                y = dmlax.quantized_linear_convolution(
                    x,
                    w.values,
                    bias,
                    **KEYWORDS(input=scale, filter=w, output=inner),
                    padding="SAME",
                    dimension_numbers=("NHWC", "HWIO", "NHWC"),
                    **rounds,
                )
                if kind == "residual":
                    terms = [(x, scale), (y, inner)][:: 1 if self.residual_first else -1]
                    (a, of_a), (b, of_b) = terms
                    named = KEYWORDS(a=of_a, b=of_b, output=output)
                    y = dmlax.element_wise_quantized_linear_add(a, b, **named, **rounds)
                x = y
            elif kind == "max":
                high = -x.shape[1] % 2
                x = dmlax.max_pooling(
                    x,
                    window_size=2,
                    strides=2,
                    end_padding=high,
                    dimension_numbers="NHWC",
                )
                output = scale
            elif kind == "mean":
                x = dmlax.quantized_linear_average_pooling(
                    x,
                    **KEYWORDS(input=scale, output=output),
                    window_size=2,
                    strides=2,
                    dimension_numbers="NHWC",
                    **rounds,
                )
            elif kind == "global":
                named = KEYWORDS(input=scale, output=output)
                x = dmlax.quantized_linear_global_average_pooling(
                    x, **named, dimension_numbers="NHWC", **rounds
                ).reshape(2, -1)
            elif kind == "tanh":
                real = jnp.tanh(dmlax.element_wise_dequantize_linear(x, *scale))
                x = dmlax.element_wise_quantize_linear(real, *output, **rounds)
            else:
                x = x.transpose(0, 2, 1, 3) if kind == "transpose" else x.reshape(2, -1)
                output = scale
            scale = output
        return dmlax.element_wise_dequantize_linear(x, *scale)


@pytest.mark.parametrize("seed", range(6))
def test_a_quantized_network_equals_its_composition_by_hand(seed):
    network = Network(seed)
    batches = [jnp.float32(network.draw.normal(size=network.shape)) for _ in range(3)]
    network.floats(None, batches[0])
    quantized = quantize(
        network.floats,
        network.params,
        batches,
        rules=[network.rule],
        arithmetic=network.arithmetic,
    )
    ranges = {}

    def tapped(params, x):
        network.floats(params, x)
        return dict(network.seen)

    for batch in batches:
        for name, value in jax.jit(tapped)(network.params, batch).items():
            ranges[name] = ranges.get(name, calibration.min_max()).observe(value)
    assert {x.runs for x in quantized.report.lines} == {np.dtype(network.rule.dtype).name}
    actual = jax.jit(lambda q, x: q(x))(quantized, batches[1])
    # Two programs of the same floats differ in last bits, so the scales are near, not equal.
    moves = ("max", "transpose", "flat")
    own = [name for name in network.seen if not name.startswith(moves)]
    scales = dict(zip(own, (quantized.scales[n] for n in sorted(quantized.scales)), strict=True))
    for name, (scale, zero_point) in scales.items():
        wanted = calibration.quantization(ranges[name], network.rule.dtype)
        np.testing.assert_allclose(scale, wanted.scale, rtol=1e-5)
        assert zero_point.dtype == wanted.zero_point.dtype
    expected = network.by_hand(batches[1], scales)
    assert np.array_equal(actual, expected), network.layers
    assert np.array_equal(quantized(batches[1]), expected)
    assert len(np.unique(actual)) > 2
    trained = jax.jit(quantized.training())
    assert np.array_equal(trained(network.params, batches[1]), expected)
    slopes = jax.jit(jax.grad(lambda p: quantized.training()(p, batches[1]).sum()))(network.params)
    assert all(jnp.abs(x).sum() > 0 for x in jax.tree.leaves(slopes))
    tuned = jax.tree.map(lambda p, slope: p - 0.01 * slope, network.params, slopes)
    again = jax.jit(lambda q, x: q(x))(quantized.with_params(tuned), batches[2])
    assert np.array_equal(trained(tuned, batches[2]), again)
    network.params = tuned
    assert np.array_equal(again, network.by_hand(batches[2], scales))


def dense(params, x):
    return jax.nn.relu(x @ params["first"]["kernel"]) @ params["last"]["kernel"]


def dense_params():
    draw = np.random.default_rng(0)
    return {
        name: {"kernel": jnp.float32(draw.normal(size=(6, 6))), "unused": jnp.ones(3)}
        for name in ("first", "last")
    }


X = jnp.float32(np.random.default_rng(1).normal(size=(4, 6)))


def test_it_pickles():
    def function(params, x):
        parts = jnp.split(dense(params, x), 2, axis=-1)
        return jax.nn.softmax(parts[0]) @ jax.nn.gelu(parts[1]).mT

    params = dense_params()
    quantized = quantize(function, params, [X], rules=[Rule(bits=4)])
    again = pickle.loads(pickle.dumps(quantized))
    assert again.report == quantized.report
    assert np.array_equal(jax.jit(again)(X), jax.jit(quantized)(X))
    tuned = jax.tree.map(lambda p: p * 0.5, params)
    expected = jax.jit(quantized.with_params(tuned))(X)
    assert np.array_equal(jax.jit(again.with_params(tuned))(X), expected)


def test_a_loop_does_not_pickle_and_says_so():
    def function(params, x):
        return lax.scan(lambda y, _: (y * 0.5, None), dense(params, x), length=2)[0]

    quantized = quantize(function, dense_params(), [X])
    with pytest.raises(pickle.PicklingError, match=r"scan at .*save the function by dmlax.export"):
        pickle.dumps(quantized)


def test_the_first_rule_that_matches_wins():
    rules = [Rule("first/*", to_float=True), Rule("*", dtype=np.uint8), Rule("last/*")]
    lines = quantize(dense, dense_params(), [X], rules=rules).report.lines
    assert [x.name for x in lines] == ["first/kernel", "last/kernel"]
    assert [x.runs for x in lines] == ["float: a rule", "uint8"]
    assert [(x.before, x.after) for x in lines] == [(144, 144), (144, 36)]
    assert lines[1].signal_to_noise > 25


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Rule("middle/*"), "has the path 'middle/*', which matches none of the weights"),
        (Rule("*/unused"), "'last/unused'] are parameters, but no weights of a convolution"),
        (Rule(operator="convolution"), "matches none of the weights"),
    ],
)
def test_a_rule_that_matches_no_weights_is_an_error(rule, text):
    with pytest.raises(dmlax.SpecError) as caught:
        quantize(dense, dense_params(), [X], rules=[rule])
    assert text in str(caught.value)
    assert caught.value.code == "option"


def test_a_product_of_two_activations_under_a_rule_is_an_error():
    def function(params, x):
        return (x * params["gate"]) @ x.T

    with pytest.raises(dmlax.SpecError, match=r"\['gate'\] are parameters, but no weights"):
        quantize(function, {"gate": jnp.ones(6)}, [X], rules=[Rule("gate")])
    (line,) = quantize(function, {"gate": jnp.ones(6)}, [X]).report.lines
    assert (line.runs, line.multiply_adds) == ("int8", 4 * 4 * 6)
    assert line.name.startswith("quantization/test_quantize.py:")
    rules = [Rule("", dtype=np.uint8)]
    (line,) = quantize(function, {"gate": jnp.ones(6)}, [X], rules=rules).report.lines
    assert line.runs == "uint8"


def test_a_rule_for_an_operator_leaves_it_in_float():
    def residual(params, x):
        y = dense(params, x)
        return dense(params, y + dense(params, y))

    lines = quantize(residual, dense_params(), [X]).report.lines
    assert [x.runs for x in lines if x.operator == "sum"] == ["int8"]
    rules = [Rule(operator="sum", to_float=True)]
    lines = quantize(residual, dense_params(), [X], rules=rules).report.lines
    assert [x.runs for x in lines if x.operator == "add"] == ["float: a rule"]
    with pytest.raises(dmlax.SpecError, match="matches none of the weights"):
        quantize(dense, dense_params(), [X], rules=rules)


def test_residual_sums_that_only_a_normalization_reads_stay_float():
    def normalize(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)

    def function(params, x):
        x = jnp.tanh(x) @ params["first"]["kernel"]
        for _ in range(2):
            x = x + dense(params, normalize(x))
        return normalize(x)

    for rules, runs in ((), "float: only floats read it"), ([Rule(operator="sum")], "int8"):
        lines = quantize(function, dense_params(), [X], rules=rules).report.lines
        assert {x.runs for x in lines if x.operator in ("add", "sum")} == {runs}


def test_a_sum_of_sums_that_a_layer_reads_runs_in_integers():
    def function(params, x):
        y, z = (x @ params[name]["kernel"] for name in ("first", "last"))
        return jax.nn.leaky_relu(y + z + y * z) @ params["first"]["kernel"]

    lines = quantize(function, dense_params(), [X]).report.lines
    assert [x.operator for x in lines].count("sum") == 2
    assert {x.runs for x in lines} == {"int8"}


PADS = [(2, 1), (0, 1)]  # of the image with zeros


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("strides", [(2, 2), (1, 3)])
def test_a_transposed_convolution_is_one_of_an_input_with_zeros_between(strides, dtype):
    draw = np.random.default_rng(6)
    x, w = (jnp.float32(draw.normal(size=shape)) for shape in ((2, 4, 3, 5), (3, 2, 5, 6)))
    layouts = ("NHWC", "HWIO", "NHWC")

    def function(w, x):
        return lax.conv_transpose(x, w, strides, PADS, dimension_numbers=layouts)

    quantized = quantize(function, w, [x], rules=[Rule(dtype=dtype)])
    assert [y.runs for y in quantized.report.lines] == [np.dtype(dtype).name]
    of_x, of_y = (quantized.scales[n] for n in sorted(quantized.scales))
    weights = calibration.quantize_weights(w, axis=None)
    spread = [(0, 0, 0), *((0, 0, n - 1) for n in strides), (0, 0, 0)]
    zeros = lax.pad(dmlax.element_wise_quantize_linear(x, *of_x), of_x.zero_point, spread)
    expected = dmlax.quantized_linear_convolution(
        zeros,
        weights.values,
        None,
        **KEYWORDS(input=of_x, filter=weights, output=of_y),
        padding=PADS,
        dimension_numbers=layouts,
    )
    expected = dmlax.element_wise_dequantize_linear(expected, *of_y)
    assert np.array_equal(quantized(x), expected)
    assert np.array_equal(jax.jit(quantized.training())(w, x), expected)
    noise = jnp.abs(quantized(x) - function(w, x))
    assert noise.max() < 4 * of_y.scale


def grouped(w, x):
    layouts = ("NHWC", "OIHW", "NHWC")
    return lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=layouts, feature_group_count=2
    )


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (grouped, (6, 2, 2, 3)),
        (lambda w, x: jnp.einsum("nhwk,ok->nhwo", x, w), (6, 4)),
        (lambda w, x: jnp.einsum("nhwk,ko->nhwo", x, w), (4, 6)),
    ],
)
def test_bias_correction_repairs_the_mean(function, shape):
    """Of images without differences between pixels the mean is all."""
    w = jnp.float32(np.random.default_rng(8).normal(size=shape))
    x = jnp.broadcast_to(jnp.float32([0, 255, 31, 100]), (2, 4, 5, 4))  # bytes, in steps of 1
    errors = []
    for corrects in (False, True):
        options = {"rules": [Rule(bits=3, dtype="uint8")], "bias_correction": corrects}
        quantized = quantize(function, w, [x], **options)
        y = jax.jit(quantized)(x)
        assert np.array_equal(y, jax.jit(quantized.training())(w, x))
        assert np.array_equal(y, jax.jit(quantized.with_params(w))(x))
        step = quantized.scales[max(quantized.scales)].scale
        errors.append(float(jnp.abs(y - function(w, x)).max() / step))
    assert errors[0] > 3
    assert errors[1] < 0.51


def test_the_plot_has_a_bar_for_each_line(tmp_path):
    rules = [Rule("last/*", to_float=True)]
    report = quantize(dense, dense_params(), [X], rules=rules).report
    figure = report.plot()
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["first/kernel  product", "last/kernel  dot_general"]
    widths = [bar.get_width() for bar in axes.patches]
    noise = report.lines[0].signal_to_noise
    assert widths == [noise, 0, noise]  # the gray bar of the float step is as wide
    figure.savefig(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_progress_prints_the_batches_that_the_calibration_saw(capfd):
    quantize(dense, dense_params(), [X, X, X], progress=True)
    jax.effects_barrier()
    assert capfd.readouterr().out.split("\r")[-1] == "calibrated with 3 of 3 batches\n"


def test_the_report_has_the_share_of_the_multiply_adds_in_integers():
    def function(params, x):
        loop = lax.scan(lambda y, _: (y @ params["w"], None), x, length=3)[0]
        return dense(params, loop)

    params = dense_params() | {"w": jnp.eye(6)}
    rules = [Rule("last/*", to_float=True)]
    report = quantize(function, params, [X], rules=rules).report
    assert report.multiply_adds == (3 + 2) * 4 * 6 * 6
    assert report.integer_share == 1 / 5
    assert str(report).endswith("20.0% of 720 multiply-adds run in integers")
    assert [x.runs for x in report.lines] == [
        "float: no operator is a scan of layers: write the loop in Python",
        "int8",
        "float: a rule",
    ]


@pytest.mark.parametrize("to_float", [False, True])
def test_weights_that_two_layers_share_are_one_line(to_float):
    def function(w, x):
        return jnp.tanh(x @ w) @ w

    w = jnp.float32(np.random.default_rng(4).normal(size=(6, 6)))
    quantized = quantize(function, w, [X], rules=[Rule(bits=4, to_float=to_float)])
    (line,) = (x for x in quantized.report.lines if x.multiply_adds)
    assert line.multiply_adds == 2 * 4 * 6 * 6
    assert (line.before, line.after) == (144, 144 if to_float else 18)
    held = {id(x.values) for x, _ in quantized.weights.values()}
    assert len(held) == (0 if to_float else 1)
    assert np.array_equal(quantized(X), quantized.training()(w, X)) or to_float


def test_a_shared_parameter_with_two_rules_is_an_error():
    def function(params, x):
        y = lax.conv_general_dilated(
            x[..., None],
            params["w"][:, :, None],
            (1,),
            "SAME",
            dimension_numbers=("NWC", "WIO", "NWC"),
        )
        return x @ params["w"], y

    rules = [Rule("w", "product"), Rule("w", "convolution", dtype=np.uint8)]
    with pytest.raises(dmlax.SpecError, match="two rules for the shared parameter 'w'"):
        quantize(function, {"w": jnp.ones((6, 1))}, [X], rules=rules)


@pytest.mark.parametrize(
    ("batches", "code", "text"),
    [
        ([], "option", "is empty, expected a batch or more"),
        (
            [X, X[:2]],
            "sizes",
            "have float32[2,6] at '1/0', expected float32[4,6], as the first",
        ),
        ([X * np.nan], "value", "the input of first/kernel: quantization: observer has seen NaN"),
    ],
)
def test_bad_batches(batches, code, text):
    with pytest.raises(dmlax.SpecError) as caught:
        quantize(dense, dense_params(), batches)
    assert text in str(caught.value)
    assert caught.value.code == code


def test_inputs_of_other_shapes_are_an_error_and_vmap_maps():
    quantized = quantize(dense, dense_params(), [X])
    with pytest.raises(dmlax.SpecError, match=r"have float32\[6\] at '0', expected float32\[4,6\]"):
        quantized(X[0])
    mapped = jax.vmap(quantized)(jnp.stack([X, X]))
    assert np.array_equal(mapped[1], quantized(X))


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_weights_of_few_bits_are_packed(bits, dtype):
    draw = np.random.default_rng(bits)
    w = jnp.float32(draw.normal(size=(7, 3)))
    x = jnp.float32(draw.normal(size=(5, 7)))
    rule = Rule(bits=bits, weights_dtype=dtype, symmetric=bool(draw.integers(2)))
    quantized = quantize(lambda w, x: x @ w, w, [x], rules=[rule])
    count = {2: 6, 3: 11, 4: 11}.get(bits, 21)
    assert [(x.before, x.after) for x in quantized.report.lines] == [(84, count)]
    ((weights, _),) = quantized.weights.values()
    assert sum(x.nbytes for x in jax.tree.leaves(weights)) == count + 4 + 1
    expected = calibration.quantize_weights(
        w, axis=None, dtype=dtype, symmetric=rule.symmetric, bits=bits
    )
    if bits <= 4:
        assert np.array_equal(weights.values.unpack(), expected.values)
    again = jax.jit(lambda q, w: q.with_params(w))(quantized, w)
    trained = quantized.training()(w, x)
    assert np.array_equal(jax.jit(lambda q, x: q(x))(again, x), trained)
    assert np.array_equal(jax.jit(quantized)(x), trained)


def test_four_bits_train_as_fake_quantize_does():
    w = jnp.float32(np.random.default_rng(5).normal(size=(6, 6)))
    quantized = quantize(lambda w, x: x @ w, w, [X], rules=[Rule(bits=4)])
    of_x, of_y = (quantized.scales[n] for n in sorted(quantized.scales))

    def by_hand(w):
        of_w = calibration.quantize_weights(w, axis=None, bits=4)
        rounded = training.fake_quantize(w, of_w.scale, dtype=jnp.int4)
        named = KEYWORDS(a=of_x, b=of_w, output=of_y)
        return training.quantized_linear_matrix_multiply(X, rounded, **named)

    def slope(run):
        return jax.grad(lambda w: (run(w) * X).sum())(w)

    def tuned(w):
        return quantized.training()(w, X)

    assert np.array_equal(tuned(w), by_hand(w))
    np.testing.assert_allclose(slope(tuned), slope(by_hand), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("subscripts", ["bk,kn->bn", "kn,bk->nb", "bk,nk->bn", "nk,bk->nb"])
def test_products_of_any_order_are_layers(subscripts):
    def function(w, x):
        operands = (x, w) if subscripts.startswith("b") else (w, x)
        return jnp.einsum(subscripts, *operands) + 1.0

    w = jnp.float32(np.random.default_rng(2).normal(size=(6, 6)))
    quantized = quantize(function, w, [X])
    assert [x.runs for x in quantized.report.lines] == ["int8"]
    assert quantized.report.lines[0].signal_to_noise > 30
    assert quantized(X).shape == function(w, X).shape


def test_training_has_the_gradients_of_the_composition_by_hand():
    def function(params, x):
        return jax.nn.relu(x @ (params["w"] * params["gain"]) + params["b"]) @ params["v"]

    draw = np.random.default_rng(3)
    shapes = {"w": (6, 8), "gain": (8,), "b": (8,), "v": (8, 3)}
    params = {name: jnp.float32(draw.normal(size=shape)) for name, shape in shapes.items()}
    quantized = quantize(function, params, [X], rules=[Rule(per_channel=True, bits=4)])
    of_x, of_hidden, of_y = (quantized.scales[n] for n in sorted(quantized.scales))

    def by_hand(params, x):
        w, v = params["w"] * params["gain"], params["v"]
        of_w, of_v = (calibration.quantize_weights(y, axis=-1, bits=4) for y in (w, v))
        first = KEYWORDS(a=of_x, b=of_w, output=of_hidden)
        last = KEYWORDS(a=of_hidden, b=of_v, output=of_y)
        product = training.quantized_linear_matrix_multiply
        return product(product(x, w, params["b"], **first), v, **last)

    def slopes(run):
        return jax.grad(lambda p: (run(p, X) ** 2).sum())(params)

    assert np.array_equal(quantized.training()(params, X), by_hand(params, X))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        slopes(quantized.training()),
        slopes(by_hand),
    )


def test_a_parameter_is_folded_where_it_varies_along_channels_for_all_values():
    def function(params, x):
        return x @ params["w"] + params["place"]  # zeros now, but one value for each row

    params = {"w": jnp.ones((6, 6)), "place": jnp.zeros((4, 6))}
    quantized = quantize(function, params, [X])
    slopes = jax.grad(lambda p: (quantized.training()(p, X) * X).sum())(params)["place"]
    assert np.array_equal(slopes, X)
    moved = params | {"place": X}
    assert np.array_equal(quantized.with_params(moved)(X), quantized.training()(moved, X))


def test_params_of_another_tree_or_shape_are_an_error():
    quantized = quantize(dense, dense_params(), [X])
    params = dense_params()
    with pytest.raises(dmlax.SpecError, match="params are of the structure"):
        quantized.with_params({"first": params["first"]})
    params["last"]["kernel"] = params["last"]["kernel"][:3]
    with pytest.raises(dmlax.SpecError, match=r"float32\[3,6\] at 'last/kernel', expected"):
        quantized.training()(params, X)


def unread(params, x):
    """A result that nothing reads keeps no bias out of its layer."""
    y = x @ params["kernel"]
    y.mT, jnp.sin(y)
    return y + params["bias"]


def narrow(params, x):
    """A conversion within a function of one value."""
    y = x.astype(jnp.bfloat16) @ params["kernel"].astype(jnp.bfloat16)
    y = y + params["bias"].astype(jnp.bfloat16)
    return jax.nn.gelu(y.astype(jnp.float32)).astype(jnp.bfloat16) @ jnp.eye(4, dtype=jnp.bfloat16)


@pytest.mark.parametrize(
    ("function", "kinds"), [(unread, ["product"]), (narrow, ["product", "lookup", "product"])]
)
def test_values_that_nothing_reads_are_no_steps(function, kinds):
    draw = np.random.default_rng(0)
    params = {"kernel": jnp.float32(draw.normal(size=(4, 4))), "bias": jnp.ones(4)}
    x = jnp.float32(draw.normal(size=(8, 4)))
    quantized = quantize(function, params, [x])
    assert [line.operator for line in quantized.report.lines] == kinds
    assert np.allclose(quantized(x), jnp.float32(function(params, x)), atol=0.2)


def mapped(params, x):
    """A layer of one image, as Equinox has it."""

    def of_one(x):
        y = lax.conv_general_dilated(x[None], params["filter"], (1, 1), "SAME")[0]
        return jax.nn.relu(y * 2 + params["bias"])

    return jax.vmap(of_one)(x)


def unmapped(params, x):
    y = lax.conv_general_dilated(x, params["filter"], (1, 1), "SAME")
    return jax.nn.relu(y * 2 + params["bias"])


def transposed(params, x):
    y = jnp.moveaxis(jnp.tensordot(x, params["kernel"], ((1,), (0,))), -1, 1)
    return jax.nn.relu(y / 2 - params["bias"])


def untransposed(params, x):
    y = jnp.tensordot(x, params["kernel"], ((1,), (0,)))
    return jnp.moveaxis(jax.nn.relu(y / 2 - params["bias"].ravel()), -1, 1)


def heads(params, x):
    return (x[:, :, 0, 0] @ params["kernel"]).reshape(2, 2, 3) + params["bias"].reshape(2, 3)


def flat_heads(params, x):
    return (x[:, :, 0, 0] @ params["kernel"] + params["bias"].ravel()).reshape(2, 2, 3)


@pytest.mark.parametrize(
    ("function", "same"), [(mapped, unmapped), (transposed, untransposed), (heads, flat_heads)]
)
def test_what_follows_the_moves_of_a_layer_is_part_of_it(function, same):
    draw = np.random.default_rng(0)
    shapes = {"filter": (6, 4, 3, 3), "kernel": (4, 6), "bias": (6, 1, 1)}
    params = {name: jnp.float32(draw.normal(size=shape)) for name, shape in shapes.items()}
    x = jnp.float32(draw.normal(size=(2, 4, 5, 7)))
    quantized, expected = (quantize(f, params, [x], arithmetic="float32") for f in (function, same))
    assert len(quantized.report.lines) == 1
    assert np.array_equal(quantized(x), expected(x))
    assert np.array_equal(quantized.training()(params, x), expected(x))
    tuned = jax.tree.map(lambda p: p * 1.5, params)
    assert np.array_equal(quantized.with_params(tuned)(x), expected.with_params(tuned)(x))


def test_a_bias_that_varies_within_an_axis_of_a_layer_is_a_sum():
    def function(params, x):
        y = (x @ params["kernel"]).reshape(2, 2, 3) + params["bias"]
        return y @ params["last"]

    draw = np.random.default_rng(0)
    shapes = {"kernel": (4, 6), "bias": (3,), "last": (3, 5)}
    params = {name: jnp.float32(draw.normal(size=shape)) for name, shape in shapes.items()}
    x = jnp.float32(draw.normal(size=(2, 4)))
    quantized = quantize(function, params, [x])
    assert [line.operator for line in quantized.report.lines] == ["product", "sum", "product"]
    assert np.allclose(quantized(x), function(params, x), atol=0.3)


def test_the_report_counts_the_other_floats_by_line():
    quantized = quantize(lambda w, x: jnp.cumsum(x @ w, 1) / 3 @ w, jnp.eye(4), [jnp.ones((2, 4))])
    ((place, count),) = quantized.report.floats.items()
    assert place.startswith("quantization/test_quantize.py:")
    assert count == 2
    assert f"\nin float: 2 at {place}\n" in str(quantized.report)
