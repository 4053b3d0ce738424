"""ONNX's window attributes as those of dmlax."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import dmlax
from dmlax._core.windows import dilated_size, output_size, same_padding
from dmlax.errors import UnsupportedError

_SPATIAL = {3: "W", 4: "HW", 5: "DHW"}


def channels_first(rank: int) -> str:
    """The layout of an image of a rank."""
    return f"NC{_SPATIAL[rank]}"


def channels_last(rank: int) -> str:
    """The layout of an image of a rank."""
    return f"N{_SPATIAL[rank]}C"


def image_layout(rank: int, is_channels_last: bool) -> str:
    """The layout of an image of a rank."""
    return channels_last(rank) if is_channels_last else channels_first(rank)


class ConvolutionLayout(NamedTuple):
    """Whether the images of a convolution are channels last; a node has it as attributes.

    The channels of its input may be first all the same.
    """

    channels_last: int = 0
    input_channels_first: int = 0

    def dimension_numbers(self, rank: int) -> tuple[str, str, str]:
        """The layouts of the input, the filter and the output; a filter is channels first."""
        is_last = bool(self.channels_last)
        input = image_layout(rank, is_last and not self.input_channels_first)
        return input, f"OI{_SPATIAL[rank]}", image_layout(rank, is_last)

    def arrange_input(self, x: Any, w: Any) -> Any:
        """Transposes the input where a filter was prepared for another layout of it.

        Other outputs of a file are computed by another graph, with the same params.
        """
        if not isinstance(w, dmlax.PreparedFilter):
            return x
        input, _, _ = self.dimension_numbers(x.ndim)
        places = [input.index(axis) for axis in f"NC{_SPATIAL[x.ndim]}"]
        order = [places[axis] for axis in np.argsort(w.dimension_numbers.lhs_spec)]
        return x if order == sorted(order) else jnp.transpose(x, order)


class Windows(NamedTuple):
    """The attributes of windows, as a node has them."""

    auto_pad: str
    dilations: tuple[int, ...] | None
    kernel_shape: tuple[int, ...] | None
    pads: tuple[int, ...] | None
    strides: tuple[int, ...] | None

    def of_convolution(
        self, x: Any, w: Any, groups: int, layout: ConvolutionLayout
    ) -> dict[str, Any]:
        """The options of a convolution."""
        rank = len(x.shape)
        _expect_rank(rank, (3, 4))
        options = self._options() | {"group_count": groups}
        if not isinstance(w, dmlax.PreparedFilter):  # a prepared filter holds its layout
            options["dimension_numbers"] = layout.dimension_numbers(rank)
        return options

    def of_pool(self, x: Any, is_ceil: bool, is_channels_last: bool) -> dict[str, Any]:
        """The options of a pool."""
        rank = len(x.shape)
        _expect_rank(rank, tuple(_SPATIAL))
        layout = image_layout(rank, is_channels_last)
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
            totals = [
                max(same_padding(size, span, stride), 0)
                for size, span, stride in zip(sizes, *self._steps(kernel), strict=True)
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
        found = []
        steps = self._steps(self.kernel_shape)
        for size, a, b, span, stride in zip(sizes, start, end, *steps, strict=True):
            windows = output_size(size + a + b + stride - 1, span, stride)
            if (windows - 1) * stride >= size + a:  # the last one would begin in the end padding
                windows -= 1
            found.append(max((windows - 1) * stride + span - size - a, 0))
        return tuple(found)

    def _steps(self, kernel: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The pixels that the kernel spans, and the stride, of each axis."""
        ones = (1,) * len(kernel)
        dilations = self.dilations or ones
        return tuple(map(dilated_size, kernel, dilations)), self.strides or ones


def _expect_rank(rank: int, known: tuple[int, ...]) -> None:
    if rank not in known:
        raise UnsupportedError(f"its input has rank {rank}, expected one of {known}")
