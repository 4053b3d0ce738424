"""Checks a nonzero call and plans it from shapes and dtypes alone."""

import functools
import math
from collections.abc import Hashable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dmlax._core.arguments import Aval, Rules, decide, effective_rank
from dmlax._nonzero.result import NonzeroCoordinates

RULES = Rules("nonzero_coordinates")
_DTYPES = (
    *(jnp.bool_, jnp.int8, jnp.int16, jnp.int32, jnp.int64),
    *(jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64),
    *(jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64),
)
_MAX = 2**32 - 1


@dataclass(frozen=True)
class NonzeroPlan:
    """All static facts of a call; sizes are the whole input's, over the devices of `axis_name`."""

    input: Aval
    sizes: tuple[int, ...]
    size: int
    coordinate_rank: int
    fill_value: int
    axis_name: Hashable
    axis_size: int

    @property
    def coordinates(self) -> Aval:
        """The coordinates' dtype and shape."""
        return Aval(np.dtype(np.uint32), (self.size, self.coordinate_rank))

    @property
    def output(self) -> NonzeroCoordinates:
        """The dtypes and shapes of the result."""
        return NonzeroCoordinates._make((Aval(np.dtype(np.uint32), ()), self.coordinates))

    @property
    def elements(self) -> int:
        """Elements of the whole input."""
        return math.prod(self.sizes)

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.input} -> {self.output.count}, {self.coordinates}"


@functools.lru_cache(maxsize=4096)
def nonzero_plan(
    input: Aval,
    size: int | None,
    coordinate_rank: int | None,
    fill_value: int,
    axis_name: Hashable,
    axis_size: int,
) -> NonzeroPlan:
    """Checks the call and fills in the defaults."""
    RULES.expect_dtype("InputTensor", input, *_DTYPES)
    rank = len(input.shape)
    RULES.expect_rank("InputTensor", input)
    sizes = (input.shape[0] * axis_size, *input.shape[1:])
    whole = Aval(input.dtype, sizes)
    elements = f"is {whole}, expected at most {_MAX} elements"
    RULES.expect(decide(lambda: whole.size <= _MAX, True), "sizes", "InputTensor", elements)
    product = f"is {whole}, expected sizes whose product JAX can bound: constrain each symbol alone"
    RULES.expect(decide(lambda: whole.size >= 0, False), "sizes", "InputTensor", product)
    low = effective_rank(sizes)
    if coordinate_rank is None:
        coordinate_rank = rank
    width = f"has {coordinate_rank} columns, expected {low} to {rank} for InputTensor {whole}"
    RULES.expect(low <= coordinate_rank <= rank, "sizes", "OutputCoordinatesTensor", width)
    size = whole.size if size is None else size
    unknown = f"is {size}, the elements of InputTensor {whole}, expected a static integer: give it"
    RULES.expect(isinstance(size, int), "option", "size", unknown)
    return NonzeroPlan(input, sizes, size, coordinate_rank, fill_value, axis_name, axis_size)
