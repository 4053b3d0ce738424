"""CONVOLUTION_INTEGER."""

from itertools import product

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared import convolution_cases as shared
from .._shared.convolution_cases import ConvolutionTopic, attributes, image
from .._shared.covering import Apart, Row
from .._shared.rounding import RANGES
from .._shared.systematic import each_pair, each_size, flags_of
from ..topics import Files, ints

OPERATOR = "convolution_integer"
topics = Files(OPERATOR, ConvolutionTopic)


@topics.file("sums")
def _sums(topic: ConvolutionTopic) -> None:
    for (tx, (xl, xh)), (tw, (wl, wh)) in product(RANGES.items(), repeat=2):
        x = ints(tx, (1, 2, 2, 3), [xl, xh, xl, xh, xh, xl, xh, xh, xl, xl, xh, 1])
        w = ints(tw, (2, 2, 1, 2), [wl, wh, wh, wl, wh, wh, wl, wl])
        own, name = {"zx": [xl], "zw": [wh]}, f"extremes-{tx}-{tw}"
        text = f"{tx} input and {tw} filter at the ends of their ranges"
        topic.add(name, text, "CVI-1 CVI-4", x, w, own, "Extreme")
    x, w = image("uint8", (2, 3, 3, 3)), image("int8", (3, 3, 2, 2), 2)
    for name, own in POINTS.items():
        flags = "Optional PerChannel" if "each" in name else "Optional"
        text = f"optional tensors: {name.replace('-', ' ')}"
        topic.add(name, text, "CVI-1 CVI-5", x, w, own, flags)
    for channels in (1, 3, 7, 13):
        x, w = image("int8", (1, channels, 1, 4), channels), image("int8", (3, channels, 1, 1), 3)
        name, text = f"contraction-{channels}", f"sums of {channels} products"
        topic.add(name, text, "CVI-1", x, w, flags="OddContraction")
    text = "sums of 16 products, from which the zero point takes the same for every output"
    for outputs in (1, 3):
        w = ints("int8", (outputs, 4, 2, 2), [*range(-100, 60, 10)] * outputs)
        x = image("int8", (1, 4, 4, 4), 4)
        topic.add(f"filters-alike-{outputs}", text, "CVI-1 CVI-4", x, w, {"zx": [5]})
    x = from_recipe("uint8", (1, 300, 1, 2), Recipe(5, 250, 255))
    w = from_recipe("uint8", (2, 300, 1, 1), Recipe(6, 250, 255))
    text = "300 large products: odd sums of more than 24 bits"
    topic.add("long-sum", text, "CVI-1", x, w, flags="Large LargeAccumulator")
    x = from_recipe("uint8", (1, 33_100, 1, 1), Recipe(0, 255, 255))
    text, need = "33,100 products of 255 * 255 leave 32 bits", "overflow:wrap"
    topic.add("products-wrap", text, "CVI-6", x, x, flags="Overflow Large", requires=need)


POINTS: dict[str, dict[str, list[int]]] = {
    "no-zero-points": {},
    "input-zero-point": {"zx": [200]},
    "filter-zero-point": {"zw": [-100]},
    "filter-zero-point-each": {"zx": [3], "zw": [-100, 0, 100]},
}


@topics.file("windows")
def _windows(topic: ConvolutionTopic) -> None:
    own, clause = {"zx": [-101], "zw": [3, 250]}, "CVI-2 CVI-3"
    topic.add_windows(image("int8", seed=31), "uint8", own, clause, clause)
    groups = {"groups-2": (4, 4, 2), "depthwise": (3, 3, 3), "depthwise-multiplier-2": (2, 4, 2)}
    for name, (channels, outs, count) in groups.items():
        w = image("int8", (outs, channels // count, 2, 2), 62)
        x, options = image("uint8", (1, channels, 3, 3), 61), attributes(groups=count)
        text = f"{count} groups, {channels} channels in and {outs} out"
        topic.add(name, text, "CVI-3", x, w, {"zx": [9]}, "Groups", options)
    topic.add_line("CVI-7 CVI-3", {"zx": [131]})


@topics.file("invalid")
def _invalid(topic: ConvolutionTopic) -> None:
    topic.add_twin("twin", "CVI-1", {"zx": [7], "zw": [1]})
    for code, clause, names in WRONG:
        text = "{field} is {dtype} with sizes {sizes}"
        topic.wrong("twin", code, clause, text, shared.WRONG, names)
    topic.wrong("twin", "option", "CVI-3", "{field} is {value}", shared.OPTIONS)
    text, name = "two groups cannot share three output channels", "groups-do-not-divide"
    changed = {"GroupCount": 2, "FilterTensor": image("int8", (3, 1, 2, 2))}
    topic.invalid(name, text, "CVI-3", "twin", "sizes", changed)


WRONG = (
    ("data_type", "CVI-4", "float-input complex-input int32-filter"),
    ("data_type", "CVI-4", "int8-input-zero-point int32-filter-zero-point"),
    ("dimension_count", "CVI-7", "input-rank-2 filter-rank-5"),
    ("sizes", "CVI-3", "filter-channels-3 kernel-too-wide"),
    ("sizes", "CVI-4", "input-zero-point-each"),
    ("sizes", "CVI-5", "filter-zero-point-3"),
)


@topics.file("kills")
def _survivors(topic: ConvolutionTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    cube = {"zx": [120], "zw": [-50, 0, 90]}
    clauses = "CVI-1 CVI-2 CVI-3 CVI-5", "CVI-1"
    topic.add_survivors(clauses, cube, "int8", "uint8", {"zx": [-3]})
    base = "twin-kills"
    topic.add_twin(base, "CVI-1", {"zx": [7], "zw": [1]})
    topic.wrong(base, "option", "CVI-3", "{field} is {value}", shared.SURVIVOR_OPTIONS)
    topic.refuse_kernels(base, "CVI-3")
    text, names = "the filter has fewer channels than the input", "input-rank-5 filter-rank-3"
    topic.wrong(base, "sizes", "CVI-3", text, shared.WRONG, "filter-channels-1")
    topic.wrong(base, "dimension_count", "CVI-7", "{field} has rank {rank}", shared.WRONG, names)
    base, own = "two-channels-in-three-out", {"zx": [120], "zw": [1, 2, 3]}
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    text = "the twin: filter zero points for each of three output channels"
    topic.add(base, text, "CVI-5", x, w, own, "PerChannel")
    topic.wrong(base, "sizes", "CVI-5", shared.BY_INPUT, shared.WRONG, "filter-zero-point-by-input")


FACTORS = shared.FACTORS
APART: Apart = {}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: ConvolutionTopic, name: str, text: str, row: Row, number: int) -> None:
    x, w = shared.operands(row, number)
    own, options = shared.points(row, w.sizes[0]), shared.window(row)
    topic.add(name, text, "CVI-1 CVI-3 CVI-4", x, w, own, options=options)


@topics.file("size-classes")
@each_size
def _of_size(topic: ConvolutionTopic, count: int, number: int) -> None:
    own, clauses = {"zx": [5 + number], "zw": [number - 7]}, ("CVI-1 CVI-3", "CVI-3")
    topic.add_size(count, 600 + 2 * number, own, clauses, flags_of(count))
