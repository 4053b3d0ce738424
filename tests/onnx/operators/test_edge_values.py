"""NaN, ends of ranges, integer powers and training modes, beside ONNX Runtime."""

import jax
import numpy as np
import pytest

import dmlax
import dmlax.onnx
from support.onnx_files import RNG, File

NAN = np.nan
VALUES = (NAN, 1, -1, 0, -0.0, np.inf, -np.inf, 0.3)
INTEGERS = (3, -3, 2, -2, 0, 1, -1, 7, 10, 1291, 46341, -46341, 2**31 - 1, -(2**31))


def integers(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_functions_that_clamp_keep_nan_as_onnxruntime_does(dtype):
    file, one = File(22), np.dtype(dtype).type
    x, y = file.input(np.array(VALUES, dtype)), file.input(np.array(VALUES[::-1], dtype))
    for op in ("Relu", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "ThresholdedRelu", "Shrink"):
        file.output(file.node(op, x), dtype)
    for op in ("Max", "Min"):
        file.output(file.node(op, x, y), dtype)
        file.output(file.node(op, file.constant(one(NAN)), x), dtype)
    file.output(file.node("Clip", x, file.constant(one(-0.5)), file.constant(one(0.5))), dtype)
    file.output(file.node("PRelu", x, file.constant(one(0.2))), dtype)
    for name in file.node("TopK", x, file.constant(integers(8)), outputs=2):
        file.output(name, np.int64 if name.endswith("_1") else dtype)
    file.compare(1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("op", ["Relu", "Clip", "ReduceMax", "ReduceMin", "GlobalMaxPool"])
def test_nan_is_not_hidden_by_a_reduction_or_on_the_host(op):
    file = File(22)
    x = np.array([[1, 2, NAN], [NAN, 1, 2], [1, 2, 3]], np.float32).reshape(1, 3, 1, 3)
    axes = [file.constant(integers(3))] if op.startswith("Reduce") else []
    names = [file.node(op, source, *axes) for source in (file.input(x), file.constant(x))]
    for name in names:
        file.output(name, np.float32)
    found = dmlax.onnx.load(file.model())(file.inputs)
    for name in names:
        assert np.isnan(found[name]).any((0, 2, 3)).tolist() == [True, True, False]


def test_the_first_nan_of_a_window_is_its_maximum():
    file = File(22)
    x = file.input(np.float32([[[[NAN, 1, 2, 3], [4, NAN, NAN, NAN]]]]))
    values, places = file.node("MaxPool", x, outputs=2, kernel_shape=[1, 2])
    alone = file.node("MaxPool", x, kernel_shape=[1, 2])
    for name, dtype in ((values, np.float32), (places, np.int64), (alone, np.float32)):
        file.output(name, dtype)
    found = dmlax.onnx.load(file.model())(file.inputs)
    assert np.asarray(found[places]).ravel().tolist() == [0, 2, 3, 5, 5, 6]
    wanted = [NAN, 2, 3, NAN, NAN, NAN]
    np.testing.assert_array_equal(np.ravel(found[values]), wanted)
    np.testing.assert_array_equal(np.ravel(found[alone]), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_indices_of_extremes_are_onnxruntimes_also_with_nan(dtype):
    file = File(13)
    for turn in range(12):
        shape = tuple(RNG.integers(1, 9, RNG.integers(1, 4)))
        x = RNG.integers(0, 4, shape).astype(dtype)
        if x.dtype.kind == "f":
            special = np.array([NAN, NAN, np.inf, -np.inf, 0, 1, 2, 3], dtype)
            x = np.where(RNG.random(shape) < 0.5, RNG.choice(special, shape), x).astype(dtype)
        operand = file.constant(x) if turn % 3 == 0 else file.input(x)
        for op in ("ArgMax", "ArgMin"):
            attributes = {name: int(RNG.integers(2)) for name in ("keepdims", "select_last_index")}
            attributes["axis"] = int(RNG.integers(-len(shape), len(shape)))
            file.output(file.node(op, operand, **attributes), np.int64)
    file.compare()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_slices_have_onnxruntimes_ends(dtype):
    file, limits = File(13), np.iinfo(dtype)
    near = [limits.min, limits.min + 1, *range(-5, 6), limits.max - 1, limits.max]
    near += [2**31 - 1, -(2**31)]
    x, axes = file.input(np.float32([1, 2, 3])), file.constant(np.array([0], dtype))
    for step in (1, -1, 2, -2, -5, limits.max, limits.min):
        for start, end in (*((-1, end) for end in near), *RNG.choice(near, (12, 2))):
            given = (file.constant(np.array([value], dtype)) for value in (start, end))
            steps = file.constant(np.array([step], dtype))
            file.output(file.node("Slice", x, *given, axes, steps), np.float32)
    file.compare()


@pytest.mark.parametrize("opset", [12, 13, 22])
@pytest.mark.parametrize("ratio", [None, 0.0, 0.5])
@pytest.mark.parametrize("mode", [None, False, True, "input"])
def test_a_dropout_in_training_is_refused_unless_it_drops_nothing(opset, ratio, mode):
    file = File(opset)
    x = file.input(np.float32([[1, -2, 3]]))
    inputs = ["" if ratio is None else file.constant(np.float32(ratio))]
    if mode is not None:
        inputs.append(file.input(np.bool_(False)) if mode == "input" else file.constant(mode))
    y, mask = file.node("Dropout", file.node("Neg", x), *inputs, outputs=2)
    file.output(file.node("Neg", y), np.float32)
    if opset == 22:
        file.output(mask, bool)
    if mode in (None, False) or ratio == 0:
        file.compare()
        return
    why = "computed" if mode == "input" else "true"
    with pytest.raises(dmlax.UnsupportedError, match=f"training_mode is {why}, expected a const"):
        dmlax.onnx.load(file.model())


@pytest.mark.parametrize("base_dtype", ["int32", "int64", "float32", "float16"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16"])
def test_powers_of_every_pair_of_dtypes(base_dtype, dtype):
    file = File(15)
    of_floats = (3, 0.5, -2, 1.5, 0.1, 0, -1, 7)
    bases = np.array(INTEGERS if base_dtype.startswith("int") else of_floats, base_dtype)
    whole, halves = (0, 1, 2, 3, -1, -2, 5, 31), (0, 0.5, 2, 3, 2.5, -1, 0.3, -0.5, NAN, 1.1)
    exponents = np.array(whole if dtype.startswith("int") else halves, dtype)
    file.output(
        file.node("Pow", file.input(bases[:, None]), file.input(exponents)),
        base_dtype,
    )
    shapes = (((4, 5), (4, 1)), ((4, 5), (5,)), ((), (6,)), ((3, 1), (2, 1, 1)), ((4, 1), (4, 1)))
    for shape, of_exponent in (*shapes, ((4, 5), ()), ((), ()), ((1,), (1,))):
        for places in (("input", "input"), ("input", "constant"), ("constant", "constant")):
            arrays = RNG.choice(bases, shape), RNG.choice(exponents, of_exponent)
            names = (getattr(file, to)(x) for to, x in zip(places, arrays, strict=True))
            y = file.node("Pow", *names)
            file.output(y, base_dtype)
    tolerance = {"float32": 3e-7, "float16": 1e-3}.get(base_dtype, 0.0)
    file.compare(tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("place", ["input", "constant"])
def test_nan_is_no_limit_of_a_clip(dtype, place):
    file, values = File(13), np.array([NAN, -np.inf, -3, 0.5, 3, np.inf], dtype)
    for limits in ((NAN, 1), (-1, NAN), (NAN, NAN), (2, 1)):
        for source in (file.input(values), file.constant(values)):
            ends = [getattr(file, place)(np.array(end, dtype)) for end in limits]
            file.output(file.node("Clip", source, *ends), dtype)
    file.compare()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("place", ["input", "constant"])
def test_a_power_knows_whether_a_large_exponent_is_odd(dtype, place):
    file, top = File(15), 2**53
    bases = np.array([-1, 1, 0, -1, -1, -1, -1, -1, -1], dtype)
    exponents = np.array([2**32, 2**40, 2**35, top - 1, top + 1, 2**24 + 1, -(2**33), 1 - top, 3])
    for shape in ((9,), (9, 1)):
        names = file.input(bases), getattr(file, place)(exponents.reshape(shape))
        file.output(file.node("Pow", *names), dtype)
    file.output(file.node("Pow", file.input(bases), file.input(np.int32(2**24 + 1))), dtype)
    doubled = file.node("Add", file.input(exponents), file.input(exponents[::-1].copy()))
    file.output(file.node("Pow", file.input(np.array([-1], dtype)), doubled), dtype)
    file.compare(1e-6 if dtype == "float32" else 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_absent_limit_of_a_clip_is_the_largest_float(dtype):
    file, one = File(13), np.dtype(dtype).type
    x = file.input(np.array(VALUES, dtype).reshape(1, 1, 8))
    convolved = file.node("Conv", x, file.constant(np.ones((1, 1, 1), dtype)))
    for source in (x, convolved) if dtype == "float32" else (x,):
        file.output(file.node("Clip", source, file.constant(one(-0.5))), dtype)
        file.output(file.node("Clip", source, "", file.constant(one(0.5))), dtype)
        file.output(file.node("Clip", source), dtype)
    file.compare()


@pytest.mark.parametrize("opset", [11, 13])
def test_a_hardmax_takes_nan_at_index_0_alone(opset):
    file, row = File(opset), [NAN, 1, 2]
    x = np.float32([row, row[::-1], [1, NAN, 2], [NAN] * 3, [1, 1, -np.inf], [-np.inf] * 3])
    file.output(file.node("Hardmax", file.input(x), axis=1), np.float32)
    file.compare()


@pytest.mark.parametrize(("opset", "dtype"), [(7, np.float32), (10, bool)])
def test_the_mask_of_an_early_dropout_is_zero(opset, dtype):
    file = File(opset)
    y, mask = file.node("Dropout", file.input(np.float32([1, 2])), outputs=2)
    file.output(y, np.float32)
    file.output(mask, dtype)
    file.compare()


@pytest.mark.parametrize("opset", [1, 6])
def test_a_dropout_of_opset_6_tests_or_is_refused(opset):
    for is_test in (0, 1):
        file = File(opset)
        file.output(
            file.node("Dropout", file.input(np.float32([1, 2])), is_test=is_test), "float32"
        )
        if is_test:
            assert dmlax.onnx.load(file.model())(file.inputs).popitem()[1].tolist() == [1, 2]
        else:
            with pytest.raises(dmlax.UnsupportedError, match="is_test is 0, expected 1"):
                dmlax.onnx.load(file.model())


def test_known_halves_beyond_int64():
    file = File(19)
    halves = file.constant(np.float16([np.inf, -np.inf, NAN, 65504, -3.7]))
    file.output(
        file.node("Add", file.input(integers(1, 2, 3, 4, 5)), file.node("Cast", halves, to=7)),
        np.int64,
    )
    file.compare()


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_norms_of_tiny_numbers_are_not_zero(arithmetic):
    file = File(18)
    rows = RNG.normal(size=(6, 1, 5)).astype(np.float32)
    tiny = file.input(rows * np.float32([1, 1e-10, 1e-19, 1e-22, 1e-30, 0]).reshape(6, 1, 1))
    unit = file.node("LpNormalization", tiny, axis=2)
    norms = [
        file.node("ReduceL2", tiny, file.constant(integers(2))),
        file.node("GlobalLpPool", tiny, p=2),
        file.node("LpPool", tiny, p=2, kernel_shape=[5]),
    ]
    for name in (unit, *norms):
        file.output(name, np.float32)
    model = dmlax.onnx.load(file.model(), arithmetic=arithmetic)
    found, wide = model(file.inputs), file.inputs[tiny].astype(np.float64)
    wanted = np.sqrt((wide**2).sum(2, keepdims=True))
    for name in norms:
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6)
    np.testing.assert_allclose(found[unit] * wanted, wide, rtol=1e-6)
    grad = jax.grad(lambda x: model(x)[norms[0]].sum() + model(x)[unit].sum())
    assert np.isfinite(grad(file.inputs[tiny])).all()
