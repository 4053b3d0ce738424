"""Pairs of options and size classes of the two convolutions."""

from collections.abc import Sequence
from typing import Any

from ...format.tensors import Tensor
from ..topics import Topic
from .covering import Factors, Row
from .systematic import PERIOD, SHORT, repeat
from .window_cases import attributes, image

EIGHT = ("uint8", "int8")
WINDOWS: Factors = {
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
    """Return the attributes; two spatial axes are never alike."""
    spatial = int(row["spatial"])
    more = {"strides": (2, 3), "dilations": (2, 3), "start padding": (1, 2), "end padding": (2, 1)}
    strides, dilations, start, end = (
        values[:spatial] if row[name] == "more" else (int(row[name]),) * spatial
        for name, values in more.items()
    )
    groups = {"1": 1, "2": 2}.get(row["groups"], 4)
    return attributes(strides, dilations, start, end, groups)


def operands(row: Row, number: int) -> tuple[Tensor, Tensor]:
    """Return input and filter of a row of options."""
    spatial, groups = int(row["spatial"]), row["groups"]
    channels, per_group = (2, 2) if groups == "1" else (4, 2 if groups == "2" else 1)
    batch, outputs = 1 + (row["batch"] == "more"), 8 if groups == "depthwise twice" else 4
    x = image(row["input"], (batch, channels, *(7, 6)[:spatial]), 900 + number)
    w = image(row["filter"], (outputs, per_group, *(3, 2)[:spatial]), 950 + number)
    return x, w


def point(kind: str, dtype: str, channels: int, first: int) -> Sequence[int] | None:
    """Return no zero point, one, or one for each channel."""
    if kind == "absent":
        return None
    middle = 128 * (dtype == "uint8") + first
    return [middle + 3 * channel for channel in range(channels if "each" in kind else 1)]


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return input and filter of a convolution with so many output elements."""
    if count in FILTERS:
        outputs, height, width = FILTERS[count]
        x = image("uint8", (1, 2, height + 2, width + 1), seed)
        return x, image("int8", (outputs, 2, 3, 2), seed + 1)
    x = repeat(image("uint8", (PERIOD,), seed), (1, 2, 1, count + 2))
    return x, image("int8", (1, 2, 1, 3), seed + 1)


def add_too_wide(topic: Topic, count: int, clause: str) -> None:
    """Add a kernel one wider than the input."""
    if count in SHORT:
        w = repeat(image("int8", (PERIOD,), count), (1, 2, 1, count + 3))
        text = f"a kernel of {count + 3} columns over an input of {count + 2}"
        base, error = f"elements-{count}", ("sizes", "FilterTensor")
        topic.invalid(f"kernel-{count + 3}", text, clause, base, error, {"FilterTensor": w})
