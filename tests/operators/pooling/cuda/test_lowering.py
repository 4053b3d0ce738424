"""The Hopper kernel of max_pooling: lowered on a CPU, refused where it cannot run."""

import jax
import numpy as np
import pytest

import dmlax
from dmlax._core import labels
from dmlax._operators.pooling.cuda import lowering

LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}


def why_not(shape, **options):
    call = {"window_size": 3, "dimension_numbers": LAST[len(shape)], **options}
    x = np.zeros(shape, np.uint8)
    (label,) = labels.labels(jax.make_jaxpr(lambda x: dmlax.max_pooling(x, **call))(x).jaxpr)
    return lowering.why_not(label.plan, "cuda")


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ((1, 9, 9, 6), {}, "multiple of 4"),
        ((1, 4, 9, 9), {"dimension_numbers": "NCHW"}, "not last"),
        ((1, 5, 5, 5, 4), {}, "three spatial axes"),
        ((1, 9, 9, 4), {"window_size": 6}, "more than 32 elements"),
        ((1, 9, 9, 4), {"dilations": 2}, "dilated"),
        ((1, 9, 9, 4), {"start_padding": 3}, "padding alone"),
        ((1, 9, 9, 4), {"end_padding": 3}, "padding alone"),
    ],
)
def test_what_the_kernel_cannot_take_is_refused_in_a_sentence(attached, shape, options, words):
    assert words in why_not(shape, **options)


@pytest.mark.parametrize("padding", [0, 2])
def test_windows_that_meet_the_input_are_taken(attached, padding):
    assert why_not((1, 9, 9, 4), start_padding=padding, end_padding=padding) is None
