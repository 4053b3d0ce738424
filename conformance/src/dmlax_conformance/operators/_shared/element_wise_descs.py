"""Descs of both element-wise operators."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...format.descs import gather, tensor_desc
from ...format.tensors import Tensor
from ...format.vectors import Request
from ..desc_topics import Call, DescTopic, call, cycled, dashed
from ..tables import TABLES, rows
from .strided_descs import StridedTopic, reach
from .tables import Row

TENSORS = ("InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor")
NO_ELEMENTS = {name: [0, 1, 1, 2] for name in TENSORS}
FOUR = (1, 1, 2, 2)
HALVES = {"float32": (0x3F000000, 0x3E800000), "float16": (0x3800, 0x3400)}


@dataclass(frozen=True)
class Descs:
    """The descs of one operator."""

    operator: str
    source: str  # the type of the input unless a call says otherwise
    result: str  # and of the output
    words: Callable[[str], Sequence[int]]  # of an input of this type
    others: Callable[[str, str], tuple[str, str]]  # types of scale and zero point
    together: Mapping[tuple[str, str], str]  # tensors of one type, and a type not listed for them

    def make(
        self, sizes: Sequence[int], source: str = "", result: str = "", is_bare: bool = False
    ) -> Call:
        """Return a call whose tensors all have the same sizes."""
        source, result = source or self.source, result or self.result
        scale, zero = self.others(source, result)
        given = {"InputTensor": cycled(source, sizes, self.words(source))}
        given["ScaleTensor"] = cycled(scale, sizes, HALVES[scale])
        if not is_bare:
            given["ZeroPointTensor"] = cycled(zero, sizes, (3, 5, 8))
        return call(self.operator, given, {"OutputTensor": Request(result, tuple(sizes))})

    def at_ranks(self, ranks: Mapping[str, int], is_bare: bool) -> Call:
        """Return a call whose tensors have these dimension counts."""
        return self.make((1,) * (ranks["InputTensor"] - 1) + (2,), is_bare=is_bare)

    def typed(self, lines: Mapping[str, Row]) -> dict[str, Call]:
        """Return calls that have, among them, every data type of a table."""
        sources, results = (
            [dtype.lower() for dtype in sorted(lines[name].data_types)]
            for name in ("InputTensor", "OutputTensor")
        )
        results.reverse()
        pairs = {dtype: results[place % len(results)] for place, dtype in enumerate(sources)}
        return {f"{a}-{b}": self.make((1, 1, 1, 2), a, b) for a, b in pairs.items()}

    def rules(self) -> DescTopic:
        """Return the file of rules: each tensor but the input in other ranks and sizes."""
        topic, base = DescTopic(self.operator, "desc-rules"), "desc-rules-twin"
        topic.accepted(base, "the twin: {1,2,3} everywhere", self.make((1, 2, 3)))
        for name in TENSORS[1:]:
            short = name.removesuffix("Tensor").lower()
            for sizes in ([2, 3], [1, 1, 2, 3], [1, 1, 1], [1, 3, 2]):
                text, end = f"sizes {sizes}, the input {{1,2,3}}", "x".join(map(str, sizes))
                if (rank := len(sizes)) != 3:
                    text, end = f"{rank} dimensions, the input 3", f"rank-{rank}"
                rule = "same-sizes" if rank == 3 else "same-dimension-count"
                topic.refuse(f"{short}-{end}", f"{name} has {text}", base, rule, {name: sizes})
        return topic

    def add_types(
        self, topic: DescTopic, source: str, result: str, clause: str, wrong: Mapping[str, str]
    ) -> None:
        """Give tensors a type that the table lists, but that does not fit the others."""
        base, made = f"desc-types-{source}-{result}", self.make((2, 2), source, result)
        topic.accepted(base, f"the twin: {source} to {result}", made, clause=clause)
        for field, data_type in wrong.items():
            rule, name = f"{dashed(field)}-data-type", f"{base}-{dashed(field)}-{data_type.lower()}"
            text = f"{field} is {data_type}, which does not fit the others"
            topic.refused(name, text, base, rule, field, made.described(field, data_type=data_type))

    def levels(self, steps: Iterable[tuple[str, str, Call, tuple[str, str], str]]) -> DescTopic:
        """Return the file of levels: what only later levels allow."""
        topic = DescTopic(self.operator, "desc-levels")
        for name, text, made, levels, field in steps:
            topic.step(name, text, made, levels, "tensor-data-type", field)
        for sizes in ((3,), (1, 1, 1, 1, 2)):
            name, text = f"rank-{len(sizes)}", f"{len(sizes)} dimensions"
            levels, rule = ("2_1", "3_0"), "tensor-dimension-count"
            topic.step(name, text, self.make(sizes), levels, rule, "InputTensor")
        made, levels, field = self.make(FOUR, is_bare=True), ("6_1", "6_2"), "ZeroPointTensor"
        topic.step("no-zero-point", "no zero point", made, levels, "tensor-required", field)
        return topic

    def strides(self) -> StridedTopic:
        """Return the file of strides."""
        topic, made = StridedTopic(self.operator), self.make((2, 2, 3))
        topic.add("input-padded", "rows of 3 in 4", made, InputTensor=(8, 4, 1))
        topic.shorten_buffer("input-padded", "InputTensor")
        topic.add("input-permuted", "axes in another order", made, InputTensor=(1, 6, 2))
        topic.add("output-permuted", "axes in another order", made, OutputTensor=(1, 6, 2))
        topic.overlap("output-permuted", "OutputTensor", (0, 6, 2), (1, 6, 1), (1, 3, 2))
        text = "rows whose elements interleave: strides {3, 2} over {2, 2}"
        topic.add("output-interleaved", text, self.make((2, 2)), OutputTensor=(3, 2))
        topic.overlap("output-interleaved", "OutputTensor", (1, 1))
        text, cube = "the same twice, 6 apart: every third word stays free", self.make((2, 2, 2))
        topic.add("output-woven", text, cube, OutputTensor=(6, 3, 2))
        for name, (text, strides) in REPEATS.items():
            where = {"ScaleTensor": strides, "ZeroPointTensor": strides}
            text = f"{text}, by strides {list(strides)}"
            topic.add(f"repeat-{name}", text, _repeating(made, strides), **where)
        each = dict(zip(TENSORS, ((6, 1, 2), (1, 2, 4), (16, 8, 2), (20, 5, 1)), strict=True))
        topic.add("everything", "every tensor with its own layout", made, **each)
        sizes = {"InputTensor": ((7, 3, 1), 64), "OutputTensor": ((7, 3, 1), 128)}
        topic.add_roomy("strided buffers larger than needed", made, **sizes)
        return topic

    def add_survivors(self, topic: DescTopic, base: str) -> None:
        """Add descs for planted bugs that survived all other vectors."""
        made, rule = self.make((1, 1, 1, 2)), "tensor-sizes-count"
        changed = {name: made.patched(name, Sizes=[1, 1, 2])[name] for name in TENSORS}
        text = "every tensor has 3 Sizes for a DimensionCount of 4"
        topic.together("sizes-too-few", text, base, rule, "InputTensor", changed)
        for level in TABLES[self.operator]:
            own, text = f"{base}-{dashed(level)}", f"the twin: four dimensions at {level}"
            topic.accepted(own, text, made, level, flags="Level")
            for rank in (3, 5) if rows(self.operator, level)[0].highest == 4 else (9,):
                sizes = [1] * (rank - 1) + [2]
                changed = {name: made.described(name, sizes)[name] for name in TENSORS}
                name, rule = f"{dashed(level)}-rank-{rank}", "tensor-dimension-count"
                text = f"all four tensors have {rank} dimensions, at {level}"
                topic.together(name, text, own, rule, "InputTensor", changed)
            for names, data_type in self.together.items():
                text = f"{' and '.join(names)} are {data_type}, at {level}"
                fields = {n: made.described(n, data_type=data_type)[n] for n in names}
                name = f"{dashed(level)}-{dashed(names[0])}-{data_type.lower()}"
                topic.together(name, text, own, "tensor-data-type", names[0], fields)


REPEATS = {
    "one": ("one scale and one zero point", (0, 0, 0)),
    "columns": ("a scale and zero point for each column", (0, 0, 1)),
    "channels": ("a scale and zero point for each of the first axis", (1, 0, 0)),
    "middle": ("a scale and zero point for each of the second axis", (0, 1, 0)),
}


def _repeating(made: Call, strides: Sequence[int]) -> Call:
    """Return the call with a scale and a zero point that strides of 0 repeat."""
    words, given = {"ScaleTensor": (0x3F000000, 0x3E800000, 0x3E000000)}, dict(made.inputs)
    for name, own in {**words, "ZeroPointTensor": (3, 5, 8)}.items():
        dtype, sizes = given[name].dtype, given[name].sizes
        row = cycled(dtype, (reach(sizes, strides),), own)
        repeated = gather(tensor_desc("UINT8", sizes, strides), row)
        given[name] = Tensor(dtype, sizes, repeated.words)
    return replace(made, inputs=given)
