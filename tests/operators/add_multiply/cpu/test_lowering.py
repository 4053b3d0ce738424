"""The native kernels of sums, products and lookups: threads, estimates, refusals."""

import jax
import numpy as np
import pytest

import dmlax
from support import assert_same, draw
from support.raw_calls import call_handler

SCALES = {"a_scale": 0.3, "b_scale": 0.7, "output_scale": 0.55}
FUNCTIONS = [
    dmlax.element_wise_quantized_linear_add,
    dmlax.element_wise_quantized_linear_multiply,
]
BINARY = ("int8", "uint8", "float32", "float32", "float32", "int8", "uint8", "int8", "int8")
LOOKUP = ("int8", "uint8", "uint8")


SHAPES = [  # 2^17 elements or more, which threads share
    ((300_007,), (300_007,)),
    ((3, 61, 31, 29), (3, 61, 1, 1)),
    ((2, 31, 29, 96), (2, 1, 1, 96)),
    ((5000, 37), (37,)),
    ((60_000, 3), (3,)),
    ((60_000, 1), (1, 3)),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_large_tensors_are_shared_between_threads(function, a, b):
    """Every element is that of its pair in a table."""
    x, y = draw(1, np.uint8, a), draw(2, np.int8, b)
    every = np.arange(256)
    table = np.asarray(function(every.astype(np.uint8)[:, None], every.astype(np.int8), **SCALES))
    assert_same(function(x, y, **SCALES), table[x, y.view(np.uint8)])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("output_scale", [0.55, 3e-39, 1e38, -0.25])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_estimates_and_elements_by_themselves_are_xlas(function, output_scale):
    """Each element is computed by itself where the scales' ratio is too large for estimates."""
    a, b = draw(3, np.uint8, (777,)), draw(4, np.uint8, (777,))
    for arithmetic in ("exact", "float32"):
        options = SCALES | {"output_scale": output_scale, "arithmetic": arithmetic}
        options |= {"a_zero_point": 130, "b_zero_point": 3, "output_zero_point": 7}
        wanted = function(a, b, implementation="xla", **options)
        assert_same(function(a, b, implementation="native_cpu", **options), wanted)


SAME = ((2, 3),) * 9
INVALID_CALLS = [
    *(
        ("dmlax_quantized_add_v1", (*BINARY[:i], dtype, *BINARY[i + 1 :]), SAME, "element type")
        for i, dtype in enumerate(("int16", "int32", *("float16",) * 3, *("int16",) * 4))
    ),
    *(
        ("dmlax_quantized_multiply_v1", BINARY, (*SAME[:i], shape, *SAME[i + 1 :]), "broadcast")
        for i in range(8)
        for shape in ((3,), (2, 2), (0, 3))
    ),
    ("dmlax_lookup_v1", ("int16", "uint8", "uint8"), ((4,), (256,), (4,)), "element type"),
    ("dmlax_lookup_v1", ("int8", "int8", "uint8"), ((4,), (256,), (4,)), "element type"),
    ("dmlax_lookup_v1", LOOKUP, ((4,), (255,), (4,)), "size"),
    ("dmlax_lookup_v1", LOOKUP, ((4,), (256,), (5,)), "size"),
    ("dmlax_lookup_v1", LOOKUP, ((4,), (), (4,)), "rank"),
    ("dmlax_lookup_v1", LOOKUP, ((4,), (2, 2, 256), (4,)), "rank"),
    ("dmlax_lookup_v1", LOOKUP, ((2, 4), (3, 256), (2, 4)), "size"),
    ("dmlax_lookup_v1", LOOKUP, ((3, 4), (2, 256), (2, 4)), "size"),
]


@pytest.mark.parametrize(("target", "dtypes", "shapes", "message"), INVALID_CALLS, ids=str)
def test_what_does_not_fit_is_refused_before_it_is_read(target, dtypes, shapes, message):
    attributes = {} if target == "dmlax_lookup_v1" else {"exact": True}
    with pytest.raises(Exception, match=f"(quantized_binary|lookup): .*{message}"):
        jax.block_until_ready(call_handler(target, dtypes, shapes, **attributes))
