"""Descs that were written because a planted bug survived all others.

Some rules make tensors agree, so that a mistake in one line of a table shows only in a desc that
changes all of them; the ids of these say `together`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...format.descs import tensor_desc
from ...format.tensors import DTYPES, Tensor
from ...operators._shared.window_cases import attributes
from ...operators.tables import TABLES, rows
from ...operators.topics import bits
from .desc_builder import NEWEST, Call, DescTopic
from .desc_calls import (
    DEQUANTIZE,
    INTEGER,
    NONZERO,
    QUANTIZE,
    QUANTIZED,
    convolution,
    dequantize,
    integer,
    nonzero,
    parameter,
    quantize,
    quantized,
)

TOPIC = "desc-kills"
TWIN = "desc-kills-twin"
SMALL = {
    NONZERO: nonzero((1, 1, 2, 2)),
    QUANTIZED: quantized(is_bare=True),
    INTEGER: integer(is_bare=True),
    QUANTIZE: quantize((1, 1, 1, 2)),
    DEQUANTIZE: dequantize((1, 1, 1, 2)),
}
ELEMENT_WISE = ("InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor")
BATCHED = ("InputTensor", "FilterTensor", "OutputTensor")


def topics() -> Iterator[DescTopic]:
    """Yield two files for each operator."""
    for operator in TABLES:
        yield _types(operator)
    for operator in TABLES:
        topic = DescTopic(operator, TOPIC)
        text = "the twin: a packed desc of four dimensions at the newest level"
        topic.accepted(TWIN, text, SMALL[operator])
        _output_strides(topic)
        _no_elements(topic)
        if operator in (QUANTIZED, INTEGER):
            _convolution(topic)
        elif operator == NONZERO:
            _nonzero(topic)
        else:
            _element_wise(topic)
        yield topic


def _together(
    topic: DescTopic,
    name: str,
    text: str,
    twin: str,
    rule: str,
    error: tuple[str, str],
    fields: Mapping[str, Any],
) -> None:
    """Refuse a desc in which fields that must agree change together."""
    name = f"desc-together-{name}"
    topic.refused(name, text, twin, rule, error, fields, flags="Invalid Row")


# -- every type of every line ------------------------------------------------------------------


def _types(operator: str) -> DescTopic:
    topic = DescTopic(operator, "desc-kills-types")
    for level in TABLES[operator]:
        for name, made in _typed(operator, level).items():
            label = f"{level.replace('_', '-')}-{name}"
            text = f"the table of {level} lists {name.replace('-', ' and ').upper()}"
            clause = "tensor-data-type"
            topic.accepted(f"desc-lists-{label}", text, made, level, clause, "Row")
    return topic


def _typed(operator: str, level: str) -> dict[str, Call]:
    """Return calls that have, among them, every data type of every tensor."""
    lines = {row.tensor: row.data_types for row in rows(operator, level)}
    sources = [dtype.lower() for dtype in sorted(lines["InputTensor"])]
    if operator == NONZERO:
        return {dtype: nonzero((1, 1, 1, 3), dtype=dtype) for dtype in sources}
    if operator in (QUANTIZED, INTEGER):
        make = quantized if operator == QUANTIZED else integer
        return {"int8-uint8": _exchanged(make()), "uint8-int8": make()}
    results = [dtype.lower() for dtype in sorted(lines["OutputTensor"], reverse=True)]
    pairs = {dtype: results[place % len(results)] for place, dtype in enumerate(sources)}
    make_wise = quantize if operator == QUANTIZE else dequantize
    return {f"{a}-{b}": make_wise((1, 1, 1, 2), a, b) for a, b in pairs.items()}


def _exchanged(made: Call) -> Call:
    """Return the convolution with UINT8 for INT8 and the reverse."""
    other = {"uint8": "int8", "int8": "uint8"}
    given = {k: _as(v, other[v.dtype]) if v.dtype in other else v for k, v in made.inputs.items()}
    dtype = made.desc["OutputTensor"]["DataType"].lower()
    return convolution(made.operator, given, other.get(dtype, dtype), attributes())


def _as(tensor: Tensor, dtype: str) -> Tensor:
    """Return the elements in the other type of 8 bits, moved to its range."""
    shift = DTYPES[dtype].low - DTYPES[tensor.dtype].low
    return Tensor(dtype, tensor.sizes, tuple(word + shift for word in tensor.words))


# -- on every operator -------------------------------------------------------------------------


def _output_strides(topic: DescTopic) -> None:
    """Give an output too few strides."""
    for row in rows(topic.operator, NEWEST):
        if row.is_output:
            old = SMALL[topic.operator].desc[row.tensor]
            changed = {row.tensor: {**old, "Strides": [1]}}
            name = f"desc-{_kebab(row.tensor)}-strides-too-few"
            text, error = f"{row.tensor} has 1 entry in Strides", ("strides", row.tensor)
            flags = "Invalid Layout"
            topic.refused(name, text, TWIN, "tensor-strides-count", error, changed, flags=flags)


def _kebab(name: str) -> str:
    text = "".join(f"-{c.lower()}" if c.isupper() else c for c in name.removesuffix("Tensor"))
    return text.lstrip("-")


def _no_elements(topic: DescTopic) -> None:
    """Let one size be 0 in every tensor that shares it, so that no other rule is broken."""
    desc = SMALL[topic.operator].desc
    sizes: dict[str, list[int]] = {
        NONZERO: {"InputTensor": [0, 1, 2, 2], "OutputCoordinatesTensor": [1, 1, 0, 4]},
        QUANTIZED: {"InputTensor": [0, 2, 2, 3], "OutputTensor": [0, 2, 2, 2]},
        INTEGER: {"InputTensor": [0, 2, 2, 3], "OutputTensor": [0, 2, 2, 2]},
        QUANTIZE: {name: [0, 1, 1, 2] for name in ELEMENT_WISE},
        DEQUANTIZE: {name: [0, 1, 1, 2] for name in ELEMENT_WISE},
    }[topic.operator]
    changed = {name: {**desc[name], "Sizes": own} for name, own in sizes.items()}
    error, text = ("sizes", "InputTensor"), "the first size is 0, in every tensor that shares it"
    _together(topic, "size-0", text, TWIN, "tensor-sizes-positive", error, changed)


def _resized(made: Call, names: Iterable[str], rank: int) -> dict[str, Any]:
    """Return the tensors with sizes of 1 put before the others, or leading ones taken away."""
    found = {}
    for name in names:
        old = made.desc[name]
        if old is not None:
            sizes = [1] * (rank - len(old["Sizes"])) + old["Sizes"][max(4 - rank, 0) :]
            found[name] = tensor_desc(old["DataType"], sizes)
    return found


# -- one by one --------------------------------------------------------------------------------


def _nonzero(topic: DescTopic) -> None:
    old = SMALL[NONZERO].desc["OutputCountTensor"]
    changed = {"OutputCountTensor": {**old, "Sizes": [1, 1]}}
    text = "OutputCountTensor has 2 Sizes for a DimensionCount of 4"
    error, name = ("dimension_count", "OutputCountTensor"), "desc-output-count-sizes-too-few"
    flags = "Invalid Layout"
    topic.refused(name, text, TWIN, "tensor-sizes-count", error, changed, flags=flags)
    twin, made = "desc-kills-twin-3-0", nonzero((1, 1, 2, 2))
    topic.accepted(twin, "the twin: four dimensions at 3_0", made, "3_0", flags="Level")
    for rank in (3, 6):
        text = f"all three tensors have {rank} dimensions, at 3_0"
        names = ("InputTensor", "OutputCountTensor", "OutputCoordinatesTensor")
        fields = _resized(made, names, rank)
        fields["OutputCoordinatesTensor"]["Sizes"][-1] = min(rank, 4)
        error, rule = ("dimension_count", "InputTensor"), "tensor-dimension-count"
        _together(topic, f"3-0-rank-{rank}", text, twin, rule, error, _packed(fields))


def _packed(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor_desc(old["DataType"], old["Sizes"]) for name, old in fields.items()}


def _element_wise(topic: DescTopic) -> None:
    made = SMALL[topic.operator]
    changed = {name: {**made.desc[name], "Sizes": [1, 1, 2]} for name in ELEMENT_WISE}
    text = "every tensor has 3 Sizes for a DimensionCount of 4"
    error, rule = ("dimension_count", "InputTensor"), "tensor-sizes-count"
    _together(topic, "sizes-too-few", text, TWIN, rule, error, changed)
    make = quantize if topic.operator == QUANTIZE else dequantize
    source = "float32" if topic.operator == QUANTIZE else "uint8"
    for level in TABLES[topic.operator]:
        label = level.replace("_", "-")
        own = make((1, 1, 1, 2), source)
        twin = f"desc-kills-twin-{label}"
        topic.accepted(twin, f"the twin: four dimensions at {level}", own, level, flags="Level")
        highest = rows(topic.operator, level)[0].highest
        for rank in (3, 5) if highest == 4 else (9,):
            text = f"all four tensors have {rank} dimensions, at {level}"
            error, rule = ("dimension_count", "InputTensor"), "tensor-dimension-count"
            fields = _resized(own, ELEMENT_WISE, rank)
            _together(topic, f"{label}-rank-{rank}", text, twin, rule, error, fields)
        for names, data_type in _pairs(topic.operator).items():
            text = f"{' and '.join(names)} are {data_type}, at {level}"
            first = next(n for n in own.desc if n in names)
            fields = {n: tensor_desc(data_type, own.desc[n]["Sizes"]) for n in names}
            rule, error = "tensor-data-type", ("data_type", first)
            name = f"{label}-{_kebab(first)}-{data_type.lower()}"
            _together(topic, name, text, twin, rule, error, fields)


def _pairs(operator: str) -> dict[tuple[str, str], str]:
    """Return tensors that must have one type, and a type that no table lists for them."""
    if operator == QUANTIZE:
        return {
            ("InputTensor", "ScaleTensor"): "FLOAT64",
            ("ZeroPointTensor", "OutputTensor"): "INT16",
        }
    return {
        ("InputTensor", "ZeroPointTensor"): "INT64",
        ("ScaleTensor", "OutputTensor"): "FLOAT64",
    }


# -- convolutions ------------------------------------------------------------------------------


def _convolution(topic: DescTopic) -> None:
    _no_channels(topic)
    _many_elements(topic)
    _one_dimension(topic)
    _roomy_output(topic)
    for level in TABLES[topic.operator]:
        _five_dimensions(topic, level)
    if topic.operator == QUANTIZED:
        _single_parameters(topic)
    else:
        _lone_zero_points(topic)


def _make(topic: DescTopic) -> Call:
    return SMALL[topic.operator]


def _rule(topic: DescTopic, name: str) -> str:
    return f"{'qconv' if topic.operator == QUANTIZED else 'intconv'}-{name}"


def _no_channels(topic: DescTopic) -> None:
    desc = _make(topic).desc
    changed = {
        "InputTensor": {**desc["InputTensor"], "Sizes": [1, 0, 2, 3]},
        "FilterTensor": {**desc["FilterTensor"], "Sizes": [2, 0, 1, 2]},
    }
    text, error = "input and filter have no channels", ("sizes", "InputTensor")
    _together(topic, "channels-0", text, TWIN, "tensor-sizes-positive", error, changed)


def _many_elements(topic: DescTopic) -> None:
    """Repeat one element 2^32 times under strides so long that only one window fits."""
    made = _make(topic)
    one = made.inputs["InputTensor"]
    channels, wide = [1, 2, 1, 1], attributes((65536, 65536))
    filters = Tensor("int8", (2, 2, 1, 1), made.inputs["FilterTensor"].words[:4])
    image = Tensor(one.dtype, tuple(channels), (one.words[0],) * 2)
    given = {**made.inputs, "InputTensor": image, "FilterTensor": filters}
    dtype = made.desc["OutputTensor"]["DataType"].lower()
    strided = convolution(made.operator, given, dtype, wide).laid_out("InputTensor", [0] * 4)
    twin = "desc-kills-long-strides"
    text = "the twin: strides of 65,536, and an input that repeats one element"
    topic.accepted(twin, text, strided, flags="Strided Windows")
    changed = {"InputTensor": tensor_desc(one.dtype.upper(), [1, 2, 65536, 65536], [0] * 4)}
    text, error = "the input repeats one element 2^33 times", ("sizes", "InputTensor")
    name, flags = "desc-input-elements-2-33", "Invalid Layout"
    topic.refused(name, text, twin, "tensor-element-limit", error, changed, flags=flags)


def _one_dimension(topic: DescTopic) -> None:
    changed = {"DimensionCount": 1, **attributes((1,), (1,), (0,), (0,))}
    text = "one entry in every attribute, for tensors of four dimensions"
    error, rule = ("dimension_count", "DimensionCount"), _rule(topic, "spatial-dimension-count")
    _together(topic, "dimensions-1-of-2", text, TWIN, rule, error, changed)


def _roomy_output(topic: DescTopic) -> None:
    old = _make(topic).desc["OutputTensor"]
    strides = [16, 8, 3, 1]
    least = tensor_desc(old["DataType"], old["Sizes"], strides)["TotalTensorSizeInBytes"]
    made = _make(topic).laid_out("OutputTensor", strides, least + 16)
    text = "a strided output whose buffer is 16 bytes longer than needed"
    clause, flags = "tensor-buffer", "Strided Buffer"
    topic.accepted("desc-output-roomy", text, made, clause=clause, flags=flags)


def _five_dimensions(topic: DescTopic, level: str) -> None:
    """Put a whole convolution in five dimensions, three of them spatial."""
    made, label = _make(topic), level.replace("_", "-")
    twin = f"desc-kills-twin-{label}"
    topic.accepted(twin, f"the twin: four dimensions at {level}", made, level, flags="Level")
    fields = _deeper(made, BATCHED)
    fields |= {"DimensionCount": 3, **attributes((1,) * 3, (1,) * 3, (0,) * 3, (0,) * 3)}
    text = f"input, filter and output have 5 dimensions, 3 of them spatial, at {level}"
    error = ("dimension_count", "InputTensor")
    rule = "tensor-dimension-count"
    _together(topic, f"{label}-rank-5", text, twin, rule, error, fields)


def _deeper(made: Call, names: Sequence[str]) -> dict[str, Any]:
    """Return the tensors with a spatial size of 1 more."""
    found = {}
    for name in names:
        old = made.desc[name]
        found[name] = tensor_desc(old["DataType"], [*old["Sizes"], 1])
    return found


def _refuse_rank(topic: DescTopic, level: str, field: str, rank: int, made: Call) -> None:
    """Give a parameter of one element a rank that its line does not have."""
    label = f"{level.replace('_', '-')}-{_kebab(field)}"
    twin = f"desc-kills-{label}-alone"
    text = f"the twin: {field} is one value, at {level}"
    topic.accepted(twin, text, made, level, "tensor-dimension-count", "Level")
    old = made.desc[field]
    changed = {field: tensor_desc(old["DataType"], [1] * rank)}
    text, error = f"{field} has {rank} sizes of 1", ("dimension_count", field)
    name, rule, flags = f"desc-{label}-ones-{rank}", "tensor-dimension-count", "Invalid Row"
    topic.refused(name, text, twin, rule, error, changed, flags=flags)


def _single_parameters(topic: DescTopic) -> None:
    """Let parameters for all channels have five dimensions."""
    half = bits("float32", (1, 1, 1, 1), [0x3D000000])
    for level, field, tensor in (
        ("4_0", "FilterZeroPointTensor", parameter([-5], "int8", 4)),
        ("5_2", "FilterZeroPointTensor", parameter([-5], "int8", 4)),
        ("5_2", "FilterScaleTensor", half),
    ):
        _refuse_rank(topic, level, field, 5, _with(quantized(), {field: tensor}))


def _with(made: Call, tensors: Mapping[str, Tensor]) -> Call:
    dtype = made.desc["OutputTensor"]["DataType"].lower()
    given = {**made.inputs, **tensors}
    return convolution(made.operator, given, dtype, attributes())


def _lone_zero_points(topic: DescTopic) -> None:
    """Leave one zero point without the other, which would have to have its rank."""
    points = {
        "InputZeroPointTensor": parameter([120], "uint8", 4),
        "FilterZeroPointTensor": parameter([-5], "int8", 4),
    }
    for level, rank in (("2_1", 3), ("4_0", 5)):
        for field, tensor in points.items():
            made = _with(integer(is_bare=True), {field: tensor})
            _refuse_rank(topic, level, field, rank, made)
