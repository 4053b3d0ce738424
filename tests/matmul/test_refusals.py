"""Messages, codes and fields of calls that break a rule."""

import numpy as np
import pytest

import dmlax

A, B = np.ones((2, 3), np.uint8), np.ones((3, 4), np.int8)
SCALES = {"a_scale": 1.0, "b_scale": 1.0, "output_scale": 1.0}
PREPARED = dmlax.prepare_matrix(B)
TRIPLE = np.ones(3, np.float32)
INTEGER, QUANTIZED, TO_FLOAT = (
    dmlax.matrix_multiply_integer,
    dmlax.quantized_linear_matrix_multiply,
    dmlax.matrix_multiply_integer_to_float,
)
INVALID_CALLS = [
    (INTEGER, (A.astype(np.int16), B), {}, "data_type", "ATensor is int16[2,3], expected one of"),
    (INTEGER, (A, B.astype(np.float32)), {}, "data_type", "BTensor is float32[3,4]"),
    (INTEGER, (A[0, 0], B), {}, "dimension_count", "ATensor is uint8[], expected rank 1 or more"),
    (INTEGER, (A, B.T), {}, "sizes", "BTensor is int8[4,3], expected 3 rows, the columns of"),
    (
        *(INTEGER, (np.ones((2, 2, 3), np.int8), np.ones((3, 3, 4), np.int8)), {}, "sizes"),
        "BTensor is int8[3,3,4], expected batch axes that broadcast with those of ATensor",
    ),
    (
        *(INTEGER, (A, B), {"a_zero_point": np.uint8([1, 2])}, "sizes"),
        "AZeroPointTensor is uint8[2], expected one value or one per row, as (2, 1); x[:, None]",
    ),
    (
        *(INTEGER, (A, B), {"b_zero_point": np.int8([1, 2])}, "sizes"),
        "BZeroPointTensor is int8[2], expected one value or one per column of BTensor int8[3,4]",
    ),
    (INTEGER, (A, B), {"a_zero_point": 256}, "value", "AZeroPointTensor is 256, expected uint8"),
    (INTEGER, (A, B), {"b_zero_point": np.uint8(1)}, "data_type", "BZeroPointTensor is uint8[]"),
    (
        *(INTEGER, (A, PREPARED), {"b_zero_point": 1}, "option"),
        "BZeroPointTensor is given again: the prepared matrix holds it",
    ),
    (
        *(QUANTIZED, (A, B), {**SCALES, "b_scale": np.float32([1, 2, 0, 1])}, "value"),
        "BScaleTensor holds [0.0], expected finite nonzero values in float32; a dead column has",
    ),
    (QUANTIZED, (A, B), {**SCALES, "a_scale": None}, "missing_tensor", "AScaleTensor is required"),
    (
        *(QUANTIZED, (A, B), {**SCALES, "output_scale": TRIPLE}, "sizes"),
        "OutputScaleTensor is float32[3], expected one value or one per row, as (2, 1)",
    ),
    (
        *(QUANTIZED, (A, B, np.ones(3, np.int32)), SCALES, "sizes"),
        "BiasTensor is int32[3], expected a shape that broadcasts to the output uint8[2,4]",
    ),
    (
        *(QUANTIZED, (A, B), {**SCALES, "arithmetic": "float64"}, "option"),
        "arithmetic is 'float64', expected one of exact, float32",
    ),
    (
        *(TO_FLOAT, (A, B), {"a_scale": 1.0, "b_scale": 1.0, "output_dtype": np.int8}),
        *("data_type", "OutputTensor has dtype int8, expected float32 or float16"),
    ),
    (
        *(TO_FLOAT, (A, B, np.ones(4, np.float16)), {"a_scale": 1.0, "b_scale": 1.0}),
        *("data_type", "BiasTensor is float16[4], expected float32"),
    ),
]


@pytest.mark.parametrize(
    ("function", "operands", "options", "code", "message"),
    INVALID_CALLS,
    ids=[call[-1].split(",")[0] for call in INVALID_CALLS],
)
def test_refusals(function, operands, options, code, message):
    with pytest.raises(dmlax.SpecError) as caught:
        function(*operands, **options)
    assert caught.value.code == code
    assert caught.value.field == message.split()[0]
    assert str(caught.value).startswith(f"{function.__name__}: {message}")


def test_a_symbolic_matrix_is_not_prepared():
    import jax

    (rows,) = jax.export.symbolic_shape("k")
    with pytest.raises(dmlax.SpecError, match="expected static sizes"):
        jax.eval_shape(dmlax.prepare_matrix, jax.ShapeDtypeStruct((rows, 3), np.int8))
