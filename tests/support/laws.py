"""The table of operators that every law and every lowering goes through."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import dmlax
from support import OLDEST, draw, in_turn

SCALES = (np.float32(0.02), np.float32([0.01, 0.02, 0.03, 0.04]), np.float32(0.05))
RESIDUAL_SCALES = (*SCALES, np.float32(0.04))
N = 4  # images, values of a batch: one or more a host device
X = draw(1, np.uint8, (N, 4, 5, 5))
W = draw(2, np.int8, (4, 4, 2, 2))
ZERO = np.uint8(100)
ZEROS = np.int8([1, -2, 3, 0])
BIAS = draw(3, np.int32, 4) >> 20
BINARY_SCALES = (np.float32(0.03), np.float32(-0.01), np.float32(0.05))
ADDEND = draw(9, np.int8, (4, 5, 5))
GATE = draw(7, np.int8, (4, 1, 1))
TABLE = draw(8, np.int8, 256)
FLOATS = (draw(4, np.int16, (N, 4, 6)) / 64).astype(np.float32)
SPARSE = np.where(draw(5, np.uint8, (N, 3, 11)) < 90, draw(6, np.int8, (N, 3, 11)), 0)

ROWS, MATRIX = draw(7, np.uint8, (N, 3, 5)), draw(8, np.int8, (5, 4))
ROW_ZEROS, COLUMN_ZEROS = draw(9, np.uint8, (3, 1)), draw(10, np.int8, 4)


@dataclasses.dataclass(frozen=True)
class Law:
    """A function of arrays; axis 0 of the first is a batch; `per_image`: images do not mix."""

    name: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    per_image: bool = True

    def __str__(self) -> str:
        return self.name


def quantized(*operands: Any, **options: Any) -> jax.Array:
    x, w, bias, sx, sw, sy, zx, zw, zy = operands
    return dmlax.quantized_linear_convolution(
        *(x, w, bias),
        input_scale=sx,
        filter_scale=sw,
        output_scale=sy,
        input_zero_point=zx,
        filter_zero_point=zw,
        output_zero_point=zy,
        start_padding=(1, 0),
        **options,
    )


def residual(*operands: Any, **options: Any) -> jax.Array:
    """A block with a shortcut."""
    x, w, bias, sx, sw, sy, s, zx, zy, z, *zw = operands
    return dmlax.quantized_linear_convolution_add(
        *(x, w, bias, x),
        input_scale=sx,
        filter_scale=sw,
        output_scale=sy,
        addend_scale=sx,
        sum_scale=s,
        input_zero_point=zx,
        filter_zero_point=zw[0] if zw else None,
        output_zero_point=zy,
        addend_zero_point=zx,
        sum_zero_point=z,
        start_padding=(1, 1),
        **options,
    )


def prepared(x: Any, w: Any, sx: Any, **options: Any) -> jax.Array:
    scales = (sx, np.float32(0.02), np.float32(0.05))
    return quantized(x, w, None, *scales, ZERO, None, None, **options)


def integer(x: Any, w: Any, zx: Any, zw: Any, **options: Any) -> jax.Array:
    return dmlax.convolution_integer(
        x, w, input_zero_point=zx, filter_zero_point=zw, end_padding=(1, 1), **options
    )


def averaged(x: Any, sx: Any, sy: Any, zx: Any, zy: Any, **options: Any) -> jax.Array:
    return dmlax.quantized_linear_average_pooling(
        x,
        window_size=(2, 3),
        strides=(2, 1),
        start_padding=(1, 0),
        input_scale=sx,
        output_scale=sy,
        input_zero_point=zx,
        output_zero_point=zy,
        **options,
    )


def global_average(x: Any, sx: Any, sy: Any, zx: Any, **options: Any) -> jax.Array:
    return dmlax.quantized_linear_global_average_pooling(
        x, input_scale=sx, output_scale=sy, input_zero_point=zx, **options
    )


def product(a: Any, b: Any, za: Any, zb: Any = None, **options: Any) -> jax.Array:
    return dmlax.matrix_multiply_integer(a, b, a_zero_point=za, b_zero_point=zb, **options)


def quantized_product(*operands: Any, **options: Any) -> jax.Array:
    a, b, bias, sa, sb, sy, za, zy = operands
    return dmlax.quantized_linear_matrix_multiply(
        *(a, b, bias),
        a_scale=sa,
        b_scale=sb,
        output_scale=sy,
        a_zero_point=za,
        output_zero_point=zy,
        **options,
    )


def to_float(*operands: Any, **options: Any) -> jax.Array:
    a, b, bias, sa, sb, za = operands
    return dmlax.matrix_multiply_integer_to_float(
        a, b, bias, a_scale=sa, b_scale=sb, a_zero_point=za, **options
    )


quantize = dmlax.element_wise_quantize_linear
dynamic_quantize = dmlax.dynamic_quantize_linear
dequantize = dmlax.element_wise_dequantize_linear
named = functools.partial


def binary(function: Callable[..., jax.Array], *operands: Any, **options: Any) -> jax.Array:
    a, b, sa, sb, sy, za, zb, zy = operands
    return function(
        *(a, b),
        a_scale=sa,
        b_scale=sb,
        output_scale=sy,
        a_zero_point=za,
        b_zero_point=zb,
        output_zero_point=zy,
        **options,
    )


add = named(binary, dmlax.element_wise_quantized_linear_add)
multiply = named(binary, dmlax.element_wise_quantized_linear_multiply)
PREPARED_MATRIX = dmlax.prepare_matrix(MATRIX, b_zero_point=COLUMN_ZEROS)
PREPARED = dmlax.prepare_filter(W, filter_zero_point=ZEROS)
LAWS = [
    Law("nonzero", dmlax.nonzero_coordinates, (SPARSE,), per_image=False),
    Law(
        "nonzero, few rows",
        named(dmlax.nonzero_coordinates, size=7, fill_value=9),
        (FLOATS * (FLOATS > 300),),
        per_image=False,
    ),
    Law("integer", integer, (X, W, ZERO, ZEROS)),
    Law("depthwise", named(integer, group_count=4), (X, W[:, :1], ZERO, ZEROS)),
    Law("quantized", quantized, (X, W, BIAS, *SCALES, ZERO, ZEROS, np.int8(3))),
    Law(
        "quantized, float32",
        named(quantized, arithmetic="float32"),
        (X, W, BIAS, *SCALES, ZERO, ZEROS, ZERO),
    ),
    Law(
        "quantized, residual",
        residual,
        (X, W, BIAS, *RESIDUAL_SCALES, ZERO, np.int8(3), ZERO, ZEROS),
    ),
    Law(
        "quantized, residual, float32",
        named(residual, arithmetic="float32"),
        (X, W, BIAS, *RESIDUAL_SCALES, ZERO, np.int8(3), ZERO),
    ),
    Law("quantized, prepared", prepared, (X, PREPARED, np.float32(0.02))),
    Law("product", product, (ROWS, MATRIX, ROW_ZEROS, COLUMN_ZEROS)),
    Law("product, prepared", product, (ROWS, PREPARED_MATRIX, ROW_ZEROS)),
    Law("quantized product", quantized_product, (ROWS, MATRIX, BIAS, *SCALES, ZERO, np.int8(3))),
    Law(
        "quantized product, float32",
        named(quantized_product, arithmetic="float32"),
        (ROWS, MATRIX, BIAS, *SCALES, ZERO, np.int8(3)),
    ),
    Law("product to float", to_float, (ROWS, MATRIX, BIAS.astype(np.float32), *SCALES[:2], ZERO)),
    Law("quantize", named(quantize, axis=1), (FLOATS, np.float32([1, 2, 3, 4]), np.int8(3))),
    Law(
        "quantize, float32", named(quantize, arithmetic="float32"), (FLOATS, np.float32(1.7), ZERO)
    ),
    Law("quantize float16", quantize, (FLOATS.astype(np.float16), np.float16(1.7))),
    Law("quantize int32", quantize, (FLOATS.astype(np.int32), np.float32(1.7))),
    Law("dequantize", named(dequantize, axis=1), (X, SCALES[1], np.arange(4, dtype=np.uint8))),
    Law("dequantize to float16", dequantize, (W, np.float16(0.02))),
    Law("average", averaged, (X, SCALES[1], SCALES[0], ZERO, ZEROS)),
    Law(
        "average, float32",
        named(averaged, arithmetic="float32", include_padding=True),
        (X, SCALES[0], SCALES[1], ZERO, ZEROS),
    ),
    Law("global average", global_average, (X, SCALES[1], SCALES[0] / 9, ZERO)),
    Law(
        "global average, float32",
        named(global_average, arithmetic="float32"),
        (X, SCALES[0], SCALES[0] / 9, ZERO),
    ),
    Law("max", named(dmlax.max_pooling, window_size=3, strides=2, end_padding=1), (X,)),
    Law("dynamic quantize", dynamic_quantize, (FLOATS,), per_image=False),
    Law(
        "dynamic quantize, float32",
        named(dynamic_quantize, output_dtype=np.int8, arithmetic="float32"),
        (FLOATS.astype(np.float16),),
        per_image=False,
    ),
    Law("add", add, (X, ADDEND, *BINARY_SCALES, ZERO, np.int8(-3), ZERO)),
    Law(
        "add, float32",
        named(add, arithmetic="float32"),
        (X, ADDEND, *BINARY_SCALES, ZERO, np.int8(-3), ZERO),
    ),
    Law("multiply", multiply, (X, GATE, *BINARY_SCALES, ZERO, np.int8(-7), np.int8(5))),
    Law(
        "multiply, float32",
        named(multiply, arithmetic="float32"),
        (X, GATE, *BINARY_SCALES, ZERO, np.int8(-7), np.int8(5)),
    ),
    Law("lookup", dmlax.quantized_lookup, (X, TABLE)),
]
_VARIATIONS = ("few rows", "float32", "float16", "int32", "prepared", "depthwise")


def is_variation(law: Law) -> bool:
    """True if another law has the same operator and is the plainer one."""
    return law.name.endswith(_VARIATIONS)


def by_operator(laws: Iterable[Law]) -> list[Any]:
    """The laws as parameters of a test that compiles long: variations are slow."""
    slow = pytest.mark.slow
    return [pytest.param(law, marks=slow) if is_variation(law) else law for law in laws]


def variations_in_turn(laws: Sequence[Law]) -> list[Any]:
    """The laws as parameters: the plain ones and every other variation run on the oldest pair."""
    variations = iter(in_turn(law for law in laws if is_variation(law)))
    plain = functools.partial(pytest.param, marks=OLDEST)
    return [next(variations) if is_variation(law) else plain(law) for law in laws]
