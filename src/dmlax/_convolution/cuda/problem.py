"""A convolution as the kernels for Hopper GPUs take it, known before one is written."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from dmlax._convolution.plan import ConvolutionPlan
from dmlax._core.byte_packing import whole_words
from dmlax._cuda import capability

_FEW = 32  # output channels that are stored as they are


def _two(values: Any, one: Any = 1) -> Any:
    """Of a height and a width; a width alone has one of height 1."""
    return tuple(values) if len(values) == 2 else (one, *values)


@dataclass(frozen=True)
class Problem:
    """A convolution in N, H, W, C, as the kernel takes it: `depth` bytes make a window."""

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

    @classmethod
    def of(cls, plan: ConvolutionPlan) -> "Problem":
        """One spatial axis is a width, of height 1."""
        options = plan.options
        sizes = [plan.input.shape[axis] for axis in options.input_layout[2:]]
        return cls(
            plan,
            plan.batch,
            input=_two(sizes),
            output=_two(plan.output_sizes),
            kernel=_two(plan.filter.kernel),
            strides=_two(options.strides),
            dilations=_two(options.dilations),
            padding=_two(options.padding, (0, 0)),
            groups=plan.filter.group_count,
            channels=whole_words(plan.filter.channels),
        )

    @property
    def outputs(self) -> int:
        """Output channels of a group."""
        return self.plan.filter.outputs // self.groups

    @property
    def stored(self) -> int:
        """Output channels of a group that are stored: more, where words are stored faster."""
        if self.groups > 1 or self.plan.options.output_dtype.itemsize > 1 or self.outputs < _FEW:
            return self.outputs
        return whole_words(self.outputs)

    @property
    def depthwise(self) -> bool:
        """Whether each output channel has an input channel of its own."""
        return self.plan.filter.channels == 1 and self.groups > 1

    @property
    def pixel(self) -> int:
        """Bytes of an input cell's channels."""
        if self.depthwise:
            return whole_words(self.plan.filter.outputs)
        return self.channels * self.groups

    @property
    def input_bytes(self) -> int:
        """Of all images."""
        return self.images * math.prod(self.input) * self.pixel

    @property
    def padded_image_bytes(self) -> int:
        """Of one image and what is beside it."""
        edges = zip(self.input, self.padding, strict=True)
        return math.prod(size + start + end for size, (start, end) in edges) * self.pixel

    @property
    def filter_bytes(self) -> int:
        """Of all its rows."""
        return self.plan.filter.outputs * self.depth

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return math.prod(self.kernel)

    @property
    def depth(self) -> int:
        """Bytes of a filter's row: whole chunks."""
        return -(-self.taps * self.channels // capability.CHUNK) * capability.CHUNK

    @property
    def cells(self) -> int:
        """Cells of all images."""
        return self.images * math.prod(self.output)

    @property
    def padded(self) -> bool:
        """Whether a window may reach beyond the input."""
        return any(edge > 0 for edges in self.padding for edge in edges)

    @property
    def plain(self) -> bool:
        """Whether a cell's window is that cell of the input."""
        return self.taps == 1 and self.input == self.output and not self.padded

    def window(self, cell: Any) -> tuple[Any, Any, Any]:
        """The image of a cell of all images; the row and column where its window begins."""
        rows, columns = self.output
        image = cell // (rows * columns)
        cell = cell - image * (rows * columns)
        y = cell // columns
        x = cell - y * columns
        top = y * self.strides[0] - self.padding[0][0]
        return image, top, x * self.strides[1] - self.padding[1][0]

    @property
    def granule(self) -> int:
        """Bytes that are side by side in the input, whatever the tap."""
        return math.gcd(self.channels, capability.CHUNK)

    @property
    def sums_windows(self) -> bool:
        """Whether the filter's rows are off by a zero point, which a window's sum makes up for."""
        zero_point = self.plan.operands.filter_zero_point is not None
        return zero_point or self.plan.filter.filter.dtype == jnp.uint8
