"""Pairs of options of matrix products in calls of many elements."""

from fractions import Fraction
from typing import Any

from ...format.tensors import Tensor
from ...format.vectors import Request
from .covering import Row
from .large_pairs import (
    EIGHT,
    PER_UNIT,
    Call,
    cycled,
    fractions,
    operand,
    points,
    sizes_of,
    steps,
    words_of,
)
from .matmul import Shape, shape_of

SHAPES = (
    *("131x33 33x5", "5x9 9x131", "3x5x7 7x69", "2x67x5 5x5", "67x7 2x7x5", "5x7 2x7x69"),
    *("2x1x5x4 2x3x4x21", "9 9x523", "523x9 9", "17x300 300x31", "2x17x17 17x17"),
)
OPERANDS = {
    "sizes": SHAPES,
    "types": tuple(f"{a} {b}" for a in EIGHT for b in EIGHT),
    "zero point of A": ("absent", "one", "rows", "rows of each matrix"),
    "zero point of B": ("absent", "one", "columns", "columns of each matrix"),
    "elements": ("full", "narrow"),
}
SX, SY = Fraction(281, 2**27), Fraction(281 * PER_UNIT, 2**12)
ROWS = fractions(1, 2, "1/2", 1, 4)
FULL = Fraction(1, 390)  # that sums of the whole range are longer


def sizes_for(shape: Shape, kind: str, side: str) -> tuple[int, ...]:
    """Return the sizes of a parameter of A, of B or of the output."""
    if "each" not in kind and kind not in ("rows", "columns"):
        return ()
    if side == "b":
        own = (1, shape.b[-1])
        return (*shape.b[:-2], *own) if "each" in kind else own
    batch = shape.batch if side == "y" else shape.a[:-2]
    own = (shape.a[-2], 1)
    return (*batch, *own) if "each" in kind else own


def operands(row: Row, number: int) -> tuple[Shape, dict[str, Tensor]]:
    """Return the shape, both operands and their zero points."""
    sizes = [sizes_of(each) for each in row["sizes"].split()]
    shape, found = shape_of(*sizes), dict[str, Tensor]()
    for at, (side, dtype) in enumerate(zip("AB", row["types"].split(), strict=True)):
        kind = row[f"zero point of {side}"]
        seed = 7000 + 10 * number + at
        found[f"{side}Tensor"] = operand(dtype, sizes[at], seed, row["elements"], kind != "absent")
        if kind != "absent":
            own = sizes_for(shape, kind, side.lower())
            made = points(dtype, own, number + at, row["elements"])
            found[f"{side}ZeroPointTensor"] = made
    return shape, found


def sums(row: Row, number: int) -> Call:
    """Return a call of the sums alone."""
    shape, given = operands(row, number)
    return Call(given, {"OutputTensor": Request("int32", shape.output)})


def bias_sizes(shape: Shape, kind: str) -> tuple[int, ...]:
    """Return the sizes of a bias."""
    output = shape.output
    is_vector = len(output) < 2
    return {
        "one": (1,),
        "columns": output[-1:],
        "rows": output if is_vector else (output[-2], 1),
        "each": output,
    }[kind]


BIASES = ("absent", "columns", "rows", "each")
SCALES: dict[str, Any] = {
    "scale of A": ("one", "rows", "rows of each matrix"),
    "scale of B": ("one", "columns", "columns of each matrix"),
    "signs": ("plus", "minus"),
}


def rescaled(row: Row, number: int) -> Call:
    """Return a call whose sums are multiplied by scales and rounded to 8 bits."""
    shape, given = operands(row, number)
    own = {key: sizes_for(shape, row[f"scale of {key}"], key.lower()) for key in "AB"}
    own["y"] = sizes_for(shape, row["output scale"], "y")
    unit = SY / SX * (FULL if row["elements"] == "full" else 1)
    sign = row["signs"]
    a, y = ([SX * each for each in ROWS], [SY * each for each in ROWS[::-1]])
    given["AScaleTensor"] = cycled("float32", own["A"], words_of(a, sign))
    given["BScaleTensor"] = cycled(
        "float32", own["B"], steps(number, len(own["B"]) or 1, sign, unit)
    )
    given["OutputScaleTensor"] = cycled(
        "float32", own["y"], words_of(y, "plus" if number % 2 else sign)
    )
    dtype, kind = row["output"], row["output zero point"]
    if kind != "absent":
        given["OutputZeroPointTensor"] = points(dtype, sizes_for(shape, kind, "y"), number)
    if row["bias"] != "absent":
        length = 4000 if row["elements"] == "full" else 60
        words = [length, -3 * length, 1, -7, 2 * length + 1, 13, -length // 3, 5, -1, 3, 11]
        given["BiasTensor"] = cycled("int32", bias_sizes(shape, row["bias"]), words)
    return Call(given, {"OutputTensor": Request(dtype, shape.output)})
