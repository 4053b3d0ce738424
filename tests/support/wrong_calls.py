"""Calls with a mistake that no vector of the suite has: Python's values, and sizes too large."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import dmlax

Arguments = Mapping[str, object]
Arrays = Mapping[str, npt.NDArray[np.generic]]

X, W, BIAS = np.ones((1, 4, 5, 5), np.uint8), np.ones((6, 4, 3, 3), np.int8), np.ones(6, np.int32)
A, B, FLAT = np.ones((2, 3), np.uint8), np.ones((3, 4), np.int8), np.ones((2, 3), np.float32)
IMAGE: Arguments = {"input": X, "input_scale": 1.0, "output_scale": 1.0}
LAYER: Arguments = {**IMAGE, "filter": W, "bias": BIAS, "filter_scale": 1.0}
SUM = {"addend": np.ones((1, 6, 3, 3), np.int8), "addend_scale": 1.0, "sum_scale": 1.0}
PAIR: Arguments = {"a": A, "b": A.view(np.int8), "a_scale": 1.0, "b_scale": 1.0}
VALID: dict[str, Arguments] = {  # arguments of every function
    "nonzero_coordinates": {"input": FLAT},
    "convolution_integer": {"input": X, "filter": W},
    "quantized_linear_convolution": LAYER,
    "quantized_linear_convolution_add": {**LAYER, **SUM},
    "element_wise_quantize_linear": {"input": FLAT, "scale": 1.0},
    "element_wise_dequantize_linear": {"input": A, "scale": 1.0},
    "matrix_multiply_integer": {"a": A, "b": B},
    "quantized_linear_matrix_multiply": {**PAIR, "b": B, "output_scale": 1.0},
    "matrix_multiply_integer_to_float": {**PAIR, "b": B},
    "quantized_linear_average_pooling": {**IMAGE, "window_size": 2},
    "quantized_linear_global_average_pooling": IMAGE,
    "max_pooling": {"input": X, "window_size": 2},
    "dynamic_quantize_linear": {"input": FLAT},
    "element_wise_quantized_linear_add": {**PAIR, "output_scale": 1.0},
    "element_wise_quantized_linear_multiply": {**PAIR, "output_scale": 1.0},
    "quantized_lookup": {"input": A, "table": np.zeros(256, np.int8)},
    "prepare_filter": {"filter": W},
    "prepare_matrix": {"b": B},
}
NAN, NCHW = float("nan"), ("NCHW", "OIHW", "NCHW")
NOT_LENGTHS: list[object] = [2**32, 2**63, 2**64, True, "SAME", (1, 1.5)]
NOT_PADDINGS: list[object] = ["FULL", ((1, 1),), (1, 1), 1, ((0, 0), (-1, 0)), ((0, 0), (1, 2, 3))]
NOT_LAYOUTS: list[object] = [4, "NHWD", "NWC", NCHW[:2], (*NCHW[:2], "NCXY"), ("NCW", "OIW", "NCW")]
VALUES: dict[str, list[object]] = {  # no parameter of this pattern takes these
    r"\.(input|filter|addend|a|b|table)": [3, "x", [1], None],
    r"\.bias": ["x", [1]],
    r"scale": [None, 0, 0.0, 1e-50, NAN, float("inf"), np.float32(NAN), [1.0]],
    r"\.(input_|a_|output_|sum_|)zero_point": [256, -1, 1.0, [1]],
    r"\.(filter|b|addend)_zero_point": [128, -129, 1.5, [1], np.uint8(1)],
    r"(output_|sum_|_quantize_linear\.)zero_point": [np.int32(1)],
    r"dtype": ["eight", "int16"],
    r"arithmetic": ["fast", None],
    r"implementation": ["best", None],
    r"packing": ["blocks"],
    r"(include_padding|addend_first)": [1],
    r"dimension_numbers": NOT_LAYOUTS,
    r"\.padding": [*NOT_PADDINGS, ((2**63, 0), (0, 0))],
    r"(strides|dilations|window_size|(start|end)_padding)": NOT_LENGTHS,
    r"window_size": [None],
    r"group_count": [-1, 1.5, 2**32, 2**64],
    r"\.(size|fill_value|coordinate_rank)": [-1, 2.0, "4", NAN],
    r"\.(size|fill_value)": [2**32],
    r"\.axis": [2, -3, 100, 1.0],
}
CONVOLUTION, ELEMENTS = r"convolution(_integer|_add)?$", "element_wise_(de)?quantize_linear"
TOO_LARGE: list[Arguments] = [
    {"start_padding": 2**31},
    {"strides": 2**31},
    {"dilations": 2**32 - 1},
    {"end_padding": 2**30, "strides": 2**29},
]
PIXELS, PLANES, FILTERS = (  # without memory
    np.broadcast_to(np.uint8(0), sizes)
    for sizes in [(1, 1, 2048, 4113), (1, 2**11, 2**20, 2**11), (2**20, 2**11, 1, 1)]
)
EMPTY = {"a": np.zeros((2**40, 0), np.uint8), "b": np.zeros((0, 2**40), np.uint8)}
TOGETHER: list[tuple[str, Arguments]] = [  # functions, and arguments that do not fit together
    ("nonzero", {"input": jnp.ones(2, jnp.int4)}),
    (CONVOLUTION, {"filter": W[:, :0]}),
    (CONVOLUTION, {"padding": "SAME", "end_padding": (0, 0)}),
    (CONVOLUTION, {"padding": "SAME", "dilations": 2**62}),
    ("linear_convolution$", {"output_zero_point": 200, "output_dtype": "int8"}),
    (ELEMENTS, {"scale": FLAT[0], "axis": 0}),
    (ELEMENTS, {"scale": FLAT, "axis": -1}),
    ("multiply_integer$", {"b": dmlax.prepare_matrix(B), "b_zero_point": 1}),
    ("prepare_filter", {"filter": W.astype(np.int32)}),
    ("prepare_filter", {"filter": W[0, 0]}),
    ("prepare_filter", {"filter": W[0], "dimension_numbers": NCHW}),
    ("prepare_filter", {"filter": W[:, :, :0]}),
    ("prepare_filter", {"group_count": 4}),
    ("prepare_filter", {"filter_zero_point": np.ones(4, np.int8)}),
    *((CONVOLUTION, {"filter": W[:, :, :1, :1], **large}) for large in TOO_LARGE),
    *(("(linear_average|max)_pooling", {"window_size": 1, **large}) for large in TOO_LARGE),
    ("max_pooling", {"window_size": 2**16, "end_padding": 2**16}),
    ("linear_average_pooling", {"input": PIXELS, "window_size": PIXELS.shape[2:]}),
    ("global_average_pooling", {"input": PIXELS}),
    ("convolution_integer", {"input": PLANES, "filter": FILTERS}),
    *(("multiply_integer$", {**EMPTY, "implementation": name}) for name in ("auto", "xla")),
    ("multiply_integer$", {**EMPTY, "implementation": "reference"}),
]


class Refused(NamedTuple):
    """A call that is refused, as a function of arrays that may be traced."""

    key: str
    call: Callable[[Arrays], object]
    arrays: Arrays


def wrong_calls(function: str) -> Iterator[Refused]:
    """The function with every wrong value, and with the arguments that do not fit together."""
    for name in inspect.signature(getattr(dmlax, function)).parameters:
        for pattern, values in VALUES.items():
            if re.search(f"{pattern}$", f"{function}.{name}"):
                yield from (_refused(function, {name: value}) for value in values)
    for pattern, arguments in TOGETHER:
        if re.search(pattern, function):
            yield _refused(function, arguments)


def _refused(function: str, wrong: Arguments) -> Refused:
    """A valid call with some wrong arguments; its key is their text in Python."""
    key = f"{function}({', '.join(f'{name}={_text(wrong[name])}' for name in wrong)})"
    arguments = {**VALID[function], **wrong}
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    return Refused(key, lambda arrays: call(function, {**wrong, **arrays}), arrays)


def call(function: str, arguments: Arguments) -> object:
    """Calls a function with valid arguments but these, by name, also positional-only ones."""
    named = {**VALID[function], **arguments}
    parameters = inspect.signature(getattr(dmlax, function)).parameters.items()
    first = [
        named.pop(k) for k, one in parameters if one.kind == one.POSITIONAL_ONLY and k in named
    ]
    return getattr(dmlax, function)(*first, **named)


def _text(value: object) -> str:
    """Python's text, or the dtype and the sizes of an array."""
    if isinstance(value, np.ndarray | jax.Array):
        return f"{value.dtype}{list(value.shape)}".replace(" ", "")
    return repr(value)
