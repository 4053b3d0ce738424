"""Random QLinearConv models: ONNX Runtime and `arithmetic="float32"` agree on every bit.

A shape costs a compilation, so there are few shapes and many draws of data, scales and zero points
for each. `slow` runs 1,000 models of each pair of data types.
"""

import math

import jax
import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import dmlax
from support import draw

PAIRS = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")]  # what has a kernel
MODELS = [(4, 10), pytest.param(25, 40, marks=pytest.mark.slow)]  # shapes, draws of each
LAYOUTS = {1: ("NCW", "OIW", "NCW"), 2: ("NCHW", "OIHW", "NCHW")}
FEATURES = ("bias", "per channel", "depthwise", "rank 3", "groups", "padding", "dilations")


def windows(seed):
    """Sizes and attributes of a layer: the first has no feature, the second all, others some."""
    rng = np.random.default_rng(seed)
    has = {name: bool(seed if seed < 2 else rng.integers(2)) for name in FEATURES}
    spatial = 1 if has["rank 3"] else 2
    groups = int(rng.integers(2, 5)) if has["groups"] or has["depthwise"] else 1
    channels = 1 if has["depthwise"] else int(rng.integers(1, 9))
    filters = groups * int(rng.integers(1, 5))
    kernel, strides = (rng.integers(1, 4, spatial) for _ in range(2))
    dilations = rng.integers(1, 4 if has["dilations"] else 2, spatial)
    start, end = (rng.integers(0, 3 if has["padding"] else 1, spatial) for _ in range(2))
    span = (kernel - 1) * dilations + 1
    image = np.maximum(span - start - end, 1) + rng.integers(0, 9, spatial)
    options = {"strides": strides, "dilations": dilations}
    options |= {"start_padding": start, "end_padding": end}
    return {
        "x": (int(rng.integers(1, 4)), groups * channels, *image.tolist()),
        "w": (filters, channels, *kernel.tolist()),
        "options": {name: tuple(value.tolist()) for name, value in options.items()},
        "groups": groups,
        "has": has,
    }


def values(seed, shape, x_dtype, w_dtype):
    """QLinearConv's inputs by ONNX's names; scales so that most outputs are in range."""
    rng = np.random.default_rng(seed)
    filters, terms = shape["w"][0], math.prod(shape["w"][1:])
    lengths = (filters,) if shape["has"]["per channel"] else ()
    ratio = 2.0 ** rng.integers(-14, -6) if rng.integers(3) == 0 else rng.uniform(2e-4, 2e-2)
    x_scale, y_scale = (np.float32(10.0 ** rng.uniform(-4, 2)) for _ in range(2))
    spread = (
        2.0 ** rng.integers(-1, 2, lengths) if rng.integers(2) else rng.uniform(0.5, 2, lengths)
    )
    w_scale = np.float32(ratio / math.sqrt(terms) * y_scale / x_scale * spread)
    if rng.integers(3) == 0:  # exact ties
        x_scale, y_scale = np.float32(0.5), np.float32(2)
        w_scale = np.float32(2.0 ** rng.integers(-10, -5, lengths))
    given = {
        "x": draw(seed, x_dtype, shape["x"]),
        "x_scale": x_scale,
        "x_zero_point": draw(seed + 1, x_dtype),
        "w": draw(seed + 2, w_dtype, shape["w"]),
        "w_scale": w_scale,
        "w_zero_point": np.full(lengths, draw(seed + 3, w_dtype)),
        "y_scale": y_scale,
        "y_zero_point": draw(seed + 4, x_dtype),
    }
    if shape["has"]["bias"]:
        given["B"] = rng.integers(-(2**15), 2**15, filters, np.int32)
    return {name: np.asarray(value) for name, value in given.items()}


def expected(given, shape):
    """ONNX Runtime's result; its parameters are constants, as in a quantized network."""
    options = shape["options"]
    node = helper.make_node(
        "QLinearConv",
        list(given),
        ["y"],
        pads=(*options["start_padding"], *options["end_padding"]),
        strides=options["strides"],
        dilations=options["dilations"],
        group=shape["groups"],
    )
    kind = helper.np_dtype_to_tensor_dtype(given["x"].dtype)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", kind, given["x"].shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, k) for k, value in given.items() if k != "x"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    if given["x"].dtype == np.uint8:  # else 16-bit sums saturate on x64 processors without VNNI
        settings.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": given["x"]})[0]


def function(shape):
    """The layer, jitted; everything is traced."""

    @jax.jit
    def call(given):
        return dmlax.quantized_linear_convolution(
            *(given["x"], given["w"], given.get("B")),
            input_scale=given["x_scale"],
            input_zero_point=given["x_zero_point"],
            filter_scale=given["w_scale"],
            filter_zero_point=given["w_zero_point"],
            output_scale=given["y_scale"],
            output_zero_point=given["y_zero_point"],
            group_count=shape["groups"],
            dimension_numbers=LAYOUTS[len(shape["x"]) - 2],
            arithmetic="float32",
            **shape["options"],
        )

    return call


@pytest.mark.parametrize(("shapes", "draws"), MODELS)
@pytest.mark.parametrize(("x_dtype", "w_dtype"), PAIRS)
def test_random_models_agree_on_every_bit(x_dtype, w_dtype, shapes, draws):
    models = mismatches = spread = 0
    for seed in range(shapes):
        shape = windows(seed)
        call = function(shape)
        for number in range(draws):
            given = values(10_000 * seed + 10 * number, shape, x_dtype, w_dtype)
            want, got = expected(given, shape), np.asarray(call(given))
            assert (want.dtype, want.shape) == (got.dtype, got.shape)
            mismatches += not np.array_equal(want, got)
            spread += len(np.unique(want)) > 1
            models += 1
    print(f"{models} random models of {x_dtype} and {w_dtype}: {mismatches} mismatches")
    assert (models, mismatches) == (shapes * draws, 0)
    assert spread > 0.8 * models  # saturation everywhere would agree too easily


def test_the_short_run_has_every_feature_and_its_absence():
    for name in FEATURES:
        assert {windows(seed)["has"][name] for seed in range(MODELS[0][0])} == {True, False}, name


def test_a_pair_without_a_kernel_is_not_in_the_list():
    """The list has to grow if ONNX Runtime gains the fourth pair."""
    shape = windows(0)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented):
        expected(values(0, shape, "int8", "uint8"), shape)
