"""Quantized convolution with an addend."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from ...format.recipe import Cycle, Recipe
from ...format.tensors import Tensor, from_recipe
from ...format.vectors import Request
from .._shared import convolution_cases as windows
from .._shared import quantized_convolution_cases as shared
from .._shared import quantized_convolution_refusals as refusals
from .._shared import quantized_convolution_rounding as rounding
from .._shared import sum_values
from .._shared.binary_cases import NO_SCALES, Values
from .._shared.convolution_cases import attributes, image, parameter, scale_words, scales
from .._shared.covering import Apart, Factors, Row
from .._shared.quantized_convolution_cases import QuantizedTopic
from .._shared.rounding import RANGES
from .._shared.systematic import PERIOD, SHORT, each_pair, each_size, flags_of, repeat
from ..topics import Files, drawn, floats, ints

OPERATOR = "quantized_linear_convolution_add"
EIGHT = windows.EIGHT
MIDDLES = {"uint8": 128, "int8": 0}
NEAR = 2  # differences of an addend from its zero point, so that the convolution's result shows
KNOWN = "values:known"


class Added(NamedTuple):
    """The addend and the parameters of the sum, and the data type of the output."""

    tensors: Mapping[str, Tensor]
    dtype: str

    @classmethod
    def of(
        cls, addend: Tensor, words: Sequence[int], points: Sequence[int | None], dtype: str
    ) -> "Added":
        """Take scales as float32 bits and zero points of the addend and of the sum."""
        made = {"AddendTensor": addend}
        for name, word, point, own in zip(
            ("Addend", "Sum"), words, points, (addend.dtype, dtype), strict=True
        ):
            made[f"{name}ScaleTensor"] = scale_words([word])
            if point is not None:
                made[f"{name}ZeroPointTensor"] = parameter([point], own)
        return cls(made, dtype)


class AddTopic(QuantizedTopic):
    """One file of calls; a sum has the scale of the convolution's result unless they say more."""

    label = "QCA"
    allowed = ("int8-output-zero-point",)

    def add(
        self,
        name: str,
        comment: str,
        clause: str,
        x: Tensor,
        w: Tensor,
        own: windows.Parameters = windows.NONE,
        flags: str = "",
        options: Mapping[str, Any] | None = None,
        dtype: str = "",
        requires: str = "",
        added: Added | None = None,
    ) -> None:
        """Add a valid call whose convolution has a result of this data type."""
        options, dtype = options or attributes(), dtype or self.dtype
        if own.get("zy") is None and dtype != x.dtype:
            own = {**own, "zy": [0]}
        given, asked = self.operands(x, w, own, dtype), windows.output(x, w, options, dtype)
        sizes = asked["OutputTensor"].sizes
        added = added or self._near(given, sizes, dtype)
        given, asked = {**given, **added.tensors}, {"OutputTensor": Request(added.dtype, sizes)}
        options = {"AddendFirst": bool(len(self._vectors) % 2), **options}
        self.valid(name, comment, clause, given, asked, options, flags, requires)

    def add_twin(self, name: str, clause: str, own: windows.Parameters) -> None:
        """Add the call that invalid ones change: every tensor is present."""
        added = Added.of(
            image("uint8", (1, 2, 2, 2), 13), [0x3F000000, 0x3F800000], [7, 9], "uint8"
        )
        comment = "the twin: every tensor is present"
        self.add(name, comment, clause, *windows.TWIN, own, "Optional", added=added)

    def add_values(self, values: Iterable[Values]) -> None:
        """Add classes of values of a sum; a filter for each channel returns its input."""
        for number, each in enumerate(values):
            own, sizes = each.own, SIZES[number % len(SIZES)]
            columns = zip(*map(own.words, each.pairs[:TURN]), strict=True)
            a, b = (
                from_recipe(dtype, sizes, Cycle(words))
                for dtype, words in zip(own.dtypes, columns, strict=False)
            )
            added = Added.of(b, own.scales[1:], own.points[1:], own.dtypes[2])
            same, scale = own.points[:1], scale_words(own.scales[:1])
            given = {"zx": same, "zy": same, "sx": scale, "sy": scale, "sw": [1]}
            clauses = " ".join(CLAUSES[number] for number in each.clauses.split())
            w = ints("int8", (sizes[1], 1) + (1,) * (len(sizes) - 2), [1] * sizes[1])
            one, zero = (1,) * (len(sizes) - 2), (0,) * (len(sizes) - 2)
            options = attributes(one, one, zero, zero, sizes[1])
            flags = f"{each.flags}{' Rank3' * (len(sizes) == 3)}"
            clauses, text = self.clauses(clauses), f"{each.text}; sizes {list(sizes)}"
            self.add(
                f"sums-{each.name}",
                text,
                clauses,
                a,
                w,
                given,
                flags,
                options,
                a.dtype,
                added=added,
            )

    def _near(self, given: Mapping[str, Tensor], sizes: tuple[int, ...], dtype: str) -> Added:
        """Return an addend near its zero point, in turn of both data types and without one."""
        number = len(self._vectors)
        own, is_bare = EIGHT[number // 2 % 2], number % 3 == 2
        middle = 0 if is_bare else MIDDLES[own] + number % 5
        low = max(middle - NEAR, RANGES[own][0])
        addend = from_recipe(own, sizes, Recipe(number + 1, low, middle + NEAR))
        if isinstance(given["InputTensor"].made_by, Cycle):
            addend = repeat(drawn(own, (PERIOD,), number + 1, low, middle + NEAR), sizes)
        (word,) = given["OutputScaleTensor"].words
        point = given.get("OutputZeroPointTensor")
        points = (None if is_bare else middle, None if point is None else point.words[0])
        return Added.of(addend, (word, word), points, dtype)


TURN = 15  # pairs, so that no power of two is a multiple
SIZES = (  # of sums: many columns, rows, channels and images
    *((1, 66, 1, 1), (1, 1, 67), (3, 1, 3, 7), (1, 1, 35, 1), (2, 33, 1), (1, 129, 1, 1)),
    *((1, 1, 1, 131), (5, 3, 1, 3), (1, 34, 2)),
)
CLAUSES = {"1": "16", "2": "17", "3": "18", "7": "22"}  # of those of an addition
topics = Files(OPERATOR, AddTopic)
topics.file("parameters")(shared.add_parameters)
topics.file("windows")(shared.add_windows)
topics.file("contractions")(shared.add_contractions)
topics.file("rounding")(rounding.add_rounding)
topics.file("near-ties")(rounding.add_near_ties)
topics.file("scales")(rounding.add_scales)
topics.file("overflow")(rounding.add_overflow)
topics.file("invalid-types")(refusals.add_invalid_types)
topics.file("invalid-sizes")(refusals.add_invalid_sizes)
topics.file("invalid-options")(refusals.add_invalid_options)
topics.file("invalid-values")(refusals.add_invalid_values)
topics.file("kills")(refusals.add_kills)


# -- sums --------------------------------------------------------------------------------------

OF_SUMS: Mapping[str, Sequence[Callable[[], Iterable[Values]]]] = {
    "rounding": (sum_values.ties,),
    "saturation": (sum_values.saturation,),
    "sticky": (sum_values.far_apart,),
    "cancellation": (sum_values.cancelling,),
    "near-ties": (sum_values.near_float32, sum_values.near_float64),
    "scales": (sum_values.signs,),
}


def _add_sums(makers: Sequence[Callable[[], Iterable[Values]]], topic: AddTopic) -> None:
    """Take every third class: an addition alone has vectors of all."""
    for make in makers:
        topic.add_values([*make()][::3])


for _name, _makers in OF_SUMS.items():
    topics.file(f"sum-{_name}")(partial(_add_sums, _makers))


@topics.file("data-types")
def _data_types(topic: AddTopic) -> None:
    """Mix the data types of input, filter, result, addend and output, at the ends of each range."""
    for number, types in enumerate(product(EIGHT, repeat=4)):
        types = (types[0], EIGHT[number.bit_count() % 2], *types[1:])
        (xl, xh), (wl, wh), (yl, yh), (bl, bh), (_, sh) = (RANGES[dtype] for dtype in types)
        x = ints(types[0], (1, 2, 1, 4), [xl, xh, xl, xh, xh, xl, 1, xl])
        w = ints(types[1], (2, 2, 1, 1), [wl, wh, wh, 1])
        addend = ints(types[3], (1, 2, 1, 4), [bl, bh, bl + 1, bh - 1, (bl + bh) // 2, bh, bl, 3])
        is_bare = number % 3 == 2
        points = [None, None] if is_bare else [bl + 40, sh - 50]
        added = Added.of(addend, scales([128, 192]).words, points, types[4])
        own = {"zx": [xl + 3], "zw": [wh - 9], "sx": [1], "sw": [1], "sy": [256]}
        own |= {"zy": [(yl + yh) // 2 + 5], "bias": [0, -9000]}
        label = "-".join(types)
        text = "{} input, {} filter, {} result, {} addend, {} output".format(*types)
        clause = topic.clauses("2 10 15 16 18 19 23" if is_bare else "2 10 15 16 18 19")
        flags = "Extreme Optional" if is_bare else "Extreme"
        topic.add(f"types-{label}", text, clause, x, w, own, flags, None, types[2], added=added)


@topics.file("two-roundings")
def _two_roundings(topic: AddTopic) -> None:
    """Give convolutions whose result is a tie, or out of range, before the sum."""
    halves = ints("uint8", (2, 1, 1, 6), range(104, 116))
    far = ints("uint8", (2, 1, 1, 6), range(0, 240, 20))
    w = ints("int8", (2, 1, 1, 1), [1, -3])
    turns = product((("ties", halves, 0.5), ("clamps", far, 4)), ((1, 0.5), (-0.75, 1.5)), EIGHT)
    for turn, ((name, x, sx), (sa, ss), dtype) in enumerate(turns):
        other = EIGHT[turn // 2 % 2]
        addend = drawn(other, (2, 2, 1, 6), 300 + turn, *RANGES[other])
        points = MIDDLES[other] + 3, 40
        added = Added.of(addend, scales([sa, ss]).words, points, EIGHT[turn % 3 % 2])
        own = {"zx": [110], "sx": [sx], "sw": [1], "sy": [1], "zy": [MIDDLES[dtype] - 7]}
        text = f"the {dtype} result {'is a tie' if name == 'ties' else 'saturates'} before the sum"
        flags = "Tie" if name == "ties" else "Saturation"
        label, clause = f"{name}-then-sum-{turn + 1}", topic.clauses("5 6 16 24")
        topic.add(label, text, clause, x, w, own, flags, None, dtype, added=added)


# -- calls that break a rule -------------------------------------------------------------------

BASE = refusals.BASE
WRONG_TYPES = {
    "int16-addend": ("AddendTensor", ints("int16", (1, 2, 2, 2), range(8))),
    "float-addend": ("AddendTensor", floats("float32", (1, 2, 2, 2), range(8))),
    "float16-addend-scale": ("AddendScaleTensor", floats("float16", (1, 1, 1, 1), [0.5])),
    "int32-sum-scale": ("SumScaleTensor", ints("int32", (1, 1, 1, 1), [1])),
    "int8-addend-zero-point": ("AddendZeroPointTensor", parameter([7], "int8")),
    "int32-addend-zero-point": ("AddendZeroPointTensor", parameter([7], "int32")),
    "int8-sum-zero-point": ("SumZeroPointTensor", parameter([9], "int8")),
    "int32-sum-zero-point": ("SumZeroPointTensor", parameter([9], "int32")),
}
WRONG_RANKS = {
    "addend-rank-3": ("AddendTensor", image("uint8", (2, 2, 2))),
    "addend-rank-5": ("AddendTensor", image("uint8", (1, 2, 2, 2, 1))),
}
WRONG_SIZES = {
    "addend-of-one-channel": ("AddendTensor", image("uint8", (1, 1, 2, 2))),
    "addend-of-one-row": ("AddendTensor", image("uint8", (1, 2, 1, 2))),
    "addend-of-one": ("AddendTensor", image("uint8", (1, 1, 1, 1))),
    "addend-of-two-images": ("AddendTensor", image("uint8", (2, 2, 2, 2))),
    "addend-of-the-input": ("AddendTensor", image("uint8", (1, 2, 3, 3))),
    "addend-of-other-sizes": ("AddendTensor", image("uint8", (1, 2, 4, 1))),
}
WRONG_PARAMETERS = {
    "addend-scale-each": ("AddendScaleTensor", scales([0.5, 0.5])),
    "sum-scale-each": ("SumScaleTensor", scales([1, 1])),
    "addend-zero-point-each": ("AddendZeroPointTensor", parameter([7, 7], "uint8")),
    "sum-zero-point-each": ("SumZeroPointTensor", parameter([9, 9], "uint8")),
}


@topics.file("invalid-sums")
def _invalid_sums(topic: AddTopic) -> None:
    base = f"{BASE}-sums"
    topic.add_twin(base, topic.clauses("16 20 21"), refusals.EVERY)
    topic.wrong(base, "data_type", topic.clauses("19"), "{field} is {dtype}", WRONG_TYPES)
    text = "{field} has rank {rank}"
    topic.wrong(base, "dimension_count", topic.clauses("20"), text, WRONG_RANKS)
    text = "{field} has sizes {sizes}, the convolution's result [1, 2, 2, 2]"
    topic.wrong(base, "sizes", topic.clauses("20"), text, WRONG_SIZES)
    text = "{field} has sizes {sizes}"
    topic.wrong(base, "sizes", topic.clauses("21"), text, WRONG_PARAMETERS)
    base, text = f"{base}-values", "the twin: scales that are known and fine"
    given = refusals.SCALED
    topic.add(base, text, topic.clauses("22"), *windows.TWIN, given, "KnownValue", requires=KNOWN)
    words = {name: word for name, word in NO_SCALES.items() if name != "minus-zero"}
    for label, (name, word) in product(("Addend", "Sum"), words.items()):
        field, flags = f"{label}ScaleTensor", "Invalid KnownValue"
        changed, text = {field: scale_words([word])}, f"{field} is {name}"
        end, rule = f"{label.lower()}-scale-{name}", topic.clauses("22")
        topic.invalid(end, text, rule, base, "value", changed, flags, KNOWN)


# -- size classes ------------------------------------------------------------------------------


@topics.file("size-classes")
@each_size
def _of_size(topic: AddTopic, count: int, number: int) -> None:
    """Let a kernel of one row give so many elements; an addend of one fewer is refused."""
    x = repeat(image("uint8", (PERIOD,), 640 + 2 * number), (1, 1, 1, count + 1))
    w, result, other = (
        image("int8", (1, 1, 1, 2), 641 + number),
        EIGHT[number % 2],
        EIGHT[number // 2 % 2],
    )
    addend = repeat(image(other, (PERIOD,), count), (1, 1, 1, count))
    added = Added.of(addend, scales([1.5, 2.5]).words, (MIDDLES[other] - number, None), result)
    own = {"zx": [5 + number], "zw": [number - 7], "zy": [MIDDLES[result]], "sy": [4]}
    base, text = f"elements-{count}", f"{count} elements"
    clause, flags = topic.clauses("1 8 16 20"), flags_of(count)
    topic.add(base, text, clause, x, w, own, flags, None, result, added=added)
    if count in (min(SHORT), max(SHORT)):
        short = repeat(addend, (1, 1, 1, count - 1))
        name, text = f"addend-{count - 1}", f"{count - 1} elements of the addend, for {count}"
        topic.invalid(name, text, topic.clauses("20"), base, "sizes", {"AddendTensor": short})


# -- pairs of options --------------------------------------------------------------------------

FACTORS: Factors = {
    **windows.FACTORS,
    "bias": ("absent", "each channel"),
    "filter scale": ("one", "each channel"),
    "result": ("as the input", *EIGHT),
    "addend": EIGHT,
    "addend zero point": ("absent", "one"),
    "output": EIGHT,
    "sum zero point": ("absent", "one"),
    "addend first": ("no", "yes"),
}
APART: Apart = {}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: AddTopic, name: str, text: str, row: Row, number: int) -> None:
    x, w = windows.operands(row, number)
    options = {**windows.window(row), "AddendFirst": row["addend first"] == "yes"}
    result = x.dtype if row["result"] == "as the input" else row["result"]
    zy = None if row["result"] == "as the input" else [MIDDLES[result] - 30]
    sw = [0.03125 + 0.007 * k for k in range(w.sizes[0] if row["filter scale"] != "one" else 1)]
    own: dict[str, Any] = {**windows.points(row, w.sizes[0]), "zy": zy, "sw": sw, "sy": [4]}
    if row["bias"] != "absent":
        values = [(-1) ** k * 5000 * k for k in range(w.sizes[0])]
        own["bias"] = parameter(values, "int32", len(x.sizes))
    (asked,) = windows.output(x, w, options, result).values()
    addend = from_recipe(row["addend"], asked.sizes, Recipe(number, *RANGES[row["addend"]]))
    points = (
        None if row["addend zero point"] == "absent" else MIDDLES[row["addend"]] + 11,
        None if row["sum zero point"] == "absent" else MIDDLES[row["output"]] - 5,
    )
    added = Added.of(addend, scales([2.5, 3.5]).words, points, row["output"])
    clause = topic.clauses("1 7 8 11 15 16 19 23 24")
    topic.add(name, text, clause, x, w, own, "", options, result, added=added)
