"""Derive bugs from the fields of an operator: one is misread, or returned wrongly."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...format.layout import ELEMENT_BITS
from ...operators import OPERATORS
from ...operators.tables import Row
from ..adapter import Case
from .record import VALUES, Bug, bug, in_output, in_reading
from .refusals import kebab
from .steps import Array, Call, Outputs

Ways = Mapping[str, Callable[[Any, Call], Any]]
WRONG_TYPES = ("int32", "int64", "uint32", "float64")


def readings(
    operator: str, roles: Mapping[str, tuple[str, str]], extensions: str = ""
) -> Iterator[Bug]:
    """Yield the bugs of fields, or of several at once, whose clauses and roles are given.

    `extensions` are data types of the input beyond DirectML's.
    """
    allowed = {row.tensor: row.data_types for row in OPERATORS[operator].tensors}
    types = {name: [each.lower() for each in sorted(own)] for name, own in allowed.items()}
    types[next(iter(types))] += extensions.split()
    for fields, (clause, words) in roles.items():
        label, own = "-and-".join(map(kebab, fields.split())), types.get(fields.split()[0], [])
        for role in words.split():
            ways = ROLES[role] if role in ROLES else _of_types(own, OF_TYPE[role])
            named = {f"{label}-{name}": way for name, way in ways.items()}
            yield from in_reading(operator, clause, fields, named)


def _of_types(types: list[str], of_type: Callable[[str], Ways]) -> Ways:
    """Return the ways to misread each data type that a tensor may have."""
    return {f"{each}-{name}": way for each in types for name, way in of_type(each).items()}


# -- axes and elements -------------------------------------------------------------------------


def _element_wise(change: Callable[[Array], Array]) -> Callable[[Any, Call], Any]:
    """Change the elements in the order of the row-major index."""
    return lambda own, call: change(own.reshape(-1)).reshape(own.shape)


def _flipped(*axes: int) -> Callable[[Any, Call], Any]:
    return lambda own, call: np.flip(
        own, tuple(axis for axis in axes if -own.ndim <= axis < own.ndim)
    )


def _swapped(one: int, two: int, rank: int, own: Any, call: Call) -> Any:
    """Swap two axes that are equally long, from a rank on."""
    changed = np.swapaxes(own, one, two) if own.ndim >= rank else own
    return changed if changed.shape == own.shape else own


def _channels_last(own: Any, call: Call) -> Any:
    sizes = (own.shape[0], *own.shape[2:], own.shape[1]) if own.ndim > 2 else own.shape
    return np.moveaxis(own.reshape(sizes), -1, 1) if own.ndim > 2 else own


AXES: Ways = {
    "channels-last": _channels_last,
    "batch-reversed": _flipped(0),
    "batch-is-first": lambda own, call: np.broadcast_to(own[:1] if own.ndim else own, own.shape),
    "channels-reversed": _flipped(1),
    "flipped": _flipped(2, 3),
    "flipped-on-last-axis": _flipped(-1),
    "transposed": partial(_swapped, -1, -2, 4),
    "axes-swapped": partial(_swapped, 0, 1, 2),
}
ELEMENTS: Ways = {
    "first-for-all": _element_wise(lambda own: np.repeat(own[:1], own.size)),
    "last-for-all": _element_wise(lambda own: np.repeat(own[-1:], own.size)),
    "reversed": _element_wise(lambda own: own[::-1]),
    "rolled": _element_wise(lambda own: np.roll(own, 1)),
}


def _entries(low: int) -> Ways:
    return {
        "reversed": lambda own, call: own[::-1],
        "first-for-all": lambda own, call: own[:1] * len(own),
        "ignored-on-first-axis": lambda own, call: [low, *own[1:]],
        "ignored-on-last-axis": lambda own, call: [*own[:-1], low],
    }


# -- values ------------------------------------------------------------------------------------


def cast(source: str, *through: str) -> Callable[[Any, Call], Any]:
    """Read elements of one data type through others, and back unless the last is the sign's."""

    def way(own: Any, call: Call) -> Any:
        if own.dtype.name != source:
            return own
        for dtype in through:
            own = own.astype(dtype)
        return own

    return way


BITS = {name.lower(): bits for name, bits in ELEMENT_BITS.items()}


def _narrowed(dtype: str) -> Ways:
    half = f"{dtype.rstrip('0123456789')}{BITS.get(dtype, 0) // 2}"
    ways = {f"as-{half}": cast(dtype, half, dtype)} if BITS.get(half, 0) >= 8 else {}
    if not dtype.startswith("float"):
        return ways
    return {**ways, "truncated": cast(dtype, "int32", dtype), "flushed": partial(_flushed, dtype)}


def _with_other_sign(dtype: str) -> Ways:
    other = dtype[1:] if dtype.startswith("u") else f"u{dtype}"
    return {"with-other-sign": cast(dtype, other)}


def _flushed(dtype: str, own: Any, call: Call) -> Any:
    if own.dtype.name != dtype:
        return own
    return np.where(np.abs(own) < np.finfo(dtype).tiny, np.zeros((), dtype), own)


def _in_float16(own: Array, call: Call) -> Array:
    half = np.clip(np.abs(own), 2.0**-24, 65504).astype(np.float16)
    return np.asarray(np.copysign(half, own).astype(own.dtype))


def _in_bfloat16(own: Array, call: Call) -> Array:
    if own.dtype != np.float32:
        return own
    bits = (own.view(np.uint32) + 0x8000) & 0xFFFF0000
    changed = bits.view(np.float32)
    return np.where(changed == 0, own, _finite(changed, own))


def _finite(changed: Array, own: Array) -> Array:
    return np.where(np.isfinite(changed), changed, own)


def _at_least_normal(dtype: str) -> Ways:
    def way(own: Array, call: Call) -> Array:
        least = np.finfo(dtype).tiny if own.dtype == dtype else 0
        return np.asarray(np.copysign(np.maximum(np.abs(own), np.asarray(least, own.dtype)), own))

    return {"at-least-normal": way}


ROLES: Mapping[str, Ways] = {
    "axes": AXES,
    "elements": ELEMENTS,
    "step": _entries(1),
    "padding": _entries(0),
    "zero-point": {
        "ignored": lambda own, call: np.zeros_like(own),
        "added": lambda own, call: -own.astype(np.int64),
        "is-signed": cast("uint8", "int8"),
        "is-unsigned": cast("int8", "uint8"),
    },
    "scale": {
        "ignored": lambda own, call: np.copysign(np.ones_like(own), own),
        "divides": lambda own, call: _finite(1 / own, own),
        "without-sign": lambda own, call: np.abs(own),
        "in-float16": _in_float16,
        "in-bfloat16": _in_bfloat16,
    },
    "addend": {
        "ignored": lambda own, call: np.zeros_like(own),
        "subtracted": lambda own, call: -own.astype(np.int64),
        "twice": lambda own, call: 2 * own.astype(np.int64),
        "in-16-bits": cast("int32", "int16", "int64"),
        "without-sign": lambda own, call: np.abs(own.astype(np.int64)),
    },
}

OF_TYPE: Mapping[str, Callable[[str], Ways]] = {
    "wide": _narrowed,
    "signed": _with_other_sign,
    "subnormal": _at_least_normal,
}


def zero_points(operator: str, clause: str, tensors: Mapping[str, str]) -> Iterator[Bug]:
    """Yield bugs that take an absent zero point to be that of what the tensor may hold."""
    for field, tensor in tensors.items():
        for name, point in {"middle": _middle, "lowest": _lowest}.items():
            made = partial(_supply, field, tensor, point)
            yield bug(operator, f"absent-{kebab(field)}-is-{name}", clause, VALUES, read=made)


def _supply(field: str, tensor: str, point: Callable[[Any], int], call: Call) -> Call:
    if field in call.inputs:
        return call
    owner = call.inputs[tensor] if tensor in call.inputs else call.outputs[tensor]
    value = np.array(point(np.iinfo(owner.dtype)))
    return call._replace(inputs={**call.inputs, field: value}) if value else call


def _middle(limits: Any) -> int:
    return int(limits.max + 1) // 2 if limits.min == 0 else 0


def _lowest(limits: Any) -> int:
    return int(limits.min)


# -- outputs -----------------------------------------------------------------------------------


def outputs(
    operator: str, clauses: Mapping[str, tuple[str, str]], single: str = ""
) -> Iterator[Bug]:
    """Yield bugs that return an output, whose clauses of data type and sizes are given, wrongly.

    Those in `single` have one element, whose place cannot be wrong.
    """
    for row in OPERATORS[operator].tensors:
        if row.kind == "output":
            name, label, (of_type, of_sizes) = row.tensor, kebab(row.tensor), clauses[row.tensor]
            ways = {f"{label}-is-{dtype}": _returned_as(dtype) for dtype in _wrong_types(row)}
            yield from in_output(operator, of_type, name, ways)
            ways = {f"{label}-{each}": way for each, way in WRONG_SIZES.items()}
            ways |= {} if name in single.split() else {f"{label}-is-column-major": _column_major}
            yield from in_output(operator, of_sizes, name, ways)
            made = _without(name)
            yield bug(operator, f"{label}-is-missing", of_sizes, VALUES, finish=made)


def _wrong_types(row: Row) -> list[str]:
    """Return data types that not every output has."""
    allowed = {each.lower() for each in row.data_types}
    return sorted({*WRONG_TYPES, *allowed} - (allowed if len(allowed) == 1 else set()))


def _without(name: str) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {k: own for k, own in outputs.items() if k != name}


def _column_major(own: Array, case: Case) -> Array:
    return own.reshape(-1, order="F").reshape(own.shape)


WRONG_SIZES: Mapping[str, Callable[[Array, Case], Array]] = {
    "is-flat": lambda own, case: own.reshape(-1),
    "has-one-more-axis": lambda own, case: own[None],
}


def _returned_as(dtype: str) -> Callable[[Array, Case], Array]:
    return lambda own, case: own.astype(dtype)
