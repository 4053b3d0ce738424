"""Requantization in the threads of a CUDA kernel: the same bits as `_core/requantize.py`.

An exact output is a number in fixed point: the product of an accumulator and sx * sw / sy as an
integer, times 2**-32. Its high word is rounded, unless its low word says that a tie is so near that
the error of the product could matter. A near tie is rounded by integers of 96 bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.fixed_point import pack_all, pack_products, pick
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
_MOST_ERROR = literal(2.0**30 * 1.001)  # the error of the largest accumulator
_UNIT = "0d41F0000000000000"  # 2**32 of them
_LARGEST = "0d41DFFFFFFFC00000"  # 2**31 - 1: a multiplier beyond is too large for an integer
_ALL_NEAR = (1 << 32) - 1  # only accumulator 0 has a greater low word at multiplier 1
_FAR = literal(2.0**10)  # every output beyond saturates
ROUNDING = 1.5 * 2**23  # a float32 whose last bit is worth 1: adding it rounds to even
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
# Times this, a float32 is rounded to even, and its bits are a positive integer, or those of a
# negative one are negative: below 2**23 the product is subnormal.
INTEGER_BITS = "0f00000001"
_PRODUCT = "{ .reg .b32 v; cvt.rn.f32.s32 v, $1; mul.rn.f32 v, v, $2;"  # an accumulator, scaled
FRACTION = 2.0**-8  # a byte's unit as a float32; the conversion clamps to 0 and 1


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


class Ratio(NamedTuple):
    """A channel's factor as integers: product / (divisor * 2**shift)."""

    product: Value  # its lowest 32 bits
    rest: Value  # 16 bits of the product, then 6 of the shift; the sign is the highest bit
    divisor: Value


class Factor(NamedTuple):
    """Constants by which a channel's accumulators are multiplied, and that are added then."""

    multiplier: Value  # a float32 in "float32" arithmetic, else an integer in units of 2**-32
    rounding: Value  # times 2**-32: a half and the error; nothing in "float32"


def compute_float32_factor(scales: Scales) -> Factor:
    """The factor sx * sw / sy in "float32"."""
    text = "{ .reg .b32 p; mul.rn.f32 p, $1, $2; div.rn.f32 $0, p, $3; }"
    return Factor(ir.ptx(text, 32, *scales), constant(0))


def compute_exact_factor(scales: Scales) -> tuple[Factor, Ratio]:
    """The factor sx * sw / sy, rounded and as it is.

    Beyond 2**22 and below 2**-39 the shift is another: all outputs saturate, or are zero points.
    """
    x, w, y = map(_Scale.of, scales)
    shift = y.exponent - x.exponent - w.exponent
    below, above = shift.less_signed(0), constant(63).less_signed(shift)
    shift = select(below, constant(0), select(above, constant(63), shift))
    sign, product = x.sign ^ w.sign ^ y.sign, x.mantissa.extend() * w.mantissa.extend()
    rest = (product >> 32).to_word() | shift << 16 | sign
    text = (
        "{ .reg .f64 a, b; .reg .b32 e; .reg .pred p; "
        "cvt.rn.f64.u64 a, $2; cvt.rn.f64.u32 b, $3; div.rn.f64 a, a, b; "
        "cvt.f64.f32 b, $4; mul.rn.f64 a, a, b; "
        f"cvt.rn.f32.f64 e, a; rcp.approx.ftz.f32 e, e; mul.rn.f32 e, e, {_ERROR}; "
        f"min.f32 e, e, {_MOST_ERROR}; cvt.rzi.u32.f32 e, e; add.u32 $1, e, {_HALF + 2}; "
        f"mul.rn.f64 a, a, {_UNIT}; setp.ge.f64 p, a, {_LARGEST}; cvt.rni.s32.f64 $0, a; "
        f"selp.b32 $0, 1, $0, p; selp.b32 $1, {_ALL_NEAR}, $1, p; }}"
    )
    operands = product, y.mantissa, (constant(127) - shift) << 23  # 2**-shift as a float32
    size, rounding = ir.ptx_values(text, [32, 32], operands)
    multiplier = select(sign != 0, constant(0) - size, size)
    return Factor(multiplier, rounding), Ratio(product.to_word(), rest, y.mantissa)


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

    def quantize(
        self, sums: Sequence[Value], factors: Sequence[Factor], load_ratio: Callable[[Value], Ratio]
    ) -> list[Value]:
        """Words of four outputs; a near tie needs the ratio of its index."""
        if self.arithmetic == "exact":
            return self._quantize_exactly(sums, factors, load_ratio)
        multipliers = [factor.multiplier for factor in factors]
        if self.signed:
            return self.quantize_float32(sums, multipliers)
        return ir.cond(
            self.zero_point == 0,
            lambda: self._round_all(self._round_above_zero, sums, multipliers),
            lambda: self.quantize_float32(sums, multipliers),
            [32] * (len(sums) // 4),
        )

    def _quantize_exactly(
        self, sums: Sequence[Value], factors: Sequence[Factor], load_ratio: Callable[[Value], Ratio]
    ) -> list[Value]:
        products = [
            ir.multiply_add_wide(acc, multiplier, rounding, self.zero_point)
            for acc, (multiplier, rounding) in zip(sums, factors, strict=True)
        ]
        # A half is gone, and twice the error is left.
        limits = [rounding + rounding for _, rounding in factors]

        def round_exactly(i: Value) -> Value:
            return _round_exactly(pick(sums, i), load_ratio(i)) + self.zero_point

        return pack_products(products, limits, round_exactly, signed=self.signed)

    def quantize_float32(self, sums: Sequence[Value], multipliers: Sequence[Value]) -> list[Value]:
        """Quantizes in "float32" without the branch of `quantize`, across which no work moves."""
        round_one = self._round if self.signed else self._round_above_low
        return self._round_all(round_one, sums, multipliers)

    def _round_all(
        self,
        round_one: Callable[[Value, Value], Value],
        sums: Sequence[Value],
        multipliers: Sequence[Value],
    ) -> list[Value]:
        outputs = [round_one(*pair) for pair in zip(sums, multipliers, strict=True)]
        saturates = self.arithmetic == "exact" or not self.signed
        return pack_all(outputs, saturates=saturates, signed=self.signed)

    def quantize_to_fractions(
        self, sums: Sequence[Value], multipliers: Sequence[Value]
    ) -> list[Value]:
        """The outputs times FRACTION as float32, in "float32" arithmetic, of unsigned bytes.

        The lower bound is that of the last instruction; NaN is below it.
        """
        text = "{ .reg .b32 z; cvt.rn.f32.s32 z, $1; "
        text += f"sub.rn.f32 z, z, {literal(ROUNDING)}; mul.rn.f32 $0, z, {literal(FRACTION)}; }}"
        unrounding = ir.ptx(text, 32, self.zero_point)
        text = f"{_PRODUCT} min.NaN.f32 v, v, $3; add.rn.f32 v, v, $4; "
        text += f"fma.rn.sat.f32 $0, v, {literal(FRACTION)}, $5; }}"
        constants = self.high, constant(float_bits(ROUNDING)), unrounding
        pairs = zip(sums, multipliers, strict=True)
        return [ir.ptx(text, 32, *pair, *constants) for pair in pairs]

    def _round_above_zero(self, accumulator: Value, multiplier: Value) -> Value:
        """The output before it is clamped, of a zero point 0. NaN, of an infinite one, is 0."""
        text = f"{_PRODUCT} mul.rn.f32 $0, v, {INTEGER_BITS}; }}"
        return ir.ptx(text, 32, accumulator, multiplier)

    def _round_above_low(self, accumulator: Value, multiplier: Value) -> Value:
        """The output before it is clamped from above. Ties are even without the zero point."""
        text = f"{_PRODUCT} max.f32 v, v, $3; add.rn.f32 $0, v, {literal(ROUNDING)}; }}"
        rounded = ir.ptx(text, 32, accumulator, multiplier, self.low)
        return rounded + (self.zero_point - float_bits(ROUNDING))

    def _round(self, accumulator: Value, multiplier: Value) -> Value:
        """The output in the lowest byte. Ties are even without the zero point."""
        text = f"{_PRODUCT} max.f32 v, v, $3; min.f32 v, v, $4; "
        text += f"add.rn.f32 $0, v, {literal(ROUNDING)}; }}"
        return ir.ptx(text, 32, accumulator, multiplier, self.low, self.high) + self.zero_point


# Of a magnitude and a Ratio: their product, rounded, or a value beyond 255. An estimate, off by
# less than a half, gives q below it and so the tie above q. |acc| P, of 96 bits at most, is
# compared with (2 q + 1) S, shifted. Where the shift is 0, every output saturates.
_ROUND = (
    "{ .reg .b32 u, v, s, p, q, l0, l1, l2, r0, r1, r2; .reg .b64 a, b; .reg .pred far; "
    "and.b32 p, $3, 0xFFFF; bfe.u32 s, $3, 16, 6; "
    f"cvt.rn.f32.u32 v, p; cvt.rn.f32.u32 u, $2; fma.rn.f32 v, v, {literal(2.0**32)}, u; "
    "cvt.rn.f32.u32 u, $4; rcp.approx.ftz.f32 u, u; mul.rn.f32 v, v, u; "
    "sub.u32 u, 127, s; shl.b32 u, u, 23; mul.rn.f32 v, v, u; "
    "cvt.rn.f32.u32 u, $1; mul.rn.f32 v, v, u; "
    f"min.f32 v, v, {_FAR}; cvt.rzi.u32.f32 q, v; "
    "mul.wide.u32 a, $1, $2; mov.b64 {l0, u}, a; mul.wide.u32 b, $1, p; cvt.u64.u32 a, u; "
    "add.u64 b, b, a; mov.b64 {l1, l2}, b; "
    "shl.b32 u, q, 1; or.b32 u, u, 1; mul.wide.u32 a, u, $4; mov.b64 {u, v}, a; "
    "sub.u32 s, s, 1; shf.l.wrap.b32 r0, 0, u, s; shf.l.wrap.b32 r1, u, v, s; "
    "shf.l.wrap.b32 r2, v, 0, s; setp.ge.u32 far, s, 32; "
    "selp.b32 r2, r1, r2, far; selp.b32 r1, r0, r1, far; selp.b32 r0, 0, r0, far; "
    "and.b32 u, q, 1; sub.cc.u32 u, 0, u; "  # a tie is rounded up if q is odd
    "subc.cc.u32 r0, r0, l0; subc.cc.u32 r1, r1, l1; subc.u32 r2, r2, l2; "
    "shr.u32 r2, r2, 31; add.u32 $0, q, r2; }"
)


def _round_exactly(accumulator: Value, ratio: Ratio) -> Value:
    """round(acc * ratio), or a value beyond 255."""
    negative = (accumulator >> 31) != 0
    magnitude = select(negative, constant(0) - accumulator, accumulator)
    rounded = ir.ptx(_ROUND, 32, magnitude, *ratio)
    negative = ((accumulator ^ ratio.rest) >> 31) != 0
    return select(negative, constant(0) - rounded, rounded)
