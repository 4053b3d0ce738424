"""Planted bugs of both element-wise operators: which calls are refused, and how."""

from collections.abc import Iterator

import numpy as np

from .record import Mutant
from .refusing import Row, When, accepts, blames_code, blames_field, has, rank, refuses, rows
from .steps import Call

QUANTIZE, DEQUANTIZE = "element_wise_quantize_linear", "element_wise_dequantize_linear"
IMAGE, SCALE, POINT = "InputTensor", "ScaleTensor", "ZeroPointTensor"
CLAUSES = {
    QUANTIZE: {"type": "QNT-4", "sizes": "QNT-5", "value": "QNT-6", "absent": "QNT-8"},
    DEQUANTIZE: {"type": "DQT-2", "sizes": "DQT-4", "value": "DQT-5", "absent": "DQT-6"},
}


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    for operator, clauses in CLAUSES.items():
        found = [*_sizes(clauses["sizes"]), *_values(clauses["value"]), *_blaming(clauses)]
        yield from rows(operator, [*found, *_refusing(clauses)])
    yield from rows(QUANTIZE, [*_quantize_types()])
    yield from rows(DEQUANTIZE, [*_dequantize_types()])


def _lower(name: str) -> str:
    return {IMAGE: "input", SCALE: "scale", POINT: "zero-point", "OutputTensor": "output"}[name]


def _sizes(clause: str) -> Iterator[Row]:
    for name in (SCALE, POINT):
        label = _lower(name)
        about = f"{name} may have any sizes"
        yield f"accepts-{label}-sizes", clause, about, accepts("sizes", name)
        about = f"{name} may have sizes that make the output larger than the input"
        made = accepts("sizes", name, _grows(name))
        yield f"accepts-{label}-that-grows", clause, about, made
        about = f"{name} may have more dimensions than the input"
        made = accepts("sizes", name, lambda call, n=name: _is_deeper(call, n))  # type: ignore[misc]
        yield f"accepts-{label}-of-higher-rank", clause, about, made
        about = f"{name} may have any number of elements that is not larger than an axis"
        made = accepts("sizes", name, lambda call, n=name: _is_short(call, n))  # type: ignore[misc]
        yield f"accepts-short-{label}", clause, about, made


def _grows(name: str) -> When:
    """Say whether input and parameter repeat to common sizes other than the input's."""

    def test(call: Call) -> bool:
        image = call.inputs[IMAGE].shape
        try:
            return np.broadcast_shapes(image, call.inputs[name].shape) != image
        except ValueError:
            return call.inputs[name].size > call.inputs[IMAGE].size

    return test


def _is_deeper(call: Call, name: str) -> bool:
    return call.inputs[name].ndim > call.inputs[IMAGE].ndim


def _is_short(call: Call, name: str) -> bool:
    return call.inputs[name].size < max(call.inputs[IMAGE].shape, default=1)


def _values(clause: str) -> Iterator[Row]:
    tests = {
        "zero": ("zero", lambda scale: scale == 0),
        "nan": ("NaN", np.isnan),
        "infinite": ("infinite", np.isinf),
        "minus-zero": ("minus zero", lambda scale: (scale == 0) & np.signbit(scale)),
        "float16": ("anything in FLOAT16", lambda scale: np.full(scale.shape, scale.dtype == "f2")),
    }
    yield "accepts-any-scale", clause, "the scale may have any value", accepts("value", SCALE)
    for label, (text, test) in tests.items():
        made = accepts("value", SCALE, lambda call, t=test: t(call.inputs[SCALE]).any())  # type: ignore[misc]
        yield f"accepts-scale-{label}", clause, f"the scale may be {text}", made
    made = refuses("value", SCALE, lambda call: bool((call.inputs[SCALE] < 0).any()))
    yield "refuses-negative-scale", clause, "the scale must be positive", made


def _refusing(clauses: dict[str, str]) -> Iterator[Row]:
    sizes = clauses["sizes"]
    made = refuses("missing_tensor", POINT, lambda call: POINT not in call.inputs)
    yield "refuses-no-zero-point", clauses["absent"], "a zero point is required", made
    about = "scale and zero point must have the same sizes"
    yield "refuses-different-axes", sizes, about, refuses("sizes", POINT, _differ)
    about = "a scale of lower rank is refused"
    yield "refuses-lower-rank", sizes, about, refuses("dimension_count", SCALE, _is_lower)
    about = "a scale without dimensions is refused"
    yield "refuses-rank-0-scale", sizes, about, refuses("dimension_count", SCALE, rank(SCALE, 0))
    about = "a scale with sizes other than the input's is refused"
    yield "refuses-repeating", sizes, about, refuses("sizes", SCALE, _repeats)
    about = "more than four dimensions are refused"
    made = refuses("dimension_count", IMAGE, rank(IMAGE, 5, 6, 7, 8))
    yield "refuses-rank-above-4", sizes, about, made


def _differ(call: Call) -> bool:
    zero = call.inputs.get(POINT)
    return zero is not None and zero.shape != call.inputs[SCALE].shape


def _is_lower(call: Call) -> bool:
    return call.inputs[SCALE].ndim < call.inputs[IMAGE].ndim


def _repeats(call: Call) -> bool:
    return call.inputs[SCALE].ndim > 0 and call.inputs[SCALE].shape != call.inputs[IMAGE].shape


def _blaming(clauses: dict[str, str]) -> Iterator[Row]:
    about = "a wrong data type is called a wrong value"
    yield "type-is-value", clauses["type"], about, blames_code("data_type", "value")
    about = "wrong sizes are called a wrong dimension count"
    made = blames_code("sizes", "dimension_count")
    yield "sizes-are-dimension-count", clauses["sizes"], about, made
    about = "wrong sizes of the zero point are blamed on the scale"
    made = blames_field(POINT, SCALE, "sizes")
    yield "zero-point-sizes-blame-scale", clauses["sizes"], about, made
    about = "wrong sizes of the scale are blamed on the input"
    yield "scale-sizes-blame-input", clauses["sizes"], about, blames_field(SCALE, IMAGE, "sizes")
    about = "a wrong data type of the zero point is blamed on the input"
    made = blames_field(POINT, IMAGE, "data_type")
    yield "zero-point-type-blames-input", clauses["type"], about, made
    about = "a wrong scale is called an input of the wrong type"
    yield "value-is-type", clauses["value"], about, blames_code("value", "data_type")


def _type_of(name: str, clause: str, *dtypes: str) -> Iterator[Row]:
    label = _lower(name)
    about = f"{name} may have any data type"
    yield f"accepts-{label}-type", clause, about, accepts("data_type", name)
    for dtype in dtypes:
        about = f"{name} may be {dtype.upper()}"
        made = accepts("data_type", name, has(name, dtype))
        yield f"accepts-{label}-{dtype}", clause, about, made


def _quantize_types() -> Iterator[Row]:
    yield from _type_of(IMAGE, "QNT-4", "uint8", "int16", "complex64")
    yield from _type_of(SCALE, "QNT-4", "int32")
    yield from _type_of(POINT, "QNT-4", "float32", "int8")
    yield from _type_of("OutputTensor", "QNT-4")
    mixed = {
        "float16-scale-for-float32": ("float32", "float16"),
        "float32-scale-for-float16": ("float16", "float32"),
        "float16-scale-for-int32": ("int32", "float16"),
    }
    for name, (image, scale) in mixed.items():
        about = f"a {image.upper()} input may have a {scale.upper()} scale"
        made = accepts("data_type", SCALE, _both(has(IMAGE, image), has(SCALE, scale)))
        yield f"accepts-{name}", "QNT-4", about, made
    for dtype in ("float16", "int32"):
        made = refuses("data_type", IMAGE, has(IMAGE, dtype))
        yield f"refuses-{dtype}", "QNT-4", f"an input of {dtype.upper()} is refused", made


def _both(one: When, two: When) -> When:
    return lambda call: one(call) and two(call)


def _dequantize_types() -> Iterator[Row]:
    yield from _type_of(IMAGE, "DQT-2", "int64")
    yield from _type_of(SCALE, "DQT-3", "float64")
    yield from _type_of(POINT, "DQT-2")
    for dtype in ("int8", "int16", "int32", "uint16", "uint32"):
        made = refuses("data_type", IMAGE, has(IMAGE, dtype))
        yield f"refuses-{dtype}", "DQT-2", f"an input of {dtype.upper()} is refused", made
    made = refuses("data_type", SCALE, has(SCALE, "float16"))
    yield "refuses-float16", "DQT-3", "a FLOAT16 scale is refused", made
