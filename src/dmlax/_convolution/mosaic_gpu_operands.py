"""What the kernels for Hopper GPUs take: a convolution in N, H, W, C, and its parameters."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._convolution.plan import Convolution, ConvolutionPlan
from dmlax._convolution.prepare import rebase_of
from dmlax._core import lanes, tensor_cores
from dmlax._core.lanes import Pointer, Value, constant
from dmlax._core.lanes_rescale import Rescale, Scales, multiplier


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
    channels: int  # of a group, a multiple of 4

    @classmethod
    def of(cls, plan: ConvolutionPlan) -> "Problem":
        """One spatial axis is a width, of height 1."""
        options = plan.options
        sizes = [plan.input.shape[axis] for axis in options.input_layout[2:]]
        height = len(sizes) == 1

        def two(values: Any, one: Any = 1) -> Any:
            return (one, *values) if height else tuple(values)

        return cls(
            plan,
            plan.batch,
            input=two(sizes),
            output=two(plan.output_sizes),
            kernel=two(plan.filter.kernel),
            strides=two(options.strides),
            dilations=two(options.dilations),
            padding=two(options.padding, (0, 0)),
            channels=-(-plan.filter.channels // 4) * 4,
        )

    @property
    def groups(self) -> int:
        """Groups."""
        return self.plan.filter.group_count

    @property
    def outputs(self) -> int:
        """Output channels of a group."""
        return self.plan.filter.outputs // self.groups

    @property
    def pixel(self) -> int:
        """Bytes of an input cell's channels."""
        return self.channels * self.groups

    @property
    def input_bytes(self) -> int:
        """Of all images."""
        return self.images * math.prod(self.input) * self.pixel

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return math.prod(self.kernel)

    @property
    def depth(self) -> int:
        """Bytes of a filter's row: whole chunks."""
        return -(-self.taps * self.channels // tensor_cores.CHUNK) * tensor_cores.CHUNK

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

    def window(self, cell: Value) -> tuple[Value, Value, Value]:
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
        return math.gcd(self.channels, tensor_cores.CHUNK)

    @property
    def sums_windows(self) -> bool:
        """Whether the filter's rows are off by a zero point, which a window's sum makes up for."""
        zero_point = self.plan.operands.filter_zero_point is not None
        return zero_point or self.plan.filter.filter.dtype == jnp.uint8


def flat_operands(operands: Convolution, sums: Array) -> dict[str, Array]:
    """Those that are there, by name, and the filter's sums."""
    given = operands._asdict() | {"sums": sums}
    return {name: value.reshape(-1) for name, value in given.items() if value is not None}


class Column(NamedTuple):
    """What an output channel's sums are made outputs with."""

    offset: Value  # added to a sum: the bias and the zero points' terms
    zero_point: Value  # of the filter; a window's sum times it is taken off
    multiplier: Value
    input_scale: Value  # this and what follows are needed beside a half only
    filter_scale: Value
    output_scale: Value
    output_zero_point: Value


class Parameters:
    """The small operands, in global memory; absent ones have no pointer."""

    def __init__(self, problem: Problem, memory: dict[str, Pointer]) -> None:
        self._plan, self._memory = problem.plan, memory
        dtype = problem.plan.options.output_dtype
        self.input_zero_point = self._zero_point("input_zero_point", problem.plan.input.dtype)
        self._output_zero_point = self._zero_point("output_zero_point", dtype)

    def rescale(self) -> Rescale | None:
        """What all channels share of it; None for int32 outputs."""
        options = self._plan.options
        if not self._plan.quantized:
            return None
        return Rescale.of(options.output_dtype, options.arithmetic, self._output_zero_point)

    def column(self, channel: Value, summed: int) -> Column:
        """An output channel's constants; `summed` bytes are in each window's sum."""
        plan = self._plan
        zero_point = self._zero_point("filter_zero_point", plan.filter.filter.dtype, channel)
        zero_point = zero_point - rebase_of(plan.filter.filter.dtype)
        of_zeros = zero_point * summed - self._memory["sums"].load(channel.wide() * 4)
        offset = self.input_zero_point * of_zeros
        if plan.operands.bias is not None:
            offset = offset + self._memory["bias"].load(channel.wide() * 4)
        if not plan.quantized:
            return Column(offset, zero_point, *[constant(0)] * 5)
        scales = Scales(
            self._memory["input_scale"].load(0),
            self._memory["filter_scale"].load(self._index("filter_scale", channel) * 4),
            self._memory["output_scale"].load(0),
            self._output_zero_point,
        )
        made = multiplier(scales, plan.options.arithmetic)
        return Column(offset, zero_point, made, *scales)

    def _zero_point(self, name: str, dtype: np.dtype, channel: Value | None = None) -> Value:
        """As int32; 0 where it is absent."""
        if name not in self._memory:
            return constant(0)
        value = self._memory[name].load(self._index(name, channel), 8)
        return value if dtype == jnp.uint8 else (value ^ 128) - 128

    def _index(self, name: str, channel: Value | None) -> Value:
        """Where a channel's value is, of one or of one a channel."""
        if channel is None or getattr(self._plan.operands, name).size == 1:
            return constant(0, 64)
        return channel.wide()


class ColumnTable:
    """The constants of a block's output channels, in shared memory."""

    def __init__(self, address: Value, count: int) -> None:
        self._address, self._count = address, count

    @staticmethod
    def bytes_of(count: int) -> int:
        """Of shared memory; 16 divides it."""
        return len(Column._fields) * 4 * count

    def set(self, threads: int, column: Callable[[Value], Column]) -> None:
        """Each by one thread; a barrier has to follow."""
        for first in range(0, self._count, threads):
            index = lanes.thread() + first
            with lanes.when(index < self._count):
                for place, value in zip(self._places(index), column(index), strict=True):
                    lanes.store_shared(place, value)

    def four(self, name: str, first: Value) -> list[Value]:
        """A constant of four columns side by side."""
        return lanes.load_shared(getattr(self._places(first), name), 4)

    def scales(self, column: Value) -> Scales:
        """What a column is rescaled with."""
        places = self._places(column)[-4:]
        return Scales(*(lanes.load_shared(place, 1)[0] for place in places))

    def _places(self, column: Value) -> Column:
        start, size = self._address + column * 4, 4 * self._count
        return Column(*(start + i * size for i in range(len(Column._fields))))
