"""QuantizeLinear, DequantizeLinear and Cast of integers of 2 to 16 bits and floats of 8."""

import ml_dtypes
import numpy as np
import pytest

import dmlax
import dmlax.onnx
from support.onnx_files import NUMBERS, RNG, File, levels, scales

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint4", "int4", "uint2", "int2")
FLOATS8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
SHAPE = (3, 10, 4)
PLACES = {  # the parameters' shape, and the attributes
    "one": ((), {}),
    "axis": ((10,), {"axis": 1}),
    "last axis": ((4,), {"axis": -1}),
    "blocks": ((3, 4, 4), {"axis": 1, "block_size": 3}),
    "blocks of the first axis": ((2, 10, 4), {"axis": 0, "block_size": 2}),
}


@pytest.mark.one_in(5)
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


def test_an_infinite_scale_and_a_scale_of_zero():
    file = File(21)
    for dtype in ("uint8", "int8", "int16", "int4"):
        q = file.constant(levels((3, 4), dtype))
        for scale in (np.inf, 0):
            y = file.node("DequantizeLinear", q, file.constant(np.float32(scale)))
            file.output(y, np.float32)
    file.compare()


@pytest.mark.parametrize("opset", [19, 21, 22, 23, 24, 25])
def test_the_dtype_of_a_quotient_is_that_of_the_opset_or_the_precision(opset):
    """Values beside ties, which float16 and float32 quotients round to different integers."""
    file = File(opset)
    floats = ("float32", "float16")
    for _ in range(24):
        scale_dtype = floats[RNG.integers(2)]
        x_dtype = floats[RNG.integers(2)] if opset >= 23 else scale_dtype
        dtype = (INTEGERS[:6] if opset >= 21 else INTEGERS[:2])[
            RNG.integers(6 if opset >= 21 else 2)
        ]
        shape, attributes = list(PLACES.values())[RNG.integers(5 if opset >= 21 else 3)]
        scale = scales(shape, scale_dtype)
        ties = RNG.integers(-20, 200, SHAPE) + 0.5
        x = ties * scale.mean() * (1 + RNG.normal(0, 2e-4, SHAPE))
        operands = [file.input(x.astype(x_dtype)), file.constant(scale)]
        if opset >= 21 and RNG.random() < 0.3:
            attributes = attributes | {"output_dtype": NUMBERS[dtype]}
        else:
            operands.append(file.constant(levels(shape, dtype)))
        if opset >= 23 and RNG.random() < 0.6:
            attributes = attributes | {"precision": int(RNG.choice([0, 1, 10]))}
        y = file.node("QuantizeLinear", *operands, **attributes)
        file.output(file.node("Cast", y, to=1), np.float32)
    file.compare()


@pytest.mark.parametrize(
    ("opset", "x", "dtype", "attributes", "wanted"),
    [
        (19, 9.2421875, np.float16, {}, (93, 93)),
        (23, 9.2421875, np.float16, {}, (92, 93)),
        (23, 9.2421875, np.float16, {"precision": 1}, (93, 93)),
        (23, 3.2472863, np.float32, {}, (32, 33)),
    ],
)
def test_a_quotient_is_rounded_by_float32_and_not_by_exact(opset, x, dtype, attributes, wanted):
    file = File(opset)
    operands = file.constant(np.float16(0.0999)), file.constant(np.uint8(0))
    y = file.node("QuantizeLinear", file.input(dtype([x])), *operands, **attributes)
    file.output(y, np.uint8)
    results = (
        dmlax.onnx.load(file.model(), arithmetic=arithmetic)(file.inputs)[y].item()
        for arithmetic in ("float32", "exact")
    )
    assert tuple(results) == wanted


def test_an_operator_before_a_quotient_of_float16_stays_a_float_operator():
    file = File(23)
    byte = [file.constant(np.float32(0.05)), file.constant(np.uint8(3))]
    inputs = (file.input(levels((4, 50), "uint8")) for _ in range(2))
    total = file.node("Add", *(file.node("DequantizeLinear", x, *byte) for x in inputs))
    y = file.node("QuantizeLinear", total, file.constant(np.float32(0.0999)), byte[1], precision=10)
    file.output(y, np.uint8)
    loaded = file.compare()
    assert "QLinearAdd" not in {node.op for node in loaded._graph.nodes}


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_float32_output_of_a_float16_scale_is_not_rounded_to_float16(arithmetic):
    file = File(25)
    q, scale = levels((50,), "int8"), np.float16(0.3)
    operands = file.input(q), file.constant(scale)
    y = file.node("DequantizeLinear", *operands, output_dtype=1)
    file.output(y, np.float32)
    found = dmlax.onnx.load(file.model(), arithmetic=arithmetic)(file.inputs)[y]
    np.testing.assert_array_equal(found, q.astype(np.float32) * np.float32(scale))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "int32", "int4"])
@pytest.mark.parametrize(("output", "fraction"), [("float16", 10), ("bfloat16", 7)])
def test_exact_products_of_16_bits_are_rounded_once(output, fraction, dtype):
    """Each product is beside the middle of two floats, and float32 rounds it to the middle."""
    odd = np.arange(3, 7 if dtype == "int4" else 127, 2)
    middle = 1 + 2.0 ** -(fraction + 1)
    down = (middle / odd).astype(np.float32)
    scale = np.concatenate([down, np.nextafter(down, np.float32(1))])
    x = np.tile(odd, 2).astype(getattr(ml_dtypes, dtype, dtype))
    file = File(23)
    inputs = file.input(x), file.constant(scale)
    y = file.node("DequantizeLinear", *inputs, axis=0, output_dtype=NUMBERS[output])
    file.output(y, getattr(ml_dtypes, output, output))
    found = dmlax.onnx.load(file.model(), arithmetic="exact")(file.inputs)[y]
    product = x.astype(np.float64) * scale
    assert ((np.float32(product) == middle) & (product > middle)).any()
    wanted = np.where(product > middle, 1 + 2.0**-fraction, 1)
    np.testing.assert_array_equal(np.asarray(found, np.float64), wanted)


def test_quotients_of_bfloat16_are_float32_before_opset_23():
    file = File(21)
    x, scale = RNG.normal(0, 9, 50).astype(ml_dtypes.bfloat16), ml_dtypes.bfloat16(0.13)
    y = file.node("QuantizeLinear", file.input(x), file.constant(scale), output_dtype=3)
    real = file.node("DequantizeLinear", y, file.constant(scale))
    file.output(y, np.int8)
    file.output(real, ml_dtypes.bfloat16)
    found = dmlax.onnx.load(file.model())(file.inputs)
    wanted = np.rint(x.astype(np.float32) / np.float32(scale)).clip(-128, 127)
    np.testing.assert_array_equal(found[y], wanted)
    product = (wanted * np.float32(scale)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found[real], product)


def test_quotients_of_bfloat16_are_bfloat16_since_opset_23():
    """The definition of ONNX; ONNX Runtime has no such kernel."""
    file = File(23)
    x, scale = RNG.normal(0, 9, 200).astype(ml_dtypes.bfloat16), ml_dtypes.bfloat16(0.13)
    for attributes in ({}, {"precision": 1}, {"precision": 16}):
        y = file.node(
            "QuantizeLinear", file.input(x), file.constant(scale), output_dtype=3, **attributes
        )
        file.output(y, np.int8)
    found = dmlax.onnx.load(file.model())(file.inputs)
    wide = x.astype(np.float32) / np.float32(scale)
    narrow = wide.astype(ml_dtypes.bfloat16).astype(np.float32)
    for got, quotient in zip(found.values(), (narrow, wide, narrow), strict=True):
        np.testing.assert_array_equal(got, np.rint(quotient).clip(-128, 127))
    assert (np.rint(wide) != np.rint(narrow)).any()


@pytest.mark.parametrize("saturate", [0, 1])
def test_casts(saturate):
    values = np.concatenate([RNG.normal(0, 30, 60), [0, -0.0, 0.5, 1.5, -2.5, 447, 2e5, -9e4]])
    file, dtypes = File(), (*INTEGERS[4:], *FLOATS8, "bfloat16", "int8", "int16", "int32")
    for start in ("float32", "float16", "bfloat16", "int32"):
        array = np.clip(values, -6e4, 6e4).astype(np.dtype(getattr(ml_dtypes, start, start)))
        names = [file.constant(array)]
        if start != "bfloat16":  # ONNX Runtime takes bfloat16 from no NumPy array
            names.append(file.input(array))
        for x in names:
            for dtype in dtypes if saturate else FLOATS8:
                if dtype != start and (saturate or not dtype.endswith("fn")):
                    options = {} if saturate else {"saturate": 0}
                    y = file.node("Cast", x, to=NUMBERS[dtype], **options)
                    file.output(file.node("Cast", y, to=1), np.float32)
    file.compare()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint4", "int4"])
def test_groups_of_other_widths_stay_floats(dtype):
    """ONNX Runtime's extended level fuses none of these either."""
    file = File(21)
    x = file.input(RNG.normal(0, 1, (1, 2, 6, 6)).astype(np.float32))
    scale, point = file.constant(np.float32(0.02)), file.constant(levels((), dtype))

    def pair(x):
        return file.node(
            "DequantizeLinear", file.node("QuantizeLinear", x, scale, point), scale, point
        )

    w = file.node("DequantizeLinear", file.constant(levels((3, 2, 3, 3), dtype)), scale, point)
    y = pair(file.node("Conv", pair(x), w))
    y = pair(file.node("Add", y, pair(file.node("Sigmoid", y))))
    w = file.node("DequantizeLinear", file.constant(levels((4, 3), dtype)), scale, point)
    file.output(pair(file.node("MatMul", y, w)), np.float32)
    step = 0.02 if dtype.endswith("16") else 0.51  # the largest value comes near a tie
    loaded = file.compare(step, optimised=True)
    assert not any(node.op.startswith("QLinear") for node in loaded._graph.nodes)


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        ((np.ones(3, np.float32),), {"block_size": 2}, r"has the shape \[3\], expected \[4, 3\]"),
        ((np.ones((4, 2), np.float32),), {}, "expected values along an axis"),
        (
            (np.ones((4, 3), np.float32),),
            {"block_size": 2, "axis": 5},
            "its axis is 5 and its block",
        ),
        ((np.ones((4, 3), np.float32),), {"block_size": -2}, "its block_size -2, expected an axis"),
        ((np.float32(1),), {"output_dtype": 23}, "its output is None, expected float32, float16"),
    ],
)
def test_parameters_of_other_shapes_are_refused(operands, attributes, message):
    file = File(23)
    q = file.constant(levels((4, 6), "int8"))
    y = file.node("DequantizeLinear", q, *map(file.constant, operands), **attributes)
    file.output(y, np.float32)
    with pytest.raises(dmlax.UnsupportedError, match=message):
        dmlax.onnx.load(file.model())


def test_the_newer_types_are_saved(tmp_path):
    file = File(23)
    x = file.input(RNG.normal(0, 9, (2, 3)).astype(np.float32))
    for dtype in ("int4", "uint2", "bfloat16", "float8_e5m2"):
        for shape in ((), (3,), (2, 3)):
            array = np.ones(shape, np.dtype(getattr(ml_dtypes, dtype)))
            file.output(
                file.node("Add", x, file.node("Cast", file.constant(array), to=1)), "float32"
            )
    model = dmlax.onnx.load(file.model())
    model.save(tmp_path / "model.dmlax")
    again = dmlax.onnx.load(tmp_path / "model.dmlax")
    for name, wanted in model(file.inputs).items():
        np.testing.assert_array_equal(again(file.inputs)[name], wanted)
