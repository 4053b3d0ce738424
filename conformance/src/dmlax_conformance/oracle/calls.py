"""The answer of the oracle to a functional call: check the rules, then compute."""

from dataclasses import replace
from pathlib import Path

from ..errors import Malformed
from ..format.descs import gather
from ..format.json_schema import is_own
from ..format.tensors import Tensor, digest
from ..format.vectors import ExpectedError, ExpectedTensor, Vector
from . import OPERATORS
from .operator import Answer, Attributes, Inputs, Outputs

__all__ = ["RULES", "Answer", "Attributes", "Inputs", "Outputs", "answer", "with_elements"]

RULES = {name: operator.check for name, operator in OPERATORS.items()}


def answer(operator: str, attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the output tensors, or raise `SpecViolation`."""
    OPERATORS[operator].check(attributes, inputs, outputs)
    return OPERATORS[operator].compute(attributes, inputs, outputs)


_elements: dict[tuple[Path, str], Vector] = {}


def with_elements(vector: Vector) -> Vector:
    """Return a vector with every expected element; where it has digests, the oracle makes them.

    It does so for the suite's own vectors alone, because the oracle may take any time for others.
    """
    if not vector.has_digests or not is_own(vector.file):
        return vector
    key = vector.file, vector.id
    if key not in _elements:
        _elements[key] = _with_elements(vector)
    return _elements[key]


def _with_elements(vector: Vector) -> Vector:
    assert not isinstance(vector.expect, ExpectedError)
    attributes, inputs = vector.attributes, vector.inputs
    if vector.desc is not None:
        attributes = desc = vector.desc
        inputs = {name: gather(desc[name], held) for name, held in vector.inputs.items()}
    computed = OPERATORS[vector.operator].compute(attributes, inputs, vector.outputs)
    expect = {
        name: _of_digest(vector, name, want, computed[name]) if want.sha256 else want
        for name, want in vector.expect.items()
    }
    return replace(vector, expect=expect)


def _of_digest(vector: Vector, name: str, want: ExpectedTensor, have: Tensor) -> ExpectedTensor:
    words = have.words[: want.rows * want.sizes[-1]] if want.rows else have.words
    if digest(Tensor(want.dtype, (len(words),), words)) != want.sha256:
        place = f"{vector.id}/expect/outputs/{name}/sha256"
        raise Malformed(place, "is not the oracle's digest", str(vector.file))
    return replace(want, words=words, sha256="", rows=0)
