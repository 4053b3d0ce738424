"""Layouts of convolutions, and plans of them."""

from typing import Any

import numpy as np
from jax.sharding import PartitionSpec

from dmlax._core.arguments import Aval, Rules
from dmlax._operators.convolution.plan import (
    Convolution,
    ConvolutionPlan,
    Options,
    convolution_plan,
    filter_shape,
)

LAYOUTS = {
    "NCHW": ("NCHW", "OIHW", "NCHW"),
    "NHWC": ("NHWC", "HWIO", "NHWC"),
    "mixed": ("NCHW", "IHWO", "NHWC"),
    "odd": ("HCWN", "HOWI", "CNWH"),
}
NARROW = ("NCW", "OIW", "NCW")
SPLIT = {  # input, filter and bias over devices "d"
    "batch": (PartitionSpec("d"), PartitionSpec(), PartitionSpec()),
    "output channels": (PartitionSpec(), PartitionSpec("d"), PartitionSpec("d")),
}


def integer_plan(
    input: Aval, filter: Aval, layout: tuple[str, str, str], groups: int, *windows: Any
) -> ConvolutionPlan:
    """Plan of convolution_integer, without zero points; strides, dilations and padding are last."""
    rules = Rules("convolution_integer")
    shape = filter_shape(rules, filter, groups, layout)
    options = Options(*windows, shape.layouts[0], shape.layouts[2])
    return convolution_plan(rules, Convolution(input, None), shape, None, options)


def laid_out(x: np.ndarray, source: str, target: str) -> np.ndarray:
    """The tensor with its axes in another order."""
    return np.transpose(x, [source.index(letter) for letter in target])
