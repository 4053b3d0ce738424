"""Two blocks of larger networks in 8 bits: a transformer's and an inverted residual.

    python docs/examples/blocks_int8.py --output blocks_int8.png

Each is trained in float32 on handwritten digits. Needs matplotlib, rich and scikit-learn
besides dmlax, and digits.py beside it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
from jax import Array, lax

import digits
import dmlax
from digits import Quantization, calibrate

Floats = dict[str, Array]
Ranges = Mapping[str, Quantization]


class Quantized(NamedTuple):
    """A tensor in 8 bits, and what its integers stand for."""

    values: Array  # uint8
    scale: Array
    zero_point: Array


class Weights(NamedTuple):
    """A layer's weights in 8 bits, packed, and its bias in units of both scales."""

    packed: dmlax.PreparedFilter | dmlax.PreparedMatrix
    scale: Array  # float32, one per output channel
    bias: Array  # int32


def normal(key: Array, *shape: int, fan_in: int) -> Array:
    """Random weights."""
    return (2 / fan_in) ** 0.5 * jax.random.normal(key, shape)


def quantize_weights(weights: Array, axis: int) -> tuple[Array, Array]:
    """Maps the weights of each output channel to -127..127, with a scale for the channel."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    scale = jnp.abs(weights).max(axis=others) / 127
    return dmlax.element_wise_quantize_linear(weights, scale, axis=axis, output_dtype="int8"), scale


def matrix(weights: Array, bias: Array, input: Quantization) -> Weights:
    """Quantizes the columns of a matrix."""
    values, scale = quantize_weights(weights, axis=1)
    bias = jnp.round(bias / (input.scale * scale)).astype(jnp.int32)
    return Weights(dmlax.prepare_matrix(values), scale, bias)


def filters(weights: Array, bias: Array, input: Quantization, groups: int = 1) -> Weights:
    """Quantizes the output channels of a filter."""
    values, scale = quantize_weights(weights, axis=0)
    bias = jnp.round(bias / (input.scale * scale)).astype(jnp.int32)
    return Weights(dmlax.prepare_filter(values, group_count=groups), scale, bias)


def quantize(x: Array, to: Quantization) -> Quantized:
    """Rounds floats to 8 bits."""
    return Quantized(dmlax.element_wise_quantize_linear(x, *to), *to)


def dequantize(x: Quantized) -> Array:
    """Converts 8 bits to floats."""
    return dmlax.element_wise_dequantize_linear(*x)


def dense(x: Quantized, weights: Weights, to: Quantization) -> Quantized:
    """Multiplies by a matrix and adds the bias."""
    values = dmlax.quantized_linear_matrix_multiply(
        x.values,
        weights.packed,
        weights.bias,
        a_scale=x.scale,
        a_zero_point=x.zero_point,
        b_scale=weights.scale,
        output_scale=to.scale,
        output_zero_point=to.zero_point,
    )
    return Quantized(values, *to)


def convolve(x: Quantized, weights: Weights, to: Quantization, padding: int) -> Quantized:
    """Convolves and adds the bias; a range that begins at 0 makes it a relu."""
    values = dmlax.quantized_linear_convolution(
        x.values,
        weights.packed,
        weights.bias,
        input_scale=x.scale,
        input_zero_point=x.zero_point,
        filter_scale=weights.scale,
        output_scale=to.scale,
        output_zero_point=to.zero_point,
        padding=[(padding, padding)] * 2,
    )
    return Quantized(values, *to)


def add(a: Quantized, b: Quantized, to: Quantization) -> Quantized:
    """Adds a residual."""
    values = dmlax.element_wise_quantized_linear_add(
        a.values,
        b.values,
        a_scale=a.scale,
        a_zero_point=a.zero_point,
        b_scale=b.scale,
        b_zero_point=b.zero_point,
        output_scale=to.scale,
        output_zero_point=to.zero_point,
    )
    return Quantized(values, *to)


def average(x: Quantized, to: Quantization) -> Quantized:
    """Averages all axes after the channels."""
    values = dmlax.quantized_linear_global_average_pooling(
        x.values,
        input_scale=x.scale,
        input_zero_point=x.zero_point,
        output_scale=to.scale,
        output_zero_point=to.zero_point,
    )
    return Quantized(values, *to)


# A transformer block ---------------------------------------------------------------------------

TOKENS, WIDTH, HEADS = 16, 32, 2
UNIT = Quantization(jnp.float32(1 / 255), jnp.uint8(0))  # the unit of probabilities


def transformer_weights(key: Array) -> Floats:
    """Random weights: patches of 2x2 pixels, one block of attention and one of two layers."""
    keys = iter(jax.random.split(key, 8))
    shapes = {"embed": (4, WIDTH), "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH)}
    shapes |= {"value": (WIDTH, WIDTH), "project": (WIDTH, WIDTH)}
    shapes |= {"wide": (WIDTH, 2 * WIDTH), "narrow": (2 * WIDTH, WIDTH), "scores": (WIDTH, 10)}
    matrices = {name: normal(next(keys), *shape, fan_in=shape[0]) for name, shape in shapes.items()}
    biases = {f"{name} bias": jnp.zeros(shape[1]) for name, shape in shapes.items()}
    return matrices | biases | {"places": jnp.zeros((TOKENS, WIDTH))}


def to_patches(images: Array) -> Array:
    """Patches of 2x2 pixels: (N, 16, 4)."""
    return images.reshape(-1, 4, 2, 4, 2).transpose(0, 1, 3, 2, 4).reshape(-1, TOKENS, 4)


def to_heads(x: Array) -> Array:
    """(N, tokens, width) to (N, heads, tokens, width of a head)."""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def from_heads(x: Array) -> Array:
    """The inverse of `to_heads`."""
    return x.swapaxes(1, 2).reshape(x.shape[0], TOKENS, -1)


def normalise(x: Array) -> Array:
    """LayerNormalization, whose gain is part of the matrix that follows."""
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def transformer(weights: Floats, images: Array) -> Floats:
    """Every activation that is quantized, by name, in float32."""

    def layer(name: str, x: Array) -> Array:
        return x @ weights[name] + weights[f"{name} bias"]

    a = {"patches": to_patches(images)}
    a["embed"] = layer("embed", a["patches"]) + weights["places"]
    a["first norm"] = normalise(a["embed"])
    for name in ("query", "key", "value"):
        a[name] = layer(name, a["first norm"])
    query, key, value = (to_heads(a[name]) for name in ("query", "key", "value"))
    attention = jax.nn.softmax(query @ key.mT / query.shape[-1] ** 0.5)
    a["mixed"] = from_heads(attention @ value)
    a["project"] = layer("project", a["mixed"])
    a["first sum"] = a["embed"] + a["project"]
    a["second norm"] = normalise(a["first sum"])
    a["wide"] = layer("wide", a["second norm"])
    a["gelu"] = jax.nn.gelu(a["wide"])
    a["narrow"] = layer("narrow", a["gelu"])
    a["second sum"] = a["first sum"] + a["narrow"]
    a["mean"] = a["second sum"].mean(axis=1)
    a["scores"] = layer("scores", a["mean"])
    return a


def quantize_transformer(weights: Floats, ranges: Ranges) -> dict[str, Any]:
    """The matrices in 8 bits, the gelu as a table, and the places that are added to the patches."""
    inputs = {"embed": "patches", "project": "mixed", "wide": "second norm", "narrow": "gelu"}
    inputs |= dict.fromkeys(("query", "key", "value"), "first norm") | {"scores": "mean"}
    quantized: dict[str, Any] = {
        name: matrix(weights[name], weights[f"{name} bias"], ranges[source])
        for name, source in inputs.items()
        if name != "embed"
    }
    # The bias of a place is the embedding's bias and the place's vector.
    embed = matrix(weights["embed"], weights["embed bias"], ranges["patches"])
    places = weights["places"] + weights["embed bias"]
    bias = jnp.round(places / (ranges["patches"].scale * embed.scale)).astype(jnp.int32)
    quantized["embed"] = embed._replace(bias=bias)
    every = Quantized(jnp.arange(256, dtype=jnp.uint8), *ranges["wide"])
    quantized["gelu"] = quantize(jax.nn.gelu(dequantize(every)), ranges["gelu"]).values
    return quantized


def transformer_8(weights: dict[str, Any], ranges: Ranges, images: Array) -> Array:
    """The scores in uint8; LayerNormalization and softmax are in float32, all else in 8 bits."""
    x = dense(quantize(to_patches(images), ranges["patches"]), weights["embed"], ranges["embed"])
    normal = quantize(normalise(dequantize(x)), ranges["first norm"])
    query, key, value = (
        dense(normal, weights[name], ranges[name]) for name in ("query", "key", "value")
    )
    logits = dmlax.matrix_multiply_integer_to_float(
        to_heads(query.values),
        to_heads(key.values).mT,
        a_scale=query.scale / (WIDTH / HEADS) ** 0.5,
        b_scale=key.scale,
        a_zero_point=query.zero_point,
        b_zero_point=key.zero_point,
    )
    attention = quantize(jax.nn.softmax(logits), UNIT)
    mixed = dmlax.quantized_linear_matrix_multiply(
        attention.values,
        to_heads(value.values),
        a_scale=attention.scale,
        b_scale=value.scale,
        b_zero_point=value.zero_point,
        output_scale=ranges["mixed"].scale,
        output_zero_point=ranges["mixed"].zero_point,
    )
    mixed = Quantized(from_heads(mixed), *ranges["mixed"])
    x = add(x, dense(mixed, weights["project"], ranges["project"]), ranges["first sum"])
    normal = quantize(normalise(dequantize(x)), ranges["second norm"])
    wide = dense(normal, weights["wide"], ranges["wide"])
    gelu = Quantized(dmlax.quantized_lookup(wide.values, weights["gelu"]), *ranges["gelu"])
    x = add(x, dense(gelu, weights["narrow"], ranges["narrow"]), ranges["second sum"])
    mean = average(x._replace(values=x.values.mT), ranges["mean"])
    mean = mean._replace(values=mean.values[:, :, 0])
    return dense(mean, weights["scores"], ranges["scores"]).values


# An inverted residual block --------------------------------------------------------------------

CHANNELS, EXPANDED = 16, 64


def residual_weights(key: Array) -> Floats:
    """Random weights: a stem, an expansion, a depthwise convolution, a projection, a classifier."""
    shapes = {"stem": (CHANNELS, 1, 3, 3), "expand": (EXPANDED, CHANNELS, 1, 1)}
    shapes |= {"depthwise": (EXPANDED, 1, 3, 3), "project": (CHANNELS, EXPANDED, 1, 1)}
    keys = jax.random.split(key, len(shapes) + 1)
    weights = {
        name: normal(one_key, *shape, fan_in=shape[1] * shape[2] * shape[3])
        for one_key, (name, shape) in zip(keys, shapes.items(), strict=False)
    }
    weights |= {f"{name} bias": jnp.zeros(shape[0]) for name, shape in shapes.items()}
    scores = normal(keys[-1], CHANNELS, 10, fan_in=CHANNELS)
    return weights | {"scores": scores, "scores bias": jnp.zeros(10)}


def residual(weights: Floats, images: Array) -> Floats:
    """Every activation that is quantized, by name, in float32."""

    def layer(name: str, x: Array, groups: int = 1) -> Array:
        filter = weights[name]
        padding = [(filter.shape[2] // 2,) * 2] * 2
        y = lax.conv_general_dilated(x, filter, (1, 1), padding, feature_group_count=groups)
        return y + weights[f"{name} bias"][:, None, None]

    a = {"images": images}
    a["stem"] = jax.nn.relu(layer("stem", images))
    a["expand"] = jax.nn.relu(layer("expand", a["stem"]))
    a["depthwise"] = jax.nn.relu(layer("depthwise", a["expand"], EXPANDED))
    a["project"] = layer("project", a["depthwise"])
    a["sum"] = a["stem"] + a["project"]
    a["mean"] = a["sum"].mean(axis=(2, 3))
    a["scores"] = a["mean"] @ weights["scores"] + weights["scores bias"]
    return a


def quantize_residual(weights: Floats, ranges: Ranges) -> dict[str, Any]:
    """The filters and the classifier's matrix in 8 bits."""
    inputs = {"stem": "images", "expand": "stem", "depthwise": "expand", "project": "depthwise"}
    groups = {"depthwise": EXPANDED}
    quantized = {
        name: filters(weights[name], weights[f"{name} bias"], ranges[source], groups.get(name, 1))
        for name, source in inputs.items()
    }
    return quantized | {"scores": matrix(weights["scores"], weights["scores bias"], ranges["mean"])}


def residual_8(weights: dict[str, Any], ranges: Ranges, images: Array) -> Array:
    """The scores in uint8, like everything between."""
    stem = convolve(quantize(images, ranges["images"]), weights["stem"], ranges["stem"], 1)
    x = convolve(stem, weights["expand"], ranges["expand"], 0)
    x = convolve(x, weights["depthwise"], ranges["depthwise"], 1)
    x = convolve(x, weights["project"], ranges["project"], 0)
    mean = average(add(stem, x, ranges["sum"]), ranges["mean"])
    mean = mean._replace(values=mean.values[:, :, 0, 0])
    return dense(mean, weights["scores"], ranges["scores"]).values


# Both ------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """A network in float32 and in 8 bits."""

    name: str
    initial: Callable[[Array], Floats]
    activations: Callable[[Floats, Array], Floats]
    quantize: Callable[[Floats, Ranges], dict[str, Any]]
    scores_8: Callable[[dict[str, Any], Ranges, Array], Array]


BLOCKS = (
    Block("transformer", transformer_weights, transformer, quantize_transformer, transformer_8),
    Block("inverted residual", residual_weights, residual, quantize_residual, residual_8),
)


def main(arguments: Sequence[str] = ()) -> dict[str, digits.Record]:
    """Train, quantize, compare, draw."""
    options = digits.parse_options(__doc__, arguments, steps=600)
    known, unseen = digits.load()
    records, scores = {}, {}
    for block in BLOCKS:

        def scores_of(weights: Floats, images: Array, block: Block = block) -> Array:
            return block.activations(weights, images)["scores"]

        initial = block.initial(jax.random.key(2))
        weights = digits.train(scores_of, initial, known, options.steps, jax.random.key(3))
        ranges = {k: calibrate(v) for k, v in block.activations(weights, known.images).items()}
        run = jax.jit(block.scores_8)
        weights_8 = block.quantize(weights, ranges)
        record, in_8 = digits.compare(
            scores_of(weights, unseen.images),
            lambda x, run=run, weights=weights_8, ranges=ranges: run(weights, ranges, x),
            unseen,
        )
        print(f"{block.name}\n{record}")
        in_float = scores_of(weights, unseen.images)
        real = dequantize(Quantized(in_8, *ranges["scores"]))
        records[block.name], scores[block.name] = record, (in_float, real)
    if options.output:
        draw(options.output, records, scores)
    return records


def draw(
    path: Path, records: Mapping[str, digits.Record], scores: Mapping[str, tuple[Array, Array]]
) -> None:
    """Draws the scores of both networks in 8 bits over those in float32."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(records), figsize=(10, 4.4), layout="constrained")
    for box, (name, record) in zip(axes, records.items(), strict=True):
        x, y = scores[name]
        ends = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
        box.plot(ends, ends, color="0.7", linewidth=1)
        box.plot(x.ravel(), y.ravel(), ".", markersize=2, alpha=0.5)
        accuracies = f"{record.float_accuracy:.1%} and {record.int8_accuracy:.1%} right"
        box.set_title(f"{name}: {accuracies}")
        box.set(xlabel="score in float32", ylabel="score in 8 bits", aspect="equal")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
