"""Planted bugs of where a convolution looks: windows and padding."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...operators._shared.convolution import Windows
from .convolution import pad_zeros, taps
from .steps import Array, Sizes

Bug = tuple[str, str, str, dict[str, Any]]


def bugs() -> Iterator[Bug]:
    """Yield topic, name, description and steps of the bugs of this module."""
    yield from _windows()
    yield from _padding()


# -- windows -----------------------------------------------------------------------------------


def _changed(**fields: Callable[[Windows], Any]) -> Callable[[Windows], Windows]:
    return lambda windows: replace(
        windows, **{name: change(windows) for name, change in fields.items()}
    )


def _one(values: Sizes, axis: int, value: int) -> Sizes:
    """Return the values with another one on an axis; the last axis is the only one in rank 3."""
    kept = list(values)
    kept[axis] = value
    return tuple(kept)


def _windows() -> Iterator[Bug]:
    options: dict[str, tuple[str, Callable[[Windows], Windows]]] = {
        "strides-swapped": ("the strides are transposed", _changed(strides=_back("strides"))),
        "stride-of-first-axis": (
            "the first stride is used on every axis",
            _changed(strides=lambda w: w.strides[:1] * len(w.strides)),
        ),
        "dilations-swapped": (
            "the dilations are transposed",
            _changed(dilations=_back("dilations")),
        ),
        "dilation-of-first-axis": (
            "the first dilation is used on every axis",
            _changed(dilations=lambda w: w.dilations[:1] * len(w.dilations)),
        ),
        "padding-sides-swapped": (
            "start and end padding are swapped",
            _changed(start=lambda w: w.end, end=lambda w: w.start),
        ),
        "padding-axes-swapped": (
            "the padding of the two axes is swapped",
            _changed(start=_back("start"), end=_back("end")),
        ),
        "start-padding-on-both-sides": (
            "the end is padded like the start",
            _changed(end=lambda w: w.start),
        ),
        "end-padding-on-both-sides": (
            "the start is padded like the end",
            _changed(start=lambda w: w.end),
        ),
        "padding-shared-out": (
            "the padding is split evenly between both sides",
            _changed(start=_half(0), end=_half(1)),
        ),
        "no-padding": (
            "padding is ignored",
            _changed(start=lambda w: (0,) * len(w.start), end=lambda w: (0,) * len(w.end)),
        ),
        **_ignored("stride", "strides", 1),
        **_ignored("dilation", "dilations", 1),
        **_ignored("start-padding", "start", 0),
        **_ignored("end-padding", "end", 0),
    }
    for name, (about, change) in options.items():
        yield "window", name, about, {"options": change}
    about = "a last window that only fits in part is counted too"
    yield "window", "rounds-sizes-up", about, {"sizes": _up, "taps": _with_room}
    about = "the last place of each axis is left out"
    yield "window", "sizes-one-short", about, {"sizes": _short}


def _back(field: str) -> Callable[[Windows], Any]:
    return lambda windows: getattr(windows, field)[::-1]


def _half(side: int) -> Callable[[Windows], Sizes]:
    def share(windows: Windows) -> Sizes:
        sums = [a + b for a, b in zip(windows.start, windows.end, strict=True)]
        return tuple((both + side) // 2 for both in sums)

    return share


def _ignored(
    name: str, field: str, value: int
) -> dict[str, tuple[str, Callable[[Windows], Windows]]]:
    """Return two bugs: the option is ignored on the first axis, or on the last."""
    found = {}
    for label, axis in {"first": 0, "last": -1}.items():
        change = _changed(**{field: _without(field, axis, value)})
        found[f"{name}-ignored-on-{label}-axis"] = (
            f"the {name.replace('-', ' ')} of the {label} axis is ignored",
            change,
        )
    return found


def _without(field: str, axis: int, value: int) -> Callable[[Windows], Any]:
    return lambda windows: _one(getattr(windows, field), axis, value)


LONGEST = 16  # strides beyond this are left alone, for they would need that much more memory


def _left_over(windows: Windows) -> list[int]:
    return [step - 1 if step <= LONGEST else 0 for step in windows.strides]


def _up(windows: Windows, image: Sizes, kernel: Sizes) -> Sizes:
    ends = zip(windows.end, _left_over(windows), strict=True)
    return replace(windows, end=tuple(a + b for a, b in ends)).output_sizes(image, kernel)


def _with_room(padded: Array, kernel: Sizes, spatial: Sizes, windows: Windows) -> Array:
    more = [(0, 0), (0, 0), *((0, room) for room in _left_over(windows))]
    return taps(np.pad(padded, more), kernel, spatial, windows)


def _short(windows: Windows, image: Sizes, kernel: Sizes) -> Sizes:
    return tuple(max(size - 1, 1) for size in windows.output_sizes(image, kernel))


# -- padding -----------------------------------------------------------------------------------


def _around(windows: Windows) -> list[tuple[int, int]]:
    return [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]


def _pad_with(value: Callable[[int], int]) -> Callable[[Array, Windows, int], Array]:
    """Surround the centred image by a value that depends on the zero point."""
    return lambda centred, windows, zero: np.pad(
        centred, _around(windows), constant_values=value(zero)
    )


def _pad_mode(mode: Any) -> Callable[[Array, Windows, int], Array]:
    return lambda centred, windows, zero: np.pad(centred, _around(windows), mode)


def _padding() -> Iterator[Bug]:
    pads: dict[str, tuple[str, Callable[[Array, Windows, int], Array]]] = {
        "padding-is-raw-zero": (
            "a padded cell holds 0 instead of the input zero point",
            _pad_with(lambda zero: -zero),
        ),
        "padding-is-zero-point-again": (
            "a padded cell holds the zero point although it is already subtracted",
            _pad_with(lambda zero: zero),
        ),
        "padding-is-one": ("a padded cell is one above its zero", _pad_with(lambda zero: 1)),
        "padding-is-lowest": (
            "a padded cell is -128 from zero, as if the zero point were always the middle",
            _pad_with(lambda zero: -128),
        ),
        "padding-repeats-the-edge": ("a padded cell repeats the edge", _pad_mode("edge")),
        "padding-wraps-around": ("a padded cell comes from the other side", _pad_mode("wrap")),
    }
    for name, (about, pad) in pads.items():
        yield "pad", name, about, {"pad": pad}
    about = "padding moves the image one cell too far"
    yield "pad", "padding-off-by-one", about, {"pad": _moved}


def _moved(centred: Array, windows: Windows, zero: int) -> Array:
    padded = pad_zeros(centred, windows, zero)
    return np.roll(padded, 1, -1) if windows.start[-1] else padded
