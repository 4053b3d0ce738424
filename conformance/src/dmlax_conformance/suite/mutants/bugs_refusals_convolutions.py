"""Planted bugs of both convolutions: which calls are refused, and how."""

from collections.abc import Callable, Iterator

import numpy as np

from .record import Mutant
from .refusing import (
    Row,
    When,
    accepts,
    blames_code,
    blames_field,
    entries,
    has,
    is_long,
    rank,
    refuses,
    rows,
    windows,
)
from .steps import Call

QUANTIZED, INTEGER = "quantized_linear_convolution", "convolution_integer"
IMAGE, FILTER = "InputTensor", "FilterTensor"
SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
OPTIONS = ("Strides", "Dilations", "StartPadding", "EndPadding")
CLAUSES = {
    QUANTIZED: {"type": "QLC-10", "rank": "QLC-14", "option": "QLC-8", "group": "QLC-9"},
    INTEGER: {"type": "CVI-4", "rank": "CVI-7", "option": "CVI-3", "group": "CVI-3"},
}


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    for operator, clauses in CLAUSES.items():
        common = [*_types(clauses["type"]), *_ranks(clauses["rank"])]
        common += [*_options(clauses["option"]), *_channels(clauses), *_common_blame(clauses)]
        yield from rows(operator, [*common, *_refusing(operator, clauses)])
    yield from rows(INTEGER, [*_integer_parameters()])
    yield from rows(QUANTIZED, [*_quantized_types(), *_lengths(), *_values()])


def _short(name: str) -> str:
    """Return "filter-scale" for FilterScaleTensor."""
    words = "".join(f"-{c.lower()}" if c.isupper() else c for c in name.removesuffix("Tensor"))
    return words.lstrip("-")


# -- common to both ----------------------------------------------------------------------------


def _types(clause: str) -> Iterator[Row]:
    for name in (IMAGE, FILTER, "InputZeroPointTensor", "FilterZeroPointTensor"):
        about = f"{name} may have any data type"
        yield f"accepts-{_short(name)}-type", clause, about, accepts("data_type", name)
    for name, dtype in ((IMAGE, "float32"), (IMAGE, "complex64"), (FILTER, "int32")):
        about = f"{name} may be {dtype.upper()}"
        made = accepts("data_type", name, has(name, dtype))
        yield f"accepts-{_short(name)}-{dtype}", clause, about, made
    signs = has("InputZeroPointTensor", "int8", "uint8")
    about = "InputZeroPointTensor may have the other sign"
    made = accepts("data_type", "InputZeroPointTensor", signs)
    yield "accepts-input-zero-point-sign", clause, about, made


def _ranks(clause: str) -> Iterator[Row]:
    for wrong in (2, 5):
        about = f"an input of rank {wrong} is accepted"
        made = accepts("dimension_count", IMAGE, rank(IMAGE, wrong))
        yield f"accepts-rank-{wrong}", clause, about, made
    about = "the filter may have another rank than the input"
    yield "accepts-filter-rank", clause, about, accepts("dimension_count", FILTER)
    for wrong in (3, 5):
        about = f"a filter of rank {wrong} is accepted for an input of rank 4"
        made = accepts("dimension_count", FILTER, rank(FILTER, wrong))
        yield f"accepts-filter-rank-{wrong}", clause, about, made


def _options(clause: str) -> Iterator[Row]:
    """Check an attribute in part: too few entries, too many, one axis, one side of the limit."""
    for field in OPTIONS:
        low = 1 if field in ("Strides", "Dilations") else 0
        for name, (text, wrong) in _partial(low).items():
            if name == "zero" and low == 0:
                continue
            made = accepts("option", field, entries(field, wrong))
            yield f"accepts-{_short(field)}-{name}", clause, f"{field} {text}", made


def _partial(low: int) -> dict[str, tuple[str, Callable[[list[int], int], bool]]]:
    return {
        "count": ("may have any number of entries", lambda given, axes: len(given) != axes),
        "too-few": ("may have too few entries", lambda given, axes: len(given) < axes),
        "too-many": ("may have too many entries", lambda given, axes: len(given) > axes),
        "range": (
            f"may have entries below {low}",
            lambda given, axes: len(given) == axes and min(given) < low,
        ),
        "zero": (
            "may have entries of 0",
            lambda given, axes: len(given) == axes and min(given) == 0,
        ),
        "negative": (
            "may have negative entries",
            lambda given, axes: len(given) == axes and min(given) < 0,
        ),
        "first": (
            "may have any first entry",
            lambda given, axes: len(given) == axes and given[0] < low,
        ),
        "last": (
            "may have any last entry",
            lambda given, axes: len(given) == axes and given[-1] < low,
        ),
    }


def _groups_of(call: Call) -> int:
    return int(call.attributes["GroupCount"])


def _fits_channels(call: Call) -> bool:
    image, kernel = call.inputs[IMAGE].shape, call.inputs[FILTER].shape
    return bool(image[1] == kernel[1] * _groups_of(call))


def _channels(clauses: dict[str, str]) -> Iterator[Row]:
    group, option = clauses["group"], clauses["option"]
    made = accepts("option", "GroupCount", lambda call: _groups_of(call) == 0)
    yield "accepts-no-groups", group, "GroupCount may be 0", made
    made = accepts("option", "GroupCount", lambda call: _groups_of(call) < 0)
    yield "accepts-negative-groups", group, "GroupCount may be negative", made
    about = "groups need not divide the output channels"
    yield "accepts-uneven-groups", group, about, accepts("sizes", "GroupCount")
    about = "input and filter may have any channels"
    made = accepts("sizes", FILTER, lambda call: not _fits_channels(call))
    yield "accepts-any-channels", group, about, made
    about = "a filter may have more channels than a group of the input"
    yield "accepts-more-channels", group, about, accepts("sizes", FILTER, _compared(1))
    about = "a filter may have fewer channels than a group of the input"
    yield "accepts-fewer-channels", group, about, accepts("sizes", FILTER, _compared(-1))
    about = "a kernel may be larger than the padded input"
    yield "accepts-large-kernel", option, about, accepts("sizes", FILTER, _fits_channels)
    for label, axis in {"high": 0, "wide": -1}.items():
        made = accepts("sizes", FILTER, _exceeds(axis))
        about = f"a kernel may be too {label}"
        yield f"accepts-{label}-kernel", option, about, made
    about = "a dilated kernel is measured without its dilation"
    made = accepts("sizes", FILTER, lambda call: not _exceeds_bare(call))
    yield "accepts-dilated-kernel", option, about, made


def _compared(sign: int) -> When:
    """Say whether the filter has more channels (1) or fewer (-1) than a group."""

    def test(call: Call) -> bool:
        image, kernel = call.inputs[IMAGE].shape, call.inputs[FILTER].shape
        return bool((kernel[1] * _groups_of(call) - image[1]) * sign > 0)

    return test


def _room(call: Call, dilations: list[int]) -> list[int]:
    """Return by how much the padded input exceeds the kernel on each axis."""
    image, kernel = call.inputs[IMAGE].shape[2:], call.inputs[FILTER].shape[2:]
    pads = (call.attributes[name] for name in OPTIONS[2:])
    rows = zip(image, kernel, dilations, *pads, strict=True)
    return [n + start + end - (k - 1) * d - 1 for n, k, d, start, end in rows]


def _exceeds(axis: int) -> When:
    return lambda call: _fits_channels(call) and _room(call, call.attributes["Dilations"])[axis] < 0


def _exceeds_bare(call: Call) -> bool:
    ones = [1] * len(call.attributes["Dilations"])
    return not _fits_channels(call) or min(_room(call, ones)) < 0


def _common_blame(clauses: dict[str, str]) -> Iterator[Row]:
    about = "a wrong attribute is called a wrong size"
    yield "option-is-sizes", clauses["option"], about, blames_code("option", "sizes")
    about = "a wrong attribute is called a wrong value"
    yield "option-is-value", clauses["option"], about, blames_code("option", "value")
    about = "a wrong data type is called a wrong value"
    yield "type-is-value", clauses["type"], about, blames_code("data_type", "value")
    about = "a wrong rank is called wrong sizes"
    yield "rank-is-sizes", clauses["rank"], about, blames_code("dimension_count", "sizes")
    about = "start and end padding are blamed for each other"
    made = blames_field("StartPadding", "EndPadding")
    yield "start-padding-blames-end", clauses["option"], about, made
    about = "a wrong filter is blamed on the input"
    yield "filter-blames-input", clauses["group"], about, blames_field(FILTER, IMAGE, "sizes")
    about = "groups that do not divide are blamed on the filter"
    made = blames_field("GroupCount", FILTER, "sizes")
    yield "groups-blame-filter", clauses["group"], about, made


def _refusing(operator: str, clauses: dict[str, str]) -> Iterator[Row]:
    option, points = clauses["option"], "QLC-11" if operator == QUANTIZED else "CVI-1"
    made = refuses("dimension_count", IMAGE, rank(IMAGE, 3))
    yield "refuses-rank-3", clauses["rank"], "one spatial dimension is refused", made
    tests = {
        "strides-differ": ("strides that differ", lambda w: len(set(w.strides)) > 1),
        "dilations": ("dilations above 1", lambda w: max(w.dilations) > 1),
        "one-sided-padding": ("start and end padding that differ", lambda w: w.start != w.end),
    }
    for name, (text, test) in tests.items():
        made = refuses("option", "Strides", windows(test))
        yield f"refuses-{name}", option, f"{text} are refused", made
    made = refuses("option", "StartPadding", _kernel_within_padding)
    about = "padding as large as the kernel is refused"
    yield "refuses-large-padding", option, about, made
    made = refuses("sizes", FILTER, _kernel_beyond_image)
    about = "a kernel larger than the bare input is refused"
    yield "refuses-kernel-beyond-input", option, about, made
    made = refuses("option", "GroupCount", windows(lambda w: w.groups > 1))
    yield "refuses-groups", clauses["group"], "groups are refused", made
    about = "more output channels than groups are refused"
    made = refuses("sizes", "GroupCount", _is_multiplied)
    yield "refuses-multiplier", clauses["group"], about, made
    about = "an input and a filter of different types are refused"
    yield "refuses-mixed-types", clauses["type"], about, refuses("data_type", FILTER, _is_mixed)
    made = refuses("missing_tensor", "InputZeroPointTensor", _lacks("InputZeroPointTensor"))
    yield "refuses-no-input-zero-point", points, "an input zero point is required", made


def _lacks(name: str) -> When:
    return lambda call: name not in call.inputs


def _kernel_within_padding(call: Call) -> bool:
    kernel = call.inputs[FILTER].shape[2:]
    pads = zip(call.attributes["StartPadding"], kernel, strict=True)
    return any(pad >= size for pad, size in pads)


def _kernel_beyond_image(call: Call) -> bool:
    image, kernel = call.inputs[IMAGE].shape[2:], call.inputs[FILTER].shape[2:]
    return any(k > n for k, n in zip(kernel, image, strict=True))


def _is_multiplied(call: Call) -> bool:
    return bool(1 < _groups_of(call) < call.inputs[FILTER].shape[0])


def _is_mixed(call: Call) -> bool:
    return call.inputs[IMAGE].dtype != call.inputs[FILTER].dtype


# -- of one of them ----------------------------------------------------------------------------


def _integer_parameters() -> Iterator[Row]:
    made = accepts("sizes", "InputZeroPointTensor")
    yield "accepts-input-zero-points", "CVI-4", "an input zero point may be one of many", made
    made = accepts("sizes", "FilterZeroPointTensor")
    about = "filter zero points may have any number"
    yield "accepts-filter-zero-points", "CVI-5", about, made
    about = "there may be a filter zero point for each input channel"
    made = accepts("sizes", "FilterZeroPointTensor", _is_by_input("FilterZeroPointTensor"))
    yield "accepts-filter-zero-point-by-input", "CVI-5", about, made
    made = refuses("sizes", "FilterZeroPointTensor", is_long("FilterZeroPointTensor"))
    about = "one filter zero point for each channel is refused"
    yield "refuses-filter-zero-points", "CVI-5", about, made


def _quantized_types() -> Iterator[Row]:
    for name in (*SCALES, "BiasTensor", "OutputZeroPointTensor", "OutputTensor"):
        about = f"{name} may have any data type"
        yield f"accepts-{_short(name)}-type", "QLC-10", about, accepts("data_type", name)
    for name, dtype in (("BiasTensor", "float32"), ("BiasTensor", "int8")):
        about = f"{name} may be {dtype.upper()}"
        made = accepts("data_type", name, has(name, dtype))
        yield f"accepts-{_short(name)}-{dtype}", "QLC-10", about, made
    signs = has("OutputZeroPointTensor", "int8", "uint8")
    about = "OutputZeroPointTensor may have the other sign"
    made = accepts("data_type", "OutputZeroPointTensor", signs)
    yield "accepts-output-zero-point-sign", "QLC-10", about, made


def _lengths() -> Iterator[Row]:
    names = ("InputScaleTensor", "OutputScaleTensor", "InputZeroPointTensor")
    for name in (*names, "OutputZeroPointTensor", "FilterScaleTensor", "FilterZeroPointTensor"):
        about = f"{name} may have any number of elements"
        yield f"accepts-{_short(name)}-sizes", "QLC-7", about, accepts("sizes", name)
    made = accepts("sizes", "BiasTensor")
    yield "accepts-bias-sizes", "QLC-4", "BiasTensor may have any number of elements", made
    about = "one bias for all channels is accepted"
    made = accepts("sizes", "BiasTensor", lambda call: call.inputs["BiasTensor"].size == 1)
    yield "accepts-one-bias", "QLC-4", about, made
    for name in ("FilterScaleTensor", "FilterZeroPointTensor"):
        about = f"{name} may have one value for each input channel"
        made = accepts("sizes", name, _is_by_input(name))
        yield f"accepts-{_short(name)}-by-input", "QLC-7", about, made
    about = "a bias that is a multiple of the channels is accepted"
    made = accepts("sizes", "BiasTensor", _is_multiple)
    yield "accepts-bias-multiple", "QLC-4", about, made
    about = "a filter scale may fill two dimensions"
    made = accepts("sizes", "FilterScaleTensor", lambda call: _long_axes(call) > 1)
    yield "accepts-filter-scale-square", "QLC-7", about, made
    for name in ("FilterScaleTensor", "FilterZeroPointTensor"):
        about = f"{name} must be one value"
        yield f"refuses-{_short(name)}s", "QLC-7", about, refuses("sizes", name, is_long(name))
    about = "filter scale and filter zero point must have the same sizes"
    yield "refuses-mixed-granularity", "QLC-7", about, refuses("sizes", SCALES[1], _is_uneven)
    about = "parameters of rank 1 are refused"
    made = refuses("dimension_count", SCALES[1], rank(SCALES[1], 1))
    yield "refuses-parameters-of-rank-1", "QLC-7", about, made
    made = refuses("missing_tensor", "BiasTensor", _lacks("BiasTensor"))
    yield "refuses-no-bias", "QLC-11", "a bias is required", made
    about = "a wrong number of filter scales is blamed on the zero point"
    made = blames_field(SCALES[1], "FilterZeroPointTensor", "sizes")
    yield "filter-scale-blames-zero-point", "QLC-7", about, made
    about = "wrong sizes of a parameter are called a wrong dimension count"
    names_ = "InputScaleTensor OutputScaleTensor InputZeroPointTensor OutputZeroPointTensor"
    made = blames_code("sizes", "dimension_count", names_)
    yield "parameter-is-dimension-count", "QLC-7", about, made


def _is_by_input(name: str) -> When:
    return lambda call: call.inputs[name].size == call.inputs[IMAGE].shape[1]


def _is_multiple(call: Call) -> bool:
    return bool(call.inputs["BiasTensor"].size % call.inputs[FILTER].shape[0] == 0)


def _long_axes(call: Call) -> int:
    return sum(size > 1 for size in call.inputs[SCALES[1]].shape)


def _is_uneven(call: Call) -> bool:
    zero = call.inputs.get("FilterZeroPointTensor")
    return zero is not None and (zero.size > 1) != (call.inputs[SCALES[1]].size > 1)


def _values() -> Iterator[Row]:
    tests = {
        "zero": ("zero", lambda scale: scale == 0),
        "nan": ("NaN", np.isnan),
        "infinite": ("infinite", np.isinf),
    }
    for name in SCALES:
        about = f"{name} may have any value"
        yield f"accepts-{_short(name)}-value", "QLC-13", about, accepts("value", name)
        for label, (text, test) in tests.items():
            made = accepts("value", name, lambda call, n=name, t=test: t(call.inputs[n]).any())  # type: ignore[misc]
            yield f"accepts-{_short(name)}-{label}", "QLC-13", f"{name} may be {text}", made
    for label, wrong in {"first": -1, "last": 0}.items():
        about = f"only the {label} filter scale is looked at"
        made = accepts("value", SCALES[1], lambda call, at=wrong: _is_bad(call, at))  # type: ignore[misc]
        yield f"checks-{label}-filter-scale-only", "QLC-13", about, made
    for name in SCALES:
        about = f"{name} must not be negative"
        made = refuses("value", name, lambda call, n=name: (call.inputs[n] < 0).any())  # type: ignore[misc]
        yield f"refuses-negative-{_short(name)}", "QLC-13", about, made
    about = "subnormal scales are refused"
    made = refuses("value", SCALES[0], lambda call: any(_is_tiny(call, name) for name in SCALES))
    yield "refuses-subnormal-scales", "QLC-13", about, made
    about = "a wrong scale is called a wrong data type"
    yield "value-is-type", "QLC-13", about, blames_code("value", "data_type")
    about = "a wrong output scale is blamed on the input scale"
    yield "output-scale-blames-input", "QLC-13", about, blames_field(SCALES[2], SCALES[0], "value")


def _is_bad(call: Call, place: int) -> bool:
    scale = call.inputs[SCALES[1]].reshape(-1)[place]
    return not np.isfinite(scale) or scale == 0


def _is_tiny(call: Call, name: str) -> bool:
    return bool((np.abs(call.inputs[name]) < np.finfo(np.float32).tiny).any())
