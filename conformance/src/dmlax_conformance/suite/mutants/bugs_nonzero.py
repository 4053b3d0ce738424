"""Planted bugs of NONZERO_COORDINATES: values, order, coordinates, count and sizes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..adapter import Case
from .nonzero import last_axes, non_zero_bits, row_major, then_zeros
from .record import HONEST, Mutant, mutant, with_steps
from .steps import Array, Call, Outputs, Sizes

OPERATOR = "nonzero_coordinates"
COUNT, ROWS = "OutputCountTensor", "OutputCoordinatesTensor"


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    yield from _values()
    yield from _order()
    yield from _coordinates()
    yield from _counts()
    yield from _outputs()


def _bug(name: str, clause: str, about: str, **steps: Any) -> Mutant:
    return mutant(OPERATOR, name, clause, about, with_steps("nonzero", **steps))


# -- which elements count ----------------------------------------------------------------------


def _flushed(dtype: str) -> Callable[[Array], Array]:
    def mask(x: Array) -> Array:
        if x.dtype != dtype:
            return non_zero_bits(x)
        return non_zero_bits(x) & ~(np.abs(x) < np.finfo(dtype).tiny)

    return mask


def _through(dtype: str, *sources: str) -> Callable[[Array], Array]:
    """Convert elements of some data types first."""
    return lambda x: non_zero_bits(x.astype(dtype) if x.dtype.name in sources else x)


def _but(unwanted: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: non_zero_bits(x) & ~unwanted(x)


def _raw_bits(x: Array) -> Array:
    return np.asarray(x.view(f"uint{8 * x.dtype.itemsize}") != 0)


def _signed_above_zero(x: Array) -> Array:
    if x.dtype.kind != "u":
        return non_zero_bits(x)
    return np.asarray(x.view(f"int{8 * x.dtype.itemsize}") > 0)


def _values() -> Iterator[Mutant]:
    for dtype in ("float16", "float32", "float64"):
        about = f"subnormal numbers of {dtype} count as zero"
        yield _bug(f"flushes-{dtype}", "NZC-2", about, mask=_flushed(dtype))
    masks: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "nan-is-zero": ("NaN counts as zero", _but(lambda x: np.asarray(x != x))),
        "infinity-is-zero": (
            "infinities count as zero",
            _but(lambda x: np.isinf(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)),
        ),
        "minus-zero-is-found": ("minus zero counts as non-zero", _raw_bits),
        "positive-only": ("negative elements are lost", lambda x: np.asarray(x > 0)),
        "only-ones": ("only elements equal to 1 are found", lambda x: np.asarray(x == 1)),
        "lowest-is-zero": (
            "the most negative integer is lost, as its absolute value is negative",
            _but(lambda x: (np.abs(x) < 0) & (x.dtype.kind == "i")),
        ),
        "top-bit-is-a-sign": ("unsigned elements are read as signed", _signed_above_zero),
        "odd-only": (
            "an integer is non-zero if its lowest bit is set",
            lambda x: np.asarray(x & 1 != 0) if x.dtype.kind in "iu" else non_zero_bits(x),
        ),
    }
    for name, (about, mask) in masks.items():
        clause = "NZC-2" if name.startswith(("nan", "inf", "minus")) else "NZC-2 NZC-7"
        yield _bug(name, clause, about, mask=mask)
    yield from _conversions()


def _conversions() -> Iterator[Mutant]:
    pairs = [
        ("int64", "int32", "the high word of INT64 is lost"),
        ("uint64", "uint32", "the high word of UINT64 is lost"),
        ("int32", "int16", "the high half of INT32 is lost"),
        ("uint32", "uint16", "the high half of UINT32 is lost"),
        ("int16", "int8", "the high byte of INT16 is lost"),
        ("uint16", "uint8", "the high byte of UINT16 is lost"),
        ("float32", "float16", "FLOAT32 is read as FLOAT16, so small numbers vanish"),
        ("float64", "float32", "FLOAT64 is read as FLOAT32, so small numbers vanish"),
        ("float32", "int32", "FLOAT32 is truncated to an integer, so fractions vanish"),
        ("float16", "int32", "FLOAT16 is truncated to an integer, so fractions vanish"),
    ]
    for source, target, about in pairs:
        name = f"{source}-as-{target}"
        yield _bug(name, "NZC-2 NZC-7", about, mask=_through(target, source))


# -- which order -------------------------------------------------------------------------------


def _column_major(mask: Array) -> Array:
    found = np.argwhere(mask)
    kept = found[np.lexsort(found.T)]
    return np.asarray(np.ravel_multi_index(tuple(kept.T), mask.shape))


def _pieces(mask: Array, size: int) -> list[Array]:
    found = row_major(mask)
    return [found[found // size == piece] for piece in range(mask.size // size + 1)]


def _blocks_backwards(mask: Array) -> Array:
    return np.concatenate([piece[::-1] for piece in _pieces(mask, 32)])


def _blocks_swapped(size: int) -> Callable[[Array], Array]:
    return lambda mask: np.concatenate(_pieces(mask, size)[::-1])


def _halves_swapped(mask: Array) -> Array:
    found = row_major(mask)
    return np.concatenate([found[found % 2 == 0], found[found % 2 == 1]])


def _without_tail(size: int) -> Callable[[Array], Array]:
    def order(mask: Array) -> Array:
        found, whole = row_major(mask), mask.size // size * size
        return found[found < whole] if whole else found

    return order


def _seam_twice(mask: Array) -> Array:
    found = row_major(mask)
    return np.sort(np.concatenate([found, found[(found % 64 == 0) & (found > 0)]]))


def _up_to(limit: int) -> Callable[[Array], Array]:
    return lambda mask: np.flatnonzero(mask.reshape(-1)[:limit])


def _order() -> Iterator[Mutant]:
    def is_room(mask: Array) -> bool:
        return int(mask.sum()) < mask.size

    orders: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "column-major": ("rows ascend by the column-major index", _column_major),
        "descending": ("rows descend", lambda mask: row_major(mask)[::-1]),
        "even-first": ("elements at even places come first", _halves_swapped),
        "blocks-backwards": ("each block of 32 is scanned from its top bit", _blocks_backwards),
        "blocks-of-256-swapped": ("blocks of 256 finish in another order", _blocks_swapped(256)),
        "blocks-of-65536-swapped": (
            "blocks of 65,536 finish in another order",
            _blocks_swapped(65536),
        ),
    }
    for name, (about, order) in orders.items():
        yield _bug(name, "NZC-4", about, order=order)
    lost: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "first-lost": ("element 0 is never looked at", lambda m: _at_least(row_major(m), 1)),
        "last-lost": ("the last element is never looked at", lambda m: _up_to(m.size - 1)(m)),
        "last-hit-lost": ("the last non-zero element is dropped", lambda m: row_major(m)[:-1]),
        "seam-twice": (
            "the first element of a block of 64 is written twice",
            lambda m: _seam_twice(m) if is_room(m) else row_major(m),
        ),
    }
    for size in (4, 32, 128, 256):
        about = f"elements past the last whole block of {size} are lost"
        lost[f"tail-of-{size}-lost"] = (about, _without_tail(size))
    for limit in (255, 256, 1000, 1024, 32768, 65535, 65536):
        lost[f"only-first-{limit}"] = (f"elements from {limit} on are lost", _up_to(limit))
    for name, (about, order) in lost.items():
        yield _bug(name, "NZC-1 NZC-5", about, order=order)


def _at_least(found: Array, lowest: int) -> Array:
    return found[found >= lowest]


# -- which coordinates -------------------------------------------------------------------------


def _first_axes(indices: Array, sizes: Sizes, width: int) -> Array:
    return last_axes(indices, sizes, len(sizes))[:, :width]


def _flat(indices: Array, sizes: Sizes, width: int) -> Array:
    rows = np.zeros((len(indices), width), np.int64)
    rows[:, -1] = indices
    return rows


def _left_aligned(indices: Array, sizes: Sizes, width: int) -> Array:
    """Drop leading sizes of 1, and put the zeros that are missing on the wrong side."""
    leading = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
    rows = last_axes(indices, sizes, len(sizes) - leading)
    return np.pad(rows, ((0, 0), (0, max(width - rows.shape[1], 0))))[:, :width]


def _squeezed(indices: Array, sizes: Sizes, width: int) -> Array:
    """Drop every size of 1, not only the leading ones."""
    kept = tuple(size for size in sizes if size != 1)
    rows = last_axes(indices, kept or (1,), max(len(kept), 1))
    return np.pad(rows, ((0, 0), (max(width - rows.shape[1], 0), 0)))


def _reversed_sizes(indices: Array, sizes: Sizes, width: int) -> Array:
    return last_axes(indices, sizes[::-1], len(sizes))[:, ::-1][:, len(sizes) - width :]


def _last_axes_only(depth: int) -> Callable[[Array, Sizes, int], Array]:
    """Unravel the last axes only; the index on the axes before them stays 0."""

    def locate(indices: Array, sizes: Sizes, width: int) -> Array:
        rows = last_axes(indices, sizes, width)
        return np.where(np.arange(width) < width - depth, 0, rows)

    return locate


def _in(dtype: str) -> Callable[[Array, Sizes, int], Array]:
    return lambda indices, sizes, width: last_axes(indices, sizes, width).astype(dtype)


def _flat_in(dtype: str) -> Callable[[Array, Sizes, int], Array]:
    def locate(indices: Array, sizes: Sizes, width: int) -> Array:
        return last_axes(indices.astype(dtype).astype(np.int64) % _size(sizes), sizes, width)

    return locate


def _size(sizes: Sizes) -> int:
    return max(int(np.prod(sizes)), 1)


def _coordinates() -> Iterator[Mutant]:
    ways: dict[str, tuple[str, str, Callable[[Array, Sizes, int], Array]]] = {
        "first-axes": ("NZC-1 NZC-3", "the first N axes are written, not the last", _first_axes),
        "axes-reversed": (
            "NZC-1",
            "the coordinates of a row are reversed",
            lambda i, s, n: last_axes(i, s, n)[:, ::-1],
        ),
        "one-based": ("NZC-1", "coordinates count from 1", lambda i, s, n: last_axes(i, s, n) + 1),
        "flat-index": ("NZC-1", "the last column holds the flat index, the others 0", _flat),
        "sizes-reversed": ("NZC-1", "the strides of the axes are swapped", _reversed_sizes),
        "left-aligned": (
            "NZC-3",
            "a row wider than the effective rank has its zeros on the right",
            _left_aligned,
        ),
        "squeezed": ("NZC-1 NZC-3", "axes of size 1 are dropped wherever they are", _squeezed),
        "last-4-axes": ("NZC-1 NZC-8", "axes before the last four stay 0", _last_axes_only(4)),
        "last-5-axes": ("NZC-1 NZC-8", "axes before the last five stay 0", _last_axes_only(5)),
        "last-7-axes": ("NZC-1 NZC-8", "the first of eight axes stays 0", _last_axes_only(7)),
        "coordinates-in-8-bits": ("NZC-1", "a coordinate is kept in 8 bits", _in("uint8")),
        "coordinates-in-16-bits": ("NZC-1", "a coordinate is kept in 16 bits", _in("uint16")),
        "coordinates-in-signed-8-bits": (
            "NZC-1",
            "a coordinate is kept in 7 bits and a sign",
            _in("int8"),
        ),
        "index-in-8-bits": ("NZC-1", "the flat index is kept in 8 bits", _flat_in("uint8")),
        "index-in-16-bits": ("NZC-1", "the flat index is kept in 16 bits", _flat_in("uint16")),
        "index-in-float16": ("NZC-1", "the flat index is kept in FLOAT16", _flat_in("float16")),
    }
    for name, (clause, about, locate) in ways.items():
        yield _bug(name, clause, about, locate=locate)


# -- how many ----------------------------------------------------------------------------------


def _counts() -> Iterator[Mutant]:
    def elements(call: Call) -> int:
        return int(call.inputs["InputTensor"].size)

    counts: dict[str, tuple[str, Callable[[Array, Call], int]]] = {
        "count-zeros": ("the zeros are counted", lambda rows, call: elements(call) - len(rows)),
        "count-elements": ("all elements are counted", lambda rows, call: elements(call)),
        "count-at-least-1": ("no element is counted as one", lambda rows, call: max(len(rows), 1)),
        "count-never-full": (
            "the count stops one short of the size of the table",
            lambda rows, call: min(len(rows), max(elements(call) - 1, 0)),
        ),
        "count-in-8-bits": ("the count is kept in 8 bits", lambda rows, call: len(rows) % 256),
        "count-saturates-at-255": (
            "the count stops at 255",
            lambda rows, call: min(len(rows), 255),
        ),
        "count-in-16-bits": (
            "the count is kept in 16 bits",
            lambda rows, call: len(rows) % 65536,
        ),
        "count-from-rows": (
            "the count is how many rows are not all zero, as if the rest were known to be",
            lambda rows, call: int(rows.any(1).sum()),
        ),
        "count-from-last-column": (
            "the count is how many rows end in a coordinate other than 0",
            lambda rows, call: int((rows[:, -1] != 0).sum()),
        ),
        "count-distinct": (
            "the count is how many rows differ in their first column",
            lambda rows, call: len(set(rows[:, 0].tolist())),
        ),
        "count-times-width": (
            "the count is how many coordinates were written",
            lambda rows, call: int(rows.size),
        ),
        "count-plus-1": ("the count is one too high", lambda rows, call: len(rows) + 1),
    }
    for name, (about, count) in counts.items():
        yield _bug(name, "NZC-5", about, count=count)


# -- which sizes and data types ----------------------------------------------------------------


def _converted(name: str, dtype: str) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {**outputs, name: outputs[name].astype(dtype)}


def _resized(
    name: str, change: Callable[[Array, Outputs], Array]
) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {**outputs, name: change(outputs[name], outputs)}


def _shifted(rows: Array, sizes: Sizes) -> Array:
    table = then_zeros(np.zeros((0, sizes[-1]), np.uint32), sizes)
    flat = table.reshape(sizes[-2:])
    flat[1 : len(rows) + 1] = rows[: max(len(flat) - 1, 0)]
    return table


def _outputs() -> Iterator[Mutant]:
    about = "the first row of the table stays empty and the others move down"
    yield _bug("rows-from-1", "NZC-1 NZC-6", about, table=_shifted)
    about = "the rows are at the end of the table"
    yield _bug("rows-at-the-end", "NZC-1 NZC-6", about, table=_at_the_end)
    finishes: dict[str, tuple[str, str, Callable[[Outputs, Case], Outputs]]] = {
        "count-is-int32": ("NZC-5", "the count is INT32", _converted(COUNT, "int32")),
        "count-is-int64": ("NZC-5", "the count is INT64", _converted(COUNT, "int64")),
        "coordinates-are-int32": ("NZC-1", "coordinates are INT32", _converted(ROWS, "int32")),
        "coordinates-are-int64": ("NZC-1", "coordinates are INT64", _converted(ROWS, "int64")),
        "count-is-a-scalar": (
            "NZC-5",
            "the count has no dimensions",
            _resized(COUNT, lambda count, _: count.reshape(())),
        ),
        "table-has-rank-2": (
            "NZC-6",
            "the table has two dimensions whatever was asked for",
            _resized(ROWS, lambda rows, _: rows.reshape(rows.shape[-2:])),
        ),
        "table-ends-at-count": (
            "NZC-6",
            "the table has only as many rows as there are non-zero elements",
            _resized(ROWS, lambda rows, out: rows[..., : int(out[COUNT].reshape(-1)[0]), :]),
        ),
        "table-is-transposed": (
            "NZC-6",
            "the table has one column for each element",
            _resized(ROWS, lambda rows, _: np.swapaxes(rows, -1, -2)),
        ),
        "no-count": ("NZC-5", "no count is returned", lambda out, case: {ROWS: out[ROWS]}),
    }
    for name, (clause, about, finish) in finishes.items():
        yield mutant(OPERATOR, name, clause, about, replace(HONEST, finish=finish))


def _at_the_end(rows: Array, sizes: Sizes) -> Array:
    table = then_zeros(rows, sizes)
    flat = table.reshape(sizes[-2:])
    flat[:] = np.roll(flat, len(flat) - len(rows), 0)
    return table
