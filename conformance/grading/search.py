"""A search for a call with elements in an equivalence class.

The search draws shapes and attributes from the vectors of the operator, changes sizes, and samples
the elements of each tensor by data type and role until the oracle's answer is in the class.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmlax_conformance.errors import WrongUsage
from dmlax_conformance.format import vectors
from dmlax_conformance.format.tensors import DTYPES, Tensor, count
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.oracle import exact
from dmlax_conformance.terminal import progress

from . import add, near_ties, verify
from .coverage import registry
from .coverage.elements import takes_part
from .near_ties import Draw

LARGEST = 400  # elements of the output, and of an input, of a call to start from
SPECIAL = {
    "float16": (0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 1),
    "float32": (0, 1 << 31, 1, 0x7F800000),
}


def search(
    operator: str, name: str, seed: int, limit: int, root: Path | None = None
) -> Vector | None:
    """Return a valid call with elements of an equivalence class, or None."""
    known, draw = registry.names_of(operator), Draw(seed)
    if name not in known:
        what = f"{operator} has no equivalence class {name!r}"
        raise WrongUsage(f"{what}: {'; '.join(known)}")
    calls = [v for v in vectors.load_all(root, (operator,)) if takes_part(v) and _is_small(v)]
    tries = limit if calls else 0
    for _ in progress(range(tries), "calls", tries):
        call = _resampled(draw.choice(calls), draw)
        said = verify.oracle_answer(call)
        if not said.refusals:
            asked = {name: Request(own.dtype, own.sizes) for name, own in said.outputs.items()}
            call = add.with_answer(replace(call, outputs=asked), said, {})
            if name in registry.classes_of(operator, call):
                return call
    return None


def _is_small(vector: Vector) -> bool:
    tensors: Any = (*vector.inputs.values(), *vector.outputs.values())
    return max(count(each.sizes) for each in tensors) <= LARGEST


def as_call(vector: Vector, comment: str) -> dict[str, Any]:
    """Return a call as `add` takes it."""
    return {"operator": vector.operator, "comment": comment, **add.encoded_call(vector)}


def _resampled(start: Vector, draw: Draw) -> Vector:
    """Return a call with other elements, and often with another size wherever one size was."""
    sizes = sorted({size for each in start.inputs.values() for size in each.sizes if size > 1})
    old = draw.choice(sizes) if sizes and draw.random() < 0.5 else None
    new = draw.choice((1, 2, 3, 5, 8, 9, 16, 17, 33, 65))

    def resized(own: Sequence[int]) -> tuple[int, ...]:
        return tuple(new if size == old else size for size in own)

    inputs = {
        name: own
        if own.sizes == resized(own.sizes) and draw.random() < 0.3
        else _tensor(name, own.dtype, resized(own.sizes), draw)
        for name, own in start.inputs.items()
    }
    outputs = {k: own._replace(sizes=resized(own.sizes)) for k, own in start.outputs.items()}
    if draw.random() < 0.5:
        inputs |= _near_tie(inputs, draw)
    call = add.vector_of(start.operator, start.attributes, inputs, outputs)
    return replace(call, requires=start.requires)


def _near_tie(inputs: dict[str, Tensor], draw: Draw) -> dict[str, Tensor]:
    """Return sums of 0 with a bias that is a near tie, where there are a bias and three scales."""
    names = [name for name in inputs if name.endswith("ScaleTensor")]
    if "BiasTensor" not in inputs or len(names) != 3 or inputs["BiasTensor"].dtype != "int32":
        return {}
    tie = near_ties.sample(draw.choice(near_ties.KINDS), draw)
    values = dict(zip(names, tie[1:], strict=True)) | {"BiasTensor": tie.accumulator}
    operand = next(iter(inputs))
    point = inputs.get(operand.replace("Tensor", "ZeroPointTensor"))
    values[operand] = point.words[0] if point else 0
    return {
        k: replace(inputs[k], words=(own,) * count(inputs[k].sizes), made_by=None)
        for k, own in values.items()
    }


def _tensor(name: str, dtype: str, sizes: tuple[int, ...], draw: Draw) -> Tensor:
    """Return a tensor whose elements suit its data type and its role."""
    if dtype in exact.FORMATS:
        is_scale = "Scale" in name
        width = draw.choice((4, 16, 120) if is_scale else (2, 8, 120))
        special = () if is_scale or draw.random() < 0.5 else SPECIAL.get(dtype, (0,))
        words = [
            draw.choice(special)
            if special and draw.random() < 0.2
            else _float(dtype, draw, width, not is_scale)
            for _ in range(count(sizes))
        ]
    else:
        low, high, width = DTYPES[dtype].low, DTYPES[dtype].high, DTYPES[dtype].width
        reach, middle = draw.choice((high - low, 3, 1 << width // 2)), draw.choice((low, 0, high))
        ends = max(low, middle - reach), min(high, middle + reach)
        words = [draw.randint(*ends) for _ in range(count(sizes))]
    return Tensor(dtype, sizes, tuple(words))


def _float(dtype: str, draw: Draw, width: int, is_signed: bool) -> int:
    """Return the bits of a float with an exponent about 0, and often with a short mantissa."""
    bits = draw.choice((2, exact.FORMATS[dtype].fraction + 1))
    nudge = draw.choice((0, 0, 1, -1))  # moves a number of few bits off a tie
    value = exact.scaled(draw.odd(bits), draw.randint(-width, width) - bits)
    sign = draw.choice((1, -1)) if is_signed else 1
    return max(exact.encode(exact.exactly(sign * value), dtype) + nudge, 1)
