"""NONZERO_COORDINATES: sizes, ranks, order and width; and its invalid calls."""

from collections.abc import Sequence
from math import prod

from ...format.recipe import Recipe, Sparse
from ...format.tensors import Tensor, from_recipe, sparse
from ...format.vectors import Request
from ..topics import Files, Topic, bits, drawn, floats, ints

OPERATOR = "nonzero_coordinates"
topics = Files(OPERATOR, Topic)


def outputs(tensor: Tensor, width: int) -> dict[str, Request]:
    """Ask for a count and for coordinates of this width, in the rank of the input."""
    rank = len(tensor.sizes)
    rows = (*(1,) * (rank - 2), prod(tensor.sizes), width)
    return {
        "OutputCountTensor": Request("uint32", (1,) * max(rank, 1)),
        "OutputCoordinatesTensor": Request("uint32", rows),
    }


def add(
    topic: Topic,
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
    inputs = {"InputTensor": tensor}
    words = (None, flags, requires, None, paired_with)
    topic.valid(name, comment, clause, inputs, asked, *words)


def marked(dtype: str, sizes: Sequence[int], indices: Sequence[int]) -> Tensor:
    """Return zeros with a 1 at each row-major index."""
    return ints(dtype, sizes, (int(i in indices) for i in range(prod(sizes))))


@topics.file("page")
def _page(topic: Topic) -> None:
    example = floats("float32", (1, 1, 2, 4), [1, 0, 0, 2, -0.0, 3.5, 0, -5.25])
    printed = Tensor("float32", example.sizes, (*example.words[:7], 0xC0A66666))
    for width in (2, 3, 4):
        name, text = f"page-2x4-width-{width}", f"the printed example with N = {width}"
        add(topic, name, text, "NZC-1 NZC-2 NZC-6", printed, width, "PageExample EffectiveRank")
    order = marked("uint8", (2, 6), [5, 6, 8])
    text = "{1,0}, {1,2} and {0,5} are written as {0,5}, {1,0}, {1,2}"
    add(topic, "page-order", text, "NZC-4", order, flags="PageExample")
    order = Tensor("float32", (1, 1, 2, 6), tuple(0x3F800000 * (i in (5, 6, 8)) for i in range(12)))
    add(
        topic, "page-order-rank-4", "the same in rank 4 and N = 2", "NZC-4", order, 2, "PageExample"
    )
    sixty = drawn("int8", (1, 1, 12, 5), 12, -3, 3, 3)
    for width in (2, 3, 4):
        name, text = f"page-12x5-width-{width}", f"60 elements of effective rank 2, N = {width}"
        add(topic, name, text, "NZC-3 NZC-6", sixty, width, "PageExample EffectiveRank")
    _page_ranks(topic)


def _page_ranks(topic: Topic) -> None:
    small = marked("int32", (1, 2, 3, 4), [0, 5, 11, 12, 23])
    for width in (3, 4):
        name, text = f"page-1x2x3x4-width-{width}", f"effective rank 3, N = {width}"
        add(topic, name, text, "NZC-3", small, width, "PageExample EffectiveRank")
    cube = drawn("uint8", (1, 1, 5, 5, 5), 5, 1, 9, 6)
    for width in (3, 4, 5):
        name, text = f"page-1x1x5x5x5-width-{width}", f"effective rank 3 of 5, N = {width}"
        add(topic, name, text, "NZC-3", cube, width, "PageExample EffectiveRank")
    one = ints("int16", (1, 1, 1, 1), [-7])
    for width in (1, 2, 3, 4):
        name, text = f"page-1x1x1x1-width-{width}", f"effective rank 0, N = {width}"
        add(topic, name, text, "NZC-3", one, width, "PageExample EffectiveRank")
    none = ints("int16", (1, 1, 1, 1), [0])
    text, other = "one element, and it is zero", "page-1x1x1x1-width-1"
    add(topic, "page-1x1x1x1-zero", text, "NZC-3 NZC-5", none, 1, "Density", paired_with=other)


@topics.file("ranks")
def _ranks(topic: Topic) -> None:
    shapes = [(13,), (3, 5), (2, 3, 4), (2, 1, 3, 4), (2, 1, 3, 1, 4), (1, 2, 2, 3, 2, 2)]
    shapes += [(2, 1, 2, 1, 3, 1, 2), (2, 1, 2, 2, 1, 2, 1, 3)]
    for rank, sizes in enumerate(shapes, 1):
        tensor = drawn("int32", sizes, 100 + rank, -9, 9, 2)
        text = f"rank {rank} with every coordinate"
        add(topic, f"rank-{rank}", text, "NZC-1 NZC-4 NZC-8", tensor)
    text = "trailing sizes of 1 are kept in the effective rank, which is 3"
    name = "trailing-ones"
    add(topic, name, text, "NZC-3", ints("uint8", (1, 3, 1, 1), [0, 4, 9]), 3, "EffectiveRank")
    text = "seven leading sizes of 1, one column"
    eight = ints("uint16", (1,) * 7 + (6,), [0, 1, 0, 0, 65535, 2])
    add(topic, "rank-8-width-1", text, "NZC-3 NZC-8", eight, 1, "EffectiveRank")
    text = "a single element in rank 1"
    add(topic, "rank-1-single", text, "NZC-3", ints("uint32", (1,), [2**31]), 1, "Extreme")
    text = "columns are distinct sizes, so that swapped axes or strides show"
    add(topic, "distinct-axes", text, "NZC-1", marked("int8", (2, 7, 3), [1, 3, 8, 20, 21, 41]))


@topics.file("sizes")
def _sizes(topic: Topic) -> None:
    for count in (31, 32, 33, 127, 128, 129, 255, 256, 257):
        tensor = drawn("uint8", (count,), count, 1, 255, 3)
        text = f"{count} elements, about a third of them non-zero"
        add(topic, f"length-{count}", text, "NZC-1 NZC-5", tensor, flags="BlockEdge")
    for name, kept in {"none": [], "first": [0], "last": [256], "middle": [128]}.items():
        words = tuple(0x3C00 * (i in kept) for i in range(257))
        tensor = Tensor("float16", (257,), words)
        text = f"257 elements, non-zero: {name}"
        own = {} if kept else {"paired_with": "only-last-of-257"}
        add(topic, f"only-{name}-of-257", text, "NZC-5", tensor, None, "Density BlockEdge", **own)
    for count in (128, 257):
        tensor = ints("int8", (count,), [-1] * count)
        text = f"all {count} elements are non-zero"
        add(topic, f"all-of-{count}", text, "NZC-5 NZC-6", tensor, flags="Density BlockEdge")
    plane = marked("int16", (4, 33), [32, 33, 65, 66, 98, 99, 131])
    add(topic, "row-ends", "the first and last columns of rows", "NZC-4", plane, flags="BlockEdge")
    long = drawn("uint8", (3, 17, 21), 1071, 1, 255, 4)
    add(topic, "length-1071", "1,071 elements in rank 3", "NZC-1 NZC-5", long)
    wave = ints("uint8", (1025,), (int(i % 64 in (0, 63)) for i in range(1025)))
    add(topic, "length-1025", "both ends of every block of 64", "NZC-4", wave, flags="BlockEdge")
    for sizes, other in {(0,): "length-31", (2, 0, 3): "length-1071"}.items():
        name, tensor = "x".join(map(str, sizes)), ints("int32", sizes, [])
        flags, requires, text = "Empty", "sizes:zero", "no elements: count 0"
        add(topic, f"empty-{name}", text, "NZC-5", tensor, None, flags, requires, other)


@topics.file("large")
def _large(topic: Topic) -> None:
    cases = {
        "70001": ((70001,), 500),
        "257x257": ((257, 257), 400),
        "1x5x113x127": ((1, 5, 113, 127), 700),
    }
    for name, (sizes, one_in) in cases.items():
        tensor = from_recipe("int32", sizes, Recipe(sum(sizes), -(2**31), 2**31 - 1, one_in))
        text = f"{prod(sizes)} elements, one in {one_in} of them non-zero"
        add(topic, f"large-{name}", text, "NZC-1 NZC-4 NZC-5", tensor, flags="Large")
    blank = from_recipe("uint8", (66000,), Recipe(0, 0, 0, 1))
    flags, other = "Large Density", "large-70001"
    add(topic, "large-zero", "66,000 zeros", "NZC-5", blank, flags=flags, paired_with=other)


@topics.file("huge")
def _huge(topic: Topic) -> None:
    """Places that need 32 bits without a sign, for machines with the memory."""
    cases = {"rank-1": (2**31 + 65536,), "rank-3": (65537, 3, 10923)}
    for name, sizes in cases.items():
        places = (0, 2**16, 2**31 - 1, 2**31, prod(sizes) - 1)
        tensor = sparse("uint8", sizes, Sparse(places, (1, 255, 2, 128, 7)))
        asked = {
            "OutputCountTensor": Request("uint32", (1,) * len(sizes)),
            "OutputCoordinatesTensor": Request("uint32", (*(1,) * (len(sizes) - 2), 8, len(sizes))),
        }
        text = f"{prod(sizes)} elements, 5 of them non-zero, and 8 rows"
        inputs, clause, memory = {"InputTensor": tensor}, "NZC-1 NZC-4 NZC-5", 5 * 2**30
        words = (None, "Huge", "large")
        topic.valid(f"huge-{name}", text, clause, inputs, asked, *words, memory=memory)


@topics.file("invalid")
def _invalid(topic: Topic) -> None:
    _invalid_widths(topic)
    _invalid_types(topic)


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


def _invalid_widths(topic: Topic) -> None:
    for sizes, (fine, wrong) in WIDTHS.items():
        name = "x".join(map(str, sizes))
        tensor = drawn("uint8", sizes, 7, 1, 9, 4)
        base = f"width-{fine}-of-{name}"
        add(topic, base, f"the twin: N = {fine} is allowed", "NZC-3", tensor, fine, "EffectiveRank")
        for width in wrong:
            side = "below the effective rank" if width < fine else "above the rank"
            text = f"N = {width} is {side}"
            words, error = f"width-{width}-of-{name}", ("sizes", "OutputCoordinatesTensor")
            asked, flags = outputs(tensor, width), "Invalid EffectiveRank"
            topic.invalid(words, text, "NZC-3", base, error, outputs=asked, flags=flags)


def _invalid_types(topic: Topic) -> None:
    base = "input-float32"
    tensor = floats("float32", (2,), [0, 1])
    add(topic, base, "the twin: FLOAT32 of rank 1", "NZC-7", tensor)
    text = "a complex input; the real part is zero, the imaginary part is not"
    x = {"InputTensor": bits("complex64", (2,), [0, 0x3F80000000000000])}
    topic.invalid("input-complex64", text, "NZC-7", base, ("data_type", "InputTensor"), x)
    scalars = {"float32": floats("float32", (), [5]), "uint8": ints("uint8", (), [0])}
    for dtype, scalar in scalars.items():
        name, text = f"input-rank-0-{dtype}", "an input without dimensions"
        asked = {"OutputCoordinatesTensor": Request("uint32", (1, 1))}
        x, error = {"InputTensor": scalar}, ("dimension_count", "InputTensor")
        topic.invalid(name, text, "NZC-8", base, error, x, outputs=asked)


@topics.file("kills")
def _survivors(topic: Topic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    full = from_recipe("uint8", (65_537,), Recipe(16, 1, 255))
    text = "65,537 non-zero elements; the file holds the first 32 rows"
    add(topic, "count-65537", text, "NZC-5", full, flags="Large Density")
    topic.shorten("count-65537", "OutputCoordinatesTensor", 32)
