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


Read = Callable[[Vector], str]


def dtype_of(name: str) -> Read:
    return lambda vector: (
        (vector.inputs[name] if name in vector.inputs else vector.outputs[name]).dtype
    )


def attribute(name: str, least: int) -> Read:
    return lambda vector: "more" if max(vector.attributes[name]) > least else str(least)


def parameter(name: str) -> Read:
    """Say whether a parameter is absent, one value, or one for each channel."""
    kinds = {0: "absent", 1: "one"}
    return lambda vector: kinds.get(
        len(vector.inputs[name].words) if name in vector.inputs else 0, "each channel"
    )


def broadcast(name: str) -> Read:
    """Say whether a parameter is absent, one value, along an axis, or one for each element."""

    def read(vector: Vector) -> str:
        sizes = vector.inputs[name].sizes if name in vector.inputs else None
        whole = {None: "absent", vector.inputs["InputTensor"].sizes: "each"}
        return "one" if sizes and prod(sizes) == 1 else whole.get(sizes, "axis")

    return read


def groups(vector: Vector) -> str:
    count, channels = vector.attributes["GroupCount"], vector.inputs["InputTensor"].sizes[1]
    if count == 1 or count != channels:
        return str(count)
    return "depthwise" if vector.inputs["FilterTensor"].sizes[0] == count else "depthwise twice"


def width(vector: Vector) -> str:
    width = vector.outputs["OutputCoordinatesTensor"].sizes[-1]
    return "rank" if width == len(sizes_of(vector)) else "effective rank"


def sizes_of(vector: Vector) -> tuple[int, ...]:
    if "ATensor" in vector.inputs:
        return vector.outputs["OutputTensor"].sizes
    return vector.inputs["InputTensor"].sizes


def repeats(vector: Vector) -> str:
    """Say which of two tensors repeats to the sizes of the output."""
    sizes = [vector.inputs[f"{name}Tensor"].sizes != sizes_of(vector) for name in ("A", "B")]
    return {(False, False): "none", (True, False): "a", (False, True): "b"}.get(
        (sizes[0], sizes[1]), "both"
    )


def given(name: str) -> Read:
    """Say whether a parameter of a matrix product is absent, one value, or several."""
    kinds = {0: "absent", 1: "one"}
    return lambda vector: kinds.get(
        len(vector.inputs[name].words) if name in vector.inputs else 0, "each"
    )


def bias_sizes(vector: Vector) -> str:
    bias, output = vector.inputs.get("BiasTensor"), vector.outputs["OutputTensor"].sizes
    if bias is None:
        return "absent"
    is_column = len(bias.sizes) == 1 and len(vector.inputs["BTensor"].sizes) > 1
    return "columns" if is_column or bias.sizes != output else "output"


def ranks(vector: Vector) -> str:
    return " and ".join(str(len(vector.inputs[name].sizes)) for name in ("ATensor", "BTensor"))


def result(vector: Vector) -> str:
    """Say which data type a result that is no output has."""
    name = "OutputZeroPointTensor"
    return vector.inputs[name].dtype if name in vector.inputs else "as the input"


READ: dict[str, Read] = {
    "ranks": ranks,
    "a": dtype_of("ATensor"),
    "b": dtype_of("BTensor"),
    "zero point of a": given("AZeroPointTensor"),
    "zero point of b": given("BZeroPointTensor"),
    "zero point of output": given("OutputZeroPointTensor"),
    "scale of a": given("AScaleTensor"),
    "scale of b": given("BScaleTensor"),
    "scale of output": given("OutputScaleTensor"),
    "bias sizes": bias_sizes,
    "input": dtype_of("InputTensor"),
    "filter": dtype_of("FilterTensor"),
    "output": dtype_of("OutputTensor"),
    "rank": lambda vector: str(len(sizes_of(vector))),
    "spatial": lambda vector: str(len(sizes_of(vector)) - 2),
    "batch": lambda vector: "more" if sizes_of(vector)[0] > 1 else "1",
    "elements": lambda vector: (
        "few" if prod(sizes_of(vector)) < 50 else str(prod(sizes_of(vector)))
    ),
    "width": width,
    "groups": groups,
    "strides": attribute("Strides", 1),
    "dilations": attribute("Dilations", 1),
    "start padding": attribute("StartPadding", 0),
    "end padding": attribute("EndPadding", 0),
    "input zero point": parameter("InputZeroPointTensor"),
    "filter zero point": parameter("FilterZeroPointTensor"),
    "output zero point": parameter("OutputZeroPointTensor"),
    "input scale": parameter("InputScaleTensor"),
    "filter scale": parameter("FilterScaleTensor"),
    "output scale": parameter("OutputScaleTensor"),
    "include padding": lambda vector: "yes" if vector.attributes["IncludePadding"] else "no",
    "bias": parameter("BiasTensor"),
    "result": result,
    "addend": dtype_of("AddendTensor"),
    "addend zero point": parameter("AddendZeroPointTensor"),
    "sum zero point": parameter("SumZeroPointTensor"),
    "addend first": lambda vector: "yes" if vector.attributes["AddendFirst"] else "no",
    "a zero point": parameter("AZeroPointTensor"),
    "b zero point": parameter("BZeroPointTensor"),
    "repeats": repeats,
    "scale": broadcast("ScaleTensor"),
    "zero point": broadcast("ZeroPointTensor"),
}


@pytest.mark.parametrize("operator", ROOMS)
def test_every_pair_of_options_is_in_a_vector(operator: str, suite: list[Vector]) -> None:
    """The options are read off the tensors, not off what the generator meant."""
    mine = [v for v in suite if v.operator == operator and v.topic == "pairs"]
    factors = ROOMS[operator].FACTORS
    seen = [{name: READ[name](vector) for name in factors} for vector in mine]
    met = set().union(*map(covering.pairs_of, seen))
    assert met == covering.pairs(factors, ROOMS[operator].APART)
    for vector, row in zip(mine, seen, strict=True):
        assert vector.comment == ", ".join(f"{name}: {value}" for name, value in row.items())


def test_what_is_kept_apart_has_a_reason() -> None:
    assert all(why for room in ROOMS.values() for why in room.APART.values())
