"""Every pair of options that may occur together: small calls from covering arrays."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import DTYPES, Tensor, from_recipe
from ...operators._shared import element_wise_cases as element_wise
from ...operators._shared.window_cases import attributes, parameter
from ...operators.convolution_integer import cases as integer
from ...operators.nonzero_coordinates import cases as nonzero
from ...operators.quantized_linear_convolution import cases as quantized
from ...operators.topics import Topic, drawn, floats
from .covering import Apart, Factors, Row, apart, rows

TOPIC = "pairs"
EIGHT = ("uint8", "int8")
WINDOWS: Factors = {
    "spatial": ("2", "1"),
    "strides": ("1", "more"),
    "dilations": ("1", "more"),
    "start padding": ("0", "more"),
    "end padding": ("0", "more"),
    "groups": ("1", "2", "depthwise", "depthwise twice"),
    "batch": ("1", "more"),
    "input": EIGHT,
    "filter": EIGHT,
    "input zero point": ("absent", "one"),
    "filter zero point": ("absent", "one", "each channel"),
}
PARAMETERS = ("absent", "one", "axis", "each")
FACTORS: Mapping[str, Factors] = {
    "quantized_linear_convolution": {
        **WINDOWS,
        "output": EIGHT,
        "output zero point": ("absent", "one"),
        "bias": ("absent", "each channel"),
        "filter scale": ("one", "each channel"),
    },
    "convolution_integer": WINDOWS,
    "element_wise_quantize_linear": {
        "input": ("float32", "float16", "int32"),
        "output": EIGHT,
        "scale": PARAMETERS[1:],
        "zero point": PARAMETERS,
        "rank": ("1", "2", "4"),
        "elements": ("few", "129", "255"),
    },
    "element_wise_dequantize_linear": {
        "input": ("int8", "uint8", "int16", "uint16", "int32", "uint32"),
        "output": ("float32", "float16"),
        "scale": PARAMETERS[1:],
        "zero point": PARAMETERS,
        "rank": ("1", "2", "4"),
        "elements": ("few", "129"),
    },
    "nonzero_coordinates": {
        "input": (
            *("uint8", "int8", "uint16", "int16", "uint32", "int32"),
            *("float32", "float16"),
        ),
        "rank": ("1", "2", "4", "8"),
        "width": ("rank", "effective rank"),
        "elements": ("few", "126", "255", "1001", "66000"),
    },
}
ALONG = [(("scale", "axis"), ("rank", "1")), (("zero point", "axis"), ("rank", "1"))]
LARGE = product(("float32", "float16"), ("1001", "66000"))
APART: Mapping[str, Apart] = {
    "quantized_linear_convolution": {},
    "convolution_integer": {},
    "element_wise_quantize_linear": apart("with one axis, it is each element", *ALONG),
    "element_wise_dequantize_linear": apart("with one axis, it is each element", *ALONG),
    "nonzero_coordinates": {
        **apart("rank 1 has one width", (("rank", "1"), ("width", "effective rank"))),
        **apart("recipes make integers", *((("input", t), ("elements", n)) for t, n in LARGE)),
    },
}


def topics() -> Iterator[Topic]:
    """Yield one file for each operator."""
    for operator, make in MAKERS.items():
        topic = Topic(operator, TOPIC)
        for number, row in enumerate(rows(FACTORS[operator], APART[operator]), 1):
            text = ", ".join(f"{name}: {value}" for name, value in row.items())
            make(topic, f"pairs-{number}", text, row, number)
        yield topic


# -- convolutions ------------------------------------------------------------------------------


def _window(row: Row) -> dict[str, Any]:
    """Return the attributes; two spatial axes are never alike."""
    spatial = int(row["spatial"])
    more = {"strides": (2, 3), "dilations": (2, 3), "start padding": (1, 2), "end padding": (2, 1)}
    strides, dilations, start, end = (
        values[:spatial] if row[name] == "more" else (int(row[name]),) * spatial
        for name, values in more.items()
    )
    groups = {"1": 1, "2": 2}.get(row["groups"], 4)
    return attributes(strides, dilations, start, end, groups)


def _operands(row: Row, number: int) -> tuple[Tensor, Tensor]:
    spatial, groups = int(row["spatial"]), row["groups"]
    channels, per_group = (2, 2) if groups == "1" else (4, 2 if groups == "2" else 1)
    batch, outputs = 1 + (row["batch"] == "more"), 8 if groups == "depthwise twice" else 4
    x = quantized.image(row["input"], (batch, channels, *(7, 6)[:spatial]), 900 + number)
    w = quantized.image(row["filter"], (outputs, per_group, *(3, 2)[:spatial]), 950 + number)
    return x, w


def _point(kind: str, dtype: str, channels: int, first: int) -> Sequence[int] | None:
    """Return no zero point, one, or one for each channel."""
    if kind == "absent":
        return None
    middle = 128 * (dtype == "uint8") + first
    return [middle + 3 * channel for channel in range(channels if "each" in kind else 1)]


def _integer(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    x, w = _operands(row, number)
    zx = _point(row["input zero point"], row["input"], 1, 9)
    zw = _point(row["filter zero point"], row["filter"], w.sizes[0], -20)
    given = integer.operands(x, w, zx, zw)
    integer.add(topic, name, text, "CVI-1 CVI-3 CVI-4", given, _window(row))


def _quantized(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    x, w = _operands(row, number)
    channels = w.sizes[0]
    zx = _point(row["input zero point"], row["input"], 1, 9)
    zw = _point(row["filter zero point"], row["filter"], channels, -20)
    zy = _point(row["output zero point"], row["output"], 1, -30)
    bias = None if row["bias"] == "absent" else [(-1) ** c * 5000 * c for c in range(channels)]
    many = row["filter scale"] != "one"
    sw = [0.03125 + 0.007 * channel for channel in range(channels if many else 1)]
    given = quantized.operands(x, w, zx, zw, bias, zy, row["output"], sw=sw, sy=[4])
    if bias is not None:  # of the rank of the input, as a desc wants it
        given["BiasTensor"] = parameter(bias, "int32", len(x.sizes))
    clause = "QLC-1 QLC-7 QLC-8 QLC-10"
    quantized.add(topic, name, text, clause, given, _window(row), row["output"])


# -- element by element ------------------------------------------------------------------------

SHAPES = {
    "few": {"1": (6,), "2": (2, 3), "4": (1, 3, 1, 2)},
    "129": {"1": (129,), "2": (3, 43), "4": (1, 3, 1, 43)},
    "255": {"1": (255,), "2": (15, 17), "4": (5, 1, 3, 17)},
}


def _parameter_shape(kind: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    if kind == "each":
        return sizes
    place = next(axis for axis, size in enumerate(sizes) if size > 1) if kind == "axis" else -1
    return tuple(size if axis == place else 1 for axis, size in enumerate(sizes))


def _scale(kind: str, dtype: str, sizes: tuple[int, ...]) -> Tensor:
    shape = _parameter_shape(kind, sizes)
    values = ((5 + 3 * (i % 7)) / 16 * (-1) ** (i // 7) for i in range(prod(shape)))
    return floats(dtype, shape, values)


def _zero_point(kind: str, dtype: str, sizes: tuple[int, ...], number: int) -> Tensor | None:
    if kind == "absent":
        return None
    low, high = DTYPES[dtype].low, DTYPES[dtype].high
    return drawn(dtype, _parameter_shape(kind, sizes), 970 + number, low, high)


def _quantize(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    sizes = SHAPES[row["elements"]][row["rank"]]
    dtype = row["input"]
    whole = drawn("int32", sizes, 940 + number, -600, 600)
    x = whole if dtype == "int32" else floats(dtype, sizes, (word / 8 for word in whole.words))
    scale = _scale(row["scale"], "float32" if dtype == "int32" else dtype, sizes)
    zero = _zero_point(row["zero point"], row["output"], sizes, number)
    given = element_wise.operands(x, scale, zero)
    element_wise.add(topic, name, text, "QNT-1 QNT-4 QNT-5", given, row["output"])


def _dequantize(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    sizes, dtype = SHAPES[row["elements"]][row["rank"]], row["input"]
    x = drawn(dtype, sizes, 930 + number, DTYPES[dtype].low, DTYPES[dtype].high)
    zero = _zero_point(row["zero point"], dtype, sizes, number)
    given = element_wise.operands(x, _scale(row["scale"], row["output"], sizes), zero)
    element_wise.add(topic, name, text, "DQT-1 DQT-2 DQT-3 DQT-4", given, row["output"])


# -- coordinates -------------------------------------------------------------------------------

PRIMES = {
    "few": (2, 2, 3),
    "126": (2, 3, 3, 7),
    "255": (3, 5, 17),
    "1001": (7, 11, 13),
    "66000": (33, 40, 50),
}


def _nonzero(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    rank, dtype = int(row["rank"]), row["input"]
    width = rank if row["width"] == "rank" else rank - 1
    sizes = (1,) * (rank - width) + _shape(PRIMES[row["elements"]], width)
    count, large = prod(sizes), row["elements"] in ("1001", "66000")
    is_float = DTYPES[dtype].kind == "bits"
    low, high = (-9, 9) if is_float else (DTYPES[dtype].low, DTYPES[dtype].high)
    recipe = Recipe(910 + number, low, high, max(2, count // 16))
    if is_float:
        tensor = floats(dtype, sizes, drawn("int32", sizes, *recipe).words)
    else:
        tensor = from_recipe(dtype, sizes, recipe) if large else drawn(dtype, sizes, *recipe)
    flags = "Large" if large else ""
    nonzero.add(topic, name, text, "NZC-1 NZC-3 NZC-4 NZC-7 NZC-8", tensor, width, flags)


def _shape(primes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the sizes merged, or with 1 between them, to this rank; the first is not 1."""
    if rank < len(primes):
        return (*primes[: rank - 1], prod(primes[rank - 1 :]))
    return (primes[0], *(1,) * (rank - len(primes)), *primes[1:])


MAKERS = {
    "nonzero_coordinates": _nonzero,
    "quantized_linear_convolution": _quantized,
    "convolution_integer": _integer,
    "element_wise_quantize_linear": _quantize,
    "element_wise_dequantize_linear": _dequantize,
}
