"""Every pair of options that may occur together occurs in a vector, and no other does."""

from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from math import prod

import pytest

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.operators._shared import covering

ROOMS = {name: import_module(f"dmlax_conformance.operators.{name}.cases") for name in OPERATORS}
SMALL = {"a": ("0", "1", "2"), "b": ("0", "1", "2"), "c": ("0", "1"), "d": ("0", "1", "2", "3")}


def test_a_covering_array_has_every_pair_and_few_rows() -> None:
    rows = covering.rows(SMALL, {})
    assert len(rows) <= 14
    for (a, xs), (b, ys) in combinations(SMALL.items(), 2):
        assert {(row[a], row[b]) for row in rows} == {(x, y) for x in xs for y in ys}


def test_pairs_that_are_kept_apart_do_not_meet() -> None:
    never = covering.apart("no", (("a", "0"), ("d", "3")), (("b", "2"), ("c", "1")))
    met = set().union(*map(covering.pairs_of, covering.rows(SMALL, never)))
    assert met == covering.pairs(SMALL, never)
    assert not met & never.keys()
    with pytest.raises(ValueError, match="no pairs"):
        covering.rows(SMALL, covering.apart("no", (("a", "0"), ("z", "3"))))


def parameter(vector: Vector, name: str, single: str = "one") -> str:
    """Say whether a parameter of a convolution is absent, one value, or one for each channel."""
    if name not in vector.inputs:
        return "absent"
    return "each channel" if len(vector.inputs[name].words) > 1 else single


def windows(vector: Vector) -> dict[str, str]:
    x, w, given = vector.inputs["InputTensor"], vector.inputs["FilterTensor"], vector.attributes
    groups, outputs = given["GroupCount"], w.sizes[0]
    names = {1: "1"} | {x.sizes[1]: "depthwise" if outputs == groups else "depthwise twice"}
    more = {"strides": "Strides", "dilations": "Dilations"}
    padding = {"start padding": "StartPadding", "end padding": "EndPadding"}
    return {
        "spatial": str(len(x.sizes) - 2),
        **{name: "more" if max(given[field]) > 1 else "1" for name, field in more.items()},
        **{name: "more" if max(given[field]) > 0 else "0" for name, field in padding.items()},
        "groups": str(groups) if groups < 3 and groups != x.sizes[1] else names[groups],
        "batch": "more" if x.sizes[0] > 1 else "1",
        "input": x.dtype,
        "filter": w.dtype,
        "input zero point": parameter(vector, "InputZeroPointTensor"),
        "filter zero point": parameter(vector, "FilterZeroPointTensor"),
    }


def quantized(vector: Vector) -> dict[str, str]:
    return {
        **windows(vector),
        "output": vector.outputs["OutputTensor"].dtype,
        "output zero point": parameter(vector, "OutputZeroPointTensor"),
        "bias": parameter(vector, "BiasTensor"),
        "filter scale": parameter(vector, "FilterScaleTensor"),
    }


def element_wise(vector: Vector) -> dict[str, str]:
    x = vector.inputs["InputTensor"].sizes
    return {
        "input": vector.inputs["InputTensor"].dtype,
        "output": vector.outputs["OutputTensor"].dtype,
        "scale": broadcast(vector, "ScaleTensor"),
        "zero point": broadcast(vector, "ZeroPointTensor"),
        "rank": str(len(x)),
        "elements": "few" if prod(x) < 100 else str(prod(x)),
    }


def broadcast(vector: Vector, name: str) -> str:
    """Say whether a parameter is absent, one value, along an axis, or one for each element."""
    if name not in vector.inputs:
        return "absent"
    sizes = vector.inputs[name].sizes
    if prod(sizes) == 1:
        return "one"
    return "each" if sizes == vector.inputs["InputTensor"].sizes else "axis"


def coordinates(vector: Vector) -> dict[str, str]:
    x = vector.inputs["InputTensor"].sizes
    is_less = vector.outputs["OutputCoordinatesTensor"].sizes[-1] < len(x)
    return {
        "input": vector.inputs["InputTensor"].dtype,
        "rank": str(len(x)),
        "width": "effective rank" if is_less else "rank",
        "elements": "few" if prod(x) < 100 else str(prod(x)),
    }


SEEN: dict[str, Callable[[Vector], dict[str, str]]] = {
    "quantized_linear_convolution": quantized,
    "convolution_integer": windows,
    "element_wise_quantize_linear": element_wise,
    "element_wise_dequantize_linear": element_wise,
    "nonzero_coordinates": coordinates,
}


@pytest.mark.parametrize("operator", ROOMS)
def test_every_pair_of_options_is_in_a_vector(operator: str, suite: list[Vector]) -> None:
    """The options are read off the tensors, not off what the generator meant."""
    mine = [v for v in suite if v.operator == operator and v.topic == "pairs"]
    seen = [SEEN[operator](vector) for vector in mine]
    met = set().union(*map(covering.pairs_of, seen))
    assert met == covering.pairs(ROOMS[operator].FACTORS, ROOMS[operator].APART)
    for vector, row in zip(mine, seen, strict=True):
        assert vector.comment == ", ".join(f"{name}: {value}" for name, value in row.items())


def test_what_is_kept_apart_has_a_reason() -> None:
    assert all(why for room in ROOMS.values() for why in room.APART.values())
