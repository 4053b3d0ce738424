"""Descs of the three matrix products."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...format.tensors import Tensor
from ...format.vectors import Request
from ..desc_topics import Call, DescTopic, call, cycled, dashed
from ..tables import TABLES, tensors
from .matmul_rules import PARAMETERS
from .strided_descs import StridedTopic, sliding

FULL, BARE = "desc-rules-full", "desc-rules-bare"
NO_ELEMENTS = {
    "ATensor": [0, 2, 2, 3],
    "BTensor": [0, 2, 3, 4],
    "OutputTensor": [0, 2, 2, 4],
}
WORDS = {  # of A
    "uint8": (5, 200, 101, 3, 255),
    "int8": (5, -77, 100, -128, 3),
    "uint16": (5, 40_001, 1000),
    "int16": (5, -300, 1000),
    "uint32": (5, 70_001, 2_000_000),
    "int32": (5, -70_001, 100),
}
SIGNED, UNSIGNED = (3, -2, 1, 7, -9, 4, 11), (3, 2, 1, 7, 9, 4, 11)  # of B
SCALES = {"float32": (0x3D800000, 0x3D000000, 0x3C800000), "float16": (0x2C00, 0x2800, 0x2400)}
OUTPUT_SCALES = (0x3F000000, 0x3F800000)
ADDENDS = {"float32": (0x40600000, 0xC0200000, 0), "float16": (0x4300, 0xC100, 0)}
HALVES = (
    "data-type:inputs dimension-count:outputs sizes-count:outputs"
    " sizes-positive:outputs element-limit:outputs"
)


@dataclass(frozen=True)
class Descs:
    """The descs of one product, which differ in the parameters it has."""

    operator: str
    types: tuple[str, str, str]  # of A, of B and of the output
    clause: str  # of the sizes

    def make(
        self,
        rank: int = 4,
        parameters: int | None = None,
        b_point: int | None = None,
        is_bare: bool = False,
        types: tuple[str, str, str] | None = None,
        is_single: bool = False,
    ) -> Call:
        """Return a call with every tensor, or with the required ones; parameters have own ranks.

        A has two rows, B four columns, and the batch two matrices where there is room for it.
        """
        own, (a, b, y) = parameters or rank, types or self.types
        lead = [1, 2][4 - rank :]
        scale = y if y.startswith("float") else "float32"
        rows, columns = ([1, 1, 2, 1][-own:], [1, 1, 1, 4][-own:]) if own > 1 else ([1], [4])
        if is_single:
            rows = columns = [1] * own
        point = columns if b_point is None or is_single else [1, 1, 1, 4][-b_point:]
        point = [1] * (b_point or own) if is_single else point
        given: dict[str, Tensor | None] = {
            "ATensor": cycled(a, [*lead, 2, 3], WORDS[a]),
            "AScaleTensor": cycled(scale, rows, SCALES[scale]),
            "BTensor": cycled(b, [*lead, 3, 4], _small(b)),
            "BScaleTensor": cycled(scale, columns, SCALES[scale][::-1]),
            "OutputScaleTensor": cycled("float32", rows, OUTPUT_SCALES),
        }
        if not is_bare:
            given |= {
                "AZeroPointTensor": cycled(a, rows, (4, 9)),
                "BZeroPointTensor": cycled(b, point, (5, 2, 8, 3)),
                "OutputZeroPointTensor": cycled(y, rows, (100, 90)) if scale != y else None,
                "BiasTensor": cycled(y, [*lead, 2, 4], ADDENDS[y]) if scale == y else None,
            }
        there = tensors(self.operator)
        kept = {name: given[name] for name in there if given.get(name) is not None}
        return self.product(kept, y)

    def product(self, given: Mapping[str, Tensor | None], dtype: str) -> Call:
        """Return a call with the output that A and B give."""
        held = {name: tensor for name, tensor in given.items() if tensor is not None}
        a, b = held["ATensor"].sizes, held["BTensor"].sizes
        return call(self.operator, held, {"OutputTensor": Request(dtype, (*a[:-1], b[-1]))})

    def at_ranks(self, ranks: Mapping[str, int], is_bare: bool) -> Call:
        """Return a call whose tensors have these dimension counts."""
        own, point = ranks["AZeroPointTensor"], ranks["BZeroPointTensor"]
        return self.make(ranks["ATensor"], own, point, is_bare)

    # -- rules ---------------------------------------------------------------------------------

    def rules(self, types: Mapping[str, str]) -> DescTopic:
        """Return the file that breaks the rules of types and sizes."""
        topic, made = DescTopic(self.operator, "desc-rules"), self.make()
        topic.accepted(FULL, "the twin: every tensor is present", made, flags="Optional")
        text = "the twin: no optional tensor, and every parameter is one value"
        topic.accepted(BARE, text, self.make(is_bare=True, is_single=True), clause=self.clause)
        for field, pair in ((a, b) for a, b in types.items() if a in made.desc):
            wrong = OTHER[made.desc[field]["DataType"]]
            text, short = f"{field} is {wrong}, {pair} is not", dashed(field)
            changed = made.described(field, data_type=wrong)
            topic.refused(f"desc-{short}-type", text, FULL, f"{short}-data-type", field, changed)
        for field, rule, sizes in self._wrong_sizes(made):
            text = f"{field} has sizes {sizes}"
            name = f"{dashed(field)}-{'x'.join(map(str, sizes))}"
            base = BARE if rule == "output-sizes" else FULL
            topic.refuse(name, text, base, rule, {field: sizes})
        return topic

    def _wrong_sizes(self, made: Call) -> list[tuple[str, str, list[int]]]:
        """Return fields, rules and sizes that break them."""
        found = [("BTensor", "inner-sizes", [1, 2, 2, 4]), ("BTensor", "inner-sizes", [1, 2, 4, 4])]
        found += [
            ("BTensor", "batch-sizes", [1, 1, 3, 4]),
            ("BTensor", "batch-sizes", [2, 2, 3, 4]),
        ]
        for sizes in ([1, 1, 2, 4], [1, 2, 3, 4], [1, 2, 2, 3]):
            found.append(("OutputTensor", "output-sizes", sizes))
        found += [("BTensor", "same-dimension-count", [2, 3, 4])]
        found += [("OutputTensor", "same-dimension-count", [2, 2, 4])]
        if "BiasTensor" in made.desc:
            found += [("BiasTensor", "same-dimension-count", [2, 2, 4])]
            found += [("BiasTensor", "bias-sizes", own) for own in ([1, 1, 1, 4], [1, 2, 2, 1])]
        for name in (each for each in PARAMETERS if each in made.desc):
            is_column = name.startswith("B")
            rule = f"{dashed(name)}-{'columns' if is_column else 'rows'}"
            rows, columns = ([1, 1, 3, 1], [1, 1, 1, 2]), ([1, 1, 1, 3], [1, 1, 4, 1])
            found += [(name, rule, sizes) for sizes in (columns if is_column else rows)]
            if name != "AScaleTensor" and "AScaleTensor" in made.desc:
                sizes = [1, 1, 4] if is_column else [1, 2, 1]
                found += [(name, "parameters-dimension-count", sizes)]
        return found

    def levels(self) -> DescTopic:
        """Return the file of levels, with what two products have in it."""
        topic, rule = DescTopic(self.operator, "desc-levels"), "tensor-dimension-count"
        for rank in (2, 3):
            name, text = f"rank-{rank}", f"{rank} dimensions"
            topic.step(name, text, self.make(rank, rank), ("3_1", "4_0"), rule, "ATensor")
        return topic

    def strides(self) -> StridedTopic:
        """Return the file of strides."""
        topic, made = StridedTopic(self.operator), self.make()
        bare = self.make(is_bare=True, is_single=True)
        for name, (text, each) in LAYOUTS.items():
            topic.add(name, text, bare, **each)
        topic.overlap("c-transposed", "OutputTensor", (16, 8, 1, 1), (16, 8, 0, 2), (16, 3, 4, 1))
        topic.shorten_buffer("a-padded", "ATensor")
        topic.shorten_buffer("c-padded", "OutputTensor")
        topic.add("rank-2", "two dimensions", self.make(2, 2), ATensor=(1, 2), OutputTensor=(5, 1))
        there = [name for name in PARAMETERS if name in made.desc]
        zeros = dict.fromkeys(there, (0, 0, 0, 0))
        given = {k: _first(v) if k in there else v for k, v in made.inputs.items()}
        text = "one value of every parameter, repeated by a stride of 0"
        topic.add(
            "repeated",
            text,
            self.product(given, made.desc["OutputTensor"]["DataType"].lower()),
            **zeros,
        )
        apart = {
            n: (8, 8, 8, 3) if n.startswith("B") else (9, 9, 3, 1) for n in there if "Zero" in n
        }
        topic.add("parameters", "zero points in every third word", made, **apart)
        for name, (tensor, sizes, strides) in SHARED.items():
            dtype = bare.inputs[tensor].dtype
            visible = cycled("float32", [1, 1, 1, 1], [0x3B000000])  # small sums show
            more = {"OutputScaleTensor": visible} if "OutputScaleTensor" in bare.desc else {}
            shared = {**bare.inputs, **more, tensor: sliding(dtype, 24, sizes, strides)}
            text = f"strides {list(strides)} of {tensor} repeat or overlap"
            result = made.desc["OutputTensor"]["DataType"].lower()
            topic.add(name, text, self.product(shared, result), **{tensor: strides})
        roomy = {"ATensor": ((40, 20, 7, 2), 64), "OutputTensor": ((80, 40, 9, 2), 400)}
        topic.add_roomy("strided buffers larger than needed", bare, **roomy)
        return topic

    # -- planted bugs that survived all other vectors ------------------------------------------

    def add_survivors(
        self, topic: DescTopic, base: str, together: Mapping[tuple[str, ...], str]
    ) -> None:
        """Add descs for planted bugs that survived all other vectors."""
        made, operands = self.make(is_bare=True), ("ATensor", "BTensor", "OutputTensor")
        text, rule = "A has no columns and B no rows", "tensor-sizes-positive"
        changed = made.described("ATensor", [1, 2, 2, 0]) | made.described("BTensor", [1, 2, 0, 4])
        topic.together("inner-0", text, base, rule, "ATensor", changed)
        text, rule = "A and B repeat one element 2^33 times and more", "tensor-element-limit"
        changed = made.described("ATensor", [1, 2, 2, 2**31], [0] * 4)
        changed |= made.described("BTensor", [1, 2, 2**31, 4], [0] * 4)
        topic.together("inner-2-31", text, base, rule, "ATensor", changed)
        text, rule = "A, B and output have 3 Sizes for a DimensionCount of 4", "tensor-sizes-count"
        changed = {n: made.patched(n, Sizes=made.desc[n]["Sizes"][1:])[n] for n in operands}
        topic.together("sizes-too-few", text, base, rule, "ATensor", changed)
        for level in TABLES[self.operator]:
            own, text = f"{base}-{dashed(level)}", f"the twin: four dimensions at {level}"
            topic.accepted(own, text, made, level, flags="Level")
            rule, fields = "tensor-dimension-count", dict[str, Any]()
            for name in operands:
                fields |= made.described(name, [1, *made.desc[name]["Sizes"]])
            text = f"A, B and output have 5 dimensions, at {level}"
            topic.together(f"{dashed(level)}-rank-5", text, own, rule, "ATensor", fields)
            for names, data_type in together.items():
                there = [name for name in names if made.desc[name] is not None]
                fields = {n: made.described(n, data_type=data_type)[n] for n in there}
                name = f"{dashed(level)}-{dashed(there[0])}-{data_type.lower()}"
                text = f"{' and '.join(there)} are {data_type}, at {level}"
                topic.together(name, text, own, "tensor-data-type", there[0], fields)

    def refuse_parameter_ranks(self, topic: DescTopic, base: str, names: Sequence[str]) -> None:
        """Give all parameters a rank that no table has."""
        made = self.make(is_single=True)
        for level in TABLES[self.operator]:
            own, text = f"{base}-single-{dashed(level)}", f"the twin: single values at {level}"
            topic.accepted(own, text, made, level, flags="Level")
            there = [name for name in names if name in made.desc]
            for rank in (5, 3) if level == "2_1" else (5,):
                fields = {n: made.described(n, [1] * rank)[n] for n in there}
                name, rule = f"{dashed(level)}-parameters-{rank}", "tensor-dimension-count"
                text = f"every scale and zero point has {rank} dimensions, at {level}"
                topic.together(name, text, own, rule, there[0], fields)


OTHER = {
    "INT8": "UINT8",
    "UINT8": "INT8",
    "FLOAT32": "FLOAT16",
    "FLOAT16": "FLOAT32",
}
LAYOUTS: Mapping[str, tuple[str, Mapping[str, Sequence[int]]]] = {
    "a-transposed": ("A is held column by column", {"ATensor": (12, 6, 1, 2)}),
    "b-transposed": ("B is held column by column", {"BTensor": (24, 12, 1, 3)}),
    "c-transposed": ("the output is held column by column", {"OutputTensor": (16, 8, 1, 2)}),
    "a-padded": ("rows of 3 in 5", {"ATensor": (20, 10, 5, 1)}),
    "c-padded": ("rows of 4 in 6", {"OutputTensor": (24, 12, 6, 1)}),
    "batch-last": (
        "the matrices of the batch interleave",
        {"ATensor": (12, 1, 6, 2), "BTensor": (24, 1, 8, 2), "OutputTensor": (16, 1, 8, 2)},
    ),
}
SHARED: Mapping[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "a-for-every-matrix": ("ATensor", (1, 2, 2, 3), (0, 0, 3, 1)),
    "b-for-every-matrix": ("BTensor", (1, 2, 3, 4), (0, 0, 4, 1)),
    "a-sliding": ("ATensor", (1, 2, 2, 3), (0, 2, 1, 1)),
    "b-one-column": ("BTensor", (1, 2, 3, 4), (0, 3, 1, 0)),
}


def _small(dtype: str) -> tuple[int, ...]:
    return UNSIGNED if dtype.startswith("u") else SIGNED


def _first(tensor: Tensor) -> Tensor:
    """Return the first word of a tensor for all of it."""
    return Tensor(tensor.dtype, tensor.sizes, tensor.words[:1] * prod(tensor.sizes))
