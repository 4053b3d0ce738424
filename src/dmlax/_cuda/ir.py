"""MLIR wrappers for one thread of a CUDA kernel: integers, memory, votes, branches and loops.

Pallas launches a kernel; these functions write its threads' program, inside `inline_mgpu`.
Import this only where a CUDA kernel is lowered: it needs Pallas.
"""

import contextvars
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeVar

import jax
from jax.experimental.mosaic.gpu import utils
from jax.tree_util import PyTreeDef
from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import arith, gpu, llvm, math, nvvm, scf

from dmlax._cuda import capability

State = TypeVar("State")  # a pytree of values
_ALL = 0xFFFFFFFF


def _operation(
    operation: Callable[[mlir.Value, mlir.Value], mlir.Value],
) -> "Callable[[Value, Value | int], Value]":
    """A function of two values of the same width; an integer becomes a constant."""

    def apply(x: "Value", y: "Value | int") -> "Value":
        y = y if isinstance(y, Value) else constant(y, x.bits)
        return Value(operation(x.raw, y.raw))

    return apply


def _comparison(predicate: arith.CmpIPredicate) -> "Callable[[Value, Value | int], Value]":
    return _operation(functools.partial(arith.cmpi, predicate))


class Value:
    """An integer of 1, 32 or 64 bits in a thread's register; comparisons are unsigned."""

    __slots__ = ("raw",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, raw: mlir.Value) -> None:
        self.raw = raw

    @property
    def bits(self) -> int:
        """Bits of the integer."""
        return int(mlir.IntegerType(self.raw.type).width)

    def extend(self) -> "Value":
        """Zero-extended to 64 bits."""
        return Value(arith.extui(_integer(64), self.raw)) if self.bits < 64 else self

    def to_word(self) -> "Value":
        """Truncated, or zero-extended, to 32 bits."""
        if self.bits == 32:
            return self
        change = arith.trunci if self.bits > 32 else arith.extui
        return Value(change(_integer(32), self.raw))

    __add__ = _operation(arith.addi)
    __sub__ = _operation(arith.subi)
    __mul__ = _operation(arith.muli)
    __and__ = _operation(arith.andi)
    __or__ = _operation(arith.ori)
    __xor__ = _operation(arith.xori)
    __lshift__ = _operation(arith.shli)
    __rshift__ = _operation(arith.shrui)
    # The compiler multiplies instead of dividing by a constant.
    __floordiv__ = _operation(arith.divui)

    def __divmod__(self, divisor: int) -> "tuple[Value, Value]":
        quotient = self // divisor
        return quotient, self - quotient * divisor

    __lt__ = _comparison(arith.CmpIPredicate.ult)
    __le__ = _comparison(arith.CmpIPredicate.ule)
    __gt__ = _comparison(arith.CmpIPredicate.ugt)
    __ge__ = _comparison(arith.CmpIPredicate.uge)
    __eq__ = _comparison(arith.CmpIPredicate.eq)  # type: ignore[assignment]
    __ne__ = _comparison(arith.CmpIPredicate.ne)  # type: ignore[assignment]
    less_signed = _comparison(arith.CmpIPredicate.slt)

    def __invert__(self) -> "Value":
        return self ^ ((1 << self.bits) - 1)

    def popcount(self) -> "Value":
        """Count of the bits that are set."""
        return Value(math.ctpop(self.raw))

    def trailing_zeros(self) -> "Value":
        """The index of the lowest set bit."""
        return Value(math.cttz(self.raw))

    def leading_zeros(self) -> "Value":
        """Count of the zeros above the highest set bit."""
        return Value(math.ctlz(self.raw))

    def extend_signed(self) -> "Value":
        """Sign-extended to 64 bits."""
        return Value(arith.extsi(_integer(64), self.raw))


IntOrValue = TypeVar("IntOrValue", int, Value)


def _integer(bits: int) -> mlir.Type:
    return mlir.IntegerType.get_signless(bits)


class _Kernel:
    """The kernel that is written; constants and thread numbers are made once, where it begins."""

    def __init__(self) -> None:
        self._start = mlir.InsertionPoint.current.block
        self._constants: dict[tuple[int, int], Value] = {}

    @functools.cached_property
    def thread(self) -> Value:
        """The thread's index in its block."""
        with mlir.InsertionPoint.at_block_begin(self._start):
            return Value(utils.thread_idx())

    def constant(self, value: int, bits: int) -> Value:
        """A constant integer."""
        key = value & ((1 << bits) - 1), bits
        if key not in self._constants:
            with mlir.InsertionPoint.at_block_begin(self._start):
                self._constants[key] = _constant(*key)
        return self._constants[key]


_kernel = contextvars.ContextVar[_Kernel | None]("dmlax_kernel", default=None)


@contextmanager
def kernel(name: str) -> Iterator[None]:
    """Writes a kernel, where the current block begins.

    Its module has the name: Pallas would count the kernels of a process in it, and XLA compile
    equal ones again.
    """
    token = _kernel.set(_Kernel())
    module = mlir.InsertionPoint.current.block.owner
    while module.name != "builtin.module":
        module = module.parent
    module.attributes["mosaic_gpu.dump_basename"] = mlir.StringAttr.get(name)
    try:
        yield
    finally:
        _kernel.reset(token)


def constant(value: int, bits: int = 32) -> Value:
    """A constant integer."""
    written = _kernel.get()
    return _constant(value, bits) if written is None else written.constant(value, bits)


def _constant(value: int, bits: int) -> Value:
    value &= (1 << bits) - 1
    value -= (value >> (bits - 1)) << bits if bits > 1 else 0
    return Value(arith.constant(_integer(bits), mlir.IntegerAttr.get(_integer(bits), value)))


def select(condition: Value, yes: Value, no: Value | int) -> Value:
    """Selects `yes` where the condition holds, else `no`."""
    no = no if isinstance(no, Value) else constant(no, yes.bits)
    return Value(arith.select(condition.raw, yes.raw, no.raw))


minimum = _operation(arith.minui)
"""The smaller of two values, unsigned."""
maximum = _operation(arith.maxui)
"""The larger of two values, unsigned."""


def round_up(x: Value, multiple: int) -> Value:
    """The next multiple of a power of two."""
    return (x + (multiple - 1)) & ~(multiple - 1)


# ---------------------------------------------------------------------------------------
# Threads


def thread() -> Value:
    """The thread's index in its block."""
    written = _kernel.get()
    return Value(utils.thread_idx()) if written is None else written.thread


def lane() -> Value:
    """The thread's index in its warp."""
    return thread() & 31


def warp() -> Value:
    """The warp's index in its block."""
    return thread() >> 5


def warpgroup() -> Value:
    """The warpgroup's index in its block."""
    return thread() >> 7


def block() -> Value:
    """The block's index in the grid."""
    return Value(utils.block_idx())


def barrier() -> None:
    """Waits for all threads of the block, and their writes to shared memory."""
    gpu.barrier()


def fence() -> None:
    """Orders this thread's writes before what it reads or copies afterwards."""
    ptx_effect("fence.acq_rel.cta;")


def warp_barrier() -> None:
    """Waits for all lanes of the warp, and their writes to shared memory."""
    ptx_effect("bar.warp.sync 0xffffffff;")


def ballot(condition: Value) -> Value:
    """A word whose bit i is the condition in lane i."""
    kind = nvvm.VoteSyncKind.ballot
    return Value(nvvm.vote_sync(constant(_ALL).raw, condition.raw, kind))


def warp_sum(x: Value) -> Value:
    """The sum over the warp's lanes, in every lane."""
    return Value(nvvm.redux_sync(x.raw, nvvm.ReductionKind.ADD, constant(_ALL).raw))


def broadcast_lane(x: Value, index: Value | int) -> Value:
    """One lane's value, in every lane."""
    return _shuffle(x, index, 31, nvvm.ShflKind.idx)


def exclusive_warp_sum(x: Value) -> Value:
    """The sum over the lanes below this one."""
    total, here = x, lane()
    for distance in (1, 2, 4, 8, 16):
        moved = _shuffle(total, distance, 0, nvvm.ShflKind.up)
        total = select(here < distance, total, total + moved)
    return total - x


def _shuffle(x: Value, offset: Value | int, clamp: int, kind: nvvm.ShflKind) -> Value:
    offset = offset if isinstance(offset, Value) else constant(offset)
    mask = constant(_ALL).raw
    return Value(nvvm.shfl_sync(mask, x.raw, offset.raw, constant(clamp).raw, kind))


# ---------------------------------------------------------------------------------------
# Memory


class Pointer:
    """The address of an array in global or shared memory; offsets are in bytes."""

    def __init__(self, ref: mlir.Value) -> None:
        pointer = utils.memref_ptr(ref)
        kind = llvm.PointerType.get(3 if utils.is_smem_ref(ref) else 1)
        self._start = pointer if pointer.type == kind else llvm.addrspacecast(kind, pointer)
        self.size = prod(mlir.MemRefType(ref.type).shape)  # elements

    def address(self, offset: Value | int = 0) -> Value:
        """The 64-bit address at an offset."""
        return Value(llvm.ptrtoint(_integer(64), self.at(offset)))

    def address_signed(self, offset: Value) -> Value:
        """The 64-bit address at an offset that may be below zero."""
        return self.address(offset.extend_signed() if offset.bits == 32 else offset)

    def shared_address(self) -> Value:
        """The 32-bit address within shared memory."""
        return Value(llvm.ptrtoint(_integer(32), self._start))

    def at(self, offset: Value | int) -> mlir.Value:
        """The MLIR pointer at an offset."""
        offset = offset if isinstance(offset, Value) else constant(offset, 64)
        return utils.getelementptr(self._start, [offset.extend().raw], _integer(8))

    def load(self, offset: Value | int, bits: int = 32) -> Value:
        """Loads an integer; narrow ones are extended to 32 bits."""
        value = Value(llvm.load(_integer(bits), self.at(offset)))
        return value.to_word() if bits < 32 else value

    def store(self, offset: Value | int, *values: Value) -> None:
        """Stores one, two or four words side by side, aligned to all their bytes."""
        if len(values) == 1:
            llvm.store(values[0].raw, self.at(offset))
            return
        kind = mlir.VectorType.get((len(values),), values[0].raw.type)
        vector = llvm.mlir_undef(kind)
        for index, value in enumerate(values):
            vector = llvm.insertelement(vector, value.raw, constant(index).raw)
        llvm.store(vector, self.at(offset), alignment=len(values) * values[0].bits // 8)

    def store_where(self, condition: Value, offset: Value | int, *words: Value) -> None:
        """Stores one, two or four words where the condition holds, without a branch."""
        kind, words_at = _words(len(words), 2)
        text = f"@$1 st.global.{kind} [$0], {words_at};"
        ptx_effect(text, self.address(offset), condition, *words)

    def store_byte(self, offset: Value | int, word: Value) -> None:
        """Stores the word's lowest byte."""
        llvm.store(arith.trunci(_integer(8), word.raw), self.at(offset))

    def atomic_add(self, offset: Value | int, value: Value | int) -> Value:
        """Adds to a word that all blocks share; gives its value before."""
        value = value if isinstance(value, Value) else constant(value)
        text = "atom.relaxed.gpu.global.add.u32 $0, [$1], $2;"
        return ptx(text, 32, self.address(offset), value, effects=True)

    def load_relaxed(self, offset: Value | int) -> Value:
        """Loads 64 bits, atomically, that another block may be storing."""
        text = "ld.relaxed.gpu.global.u64 $0, [$1];"
        return ptx(text, 64, self.address(offset), effects=True)

    def store_relaxed(self, offset: Value | int, value: Value) -> None:
        """Stores 64 bits, atomically, that other blocks may be loading."""
        ptx_effect("st.relaxed.gpu.global.u64 [$0], $1;", self.address(offset), value)


Memory = Mapping[str, Pointer]
"""A kernel's operands, its outputs and its `shared` memory, by name."""


def load_read_only(address: Value) -> Value:
    """Loads a word of global memory that nothing writes while the kernel runs."""
    return ptx("ld.global.nc.b32 $0, [$1];", 32, address)


def load_read_only_where(condition: Value, address: Value, otherwise: Value) -> Value:
    """Loads a read-only word where the condition holds, else gives `otherwise`."""
    text = "mov.b32 $0, $3; @$2 ld.global.nc.b32 $0, [$1];"
    return ptx(text, 32, address, condition, otherwise)


def load_read_only_bytes(address: Value, count: int) -> list[Value]:
    """Loads so many aligned bytes, now: whole words of them, or one of fewer than four."""
    if count < 4:
        return [ptx(f"ld.global.nc.{'u8' if count == 1 else 'u16'} $0, [$1];", 32, address)]
    kind, into = _words(count // 4, 0)
    text = f"ld.global.nc.{kind} {into}, [${count // 4}];"
    return ptx_values(text, [32] * (count // 4), [address], effects=True)


def join_bytes(parts: Sequence[Value], size: int) -> list[Value]:
    """Joins parts of one or two bytes to words, the first lowest."""
    per_word = 4 // size
    words = (parts[i : i + per_word] for i in range(0, len(parts), per_word))
    return [
        functools.reduce(operator.or_, (part << 8 * size * i for i, part in enumerate(word)))
        for word in words
    ]


def load_shared(address: Value, words: int) -> list[Value]:
    """Loads one, two or four words side by side from shared memory."""
    kind, into = _words(words, 0)
    text = f"ld.shared.{kind} {into}, [${words}];"
    return ptx_values(text, [32] * words, [address], effects=True)


def load_shared_element(address: Value, bits: int) -> Value:
    """Loads an integer from shared memory; narrow ones are extended to 32 bits."""
    kind = f"b{bits}" if bits >= 32 else f"u{bits}"
    return ptx(f"ld.shared.{kind} $0, [$1];", max(bits, 32), address, effects=True)


def _words(count: int, first: int) -> tuple[str, str]:
    """PTX's type of an access to so many words, and their registers from the `first` on."""
    if count == 1:
        return "b32", f"${first}"
    registers = ", ".join(f"${i}" for i in range(first, first + count))
    return f"v{count}.b32", f"{{{registers}}}"


def store_shared(address: Value, *words: Value) -> None:
    """Stores one, two or four words side by side to shared memory."""
    kind, words_at = _words(len(words), 1)
    ptx_effect(f"st.shared.{kind} [$0], {words_at};", address, *words)


def store_shared_byte(address: Value, word: Value) -> None:
    """Stores a word's lowest byte to shared memory."""
    ptx_effect("st.shared.u8 [$0], $1;", address, word)


def pack_bytes(words: Sequence[Value]) -> Value:
    """Packs the lowest bytes of four words into one, the first lowest."""
    text = (
        "{ .reg .b32 t, u; prmt.b32 t, $1, $2, 0x0040; prmt.b32 u, $3, $4, 0x0040; "
        "prmt.b32 $0, t, u, 0x5410; }"
    )
    return ptx(text, 32, *words)


def pack_saturated(words: Sequence[Value], *, signed: bool = False) -> Value:
    """A word of four signed words that are clamped to bytes."""
    text = f"cvt.pack.sat.{'s' if signed else 'u'}8.s32.b32 $0, $1, $2, $3;"
    high = ptx(text, 32, words[3], words[2], constant(0))
    return ptx(text, 32, words[1], words[0], high)


def permute_bytes(low: Value, high: Value, order: int) -> Value:
    """A word of four of the eight bytes of two; the hexadecimal digits of `order` name them."""
    return ptx(f"prmt.b32 $0, $1, $2, 0x{order:04X};", 32, low, high)


def maximum_of_halves(x: Value, y: Value, *, signed: bool) -> Value:
    """The larger 16-bit halves of two words; an older GPU does it in several instructions."""
    kind = "s" if signed else "u"
    if capability.chosen().version >= (9, 0):
        return ptx(f"max.{kind}16x2 $0, $1, $2;", 32, x, y)
    return ptx(f"vmax2.{kind}32.{kind}32.{kind}32 $0, $1, $2, $3;", 32, x, y, constant(0))


def clamp_signed(x: Value, low: int, high: int) -> Value:
    """The nearest integer within bounds, all signed."""
    text = f"{{ .reg .s32 x; max.s32 x, $1, {low}; min.s32 $0, x, {high}; }}"
    return ptx(text, 32, x)


def transpose_bytes(words: Sequence[Value]) -> list[Value]:
    """Transposes four words of four bytes: a word of their first bytes, of their second, ..."""
    text = (
        "{ .reg .b32 a, b, c, d; prmt.b32 a, $4, $5, 0x5140; prmt.b32 b, $6, $7, 0x5140; "
        "prmt.b32 c, $4, $5, 0x7362; prmt.b32 d, $6, $7, 0x7362; "
        "prmt.b32 $0, a, b, 0x5410; prmt.b32 $1, a, b, 0x7632; "
        "prmt.b32 $2, c, d, 0x5410; prmt.b32 $3, c, d, 0x7632; }"
    )
    return ptx_values(text, [32] * 4, words)


def multiply_add_wide(x: Value, y: Value, low: Value, high: Value) -> tuple[Value, Value]:
    """The low and the high word of x * y, both signed, and of an integer of 64 bits added to it.

    The compiler makes one instruction of these two, but three of `mad.wide`.
    """
    text = "mad.lo.cc.s32 $0, $2, $3, $4; madc.hi.s32 $1, $2, $3, $5;"
    first, second = ptx_values(text, [32, 32], [x, y, low, high])
    return first, second


def dot_bytes(sum: Value, left: Value, right: Value, *, unsigned: bool) -> Value:
    """Adds the products of four bytes to a sum; right is int8, left uint8 or int8."""
    kind = "u32" if unsigned else "s32"
    return ptx(f"dp4a.{kind}.s32 $0, $1, $2, $3;", 32, left, right, sum)


def sum_bytes(words: Iterable[Value]) -> Value:
    """The sum of the int8 bytes of words."""
    total, ones = constant(0), constant(0x01010101)
    for word in words:
        total = dot_bytes(total, word, ones, unsigned=False)
    return total


def ptx(text: str, bits: int, *arguments: Value, effects: bool = False) -> Value:
    """PTX with one result, $0; $1 is the first argument."""
    return ptx_values(text, [bits], arguments, effects=effects)[0]


def hide(value: Value) -> Value:
    """The value, of which the compiler then knows nothing."""
    return ptx("mov.b32 $0, $1;", 32, value, effects=True)


def ptx_effect(text: str, *arguments: Value) -> None:
    """PTX without a result; $0 is the first argument."""
    _inline(text, mlir.Type.parse("!llvm.void"), "", arguments, effects=True)


def ptx_values(
    text: str,
    results: Sequence[int],
    arguments: Sequence[Value],
    *,
    changed: Sequence[Value] = (),
    effects: bool = False,
) -> list[Value]:
    """PTX with results of these widths, $0 and on, then `changed`, then the arguments.

    The first results hold `changed` when the instructions begin; PTX counts these twice.
    """
    kinds = [_integer(bits) for bits in results]
    early = "" if changed else "&"  # a result may be written before the last argument is read
    outputs = ",".join(f"={early}{_register(bits)}" for bits in results)
    ties = ",".join(str(index) for index in range(len(changed)))
    kind = kinds[0] if len(kinds) == 1 else llvm.StructType.get_literal(kinds)
    made = _inline(text, kind, ",".join(filter(None, (outputs, ties))), arguments, effects, changed)
    if len(kinds) == 1:
        return [Value(made)]
    return [Value(llvm.extractvalue(kind, made, [i])) for i, kind in enumerate(kinds)]


def _inline(
    text: str,
    kind: mlir.Type,
    constraints: str,
    arguments: Sequence[Value],
    effects: bool,
    changed: Sequence[Value] = (),
) -> mlir.Value:
    inputs = ",".join(_register(argument.bits) for argument in arguments)
    return llvm.inline_asm(
        kind,
        [value.raw for value in (*changed, *arguments)],
        text,
        ",".join(filter(None, (constraints, inputs))),
        asm_dialect=0,
        has_side_effects=effects,
    )


def _register(bits: int) -> str:
    return {1: "b", 32: "r", 64: "l"}[bits]


# ---------------------------------------------------------------------------------------
# Branches and loops


@contextmanager
def when(condition: Value) -> Iterator[None]:
    """Runs what follows only in the threads where the condition holds."""
    with utils.when(condition.raw):
        yield


def cond(
    condition: Value, yes: Callable[[], State], no: Callable[[], State], widths: object
) -> State:
    """Gives `yes()` where the condition holds, else `no()`: pytrees of values of these widths."""
    bits, structure = jax.tree.flatten(widths)
    branch = scf.IfOp(condition.raw, list(map(_integer, bits)), has_else=True)
    for block, side in ((branch.then_block, yes), (branch.else_block, no)):
        with mlir.InsertionPoint(block):
            scf.yield_(_flatten(side(), structure))
    result: State = _unflatten(structure, branch.results)
    return result


def widths(state: object) -> Any:
    """A pytree of the bits of a state's values."""
    return jax.tree.map(lambda value: value.bits, state)


def while_loop(
    start: State, condition: Callable[[State], Value], body: Callable[[State], State]
) -> State:
    """Repeats `body` while the condition holds; the state is a pytree of values."""
    values, structure = jax.tree.flatten(start)
    kinds = [value.raw.type for value in values]
    loop = scf.WhileOp(kinds, [value.raw for value in values])
    before = loop.before.blocks.append(*kinds)
    with mlir.InsertionPoint(before):
        holds = condition(_unflatten(structure, before.arguments))
        scf.condition(holds.raw, list(before.arguments))
    after = loop.after.blocks.append(*kinds)
    with mlir.InsertionPoint(after):
        following = body(_unflatten(structure, after.arguments))
        scf.yield_(_flatten(following, structure))
    result: State = _unflatten(structure, loop.results)
    return result


def _flatten(state: object, structure: PyTreeDef) -> list[mlir.Value]:
    """Returns a state's MLIR values; refuses a state of another structure."""
    values, actual = jax.tree.flatten(state)
    if actual != structure:
        raise TypeError(f"{actual} is not {structure}")
    return [value.raw for value in values]


def _unflatten(structure: PyTreeDef, raw_values: Iterable[mlir.Value]) -> Any:
    """The inverse of `_flatten`."""
    return jax.tree.unflatten(structure, map(Value, raw_values))
