"""Numbers in fixed point in the threads of a CUDA kernel: their bytes, and near ties among them.

A number is a product of integers, of 64 bits, times 2**-32; its users multiply and round ties.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple, TypeVar

from dmlax._cuda import ir
from dmlax._cuda.ir import Value, constant, select

Operands = TypeVar("Operands")


class Products(NamedTuple):
    """Numbers in fixed point, and what the low word of one is at most if it may be a near tie."""

    words: list[tuple[Value, Value]]  # low and high
    limit: Value


def pack_all(outputs: Sequence[Value], *, saturates: bool, signed: bool) -> list[Value]:
    """Words of four outputs: integers that are clamped to bytes, or whose lowest bytes they are."""
    pack = functools.partial(ir.pack_saturated, signed=signed) if saturates else ir.pack_bytes
    return [pack(outputs[i : i + 4]) for i in range(0, len(outputs), 4)]


def pack_products(
    operands: Operands,
    multiply: Callable[[Operands], Products],
    resolve_ties: Callable[[Operands], list[Value]],
    *,
    signed: bool,
) -> list[Value]:
    """Words of four outputs: the high words of products, or all from anew if one may be a near tie.

    They are packed before the branch: beyond it no register keeps a product.
    """
    products, limit = multiply(operands)
    packed = pack_high(products, signed)
    least = reduce(ir.minimum, (low for low, _ in products))
    kinds = [32] * len(packed)
    return ir.cond(least <= limit, lambda: resolve_ties(operands), lambda: packed, kinds)


def pack_high(products: Sequence[tuple[Value, Value]], signed: bool) -> list[Value]:
    """Words of the high words of four products each, clamped to bytes."""
    return pack_all([high for _, high in products], saturates=True, signed=signed)


class _TieState(NamedTuple):
    """The loop over near ties."""

    near_ties: Value  # bit i: output i is one
    words: list[Value]


def replace_ties(
    words: list[Value],
    near_ties: Sequence[Value],
    round_exactly: Callable[[Value], Value],
    signed: bool,
) -> list[Value]:
    """Words of four outputs; a near tie is what `round_exactly` gives for its index."""

    def replace_next(state: _TieState) -> _TieState:
        i = state.near_ties.trailing_zeros()
        (byte,) = pack_all([round_exactly(i), *[constant(0)] * 3], saturates=True, signed=signed)
        shift = (i & 3) << 3
        mask, byte = ~(constant(0xFF) << shift), (byte & 0xFF) << shift
        words = [
            select(i >> 2 == j, word & mask | byte, word) for j, word in enumerate(state.words)
        ]
        return _TieState(state.near_ties & (state.near_ties - 1), words)

    bits = (near_tie.to_word() << i for i, near_tie in enumerate(near_ties))
    start = _TieState(reduce(operator.or_, bits), words)
    return ir.while_loop(start, lambda state: state.near_ties != 0, replace_next).words


def pick(values: Sequence[Value], index: Value) -> Value:
    """Selects one of several by an index."""
    found = values[0]
    for i, value in enumerate(values[1:], 1):
        found = select(index == i, value, found)
    return found
