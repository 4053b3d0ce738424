"""DYNAMIC_QUANTIZE_LINEAR by descs."""

from collections.abc import Iterator, Mapping, Sequence

from ...format.vectors import Request
from .._shared.strided_descs import StridedTopic
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic, call, cycled, dashed
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

OUTPUT, SCALE, POINT = (f"Output{name}Tensor" for name in ("", "Scale", "ZeroPoint"))
NO_ELEMENTS = {"InputTensor": [0, 1, 1, 2], OUTPUT: [0, 1, 1, 2]}
WORDS = {
    "float32": (0x40600000, 0xC0200000, 0x3F800000, 0x41100000, 0xBF000000),
    "float16": (0x4300, 0xC100, 0x3C00, 0x4880, 0xB800),
}


def make(sizes: Sequence[int], source: str = "float32", result: str = "uint8") -> Call:
    """Return a call whose input has these sizes."""
    one = (1,) * len(sizes)
    asked = {OUTPUT: Request(result, tuple(sizes))}
    asked |= {SCALE: Request("float32", one), POINT: Request(result, one)}
    return call(OPERATOR, {"InputTensor": cycled(source, sizes, WORDS[source])}, asked)


PACKED, SMALL = make((1, 1, 2, 3)), make((1, 1, 1, 2))


def at_ranks(ranks: Mapping[str, int], is_bare: bool) -> Call:
    """Return a call whose tensors have these dimension counts."""
    return make((1,) * (ranks["InputTensor"] - 1) + (2,))


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    both = (("float32", "int8"), ("float16", "uint8"))
    return {f"{a}-{b}": make((1, 1, 1, 2), a, b) for a, b in both}


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield _rules()
    yield _strides()


def _rules() -> DescTopic:
    """Give the outputs other ranks, sizes and data types."""
    topic, base, made = DescTopic(OPERATOR, "desc-rules"), "desc-rules-twin", make((1, 2, 3))
    text = "the twin: {1,2,3}, and parameters of one element"
    topic.accepted(base, text, made, clause="DYN-5 DYN-8")
    for sizes in ([1, 1, 1], [1, 3, 2], [1, 2, 1]):
        end, text = "x".join(map(str, sizes)), f"{OUTPUT} has sizes {sizes}, the input {{1,2,3}}"
        topic.refuse(f"output-{end}", text, base, "same-sizes", {OUTPUT: sizes})
    for name, choices in {OUTPUT: ([2, 3], [1, 1, 2, 3]), SCALE: ([1],), POINT: ([1],)}.items():
        for sizes in choices:
            end, text = f"rank-{len(sizes)}", f"{name} has {len(sizes)} dimensions, the input 3"
            rule = "same-dimension-count"
            topic.refuse(f"{dashed(name)}-{end}", text, base, rule, {name: sizes})
    for name in (SCALE, POINT):
        text, rule = f"{name} has two elements", f"{dashed(name)}-one"
        topic.refuse(f"{dashed(name)}-two", text, base, rule, {name: [1, 2, 1]})
    changed, rule = made.described(POINT, data_type="INT8"), "output-zero-point-data-type"
    text = f"{POINT} is INT8, the output is not"
    topic.refused("desc-zero-point-type", text, base, rule, POINT, changed)
    return topic


def _strides() -> StridedTopic:
    """Give the input and the output other layouts."""
    topic, made = StridedTopic(OPERATOR), make((2, 2, 3))
    topic.add("input-padded", "rows of 3 in 4", made, InputTensor=(8, 4, 1))
    topic.shorten_buffer("input-padded", "InputTensor")
    topic.add("input-permuted", "axes in another order", made, InputTensor=(1, 6, 2))
    topic.add("output-permuted", "axes in another order", made, OutputTensor=(1, 6, 2))
    topic.overlap("output-permuted", OUTPUT, (0, 6, 2), (1, 6, 1), (1, 3, 2))
    each = {"InputTensor": (6, 1, 2), "OutputTensor": (20, 5, 1)}
    topic.add("everything", "both with their own layout", made, **each)
    sizes = {"InputTensor": ((7, 3, 1), 96), "OutputTensor": ((7, 3, 1), 128)}
    topic.add_roomy("strided buffers larger than needed", made, **sizes)
    return topic


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    made, names = make((1, 1, 1, 2)), ("InputTensor", OUTPUT, SCALE, POINT)
    changed = {n: made.patched(n, Sizes=made.desc[n]["Sizes"][1:])[n] for n in names}
    text = "every tensor has 3 Sizes for a DimensionCount of 4"
    topic.together("sizes-too-few", text, base, "tensor-sizes-count", "InputTensor", changed)
    own, text = f"{base}-4-0", "the twin: four dimensions at 4_0"
    topic.accepted(own, text, made, "4_0", flags="Level")
    wide = make((1,) * 8 + (2,)).desc
    text, rule = "all tensors have 9 dimensions, at 4_0", "tensor-dimension-count"
    topic.together("4-0-rank-9", text, own, rule, "InputTensor", {n: wide[n] for n in names})
    text = f"{OUTPUT} and {POINT} are INT16, at 4_0"
    fields = {n: made.described(n, data_type="INT16")[n] for n in (OUTPUT, POINT)}
    topic.together("4-0-output-int16", text, own, "tensor-data-type", OUTPUT, fields)
