"""Planted bugs that the three matrix products can have: shapes, batches, sums, parameters."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.convolution import wrapped
from ...suite.bugs.matmul import pair_batches, promote
from ...suite.bugs.record import VALUES, Bug, bug, in_output, in_reading
from ...suite.bugs.steps import Array, Call
from .convolution_bugs import CENTRED, clipped, is_long
from .convolution_bugs import STEPS as CONVOLUTION_STEPS
from .planted_bugs import Answers, Steps, Ways, plant

A, B, OUTPUT = "ATensor", "BTensor", "OutputTensor"
A_POINT, B_POINT = "AZeroPointTensor", "BZeroPointTensor"
A_SCALE, B_SCALE = "AScaleTensor", "BScaleTensor"
OUTPUT_SCALE, OUTPUT_POINT, BIAS = "OutputScaleTensor", "OutputZeroPointTensor", "BiasTensor"


def roles(clauses: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return clauses and roles of the fields that every product has."""
    return {
        A: (clauses["sum"], "axes"),
        B: (clauses["sum"], "axes"),
        A_POINT: (f"{clauses['sum']} {clauses['points']}", "zero-point elements"),
        B_POINT: (f"{clauses['sum']} {clauses['points']}", "zero-point elements"),
    }


def of_every(operator: str, clauses: Mapping[str, str]) -> Iterator[Bug]:
    """Yield the bugs of sums, shapes and refusals, their topics exchanged for the clauses."""
    for (topic, part, step), ways in STEPS.items():
        yield from plant(operator, {(clauses[topic], part, step): ways}, {}, {})
    yield from in_output(operator, clauses["rank"], OUTPUT, AXES_OF_OUTPUT)
    for (topic, answer, code, field), calls in ANSWERS.items():
        yield from plant(operator, {}, {}, {(clauses[topic], answer, code, field): calls})
    for tensor, other in ((A, B), (B, A)):
        label = "a" if tensor == A else "b"
        types = {f"{label}-with-type-of-other": _with_type_of(other)}
        yield from in_reading(operator, clauses["type"], tensor, types)
    for name in (A_POINT, B_POINT):
        label = "a" if name == A_POINT else "b"
        yield from in_reading(operator, clauses["points"], name, exchanged(f"{label}-zero-point"))
    swapped = _with_each_others_points
    yield bug(operator, "zero-points-swapped", clauses["points"], VALUES, read=swapped)


def exchanged(label: str) -> Ways:
    """Return the ways to take a parameter of rows for one of columns, and the reverse."""
    return {f"{label}-on-the-other-axis": _on_other_axis}


def _on_other_axis(own: Array, call: Call) -> Array:
    """Turn a parameter where all matrices are square."""
    a, b = promote(call.inputs[A], call.inputs[B])
    if own.size == 1 or len({*a.shape[-2:], *b.shape[-2:]}) > 1:
        return own
    return np.swapaxes(own, -1, -2) if own.ndim > 1 else own[:, None]


def _with_type_of(other: str) -> Callable[[Any, Call], Array]:
    """Read the bits of an operand in the data type of the other."""
    return lambda own, call: own.view(call.inputs[other].dtype) if own.itemsize == 1 else own


def _with_each_others_points(call: Call) -> Call:
    """Subtract from each operand the zero point of the other, where each is one value."""
    one, two = (call.inputs.get(name, np.zeros((), np.int8)) for name in (A_POINT, B_POINT))
    if one.size > 1 or two.size > 1:
        return call
    return call._replace(inputs={**call.inputs, A_POINT: two, B_POINT: one})


# -- batches and shapes ------------------------------------------------------------------------


def _paired(
    change: Callable[[Array, tuple[int, ...]], Array], a: Array, b: Array
) -> tuple[Array, Array]:
    """Repeat the matrices of each operand to the batch in another order."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    first, second = (
        change(each.reshape(-1, *each.shape[-2:]), batch).reshape(*batch, *each.shape[-2:])
        if batch != each.shape[:-2] and each.size
        else pair_batches(a, b)[place]
        for place, each in enumerate((a, b))
    )
    return first, second


def _count(batch: tuple[int, ...]) -> int:
    return int(np.prod(batch))


def _aligned_left(a: Array, b: Array) -> tuple[Array, Array]:
    """Repeat along the last axes of a batch, as if sizes aligned on the left."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    found = []
    for place, each in enumerate((a, b)):
        own = each.shape[:-2]
        left = (*own, *[1] * (len(batch) - len(own)))
        fits = all(x in (1, y) for x, y in zip(left, batch, strict=True))
        turned = each.reshape(*left, *each.shape[-2:]) if fits else pair_batches(a, b)[place]
        found.append(np.broadcast_to(turned, (*batch, *each.shape[-2:])))
    return found[0], found[1]


def _turned(a: Array, b: Array) -> tuple[Array, Array]:
    """Take B for its transpose where it is square."""
    return pair_batches(a, np.swapaxes(b, -1, -2) if b.shape[-1] == b.shape[-2] else b)


def _turned_a(a: Array, b: Array) -> tuple[Array, Array]:
    return pair_batches(np.swapaxes(a, -1, -2) if a.shape[-1] == a.shape[-2] else a, b)


def _b_row_first(a: Array, b: Array) -> tuple[Array, Array]:
    """Read B as if it were held column by column."""
    turned = b.reshape(*b.shape[:-2], b.shape[-1], b.shape[-2])
    return pair_batches(a, np.swapaxes(turned, -1, -2))


def _kept(y: Array, case: Case) -> Array:
    """Keep the axes that operands of rank 1 do not have."""
    if case.desc is not None:
        return y
    whole = y[..., None] if case.inputs[B].ndim == 1 else y
    return whole[..., None, :] if case.inputs[A].ndim == 1 else whole


def _lost(y: Array, case: Case) -> Array:
    """Drop the axis of one row, whatever the rank of A is."""
    is_product = case.desc is None and min(case.inputs[A].ndim, case.inputs[B].ndim) > 1
    return y[..., 0, :] if is_product and y.shape[-2] == 1 else y


IMPLIED = dict.fromkeys(
    (A_POINT, B_POINT, OUTPUT_POINT, BIAS),
    "its data type is another tensor's, and its DimensionCount that of other tensors",
)


def _in_blocks(size: int, fill: Callable[[Array], Any], products: Array) -> Array:
    """Compute whole blocks of columns only; the rest of more than one block is something else."""
    sums = products.sum(1)
    left = sums.shape[-1] // size * size
    if 0 < left < sums.shape[-1]:
        sums[..., left:] = fill(sums[..., left:])
    return np.asarray(sums)


def _rows_lost(size: int, a: Array, b: Array) -> tuple[Array, Array]:
    """Leave the rows of A beyond whole blocks 0."""
    left = a.shape[-2] // size * size
    if 0 < left < a.shape[-2]:
        a = a.copy()
        a[..., left:, :] = 0
    return pair_batches(a, b)


AXES_OF_OUTPUT: Ways = {
    "keeps-axes-of-rank-1": _kept,
    "drops-axis-of-one-row": _lost,
}
STEPS: Steps = {  # by topic
    ("points", "sums", "centre_a"): {f"a-{name}": way for name, way in CENTRED.items()},
    ("points", "sums", "centre_b"): {f"b-{name}": way for name, way in CENTRED.items()},
    ("shape", "sums", "pair"): {
        "batch-cycled": partial(
            _paired, lambda own, batch: np.resize(own, (_count(batch), *own.shape[1:]))
        ),
        "batch-stretched": partial(
            _paired,
            lambda own, batch: np.repeat(own, -(-_count(batch) // len(own)), 0)[: _count(batch)],
        ),
        "batch-is-first-matrix": partial(
            _paired, lambda own, batch: np.repeat(own[:1], _count(batch), 0)
        ),
        "batch-aligned-left": _aligned_left,
    },
    ("sum", "sums", "pair"): {
        "b-turned": _turned,
        "a-turned": _turned_a,
        "b-held-by-columns": _b_row_first,
        **{f"rows-beyond-{size}s-lost": partial(_rows_lost, size) for size in (2, 4, 8, 16, 32)},
    },
    ("sum", "sums", "total"): {
        **CONVOLUTION_STEPS["sum", "sums", "total"],
        **{
            f"columns-beyond-{size}s-lost": partial(_in_blocks, size, lambda own: 0)
            for size in (2, 4, 8, 16, 32, 64)
        },
    },
    ("overflow", "sums", "wrap"): {
        "sums-saturate": lambda sums: clipped(sums, 32),
        "sums-never-wrap": lambda sums: np.asarray(np.abs(wrapped(sums)) * np.sign(sums)),
    },
}


# -- refusals ----------------------------------------------------------------------------------


def _batches(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return case.inputs[A].shape[:-2], case.inputs[B].shape[:-2]


def _inner(case: Case) -> int:
    """Return by how much the rows of B exceed the columns of A, if both have axes."""
    a, b = case.inputs[A], case.inputs[B]
    if not a.ndim or not b.ndim:
        return 0
    return int(b.shape[-2 if b.ndim > 1 else 0] - a.shape[-1])


def _is_batch_wrong(case: Case) -> bool:
    try:
        np.broadcast_shapes(*_batches(case))
    except ValueError:
        return _inner(case) == 0
    return False


def _is_flat(name: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[name].ndim == 1


def _is_by_inner(name: str) -> Callable[[Case], bool]:
    """Return whether a parameter has one value for each product of a sum."""
    return lambda case: case.inputs[name].size == case.inputs[A].shape[-1]


def _has_batch(name: str) -> Callable[[Case], bool]:
    return lambda case: (
        name in case.inputs and any(size > 1 for size in case.inputs[name].shape[:-2])
    )


ANSWERS: Answers = {  # by topic
    ("shape", "accept", "sizes", B): {
        "accepts-fewer-rows-of-b": lambda case: _inner(case) < 0,
        "accepts-more-rows-of-b": lambda case: _inner(case) > 0,
        "accepts-batches-that-differ": _is_batch_wrong,
    },
    ("shape", "refuse", "sizes", B): {
        "refuses-batches-that-repeat": lambda case: _batches(case)[0] != _batches(case)[1],
        "refuses-batches-that-both-repeat": lambda case: (
            np.broadcast_shapes(*_batches(case)) not in _batches(case)
        ),
        "refuses-ranks-that-differ": lambda case: case.inputs[A].ndim != case.inputs[B].ndim,
    },
    ("rank", "refuse", "dimension_count", A): {
        "refuses-a-of-rank-1": lambda case: case.inputs[A].ndim == 1,
        "refuses-a-of-rank-5": lambda case: case.inputs[A].ndim == 5,
    },
    ("rank", "refuse", "dimension_count", B): {
        "refuses-b-of-rank-1": lambda case: case.inputs[B].ndim == 1,
        "refuses-b-of-rank-5": lambda case: case.inputs[B].ndim == 5,
    },
    ("type", "refuse", "data_type", B): {
        "refuses-mixed-types": lambda case: case.inputs[A].dtype != case.inputs[B].dtype,
        "refuses-int8-a-with-uint8-b": lambda case: (
            case.inputs[A].dtype == "int8" and case.inputs[B].dtype == "uint8"
        ),
    },
    ("points", "accept", "sizes", A_POINT): {
        "accepts-flat-a-zero-points": _is_flat(A_POINT),
        "accepts-a-zero-points-by-k": _is_by_inner(A_POINT),
    },
    ("points", "accept", "sizes", B_POINT): {
        "accepts-b-zero-points-by-k": _is_by_inner(B_POINT),
    },
    ("points", "refuse", "sizes", A_POINT): {
        "refuses-a-zero-points": is_long(A_POINT),
        "refuses-a-zero-points-of-a-batch": _has_batch(A_POINT),
    },
    ("points", "refuse", "sizes", B_POINT): {
        "refuses-b-zero-points": is_long(B_POINT),
        "refuses-b-zero-points-of-a-batch": _has_batch(B_POINT),
        "refuses-b-zero-points-of-rank-1": lambda case: (
            is_long(B_POINT)(case) and case.inputs[B_POINT].ndim == 1
        ),
    },
}
