"""Mutants of the element-wise operators that quantize and dequantize."""

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import partial
from math import isfinite, trunc
from typing import Any

import numpy as np

from dmlax_conformance.format.tensors import DTYPES
from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.exact import RANGES, Real, clamp, exactly
from dmlax_conformance.oracle.operator import dashed
from dmlax_conformance.runner.adapter import Case

from . import arithmetic
from .arithmetic import Rounding, nan_as
from .binary import REPEATS
from .engine.mutant import Table
from .engine.steps import Array, Call, Outputs, Sizes, of_float, to_float
from .family import load

IMAGE, SCALE, POINT, OUTPUT = "InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor"

# An element of the input, or its difference from the zero point z, and the data types of input
# and scale. Numbers are fractions; an infinity or NaN is a float.
Element = namedtuple("Element", "x z scale source form")
Way = Callable[[Element], Any]  # to a fraction or a float


def exact(value: Any) -> Real:
    """Return a fraction or a float as an exact number."""
    is_float = isinstance(value, float | np.floating)
    return of_float(value) if is_float else exactly(Fraction(value))


def _elements(call: Call) -> Iterator[Element]:
    x, scale = call.inputs[IMAGE], call.inputs[SCALE]
    zero_point = call.inputs.get(POINT, np.zeros((), np.int8))
    columns = (np.broadcast_to(array, x.shape).reshape(-1) for array in (x, zero_point, scale))
    for number, zero, step in zip(*(column.tolist() for column in columns), strict=True):
        value = Fraction(number) if isfinite(number) else number
        yield Element(value, zero, Fraction(step), x.dtype.name, scale.dtype.name)


def _quotient(e: Element) -> Any:
    return e.x / e.scale


def _product(e: Element) -> Any:
    return e.x * e.scale


@dataclass(frozen=True)
class Quantize:
    """The steps of quantizing, in order."""

    divide: Way = _quotient
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, call: Call) -> Outputs:
        """Return clamp(round(input / scale) + zero point)."""
        sizes, dtype = call.inputs[IMAGE].shape, call.outputs[OUTPUT].dtype
        outputs = [self.rounding(exact(self.divide(e)), e.z, dtype) for e in _elements(call)]
        return {OUTPUT: np.array(outputs, dtype).reshape(sizes)}


@dataclass(frozen=True)
class Dequantize:
    """The steps of dequantizing, in order."""

    subtract: Way = lambda e: e.x - e.z
    multiply: Way = _product
    store: Callable[[int, Real, str], int] = lambda word, product, dtype: word

    def __call__(self, call: Call) -> Outputs:
        """Return (input - zero point) * scale."""
        sizes, dtype = call.inputs[IMAGE].shape, call.inputs[SCALE].dtype
        bits = []
        for e in _elements(call):
            product = exact(self.multiply(e._replace(x=self.subtract(e))))
            bits.append(self.store(floats.encode(product, dtype.name), product, dtype.name))
        return {OUTPUT: np.array(bits, f"uint{8 * dtype.itemsize}").view(dtype).reshape(sizes)}


def _by_reciprocal(e: Element) -> Any:
    return e.x * (1 / e.scale)


def _in_floats(formula: Way, dtype: str, types: str, e: Element) -> Any:
    """Compute in a float type, else in that of the scale, for these types of input and scale."""
    if isinstance(e.x, float) or not e.x or not fnmatchcase(f"{e.source} {e.form}", types):
        return formula(e)
    x, scale = (to_float(number, dtype or e.form) for number in (e.x, e.scale))
    return formula(e._replace(x=x, scale=scale))


def _wrapped(difference: Fraction, dtype: str) -> Any:
    low = DTYPES[dtype].low
    return (difference - low) % 2 ** DTYPES[dtype].width + low


def _apart(a: Any, b: Any, dtype: str) -> Any:
    """Round two numbers to a float type, unless one overflows there, and subtract them."""
    rounded = [floats.nearest(exactly(Fraction(number)), dtype) for number in (a, b)]
    return a - b if any(r.kind == "inf" for r in rounded) else rounded[0].value - rounded[1].value


def _size(word: int, dtype: str) -> Fraction:
    return floats.decode(word, dtype).magnitude


def _sizes(call: Call) -> Sizes:
    return call.inputs[IMAGE].shape


def _on_axis_1(parameter: Array, call: Call) -> Array:
    """Take a parameter with as many elements as axis 1 to be for that axis."""
    sizes = _sizes(call)
    is_for_it = len(sizes) > 1 and parameter.size == sizes[1] > 1
    return parameter.reshape(1, -1, *[1] * (len(sizes) - 2)) if is_for_it else parameter


def _asks(name: str, test: Callable[[Array, Array], Any], case: Case) -> Any:
    return name in case.inputs and test(case.inputs[name], case.inputs[IMAGE])


DIVISIONS: Mapping[str, Way] = {
    "float-division": partial(_in_floats, _quotient, "", "*"),
    "float-reciprocal": partial(_in_floats, _by_reciprocal, "", "*"),
    "float64-reciprocal": partial(_in_floats, _by_reciprocal, "float64", "*"),
    "float32-division": partial(_in_floats, _quotient, "float32", "float32 *"),
    "float16-division": partial(_in_floats, _quotient, "float16", "float16 *"),
    "float32-reciprocal": partial(_in_floats, _by_reciprocal, "float32", "float32 *"),
    "float16-reciprocal": partial(_in_floats, _by_reciprocal, "float16", "float16 *"),
    "float16-reciprocal-in-float32": partial(_in_floats, _by_reciprocal, "float32", "float16 *"),
    "int32-as-float32": partial(_in_floats, _quotient, "float32", "int32 *"),
    "int32-as-float16": partial(_in_floats, _quotient, "float16", "int32 *"),
    "float32-as-float16": partial(_in_floats, _quotient, "float16", "float32 *"),
    "multiplies": _product,
    "input-without-sign": lambda e: abs(e.x) / e.scale,
    "epsilon": lambda e: e.x / (e.scale + Fraction(1, 10**7)),
}
TABLE: Table = {  # by clauses and place
    **arithmetic.roundings("quantize", "QNT-2", "QNT-3", "QNT-1"),
    ("QNT-1 QNT-4 QNT-6", "quantize.divide"): DIVISIONS,
    ("QNT-7", "quantize.divide"): {
        "infinity-keeps-sign": lambda e: e.x if isinstance(e.x, float) else e.x / e.scale,
    },
    ("QNT-7", "quantize.rounding"): {
        "infinity-is-lowest": Rounding(special=lambda quotient, zero, dtype: RANGES[dtype][0]),
        "infinity-is-highest": Rounding(special=lambda quotient, zero, dtype: RANGES[dtype][1]),
        "infinity-is-zero-point": Rounding(special=lambda quotient, zero, dtype: zero),
        "nan-is-one-above-zero-point": nan_as(lambda zero, dtype: clamp(zero + 1, dtype)),
        "nan-is-0": nan_as(lambda zero, dtype: 0),
    },
    ("DQT-1 DQT-2 DQT-3", "dequantize.subtract"): {
        "difference-reversed": lambda e: e.z - e.x,
        "difference-in-own-type": lambda e: _wrapped(e.x - e.z, e.source),
        "difference-saturates": lambda e: min(
            max(e.x - e.z, DTYPES[e.source].low), DTYPES[e.source].high
        ),
        "difference-in-32-bits": lambda e: _wrapped(e.x - e.z, "int32"),
        "difference-in-16-bits": lambda e: _wrapped(e.x - e.z, "int16"),
        "difference-is-unsigned": lambda e: _wrapped(e.x - e.z, "uint32"),
        "float32-before-difference": lambda e: _apart(e.x, e.z, "float32"),
        "float16-before-difference": lambda e: _apart(e.x, e.z, "float16"),
    },
    ("DQT-1 DQT-2 DQT-3", "dequantize.multiply"): {
        "float32-product": partial(_in_floats, _product, "float32", "*"),
        "float64-product": partial(_in_floats, _product, "float64", "*"),
        "float16-product": partial(_in_floats, _product, "float16", "* float16"),
        "float16-through-float32": partial(_in_floats, _product, "float32", "* float16"),
        "float32-through-float16": partial(_in_floats, _product, "float16", "* float32"),
        "integers-only": lambda e: trunc(e.x * e.scale),
        "signed-zero": lambda e: e.x * e.scale if e.x else np.copysign(0.0, float(e.scale)),
        "flushes-scale": lambda e: e.x * e.scale if abs(e.scale) >= Fraction(2) ** -126 else 0,
        "products-subtracted": lambda e: _apart((e.x + e.z) * e.scale, e.z * e.scale, e.form),
        "products-fused": lambda e: (e.x + e.z) * e.scale - _apart(e.z * e.scale, 0, e.form),
    },
    ("DQT-1 DQT-2 DQT-3", "dequantize.store"): {
        "truncates": lambda w, product, dtype: w - (_size(w, dtype) > product.magnitude),
        "half-away-from-zero": lambda w, product, dtype: (
            w + (_size(w, dtype) + _size(w + 1, dtype) == 2 * product.magnitude)
        ),
        "flushes-result": lambda w, product, dtype: w if w & floats.FORMATS[dtype].infinity else 0,
        "saturates": lambda w, product, dtype: w - (floats.decode(w, dtype).kind == "inf"),
    },
    ("DQT-1", f"output {OUTPUT}"): {
        "minus-zero": lambda y, case: np.where(y == 0, np.asarray(-0.0, y.dtype), y),
    },
    ("QNT-5 DQT-4", f"read {SCALE} {POINT}"): {
        "parameters-cycled": lambda p, call: np.resize(p, _sizes(call)),
        "parameters-stretched": lambda p, call: REPEATS["stretched"](p, _sizes(call)),
        "parameters-on-axis-1": _on_axis_1,
        "parameters-transposed": lambda p, call: np.broadcast_to(p, _sizes(call)).T.reshape(
            _sizes(call)
        ),
    },
    ("QNT-5 DQT-4", f"refuse dimension_count {POINT}"): {
        "refuses-different-axes": lambda case: (
            POINT in case.inputs and case.inputs[POINT].shape != case.inputs[SCALE].shape
        ),
    },
    ("QNT-2", "permitted quantize.rounding"): arithmetic.PERMITTED_ROUNDINGS,
    ("QNT-7", "permitted quantize.rounding"): arithmetic.PERMITTED_NANS,
}
PARAMETER_SIZES: Table = {
    ("QNT-5 DQT-4", f"{answer} sizes {name}"): {
        f"{answer}s-{dashed(name)}-{label}": partial(_asks, name, test)
        for label, test in tests.items()
    }
    for name in (SCALE, POINT)
    for answer, tests in {
        "accept": {
            "that-grows": lambda p, x: p.size > x.size or p.ndim > x.ndim,
            "of-higher-rank": lambda p, x: p.ndim > x.ndim,
            "short": lambda p, x: p.size < max(x.shape, default=1),
        },
        "refuse": {
            "of-lower-rank": lambda p, x: p.ndim < x.ndim,
            "of-rank-0": lambda p, x: p.ndim == 0,
            "that-repeats": lambda p, x: p.ndim > 0 and p.shape != x.shape,
        },
    }.items()
}
MUTANTS = load(
    "element_wise",
    {
        "element_wise_quantize_linear": {"quantize": Quantize()},
        "element_wise_dequantize_linear": {"dequantize": Dequantize()},
    },
    {**TABLE, **PARAMETER_SIZES},
)
