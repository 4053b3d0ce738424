"""Planted bugs of QUANTIZED_LINEAR_CONVOLUTION."""

from collections.abc import Iterator

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.convolution import Sums, each_channel, without
from ...suite.bugs.descs import DescRules
from ...suite.bugs.record import VALUES, Bug, bug
from ...suite.bugs.steps import Call, Outputs
from .._shared import convolution_bugs
from .._shared import quantized_convolution_bugs as shared
from .._shared.convolution_bugs import FILTER, IMAGE, OUTPUT
from .._shared.quantized_convolution_bugs import (
    BIAS,
    FILTER_SCALE,
    IMAGE_SCALE,
    OUTPUT_POINT,
    OUTPUT_SCALE,
    PARTS,
    along_channels,
)
from .._shared.rounding import RANGES

__all__ = ["DESCS", "OPERATOR", "PARTS", "PERMITTED", "RESULT", "RULES", "derived", "written"]

OPERATOR, RESULT = "quantized_linear_convolution", "QLC-1"
ROOM = shared.Room(OPERATOR, "QLC")
RULES = ROOM.rules({}, {"data_type": f"{OUTPUT_POINT}:int8,int32 {OUTPUT}"})
DESCS = DescRules(
    OPERATOR,
    {"qconv-group-count": convolution_bugs.NO_GROUPS},
    convolution_bugs.HALVES,
    {"DataType": (*convolution_bugs.ALIKE_TYPES, (OUTPUT, OUTPUT_POINT))}
    | {"DimensionCount": ((IMAGE, FILTER, BIAS, OUTPUT),)},
)
PERMITTED = ROOM.permitted()


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    roles = {**shared.ROLES, OUTPUT_POINT: ("5 6", "zero-point")}
    yield from ROOM.derived(roles, {OUTPUT_POINT: OUTPUT})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from ROOM.written()
    yield bug(OPERATOR, "dequantizes-first", "QLC-1", VALUES, finish=_dequantized_first)


def _dequantized_first(outputs: Outputs, case: Case) -> Outputs:
    """Dequantize everything to FLOAT32, convolve there, and quantize the result."""
    if case.desc is not None:
        return outputs
    given = case.inputs
    sx, sy = (given[name].reshape(-1)[0] for name in (IMAGE_SCALE, OUTPUT_SCALE))
    w = given[FILTER]
    sw = each_channel(given[FILTER_SCALE], len(w)).reshape((-1,) + (1,) * (w.ndim - 1))
    sums = Sums(
        centre=lambda array, zero: without(array, zero).astype(np.float32) * sx,
        centre_filters=lambda array, zero: without(array, zero).astype(np.float32) * sw,
        total=lambda products: np.add.accumulate(products, 1, np.float32)[:, -1],
        wrap=lambda total: total,
    )
    total = sums(Call(case.attributes, given, case.outputs))
    if BIAS in given:
        bias = given[BIAS].reshape(-1).astype(np.float32) * sx * sw.reshape(-1)
        total = total + along_channels(bias, total)
    zero = given.get(OUTPUT_POINT, np.zeros(1)).reshape(-1)[0]
    dtype = case.outputs[OUTPUT].dtype
    quotient = np.nan_to_num(np.rint(total / sy).astype(np.float64)) + float(zero)
    return {OUTPUT: np.clip(quotient, *RANGES[dtype]).astype(dtype)}
