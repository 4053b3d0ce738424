"""Quantized global average pooling."""

from .._shared import pooling_cases as shared
from .._shared.convolution_cases import image, scale_words
from .._shared.covering import Apart, Row
from .._shared.pooling_cases import PoolTopic
from .._shared.systematic import PERIOD, SHORT, each_pair, each_size, flags_of, repeat
from ..topics import Files

OPERATOR = "quantized_linear_global_average_pooling"


class GlobalTopic(PoolTopic):
    """One file of calls."""

    label = "GAP"
    has_parameters = True
    has_windows = False


topics = Files(OPERATOR, GlobalTopic)
topics.file("data-types")(shared.add_data_types)
topics.file("parameters")(shared.add_parameters)
topics.file("rounding")(shared.add_rounding)
topics.file("near-ties")(shared.add_near_ties)
topics.file("scales")(shared.add_scales)
topics.file("invalid")(shared.refuse_parameters)
topics.file("invalid-values")(shared.refuse_values)


FACTORS = shared.AVERAGE_FACTORS
APART: Apart = {}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: GlobalTopic, name: str, text: str, row: Row, number: int) -> None:
    shared.add_pair(topic, "1 4 5", name, text, row, number)


@topics.file("size-classes")
@each_size
def _of_size(topic: GlobalTopic, count: int, number: int) -> None:
    x = repeat(image("uint8", (PERIOD,), count), (1, count, 1, 2))
    words = scale_words([0x3F000000 + 0x8421 * at for at in range(PERIOD)])
    own = {"zx": [5 + number], "zy": [3 * number], "sy": repeat(words, (1, count, 1, 1))}
    base, text = f"elements-{count}", f"{count} channels, each with its own output scale"
    topic.add(base, text, "1 4", x, own, flags_of(count))
    if count in SHORT:
        field, short = "OutputScaleTensor", repeat(words, (1, count - 1, 1, 1))
        name, text = f"scales-{count - 1}", f"{count - 1} output scales for {count} channels"
        topic.invalid(name, text, topic.clauses("4"), base, "sizes", {field: short})
