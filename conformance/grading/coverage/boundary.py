"""Boundary cases of calls, at which implementations branch.

They are shapes, windows, forms of parameters, places of bad scales, and gaps in tensors of descs.
An operator needs a vector at each one that its calls can have.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import numpy as np

from dmlax_conformance.format.layout import is_packed
from dmlax_conformance.format.tensors import DTYPES, to_numpy
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS

from .elements import counted

Test = Callable[[Vector], bool]
COUNTS = tuple(middle + step for middle in (128, 256, 1000, 65_536) for step in (-1, 0, 1))
IMAGE, PADS = "InputTensor", ("StartPadding", "EndPadding")


def _is_parameter(tensor: str) -> bool:
    return any(word in tensor for word in ("Scale", "ZeroPoint", "Bias"))


def _operand(test: Callable[[tuple[int, ...]], bool], is_parameter: bool = False) -> Test:
    """Return whether a test holds of the sizes of any operand, or of any parameter."""
    return lambda vector: any(
        test(x.sizes) for name, x in vector.inputs.items() if _is_parameter(name) == is_parameter
    )


def _axis(test: Callable[..., bool], *names: str) -> Test:
    """Return whether a test holds of attributes and the window on any axis."""
    return lambda v: any(map(test, *(v.attributes[name] for name in names), _window(v)))


def _window(vector: Vector) -> tuple[int, ...]:
    given = vector.attributes.get("WindowSize")
    return tuple(given or vector.inputs["FilterTensor"].sizes[2:])


def _pads_alone(*pads: bool) -> Test:
    """Return whether only these are padded: start of rows and columns, end of rows and columns."""
    return lambda v: tuple(pad > 0 for name in PADS for pad in v.attributes[name]) == pads


def _is_late(vector: Vector) -> bool:
    """Return whether the range of a float input is one that its first 4,096 elements lack."""
    values = to_numpy(vector.inputs[IMAGE]).reshape(-1)
    first, rest = values[:4096], values[4096:]
    return rest.size > 0 and bool(rest.min() < first.min() or rest.max() > first.max())


SHAPES: dict[str, Test] = {
    "one element in each operand": lambda v: not _operand(lambda sizes: prod(sizes) != 1)(v),
    "more than 4,096 elements": _operand(lambda sizes: prod(sizes) > 4096),
    "an axis beyond 1,024": _operand(lambda sizes: max(sizes, default=0) > 1024),
    "an empty first axis": _operand(lambda sizes: sizes[:1] == (0,)),
    "an empty second axis": _operand(lambda sizes: sizes[1:2] == (0,)),
}
FORMS: dict[str, Test] = {
    "a parameter of rank 0": _operand(lambda sizes: sizes == (), True),
    "a parameter of rank 1": _operand(lambda sizes: len(sizes) == 1, True),
    "a parameter of K": _operand(lambda sizes: len(sizes) == 1 and sizes[0] > 1, True),
    "a parameter of {1,K}": _operand(lambda s: len(s) == 2 and s[0] == 1 and s[1] > 1, True),
}
WINDOWED: dict[str, Test] = {
    "start padding of rows alone": _pads_alone(True, False, False, False),
    "start padding of columns alone": _pads_alone(False, True, False, False),
    "end padding of rows alone": _pads_alone(False, False, True, False),
    "end padding of columns alone": _pads_alone(False, False, False, True),
    "a stride beyond the window": _axis(lambda stride, taps: stride > taps > 1, "Strides"),
    "strides and dilations": _axis(lambda s, d, taps: s > 1 < d, "Strides", "Dilations"),
    "a window that is the image": lambda v: v.inputs[IMAGE].sizes[2:] == _window(v),
    "more than 64 images": lambda v: v.inputs[IMAGE].sizes[0] > 64,
    "more than 256 channels": lambda v: v.inputs[IMAGE].sizes[1] > 256,
}
CONVOLVED: dict[str, Test] = {
    **WINDOWED,
    "windows of padding alone": _axis(lambda pad, taps: pad >= taps > 1, "StartPadding"),
    "groups in several images": lambda v: (
        v.attributes["GroupCount"] > 1 and v.inputs[IMAGE].sizes[0] > 1
    ),
}
OF_TYPES: dict[str, Test] = {
    f"more than 64 elements of {name}": lambda v, name=name: (  # type: ignore[misc]
        v.inputs[IMAGE].dtype == name and prod(v.inputs[IMAGE].sizes) > 64
    )
    for name in DTYPES
    if name != "complex64"
}
CASES: dict[str, dict[str, Test]] = {  # cases by patterns of operators
    "*": SHAPES,
    "**": FORMS,
    "*convolution*": CONVOLVED,
    "max_pooling": WINDOWED,
    "quantized_linear_average_pooling": WINDOWED,
    "dynamic_quantize_linear": {"a range that is set beyond 4,096 elements": _is_late},
    "nonzero_coordinates": OF_TYPES,
}
IMPOSSIBLE = (  # patterns of an operator and of a boundary case that its calls cannot have
    ("*convolution*", "an empty second axis"),  # a filter has elements
    ("quantized_lookup", "one element in each operand"),
    ("element_wise_quantized_linear_*", "a parameter of*K*"),
)


def cases_of(operator: str) -> dict[str, Test]:
    """Return the boundary cases that valid calls of an operator can be at."""
    rows = OPERATORS[operator].tensors
    has_parameters = any(_is_parameter(row.tensor) for row in rows if not row.is_output)
    return {
        name: test
        for pattern, cases in CASES.items()
        if fnmatchcase(operator, pattern) and (cases is not FORMS or has_parameters)
        for name, test in cases.items()
        if not any(fnmatchcase(operator, a) and fnmatchcase(name, b) for a, b in IMPOSSIBLE)
    }


def counts_of(operator: str, suite: Sequence[Vector]) -> dict[str, int]:
    """Count the vectors of an operator at each boundary case, and of each size."""
    calls = [each for each in suite if each.is_valid and each.desc is None]
    small = [each for each in calls if not each.memory]
    found = {name: sum(map(test, small)) for name, test in cases_of(operator).items()}
    counts = Counter(prod(counted(each).sizes) for each in calls)
    found |= {f"{count} elements": counts[count] for count in COUNTS}
    for row in OPERATORS[operator].tensors:
        if "Scale" in row.tensor and not row.is_output:
            found[f"a bad last {row.tensor}"] = sum(_ends_badly(v, row.tensor) for v in suite)
    for desc in (each.desc for each in suite if each.is_valid and each.desc):
        for name, own in desc.items():
            if isinstance(own, dict) and prod(own["Sizes"]) > 1:
                has_gaps = not is_packed(own) and max(own["Strides"]) > 0
                found[f"gaps in {name}"] = found.get(f"gaps in {name}", 0) + has_gaps
    return found


def _ends_badly(vector: Vector, name: str) -> bool:
    """Return whether a call is refused for a scale whose last entry is zero or not finite."""
    expect: Any = vector.expect
    if vector.is_valid or vector.desc is not None or (expect.code, expect.field) != ("value", name):
        return False
    last = to_numpy(vector.inputs[name]).reshape(-1)[-1]
    return bool(last == 0 or not np.isfinite(last))
