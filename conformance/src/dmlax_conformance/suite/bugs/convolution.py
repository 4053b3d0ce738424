"""Convolutions in steps, each of which a bug can replace; spatial axes come last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np

from ...operators._shared import floats
from ...operators._shared.convolution import Windows
from ...operators._shared.floats import Real
from .rounding import Rounding
from .steps import Array, Call, Outputs, Sizes, fractions

Inputs = Mapping[str, Array]


def without(array: Array, zero_point: Array) -> Array:
    """Subtract a zero point that has the rank of the tensor."""
    return array.astype(np.int64) - zero_point.astype(np.int64)


def each_channel(parameter: Array, channels: int) -> Array:
    """Return one value for each output channel."""
    return np.broadcast_to(parameter.reshape(-1), (channels,))


def pad_zeros(centred: Array, windows: Windows, zero_point: int) -> Array:
    """Surround the image, from which the zero point is already taken, by zeros."""
    around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.pad(centred, around)


def first_of_group(channel: int, channels: int, width: int, groups: int) -> list[int]:
    """Return the input channels that an output channel reads."""
    first = channel // (channels // groups) * width
    return list(range(first, first + width))


def taps(padded: Array, kernel: Sizes, spatial: Sizes, windows: Windows) -> Array:
    """Return (N, C, tap, ...): what lies under each place of the kernel, for every output."""
    views = []
    for tap in product(*map(range, kernel)):
        rows = zip(tap, spatial, windows.strides, windows.dilations, strict=True)
        places = [slice(t * d, t * d + (o - 1) * s + 1, s) for t, o, s, d in rows]
        views.append(padded[(slice(None), slice(None), *places)])
    return np.stack(views, 2)


def total(products: Array) -> Array:
    """Add up (N, product, ...) over all products."""
    return np.asarray(products.sum(1))


def wrapped(sums: Array) -> Array:
    """Keep the low 32 bits."""
    return sums.astype(np.int32).astype(np.int64)


@dataclass(frozen=True)
class Sums:
    """The steps of the integer sums, in order."""

    centre: Callable[[Array, Array], Array] = without
    centre_filters: Callable[[Array, Array], Array] = without
    pad: Callable[[Array, Windows, int], Array] = pad_zeros
    sizes: Callable[[Windows, Sizes, Sizes], Sizes] = Windows.output_sizes
    taps: Callable[[Array, Sizes, Sizes, Windows], Array] = taps
    reads: Callable[[int, int, int, int], list[int]] = first_of_group
    total: Callable[[Array], Array] = total
    wrap: Callable[[Array], Array] = wrapped

    def __call__(self, call: Call) -> Array:
        """Return the 32-bit sums, one for each output element."""
        x, w = call.inputs["InputTensor"], call.inputs["FilterTensor"]
        windows = Windows.of(call.attributes)
        zx = call.inputs.get("InputZeroPointTensor", np.zeros(1, x.dtype)).reshape(-1)[0]
        zw = call.inputs.get("FilterZeroPointTensor", np.zeros(1, w.dtype))
        zw = each_channel(zw, len(w))
        padded = self.pad(self.centre(x, zx), windows, int(zx))
        filters = self.centre_filters(w, zw.reshape((-1,) + (1,) * (w.ndim - 1)))
        spatial = self.sizes(windows, x.shape[2:], w.shape[2:])
        if min(len(x), *spatial) < 1:
            return np.zeros((len(x), len(w), *(max(size, 0) for size in spatial)), np.int64)
        under = self.taps(padded, w.shape[2:], spatial, windows)
        found = [
            self._channel(under[:, self.reads(k, len(w), w.shape[1], windows.groups)], filters[k])
            for k in range(len(w))
        ]
        return self.wrap(np.stack(found, 1))

    def _channel(self, under: Array, own: Array) -> Array:
        """Return (N, ...): the sums of one output channel."""
        factors = own.reshape(own.shape[0], -1, *(1,) * (under.ndim - 3))
        products = under * factors
        return self.total(products.reshape(len(under), -1, *under.shape[3:]))


def add_bias(sums: Array, bias: Array) -> Array:
    """Add one INT32 for each output channel, within 32 bits."""
    own = bias.astype(np.int64).reshape((1, -1) + (1,) * (sums.ndim - 2))
    return wrapped(sums + own)


Scales = tuple[Fraction, Fraction, Fraction]


def exact_rescale(accumulator: int, scales: Scales) -> Real:
    """Return accumulator * input scale * filter scale / output scale in real arithmetic."""
    return floats.exactly(accumulator * _multiplier(scales))


@cache
def _multiplier(scales: Scales) -> Fraction:
    sx, sw, sy = scales
    return sx * sw / sy


def output_dtype(call: Call) -> str:
    """Return the data type that is asked for."""
    return call.outputs["OutputTensor"].dtype


@dataclass(frozen=True)
class Requantize:
    """The steps from sums to the quantized output, in order."""

    bias: Callable[[Array, Array], Array] = add_bias
    rescale: Callable[[int, Scales], Real] = exact_rescale
    rounding: Rounding = field(default_factory=Rounding)
    dtype: Callable[[Call], str] = output_dtype
    store: Callable[[list[int], str], Array] = np.array

    def __call__(self, sums: Array, call: Call) -> Outputs:
        """Return the quantized output."""
        given, dtype = call.inputs, self.dtype(call)
        if "BiasTensor" in given:
            sums = self.bias(sums, given["BiasTensor"])
        filter_scale = each_channel(given["FilterScaleTensor"], sums.shape[1])
        sx, sy = (fractions(given[f"{name}ScaleTensor"])[0] for name in ("Input", "Output"))
        scales = [(sx, sw, sy) for sw in fractions(filter_scale)]
        point = int(given.get("OutputZeroPointTensor", np.zeros(1, np.int8)).reshape(-1)[0])
        channels = np.broadcast_to(
            np.arange(sums.shape[1]).reshape((1, -1) + (1,) * (sums.ndim - 2)), sums.shape
        )
        pairs = zip(sums.reshape(-1).tolist(), channels.reshape(-1).tolist(), strict=True)
        found = [self.rounding(self.rescale(v, scales[c]), point, dtype) for v, c in pairs]
        return {"OutputTensor": self.store(found, dtype).reshape(sums.shape)}


def store_sums(sums: Array, call: Call) -> Outputs:
    """Return the sums as the output."""
    return {"OutputTensor": sums.astype(np.int32)}
