"""The kernel of a layer normalization of bytes: a warp computes a row, whose sums are integers.

A row of n bytes x has the sums s of x and q of x * x. Its deviations from the mean are
(n * x - s) / n, and its variance is (n * q - s * s) / n**2: neither needs the zero point.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._cuda import ir
from dmlax._cuda.ir import Pointer, Value, constant
from dmlax._cuda.launch import ThreadBlock, call_on_rows, launch

_BLOCK = ThreadBlock(1)
_ROWS = _BLOCK.threads // 32  # of a block
_WORD = 4  # bytes that a lane takes at once


class Quantization(NamedTuple):
    """The scales before and after, the zero point after, and what is added to a variance."""

    x_scale: float
    y_scale: float
    y_zero_point: int
    epsilon: float


def normalize(quantization: Quantization, output: np.dtype, x: Array, *factors: Array) -> Array:
    """The rows of the last axis, normalized, multiplied, added to and quantized.

    Args:
      quantization: parameters of one value.
      output: int8 or uint8.
      x: int8 or uint8; a row is whole words.
      factors: float32, one of each element of a row: what multiplies, and what is added if any.
    """
    return call_on_rows(functools.partial(_normalize, quantization, output), x, *factors)


def _normalize(quantization: Quantization, output: np.dtype, x: Array, *factors: Array) -> Array:
    if x.size == 0:
        return jnp.zeros(x.shape, output)
    count = x.shape[-1]
    rows = x.size // count
    body = functools.partial(_body, quantization, _Types(x.dtype, output), rows, count)
    (found,) = launch(
        "dmlax_layer_normalization",
        body,
        {"input": x.reshape(-1)} | dict(zip(("scale", "bias"), factors, strict=False)),
        {"output": jax.ShapeDtypeStruct((x.size,), output)},
        blocks=-(-rows // _ROWS),
        warpgroups=_BLOCK.warpgroups,
        shared_words=_WORD,
    )
    return found.reshape(x.shape)


class _Types(NamedTuple):
    input: np.dtype
    output: np.dtype


def _body(
    quantization: Quantization,
    types: _Types,
    rows: int,
    count: int,
    shared: Pointer,
    **memory: Pointer,
) -> None:
    """Normalizes a row in each warp."""
    row = ir.block() * _ROWS + ir.warp()
    with ir.when(row < rows):
        _Row(quantization, types, count, memory, row.extend() * count).compute()


class _Row:
    """One row: a lane has each 32nd of its words."""

    def __init__(
        self,
        quantization: Quantization,
        types: _Types,
        count: int,
        memory: Mapping[str, Pointer],
        start: Value,
    ) -> None:
        self.quantization, self.types, self.count = quantization, types, count
        self.memory, self.start = memory, start
        words = count // _WORD
        self.words = [ir.lane() + first for first in range(0, words, 32)]
        self.is_whole = words % 32 == 0  # else the last words are of some lanes alone

    def compute(self) -> None:
        """Loads, sums, and stores the words."""
        words = [self._load(index) for index in self.words]
        total, squares = constant(0), constant(0)
        for word in words:
            total = _add_products(total, word, constant(0x01010101))
            squares = _add_products(squares, word, word)
        total, squares = ir.warp_sum(total), ir.warp_sum(squares)
        factor = self._factor(total, squares)
        for index, word in zip(self.words, words, strict=True):
            self._store(index, word, total, factor)

    def _is_there(self, index: Value) -> Value:
        return index < self.count // _WORD

    def _load(self, index: Value) -> Value:
        """A word of unsigned bytes of the input's order; 0 where the row has ended."""
        address = self.memory["input"].address(self.start + (index * _WORD).extend())
        flip = 0x80808080 if np.iinfo(self.types.input).min else 0
        if self.is_whole:
            word = ir.load_read_only(address)
        else:
            word = ir.load_read_only_where(self._is_there(index), address, constant(flip))
        return word ^ flip if flip else word

    def _factor(self, total: Value, squares: Value) -> Value:
        """The factor of the elements times n, less their sum."""
        step = self.quantization.x_scale / self.count
        text = (
            "{ .reg .b64 q, s; .reg .f32 v; "
            f"mul.wide.u32 q, $2, {self.count}; mul.wide.u32 s, $1, $1; sub.u64 q, q, s; "
            "cvt.rn.f32.u64 v, q; "
            f"fma.rn.f32 v, v, {_literal(step * step)}, {_literal(self.quantization.epsilon)}; "
            f"sqrt.rn.f32 v, v; div.rn.f32 $0, {_literal(step)}, v; }}"
        )
        return ir.ptx(text, 32, total, squares)

    def _store(self, index: Value, word: Value, total: Value, factor: Value) -> None:
        """Normalizes and quantizes four elements."""
        factors = [
            ir.load_read_only_bytes(self._factor_address(name, index), 16)
            for name in ("scale", "bias")
            if name in self.memory
        ]
        low = int(np.iinfo(self.types.output).min) - self.quantization.y_zero_point
        add = "fma.rn.f32 y, y, $3, $4" if len(factors) == 2 else "mul.rn.f32 y, y, $3"
        text = (
            f"{{ .reg .f32 y; cvt.rn.f32.s32 y, $1; mul.rn.f32 y, y, $2; {add}; "
            f"div.rn.f32 y, y, {_literal(self.quantization.y_scale)}; cvt.rni.s32.f32 $0, y; }}"
        )
        elements = []
        for i, own in enumerate(zip(*factors, strict=True)):
            deviation = ((word >> 8 * i) & 0xFF) * self.count - total
            rounded = ir.clamp_signed(ir.ptx(text, 32, deviation, factor, *own), low, low + 255)
            elements.append(rounded + self.quantization.y_zero_point)
        offset = self.start + (index * _WORD).extend()
        packed = ir.pack_bytes(elements)
        if self.is_whole:
            self.memory["output"].store(offset, packed)
        else:
            self.memory["output"].store_where(self._is_there(index), offset, packed)

    def _factor_address(self, name: str, index: Value) -> Value:
        """The address of a word's four factors; lanes past the row read its last ones."""
        last = self.count // _WORD - 1
        index = index if self.is_whole else ir.minimum(index, last)
        return self.memory[name].address((index * 16).extend())


def _add_products(sum: Value, left: Value, right: Value) -> Value:
    """Adds the products of four unsigned bytes to a sum."""
    return ir.ptx("dp4a.u32.u32 $0, $1, $2, $3;", 32, left, right, sum)


def _literal(value: float) -> str:
    """A float32 as PTX writes its bits."""
    return f"0f{np.float32(value).view(np.uint32):08X}"
