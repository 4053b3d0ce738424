"""The element-wise operators by descs: their rules, and what each level's page allows."""

from collections.abc import Callable, Iterator, Sequence

from ...format.descs import tensor_desc
from ...operators.topics import PREFIXES
from .desc_builder import Call, DescTopic
from .desc_calls import DEQUANTIZE, QUANTIZE, dequantize, quantize

TWIN = "desc-rules-twin"
SIZES = (1, 2, 3)


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield _quantize_rules()
    yield _quantize_levels()
    yield _dequantize_rules()
    yield _dequantize_levels()


def _shapes(topic: DescTopic, made: Call) -> None:
    """Give each tensor but the input another rank, and other sizes of the same rank."""
    topic.accepted(TWIN, "the twin: {1,2,3} everywhere", made)
    p = PREFIXES[topic.operator].rstrip("-")
    for name in ("ScaleTensor", "ZeroPointTensor", "OutputTensor"):
        data_type, short = made.desc[name]["DataType"], name.removesuffix("Tensor").lower()
        for sizes in ([2, 3], [1, 1, 2, 3]):
            changed = {name: tensor_desc(data_type, sizes)}
            text = f"{name} has {len(sizes)} dimensions, the input 3"
            rule, error = f"{p}-same-dimension-count", ("dimension_count", name)
            topic.refused(f"desc-{short}-rank-{len(sizes)}", text, TWIN, rule, error, changed)
        for sizes in ([1, 1, 1], [1, 3, 2]):
            changed = {name: tensor_desc(data_type, sizes)}
            end, text = "x".join(map(str, sizes)), f"{name} has sizes {sizes}, the input {{1,2,3}}"
            rule, error = f"{p}-same-sizes", ("sizes", name)
            topic.refused(f"desc-{short}-{end}", text, TWIN, rule, error, changed)


def _retype(topic: DescTopic, twin: str, rule: str, field: str, data_type: str) -> None:
    """Give one tensor a type that the table lists, but that does not fit the others."""
    made = topic.made(twin)
    changed = {field: tensor_desc(data_type, made.desc[field]["Sizes"])}
    short = field.removesuffix("Tensor").replace("Point", "-point").lower()
    text, error = f"{field} is {data_type}, which does not fit the others", ("data_type", field)
    topic.refused(f"{twin}-{short}-{data_type.lower()}", text, twin, rule, error, changed)


def _quantize_rules() -> DescTopic:
    topic = DescTopic(QUANTIZE, "desc-rules")
    _shapes(topic, quantize(SIZES))
    for source, result in (("float32", "uint8"), ("float16", "int8"), ("int32", "uint8")):
        name = f"desc-types-{source}-{result}"
        text = f"the twin: {source} to {result}"
        topic.accepted(name, text, quantize((2, 2), source, result), clause="QNT-4")
        other = "INT8" if result == "uint8" else "UINT8"
        _retype(topic, name, "quantize-zero-point-data-type", "ZeroPointTensor", other)
        scale = "FLOAT32" if source == "float16" else "FLOAT16"
        _retype(topic, name, "quantize-scale-data-type", "ScaleTensor", scale)
    return topic


def _dequantize_rules() -> DescTopic:
    topic = DescTopic(DEQUANTIZE, "desc-rules")
    _shapes(topic, dequantize(SIZES))
    kinds = (("uint8", "INT8", "float32"), ("int16", "UINT16", "float16"))
    for source, other, scale in (*kinds, ("uint32", "INT32", "float32")):
        name = f"desc-types-{source}-{scale}"
        text = f"the twin: {source} to {scale}"
        topic.accepted(name, text, dequantize((2, 2), source, scale), clause="DQT-3")
        _retype(topic, name, "dequantize-zero-point-data-type", "ZeroPointTensor", other)
        wrong = "FLOAT16" if scale == "float32" else "FLOAT32"
        _retype(topic, name, "dequantize-output-data-type", "OutputTensor", wrong)
    return topic


def _step(
    topic: DescTopic,
    name: str,
    text: str,
    made: Call,
    levels: tuple[str, str],
    rule: str,
    error: tuple[str, str],
) -> None:
    """Add one desc at two levels: refused at the lower one."""
    low, high = levels
    twin, flags = f"desc-{name}-{high.replace('_', '-')}", "Invalid Level"
    topic.accepted(twin, f"the twin: {text}, from {high} on", made, high, flags="Level")
    whole = f"desc-{name}-{low.replace('_', '-')}"
    topic.refused(whole, f"{text}, at {low}", twin, rule, error, level=low, flags=flags)


def _quantize_levels() -> DescTopic:
    topic = DescTopic(QUANTIZE, "desc-levels")
    four = (1, 1, 2, 2)
    rule, error = "tensor-data-type", ("data_type", "InputTensor")
    made = quantize(four, "int32")
    _step(topic, "int32", "an INT32 input", made, ("2_0", "2_1"), rule, error)
    made = quantize(four, "float16")
    _step(topic, "float16", "FLOAT16 input and scale", made, ("5_2", "6_0"), rule, error)
    error = ("data_type", "ZeroPointTensor")
    made = quantize(four, result="int8")
    _step(topic, "int8", "INT8 zero point and output", made, ("2_0", "2_1"), rule, error)
    _ranks(topic, quantize)
    text, rule, error = "no zero point", "tensor-required", ("missing_tensor", "ZeroPointTensor")
    made = quantize(four, is_bare=True)
    _step(topic, "no-zero-point", text, made, ("6_1", "6_2"), rule, error)
    return topic


def _dequantize_levels() -> DescTopic:
    topic = DescTopic(DEQUANTIZE, "desc-levels")
    four = (1, 1, 2, 2)
    rule, error = "tensor-data-type", ("data_type", "InputTensor")
    for source in ("int8", "int16", "int32", "uint16", "uint32"):
        text, made = f"an {source.upper()} input", dequantize(four, source)
        _step(topic, source, text, made, ("2_0", "2_1"), rule, error)
    error = ("data_type", "ScaleTensor")
    made = dequantize(four, scale="float16")
    _step(topic, "float16", "FLOAT16 scale and output", made, ("5_2", "6_0"), rule, error)
    _ranks(topic, dequantize)
    text, rule, error = "no zero point", "tensor-required", ("missing_tensor", "ZeroPointTensor")
    made = dequantize(four, is_bare=True)
    _step(topic, "no-zero-point", text, made, ("6_1", "6_2"), rule, error)
    return topic


def _ranks(topic: DescTopic, make: Callable[[Sequence[int]], Call]) -> None:
    rule, error = "tensor-dimension-count", ("dimension_count", "InputTensor")
    for sizes in ((3,), (1, 1, 1, 1, 2)):
        made = make(sizes)
        text = f"{len(sizes)} dimensions"
        _step(topic, f"rank-{len(sizes)}", text, made, ("2_1", "3_0"), rule, error)
