"""MAX_POOLING."""

from .._shared import pooling_cases as shared
from .._shared.convolution_cases import NONE, image
from .._shared.covering import Apart, Factors, Row
from .._shared.pooling_cases import EMPTY, INPUT_TYPES, RANKS, PoolTopic, windows
from .._shared.rounding import RANGES
from .._shared.systematic import each_pair, each_size, flags_of
from ..topics import Files, ints

OPERATOR = "max_pooling"
topics = Files(OPERATOR, PoolTopic)


@topics.file("values")
def _values(topic: PoolTopic) -> None:
    """Put the largest element at each place of a window, from both ends of the range."""
    for dtype, (low, high) in RANGES.items():
        _add_places(topic, dtype, low, high)
        _add_padding(topic, dtype, low)
    words = [at % 90 - 100 for at in range(578)]
    words[288], words[289 + 257] = 11, 12
    x, own = ints("int8", (1, 2, 17, 17), words), windows((17, 17))
    text = "windows of 289 elements, the largest beyond the first 256"
    topic.add("window-289", text, "1", x, NONE, "Large", own)
    x, own = image("uint8", (3, 3, 3, 3), 6), windows((2, 2), start=(1, 0), end=(0, 1))
    text = "every axis has 3 places, so that swapped axes keep all sizes"
    topic.add("every-axis-3", text, "1 3", x, NONE, "Padding", own)
    text, none = "no image, so no result", ints("uint8", (0, 3, 3, 3), [])
    need, other = "sizes:zero", "every-axis-3"
    topic.add("no-image", text, "6", none, NONE, "Empty", requires=need, paired_with=other)


def _add_places(topic: PoolTopic, dtype: str, low: int, high: int) -> None:
    words = [low] * 36
    for at in range(6):
        words[6 * at + at] = (high, low + 1, high - 1, -1 % 128, 0, 127)[at]
    x, options = ints(dtype, (1, 6, 2, 3), words), windows((2, 3))
    text = f"{dtype}: one larger element at each place of the window, the others lowest"
    topic.add(f"places-{dtype}", text, "1 4", x, NONE, "Extreme", options)
    x, text = ints(dtype, (1, 1, 2, 3), [low] * 6), f"{dtype}: every element is the lowest"
    text, own = f"{text}, around it padding", windows((2, 2), start=(1, 1), end=(1, 1))
    paired = f"places-{dtype}" if low == 0 else None
    topic.add(f"lowest-{dtype}", text, "1 2", x, NONE, "Padding", own, paired_with=paired)


def _add_padding(topic: PoolTopic, dtype: str, low: int) -> None:
    x = ints(dtype, (1, 1, 2, 2), [low + 9, low + 7, low + 3, low + 5])
    own, text = windows((2, 2), start=(3, 3), end=(2, 3)), "windows wholly in padding"
    topic.add(f"padding-{dtype}", f"{dtype}: {text}", "2", x, NONE, "Padding", own)
    own = windows((1, 2), dilations=(1, 4), start=(0, 1), end=(0, 3))
    text = f"{dtype}: one dilated window has an element, the others none"
    topic.add(f"no-elements-{dtype}", text, "2 3", x, NONE, "Padding Windows", own)


@topics.file("windows")
def _windows(topic: PoolTopic) -> None:
    shared.add_windows(topic, "3 2 5")


@topics.file("invalid")
def _invalid(topic: PoolTopic) -> None:
    topic.add_twin("twin", "1")
    topic.refuse("twin", "data_type", "4", INPUT_TYPES)
    topic.refuse("twin", "dimension_count", "5", RANKS)
    topic.refuse("twin", "sizes", "6", f"{EMPTY} width-0")


@topics.file("invalid-windows")
def _refuse_windows(topic: PoolTopic) -> None:
    shared.refuse_windows(topic, "3")


FACTORS: Factors = {**shared.IMAGE_FACTORS, **shared.WINDOW_FACTORS}
APART: Apart = {}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: PoolTopic, name: str, text: str, row: Row, number: int) -> None:
    shared.add_pair(topic, "1 3 4", name, text, row, number)


@topics.file("size-classes")
@each_size
def _of_size(topic: PoolTopic, count: int, number: int) -> None:
    shared.add_size(topic, count, "1 3", NONE, flags_of(count))
