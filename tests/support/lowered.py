"""Reading what is lowered, for platforms that are not here."""

import itertools
import re
from typing import Any, NamedTuple

import jax

DOT = re.compile(
    r"stablehlo\.dot_general .*?contracting_dims = \[(?P<axes>[\d, ]*)\] x .*?"
    r": \(tensor<(?P<left>[^>]*)>, tensor<(?P<right>[^>]*)>\) -> tensor<(?P<result>[^>]*)>"
)

CONVOLUTION = re.compile(
    r"stablehlo\.convolution.*: \(tensor<([^>]*)>, tensor<([^>]*)>\) -> tensor<([^>]*)>"
)


class Product(NamedTuple):
    """One dot_general: its dtypes and how many products make one element."""

    left: str
    right: str
    result: str
    contraction: int


def text(function: Any, *arguments: Any, platform: str) -> str:
    """StableHLO for a platform."""
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,))
    return str(lowered.as_text())


def products(lowered: str) -> list[Product]:
    """Every dot_general of a program."""
    found = [_product(match) for match in DOT.finditer(lowered)]
    assert len(found) == lowered.count("stablehlo.dot_general")
    return found


def fenced(lowered: str) -> bool:
    """True if a barrier follows every dot_general, before anything is computed from it."""
    lines = [line for line in lowered.splitlines() if "stablehlo.broadcast_in_dim" not in line]
    after = [b for a, b in itertools.pairwise(lines) if "stablehlo.dot_general" in a]
    return all("stablehlo.optimization_barrier" in line for line in after)


def convolutions(lowered: str) -> list[tuple[str, ...]]:
    """The dtypes of every convolution: left, right, result."""
    found = CONVOLUTION.findall(lowered)
    assert len(found) == lowered.count("stablehlo.convolution(")
    return [tuple(each.split("x")[-1] for each in tensors) for tensors in found]


def _product(match: re.Match[str]) -> Product:
    *sizes, left = match["left"].split("x")
    contraction = 1
    for axis in match["axes"].split(","):
        contraction *= int(sizes[int(axis)])
    return Product(left, match["right"].split("x")[-1], match["result"].split("x")[-1], contraction)


def operations(lowered: str) -> set[str]:
    """The names of all operations."""
    return set(re.findall(r"(?:stablehlo|chlo)\.[\w]+", lowered))
