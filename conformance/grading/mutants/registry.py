"""The mutants of each operator, by family."""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

FAMILIES = (
    *("convolution", "matmul", "pooling", "binary", "lookup", "element_wise"),
    *("dynamic_quantize", "nonzero"),
)


class Mutants(NamedTuple):
    """An operator's correct implementation in steps, and the ways in which it can be wrong.

    `rules` and `descs` are what mutants are derived from, `others` yields the other mutants and the
    permitted variants, `result` are the clauses of the result. `differing` returns which elements
    of the input are answered wrongly, if that is not the elements of `OutputTensor`.
    """

    operator: str
    parts: Any
    rules: Any
    descs: Any
    result: str
    others: Callable[[], Iterator[Any]]
    differing: Callable[..., Any] | None = None


@cache
def mutants_of(operator: str) -> Mutants:
    """Return the mutants of an operator."""
    families = (import_module(f"grading.mutants.{name}").MUTANTS for name in FAMILIES)
    known: dict[str, Mutants] = {x.operator: x for family in families for x in family}
    return known[operator]
