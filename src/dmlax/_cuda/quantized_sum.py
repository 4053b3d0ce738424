"""The sum of two quantized bytes in the threads of a CUDA kernel: `_core/quantized_sum.py`'s bits.

An exact sum is a number in fixed point: two products of bytes and the ratios of scales as integers,
times 2**-32. Its high word is the sum, unless its low word is a near tie's. There the terms, which
are exact in float64, are compared with the tie by an expansion: floats whose sum is exact. Bytes
are unsigned: int8 is re-based by 128, with its zero point. The constants are in shared memory: a
thread's registers hold accumulators.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.fixed_point import pack_all, pack_products, pick
from dmlax._cuda.ir import Value
from dmlax._cuda.requantize import FRACTION, INTEGER_BITS, ROUNDING, float_bits, literal

_BYTE = 2.0**23  # a float32 whose lowest byte is an integer from 0 on
_BOUND = literal(2.0**30)
_INT32_END = literal(2.0**31)
_FAR = "0d4090000000000000"  # 2**10: beyond it every sum saturates

# A byte is multiplied as 2**8 times itself, by its ratio as an integer, times 2**-24. Each ratio is
# off by half a unit, so a product by 255 * 2**7, and what is added by less than a unit, of 2**-32.
# The sum is off by less than this, which is added to it with a half.
_ERROR = 1 << 16
_RATIO_UNIT = "0d4170000000000000"  # 2**24 of them
_UNIT = "0d41F0000000000000"  # 2**32
_HALF_AND_ERROR = f"0d{int(np.float64(0.5 + _ERROR / 2**32).view(np.uint64)):016X}"
_LARGEST = "0d41DFFFFFFFC00000"  # 2**31 - 1: of a larger ratio every sum is a near tie


def lowest_of(dtype: np.dtype) -> int:
    """The value that is 0 as an unsigned byte."""
    return int(np.iinfo(dtype).min)


class Term(NamedTuple):
    """A quantized tensor's parameters."""

    scale: Value  # bits of a float32
    zero_point: Value  # the zero point of unsigned bytes


class Byte(NamedTuple):
    """A byte of a word, counted from the lowest."""

    word: Value
    place: int


class Fraction(NamedTuple):
    """A byte times FRACTION as a float32, unsigned too."""

    value: Value


class _Exact(NamedTuple):
    """Words in shared memory: what every sum reads; then what near ties read."""

    a_ratio: Value  # the ratio of a's scale to the sum's, times 2**24
    b_ratio: Value
    fixed_low: Value  # what the zero points, a half and the error add, times 2**32
    fixed_high: Value
    limit: Value  # a low word up to this is a near tie's
    a_zero: Value
    b_zero: Value
    zero_point: Value
    a_scale: Value
    b_scale: Value
    scale: Value


class _Float32(NamedTuple):
    """Words in shared memory, of ONNX Runtime's arithmetic; all are float32."""

    a_ratio: Value  # the scales over the sum's
    b_ratio: Value
    fixed: Value  # what the zero points add
    bound: Value  # the bound of all magnitudes


class Adder:
    """clamp(round((a + b) / scale) + zero point), of terms `(value - zero point) * scale`."""

    BYTES = 16 * -(-len(_Exact._fields) // 4)  # the bytes in shared memory

    def __init__(
        self, arithmetic: Arithmetic, dtypes: tuple[np.dtype, np.dtype, np.dtype], address: Value
    ) -> None:
        """Takes the dtypes of `a`, of `b` and of the sum, and where the constants are.

        In "float32" the order of `a` and `b` counts.
        """
        self._arithmetic, self._address = arithmetic, address
        self._lowest = [lowest_of(dtype) for dtype in dtypes]

    def write(self, a: Term, b: Term, total: Term) -> None:
        """Writes the constants, by one thread; a barrier must follow."""
        exact = self._arithmetic == "exact"
        with ir.when(ir.thread() == 0):
            words = self._exact(a, b, total) if exact else self._float32(a, b, total)
            for i, word in enumerate(words):
                ir.store_shared(self._address + 4 * i, word)

    def _exact(self, a: Term, b: Term, total: Term) -> _Exact:
        scales, zero_point = (a.scale, b.scale, total.scale), total.zero_point + self._lowest[2]
        constants = [*scales, a.zero_point, b.zero_point, zero_point]
        made = ir.ptx_values(_MAKE_EXACT, [32] * 5, constants)
        return _Exact._make([*made, a.zero_point, b.zero_point, zero_point, *scales])

    def _float32(self, a: Term, b: Term, total: Term) -> _Float32:
        a_ratio, b_ratio = (
            ir.ptx("div.rn.f32 $0, $1, $2;", 32, term.scale, total.scale) for term in (a, b)
        )
        text = (
            "{ .reg .b32 x, y; mul.rn.f32 y, $2, $4; fma.rn.f32 x, $1, $3, y; "
            "sub.rn.f32 $0, $5, x; }"
        )
        terms = zip((a, b, total), self._lowest, strict=True)
        zeros = (_to_float(term.zero_point + lowest) for term, lowest in terms)
        fixed = ir.ptx(text, 32, a_ratio, b_ratio, *zeros)
        text = (
            "{ .reg .b32 x, y; abs.f32 x, $1; abs.f32 y, $2; add.rn.f32 x, x, y; "
            f"abs.f32 y, $3; fma.rn.f32 $0, x, {literal(256)}, y; }}"
        )
        return _Float32(a_ratio, b_ratio, fixed, ir.ptx(text, 32, a_ratio, b_ratio, fixed))

    def add(self, a: Sequence[Byte], b: Sequence[Byte]) -> list[Value]:
        """Words of four sums, of two terms' bytes."""
        if self._arithmetic == "float32":
            return self.add_float32(a, b)
        (*ratios, low, high), (limit, a_zero, b_zero, zero_point) = (
            ir.load_shared(self._address + 4 * first, 4) for first in (0, 4)
        )
        sums = [(low, high)] * len(a)
        for term, ratio in zip((b, a), reversed(ratios), strict=True):
            sums = [
                ir.multiply_add_wide(_widen(byte, 1), ratio, *sum)
                for byte, sum in zip(term, sums, strict=True)
            ]

        def round_exactly(i: Value) -> Value:
            scales = ir.load_shared(self._address + 32, 4)[:3]
            left, right = (pick([_widen(byte, 0) for byte in term], i) for term in (a, b))
            return ir.ptx(_ROUND, 32, left - a_zero, right - b_zero, *scales) + zero_point

        return pack_products(sums, [limit] * len(a), round_exactly, signed=self._lowest[2] < 0)

    def add_float32(
        self, a: Sequence[Byte | Fraction], b: Sequence[Byte | Fraction]
    ) -> list[Value]:
        """ONNX Runtime's fused multiply-adds, the zero point before the rounding."""
        constants = _Float32(*ir.load_shared(self._address, 4))
        lowest = self._lowest[:2]
        both = [_to_reals(term, low) for term, low in zip((a, b), lowest, strict=True)]
        terms = [(*term, ratio) for term, ratio in zip(both, constants[:2], strict=True)]

        def add_bounded() -> list[Value]:
            factors = [(reals, _scale(ratio, power)) for reals, power, ratio in terms]
            return _multiply_and_add(factors, constants.fixed)

        def add_unbounded() -> list[Value]:
            """NaN and what no int32 holds give the lowest value."""
            factors = [
                ([_scale(x, power) for x in values], ratio) for values, power, ratio in terms
            ]
            text = (
                f"{{ .reg .pred p; setp.lt.f32 p, $1, {_INT32_END}; "
                f"selp.b32 $0, $1, 0x{literal(self._lowest[2])[2:]}, p; }}"
            )
            return [ir.ptx(text, 32, x) for x in _multiply_and_add(factors, constants.fixed)]

        text = f"{{ .reg .pred p; setp.geu.f32 p, $1, {_BOUND}; selp.b32 $0, 1, 0, p; }}"
        unbounded = ir.ptx(text, 32, constants.bound) != 0
        sums = ir.cond(unbounded, add_unbounded, add_bounded, [32] * len(a))
        if self._lowest[2] == 0:
            text = f"mul.rn.f32 $0, $1, {INTEGER_BITS};"
            outputs = [ir.ptx(text, 32, x) for x in sums]
            return pack_all(outputs, saturates=True, signed=False)
        low, high = literal(self._lowest[2]), literal(self._lowest[2] + 255)
        text = (
            f"{{ .reg .b32 y; max.f32 y, $1, {low}; min.f32 y, y, {high}; "
            f"add.rn.f32 $0, y, {literal(ROUNDING)}; }}"
        )
        outputs = [ir.ptx(text, 32, x) for x in sums]
        return pack_all(outputs, saturates=False, signed=True)


_Factors = tuple[list[Value], Value]
"""Values, and what they are multiplied by."""


def _to_reals(term: Sequence[Byte | Fraction], lowest: int) -> tuple[list[Value], float]:
    """A term's values in float32, and the power of two that they lack.

    A ratio times that power must be far from the largest float.
    """
    term_bytes = [x for x in term if isinstance(x, Byte)]
    if term_bytes:
        return [_byte_to_float(byte, lowest) for byte in term_bytes], 1.0
    fractions = [x.value for x in term if isinstance(x, Fraction)]
    if lowest:
        text = f"add.rn.f32 $0, $1, {literal(lowest * FRACTION)};"
        fractions = [ir.ptx(text, 32, x) for x in fractions]
    return fractions, 1 / FRACTION


def _scale(x: Value, power: float) -> Value:
    return x if power == 1 else ir.ptx(f"mul.rn.f32 $0, $1, {literal(power)};", 32, x)


def _multiply_and_add(factors: Sequence[_Factors], fixed: Value) -> list[Value]:
    """a * a's ratio + (b * b's ratio + fixed), by two fused multiply-adds."""
    text = "{ .reg .b32 y; fma.rn.f32 y, $2, $4, $5; fma.rn.f32 $0, $1, $3, y; }"
    (left, left_ratio), (right, right_ratio) = factors
    pairs = zip(left, right, strict=True)
    return [ir.ptx(text, 32, x, y, left_ratio, right_ratio, fixed) for x, y in pairs]


def _to_float(value: Value) -> Value:
    return ir.ptx("cvt.rn.f32.s32 $0, $1;", 32, value)


def bytes_of(words: Sequence[Value]) -> list[Byte]:
    """The four bytes of all words."""
    return [Byte(word, i) for word in words for i in range(4)]


def _widen(byte: Byte, place: int) -> Value:
    """A word with the byte at a place and zeros at the others."""
    order = "".join(str(byte.place) if i == place else "4" for i in (3, 2, 1, 0))
    return ir.ptx(f"prmt.b32 $0, $1, 0, 0x{order};", 32, byte.word)


def _byte_to_float(byte: Byte, lowest: int) -> Value:
    """The float32 of a value, of its unsigned byte."""
    text = (
        f"{{ .reg .b32 x; prmt.b32 x, $1, 0x{float_bits(_BYTE):08X}, 0x765{byte.place}; "
        f"sub.rn.f32 $0, x, {literal(_BYTE - lowest)}; }}"
    )
    return ir.ptx(text, 32, byte.word)


# The words of _Exact that every sum reads, of three scales and three zero points.
_MAKE_EXACT = (
    "{ .reg .f64 a, b, c, t; .reg .b64 w; .reg .pred p; "
    "cvt.f64.f32 a, $5; cvt.f64.f32 b, $6; cvt.f64.f32 t, $7; "
    "div.rn.f64 a, a, t; div.rn.f64 b, b, t; "
    f"cvt.rn.f64.s32 c, $10; add.rn.f64 c, c, {_HALF_AND_ERROR}; "
    "cvt.rn.f64.u32 t, $8; neg.f64 t, t; fma.rn.f64 c, t, a, c; "
    "cvt.rn.f64.u32 t, $9; neg.f64 t, t; fma.rn.f64 c, t, b, c; "
    f"mul.rn.f64 c, c, {_UNIT}; cvt.rni.s64.f64 w, c; mov.b64 {{$2, $3}}, w; "
    f"mul.rn.f64 a, a, {_RATIO_UNIT}; cvt.rni.s32.f64 $0, a; "
    f"mul.rn.f64 b, b, {_RATIO_UNIT}; cvt.rni.s32.f64 $1, b; "
    f"abs.f64 a, a; abs.f64 b, b; max.f64 a, a, b; setp.lt.f64 p, a, {_LARGEST}; "
    f"selp.b32 $4, {2 * _ERROR}, {0xFFFFFFFF}, p; }}"
)


def _two_sum(high: str, low: str, x: str, y: str) -> str:
    """PTX that makes the float64 sum of two, and what it lost."""
    return (
        f"add.rn.f64 {high}, {x}, {y}; sub.rn.f64 t, {high}, {x}; sub.rn.f64 u, {high}, t; "
        f"sub.rn.f64 u, {x}, u; sub.rn.f64 t, {y}, t; add.rn.f64 {low}, u, t; "
    )


# Both terms, and `middle`, the tie above the quotient rounded down, are exact in float64. The
# difference is an expansion, whose sign is that of its largest part that is not 0.
_ROUND = (
    "{ .reg .f64 a, b, s, q, middle, t, u, s0, s1, d0, d1, d2; "
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
