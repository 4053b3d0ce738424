"""ONNX's window attributes as those of dmlax."""

from typing import Any, NamedTuple

from dmlax.errors import UnsupportedError

_SPATIAL = {3: "W", 4: "HW", 5: "DHW"}


def channels_first(rank: int) -> str:
    """The layout of an image of a rank."""
    return f"NC{_SPATIAL[rank]}"


def channels_last(rank: int) -> str:
    """The layout of an image of a rank."""
    return f"N{_SPATIAL[rank]}C"


class Windows(NamedTuple):
    """The attributes of windows, as a node has them."""

    auto_pad: str
    dilations: tuple[int, ...] | None
    kernel_shape: tuple[int, ...] | None
    pads: tuple[int, ...] | None
    strides: tuple[int, ...] | None

    def of_convolution(self, x: Any, w: Any, groups: int, is_channels_last: bool) -> dict[str, Any]:
        """The options of a convolution; a filter is channels first."""
        rank = len(x.shape)
        _expect_rank(rank, (3, 4))
        layout = (channels_last if is_channels_last else channels_first)(rank)
        filter = f"OI{_SPATIAL[rank]}"
        options = self._options() | {"group_count": groups}
        if not hasattr(w, "packed"):  # a prepared filter holds its layout
            options["dimension_numbers"] = (layout, filter, layout)
        return options

    def of_pool(self, x: Any, is_ceil: bool, is_channels_last: bool) -> dict[str, Any]:
        """The options of a pool."""
        rank = len(x.shape)
        _expect_rank(rank, tuple(_SPATIAL))
        layout = (channels_last if is_channels_last else channels_first)(rank)
        sizes = [size for size, axis in zip(x.shape, layout, strict=True) if axis not in "NC"]
        assert self.kernel_shape is not None
        start, end = self.padding(sizes, self.kernel_shape)
        if is_ceil:
            end = self._ceiling(sizes, start, end)
        return {
            "window_size": self.kernel_shape,
            "strides": self.strides,
            "dilations": self.dilations,
            "start_padding": start,
            "end_padding": end,
            "dimension_numbers": layout,
        }

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"strides": self.strides, "dilations": self.dilations}
        if self.auto_pad == "SAME_UPPER":
            return options | {"padding": "SAME"}
        if self.auto_pad == "SAME_LOWER":
            return options | {"padding": "SAME_LOWER"}
        if self.auto_pad == "VALID" or self.pads is None:
            return options
        half = len(self.pads) // 2
        return options | {"start_padding": self.pads[:half], "end_padding": self.pads[half:]}

    def padding(self, sizes: list[Any], kernel: tuple[int, ...]) -> tuple[Any, Any]:
        """The start and the end padding of each axis."""
        count = len(kernel)
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            strides, dilations = self.strides or (1,) * count, self.dilations or (1,) * count
            spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
            totals = [
                max((-(-size // s) - 1) * s + span - size, 0)
                for size, s, span in zip(sizes, strides, spans, strict=True)
            ]
            halves = tuple((t // 2, t - t // 2) for t in totals)
            if self.auto_pad == "SAME_LOWER":
                halves = tuple((b, a) for a, b in halves)
            return tuple(a for a, _ in halves), tuple(b for _, b in halves)
        if self.auto_pad == "VALID" or self.pads is None:
            return (0,) * count, (0,) * count
        return self.pads[:count], self.pads[count:]

    def _ceiling(self, sizes: list[Any], start: Any, end: Any) -> tuple[int, ...]:
        """The end padding with which as many windows fit as begin inside the padded image."""
        assert self.kernel_shape is not None
        count = len(sizes)
        strides, dilations = self.strides or (1,) * count, self.dilations or (1,) * count
        found = []
        for size, a, b, k, s, d in zip(
            sizes, start, end, self.kernel_shape, strides, dilations, strict=True
        ):
            rest = size + a + b - ((k - 1) * d + 1)
            windows = -(-rest // s) + 1
            if (windows - 1) * s >= size + a:  # the last one would begin in the end padding
                windows -= 1
            found.append(b + (windows - 1) * s - rest)
        if any(more < 0 for more in found):
            found = [max(more, 0) for more in found]
        return tuple(found)


def _expect_rank(rank: int, known: tuple[int, ...]) -> None:
    if rank not in known:
        raise UnsupportedError(f"its input has rank {rank}, expected one of {known}")
