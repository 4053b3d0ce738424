"""Checks a nonzero call and plans it from shapes and dtypes alone."""

import functools
import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import cast

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core import compat
from dmlax._core.arguments import Aval, Rules, aval_of, decide, effective_rank
from dmlax._core.axis_names import WHOLE, AxisNames, whole
from dmlax._core.plans import BasePlan
from dmlax._operators.nonzero.result import NonzeroCoordinates

RULES = Rules("nonzero_coordinates")
_DTYPES = (
    *(jnp.bool_, jnp.int8, jnp.int16, jnp.int32, jnp.int64),
    *(jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64),
    *(jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64),
)
_MAX = 2**32 - 1


@dataclass(frozen=True)
class NonzeroPlan(BasePlan):
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
    width += "; coordinate_rank is their number"
    RULES.expect(low <= coordinate_rank <= rank, "sizes", "OutputCoordinatesTensor", width)
    size = whole.size if size is None else size
    unknown = f"is {size}, the elements of InputTensor {whole}, expected a static integer: give it"
    RULES.expect(isinstance(size, int), "option", "size", unknown)
    return NonzeroPlan(input, sizes, size, coordinate_rank, fill_value, axis_name, axis_size)


def axis_names(plan: NonzeroPlan, input: Array) -> AxisNames | None:
    """Every device needs the whole input; over the devices of `axis_name` it has a slice."""
    if plan.axis_name is not None:
        return None
    count, coordinates = "", f"{WHOLE} {WHOLE}"
    return AxisNames(whole(input), (count, coordinates))


def local_plan(plan: NonzeroPlan, input: Array) -> tuple[NonzeroPlan, Array]:
    """The plan itself, as the input is whole."""
    return plan, input


def plan(
    input: ArrayLike,
    *,
    size: int | None = None,
    coordinate_rank: int | None = None,
    fill_value: int = 0,
    axis_name: Hashable = None,
) -> tuple[NonzeroPlan, Array]:
    """Plans a call, and returns its operand."""
    array = RULES.to_array("InputTensor", input)
    if size is not None:
        size = RULES.to_integer("size", size, 0, 2**32 - 1)
    if coordinate_rank is not None:
        coordinate_rank = RULES.to_integer("coordinate_rank", coordinate_rank, 0)
    fill_value = RULES.to_integer("fill_value", fill_value, 0, 2**32 - 1)
    devices = 1 if axis_name is None else compat.axis_size(axis_name)
    options = (size, coordinate_rank, fill_value, axis_name, devices)
    checked = nonzero_plan(aval_of(array), *options)
    if (narrow := _narrow(array)) is array:
        return checked, array
    return nonzero_plan(aval_of(narrow), *options), narrow


def _narrow(array: Array) -> Array:
    """Tests a 64-bit NumPy array for zeros if JAX would narrow it, since narrowing makes zeros."""
    if not isinstance(array, np.ndarray) or compat.canonical_dtype(array.dtype) == array.dtype:
        return array
    if array.dtype.kind not in "iuf":
        return array
    magnitude = np.ascontiguousarray(array).view(np.uint64).reshape(array.shape)
    if array.dtype.kind == "f":
        magnitude = magnitude << np.uint64(1)
    return cast(Array, np.asarray(magnitude != 0))
