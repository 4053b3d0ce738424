"""Requantization in the threads of a CUDA kernel: the same bits as `_core/requantize.py`.

An exact output is a number in fixed point: the product of an accumulator and sx * sw / sy as an
integer, times 2**-32. Its high word is rounded, unless its low word says that a tie is so near that
the error of the product could matter. A near tie is rounded by integers of 128 bits.
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


# An exact multiplier is off by half a unit, of 2**-32, and a product by half of the accumulator.
# Below 257, beyond which every output saturates, an accumulator is less than 257 / multiplier. What
# is added to the product is a half, the zero point, and this error, so that a low word of twice the
# error or less is a near tie.
_HALF = 1 << 31
_ERROR = literal(129.0)  # times 1 / multiplier, in units: 257 / 2, and the error of this itself
_MOST_ERROR = literal(2.0**30 * 1.001)  # that of the largest accumulator
_UNIT = "0d41F0000000000000"  # 2**32 of them
_LARGEST = "0d41DFFFFFFFC00000"  # 2**31 - 1: a multiplier beyond is too large for an integer
_ALL_NEAR = (1 << 32) - 1  # with a multiplier of 1, the low word of an accumulator 0 alone is above
_FAR = "0d4090000000000000"  # 2**10: every output beyond saturates
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
    """The scales of a channel: bits of three float32."""

    left: Value
    right: Value
    output: Value

    def apart(self) -> tuple[_Scale, _Scale, _Scale]:
        """Each of them taken apart."""
        return _Scale.of(self.left), _Scale.of(self.right), _Scale.of(self.output)


class Factor(NamedTuple):
    """What multiplies the accumulators of a channel, and what is added to the products."""

    multiplier: Value  # in "float32" a float32, else an integer, times 2**-32
    rounding: Value  # times 2**-32: a half and the error; nothing in "float32"


def compute_factor(scales: Scales, arithmetic: Arithmetic) -> Factor:
    """The factor sx * sw / sy."""
    if arithmetic == "float32":
        text = "{ .reg .b32 p; mul.rn.f32 p, $1, $2; div.rn.f32 $0, p, $3; }"
        return Factor(ir.ptx(text, 32, scales.left, scales.right, scales.output), constant(0))
    x, w, y = scales.apart()
    text = (
        "{ .reg .f64 a; .reg .b32 e; .reg .pred p; "
        f"cvt.rn.f32.f64 e, $2; rcp.approx.ftz.f32 e, e; mul.rn.f32 e, e, {_ERROR}; "
        f"min.f32 e, e, {_MOST_ERROR}; cvt.rzi.u32.f32 e, e; add.u32 $1, e, {_HALF + 2}; "
        f"mul.rn.f64 a, $2, {_UNIT}; setp.ge.f64 p, a, {_LARGEST}; cvt.rni.s32.f64 $0, a; "
        f"selp.b32 $0, 1, $0, p; selp.b32 $1, {_ALL_NEAR}, $1, p; }}"
    )
    size, rounding = ir.ptx_values(text, [32, 32], [_divide_scales(x, w, y)])
    negative = (x.sign ^ w.sign ^ y.sign) != 0
    return Factor(select(negative, constant(0) - size, size), rounding)


def _divide_scales(x: _Scale, w: _Scale, y: _Scale) -> Value:
    """Bits of the float64 |sx * sw / sy|, within 2**-39 and 2**22 where it is beyond."""
    exponent = x.exponent + w.exponent - y.exponent
    least, most = exponent.less_signed(-64), constant(0).less_signed(exponent)
    power = (select(least, constant(-64), select(most, constant(0), exponent)) + 127) << 23
    text = (
        "{ .reg .f64 a, b; "
        "cvt.rn.f64.u32 a, $1; cvt.rn.f64.u32 b, $2; mul.rn.f64 a, a, b; "
        "cvt.rn.f64.u32 b, $3; div.rn.f64 a, a, b; cvt.f64.f32 b, $4; mul.rn.f64 $0, a, b; }"
    )
    return ir.ptx(text, 64, x.mantissa, w.mantissa, y.mantissa, power)


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
    signed: bool
    low: Value  # float32 is clamped to these, before the zero point
    high: Value
    zero_point: Value

    @classmethod
    def of(cls, dtype: np.dtype, arithmetic: Arithmetic, zero_point: Value) -> "Requantizer":
        """The requantizer of an output dtype."""
        limits = np.iinfo(dtype)
        low, high = (
            ir.ptx("cvt.rn.f32.s32 $0, $1;", 32, constant(int(bound)) - zero_point)
            for bound in (limits.min, limits.max)
        )
        return cls(arithmetic, limits.min < 0, low, high, zero_point)

    @property
    def saturates(self) -> bool:
        """True if outputs are integers, which `pack` clamps to bytes."""
        return self.arithmetic == "exact" or not self.signed

    def quantize(
        self,
        sums: Sequence[Value],
        factors: Sequence[Factor],
        scales_of: Callable[[Value], Scales],
    ) -> list[Value]:
        """Words that `pack` takes; a near tie needs `scales_of` its index."""
        if self.arithmetic == "exact":
            return self._quantize_exactly(sums, factors, scales_of)
        multipliers = [factor.multiplier for factor in factors]
        if not self.saturates:
            return self.quantize_float32(sums, multipliers)
        pairs = list(zip(sums, multipliers, strict=True))
        return ir.cond(
            self.zero_point == 0,
            lambda: [self._round_above_zero(*pair) for pair in pairs],
            lambda: [self._round_above_low(*pair) for pair in pairs],
            [32] * len(pairs),
        )

    def _quantize_exactly(
        self,
        sums: Sequence[Value],
        factors: Sequence[Factor],
        scales_of: Callable[[Value], Scales],
    ) -> list[Value]:
        products = [
            ir.multiply_add_wide(acc, multiplier, rounding, self.zero_point)
            for acc, (multiplier, rounding) in zip(sums, factors, strict=True)
        ]
        lows, rounded = [low for low, _ in products], [high for _, high in products]
        errors = [rounding + rounding for _, rounding in factors]  # a half is gone, twice the rest

        def resolve_ties() -> list[Value]:
            near_tie_mask = [
                is_at_most([pair]).to_word() << i
                for i, pair in enumerate(zip(lows, errors, strict=True))
            ]

            def resolve_next(state: _TieState) -> _TieState:
                i = state.near_ties.trailing_zeros()
                exact = _round_exactly(pick(sums, i), scales_of(i)) + self.zero_point
                outputs = [select(i == j, exact, each) for j, each in enumerate(state.outputs)]
                return _TieState(state.near_ties & (state.near_ties - 1), outputs)

            start = _TieState(reduce(operator.or_, near_tie_mask), rounded)
            return ir.while_loop(start, lambda state: state.near_ties != 0, resolve_next).outputs

        near_tie = is_at_most(list(zip(lows, errors, strict=True)))
        return ir.cond(near_tie, resolve_ties, lambda: rounded, [32] * len(sums))

    def quantize_float32(self, sums: Sequence[Value], multipliers: Sequence[Value]) -> list[Value]:
        """Quantizes in "float32" without the branch of `quantize`, across which no work moves."""
        round_one = self._round_above_low if self.saturates else self._round
        return [round_one(*pair) for pair in zip(sums, multipliers, strict=True)]

    def pack(self, words: Sequence[Value]) -> Value:
        """A word of four outputs."""
        if self.saturates:
            return ir.pack_saturated(words, signed=self.signed)
        return ir.pack_bytes(words)

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
        constants = self.high, constant(float_bits(ROUNDING)), unrounding
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
            f"max.f32 v, v, $3; add.rn.f32 $0, v, {literal(ROUNDING)}; }}"
        )
        rounded = ir.ptx(text, 32, accumulator, multiplier, self.low)
        return rounded + (self.zero_point - float_bits(ROUNDING))

    def _round(self, accumulator: Value, multiplier: Value) -> Value:
        """The output in the lowest byte. Ties are even without the zero point."""
        text = (
            "{ .reg .b32 v; cvt.rn.f32.s32 v, $1; mul.rn.f32 v, v, $2; "
            f"max.f32 v, v, $3; min.f32 v, v, $4; add.rn.f32 $0, v, {literal(ROUNDING)}; }}"
        )
        return ir.ptx(text, 32, accumulator, multiplier, self.low, self.high) + self.zero_point


def _round_exactly(accumulator: Value, scales: Scales) -> Value:
    """round(acc * sx * sw / sy), or a value beyond 255: compares 2 |acc| P with (2 q + 1) S."""
    x, w, y = scales.apart()
    negative = (accumulator >> 31) != 0
    magnitude = select(negative, constant(0) - accumulator, accumulator)
    text = (
        "{ .reg .f64 v; cvt.rn.f64.u32 v, $1; mul.rn.f64 v, v, $2; "
        f"min.f64 v, v, {_FAR}; cvt.rzi.u32.f64 $0, v; }}"
    )
    below = ir.ptx(text, 32, magnitude, _divide_scales(x, w, y))
    doubled, product = magnitude.extend() << 1, x.mantissa.extend() * w.mantissa.extend()
    odd = (below * 2 + 1).extend() * y.mantissa.extend()
    shift = ((y.exponent - x.exponent - w.exponent) & 63).extend()
    left = _Int128(ir.ptx("mul.hi.u64 $0, $1, $2;", 64, doubled, product), doubled * product)
    right = _Int128((odd >> 1) >> (constant(63, 64) - shift), odd << shift)
    up = left.above(right) | (left.same(right) & ((below & 1) != 0))
    rounded = below + up.to_word()
    negative = negative ^ ((x.sign ^ w.sign ^ y.sign) != 0)
    return select(negative, constant(0) - rounded, rounded)


class _Int128(NamedTuple):
    """An unsigned integer of 128 bits."""

    high: Value
    low: Value

    def above(self, other: "_Int128") -> Value:
        return (self.high > other.high) | ((self.high == other.high) & (self.low > other.low))

    def same(self, other: "_Int128") -> Value:
        return (self.high == other.high) & (self.low == other.low)


def is_at_most(pairs: Sequence[tuple[Value, Value]]) -> Value:
    """Tests whether the first value of any pair is at most the second, unsigned."""
    tests = [f"setp.le.or.u32 p, ${2 * i + 1}, ${2 * i + 2}, p;" for i in range(len(pairs))]
    text = f"{{ .reg .pred p; setp.ne.u32 p, 0, 0; {' '.join(tests)} selp.b32 $0, 1, 0, p; }}"
    return ir.ptx(text, 32, *(value for pair in pairs for value in pair)) != 0


def pick(values: Sequence[Value], index: Value) -> Value:
    """Selects one of several by an index."""
    found = values[0]
    for i, value in enumerate(values[1:], 1):
        found = select(index == i, value, found)
    return found
