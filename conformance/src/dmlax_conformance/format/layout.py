"""Strides: the place of each element of a tensor in its buffer."""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd, prod
from typing import Any

Desc = Mapping[str, Any]

ELEMENT_BITS = {
    **{f"FLOAT{bits}": bits for bits in (16, 32, 64)},
    **{f"{sign}INT{bits}": bits for sign in ("", "U") for bits in (4, 8, 16, 32, 64)},
}

BRUTE = 1 << 20
PATIENCE = 200_000


def packed_strides(sizes: Sequence[int]) -> list[int]:
    """Return the strides of a row-major tensor without gaps."""
    return [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def strides_of(tensor: Desc) -> list[int]:
    """Return the strides, packed when the desc has none."""
    return list(packed_strides(tensor["Sizes"]) if tensor["Strides"] is None else tensor["Strides"])


def is_packed(tensor: Desc) -> bool:
    """Say whether the strides are those of a row-major tensor without gaps."""
    return strides_of(tensor) == packed_strides(tensor["Sizes"])


def last_offset(sizes: Iterable[int], strides: Iterable[int]) -> int:
    """Return the offset of the last element, which is the largest."""
    return sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def minimum_bytes(data_type: str, sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return the fewest bytes that hold every element, a multiple of 4."""
    bits = (last_offset(sizes, strides) + 1) * ELEMENT_BITS[data_type]
    return -(-bits // 32) * 4


def buffer_length(tensor: Desc) -> int:
    """Return how many elements the buffer holds."""
    return int(tensor["TotalTensorSizeInBytes"] * 8 // ELEMENT_BITS[tensor["DataType"]])


def offsets(sizes: Iterable[int], strides: Iterable[int]) -> list[int]:
    """Return the offset of every element, in row-major order."""
    found = [0]
    for size, stride in zip(sizes, strides, strict=True):
        found = [offset + place * stride for offset in found for place in range(size)]
    return found


def array_sizes(tensor: Desc) -> tuple[int, ...]:
    """Return the sizes of the array that stands for the tensor: its own, or one flat buffer."""
    return tuple(tensor["Sizes"]) if is_packed(tensor) else (buffer_length(tensor),)


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Say whether two elements share an offset; no size is 0."""
    axes = [(n, s) for n, s in zip(sizes, strides, strict=True) if n > 1]
    axes.sort(key=lambda axis: axis[1], reverse=True)
    lengths, steps = [n for n, _ in axes], [s for _, s in axes]
    if 0 in steps or prod(lengths) > last_offset(lengths, steps) + 1:
        return True
    if _is_nested(axes):
        return False
    if prod(lengths) <= BRUTE:
        return len(set(offsets(lengths, steps))) < prod(lengths)
    return _meets(axes)


def _is_nested(axes: list[tuple[int, int]]) -> bool:
    """Say whether each step is larger than all that the smaller steps together can reach."""
    reach = [sum((n - 1) * s for n, s in axes[place + 1 :]) for place in range(len(axes))]
    return all(step > beyond for (_, step), beyond in zip(axes, reach, strict=True))


def _meets(axes: list[tuple[int, int]]) -> bool:
    """Look for a difference of two places whose offset is 0, the largest steps first."""
    reach = [sum((n - 1) * s for n, s in axes[place:]) for place in range(len(axes) + 1)]
    common = [gcd(*(s for _, s in axes[place:])) for place in range(len(axes) + 1)]
    open_ends, tries = [(0, 0, True)], 0
    while open_ends:
        place, offset, is_same = open_ends.pop()
        if place == len(axes):
            if offset == 0 and not is_same:
                return True
            continue
        size, step = axes[place]
        low = max(1 - size, -((reach[place + 1] + offset) // step))
        high = min(size - 1, (reach[place + 1] - offset) // step)
        for moved in range(0 if is_same else low, high + 1):
            tries += 1
            if tries > PATIENCE:
                raise ValueError(f"cannot tell whether {axes} overlap")
            rest = offset + moved * step
            if rest % (common[place + 1] or 1) == 0:
                open_ends.append((place + 1, rest, is_same and moved == 0))
    return False


def coordinates(index: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the coordinates of a row-major element index."""
    row = []
    for size in reversed(sizes):
        index, place = divmod(index, size)
        row.append(place)
    return tuple(reversed(row))
