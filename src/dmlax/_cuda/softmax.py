"""The kernel of a softmax of bytes: a thread sums the exponentials of one row, in order.

A block copies its rows to shared memory, where each thread replaces the bytes of its own.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import cp_async, ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Pointer, Value, constant
from dmlax._cuda.launch import ThreadBlock, launch

_BLOCK = ThreadBlock(1)
_TABLES = 2 * 256 * 4  # bytes
_AT_ONCE = 8  # elements whose loads are in flight together


class Quotients(NamedTuple):
    """The dtype of the bytes by its lowest value, and the zero point of the quotients."""

    lowest: int
    zero_point: int


def softmax(quotients: Quotients, x: Array, terms: Array, products: Array) -> Array:
    """The rounded quotients of products and the sums of terms along the last axis.

    Args:
      quotients: what is added to them, and to which range they are clamped.
      x: int8 or uint8.
      terms: float32, the exponential of each distance from a row's largest element, 255 first.
      products: float32, what is divided, likewise.
    """
    function = jax.custom_batching.custom_vmap(functools.partial(_softmax, quotients))

    @function.def_vmap
    def batched(size: int, mapped: list[bool], *operands: Array) -> tuple[Array, bool]:
        if any(mapped[1:]):
            axes = [0 if each else None for each in mapped]
            one_by_one = jax.custom_batching.sequential_vmap(functools.partial(_softmax, quotients))
            return jax.vmap(one_by_one, axes)(*operands), True
        return softmax(quotients, *operands), True

    found: Array = function(x, terms, products)
    return found


def _softmax(quotients: Quotients, x: Array, terms: Array, products: Array) -> Array:
    if x.size == 0:
        return x
    count = x.shape[-1]
    rows = x.size // count
    (found,) = launch(
        "dmlax_softmax",
        functools.partial(_body, quotients, rows, count),
        {"input": x.reshape(-1), "tables": jnp.concatenate([terms, products])},
        {"output": jax.ShapeDtypeStruct((x.size,), x.dtype)},
        blocks=-(-rows // _BLOCK.threads),
        warpgroups=_BLOCK.warpgroups,
        shared_words=(_TABLES + _BLOCK.threads * count + CHUNK) // 4,
    )
    return found.reshape(x.shape)


def _body(
    quotients: Quotients,
    rows: int,
    count: int,
    input: Pointer,
    tables: Pointer,
    output: Pointer,
    shared: Pointer,
) -> None:
    """Copies a block's rows, computes one in each thread, and stores them."""
    tables_at = ir.round_up(shared.shared_address(), CHUNK)
    rows_at = tables_at + _TABLES
    first_row = ir.block() * _BLOCK.threads
    start = first_row.extend() * count
    size = ir.minimum(constant(rows) - first_row, _BLOCK.threads) * count

    cp_async.copy(tables_at + ir.thread() * CHUNK, tables.address(ir.thread() * CHUNK), CHUNK)

    def copy(offset: Value) -> None:
        wanted = ir.minimum(size - offset, CHUNK)
        cp_async.copy(rows_at + offset, input.address(start + offset.extend()), CHUNK, wanted)

    _for_each_chunk(size, copy)
    cp_async.commit_group()
    cp_async.wait_group(0)
    ir.barrier()
    with ir.when(first_row + ir.thread() < rows):
        _Row(quotients, rows_at + ir.thread() * count, count, tables_at).compute()
    ir.barrier()

    def store(offset: Value) -> None:
        words = ir.load_shared(rows_at + offset, CHUNK // 4)
        whole = offset + CHUNK <= size
        with ir.when(whole):
            output.store(start + offset.extend(), *words)
        with ir.when(~whole):
            for i in range(CHUNK - 1):
                with ir.when(offset + i < size):
                    byte = words[i // 4] >> i % 4 * 8
                    output.store_byte(start + (offset + i).extend(), byte)

    _for_each_chunk(size, store)


def _for_each_chunk(size: Value, visit: Callable[[Value], None]) -> None:
    """Visits the offsets of a thread's chunks of so many bytes."""

    def step(offset: Value) -> Value:
        visit(offset)
        return offset + CHUNK * _BLOCK.threads

    ir.while_loop(ir.thread() * CHUNK, lambda offset: offset < size, step)


class _State(NamedTuple):
    """The loop over a row."""

    place: Value  # the address of an element
    total: Value


class _Row:
    """One row in shared memory: its bytes in the order of their values."""

    def __init__(self, quotients: Quotients, start: Value, count: int, tables: Value) -> None:
        self.quotients, self.start, self.count = quotients, start, count
        self.terms, self.products = tables, tables + _TABLES // 2

    def compute(self) -> None:
        """Replaces the elements by the quotients."""
        largest = self._fold(constant(0), self._larger)
        last = constant(255) - largest  # what is added to a byte is its distance's place
        terms, products = (at + (last << 2) for at in (self.terms, self.products))
        total = self._fold(constant(0), functools.partial(self._add_terms, terms))
        self._fold(total, functools.partial(self._divide, products))

    def _fold(self, start: Value, step: Callable[[Value, Value, int], Value]) -> Value:
        """Takes some elements at a time, from the first on; the step has their address."""
        whole = self.count // _AT_ONCE * _AT_ONCE
        state = ir.while_loop(
            _State(self.start, start),
            lambda state: state.place < self.start + whole,
            lambda state: _State(state.place + _AT_ONCE, step(state.place, state.total, _AT_ONCE)),
        )
        rest = self.count - whole
        return step(state.place, state.total, rest) if rest else state.total

    def _load(self, place: Value, count: int) -> list[Value]:
        """Loads elements as unsigned bytes of the same order."""
        loaded = [ir.load_shared_element(place + i, 8) for i in range(count)]
        return [byte ^ 128 for byte in loaded] if self.quotients.lowest else loaded

    def _entries(self, table: Value, place: Value, count: int) -> list[Value]:
        """Looks elements up in a table of words."""
        return [
            ir.load_shared_element(table + (byte << 2), 32) for byte in self._load(place, count)
        ]

    def _larger(self, place: Value, largest: Value, count: int) -> Value:
        return functools.reduce(ir.maximum, self._load(place, count), largest)

    def _add_terms(self, terms: Value, place: Value, total: Value, count: int) -> Value:
        entries = self._entries(terms, place, count)
        return functools.reduce(
            functools.partial(ir.ptx, "add.rn.f32 $0, $1, $2;", 32), entries, total
        )

    def _divide(self, products: Value, place: Value, total: Value, count: int) -> Value:
        """Writes the quotients of elements; the total stays."""
        lowest, zero_point = self.quotients
        low = lowest - zero_point
        for i, product in enumerate(self._entries(products, place, count)):
            text = "{ .reg .b32 q; div.rn.f32 q, $1, $2; cvt.rni.s32.f32 $0, q; }"
            rounded = ir.clamp_signed(ir.ptx(text, 32, product, total), low, low + 255)
            ir.store_shared_byte(place + i, rounded + zero_point)
        return total
