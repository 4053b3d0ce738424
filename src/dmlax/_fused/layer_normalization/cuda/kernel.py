"""The kernel of a layer normalization of bytes: a warp computes rows, whose sums are integers.

A row of n bytes x has the sums s of x and q of x * x. Its deviations from the mean are
(n * x - s) / n, and its variance is (n * q - s * s) / n**2: neither needs the zero point. A warp
keeps what multiplies the elements and is added to them, and loads its next row ahead.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._cuda import capability, ir, tuning
from dmlax._cuda.batching import call_on_rows
from dmlax._cuda.ir import Memory, Value, constant
from dmlax._cuda.launch import ThreadBlock, launch
from dmlax._cuda.requantize import literal

_BLOCK = ThreadBlock(1)
_ROWS = _BLOCK.threads // 32  # a block normalizes this many rows
_WORD = 4  # bytes that a lane takes at once
_MOST_KEPT = 64  # registers of a thread that hold factors
_USUAL = 2.0**-60, 2.0**60  # scales of which no quotient near a byte overflows or is subnormal
_FAR = 2.0**10  # steps: every element further off is clamped


class Quantization(NamedTuple):
    """The dtypes and the scales before and after, the zero point after, and what variances get."""

    input: np.dtype
    output: np.dtype
    x_scale: float
    y_scale: float
    y_zero_point: int
    epsilon: float


def normalize(quantization: Quantization, x: Array, *factors: Array) -> Array:
    """The rows of the last axis, normalized, multiplied, added to and quantized.

    Args:
      quantization: parameters of one value.
      x: int8 or uint8; a row is whole words.
      factors: float32, for the elements of a row: the scale, and the bias if any.
    """
    return call_on_rows(functools.partial(_normalize, quantization), x, *factors)


def _normalize(quantization: Quantization, x: Array, *factors: Array) -> Array:
    output = quantization.output
    if x.size == 0:
        return jnp.zeros(x.shape, output)
    count = x.shape[-1]
    rows = x.size // count
    blocks = min(-(-rows // _ROWS), tuning.NORMALIZATION_BLOCKS * capability.multiprocessors())
    body = functools.partial(_body, quantization, rows, count, blocks * _ROWS)
    (normalized,) = launch(
        "dmlax_layer_normalization",
        body,
        {"input": x.reshape(-1)} | dict(zip(("scale", "bias"), factors, strict=False)),
        {"output": jax.ShapeDtypeStruct((x.size,), output)},
        blocks=blocks,
        warpgroups=_BLOCK.warpgroups,
        shared_words=_WORD,
    )
    return normalized.reshape(x.shape)


class _State(NamedTuple):
    """The loop over a warp's rows."""

    row: Value
    words: list[Value]  # a lane's, of that row


def _body(quantization: Quantization, rows: int, count: int, warps: int, memory: Memory) -> None:
    """Normalizes every row whose number is a multiple of `warps` further on."""
    lane = _Lane(quantization, count, memory)
    first = ir.block() * _ROWS + ir.warp()

    def step(state: _State) -> _State:
        following = state.row + warps
        words = lane.load(ir.minimum(following, rows - 1))
        lane.compute(state)
        return _State(following, words)

    start = _State(first, lane.load(ir.minimum(first, rows - 1)))
    ir.while_loop(start, lambda state: state.row < rows, step)


class _Lane:
    """A lane's share of every row: every 32nd word."""

    def __init__(self, quantization: Quantization, count: int, memory: Memory) -> None:
        """Takes the elements of a row."""
        self.quantization, self.count, self.memory = quantization, count, memory
        words = count // _WORD
        self.indices = [ir.lane() + first for first in range(0, words, 32)]
        self.is_whole = words % 32 == 0  # else the last words are of some lanes alone
        self.factor_names = [name for name in ("scale", "bias") if name in memory]
        size = len(self.factor_names) * _WORD * len(self.indices)
        self.kept = [self._load_factors(i) for i in self.indices] if size <= _MOST_KEPT else []

    def load(self, row: Value) -> list[Value]:
        """Begins to load the words of a row."""
        start = row.extend() * self.count
        return [self._load(start, index) for index in self.indices]

    def compute(self, state: _State) -> None:
        """Sums and stores the words."""
        words, start = state.words, state.row.extend() * self.count
        total, squares = constant(0), constant(0)
        for word in words:
            total = _add_products(total, word, constant(0x01010101))
            squares = _add_products(squares, word, word)
        total, squares = ir.warp_sum(total), ir.warp_sum(squares)
        factor = self._factor(total, squares)
        for i, index in enumerate(self.indices):
            factors = self.kept[i] if self.kept else self._load_factors(index)
            packed = self._normalize(words[i], total, factor, factors)
            offset = start + (index * _WORD).extend()
            if self.is_whole:
                self.memory["output"].store(offset, packed)
            else:
                self.memory["output"].store_where(index < self.count // _WORD, offset, packed)

    def _load(self, start: Value, index: Value) -> Value:
        """A word of unsigned bytes of the input's order; 0 where the row has ended."""
        address = self.memory["input"].address(start + (index * _WORD).extend())
        flip = 0x80808080 if np.iinfo(self.quantization.input).min else 0
        if self.is_whole:
            word = ir.load_read_only(address)
        else:
            word = ir.load_read_only_where(index < self.count // _WORD, address, constant(flip))
        return word ^ flip if flip else word

    def _factor(self, total: Value, squares: Value) -> Value:
        """The factor of the elements times n, less their sum."""
        step = self.quantization.x_scale / self.count
        text = (
            "{ .reg .b64 q, s; .reg .f32 v; "
            f"mul.wide.u32 q, $2, {self.count}; mul.wide.u32 s, $1, $1; sub.u64 q, q, s; "
            "cvt.rn.f32.u64 v, q; "
            f"fma.rn.f32 v, v, {literal(step * step)}, {literal(self.quantization.epsilon)}; "
            f"sqrt.rn.f32 v, v; div.rn.f32 $0, {literal(step)}, v; }}"
        )
        return ir.ptx(text, 32, total, squares)

    def _load_factors(self, index: Value) -> list[tuple[Value, ...]]:
        """The factors of a word's four elements."""
        loaded = [
            ir.load_read_only_bytes(self._factor_address(name, index), 16)
            for name in self.factor_names
        ]
        return list(zip(*loaded, strict=True))

    def _normalize(
        self, word: Value, total: Value, factor: Value, factors: list[tuple[Value, ...]]
    ) -> Value:
        """Normalizes and quantizes four elements."""
        low = int(np.iinfo(self.quantization.output).min) - self.quantization.y_zero_point
        add = "fma.rn.f32 y, y, $3, $4" if len(self.factor_names) == 2 else "mul.rn.f32 y, y, $3"
        text = (
            f"{{ .reg .f32 y, q, r; cvt.rn.f32.s32 y, $1; mul.rn.f32 y, y, $2; {add}; "
            f"{_divide(self.quantization.y_scale)} cvt.rni.s32.f32 $0, y; }}"
        )
        saturates = self.quantization.output == np.uint8 and _is_usual(self.quantization.y_scale)
        elements = []
        for i, of_element in enumerate(factors):
            deviation = ((word >> 8 * i) & 0xFF) * self.count - total
            rounded = ir.ptx(text, 32, deviation, factor, *of_element)
            if not saturates:
                rounded = ir.clamp_signed(rounded, low, low + 255)
            elements.append(rounded + self.quantization.y_zero_point)
        return ir.pack_saturated(elements) if saturates else ir.pack_bytes(elements)

    def _factor_address(self, name: str, index: Value) -> Value:
        """The address of a word's four factors; lanes past the row read its last ones."""
        last = self.count // _WORD - 1
        index = index if self.is_whole else ir.minimum(index, last)
        return self.memory[name].address((index * 16).extend())


def _add_products(sum: Value, left: Value, right: Value) -> Value:
    """Adds the products of four unsigned bytes to a sum."""
    return ir.ptx("dp4a.u32.u32 $0, $1, $2, $3;", 32, left, right, sum)


def _is_usual(scale: float) -> bool:
    return _USUAL[0] < abs(scale) < _USUAL[1]


def _divide(scale: float) -> str:
    """PTX that divides y by a constant as IEEE does, where y is not so far that it is clamped.

    The first quotient is less than a unit of its last place off. Corrected by its remainder and the
    rounded reciprocal it is the IEEE one (Markstein). NaN stays.
    """
    if not _is_usual(scale):
        return f"div.rn.f32 y, y, {literal(scale)};"
    reciprocal, divisor = float(np.float32(1) / np.float32(scale)), float(np.float32(scale))
    rest = literal((1 - reciprocal * divisor) * reciprocal)  # the error is exact
    far = abs(scale) * _FAR
    return (
        f"max.NaN.f32 y, y, {literal(-far)}; min.NaN.f32 y, y, {literal(far)}; "
        f"mul.rn.f32 q, y, {rest}; fma.rn.f32 q, y, {literal(reciprocal)}, q; "
        f"fma.rn.f32 r, q, {literal(-scale)}, y; fma.rn.f32 y, r, {literal(reciprocal)}, q;"
    )
