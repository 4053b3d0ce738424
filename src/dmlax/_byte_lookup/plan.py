"""Checks a lookup and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import Aval, Rules

ENTRIES = 256  # of the table: one for each value of 8 bits


RULES = Rules("quantized_lookup")


class Lookup(NamedTuple):
    """The operands."""

    input: Array
    table: Array


@dataclass(frozen=True)
class LookupPlan:
    """Everything static that a lowering reads."""

    input: Aval
    table: Aval

    @property
    def output(self) -> Aval:
        """The dtype and shape of the result."""
        return Aval(self.table.dtype, self.input.shape)

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

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


def output_partition(plan: LookupPlan, operands: Lookup) -> compat.Partition:
    """The output is split over a mesh as the input is."""
    return compat.partition(operands.input)
