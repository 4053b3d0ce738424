"""The threads of a CUDA kernel in NumPy, all of a block at once: what they store, without a GPU.

A value is an array with an element for each thread. Branches and loops run for the threads that
take them. Barriers do nothing, so a race is not found. PTX is interpreted, as much as kernels need.
"""

import contextlib
import importlib
import itertools
import re

import jax
import numpy as np

from dmlax._cuda import ir

MODULES = (
    "_cuda.addend_tiles",
    "_cuda.block",
    "_cuda.cp_async",
    "_cuda.epilogue",
    "_cuda.fixed_point",
    "_cuda.gemm",
    "_cuda.lane_table",
    "_cuda.mma",
    "_cuda.parameters",
    "_cuda.products",
    "_cuda.quantized_sum",
    "_cuda.requantize",
    "_operators.convolution.cuda.operands",
    "_operators.convolution.cuda.sliding",
    "_operators.matmul.cuda.few_rows",
    "_operators.matmul.cuda.kernel",
    "_fused.self_attention.cuda.kernel",
    "_fused.softmax.cuda.kernel",
)
KINDS = {1: np.bool_, 32: np.uint32, 64: np.uint64}
SHARED = 4096  # the first address of shared memory


class State:
    """A block's threads, those that run, and all memory."""

    def __init__(self, threads, block, shared_bytes):
        self.threads, self.block = threads, block
        self.active = np.ones(threads, bool)
        self.shared = np.full(shared_bytes, 0xA5, np.uint8)
        self.memory = []  # bytes of each pointer


_state = State(0, 0, 0)  # `begin` replaces it


class Value:
    """Stands for `ir.Value`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array):
        self.array = np.ascontiguousarray(np.broadcast_to(array, (_state.threads,)))

    @property
    def bits(self):
        return {"bool": 1, "uint32": 32, "uint64": 64}[self.array.dtype.name]

    def extend(self):
        return Value(self.array.astype(np.uint64))

    def to_word(self):
        return Value(self.array.astype(np.uint32))

    def extend_signed(self):
        return Value(self.array.view(np.int32).astype(np.int64).view(np.uint64))

    def _with(self, other, function):
        other = other if isinstance(other, Value) else constant(other, self.bits)
        assert self.bits == other.bits, (self.bits, other.bits)
        with np.errstate(over="ignore"):
            return Value(function(self.array, other.array))

    def __add__(self, other):
        return self._with(other, np.add)

    def __sub__(self, other):
        return self._with(other, np.subtract)

    def __mul__(self, other):
        return self._with(other, np.multiply)

    def __and__(self, other):
        return self._with(other, np.bitwise_and)

    def __or__(self, other):
        return self._with(other, np.bitwise_or)

    def __xor__(self, other):
        return self._with(other, np.bitwise_xor)

    def __lshift__(self, other):
        return self._with(other, np.left_shift)

    def __rshift__(self, other):
        return self._with(other, np.right_shift)

    def __floordiv__(self, other):
        return self._with(other, np.floor_divide)

    def __divmod__(self, other):
        return self // other, self - self // other * other

    def __invert__(self):
        return Value(~self.array)

    def __lt__(self, other):
        return self._with(other, np.less)

    def __le__(self, other):
        return self._with(other, np.less_equal)

    def __gt__(self, other):
        return self._with(other, np.greater)

    def __ge__(self, other):
        return self._with(other, np.greater_equal)

    def __eq__(self, other):
        return self._with(other, np.equal)

    def __ne__(self, other):
        return self._with(other, np.not_equal)

    def trailing_zeros(self):
        return (~self & (self - 1))._count()

    def leading_zeros(self):
        filled = self
        for shift in (1, 2, 4, 8, 16, 32)[: self.bits.bit_length() - 1]:
            filled |= filled >> shift
        return (~filled)._count()

    def _count(self):
        return Value(np.bitwise_count(self.array).astype(self.array.dtype))

    def less_signed(self, other):
        kind = {32: np.int32, 64: np.int64}[self.bits]
        return self._with(other, lambda x, y: x.view(kind) < y.view(kind))


def constant(value, bits=32):
    return Value(KINDS[bits](value & ((1 << bits) - 1)))


def select(condition, yes, no):
    no = no if isinstance(no, Value) else constant(no, yes.bits)
    return Value(np.where(condition.array, yes.array, no.array))


class Pointer:
    """Stands for `ir.Pointer`: bytes at an address of their own."""

    def __init__(self, array):
        self.bytes, self.size = array.reshape(-1).view(np.uint8), array.size
        _state.memory.append(self.bytes)
        self.start = len(_state.memory) << 40

    def address(self, offset=0):
        offset = offset if isinstance(offset, Value) else constant(offset, 64)
        return offset.extend() + self.start

    def address_signed(self, offset):
        return self.address(offset.extend_signed() if offset.bits == 32 else offset)

    def load(self, offset, bits=32):
        found = _load(self.address(offset), bits // 8)
        return Value(_as_words(found, bits // 8))

    def store(self, offset, *values):
        size = values[0].bits // 8
        for i, value in enumerate(values):
            _store(self.address(offset) + i * size, value, size)

    def store_byte(self, offset, word):
        _store(self.address(offset), word, 1)


class Shared:
    """The pointer to shared memory."""

    def shared_address(self):
        return constant(SHARED)


def _memory(address, size):
    """The bytes that hold an address's, and the places there; threads that are idle have none."""
    places = address.array.astype(np.uint64)
    active = _state.active
    assert (places[active] % np.uint64(size) == 0).all(), "not aligned"
    if address.bits == 32:
        memory, places = _state.shared, places.astype(np.int64) - SHARED
    else:
        (number,) = set((places[active] >> np.uint64(40)).tolist()) or {0}
        memory = _state.memory[number - 1] if number else np.zeros(16, np.uint8)
        places = (places & np.uint64((1 << 40) - 1)).astype(np.int64)
    assert (places[active] >= 0).all()
    assert (places[active] + size <= memory.size).all(), "beyond memory"
    return memory, np.where(active, places, 0)


def _load(address, size):
    """Bytes, (threads, size), where a thread may have another array than the next."""
    found = np.zeros((_state.threads, size), np.uint8)
    arrays = address.array >> np.uint64(40) if address.bits == 64 else address.array * 0
    kept = _state.active
    for number in set(arrays[kept].tolist()):
        with when(Value(arrays == number)):
            memory, places = _memory(address, size)
            here = _state.active
            found[here] = memory[places[here][:, None] + np.arange(size)]
    return found


def _as_words(found, size):
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size]
    words = np.ascontiguousarray(found).view(kind)[:, 0]
    return words if size == 8 else words.astype(np.uint32)


def _store(address, value, size):
    memory, places = _memory(address, size)
    active = _state.active
    raw = np.ascontiguousarray(value.array).view(np.uint8).reshape(_state.threads, -1)[:, :size]
    memory[places[active][:, None] + np.arange(size)] = raw[active]


# ---------------------------------------------------------------------------------------
# Branches and loops


@contextlib.contextmanager
def when(condition):
    kept = _state.active
    _state.active = kept & condition.array
    yield
    _state.active = kept


def _merge(active, new, old):
    return jax.tree.map(
        lambda x, y: Value(np.where(active, x.array, y.array)),
        new,
        old,
        is_leaf=lambda x: isinstance(x, Value),
    )


def cond(condition, yes, no, widths):
    with when(condition):
        first = yes()
    with when(~condition):
        second = no()
    return _merge(condition.array, first, second)


def while_loop(start, condition, body):
    kept, state = _state.active, start
    while True:
        _state.active = _state.active & condition(state).array
        if not _state.active.any():
            break
        state = _merge(_state.active, body(state), state)
    _state.active = kept
    return state


def broadcast_lane(x, index):
    index = index if isinstance(index, Value) else constant(index)
    lanes = np.arange(_state.threads) & ~31
    return Value(x.array[lanes + index.array.astype(int) % 32])


# ---------------------------------------------------------------------------------------
# PTX


def _floats(array):
    return array.view(np.float32)


def _words(array):
    return np.asarray(array, np.float32).view(np.uint32)


def _doubles(array):
    return array.view(np.float64)


def _of_doubles(function):
    """An operation on float64."""
    return lambda *given: np.asarray(function(*map(_doubles, given)), np.float64).view(np.uint64)


def _to_integer(x, kind, bounds):
    """A rounded float as an integer, the nearest that there is; NaN as 0."""
    return np.nan_to_num(np.clip(x, *bounds)).astype(kind)


def _to_int32(x):
    return _to_integer(x, np.int64, (-(2**31), 2**31 - 1)).astype(np.uint32)


def _to_uint32(x):
    return _to_integer(x, np.int64, (0, 2**32 - 1)).astype(np.uint32)


def _multiply_wide(x, y):
    return x.view(np.int32).astype(np.int64) * y.view(np.int32)


_carry = None  # the carry of the last addition, or the borrow of a subtraction


def _multiply_add_low(x, y, z):
    global _carry
    found = (_multiply_wide(x, y) & 0xFFFFFFFF) + z
    _carry = found >> 32
    return found.astype(np.uint32)


def _multiply_add_high(x, y, z):
    return ((_multiply_wide(x, y) >> 32) + z.view(np.int32) + _carry).astype(np.uint32)


def _subtract(x, y, borrow):
    global _carry
    found = x.astype(np.int64) - y - borrow
    _carry = (found < 0).astype(np.int64)
    return found.astype(np.uint32)


def _funnel(low, high, shift):
    both = high.astype(np.uint64) << np.uint64(32) | low
    return (both << (shift & np.uint32(31)).astype(np.uint64) >> np.uint64(32)).astype(np.uint32)


def _fused(x, y, z, saturates):
    wide = _floats(x).astype(np.longdouble) * _floats(y) + _floats(z)
    found = wide.astype(np.float32)
    if saturates:
        found = np.where(np.isnan(found), 0, np.clip(found, 0, 1))
    return _words(found)


def _permuted(x, y, order):
    both = np.stack(
        [x >> (8 * i) & 0xFF for i in range(4)] + [y >> (8 * i) & 0xFF for i in range(4)]
    )
    found = np.zeros_like(x)
    for i in range(4):
        place = order >> 4 * i & 0xF
        found |= np.take_along_axis(both, (place & 7)[None].astype(int), 0)[0] << np.uint32(8 * i)
    return found


def _dot(x, y, z, signed):
    left = x.view(np.int8 if signed else np.uint8).reshape(-1, 4).astype(np.int64)
    return (z.view(np.int32) + (left * y.view(np.int8).reshape(-1, 4)).sum(1)).astype(np.uint32)


def _packed(x, y, z, lowest):
    low, high = (
        np.clip(v.view(np.int32), lowest, lowest + 255).astype(np.uint32) & 0xFF for v in (y, x)
    )
    return z << np.uint32(16) | high << np.uint32(8) | low


def _halves(x, y):
    return np.maximum(x.view(np.uint16), y.view(np.uint16)).view(np.uint32)


OPERATIONS = {
    "cvt.rn.f32.s32": lambda x: _words(x.view(np.int32).astype(np.float32)),
    "cvt.rn.f32.u32": lambda x: _words(x.astype(np.float32)),
    "mul.rn.f32": lambda x, y: _words(_floats(x) * _floats(y)),
    "neg.f32": lambda x: x ^ np.uint32(1 << 31),
    "add.rn.f32": lambda x, y: _words(_floats(x) + _floats(y)),
    "sub.rn.f32": lambda x, y: _words(_floats(x) - _floats(y)),
    "div.rn.f32": lambda x, y: _words(_floats(x) / _floats(y)),
    "rcp.rn.f32": lambda x: _words(np.float32(1) / _floats(x)),
    "fma.rn.f32": lambda x, y, z: _fused(x, y, z, False),
    "fma.rn.sat.f32": lambda x, y, z: _fused(x, y, z, True),
    "max.f32": lambda x, y: _words(np.fmax(_floats(x), _floats(y))),
    "min.f32": lambda x, y: _words(np.fmin(_floats(x), _floats(y))),
    "min.s32": lambda x, y: np.minimum(x.view(np.int32), y.view(np.int32)).view(np.uint32),
    "max.s32": lambda x, y: np.maximum(x.view(np.int32), y.view(np.int32)).view(np.uint32),
    "min.u32": np.minimum,
    "max.u16x2": _halves,
    "prmt.b32": _permuted,
    "dp4a.s32.s32": lambda x, y, z: _dot(x, y, z, True),
    "dp4a.u32.s32": lambda x, y, z: _dot(x, y, z, False),
    "mad.lo.cc.s32": _multiply_add_low,
    "madc.hi.s32": _multiply_add_high,
    "mul.wide.u32": lambda x, y: x.astype(np.uint64) * y,
    "sub.cc.u32": lambda x, y: _subtract(x, y, 0),
    "subc.cc.u32": lambda x, y: _subtract(x, y, _carry),
    "subc.u32": lambda x, y: _subtract(x, y, _carry),
    "sub.u32": np.subtract,
    "add.u64": np.add,
    "or.b32": np.bitwise_or,
    "shl.b32": np.left_shift,
    "shr.u32": np.right_shift,
    "shr.s32": lambda x, count: (x.view(np.int32) >> count.view(np.int32)).view(np.uint32),
    "shf.l.wrap.b32": _funnel,
    "bfe.u32": lambda x, start, count: x >> start & (np.uint32(1) << count) - np.uint32(1),
    "cvt.u64.u32": lambda x: x.astype(np.uint64),
    "setp.ge.u32": lambda x, y: x >= y,
    "add.u32": np.add,
    "add.s32": np.add,
    "and.b32": np.bitwise_and,
    "cvt.pack.sat.u8.s32.b32": lambda x, y, z: _packed(x, y, z, 0),
    "cvt.pack.sat.s8.s32.b32": lambda x, y, z: _packed(x, y, z, -128),
    "setp.eq.b32": lambda x, y: x == y,
    "setp.ne.u32": lambda x, y: x != y,
    "setp.le.or.u32": lambda x, y, p: (x <= y) | p,
    "selp.b32": lambda x, y, p: np.where(p, x, y),
    "mov.b32": lambda x: x,
    "cvt.rn.f64.u64": lambda x: x.astype(np.float64).view(np.uint64),
    "cvt.rn.f64.u32": lambda x: x.astype(np.float64).view(np.uint64),
    "cvt.rn.f64.s32": lambda x: x.view(np.int32).astype(np.float64).view(np.uint64),
    "cvt.f64.f32": lambda x: _floats(x).astype(np.float64).view(np.uint64),
    "cvt.rn.f32.f64": lambda x: _words(_doubles(x)),
    "cvt.rni.s32.f64": lambda x: _to_int32(np.rint(_doubles(x))),
    "cvt.rmi.s32.f64": lambda x: _to_int32(np.floor(_doubles(x))),
    "cvt.rzi.u32.f32": lambda x: _to_uint32(np.trunc(_floats(x).astype(np.float64))),
    "cvt.rni.s64.f64": lambda x: _to_integer(
        np.rint(_doubles(x)), np.int64, (-(2.0**63), 2.0**63 - 1024)
    ).view(np.uint64),
    "rcp.approx.ftz.f32": lambda x: _words(np.float32(1) / _floats(x)),
    "add.rn.f64": _of_doubles(np.add),
    "sub.rn.f64": _of_doubles(np.subtract),
    "mul.rn.f64": _of_doubles(np.multiply),
    "div.rn.f64": _of_doubles(np.divide),
    "fma.rn.f64": _of_doubles(lambda x, y, z: x.astype(np.longdouble) * y + z),
    "min.f64": _of_doubles(np.fmin),
    "max.f64": _of_doubles(np.fmax),
    "abs.f64": _of_doubles(np.abs),
    "neg.f64": _of_doubles(np.negative),
    "setp.eq.f64": lambda x, y: _doubles(x) == _doubles(y),
    "setp.lt.f64": lambda x, y: _doubles(x) < _doubles(y),
    "setp.gt.f64": lambda x, y: _doubles(x) > _doubles(y),
    "setp.ge.f64": lambda x, y: _doubles(x) >= _doubles(y),
    "selp.f64": lambda x, y, p: np.where(p, x, y),
}


def ptx_values(text, results, arguments, *, changed=(), effects=False):
    """Runs PTX: as `ir.ptx_values`."""
    arrays = {f"${len(results) + i}": x.array for i, x in enumerate((*changed, *arguments))}
    arrays |= {f"${i}": x.array for i, x in enumerate(changed)}
    for instruction in text.strip().strip("{}").split(";"):
        if instruction.strip() and not instruction.strip().startswith(".reg"):
            _run(instruction.strip(), arrays)
    return [Value(arrays[f"${i}"]) for i in range(len(results))]


def _run(instruction, arrays):
    condition = None
    if instruction.startswith("@"):
        name, instruction = instruction[1:].split(" ", 1)
        condition = arrays[name]
    operation, _, rest = instruction.partition(" ")
    for name, offset in re.findall(r"\[(\S+)\+(\d+)\]", rest):
        arrays[place := f"{name}_{offset}"] = arrays[name] + arrays[name].dtype.type(int(offset))
        rest = rest.replace(f"[{name}+{offset}]", place)
    names = re.findall(r"-?[\w$]+", rest)
    if operation.startswith(IGNORED):
        return
    if operation.startswith(("ld.", "st.", "cp.", "ldmatrix", "mma")):
        kept = _state.active
        if condition is not None:
            _state.active = kept & condition
        _access(operation, names, arrays)
        _state.active = kept
        return
    if operation == "mov.b64" and rest.startswith("{"):  # two words of a register
        arrays[names[0]], arrays[names[1]] = (
            (arrays[names[2]] >> np.uint64(shift)).astype(np.uint32) for shift in (0, 32)
        )
        return
    given = [_operand(name, arrays) for name in names[1:]]
    with np.errstate(all="ignore"):
        found = np.asarray(OPERATIONS[operation](*given))
    arrays[names[0]] = found if condition is None else np.where(condition, found, arrays[names[0]])


IGNORED = ("bar.", "fence.", "cp.async.commit_group", "cp.async.wait_group")


def _operand(name, arrays):
    if name in arrays:
        return arrays[name]
    if name.startswith("0d"):
        return np.full(_state.threads, int(name[2:], 16), np.uint64)
    is_float = name.startswith("0f")
    value = int(name[2:], 16) if is_float else int(name, 0) & 0xFFFFFFFF
    return np.full(_state.threads, value, np.uint32)


def _access(operation, names, arrays):
    """Loads, stores and copies."""
    if operation.startswith("mma"):
        return _multiply(names, arrays, "u8.s8" in operation)
    if operation.startswith("ldmatrix"):
        return _load_matrices(names, arrays)
    if operation.startswith("cp.async"):
        to, source, size, *wanted = names
        words = _load(Value(arrays[source]), int(size))
        kept = (
            words
            if not wanted
            else np.where(np.arange(int(size)) < arrays[wanted[0]][:, None], words, 0)
        )
        for i in range(0, int(size), 4):
            _store(Value(arrays[to]) + i, Value(_as_words(kept[:, i : i + 4], 4)), 4)
        return None
    size = {"b32": 4, "u8": 1, "u16": 2}[operation.split(".")[-1]]
    if operation.startswith("ld"):
        *into, address = names
        for i, name in enumerate(into):
            found = _as_words(_load(Value(arrays[address]) + i * size, size), size)
            arrays[name] = np.where(_state.active, found, arrays.get(name, found))
    else:
        address, *values = names
        for i, name in enumerate(values):
            _store(Value(arrays[address]) + i * size, Value(_operand(name, arrays)), size)
    return None


def _load_matrices(names, arrays):
    *into, address = names
    rows = _load(Value(arrays[address]), 16).reshape(-1, 4, 8, 16)
    for i, name in enumerate(into):
        arrays[name] = np.ascontiguousarray(rows[:, i]).view(np.uint32).reshape(-1)


def _multiply(names, arrays, unsigned):
    warps = _state.threads // 32

    def matrix(words):
        """(warps, 8, 16 * words of bytes): lane l has word l % 4 of row l / 4."""
        parts = [arrays[name].reshape(warps, 8, 4).copy().view(np.uint8) for name in words]
        return np.concatenate(parts, -1)

    kind = np.uint8 if unsigned else np.int8
    a, b = names[4:8], names[8:10]
    left = np.concatenate([matrix(a[::2]), matrix(a[1::2])], 1).view(kind).astype(np.int64)
    right = matrix(b).view(np.int8).astype(np.int64)
    product = np.einsum("wrk,wck->wrc", left, right).astype(np.uint32)
    for i, name in enumerate(names[:4]):
        half = product[:, 8 * (i // 2) :][:, :8].reshape(warps, 8, 4, 2)[..., i % 2]
        arrays[name] = arrays[names[10 + i]] + half.reshape(-1)


def ptx(text, bits, *arguments, effects=False):
    return ptx_values(text, [bits], arguments)[0]


def ptx_effect(text, *arguments):
    ptx_values(text, [], arguments)


def _thread():
    return Value(np.arange(_state.threads, dtype=np.uint32))


REPLACED = {
    "Value": Value,
    "constant": constant,
    "select": select,
    "minimum": lambda x, y: x._with(y, np.minimum),
    "maximum": lambda x, y: x._with(y, np.maximum),
    "thread": _thread,
    "block": lambda: constant(_state.block),
    "barrier": lambda: None,
    "broadcast_lane": broadcast_lane,
    "when": when,
    "cond": cond,
    "while_loop": while_loop,
    "widths": lambda state: None,
    "ptx": ptx,
    "ptx_values": ptx_values,
    "ptx_effect": ptx_effect,
}


def emulate(monkeypatch):
    """Patches MODULES: what they write for a thread then runs here."""
    modules = [ir, *(importlib.import_module(f"dmlax.{name}") for name in MODULES)]
    for module, (name, value) in itertools.product(modules, REPLACED.items()):
        if module is ir or name in ("Value", "constant", "select"):
            monkeypatch.setattr(module, name, value, raising=False)


def begin(threads, block, shared_bytes):
    """Begins a block of so many threads."""
    global _state
    _state = State(threads, block, shared_bytes)


def launch(monkeypatch):
    """A `launch` for kernels, which then run here."""
    emulate(monkeypatch)

    def run(name, body, operands, outputs, *, blocks, warpgroups, shared_words, zeroed_words=0):
        found = {key: np.full(x.shape, 77, x.dtype) for key, x in outputs.items()}
        given = {key: np.asarray(x).copy() for key, x in operands.items()}
        for block in range(blocks):
            begin(128 * warpgroups, block, 4 * shared_words)
            pointers = {key: Pointer(x) for key, x in (given | found).items()}
            body({**pointers, "shared": Shared()})
        return list(found.values())

    return run
