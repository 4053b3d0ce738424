"""Calls of the two convolutions: operands, windows, and the cases that both have."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from ...format.vectors import Request
from ..topics import Topic, bits, drawn, floats, ints
from .convolution import Windows
from .covering import Factors, Row
from .near_ties import float32
from .rounding import RANGES
from .systematic import PERIOD, SHORT, repeat

Scale = float | Fraction
Parameters = Mapping[str, Any]  # numbers, a tensor, or None for one that is absent
NAMES = {
    **{f"z{key[0]}": f"{key[1:]}ZeroPointTensor" for key in ("xInput", "wFilter", "yOutput")},
    **{f"s{key[0]}": f"{key[1:]}ScaleTensor" for key in ("xInput", "wFilter", "yOutput")},
    "bias": "BiasTensor",
}
NONE: Parameters = {}


class ConvolutionTopic(Topic):
    """One file of calls; the operator says what it returns, and the scales it cannot do without."""

    dtype = "int32"
    scales = NONE

    def add(
        self,
        name: str,
        comment: str,
        clause: str,
        x: Tensor,
        w: Tensor,
        own: Parameters = NONE,
        flags: str = "",
        options: Mapping[str, Any] | None = None,
        dtype: str = "",
        requires: str = "",
    ) -> None:
        """Add a valid call; `own` are its parameters by the keys of `NAMES`."""
        options, dtype = options or attributes(), dtype or self.dtype
        given, asked = self.operands(x, w, own, dtype), output(x, w, options, dtype)
        self.valid(name, comment, clause, given, asked, options, flags, requires)

    def operands(self, x: Tensor, w: Tensor, own: Parameters, dtype: str) -> dict[str, Tensor]:
        """Return input, filter and parameters of a call with a result of this data type."""
        types = {"zx": x.dtype, "zw": w.dtype, "zy": dtype, "bias": "int32"}
        given = {"InputTensor": x, "FilterTensor": w}
        for key, values in {**self.scales, **own}.items():
            if isinstance(values, Tensor):
                given[NAMES[key]] = values
            elif values is not None:
                own_type = types.get(key)
                made = parameter(values, own_type) if own_type else scales(values)
                given[NAMES[key]] = made
        return given

    def add_twin(self, name: str, clause: str, own: Parameters) -> None:
        """Add the call that invalid ones change: two channels in and out."""
        comment = "the twin: every tensor is present"
        self.add(name, comment, clause, *TWIN, own, "Optional")

    def add_windows(self, x: Tensor, filter_type: str, own: Parameters, *clauses: str) -> None:
        """Add a call for each way to move a window; the clauses are without and with padding."""
        for name, (text, options, kernel) in WINDOWS.items():
            is_padded = "start" in options or "end" in options
            w = image(filter_type, (2, 2, *kernel), 32 + len(name))
            flags = "Windows Padding" if is_padded else "Windows"
            self.add(name, text, clauses[is_padded], x, w, own, flags, attributes(**options))

    def add_line(self, clause: str, own: Parameters) -> None:
        """Add a convolution of one dimension."""
        x, w = image("uint8", (2, 2, 7), 55), image("int8", (3, 2, 2), 56)
        line, flags = attributes((2,), (2,), (1,), (3,)), "Rank3 Padding Windows"
        text = "one spatial dimension with stride, dilation and padding"
        self.add("rank-3", text, clause, x, w, own, flags, line)

    def add_survivors(self, clauses: tuple[str, str], cube: Parameters, *long: Any) -> None:
        """Add calls for planted bugs that survived all others: equal axes, and a long sum."""
        text = "every axis of every tensor has 3 places, so that swapped axes keep all sizes"
        x, w = image("uint8", (3, 3, 3, 3), 101), image("int8", (3, 3, 3, 3), 102)
        self.add("every-axis-3", text, clauses[0], x, w, cube, "PerChannel Padding", RING)
        x_type, w_type, own = long
        x = from_recipe(x_type, (1, 4099, 1, 1), Recipe(31, *RANGES[x_type]))
        w = from_recipe(w_type, (2, 4099, 1, 1), Recipe(32, *RANGES[w_type]))
        text, flags = "4,099 products of both signs, within 32 bits", "Large OddContraction"
        self.add("contraction-4099", text, clauses[1], x, w, own, flags)

    def refuse_kernels(self, base: str, clause: str) -> None:
        """Add a kernel that is too high, and one that is too wide once it is dilated."""
        text = "the kernel is higher than the padded input"
        self.wrong(base, "sizes", clause, text, WRONG, "kernel-too-high")
        name, text = "dilated-kernel-too-wide", "the dilated kernel spans 4 of 3 columns"
        self.invalid(name, text, clause, base, "sizes FilterTensor", {"Dilations": [1, 3]})

    def add_size(
        self, count: int, seed: int, own: Parameters, clauses: tuple[str, str], flags: str
    ) -> None:
        """Add a call with so many output elements, and a kernel one wider than its input."""
        x = repeat(image("uint8", (PERIOD,), seed), (1, 2, 1, count + 2))
        w = image("int8", (1, 2, 1, 3), seed + 1)
        if count in FILTERS:
            outputs, height, width = FILTERS[count]
            x = image("uint8", (1, 2, height + 2, width + 1), seed)
            w = image("int8", (outputs, 2, 3, 2), seed + 1)
        base, text = f"elements-{count}", f"{count} output elements, {len(x.words)} of the input"
        self.add(base, text, clauses[0], x, w, own, flags)
        if count in SHORT:
            w = repeat(image("int8", (PERIOD,), count), (1, 2, 1, count + 3))
            text = f"a kernel of {count + 3} columns over an input of {count + 2}"
            name = f"kernel-{count + 3}"
            self.invalid(name, text, clauses[1], base, "sizes", {"FilterTensor": w})


# -- tensors and attributes --------------------------------------------------------------------


def attributes(
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    start: Sequence[int] = (0, 0),
    end: Sequence[int] = (0, 0),
    groups: int = 1,
) -> dict[str, Any]:
    """Return all attribute fields; the defaults are the plainest 2-D windows."""
    fields = {"Strides": strides, "Dilations": dilations, "StartPadding": start, "EndPadding": end}
    return {**{name: list(own) for name, own in fields.items()}, "GroupCount": groups}


def output(x: Tensor, w: Tensor, given: Mapping[str, Any], dtype: str) -> dict[str, Request]:
    """Ask for the output of these operands."""
    spatial = Windows.of(given).output_sizes(x.sizes[2:], w.sizes[2:])
    return {"OutputTensor": Request(dtype, (x.sizes[0], w.sizes[0], *spatial))}


def image(dtype: str = "uint8", sizes: Sequence[int] = (1, 2, 4, 5), seed: int = 1) -> Tensor:
    """Return drawn elements over the full range."""
    return drawn(dtype, sizes, seed, *RANGES[dtype])


def parameter(values: Sequence[int], dtype: str, rank: int = 4) -> Tensor:
    """Return {1,1,1,1} or {1,K,1,1} integers, or {K} when `rank` is 1."""
    return ints(dtype, _shape(len(values), rank), values)


def scales(values: Sequence[Scale], rank: int = 4) -> Tensor:
    """Return float32 scales nearest to these numbers, in the shape of a parameter."""
    return scale_words([float32(Fraction(value)) for value in values], rank)


def scale_words(words: Sequence[int], rank: int = 4) -> Tensor:
    """Return float32 scales of these bits, in the shape of a parameter."""
    return bits("float32", _shape(len(words), rank), words)


def _shape(length: int, rank: int) -> tuple[int, ...]:
    return (length,) if rank == 1 else (1, length) + (1,) * (rank - 2)


RING = attributes(start=(1, 1), end=(1, 1))
TWIN = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
WINDOWS: dict[str, tuple[str, dict[str, Any], tuple[int, int]]] = {
    "stride-2": ("both strides 2, the last column is left over", {"strides": (2, 2)}, (2, 2)),
    "stride-1-3": ("strides differ", {"strides": (1, 3)}, (1, 2)),
    "stride-beyond-kernel": ("stride larger than the kernel", {"strides": (3, 3)}, (1, 1)),
    "dilation-2": ("both dilations 2", {"dilations": (2, 2)}, (2, 2)),
    "dilation-1-3": ("dilations differ", {"dilations": (1, 3)}, (2, 2)),
    "padding-all": ("one cell on every side", {"start": (1, 1), "end": (1, 1)}, (3, 3)),
    "padding-start": ("start padding only", {"start": (2, 1)}, (2, 2)),
    "padding-end": ("end padding only", {"end": (1, 2)}, (2, 2)),
    "padding-four": ("four different paddings", {"start": (0, 3), "end": (2, 1)}, (3, 2)),
    "padding-only": ("windows wholly in padding", {"start": (3, 3), "end": (3, 3)}, (2, 2)),
    "kernel-covers": (
        "kernel larger than the bare input",
        {"start": (1, 1), "end": (1, 0)},
        (6, 5),
    ),
    "mixture": (
        "stride, dilation and padding together, all different",
        {"strides": (2, 1), "dilations": (1, 2), "start": (1, 0), "end": (2, 3)},
        (3, 2),
    ),
}


# -- what is wrong with the twin ---------------------------------------------------------------


OPTIONS: dict[str, tuple[str, Any]] = {
    "stride-0": ("Strides", [0, 1]),
    "stride-minus-1": ("Strides", [1, -1]),
    "strides-too-few": ("Strides", [1]),
    "strides-too-many": ("Strides", [1, 1, 1]),
    "dilation-0": ("Dilations", [1, 0]),
    "dilations-too-many": ("Dilations", [1, 1, 1]),
    "start-padding-negative": ("StartPadding", [-1, 0]),
    "start-padding-too-few": ("StartPadding", [0]),
    "end-padding-negative": ("EndPadding", [0, -1]),
    "end-padding-too-many": ("EndPadding", [0, 0, 0]),
    "groups-0": ("GroupCount", 0),
    "groups-minus-1": ("GroupCount", -1),
}
SURVIVOR_OPTIONS: dict[str, tuple[str, list[int]]] = {
    "second-stride-0": ("Strides", [1, 0]),
    "first-stride-minus-1": ("Strides", [-1, 1]),
    "first-dilation-0": ("Dilations", [0, 1]),
    "second-dilation-minus-1": ("Dilations", [1, -1]),
    "dilations-too-few": ("Dilations", [1]),
    "second-start-padding-negative": ("StartPadding", [0, -1]),
    "start-padding-too-many": ("StartPadding", [0, 0, 0]),
    "first-end-padding-negative": ("EndPadding", [-1, 0]),
    "end-padding-too-few": ("EndPadding", [0]),
}
WRONG = {
    "float-input": ("InputTensor", floats("float32", (1, 2, 3, 3), range(18))),
    "int16-input": ("InputTensor", drawn("int16", (1, 2, 3, 3), 1, -9, 9)),
    "complex-input": ("InputTensor", bits("complex64", (1, 2, 3, 3), [0x3F800000] * 18)),
    "int32-filter": ("FilterTensor", drawn("int32", (2, 2, 2, 2), 1, -9, 9)),
    "int8-input-zero-point": ("InputZeroPointTensor", parameter([7], "int8")),
    "int32-filter-zero-point": ("FilterZeroPointTensor", parameter([1], "int32")),
    "input-rank-2": ("InputTensor", image("uint8", (2, 9))),
    "input-rank-5": ("InputTensor", image("uint8", (1, 2, 3, 3, 1))),
    "filter-rank-3": ("FilterTensor", image("int8", (2, 2, 4))),
    "filter-rank-5": ("FilterTensor", image("int8", (2, 2, 2, 2, 1))),
    "filter-channels-1": ("FilterTensor", image("int8", (2, 1, 2, 2))),
    "filter-channels-3": ("FilterTensor", image("int8", (2, 3, 2, 2))),
    "kernel-too-high": ("FilterTensor", image("int8", (2, 2, 4, 2))),
    "kernel-too-wide": ("FilterTensor", image("int8", (2, 2, 2, 4))),
    "input-zero-point-each": ("InputZeroPointTensor", parameter([7, 7], "uint8")),
    "filter-zero-point-3": ("FilterZeroPointTensor", parameter([1, 1, 1], "int8")),
    "filter-zero-point-by-input": ("FilterZeroPointTensor", parameter([1, 2], "int8")),
}
BY_INPUT = "{field} has one value for each input channel"


# -- pairs of options --------------------------------------------------------------------------


EIGHT = ("uint8", "int8")
FACTORS: Factors = {
    "spatial": ("2", "1"),
    "strides": ("1", "more"),
    "dilations": ("1", "more"),
    "start padding": ("0", "more"),
    "end padding": ("0", "more"),
    "groups": ("1", "2", "depthwise", "depthwise twice"),
    "batch": ("1", "more"),
    "input": EIGHT,
    "filter": EIGHT,
    "input zero point": ("absent", "one"),
    "filter zero point": ("absent", "one", "each channel"),
}
FILTERS = {128: (4, 4, 8), 256: (4, 8, 8), 1000: (5, 10, 20)}  # outputs, height, width


def window(row: Row) -> dict[str, Any]:
    """Return the attributes of a row of options; two spatial axes are never alike."""
    spatial = int(row["spatial"])
    more = {"strides": (2, 3), "dilations": (2, 3), "start padding": (1, 2), "end padding": (2, 1)}
    strides, dilations, start, end = (
        own[:spatial] if row[name] == "more" else (int(row[name]),) * spatial
        for name, own in more.items()
    )
    return attributes(strides, dilations, start, end, {"1": 1, "2": 2}.get(row["groups"], 4))


def operands(row: Row, number: int) -> tuple[Tensor, Tensor]:
    """Return input and filter of a row of options."""
    spatial, groups = int(row["spatial"]), row["groups"]
    channels, per_group = (2, 2) if groups == "1" else (4, 2 if groups == "2" else 1)
    batch, outputs = 1 + (row["batch"] == "more"), 8 if groups == "depthwise twice" else 4
    x = image(row["input"], (batch, channels, *(7, 6)[:spatial]), 900 + number)
    w = image(row["filter"], (outputs, per_group, *(3, 2)[:spatial]), 950 + number)
    return x, w


def points(row: Row, channels: int) -> dict[str, list[int] | None]:
    """Return the zero points of input and filter."""
    return {"zx": point(row, "input", 1, 9), "zw": point(row, "filter", channels, -20)}


def point(row: Row, name: str, channels: int, first: int) -> list[int] | None:
    """Return no zero point, one, or one for each channel, as the row wants."""
    kind, middle = row[f"{name} zero point"], 128 * (row[name] == "uint8") + first
    count = channels if "each" in kind else 1
    return None if kind == "absent" else [middle + 3 * channel for channel in range(count)]
