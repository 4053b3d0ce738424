"""Planted bugs of NONZERO_COORDINATES."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.descs import DescRules
from ...suite.bugs.nonzero import Nonzero, last_axes, non_zero_bits, row_major, then_zeros
from ...suite.bugs.permitted import INDICES, UNDEFINED_ROWS
from ...suite.bugs.readings import outputs, readings
from ...suite.bugs.record import Bug
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array, Call, Sizes
from .._shared.planted_bugs import Answers, Outputs, Steps, plant
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
    yield from plant(OPERATOR, STEPS, OUTPUTS, ANSWERS)


def differing(parts: Mapping[str, Any], call: Call) -> Array:
    """Return on which elements of the input a mask or a row is wrong; on all if the count is."""
    own, right = parts["nonzero"], PARTS["nonzero"]
    x, width = call.inputs[IMAGE], call.outputs[ROWS].sizes[-1]
    mask = right.mask(x)
    indices = right.order(mask)
    rows = right.locate(indices, x.shape, width)
    wrong = (own.mask(x) != mask).reshape(-1)
    wrong[indices] |= np.any(own.locate(indices, x.shape, width) != rows, axis=1)
    return np.asarray(wrong | (own.count(rows, call) != right.count(rows, call)))


# -- which elements count, and in which order --------------------------------------------------


def _but(unwanted: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: non_zero_bits(x) & ~np.asarray(unwanted(x))


def _as_int(x: Array, kind: str) -> Array:
    return x.view(f"{kind}{8 * x.dtype.itemsize}")


def _column_major(mask: Array) -> Array:
    found = np.argwhere(mask)
    return np.asarray(np.ravel_multi_index(tuple(found[np.lexsort(found.T)].T), mask.shape))


def _blocks(mask: Array, size: int) -> list[Array]:
    found = row_major(mask)
    return [found[found // size == block] for block in range(mask.size // size + 1)]


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


# -- which coordinates, and where in the table -------------------------------------------------


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
    return lambda i, sizes, n: np.where(np.arange(n) < n - depth, 0, last_axes(i, sizes, n))


def _in(dtype: str) -> Callable[[Array, Sizes, int], Array]:
    return lambda i, sizes, n: last_axes(i, sizes, n).astype(dtype)


def _flat_in(dtype: str) -> Callable[[Array, Sizes, int], Array]:
    return lambda i, sizes, n: last_axes(i.astype(dtype).astype(int) % prod(sizes), sizes, n)


def _elements(call: Call) -> int:
    return int(call.inputs[IMAGE].size)


def _moved(rows: Array, sizes: Sizes, distance: int) -> Array:
    """Write the rows further down."""
    flat = then_zeros(rows, sizes).reshape(sizes[-2:])
    return np.roll(flat, distance, 0).reshape(sizes)


STEPS: Steps = {
    ("NZC-2 NZC-7", "nonzero", "mask"): {
        "nan-is-zero": _but(lambda x: x != x),
        "infinity-is-zero": _but(lambda x: np.isinf(x) & (x.dtype.kind == "f")),
        "minus-zero-is-found": lambda x: _as_int(x, "uint") != 0,
        "positive-only": lambda x: x > 0,
        "only-ones": lambda x: x == 1,
        "lowest-is-zero": _but(lambda x: (np.abs(x) < 0) & (x.dtype.kind == "i")),
        "top-bit-is-a-sign": lambda x: (
            _as_int(x, "int") > 0 if x.dtype.kind == "u" else non_zero_bits(x)
        ),
        "odd-only": lambda x: x & 1 != 0 if x.dtype.kind in "iu" else non_zero_bits(x),
    },
    ("NZC-4", "nonzero", "order"): {
        "column-major": _column_major,
        "descending": lambda mask: row_major(mask)[::-1],
        "even-first": lambda mask: np.array(sorted(row_major(mask), key=lambda i: i % 2), int),
        "blocks-backwards": lambda mask: np.concatenate([b[::-1] for b in _blocks(mask, 32)]),
        "blocks-of-256-swapped": lambda mask: np.concatenate(_blocks(mask, 256)[::-1]),
        "blocks-of-65536-swapped": lambda mask: np.concatenate(_blocks(mask, 65536)[::-1]),
    },
    ("NZC-1 NZC-5", "nonzero", "order"): {
        "first-lost": lambda mask: np.flatnonzero(mask.reshape(-1)[1:]) + 1,
        "last-lost": lambda mask: _among_first(mask.size - 1)(mask),
        "last-hit-lost": lambda mask: row_major(mask)[:-1],
        "seam-twice": _seam_twice,
        **{f"tail-of-{size}-lost": _without_tail(size) for size in (4, 32, 128, 256)},
        **{f"only-first-{n}": _among_first(n) for n in (255, 256, 1000, 1024, 32768, 65535, 65536)},
    },
    ("NZC-1 NZC-3 NZC-8", "nonzero", "locate"): {
        "first-axes": lambda i, s, n: last_axes(i, s, len(s))[:, :n],
        "axes-reversed": lambda i, s, n: last_axes(i, s, n)[:, ::-1],
        "one-based": lambda i, s, n: last_axes(i, s, n) + 1,
        "flat-index": lambda i, s, n: np.pad(i[:, None], ((0, 0), (n - 1, 0))),
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
    },
    ("NZC-5", "nonzero", "count"): {
        "count-zeros": lambda rows, call: _elements(call) - len(rows),
        "count-elements": lambda rows, call: _elements(call),
        "count-at-least-1": lambda rows, call: max(len(rows), 1),
        "count-never-full": lambda rows, call: min(len(rows), max(_elements(call) - 1, 0)),
        "count-in-8-bits": lambda rows, call: len(rows) % 256,
        "count-saturates-at-255": lambda rows, call: min(len(rows), 255),
        "count-in-16-bits": lambda rows, call: len(rows) % 65536,
        "count-from-rows": lambda rows, call: rows.any(1).sum(),
        "count-from-last-column": lambda rows, call: (rows[:, -1] != 0).sum(),
        "count-distinct": lambda rows, call: len(set(rows[:, 0].tolist())),
        "count-times-width": lambda rows, call: rows.size,
        "count-plus-1": lambda rows, call: len(rows) + 1,
    },
    ("NZC-1 NZC-6", "nonzero", "table"): {
        "rows-from-1": lambda rows, sizes: _moved(rows, sizes, 1),
        "rows-at-the-end": lambda rows, sizes: _moved(rows, sizes, sizes[-2] - len(rows)),
    },
}
OUTPUTS: Outputs = {
    ("NZC-6", ROWS): {
        "table-has-rank-2": lambda rows, case: rows.reshape(rows.shape[-2:]),
        "table-ends-at-count": lambda rows, case: rows[
            ..., : np.count_nonzero(case.inputs[IMAGE]), :
        ],
        "table-is-transposed": lambda rows, case: np.swapaxes(rows, -1, -2),
    },
}


# -- how many columns are refused --------------------------------------------------------------


def _is_width(test: Callable[[int, Sizes, int], bool], case: Case) -> bool:
    """Test the width, the sizes of the input, and the lowest width that they allow."""
    sizes = case.inputs[IMAGE].shape
    return test(case.outputs[ROWS].sizes[-1], sizes, max(effective_rank(sizes), 1))


def _between_ones(sizes: Sizes) -> int:
    """Return the rank that is left when sizes of 1 are dropped at both ends."""
    return effective_rank(sizes[::-1]) - (len(sizes) - effective_rank(sizes))


ANSWERS: Answers = {
    ("NZC-3", "accept", "sizes", ROWS): {
        "accepts-narrow-rows": partial(_is_width, lambda n, sizes, least: 0 < n < least),
        "accepts-wide-rows": partial(_is_width, lambda n, sizes, least: n > len(sizes)),
        "accepts-no-columns": partial(_is_width, lambda n, sizes, least: n == 0),
        "accepts-no-columns-for-one-element": partial(
            _is_width, lambda n, sizes, least: n == effective_rank(sizes) == 0
        ),
        "effective-rank-drops-all-ones": partial(
            _is_width, lambda n, sizes, least: sum(size != 1 for size in sizes) <= n < least
        ),
        "effective-rank-drops-trailing-ones": partial(
            _is_width, lambda n, sizes, least: 0 < _between_ones(sizes) <= n < least
        ),
        "widest-is-8": partial(_is_width, lambda n, sizes, least: len(sizes) < n <= 8),
        "widest-is-rank-plus-1": partial(_is_width, lambda n, sizes, least: n == len(sizes) + 1),
    },
    ("NZC-3", "refuse", "sizes", ROWS): {
        "refuses-narrow-rows": partial(_is_width, lambda n, sizes, least: n < len(sizes)),
        "refuses-wide-rows": partial(_is_width, lambda n, sizes, least: n > least),
    },
    ("NZC-5", "refuse", "value", IMAGE): {
        "refuses-blank-input": lambda case: not case.inputs[IMAGE].any(),
    },
}
