"""Sizes of a convolution as the Hopper kernels take it, from its plan alone."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from dmlax._convolution.plan import ConvolutionPlan
from dmlax._core.byte_packing import round_up_to_word
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.sum_types import SumTypes

_PADDED_OUTPUTS = 32  # so many output channels are padded to whole words, which store faster


def _two_axes(values: Any, height: Any = 1) -> Any:
    """Values for a height and a width; a convolution of one axis has a width alone."""
    return tuple(values) if len(values) == 2 else (height, *values)


@dataclass(frozen=True)
class ConvProblem:
    """A convolution in N, H, W, C: a matrix product of gathered windows and the filter."""

    plan: ConvolutionPlan
    images: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    groups: int
    channels: int  # of a group, a multiple of 4
    sum: SumTypes | None  # of the result and an addend

    @classmethod
    def of(cls, plan: ConvolutionPlan, sum: SumTypes | None = None) -> "ConvProblem":
        """The problem of a plan; one spatial axis is a width, of height 1."""
        options = plan.options
        sizes = [plan.input.shape[axis] for axis in options.input_layout[2:]]
        return cls(
            plan,
            plan.batch,
            input=_two_axes(sizes),
            output=_two_axes(plan.output_sizes),
            kernel=_two_axes(plan.filter.kernel),
            strides=_two_axes(options.strides),
            dilations=_two_axes(options.dilations),
            padding=_two_axes(options.padding, (0, 0)),
            groups=plan.filter.group_count,
            channels=round_up_to_word(plan.filter.channels),
            sum=sum,
        )

    @property
    def output_channels(self) -> int:
        """Output channels of a group."""
        return self.plan.filter.outputs // self.groups

    @property
    def stored_channels(self) -> int:
        """Output channels of a group as they are stored: whole words, where that is faster."""
        one_byte = self.plan.options.output_dtype.itemsize == 1
        if self.groups == 1 and one_byte and self.output_channels >= _PADDED_OUTPUTS:
            return round_up_to_word(self.output_channels)
        return self.output_channels

    @property
    def depthwise(self) -> bool:
        """True if each output channel has an input channel of its own."""
        return self.plan.filter.channels == 1 and self.groups > 1

    @property
    def pixel_bytes(self) -> int:
        """Bytes of an input pixel: the channels of all groups."""
        if self.depthwise:
            return round_up_to_word(self.plan.filter.outputs)
        return self.channels * self.groups

    @property
    def input_bytes(self) -> int:
        """Bytes of all images."""
        return self.images * math.prod(self.input) * self.pixel_bytes

    @property
    def padded_image_bytes(self) -> int:
        """Bytes of one image with its padding."""
        edges = zip(self.input, self.padding, strict=True)
        return math.prod(size + start + end for size, (start, end) in edges) * self.pixel_bytes

    @property
    def filter_bytes(self) -> int:
        """Bytes of all the filter's rows."""
        return self.plan.filter.outputs * self.depth

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return math.prod(self.kernel)

    @property
    def window_bytes(self) -> int:
        """Bytes of a group's window, and of a filter's row before it is padded."""
        return self.taps * self.channels

    @property
    def depth(self) -> int:
        """Bytes of a filter's row, in whole chunks."""
        return -(-self.window_bytes // CHUNK) * CHUNK

    @property
    def output_pixels(self) -> int:
        """Output pixels of all images."""
        return self.images * math.prod(self.output)

    @property
    def padded(self) -> bool:
        """True if a window may reach beyond the input."""
        return any(edge > 0 for edges in self.padding for edge in edges)

    @property
    def pointwise(self) -> bool:
        """True if an output pixel's window is the input pixel of the same index."""
        return self.taps == 1 and self.input == self.output and not self.padded

    def window(self, pixel: Any) -> tuple[Any, Any, Any]:
        """The image of an output pixel of all images, and its window's first row and column."""
        rows, columns = self.output
        image = pixel // (rows * columns)
        pixel = pixel - image * (rows * columns)
        y = pixel // columns
        x = pixel - y * columns
        top = y * self.strides[0] - self.padding[0][0]
        return image, top, x * self.strides[1] - self.padding[1][0]

    @property
    def copy_bytes(self) -> int:
        """Bytes that one copy takes of a window: they are contiguous in the input at any tap."""
        return math.gcd(self.channels, CHUNK)

    @property
    def sums_windows(self) -> bool:
        """True if the filter has a zero point, whose term needs the sum of each window."""
        zero_point = self.plan.operands.filter_zero_point is not None
        return zero_point or self.plan.filter.filter.dtype == jnp.uint8
