"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: pairs of options in large calls, and calls of equal sizes."""

from fractions import Fraction

from ...format.vectors import Request
from .._shared import floats
from .._shared.covering import Row
from .._shared.floats import exactly
from .._shared.large_matmul import BIASES, OPERANDS, SCALES, bias_sizes, operands, sizes_for
from .._shared.large_pairs import Call, add_equal_sizes, add_files, cycled, fractions, words_of
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "MMF-1 MMF-2 MMF-3 MMF-5 MMF-7"
FACTORS = {**OPERANDS, **SCALES, "bias": BIASES, "output": ("float32", "float16")}
OF_COLUMNS = {  # with which products are normal, too large, subnormal, or a tie
    "float32": (*fractions("1/3", "1/3000", 77, "1/8"), Fraction(1, 2**140), Fraction(5, 7)),
    "float16": (*fractions("1/3", "1/3000", 9, "1/8"), Fraction(1, 2**34), Fraction(1, 4)),
}
BIAS = (
    Fraction(1, 3),
    Fraction(-1000),
    Fraction(1, 2**20),
    Fraction(0),
    Fraction(77),
    Fraction(-5),
)


def made(row: Row, number: int) -> Call:
    """Return a call with scales, and perhaps a bias, whose sums are rounded to a float."""
    shape, given = operands(row, number)
    sign, dtype = row["signs"], row["output"]
    a, b = (sizes_for(shape, row[f"scale of {key}"], key.lower()) for key in "AB")
    columns = OF_COLUMNS[dtype]
    turn = columns[number % 4 :] + columns[: number % 4] if b == () else columns
    ones = fractions(1, 2, "7/5", 1, "1/3")
    given["AScaleTensor"] = cycled("float32", a, words_of(ones, "plus" if number % 2 else sign))
    given["BScaleTensor"] = cycled("float32", b, words_of(turn, sign))
    if row["bias"] != "absent":
        words = [floats.encode(floats.nearest(exactly(each), dtype), dtype) for each in BIAS]
        given["BiasTensor"] = cycled(dtype, bias_sizes(shape, row["bias"]), words)
    return Call(given, {"OutputTensor": Request(dtype, shape.output)})


EQUAL = {
    "sizes": "2x3x5 5x4",
    "types": "uint8 int8",
    "zero point of A": "rows",
    "zero point of B": "columns",
    "elements": "narrow",
    "scale of A": "rows",
    "scale of B": "columns",
    "signs": "plus",
    "bias": "columns",
    "output": "float32",
}
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, made)
add_equal_sizes(topics, CLAUSE, made(EQUAL, 1))
