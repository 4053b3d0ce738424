"""QUANTIZED_LINEAR_CONVOLUTION: every pair of options, and every size class."""

from .._shared import convolution_cases as shared
from .._shared.convolution_cases import EIGHT, parameter
from .._shared.covering import Apart, Factors, Row
from .._shared.systematic import Systematic, flags_of
from .cases import OPERATOR, QuantizedTopic

FACTORS: Factors = {
    **shared.FACTORS,
    "output": EIGHT,
    "output zero point": ("absent", "one"),
    "bias": ("absent", "each channel"),
    "filter scale": ("one", "each channel"),
}
APART: Apart = {}


def _pair(topic: QuantizedTopic, name: str, text: str, row: Row, number: int) -> None:
    x, w = shared.operands(row, number)
    channels = range(w.sizes[0] if row["filter scale"] != "one" else 1)
    sw = [0.03125 + 0.007 * channel for channel in channels]
    zy = shared.point(row, "output", 1, -30)
    bias = parameter([(-1) ** c * 5000 * c for c in range(w.sizes[0])], "int32", len(x.sizes))
    own = {**shared.points(row, w.sizes[0]), "zy": zy, "sw": sw, "sy": [4]}
    each = own if row["bias"] == "absent" else {**own, "bias": bias}
    clause, options = "QLC-1 QLC-7 QLC-8 QLC-10", shared.window(row)
    topic.add(name, text, clause, x, w, each, "", options, row["output"])


def _of_size(topic: QuantizedTopic, count: int, number: int) -> None:
    channels = range(shared.FILTERS.get(count, (1,))[0])
    own = {"zx": [5 + number], "zw": [number - 7], "zy": [128], "sy": [4]}
    own |= {"bias": [(-1) ** channel * 3000 * channel for channel in channels]}
    each = {**own, "sw": [0.03125 + 0.007 * channel for channel in channels]}
    topic.add_size(count, 640 + 2 * number, each, ("QLC-1 QLC-8", "QLC-8"), flags_of(count))


topics = Systematic(OPERATOR, QuantizedTopic, FACTORS, APART, _pair, _of_size)
