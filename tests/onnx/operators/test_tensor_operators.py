"""Element-wise, selecting, spatial and normalizing operators against ONNX Runtime.

The cases of one opset share a model, because a compilation takes longer than their arithmetic.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper, numpy_helper

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files

RANDOM = np.random.default_rng(11)
EMPTY = np.zeros(0, np.float32)
EXACT = 0.0  # the largest difference, of the largest element
SUMS = 2e-6  # another order of sums, or another approximation


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def levels(*shape, dtype=np.float32, count=7):
    """Few different numbers, so that some are equal."""
    return RANDOM.integers(0, count, shape).astype(dtype)


def integers(*values):
    return np.array(values, np.int64)


class Case(NamedTuple):
    """A node, and the largest difference of its outputs.

    Attributes:
      inputs: arrays; those at the places `known` become initializers, the others inputs.
    """

    opset: int
    op: str
    inputs: list[Any]
    attributes: dict[str, Any]
    known: tuple[int, ...]
    difference: float
    outputs: int


def case(opset, op, *inputs, known=(), difference=EXACT, outputs=1, **attributes):
    return Case(opset, op, list(inputs), attributes, known, difference, outputs)


def model_of(cases):
    """A model of the cases of one opset, and its inputs."""
    nodes, inputs, constants, outputs = [], {}, {}, []
    for number, each in enumerate(cases):
        names = []
        for place, array in enumerate(each.inputs):
            name = "" if array is None else f"in_{number}_{place}"
            names.append(name)
            if array is not None:
                (constants if place in each.known else inputs)[name] = np.asarray(array)
        found = [f"out_{number}_{i}" for i in range(each.outputs)]
        outputs += found
        nodes.append(helper.make_node(each.op, names, found, name=f"n{number}", **each.attributes))
    return onnx_files.model(nodes, inputs, outputs, constants, cases[0].opset), inputs


def run_peer(model, inputs):
    return peer.run(peer.start(model, optimised=False), inputs)


def check(cases, **options):
    """Compares every output of the cases; rows after a count do not exist."""
    model, inputs = model_of(cases)
    expected = run_peer(model, inputs)
    found = dmlax.onnx.load(model, **options)(inputs)
    for number, each in enumerate(cases):
        for i in range(each.outputs):
            name = f"out_{number}_{i}"
            wanted, got = expected[name], np.asarray(found[name])
            if f"{name}.count" in found:
                (axis,) = np.flatnonzero(np.not_equal(got.shape, wanted.shape))
                got = got.take(range(int(found[f"{name}.count"])), axis)
            compare(got, wanted, each.difference, each)


def compare(got, wanted, difference, each):
    label = (each.opset, each.op, each.attributes)
    assert got.shape == wanted.shape, label
    if difference == EXACT:
        np.testing.assert_array_equal(got, wanted, err_msg=str(label))
        return
    largest = np.abs(wanted).max(initial=0, where=np.isfinite(wanted))
    tolerance = {"rtol": 0, "atol": difference * largest}
    np.testing.assert_allclose(got, wanted, **tolerance, err_msg=str(label))


VALUES = np.concatenate([floats(50) * 2, np.float32([0, -0.0, 1, -1, 9, -9, 30, -30])])
UNIT = np.clip(VALUES, -0.99, 0.99)
WITH_NAN = np.append(VALUES, np.float32([np.nan, np.inf, -np.inf]))
BITS = levels(3, 4, dtype=np.uint8, count=200)


def element_wise():
    for op, opset, x, attributes in (
        *((op, 22, UNIT, {}) for op in ("Acos", "Asin", "Atan", "Atanh")),
        *((op, 7, UNIT, {}) for op in ("Acos", "Asin", "Atan")),
        *((op, 22, VALUES, {}) for op in ("Asinh", "Cosh", "Sinh", "Tan", "Softsign", "Mish")),
        ("Acosh", 22, np.abs(VALUES) + 1, {}),
        ("Elu", 6, VALUES, {"alpha": 0.7}),
        ("Elu", 22, VALUES, {}),
        ("Selu", 6, VALUES, {}),
        ("Selu", 22, VALUES, {"alpha": 0.7, "gamma": 1.5}),
        ("Celu", 12, VALUES, {"alpha": 0.7}),
        ("LogSoftmax", 9, floats(2, 3, 4), {}),
        ("LogSoftmax", 11, floats(2, 3, 4), {"axis": -1}),
        ("LogSoftmax", 22, floats(2, 3, 4), {"axis": 0}),
    ):
        yield case(opset, op, x, difference=1e-6, **attributes)
    for opset, op, x, attributes in (
        (10, "ThresholdedRelu", VALUES, {"alpha": 0.5}),
        (22, "Shrink", VALUES, {"bias": 0.2, "lambd": 0.3}),
        (10, "IsInf", WITH_NAN, {}),
        (22, "IsInf", WITH_NAN, {"detect_negative": 0}),
        (9, "Hardmax", levels(2, 3, 4), {"axis": 0}),
        (22, "Hardmax", levels(2, 3, 4), {}),
        (18, "BitwiseNot", BITS, {}),
        (22, "BitwiseNot", BITS.astype(np.int32), {}),
    ):
        yield case(opset, op, x, **attributes)
    yield case(9, "PRelu", floats(2, 3, 4), floats(3, 1))
    yield case(22, "PRelu", floats(2, 3, 4), floats(1))
    for opset in (6, 8, 22):
        for op in ("Sum", "Mean", "Max", "Min"):
            second = floats(2, 3) if opset == 6 else floats(3)
            yield case(opset, op, floats(2, 3), second, floats(2, 3))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield case(18, op, BITS, BITS[1:2])
    for direction in ("LEFT", "RIGHT"):
        yield case(11, "BitShift", BITS, BITS % 9, direction=direction)
    yield case(22, "CastLike", floats(3) * 10, np.int8([1]))
    yield case(18, "CastLike", np.int32([1, 2]), floats(1))


def reductions():
    names = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
    for op in (f"Reduce{name}" for name in names.split()):
        x = np.abs(floats(3, 4, 5)) + np.float32(0.1)
        yield case(12, op, x, axes=[0, -1], keepdims=0, difference=SUMS)
        yield case(12, op, x, difference=SUMS)
        if op != "ReduceSum":
            yield case(18, op, x, integers(1, 2), known=(1,), difference=SUMS)
            yield case(18, op, x, integers(), known=(1,), noop_with_empty_axes=1, difference=SUMS)
        whole = levels(3, 4, 2, dtype=np.int32) + 1
        yield case(12, op, whole, axes=[0])
    yield case(20, "ReduceMax", floats(3, 4) > 0, integers(0), known=(1,))
    for op in ("ArgMax", "ArgMin"):
        yield case(11, op, levels(4, 5))
        for last in (0, 1):
            yield case(13, op, levels(4, 5), axis=-1, select_last_index=last, keepdims=last)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            options = {"exclusive": exclusive, "reverse": reverse}
            yield case(14, "CumSum", levels(3, 4), np.int32(-1), known=(1,), **options)
            yield case(11, "CumSum", levels(3, 4), np.int64(0), known=(0, 1), **options)


def selection():
    count = integers(3)
    for largest in (0, 1):
        for axis in (0, -1):
            options = {"largest": largest, "axis": axis, "outputs": 2}
            for dtype in (np.float32, np.uint8, np.int8):
                yield case(24, "TopK", levels(4, 7, dtype=dtype), count, known=(1,), **options)
            yield case(11, "TopK", levels(4, 7, dtype=np.int64), count, known=(0, 1), **options)
    zeros = np.float32([0, -0.0, 0, -0.0, 1])
    yield case(10, "TopK", zeros, count, known=(1,), outputs=2)
    yield case(9, "TopK", levels(4, 7), k=2, outputs=2)
    for axis in (-1, 0, 1):
        index = integers([0, -1, 5], [4, -5, 9])
        off_on = np.float32([2, 7])
        yield case(11, "OneHot", index, integers(5), off_on, known=(1,), axis=axis)
    for upper in (0, 1):
        for k in (-1, 0, 2):
            yield case(18, "Trilu", floats(2, 3, 4), np.int64(k), known=(1,), upper=upper)
    yield case(18, "Trilu", floats(4, 4) > 0)
    yield case(9, "EyeLike", floats(3, 4), k=1)
    yield case(9, "EyeLike", floats(3, 4), k=-1, dtype=7)
    x = floats(3, 4, 5)
    for axis in (0, -2, 2):
        taken = RANDOM.integers(-3, 3, (2, 3, 2))
        yield case(13, "GatherElements", x, taken, axis=axis)
        yield case(11, "GatherElements", x, taken, axis=axis, known=(0, 1))
        index = np.moveaxis(integers([[0, -1, 1]]), -1, axis)  # none twice
        yield case(9, "Scatter", x, index, floats(*index.shape), axis=axis)
        yield case(13, "ScatterElements", x, index, floats(*index.shape), axis=axis)
        for reduction in ("add", "mul", "min", "max"):
            updates = floats(*index.shape)
            options = {"axis": axis, "reduction": reduction}
            yield case(18, "ScatterElements", x, index, updates, **options)
            at = integers([0, 1], [-1, -2])
            yield case(18, "ScatterND", x, at, floats(2, 5), reduction=reduction)
    yield case(13, "ScatterND", x, integers([0], [-1]), floats(2, 4, 5))
    for dims, shape in ((0, (4, 2)), (1, (3, 2, 2)), (2, (3, 4, 1))):
        yield case(13, "GatherND", x, RANDOM.integers(-3, 3, shape), batch_dims=dims)
    yield case(10, "ReverseSequence", floats(4, 3, 2), integers(1, 4, 2))
    condition = np.array([True, False, True])
    for options in ({}, {"axis": 0}, {"axis": -1}):
        yield case(9, "Compress", floats(3, 4), condition, **options)
    yield case(11, "Compress", floats(3, 4), condition, known=(1,), axis=0)


def boxes():
    for center in (0, 1):
        boxes = (levels(2, 40, 4, count=20) / 2).astype(np.float32)
        scores = levels(2, 3, 40, count=20) / np.float32(20)
        limits = [integers(5), np.float32([0.3]), np.float32([0.25])]
        attributes = {"center_point_box": center, "known": (2,)}
        yield case(11, "NonMaxSuppression", boxes, scores, *limits, **attributes)
    most = integers(1 << 40)
    yield case(11, "NonMaxSuppression", boxes, scores, most, limits[1], **attributes)
    yield case(10, "NonMaxSuppression", boxes, scores)


TRANSFORMATIONS = {
    "align_corners": 11,
    "asymmetric": 11,
    "half_pixel": 13,
    "half_pixel_symmetric": 19,
    "pytorch_half_pixel": 13,
    "tf_half_pixel_for_nn": 11,
}


def resizing():
    image, key = floats(1, 2, 5, 7), "coordinate_transformation_mode"
    factors = [np.float32([1, 1, *pair]) for pair in ((2, 2), (0.6, 0.8), (1.7, 2.3))]
    roundings = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    for turn, (name, opset) in enumerate(TRANSFORMATIONS.items()):
        options = {"known": (1, 2), key: name}
        for mode, scales in itertools.product(("linear", "cubic"), factors):
            yield case(opset, "Resize", image, EMPTY, scales, mode=mode, **options)
        for place, nearest in enumerate(roundings):
            scales = factors[(turn + place) % len(factors)]
            yield case(opset, "Resize", image, EMPTY, scales, nearest_mode=nearest, **options)
        sizes = integers(1, 2, 9, 1)
        yield case(opset, "Resize", image, EMPTY, EMPTY, sizes, mode="linear", known=(1, 2, 3))
    crop = {"known": (1, 2, 3), key: "tf_crop_and_resize", "extrapolation_value": 10.0}
    for mode in ("nearest", "linear", "cubic"):
        region = np.float32([0.2, -0.1, 0.9, 1.2])
        options = {"axes": [2, 3], "mode": mode, **crop}
        yield case(18, "Resize", image, region, None, integers(4, 3), **options)
    cubic = {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}
    yield case(13, "Resize", image, EMPTY, factors[0], known=(1, 2), **cubic, difference=1e-6)
    for policy in ("not_larger", "not_smaller"):
        options = {"axes": [3, 2], "known": (3,), "keep_aspect_ratio_policy": policy}
        yield case(18, "Resize", image, None, None, integers(8, 9), **options)
    for mode in ("nearest", "linear"):
        yield case(10, "Resize", image, factors[1], known=(1,), mode=mode)
        yield case(9, "Upsample", image, factors[2], known=(1,), mode=mode)
        yield case(7, "Upsample", image, scales=[1.0, 1.0, 2.0, 2.0], mode=mode)
        for dtype in (np.uint8, np.int8):
            bytes_ = RANDOM.integers(0, 256, (1, 3, 5, 7), np.uint8).view(dtype)
            for scales in ([1, 1, 1.7, 2.3], [1, 1.7, 2.3, 1], [1, 1, 2, 2]):
                options = {"known": (1, 2), "mode": mode}
                yield case(13, "Resize", bytes_, EMPTY, np.float32(scales), **options)
    for scales in ((1.5, 2), (1.5, 2, 2.3), (1, 1, 1.5, 2, 2.3)):
        x = floats(*(2, 3, 4, 3, 2)[: len(scales)])
        options = {"known": (1, 2), "mode": "linear", "difference": 2e-7}
        yield case(13, "Resize", x, EMPTY, np.float32(scales), **options)


def convolutions():
    transposed = (
        {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 2]},
        {"strides": [2, 2], "dilations": [2, 1], "pads": [1, 1, 1, 1]},
        {"strides": [2, 2], "output_shape": [9, 8], "group": 2},
        {"strides": [3, 2], "output_shape": [12, 12]},
        {"strides": [3, 3], "output_shape": [14, 9]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER", "group": 2},
        {"strides": [3, 3], "auto_pad": "SAME_UPPER", "output_padding": [1, 1]},
        {"strides": [2, 2], "auto_pad": "VALID"},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER", "output_shape": [9, 9]},
    )
    for options in transposed:
        bias = floats(3 * options.get("group", 1))
        inputs = floats(1, 4, 4, 5), floats(4, 3, 3, 3), bias
        yield case(11, "ConvTranspose", *inputs, difference=SUMS, **options)
    for image, filter in (((1, 4, 6), (4, 3, 3)), ((1, 4, 3, 4, 3), (4, 3, 2, 3, 2))):
        strides = [2] * (len(image) - 2)
        inputs = floats(*image), floats(*filter)
        yield case(22, "ConvTranspose", *inputs, difference=SUMS, group=2, strides=strides)
    for image, filter in (((2, 4, 9), (6, 2, 3)), ((1, 4, 5, 6, 7), (6, 2, 2, 3, 2))):
        n = len(image) - 2
        for options in (
            {"strides": [2] * n, "pads": [1] * n + [0] * n},
            {"dilations": [2] * n, "auto_pad": "VALID"},
            {"auto_pad": "SAME_UPPER", "strides": [2] * n},
        ):
            inputs = floats(*image), floats(*filter), floats(6)
            yield case(22, "Conv", *inputs, group=2, difference=SUMS, **options)
            x, w = (RANDOM.integers(0, 256, shape, np.uint8) for shape in (image, filter))
            yield case(11, "ConvInteger", x, w, np.uint8(7), np.uint8(120), group=2, **options)


def pools():
    for shape in ((2, 3, 9), (1, 2, 8, 9), (1, 2, 5, 6, 7)):
        n, x = len(shape) - 2, levels(*shape)
        kernel = [2, 3, 2][:n]
        for options in (
            {"strides": [2] * n, "pads": [1] * n + [0] * n},
            {"strides": [2] * n, "pads": [1] * 2 * n, "ceil_mode": 1},
            {"dilations": [2] * n, "pads": [1] * 2 * n},
            {"auto_pad": "SAME_LOWER", "strides": [2] * n},
        ):
            options = {"kernel_shape": kernel, **options}
            for order in (0, 1):
                yield case(12, "MaxPool", x, outputs=2, storage_order=order, **options)
                options = {**options, "difference": SUMS}
                yield case(22, "AveragePool", x, count_include_pad=order, **options)
                yield case(22, "LpPool", x, p=1 + order, **options)
                del options["difference"]
    # The windows are longer than the image.
    long = {"kernel_shape": [5, 4], "strides": [3, 2], "pads": [1, 0, 0, 0]}
    for op, opset in (("MaxPool", 12), ("AveragePool", 11), ("AveragePool", 22), ("LpPool", 22)):
        yield case(opset, op, levels(1, 2, 3, 3), difference=SUMS, **long)
    yield case(12, "MaxPool", levels(0, 2, 3, 3), outputs=2, storage_order=1, **long)
    outside = {"kernel_shape": [3], "strides": [5], "pads": [1, 1], "dilations": [2]}
    yield case(22, "AveragePool", floats(1, 2, 1), **outside)
    for p in (1, 2, 3):
        yield case(2, "GlobalLpPool", floats(2, 3, 4, 5), p=p, difference=SUMS)
    yield case(12, "GlobalMaxPool", floats(2, 3, 4, 5, 2))
    places = integers([[[5, 7], [13, 15]], [[21, 23], [29, 31]]])
    options = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield case(11, "MaxUnpool", floats(1, 2, 2, 2), places, **options)
    shape = integers(1, 2, 5, 5)
    yield case(12, "MaxUnpool", floats(1, 2, 2, 2), places, shape, known=(2,), **options)


def samples():
    for align in (0, 1):
        for padding in ("zeros", "border", "reflection"):
            options = {"align_corners": align, "padding_mode": padding, "difference": SUMS}
            for mode in ("bilinear", "bicubic")[: 1 + (align == (padding != "border"))]:
                grid = floats(2, 4, 3, 2) * np.float32(1.3)
                yield case(16, "GridSample", floats(2, 3, 5, 6), grid, mode=mode, **options)
            for mode in ("linear", "nearest"):
                grid = floats(1, 4, 3, 2, 3) * np.float32(1.3)
                yield case(22, "GridSample", floats(1, 2, 5, 6, 4), grid, mode=mode, **options)
    x, regions = floats(2, 3, 10, 12), np.sort(RANDOM.uniform(-1, 14, (5, 2, 2)), axis=1)
    inputs = x, regions.reshape(5, 4).astype(np.float32), integers(0, 1, 1, 0, 1)
    options = {"output_height": 3, "output_width": 4, "sampling_ratio": 2, "spatial_scale": 0.8}
    for mode in ("avg", "max"):
        for opset in (10, 16):
            yield case(opset, "RoiAlign", *inputs, mode=mode, **options, difference=SUMS)
    for sizes, theta in (((2, 3, 4, 5), (2, 2, 3)), ((2, 3, 4, 5, 1), (2, 3, 4))):
        for align in (0, 1):
            given, options = (floats(*theta), integers(*sizes)), {"align_corners": align}
            yield case(20, "AffineGrid", *given, known=(1,), difference=1e-6, **options)


def moves():
    x = floats(4, 5, 6)
    far = [-(1 << 62), 1 << 62, -100, 100]
    for _ in range(40):
        axes = integers(*RANDOM.permutation(3)[:2])
        starts, ends = (RANDOM.choice([*range(-8, 9), *far], 2) for _ in range(2))
        steps = RANDOM.choice([-3, -2, -1, 1, 2, 3], 2)
        given = [x, *(each.astype(np.int64) for each in (starts, ends, axes, steps))]
        yield case(13, "Slice", *given, known=(1, 2, 3, 4))
    for mode in ("constant", "edge", "wrap", "reflect"):
        for widths in ((1, -1, 2, 0, 3, -2), (-2, 1, 0, 1, -1, 2)):
            yield case(19, "Pad", x, integers(*widths), np.float32(1.5), known=(1, 2), mode=mode)
    yield case(18, "Pad", x, integers(1, -1, 2, 0), None, integers(-1, 0), known=(1, 3))
    yield case(2, "Pad", x, pads=[1, 0, 2, 0, -1, 0], value=2.5)
    yield case(18, "CenterCropPad", x, integers(7, 3, 8), known=(1,))
    yield case(18, "CenterCropPad", x, integers(8, 3), known=(1,), axes=[-1, 0])


def normalizations():
    options = {"difference": SUMS}
    for opset, shape in ((6, (2, 3, 4)), (22, (2, 3, 4, 2, 3))):
        inputs = floats(*shape), floats(3), floats(3)
        yield case(opset, "InstanceNormalization", *inputs, epsilon=1e-3, **options)
    for opset, count in ((18, 3), (21, 6)):
        inputs = floats(2, 6, 4, 5), floats(count), floats(count)
        yield case(opset, "GroupNormalization", *inputs, num_groups=3, **options)
    yield case(9, "MeanVarianceNormalization", floats(2, 3, 4, 5) / 1000, **options)
    yield case(13, "MeanVarianceNormalization", floats(2, 3, 4, 5), axes=[2, 3], **options)
    x = floats(3, 4)
    x[1] = 0
    for p in (1, 2):
        yield case(6, "LpNormalization", x, p=p, **options)
        yield case(22, "LpNormalization", floats(3, 4, 5), p=p, axis=1, **options)
    for size in (1, 5):
        attributes = {"alpha": 0.3, "beta": 0.6, "bias": 1.4, "size": size}
        yield case(13, "LRN", floats(2, 7, 4, 5), **attributes, **options)
    statistics = floats(3), floats(3), floats(3), np.abs(floats(3))
    yield case(7, "BatchNormalization", floats(2, 3, 4, 5), *statistics)


GROUPS = (
    element_wise,
    reductions,
    selection,
    boxes,
    resizing,
    convolutions,
    pools,
    samples,
    moves,
    normalizations,
)
MODELS = {}
for group in GROUPS:
    for each in group():
        MODELS.setdefault((group.__name__, each.opset), []).append(each)


@pytest.mark.parametrize("key", MODELS, ids=lambda key: f"{key[0]}-{key[1]}")
def test_outputs_are_those_of_onnx_runtime(key):
    check(MODELS[key], nonzero_size=300)


KNOWN = {  # shapes are computed of these
    "Abs": (13, integers(3, -2)),
    "Neg": (13, integers(-3, -2)),
    "ReduceSum": (13, integers(3, 2)),
    "ReduceMax": (13, integers(3, 2)),
    "CumSum": (14, integers(3, 2), np.int32(0)),
    "BitwiseAnd": (18, integers(7, 6), integers(3, 2)),
    "ArgMin": (13, integers(3, 2)),
    "Sign": (13, integers(3, 2)),
    "GatherElements": (13, integers(3, 2), integers(1, 1)),
    "ScatterND": (13, integers(3, 2), integers([0]), integers(4)),
}


@pytest.mark.parametrize("op", KNOWN)
def test_shapes_are_computed_of_known_values(op):
    opset, *inputs = KNOWN[op]
    model, _ = model_of([case(opset, op, *inputs, known=range(len(inputs)))])
    node = helper.make_node("ConstantOfShape", ["sizes"], ["y"])
    flat = helper.make_node("Reshape", [model.graph.output[0].name, "minus_1"], ["sizes"])
    model.graph.node.extend([flat, node])
    model.graph.initializer.append(numpy_helper.from_array(integers(-1), "minus_1"))
    model.graph.output[0].name = "y"
    assert dmlax.onnx.load(model)({})["y"].shape == run_peer(model, {})["y"].shape


def test_symbolic_sizes_are_resized_by_constant_scales():
    x = floats(1, 2, 6, 8)
    for mode in ("nearest", "linear", "cubic"):
        given = case(13, "Resize", x, EMPTY, np.float32([1, 1, 1.5, 0.5]), known=(1, 2), mode=mode)
        model, inputs = model_of([given])
        shapes = {"in_0_0": (1, 2, "h", "w")}
        loaded = dmlax.onnx.load(model, input_shapes=shapes)
        expected = run_peer(model, inputs)["out_0_0"]
        params = {key: jax.ShapeDtypeStruct(p.shape, p.dtype) for key, p in loaded.params.items()}
        exported = jax.export.export(jax.jit(loaded.apply))(params, loaded.inputs)
        found = exported.call(loaded.params, inputs)["out_0_0"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_symbolic_axes_have_top_elements():
    count = integers(3)
    for largest in (0, 1):
        options = {"largest": largest, "known": (1,), "outputs": 2}
        model, inputs = model_of([case(11, "TopK", levels(4, 7), count, **options)])
        loaded = dmlax.onnx.load(model, input_shapes={"in_0_0": ("n", "m")})
        structs = {key: jax.ShapeDtypeStruct(p.shape, p.dtype) for key, p in loaded.params.items()}
        exported = jax.export.export(jax.jit(loaded.apply))(structs, loaded.inputs)
        found = exported.call(loaded.params, inputs)
        for name, wanted in run_peer(model, inputs).items():
            np.testing.assert_array_equal(found[name], wanted)


def test_gradients_of_a_max_pool_reach_the_largest_elements():
    given = case(12, "MaxPool", floats(1, 1, 4, 4), outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    model, inputs = model_of([given])
    loaded = dmlax.onnx.load(model)
    (x,) = inputs.values()
    gradient = jax.grad(lambda x: jnp.sum(loaded.apply(loaded.params, x)["out_0_0"]))(x)
    (places,) = run_peer(model, inputs)["out_0_1"].reshape(1, -1)
    assert np.flatnonzero(gradient).tolist() == sorted(places)


def test_gradients_of_a_linear_resize():
    given = case(13, "Resize", floats(1, 1, 3, 3), EMPTY, np.float32([1, 1, 2, 2]), known=(1, 2))
    given = given._replace(attributes={"mode": "linear"})
    model, inputs = model_of([given])
    loaded = dmlax.onnx.load(model)
    (x,) = inputs.values()
    gradient = jax.grad(lambda x: jnp.sum(loaded.apply(loaded.params, x)["out_0_0"]))(x)
    np.testing.assert_allclose(gradient, np.full((1, 1, 3, 3), 4), rtol=1e-6)


X = floats(1, 2, 4, 4)
TWICE = np.float32([1, 1, 2, 2])
REFUSED = {
    "antialias": (
        case(
            *(18, "Resize", X.astype(np.int32), None, TWICE), known=(2,), antialias=1, mode="linear"
        ),
        "antialias is 1 and its input is int32, expected 8 bits",
    ),
    "cubic bytes": (
        case(13, "Resize", X.astype(np.uint8), None, TWICE, known=(2,), mode="cubic"),
        "mode is 'cubic' and its input is uint8, expected a float",
    ),
    "scales": (
        case(13, "Resize", X, None, TWICE[:3], known=(2,)),
        "it has 3 scales or sizes, expected 4, one per axis",
    ),
    "negative scale": (
        case(13, "Resize", X, None, -TWICE, known=(2,)),
        "expected positive numbers",
    ),
    "unknown transformation": (
        case(13, "Resize", X, None, TWICE, known=(2,), coordinate_transformation_mode="no"),
        "coordinate_transformation_mode is 'no', expected one of align_corners,",
    ),
    "samples": (
        case(16, "RoiAlign", X, floats(1, 4), integers(0)),
        "sampling_ratio is 0, expected at least 1: the number of samples would depend on values",
    ),
    "grid": (
        case(16, "GridSample", X, floats(1, 2, 2, 3)),
        r"its grid has the shape \[1, 2, 2, 3\], expected rank 4 and 2 coordinates",
    ),
    "size": (
        case(11, "Compress", floats(3), np.array([True, False, True])),
        r"it needs a size: give nonzero_size, or nonzero_size=\{\"node\": n\} by the node's name",
    ),
    "Unique": (case(11, "Unique", floats(3)), r"depends on values: .* with outputs="),
    "RandomNormalLike": (case(22, "RandomNormalLike", floats(3)), "draws random numbers"),
    "too many": (
        case(11, "TopK", floats(3), integers(4), known=(1,), outputs=2),
        "K is 4, expected at most 3, the size of axis -1",
    ),
    "lengths": (
        case(13, "Slice", floats(3), integers(0), integers(1, 2), known=(1, 2)),
        "its starts, ends, axes and steps have the lengths 1, 2, 1, 1",
    ),
    "pads": (
        case(13, "Pad", floats(3, 3), integers(1, 2), known=(1,)),
        "its pads have the length 2, expected 4, two for each axis",
    ),
    "transposed": (
        case(11, "ConvTranspose", X, floats(2, 1, 3, 3), output_shape=[9, 9]),
        r"output_shape is \[9, 9\], expected less than 7 on axis 0",
    ),
    "groups": (
        case(21, "GroupNormalization", X, floats(2), floats(2), num_groups=3),
        "num_groups is 3, expected a divisor of 2 channels",
    ),
    "steps": (
        case(13, "Slice", floats(3), *map(integers, (0, 1, 0, 0)), known=(1, 2, 3, 4)),
        "it slices axis 0 by 0, expected an axis of an input of rank 1 and a step that is not 0",
    ),
    "spatial": (
        case(7, "BatchNormalization", X, *[floats(2)] * 4, spatial=0),
        "spatial is 0, expected 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_reason(name):
    refused, text = REFUSED[name]
    model, _ = model_of([refused])
    with pytest.raises((dmlax.UnsupportedError, dmlax.onnx.ModelError), match=text):
        dmlax.onnx.load(model)


def test_more_rows_than_a_size_are_refused_by_the_call():
    model, inputs = model_of([case(11, "Compress", floats(3), np.array([True, False, True]))])
    loaded = dmlax.onnx.load(model, nonzero_size={"n0": 1})
    with pytest.raises(dmlax.SpecError, match="has 2 rows, expected 1 or fewer: nonzero_size"):
        loaded(inputs)
