"""QuantizeLinear, DequantizeLinear and Cast of integers of 2 to 16 bits and floats of 8."""

import ml_dtypes
import numpy as np
import pytest

from onnx_files import NUMBERS, File, levels, scales

RNG = np.random.default_rng(5)
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint4", "int4", "uint2", "int2")
FLOATS8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
SHAPE = (3, 10, 4)
PLACES = {  # of the parameters: their shape, and the attributes
    "one": ((), {}),
    "axis": ((10,), {"axis": 1}),
    "last axis": ((4,), {"axis": -1}),
    "blocks": ((3, 4, 4), {"axis": 1, "block_size": 3}),
    "blocks of the first axis": ((2, 10, 4), {"axis": 0, "block_size": 2}),
}


@pytest.mark.parametrize("float_dtype", ["float32", "float16"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS8])
def test_every_place_of_the_parameters(dtype, float_dtype):
    file = File()
    values = RNG.normal(0, 30, SHAPE)
    values[0, :4, 0] = 6e4, -6e4, np.inf, -np.inf
    x = file.input(values.astype(float_dtype))
    q = (
        file.input(levels(SHAPE, "uint8"))
        if dtype == "uint8"
        else file.constant(levels(SHAPE, dtype))
    )
    for shape, attributes in PLACES.values():
        if dtype in FLOATS8 and attributes.get("block_size"):
            continue  # ONNX Runtime has none
        scale = file.constant(scales(shape, float_dtype))
        zero = np.zeros(shape, np.dtype(getattr(ml_dtypes, dtype, dtype)))
        point = file.constant(zero if dtype in FLOATS8 else levels(shape, dtype))
        y = file.node("QuantizeLinear", x, scale, point, **attributes)
        file.output(file.node("DequantizeLinear", y, scale, point, **attributes), float_dtype)
        file.output(file.node("DequantizeLinear", q, scale, **attributes), float_dtype)
        file.output(file.node("DequantizeLinear", q, scale, point, **attributes), float_dtype)
        y = file.node("QuantizeLinear", x, scale, output_dtype=NUMBERS[dtype], **attributes)
        file.output(file.node("DequantizeLinear", y, scale, **attributes), float_dtype)
    file.compare()
