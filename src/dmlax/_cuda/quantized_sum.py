"""The sum of two quantized bytes in the threads of a CUDA kernel: `_core/quantized_sum.py`'s bits.

A float32 estimate is rounded, unless it is a near tie. There the terms, which are exact in float64,
are compared with the tie by an expansion: floats whose sum is exact. Bytes are unsigned: int8 is
re-based by 128, with its zero point. The constants are in shared memory: a thread's registers hold
accumulators.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.ir import Value, constant, select
from dmlax._cuda.requantize import ROUNDING, float_bits, literal, pick

_BYTE = 2.0**23  # a float32 whose lowest byte is an integer from 0 on
# The estimate's ratios, a product and the sum are off by 2**-24 of themselves each, by less than
# 3.5 * 2**-24 of 255 times both ratios together.
_ERROR = literal(255 * 3.5 * 2**-24)
_NEAR_TIE = literal(0.5 - 2**-20)
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
    index: int


class _Constants(NamedTuple):
    """Words in shared memory: four that every sum reads, then four, then four of near ties."""

    a_ratio: Value  # float32, the scales over the sum's
    b_ratio: Value
    a_zero: Value  # float32: zero points, and _BYTE
    b_zero: Value
    low: Value  # float32: an estimate is clamped to these, before the zero point
    high: Value
    threshold: Value  # a near tie is farther from an integer
    zero_point: Value
    a_scale: Value
    b_scale: Value
    scale: Value
    unused: Value


class Adder:
    """clamp(round((a + b) / scale) + zero point), of terms `(value - zero point) * scale`."""

    BYTES = 4 * len(_Constants._fields)  # of shared memory

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
        with ir.when(ir.thread() == 0):
            a_ratio, b_ratio = (
                ir.ptx("div.rn.f32 $0, $1, $2;", 32, term.scale, total.scale) for term in (a, b)
            )
            if self._arithmetic == "exact":
                words = self._constants_exact(a, b, total, a_ratio, b_ratio)
            else:
                words = self._constants_float32(a, b, total, a_ratio, b_ratio)
            for i, word in enumerate(words):
                ir.store_shared(self._address + 4 * i, word)

    def _constants_exact(
        self, a: Term, b: Term, total: Term, a_ratio: Value, b_ratio: Value
    ) -> _Constants:
        text = (
            "{ .reg .b32 x, y; abs.f32 x, $1; abs.f32 y, $2; add.rn.f32 x, x, y; "
            f"mul.rn.f32 x, x, {_ERROR}; sub.rn.f32 $0, {_NEAR_TIE}, x; }}"
        )
        threshold = ir.ptx(text, 32, a_ratio, b_ratio)
        low = constant(0) - total.zero_point
        return _Constants(
            *(a_ratio, b_ratio),
            *(_to_float(term.zero_point + int(_BYTE)) for term in (a, b)),
            *(_to_float(low), _to_float(low + 255), threshold, total.zero_point),
            *(a.scale, b.scale, total.scale, constant(0)),
        )

    def _constants_float32(
        self, a: Term, b: Term, total: Term, a_ratio: Value, b_ratio: Value
    ) -> _Constants:
        """ONNX Runtime's; `low` is what the zero points add, `high` a bound of all magnitudes."""
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
        bound = ir.ptx(text, 32, a_ratio, b_ratio, fixed)
        rest = [constant(0)] * 6
        bytes_of = (constant(float_bits(_BYTE - lowest)) for lowest in self._lowest[:2])
        return _Constants(a_ratio, b_ratio, *bytes_of, fixed, bound, *rest)

    def add(self, a: Sequence[Byte], b: Sequence[Byte]) -> list[Value]:
        """Words whose lowest byte is the sum, of two terms' bytes."""
        words = [*ir.load_shared(self._address, 4), *ir.load_shared(self._address + 16, 4)]
        found = _Constants(*words, *[constant(0)] * 4)
        left = [_subtract(byte, found.a_zero) for byte in a]
        right = [_subtract(byte, found.b_zero) for byte in b]
        if self._arithmetic == "float32":
            return self._add_float32(left, right, found)
        estimates = [_estimate(x, y, found) for x, y in zip(left, right, strict=True)]
        lowest = constant(self._lowest[2]) + found.zero_point
        rounded, errors = [value for value, _ in estimates], [error for _, error in estimates]
        worst = reduce(lambda x, y: ir.ptx("max.f32 $0, $1, $2;", 32, x, y), errors)

        def resolve_ties() -> list[Value]:
            scales = ir.load_shared(self._address + 32, 4)[:3]
            masks = [
                _is_near_tie(error, found.threshold).to_word() << i
                for i, error in enumerate(errors)
            ]

            def resolve_next(state: "_TieState") -> "_TieState":
                i = state.near_ties.trailing_zeros()
                exact = ir.ptx(_ROUND, 32, pick(left, i), pick(right, i), *scales)
                exact = _clamp(exact + found.zero_point) - found.zero_point
                sums = [select(i == j, exact, each) for j, each in enumerate(state.sums)]
                return _TieState(state.near_ties & (state.near_ties - 1), sums)

            start = _TieState(reduce(operator.or_, masks), rounded)
            return ir.while_loop(start, lambda state: state.near_ties != 0, resolve_next).sums

        near_tie = _is_near_tie(worst, found.threshold)
        sums = ir.cond(near_tie, resolve_ties, lambda: rounded, [32] * len(rounded))
        return [each + lowest for each in sums]

    def _add_float32(
        self, left: Sequence[Value], right: Sequence[Value], found: _Constants
    ) -> list[Value]:
        """ONNX Runtime's fused multiply-adds, the zero point before the rounding."""
        low, high = literal(self._lowest[2]), literal(self._lowest[2] + 255)
        text = "{ .reg .b32 y; fma.rn.f32 y, $2, $4, $5; fma.rn.f32 $0, $1, $3, y; }"
        constants = found.a_ratio, found.b_ratio, found.low
        sums = [ir.ptx(text, 32, x, y, *constants) for x, y in zip(left, right, strict=True)]
        text = f"{{ .reg .pred p; setp.geu.f32 p, $1, {_BOUND}; selp.b32 $0, 1, 0, p; }}"
        unbounded = ir.ptx(text, 32, found.high) != 0
        beyond = (
            f"{{ .reg .pred p; setp.lt.f32 p, $1, {_INT32_END}; selp.b32 $0, $1, 0x{low[2:]}, p; }}"
        )
        sums = ir.cond(
            unbounded,
            lambda: [ir.ptx(beyond, 32, each) for each in sums],
            lambda: sums,
            [32] * len(sums),
        )
        text = (
            f"{{ .reg .b32 y; max.f32 y, $1, {low}; min.f32 y, y, {high}; "
            f"add.rn.f32 $0, y, {literal(ROUNDING)}; }}"
        )
        return [ir.ptx(text, 32, each) for each in sums]


class _TieState(NamedTuple):
    """The loop over near ties."""

    near_ties: Value  # bit i: sum i is one
    sums: list[Value]


def _to_float(value: Value) -> Value:
    return ir.ptx("cvt.rn.f32.s32 $0, $1;", 32, value)


def _subtract(byte: Byte, zero: Value) -> Value:
    """The float32 of a byte less a zero point, to which _BYTE was added."""
    text = (
        f"{{ .reg .b32 x; prmt.b32 x, $1, 0x{float_bits(_BYTE):08X}, 0x765{byte.index}; "
        "sub.rn.f32 $0, x, $2; }"
    )
    return ir.ptx(text, 32, byte.word, zero)


def _estimate(a: Value, b: Value, found: _Constants) -> list[Value]:
    """The sum in the lowest byte, and the estimate's distance from an integer."""
    text = (
        "{ .reg .b32 y, r; mul.rn.f32 y, $2, $4; fma.rn.f32 y, $3, $5, y; max.f32 y, y, $6; "
        f"min.f32 y, y, $7; add.rn.f32 r, y, {literal(ROUNDING)}; mov.b32 $0, r; "
        f"sub.rn.f32 r, r, {literal(ROUNDING)}; sub.rn.f32 r, y, r; abs.f32 $1, r; }}"
    )
    constants = found.a_ratio, found.b_ratio, found.low, found.high
    return ir.ptx_values(text, [32, 32], [a, b, *constants])


def _is_near_tie(error: Value, threshold: Value) -> Value:
    text = "{ .reg .pred p; setp.gtu.f32 p, $1, $2; selp.b32 $0, 1, 0, p; }"
    return ir.ptx(text, 32, error, threshold) != 0


def _clamp(value: Value) -> Value:
    text = "{ .reg .s32 x; max.s32 x, $1, 0; min.s32 $0, x, 255; }"
    return ir.ptx(text, 32, value)


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
    "cvt.f64.f32 a, $1; cvt.f64.f32 t, $3; mul.rn.f64 a, a, t; "
    "cvt.f64.f32 b, $2; cvt.f64.f32 t, $4; mul.rn.f64 b, b, t; cvt.f64.f32 s, $5; "
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
