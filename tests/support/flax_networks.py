"""ResNet-50, MobileNetV2, ViT and a U-Net written in Flax, in any size, with random weights."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen, nnx
from jax import Array


class Model(NamedTuple):
    """`function(params, images)`, and its params."""

    function: Callable[..., Any]
    params: Any


def _split(network: nnx.Module) -> Model:
    network.eval()
    graph, params = nnx.split(network)
    return Model(lambda params, x: nnx.merge(graph, params)(x), params)


class _Block(nnx.Module):
    """A convolution, a batch norm with running statistics that differ, and an activation."""

    def __init__(self, inputs: int, outputs: int, size: int, rngs: nnx.Rngs, **options: Any):
        self.act = options.pop("act", nnx.relu)
        sizes = {"kernel_size": (size, size), "use_bias": False, "rngs": rngs, **options}
        self.conv, self.norm = nnx.Conv(inputs, outputs, **sizes), nnx.BatchNorm(outputs, rngs=rngs)
        draw = [jax.random.uniform(rngs.params(), (outputs,)) for _ in range(4)]
        self.norm.mean[...], self.norm.var[...] = draw[0] - 0.5, draw[1] + 0.5
        self.norm.scale[...], self.norm.bias[...] = draw[2] + 0.5, draw[3] - 0.5

    def __call__(self, x: Array) -> Array:
        return self.act(self.norm(self.conv(x)))


def _same(x: Array) -> Array:
    return x


class _Bottleneck(nnx.Module):
    def __init__(self, inputs: int, width: int, stride: int, rngs: nnx.Rngs):
        self.narrow = _Block(inputs, width, 1, rngs)
        self.middle = _Block(width, width, 3, rngs, strides=stride)
        self.wide = _Block(width, 4 * width, 1, rngs, act=_same)
        ends = inputs != 4 * width
        short = _Block(inputs, 4 * width, 1, rngs, strides=stride, act=_same) if ends else _same
        self.short = short

    def __call__(self, x: Array) -> Array:
        return nnx.relu(self.wide(self.middle(self.narrow(x))) + self.short(x))


class _ResNet(nnx.Module):
    def __init__(self, blocks: Sequence[int], width: int, classes: int, rngs: nnx.Rngs):
        self.stem = _Block(3, width, 7, rngs, strides=2)
        layers, inputs = [], width
        for stage, count in enumerate(blocks):
            for i in range(count):
                stride = 2 if stage and not i else 1
                layers.append(_Bottleneck(inputs, width << stage, stride, rngs))
                inputs = 4 * (width << stage)
        self.blocks, self.head = nnx.List(layers), nnx.Linear(inputs, classes, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        x = nnx.max_pool(self.stem(x), (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


def resnet(blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> Model:
    """ResNet-50 in NNX."""
    return _split(_ResNet(blocks, width, classes, nnx.Rngs(0)))


class _Inverted(nnx.Module):
    def __init__(self, inputs: int, outputs: int, factor: int, stride: int, rngs: nnx.Rngs):
        wide = inputs * factor
        layers = [_Block(inputs, wide, 1, rngs, act=nnx.relu6)] if factor > 1 else []
        depthwise = {"strides": stride, "feature_group_count": wide, "act": nnx.relu6}
        layers += [_Block(wide, wide, 3, rngs, **depthwise)]
        self.layers = nnx.Sequential(*layers, _Block(wide, outputs, 1, rngs, act=_same))
        self.adds = stride == 1 and inputs == outputs

    def __call__(self, x: Array) -> Array:
        y = self.layers(x)
        return x + y if self.adds else y


_STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)),
    *((6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet(
    stages: Sequence[tuple[int, int, int, int]] = _STAGES, last: int = 1280, classes: int = 1000
) -> Model:
    """MobileNetV2 in NNX; a stage is (factor, channels, count, stride)."""
    rngs, inputs = nnx.Rngs(0), 32
    layers: list[Any] = [_Block(3, inputs, 3, rngs, strides=2, act=nnx.relu6)]
    for factor, outputs, count, stride in stages:
        for i in range(count):
            layers.append(_Inverted(inputs, outputs, factor, 1 if i else stride, rngs))
            inputs = outputs
    layers += [_Block(inputs, last, 1, rngs, act=nnx.relu6), lambda x: x.mean((1, 2))]
    return _split(nnx.Sequential(*layers, nnx.Linear(last, classes, rngs=rngs)))


class _ViT(linen.Module):
    depth: int
    width: int
    heads: int
    patch: int
    classes: int

    @linen.compact
    def __call__(self, x: Array) -> Array:
        patch, normal = (self.patch, self.patch), linen.initializers.normal(1.0)  # as the patches
        x = linen.Conv(self.width, patch, patch, padding="VALID")(x)
        x = x.reshape(len(x), -1, self.width)
        first = self.param("class", normal, (1, 1, self.width))
        x = jnp.concatenate([jnp.tile(first, (len(x), 1, 1)), x], 1)
        x = x + self.param("places", normal, (1, *x.shape[1:]))
        for _ in range(self.depth):
            y = linen.LayerNorm()(x)
            x = x + linen.MultiHeadDotProductAttention(self.heads)(y, y)
            y = linen.gelu(linen.Dense(4 * self.width)(linen.LayerNorm()(x)))
            x = x + linen.Dense(self.width)(y)
        return linen.Dense(self.classes)(linen.LayerNorm()(x)[:, 0])


def vit(
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    patch: int = 16,
    size: int = 224,
    classes: int = 1000,
) -> Model:
    """ViT-B/16 in Linen."""
    model = _ViT(depth, width, heads, patch, classes)
    return Model(model.apply, jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, size, size, 3))))


class _Separable(nnx.Module):
    """A depthwise and a pointwise convolution, squeezed and excited."""

    def __init__(self, inputs: int, outputs: int, stride: int, rngs: nnx.Rngs):
        depthwise = {"strides": stride, "feature_group_count": inputs, "act": nnx.hard_swish}
        self.depthwise = _Block(inputs, inputs, 3, rngs, **depthwise)
        self.pointwise = _Block(inputs, outputs, 1, rngs, act=nnx.hard_swish)
        self.squeeze = nnx.Linear(outputs, outputs // 4, rngs=rngs)
        self.excite = nnx.Linear(outputs // 4, outputs, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        x = self.pointwise(self.depthwise(x))
        gate = self.excite(nnx.relu(self.squeeze(x.mean((1, 2)))))
        return x * nnx.sigmoid(gate)[:, None, None]


class _UNet(nnx.Module):
    def __init__(self, width: int, rngs: nnx.Rngs):
        sizes = ((3, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2))
        self.down = nnx.List([_Separable(*each, rngs) for each in sizes])
        self.up = nnx.ConvTranspose(4 * width, 2 * width, (2, 2), strides=2, rngs=rngs)
        joined = ((4 * width, 2 * width, 1), (3 * width, width, 1))
        self.joined = nnx.List([_Separable(*each, rngs) for each in joined])
        self.classes = nnx.Conv(width, 5, (1, 1), rngs=rngs)

    def __call__(self, x: Array) -> Array:
        first = self.down[0](x)
        second = self.down[1](first)
        x = self.up(self.down[2](second))
        x = self.joined[0](jnp.concatenate([x, second], -1))
        x = jax.image.resize(x, (*first.shape[:3], x.shape[3]), "nearest")
        return self.classes(self.joined[1](jnp.concatenate([x, first], -1)))


def unet(width: int = 16) -> Model:
    """A U-Net in NNX: squeeze and excitation, concatenations, both ways to upsample."""
    return _split(_UNet(width, nnx.Rngs(0)))
