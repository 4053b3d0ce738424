"""Converts the arguments of a lookup to operands."""

from jax.typing import ArrayLike

from dmlax._byte_lookup.plan import RULES, Lookup, LookupPlan, lookup_plan
from dmlax._core.arguments import aval_of


def plan(input: ArrayLike, table: ArrayLike, /) -> tuple[LookupPlan, Lookup]:
    """Plans a call, and returns its operands."""
    operands = Lookup(RULES.to_array("InputTensor", input), RULES.to_array("TableTensor", table))
    return lookup_plan(*map(aval_of, operands)), operands
