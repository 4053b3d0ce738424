"""Folded cells: the same sums, of arrays whose cells are 16 bytes, or nearer to it."""

import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._convolution.mosaic_gpu_fold import fold_filter, fold_input
from dmlax._convolution.mosaic_gpu_problem import Problem
from dmlax._convolution.plan import Convolution, Options, convolution_plan, filter_shape
from dmlax._convolution.prepare import pack
from dmlax._core.operands import Rules, aval_of

LAST = ("NHWC", "OHWI", "NHWC")
# channels, sizes, kernel, strides, dilations, padding, fold
CASES = [
    (4, (8, 8), (7, 7), (2, 2), (1, 1), ((3, 3), (3, 3)), (2, 2)),
    (4, (9, 7), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (2, 2)),
    (4, (9, 11), (3, 5), (2, 2), (1, 1), ((0, 2), (1, 4)), (2, 2)),
    (4, (9, 11), (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)), (2, 2)),
    (4, (17, 16), (4, 4), (4, 4), (1, 1), ((1, 3), (2, 3)), (1, 4)),
    (4, (12, 13), (5, 3), (6, 6), (1, 1), ((0, 0), (5, 0)), (2, 2)),
    (4, (12, 13), (5, 3), (3, 3), (1, 1), ((0, 0), (2, 0)), (1, 1)),
    (4, (12, 13), (3, 3), (2, 2), (1, 2), ((2, 0), (2, 0)), (2, 1)),
    (4, (12, 13), (3, 3), (2, 2), (2, 1), ((2, 0), (2, 0)), (1, 2)),
    (4, (12, 13), (3, 1), (2, 2), (1, 1), ((2, 0), (0, 0)), (2, 1)),
    (8, (9, 8), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (1, 2)),
    (8, (9, 8), (3, 3), (2, 1), (1, 1), ((1, 1), (1, 1)), (2, 1)),
    (12, (9, 8), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (4, (2, 3), (1, 2), (1, 8), (1, 1), ((0, 0), (3, 3)), (1, 4)),
]


def problem_of(x, w, strides, dilations, padding):
    rules = Rules("convolution_integer")
    shape = filter_shape(rules, aval_of(w), 1, LAST)
    options = Options(strides, dilations, padding, shape.layouts[0], shape.layouts[2])
    operands = Convolution(aval_of(x), None)
    return Problem.of(convolution_plan(rules, operands, shape, False, options))


@pytest.mark.parametrize("zero", [None, "one", "each"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("case", CASES)
def test_sums_are_the_same(case, dtype, zero):
    channels, sizes, kernel, strides, dilations, padding, fold = case
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    x = jnp.asarray(rng.integers(0, 256, (3, *sizes, channels), np.uint8))
    w = jnp.asarray(rng.integers(limits.min, limits.max + 1, (5, *kernel, channels), dtype))
    zeros = jnp.asarray(rng.integers(limits.min, limits.max + 1, 5, dtype))
    zero_point = {None: None, "one": zeros[:1], "each": zeros}[zero]
    problem = problem_of(x, w, strides, dilations, padding)
    assert problem.fold == fold
    assert problem.channels == channels * np.prod(fold)
    wanted = dmlax.convolution_integer(
        x,
        w,
        input_zero_point=jnp.uint8(7),
        filter_zero_point=zero_point,
        strides=strides,
        dilations=dilations,
        start_padding=[start for start, _ in padding],
        end_padding=[end for _, end in padding],
        dimension_numbers=LAST,
    )
    prepared = pack(problem.plan.filter, w, zero_point)
    filter = fold_filter(problem, prepared)
    assert (filter.sums == filter.packed.sum(axis=1, dtype=jnp.int32)).all()
    # The packed rows as a filter: int8, and what was off by 128 has a zero point.
    offset = 128 if dtype == "uint8" else 0
    packed_zero = (0 if zero is None else zero_point.astype(jnp.int32)) - offset
    got = dmlax.convolution_integer(
        fold_input(problem, x, jnp.uint8(7)),
        filter.packed.reshape(5, *problem.kernel, problem.channels),
        input_zero_point=jnp.uint8(7),
        filter_zero_point=jnp.asarray(packed_zero, jnp.int8),
        strides=problem.strides,
        dilations=problem.dilations,
        start_padding=[start for start, _ in problem.padding],
        end_padding=[end for _, end in problem.padding],
        dimension_numbers=LAST,
    )
    np.testing.assert_array_equal(got[:, : wanted.shape[1], : wanted.shape[2]], wanted)


@pytest.mark.parametrize(
    ("groups", "channels"), [(2, 2), (1, 16)], ids=["several groups", "whole chunks"]
)
def test_other_cells_are_left_alone(groups, channels):
    x, w = (
        jnp.zeros((1, 8, 8, groups * channels), jnp.uint8),
        jnp.zeros((4, 3, 3, channels), jnp.int8),
    )
    rules = Rules("convolution_integer")
    shape = filter_shape(rules, aval_of(w), groups, LAST)
    options = Options((2, 2), (1, 1), ((1, 1), (1, 1)), shape.layouts[0], shape.layouts[2])
    plan = convolution_plan(rules, Convolution(aval_of(x), None), shape, False, options)
    assert Problem.of(plan).fold == (1, 1)
