"""Requantization in the threads of a CUDA kernel: the same bits as `_core/requantize.py`.

The float32 estimate of acc * sx * sw / sy is rounded, unless it is a near tie: so near a half that
its error could matter. A near tie is rounded by integers of 128 bits.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.ir import Value, constant, select


def float_bits(value: float) -> int:
    """The bits of a float32."""
    return int(np.float32(value).view(np.uint32))


def literal(value: float) -> str:
    """A float32 literal of PTX."""
    return f"0f{float_bits(value):08X}"


# The exact estimate is y = fl(fl(acc) * fl(m / 255) + fl((zero point - lowest) / 255)), clamped to
# [0, 1] as it is made, and 255 y the output less the lowest. The product is off by 2**-23 of
# itself, the shift and the sum by 2**-24 each of themselves: by 3 * 2**-24 together, as the product
# is at most what the shift leaves of 1, or the shift below 0. 255 times that, and a rounding of
# 2**-26, are less than this. It is a near tie only if it is so far from an integer.
_NEAR_TIE = literal(0.5 - 3 * 2**-16)
SPAN = 255  # the highest output less the lowest
_PER_SPAN = f"0d{int(np.float64(1 / SPAN).view(np.uint64)):016X}"
_LARGEST = "0d4090000000000000"  # 2**10: a multiplier beyond saturates all but 0
_SMALLEST = "0d3DE0000000000000"  # 2**-33: below it no accumulator reaches a half
ROUNDING = 1.5 * 2**23  # a float32 whose last bit is worth 1: adding it rounds to even
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
# Times this, a float32 is rounded to even, and its bits are a positive integer, or those of a
# negative one are negative: below 2**23 the product is subnormal.
INTEGER_BITS = "0f00000001"
FRACTION = 2.0**-8  # of a byte as a float32: the instruction that makes it clamps it to 0 and 1


class _Scale(NamedTuple):
    """A float32 taken apart: mantissa * 2**exponent, the mantissa in [2**23, 2**24), or 0."""

    sign: Value  # the highest bit
    mantissa: Value
    exponent: Value

    @classmethod
    def of(cls, bits: Value) -> "_Scale":
        field, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
        normal = field != 0
        shift = (fraction | 1).leading_zeros() - 8
        return cls(
            bits & (1 << 31),
            select(normal, fraction | 0x800000, fraction << shift),
            select(normal, field - 150, constant(-149) - shift),
        )


class Scales(NamedTuple):
    """Parameters that requantize a channel: bits of three float32, and an integer."""

    left: Value
    right: Value
    output: Value
    zero_point: Value


def compute_multiplier(scales: Scales, arithmetic: Arithmetic) -> Value:
    """The float32 that multiplies an accumulator: sx * sw / sy, and / 255 where it is exact."""
    if arithmetic == "float32":
        text = "{ .reg .b32 p; mul.rn.f32 p, $1, $2; div.rn.f32 $0, p, $3; }"
        return ir.ptx(text, 32, scales.left, scales.right, scales.output)
    x, w, y = map(_Scale.of, (scales.left, scales.right, scales.output))
    exponent = x.exponent + w.exponent - y.exponent
    least, most = exponent.less_signed(-64), constant(0).less_signed(exponent)
    power = (select(least, constant(-64), select(most, constant(0), exponent)) + 127) << 23
    text = (
        "{ .reg .f64 a, b, c; .reg .pred p; "
        "cvt.rn.f64.u32 a, $1; cvt.rn.f64.u32 b, $2; mul.rn.f64 a, a, b; "
        "cvt.rn.f64.u32 c, $3; div.rn.f64 a, a, c; cvt.f64.f32 c, $4; mul.rn.f64 a, a, c; "
        f"min.f64 a, a, {_LARGEST}; setp.lt.f64 p, a, {_SMALLEST}; "
        f"mul.rn.f64 a, a, {_PER_SPAN}; cvt.rn.f32.f64 $0, a; selp.b32 $0, 0, $0, p; }}"
    )
    size = ir.ptx(text, 32, x.mantissa, w.mantissa, y.mantissa, power)
    return size | x.sign ^ w.sign ^ y.sign


def make_finite(multiplier: Value, zero_point: Value) -> Value:
    """The multiplier, or where the zero point of bytes is 0 the largest for an infinite one.

    An infinite one times 0 is NaN, whose output is 0: there that of 0 too.
    """
    text = (
        f"{{ .reg .b32 v; .reg .pred p; max.f32 v, $1, {literal(-_LARGEST_FLOAT)}; "
        f"min.f32 v, v, {literal(_LARGEST_FLOAT)}; "
        "setp.eq.b32 p, $2, 0; selp.b32 $0, v, $1, p; }"
    )
    return ir.ptx(text, 32, multiplier, zero_point)


class _TieState(NamedTuple):
    """The loop over near ties."""

    near_ties: Value  # bit i: output i is one
    outputs: list[Value]


@dataclass(frozen=True)
class Requantizer:
    """clamp(round(acc * sx * sw / sy) + zero_point), for one dtype and arithmetic."""

    arithmetic: Arithmetic
    saturates: bool  # outputs are integers, which `pack` clamps to bytes
    low: Value  # float32 is clamped to these, before the zero point
    high: Value
    shift: Value  # exact: (zero point - lowest) / 255
    rounding: Value  # added to an estimate, it leaves an integer in the lowest bits
    zero_point: Value  # float32: added to that

    @classmethod
    def of(cls, dtype: np.dtype, arithmetic: Arithmetic, zero_point: Value) -> "Requantizer":
        """The requantizer of an output dtype."""
        limits = np.iinfo(dtype)
        low, high = (
            ir.ptx("cvt.rn.f32.s32 $0, $1;", 32, constant(int(bound)) - zero_point)
            for bound in (limits.min, limits.max)
        )
        shift = ir.ptx(f"div.rn.f32 $0, $1, {literal(-SPAN)};", 32, low)
        lowest = 0 if arithmetic == "float32" else int(limits.min) & 0xFF
        rounding = constant(float_bits(ROUNDING) + lowest)
        saturates = arithmetic == "float32" and limits.min == 0
        return cls(arithmetic, saturates, low, high, shift, rounding, zero_point)

    def quantize(
        self,
        sums: Sequence[Value],
        multipliers: Sequence[Value],
        scales_of: Callable[[Value], Scales],
    ) -> list[Value]:
        """Words that `pack` takes; a near tie needs `scales_of` its index."""
        pairs = list(zip(sums, multipliers, strict=True))
        if self.saturates:
            return ir.cond(
                self.zero_point == 0,
                lambda: [self._round_above_zero(*pair) for pair in pairs],
                lambda: [self._round_above_low(*pair) for pair in pairs],
                [32] * len(pairs),
            )
        if self.arithmetic == "float32":
            return self.quantize_float32(sums, multipliers)
        estimates = [self._estimate(acc, by) for acc, by in zip(sums, multipliers, strict=True)]
        rounded, errors = [value for value, _ in estimates], [error for _, error in estimates]

        def resolve_ties() -> list[Value]:
            near_tie_mask = [is_near_tie(error).to_word() << i for i, error in enumerate(errors)]

            def resolve_next(state: _TieState) -> _TieState:
                i = state.near_ties.trailing_zeros()
                exact = _round_near_tie(pick(sums, i), pick(multipliers, i), scales_of(i))
                outputs = [select(i == j, exact, each) for j, each in enumerate(state.outputs)]
                return _TieState(state.near_ties & (state.near_ties - 1), outputs)

            start = _TieState(reduce(operator.or_, near_tie_mask), rounded)
            return ir.while_loop(start, lambda state: state.near_ties != 0, resolve_next).outputs

        return ir.cond(
            is_near_tie(greatest(errors)), resolve_ties, lambda: rounded, [32] * len(sums)
        )

    def quantize_float32(self, sums: Sequence[Value], multipliers: Sequence[Value]) -> list[Value]:
        """Quantizes in "float32" without the branch of `quantize`, across which no work moves."""
        round_one = self._round_above_low if self.saturates else self._round
        return [round_one(*pair) for pair in zip(sums, multipliers, strict=True)]

    def pack(self, words: Sequence[Value]) -> Value:
        """A word of four outputs."""
        return (ir.pack_saturated if self.saturates else ir.pack_bytes)(words)

    def quantize_to_fractions(
        self, sums: Sequence[Value], multipliers: Sequence[Value]
    ) -> list[Value]:
        """The outputs times FRACTION as float32, in "float32" arithmetic, of unsigned bytes.

        The lower bound is that of the last instruction; NaN is below it.
        """
        text = "{ .reg .b32 z; cvt.rn.f32.s32 z, $1; "
        text += f"sub.rn.f32 z, z, {literal(ROUNDING)}; mul.rn.f32 $0, z, {literal(FRACTION)}; }}"
        unrounding = ir.ptx(text, 32, self.zero_point)
        text = (
            "{ .reg .b32 v; cvt.rn.f32.s32 v, $1; mul.rn.f32 v, v, $2; min.NaN.f32 v, v, $3; "
            f"add.rn.f32 v, v, $4; fma.rn.sat.f32 $0, v, {literal(FRACTION)}, $5; }}"
        )
        constants = self.high, self.rounding, unrounding
        pairs = zip(sums, multipliers, strict=True)
        return [ir.ptx(text, 32, *pair, *constants) for pair in pairs]

    def _round_above_zero(self, accumulator: Value, multiplier: Value) -> Value:
        """The output before it is clamped, of a zero point 0. NaN, of an infinite one, is 0."""
        text = (
            "{ .reg .b32 v; cvt.rn.f32.s32 v, $1; mul.rn.f32 v, v, $2; "
            f"mul.rn.f32 $0, v, {INTEGER_BITS}; }}"
        )
        return ir.ptx(text, 32, accumulator, multiplier)

    def _round_above_low(self, accumulator: Value, multiplier: Value) -> Value:
        """The output before it is clamped from above. Ties are even without the zero point."""
        text = (
            "{ .reg .b32 v; cvt.rn.f32.s32 v, $1; mul.rn.f32 v, v, $2; "
            "max.f32 v, v, $3; add.rn.f32 $0, v, $4; }"
        )
        rounded = ir.ptx(text, 32, accumulator, multiplier, self.low, self.rounding)
        return rounded + (self.zero_point - float_bits(ROUNDING))

    def _round(self, accumulator: Value, multiplier: Value) -> Value:
        """The output in the lowest byte. Ties are even without the zero point."""
        text = (
            "{ .reg .b32 v; cvt.rn.f32.s32 v, $1; mul.rn.f32 v, v, $2; "
            "max.f32 v, v, $3; min.f32 v, v, $4; add.rn.f32 $0, v, $5; }"
        )
        bounds = self.low, self.high, self.rounding
        return ir.ptx(text, 32, accumulator, multiplier, *bounds) + self.zero_point

    def _estimate(self, accumulator: Value, multiplier: Value) -> list[Value]:
        """The output in the lowest byte, and the estimate's distance from an integer."""
        span = literal(SPAN)
        text = (
            "{ .reg .b32 y, r; cvt.rn.f32.s32 y, $2; fma.rn.sat.f32 y, y, $3, $4; "
            f"fma.rn.f32 r, y, {span}, $5; mov.b32 $0, r; sub.rn.f32 r, $5, r; "
            f"fma.rn.f32 r, y, {span}, r; abs.f32 $1, r; }}"
        )
        return ir.ptx_values(text, [32, 32], [accumulator, multiplier, self.shift, self.rounding])


def _round_near_tie(accumulator: Value, multiplier: Value, scales: Scales) -> Value:
    """The output of a near tie: compares 2 |acc| P with (2 q + 1) S, shifted."""
    x, w, y = map(_Scale.of, (scales.left, scales.right, scales.output))
    negative = (accumulator >> 31) != 0
    magnitude = select(negative, constant(0) - accumulator, accumulator)
    text = (
        "{ .reg .b32 v; cvt.rn.f32.s32 v, $1; mul.rn.f32 v, v, $2; abs.f32 v, v; "
        f"mul.rn.f32 v, v, {literal(SPAN)}; cvt.rzi.u32.f32 $0, v; }}"
    )
    below = ir.ptx(text, 32, accumulator, multiplier)
    doubled, product = magnitude.extend() << 1, x.mantissa.extend() * w.mantissa.extend()
    odd = (below * 2 + 1).extend() * y.mantissa.extend()
    shift = ((y.exponent - x.exponent - w.exponent) & 63).extend()
    left = _Int128(ir.ptx("mul.hi.u64 $0, $1, $2;", 64, doubled, product), doubled * product)
    right = _Int128((odd >> 1) >> (constant(63, 64) - shift), odd << shift)
    up = left.above(right) | (left.same(right) & ((below & 1) != 0))
    rounded = below + up.to_word()
    negative = negative ^ ((multiplier >> 31) != 0)
    return select(negative, constant(0) - rounded, rounded) + scales.zero_point


class _Int128(NamedTuple):
    """An unsigned integer of 128 bits."""

    high: Value
    low: Value

    def above(self, other: "_Int128") -> Value:
        return (self.high > other.high) | ((self.high == other.high) & (self.low > other.low))

    def same(self, other: "_Int128") -> Value:
        return (self.high == other.high) & (self.low == other.low)


def greatest(errors: Sequence[Value]) -> Value:
    """The greatest of several float32."""
    return reduce(lambda x, y: ir.ptx("max.f32 $0, $1, $2;", 32, x, y), errors)


def is_near_tie(error: Value) -> Value:
    """Tests the distance of an estimate from an integer."""
    text = f"{{ .reg .pred p; setp.gt.f32 p, $1, {_NEAR_TIE}; selp.b32 $0, 1, 0, p; }}"
    return ir.ptx(text, 32, error) != 0


def pick(values: Sequence[Value], index: Value) -> Value:
    """Selects one of several by an index."""
    found = values[0]
    for i, value in enumerate(values[1:], 1):
        found = select(index == i, value, found)
    return found
