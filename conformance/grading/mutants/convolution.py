"""Convolutions in steps, and the ways in which they go wrong; spatial axes come last."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import prod
from operator import add, ge, gt
from typing import Any

import numpy as np

from dmlax_conformance.format.vectors import Request
from dmlax_conformance.oracle.convolution import SCALES, TERMS, TYPES, Windows
from dmlax_conformance.oracle.exact import RANGES, clamp
from dmlax_conformance.runner.adapter import Case

from . import arithmetic
from .arithmetic import WRONG_ROUNDINGS, Requantize, Rounding, clipped, total, without, wrapped
from .binary import CENTRES, INTEGER_SUM, ROUNDED_SUMS, SUMS, Binary, Centre, Quotient, exact_sum
from .engine.mutant import Table, When
from .engine.refusals import has_length, has_rank, is_bad, is_long, is_square
from .engine.steps import Array, Call, Outputs, Sizes
from .family import load

IMAGE, FILTER, BIAS, OUTPUT = (f"{name}Tensor" for name in ("Input", "Filter", "Bias", "Output"))
IMAGE_POINT, FILTER_POINT, OUTPUT_POINT = TYPES  # whose data types other tensors give
IMAGE_SCALE, FILTER_SCALE, OUTPUT_SCALE = SCALES
ADDEND = "AddendTensor"

# -- steps -------------------------------------------------------------------------------------


def along_channels(parameter: Array, like: Array, axis: int = 1) -> Array:
    """Return a parameter along the channels of an array."""
    return parameter.reshape((1,) * axis + (-1,) + (1,) * (like.ndim - axis - 1))


def surrounded(image: Array, windows: Windows, value: int = 0, **mode: Any) -> Array:
    """Pad an image with a value, or in another mode of `np.pad`."""
    padding = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.pad(image, padding, **(mode or {"constant_values": value}))


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


@dataclass(frozen=True)
class Sums:
    """The steps of the integer sums, in order."""

    centre: Callable[[Array, Array], Array] = without
    centre_filters: Callable[[Array, Array], Array] = without
    pad: Callable[[Array, Windows, int], Array] = lambda x, at, zero: surrounded(x, at)
    sizes: Callable[[Windows, Sizes, Sizes], Sizes] = Windows.output_sizes
    taps: Callable[[Array, Sizes, Sizes, Windows], Array] = taps
    reads: Callable[[int, int, int, int], list[int]] = first_of_group
    total: Callable[[Array], Array] = total
    wrap: Callable[[Array], Array] = wrapped

    def __call__(self, call: Call) -> Array:
        """Return the 32-bit sums, one for each output element."""
        x, w = call.inputs[IMAGE], call.inputs[FILTER]
        windows = Windows.of(call.attributes)
        zx = call.inputs.get(IMAGE_POINT, np.zeros(1, x.dtype)).reshape(-1)[0]
        zw = along_channels(call.inputs.get(FILTER_POINT, np.zeros(1, w.dtype)), w, 0)
        padded = self.pad(self.centre(x, zx), windows, int(zx))
        filters = self.centre_filters(w, zw)
        spatial = self.sizes(windows, x.shape[2:], w.shape[2:])
        if min(len(x), *spatial) < 1:
            return np.zeros((len(x), len(w), *(max(size, 0) for size in spatial)), np.int64)
        under = self.taps(padded, w.shape[2:], spatial, windows)
        read = (self.reads(k, len(w), w.shape[1], windows.groups) for k in range(len(w)))
        channels = [self._channel(under[:, c], filters[k]) for k, c in enumerate(read)]
        return self.wrap(np.stack(channels, 1))

    def _channel(self, under: Array, kernel: Array) -> Array:
        """Return (N, ...): the sums of one output channel."""
        factors = kernel.reshape(kernel.shape[0], -1, *(1,) * (under.ndim - 3))
        return self.total((under * factors).reshape(len(under), -1, *under.shape[3:]))


def add_bias(sums: Array, bias: Array) -> Array:
    """Add one INT32 for each output channel, within 32 bits."""
    return wrapped(sums + along_channels(bias.astype(np.int64), sums))


def spread(parameter: Array, call: Call, sums: Array) -> Array:
    """Repeat a parameter along the channels of the sums."""
    return np.broadcast_to(along_channels(parameter, sums), sums.shape)


def convolved_dtype(call: Call) -> str:
    """Return the data type of the convolution's result, to which an addend is added."""
    return call.inputs[OUTPUT_POINT if OUTPUT_POINT in call.inputs else IMAGE].dtype.name


Terms = Mapping[str, Array]
Take = Callable[[Array, Call], Terms]  # the operands of the sum


def terms(convolved: Array, call: Call) -> Terms:
    """Name the operands of the sum as an addition does; the addend fits a result of wrong sizes."""
    addend = np.resize(call.inputs[ADDEND], convolved.shape)
    known = {**call.inputs, "ConvolvedTensor": convolved, ADDEND: addend}
    return {term: known[name] for name, term in TERMS.items() if name in known}


@dataclass(frozen=True)
class Sum:
    """The steps of the sum with an addend, in order."""

    terms: Take = terms
    centre: Centre = Binary.centre
    quotient: Quotient = exact_sum
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, outputs: Outputs, call: Call) -> Outputs:
        """Return the quantized sum."""
        binary = Binary(self.quotient, centre=self.centre, rounding=self.rounding)
        return binary(call._replace(inputs=self.terms(outputs[OUTPUT], call)))


REQUANTIZE = Requantize(SCALES, spread, add_bias)
CONVOLVED = replace(REQUANTIZE, dtype=convolved_dtype)

# -- windows and padding -----------------------------------------------------------------------


Change = Callable[[Any, Any], tuple[Any, Any]]  # of start and end padding


def pad_otherwise(change: Change, call: Call) -> Call:
    """Exchange start and end padding for others."""
    names = ("StartPadding", "EndPadding")
    padding = map(list, change(*(np.array(call.attributes[name]) for name in names)))
    return call._replace(attributes={**call.attributes, **dict(zip(names, padding, strict=True))})


PADDINGS: Mapping[str, Change] = {
    "padding-sides-swapped": lambda start, end: (end, start),
    "padding-axes-swapped": lambda start, end: (start[::-1], end[::-1]),
    "start-padding-on-both-sides": lambda start, end: (start, start),
    "end-padding-on-both-sides": lambda start, end: (end, end),
    "padding-shared-out": lambda start, end: ((start + end) // 2, (start + end + 1) // 2),
    "no-padding": lambda start, end: (0 * start, 0 * end),
}
LONGEST = 16  # strides beyond this are left alone, for they would need that much more memory


def _left_over(windows: Windows) -> list[int]:
    return [step - 1 if step <= LONGEST else 0 for step in windows.strides]


def sizes_up(windows: Windows, image: Sizes, kernel: Sizes) -> Sizes:
    """Count a last window that only fits in part."""
    ends = zip(windows.end, _left_over(windows), strict=True)
    return replace(windows, end=tuple(a + b for a, b in ends)).output_sizes(image, kernel)


def with_room(
    padded: Array,
    kernel: Sizes,
    spatial: Sizes,
    windows: Windows,
    room: Callable[[Windows, Sizes], Sequence[int]] = lambda windows, kernel: _left_over(windows),
) -> Array:
    """Return what lies under a kernel that may begin where only a part of it fits."""
    more = [(0, 0), (0, 0), *((0, space) for space in room(windows, kernel))]
    return taps(np.pad(padded, more), kernel, spatial, windows)


def one_short(windows: Windows, image: Sizes, kernel: Sizes) -> Sizes:
    """Forget the last window on an axis with several."""
    return tuple(max(size - 1, 1) for size in windows.output_sizes(image, kernel))


LAYOUTS: Mapping[str, Callable[[Array, Case], Array]] = {
    "output-is-channels-last": lambda y, case: np.moveaxis(y, 1, -1).reshape(y.shape),
    "output-axes-swapped": lambda y, case: np.swapaxes(y, 0, 1).reshape(y.shape),
}

# -- layouts for which kernels take a path of their own ------------------------------------------


def _of_mobile_net(change: Change, call: Call) -> Call:
    """Move the padding of depthwise convolutions with stride 2."""
    is_depthwise = call.attributes["GroupCount"] == call.inputs[IMAGE].shape[1] > 1
    is_moved = is_depthwise and min(call.attributes["Strides"]) == 2
    return pad_otherwise(change, call) if is_moved else call


def _cut(axis: int, limit: int, call: Call) -> Call:
    """Drop the taps of a filter beyond a limit."""
    w = call.inputs[FILTER]
    if w.ndim + axis < 2:
        return call
    zero = along_channels(call.inputs.get(FILTER_POINT, np.zeros(1, w.dtype)), w, 0)
    kept = along_channels(np.arange(w.shape[axis]) < limit, w, w.ndim + axis)
    return call._replace(inputs={**call.inputs, FILTER: np.where(kept, w, zero)})


def _images_for_groups(call: Call) -> Call:
    """Swap images and groups where a pointwise convolution has as many of both."""
    x, groups = call.inputs[IMAGE], call.attributes["GroupCount"]
    if prod(call.inputs[FILTER].shape[2:]) > 1 or not len(x) == groups > 1:
        return call
    split = x.reshape(groups, groups, -1, *x.shape[2:]).swapaxes(0, 1)
    return call._replace(inputs={**call.inputs, IMAGE: split.reshape(x.shape)})


def _images_for_filters(call: Call) -> Array:
    """Swap images and filters where there are as many of both on one spatial axis."""
    sums = Sums()(call)
    return sums.swapaxes(0, 1) if sums.ndim == 3 and len(sums) == sums.shape[1] else sums


def _short_strides(call: Call) -> Array:
    """Take strides of 5 to 15 for 4."""
    short = [min(step, 4) if step < 16 else step for step in call.attributes["Strides"]]
    sums = Sums()(call._replace(attributes={**call.attributes, "Strides": short}))
    return sums[tuple(map(slice, Sums()(call).shape))]


SPECIAL: Mapping[str, Any] = {
    **arithmetic.corrected(Sums(), spread, IMAGE, FILTER),
    "gap-images-for-filters": {"sums": _images_for_filters},
    "gap-images-for-groups": {"read": _images_for_groups},
    **{
        f"gap-{name}": {"read": partial(_of_mobile_net, change)}
        for name, change in {
            "padding-at-the-end": lambda start, end: (0 * start, start + end),
            "padding-at-the-start": lambda start, end: (start + end, 0 * end),
            "padding-shared-out": PADDINGS["padding-shared-out"],
        }.items()
    },
    "gap-strides-above-4": {"sums": _short_strides},
    "gap-tall-kernels-cut": {"read": partial(_cut, -2, 8)},
    "gap-wide-kernels-cut": {"read": partial(_cut, -1, 7)},
}

# -- channels, bias and sum --------------------------------------------------------------------


def _by_input(filters: Array, zero_point: Array) -> Array:
    """Put the filter zero points along the input channels where they fit."""
    is_square = filters.shape[0] == filters.shape[1]
    return without(filters, np.swapaxes(zero_point, 0, 1) if is_square else zero_point)


def _at_first(axis: int, sums: Array, bias: Array) -> Array:
    """Add the bias to the first index of an axis only; the last axis means the first pixel."""
    index = np.arange(sums.shape[axis] if axis < 2 else sums[0, 0].size)
    shape = [1] * axis + [-1] + [1] * (sums.ndim - axis - 1) if axis < 2 else sums.shape[2:]
    return np.where(index.reshape(shape) == 0, add_bias(sums, bias), sums)


def _along_last_axis(sums: Array, bias: Array) -> Array:
    fits = sums.shape[-1] == bias.size
    return wrapped(sums + bias.reshape(-1).astype(np.int64)) if fits else add_bias(sums, bias)


def _unbounded(sums: Array, bias: Array, dtype: Any = np.int64) -> Array:
    return sums.astype(dtype) + along_channels(bias.astype(dtype), sums)


def _saturated(sums: Array) -> Array:
    return clipped(sums.astype(np.float64), 32).astype(np.int32)


def _dequantized_first(results: Outputs, case: Case) -> Outputs:
    """Dequantize everything to FLOAT32, convolve there, and quantize the result."""
    if case.desc is not None:
        return results
    given = case.inputs
    sx, sy = (given[name].reshape(-1)[0] for name in (IMAGE_SCALE, OUTPUT_SCALE))
    sw = along_channels(given[FILTER_SCALE], given[FILTER], 0)
    sums = Sums(
        centre=lambda array, zero: without(array, zero).astype(np.float32) * sx,
        centre_filters=lambda array, zero: without(array, zero).astype(np.float32) * sw,
        total=lambda products: np.add.accumulate(products, 1, np.float32)[:, -1],
        wrap=lambda sums: sums,
    )
    result = sums(Call(case.attributes, given, case.outputs))
    if BIAS in given:
        bias = given[BIAS].reshape(-1).astype(np.float32) * sx * sw.reshape(-1)
        result = result + along_channels(bias, result)
    dtype, zero = case.outputs[OUTPUT].dtype, given.get(OUTPUT_POINT, np.zeros(1)).reshape(-1)[0]
    quotient = np.nan_to_num(np.rint(result / sy).astype(np.float64)) + float(zero)
    return {OUTPUT: np.clip(quotient, *RANGES[dtype]).astype(dtype)}


def _result(**steps: Any) -> Mapping[str, Requantize]:
    """Give the sum a result that need not be one of 8 bits."""
    store: Any = lambda words, dtype: np.array(words, object)  # noqa: E731
    return {"requantize": replace(CONVOLVED, store=store, rounding=Rounding(**steps))}


def _with(changed: str, is_first: bool | None = None) -> Take:
    """Take operands for others, in words such as "A=B"; an absent one is left out.

    If `is_first` is given, that concerns only calls whose AddendFirst is so.
    """

    def take(convolved: Array, call: Call) -> Terms:
        known = terms(convolved, call)
        if is_first not in (None, call.attributes["AddendFirst"]):
            return known
        pairs = [[f"{name}Tensor" for name in pair.split("=")] for pair in changed.split()]
        kept = {name: array for name, array in known.items() if name not in dict(pairs)}
        return kept | {name: known[other] for name, other in pairs if other in known}

    return take


def _first_for_all(name: str, axis: int, convolved: Array, call: Call) -> Terms:
    """Take the first index of an axis for all of them, if it has any."""
    known = terms(convolved, call)
    first = known[name].take(range(min(1, known[name].shape[axis])), axis)
    return {**known, name: np.broadcast_to(first, known[name].shape)}


def _only_in_range_of_result(convolved: Array, call: Call) -> Terms:
    known = terms(convolved, call)
    limits = RANGES[convolved.dtype.name]
    return {**known, "BTensor": np.clip(known["BTensor"].astype(np.int64), *limits)}


SWAPS = {
    "swaps-result-and-addend": "A=B B=A",
    "swaps-scales-of-sum": "AScale=BScale BScale=AScale",
    "swaps-zero-points-of-sum": "AZeroPoint=BZeroPoint BZeroPoint=AZeroPoint",
}

# -- calls that are answered wrongly -----------------------------------------------------------

Options = Mapping[str, Any]


def of_sizes(test: Callable[[Options, Sizes, Sizes], Any]) -> When:
    """Test the attributes and the sizes of input and filter."""
    return lambda case: test(case.attributes, *(case.inputs[x].shape for x in (IMAGE, FILTER)))


def of_addend(test: Callable[[Array, Request], Any]) -> When:
    """Test the addend and the output that is asked for."""
    return lambda case: test(case.inputs[ADDEND], case.outputs[OUTPUT])


def of_windows(
    topic: str, name: str, noun: str, padding: str, window: Callable[[Case], Sizes]
) -> Table:
    """Return the wrong answers to calls whose windows are too large, or unusual and right."""

    def spatial(case: Case, is_dilated: bool = True) -> Sizes:
        windows = Windows.of({"GroupCount": 1, **case.attributes})
        steps = windows.dilations if is_dilated else (1,) * len(windows.dilations)
        image = case.inputs[IMAGE].shape[2:]
        return replace(windows, dilations=steps).output_sizes(image, window(case))

    return {
        (topic, f"accept sizes {name}"): {
            f"accepts-high-{noun}": lambda case: spatial(case)[0] < 1,
            f"accepts-wide-{noun}": lambda case: spatial(case)[-1] < 1,
            f"accepts-dilated-{noun}": lambda case: (
                min(spatial(case)) < 1 <= min(spatial(case, False))
            ),
        },
        (topic, f"refuse sizes {name}"): {
            "refuses-one-sided-padding": lambda case: (
                case.attributes["StartPadding"] != case.attributes["EndPadding"]
            ),
            f"refuses-{padding}": lambda case: any(
                map(ge, case.attributes["StartPadding"], window(case))
            ),
            f"refuses-{noun}-beyond-input": lambda case: any(
                map(gt, window(case), case.inputs[IMAGE].shape[2:])
            ),
        },
    }


# -- the table of wrong ways -------------------------------------------------------------------


def both(*numbers: int) -> str:
    """Return clauses of both quantized convolutions."""
    return " ".join(f"{label}-{number}" for label in ("QLC", "QCA") for number in numbers)


def _of_sum(ways: Mapping[str, Any]) -> Mapping[str, Any]:
    return {f"sum-{name}": way for name, way in ways.items()}


SUM, FILTER_SUM = f"CVI-1 {both(1, 2)}", f"CVI-1 CVI-5 {both(2, 7)}"
WINDOW, PADDING, GROUP = f"CVI-3 {both(8)}", f"CVI-2 {both(3)}", f"CVI-3 {both(9)}"
TYPE, PARAMETERS = f"CVI-4 {both(2, 10)}", f"CVI-5 {both(7)}"

TABLE: Table = {
    (f"CVI-1 CVI-2 {both(2, 3, 8)}", "whole"): SPECIAL,
    (WINDOW, "whole"): {
        **{name: {"read": partial(pad_otherwise, change)} for name, change in PADDINGS.items()},
        "rounds-sizes-up": {"sums": Sums(sizes=sizes_up, taps=with_room)},
    },
    (WINDOW, "sums.sizes"): {
        "sizes-one-short": one_short,
    },
    (PADDING, "sums.pad"): {
        "padding-is-raw-zero": lambda x, at, zero: surrounded(x, at, -zero),
        "padding-is-zero-point-again": surrounded,
        "padding-is-one": lambda x, at, zero: surrounded(x, at, 1),
        "padding-is-lowest": lambda x, at, zero: surrounded(x, at, -128),
        "padding-repeats-the-edge": lambda x, at, zero: surrounded(x, at, mode="edge"),
        "padding-wraps-around": lambda x, at, zero: surrounded(x, at, mode="wrap"),
        "padding-off-by-one": lambda x, at, zero: np.roll(surrounded(x, at), at.start[-1] > 0, -1),
    },
    (SUM, "sums.centre"): {
        f"input-{name}": way for name, way in arithmetic.WRONG_DIFFERENCES.items()
    },
    (FILTER_SUM, "sums.centre_filters"): {
        **{f"filter-{name}": way for name, way in arithmetic.WRONG_DIFFERENCES.items()},
        "filter-zero-point-by-input": _by_input,
    },
    (GROUP, "sums.reads"): {
        "groups-reversed": lambda k, n, width, g: first_of_group(n - 1 - k, n, width, g),
        "groups-rotated": lambda k, n, width, g: first_of_group((k + n // g) % n, n, width, g),
        "groups-ignored": lambda k, n, width, g: list(range(width)),
        "groups-in-turn": lambda k, n, width, g: list(range(k % g * width, (k % g + 1) * width)),
        "groups-interleaved": lambda k, n, width, g: list(range(k // (n // g), width * g, g)),
    },
    (SUM, "sums.total"): arithmetic.WRONG_TOTALS,
    (f"CVI-6 {both(12)}", "sums.wrap"): {"sums-saturate": lambda sums: clipped(sums, 32)},
    (f"CVI-1 {both(1, 8, 10)}", f"output {OUTPUT}"): LAYOUTS,
    ("CVI-1", f"output {OUTPUT}"): {
        "output-through-float32": lambda y, case: _saturated(y.astype(np.float32)),
    },
    (both(1, 8, 10), f"output {OUTPUT}"): {
        "output-has-type-of-input": lambda y, case: y.astype(case.inputs[IMAGE].dtype),
        "output-has-type-of-filter": lambda y, case: y.astype(case.inputs[FILTER].dtype),
        "output-without-batch": lambda y, case: y[0] if len(y) == 1 else y,
    },
    (both(4), "requantize.bias"): {
        "bias-on-first-channel": partial(_at_first, 1),
        "bias-on-first-pixel": partial(_at_first, 2),
        "bias-on-first-image": partial(_at_first, 0),
        "bias-along-last-axis": _along_last_axis,
        "bias-in-float32": lambda sums, bias: _saturated(_unbounded(sums, bias, np.float32)),
    },
    (both(12), "requantize.bias"): {
        "bias-saturates": lambda sums, bias: _saturated(_unbounded(sums, bias)),
        "bias-never-wraps": _unbounded,
    },
    (both(1), "requantize.rescale"): {
        "input-scale-for-filter": arithmetic.with_scales(lambda x, w, y: (x, x, y)),
        "input-and-output-scale-swapped": arithmetic.with_scales(lambda x, w, y: (y, w, x)),
        **arithmetic.WRONG_RESCALES,
    },
    (both(7), f"read {FILTER_SCALE}"): {
        "filter-scale-mean": lambda scale, call: np.full_like(scale, scale.mean(dtype=np.float64)),
    },
    **arithmetic.roundings("requantize", both(5), both(6), both(1)),
    ("QLC-1", "whole"): {"dequantizes-first": {"finish": _dequantized_first}},
    ("QCA-16", "whole"): {
        "rounds-once": _result(place=add, clamp=lambda value, dtype: value),
        "result-is-not-rounded": _result(place=add),
        "result-is-not-clamped": _result(clamp=lambda value, dtype: value),
        "result-is-clamped-to-16-bits": _result(clamp=lambda v, dtype: max(-32768, min(v, 32767))),
    },
    ("QCA-15", "requantize.dtype"): {
        "result-has-type-of-output": lambda call: call.outputs[OUTPUT].dtype,
        "result-has-type-of-input": lambda call: call.inputs[IMAGE].dtype.name,
        "result-has-type-of-addend": lambda call: call.inputs[ADDEND].dtype.name,
        "result-is-int8": lambda call: "int8",
        "result-is-uint8": lambda call: "uint8",
    },
    ("QCA-5 QCA-6 QCA-16", f"read {OUTPUT_POINT}"): {
        "output-zero-point-ignored": lambda point, call: np.zeros_like(point),
        "output-zero-point-negated": lambda point, call: np.clip(
            -point.astype(np.int64), *RANGES[point.dtype.name]
        ).astype(point.dtype),
    },
    ("QCA-16", "add.terms"): {
        **{name: _with(changed) for name, changed in SWAPS.items()},
        **{
            f"{source}-{name}-for-{target}": _with(f"{to}{kind}={of}{kind}")
            for name, kind in {"scale": "Scale", "zero-point": "ZeroPoint"}.items()
            for source, of in {"output": "A", "addend": "B", "sum": "Output"}.items()
            for target, to in {"result": "A", "addend": "B", "sum": "Output"}.items()
            if of != to
        },
        "output-zero-point-not-in-sum": _with("AZeroPoint=None"),
        "addend-twice": _with("A=B AScale=BScale AZeroPoint=BZeroPoint"),
        "result-twice": _with("B=A BScale=AScale BZeroPoint=AZeroPoint"),
        "addend-in-range-of-result": _only_in_range_of_result,
        "addend-of-first-channel": partial(_first_for_all, "BTensor", 1),
        "addend-of-first-row": partial(_first_for_all, "BTensor", 2),
        "addend-of-first-column": partial(_first_for_all, "BTensor", -1),
        "result-of-first-image": partial(_first_for_all, "ATensor", 0),
        "result-of-first-channel": partial(_first_for_all, "ATensor", 1),
    },
    ("QCA-24", "add.terms"): {
        f"{name}-{word}-addend-first": _with(changed, word == "if")
        for name, changed in SWAPS.items()
        for word in ("if", "unless")
    },
    ("QCA-16", "add.quotient"): _of_sum(SUMS),
    ("QCA-16", "add.centre"): _of_sum(CENTRES),
    ("QCA-16 QCA-17", "add.quotient"): _of_sum(ROUNDED_SUMS),
    ("QCA-17", "add.rounding"): _of_sum(WRONG_ROUNDINGS["round"]),
    ("QCA-16", "add.rounding"): _of_sum(WRONG_ROUNDINGS["exact"]),
    ("QCA-18", "add.rounding"): {
        **_of_sum(WRONG_ROUNDINGS["clamp"]),
        "sum-clamps-to-uint8-first": Rounding(lambda x, zero: clamp(round(x) + zero, "uint8")),
        "sum-clamps-to-int8-first": Rounding(lambda x, zero: clamp(round(x) + zero, "int8")),
    },
    # calls that must be refused
    (GROUP, f"accept sizes {FILTER}"): {
        "accepts-more-channels": of_sizes(lambda a, x, w: x[1] < w[1] * a["GroupCount"]),
        "accepts-fewer-channels": of_sizes(lambda a, x, w: x[1] > w[1] * a["GroupCount"]),
    },
    **of_windows(
        WINDOW, FILTER, "kernel", "large-padding", lambda case: case.inputs[FILTER].shape[2:]
    ),
    (PARAMETERS, f"accept sizes {FILTER_POINT}"): {
        "accepts-filter-zero-point-by-input": has_length(FILTER_POINT, IMAGE, 1),
    },
    (both(7), f"accept sizes {FILTER_SCALE}"): {
        "accepts-filter-scale-by-input": has_length(FILTER_SCALE, IMAGE, 1),
        "accepts-filter-scale-square": is_square(FILTER_SCALE),
    },
    (both(4), f"accept sizes {BIAS}"): {
        "accepts-one-bias": lambda case: case.inputs[BIAS].size == 1,
        "accepts-bias-multiple": lambda case: (
            case.inputs[BIAS].size % len(case.inputs[FILTER]) == 0
        ),
    },
    (both(13), f"accept value {FILTER_SCALE}"): {
        "checks-first-filter-scale-only": is_bad(FILTER_SCALE, -1),
        "checks-last-filter-scale-only": is_bad(FILTER_SCALE, 0),
    },
    ("QCA-20", f"accept sizes {ADDEND}"): {
        "accepts-addend-that-repeats": of_addend(
            lambda b, y: all(n in (1, size) for n, size in zip(b.shape, y.sizes, strict=True))
        ),
        "accepts-addend-of-as-many-elements": of_addend(lambda b, y: b.size == prod(y.sizes)),
        "accepts-larger-addend": of_addend(lambda b, y: b.size > prod(y.sizes)),
    },
    # calls that must be answered
    (GROUP, "refuse sizes GroupCount"): {
        "refuses-multiplier": of_sizes(lambda a, x, w: 1 < a["GroupCount"] < w[0]),
    },
    (TYPE, f"refuse data_type {FILTER}"): {
        "refuses-mixed-types": lambda case: case.inputs[IMAGE].dtype != case.inputs[FILTER].dtype,
    },
    (PARAMETERS, f"refuse sizes {FILTER_POINT}"): {
        "refuses-filter-zero-points": is_long(FILTER_POINT),
    },
    (both(7), f"refuse sizes {FILTER_SCALE}"): {
        "refuses-filter-scales": is_long(FILTER_SCALE),
        "refuses-mixed-granularity": lambda case: (
            FILTER_POINT in case.inputs
            and is_long(FILTER_POINT)(case) != is_long(FILTER_SCALE)(case)
        ),
        "refuses-parameters-of-rank-1": has_rank(FILTER_SCALE, 1),
    },
    ("QCA-19", f"refuse data_type {ADDEND}"): {
        "refuses-addend-of-another-type": lambda case: (
            case.inputs[ADDEND].dtype != case.inputs[IMAGE].dtype
        ),
    },
    ("QCA-19", f"refuse data_type {OUTPUT}"): {
        "refuses-output-of-another-type": of_addend(lambda b, y: b.dtype.name != y.dtype),
    },
    ("QCA-24", "refuse option AddendFirst"): {
        "refuses-addend-first": lambda case: case.attributes["AddendFirst"],
    },
    (f"CVI-1 {both(2)}", "permitted sums.total"): arithmetic.PERMITTED_TOTALS,
    (f"CVI-1 {both(2)}", "permitted sums.pad"): {
        "raw-padding": lambda x, at, zero: surrounded(x + zero, at, zero) - zero
    },
    (both(1), "permitted requantize.rescale"): arithmetic.PERMITTED_RESCALES,
    (both(5), "permitted requantize.rounding"): arithmetic.PERMITTED_ROUNDINGS,
    ("QCA-17", "permitted add.rounding"): _of_sum(arithmetic.PERMITTED_ROUNDINGS),
    ("QCA-16", "permitted add.quotient"): INTEGER_SUM,
    ("QCA-24", "permitted add.terms"): {"addend-first": _with(" ".join(SWAPS.values()))},
}

# -- the operators -----------------------------------------------------------------------------

MUTANTS = load(
    "convolution",
    {
        "convolution_integer": {"sums": Sums(), "store": arithmetic.store_sums},
        "quantized_linear_convolution": {"sums": Sums(), "requantize": REQUANTIZE},
        "quantized_linear_convolution_add": {
            "sums": Sums(),
            "requantize": CONVOLVED,
            "add": Sum(),
        },
    },
    TABLE,
)
