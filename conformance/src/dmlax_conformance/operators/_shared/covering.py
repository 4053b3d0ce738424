"""Rows of options in which every pair of values that may occur together does occur."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product

Factors = Mapping[str, Sequence[str]]
Row = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]
Apart = Mapping[Pair, str]  # pairs that may not occur, and why


def pairs(factors: Factors, apart: Apart) -> set[Pair]:
    """Return every pair of values of two factors, but those that are kept apart."""
    found = {
        ((a, x), (b, y))
        for (a, xs), (b, ys) in combinations(factors.items(), 2)
        for x, y in product(xs, ys)
    }
    if not apart.keys() <= found:
        raise ValueError(f"no pairs of these factors: {sorted(apart.keys() - found)}")
    return found - apart.keys()


def pairs_of(row: Mapping[str, str]) -> set[Pair]:
    """Return the pairs of one row."""
    return set(combinations(row.items(), 2))


def rows(factors: Factors, apart: Apart) -> list[Row]:
    """Return few rows that have every pair: each takes what covers most of those that are left."""
    left, found = pairs(factors, apart), list[Row]()
    while left:
        row = _row(factors, apart, left, len(found))
        left -= pairs_of(row)
        found.append(row)
    return found


def _row(factors: Factors, apart: Apart, left: set[Pair], number: int) -> Row:
    """Start from a pair that is left, so that each row is of use."""
    row = dict(min(left))
    for name, values in factors.items():
        if name not in row:
            turned = [*values[number % len(values) :], *values[: number % len(values)]]
            allowed = [value for value in turned if not _met(factors, row, name, value) & {*apart}]
            row[name] = max(allowed, key=lambda value: len(_met(factors, row, name, value) & left))
    return {name: row[name] for name in factors}


def _met(factors: Factors, row: Row, name: str, value: str) -> set[Pair]:
    """Return the pairs of one value with those that are chosen."""
    order = list(factors)
    own = (name, value)
    return {
        (own, other) if order.index(name) < order.index(other[0]) else (other, own)
        for other in row.items()
    }


def apart(why: str, *found: Pair) -> dict[Pair, str]:
    """Return pairs that are kept apart for one reason."""
    return dict.fromkeys(((first, second) for first, second in found), why)
