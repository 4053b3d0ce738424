"""The table of convolutions that every implementation and every layout has to get right."""

from dataclasses import dataclass, field
from functools import cache
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
from support import draw, oracle, window_attributes

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


@dataclass(frozen=True)
class Case:
    """A convolution; `zero` and `per_channel` name parameters among "x", "w", "y", "s", "b"."""

    name: str
    input: tuple[int, ...]
    filter: tuple[int, ...]
    dtypes: tuple[str, str, str] = ("uint8", "int8", "uint8")
    present: str = "xwyb"
    per_channel: str = "ws"
    groups: int = 1
    windows: tuple[tuple[str, tuple[int, ...]], ...] = field(default=())

    @property
    def options(self) -> dict[str, Any]:
        return {**dict(self.windows), "group_count": self.groups}

    @property
    def canonical(self) -> tuple[str, str, str]:
        return LAYOUTS["NCHW"] if len(self.input) == 4 else NARROW

    def __str__(self) -> str:
        return self.name


def case(name: str, input: tuple[int, ...], filter: tuple[int, ...], **rest: Any) -> Case:
    windows = {
        k: tuple(v) for k, v in rest.items() if k.endswith(("s", "padding")) and k != "groups"
    }
    others = {k: v for k, v in rest.items() if k in ("dtypes", "present", "per_channel", "groups")}
    windows.pop("dtypes", None)
    return Case(name, input, filter, windows=tuple(windows.items()), **others)


def same(*padding: int) -> dict[str, tuple[int, ...]]:
    return {"start_padding": padding, "end_padding": padding}


CASES = [
    case("plain 1x1", (1, 5, 3, 4), (6, 5, 1, 1)),
    case("3x3", (2, 3, 6, 5), (4, 3, 3, 3), **same(1, 1)),
    case("no zero points, no bias", (1, 3, 5, 5), (4, 3, 3, 3), present="", **same(1, 1)),
    case("one zero point for all filters", (1, 3, 5, 5), (4, 3, 3, 3), per_channel="s"),
    case("one scale for all filters", (1, 3, 5, 5), (4, 3, 2, 2), per_channel="w"),
    case("strided 1x1", (1, 4, 7, 8), (3, 4, 1, 1), strides=(2, 3)),
    case("strides that leave pixels over", (1, 2, 9, 8), (3, 2, 3, 2), strides=(3, 2)),
    case("dilations", (1, 2, 9, 11), (3, 2, 3, 3), dilations=(2, 4)),
    case(
        "asymmetric padding",
        (1, 2, 4, 3),
        (3, 2, 3, 2),
        start_padding=(2, 0),
        end_padding=(1, 3),
        strides=(2, 1),
    ),
    case("padding wider than the kernel", (1, 2, 2, 2), (2, 2, 2, 2), **same(4, 5)),
    case("kernel as large as the input", (2, 3, 4, 5), (4, 3, 4, 5)),
    case("one row, one column", (1, 3, 1, 9), (2, 3, 1, 4)),
    case("two groups", (1, 6, 5, 5), (4, 3, 3, 3), groups=2, **same(1, 1)),
    case("three groups, strided", (2, 6, 5, 6), (9, 2, 2, 3), groups=3, strides=(2, 2)),
    case("depthwise", (2, 5, 6, 6), (5, 1, 3, 3), groups=5, **same(1, 1)),
    case("depthwise, three filters a channel", (1, 4, 6, 5), (12, 1, 3, 2), groups=4),
    case(
        "depthwise, dilated and strided",
        (1, 3, 9, 9),
        (3, 1, 3, 3),
        groups=3,
        strides=(2, 1),
        dilations=(1, 3),
    ),
    case("one input channel", (1, 1, 6, 6), (4, 1, 3, 3)),
    case("one channel and one filter", (1, 1, 5, 5), (1, 1, 2, 2)),
    case("images in parts", (8, 4, 15, 17), (5, 4, 2, 2)),
    case("no images", (0, 3, 4, 4), (2, 3, 2, 2)),
    case("rank 3", (2, 3, 9), (4, 3, 3), strides=(2,), start_padding=(1,), end_padding=(2,)),
    case("rank 3, depthwise", (2, 4, 9), (4, 1, 3), groups=4, dilations=(2,)),
    *(
        case(f"{x} and {w} to {y}", (1, 3, 5, 5), (4, 3, 2, 2), dtypes=(x, w, y), **same(1, 0))
        for x in ("int8", "uint8")
        for w in ("int8", "uint8")
        for y in ("int8", "uint8")
    ),
    *(
        case(f"depthwise {x} and {w}", (1, 4, 5, 5), (4, 1, 2, 2), dtypes=(x, w, x), groups=4)
        for x in ("int8", "uint8")
        for w in ("int8", "uint8")
    ),
]


@cache
def operands(case: Case) -> dict[str, Any]:
    """NumPy operands by DirectML's names, None where absent; scales make outputs spread."""
    x_dtype, w_dtype, y_dtype = case.dtypes
    k, channels, *kernel = case.filter
    rng = np.random.default_rng(len(case.name))
    sw = rng.uniform(0.01, 0.02, k if "s" in case.per_channel else ()).astype(np.float32)
    contraction = channels * int(np.prod(kernel))
    zero = {
        "x": draw(1, x_dtype) // 2,
        "w": draw(2, w_dtype, k if "w" in case.per_channel else ()) // 2,
        "y": draw(3, y_dtype) // 4,
        "b": rng.integers(-9_000, 9_000, k).astype(np.int32),
    }
    given = {
        name: np.asarray(value) if name in case.present else None for name, value in zero.items()
    }
    return {
        "InputTensor": draw(4, x_dtype, case.input),
        "FilterTensor": draw(5, w_dtype, case.filter),
        "BiasTensor": given["b"],
        "InputScaleTensor": np.float32(0.02),
        "FilterScaleTensor": sw,
        "OutputScaleTensor": np.float32(0.02 * 0.015 * 90 * contraction**0.5),
        "InputZeroPointTensor": given["x"],
        "FilterZeroPointTensor": given["w"],
        "OutputZeroPointTensor": given["y"],
    }


INTEGER = ("InputTensor", "FilterTensor", "InputZeroPointTensor", "FilterZeroPointTensor")


@cache
def expected(case: Case, operator: str) -> np.ndarray:
    """The oracle's answer, in the canonical layout; it judges no empty tensor."""
    values = operands(case)
    integer = operator == "convolution_integer"
    if integer:
        values = {name: values[name] for name in INTEGER}
    dtype = "int32" if integer else case.dtypes[2]
    attributes = window_attributes(len(case.input) - 2, **case.options)
    asked = {"OutputTensor": (dtype, ())}
    return oracle(operator, values, asked, **attributes)["OutputTensor"]


def laid_out(x: np.ndarray, source: str, target: str) -> np.ndarray:
    """The tensor with its axes in another order."""
    return np.transpose(x, [source.index(letter) for letter in target])


PARAMETERS = {
    "InputScaleTensor": "input_scale",
    "FilterScaleTensor": "filter_scale",
    "OutputScaleTensor": "output_scale",
    "InputZeroPointTensor": "input_zero_point",
    "FilterZeroPointTensor": "filter_zero_point",
    "OutputZeroPointTensor": "output_zero_point",
}


def keywords(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """The named operands by dmlax's keywords; all parameters if none is named."""
    return {PARAMETERS[name]: values[name] for name in names or PARAMETERS}
