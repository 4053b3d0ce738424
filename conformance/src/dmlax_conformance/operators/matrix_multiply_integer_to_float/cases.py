"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: data types, shapes, parameters, sums and what is invalid."""

from math import prod

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared import matmul_cases as shared
from .._shared.convolution_cases import Parameters
from .._shared.covering import Apart, Factors, Row, apart
from .._shared.matmul import shape_of
from .._shared.matmul_cases import NO_SCALES, MatmulTopic, operand, sums_of
from .._shared.systematic import each_pair, each_size, flags_of
from ..topics import Files, bits, drawn, floats, ints

OPERATOR = "matrix_multiply_integer_to_float"
TYPES = ("float32", "float16")

CLAUSES = {
    "sum": "MMF-1 MMF-2",
    "shape": "MMF-3",
    "rank": "MMF-4",
    "type": "MMF-6",
    "points": "MMF-5",
    "overflow": "MMF-10",
    "absent": "MMF-9",
    "bias": "MMF-7",
}
SCALES: Parameters = {"sa": [0.0625], "sb": [0.03125]}


class FloatTopic(MatmulTopic):
    """One file of calls: FLOAT32 unless they say otherwise."""

    dtype = "float32"
    bias_type = ""
    scales = SCALES
    clauses = CLAUSES

    def reveal(self, a: Tensor, b: Tensor, own: Parameters) -> Parameters:
        """Leave the last bits of each sum, by a bias for each element of the output."""
        sizes = shape_of(a.sizes, b.sizes).output
        words = shared.words_of([17 - total for total in sums_of(a, b, own)])
        return {**own, "bias": bits("float32", sizes, words), "sa": [1], "sb": [1]}


topics = Files(OPERATOR, FloatTopic)


@topics.file("data-types")
def _data_types(topic: FloatTopic) -> None:
    topic.add_types(TYPES, {"sa": [0.11]})


@topics.file("shapes")
def _shapes(topic: FloatTopic) -> None:
    topic.add_shapes()
    topic.add_empty({"bias": [40, -40.5, 9]})


@topics.file("sums")
def _sums(topic: FloatTopic) -> None:
    topic.add_sums()


ROWS, COLUMNS = [0.0625, 0.11, 0.02], [0.03, 0.05, 0.007, 0.1]
EACH: dict[str, Parameters] = {
    "a-scales": {"sa": ROWS},
    "b-scales": {"sb": COLUMNS},
    "a-scales-and-points": {"sa": ROWS, "za": [120, 0, 255]},
    "all-scales": {"sa": ROWS, "sb": COLUMNS},
    "everything": {
        "sa": ROWS,
        "sb": COLUMNS,
        "za": [120, 0, 255],
        "zb": [-5, 9, -128, 60],
        "bias": [9.5, -900, 0.125, 40],
    },
}


@topics.file("parameters")
def _parameters(topic: FloatTopic) -> None:
    topic.add_points()
    a, b = operand("uint8", (3, 5), 311), operand("int8", (5, 4), 312)
    for (name, own), dtype in ((each, dtype) for each in EACH.items() for dtype in TYPES):
        text, name = f"one for each row or column: {name.replace('-', ' ')}", f"{name}-{dtype}"
        own = {"za": [120], "zb": [-5], **own}
        topic.add(name, text, "MMF-5 MMF-1", a, b, own, "PerChannel", dtype)
    a, b = operand("uint8", (2, 2, 3, 5), 313), operand("int8", (2, 2, 5, 4), 314)
    own = {"za": [120], "sa": _rising((2, 2, 3, 1)), "sb": _rising((2, 2, 1, 4))}
    topic.add("batch", "scales of each matrix of a batch", "MMF-5", a, b, own, "PerChannel")
    own = {**EACH["everything"], "sb": _rising((1, 4))}
    text, flags = "parameters of rank 2, the same for each matrix", "PerChannel Broadcast"
    topic.add("repeated", text, "MMF-5", a, b, own, flags)
    a, b = operand("uint8", (2, 3, 5), 315), operand("int8", (5, 4), 316)
    for dtype in TYPES:
        for sizes in ((), (4,), (3, 1), (3, 4), (2, 1, 1), (2, 3, 4)):
            count = prod(sizes)
            addends = [step / 8 for step in drawn("int32", (count,), 317, -800, 800).words]
            name = "-".join(("bias", *(map(str, sizes or ["none"])), dtype))
            text = f"a bias of sizes {list(sizes)} over an output of [2, 3, 4]"
            own = {"za": [120], "bias": floats(dtype, sizes, addends)}
            topic.add(name, text, "MMF-7 MMF-6", a, b, own, "Broadcast", dtype)


def _rising(sizes: tuple[int, ...]) -> Tensor:
    """Return scales that differ."""
    return floats("float32", sizes, [(5 + 3 * at) / 256 for at in range(prod(sizes))])


EVERY: Parameters = {
    "za": [120],
    "zb": [1],
    "bias": [5, -5, 0, 9],
    "sa": [0.5, 0.25],
    "sb": [0.03125, 0.5, 1, 2],
}
WRONG = {
    "float16-a-scale": ("AScaleTensor", floats("float16", (), [0.5])),
    "float16-b-scale": ("BScaleTensor", floats("float16", (), [0.5])),
    "int32-b-scale": ("BScaleTensor", ints("int32", (), [1])),
    "int32-bias": ("BiasTensor", ints("int32", (4,), [5, -5, 0, 1])),
    "float16-bias": ("BiasTensor", floats("float16", (4,), [5, -5, 0, 1])),
    "a-scales-flat": ("AScaleTensor", floats("float32", (2,), [1, 2])),
    "a-scales-3": ("AScaleTensor", floats("float32", (3, 1), [1, 2, 3])),
    "a-scales-by-k": ("AScaleTensor", floats("float32", (1, 3), [1, 2, 3])),
    "b-scales-3": ("BScaleTensor", floats("float32", (3,), [1, 2, 3])),
    "b-scales-by-row": ("BScaleTensor", floats("float32", (2, 1), [1, 2])),
    "bias-3": ("BiasTensor", floats("float32", (3,), [1, 2, 3])),
    "bias-2": ("BiasTensor", floats("float32", (2,), [1, 2])),
    "bias-rank-3": ("BiasTensor", floats("float32", (2, 2, 4), range(16))),
}


@topics.file("invalid")
def _invalid(topic: FloatTopic) -> None:
    topic.add_twins(EVERY)
    topic.refuse_operands()


@topics.file("invalid-parameters")
def _invalid_parameters(topic: FloatTopic) -> None:
    a, b = operand("uint8", (2, 3), 11), operand("int8", (3, 4), 12)
    base, text = "twin-parameters", "the twin: every tensor is present"
    topic.add(base, text, "MMF-5 MMF-7", a, b, EVERY, "Optional")
    names = "float16-a-scale float16-b-scale int32-b-scale int32-bias float16-bias"
    topic.wrong(base, "data_type", "MMF-6", "{field} is {dtype}", WRONG, names)
    twin, text = "twin-no-bias", "the twin: no bias"
    topic.add(twin, text, "MMF-6 MMF-9", a, b, {}, "Optional")
    for dtype in ("int32", "float64"):
        asked = {"OutputTensor": Request(dtype, (2, 4))}
        name, text = f"{dtype}-output", f"an output of {dtype} is asked for"
        topic.invalid(name, text, "MMF-6", twin, "data_type", asked)
    text = "{field} has sizes {sizes}"
    names = " ".join(name for name in WRONG if "scales" in name)
    topic.wrong(base, "sizes", "MMF-5", text, WRONG, names)
    topic.wrong(base, "sizes", "MMF-7", text, WRONG, "bias-3 bias-2 bias-rank-3")


@topics.file("invalid-values")
def _invalid_values(topic: FloatTopic) -> None:
    topic.refuse_scales("MMF-11", EVERY, {"A": [*NO_SCALES], "B": [*NO_SCALES]})


FACTORS: Factors = {
    **shared.FACTORS,
    "output": TYPES,
    "scale of a": shared.POINTS[1:],
    "scale of b": shared.POINTS[1:],
    "bias sizes": ("absent", "columns", "output"),
}
APART: Apart = {
    **shared.kept_apart(("zero point of a", "scale of a"), ("zero point of b", "scale of b")),
    **apart(
        "the output has one axis",
        (("ranks", "1 and 2"), ("bias sizes", "output")),
        (("ranks", "2 and 1"), ("bias sizes", "columns")),
    ),
}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: FloatTopic, name: str, text: str, row: Row, number: int) -> None:
    a, b, own = shared.pair(row, number)
    for key, tensor, each in (("sa", "a", ROWS), ("sb", "b", COLUMNS)):
        own[key] = each if row[f"scale of {tensor}"] == "each" else each[:1]
    output = shape_of(a.sizes, b.sizes).output
    sizes = {"absent": None, "columns": output[-1:], "output": output}[row["bias sizes"]]
    if sizes:
        steps = drawn("int32", (prod(sizes),), 980 + number, -900, 900).words
        own["bias"] = floats(row["output"], sizes, [step / 16 for step in steps])
    topic.add(name, text, "MMF-1 MMF-3 MMF-5 MMF-6", a, b, own, "", row["output"])


@topics.file("size-classes")
@each_size
def _of_size(topic: FloatTopic, count: int, number: int) -> None:
    topic.add_size(count, number, {"sa": [0.1]}, flags_of(count))
