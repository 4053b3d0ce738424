"""The plan of a convolution: shapes, the accumulator's bound and the largest tensors."""

import jax
import numpy as np
import pytest

import dmlax
from dmlax._core import dispatch

pytestmark = pytest.mark.oldest

INT32_MAX = 2**31 - 1


@pytest.fixture
def plan_of(monkeypatch):
    """The plan of a call on shapes alone."""

    def find(function, *shapes, **options):
        made = []

        def keep(operator, plan, operands, implementation):
            made.append(plan)

        monkeypatch.setattr(dispatch.Operator, "call", keep)
        jax.eval_shape(lambda *arrays: function(*arrays, **options), *shapes)
        return made[0]

    return find


def shape(dtype, *sizes):
    return jax.ShapeDtypeStruct(sizes, dtype)


BOUNDS = [
    ("uint8", "int8", {}, 255 * 128),
    ("int8", "int8", {}, 128 * 128),
    ("uint8", "uint8", {}, 255 * 255),
    ("int8", "int8", {"input_zero_point": 1}, 255 * 128),
    ("int8", "int8", {"input_zero_point": 1, "filter_zero_point": 1}, 255 * 255),
]


@pytest.mark.parametrize(("x", "w", "zero_points", "product"), BOUNDS, ids=str)
def test_the_accumulator_bound_is_the_worst_case_of_dtypes_and_zero_points(
    plan_of, x, w, zero_points, product
):
    plan = plan_of(
        dmlax.convolution_integer, shape(x, 1, 3, 4, 4), shape(w, 2, 3, 2, 2), **zero_points
    )
    assert plan.accumulator_bound == 12 * product


def test_the_bound_is_reached_and_overflow_is_told_from_it(plan_of):
    most = INT32_MAX // 255**2
    for channels, overflows in ((most, False), (most + 1, True)):
        plan = plan_of(
            dmlax.convolution_integer,
            shape(np.uint8, 1, channels, 1, 1),
            shape(np.uint8, 1, channels, 1, 1),
        )
        assert ("can overflow" in plan.notes()[0]) is overflows
        assert plan.accumulator_bound == channels * 255**2


def test_a_note_says_that_the_bias_is_not_counted(plan_of):
    scales = {"input_scale": 1, "filter_scale": 1, "output_scale": 1}
    plan = plan_of(
        dmlax.quantized_linear_convolution,
        *(shape(np.uint8, 1, 3, 4, 4), shape(np.int8, 2, 3, 2, 2), shape(np.int32, 2)),
        **scales,
    )
    assert plan.notes() == ["int32 accumulators cannot overflow: at most 391,680, the bias apart"]


def test_a_prepared_filters_zero_point_counts_in_the_bound(plan_of):
    prepared = jax.eval_shape(
        lambda w: dmlax.prepare_filter(w, filter_zero_point=1), shape(np.int8, 2, 3, 2, 2)
    )
    plan = plan_of(dmlax.convolution_integer, shape(np.int8, 1, 3, 4, 4), prepared)
    assert plan.prepared
    assert plan.accumulator_bound == 12 * 128 * 255


def test_shapes_too_large_to_hold_are_still_planned(plan_of):
    x, w = shape(np.uint8, 4096, 4096, 512, 512), shape(np.int8, 4096, 4096, 3, 3)
    plan = plan_of(dmlax.convolution_integer, x, w, start_padding=(1, 1), end_padding=(1, 1))
    assert plan.output.shape == (4096, 4096, 512, 512)


def test_a_bound_of_2_to_the_31_is_an_overflow(plan_of):
    x = shape(np.int8, 1, 2**17, 1, 1)
    plan = plan_of(dmlax.convolution_integer, x, x)
    assert plan.accumulator_bound == INT32_MAX + 1
    assert "can overflow" in plan.notes()[0]


@pytest.mark.parametrize(
    ("x", "w", "layout", "text"),
    [
        ((1, 6, 5), (4, 3, 3), ("NCW", "OIW", "NCW"), "int8[4,3,3] OIW, group_count 2"),
        (
            *((1, 5, 5, 6), (2, 3, 3, 4), ("NHWC", "HWIO", "NHWC")),
            "int8[2,3,3,4] HWIO, group_count 2",
        ),
    ],
    ids=["rank 3", "rank 4"],
)
def test_a_filter_is_shown_with_its_layout(plan_of, x, w, layout, text):
    options = {"group_count": 2, "dimension_numbers": layout}
    plan = plan_of(dmlax.convolution_integer, shape(np.int8, *x), shape(np.int8, *w), **options)
    assert str(plan.filter) == text


def quantized(plan_of, bias=None, outputs=2, **parameters):
    given = {"input_scale": 1.0, "filter_scale": 1.0, "output_scale": 1.0} | parameters
    arrays = [shape(np.uint8, 1, 3, 4, 4), shape(np.int8, outputs, 3, 2, 2)]
    arrays += [] if bias is None else [shape(np.int32, *bias)]
    return plan_of(dmlax.quantized_linear_convolution, *arrays, **given)


@pytest.mark.parametrize("name", ["input_scale", "filter_scale", "output_scale"])
def test_one_value_of_rank_5_is_refused(plan_of, name):
    with pytest.raises(dmlax.SpecError) as caught:
        quantized(plan_of, **{name: np.ones((1,) * 5, np.float32)})
    assert caught.value.code == "sizes"


def test_four_layouts_are_refused(plan_of):
    x, w = shape(np.uint8, 1, 3, 4, 4), shape(np.int8, 2, 3, 2, 2)
    with pytest.raises(dmlax.SpecError, match="expected three orders of the same axes"):
        plan_of(dmlax.convolution_integer, x, w, dimension_numbers=("NCHW", "OIHW", "NCHW", "NCHW"))


def test_a_plan_says_whether_it_quantizes_and_what_is_prepared(plan_of):
    x, w = shape(np.int8, 1, 3, 4, 4), shape(np.int8, 2, 3, 2, 2)
    assert quantized(plan_of).quantized is True
    text = "int8[1,3,4,4], int8[2,3,2,2] OIHW, group_count 1{} -> int32[1,2,3,3]"
    assert str(plan_of(dmlax.convolution_integer, x, w)) == text.format("")
    prepared = jax.eval_shape(dmlax.prepare_filter, w)
    assert str(plan_of(dmlax.convolution_integer, x, prepared)) == text.format(" prepared")
