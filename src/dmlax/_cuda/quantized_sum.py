"""The sum of two quantized bytes in the threads of a CUDA kernel: `_core/quantized_sum.py`'s bits.

An estimate in float32 is rounded, unless it is a near tie. There the terms, which are exact in
float64, are compared with the tie by an expansion: floats whose sum is exact. Bytes are unsigned:
int8 is re-based by 128, with its zero point. The constants are in shared memory: a thread's
registers hold accumulators.

The estimate's constants are each two floats. The high ones are multiples of a power of two, so
large that sums of their products are exact; the low ones are the rest. Less than 511 / 2 of that
power, the low sum is off by 2**-19. The sum of both is off by 2**-17 up to 256, and clamped as
`requantize` clamps, by 2**-23 of itself: together less than the distance of its near ties.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.ir import Value, select
from dmlax._cuda.requantize import (
    FRACTION,
    INTEGER_BITS,
    ROUNDING,
    SPAN,
    float_bits,
    greatest,
    is_near_tie,
    literal,
    pick,
)

_BYTE = 2.0**23  # a float32 whose lowest byte is an integer from 0 on
_BOUND = literal(2.0**30)
_INT32_END = literal(2.0**31)
_FAR = "0d4090000000000000"  # 2**10: beyond it every sum saturates


def lowest_of(dtype: np.dtype) -> int:
    """The value that is 0 as an unsigned byte."""
    return int(np.iinfo(dtype).min)


class Term(NamedTuple):
    """A quantized tensor's parameters."""

    scale: Value  # bits of a float32
    zero_point: Value  # of unsigned bytes


class Byte(NamedTuple):
    """A byte of a word, counted from the lowest."""

    word: Value
    place: int


class Fraction(NamedTuple):
    """A byte times FRACTION as a float32, unsigned too."""

    value: Value


class _Exact(NamedTuple):
    """Words in shared memory: what every sum reads, which are float32; then what near ties read."""

    a_high: Value  # the ratio of a's scale to the sum's
    b_high: Value
    fixed_high: Value  # what the zero points add
    a_low: Value
    b_low: Value
    fixed_low: Value
    a_zero: Value
    b_zero: Value
    a_scale: Value
    b_scale: Value
    scale: Value
    zero_point: Value


class _Float32(NamedTuple):
    """Words in shared memory, of ONNX Runtime's arithmetic; all are float32."""

    a_ratio: Value  # the scales over the sum's
    b_ratio: Value
    fixed: Value  # what the zero points add
    bound: Value  # of all magnitudes


class Adder:
    """clamp(round((a + b) / scale) + zero point), of terms `(value - zero point) * scale`."""

    BYTES = 4 * len(_Exact._fields)  # of shared memory

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
            found = _make_exact(a, b, total) if exact else self._float32(a, b, total)
            for i, word in enumerate(found):
                ir.store_shared(self._address + 4 * i, word)

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
        """Words whose lowest byte is the sum, of two terms' bytes."""
        if self._arithmetic == "float32":
            return self.add_float32(a, b)
        words = [ir.load_shared(self._address + 4 * first, 4) for first in (0, 4)]
        *constants, a_zero, b_zero = (*words[0], *words[1])
        reals = zip(*([_byte_to_float(byte, 0) for byte in term] for term in (a, b)), strict=True)
        estimates = [ir.ptx_values(_ESTIMATE, [32, 32], [*pair, *constants]) for pair in reals]
        rounded, errors = [value for value, _ in estimates], [error for _, error in estimates]

        def resolve_ties() -> list[Value]:
            *scales, zero_point = ir.load_shared(self._address + 32, 4)
            left, right = ([_widen(byte) for byte in term] for term in (a, b))
            masks = [is_near_tie(error).to_word() << i for i, error in enumerate(errors)]

            def resolve_next(state: "_TieState") -> "_TieState":
                i = state.near_ties.trailing_zeros()
                terms = pick(left, i) - a_zero, pick(right, i) - b_zero
                exact = ir.ptx(_ROUND, 32, *terms, *scales) + zero_point
                exact = ir.clamp_signed(exact, 0, 255)
                sums = [select(i == j, exact, each) for j, each in enumerate(state.sums)]
                return _TieState(state.near_ties & (state.near_ties - 1), sums)

            start = _TieState(reduce(operator.or_, masks), rounded)
            return ir.while_loop(start, lambda state: state.near_ties != 0, resolve_next).sums

        near_tie = is_near_tie(greatest(errors))
        sums = ir.cond(near_tie, resolve_ties, lambda: rounded, [32] * len(rounded))
        lowest = self._lowest[2]
        return [each + lowest for each in sums] if lowest else sums

    def add_float32(
        self, a: Sequence[Byte | Fraction], b: Sequence[Byte | Fraction]
    ) -> list[Value]:
        """ONNX Runtime's fused multiply-adds, the zero point before the rounding."""
        found = _Float32(*ir.load_shared(self._address, 4))
        left, right = (
            _Reals.of(term, lowest) for term, lowest in zip((a, b), self._lowest[:2], strict=True)
        )

        def add_bounded() -> list[Value]:
            factors = left.scale_ratio(found.a_ratio), right.scale_ratio(found.b_ratio)
            return _multiply_and_add(*factors, found.fixed)

        def add_unbounded() -> list[Value]:
            """NaN and what no int32 holds give the lowest value."""
            factors = left.scale_values(found.a_ratio), right.scale_values(found.b_ratio)
            text = (
                f"{{ .reg .pred p; setp.lt.f32 p, $1, {_INT32_END}; "
                f"selp.b32 $0, $1, 0x{literal(self._lowest[2])[2:]}, p; }}"
            )
            return [ir.ptx(text, 32, x) for x in _multiply_and_add(*factors, found.fixed)]

        text = f"{{ .reg .pred p; setp.geu.f32 p, $1, {_BOUND}; selp.b32 $0, 1, 0, p; }}"
        unbounded = ir.ptx(text, 32, found.bound) != 0
        sums = ir.cond(unbounded, add_unbounded, add_bounded, [32] * len(a))
        if self._saturates:
            return [ir.ptx(f"mul.rn.f32 $0, $1, {INTEGER_BITS};", 32, each) for each in sums]
        low, high = literal(self._lowest[2]), literal(self._lowest[2] + 255)
        text = (
            f"{{ .reg .b32 y; max.f32 y, $1, {low}; min.f32 y, y, {high}; "
            f"add.rn.f32 $0, y, {literal(ROUNDING)}; }}"
        )
        return [ir.ptx(text, 32, each) for each in sums]

    @property
    def _saturates(self) -> bool:
        """True if sums are integers, which `pack` clamps to bytes."""
        return self._arithmetic == "float32" and self._lowest[2] == 0

    def pack(self, words: Sequence[Value]) -> Value:
        """A word of four sums."""
        return (ir.pack_saturated if self._saturates else ir.pack_bytes)(words)


_Factors = tuple[list[Value], Value]
"""Values, and what they are multiplied by."""


class _Reals(NamedTuple):
    """A term in float32: values, and the power of two that they lack."""

    values: list[Value]
    power: float

    @classmethod
    def of(cls, term: Sequence[Byte | Fraction], lowest: int) -> "_Reals":
        bytes_of = [each for each in term if isinstance(each, Byte)]
        if bytes_of:
            return cls([_byte_to_float(byte, lowest) for byte in bytes_of], 1.0)
        fractions = [each.value for each in term if isinstance(each, Fraction)]
        if lowest:
            text = f"add.rn.f32 $0, $1, {literal(lowest * FRACTION)};"
            fractions = [ir.ptx(text, 32, each) for each in fractions]
        return cls(fractions, 1 / FRACTION)

    def scale_ratio(self, ratio: Value) -> _Factors:
        """The factors of the term, the ratio scaled: it must be far from the largest float."""
        return self.values, self._scale(ratio)

    def scale_values(self, ratio: Value) -> _Factors:
        """The factors of the term, the values scaled."""
        return [self._scale(value) for value in self.values], ratio

    def _scale(self, x: Value) -> Value:
        return x if self.power == 1 else ir.ptx(f"mul.rn.f32 $0, $1, {literal(self.power)};", 32, x)


def _multiply_and_add(a: _Factors, b: _Factors, fixed: Value) -> list[Value]:
    """a * a's ratio + (b * b's ratio + fixed), each rounded once."""
    text = "{ .reg .b32 y; fma.rn.f32 y, $2, $4, $5; fma.rn.f32 $0, $1, $3, y; }"
    pairs = zip(a[0], b[0], strict=True)
    return [ir.ptx(text, 32, x, y, a[1], b[1], fixed) for x, y in pairs]


def _make_exact(a: Term, b: Term, total: Term) -> _Exact:
    zeros = a.zero_point, b.zero_point
    floats = ir.ptx_values(
        _SPLIT, [32] * 6, [a.scale, b.scale, total.scale, *zeros, total.zero_point]
    )
    scales = a.scale, b.scale, total.scale
    return _Exact._make([*floats, *zeros, *scales, total.zero_point])


class _TieState(NamedTuple):
    """The loop over near ties."""

    near_ties: Value  # bit i: sum i is one
    sums: list[Value]


def _to_float(value: Value) -> Value:
    return ir.ptx("cvt.rn.f32.s32 $0, $1;", 32, value)


def _widen(byte: Byte) -> Value:
    """The byte as a word."""
    return ir.ptx(f"prmt.b32 $0, $1, 0, 0x444{byte.place};", 32, byte.word)


def _byte_to_float(byte: Byte, lowest: int) -> Value:
    """The float32 of a value, of its unsigned byte."""
    text = (
        f"{{ .reg .b32 x; prmt.b32 x, $1, 0x{float_bits(_BYTE):08X}, 0x765{byte.place}; "
        f"sub.rn.f32 $0, x, {literal(_BYTE - lowest)}; }}"
    )
    return ir.ptx(text, 32, byte.word)


def _split(source: str, high: int, low: int) -> str:
    """PTX that makes a float64 a multiple of a power of two, and the rest."""
    return (
        f"add.rn.f64 t, {source}, m; sub.rn.f64 t, t, m; sub.rn.f64 {source}, {source}, t; "
        f"cvt.rn.f32.f64 ${high}, t; cvt.rn.f32.f64 ${low}, {source}; "
        f"selp.b32 ${high}, 0, ${high}, p; selp.b32 ${low}, 0, ${low}, p; "
    )


# The estimate's constants, of three scales and three zero points. The greatest magnitude of a sum
# is below 2**22 to 2**23 of the power of two, 2**-4 at most. Where that is too small for it, the
# constants estimate a half: every sum is a near tie.
_SPLIT = (
    "{ .reg .f64 x, y, c, s, t, m; .reg .b32 e, z; .reg .pred p; "
    "cvt.f64.f32 x, $6; cvt.f64.f32 y, $7; cvt.f64.f32 s, $8; "
    "div.rn.f64 x, x, s; div.rn.f64 y, y, s; "
    "cvt.rn.f64.u32 c, $11; cvt.rn.f64.u32 t, $9; neg.f64 t, t; fma.rn.f64 c, t, x, c; "
    "cvt.rn.f64.u32 t, $10; neg.f64 t, t; fma.rn.f64 c, t, y, c; "
    "abs.f64 s, x; abs.f64 t, y; add.rn.f64 s, s, t; abs.f64 t, c; "
    "fma.rn.f64 s, s, 0d406FE00000000000, t; mov.b64 {z, e}, s; shr.u32 e, e, 20; "
    "sub.s32 e, 1045, e; setp.lt.s32 p, e, 4; max.s32 e, e, 4; min.s32 e, e, 30; "
    "sub.s32 e, 1075, e; shl.b32 e, e, 20; or.b32 e, e, 0x80000; mov.b32 z, 0; "
    "mov.b64 m, {z, e}; "
    + _split("x", 0, 3)
    + _split("y", 1, 4)
    + _split("c", 2, 5)
    + f"selp.b32 $2, 0x{literal(0.5)[2:]}, $2, p; }}"
)

# Of two bytes as float32: their sum, clamped, in the lowest byte, and the estimate's distance from
# an integer. Arguments as in _Exact.
_ESTIMATE = (
    "{ .reg .b32 h, l; fma.rn.f32 h, $3, $5, $6; fma.rn.f32 h, $2, $4, h; "
    "fma.rn.f32 l, $3, $8, $9; fma.rn.f32 l, $2, $7, l; add.rn.f32 h, h, l; "
    f"mul.rn.sat.f32 h, h, {literal(1 / SPAN)}; "
    f"fma.rn.f32 $0, h, {literal(SPAN)}, {literal(ROUNDING)}; "
    f"sub.rn.f32 l, {literal(ROUNDING)}, $0; fma.rn.f32 l, h, {literal(SPAN)}, l; "
    "abs.f32 $1, l; }"
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
