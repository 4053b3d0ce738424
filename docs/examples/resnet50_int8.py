"""ResNet-50 in 8 bits, composed by hand from dmlax's operators, and the same network from a file.

    python docs/examples/resnet50_int8.py --size 224

The weights are random, so the scores mean nothing; the bits of both networks are compared. Needs
onnx besides dmlax.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax.onnx
from dmlax import calibration

Layer = dict[str, Any]
Layers = dict[str, Layer]
Ranges = dict[str, calibration.Quantization]
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, first stride
AXES = ("NHWC", "HWIO", "NHWC")
STEM = {"strides": 2, "padding": [(3, 3), (3, 3)]}
POOL = {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1}


class Block(NamedTuple):
    """A bottleneck: 1x1, 3x3 and 1x1 convolutions and a sum with the block's input."""

    name: str
    width: int
    stride: int
    has_skip: bool  # a convolution fits the block's input to its output


BLOCKS = tuple(
    Block(f"{stage}.{i}", width, 1 if i else stride, not i)
    for stage, (width, count, stride) in enumerate(STAGES)
    for i in range(count)
)

# The float network -----------------------------------------------------------------------------


def random_weights(rng: np.random.Generator) -> Layers:
    """Weights (height, width, inputs, outputs) and biases by layer."""
    shapes, inputs = {"stem": (7, 7, 3, 64)}, 64
    for name, width, _, has_skip in BLOCKS:
        shapes |= {f"{name}.reduce": (1, 1, inputs, width), f"{name}.middle": (3, 3, width, width)}
        shapes |= {f"{name}.expand": (1, 1, width, 4 * width)}
        if has_skip:
            shapes |= {f"{name}.skip": (1, 1, inputs, 4 * width)}
        inputs = 4 * width
    shapes |= {"scores": (inputs, 1000)}
    layers = {}
    for name, shape in shapes.items():
        deviation = np.float32(2 / np.prod(shape[:-1])) ** 0.5
        weights = deviation * rng.standard_normal(shape, np.float32)
        bias = rng.standard_normal(shape[-1:], np.float32) / 10
        layers[name] = {"weights": jnp.asarray(weights), "bias": jnp.asarray(bias)}
    return layers


def activations(layers: Layers, images: Array) -> dict[str, Array]:
    """Every tensor that is quantized, by name, in float32."""
    a = {"images": images}

    def convolve(name: str, x: Array, relu: bool = True, **options: Any) -> Array:
        options = {"window_strides": (1, 1), "padding": [(0, 0)] * 2, **options}
        y = lax.conv_general_dilated(x, layers[name]["weights"], dimension_numbers=AXES, **options)
        y += layers[name]["bias"]
        a[name] = jax.nn.relu(y) if relu else y
        return a[name]

    x = convolve("stem", images, window_strides=(2, 2), padding=[(3, 3)] * 2)
    edges = [(0, 0), (1, 1), (1, 1), (0, 0)]
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edges)
    for name, _, stride, has_skip in BLOCKS:
        strides = {"window_strides": (stride, stride)}
        skip = convolve(f"{name}.skip", x, relu=False, **strides) if has_skip else x
        y = convolve(f"{name}.reduce", x)
        y = convolve(f"{name}.middle", y, padding=[(1, 1)] * 2, **strides)
        x = jax.nn.relu(convolve(f"{name}.expand", y, relu=False) + skip)
        a[f"{name}.sum"] = x
    a["mean"] = x.mean(axis=(1, 2))
    a["scores"] = a["mean"] @ layers["scores"]["weights"] + layers["scores"]["bias"]
    return a


# The quantized network -------------------------------------------------------------------------


def quantize(layers: Layers, ranges: Ranges) -> Layers:
    """Packs each layer's weights in 8 bits, and quantizes its bias to the scale of its sums."""
    inputs, x = {"stem": "images", "scores": "mean"}, "stem"
    for block in BLOCKS:
        name = block.name
        inputs |= {f"{name}.reduce": x, f"{name}.skip": x}
        inputs |= {f"{name}.middle": f"{name}.reduce", f"{name}.expand": f"{name}.middle"}
        x = f"{name}.sum"
    quantized = {}
    for name, layer in layers.items():
        weights = calibration.quantize_weights(layer["weights"], axis=-1)
        packed = (
            dmlax.prepare_matrix(weights.values)
            if name == "scores"
            else dmlax.prepare_filter(weights.values, dimension_numbers=AXES)
        )
        scales = {"input_scale": ranges[inputs[name]].scale, "filter_scale": weights.scale}
        bias = calibration.quantize_bias(layer["bias"], **scales)
        quantized[name] = {"weights": packed, "scale": weights.scale, "bias": bias}
    return quantized


class Tensor(NamedTuple):
    """A tensor in uint8, and its quantization."""

    values: Array
    quantization: calibration.Quantization


def resnet50(layers: Layers, ranges: Ranges, images: Array) -> Array:
    """The scores of 1,000 classes in uint8, like everything between.

    The relus need no operation: a tensor after a relu has the zero point 0, so the clamp is the
    relu. `arithmetic="float32"` rounds as ONNX Runtime does.
    """

    def arguments(name: str, x: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        scales = calibration.keywords(input=x.quantization, output=ranges[name])
        options = {"filter_scale": layers[name]["scale"], "arithmetic": "float32"}
        return (x.values, layers[name]["weights"], layers[name]["bias"]), scales | options

    def convolve(name: str, x: Tensor, **window: Any) -> Tensor:
        operands, options = arguments(name, x)
        y = dmlax.quantized_linear_convolution(*operands, **options, **window)
        return Tensor(y, ranges[name])

    def convolve_add(block: str, x: Tensor, addend: Tensor) -> Tensor:
        operands, options = arguments(f"{block}.expand", x)
        total = ranges[f"{block}.sum"]
        sums = calibration.keywords(addend=addend.quantization, sum=total)
        y = dmlax.quantized_linear_convolution_add(*operands, addend.values, **options, **sums)
        return Tensor(y, total)

    x = dmlax.element_wise_quantize_linear(images, *ranges["images"], arithmetic="float32")
    x = convolve("stem", Tensor(x, ranges["images"]), **STEM)
    x = x._replace(values=dmlax.max_pooling(x.values, dimension_numbers="NHWC", **POOL))
    for name, _, stride, has_skip in BLOCKS:
        skip = convolve(f"{name}.skip", x, strides=stride) if has_skip else x
        y = convolve(f"{name}.reduce", x)
        y = convolve(f"{name}.middle", y, strides=stride, padding=[(1, 1)] * 2)
        x = convolve_add(name, y, skip)
    scales = calibration.keywords(input=x.quantization, output=ranges["mean"])
    mean = dmlax.quantized_linear_global_average_pooling(
        x.values, dimension_numbers="NHWC", arithmetic="float32", **scales
    )
    weights, scale, bias = layers["scores"].values()
    scales = calibration.keywords(a=ranges["mean"], output=ranges["scores"])
    return dmlax.quantized_linear_matrix_multiply(
        mean[:, 0, 0], weights, bias, b_scale=scale, arithmetic="float32", **scales
    )


# Both of them ----------------------------------------------------------------------------------


class Record(NamedTuple):
    """The operators of the composed network, and how it compares with the file's."""

    operators: int
    differ: int
    distinct: int

    def __str__(self) -> str:
        return (
            f"operators                 {self.operators}\n"
            f"scores, distinct values   {self.distinct}\n"
            f"differ from the file's    {self.differ}"
        )


def compose(size: int, count: int) -> tuple[Callable[[Array], Array], Array]:
    """The network with random weights as a function of images, and random images."""
    rng = np.random.default_rng(0)
    images, weights = rng.standard_normal((count, size, size, 3), np.float32), random_weights(rng)
    observe = calibration.min_max().observe
    tensors = jax.jit(activations)(weights, images)
    observed = {name: observe(x) for name, x in tensors.items()}
    ranges = {name: calibration.quantization(seen) for name, seen in observed.items()}
    network = functools.partial(resnet50, quantize(weights, ranges), ranges)
    return network, jnp.asarray(images)


def main(arguments: Sequence[str] | None = None) -> Record:
    """Compose the network, write it as a file, load the file, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=224, help="pixels of an image's side")
    parser.add_argument("--count", type=int, default=1, help="number of images")
    options = parser.parse_args(arguments)
    network, images = compose(options.size, options.count)
    scores = jax.jit(network)(images)
    file = dmlax.onnx.from_jax(network, images, input_names=["images"], form="qoperator")
    loaded = dmlax.onnx.load(file)(images)["output"]
    record = Record(
        operators=len(dmlax.explain(network, images).calls),
        differ=int((loaded != scores).sum()),
        distinct=len(jnp.unique(scores)),
    )
    print(record)
    return record


if __name__ == "__main__":
    main()
