"""The kernel of a softmax of bytes: a thread sums the exponentials of one row, in order.

A warp copies 32 rows to shared memory, replaces their bytes there, and stores them, then goes on
with others. Every lane has the table of exponentials in another bank: no lookup waits for
another lane's.
"""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import jax
from jax import Array

from dmlax._cuda import capability, cp_async, ir, lane_table
from dmlax._cuda.batching import call_on_rows
from dmlax._cuda.capability import CHUNK, RESERVED
from dmlax._cuda.ir import Memory, Pointer, Value, constant
from dmlax._cuda.launch import ThreadBlock, launch
from dmlax._cuda.requantize import INTEGER_BITS, literal

ResultT = TypeVar("ResultT")  # the result of a loop over a row: a pytree of values
_LANES = 32
_SCALE = 2.0**-32  # scales sums and multipliers so that no product overflows


class Quotients(NamedTuple):
    """The lowest value of the bytes' dtype, and the numbers that make quotients of exponentials.

    Exponentials are multiplied by a float32 from 0 to below 2**38 and divided by their sum. The
    zero point is added to the rounded quotients.
    """

    lowest: int
    zero_point: int
    multiplier: float


@dataclass(frozen=True)
class Rows:
    """Rows side by side: so many elements, and bytes from one row to the next.

    They are either equal, or the bytes are the elements' whole chunks.
    """

    count: int
    size: int

    @property
    def whole_chunks(self) -> bool:
        """True if every row is aligned."""
        return self.size % CHUNK == 0

    @property
    def distance(self) -> int:
        """Bytes between rows in shared memory: chunks of eight lanes are in different banks."""
        return (self.size // CHUNK | 1) * CHUNK if self.whole_chunks else self.size

    @property
    def warp_bytes(self) -> int:
        """Bytes of shared memory of a warp's rows; some are read beyond the last one."""
        return _LANES * self.distance + 2 * CHUNK

    @property
    def block(self) -> "_Block":
        """The block of which the most threads run on a multiprocessor."""
        return max(map(self._block_of, (1, 2, 3, 4)), key=lambda block: block.running)

    def _block_of(self, warpgroups: int) -> "_Block":
        size = lane_table.BYTES + CHUNK + 4 * warpgroups * self.warp_bytes
        shared = capability.chosen().shared_bytes - RESERVED
        return _Block(warpgroups, size, shared // (size + RESERVED))


@dataclass(frozen=True)
class _Block(ThreadBlock):
    """A thread block, its bytes of shared memory, and how many run on a multiprocessor."""

    size: int
    blocks: int

    @property
    def running(self) -> int:
        """Warpgroups that run on a multiprocessor."""
        return min(self.warpgroups * self.blocks, 16)


def softmax(quotients: Quotients, count: int, x: Array, terms: Array) -> Array:
    """The rounded quotients of exponentials and their sums along the last axis.

    Args:
      quotients: what they are multiplied by, what is added to them, and their range.
      count: elements of a row. The last axis has as many, or their whole chunks; then zeros follow
        the quotients.
      x: int8 or uint8.
      terms: float32, the exponentials of all distances from a row's largest element, 255 first.
    """
    return call_on_rows(functools.partial(_softmax, quotients, count), x, terms)


def _softmax(quotients: Quotients, count: int, x: Array, terms: Array) -> Array:
    if x.size == 0:
        return x
    rows = Rows(count, x.shape[-1])
    groups, block = -(-x.size // rows.size // _LANES), rows.block
    running = block.blocks * capability.multiprocessors()
    blocks = min(-(-groups * _LANES // block.threads), running)
    (output,) = launch(
        "dmlax_softmax",
        functools.partial(_body, quotients, rows, x.size // rows.size, blocks * block.threads),
        {"input": x.reshape(-1), "terms": terms},
        {"output": jax.ShapeDtypeStruct((x.size,), x.dtype)},
        blocks=blocks,
        warpgroups=block.warpgroups,
        shared_words=block.size // 4,
    )
    return output.reshape(x.shape)


def _body(quotients: Quotients, rows: Rows, number: int, threads: int, memory: Memory) -> None:
    """Copies, computes and stores a warp's rows; a thread computes one at a time."""
    table = ir.round_up(memory["shared"].shared_address(), CHUNK)
    start = table + lane_table.BYTES + ir.warp() * rows.warp_bytes
    lane_table.write(rows.block, table, memory["terms"], 32)
    ir.barrier()

    def step(first_row: Value) -> Value:
        place = first_row.extend() * rows.size
        size = ir.minimum(constant(number) - first_row, _LANES) * rows.size
        ir.warp_barrier()  # the rows before are stored
        _visit_chunks(rows, size, functools.partial(_copy, memory["input"], place, start))
        cp_async.commit_group()
        cp_async.wait_group(0)
        ir.warp_barrier()
        row = start + ir.lane() * rows.distance
        Row(quotients, rows, row, lane_table.of_lane(table)).compute()
        ir.warp_barrier()
        _visit_chunks(rows, size, functools.partial(_store, memory["output"], place, start))
        return first_row + threads

    first = ir.block() * rows.block.threads + ir.warp() * _LANES
    ir.while_loop(first, lambda first_row: first_row < number, step)


def _visit_chunks(rows: Rows, size: Value, visit: Callable[[Value, Value, Value], None]) -> None:
    """Visits a lane's chunks of so many bytes: offsets in memory, bytes left, those in a warp's."""
    gap = rows.distance - rows.size

    def step(offset: Value) -> Value:
        visit(offset, size - offset, offset + offset // rows.size * gap if gap else offset)
        return offset + CHUNK * _LANES

    ir.while_loop(ir.lane() * CHUNK, lambda offset: offset < size, step)


def _copy(
    input: Pointer, place: Value, start: Value, offset: Value, left: Value, shared_offset: Value
) -> None:
    source = input.address(place + offset.extend())
    cp_async.copy(start + shared_offset, source, CHUNK, ir.minimum(left, CHUNK))


def _store(
    output: Pointer, place: Value, start: Value, offset: Value, left: Value, shared_offset: Value
) -> None:
    words, to = ir.load_shared(start + shared_offset, CHUNK // 4), place + offset.extend()
    whole = left >= CHUNK
    with ir.when(whole):
        output.store(to, *words)
    with ir.when(~whole):
        for i in range(CHUNK - 1):
            with ir.when(left > i):
                output.store_byte(to + i, words[i // 4] >> i % 4 * 8)


class _State(NamedTuple, Generic[ResultT]):
    """The loop over a row."""

    place: Value  # the address of a chunk
    result: ResultT  # the result of the chunks before


class _Divisor(NamedTuple):
    """A row's sum of exponentials, scaled: it divides exponentials times the multiplier."""

    negative: Value  # the sum as a float32, negative
    reciprocal: Value
    below: Value  # the multiplier over the sum, 2**-21 of itself too small
    above: Value  # 2**-21 too large

    @classmethod
    def of(cls, total: Value, multiplier: float) -> "_Divisor":
        total = ir.ptx(f"mul.rn.f32 $0, $1, {literal(_SCALE)};", 32, total)
        reciprocal = ir.ptx("rcp.rn.f32 $0, $1;", 32, total)
        factors = (
            ir.ptx(
                f"{{ .reg .b32 f; mul.rn.f32 f, $1, {literal(multiplier * _SCALE)}; "
                f"mul.rn.f32 $0, f, {literal(margin)}; }}",
                *(32, reciprocal),
            )
            for margin in (1 - 2**-21, 1 + 2**-21)
        )
        return cls(total ^ (1 << 31), reciprocal, *factors)

    def bounds(self, term: Value) -> list[Value]:
        """Two integers: the rounded quotient is neither below the first nor above the second.

        Four roundings, of 2**-24, are less than the margin of the factors.
        """
        text = (
            f"mul.rn.f32 $0, $2, $3; mul.rn.f32 $0, $0, {INTEGER_BITS}; "
            f"mul.rn.f32 $1, $2, $4; mul.rn.f32 $1, $1, {INTEGER_BITS};"
        )
        return ir.ptx_values(text, [32, 32], (term, self.below, self.above))

    def divide(self, term: Value, multiplier: float) -> Value:
        """The integer next to the real quotient of term * multiplier, ties to even.

        The product is p + l, exactly. The first quotient is three units of its last place off at
        most; corrected by its remainder, it is the float32 next to the real one. Where that is a
        tie, its remainder r is exact and says on which side the real quotient is. The quotient
        goes there, to a float32 with an odd mantissa, which no tie has.
        """
        text = (
            "{ .reg .b32 p, n, l, q, r, t; "
            f"mul.rn.f32 p, $1, {literal(multiplier * _SCALE)}; neg.f32 n, p; "
            f"fma.rn.f32 l, $1, {literal(multiplier * _SCALE)}, n; mul.rn.f32 q, p, $3; "
            "fma.rn.f32 r, q, $2, p; add.rn.f32 r, r, l; fma.rn.f32 q, r, $3, q; "
            "fma.rn.f32 r, q, $2, p; add.rn.f32 r, r, l; "
            "shr.s32 t, r, 31; add.s32 q, q, t; min.u32 r, r, 1; or.b32 q, q, r; "
            f"mul.rn.f32 $0, q, {INTEGER_BITS}; }}"
        )
        return ir.ptx(text, 32, term, self.negative, self.reciprocal)


class Row:
    """One row in shared memory: its bytes in the order of their values, a chunk at a time."""

    def __init__(self, quotients: Quotients, rows: Rows, start: Value, table: Value) -> None:
        self.quotients, self.rows, self.start, self.table = quotients, rows, start, table

    def compute(self) -> None:
        """Replaces the elements by the quotients."""
        zero = constant(0)
        high, low = self._fold([zero, zero], self._larger)
        halves = ir.maximum_of_halves(high, low, signed=False)
        largest = ir.maximum(halves >> 24, (halves >> 8) & 0xFF)
        # What is added to a byte is its distance's place.
        self.table = self.table + (constant(255) - largest) * lane_table.ENTRY
        total = self._fold(zero, self._add_terms)
        divisor = _Divisor.of(total, self.quotients.multiplier)
        nothing: list[Value] = []
        self._fold(nothing, functools.partial(self._divide, divisor))

    def _fold(self, first: ResultT, step: Callable[[Value, ResultT, int], ResultT]) -> ResultT:
        """Takes a chunk at a time, from the first on; the step has its address and elements."""
        whole = self.rows.count // CHUNK * CHUNK
        state = ir.while_loop(
            _State(self.start, first),
            lambda state: state.place < self.start + whole,
            lambda state: _State(state.place + CHUNK, step(state.place, state.result, CHUNK)),
        )
        rest = self.rows.count - whole
        return step(state.place, state.result, rest) if rest else state.result

    def _load(self, place: Value, count: int) -> list[Value]:
        """Loads words of elements as unsigned bytes of the same order, zeros after the last."""
        number = -(-count // 4)
        if self.rows.whole_chunks:
            words = ir.load_shared(place, 4)[:number]
        else:
            start = place & ~3
            parts = [ir.load_shared(start + 4 * i, 1)[0] for i in range(number + 1)]
            text, shift = "shf.r.wrap.b32 $0, $1, $2, $3;", (place & 3) << 3
            words = [ir.ptx(text, 32, *parts[i : i + 2], shift) for i in range(number)]
        if self.quotients.lowest:
            words = [word ^ 0x80808080 for word in words]
        if count % 4:
            words[-1] = words[-1] & ((1 << count % 4 * 8) - 1)
        return words

    def _larger(self, place: Value, largest: list[Value], count: int) -> list[Value]:
        """The largest bytes as the high ones of halves: of every second byte, and of the others."""
        for word in self._load(place, count):
            pair = word, word << 8
            largest = [
                ir.maximum_of_halves(x, y, signed=False) for x, y in zip(largest, pair, strict=True)
            ]
        return largest

    def _terms(self, place: Value, count: int) -> list[Value]:
        """The exponentials of elements."""
        words = self._load(place, count)
        terms: list[Value] = []
        for i, word in enumerate(words):
            terms += lane_table.entries_of(self.table, word, min(4, count - 4 * i), 32)
        return terms

    def _add_terms(self, place: Value, total: Value, count: int) -> Value:
        add = functools.partial(ir.ptx, "add.rn.f32 $0, $1, $2;", 32)
        return functools.reduce(add, self._terms(place, count), total)

    def _divide(
        self, divisor: _Divisor, place: Value, nothing: list[Value], count: int
    ) -> list[Value]:
        """Writes the quotients of elements: by their bounds, or exactly if one is a near tie."""
        terms = self._terms(place, count)
        bounds = [divisor.bounds(term) for term in terms]
        differ = functools.reduce(operator.or_, [low ^ high for low, high in bounds])
        has_near_tie = differ != 0
        with ir.when(~has_near_tie):
            self._write(place, [low for low, _ in bounds], count)
        with ir.when(has_near_tie):
            multiplier = self.quotients.multiplier
            self._write(place, [divisor.divide(term, multiplier) for term in terms], count)
        return nothing

    def _write(self, place: Value, quotients: list[Value], count: int) -> None:
        """Writes rounded quotients, and zeros after the last one of aligned rows."""
        lowest, zero_point, _ = self.quotients
        if zero_point != lowest:  # else what packs them saturates them
            highest = 255 + lowest - zero_point
            quotients = [ir.ptx(f"min.s32 $0, $1, {highest};", 32, x) for x in quotients]
        quotients += [constant(0)] * (-count % 4)
        words = [ir.pack_saturated(quotients[i : i + 4]) for i in range(0, len(quotients), 4)]
        # No byte carries: the zero point less the lowest value, and that value's bit.
        words = [
            (word + (zero_point - lowest) * 0x01010101) ^ (-lowest * 0x01010101) for word in words
        ]
        self._store(place, words, count)

    def _store(self, place: Value, words: list[Value], count: int) -> None:
        if not self.rows.whole_chunks:
            for i in range(count):
                ir.store_shared_byte(place + i, words[i // 4] >> i % 4 * 8)
            return
        if count % 4:
            words[-1] = words[-1] & ((1 << count % 4 * 8) - 1)
        ir.store_shared(place, *words, *[constant(0)] * (CHUNK // 4 - len(words)))
