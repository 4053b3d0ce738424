"""QUANTIZED_LINEAR_AVERAGE_POOLING."""

from .._shared import pooling_cases as shared
from .._shared.covering import Apart, Factors, Row
from .._shared.pooling_cases import PoolTopic, windows
from .._shared.systematic import each_pair, each_size, flags_of
from ..topics import Files, ints

OPERATOR = "quantized_linear_average_pooling"


class AverageTopic(PoolTopic):
    """One file of calls."""

    label = "AVG"
    has_parameters = True


topics = Files(OPERATOR, AverageTopic)
topics.file("data-types")(shared.add_data_types)
topics.file("parameters")(shared.add_parameters)
topics.file("rounding")(shared.add_rounding)
topics.file("near-ties")(shared.add_near_ties)
topics.file("scales")(shared.add_scales)
topics.file("invalid")(shared.refuse_parameters)
topics.file("invalid-values")(shared.refuse_values)


@topics.file("windows")
def _windows(topic: AverageTopic) -> None:
    shared.add_windows(topic, "10 11 8", {"sy": [0.75], "zy": [100]})
    x = ints("uint8", (1, 1, 2, 2), [200, 3, 90, 41])
    options = {"dilations": (1, 4), "start": (0, 1), "end": (0, 3)}
    for name, include in (("left-out", False), ("counted", True)):
        text = f"one window has an element, the others none; padding is {name.replace('-', ' ')}"
        own, flags = {"zx": [9], "zy": [77]}, "Padding Windows"
        given = windows((1, 2), include, **options)
        topic.add(f"no-elements-{name}", text, "12 11", x, own, flags, given, "uint8")


@topics.file("invalid-windows")
def _refuse_windows(topic: AverageTopic) -> None:
    shared.refuse_windows(topic, "10")


FACTORS: Factors = {
    **shared.AVERAGE_FACTORS,
    **shared.WINDOW_FACTORS,
    "include padding": ("no", "yes"),
}
APART: Apart = {}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: AverageTopic, name: str, text: str, row: Row, number: int) -> None:
    shared.add_pair(topic, "1 4 5 10 11", name, text, row, number)


@topics.file("size-classes")
@each_size
def _of_size(topic: AverageTopic, count: int, number: int) -> None:
    own = {"zx": [5 + number], "zy": [3 * number], "sy": [0.75]}
    shared.add_size(topic, count, "10", own, flags_of(count))
