"""Names the right keyword where a call has a common wrong one."""

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

# From jax.lax, flax, PyTorch, ONNX and DirectML, by the name here.
_OTHER_NAMES = {
    "input": ("lhs", "x", "inputs", "data", "input_tensor"),
    "filter": ("rhs", "w", "weight", "weights", "kernel", "filters", "filter_tensor"),
    "a": ("A", "a_tensor"),
    "b": ("B", "b_tensor"),
    "bias": ("b", "B", "bias_tensor"),
    "scale": ("y_scale", "scales", "scale_tensor"),
    "zero_point": ("y_zero_point", "zero_points", "zero_point_tensor"),
    "addend": ("residual", "shortcut", "z", "sum"),
    "output_dtype": ("dtype", "preferred_element_type", "out_dtype"),
    "window_size": ("window", "window_dimensions", "window_shape", "kernel_shape", "kernel_size"),
    "include_padding": ("count_include_pad", "padding_included"),
    "strides": ("window_strides", "stride", "kernel_stride"),
    "dilations": ("rhs_dilation", "kernel_dilation", "dilation", "window_dilation"),
    "padding": ("pads", "auto_pad", "pad"),
    "group_count": ("feature_group_count", "groups", "group"),
    "dimension_numbers": ("data_format", "layout", "layouts"),
    "fill_value": ("fill", "pad_value"),
    "size": ("max_size", "capacity"),
    "coordinate_rank": ("rank", "ndim"),
    "axis": ("dim", "channel_axis", "quantized_dimension"),
    "arithmetic": ("rounding", "precision"),
    "implementation": ("backend", "platform"),
}
# Of the tensors whose scales and zero points are keywords, by the name here.
_OTHER_TENSORS = {
    "output": ("y", "out", "result"),
    "input": ("x", "lhs", "a", "data"),
    "filter": ("w", "weight", "weights", "kernel", "rhs", "b"),
    "a": ("x", "lhs", "input", "data"),
    "b": ("w", "weight", "weights", "kernel", "rhs", "filter", "other"),
    "addend": ("z", "residual", "shortcut", "c"),
}
_PARAMETERS = ("_scale", "_zero_point")
_ORDINALS = ("first", "second", "third", "fourth")


def name_right_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Replaces Python's `TypeError` for an unknown keyword by one that names the right one."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            explain_keywords(function, kwargs, args)
            raise

    return call


def explain_keywords(
    function: Callable[..., object], keywords: Collection[str], args: Sequence[object] = ()
) -> None:
    """Raises a `TypeError` that names the right keyword if a call's keyword is wrong or absent."""
    parameters = inspect.signature(function).parameters
    hint = next(filter(None, (_hint(name, parameters) for name in keywords)), None)
    hint = hint or _too_many(len(args), parameters)
    if hint is not None:
        raise TypeError(f"{function.__name__}() {hint}") from None


def expect_call(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    """Raises the `TypeError` of a call whose arguments do not fit the function."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        explain_keywords(function, kwargs, args)
        raise TypeError(f"{function.__name__}() {error}") from None


def _hint(name: str, parameters: Mapping[str, inspect.Parameter]) -> str | None:
    """The words for a keyword that is none of the parameters', or is by position only."""
    if name in parameters:
        return _by_position(name, parameters)
    meant = _meant(name, parameters)
    text = f"got an unexpected keyword argument {name!r}"
    if meant is None:
        alike = [p for p in parameters if p.endswith(_PARAMETERS) and name.endswith(_PARAMETERS)]
        return f"{text}; the keywords of tensors are {', '.join(alike)}" if alike else text
    return f"{text}; {_by_position(meant, parameters) or f'the keyword is {meant!r}'}"


def _too_many(count: int, parameters: Mapping[str, inspect.Parameter]) -> str | None:
    """The words for arguments by position that are keywords."""
    kinds = [parameter.kind for parameter in parameters.values()]
    allowed = len(kinds) - kinds.count(inspect.Parameter.KEYWORD_ONLY)
    if count <= allowed or inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    names = [*parameters][allowed:count]
    return f"takes {allowed} arguments by position; the next are keywords: {', '.join(names)}"


def _by_position(name: str, parameters: Mapping[str, inspect.Parameter]) -> str | None:
    if parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY:
        return None
    ordinal = _ORDINALS[list(parameters).index(name)]
    return f"takes {name!r} as its {ordinal} positional-only argument"


def _meant(name: str, parameters: Collection[str]) -> str | None:
    known = [right for right, others in _OTHER_NAMES.items() if name in others]
    for kind in filter(name.endswith, _PARAMETERS):
        tensor = name.removesuffix(kind)
        known += [right + kind for right, others in _OTHER_TENSORS.items() if tensor in others]
        # Two letters make most names of scales close to each other.
        parameters = [p for p in parameters if len(tensor) > 3 or p in known]
    close = difflib.get_close_matches(name, parameters, 1)
    return next((right for right in known if right in parameters), close[0] if close else None)
