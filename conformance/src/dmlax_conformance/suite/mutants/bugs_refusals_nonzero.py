"""Planted bugs of NONZERO_COORDINATES: which calls are refused, and how."""

from collections.abc import Iterator

from ...operators.nonzero_coordinates.meaning import effective_rank
from .record import Mutant
from .refusing import Row, accepts, blames_code, blames_field, has, rank, refuses, rows
from .steps import Call

OPERATOR = "nonzero_coordinates"
IMAGE, ROWS = "InputTensor", "OutputCoordinatesTensor"


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    yield from rows(OPERATOR, [*_accepting(), *_refusing(), *_blaming()])


def _width(call: Call) -> int:
    return call.outputs[ROWS].sizes[-1]


def _rank(call: Call) -> int:
    return call.inputs[IMAGE].ndim


def _lowest(call: Call) -> int:
    return max(effective_rank(call.inputs[IMAGE].shape), 1)


def _without_ones(call: Call) -> int:
    return sum(size != 1 for size in call.inputs[IMAGE].shape)


def _accepting() -> list[Row]:
    wrong = ("sizes", ROWS)
    return [
        (
            "accepts-any-type",
            "NZC-7",
            "an input of an unknown data type is accepted",
            accepts("data_type", IMAGE),
        ),
        (
            "accepts-rank-0",
            "NZC-8",
            "an input without dimensions is accepted",
            accepts("dimension_count", IMAGE),
        ),
        ("accepts-any-width", "NZC-3", "any number of columns is accepted", accepts(*wrong)),
        (
            "accepts-narrow-rows",
            "NZC-3",
            "fewer columns than the effective rank are accepted",
            accepts(*wrong, lambda call: 0 < _width(call) < _lowest(call)),
        ),
        (
            "accepts-wide-rows",
            "NZC-3",
            "more columns than the rank are accepted",
            accepts(*wrong, lambda call: _width(call) > _rank(call)),
        ),
        (
            "accepts-no-columns",
            "NZC-3",
            "a table without columns is accepted",
            accepts(*wrong, lambda call: _width(call) == 0),
        ),
        (
            "accepts-no-columns-for-one-element",
            "NZC-3",
            "the effective rank of a single element is taken as 0",
            accepts(*wrong, lambda call: _width(call) == effective_rank(_shape(call)) == 0),
        ),
        (
            "effective-rank-drops-all-ones",
            "NZC-3",
            "every size of 1 is left out of the effective rank, not only the leading ones",
            accepts(*wrong, lambda call: _without_ones(call) <= _width(call) < _lowest(call)),
        ),
        (
            "effective-rank-drops-trailing-ones",
            "NZC-3",
            "trailing sizes of 1 are left out of the effective rank as well",
            accepts(*wrong, lambda call: 0 < _trailing(call) <= _width(call) < _lowest(call)),
        ),
        (
            "widest-is-8",
            "NZC-3",
            "eight columns are accepted whatever the rank",
            accepts(*wrong, lambda call: _rank(call) < _width(call) <= 8),
        ),
        (
            "widest-is-rank-plus-1",
            "NZC-3",
            "one column more than the rank is accepted",
            accepts(*wrong, lambda call: _width(call) == _rank(call) + 1),
        ),
    ]


def _shape(call: Call) -> tuple[int, ...]:
    return call.inputs[IMAGE].shape


def _trailing(call: Call) -> int:
    """Return the rank that is left when sizes of 1 are dropped at both ends."""
    return effective_rank(_shape(call)[::-1]) - (_rank(call) - effective_rank(_shape(call)))


def _refusing() -> list[Row]:
    wrong = ("sizes", ROWS)
    types = ("bool", "int8", "int16", "uint16", "uint32", "float16", "float64", "int64")
    return [
        (
            "refuses-narrow-rows",
            "NZC-3",
            "leading sizes of 1 are counted, so only as many columns as the rank are accepted",
            refuses(*wrong, lambda call: _width(call) < _rank(call)),
        ),
        (
            "refuses-wide-rows",
            "NZC-3",
            "only as many columns as the effective rank are accepted",
            refuses(*wrong, lambda call: _width(call) > _lowest(call)),
        ),
        (
            "refuses-rank-1",
            "NZC-8",
            "an input of rank 1 is refused",
            refuses("dimension_count", IMAGE, rank(IMAGE, 1)),
        ),
        (
            "refuses-rank-8",
            "NZC-8",
            "an input of rank 8 is refused",
            refuses("dimension_count", IMAGE, rank(IMAGE, 8)),
        ),
        (
            "refuses-rank-above-5",
            "NZC-8",
            "an input of more than five dimensions is refused",
            refuses("dimension_count", IMAGE, rank(IMAGE, 6, 7, 8)),
        ),
        *(
            (
                f"refuses-{dtype}",
                "NZC-7",
                f"an input of {dtype.upper()} is refused",
                refuses("data_type", IMAGE, has(IMAGE, dtype)),
            )
            for dtype in types
        ),
        (
            "refuses-blank-input",
            "NZC-5",
            "an input without non-zero elements is refused",
            refuses("value", IMAGE, lambda call: not call.inputs[IMAGE].any()),
        ),
    ]


def _blaming() -> list[Row]:
    return [
        (
            "width-is-dimension-count",
            "NZC-3",
            "a wrong number of columns is called a wrong dimension count",
            blames_code("sizes", "dimension_count"),
        ),
        (
            "width-blames-input",
            "NZC-3",
            "a wrong number of columns is blamed on the input",
            blames_field(ROWS, IMAGE),
        ),
        (
            "width-blames-count",
            "NZC-3",
            "a wrong number of columns is blamed on the count",
            blames_field(ROWS, "OutputCountTensor"),
        ),
        (
            "type-is-value",
            "NZC-7",
            "a wrong data type is called a wrong value",
            blames_code("data_type", "value"),
        ),
        (
            "rank-0-is-sizes",
            "NZC-8",
            "an input without dimensions is called one of wrong sizes",
            blames_code("dimension_count", "sizes"),
        ),
    ]
