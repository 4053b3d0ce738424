"""The pools in steps, each of which a bug can replace; spatial axes come last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from ...operators._shared.convolution import Windows
from ...operators._shared.pooling import whole, windows_of
from ...operators._shared.pooling_floats import Mean, exact_mean
from .convolution import pad_zeros, taps, without
from .rounding import Rounding
from .steps import Array, Call, Outputs, Sizes, fractions

Inside = Callable[[Array, bool], Array]


def along(parameter: Array, sizes: Sizes, axis: int) -> Array:
    """Return the entry of a parameter along this axis for each element of these sizes."""
    own = 1 if parameter.size != sizes[axis] else axis
    length = sizes[own] if parameter.size > 1 else 1
    shape = [1] * len(sizes)
    shape[own] = length
    return np.broadcast_to(np.arange(length).reshape(shape), sizes)


def pad_centred(centred: Array, windows: Windows, zero_point: Array) -> Array:
    """Surround the image, from which the zero point is already taken, by zeros."""
    return pad_zeros(centred, windows, 0)


def count_elements(inside: Array, include_padding: bool) -> Array:
    """Return n for each window, from what lies inside the image: (N, C, tap, ...)."""
    return np.full_like(inside[:, :, 0], inside.shape[2]) if include_padding else inside.sum(2)


def read_image(call: Call) -> Mapping[str, Any]:
    """Return the attributes of the call; without any, those of one window, the image."""
    attributes = call.attributes
    return attributes if "WindowSize" in attributes else whole(call.inputs["InputTensor"].shape)


@dataclass(frozen=True)
class Under:
    """The elements of each window, less the zero point: (N, C, ..., tap), and n."""

    values: Array
    counts: Array


@dataclass(frozen=True)
class Gather:
    """The steps that find the elements of each window, in order."""

    window: Callable[[Call], Mapping[str, Any]] = read_image
    centre: Callable[[Array, Array], Array] = without
    pad: Callable[[Array, Windows, Array], Array] = pad_centred
    sizes: Callable[[Windows, Sizes, Sizes], Sizes] = Windows.output_sizes
    taps: Callable[[Array, Sizes, Sizes, Windows], Array] = taps
    count: Inside = count_elements
    axis: int = 1  # of the zero point

    def __call__(self, call: Call) -> Under:
        """Return the elements of each window, and their number."""
        x, attributes = call.inputs["InputTensor"], self.window(call)
        windows, size = windows_of(attributes), tuple(attributes["WindowSize"])
        zero = call.inputs.get("InputZeroPointTensor", np.zeros(1, x.dtype)).astype(np.int64)
        zero = zero.reshape(-1)[along(zero, x.shape, self.axis)]
        spatial = self.sizes(windows, x.shape[2:], size)
        if min(spatial) < 1:
            empty = np.zeros((*x.shape[:2], *(max(each, 0) for each in spatial)), np.int64)
            return Under(empty[..., None], empty)
        padded = self.pad(self.centre(x, zero), windows, zero)
        inside = pad_zeros(np.ones(x.shape, np.int64), windows, 0)
        under, inside = (self.taps(each, size, spatial, windows) for each in (padded, inside))
        counts = self.count(inside, attributes["IncludePadding"])
        return Under(np.moveaxis(under, 2, -1), counts)


@dataclass(frozen=True)
class Average:
    """The steps from the elements of a window to the quantized output, in order."""

    mean: Mean = exact_mean
    rounding: Rounding = field(default_factory=Rounding)
    axis: int = 1  # of the parameters

    def __call__(self, under: Under, call: Call) -> Outputs:
        """Return the quantized output; windows that are alike are worked out once."""
        given, dtype = call.inputs, call.outputs["OutputTensor"].dtype
        sizes = under.counts.shape
        points = given.get("OutputZeroPointTensor", np.zeros(1, np.int8))
        scales = (given[f"{name}ScaleTensor"] for name in ("Input", "Output"))
        own = zip(*(self._each(tensor, sizes) for tensor in (*scales, points)), strict=True)
        rows = map(tuple, under.values.reshape(prod(sizes), under.values.shape[-1]).tolist())
        known, found = dict[Any, int](), list[int]()
        for key in zip(rows, under.counts.reshape(-1).tolist(), own, strict=True):
            if key not in known:
                row, count, (sx, sy, zy) = key
                known[key] = self.rounding(self.mean(row, count, sx, sy), int(zy), dtype)
            found.append(known[key])
        return {"OutputTensor": np.array(found, dtype).reshape(sizes)}

    def _each(self, parameter: Array, sizes: Sizes) -> list[Fraction]:
        """Return the entry of each output element."""
        own = fractions(parameter.reshape(-1))
        return [own[at] for at in along(parameter, sizes, self.axis).reshape(-1).tolist()]


def lowest(dtype: Any) -> Any:
    """Return what any element beats."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def pad_lowest(x: Array, windows: Windows) -> Array:
    """Surround the image by what never wins."""
    around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.pad(x, around, constant_values=lowest(x.dtype))


def first_largest(under: Array) -> Array:
    """Return the tap of (N, C, tap, ...) with the largest element, the first of several."""
    return np.asarray(under.argmax(2))


def place_in_input(places: Array, call: Call) -> Array:
    """Return the places as they are, counted in the whole input."""
    return places


@dataclass(frozen=True)
class Largest:
    """The steps of the maximum and its place, in order."""

    pad: Callable[[Array, Windows], Array] = pad_lowest
    sizes: Callable[[Windows, Sizes, Sizes], Sizes] = Windows.output_sizes
    taps: Callable[[Array, Sizes, Sizes, Windows], Array] = taps
    choose: Callable[[Array], Array] = first_largest
    place: Callable[[Array, Call], Array] = place_in_input

    def __call__(self, call: Call) -> Outputs:
        """Return the largest elements, and their places if they are asked for."""
        x, windows = call.inputs["InputTensor"], windows_of(call.attributes)
        size = tuple(call.attributes["WindowSize"])
        spatial = self.sizes(windows, x.shape[2:], size)
        if min(spatial) < 1:
            shape = (*x.shape[:2], *(max(each, 0) for each in spatial))
            return {name: np.zeros(shape, asked.dtype) for name, asked in call.outputs.items()}
        numbers = pad_zeros(np.arange(x.size).reshape(x.shape), windows, 0)
        under, places = (
            self.taps(each, size, spatial, windows) for each in (self.pad(x, windows), numbers)
        )
        chosen = self.choose(under)[:, :, None]
        values, where = (np.take_along_axis(each, chosen, 2)[:, :, 0] for each in (under, places))
        answer = {"OutputTensor": values}
        if "OutputIndicesTensor" in call.outputs:
            dtype = call.outputs["OutputIndicesTensor"].dtype
            answer["OutputIndicesTensor"] = self.place(where, call).astype(dtype)
        return answer
