"""Desc vectors that both element-wise operators have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...format.descs import gather, tensor_desc
from ...format.tensors import Tensor
from ..desc_topics import Call, DescTopic, cycled, dashed
from ..tables import TABLES, rows
from .strided_descs import add_strided, overlapping, short_by_one
from .tables import Row

TENSORS = ("InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor")
NO_ELEMENTS = {name: [0, 1, 1, 2] for name in TENSORS}
FOUR = (1, 1, 2, 2)
HALVES = {"float32": (0x3F000000, 0x3E800000), "float16": (0x3800, 0x3400)}


@dataclass(frozen=True)
class Descs:
    """The vectors of one operator; `make` takes sizes, a source, a result and `is_bare`."""

    operator: str
    make: Callable[..., Call]
    together: Mapping[tuple[str, str], str]  # tensors of one type, and a type not listed for them

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
        topic, made = DescTopic(self.operator, "desc-rules"), self.make((1, 2, 3))
        base = "desc-rules-twin"
        topic.accepted(base, "the twin: {1,2,3} everywhere", made)
        for name in TENSORS[1:]:
            short = name.removesuffix("Tensor").lower()
            for sizes in ([2, 3], [1, 1, 2, 3]):
                text, rule = f"{name} has {len(sizes)} dimensions, the input 3", "dimension-count"
                changed, end = made.described(name, sizes), f"rank-{len(sizes)}"
                topic.refused(f"desc-{short}-{end}", text, base, f"same-{rule}", name, changed)
            for sizes in ([1, 1, 1], [1, 3, 2]):
                text = f"{name} has sizes {sizes}, the input {{1,2,3}}"
                end = "x".join(map(str, sizes))
                changed = made.described(name, sizes)
                topic.refused(f"desc-{short}-{end}", text, base, "same-sizes", name, changed)
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
            steps_of, rule = ("2_1", "3_0"), "tensor-dimension-count"
            topic.step(name, text, self.make(sizes), steps_of, rule, "InputTensor")
        made, levels = self.make(FOUR, is_bare=True), ("6_1", "6_2")
        rule, field = "tensor-required", "ZeroPointTensor"
        topic.step("no-zero-point", "no zero point", made, levels, rule, field)
        return topic

    def strides(self) -> DescTopic:
        """Return the file of strides."""
        topic, made = DescTopic(self.operator, "desc-strides"), self.make((2, 2, 3))
        add_strided(topic, "input-padded", "rows of 3 in 4", made, InputTensor=(8, 4, 1))
        short_by_one(topic, "input-padded", "InputTensor")
        text, name = "axes in another order", "output-permuted"
        add_strided(topic, "input-permuted", text, made, InputTensor=(1, 6, 2))
        add_strided(topic, name, text, made, OutputTensor=(1, 6, 2))
        overlapping(topic, name, "OutputTensor", (0, 6, 2), (1, 6, 1), (1, 3, 2))
        text, name = "rows whose elements interleave: strides {3, 2} over {2, 2}", "interleaved"
        add_strided(topic, f"output-{name}", text, self.make((2, 2)), OutputTensor=(3, 2))
        overlapping(topic, f"output-{name}", "OutputTensor", (1, 1))
        text = "the same twice, 6 apart: every third word stays free"
        add_strided(topic, "output-woven", text, self.make((2, 2, 2)), OutputTensor=(6, 3, 2))
        for name, text, strides in REPEATS:
            where = {"ScaleTensor": strides, "ZeroPointTensor": strides}
            text = f"{text}, by strides {list(strides)}"
            add_strided(topic, f"repeat-{name}", text, _repeating(made, strides), **where)
        each = ((6, 1, 2), (1, 2, 4), (16, 8, 2), (20, 5, 1))
        text, where = "every tensor with its own layout", dict(zip(TENSORS, each, strict=True))
        add_strided(topic, "everything", text, made, **where)
        roomy = made.laid_out("InputTensor", (7, 3, 1), 64).laid_out("OutputTensor", (7, 3, 1), 128)
        text, flags = "strided buffers larger than needed", "Strided Buffer"
        topic.accepted("desc-strides-roomy", text, roomy, clause="tensor-buffer", flags=flags)
        return topic

    def add_survivors(self, topic: DescTopic, base: str) -> None:
        """Add descs for planted bugs that survived all other vectors."""
        made, rule = self.make((1, 1, 1, 2)), "tensor-sizes-count"
        changed = _every(made.patched, Sizes=[1, 1, 2])
        text = "every tensor has 3 Sizes for a DimensionCount of 4"
        topic.together("sizes-too-few", text, base, rule, "InputTensor", changed)
        for level in TABLES[self.operator]:
            own = f"{base}-{dashed(level)}"
            topic.accepted(own, f"the twin: four dimensions at {level}", made, level, flags="Level")
            self._ranks(topic, own, level, made)
            for names, data_type in self.together.items():
                text = f"{' and '.join(names)} are {data_type}, at {level}"
                fields = {n: made.described(n, data_type=data_type)[n] for n in names}
                name = f"{dashed(level)}-{dashed(names[0])}-{data_type.lower()}"
                topic.together(name, text, own, "tensor-data-type", names[0], fields)

    def _ranks(self, topic: DescTopic, base: str, level: str, made: Call) -> None:
        highest = rows(self.operator, level)[0].highest
        for rank in (3, 5) if highest == 4 else (9,):
            changed = _every(made.described, [1] * (rank - 1) + [2])
            name, rule = f"{dashed(level)}-rank-{rank}", "tensor-dimension-count"
            text = f"all four tensors have {rank} dimensions, at {level}"
            topic.together(name, text, base, rule, "InputTensor", changed)


REPEATS = (
    ("one", "one scale and one zero point", (0, 0, 0)),
    ("columns", "a scale and zero point for each column", (0, 0, 1)),
    ("channels", "a scale and zero point for each of the first axis", (1, 0, 0)),
    ("middle", "a scale and zero point for each of the second axis", (0, 1, 0)),
)


def _repeating(made: Call, strides: Sequence[int]) -> Call:
    """Return the call with a scale and a zero point that strides of 0 repeat."""
    words = {"ScaleTensor": (0x3F000000, 0x3E800000, 0x3E000000), "ZeroPointTensor": (3, 5, 8)}
    repeated = {name: _repeated(made.inputs[name], strides, own) for name, own in words.items()}
    return replace(made, inputs={**made.inputs, **repeated})


def _repeated(tensor: Tensor, strides: Sequence[int], words: Sequence[int]) -> Tensor:
    reach = 1 + sum((n - 1) * s for n, s in zip(tensor.sizes, strides, strict=True))
    row = cycled(tensor.dtype, (reach,), words)
    own = gather(tensor_desc("UINT8", tensor.sizes, strides), row)
    return Tensor(tensor.dtype, tensor.sizes, own.words)


def _every(
    change: Callable[..., Mapping[str, Any]], *changes: Any, **fields: Any
) -> dict[str, Any]:
    """Return every tensor, changed alike."""
    return {name: change(name, *changes, **fields)[name] for name in TENSORS}
