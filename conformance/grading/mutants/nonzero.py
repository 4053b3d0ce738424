"""The coordinates of elements that are not zero: the steps, and how they go wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.oracle.nonzero import effective_rank
from dmlax_conformance.runner.adapter import Case

from .engine.mutant import Table
from .engine.steps import Array, Call, Outputs, Sizes
from .family import load

IMAGE, COUNT, ROWS = "InputTensor", "OutputCountTensor", "OutputCoordinatesTensor"


def non_zero(x: Array) -> Array:
    """Mark elements with a bit other than the sign of a float."""
    return np.asarray((x.view(f"u{x.dtype.itemsize}") << 1 if x.dtype.kind == "f" else x) != 0)


def last_axes(indices: Array, sizes: Sizes, width: int) -> Array:
    """Return the coordinates on the last `width` axes, one row for every index."""
    return np.stack(np.unravel_index(indices, sizes), -1)[:, len(sizes) - width :]


def filled(value: Callable[[Array, Sizes], Any], rows: Array, sizes: Sizes) -> Array:
    """Return a table of the sizes asked for; what is below the rows is undefined."""
    table = np.full(sizes, value(rows, sizes), np.uint32)
    table.reshape(sizes[-2:])[: len(rows)] = rows
    return table


then_zeros = partial(filled, lambda rows, sizes: 0)


@dataclass(frozen=True)
class Nonzero:
    """The steps, in order; `order` takes ascending row-major indices, and the mask."""

    mask: Callable[[Array], Array] = non_zero
    order: Callable[[Array, Array], Array] = lambda i, mask: i
    locate: Callable[[Array, Sizes, int], Array] = last_axes
    count: Callable[[Array, int], int] = lambda rows, size: len(rows)
    table: Callable[[Array, Sizes], Array] = then_zeros

    def __call__(self, call: Call) -> Outputs:
        """Return the count and the table of coordinates."""
        x, sizes = call.inputs[IMAGE], call.outputs[ROWS].sizes
        mask = self.mask(x)
        rows = self.locate(self.order(np.flatnonzero(mask), mask), x.shape, sizes[-1])
        count = np.full(call.outputs[COUNT].sizes, self.count(rows, x.size), np.uint32)
        return {COUNT: count, ROWS: self.table(rows, sizes)}


PARTS = {"nonzero": Nonzero()}


def differing(parts: Mapping[str, Any], call: Call) -> Array:
    """Return on which elements of the input a mask or a row is wrong; on all if the count is."""
    changed, right = parts["nonzero"], PARTS["nonzero"]
    x, width = call.inputs[IMAGE], call.outputs[ROWS].sizes[-1]
    mask = right.mask(x)
    indices = np.flatnonzero(mask)
    rows = right.locate(indices, x.shape, width)
    wrong = (changed.mask(x) != mask).reshape(-1)
    wrong[indices] |= np.any(changed.locate(indices, x.shape, width) != rows, axis=1)
    return np.asarray(wrong | (changed.count(rows, x.size) != len(rows)))


def _by(key: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda i, mask: i[np.argsort(key(i), kind="stable")]


def _squeezed(indices: Array, sizes: Sizes, width: int) -> Array:
    """Drop every size of 1, not only the leading ones."""
    kept = tuple(size for size in sizes if size != 1) or (1,)
    return np.pad(last_axes(indices, kept, len(kept)), [(0, 0), (width, 0)])[:, -width:]


def _if(test: Callable[[int, Sizes, int], bool]) -> Callable[[Case], bool]:
    """Test the width, the sizes of the input, and the lowest width that they allow."""

    def when(case: Case) -> bool:
        sizes = case.inputs[IMAGE].shape
        return test(case.outputs[ROWS].sizes[-1], sizes, max(effective_rank(sizes), 1))

    return when


def _between_ones(sizes: Sizes) -> int:
    """Return the rank that is left when sizes of 1 are dropped at both ends."""
    return effective_rank(sizes[::-1]) - (len(sizes) - effective_rank(sizes))


def _by_reciprocal(axis: int, outputs: Outputs, case: Case) -> Outputs:
    """Divide indices by the sizes behind an axis as products with a float32."""
    x, table = case.inputs[IMAGE], outputs[ROWS].copy()
    if case.desc or table.shape[-1] != x.ndim or x.ndim < -axis:
        return outputs
    rows = table.reshape(-1, x.ndim)[: int(outputs[COUNT].reshape(-1)[0])]
    inner = np.float32(prod(x.shape[axis + 1 :]))
    indices = np.ravel_multi_index(tuple(rows.T), x.shape).astype(np.float32)
    rows[:, axis] = (indices * (np.float32(1) / inner)).astype(int) % x.shape[axis]
    return {**outputs, ROWS: table}


TABLE: Table = {  # by clauses and place
    ("NZC-2 NZC-7", "nonzero.mask"): {
        "nan-is-zero": lambda x: non_zero(x) & (x == x),
        "infinity-is-zero": lambda x: non_zero(x) & ~np.isinf(x),
        "minus-zero-is-found": lambda x: x.view(f"u{x.dtype.itemsize}") != 0,
        "positive-only": lambda x: x > 0,
        "only-ones": lambda x: x == 1,
        "lowest-is-zero": lambda x: non_zero(x) & ~(np.abs(x) < 0),
        "top-bit-is-a-sign": lambda x: (
            x.view(f"i{x.dtype.itemsize}") > 0 if x.dtype.kind == "u" else non_zero(x)
        ),
        "odd-only": lambda x: x & 1 != 0 if x.dtype.kind in "iu" else non_zero(x),
    },
    ("NZC-4", "nonzero.order"): {
        "column-major": lambda i, mask: np.arange(mask.size).reshape(mask.shape).T[mask.T],
        "descending": lambda i, mask: i[::-1],
        "even-first": _by(lambda i: i % 2),
        "blocks-backwards": _by(lambda i: i // 32 * 64 - i % 32),
        "blocks-of-256-swapped": _by(lambda i: -(i // 256)),
        "blocks-of-65536-swapped": _by(lambda i: -(i // 65536)),
    },
    ("NZC-1 NZC-5", "nonzero.order"): {
        "first-lost": lambda i, mask: i[i > 0],
        "last-lost": lambda i, mask: i[i < mask.size - 1],
        "last-hit-lost": lambda i, mask: i[:-1],
        "seam-twice": lambda i, mask: np.sort(
            np.append(i, i[(i % 64 == 0) & (i > 0)][: mask.size - len(i)])
        ),
        **{
            f"tail-of-{n}-lost": lambda i, mask, n=n: i[i < (mask.size // n * n or mask.size)]
            for n in (4, 32, 128, 256)
        },
        **{
            f"only-first-{n}": lambda i, mask, n=n: i[i < n]
            for n in (255, 256, 1000, 1024, 32768, 65535, 65536)
        },
    },
    ("NZC-1 NZC-3 NZC-8", "nonzero.locate"): {
        "first-axes": lambda i, s, n: last_axes(i, s, len(s))[:, :n],
        "axes-reversed": lambda i, s, n: last_axes(i, s, n)[:, ::-1],
        "one-based": lambda i, s, n: last_axes(i, s, n) + 1,
        "flat-index": lambda i, s, n: np.pad(i[:, None], [(0, 0), (n - 1, 0)]),
        "sizes-reversed": lambda i, s, n: last_axes(i, s[::-1], len(s))[:, ::-1][:, len(s) - n :],
        "left-aligned": lambda i, s, n: np.pad(
            last_axes(i, s, effective_rank(s)), [(0, 0), (0, n)]
        )[:, :n],
        "squeezed": _squeezed,
        "last-4-axes": lambda i, s, n: last_axes(i, s, n) * (np.arange(n) >= n - 4),
        "last-5-axes": lambda i, s, n: last_axes(i, s, n) * (np.arange(n) >= n - 5),
        "last-7-axes": lambda i, s, n: last_axes(i, s, n) * (np.arange(n) >= n - 7),
        "coordinates-in-8-bits": lambda i, s, n: last_axes(i, s, n).astype("uint8"),
        "coordinates-in-16-bits": lambda i, s, n: last_axes(i, s, n).astype("uint16"),
        "coordinates-in-signed-8-bits": lambda i, s, n: last_axes(i, s, n).astype("int8"),
        "index-in-8-bits": lambda i, s, n: last_axes(i.astype("u1").astype(int) % prod(s), s, n),
        "index-in-16-bits": lambda i, s, n: last_axes(i.astype("u2").astype(int) % prod(s), s, n),
        "index-in-float16": lambda i, s, n: last_axes(i.astype("f2").astype(int) % prod(s), s, n),
    },
    ("NZC-1", "whole"): {
        f"gap-axis{axis}-by-reciprocal": {"finish": partial(_by_reciprocal, axis)}
        for axis in (-2, -3)
    },
    ("NZC-5", "nonzero.count"): {
        "count-zeros": lambda rows, size: size - len(rows),
        "count-elements": lambda rows, size: size,
        "count-at-least-1": lambda rows, size: max(len(rows), 1),
        "count-never-full": lambda rows, size: min(len(rows), max(size - 1, 0)),
        "count-in-8-bits": lambda rows, size: len(rows) % 256,
        "count-saturates-at-255": lambda rows, size: min(len(rows), 255),
        "count-in-16-bits": lambda rows, size: len(rows) % 65536,
        "count-from-rows": lambda rows, size: rows.any(1).sum(),
        "count-from-last-column": lambda rows, size: (rows[:, -1] != 0).sum(),
        "count-distinct": lambda rows, size: len(set(rows[:, 0].tolist())),
        "count-times-width": lambda rows, size: rows.size,
        "count-plus-1": lambda rows, size: len(rows) + 1,
    },
    ("NZC-1 NZC-6", "nonzero.table"): {
        "rows-from-1": lambda rows, sizes: np.roll(then_zeros(rows, sizes), 1, -2),
        "rows-at-the-end": lambda rows, sizes: np.roll(then_zeros(rows, sizes), -len(rows), -2),
    },
    ("NZC-6", f"output {ROWS}"): {
        "table-has-rank-2": lambda rows, case: rows.reshape(rows.shape[-2:]),
        "table-ends-at-count": lambda rows, case: rows[
            ..., : np.count_nonzero(case.inputs[IMAGE]), :
        ],
        "table-is-transposed": lambda rows, case: np.swapaxes(rows, -1, -2),
    },
    ("NZC-3", f"accept sizes {ROWS}"): {
        "accepts-narrow-rows": _if(lambda n, s, least: 0 < n < least),
        "accepts-wide-rows": _if(lambda n, s, least: n > len(s)),
        "accepts-no-columns": _if(lambda n, s, least: n == 0),
        "accepts-no-columns-for-one-element": _if(lambda n, s, least: n == effective_rank(s) == 0),
        "effective-rank-drops-all-ones": _if(
            lambda n, s, least: sum(size != 1 for size in s) <= n < least
        ),
        "effective-rank-drops-trailing-ones": _if(
            lambda n, s, least: 0 < _between_ones(s) <= n < least
        ),
        "widest-is-8": _if(lambda n, s, least: len(s) < n <= 8),
        "widest-is-rank-plus-1": _if(lambda n, s, least: n == len(s) + 1),
    },
    ("NZC-3", f"refuse sizes {ROWS}"): {
        "refuses-narrow-rows": _if(lambda n, s, least: n < len(s)),
        "refuses-wide-rows": _if(lambda n, s, least: n > least),
    },
    ("NZC-5", f"refuse value {IMAGE}"): {
        "refuses-blank-input": lambda case: not case.inputs[IMAGE].any(),
    },
    ("NZC-6", "permitted nonzero.table"): {  # rows beyond the count are undefined
        "rows-all-ones": partial(filled, lambda rows, sizes: 2**32 - 1),
        "rows-sentinel": partial(filled, lambda rows, sizes: sizes[-2]),
        "rows-repeat": partial(filled, lambda rows, sizes: rows[-1] if len(rows) else 0),
        "rows-garbage": partial(filled, lambda rows, sizes: np.arange(prod(sizes)).reshape(sizes)),
        "rows-zero": then_zeros,
    },
    ("NZC-4", "permitted nonzero.order"): {
        "running-count": lambda i, mask: np.searchsorted(np.cumsum(mask), np.arange(len(i)) + 1)
    },
}


MUTANTS = load(
    "nonzero",
    {"nonzero_coordinates": PARTS},
    TABLE,
    differing,
)
