"""Corners of calls: shapes, windows, forms of parameters and places of bad scales.

Each operator needs a valid call at each corner that its calls can have, as implementations branch
there. A corner of a scale needs a refused call.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from math import prod
from typing import Any

from ..format.layout import is_packed
from ..format.tensors import DTYPES
from ..format.vectors import Vector
from ..operators import OPERATORS

Corner = Callable[[Vector], bool]
PARAMETERS = ("Scale", "ZeroPoint", "Bias")


def _is_parameter(tensor: str) -> bool:
    return any(word in tensor for word in PARAMETERS)


def _operands(vector: Vector) -> list[tuple[int, ...]]:
    """Return the sizes of the inputs that are no parameters."""
    return [each.sizes for name, each in vector.inputs.items() if not _is_parameter(name)]


def _has_axis(least: int) -> Corner:
    return lambda vector: any(size > least for sizes in _operands(vector) for size in sizes)


def _counts(least: int) -> Corner:
    return lambda vector: any(prod(sizes) > least for sizes in _operands(vector))


def _has_rank(rank: int) -> Corner:
    return lambda vector: any(len(sizes) == rank for sizes in _operands(vector))


def _is_empty(axis: int) -> Corner:
    return lambda vector: any(len(sizes) > axis and sizes[axis] == 0 for sizes in _operands(vector))


def _has_form(form: Callable[[tuple[int, ...]], bool]) -> Corner:
    return lambda vector: any(
        form(each.sizes) for name, each in vector.inputs.items() if _is_parameter(name)
    )


def _is_late(vector: Vector) -> bool:
    """Return whether the range of a float input is one that its first 4,096 elements lack."""
    (x,) = vector.inputs.values()
    if len(x.words) <= 4096:
        return False
    sign = 1 << (DTYPES[x.dtype].width - 1)
    order = [word - 2 * (word - sign) if word & sign else word + sign for word in x.words]
    first, rest = order[:4096], order[4096:]
    return min(rest) < min(first) or max(rest) > max(first)


def _taps(vector: Vector) -> list[int]:
    """Return the sizes of the window."""
    given: Mapping[str, Any] = vector.attributes
    if "WindowSize" in given:
        return list(given["WindowSize"])
    return list(vector.inputs["FilterTensor"].sizes[2:])


def _any(test: Callable[..., bool], *names: str) -> Corner:
    """Return whether a test holds of the entries of attributes, and the window, on an axis."""
    return lambda vector: any(
        test(*entries, taps)
        for *entries, taps in zip(
            *(vector.attributes[n] for n in names), _taps(vector), strict=True
        )
    )


def _pads_alone(axis: int, side: str, vector: Vector) -> bool:
    """Return whether one side of one of two axes is all that is padded."""
    pads = {name: list(vector.attributes[name]) for name in ("StartPadding", "EndPadding")}
    there = [(n, at) for n, own in pads.items() for at, each in enumerate(own) if each]
    return len(pads[side]) == 2 and there == [(side, axis)]


def _counts_of(dtype: str) -> Corner:
    is_large = _counts(64)
    return lambda vector: vector.inputs["InputTensor"].dtype == dtype and is_large(vector)


def _groups_images(vector: Vector) -> bool:
    return vector.attributes["GroupCount"] > 1 and vector.inputs["InputTensor"].sizes[0] > 1


SHAPES: dict[str, Corner] = {
    "one element in each operand": lambda v: all(prod(sizes) == 1 for sizes in _operands(v)),
    "more than 4,096 elements": _counts(4096),
    "an axis beyond 1,024": _has_axis(1024),
    "an empty first axis": _is_empty(0),
    "an empty second axis": _is_empty(1),
}
FORMS: dict[str, Corner] = {
    "a parameter of rank 0": _has_form(lambda sizes: sizes == ()),
    "a parameter of rank 1": _has_form(lambda sizes: len(sizes) == 1),
    "a parameter of K": _has_form(lambda sizes: len(sizes) == 1 and sizes[0] > 1),
    "a parameter of {1,K}": _has_form(
        lambda sizes: len(sizes) == 2 and sizes[0] == 1 and sizes[1] > 1
    ),
}
PADS = {
    f"{side} padding of {axis} alone": partial(_pads_alone, at, f"{side.title()}Padding")
    for side, (at, axis) in product(("start", "end"), enumerate(("rows", "columns")))
}
WINDOWED: dict[str, Corner] = {
    **PADS,
    "a stride beyond the window": _any(lambda stride, taps: stride > taps > 1, "Strides"),
    "strides and dilations": _any(
        lambda stride, dilation, taps: stride > 1 < dilation, "Strides", "Dilations"
    ),
    "a window that is the image": lambda v: list(v.inputs["InputTensor"].sizes[2:]) == _taps(v),
    "more than 64 images": lambda v: v.inputs["InputTensor"].sizes[0] > 64,
    "more than 256 channels": lambda v: v.inputs["InputTensor"].sizes[1] > 256,
}
CONVOLUTION: dict[str, Corner] = {
    **WINDOWED,
    "windows of padding alone": _any(lambda pad, taps: pad >= taps > 1, "StartPadding"),
    "groups in several images": _groups_images,
}
COUNTED = (*(dtype for dtype in DTYPES if dtype != "complex64"),)
OWN: dict[str, dict[str, Corner]] = {  # by patterns of operators
    "*convolution*": CONVOLUTION,
    "max_pooling": WINDOWED,
    "quantized_linear_average_pooling": WINDOWED,
    "dynamic_quantize_linear": {"a range that is set beyond 4,096 elements": _is_late},
    "nonzero_coordinates": {
        f"more than 64 elements of {each}": _counts_of(each) for each in COUNTED
    },
}
IMPOSSIBLE = (  # patterns of an operator and of a corner that its calls cannot have
    ("*convolution*", "an empty second axis"),  # a filter has elements
    ("quantized_lookup", "one element in each operand"),
    *(
        (f"element_wise_quantized_linear_{name}", "a parameter of*K*")
        for name in ("add", "multiply")
    ),
)


def corners_of(operator: str) -> dict[str, Corner]:
    """Return the corners that calls of an operator can have."""
    names = [row.tensor for row in OPERATORS[operator].tensors if not row.is_output]
    found = SHAPES | (FORMS if any(map(_is_parameter, names)) else {})
    for pattern, own in OWN.items():
        found |= own if fnmatchcase(operator, pattern) else {}
    return {
        name: own
        for name, own in found.items()
        if not any(fnmatchcase(operator, a) and fnmatchcase(name, b) for a, b in IMPOSSIBLE)
    }


def counts_of(operator: str, suite: Sequence[Vector]) -> dict[str, int]:
    """Count the vectors at each corner, of bad last scales, and of gaps in tensors."""
    own = [each for each in suite if each.operator == operator and each.desc is None]
    valid = [each for each in own if each.is_valid and not each.memory]
    found = {name: sum(map(test, valid)) for name, test in corners_of(operator).items()}
    for row in OPERATORS[operator].tensors:
        if "Scale" in row.tensor and not row.is_output:
            found[f"a bad last {row.tensor}"] = sum(_ends_badly(each, row.tensor) for each in own)
    return found | _strided(operator, suite)


def _strided(operator: str, suite: Iterable[Vector]) -> dict[str, int]:
    """Count the descs in which each tensor that may have many elements has gaps between them."""
    descs = [each.desc for each in suite if each.operator == operator and each.is_valid]
    tensors = [(name, own) for desc in descs if desc for name, own in desc.items() if _is_many(own)]
    strided = Counter(name for name, own in tensors if not is_packed(own) and max(own["Strides"]))
    return {f"gaps in {name}": strided[name] for name in {name: None for name, _ in tensors}}


def _is_many(value: Any) -> bool:
    """Return whether a field of a desc is a tensor of more than one element."""
    return isinstance(value, dict) and prod(value["Sizes"]) > 1


def _ends_badly(vector: Vector, name: str) -> bool:
    """Return whether a call is refused for a scale, whose last entry is zero or not finite."""
    expect: Any = vector.expect
    if vector.is_valid or (expect.code, expect.field) != ("value", name):
        return False
    given = vector.inputs[name]
    infinity = {"float16": 0x7C00, "float32": 0x7F800000}[given.dtype]
    size = given.words[-1] & (1 << (DTYPES[given.dtype].width - 1)) - 1
    return size == 0 or size >= infinity


def problems(suite: Sequence[Vector], operators: Iterable[str]) -> Iterator[str]:
    """Complain about corners that no vector is at."""
    for operator in operators:
        for name, count in counts_of(operator, suite).items():
            if not count:
                yield f"{operator}: no vector at the corner {name!r}"
