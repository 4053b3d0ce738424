"""ONNX's attributes of windows, and dmlax's options for them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core.windows import dilated_size, output_size, same_padding
from dmlax.errors import UnsupportedError
from dmlax.onnx.operators.table import Tensor
from dmlax.onnx.operators.values import expect_equal_sizes, is_size, larger_size, to_device

_Sizes = tuple[int, ...]
_Tensor = TypeVar("_Tensor", bound=Tensor)
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

    def of_convolution(
        self, x: Tensor, w: Tensor, zero_point: Tensor | None, layout: ConvolutionLayout
    ) -> tuple[Tensor, dict[str, Any]]:
        """The input of a convolution, with its padding if that is symbolic, and the options."""
        rank = len(x.shape)
        _expect_rank(rank, (3, 4))
        options: dict[str, Any] = {"group_count": self.group}
        input, filter, _ = layout.dimension_numbers(rank)
        if isinstance(w, dmlax.PreparedFilter):  # it holds its layout
            filter = w.layout
        else:
            options["dimension_numbers"] = layout.dimension_numbers(rank)
        sizes = dict(zip(filter, w.shape, strict=True)) if len(w.shape) == rank else {}
        self.expect_channels(x, input, sizes.get("I", 0))
        kernel = tuple(sizes.get(axis, 1) for axis in _SPATIAL[rank])
        x, windows = self.pad(x, input, kernel, zero_point)
        return x, options | windows._options()

    def expect_channels(self, x: Tensor | jax.ShapeDtypeStruct, layout: str, count: int) -> None:
        """Refuses a symbolic number of channels that a filter of so many may not fit."""
        expect_equal_sizes(x.shape[layout.index("C")], count * self.group)

    def pad(
        self, x: _Tensor, layout: str, kernel: _Sizes, fill: Tensor | None = None
    ) -> tuple[_Tensor | Array, "Windows"]:
        """Pads by the symbolic pixels that "SAME" adds; returns windows without them, too."""
        axes = [axis for axis, name in enumerate(layout) if name not in "NC"]
        start, end = self.padding([x.shape[axis] for axis in axes], kernel)
        if all(map(is_size, (*start, *end))):
            return x, self
        pairs = dict(zip(axes, zip(start, end, strict=True), strict=True))
        value = jnp.zeros((), x.dtype) if fill is None else to_device(fill).reshape(())
        padding = [(*pairs.get(axis, (0, 0)), 0) for axis in range(len(layout))]
        return lax.pad(to_device(x), value.astype(x.dtype), padding), self._replace(
            auto_pad="VALID"
        )

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
            axes = zip(sizes, *self.steps(kernel), strict=True)
            pairs = [_same(*axis, self.auto_pad == "SAME_LOWER") for axis in axes]
            return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
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


def _same(size: int, span: int, stride: int, is_lower: bool) -> tuple[int, int]:
    """The pixels at the start and at the end that "SAME" adds.

    A symbolic end is below 0 where windows leave pixels out, so that JAX sees how many there are.
    """
    total = same_padding(size, span, stride)
    if is_size(total):
        added = total = max(total, 0)
    elif span == 1:
        added = 0
    else:
        added = total if span >= stride else larger_size(total, 0)
    start = added - added // 2 if is_lower else added // 2
    return start, total - start


def _expect_rank(rank: int, known: tuple[int, ...]) -> None:
    if rank not in known:
        raise UnsupportedError(f"its input has rank {rank}, expected one of {known}")
