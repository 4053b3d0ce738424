"""ONNX's attributes of windows, and dmlax's options for them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import dmlax
from dmlax._core.windows import dilated_size, output_size, same_padding
from dmlax.errors import UnsupportedError
from dmlax.onnx.operators.table import Tensor
from dmlax.onnx.operators.values import is_size

_Sizes = tuple[int, ...]
_SPATIAL = {3: "W", 4: "HW", 5: "DHW"}


def image_layout(rank: int, is_channels_last: bool) -> str:
    """The layout of an image of a rank."""
    return f"N{_SPATIAL[rank]}C" if is_channels_last else f"NC{_SPATIAL[rank]}"


class ConvolutionLayout(NamedTuple):
    """The attributes that say whether the images of a convolution are channels last.

    The channels of its input may be first all the same.
    """

    channels_last: int = 0
    input_channels_first: int = 0

    def dimension_numbers(self, rank: int) -> tuple[str, str, str]:
        """The layouts of the input, the filter and the output; a filter is channels first."""
        is_last = bool(self.channels_last)
        input = image_layout(rank, is_last and not self.input_channels_first)
        return input, f"OI{_SPATIAL[rank]}", image_layout(rank, is_last)

    def arrange_input(self, x: Tensor, w: Tensor) -> Tensor:
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
    """The attributes of a convolution's windows."""

    auto_pad: str = "NOTSET"
    dilations: _Sizes | None = None
    group: int = 1
    kernel_shape: _Sizes | None = None
    pads: _Sizes | None = None
    strides: _Sizes | None = None

    def of_convolution(self, x: Tensor, w: Tensor, layout: ConvolutionLayout) -> dict[str, Any]:
        """The options of a convolution."""
        rank = len(x.shape)
        _expect_rank(rank, (3, 4))
        options = self._options() | {"group_count": self.group}
        if not isinstance(w, dmlax.PreparedFilter):  # a prepared filter holds its layout
            options["dimension_numbers"] = layout.dimension_numbers(rank)
        return options

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

    def padding(self, sizes: Sequence[int], kernel: _Sizes) -> tuple[_Sizes, _Sizes]:
        """The start and the end padding of every axis."""
        count = len(kernel)
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            totals = [
                max(same_padding(size, span, stride), 0)
                for size, span, stride in zip(sizes, *self.steps(kernel), strict=True)
            ]
            halves = tuple((t // 2, t - t // 2) for t in totals)
            if self.auto_pad == "SAME_LOWER":
                halves = tuple((b, a) for a, b in halves)
            return tuple(a for a, _ in halves), tuple(b for _, b in halves)
        if self.auto_pad == "VALID" or self.pads is None:
            return (0,) * count, (0,) * count
        return self.pads[:count], self.pads[count:]

    def steps(self, kernel: _Sizes) -> tuple[_Sizes, _Sizes]:
        """The pixels that the kernel spans, and the stride, of every axis."""
        ones = (1,) * len(kernel)
        dilations = self.dilations or ones
        return tuple(map(dilated_size, kernel, dilations)), self.strides or ones


class PoolWindows(NamedTuple):
    """The attributes of a pool's windows."""

    kernel_shape: _Sizes
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: _Sizes | None = None
    pads: _Sizes | None = None
    strides: _Sizes | None = None

    def options(self, x: Tensor, is_channels_last: bool = False) -> dict[str, Any]:
        """The options of a pool of dmlax."""
        rank = len(x.shape)
        _expect_rank(rank, tuple(_SPATIAL))
        layout = image_layout(rank, is_channels_last)
        sizes = [size for size, axis in zip(x.shape, layout, strict=True) if axis not in "NC"]
        start, end = self.padding(sizes)
        return {
            "window_size": self.kernel_shape,
            "strides": self.strides,
            "dilations": self.dilations,
            "start_padding": start,
            "end_padding": (self._ceiling if self.ceil_mode else self._whole)(sizes, start, end),
            "dimension_numbers": layout,
        }

    def padding(self, sizes: Sequence[int]) -> tuple[_Sizes, _Sizes]:
        """The start and the end padding of every axis."""
        return self._windows.padding(sizes, self.kernel_shape)

    @property
    def _windows(self) -> Windows:
        return Windows(self.auto_pad, self.dilations, pads=self.pads, strides=self.strides)

    def _whole(self, sizes: Sequence[int], start: _Sizes, end: _Sizes) -> tuple[int, ...]:
        """The end padding; a window fits that misses less than a stride: ONNX Runtime truncates."""
        axes = zip(sizes, start, end, *self._windows.steps(self.kernel_shape), strict=True)
        missing = ((b, span - size - a - b, stride) for size, a, b, span, stride in axes)
        return tuple(b + n if is_size(n) and 0 < n < stride else b for b, n, stride in missing)

    def _ceiling(self, sizes: Sequence[int], start: _Sizes, end: _Sizes) -> tuple[int, ...]:
        """The end padding with which as many windows fit as begin inside the padded image."""
        paddings = []
        steps = self._windows.steps(self.kernel_shape)
        for size, a, b, span, stride in zip(sizes, start, end, *steps, strict=True):
            windows = output_size(size + a + b + stride - 1, span, stride)
            if (windows - 1) * stride >= size + a:  # the last one would begin in the end padding
                windows -= 1
            paddings.append(max((windows - 1) * stride + span - size - a, 0))
        return tuple(paddings)


def _expect_rank(rank: int, known: tuple[int, ...]) -> None:
    if rank not in known:
        raise UnsupportedError(f"its input has rank {rank}, expected one of {known}")
