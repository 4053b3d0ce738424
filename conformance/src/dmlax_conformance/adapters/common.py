"""Parts of the adapters for libraries without DirectML's rules.

Such a library knows no codes and no DirectML fields, so its adapter says only what it can:

- the library raises what it documents for a bad call: `Unsupported`, "refused without a code" and
  the library's own sentence. It declined; nothing tells whether for the right reason, so it is
  never a pass, and on a valid call it is a gap, not a wrong value;
- the library accepts the call: its outputs are returned, and a vector that wants a refusal fails;
- the library cannot be asked (no such type, no such parameter): `Unsupported` with the reason;
- anything else that is raised is a crash, as everywhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from ..format.vectors import Request
from ..oracle import OPERATORS
from ..oracle.convolution import TERMS
from ..oracle.nonzero import effective_rank
from .base import Array, Case, Unsupported

DYNAMIC = ("OutputTensor", "OutputScaleTensor", "OutputZeroPointTensor")
REFUSED = "refused without a code"
LENGTH = 200


@contextmanager
def refusals(*kinds: type[BaseException], shorten: Callable[[str], str] = str) -> Iterator[None]:
    """Decline what the library refuses with one of these exceptions."""
    try:
        yield
    except kinds as error:
        sentence = shorten(" ".join(str(error).split()))[:LENGTH]
        raise Unsupported(f"{REFUSED}: {type(error).__name__}: {sentence}") from error


class Library:
    """A library without DirectML's rules; for each operator that it has, a method of that name."""

    concurrent = True
    variants: tuple[str, ...] = ("eager",)
    operators: Sequence[str] = ()
    packages: tuple[str, ...]
    refusals: tuple[type[BaseException], ...]

    def __init__(self) -> None:
        """Look up the versions, and the operators unless the library's adapter names them."""
        if not self.operators:
            self.operators = [name for name in OPERATORS if hasattr(self, name)]
        self.versions = {name: version(name) for name in self.packages}

    def run(self, case: Case, variant: str) -> Mapping[str, Any]:
        """Compute, and decline what the library refuses."""
        if case.operator not in self.operators:  # a later suite may have more of them
            raise Unsupported(f"no {case.operator}")
        call = getattr(self, case.operator)
        with refusals(*self.refusals), np.errstate(all="ignore"):
            return named(case, self.computed(call, case, variant))

    def computed(self, call: Callable[..., Any], case: Case, variant: str) -> Any:
        """Return the output, or the rows of coordinates and their count."""
        return call(case)


def named(case: Case, answer: Any) -> Mapping[str, Any]:
    """Name the outputs of an answer."""
    if case.operator == "dynamic_quantize_linear":
        pairs = zip(DYNAMIC, answer, strict=True)
        return {name: np.asarray(array).reshape(case.outputs[name].sizes) for name, array in pairs}
    if "OutputTensor" in case.outputs:
        return {"OutputTensor": answer}
    return coordinates(case, *answer) if isinstance(answer, tuple) else coordinates(case, answer)


def one_value(array: Array) -> Array:
    """Return a tensor of one element as a scalar; any other as it is, for the library to judge."""
    return array.reshape(()) if array.size == 1 else array


def channels(array: Array) -> Array:
    """Return one value as a scalar, one for each channel as a vector, anything else as it is."""
    is_vector = len(axes_of(array.shape)) == 1
    return array.reshape(-1) if is_vector else one_value(array)


def of_product(case: Case, name: str, array: Array) -> Array:
    """Return a parameter of a matrix product as it repeats to an operand, or to the output.

    The output lacks the axis of an operand that is a vector, so what repeats to it lacks it too.
    """
    if array.size == 1:
        return array.reshape(())
    a, b = (case.inputs[f"{operand}Tensor"].ndim for operand in "AB")
    if name == "Output" and b == 1 and array.shape[-1] == 1:
        return array[..., 0]
    if name == "Output" and a == 1 and array.shape[-2:-1] == (1,):
        return array[..., 0, :]
    return array


def parameter_shape(x: Array, arrays: Iterable[Array]) -> tuple[int, ...] | None:
    """Return the shape that holds all parameters, of the rank of `x`; None if there is none."""
    shapes = [array.shape for array in arrays]
    if any(len(shape) > x.ndim for shape in shapes):
        return None
    try:
        return np.broadcast_shapes((1,) * x.ndim, *shapes)
    except ValueError:
        return None


def axes_of(shape: Iterable[int]) -> list[int]:
    """Return the axes along which something lies."""
    return [axis for axis, size in enumerate(shape) if size != 1]


def zero(case: Case, name: str, dtype: Any) -> Array:
    """Return a zero point, which is 0 of this data type where the case has none."""
    return case.inputs.get(name, np.zeros((), dtype))


def convolution_of(case: Case) -> Case:
    """Return the convolution of a case with an addend; its result's data type is not asked for."""
    given, result = case.inputs, case.outputs["OutputTensor"]
    sums = [name for name in TERMS if not name.startswith("Output")]
    inputs = {name: array for name, array in given.items() if name not in sums}
    dtype = given.get("OutputZeroPointTensor", given["InputTensor"]).dtype.name
    asked = {"OutputTensor": Request(dtype, result.sizes)}
    name = "quantized_linear_convolution"
    return replace(case, operator=name, inputs=inputs, outputs=asked)


def addition_to(case: Case, convolved: Array) -> Case:
    """Return the addition of a case with an addend, its operands in the order that is asked for."""
    given = {**case.inputs, "ConvolvedTensor": convolved}
    turned = {"A": "B", "B": "A"} if case.attributes["AddendFirst"] else {}
    inputs = {
        turned.get(term[0], term[0]) + term[1:]: given[name]
        for name, term in TERMS.items()
        if name in given
    }
    name = "element_wise_quantized_linear_add"
    return replace(case, operator=name, attributes={}, inputs=inputs)


def window_pairs(case: Case) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis."""
    start, end = case.attributes["StartPadding"], case.attributes["EndPadding"]
    return list(zip(start, end, strict=True))


def coordinates(case: Case, rows: Any, count: int | None = None) -> Mapping[str, Array]:
    """Return both outputs of NonzeroCoordinates from a library's rows, one column for each axis.

    DirectML lets a caller leave out leading axes of size 1. No library has that, so the columns
    are left out here; a width for which it cannot be done is declined.
    """
    rows = np.asarray(rows)
    sizes = case.outputs["OutputCoordinatesTensor"].sizes
    *_, size, width = sizes
    shape = case.inputs["InputTensor"].shape
    if shape and not max(effective_rank(shape), 1) <= width <= len(shape):
        raise Unsupported("the width of a coordinate cannot be asked for")
    table = np.zeros((size, width), np.uint32)
    kept = rows[:size, max(rows.shape[1] - width, 0) :]
    table[: len(kept), : kept.shape[1]] = kept
    number = len(rows) if count is None else count
    return {
        "OutputCountTensor": np.full(case.outputs["OutputCountTensor"].sizes, number, np.uint32),
        "OutputCoordinatesTensor": table.reshape(sizes),
    }
