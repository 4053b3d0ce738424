"""The operands of one element give that element, by the oracle."""

import random
from math import prod
from typing import Any

import pytest

from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.calls import answer, with_elements
from dmlax_conformance.reports import operands

NEED_ALL = {"dynamic_quantize_linear", "nonzero_coordinates"}  # no element has operands of its own
ONE_WINDOW = {"Strides": 1, "Dilations": 1, "StartPadding": 0, "EndPadding": 0}


def calls(suite: list[Vector], operator: str) -> list[tuple[Vector, int, Any]]:
    """Return an element of some calls of an operator, and the tensor that it is in."""
    own = [v for v in suite if v.operator == operator and v.desc is None and v.is_valid]
    random.Random(operator).shuffle(own)
    small = [v for v in own if 0 < prod(v.outputs["OutputTensor"].sizes) < 2000][:25]
    wants: Any = [(vector, with_elements(vector).expect) for vector in small]
    return [(v, len(x["OutputTensor"].words) * 2 // 3, x["OutputTensor"]) for v, x in wants]


def read(part: Any) -> Tensor | None:
    """Return a part without padding as a tensor."""
    words = part.get("data") or [x and int(x, 16) for x in part.get("bits", [None])]
    return None if None in words else Tensor(part["dtype"], tuple(part["sizes"]), tuple(words))


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
        outputs = {"OutputTensor": Request(want.dtype, (1,) * len(want.sizes))}
        attributes: Any = {
            name: [ONE_WINDOW[name]] * len(value) if name in ONE_WINDOW else value
            for name, value in vector.attributes.items()
        }
        attributes |= {"GroupCount": 1} if "GroupCount" in attributes else {}
        found = answer(operator, attributes, inputs, outputs)["OutputTensor"]
        assert found.words == (want.words[index],), vector.id
        checked += 1
    assert checked >= 5


def test_a_lookup_has_its_entry(suite: list[Vector]) -> None:
    for vector, index, want in calls(suite, "quantized_lookup"):
        entry = operands.feeding(vector, want.sizes, index)["TableTensor"]
        assert entry["data"] == [want.words[index]]


def test_padding_is_null_and_many_elements_are_left_out(suite: list[Vector]) -> None:
    known = {each.id: each for each in suite}
    vector = known["intconv-padding-end"]
    sizes = vector.outputs["OutputTensor"].sizes
    window = operands.feeding(vector, sizes, prod(sizes) - 1)["InputTensor"]
    assert None in window["data"]
    assert all(":" in axis or axis.lstrip("-").isdigit() for axis in window["axes"])
    long = operands.feeding(known["dequantize-elements-999"], (27, 37), 998)
    assert long["InputTensor"]["axes"] == ["26", "36"]
