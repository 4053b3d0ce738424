"""Sizes of a convolution as the Hopper kernels take it, from its plan alone."""

import math
from dataclasses import dataclass

import jax.numpy as jnp

from dmlax._core.byte_packing import round_up_to_word
from dmlax._core.windows import two_axes
from dmlax._cuda import tuning
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.product_types import ProductTypes, SumTypes
from dmlax._operators.convolution.plan import ConvolutionPlan


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
    channels: int  # the channels of a group, a multiple of 4
    sum: SumTypes | None  # the sum of the result and an addend

    @classmethod
    def of(cls, plan: ConvolutionPlan, sum: SumTypes | None = None) -> "ConvProblem":
        """The problem of a plan; one spatial axis is a width, of height 1."""
        options = plan.options
        sizes = [plan.input.shape[axis] for axis in options.input_layout[2:]]
        return cls(
            plan,
            plan.batch,
            input=two_axes(sizes, 1),
            output=two_axes(plan.output_sizes, 1),
            kernel=two_axes(plan.filter.kernel, 1),
            strides=two_axes(options.strides, 1),
            dilations=two_axes(options.dilations, 1),
            padding=two_axes(options.padding, (0, 0)),
            groups=plan.filter.group_count,
            channels=round_up_to_word(plan.filter.channels),
            sum=sum,
        )

    @property
    def types(self) -> ProductTypes:
        """The types of the product's parameters."""
        plan, options = self.plan, self.plan.options
        arithmetic = options.arithmetic if plan.quantized else None
        dtypes = plan.input.dtype, plan.filter.filter.dtype, options.output_dtype
        return ProductTypes(*dtypes, arithmetic, sum=self.sum)

    @property
    def output_channels(self) -> int:
        """Output channels of a group."""
        return self.plan.filter.outputs // self.groups

    @property
    def stored_channels(self) -> int:
        """Output channels of a group as they are stored: whole words, where that is faster."""
        one_byte = self.plan.options.output_dtype.itemsize == 1
        if self.groups == 1 and one_byte and self.output_channels >= tuning.FEWEST_PADDED_CHANNELS:
            return round_up_to_word(self.output_channels)
        return self.output_channels

    @property
    def depthwise(self) -> bool:
        """True if a group has one input channel."""
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
    def padded_input(self) -> list[int]:
        """Rows and columns of an image with its padding."""
        edges = zip(self.input, self.padding, strict=True)
        return [size + start + end for size, (start, end) in edges]

    @property
    def padded_image_bytes(self) -> int:
        """Bytes of one image with its padding."""
        return math.prod(self.padded_input) * self.pixel_bytes

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

    @property
    def copy_bytes(self) -> int:
        """Bytes that one copy takes of a window: they are contiguous in the input at any tap."""
        return math.gcd(self.channels, CHUNK)

    @property
    def sums_windows(self) -> bool:
        """True if the filter has a zero point, whose term needs the sums of windows."""
        zero_point = self.plan.operands.filter_zero_point is not None
        return zero_point or self.plan.filter.filter.dtype == jnp.uint8
