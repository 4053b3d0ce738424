"""Derive mutants from the fields of an operator: one is misread, or returned wrongly."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from typing import Any

import numpy as np

from dmlax_conformance.format.layout import ELEMENT_BITS
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.operator import dashed
from dmlax_conformance.runner.adapter import Case

from .mutant import VALUES, End, Mutant, Way, at_place, mutant
from .steps import Array, Call, Outputs

Ways = Mapping[str, Way]
WRONG_TYPES = ("int32", "int64", "uint32", "float64")
BITS = {name.lower(): bits for name, bits in ELEMENT_BITS.items()}


def readings(
    operator: str, clause: str, fields: str, roles: str, extensions: str = ""
) -> Iterator[Mutant]:
    """Yield the mutants that misread a field, or several at once, in one of the roles.

    `extensions` are data types of the input beyond DirectML's.
    """
    label, first = "-and-".join(map(dashed, fields.split())), fields.split()[0]
    known = [row.data_types for row in OPERATORS[operator].tensors if row.tensor == first]
    dtypes = [dtype.lower() for dtypes in known for dtype in sorted(dtypes)]
    dtypes += extensions.split() if first == "InputTensor" else []
    for role in roles.split():
        ways = ROLES[role] if role in ROLES else _of_types(dtypes, OF_TYPE[role])
        named = {f"{label}-{name}": way for name, way in ways.items()}
        yield from at_place(operator, clause, f"read {fields}", named)


def _of_types(types: list[str], of_type: Callable[[str], Ways]) -> Ways:
    """Return the ways to misread every data type that a tensor may have."""
    return {f"{dtype}-{name}": way for dtype in types for name, way in of_type(dtype).items()}


def _element_wise(change: Callable[[Array], Array]) -> Way:
    """Change the elements in the order of the row-major index."""
    return lambda x, call: change(x.reshape(-1)).reshape(x.shape)


def _flipped(*axes: int) -> Way:
    return lambda x, call: np.flip(x, tuple(axis for axis in axes if -x.ndim <= axis < x.ndim))


def _swapped(one: int, two: int, rank: int, x: Any, call: Call) -> Any:
    """Swap two axes that are equally long, from a rank on."""
    changed = np.swapaxes(x, one, two) if x.ndim >= rank else x
    return changed if changed.shape == x.shape else x


def _channels_last(x: Any, call: Call) -> Any:
    if x.ndim <= 2:
        return x
    return np.moveaxis(x.reshape(x.shape[0], *x.shape[2:], x.shape[1]), -1, 1)


AXES: Ways = {
    "channels-last": _channels_last,
    "batch-reversed": _flipped(0),
    "batch-is-first": lambda x, call: np.broadcast_to(x[:1] if x.ndim else x, x.shape),
    "channels-reversed": _flipped(1),
    "flipped": _flipped(2, 3),
    "flipped-on-last-axis": _flipped(-1),
    "transposed": partial(_swapped, -1, -2, 4),
    "axes-swapped": partial(_swapped, 0, 1, 2),
}


def _entries(low: int) -> Ways:
    return {
        "reversed": lambda entries, call: entries[::-1],
        "first-for-all": lambda entries, call: entries[:1] * len(entries),
        "ignored-on-first-axis": lambda entries, call: [low, *entries[1:]],
        "ignored-on-last-axis": lambda entries, call: [*entries[:-1], low],
    }


def _of(dtype: str, change: Callable[[Array], Array]) -> Way:
    """Change the elements of one data type."""
    return lambda x, call: np.asarray(change(x)) if x.dtype.name == dtype else x


def cast(source: str, *through: str) -> Way:
    """Read elements of one data type through others, and back unless the last is the sign's."""
    return _of(source, lambda x: reduce(np.ndarray.astype, through, x))


def _narrowed(dtype: str) -> Ways:
    half = f"{dtype.rstrip('0123456789')}{BITS.get(dtype, 0) // 2}"
    ways = {f"as-{half}": cast(dtype, half, dtype)} if BITS.get(half, 0) >= 8 else {}
    if dtype.startswith("float"):
        ways |= {"truncated": cast(dtype, "int32", dtype), "flushed": _of(dtype, _flushed)}
    return ways


def _with_other_sign(dtype: str) -> Ways:
    return {"with-other-sign": cast(dtype, dtype[1:] if dtype.startswith("u") else f"u{dtype}")}


def _at_least_normal(dtype: str) -> Ways:
    return {"at-least-normal": _of(dtype, lambda x: _with_size(x, np.maximum(np.abs(x), _tiny(x))))}


def _tiny(x: Array) -> Any:
    return np.finfo(x.dtype).tiny


def _with_size(x: Array, size: Array) -> Array:
    return np.asarray(np.copysign(size, x).astype(x.dtype))


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < _tiny(x), np.zeros((), x.dtype), x)


def _in_float16(x: Array, call: Call) -> Array:
    return _with_size(x, np.clip(np.abs(x), 2.0**-24, 65504).astype(np.float16))


def _in_bfloat16(x: Array) -> Array:
    changed = ((x.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)
    return np.where(changed == 0, x, _finite(changed, x))


def _finite(changed: Array, x: Array) -> Array:
    return np.where(np.isfinite(changed), changed, x)


ROLES: Mapping[str, Ways] = {
    "axes": AXES,
    "elements": {
        "first-for-all": _element_wise(lambda x: np.repeat(x[:1], x.size)),
        "last-for-all": _element_wise(lambda x: np.repeat(x[-1:], x.size)),
        "reversed": _element_wise(lambda x: x[::-1]),
        "rolled": _element_wise(lambda x: np.roll(x, 1)),
    },
    "step": _entries(1),
    "padding": _entries(0),
    "zero-point": {
        "ignored": lambda x, call: np.zeros_like(x),
        "added": lambda x, call: -x.astype(np.int64),
        "is-signed": cast("uint8", "int8"),
        "is-unsigned": cast("int8", "uint8"),
    },
    "scale": {
        "ignored": lambda x, call: np.copysign(np.ones_like(x), x),
        "divides": lambda x, call: _finite(1 / x, x),
        "without-sign": lambda x, call: np.abs(x),
        "in-float16": _in_float16,
        "in-bfloat16": _of("float32", _in_bfloat16),
    },
    "addend": {
        "ignored": lambda x, call: np.zeros_like(x),
        "subtracted": lambda x, call: -x.astype(np.int64),
        "twice": lambda x, call: 2 * x.astype(np.int64),
        "in-16-bits": cast("int32", "int16", "int64"),
        "without-sign": lambda x, call: np.abs(x.astype(np.int64)),
    },
}
OF_TYPE: Mapping[str, Callable[[str], Ways]] = {
    "wide": _narrowed,
    "signed": _with_other_sign,
    "subnormal": _at_least_normal,
}


def absent(operator: str, clause: str, field: str, tensor: str) -> Iterator[Mutant]:
    """Yield mutants that take an absent zero point to be that of what the tensor may hold."""
    for name in ("middle", "lowest"):
        way = partial(_supply, field, tensor, name == "middle")
        yield mutant(operator, f"absent-{dashed(field)}-is-{name}", clause, VALUES, read=way)


def _supply(field: str, tensor: str, is_middle: bool, call: Call) -> Call:
    owner = call.inputs[tensor] if tensor in call.inputs else call.outputs[tensor]
    limits = np.iinfo(owner.dtype)
    middle = 0 if limits.min else (limits.max + 1) // 2
    point = np.array(middle if is_middle else limits.min, owner.dtype)
    is_other = field not in call.inputs and point != 0
    return call._replace(inputs={**call.inputs, field: point}) if is_other else call


def output(operator: str, of_type: str, of_sizes: str, name: str) -> Iterator[Mutant]:
    """Yield mutants that return an output wrongly; the clauses are of data type and sizes."""
    (row,) = (row for row in OPERATORS[operator].tensors if row.tensor == name)
    label, allowed = dashed(name), {dtype.lower() for dtype in row.data_types}
    wrong = {*WRONG_TYPES, *allowed} - (allowed if len(allowed) == 1 else set())
    types: Mapping[str, Any] = {
        f"{label}-is-{dtype}": lambda y, case, dtype=dtype: y.astype(dtype)
        for dtype in sorted(wrong)
    }
    yield from at_place(operator, of_type, f"output {name}", types)
    sizes = {f"{label}-{text}": way for text, way in WRONG_SIZES.items()}
    if name in SINGLE:
        del sizes[f"{label}-is-column-major"]
    yield from at_place(operator, of_sizes, f"output {name}", sizes)
    yield mutant(operator, f"{label}-is-missing", of_sizes, VALUES, finish=_without(name))


SINGLE = ("OutputScaleTensor", "OutputZeroPointTensor", "OutputCountTensor")  # one element
WRONG_SIZES: Mapping[str, End] = {
    "is-flat": lambda y, case: y.reshape(-1),
    "has-one-more-axis": lambda y, case: y[None],
    "is-column-major": lambda y, case: y.reshape(-1, order="F").reshape(y.shape),
}


def _without(name: str) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {k: y for k, y in outputs.items() if k != name}
