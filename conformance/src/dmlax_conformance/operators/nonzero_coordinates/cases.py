"""NONZERO_COORDINATES: sizes, ranks, order, width and values; and its invalid calls."""

from collections.abc import Sequence
from itertools import product
from math import prod

from ...format.recipe import Recipe, Sparse
from ...format.tensors import DTYPES, Tensor, from_recipe, sparse
from ...format.vectors import Request
from .._shared.covering import Factors, Row, apart
from .._shared.systematic import each_pair, each_size, flags_of, sizes_of
from ..topics import Files, Topic, bits, drawn, floats, ints

OPERATOR = "nonzero_coordinates"


class NonzeroTopic(Topic):
    """One file of calls."""

    def add(
        self,
        name: str,
        comment: str,
        clause: str,
        tensor: Tensor,
        width: int | None = None,
        flags: str = "",
        requires: str = "",
        paired_with: str | None = None,
    ) -> None:
        """Add a valid call; the width defaults to the rank."""
        asked = outputs(tensor, len(tensor.sizes) if width is None else width)
        given, how = {"InputTensor": tensor}, (None, flags, requires, None, paired_with)
        self.valid(name, comment, clause, given, asked, *how)

    def add_widths(self, name: str, text: str, clause: str, tensor: Tensor, *widths: int) -> None:
        """Add an example of the page for each of these widths."""
        for width in widths:
            flags, own = "PageExample EffectiveRank", f"page-{name}-width-{width}"
            self.add(own, f"{text} N = {width}", clause, tensor, width, flags)


topics = Files(OPERATOR, NonzeroTopic)


def outputs(tensor: Tensor, width: int) -> dict[str, Request]:
    """Ask for a count and for coordinates of this width, in the rank of the input."""
    rank = len(tensor.sizes)
    rows = (*(1,) * (rank - 2), prod(tensor.sizes), width)
    return {
        "OutputCountTensor": Request("uint32", (1,) * max(rank, 1)),
        "OutputCoordinatesTensor": Request("uint32", rows),
    }


def marked(dtype: str, sizes: Sequence[int], indices: Sequence[int], one: int = 1) -> Tensor:
    """Return zeros with a word at each row-major index."""
    return Tensor(dtype, tuple(sizes), tuple(one * (i in indices) for i in range(prod(sizes))))


@topics.file("page")
def _page(topic: NonzeroTopic) -> None:
    example = floats("float32", (1, 1, 2, 4), [1, 0, 0, 2, -0.0, 3.5, 0, -5.25])
    printed, clause = bits("float32", example.sizes, (*example.words[:7], 0xC0A66666)), "NZC-3"
    name, text = "2x4", "the printed example with"
    topic.add_widths(name, text, "NZC-1 NZC-2 NZC-6", printed, 2, 3, 4)
    text = "{1,0}, {1,2} and {0,5} are written as {0,5}, {1,0}, {1,2}"
    order = marked("uint8", (2, 6), [5, 6, 8])
    topic.add("page-order", text, "NZC-4", order, flags="PageExample")
    order = marked("float32", (1, 1, 2, 6), [5, 6, 8], 0x3F800000)
    text = "the same in rank 4 and N = 2"
    topic.add("page-order-rank-4", text, "NZC-4", order, 2, "PageExample")
    sixty, text = drawn("int8", (1, 1, 12, 5), 12, -3, 3, 3), "60 elements of effective rank 2,"
    topic.add_widths("12x5", text, "NZC-3 NZC-6", sixty, 2, 3, 4)
    small = marked("int32", (1, 2, 3, 4), [0, 5, 11, 12, 23])
    topic.add_widths("1x2x3x4", "effective rank 3,", clause, small, 3, 4)
    cube = drawn("uint8", (1, 1, 5, 5, 5), 5, 1, 9, 6)
    topic.add_widths("1x1x5x5x5", "effective rank 3 of 5,", clause, cube, 3, 4, 5)
    one, none = ints("int16", (1, 1, 1, 1), [-7]), ints("int16", (1, 1, 1, 1), [0])
    topic.add_widths("1x1x1x1", "effective rank 0,", clause, one, 1, 2, 3, 4)
    text, other = "one element, and it is zero", "page-1x1x1x1-width-1"
    topic.add("page-1x1x1x1-zero", text, "NZC-3 NZC-5", none, 1, "Density", "", other)


@topics.file("ranks")
def _ranks(topic: NonzeroTopic) -> None:
    shapes = [(13,), (3, 5), (2, 3, 4), (2, 1, 3, 4), (2, 1, 3, 1, 4), (1, 2, 2, 3, 2, 2)]
    shapes += [(2, 1, 2, 1, 3, 1, 2), (2, 1, 2, 2, 1, 2, 1, 3)]
    for rank, sizes in enumerate(shapes, 1):
        tensor = drawn("int32", sizes, 100 + rank, -9, 9, 2)
        text = f"rank {rank} with every coordinate"
        topic.add(f"rank-{rank}", text, "NZC-1 NZC-4 NZC-8", tensor)
    text = "trailing sizes of 1 are kept in the effective rank, which is 3"
    tensor = ints("uint8", (1, 3, 1, 1), [0, 4, 9])
    topic.add("trailing-ones", text, "NZC-3", tensor, 3, "EffectiveRank")
    tensor = ints("uint16", (1,) * 7 + (6,), [0, 1, 0, 0, 65535, 2])
    name, text = "rank-8-width-1", "seven leading sizes of 1, one column"
    topic.add(name, text, "NZC-3 NZC-8", tensor, 1, "EffectiveRank")
    tensor, text = ints("uint32", (1,), [2**31]), "a single element in rank 1"
    topic.add("rank-1-single", text, "NZC-3", tensor, 1, "Extreme")
    text = "columns are distinct sizes, so that swapped axes or strides show"
    topic.add("distinct-axes", text, "NZC-1", marked("int8", (2, 7, 3), [1, 3, 8, 20, 21, 41]))


@topics.file("sizes")
def _sizes(topic: NonzeroTopic) -> None:
    for count in (31, 32, 33, 127, 128, 129, 255, 256, 257):
        text = f"{count} elements, about a third of them non-zero"
        tensor = drawn("uint8", (count,), count, 1, 255, 3)
        topic.add(f"length-{count}", text, "NZC-1 NZC-5", tensor, flags="BlockEdge")
    for name, kept in {"none": [], "first": [0], "last": [256], "middle": [128]}.items():
        tensor, text = marked("float16", (257,), kept, 0x3C00), f"257 elements, non-zero: {name}"
        own, flags = None if kept else "only-last-of-257", "Density BlockEdge"
        topic.add(f"only-{name}-of-257", text, "NZC-5", tensor, None, flags, "", own)
    for count in (128, 257):
        tensor, text = ints("int8", (count,), [-1] * count), f"all {count} elements are non-zero"
        topic.add(f"all-of-{count}", text, "NZC-5 NZC-6", tensor, flags="Density BlockEdge")
    plane = marked("int16", (4, 33), [32, 33, 65, 66, 98, 99, 131])
    text = "the first and last columns of rows"
    topic.add("row-ends", text, "NZC-4", plane, flags="BlockEdge")
    long = drawn("uint8", (3, 17, 21), 1071, 1, 255, 4)
    topic.add("length-1071", "1,071 elements in rank 3", "NZC-1 NZC-5", long)
    wave = ints("uint8", (1025,), (int(i % 64 in (0, 63)) for i in range(1025)))
    topic.add("length-1025", "both ends of every block of 64", "NZC-4", wave, flags="BlockEdge")
    flags, requires, text = "Empty", "sizes:zero", "no elements: count 0"
    for sizes, other in {(0,): "length-31", (2, 0, 3): "length-1071"}.items():
        name, tensor = f"empty-{'x'.join(map(str, sizes))}", ints("int32", sizes, [])
        topic.add(name, text, "NZC-5", tensor, None, flags, requires, other)


@topics.file("large")
def _large(topic: NonzeroTopic) -> None:
    for sizes, one_in in {(70001,): 500, (257, 257): 400, (1, 5, 113, 127): 700}.items():
        tensor = from_recipe("int32", sizes, Recipe(sum(sizes), -(2**31), 2**31 - 1, one_in))
        name = f"large-{'x'.join(map(str, sizes))}"
        text = f"{prod(sizes)} elements, one in {one_in} of them non-zero"
        topic.add(name, text, "NZC-1 NZC-4 NZC-5", tensor, flags="Large")
    blank = from_recipe("uint8", (66000,), Recipe(0, 0, 0, 1))
    how = ("Large Density", "", "large-70001")
    topic.add("large-zero", "66,000 zeros", "NZC-5", blank, None, *how)


@topics.file("huge")
def _huge(topic: NonzeroTopic) -> None:
    """Places that need 32 bits without a sign, for machines with the memory."""
    for sizes in ((2**31 + 65536,), (65537, 3, 10923)):
        rank, places = len(sizes), (0, 2**16, 2**31 - 1, 2**31, prod(sizes) - 1)
        given = {"InputTensor": sparse("uint8", sizes, Sparse(places, (1, 255, 2, 128, 7)))}
        asked = outputs(given["InputTensor"], rank)
        asked["OutputCoordinatesTensor"] = Request("uint32", (*(1,) * (rank - 2), 8, rank))
        text = f"{prod(sizes)} elements, 5 of them non-zero, and 8 rows"
        name, clause, how = f"huge-rank-{rank}", "NZC-1 NZC-4 NZC-5", (None, "Huge", "large")
        topic.valid(name, text, clause, given, asked, *how, memory=5 * 2**30)


# -- which values count as zero ----------------------------------------------------------------


PATTERNS = {
    "float16": {
        "zeros": [0x0000, 0x8000, 0x3C00, 0x8000, 0x0000],
        "nan": [0x7E00, 0x0000, 0x7C01, 0xFE00, 0x8000, 0xFFFF],
        "infinity": [0x7C00, 0x0000, 0xFC00],
        "subnormal": [0x0001, 0x0000, 0x8001, 0x03FF, 0x8000, 0x83FF, 0x0200],
        "normal-limits": [0x0400, 0x0000, 0x8400, 0x7BFF, 0xFBFF],
    },
    "float32": {
        "zeros": [0x00000000, 0x80000000, 0x3F800000, 0x80000000, 0x00000000],
        "nan": [0x7FC00000, 0x00000000, 0x7F800001, 0xFFC00000, 0x80000000, 0xFFFFFFFF],
        "infinity": [0x7F800000, 0x00000000, 0xFF800000],
        "subnormal": [0x00000001, 0x00000000, 0x80000001, 0x007FFFFF, 0x80000000, 0x807FFFFF],
        "normal-limits": [0x00800000, 0x00000000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF],
    },
    "float64": {
        "zeros": [0, 1 << 63, 0x3FF0000000000000, 1 << 63, 0],
        "nan": [0x7FF8000000000000, 0, 0x7FF0000000000001, (1 << 64) - 1, 1 << 63],
        "infinity": [0x7FF0000000000000, 0, 0xFFF0000000000000],
        "subnormal": [1, 0, (1 << 63) | 1, 0x000FFFFFFFFFFFFF, 1 << 63, 1 << 32],
        "beyond-float32": [0x0010000000000000, 0, 0x3690000000000000, 0x7FEFFFFFFFFFFFFF],
    },
}
ABOUT = {
    "zeros": "both zeros around a one",
    "nan": "quiet, signalling and negative NaN between zeros",
    "infinity": "both infinities",
    "subnormal": "the smallest and largest subnormal numbers between zeros",
    "normal-limits": "the smallest and largest normal numbers",
    "beyond-float32": "magnitudes that vanish or overflow in float32",
}


@topics.file("floats")
def _floats(topic: NonzeroTopic) -> None:
    for dtype, families in PATTERNS.items():
        wide = ("SpecialFloat WideType", "dtype:float64")
        how = wide if dtype == "float64" else ("SpecialFloat", "")
        for name, words in families.items():
            tensor, text = bits(dtype, (len(words),), words), f"{dtype}: {ABOUT[name]}"
            topic.add(f"{dtype}-{name}", text, "NZC-2 NZC-7", tensor, None, *how)


@topics.file("integers")
def _integers(topic: NonzeroTopic) -> None:
    for dtype, own in DTYPES.items():
        if own.kind in ("int", "uint"):
            single = 1 << (own.width // 2), -1 if own.low else 1 << (own.width - 1)
            tensor = ints(dtype, (2, 4), [0, own.low, 1, 0, own.high, *single, 0])
            how = ("Extreme WideType", f"dtype:{dtype}") if own.width == 64 else ("Extreme",)
            text = f"{dtype}: both ends of the range and single bits"
            topic.add(f"{dtype}-extremes", text, "NZC-7", tensor, None, *how)
    for dtype in ("int64", "uint64"):
        tensor = ints(dtype, (5,), [0, 1 << 32, 1 << 40, 0, 1 << 62])
        text = "only the high word is set"
        how = ("WideType", f"dtype:{dtype}")
        topic.add(f"{dtype}-high-word", f"{dtype}: {text}", "NZC-7", tensor, None, *how)
    tensor, how = ints("bool", (3, 2), [0, 1, 1, 0, 0, 1]), ("WideType", "dtype:bool")
    topic.add("bool-mask", "a mask of truth values", "NZC-7", tensor, None, *how)


# -- invalid calls -----------------------------------------------------------------------------


WIDTHS = {
    (1, 1, 12, 5): (2, (1, 5)),
    (1, 2, 3, 4): (3, (2,)),
    (1, 1, 5, 5, 5): (3, (2, 6)),
    (1, 1, 1, 1): (1, (0, 5)),
    (1, 3, 1, 1): (4, (2,)),
    (1, 1, 2, 4): (2, (1, 6)),
    (1, 5): (1, (0, 3)),
    (3, 1): (2, (0, 1)),
    (4,): (1, (0, 2)),
    (2, 3): (2, (1, 3)),
    (2, 1, 2, 1, 1, 2, 1, 3): (8, (7, 9)),
}


@topics.file("invalid")
def _invalid(topic: NonzeroTopic) -> None:
    code, flags = "sizes OutputCoordinatesTensor", "Invalid EffectiveRank"
    for sizes, (fine, wrong) in WIDTHS.items():
        name, tensor = "x".join(map(str, sizes)), drawn("uint8", sizes, 7, 1, 9, 4)
        base, text = f"width-{fine}-of-{name}", f"the twin: N = {fine} is allowed"
        topic.add(base, text, "NZC-3", tensor, fine, "EffectiveRank")
        for width in wrong:
            side = "below the effective rank" if width < fine else "above the rank"
            own, text = f"width-{width}-of-{name}", f"N = {width} is {side}"
            topic.invalid(own, text, "NZC-3", base, code, outputs(tensor, width), flags)
    base, tensor = "input-float32", floats("float32", (2,), [0, 1])
    topic.add(base, "the twin: FLOAT32 of rank 1", "NZC-7", tensor)
    text = "a complex input; the real part is zero, the imaginary part is not"
    x = {"InputTensor": bits("complex64", (2,), [0, 0x3F80000000000000])}
    topic.invalid("input-complex64", text, "NZC-7", base, "data_type", x)
    asked, text = Request("uint32", (1, 1)), "an input without dimensions"
    for scalar in (floats("float32", (), [5]), ints("uint8", (), [0])):
        changed = {"InputTensor": scalar, "OutputCoordinatesTensor": asked}
        name, code = f"input-rank-0-{scalar.dtype}", "dimension_count"
        topic.invalid(name, text, "NZC-8", base, code, changed)


@topics.file("kills")
def _survivors(topic: NonzeroTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    full = from_recipe("uint8", (65_537,), Recipe(16, 1, 255))
    text = "65,537 non-zero elements; the file holds the first 32 rows"
    topic.add("count-65537", text, "NZC-5", full, flags="Large Density")
    topic.shorten("count-65537", "OutputCoordinatesTensor", 32)


FACTORS: Factors = {
    "input": (*("uint8", "int8", "uint16", "int16", "uint32", "int32"), *("float32", "float16")),
    "rank": ("1", "2", "4", "8"),
    "width": ("rank", "effective rank"),
    "elements": ("few", "126", "255", "1001", "66000"),
}
FLOATS = product(("float32", "float16"), ("1001", "66000"))
APART = {
    **apart("rank 1 has one width", (("rank", "1"), ("width", "effective rank"))),
    **apart("recipes make integers", *((("input", t), ("elements", n)) for t, n in FLOATS)),
}
PRIMES = {
    "few": (2, 2, 3),
    "126": (2, 3, 3, 7),
    "255": (3, 5, 17),
    "1001": (7, 11, 13),
    "66000": (33, 40, 50),
}
ELSEWHERE = {127, 128, 129, 255, 256, 257, 1001, 65_537}  # other files of coordinates have these


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: NonzeroTopic, name: str, text: str, row: Row, number: int) -> None:
    rank, dtype = int(row["rank"]), row["input"]
    width = rank if row["width"] == "rank" else rank - 1
    sizes = (1,) * (rank - width) + _shape(PRIMES[row["elements"]], width)
    is_large, is_float = row["elements"] in ("1001", "66000"), DTYPES[dtype].kind == "bits"
    low, high = (-9, 9) if is_float else (DTYPES[dtype].low, DTYPES[dtype].high)
    recipe = Recipe(910 + number, low, high, max(2, prod(sizes) // 16))
    tensor = drawn("int32" if is_float else dtype, sizes, *recipe)
    if is_float:
        tensor = floats(dtype, sizes, tensor.words)
    if is_large:
        tensor = from_recipe(dtype, sizes, recipe)
    flags, clause = "Large" if is_large else "", "NZC-1 NZC-3 NZC-4 NZC-7 NZC-8"
    topic.add(name, text, clause, tensor, width, flags)


def _shape(primes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the sizes merged, or with 1 between them, to this rank; the first is not 1."""
    if rank < len(primes):
        return (*primes[: rank - 1], prod(primes[rank - 1 :]))
    return (primes[0], *(1,) * (rank - len(primes)), *primes[1:])


@topics.file("size-classes")
@each_size
def _of_size(topic: NonzeroTopic, count: int, number: int) -> None:
    if count not in ELSEWHERE:
        sizes, recipe = sizes_of(count), Recipe(760 + number, 1, 255, max(2, count // 50))
        x, text = from_recipe("uint8", sizes, recipe), f"{count} elements in sizes {list(sizes)}"
        topic.add(f"elements-{count}", text, "NZC-1 NZC-4", x, flags=flags_of(count))
