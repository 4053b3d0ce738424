"""Checks a lookup and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from dmlax._core.arguments import Aval, Rules, aval_of, avals_of
from dmlax._core.axis_names import AxisNames, numbered, whole
from dmlax._core.partitions import partition_by_names
from dmlax._core.plans import BasePlan

ENTRIES = 256  # a table has an entry for each value of 8 bits


RULES = Rules("quantized_lookup")


class Lookup(NamedTuple):
    """The operands."""

    input: Array
    table: Array


@dataclass(frozen=True)
class LookupPlan(BasePlan):
    """Everything static that a lowering reads."""

    input: Aval
    table: Aval

    @property
    def output(self) -> Aval:
        """The dtype and shape of the result."""
        return Aval(self.table.dtype, self.input.shape)

    def __str__(self) -> str:
        return f"{self.input}, table {self.table} -> {self.output}"


@functools.lru_cache(maxsize=4096)
def lookup_plan(input: Aval, table: Aval) -> LookupPlan:
    """Checks both tensors."""
    for field, aval in (("InputTensor", input), ("TableTensor", table)):
        RULES.expect_dtype(field, aval, jnp.int8, jnp.uint8)
    RULES.expect_rank("InputTensor", input, 0)
    rank = f"is {table}, expected rank 1"
    RULES.expect(len(table.shape) == 1, "dimension_count", "TableTensor", rank)
    entries = f"is {table}, expected {ENTRIES} entries, one for each value of InputTensor"
    RULES.expect(table.shape == (ENTRIES,), "sizes", "TableTensor", entries)
    return LookupPlan(input, table)


def axis_names(plan: LookupPlan, operands: Lookup) -> AxisNames:
    """Every axis of the input may be split."""
    names = numbered(operands.input.ndim)
    return AxisNames((names, whole(operands.table)), names)


output_partition = partition_by_names(axis_names)


def local_plan(plan: LookupPlan, operands: Lookup) -> tuple[LookupPlan, Lookup]:
    """Plans for a part of the input."""
    return LookupPlan(*avals_of(operands)), operands


def plan(input: ArrayLike, table: ArrayLike) -> tuple[LookupPlan, Lookup]:
    """Plans a call, and returns its operands."""
    operands = Lookup(RULES.to_array("InputTensor", input), RULES.to_array("TableTensor", table))
    return lookup_plan(*map(aval_of, operands)), operands
