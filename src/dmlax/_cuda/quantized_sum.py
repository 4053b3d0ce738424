"""The sum of two quantized bytes in the threads of a CUDA kernel: `_core/quantized_sum.py`'s bits.

A float32 estimate is rounded, unless it is a near tie. There the terms, which are exact in float64,
are compared with the tie by an expansion: floats whose sum is exact.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.ir import Value, constant, select
from dmlax._cuda.requantize import ROUNDING, literal, pick

_INT32_END = literal(2.0**31)
# The estimate's ratios, a product and the sum are off by 2**-24 of themselves each, by less than
# 3.5 * 2**-24 of 255 times both ratios together.
_ERROR = literal(255 * 3.5 * 2**-24)
_NEAR_TIE = literal(0.5 - 2**-20)
_FAR = "0d4090000000000000"  # 2**10: beyond it every sum saturates


class Term(NamedTuple):
    """A term's parameters."""

    scale: Value  # bits of a float32
    zero_point: Value
    dtype: np.dtype

    def widen(self, word: Value) -> Value:
        """The term's value, the lowest byte of a word, as int32."""
        byte = word & 0xFF
        return byte if self.dtype == jnp.uint8 else (byte ^ 128) - 128


@dataclass(frozen=True)
class Adder:
    """clamp(round((a + b) / scale) + zero point), of terms `(value - zero point) * scale`."""

    arithmetic: Arithmetic
    terms: tuple[Term, Term]  # in "float32" their order counts
    output: Term
    ratios: tuple[Value, Value]  # float32, the scales over the output's
    fixed: Value  # float32 arithmetic: what the zero points add
    threshold: Value  # exact: a near tie is farther from an integer
    low: Value  # exact: a float32 estimate is clamped to these, before the zero point
    high: Value

    @classmethod
    def of(cls, arithmetic: Arithmetic, terms: tuple[Term, Term], output: Term) -> "Adder":
        """The adder of two terms."""
        a, b = (ir.ptx("div.rn.f32 $0, $1, $2;", 32, term.scale, output.scale) for term in terms)
        text = (
            "{ .reg .b32 x, y, z; cvt.rn.f32.s32 x, $3; cvt.rn.f32.s32 y, $4; "
            "cvt.rn.f32.s32 z, $5; mul.rn.f32 y, $2, y; fma.rn.f32 x, $1, x, y; "
            "sub.rn.f32 $0, z, x; }"
        )
        zeros = (term.zero_point for term in (*terms, output))
        fixed = ir.ptx(text, 32, a, b, *zeros)
        text = (
            "{ .reg .b32 x, y; abs.f32 x, $1; abs.f32 y, $2; add.rn.f32 x, x, y; "
            f"mul.rn.f32 x, x, {_ERROR}; sub.rn.f32 $0, {_NEAR_TIE}, x; }}"
        )
        threshold = ir.ptx(text, 32, a, b)
        limits = np.iinfo(output.dtype)
        low, high = (
            ir.ptx("cvt.rn.f32.s32 $0, $1;", 32, constant(int(bound)) - output.zero_point)
            for bound in (limits.min, limits.max)
        )
        return cls(arithmetic, terms, output, (a, b), fixed, threshold, low, high)

    def add(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """Words whose lowest byte is the sum of two words' lowest bytes."""
        left, right = (
            [term.widen(word) for word in x] for term, x in zip(self.terms, (a, b), strict=True)
        )
        if self.arithmetic == "float32":
            return [self._float32(x, y) for x, y in zip(left, right, strict=True)]
        left = [x - self.terms[0].zero_point for x in left]
        right = [x - self.terms[1].zero_point for x in right]
        estimates = [self._estimate(x, y) for x, y in zip(left, right, strict=True)]
        rounded, errors = [value for value, _ in estimates], [error for _, error in estimates]
        worst = reduce(lambda x, y: ir.ptx("max.f32 $0, $1, $2;", 32, x, y), errors)

        def resolve_ties() -> list[Value]:
            masks = [self._is_near_tie(error).to_word() << i for i, error in enumerate(errors)]

            def resolve_next(state: "_TieState") -> "_TieState":
                i = state.near_ties.trailing_zeros()
                exact = self._round_exactly(pick(left, i), pick(right, i))
                sums = [select(i == j, exact, each) for j, each in enumerate(state.sums)]
                return _TieState(state.near_ties & (state.near_ties - 1), sums)

            start = _TieState(reduce(operator.or_, masks), rounded)
            return ir.while_loop(start, lambda state: state.near_ties != 0, resolve_next).sums

        return ir.cond(self._is_near_tie(worst), resolve_ties, lambda: rounded, [32] * len(rounded))

    def _float32(self, a: Value, b: Value) -> Value:
        """ONNX Runtime's fused multiply-adds, the zero point before the rounding."""
        low, high = (literal(bound) for bound in self._range)
        text = (
            "{ .reg .b32 x, y; .reg .pred p; cvt.rn.f32.s32 x, $1; cvt.rn.f32.s32 y, $2; "
            f"fma.rn.f32 y, y, $4, $5; fma.rn.f32 y, x, $3, y; setp.lt.f32 p, y, {_INT32_END}; "
            f"selp.b32 y, y, {_bits_of(low)}, p; max.f32 y, y, {low}; min.f32 y, y, {high}; "
            "cvt.rni.s32.f32 $0, y; }"
        )
        return ir.ptx(text, 32, a, b, *self.ratios, self.fixed)

    @property
    def _range(self) -> tuple[int, int]:
        limits = np.iinfo(self.output.dtype)
        return int(limits.min), int(limits.max)

    def _estimate(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The sum in the lowest byte, and the estimate's distance from an integer."""
        text = (
            "{ .reg .b32 x, y, r; cvt.rn.f32.s32 x, $2; cvt.rn.f32.s32 y, $3; "
            "mul.rn.f32 x, x, $4; fma.rn.f32 y, y, $5, x; max.f32 y, y, $6; min.f32 y, y, $7; "
            f"add.rn.f32 r, y, {literal(ROUNDING)}; mov.b32 $0, r; "
            f"sub.rn.f32 r, r, {literal(ROUNDING)}; sub.rn.f32 r, y, r; abs.f32 $1, r; }}"
        )
        value, error = ir.ptx_values(text, [32, 32], [a, b, *self.ratios, self.low, self.high])
        return value + self.output.zero_point, error

    def _is_near_tie(self, error: Value) -> Value:
        text = "{ .reg .pred p; setp.gtu.f32 p, $1, $2; selp.b32 $0, 1, 0, p; }"
        return ir.ptx(text, 32, error, self.threshold) != 0

    def _round_exactly(self, a: Value, b: Value) -> Value:
        """The sum of two values less their zero points."""
        rounded = ir.ptx(_ROUND, 32, a, b, *(x.scale for x in (*self.terms, self.output)))
        low, high = self._range
        text = "{ .reg .s32 x; max.s32 x, $1, $2; min.s32 $0, x, $3; }"
        return ir.ptx(text, 32, rounded + self.output.zero_point, constant(low), constant(high))


class _TieState(NamedTuple):
    """The loop over near ties."""

    near_ties: Value  # bit i: sum i is one
    sums: list[Value]


def _bits_of(literal: str) -> str:
    """A float32 literal as PTX's integer."""
    return f"0x{literal[2:]}"


def _two_sum(high: str, low: str, x: str, y: str) -> str:
    """PTX that makes the float64 sum of two, and what it lost."""
    return (
        f"add.rn.f64 {high}, {x}, {y}; sub.rn.f64 t, {high}, {x}; sub.rn.f64 u, {high}, t; "
        f"sub.rn.f64 u, {x}, u; sub.rn.f64 t, {y}, t; add.rn.f64 {low}, u, t; "
    )


# Both terms, and `middle`, the tie above the quotient rounded down, are exact in float64. The
# difference is an expansion, whose sign is that of its largest part that is not 0.
_ROUND = (
    "{ .reg .f64 a, b, s, q, middle, t, u, s0, s1, d0, d1, d2; .reg .f32 f; "
    ".reg .s32 below, odd; .reg .pred p, up; "
    "cvt.rn.f64.s32 a, $1; cvt.f64.f32 t, $3; mul.rn.f64 a, a, t; "
    "cvt.rn.f64.s32 b, $2; cvt.f64.f32 t, $4; mul.rn.f64 b, b, t; cvt.f64.f32 s, $5; "
    "add.rn.f64 q, a, b; div.rn.f64 q, q, s; "
    f"min.f64 q, q, {_FAR}; max.f64 q, q, {_FAR.replace('0d4', '0dC')}; "
    "cvt.rmi.s32.f64 below, q; cvt.rn.f64.s32 q, below; "
    "add.rn.f64 q, q, 0d3FE0000000000000; mul.rn.f64 middle, q, s; neg.f64 middle, middle; "
    + _two_sum("s1", "s0", "a", "b")
    + _two_sum("q", "d0", "middle", "s0")
    + _two_sum("d2", "d1", "q", "s1")
    + "setp.eq.f64 p, d2, 0d0000000000000000; selp.f64 d2, d1, d2, p; "
    "setp.eq.f64 p, d2, 0d0000000000000000; selp.f64 d2, d0, d2, p; "
    "setp.lt.f64 p, s, 0d0000000000000000; neg.f64 q, d2; selp.f64 d2, q, d2, p; "
    "setp.gt.f64 up, d2, 0d0000000000000000; and.b32 odd, below, 1; "
    "setp.eq.f64 p, d2, 0d0000000000000000; selp.b32 odd, odd, 0, p; selp.b32 $0, 1, odd, up; "
    "add.s32 $0, $0, below; }"
)
