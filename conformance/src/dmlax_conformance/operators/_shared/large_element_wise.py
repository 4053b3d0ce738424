"""Sizes of element-wise operators with a scale and a zero point, in calls of many elements."""

PRIMES = (1, 2, 3, 5, 7)
SIZES = (
    *("523", "9x67", "67x9", "5x131", "2x5x7x9", "2x3x2x3x5x5", "3x2x3x1x2x2x3x5"),
    *("9x9x9", "600x1"),
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
