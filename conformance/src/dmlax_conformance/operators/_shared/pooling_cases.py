"""Calls of the pools: operands, windows, and the cases that several have."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from ...format.vectors import Request
from ..topics import Topic, bits, drawn, floats, ints
from . import convolution_cases as convolutions
from .convolution_cases import NAMES, NONE, Parameters, image, parameter, scale_words, scales
from .covering import Factors, Row
from .floats import decode, exactly, nearest, round_half_even
from .near_ties import Draw, float32
from .pooling import output_sizes, whole
from .pooling_floats import MEANS, exact_mean
from .rounding import RANGES
from .systematic import PERIOD, SHORT, repeat

KNOWN = "values:known"
PLAIN: Parameters = {"sx": [0.5], "sy": [0.5]}


class PoolTopic(Topic):
    """One file of calls; `label` begins the clauses of the operator."""

    label = "MAX"
    has_windows = True
    has_parameters = False

    def add(
        self,
        name: str,
        text: str,
        clause: str,
        x: Tensor,
        own: Parameters = NONE,
        flags: str = "",
        options: Mapping[str, Any] | None = None,
        dtype: str = "",
        requires: str = "",
        paired_with: str | None = None,
    ) -> None:
        """Add a valid call; clauses are numbers, and `own` are parameters by the keys of `NAMES`.

        An average has scales of 1/2 if it has no others, and a window of 2 on each axis.
        """
        given, dtype = {"InputTensor": x}, dtype or x.dtype
        types = {"zx": x.dtype, "zy": dtype}
        for key, values in {**PLAIN, **own}.items() if self.has_parameters else ():
            if isinstance(values, Tensor):
                given[NAMES[key]] = values
            elif values is not None:
                made = parameter(values, types[key]) if key in types else scales(values)
                given[NAMES[key]] = made
        options = options or windows((2,) * (len(x.sizes) - 2))
        if self.has_parameters:
            options = {**options, "IncludePadding": options.get("IncludePadding", False)}
        sizes = output_sizes(x.sizes, options if self.has_windows else whole(x.sizes))
        asked = {"OutputTensor": Request(dtype, sizes)}
        own_options = options if self.has_windows else {}
        clause = self.clauses(clause)
        self.valid(
            name, text, clause, given, asked, own_options, flags, requires, None, paired_with
        )

    def clauses(self, numbers: str) -> str:
        """Return the names of the operator's clauses with these numbers."""
        return " ".join(f"{self.label}-{number}" for number in numbers.split())

    def add_twin(self, name: str, clause: str, own: Parameters = NONE, requires: str = "") -> None:
        """Add the call that invalid ones change."""
        given, flags = own or EVERY, "KnownValue" if requires else "Optional"
        text = "the twin: two channels, every tensor present"
        self.add(name, text, clause, TWIN, given, flags, None, "uint8", requires)

    def refuse(self, base: str, code: str, clause: str, names: str = "") -> None:
        """Change one field of the base after the other: names of `WRONG`, by spaces."""
        text = {"data_type": "{field} is {dtype}", "dimension_count": "{field} has rank {rank}"}
        words = text.get(code, "{field} has sizes {sizes}")
        self.wrong(base, code, self.clauses(clause), words, WRONG, names)

    def add_sums(
        self,
        name: str,
        text: str,
        clause: str,
        sums: Sequence[int],
        count: int,
        own: Parameters,
        flags: str,
        dtype: str = "int8",
        source: str = "uint8",
    ) -> None:
        """Add a call with one window of so many elements in each channel, which has this sum."""
        (low, high), zero = RANGES[source], 131 if source == "uint8" else -5
        rows = [spread(total, count, low - zero, high - zero, at) for at, total in enumerate(sums)]
        words = [value + zero for row in rows for value in row]
        x, options = ints(source, (1, len(sums), 1, count), words), windows((1, count))
        self.add(name, text, clause, x, {**own, "zx": [zero]}, flags, options, dtype)


# -- tensors and attributes --------------------------------------------------------------------


def windows(
    size: Sequence[int], include: bool | None = None, **options: Sequence[int]
) -> dict[str, Any]:
    """Return all attribute fields; strides, dilations, start and end are the plainest if absent."""
    ones, zeros = (1,) * len(size), (0,) * len(size)
    plain: dict[str, Any] = {"strides": ones, "dilations": ones, "start": zeros, "end": zeros}
    fields = convolutions.attributes(**{**plain, **options})
    del fields["GroupCount"]
    given = {"WindowSize": [*size], **fields}
    return given if include is None else {**given, "IncludePadding": include}


def spread(total: int, count: int, low: int, high: int, seed: int) -> list[int]:
    """Return so many integers with this sum, drawn apart in pairs."""
    draw, (each, more) = Draw(seed), divmod(total, count)
    values = [each + (at < more) for at in range(count)]
    for at in range(0, count - 1, 2):
        step = draw.below(max(min(high - values[at], values[at + 1] - low), 0) + 1)
        values[at], values[at + 1] = values[at] + step, values[at + 1] - step
    assert all(low <= value <= high for value in values), total
    return values


# -- what the averages have --------------------------------------------------------------------


def add_data_types(topic: PoolTopic) -> None:
    """Let the ends of every range meet, with and without zero points."""
    for source, dtype in product(RANGES, repeat=2):
        (xl, xh), (yl, yh) = RANGES[source], RANGES[dtype]
        x = ints(source, (1, 2, 2, 3), [xl, xh, xl, xh, xh, xl, xh, xh, xh, xl, xh, 1])
        own: Parameters = {"zx": [xh], "zy": [(yl + yh) // 2]}
        label = f"{source}-{dtype}"
        text = f"{source} input, {dtype} output, at the ends of the range"
        topic.add(f"extremes-{label}", text, "1 5", x, own, "Extreme", dtype=dtype)
        own, text = {"sy": [0.75]}, "the same elements, all optional tensors absent"
        name, flags = f"no-zero-points-{label}", "Extreme Optional"
        topic.add(name, text, "5 6", x, own, flags, dtype=dtype)


def add_parameters(topic: PoolTopic) -> None:
    """Add every way to give the parameters."""
    x, each = image("uint8", (2, 3, 3, 4), 21), {"zx": [90, 120, 200], "zy": [3, 128, 60]}
    for name, keys in (("none", ""), ("input", "zx"), ("output", "zy"), ("both", "zx zy")):
        own = {key: each[key][1:2] for key in keys.split()}
        topic.add(f"zero-points-{name}", f"zero points: {name}", "1 6", x, own, "Optional")
    wide: Parameters = {**each, "sx": [0.5, 0.3, 0.8], "sy": [0.4, 0.7, 1.1]}
    for key, text in (("sx", "input scale"), ("zx", "input zero point")):
        for other in ("sy", "zy"):
            own = {**{name: values[:1] for name, values in wide.items()}, key: wide[key]}
            own[other] = wide[other]
            name = f"each-{text.replace(' ', '-')}-{other}"
            words = f"one for each channel: {text} and output {other}"
            topic.add(name, words, "4", x, own, "PerChannel")
    topic.add("each-all", "every parameter one for each channel", "4", x, wide, "PerChannel")
    flat = {key: parameter(wide[key], "uint8", 1) for key in ("zx", "zy")}
    flat |= {key: scales(wide[key], 1) for key in ("sx", "sy")}
    topic.add("parameters-rank-1", "parameters of rank 1", "4", x, flat, "PerChannel")
    cube = image("uint8", (3, 3, 3, 3), 22)
    text = "every axis of every tensor has 3 places, so that swapped axes keep all sizes"
    topic.add("every-axis-3", text, "1 4", cube, wide, "PerChannel")
    text, none = "no image, so no result", ints("uint8", (0, 3, 3, 3), [])
    need, other = "sizes:zero", "each-all"
    topic.add("no-image", text, "9", none, wide, "Empty", requires=need, paired_with=other)


def add_rounding(topic: PoolTopic) -> None:
    """Add ties of both parities, what is limited, and long sums."""
    _add_ties(topic)
    _add_saturation(topic)
    _add_long_windows(topic)
    x = from_recipe("uint8", (1, 1, 3, 22_001), Recipe(0, 255, 255))
    text = "66,003 elements: their sum has more than 24 bits, and float32 adds up to another"
    own, flags = {"sx": [1], "sy": scale_words([_tells_sums_apart(x)])}, "Large LargeAccumulator"
    topic.add("long-sum", text, "1", x, own, flags, windows((3, 22_001)))
    text = "the same elements: float32 does not hold their sum"
    own = {"sx": [1], "sy": scale_words([_tells_sums_apart(x, True)])}
    topic.add("long-sum-rounded", text, "1", x, own, flags, windows((3, 22_001)))


def _add_ties(topic: PoolTopic) -> None:
    ties = [-19, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 19]
    for dtype, zy in (*product(["int8"], (0, 1, -2, -3)), *product(["uint8"], (30, 31))):
        name = f"ties-{dtype}-zero-point-{zy}".replace("--", "-minus-")
        text, own = f"halves of both signs, then zero point {zy}", {**PLAIN, "zy": [zy]}
        topic.add_sums(name, text, "2", ties, 2, own, "Tie", dtype)
    for count in (4, 6, 10, 256, 258):
        halves = (-9, -4, -1, 1, 2, 7) if count < 99 else (6,)
        sums = [count // 2 * k + beside for k in halves for beside in (-1, 0, 1)]
        text = f"windows of {count} elements, on a half and beside it"
        name, own = f"ties-of-{count}", {**PLAIN, "zy": [1]}
        topic.add_sums(name, text, "1 2", sums, count, own, "Tie")


def _add_saturation(topic: PoolTopic) -> None:
    for dtype, (low, high) in RANGES.items():
        for zy in (low, high, (low + high + 1) // 2):
            sums = [2 * (end - zy) + step for end in (low, high) for step in (-3, -1, 0, 1, 3)]
            name = f"saturation-{dtype}-zero-point-{zy}".replace("--", "-minus-")
            text = f"half steps around both ends of {dtype} with zero point {zy}"
            own = {"sx": [1], "sy": [0.25], "zy": [zy]}
            topic.add_sums(name, text, "3 2", sums, 8, own, "Saturation Tie", dtype)


def _add_long_windows(topic: PoolTopic) -> None:
    for source, (low, high) in RANGES.items():
        for axes, count in ((1, 300), (3, 301)):
            sizes = (*(1,) * (axes - 1), count)
            x = from_recipe(source, (1, 3, *sizes), Recipe(count, high - 9, high))
            own, options = {"sx": [1], "sy": [2], "zx": [low]}, windows(sizes)
            text = f"large elements in windows of {count}, {axes + 2} dimensions"
            topic.add(f"long-{source}-{count}", text, "1", x, own, "Large", options, "uint8")
        for count in (1, 255, 256, 257, 289, 1000):
            x = from_recipe(source, (1, 3, 1, count), Recipe(count, high - 9, high))
            text, own = f"large elements in windows of {count}", {"sx": [1], "sy": [2], "zx": [low]}
            name, options = f"long-{source}-{count}", windows((1, count))
            topic.add(name, text, "1", x, own, "Large", options, "uint8")


def _tells_sums_apart(x: Tensor, is_rounded_once: bool = False) -> int:
    """Return the output scale with which a sum in float32 would round to another integer."""
    exact, single, count = sum(x.words), Fraction(0), len(x.words)
    for word in x.words:
        single = nearest(exactly(single + word), "float32").value
    if is_rounded_once:
        single = nearest(exactly(Fraction(exact)), "float32").value
    for tie, step in product(range(41, 200, 2), (-1, 0, 1)):
        word = float32(Fraction(2 * exact, count * tie)) + step
        means = (total / (decode(word, "float32").value * count) for total in (exact, single))
        if len(set(map(round_half_even, means))) == 2:
            return word
    raise AssertionError("no output scale tells the sums apart")


def add_near_ties(topic: PoolTopic) -> None:
    """Add sums that float64 misplaces, each with a pair of scales of its own."""
    methods = (name for name in MEANS if name.startswith("float64"))
    for number, (name, count) in enumerate(product(methods, (7, 49))):
        sums, pairs = _many_pairs(name, count, number)
        if sums:
            text = f"{len(sums)} sums of {count}, each by its own scales, misplaced: {name}"
            _add_misplaced(topic, f"each-{name}-{count}", text, sums, count, pairs)


def _add_misplaced(
    topic: PoolTopic,
    name: str,
    text: str,
    sums: Sequence[int],
    count: int,
    pairs: Sequence[tuple[int, int]],
) -> None:
    """Add these sums; every other call has an INT8 input."""
    source, dtype, zy = (("uint8", "int8", 3), ("int8", "uint8", 130))[count in (9, 49)]
    own: dict[str, Any] = {"zy": [zy]}
    own["sx"], own["sy"] = (scale_words([pair[at] for pair in pairs]) for at in (0, 1))
    flags = (
        "NearTieFloat64" if name.removeprefix("each-").startswith("float64") else "NearTieFloat32"
    )
    topic.add_sums(name, text, "1 2 4", sums, count, own, flags, dtype, source)


def _is_misplaced(name: str, total: int, count: int, words: tuple[int, int], at: int) -> bool:
    """Return whether a float method rounds this sum to another integer."""
    sx, sy = map(_value, words)
    values = spread(total, count, -120, 120, at)
    found = MEANS[name](values, count, sx, sy)
    return found.kind != "finite" or round_half_even(found.value) != round_half_even(
        exact_mean(values, count, sx, sy).value
    )


def _value(word: int) -> Fraction:
    return decode(word, "float32").value


@cache
def pair_of_family(
    family: str, counts: tuple[int, ...], seed: int
) -> tuple[list[int], tuple[int, int], int]:
    """Return twelve sums, or four long ones, that share two scales, and the window's elements.

    Each method of the family rounds some of them to another integer.
    """
    draw, methods = Draw(1000 + seed), [name for name in MEANS if name.startswith(family)]
    for turn in range(500):
        count = counts[turn % len(counts)]
        unit = 2 * draw.below(4) + 1
        unit = unit * count if family.startswith("float64") else unit
        sx = nearest(exactly(Fraction(draw.odd(24), 2**25)), "float32").value
        sy = nearest(exactly(sx * 2 * unit / count), "float32").value
        words = float32(sx), float32(sy)
        sums = [sign * unit * odd for odd in range(1, 100, 2) for sign in (1, -1)]
        sums = [s for s in sums if abs(s) < 110 * count and abs(s) * 2 < 180 * unit][:60]
        wrong = [
            _wrong(name, sums, count, words)[: (12 if count < 10 else 3) // len(methods)]
            for name in methods
        ]
        found = dict.fromkeys(each for some in wrong for each in some)
        whole = [*found, *(each for each in sums if each not in found)]
        whole = whole[: 12 if count < 10 else 4]
        if len(whole) > 3 and all(_wrong(name, whole, count, words) for name in methods):
            return whole, words, count
    raise AssertionError(f"no sums of {counts} that {family} misplaces")


def _wrong(name: str, sums: Sequence[int], count: int, words: tuple[int, int]) -> list[int]:
    """Return the sums that a float method rounds to another integer, at their places."""
    return [each for at, each in enumerate(sums) if _is_misplaced(name, each, count, words, at)]


@cache
def _many_pairs(name: str, count: int, seed: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Return sums with scales of their own."""
    draw, sums, pairs = Draw(2000 + seed), list[int](), list[tuple[int, int]]()
    for _ in range(4000):
        total = (draw.below(60 * count) + 1) * (1 if draw.below(2) else -1)
        tie = Fraction(2 * draw.below(100) + 1, 2)
        sy = nearest(exactly(Fraction(draw.odd(24), 2**25)), "float32").value
        sx = nearest(exactly(tie * sy * count / abs(total)), "float32").value
        if name.startswith("float64"):  # an exact tie: sx / sy is odd / 2, and n divides the sum
            factor = 2 * draw.below(8) + 1
            total = count * (2 * draw.below(6) + 1) * (1 if draw.below(2) else -1)
            sy = Fraction(draw.odd(20), 2**21)
            sx = sy * factor / 2
        words = float32(sx), float32(sy)
        if _is_misplaced(name, total, count, words, len(sums)):
            sums.append(total)
            pairs.append(words)
        if len(sums) == (9 if count < 49 else 5):
            break
    return sums, pairs


HUGE = 0x7F7FFFFF
EXTREME = {  # input and output scale as bits
    "subnormal-pair": (3, 7),
    "subnormal-input": (0x00400001, 0x00800000),
    "smallest-output": (0x00000009, 1),
    "largest-pair": (HUGE, HUGE),
    "largest-over-smallest": (HUGE, 1),
    "smallest-over-largest": (1, HUGE),
    "divisor-overflows": (0x7F000000, HUGE),
    "nearly-alike": (0x3F800001, 0x3F800000),
    "both-negative": (0xBF000000, 0xBF400000),
    "negative-input": (0xBF000000, 0x3F400000),
    "negative-output": (0x3F000000, 0xBF400000),
}
SUMS = [-601, -300, -45, -4, -1, 0, 1, 4, 45, 300, 601]


def add_scales(topic: PoolTopic) -> None:
    """Add scales of either sign and any size, one pair to a call and all of them in one."""
    for count, (source, dtype) in ((5, ("uint8", "int8")), (6, ("int8", "uint8"))):
        zy = -7 if dtype == "int8" else 100
        for name, (sx, sy) in list(EXTREME.items())[count % 2 :: 2]:
            own = {"sx": scale_words([sx]), "sy": scale_words([sy]), "zy": [zy]}
            label, text = f"{name}-{source}", f"scales of bits {sx:08x} and {sy:08x}"
            topic.add_sums(label, text, "7 3", SUMS, count, own, "OddScale", dtype, source)
        for total in (-300, 45):
            words = list(EXTREME.values())
            own = {"sx": scale_words([sx for sx, _ in words]), "zy": [zy]}
            own["sy"] = scale_words([sy for _, sy in words])
            text = f"sums of {total} by scales of every kind, one for each channel"
            name = f"each-{source}-{total}".replace("--", "-minus-")
            sums = [total] * len(words)
            topic.add_sums(name, text, "4 7 3", sums, count, own, "OddScale", dtype, source)


TWIN = image("uint8", (1, 2, 3, 3), 11)
EVERY: Parameters = {"zx": [120], "zy": [100], "sx": [0.5], "sy": [0.25]}
WRONG: dict[str, tuple[str, Any]] = {
    **{k: convolutions.WRONG[k] for k in ("float-input", "int16-input", "complex-input")},
    "int8-input-zero-point": ("InputZeroPointTensor", parameter([7], "int8")),
    "int32-input-zero-point": ("InputZeroPointTensor", parameter([7], "int32")),
    "int8-output-zero-point": ("OutputZeroPointTensor", parameter([7], "int8")),
    "int32-output-zero-point": ("OutputZeroPointTensor", parameter([7], "int32")),
    "float16-input-scale": ("InputScaleTensor", floats("float16", (1, 1, 1, 1), [0.5])),
    "int32-input-scale": ("InputScaleTensor", ints("int32", (1, 1, 1, 1), [1])),
    "float16-output-scale": ("OutputScaleTensor", floats("float16", (1, 1, 1, 1), [0.5])),
    "int32-output-scale": ("OutputScaleTensor", ints("int32", (1, 1, 1, 1), [1])),
    "rank-2": ("InputTensor", image("uint8", (2, 9))),
    "rank-6": ("InputTensor", image("uint8", (1, 2, 3, 3, 1, 1))),
    "height-0": ("InputTensor", ints("uint8", (1, 2, 0, 3), [])),
    "width-0": ("InputTensor", ints("uint8", (1, 2, 3, 0), [])),
    **{
        f"{end.lower()}-{'zero-point' if 'Z' in kind else 'scale'}-{label}": (
            f"{end}{kind}Tensor",
            ints("uint8", sizes, [9] * length)
            if "Z" in kind
            else bits("float32", sizes, [0x3F000000] * length),
        )
        for end, kind in product(("Input", "Output"), ("Scale", "ZeroPoint"))
        for label, sizes, length in (("3", (1, 3, 1, 1), 3), ("square", (1, 2, 2, 1), 4))
    },
}
PARAMETER_TYPES = (
    "int8-input-zero-point int32-input-zero-point int8-output-zero-point int32-output-zero-point"
    " float16-input-scale int32-input-scale float16-output-scale int32-output-scale"
)
LENGTHS = " ".join(name for name in WRONG if name.endswith(("-3", "-square")))
INPUT_TYPES, RANKS, EMPTY = "float-input int16-input complex-input", "rank-2 rank-6", "height-0"
OPTIONS: dict[str, tuple[str, Any]] = {
    **{k: v for k, v in convolutions.OPTIONS.items() if v[0] != "GroupCount"},
    **convolutions.SURVIVOR_OPTIONS,
    "first-window-0": ("WindowSize", [0, 1]),
    "second-window-0": ("WindowSize", [1, 0]),
    "first-window-minus-1": ("WindowSize", [-1, 2]),
    "second-window-minus-2": ("WindowSize", [2, -2]),
    "windows-too-few": ("WindowSize", [2]),
    "windows-too-many": ("WindowSize", [2, 2, 1]),
}
VALUES = {"zero": 0, "minus-zero": 1 << 31, "nan": 0x7FC00000, "infinity": 0x7F800000}


def refuse_parameters(topic: PoolTopic) -> None:
    """Break the rules of the scales and zero points of an average."""
    topic.add_twin("twin", "1")
    topic.refuse("twin", "data_type", "5", f"{INPUT_TYPES} {PARAMETER_TYPES}")
    topic.refuse("twin", "dimension_count", "8", RANKS)
    topic.refuse("twin", "sizes", "9", f"{EMPTY} width-0")
    topic.refuse("twin", "sizes", "4", LENGTHS)
    text, asked = "an INT16 output is asked for", {"OutputTensor": Request("int16", (1, 2, 2, 2))}
    none: Parameters = {"zx": [7]}
    topic.add("no-output-zero-point", "the twin: no output zero point", "5", TWIN, none, "Optional")
    if not topic.has_windows:
        asked = {"OutputTensor": Request("int16", (1, 2, 1, 1))}
    name, base = "int16-output", "no-output-zero-point"
    topic.invalid(name, text, topic.clauses("5"), base, "data_type", asked)
    three = image("uint8", (1, 3, 3, 2), 12)
    text = "the twin: three channels of three rows and two columns"
    own: Parameters = {"zx": [1, 2, 3], "zy": [9, 8, 7], "sx": [1, 2, 3], "sy": [2, 1, 3]}
    topic.add("twin-of-three", text, "4", three, own, "PerChannel")
    for key, values in own.items():
        field = NAMES[key]
        wrong = parameter(values[:2], "uint8") if "Zero" in field else scales(values[:2])
        name = f"{field.removesuffix('Tensor').lower()}-by-width"
        text = f"{field} has one value for each column"
        topic.invalid(name, text, topic.clauses("4"), "twin-of-three", "sizes", {field: wrong})


def refuse_values(topic: PoolTopic) -> None:
    """Break the rules of scales that are known."""
    known: Parameters = {"sx": [0.5, 0.25], "sy": [0.25, 0.5]}
    topic.add_twin("twin-values", "7", known, KNOWN)
    clause, flags = topic.clauses("7"), "Invalid KnownValue"
    for end, (name, word) in product(("Input", "Output"), VALUES.items()):
        for place in ("one", "second")[: 1 + (name in ("zero", "nan"))]:
            words = [0x3D000000] * 2
            words[place == "second"] = word
            words = [word] if place == "one" else words
            text, field = f"{end.lower()} scale, {place}: {name}", f"{end}ScaleTensor"
            label, changed = f"{end.lower()}-scale-{place}-{name}", {field: scale_words(words)}
            topic.invalid(label, text, clause, "twin-values", "value", changed, flags, KNOWN)


# -- what the pools with windows have ----------------------------------------------------------


def add_windows(topic: PoolTopic, clause: str, own: Parameters = NONE) -> None:
    """Add a call for each way to move a window, and with and without counting padding."""
    inclusions = (False, True) if topic.has_parameters else (None,)
    for number, (name, (text, options, size)) in enumerate(WINDOWS.items()):
        is_padded = "start" in options or "end" in options
        flags = "Windows Padding" if is_padded else "Windows"
        for include in inclusions if is_padded else inclusions[:1]:
            source = ("uint8", "int8")[number % 2]
            x, given = (
                image(source, (1, 2, *SPACES[len(size)]), 40 + number),
                windows(size, include, **options),
            )
            label = f"{name}-counted" if include else name
            words = f"{text}; padding counts" if include else text
            zero = {"zx": [77 if source == "uint8" else -101]} if topic.has_parameters else {}
            topic.add(label, words, clause, x, {**own, **zero}, flags, given)


SPACES = {1: (7,), 2: (4, 5), 3: (3, 4, 3)}
WINDOWS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    **convolutions.WINDOWS,
    "dilated-around": (
        "the elements of a dilated window lie on both sides of the image",
        {"dilations": (5, 6), "start": (2, 2), "end": (3, 3)},
        (2, 2),
    ),
    "window-1": ("windows of one element", {}, (1, 1)),
    "image": ("one window, the image", {}, (4, 5)),
    "resnet": (
        "3 x 3 by 2, padding 1",
        {"strides": (2, 2), "start": (1, 1), "end": (1, 1)},
        (3, 3),
    ),
    "last-row-left": ("ceil mode would have a window more", {"strides": (2, 3)}, (2, 3)),
    "line": (
        "three dimensions",
        {"strides": (2,), "dilations": (2,), "start": (1,), "end": (3,)},
        (3,),
    ),
    "line-plain": ("three dimensions, plain windows", {}, (2,)),
    "cube": (
        "five dimensions, all options different",
        {"strides": (1, 2, 1), "dilations": (1, 2, 1), "start": (0, 1, 2), "end": (1, 1, 0)},
        (2, 2, 3),
    ),
    "cube-plain": ("five dimensions, plain windows", {}, (1, 2, 2)),
    "cube-strides": (
        "five dimensions, strides that differ",
        {"strides": (1, 2, 3), "end": (0, 1, 2)},
        (1, 2, 2),
    ),
}


def refuse_windows(topic: PoolTopic, clause: str) -> None:
    """Break the rules of the attributes."""
    base = "twin-windows"
    topic.add_twin(base, clause)
    topic.wrong(base, "option", topic.clauses(clause), "{field} is {value}", OPTIONS)
    for name, (text, changed) in TOO_LARGE.items():
        topic.invalid(name, text, topic.clauses(clause), base, "sizes WindowSize", changed)


TOO_LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "window-too-high": ("a window of 4 rows over an image of 3", {"WindowSize": [4, 2]}),
    "window-too-wide": ("a window of 4 columns over an image of 3", {"WindowSize": [2, 4]}),
    "dilated-too-high": ("a dilated window spans 4 of 3 rows", {"Dilations": [3, 1]}),
    "dilated-too-wide": ("a dilated window spans 4 of 3 columns", {"Dilations": [1, 3]}),
}


# -- pairs of options, and size classes --------------------------------------------------------


MORE = ("0", "more")
WINDOW_FACTORS: Factors = {
    "strides": ("1", "more"),
    "dilations": ("1", "more"),
    "start padding": MORE,
    "end padding": MORE,
}
IMAGE_FACTORS: Factors = {
    "spatial": ("2", "1", "3"),
    "batch": ("1", "more"),
    "input": convolutions.EIGHT,
}
MANY = ("one", "each channel")
AVERAGE_FACTORS: Factors = {
    **IMAGE_FACTORS,
    "output": convolutions.EIGHT,
    "input zero point": ("absent", *MANY),
    "output zero point": ("absent", *MANY),
    "input scale": MANY,
    "output scale": MANY,
}


def add_pair(topic: PoolTopic, clause: str, name: str, text: str, row: Row, number: int) -> None:
    """Add the call of one row of options."""
    axes = int(row["spatial"])
    more = {"strides": (2, 3, 2), "dilations": (2, 3, 1), "start": (1, 2, 1), "end": (2, 1, 3)}
    keys = {"start": "start padding", "end": "end padding"}
    options = {
        key: own[:axes] for key, own in more.items() if row.get(keys.get(key, key)) == "more"
    }
    include = {"yes": True, "no": False}.get(row.get("include padding", ""))
    sizes, high = (1 + (row["batch"] == "more"), 3, *(5, 4, 3)[:axes]), RANGES[row["input"]][1]
    x = drawn(row["input"], sizes, 900 + number, high - 160, high)
    own: dict[str, Any] = {}
    for key, field in (("x", "input"), ("y", "output")) if topic.has_parameters else ():
        counts = {"absent": 0, "one": 1, "each channel": 3}
        middle = 128 * (row[field] == "uint8") + 9
        points = [middle + 30 * at for at in range(counts[row[f"{field} zero point"]])]
        own[f"z{key}"] = points or None
        own[f"s{key}"] = [0.75, 0.5, 1.25][: counts[row[f"{field} scale"]]]
    given = windows((3, 2, 2)[:axes], include, **options)
    topic.add(name, text, clause, x, own, "", given, row.get("output", ""))


def add_size(topic: PoolTopic, count: int, clause: str, own: Parameters, flags: str) -> None:
    """Add a call with so many output elements, and a window one wider than its input."""
    x = repeat(image("uint8", (PERIOD,), count), (1, 1, 1, count + 1))
    options = windows((1, 2))
    if count in SHAPED:
        batch, channels, *spatial = SHAPED[count]
        x = image("uint8", (batch, channels, *(size + 1 for size in spatial)), count)
        options = windows((2,) * len(spatial))
    base, text = f"elements-{count}", f"{count} output elements"
    topic.add(base, text, clause, x, own, flags, options)
    if count in SHORT:
        name, text = f"window-{count + 2}", f"a window of {count + 2} over {count + 1} columns"
        changed = {"WindowSize": [1, count + 2]}
        topic.invalid(name, text, topic.clauses(clause.split()[-1]), base, "sizes", changed)


SHAPED = {128: (2, 4, 4, 4), 256: (1, 2, 4, 4, 8)}
