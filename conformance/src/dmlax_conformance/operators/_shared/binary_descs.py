"""Descs of an operator on two quantized tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...format.descs import gather, tensor_desc
from ...format.tensors import Tensor
from ...format.vectors import Request
from ..desc_topics import Call, DescTopic, call, cycled, dashed
from ..tables import TABLES
from .binary_rules import POINTS, SCALES, TENSORS, TYPES
from .strided_descs import StridedTopic, reach
from .tables import Row

EVERYTHING = (*TENSORS, *SCALES, *POINTS)

NO_ELEMENTS = {name: [0, 1, 1, 2] for name in TENSORS}
SCALE_WORDS = (0x3F000000, 0x3E800000, 0x3FC00000)  # 0.5, 0.25 and 1.5
WORDS = {"A": (7, 100, 31, 2, 64), "B": (5, 90, 3, 41, 17, 120, 9)}
FOUR = (1, 1, 2, 3)


@dataclass(frozen=True)
class Descs:
    """The descs of one operator."""

    operator: str

    def make(
        self,
        sizes: Sequence[int],
        types: tuple[str, str, str] = ("uint8", "int8", "uint8"),
        is_bare: bool = False,
    ) -> Call:
        """Return a call whose tensors have these sizes, and its parameters as many of 1."""
        one, given = (1,) * len(sizes), {}
        for place, name in enumerate(("A", "B", "Output")):
            if name in WORDS:
                given[f"{name}Tensor"] = cycled(types[place], sizes, WORDS[name])
            given[SCALES[place]] = cycled("float32", one, SCALE_WORDS[place:])
            if not is_bare:
                given[POINTS[place]] = cycled(types[place], one, (3 + 2 * place,))
        return call(self.operator, given, {"OutputTensor": Request(types[2], tuple(sizes))})

    def at_ranks(self, ranks: Mapping[str, int], is_bare: bool) -> Call:
        """Return a call whose tensors have these dimension counts."""
        return self.make((1,) * (ranks["ATensor"] - 1) + (2,), is_bare=is_bare)

    def typed(self, lines: Mapping[str, Row]) -> dict[str, Call]:
        """Return calls that have, among them, every data type of a table."""
        both = (("uint8", "int8", "int8"), ("int8", "uint8", "uint8"))
        return {"-".join(types): self.make((1, 1, 1, 2), types) for types in both}

    def topics(self) -> tuple[DescTopic, DescTopic]:
        """Return the files of rules and of strides."""
        return self._rules(), self._strides()

    def _rules(self) -> DescTopic:
        """Give each tensor but the first other ranks, sizes and data types."""
        topic, base = DescTopic(self.operator, "desc-rules"), "desc-rules-twin"
        made = self.make((1, 2, 3))
        topic.accepted(base, "the twin: {1,2,3} everywhere", made)
        for name in ("BTensor", "OutputTensor"):
            for sizes in ([1, 1, 1], [1, 3, 2], [1, 2, 1]):
                end, text = "x".join(map(str, sizes)), f"{name} has sizes {sizes}, A has {{1,2,3}}"
                topic.refuse(f"{dashed(name)}-{end}", text, base, "same-sizes", {name: sizes})
        for name in (*TENSORS[1:], *SCALES, *POINTS):
            for sizes in ([3], [1, 1, 2, 3]) if name in TENSORS else ([1],):
                text, rule = f"{name} has {len(sizes)} dimensions, A has 3", "same-dimension-count"
                end = f"{dashed(name)}-rank-{len(sizes)}"
                topic.refuse(end, text, base, rule, {name: sizes})
        for name in (*SCALES, *POINTS):
            text, rule = f"{name} has two elements", f"{dashed(name)}-one"
            topic.refuse(f"{dashed(name)}-two", text, base, rule, {name: [1, 2, 1]})
        for name, tensor in TYPES.items():
            other = "UINT8" if made.desc[name]["DataType"] == "INT8" else "INT8"
            changed, rule = made.described(name, data_type=other), f"{dashed(name)}-data-type"
            text = f"{name} is {other}, {tensor} is not"
            topic.refused(f"desc-{dashed(name)}-type", text, base, rule, name, changed)
        return topic

    def _strides(self) -> StridedTopic:
        """Let either side repeat by strides of 0, and give tensors other layouts."""
        topic, made = StridedTopic(self.operator), self.make((2, 2, 3))
        topic.add("a-padded", "rows of 3 in 4", made, ATensor=(8, 4, 1))
        topic.shorten_buffer("a-padded", "ATensor")
        topic.add("b-permuted", "axes in another order", made, BTensor=(1, 6, 2))
        topic.add("output-permuted", "axes in another order", made, OutputTensor=(1, 6, 2))
        topic.overlap("output-permuted", "OutputTensor", (0, 6, 2), (1, 6, 1), (1, 3, 2))
        for side, names in (("A", "one channels"), ("B", " ".join(REPEATS))):
            for name in names.split():
                strides = REPEATS[name]
                repeated, field = _repeating(made, side, strides), f"{side}Tensor"
                text = f"{field} repeats by strides {list(strides)}"
                topic.add(f"{side.lower()}-{name}", text, repeated, **{field: strides})
        both = _repeating(_repeating(made, "A", (0, 0, 1)), "B", (1, 0, 0))
        text, own = (
            "both repeat, along different axes",
            {"ATensor": (0, 0, 1), "BTensor": (1, 0, 0)},
        )
        topic.add("both-repeat", text, both, **own)
        each = {"ATensor": (6, 1, 2), "BTensor": (1, 2, 4), "OutputTensor": (20, 5, 1)}
        topic.add("everything", "every tensor with its own layout", made, **each)
        sizes = {"ATensor": ((7, 3, 1), 64), "OutputTensor": ((7, 3, 1), 128)}
        topic.add_roomy("strided buffers larger than needed", made, **sizes)
        return topic

    def add_survivors(self, topic: DescTopic, base: str) -> None:
        """Add descs for planted bugs that survived all other vectors."""
        made, rule = self.make((1, 1, 1, 2)), "tensor-sizes-count"
        changed: dict[str, Any] = {}
        for name in EVERYTHING:
            changed |= made.patched(name, Sizes=made.desc[name]["Sizes"][1:])
        text = "every tensor has 3 Sizes for a DimensionCount of 4"
        topic.together("sizes-too-few", text, base, rule, "ATensor", changed)
        for level in TABLES[self.operator]:
            own, text = f"{base}-{dashed(level)}", f"the twin: four dimensions at {level}"
            topic.accepted(own, text, made, level, flags="Level")
            wide = self.make((1,) * 8 + (2,)).desc
            name, rule = f"{dashed(level)}-rank-9", "tensor-dimension-count"
            text = f"all tensors have 9 dimensions, at {level}"
            topic.together(name, text, own, rule, "ATensor", {n: wide[n] for n in EVERYTHING})
            _refuse_strides(topic, own, made, level)
            _refuse_types(topic, own, made, level)


def _refuse_strides(topic: DescTopic, base: str, made: Call, level: str) -> None:
    for name in POINTS:
        text, rule = f"{name} has 3 Strides for 4 dimensions, at {level}", "tensor-strides-count"
        changed = made.patched(name, Strides=[1, 1, 1])
        end = f"desc-{dashed(level)}-{dashed(name)}-strides"
        topic.refused(end, text, base, rule, name, changed, flags="Invalid Layout")


def _refuse_types(topic: DescTopic, base: str, made: Call, level: str) -> None:
    for point, tensor in TYPES.items():
        text = f"{tensor} and {point} are INT16, at {level}"
        fields = {n: made.described(n, data_type="INT16")[n] for n in (tensor, point)}
        name = f"{dashed(level)}-{dashed(tensor)}-int16"
        first = point if tensor == "OutputTensor" else tensor
        topic.together(name, text, base, "tensor-data-type", first, fields)


REPEATS = {
    "one": (0, 0, 0),
    "columns": (0, 0, 1),
    "channels": (1, 0, 0),
    "middle": (0, 1, 0),
    "matrix": (0, 3, 1),
}


def _repeating(made: Call, side: str, strides: Sequence[int]) -> Call:
    """Return the call with one side that strides of 0 repeat."""
    name = f"{side}Tensor"
    old = made.inputs[name]
    row = cycled(old.dtype, (reach(old.sizes, strides),), WORDS[side])
    repeated = gather(tensor_desc("UINT8", old.sizes, strides), row)
    changed = Tensor(old.dtype, old.sizes, repeated.words)
    return replace(made, inputs={**made.inputs, name: changed})
