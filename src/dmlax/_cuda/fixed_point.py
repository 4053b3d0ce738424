"""Numbers in fixed point in the threads of a CUDA kernel: their bytes, and near ties among them.

A number is a product of integers, of 64 bits, times 2**-32; its users multiply and round ties.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

from dmlax._cuda import ir
from dmlax._cuda.ir import Value, constant, select


def pack_all(outputs: Sequence[Value], *, saturates: bool, signed: bool) -> list[Value]:
    """Words of four outputs: integers that are clamped to bytes, or whose lowest bytes they are."""
    pack = functools.partial(ir.pack_saturated, signed=signed) if saturates else ir.pack_bytes
    return [pack(outputs[i : i + 4]) for i in range(0, len(outputs), 4)]


class _TieState(NamedTuple):
    """The loop over near ties."""

    near_ties: Value  # bit i: output i is one
    words: list[Value]


def pack_products(
    products: Sequence[tuple[Value, Value]],
    limits: Sequence[Value],
    round_exactly: Callable[[Value], Value],
    *,
    signed: bool,
) -> list[Value]:
    """Words of four outputs, which are the high words of the products, clamped.

    Where a low word is at most its limit, the output is what `round_exactly` gives for its index.
    """
    pairs = list(zip((low for low, _ in products), limits, strict=True))
    packed = pack_all([high for _, high in products], saturates=True, signed=signed)

    def resolve_ties() -> list[Value]:
        near_ties = [is_at_most([pair]).to_word() << i for i, pair in enumerate(pairs)]

        def resolve_next(state: _TieState) -> _TieState:
            i = state.near_ties.trailing_zeros()
            (byte,) = pack_all(
                [round_exactly(i), *[constant(0)] * 3], saturates=True, signed=signed
            )
            shift = (i & 3) << 3
            words = [
                select(
                    i >> 2 == j, word & ~(constant(0xFF) << shift) | (byte & 0xFF) << shift, word
                )
                for j, word in enumerate(state.words)
            ]
            return _TieState(state.near_ties & (state.near_ties - 1), words)

        start = _TieState(reduce(operator.or_, near_ties), packed)
        return ir.while_loop(start, lambda state: state.near_ties != 0, resolve_next).words

    return ir.cond(is_at_most(pairs), resolve_ties, lambda: packed, [32] * len(packed))


def is_at_most(pairs: Sequence[tuple[Value, Value]]) -> Value:
    """Tests whether the first value of any pair is at most the second, unsigned."""
    tests = [f"setp.le.or.u32 p, ${2 * i + 1}, ${2 * i + 2}, p;" for i in range(len(pairs))]
    text = f"{{ .reg .pred p; setp.ne.u32 p, 0, 0; {' '.join(tests)} selp.b32 $0, 1, 0, p; }}"
    return ir.ptx(text, 32, *(value for pair in pairs for value in pair)) != 0


def pick(values: Sequence[Value], index: Value) -> Value:
    """Selects one of several by an index."""
    picked = values[0]
    for i, value in enumerate(values[1:], 1):
        picked = select(index == i, value, picked)
    return picked
