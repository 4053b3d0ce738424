"""DYNAMIC_QUANTIZE_LINEAR: a range that one element decides, wherever it is; and no elements."""

from itertools import product

from ..topics import Files, bits
from .cases import EIGHT_BIT, OPERATOR, DynamicTopic

topics = Files(OPERATOR, DynamicTopic)
LENGTHS = (7, 13, 33, 131, 259, 300, 1030)
ONE, SMALL = {"float32": 0x3F800000, "float16": 0x3C00}, {"float32": 0x3C000000, "float16": 0x2000}
MINUS = {"float32": 1 << 31, "float16": 1 << 15}


@topics.file("structures")
def _structures(topic: DynamicTopic) -> None:
    """Make the first, a middle or the last element the least, and another the largest."""
    for number, count in enumerate(LENGTHS):
        source = ("float32", "float16")[number % 2 or count > 200]
        for turn, dtype in enumerate(EIGHT_BIT):
            words = [SMALL[source] if at % 5 else 0 for at in range(count)]
            least, largest = ((count - 1, count // 2), (count - 2, count - 1))[turn]
            words[least] = ONE[source] + 3 * number | MINUS[source]
            words[largest] = ONE[source] - 5 * turn - 9
            text = f"the least of {count} elements is at {least}, the largest at {largest}"
            clause, x = "DYN-1 DYN-2 DYN-4 DYN-5", bits(source, (count,), words)
            topic.add(f"decided-{count}-{dtype}", text, clause, dtype, "BlockEdge", x)
    for source, dtype in product(ONE, EIGHT_BIT):
        x, text = bits(source, (2, 0), []), f"no elements of {source}: the scale is 1, {dtype}"
        name, need = f"empty-{source}-{dtype}", "sizes:zero"
        topic.add(name, text, "DYN-3 DYN-4", dtype, "Empty", x, need)
