"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: data types, shapes, parameters, sums and what is invalid."""

from math import prod

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared import matmul_cases as shared
from .._shared.convolution_cases import EIGHT, Parameters
from .._shared.covering import Apart, Factors, Row, apart
from .._shared.matmul import shape_of
from .._shared.matmul_cases import NO_SCALES, MatmulTopic, operand, sums_of
from .._shared.systematic import each_pair, each_size, flags_of
from ..topics import Files, drawn, floats, ints

OPERATOR = "quantized_linear_matrix_multiply"

CLAUSES = {
    "sum": "QMM-1 QMM-2",
    "shape": "QMM-3",
    "rank": "QMM-4",
    "type": "QMM-8",
    "points": "QMM-7",
    "overflow": "QMM-11",
    "absent": "QMM-10",
    "bias": "QMM-9",
}
SCALES: Parameters = {"sa": [0.0625], "sb": [0.03125], "sy": [0.5]}


class QuantizedTopic(MatmulTopic):
    """One file of calls: INT8 unless they say otherwise."""

    dtype = "int8"
    scales = SCALES
    clauses = CLAUSES

    def reveal(self, a: Tensor, b: Tensor, own: Parameters) -> Parameters:
        """Leave 17 of each sum, by a bias for each element of the output."""
        sizes = shape_of(a.sizes, b.sizes).output
        bias = ints("int32", sizes, [17 - total for total in sums_of(a, b, own)])
        return {**own, "bias": bias, "sa": [1], "sb": [1], "sy": [1]}


topics = Files(OPERATOR, QuantizedTopic)


@topics.file("data-types")
def _data_types(topic: QuantizedTopic) -> None:
    topic.add_types(EIGHT, {"sy": [16], "zy": [60]})


@topics.file("shapes")
def _shapes(topic: QuantizedTopic) -> None:
    topic.add_shapes()
    topic.add_empty({"bias": [40, -40, 9], "zy": [3], "sa": [1], "sb": [1]})


@topics.file("sums")
def _sums(topic: QuantizedTopic) -> None:
    topic.add_sums()


ROWS, COLUMNS, OUTPUTS = [0.0625, 0.11, 0.02], [0.03, 0.05, 0.007, 0.1], [0.5, 0.3, 1.7]
EACH: dict[str, Parameters] = {
    "a-scales": {"sa": ROWS},
    "b-scales": {"sb": COLUMNS},
    "output-scales": {"sy": OUTPUTS},
    "output-zero-points": {"zy": [-90, 3, 77]},
    "a-scales-and-points": {"sa": ROWS, "za": [120, 0, 255]},
    "outputs": {"sy": OUTPUTS, "zy": [-90, 3, 77]},
    "all-scales": {"sa": ROWS, "sb": COLUMNS, "sy": OUTPUTS},
    "everything": {
        "sa": ROWS,
        "sb": COLUMNS,
        "sy": OUTPUTS,
        "zy": [-90, 3, 77],
        "za": [120, 0, 255],
        "zb": [-5, 9, -128, 60],
        "bias": [900, -900, 50, 4000],
    },
}


@topics.file("parameters")
def _parameters(topic: QuantizedTopic) -> None:
    topic.add_points()
    a, b = operand("uint8", (3, 5), 311), operand("int8", (5, 4), 312)
    for name, own in EACH.items():
        text = f"one for each row or column: {name.replace('-', ' ')}"
        topic.add(name, text, "QMM-7", a, b, {"za": [120], "zb": [-5], **own}, "PerChannel")
    for batch in ((2, 2),):
        a, b = operand("uint8", (*batch, 3, 5), 313), operand("int8", (*batch, 5, 4), 314)
        own = {"za": [120], "sa": _rising((*batch, 3, 1)), "sb": _rising((*batch, 1, 4))}
        own |= {"sy": floats("float32", (*batch, 3, 1), _steps((*batch, 3, 1), 16))}
        own |= {"zy": ints("int8", (*batch, 3, 1), range(-6, 3 * len(batch) * 2 - 6))}
        text, flags = "parameters of each matrix of a batch", "PerChannel"
        topic.add(f"batch-of-{len(batch)}", text, "QMM-7", a, b, own, flags)
        text, own = "parameters of rank 2, the same for each matrix of a batch", EACH["everything"]
        own = {**own, "sb": floats("float32", (1, 4), [0.03125, 0.0625, 0.125, 0.25])}
        name, flags = f"repeated-{len(batch)}", "PerChannel Broadcast"
        topic.add(name, text, "QMM-7", a, b, own, flags)
    a, b = operand("uint8", (2, 3, 5), 315), operand("int8", (5, 4), 316)
    for sizes in ((), (4,), (3, 1), (3, 4), (2, 1, 1), (2, 3, 4)):
        bias = drawn("int32", sizes, 317, -5000, 5000)
        name = "-".join(("bias", *(map(str, sizes or ["none"]))))
        text = f"a bias of sizes {list(sizes)} over an output of [2, 3, 4]"
        topic.add(name, text, "QMM-9", a, b, {"za": [120], "bias": bias}, "Broadcast")
    for dtype, zero in (("uint8", 200), ("int8", -100)):
        own = {"za": [120], "zy": [zero], "sa": [0.25]}
        topic.add(f"zero-point-{dtype}", f"{dtype} with {zero}", "QMM-5", a, b, own, "", dtype)
        own = {"za": [120], "sa": [0.25]}
        text = f"{dtype} without a zero point of the output"
        topic.add(f"no-zero-point-{dtype}", text, "QMM-10", a, b, own, "Optional", dtype)


def _steps(sizes: tuple[int, ...], parts: int) -> list[float]:
    """Return numbers that differ, multiples of a fraction."""
    return [(5 + 3 * place) / parts for place in range(prod(sizes))]


def _rising(sizes: tuple[int, ...]) -> Tensor:
    return floats("float32", sizes, _steps(sizes, 256))


EVERY: Parameters = {
    "za": [120],
    "zb": [1],
    "zy": [10],
    "bias": [5, -5, 0, 9],
    "sa": [0.5, 0.25],
    "sb": [0.03125, 0.5, 1, 2],
    "sy": [2, 4],
}
WRONG = {
    "float16-a-scale": ("AScaleTensor", floats("float16", (), [0.5])),
    "float16-b-scale": ("BScaleTensor", floats("float16", (), [0.5])),
    "int32-output-scale": ("OutputScaleTensor", ints("int32", (), [1])),
    "float-bias": ("BiasTensor", floats("float32", (4,), [5, -5, 0, 1])),
    "int8-bias": ("BiasTensor", ints("int8", (4,), [5, -5, 0, 1])),
    "uint8-output-zero-point": ("OutputZeroPointTensor", ints("uint8", (), [100])),
    "int32-output-zero-point": ("OutputZeroPointTensor", ints("int32", (), [100])),
    "a-scales-flat": ("AScaleTensor", floats("float32", (2,), [1, 2])),
    "a-scales-3": ("AScaleTensor", floats("float32", (3, 1), [1, 2, 3])),
    "a-scales-by-k": ("AScaleTensor", floats("float32", (1, 3), [1, 2, 3])),
    "b-scales-3": ("BScaleTensor", floats("float32", (3,), [1, 2, 3])),
    "b-scales-by-row": ("BScaleTensor", floats("float32", (2, 1), [1, 2])),
    "output-scales-flat": ("OutputScaleTensor", floats("float32", (2,), [1, 2])),
    "output-scales-by-column": ("OutputScaleTensor", floats("float32", (1, 4), [1, 2, 3, 4])),
    "output-scales-3": ("OutputScaleTensor", floats("float32", (3, 1), [1, 2, 3])),
    "output-zero-points-flat": ("OutputZeroPointTensor", ints("int8", (2,), [1, 2])),
    "output-zero-points-by-column": ("OutputZeroPointTensor", ints("int8", (1, 4), [1, 2, 3, 4])),
    "output-zero-points-3": ("OutputZeroPointTensor", ints("int8", (3, 1), [1, 2, 3])),
    "bias-3": ("BiasTensor", ints("int32", (3,), [1, 2, 3])),
    "bias-2": ("BiasTensor", ints("int32", (2,), [1, 2])),
    "bias-rank-3": ("BiasTensor", ints("int32", (2, 2, 4), range(16))),
}


@topics.file("invalid")
def _invalid(topic: QuantizedTopic) -> None:
    topic.add_twins(EVERY)
    topic.refuse_operands()


@topics.file("invalid-parameters")
def _invalid_parameters(topic: QuantizedTopic) -> None:
    a, b = operand("uint8", (2, 3), 11), operand("int8", (3, 4), 12)
    base, text = "twin-parameters", "the twin: every tensor is present"
    topic.add(base, text, "QMM-7 QMM-9", a, b, EVERY, "Optional")
    names = "float16-a-scale float16-b-scale int32-output-scale float-bias int8-bias"
    names += " uint8-output-zero-point int32-output-zero-point"
    topic.wrong(base, "data_type", "QMM-8", "{field} is {dtype}", WRONG, names)
    text = "the twin: no zero point of the output"
    topic.add("twin-no-output-zero-point", text, "QMM-8 QMM-10", a, b, {}, "Optional")
    for dtype in ("int16", "float32"):
        asked = {"OutputTensor": Request(dtype, (2, 4))}
        name, text = f"{dtype}-output", f"an output of {dtype} is asked for"
        twin = "twin-no-output-zero-point"
        topic.invalid(name, text, "QMM-8", twin, "data_type", asked)
    text = "{field} has sizes {sizes}"
    names = " ".join(name for name in WRONG if "scales" in name or "points" in name)
    topic.wrong(base, "sizes", "QMM-7", text, WRONG, names)
    topic.wrong(base, "sizes", "QMM-9", text, WRONG, "bias-3 bias-2 bias-rank-3")


@topics.file("invalid-values")
def _invalid_values(topic: QuantizedTopic) -> None:
    plus = [word for word in NO_SCALES if not word.startswith("minus")]
    wrong = {"A": plus, "B": [*NO_SCALES], "Output": plus}
    topic.refuse_scales("QMM-12", EVERY, wrong)


FACTORS: Factors = {
    **shared.FACTORS,
    "output": EIGHT,
    "zero point of output": shared.POINTS,
    "scale of a": shared.POINTS[1:],
    "scale of b": shared.POINTS[1:],
    "scale of output": shared.POINTS[1:],
    "bias sizes": ("absent", "columns", "output"),
}
ROW_WISE = ("zero point of a", "zero point of output", "scale of a", "scale of output")
APART: Apart = {
    **shared.kept_apart(ROW_WISE, ("zero point of b", "scale of b")),
    **apart(
        "the output has one axis",
        (("ranks", "1 and 2"), ("bias sizes", "output")),
        (("ranks", "2 and 1"), ("bias sizes", "columns")),
    ),
}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: QuantizedTopic, name: str, text: str, row: Row, number: int) -> None:
    a, b, own = shared.pair(row, number)
    own["zy"] = shared.point(row, "output", row["output"], 3, -30)
    for key, tensor, each in (("sa", "a", ROWS), ("sb", "b", COLUMNS), ("sy", "output", OUTPUTS)):
        own[key] = each if row[f"scale of {tensor}"] == "each" else each[:1]
    output = shape_of(a.sizes, b.sizes).output
    sizes = {"absent": None, "columns": output[-1:], "output": output}[row["bias sizes"]]
    if sizes:
        own["bias"] = drawn("int32", sizes, 980 + number, -9000, 9000)
    topic.add(name, text, "QMM-1 QMM-3 QMM-7 QMM-8", a, b, own, "", row["output"])


@topics.file("size-classes")
@each_size
def _of_size(topic: QuantizedTopic, count: int, number: int) -> None:
    topic.add_size(count, number, {"sy": [4], "zy": [3]}, flags_of(count))
