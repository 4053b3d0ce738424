"""What the convolutions' kernels for Hopper GPUs share: their operands, and channels' constants."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._convolution.cuda.problem import ConvProblem
from dmlax._convolution.plan import Convolution
from dmlax._convolution.prepare import rebase_of
from dmlax._cuda import ir
from dmlax._cuda import launch as cuda_launch
from dmlax._cuda.ir import Pointer, Value, constant
from dmlax._cuda.requantize import Requantizer, Scales, compute_multiplier


def launch(
    name: str,
    body: Callable[..., None],
    problem: ConvProblem,
    operands: Convolution,
    sums: Array,
    *,
    channels: int,
    blocks: int,
    warpgroups: int,
    shared_words: int,
    scratch_words: int = 0,
) -> Array:
    """Runs a kernel on the operands that are there, and the filter's sums: (cells, channels).

    Its `scratch` is global memory that nobody else reads.
    """
    given = operands._asdict() | {"sums": sums}
    dtype = problem.plan.options.output_dtype
    outputs = {"output": jax.ShapeDtypeStruct((problem.output_pixels, channels), dtype)}
    if scratch_words:
        outputs["scratch"] = jax.ShapeDtypeStruct((scratch_words,), jnp.uint32)
    output, *_ = cuda_launch.launch(
        name,
        body,
        {name: value.reshape(-1) for name, value in given.items() if value is not None},
        outputs,
        blocks=blocks,
        warpgroups=warpgroups,
        shared_words=shared_words,
    )
    return output


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

    def __init__(self, problem: ConvProblem, memory: dict[str, Pointer]) -> None:
        self._plan, self._memory = problem.plan, memory
        dtype = problem.plan.options.output_dtype
        self.input_zero_point = self._zero_point("input_zero_point", problem.plan.input.dtype)
        self._output_zero_point = self._zero_point("output_zero_point", dtype)

    def input_zero_points(self) -> Value:
        """A word of four of them."""
        return (self.input_zero_point & 0xFF) * 0x01010101

    def requantizer(self) -> Requantizer | None:
        """What all channels share of it; None for int32 outputs."""
        options = self._plan.options
        if not self._plan.quantized:
            return None
        return Requantizer.of(options.output_dtype, options.arithmetic, self._output_zero_point)

    def column(self, channel: Value, summed: int) -> Column:
        """An output channel's constants; `summed` bytes are in each window's sum."""
        plan = self._plan
        zero_point = self._zero_point("filter_zero_point", plan.filter.filter.dtype, channel)
        zero_point = zero_point - rebase_of(plan.filter.filter.dtype)
        of_zeros = zero_point * summed - self._memory["sums"].load(channel.extend() * 4)
        offset = self.input_zero_point * of_zeros
        if plan.operands.bias is not None:
            offset = offset + self._memory["bias"].load(channel.extend() * 4)
        if not plan.quantized:
            return Column(offset, zero_point, *[constant(0)] * 5)
        scales = Scales(
            self._memory["input_scale"].load(0),
            self._memory["filter_scale"].load(self._index("filter_scale", channel) * 4),
            self._memory["output_scale"].load(0),
            self._output_zero_point,
        )
        multiplier = compute_multiplier(scales, plan.options.arithmetic)
        return Column(offset, zero_point, multiplier, *scales)

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
        return channel.extend()


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
            index = ir.thread() + first
            with ir.when(index < self._count):
                for place, value in zip(self._places(index), column(index), strict=True):
                    ir.store_shared(place, value)

    def four(self, name: str, first: Value) -> list[Value]:
        """A constant of four columns side by side."""
        return ir.load_shared(getattr(self._places(first), name), 4)

    def scales(self, column: Value) -> Scales:
        """What a column is requantized with."""
        places = self._places(column)[-4:]
        return Scales(*(ir.load_shared(place, 1)[0] for place in places))

    def _places(self, column: Value) -> Column:
        start, size = self._address + column * 4, 4 * self._count
        return Column(*(start + i * size for i in range(len(Column._fields))))
