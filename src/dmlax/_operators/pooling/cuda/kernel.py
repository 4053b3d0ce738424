"""The kernel of max_pooling for Hopper GPUs: a thread has some channels of one output pixel.

The taps beyond an edge are the nearest ones inside, which every window has too.
"""

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core.windows import two_axes
from dmlax._cuda import ir, tuning
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Memory, Pointer, Value
from dmlax._cuda.launch import ThreadBlock, launch
from dmlax._cuda.pixels import split_pixel
from dmlax._operators.pooling.plan import PoolingPlan

_BLOCK = ThreadBlock(tuning.POOLING_WARPGROUPS)


@dataclass(frozen=True)
class _Problem:
    """A pooling of (N, H, W, C); one spatial axis is a width, of height 1."""

    input: tuple[int, int]
    output: tuple[int, int]
    size: tuple[int, int]
    strides: tuple[int, int]
    starts: tuple[int, int]
    images: int
    channels: int
    signed: bool

    @classmethod
    def of(cls, plan: PoolingPlan) -> "_Problem":
        """The problem of a plan."""
        of = plan.windows
        return cls(
            input=two_axes([plan.shape[axis] for axis in plan.spatial_axes], 1),
            output=two_axes(plan.output_sizes, 1),
            size=two_axes(of.size, 1),
            strides=two_axes(of.strides, 1),
            starts=two_axes([start for start, _ in of.padding], 0),
            images=plan.shape[plan.options.layouts.input[0]],
            channels=plan.shape[-1],
            signed=plan.input.dtype == jnp.int8,
        )

    @property
    def chunk(self) -> int:
        """Bytes that a thread takes of a pixel."""
        return math.gcd(self.channels, CHUNK)

    @property
    def chunks(self) -> int:
        """Chunks of the output."""
        return self.images * math.prod(self.output) * (self.channels // self.chunk)


def pool(plan: PoolingPlan, input: Array) -> Array:
    """The maxima in the input's layout."""
    problem = _Problem.of(plan)
    (pooled,) = launch(
        "dmlax_max_pooling",
        functools.partial(_body, problem),
        {"input": input.reshape(-1)},
        {"output": jax.ShapeDtypeStruct((math.prod(plan.pooled_shape),), input.dtype)},
        blocks=-(-problem.chunks // _BLOCK.threads),
        warpgroups=_BLOCK.warpgroups,
        shared_words=4,
    )
    return pooled.reshape(plan.pooled_shape)


def _body(problem: _Problem, memory: Memory) -> None:
    """Writes a thread's chunk."""
    place = ir.block() * _BLOCK.threads + ir.thread()
    with ir.when(place < problem.chunks):
        taps = _load_taps(problem, memory["input"], place)
        words = [_maxima(list(words), problem.signed) for words in zip(*taps, strict=True)]
        memory["output"].store(place.extend() * problem.chunk, *words)


def _load_taps(problem: _Problem, input: Pointer, place: Value) -> list[list[Value]]:
    """Loads the chunk of every tap of a window, in words."""
    across = problem.channels // problem.chunk
    pixel, part = divmod(place, across)
    channel = part * problem.chunk
    height, width = problem.input
    image, y, x = split_pixel(pixel, *problem.output)
    down, along = (
        [ir.clamp_signed(at * stride - start + tap, 0, length - 1) for tap in range(size)]
        for at, stride, start, size, length in zip(
            (y, x), problem.strides, problem.starts, problem.size, problem.input, strict=True
        )
    )
    taps = []
    for row in down:
        line = (image * height + row) * width
        for column in along:
            offset = (line + column) * problem.channels + channel
            address = input.address(offset)
            taps.append(ir.load_read_only_bytes(address, problem.chunk))
    return taps


def _maxima(words: list[Value], signed: bool) -> Value:
    """The maxima of four channels.

    Those of both bytes that are highest in a half; then of the others, which are moved there. What
    is below counts only where these are equal.
    """
    greatest = functools.partial(ir.maximum_of_halves, signed=signed)
    high = functools.reduce(greatest, words)
    low = functools.reduce(greatest, [word << 8 for word in words])
    return ir.permute_bytes(low, high, 0x7351)
