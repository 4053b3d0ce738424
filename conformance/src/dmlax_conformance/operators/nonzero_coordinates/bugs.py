"""Planted bugs of NONZERO_COORDINATES."""

from collections.abc import Callable, Iterator

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.descs import DescRules
from ...suite.bugs.nonzero import Nonzero, last_axes, non_zero_bits, row_major, then_zeros
from ...suite.bugs.permitted import INDICES, UNDEFINED_ROWS
from ...suite.bugs.readings import outputs, readings
from ...suite.bugs.record import Bug, in_output, in_part
from ...suite.bugs.refusals import Rules, accept, in_refusals, refuse
from ...suite.bugs.steps import Array, Call, Sizes
from .meaning import effective_rank

OPERATOR = "nonzero_coordinates"
IMAGE, COUNT, ROWS = "InputTensor", "OutputCountTensor", "OutputCoordinatesTensor"
EXTENSIONS = "int64 uint64 float64"
RULES = Rules(
    OPERATOR,
    {"data_type": "NZC-7", "dimension_count": "NZC-8", "sizes": "NZC-3"},
    {"data_type": f"{IMAGE}:complex64", "dimension_count": IMAGE, "sizes": ROWS},
    also_allowed=f"bool {EXTENSIONS}",
)
DESCS = DescRules(
    OPERATOR,
    {"tensor-element-limit": "the output cannot be so large"},
    "data-type:inputs dimension-count:inputs dimension-count:outputs"
    " sizes-count:inputs sizes-count:outputs",
    {"DimensionCount 3_0": ((IMAGE, COUNT, ROWS),)},
)

PARTS = {"nonzero": Nonzero()}
RESULT = "NZC-5"
PERMITTED = (
    ("NZC-6", "nonzero", "table", UNDEFINED_ROWS),
    ("NZC-4", "nonzero", "order", INDICES),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, {IMAGE: ("NZC-1 NZC-2 NZC-4 NZC-7", "wide axes")}, EXTENSIONS)
    clauses = {COUNT: ("NZC-5", "NZC-5"), ROWS: ("NZC-1", "NZC-6")}
    yield from outputs(OPERATOR, clauses, single=COUNT)


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from in_part(OPERATOR, "NZC-2 NZC-7", "nonzero", "mask", MASKS)
    yield from in_part(OPERATOR, "NZC-4", "nonzero", "order", ORDERS)
    yield from in_part(OPERATOR, "NZC-1 NZC-5", "nonzero", "order", LOST)
    yield from in_part(OPERATOR, "NZC-1 NZC-3 NZC-8", "nonzero", "locate", COORDINATES)
    yield from in_part(OPERATOR, "NZC-5", "nonzero", "count", COUNTS)
    yield from in_part(OPERATOR, "NZC-1 NZC-6", "nonzero", "table", TABLES)
    yield from in_output(OPERATOR, "NZC-6", ROWS, SIZES)
    yield from in_refusals(OPERATOR, "NZC-3", accept, "sizes", ROWS, WRONG_WIDTHS)
    yield from in_refusals(OPERATOR, "NZC-3", refuse, "sizes", ROWS, ALLOWED_WIDTHS)
    blank = {"refuses-blank-input": lambda case: not case.inputs[IMAGE].any()}
    yield from in_refusals(OPERATOR, "NZC-5", refuse, "value", IMAGE, blank)


# -- which elements count ----------------------------------------------------------------------


def _but(unwanted: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: non_zero_bits(x) & ~np.asarray(unwanted(x))


def _signed_above_zero(x: Array) -> Array:
    if x.dtype.kind != "u":
        return non_zero_bits(x)
    return np.asarray(x.view(f"int{8 * x.dtype.itemsize}") > 0)


MASKS: dict[str, Callable[[Array], Array]] = {
    "nan-is-zero": _but(lambda x: x != x),
    "infinity-is-zero": _but(lambda x: np.isinf(x) & (x.dtype.kind == "f")),
    "minus-zero-is-found": lambda x: np.asarray(x.view(f"uint{8 * x.dtype.itemsize}") != 0),
    "positive-only": lambda x: np.asarray(x > 0),
    "only-ones": lambda x: np.asarray(x == 1),
    "lowest-is-zero": _but(lambda x: (np.abs(x) < 0) & (x.dtype.kind == "i")),
    "top-bit-is-a-sign": _signed_above_zero,
    "odd-only": lambda x: np.asarray(x & 1 != 0) if x.dtype.kind in "iu" else non_zero_bits(x),
}


# -- which order -------------------------------------------------------------------------------


def _column_major(mask: Array) -> Array:
    found = np.argwhere(mask)
    kept = found[np.lexsort(found.T)]
    return np.asarray(np.ravel_multi_index(tuple(kept.T), mask.shape))


def _blocks(mask: Array, size: int) -> list[Array]:
    found = row_major(mask)
    return [found[found // size == block] for block in range(mask.size // size + 1)]


def _blocks_swapped(size: int) -> Callable[[Array], Array]:
    return lambda mask: np.concatenate(_blocks(mask, size)[::-1])


def _even_first(mask: Array) -> Array:
    found = row_major(mask)
    return np.concatenate([found[found % 2 == 0], found[found % 2 == 1]])


def _among_first(limit: int) -> Callable[[Array], Array]:
    return lambda mask: np.flatnonzero(mask.reshape(-1)[:limit])


def _without_tail(size: int) -> Callable[[Array], Array]:
    """Leave out what is past the last whole block, unless there is no whole block."""
    return lambda mask: np.flatnonzero(mask.reshape(-1)[: mask.size // size * size or None])


def _seam_twice(mask: Array) -> Array:
    """Write the first element of a block of 64 twice, if the table has room."""
    found = row_major(mask)
    again = found[(found % 64 == 0) & (found > 0)][: mask.size - len(found)]
    return np.sort(np.concatenate([found, again]))


ORDERS: dict[str, Callable[[Array], Array]] = {
    "column-major": _column_major,
    "descending": lambda mask: row_major(mask)[::-1],
    "even-first": _even_first,
    "blocks-backwards": lambda mask: np.concatenate([b[::-1] for b in _blocks(mask, 32)]),
    "blocks-of-256-swapped": _blocks_swapped(256),
    "blocks-of-65536-swapped": _blocks_swapped(65536),
}
LOST: dict[str, Callable[[Array], Array]] = {
    "first-lost": lambda mask: np.flatnonzero(mask.reshape(-1)[1:]) + 1,
    "last-lost": lambda mask: _among_first(mask.size - 1)(mask),
    "last-hit-lost": lambda mask: row_major(mask)[:-1],
    "seam-twice": _seam_twice,
    **{f"tail-of-{size}-lost": _without_tail(size) for size in (4, 32, 128, 256)},
    **{f"only-first-{n}": _among_first(n) for n in (255, 256, 1000, 1024, 32768, 65535, 65536)},
}


# -- which coordinates -------------------------------------------------------------------------


def _flat(indices: Array, sizes: Sizes, width: int) -> Array:
    return np.pad(indices[:, None], ((0, 0), (width - 1, 0)))


def _left_aligned(indices: Array, sizes: Sizes, width: int) -> Array:
    """Drop leading sizes of 1, and put the zeros that are missing on the wrong side."""
    rows = last_axes(indices, sizes, effective_rank(sizes))
    return np.pad(rows, ((0, 0), (0, max(width - rows.shape[1], 0))))[:, :width]


def _squeezed(indices: Array, sizes: Sizes, width: int) -> Array:
    """Drop every size of 1, not only the leading ones."""
    kept = tuple(size for size in sizes if size != 1) or (1,)
    rows = last_axes(indices, kept, len(kept))
    return np.pad(rows, ((0, 0), (max(width - rows.shape[1], 0), 0)))


def _last_axes_only(depth: int) -> Callable[[Array, Sizes, int], Array]:
    """Keep 0 on the axes before the last ones."""
    return lambda indices, sizes, width: np.where(
        np.arange(width) < width - depth, 0, last_axes(indices, sizes, width)
    )


def _in(dtype: str) -> Callable[[Array, Sizes, int], Array]:
    return lambda indices, sizes, width: last_axes(indices, sizes, width).astype(dtype)


def _flat_in(dtype: str) -> Callable[[Array, Sizes, int], Array]:
    return lambda indices, sizes, width: last_axes(
        indices.astype(dtype).astype(np.int64) % max(int(np.prod(sizes)), 1), sizes, width
    )


COORDINATES: dict[str, Callable[[Array, Sizes, int], Array]] = {
    "first-axes": lambda i, s, n: last_axes(i, s, len(s))[:, :n],
    "axes-reversed": lambda i, s, n: last_axes(i, s, n)[:, ::-1],
    "one-based": lambda i, s, n: last_axes(i, s, n) + 1,
    "flat-index": _flat,
    "sizes-reversed": lambda i, s, n: last_axes(i, s[::-1], len(s))[:, ::-1][:, len(s) - n :],
    "left-aligned": _left_aligned,
    "squeezed": _squeezed,
    **{f"last-{depth}-axes": _last_axes_only(depth) for depth in (4, 5, 7)},
    "coordinates-in-8-bits": _in("uint8"),
    "coordinates-in-16-bits": _in("uint16"),
    "coordinates-in-signed-8-bits": _in("int8"),
    "index-in-8-bits": _flat_in("uint8"),
    "index-in-16-bits": _flat_in("uint16"),
    "index-in-float16": _flat_in("float16"),
}


# -- how many, and where in the table ----------------------------------------------------------


def _elements(call: Call) -> int:
    return int(call.inputs[IMAGE].size)


COUNTS: dict[str, Callable[[Array, Call], int]] = {
    "count-zeros": lambda rows, call: _elements(call) - len(rows),
    "count-elements": lambda rows, call: _elements(call),
    "count-at-least-1": lambda rows, call: max(len(rows), 1),
    "count-never-full": lambda rows, call: min(len(rows), max(_elements(call) - 1, 0)),
    "count-in-8-bits": lambda rows, call: len(rows) % 256,
    "count-saturates-at-255": lambda rows, call: min(len(rows), 255),
    "count-in-16-bits": lambda rows, call: len(rows) % 65536,
    "count-from-rows": lambda rows, call: int(rows.any(1).sum()),
    "count-from-last-column": lambda rows, call: int((rows[:, -1] != 0).sum()),
    "count-distinct": lambda rows, call: len(set(rows[:, 0].tolist())),
    "count-times-width": lambda rows, call: int(rows.size),
    "count-plus-1": lambda rows, call: len(rows) + 1,
}


def _moved(distance: Callable[[int, int], int]) -> Callable[[Array, Sizes], Array]:
    """Write the rows further down."""

    def table(rows: Array, sizes: Sizes) -> Array:
        flat = then_zeros(rows, sizes).reshape(sizes[-2:])
        return np.roll(flat, distance(len(rows), len(flat)), 0).reshape(sizes)

    return table


TABLES = {
    "rows-from-1": _moved(lambda found, room: 1),
    "rows-at-the-end": _moved(lambda found, room: room - found),
}
SIZES: dict[str, Callable[[Array, Case], Array]] = {
    "table-has-rank-2": lambda rows, case: rows.reshape(rows.shape[-2:]),
    "table-ends-at-count": lambda rows, case: rows[..., : np.count_nonzero(case.inputs[IMAGE]), :],
    "table-is-transposed": lambda rows, case: np.swapaxes(rows, -1, -2),
}


# -- how many columns are refused --------------------------------------------------------------


def _width(case: Case) -> int:
    return case.outputs[ROWS].sizes[-1]


def _sizes(case: Case) -> Sizes:
    return case.inputs[IMAGE].shape


def _lowest(case: Case) -> int:
    return max(effective_rank(_sizes(case)), 1)


def _without_ones(case: Case) -> int:
    return sum(size != 1 for size in _sizes(case))


def _between_ones(case: Case) -> int:
    """Return the rank that is left when sizes of 1 are dropped at both ends."""
    sizes = _sizes(case)
    return effective_rank(sizes[::-1]) - (len(sizes) - effective_rank(sizes))


WRONG_WIDTHS: dict[str, Callable[[Case], bool]] = {
    "accepts-narrow-rows": lambda case: 0 < _width(case) < _lowest(case),
    "accepts-wide-rows": lambda case: _width(case) > len(_sizes(case)),
    "accepts-no-columns": lambda case: _width(case) == 0,
    "accepts-no-columns-for-one-element": lambda case: (
        _width(case) == effective_rank(_sizes(case)) == 0
    ),
    "effective-rank-drops-all-ones": lambda case: (
        _without_ones(case) <= _width(case) < _lowest(case)
    ),
    "effective-rank-drops-trailing-ones": lambda case: (
        0 < _between_ones(case) <= _width(case) < _lowest(case)
    ),
    "widest-is-8": lambda case: len(_sizes(case)) < _width(case) <= 8,
    "widest-is-rank-plus-1": lambda case: _width(case) == len(_sizes(case)) + 1,
}
ALLOWED_WIDTHS: dict[str, Callable[[Case], bool]] = {
    "refuses-narrow-rows": lambda case: _width(case) < len(_sizes(case)),
    "refuses-wide-rows": lambda case: _width(case) > _lowest(case),
}
