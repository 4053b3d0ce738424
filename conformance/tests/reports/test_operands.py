"""The operands of one element give that element, by the oracle."""

import random
from math import prod
from typing import Any

import pytest

from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.format.vectors import ExpectedTensor, Request, Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.operators.answer import compute, with_elements
from dmlax_conformance.reports import operands

NEED_ALL = {"dynamic_quantize_linear", "nonzero_coordinates"}  # no element has operands of its own
CALLS = 25


def output_of(vector: Vector) -> ExpectedTensor | None:
    return vector.expect.get("OutputTensor") if isinstance(vector.expect, dict) else None


def calls(suite: list[Vector], operator: str) -> list[tuple[Vector, int, ExpectedTensor]]:
    """Return an element each of some calls of an operator."""
    own = [each for each in suite if each.operator == operator and each.desc is None]
    random.Random(operator).shuffle(own)
    outputs = [(each, output_of(each)) for each in own]
    small = [each for each, want in outputs if want and 0 < prod(want.sizes) < 2000]
    known = [(each, output_of(with_elements(each))) for each in small[:CALLS]]
    return [(each, len(want.words) * 2 // 3, want) for each, want in known if want]


def read(part: Any) -> Tensor | None:
    """Return a part without padding as a tensor."""
    words = part.get("data") or part.get("bits")
    if words is None or None in words:
        return None
    as_int = (lambda word: int(word, 16)) if "bits" in part else int
    return Tensor(part["dtype"], tuple(part["sizes"]), tuple(map(as_int, words)))


def of_one_window(attributes: Any) -> dict[str, Any]:
    """Return the attributes of a call whose image is one window."""
    ones = [1] * len(attributes.get("Strides", ()))
    same = {"Strides": ones, "Dilations": ones, "GroupCount": 1}
    none = dict.fromkeys(("StartPadding", "EndPadding"), [0] * len(ones))
    return {
        **attributes,
        **{name: own for name, own in (same | none).items() if name in attributes},
    }


@pytest.mark.parametrize("operator", sorted(OPERATORS.keys() - NEED_ALL - {"quantized_lookup"}))
def test_the_operands_of_an_element_give_it(suite: list[Vector], operator: str) -> None:
    checked = 0
    for vector, index, want in calls(suite, operator):
        parts = operands.feeding(vector, want.sizes, index)
        assert parts.keys() == vector.inputs.keys()
        read_parts = {name: read(part) for name, part in parts.items()}
        inputs = {name: tensor for name, tensor in read_parts.items() if tensor is not None}
        if len(inputs) < len(parts):
            continue
        sizes = tuple(1 for _ in want.sizes)
        outputs = {"OutputTensor": Request(want.dtype, sizes)}
        found = compute(operator, of_one_window(vector.attributes), inputs, outputs)["OutputTensor"]
        assert found.words == (want.words[index],), vector.id
        checked += 1
    assert checked >= 5


def test_a_lookup_has_its_entry(suite: list[Vector]) -> None:
    for vector, index, want in calls(suite, "quantized_lookup"):
        entry = operands.feeding(vector, want.sizes, index)["TableTensor"]
        assert entry["data"] == [want.words[index]]


def test_padding_is_null_and_many_elements_are_left_out(suite: list[Vector]) -> None:
    (vector,) = (each for each in suite if each.id == "intconv-padding-end")
    want = output_of(vector)
    assert want is not None
    window = operands.feeding(vector, want.sizes, len(want.words) - 1)["InputTensor"]
    assert None in window["data"]
    assert all(":" in axis or axis.lstrip("-").isdigit() for axis in window["axes"])
    (long,) = (each for each in suite if each.id == "dequantize-elements-999")
    assert operands.feeding(long, (27, 37), 998)["InputTensor"]["axes"] == ["26", "36"]
