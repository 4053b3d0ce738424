"""Space-to-depth and merged groups, for the Hopper kernels: the same sums."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core.arguments import aval_of
from dmlax._operators.convolution.cuda.problem import ConvProblem
from dmlax._operators.convolution.cuda.space_to_depth import ChannelTransform
from dmlax._operators.convolution.prepare import PACKER
from support import draw
from support.cases.convolution import integer_plan

LAST = ("NHWC", "OHWI", "NHWC")
X_ZERO = jnp.uint8(7)
# channels, sizes, kernel, strides, dilations, padding, block
CASES = [
    (4, (8, 8), (7, 7), (2, 2), (1, 1), ((3, 3), (3, 3)), (2, 2)),
    (4, (9, 7), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (2, 2)),
    (4, (9, 11), (3, 5), (2, 2), (1, 1), ((0, 2), (1, 4)), (2, 2)),
    (4, (9, 11), (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)), (2, 2)),
    (4, (17, 16), (4, 4), (4, 4), (1, 1), ((1, 3), (2, 3)), (1, 4)),
    (4, (12, 13), (5, 3), (6, 6), (1, 1), ((0, 0), (5, 0)), (2, 2)),
    (4, (12, 13), (5, 3), (3, 3), (1, 1), ((0, 0), (2, 0)), (1, 1)),
    (4, (12, 13), (3, 3), (2, 2), (1, 2), ((2, 0), (2, 0)), (2, 1)),
    (4, (12, 13), (3, 3), (2, 2), (1, 2), ((2, 0), (2, 3)), (2, 1)),
    (4, (12, 13), (3, 3), (2, 2), (2, 1), ((2, 0), (2, 0)), (1, 2)),
    (4, (12, 13), (3, 1), (2, 2), (1, 1), ((2, 0), (0, 0)), (2, 1)),
    (8, (9, 8), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (1, 2)),
    (8, (9, 8), (3, 3), (2, 1), (1, 1), ((1, 1), (1, 1)), (2, 1)),
    (12, (9, 8), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (4, (2, 3), (1, 2), (1, 8), (1, 1), ((0, 0), (3, 3)), (1, 4)),
    (4, (1, 1), (3, 2), (2, 8), (1, 1), ((1, 1), (3, 3)), (1, 4)),
    (4, (1, 8), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (2, 2)),
]
# groups, channels and outputs of each, groups that are merged
GROUPS = [
    (2, 4, 3, 2),
    (32, 4, 4, 16),
    (6, 8, 2, 6),
    (7, 12, 1, 1),
    (3, 64, 1, 1),
    (10, 4, 40, 1),
    (5, 4, 13, 1),
    (2, 68, 1, 1),
]


class Windows(NamedTuple):
    """A convolution's windows and groups."""

    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1))
    groups: int = 1

    def sums(self, x, w, zero_point):
        """The sums of a plan with these windows."""
        return dmlax.convolution_integer(
            x,
            w,
            input_zero_point=X_ZERO,
            filter_zero_point=zero_point,
            strides=self.strides,
            dilations=self.dilations,
            start_padding=[start for start, _ in self.padding],
            end_padding=[end for _, end in self.padding],
            group_count=self.groups,
            dimension_numbers=LAST,
        )


def transform_of(x, w, windows):
    plan = integer_plan(aval_of(x), aval_of(w), LAST, windows.groups, *windows[:3])
    return ChannelTransform.of(ConvProblem.of(plan))


def drawn(x_shape, w_shape, dtype, zero):
    x, w, zeros = draw(0, "uint8", x_shape), draw(1, dtype, w_shape), draw(2, dtype, w_shape[0])
    zero_point = {None: None, "one": zeros[:1], "each": zeros}[zero]
    return jnp.asarray(x), jnp.asarray(w), None if zero is None else jnp.asarray(zero_point)


def transformed_sums(transform, x, w, zero_point):
    """Sums of the transformed input and filter, by one program."""
    run = jax.jit(lambda x, w, zero_point: transform_and_sum(transform, x, w, zero_point))
    sums, filter = run(x, w, zero_point)
    rows = np.asarray(filter.packed)
    np.testing.assert_array_equal(filter.sums, rows.sum(axis=1, dtype=np.int32))
    return sums


def transform_and_sum(transform, x, w, zero_point):
    """The sums, and the filter, whose uint8 is int8 with a zero point."""
    problem = transform.target
    filter = transform.transform_filter(PACKER.pack(problem.plan.filter, w, zero_point))
    offset = 128 if w.dtype == jnp.uint8 else 0
    zero = (0 if zero_point is None else zero_point.astype(jnp.int32)) - offset
    packed = filter.packed.reshape(-1, *problem.kernel, problem.channels)
    windows = Windows(problem.strides, problem.dilations, problem.padding, problem.groups)
    sums = windows.sums(transform.transform_input(x, X_ZERO), packed, jnp.asarray(zero, jnp.int8))
    return sums, filter


def with_filters(cases):
    """Each case with a filter of one dtype, and no zero point, one or one a channel in turn."""
    dtypes, zeros = ["int8", "uint8"], [None, "one", "each"]
    return [(case, dtypes[i % 2], zeros[i % 3]) for i, case in enumerate(cases)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("case", "dtype", "zero"), with_filters(CASES))
def test_space_to_depth_gives_the_same_sums(case, dtype, zero):
    channels, sizes, kernel, strides, dilations, padding, block = case
    x, w, zero_point = drawn((3, *sizes, channels), (5, *kernel, channels), dtype, zero)
    windows = Windows(strides, dilations, padding)
    transform = transform_of(x, w, windows)
    assert (transform.block, transform.target.channels) == (block, channels * np.prod(block))
    got = transformed_sums(transform, x, w, zero_point)
    wanted = windows.sums(x, w, zero_point)
    np.testing.assert_array_equal(got[:, : wanted.shape[1], : wanted.shape[2]], wanted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("case", "dtype", "zero"), with_filters(GROUPS))
def test_merged_groups_give_the_same_sums(case, dtype, zero):
    groups, channels, outputs, merged = case
    x_shape, w_shape = (2, 5, 6, groups * channels), (groups * outputs, 3, 3, channels)
    x, w, zero_point = drawn(x_shape, w_shape, dtype, zero)
    windows = Windows(groups=groups)
    transform = transform_of(x, w, windows)
    assert (transform.merged_groups, transform.target.groups) == (merged, groups // merged)
    got = transformed_sums(transform, x, w, zero_point)
    np.testing.assert_array_equal(got, windows.sums(x, w, zero_point))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "target"),
    [
        (224, 7, 2, (3, 3), (115, 4, 1)),
        (227, 11, 4, (0, 0), (57, 3, 1)),
        (16, 4, 4, (2, 3), (6, 2, 1)),
        (16, 3, 8, (5, 0), (6, 2, 2)),
        (9, 2, 2, (0, 0), (5, 1, 1)),
        (14, 4, 8, (0, 14), (7, 1, 2)),
    ],
)
def test_space_to_depth_leaves_as_few_pixels_as_can_be(size, kernel, stride, padding, target):
    x, w, _ = drawn((1, 1, size, 4), (1, 1, kernel, 4), "int8", None)
    windows = Windows((1, stride), padding=((0, 0), padding))
    problem = transform_of(x, w, windows).target
    across = (each[1] for each in (problem.input, problem.kernel, problem.strides))
    assert tuple(across) == target
    assert not problem.padded


@pytest.mark.parametrize(
    ("groups", "channels"),
    [(2, 4), (8, 1), (1, 16), (1, 20)],
    ids=["groups", "depthwise", "a whole chunk", "more"],
)
def test_only_a_single_group_of_few_channels_goes_through_space_to_depth(groups, channels):
    x, w = drawn((1, 8, 8, groups * channels), (8, 3, 3, channels), "int8", None)[:2]
    transform = transform_of(x, w, Windows(strides=(2, 2), groups=groups))
    assert (transform.block, transform.merged_groups) == ((1, 1), 2 if groups == 2 else 1)
