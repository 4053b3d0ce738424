"""Planted bugs of the integer sums, the same in both convolutions."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ...operators._shared.convolution import Windows
from . import bugs_windows
from .bugs_windows import Bug
from .convolution import each_channel, first_of_group, taps, without
from .record import Mutant, mutant, with_steps
from .steps import Array, Sizes


class Place(NamedTuple):
    """A convolution, and its clauses by topic."""

    operator: str
    clauses: Mapping[str, str]


PLACES = (
    Place(
        "quantized_linear_convolution",
        {
            "sum": "QLC-1 QLC-2",
            "pad": "QLC-3",
            "window": "QLC-8",
            "group": "QLC-9",
            "filter-point": "QLC-2 QLC-7",
            "absent": "QLC-11",
            "overflow": "QLC-12",
            "type": "QLC-2 QLC-10",
        },
    ),
    Place(
        "convolution_integer",
        {
            "sum": "CVI-1",
            "pad": "CVI-2",
            "window": "CVI-3",
            "group": "CVI-3",
            "filter-point": "CVI-1 CVI-5",
            "absent": "CVI-1",
            "overflow": "CVI-6",
            "type": "CVI-4",
        },
    ),
)


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module, once for each operator."""
    for place in PLACES:
        for topic, name, about, steps in _bugs():
            made = with_steps("sums", **steps)
            yield mutant(place.operator, name, place.clauses[topic], about, made)


def _bugs() -> Iterator[Bug]:
    yield from bugs_windows.bugs()
    yield from _zero_points()
    yield from _filters()
    yield from _channels()
    yield from _accumulators()


# -- zero points -------------------------------------------------------------------------------


def _in_8_bits(array: Array, zero_point: Array) -> Array:
    return without(array, zero_point).astype(array.dtype).astype(np.int64)


def _saturated(array: Array, zero_point: Array) -> Array:
    return np.clip(without(array, zero_point), -128, 127)


def _wrapped_signed(array: Array, zero_point: Array) -> Array:
    return without(array, zero_point).astype(np.int8).astype(np.int64)


def _recast(dtype: str) -> Callable[[Array, Array], Array]:
    """Read both operands as another type of 8 bits."""
    return lambda array, zero: without(array.astype(dtype), zero.astype(dtype))


def _zero_recast(dtype: str) -> Callable[[Array, Array], Array]:
    return lambda array, zero: without(array, zero.astype(dtype))


def _zero_points() -> Iterator[Bug]:
    centred: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
        "zero-point-ignored": ("is ignored", lambda a, z: a.astype(np.int64)),
        "zero-point-added": ("is added", lambda a, z: without(a, -z.astype(np.int64))),
        "difference-wraps": ("is subtracted in the 8 bits of its tensor", _in_8_bits),
        "difference-wraps-signed": ("leaves a difference that is kept in INT8", _wrapped_signed),
        "difference-saturates": ("leaves a difference that is limited to INT8", _saturated),
        "zero-point-is-signed": ("is read as INT8", _zero_recast("int8")),
        "zero-point-is-unsigned": ("is read as UINT8", _zero_recast("uint8")),
    }
    for name, (about, step) in centred.items():
        yield "sum", f"input-{name}", f"the input zero point {about}", {"centre": step}
        text = f"the filter zero point {about}"
        yield "filter-point", f"filter-{name}", text, {"centre_filters": step}
    for dtype in ("int8", "uint8"):
        name, text = f"is-read-as-{dtype}", f"and its zero point are read as {dtype.upper()}"
        yield "type", f"input-{name}", f"the input {text}", {"centre": _recast(dtype)}
        yield "type", f"filter-{name}", f"the filter {text}", {"centre_filters": _recast(dtype)}
    about = "an absent zero point of an unsigned tensor is taken to be 128"
    yield "absent", "absent-zero-point-is-128", about, {"absent": _middle}
    yield from _each()


def _middle(tensor: Array) -> Array:
    return np.array([128 if tensor.dtype == np.uint8 else 0], tensor.dtype)


def _each() -> Iterator[Bug]:
    """Take the filter zero point of another channel."""
    for name, (about, step) in CHANNEL_WAYS.items():
        text = f"the filter zero point {about}"
        yield "filter-point", f"filter-zero-point-{name}", text, {"zeros": step}
    about = "the filter zero point goes by input channel, not by output channel"
    yield "filter-point", "filter-zero-point-by-input", about, {"centre_filters": _by_input}


def _by_input(filters: Array, zero_point: Array) -> Array:
    """Put the values along axis 1 where they fit."""
    if filters.shape[0] != filters.shape[1]:
        return without(filters, zero_point)
    return without(filters, np.swapaxes(zero_point, 0, 1))


CHANNEL_WAYS: dict[str, tuple[str, Callable[[Array, int], Array]]] = {
    "first": (
        "of the first channel is used for all",
        lambda given, channels: np.repeat(each_channel(given, channels)[:1], channels),
    ),
    "last": (
        "of the last channel is used for all",
        lambda given, channels: np.repeat(each_channel(given, channels)[-1:], channels),
    ),
    "reversed": (
        "is applied in reverse",
        lambda given, channels: each_channel(given, channels)[::-1],
    ),
    "rolled": (
        "is that of the channel before",
        lambda given, channels: np.roll(each_channel(given, channels), 1),
    ),
}


# -- filters -----------------------------------------------------------------------------------


def _squared(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Change the filter if that keeps its sizes."""

    def flip(filters: Array) -> Array:
        changed = change(filters)
        return changed if changed.shape == filters.shape else filters

    return flip


def _filters() -> Iterator[Bug]:
    flips: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "kernel-flipped": (
            "the kernel is flipped, as in the convolution of mathematics",
            lambda w: np.flip(w, tuple(range(2, w.ndim))),
        ),
        "kernel-flipped-on-last-axis": (
            "the kernel is flipped on its last axis",
            lambda w: np.flip(w, -1),
        ),
        "kernel-transposed": (
            "the two axes of the kernel are swapped",
            _squared(lambda w: np.swapaxes(w, -1, -2) if w.ndim == 4 else w),
        ),
        "filter-axes-swapped": (
            "the filter is read as {I, O, ...}",
            _squared(lambda w: np.swapaxes(w, 0, 1)),
        ),
        "filter-channels-reversed": (
            "the input channels of the filter are reversed",
            lambda w: w[:, ::-1],
        ),
        "outputs-reversed": ("the output channels are reversed", lambda w: w[::-1]),
        "first-filter-for-all": (
            "every output channel has the first filter",
            lambda w: np.broadcast_to(w[:1], w.shape),
        ),
        "filter-is-oihw-as-ohwi": (
            "the filter is read as {O, H, W, I}",
            lambda w: np.moveaxis(w.reshape(w.shape[0], *w.shape[2:], w.shape[1]), -1, 1),
        ),
    }
    for name, (about, flip) in flips.items():
        yield "sum", name, about, {"flip": flip}


# -- channels and images -----------------------------------------------------------------------


def _reversed_groups(channel: int, channels: int, width: int, groups: int) -> list[int]:
    return first_of_group(channels - 1 - channel, channels, width, groups)


def _first_group(channel: int, channels: int, width: int, groups: int) -> list[int]:
    return list(range(width))


def _in_turn(channel: int, channels: int, width: int, groups: int) -> list[int]:
    first = channel % groups * width
    return list(range(first, first + width))


def _interleaved(channel: int, channels: int, width: int, groups: int) -> list[int]:
    group = channel // (channels // groups)
    return list(range(group, width * groups, groups))


def _next_group(channel: int, channels: int, width: int, groups: int) -> list[int]:
    return first_of_group((channel + channels // groups) % channels, channels, width, groups)


def _swapped_channels(channel: int, channels: int, width: int, groups: int) -> list[int]:
    return first_of_group(channel, channels, width, groups)[::-1]


def _channels() -> Iterator[Bug]:
    reads: dict[str, tuple[str, Callable[[int, int, int, int], list[int]]]] = {
        "groups-reversed": ("the groups are reversed", _reversed_groups),
        "groups-rotated": ("each group reads the channels of the next", _next_group),
        "groups-ignored": ("every group reads the first channels", _first_group),
        "groups-in-turn": ("output channels go round the groups in turn", _in_turn),
        "groups-interleaved": ("a group reads every n-th channel", _interleaved),
    }
    for name, (about, step) in reads.items():
        yield "group", name, about, {"reads": step}
    about = "the input channels of a group are reversed"
    yield "sum", "input-channels-reversed", about, {"reads": _swapped_channels}
    about = "every image of a batch is the first"
    yield "sum", "first-image-for-all", about, {"taps": _first_image}
    about = "the images of a batch are reversed"
    yield "sum", "images-reversed", about, {"taps": _images_back}


def _first_image(padded: Array, kernel: Sizes, spatial: Sizes, windows: Windows) -> Array:
    return taps(np.broadcast_to(padded[:1], padded.shape), kernel, spatial, windows)


def _images_back(padded: Array, kernel: Sizes, spatial: Sizes, windows: Windows) -> Array:
    return taps(padded[::-1], kernel, spatial, windows)


# -- accumulators ------------------------------------------------------------------------------


def _first(limit: Callable[[int], int]) -> Callable[[Array], Array]:
    return lambda products: np.asarray(products[:, : limit(products.shape[1])].sum(1))


def _whole(size: int) -> Callable[[int], int]:
    """Leave out what is past the last whole block, unless there is no whole block."""
    return lambda count: count // size * size or count


def _in_floats(dtype: str) -> Callable[[Array], Array]:
    """Add one product after the other in a float type."""

    def total(products: Array) -> Array:
        sums = np.zeros(products[:, 0].shape, dtype)
        for index in range(products.shape[1]):
            sums = (sums + products[:, index].astype(dtype)).astype(dtype)
        return np.nan_to_num(sums.astype(np.float64)).astype(np.int64)

    return total


def _in_bits(bits: int) -> Callable[[Array], Array]:
    half = 2 ** (bits - 1)
    return lambda products: (products.sum(1) + half) % (2 * half) - half


def _clipped(bits: int) -> Callable[[Array], Array]:
    half = 2 ** (bits - 1)
    return lambda products: np.clip(products.sum(1), -half, half - 1)


def _pairs(products: Array) -> Array:
    """Add pairs with saturation at 16 bits, as some vector instructions do."""
    even = np.pad(products, [(0, 0), (0, products.shape[1] % 2), *[(0, 0)] * (products.ndim - 2)])
    return np.asarray(np.clip(even[:, ::2] + even[:, 1::2], -(2**15), 2**15 - 1).sum(1))


def _each_clipped(products: Array) -> Array:
    return np.asarray(np.clip(products, -(2**15), 2**15 - 1).sum(1))


def _each_in_16_bits(products: Array) -> Array:
    return np.asarray(products.astype(np.int16).astype(np.int64).sum(1))


def _unwrapped(sums: Array) -> Array:
    return np.clip(sums, -(2**31), 2**31 - 1)


def _accumulators() -> Iterator[Bug]:
    totals: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "last-product-lost": (
            "the last of an odd number of products is lost",
            _first(lambda count: count - count % 2 or count),
        ),
        "products-beyond-4s-lost": ("products past the last whole 4 are lost", _first(_whole(4))),
        "products-beyond-8s-lost": ("products past the last whole 8 are lost", _first(_whole(8))),
        "products-beyond-16s-lost": (
            "products past the last whole 16 are lost",
            _first(_whole(16)),
        ),
        "only-256-products": (
            "products from 256 on are lost",
            _first(lambda count: min(count, 256)),
        ),
        "only-512-products": (
            "products from 512 on are lost",
            _first(lambda count: min(count, 512)),
        ),
        "only-4096-products": (
            "products from 4,096 on are lost",
            _first(lambda count: min(count, 4096)),
        ),
        "sums-in-float32": ("sums are kept in FLOAT32", _in_floats("float32")),
        "sums-in-float16": ("sums are kept in FLOAT16", _in_floats("float16")),
        "sums-in-16-bits": ("sums wrap at 16 bits", _in_bits(16)),
        "sums-in-24-bits": ("sums wrap at 24 bits", _in_bits(24)),
        "sums-saturate-at-16-bits": ("sums saturate at 16 bits", _clipped(16)),
        "pairs-saturate-at-16-bits": (
            "sums of two products saturate at 16 bits",
            _pairs,
        ),
        "products-wrap-at-16-bits": ("a product is kept in 16 bits", _each_in_16_bits),
        "products-saturate-at-16-bits": ("a product is limited to 16 bits", _each_clipped),
    }
    for name, (about, total) in totals.items():
        yield "sum", name, about, {"total": total}
    about = "a sum that leaves 32 bits saturates, where wrapping is asked for"
    yield "overflow", "sums-saturate", about, {"wrap": _unwrapped}
