"""The native epilogue of matrix products, for any parameters: values, threads, refusals."""

import jax
import numpy as np
import pytest

from support import assert_same, draw, requantized
from support.calls.matmul import float_cases, scaled_sums
from support.cases.requantize import accumulators, expected_in_float32, expected_of
from support.raw_calls import call_handler

BYTES = ("int32", "float32", "float32", "float32", "uint8", "int32", "uint8")  # the output last
FLOATS = ("int32", "float32", "float32", "float32", "float32")
SAME = ((2, 3),) * 7
ARITHMETICS = ("exact", "float32")


def requantize(sums, *parameters, arithmetic="exact"):
    """The parameters are both scales, the output's, its zero point and the bias."""
    output = jax.ShapeDtypeStruct(sums.shape, parameters[3].dtype)
    call = jax.ffi.ffi_call("dmlax_requantize_sums_v1", output)
    return call(sums, *parameters, exact=arithmetic == "exact")


def scale(sums, *parameters, dtype=np.float32, arithmetic="exact", has_bias=True):
    """The parameters are both scales and the bias."""
    call = jax.ffi.ffi_call("dmlax_scale_sums_v1", jax.ShapeDtypeStruct(sums.shape, dtype))
    return call(sums, *parameters, exact=arithmetic == "exact", has_bias=has_bias)


@pytest.mark.parametrize("as_bias", [False, True])
@pytest.mark.parametrize("zero", [np.uint8(128), np.int8(-128), np.int8(5)], ids=repr)
def test_sums_become_bytes(zero, as_bias):
    """Every family, on ties and beside them; XLA's thread flushes the subnormal scales."""
    total, scales = accumulators()
    sums, bias = (np.zeros(1, np.int32), total) if as_bias else (total, np.zeros(1, np.int32))
    sums = np.broadcast_to(sums, total.shape)
    found = [requantize(sums, *scales, zero[None], bias, arithmetic=a) for a in ARITHMETICS]
    assert_same(found[0], expected_of(zero.dtype.name, int(zero)))
    assert_same(found[1], expected_in_float32(zero.dtype.name, int(zero)))


def test_sums_that_no_int32_holds():
    sums, bias = np.int32([2**31 - 1, -(2**31)] * 2), np.int32([2**31 - 1, -(2**31), 1, -1])
    total = sums.astype(np.int64) + bias
    scales = np.float32([0.5]), np.float32([1]), np.float32([2.0**24])
    found = requantize(sums, *scales, np.uint8([128]), bias)
    assert_same(found, requantized(total, scales, 128, np.uint8))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_become_floats(dtype):
    total, sa, sb, bias = float_cases(3000, dtype)
    nothing = np.zeros(1, dtype)
    assert_same(scale(total, sa, sb, bias, dtype=dtype), scaled_sums(total, sa, sb, bias, dtype))
    found = scale(total, sa, sb, nothing, dtype=dtype, has_bias=False)
    assert_same(found, scaled_sums(total, sa, sb, None, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("has_bias", [True, False])
def test_float32_rounds_each_operation(dtype, has_bias):
    total, sa, sb, bias = float_cases(3000, dtype)
    with np.errstate(all="ignore"):
        wanted = total.astype(np.float32) * (sa * sb)
        wanted = (wanted + bias if has_bias else wanted).astype(dtype)
    found = scale(total, sa, sb, bias, dtype=dtype, arithmetic="float32", has_bias=has_bias)
    found, nan = np.asarray(found), np.isnan(wanted)
    assert_same(np.isnan(found), nan)
    assert_same(found[~nan], wanted[~nan])


@pytest.mark.parametrize("shape", [(), (1,), (7,), (515,), (3, 5, 1031), (2, 129, 67)], ids=str)
def test_parameters_broadcast(shape):
    """Sizes of one element, of pieces and their ends, and of what threads share."""
    sums = draw(1, np.int32, shape) >> 12
    rows = tuple(size if axis == len(shape) - 2 else 1 for axis, size in enumerate(shape))
    columns = tuple(size if axis == len(shape) - 1 else 1 for axis, size in enumerate(shape))
    a, b, y = (
        np.random.default_rng(seed).uniform(0.5, 2, own).astype(np.float32) / divisor
        for seed, own, divisor in ((2, rows, 2**12), (3, columns, 1), (4, shape, 1))
    )
    zero, bias = draw(5, np.int8, rows), draw(6, np.int32, columns) >> 16
    total = sums.astype(np.int64) + bias
    assert_same(requantize(sums, a, b, y, zero, bias), requantized(total, (a, b, y), zero, np.int8))
    assert_same(scale(sums, a, b, y), scaled_sums(sums, a, b, y, np.float32))


INVALID_CALLS = [
    *(
        (target, (*dtypes[:i], "int16", *dtypes[i + 1 :]), SAME[: len(dtypes)], "element type")
        for target, dtypes in (("dmlax_requantize_sums_v1", BYTES), ("dmlax_scale_sums_v1", FLOATS))
        for i in range(len(dtypes))
    ),
    ("dmlax_requantize_sums_v1", (*BYTES[:6], "int8"), SAME, "element type"),
    ("dmlax_scale_sums_v1", (*FLOATS[:4], "float16"), SAME[:5], "element type"),
    *(
        (target, dtypes, (*SAME[:i], shape, *SAME[i + 1 : len(dtypes)]), "does not broadcast")
        for target, dtypes in (("dmlax_requantize_sums_v1", BYTES), ("dmlax_scale_sums_v1", FLOATS))
        for i in range(len(dtypes) - 1)
        for shape in ((3,), (2, 2), (0, 3))
    ),
]


@pytest.mark.parametrize(("target", "dtypes", "shapes", "message"), INVALID_CALLS, ids=str)
def test_what_does_not_fit_is_refused_before_it_is_read(target, dtypes, shapes, message):
    attributes = {"exact": True} | ({"has_bias": True} if target == "dmlax_scale_sums_v1" else {})
    with pytest.raises(Exception, match=f"matrix product's epilogue: .*{message}"):
        jax.block_until_ready(call_handler(target, dtypes, shapes, **attributes))


def test_no_elements_are_no_work():
    attributes = {"exact": True, "has_bias": True}
    found = call_handler("dmlax_scale_sums_v1", FLOATS, ((0, 3),) * 5, **attributes)
    assert found.shape == (0, 3)
