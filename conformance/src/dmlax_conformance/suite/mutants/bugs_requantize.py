"""Planted bugs of QUANTIZED_LINEAR_CONVOLUTION after the sums: bias, scales and output."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...operators._shared import floats
from ...operators._shared.floats import NAN, Real, round_half_even
from ...operators._shared.rounding import RANGES
from ..adapter import Case
from .bugs_sums import CHANNEL_WAYS
from .convolution import Scales, Sums, add_bias, each_channel, exact_rescale, without, wrapped
from .record import HONEST, Mutant, mutant, with_steps
from .steps import Array, Call, Outputs, of_float, to_float

OPERATOR = "quantized_linear_convolution"
SMALLEST_NORMAL = Fraction(2) ** -126


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    yield from _biases()
    yield from _filter_scales()
    yield from _products()
    yield from _approximations()
    yield from _outputs()


def _bug(name: str, clause: str, about: str, **steps: Any) -> Mutant:
    return mutant(OPERATOR, name, clause, about, with_steps("requantize", **steps))


# -- bias --------------------------------------------------------------------------------------


def _bias_as(change: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda sums, bias: add_bias(sums, change(bias))


def _only(bias: Array) -> Array:
    kept = np.zeros_like(bias)
    kept.reshape(-1)[0] = bias.reshape(-1)[0]
    return kept


def _along_last_axis(sums: Array, bias: Array) -> Array:
    if sums.shape[-1] != bias.size:
        return add_bias(sums, bias)
    return wrapped(sums + bias.reshape(-1).astype(np.int64))


def _unbounded(sums: Array, bias: Array) -> Array:
    return np.asarray(sums + each_channel(bias, sums.shape[1]).reshape(_across(sums)))


def _across(sums: Array) -> tuple[int, ...]:
    return (1, -1) + (1,) * (sums.ndim - 2)


def _saturating(sums: Array, bias: Array) -> Array:
    return np.clip(_unbounded(sums, bias), -(2**31), 2**31 - 1)


def _in_float32(sums: Array, bias: Array) -> Array:
    own = bias.astype(np.float32).reshape(_across(sums))
    exact = (sums.astype(np.float32) + own).astype(np.float64)
    return np.clip(exact, -(2**31), 2**31 - 1).astype(np.int64)


def _biases() -> Iterator[Mutant]:
    ways: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
        "bias-ignored": ("the bias is ignored", lambda sums, bias: sums),
        "bias-subtracted": ("the bias is subtracted", _bias_as(lambda b: -b.astype(np.int64))),
        "bias-reversed": (
            "the bias is applied in reverse",
            _bias_as(lambda b: b.reshape(-1)[::-1]),
        ),
        "bias-of-first-channel": (
            "the first bias is used for all channels",
            _bias_as(lambda b: np.full_like(b, b.reshape(-1)[0])),
        ),
        "bias-on-first-channel": ("only the first channel gets its bias", _bias_as(_only)),
        "bias-in-16-bits": (
            "the bias is kept in 16 bits",
            _bias_as(lambda b: b.astype(np.int16).astype(np.int64)),
        ),
        "bias-twice": ("the bias is added twice", _bias_as(lambda b: 2 * b.astype(np.int64))),
        "bias-as-unsigned": (
            "a negative bias is read as its absolute value",
            _bias_as(lambda b: np.abs(b.astype(np.int64))),
        ),
        "bias-on-first-place": (
            "only the first place of each channel gets the bias",
            lambda sums, bias: np.where(_is_first_place(sums), add_bias(sums, bias), sums),
        ),
        "bias-on-first-image": (
            "only the first image gets the bias",
            lambda sums, bias: np.concatenate([add_bias(sums[:1], bias), sums[1:]]),
        ),
        "bias-along-last-axis": ("the bias goes along the last axis", _along_last_axis),
        "bias-in-float32": ("the bias is added in FLOAT32", _in_float32),
    }
    for name, (about, bias) in ways.items():
        yield _bug(name, "QLC-4", about, bias=bias)
    about = "a bias that takes the sum out of 32 bits saturates, where wrapping is asked for"
    yield _bug("bias-saturates", "QLC-12", about, bias=_saturating)
    about = "sum and bias are added in 64 bits, where wrapping at 32 is asked for"
    yield _bug("bias-never-wraps", "QLC-12", about, bias=_unbounded)


def _is_first_place(sums: Array) -> Array:
    return np.asarray(np.arange(sums[0, 0].size).reshape(sums.shape[2:]) == 0)


# -- the filter scale, one for each output channel ---------------------------------------------


def _filter_scales() -> Iterator[Mutant]:
    for name, (about, step) in CHANNEL_WAYS.items():
        text = f"the filter scale {about}"
        yield _bug(f"filter-scale-{name}", "QLC-7", text, scales=step)
    about = "the filter scale is the mean of all channels"
    yield _bug("filter-scale-mean", "QLC-7", about, scales=_mean)


def _mean(given: Array, channels: int) -> Array:
    mean = given.astype(np.float64).mean().astype(np.float32)
    return each_channel(given if given.size == 1 else mean, channels)


# -- which scales, and how often ---------------------------------------------------------------


def _with(change: Callable[[Fraction, Fraction, Fraction], Scales]) -> Callable[..., Real]:
    return lambda accumulator, scales: exact_rescale(accumulator, change(*scales))


def _flushed(scale: Fraction) -> Fraction:
    return Fraction(0) if abs(scale) < SMALLEST_NORMAL else scale


def _products() -> Iterator[Mutant]:
    ways: dict[str, tuple[str, Callable[[Fraction, Fraction, Fraction], Scales]]] = {
        "input-scale-ignored": ("the input scale is ignored", lambda x, w, y: (Fraction(1), w, y)),
        "filter-scale-ignored": (
            "the filter scale is ignored",
            lambda x, w, y: (x, Fraction(1), y),
        ),
        "output-scale-ignored": (
            "the output scale is ignored",
            lambda x, w, y: (x, w, Fraction(1)),
        ),
        "output-scale-multiplied": ("the output scale is a factor", lambda x, w, y: (x, w, 1 / y)),
        "input-scale-divides": ("the input scale is a divisor", lambda x, w, y: (1 / x, w, y)),
        "input-scale-for-filter": (
            "the input scale stands for the filter scale as well",
            lambda x, w, y: (x, x, y),
        ),
        "input-and-output-scale-swapped": (
            "input and output scale are swapped",
            lambda x, w, y: (y, w, x),
        ),
    }
    for name, (about, change) in ways.items():
        yield _bug(name, "QLC-1", about, rescale=_with(change))
    odd: dict[str, tuple[str, Callable[[Fraction, Fraction, Fraction], Scales]]] = {
        "scales-without-sign": (
            "the sign of scales is lost",
            lambda x, w, y: (abs(x), abs(w), abs(y)),
        ),
        "output-scale-without-sign": (
            "the sign of the output scale is lost",
            lambda x, w, y: (x, w, abs(y)),
        ),
        "input-scale-without-sign": (
            "the sign of the input scale is lost",
            lambda x, w, y: (abs(x), w, y),
        ),
        "filter-scale-without-sign": (
            "the sign of the filter scale is lost",
            lambda x, w, y: (x, abs(w), y),
        ),
        "filter-scale-flushed": (
            "a subnormal filter scale is taken as zero",
            lambda x, w, y: (x, _flushed(w), y),
        ),
        "input-scale-flushed": (
            "a subnormal input scale is taken as zero",
            lambda x, w, y: (_flushed(x), w, y),
        ),
        "output-scale-at-least-normal": (
            "a subnormal output scale is taken as the smallest normal one",
            lambda x, w, y: (x, w, max(y, SMALLEST_NORMAL) if y > 0 else y),
        ),
        "scales-in-float16": (
            "scales are kept in FLOAT16",
            lambda x, w, y: (_half(x), _half(w), _half(y) or Fraction(2) ** -24),
        ),
        "scales-in-bfloat16": (
            "scales keep eight bits of their mantissa",
            lambda x, w, y: (_eight(x), _eight(w), _eight(y)),
        ),
    }
    for name, (about, change) in odd.items():
        clause = "QLC-1" if name.startswith("scales-in") else "QLC-13"
        yield _bug(name, clause, about, rescale=_with(change))


def _half(scale: Fraction) -> Fraction:
    number = floats.nearest(floats.exactly(scale), "float16")
    return number.value if number.kind == "finite" else Fraction(65504)


def _eight(scale: Fraction) -> Fraction:
    power = Fraction(2) ** (abs(scale).numerator.bit_length() - scale.denominator.bit_length() - 8)
    return round_half_even(scale / power) * power


# -- arithmetic that is not exact --------------------------------------------------------------


def _in(dtype: str, formula: Callable[..., Any]) -> Callable[[int, Scales], Real]:
    """Compute with NumPy's floats, each step rounded."""

    def rescale(accumulator: int, scales: Scales) -> Real:
        number = to_float(Fraction(accumulator), dtype)
        return of_float(formula(number, *(to_float(scale, dtype) for scale in scales)))

    return rescale


def _fixed_point(accumulator: int, scales: Scales) -> Real:
    """Multiply by 31 bits of the multiplier, round half up, then shift and round again."""
    sx, sw, sy = scales
    multiplier = sx * sw / sy
    if multiplier == 0:
        return floats.exactly(Fraction(0))
    size = abs(multiplier)
    power = size.numerator.bit_length() - size.denominator.bit_length() + 1
    mantissa = round_half_even(multiplier / Fraction(2) ** power * 2**31)
    high = (accumulator * mantissa + 2**30) >> 31
    return floats.exactly(high * Fraction(2) ** power)


def _few_bits(bits: int) -> Callable[[int, Scales], Real]:
    """Keep so many bits after the binary point of the multiplier."""

    def rescale(accumulator: int, scales: Scales) -> Real:
        sx, sw, sy = scales
        multiplier = round_half_even(sx * sw / sy * 2**bits)
        return floats.exactly(Fraction(accumulator * multiplier, 2**bits))

    return rescale


def _lost_bits(accumulator: int, scales: Scales) -> Real:
    number = floats.nearest(floats.exactly(Fraction(accumulator)), "float32")
    return exact_rescale(int(number.value), scales)


def _combined(accumulator: int, scales: Scales) -> Real:
    """Round the combined multiplier to FLOAT32, and be exact from there."""
    sx, sw, sy = scales
    multiplier = floats.nearest(floats.exactly(sx * sw / sy), "float32")
    if multiplier.kind == "finite":
        return floats.exactly(accumulator * multiplier.value)
    return NAN if accumulator == 0 else Real(multiplier.negative != (accumulator < 0), kind="inf")


def _product_first(accumulator: int, scales: Scales) -> Real:
    """Round input * filter scale to FLOAT32, and be exact from there."""
    sx, sw, sy = scales
    product = floats.nearest(floats.exactly(sx * sw), "float32")
    if product.kind == "finite":
        return floats.exactly(accumulator * product.value / sy)
    return NAN if accumulator == 0 else Real((accumulator * sx * sw / sy) < 0, kind="inf")


def _approximations() -> Iterator[Mutant]:
    ways: dict[str, tuple[str, Callable[[int, Scales], Real]]] = {
        "float32-multiplier": (
            "FLOAT32 throughout: accumulator * (input * filter / output scale)",
            _in("float32", lambda a, x, w, y: a * (x * w / y)),
        ),
        "float32-formula": (
            "FLOAT32 throughout: accumulator * (input * filter scale) / output scale",
            _in("float32", lambda a, x, w, y: a * (x * w) / y),
        ),
        "float32-in-turn": (
            "FLOAT32 throughout, one factor after the other",
            _in("float32", lambda a, x, w, y: a * x * w / y),
        ),
        "float32-reciprocal": (
            "FLOAT32 throughout, times the reciprocal of the output scale",
            _in("float32", lambda a, x, w, y: a * (x * w) * (np.float32(1) / y)),
        ),
        "float64-multiplier": (
            "FLOAT64 throughout: accumulator * (input * filter / output scale)",
            _in("float64", lambda a, x, w, y: a * (x * w / y)),
        ),
        "float64-formula": (
            "FLOAT64 throughout: accumulator * (input * filter scale) / output scale",
            _in("float64", lambda a, x, w, y: a * (x * w) / y),
        ),
        "float64-reciprocal": (
            "FLOAT64 throughout, times the reciprocal of the output scale",
            _in("float64", lambda a, x, w, y: a * (x * w) * (1 / y)),
        ),
        "float64-times-float32-multiplier": (
            "the combined scale is rounded to FLOAT32, and nothing else is",
            _combined,
        ),
        "float32-product-of-scales": (
            "input * filter scale is rounded to FLOAT32, and nothing else is",
            _product_first,
        ),
        "float32-accumulator": ("the accumulator is rounded to FLOAT32", _lost_bits),
        "float16-formula": (
            "FLOAT16 throughout",
            _in("float16", lambda a, x, w, y: a * (x * w) / y),
        ),
        "fixed-point-31": ("the multiplier is kept in 31 bits of fixed point", _fixed_point),
        "fixed-point-24": ("the multiplier keeps 24 binary places", _few_bits(24)),
        "fixed-point-16": ("the multiplier keeps 16 binary places", _few_bits(16)),
    }
    for name, (about, rescale) in ways.items():
        yield _bug(name, "QLC-1", about, rescale=rescale)
    about = "input and filter are dequantized to FLOAT32 and convolved there"
    made = replace(HONEST, finish=_dequantized_first)
    yield mutant(OPERATOR, "dequantizes-first", "QLC-1", about, made)


def _dequantized_first(outputs: Outputs, case: Case) -> Outputs:
    """Dequantize everything to FLOAT32, convolve there, and quantize the result."""
    if case.desc is not None:
        return outputs
    given = case.inputs
    sx, sy = (given[f"{name}ScaleTensor"].reshape(-1)[0] for name in ("Input", "Output"))
    w = given["FilterTensor"]
    sw = each_channel(given["FilterScaleTensor"], len(w)).reshape((-1,) + (1,) * (w.ndim - 1))
    sums = Sums(
        centre=lambda array, zero: without(array, zero).astype(np.float32) * sx,
        centre_filters=lambda array, zero: without(array, zero).astype(np.float32) * sw,
        total=lambda products: np.add.accumulate(products, 1, np.float32)[:, -1],
        wrap=lambda total: total,
    )
    total = sums(Call(case.attributes, given, case.outputs))
    if "BiasTensor" in given:
        bias = given["BiasTensor"].reshape(-1).astype(np.float32) * sx * sw.reshape(-1)
        total = total + bias.reshape(_across(total))
    zero = given.get("OutputZeroPointTensor", np.zeros(1)).reshape(-1)[0]
    dtype = case.outputs["OutputTensor"].dtype
    quotient = np.nan_to_num(np.rint(total / sy).astype(np.float64)) + float(zero)
    low, high = RANGES[dtype]
    return {"OutputTensor": np.clip(quotient, low, high).astype(dtype)}


# -- output ------------------------------------------------------------------------------------


def _finished(change: Callable[[Array, Case], Array]) -> Callable[[Outputs, Case], Outputs]:
    return lambda outputs, case: {"OutputTensor": change(outputs["OutputTensor"], case)}


def _outputs() -> Iterator[Mutant]:
    about = "an absent output zero point is taken to be the middle of the range"
    middle = {"int8": 0, "uint8": 128}
    yield _bug("absent-output-zero-point-is-128", "QLC-11", about, absent=middle.__getitem__)
    finishes: dict[str, tuple[str, str, Callable[[Array, Case], Array]]] = {
        "output-is-uint8": (
            "QLC-10",
            "the output is UINT8 whatever was asked for",
            lambda y, case: y.astype(np.uint8),
        ),
        "output-has-type-of-input": (
            "QLC-10",
            "the output has the data type of the input",
            lambda y, case: y.astype(case.inputs["InputTensor"].dtype),
        ),
        "output-has-type-of-filter": (
            "QLC-10",
            "the output has the data type of the filter",
            lambda y, case: y.astype(case.inputs["FilterTensor"].dtype),
        ),
        "output-is-int32": ("QLC-10", "the output is INT32", lambda y, case: y.astype(np.int32)),
        "output-is-channels-last": (
            "QLC-1",
            "the output has its channels last",
            lambda y, case: np.moveaxis(y, 1, -1).reshape(y.shape),
        ),
        "output-axes-swapped": (
            "QLC-1",
            "batch and channels of the output are swapped",
            lambda y, case: np.swapaxes(y, 0, 1).reshape(y.shape),
        ),
        "output-is-flat": ("QLC-8", "the output has one dimension", lambda y, case: y.reshape(-1)),
        "output-without-batch": (
            "QLC-8",
            "a batch of one is left out of the sizes",
            lambda y, case: y[0] if len(y) == 1 else y,
        ),
    }
    for name, (clause, about, change) in finishes.items():
        made = replace(HONEST, finish=_finished(change))
        yield mutant(OPERATOR, name, clause, about, made)
    yield from _integer_outputs()


def _integer_outputs() -> Iterator[Mutant]:
    operator = "convolution_integer"
    finishes: dict[str, tuple[str, str, Callable[[Array, Case], Array]]] = {
        "output-is-int64": ("CVI-1", "the output is INT64", lambda y, case: y.astype(np.int64)),
        "output-is-uint32": ("CVI-1", "the output is UINT32", lambda y, case: y.astype(np.uint32)),
        "output-is-channels-last": (
            "CVI-1",
            "the output has its channels last",
            lambda y, case: np.moveaxis(y, 1, -1).reshape(y.shape),
        ),
        "output-axes-swapped": (
            "CVI-1",
            "batch and channels of the output are swapped",
            lambda y, case: np.swapaxes(y, 0, 1).reshape(y.shape),
        ),
        "output-is-flat": ("CVI-3", "the output has one dimension", lambda y, case: y.reshape(-1)),
        "output-through-float32": (
            "CVI-1",
            "the output has passed through FLOAT32",
            lambda y, case: _through_float32(y),
        ),
    }
    for name, (clause, about, change) in finishes.items():
        made = replace(HONEST, finish=_finished(change))
        yield mutant(operator, name, clause, about, made)


def _through_float32(array: Array) -> Array:
    wide = array.astype(np.float32).astype(np.float64)
    return np.asarray(wide.clip(-(2**31), 2**31 - 1).astype(np.int32))
