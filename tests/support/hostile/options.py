"""A program that gives operators random options of up to 2^64: a crash ends it.

    PYTHONPATH=tests python -m support.hostile.options max_pooling

Every implementation gives the same bits, or each raises the same error of dmlax. The program prints
each call before it makes it, so the last line names the call that ended the process.
"""

import functools
import inspect
import math
import os
import re
import resource
import sys
from collections.abc import Callable
from typing import Any

import hypothesis
import jax
import numpy as np
from hypothesis import strategies as st

import dmlax
from dmlax._core.arguments import Aval
from dmlax._operators.registry import OPERATORS
from support import NATIVE, assert_same
from support.wrong_calls import VALID

MOST_RUN = 1 << 16  # elements of a padded image, and of an output, of a call that is made
MOST_PLANNED = 1 << 44  # elements of a call that is planned
MOST_GROWTH = 1 << 20  # KiB that all calls together may add to the process
HUGE = [2**16, 2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64]
SMALL = st.integers(0, 4)
ANY = st.one_of(SMALL, st.sampled_from(HUGE), st.integers(-(2**64), 2**64))
BYTES = np.arange(2 * 4 * 5 * 6, dtype=np.uint8).reshape(2, 4, 5, 6)
FILTER = np.arange(4 * 2 * 2 * 2, dtype=np.uint8).view(np.int8).reshape(4, 2, 2, 2)
BIAS = np.int32([1, -2, 3, 4])


@st.composite
def numbers(draws: Any) -> Any:
    """Small numbers, and some that are about as large as one another, or a few times that."""
    unit = draws(st.one_of(st.sampled_from(HUGE), st.integers(1, 2**64)))
    related = [unit, unit // 2, unit - 1, unit + 1, 2 * unit]
    return st.one_of(SMALL, SMALL, st.sampled_from(related))


@st.composite
def windows(draws: Any, *names: str) -> dict[str, Any]:
    """Options that shape windows: one number for both axes, a pair of them or nothing."""
    each = draws(numbers())
    options: dict[str, Any] = {}
    for name in names:
        value = draws(st.one_of(st.none(), each, st.tuples(each, each), st.tuples(SMALL, each)))
        if value is not None or name == "window_size":
            options[name] = (1, 2) if value is None else value
    return options


PADDING = ("strides", "start_padding", "end_padding", "dilations")


@st.composite
def convolutions(draws: Any) -> dict[str, Any]:
    """The options of a convolution; "SAME" makes padding of dilations."""
    options = draws(windows(*PADDING))
    options["group_count"] = draws(st.sampled_from([2, 2, 2, 2, 0, *HUGE]))
    if draws(st.integers(0, 3)) == 0:
        options = {k: v for k, v in options.items() if "padding" not in k}
        pair = st.tuples(draws(numbers()), draws(numbers()))
        options["padding"] = draws(st.one_of(st.sampled_from(["SAME", "SAME_LOWER"]), pair))
    return options


def some(**strategies: Any) -> Any:
    """Some of these options."""
    return st.fixed_dictionaries({}, optional=strategies)


NUMBERS = re.compile(r"axis|size|coordinate_rank|fill_value|(.+_)?zero_point|(output|a)_scale")
Call = tuple[Callable[..., Any], tuple[Any, ...], Any]


def plain(name: str) -> Call:
    """A function with valid arguments, and options of any size for the parameters that have one."""
    function = getattr(dmlax, name)
    given = {name: varied(value) for name, value in VALID[name].items()}
    parameters = inspect.signature(function).parameters.values()
    tensors = [x.name for x in parameters if x.kind == x.POSITIONAL_ONLY and x.name in given]
    arrays = tuple(given.pop(name) for name in tensors)
    numbers = [x.name for x in parameters if x.kind == x.KEYWORD_ONLY and NUMBERS.fullmatch(x.name)]
    options = some(**dict.fromkeys(numbers, ANY))
    if given.pop("window_size", None):
        options = windows("window_size", *PADDING)
    return functools.partial(function, **given), arrays, options


def varied(value: Any) -> Any:
    """An array of other numbers; any other value as it is."""
    if not isinstance(value, np.ndarray):
        return value
    return (np.arange(value.size) * 1.5 - 2).astype(value.dtype).reshape(value.shape)


LAYER = BYTES, FILTER, BIAS
LAYER_SCALES = {"input_scale": 0.5, "output_scale": 0.25, "filter_scale": 0.5}
QUANTIZED = functools.partial(dmlax.quantized_linear_convolution, **LAYER_SCALES)
WITH_FILTERS: dict[str, Call] = {
    "convolution_integer": (dmlax.convolution_integer, LAYER[:2], convolutions()),
    "quantized_linear_convolution": (QUANTIZED, LAYER, convolutions()),
    "quantized_linear_convolution_add": (
        functools.partial(
            dmlax.quantized_linear_convolution_add, **LAYER_SCALES, addend_scale=1, sum_scale=1
        ),
        (*LAYER, np.zeros((2, 4, 4, 5), np.uint8)),
        convolutions(),
    ),
    "prepare_filter": (
        lambda w, implementation, **options: QUANTIZED(
            BYTES, dmlax.prepare_filter(w, **options), BIAS, implementation=implementation
        ),
        (FILTER,),
        some(group_count=ANY, filter_zero_point=ANY),
    ),
}
CALLS = {row.name: plain(row.name) for row in OPERATORS} | WITH_FILTERS
ERRORS = dmlax.SpecError, dmlax.UnsupportedError


def outcome(call: Callable[..., Any], implementation: Any) -> Any:
    """The result, or the error's class and words."""
    try:
        return jax.block_until_ready(call(implementation=implementation))
    except ERRORS as error:
        return type(error).__name__, str(error)


def is_error(found: Any) -> bool:
    return isinstance(found, tuple) and found[0] in [error.__name__ for error in ERRORS]


def elements(plan: Any) -> int:
    """The most elements that an output or a padded image has."""
    avals = jax.tree.leaves(plan.output, is_leaf=lambda leaf: isinstance(leaf, Aval))
    options = getattr(plan, "options", None)
    padding = getattr(getattr(options, "windows", options), "padding", ())
    padded = math.prod(6 + start + end for start, end in padding)
    return max(padded, *(aval.size for aval in avals))


def check(name: str, examples: int) -> None:
    """Draw calls of one operator, and compare what its implementations make of them."""
    function, arrays, strategy = CALLS[name]
    fixed = getattr(function, "keywords", {})
    plans = [functools.partial(row.operator.plan, **fixed) for row in OPERATORS if row.name == name]

    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None, derandomize="CI" in os.environ
    )
    @hypothesis.given(strategy)
    def agrees(options: dict[str, Any]) -> None:
        print(name, options, flush=True)
        call = functools.partial(function, *arrays, **options)
        for plan in plans:  # prepare_filter has none
            planned = outcome(lambda implementation, plan=plan: plan(*arrays, **options)[0], None)
            if not is_error(planned) and elements(planned) > MOST_RUN:  # planned, and not run
                shape = outcome(lambda **how: jax.eval_shape(functools.partial(call, **how)), "xla")
                assert is_error(shape) or elements(planned) <= MOST_PLANNED
                return
        wanted = outcome(call, "reference")
        for implementation in ("xla", *NATIVE, "auto"):
            found = outcome(call, implementation)
            if is_error(wanted):
                assert found == wanted
            else:
                jax.tree.map(assert_same, found, wanted)

    agrees()


def main(*names: str) -> None:
    """Check operators, and that they have taken little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in names:
        check(name, int(os.environ.get("EXAMPLES", "6")))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MOST_GROWTH, f"{grown} KiB"


if __name__ == "__main__":
    main(*sys.argv[1:])
