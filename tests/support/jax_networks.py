"""Quantized networks written in JAX with dmlax's operators, with drawn weights of 7 bits.

ONNX Runtime saturates sums of 8 bits on processors without VNNI.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

import dmlax

_FLOAT32: Any = {"arithmetic": "float32"}
_LAYOUTS = {"NCHW": ("NCHW", "OIHW", "NCHW"), "NHWC": ("NHWC", "HWIO", "NHWC")}


class Quantized(NamedTuple):
    """A tensor with its scale and its zero point."""

    values: Array
    scale: np.float32
    zero_point: np.uint8 = np.uint8(0)


class Layers:
    """Layers whose weights and output scales are drawn in a first run, and the same later."""

    def __init__(self, layout: str, seed: int = 0) -> None:
        self.layout = layout
        self._generator = np.random.default_rng(seed)
        self._drawn: list[Any] = []
        self._next = 0

    def start(self) -> None:
        """Begins another run."""
        self._next = 0

    def _parameters(self, draw: Callable[[], Any]) -> Any:
        if self._next == len(self._drawn):
            self._drawn.append(draw())
        self._next += 1
        return self._drawn[self._next - 1]

    def _channels(self, x: Quantized) -> int:
        return int(x.values.shape[self.layout.index("C")])

    def conv(
        self,
        x: Quantized,
        count: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        relu: bool = True,
    ) -> Quantized:
        """A convolution with a bias; uint8 with a zero point of 0 makes it a ReLU too."""
        channels = self._channels(x) // groups
        layouts = _LAYOUTS[self.layout]

        def draw() -> Any:
            generator = self._generator
            sizes = {"O": count, "I": channels, "H": kernel, "W": kernel}
            filter = generator.integers(-64, 64, [sizes[axis] for axis in layouts[1]], np.int8)
            scales = (generator.uniform(0.5, 1.5, count) / 4096).astype(np.float32)
            deviation = 2 / 3 * 37 * 128 * np.sqrt(channels * kernel**2)
            bias = generator.normal(0, deviation / 4, count).astype(np.int32)
            scale = np.float32(deviation / 4096 / 40 * x.scale * generator.uniform(0.9, 1.1))
            zero_point = np.uint8(0 if relu else generator.integers(100, 150))
            return filter, scales, bias, scale, zero_point

        filter, scales, bias, scale, zero_point = self._parameters(draw)
        values = dmlax.quantized_linear_convolution(
            x.values,
            filter,
            bias,
            input_scale=x.scale,
            input_zero_point=x.zero_point,
            filter_scale=scales,
            output_scale=scale,
            output_zero_point=zero_point,
            strides=stride,
            start_padding=kernel // 2,
            end_padding=kernel // 2,
            group_count=groups,
            dimension_numbers=layouts,
            **_FLOAT32,
        )
        return Quantized(values, scale, zero_point)

    def add(self, a: Quantized, b: Quantized, relu: bool = True) -> Quantized:
        """A sum."""
        scale = np.float32(np.hypot(a.scale, b.scale) * 0.98)
        zero_point = np.uint8(0 if relu else 128)
        values = dmlax.element_wise_quantized_linear_add(
            a.values,
            b.values,
            a_scale=a.scale,
            b_scale=b.scale,
            output_scale=scale,
            a_zero_point=a.zero_point,
            b_zero_point=b.zero_point,
            output_zero_point=zero_point,
            **_FLOAT32,
        )
        return Quantized(values, scale, zero_point)

    def max_pool(self, x: Quantized) -> Quantized:
        """The maximum of windows of 3x3, every second."""
        options: Any = {"window_size": 3, "strides": 2, "start_padding": 1, "end_padding": 1}
        values = dmlax.max_pooling(x.values, dimension_numbers=self.layout, **options)
        return x._replace(values=values)

    def classifier(self, x: Quantized, classes: int) -> Array:
        """The mean of every channel, and a fully connected layer."""
        scale, channels = np.float32(x.scale * 0.5), self._channels(x)
        mean = dmlax.quantized_linear_global_average_pooling(
            x.values,
            input_scale=x.scale,
            input_zero_point=x.zero_point,
            output_scale=scale,
            output_zero_point=x.zero_point,
            dimension_numbers=self.layout,
            **_FLOAT32,
        )
        rows = mean.reshape(x.values.shape[0], channels)

        def draw() -> Any:
            weights = self._generator.integers(-64, 64, (channels, classes), np.int8)
            return weights, self._generator.integers(-9999, 9999, classes, np.int32)

        weights, bias = self._parameters(draw)
        output_scale = np.float32(scale * 0.01 * np.sqrt(channels) * 20)
        logits = dmlax.quantized_linear_matrix_multiply(
            rows,
            weights,
            bias,
            a_scale=scale,
            a_zero_point=x.zero_point,
            b_scale=np.float32(0.01),
            output_scale=output_scale,
            output_zero_point=np.uint8(128),
            **_FLOAT32,
        )
        return dmlax.element_wise_dequantize_linear(logits, output_scale, np.uint8(128))


def _quantize(images: Array) -> Quantized:
    scale, zero_point = np.float32(0.02), np.uint8(120)
    values = dmlax.element_wise_quantize_linear(images, scale, zero_point, **_FLOAT32)
    return Quantized(values, scale, zero_point)


def resnet(
    layout: str, depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000
) -> Callable[[Array], Array]:
    """A network of bottlenecks; ResNet-50 by default."""
    layers = Layers(layout)

    def apply(images: Array) -> Array:
        layers.start()
        x = layers.max_pool(layers.conv(_quantize(images), width, 7, 2))
        for stage, depth in enumerate(depths):
            inner = width * 2**stage
            for block in range(depth):
                stride = 2 if stage and not block else 1
                y = layers.conv(layers.conv(x, inner), inner, 3, stride)
                y = layers.conv(y, 4 * inner, relu=False)
                shortcut = x if block else layers.conv(x, 4 * inner, 1, stride, relu=False)
                x = layers.add(y, shortcut)
        return layers.classifier(x, classes)

    return apply


_MOBILENET = (  # expansion, channels, blocks, stride
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet(
    layout: str, rows: tuple[tuple[int, ...], ...] = _MOBILENET, last: int = 1280
) -> Callable[[Array], Array]:
    """A network of inverted residuals; MobileNetV2 by default."""
    layers = Layers(layout, 1)

    def apply(images: Array) -> Array:
        layers.start()
        x = layers.conv(_quantize(images), 32, 3, 2)
        for expansion, channels, blocks, first in rows:
            for block in range(blocks):
                stride = 1 if block else first
                y = layers.conv(x, expansion * layers._channels(x)) if expansion > 1 else x
                y = layers.conv(y, layers._channels(y), 3, stride, layers._channels(y))
                y = layers.conv(y, channels, relu=False)
                x = layers.add(x, y, relu=False) if block else y
        return layers.classifier(layers.conv(x, last), 1000 if rows is _MOBILENET else 10)

    return apply


def draw_images(layout: str, size: int, count: int = 1) -> Array:
    """Normal pixels."""
    shape = {"N": count, "C": 3, "H": size, "W": size}
    images = np.random.default_rng(2).standard_normal([shape[axis] for axis in layout])
    return jnp.asarray(images, jnp.float32)
