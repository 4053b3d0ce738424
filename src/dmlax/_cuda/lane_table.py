"""A table of 256 words in shared memory: every lane has a copy in another bank.

So the lanes of a warp look up different entries at once.
"""

from dmlax._cuda import ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Pointer, Value, constant
from dmlax._cuda.launch import ThreadBlock

ENTRY = 4 * 32  # bytes of an entry of all lanes
BYTES = 256 * ENTRY


def write(
    block: ThreadBlock, start: Value, entries: Pointer, bits: int, number: Value | None = None
) -> None:
    """Writes entries of 8 or 32 bits, by all threads; a barrier must follow.

    Of several tables it writes the one of a number.
    """
    place = constant(0) if number is None else number * (256 * bits // 8)
    for first in range(0, BYTES, CHUNK * block.threads):
        offset = ir.thread() * CHUNK + first
        with ir.when(offset < BYTES):
            entry = entries.load(place + offset // ENTRY * (bits // 8), bits)
            ir.store_shared(start + offset, *[entry] * 4)


def of_lane(start: Value) -> Value:
    """The address of the lane's first entry."""
    return start + ir.lane() * 4


def entries_of(start: Value, word: Value, count: int, bits: int) -> list[Value]:
    """The entries of a word's first bytes; `start` is the lane's."""
    zero = constant(0)
    places = (ir.permute_bytes(word, zero, 0x4440 + i) for i in range(count))  # one instruction
    return [ir.load_shared_element(start + place * ENTRY, bits) for place in places]
