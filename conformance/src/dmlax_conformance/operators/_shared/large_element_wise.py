"""Sizes of element-wise operators with a scale and a zero point, in calls of many elements."""

PRIMES = (1, 2, 3, 5, 7)
SIZES = (
    *("523", "9x67", "69x9", "5x131", "3x1x17x13"),
    *("3x3x1x7x11", "3x1x3x7x1x11", "1x3x1x3x7x1x11", "3x1x3x1x7x1x1x11"),
)
PARAMETERS = ("one", "each", "first axis", "last axis", "last two axes")


def sizes_of_parameter(kind: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of a parameter that repeats to these."""
    rank = len(sizes)
    kept = {
        "one": set[int](),
        "each": set(range(rank)),
        "first axis": {0},
        "last axis": {rank - 1},
        "last two axes": {rank - 2, rank - 1},
    }[kind]
    found = tuple(size if axis in kept else 1 for axis, size in enumerate(sizes))
    return (1,) if kind == "one" else found
