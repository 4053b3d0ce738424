"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: pairs of options in large calls, and calls of equal sizes."""

from .._shared.large_matmul import BIASES, OPERANDS, SCALES, rescaled
from .._shared.large_pairs import EIGHT, add_equal_sizes, add_files
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "QMM-1 QMM-2 QMM-3 QMM-5 QMM-7 QMM-9"
ROWS = ("one", "rows", "rows of each matrix")
FACTORS = {
    **OPERANDS,
    **SCALES,
    "output scale": ROWS,
    "output zero point": ("absent", *ROWS),
    "bias": BIASES,
    "output": EIGHT,
}
EQUAL = {
    "sizes": "2x3x5 5x4",
    "types": "uint8 int8",
    "zero point of A": "rows",
    "zero point of B": "columns",
    "elements": "narrow",
    "scale of A": "rows",
    "scale of B": "columns",
    "signs": "plus",
    "output scale": "rows",
    "output zero point": "rows",
    "bias": "columns",
    "output": "int8",
}
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, rescaled)
add_equal_sizes(topics, CLAUSE, rescaled(EQUAL, 1))
