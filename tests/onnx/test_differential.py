"""A slice of `nox -s differential`, which draws thousands of graphs."""

import itertools
import os

import numpy as np
import pytest
from onnx import helper

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.passes import byte_functions, byte_moves, constants, qdq
from support import onnx_files
from tools.differential import operators
from tools.differential.__main__ import BAD
from tools.differential.graphs import describe, draw
from tools.differential.judge import check
from tools.differential.own_process import PeerError, in_own_process


@pytest.mark.parametrize("start", range(0, 20, 10))
def test_random_graphs_mean_what_they_say(start):
    """Most of them run, and are compared bit by bit."""
    verdicts = []
    for seed in range(start, start + 10):
        verdict, why = check(seed)
        assert verdict not in BAD, f"seed {seed}: {why}\n{describe(draw(seed)[0])}"
        verdicts.append(verdict)
    assert verdicts.count("right") >= 6


def test_a_peer_that_crashes_takes_nothing_along():
    with pytest.raises(PeerError, match="ONNX Runtime ended its process"):
        in_own_process(os._exit, 1)
    with pytest.raises(PeerError, match="ValueError: invalid literal"):
        in_own_process(int, "x")
    assert in_own_process(int, "7") == 7


def test_every_operator_that_a_pass_moves_or_fuses_is_drawn():
    rows = itertools.chain(*(rows for family in operators.FAMILIES.values() for rows, _ in family))
    drawn = {name for row in rows for name in row.ops.split()}
    element_wise = {op for op, domain in byte_functions._ELEMENT_WISE if not domain}
    known = {*qdq.FUSIONS, *byte_moves._MOVES, *constants._MOVES, *element_wise}
    assert known - drawn == {"DequantizeLinear", "QuantizeLinear"}


def resize(shape, roi=(), scales=(), sizes=(), **options):
    """A Resize of floats."""
    given = {"roi": np.float32(roi), "scales": np.float32(scales), "sizes": np.int64(sizes)}
    constants = {name: x for name, x in given.items() if x.size}
    names = ["x", *(name if name in constants else "" for name in given)]
    node = helper.make_node("Resize", names, ["y"], **options)
    return onnx_files.model([node], {"x": (np.float32, shape)}, ["y"], constants, 19)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [[-2, -1], [3, -2]])
def test_negative_axes_of_a_resize_are_those_counted_from_the_front(policy, axes):
    """ONNX Runtime 1.32 ignores the sizes if an axis is negative."""
    x = np.arange(56, dtype=np.float32).reshape(1, 1, 8, 7)
    options = {"sizes": [5, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"}
    front = resize(x.shape, axes=[axis % 4 for axis in axes], **options)
    wanted = peer.run(peer.start(front), {"x": x})["y"]
    y = np.asarray(dmlax.onnx.load(resize(x.shape, axes=axes, **options))(x)["y"])
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


CROP = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -9.0}
STAYING = {  # resizes to the same sizes, and the places that they show; ONNX Runtime 1.32 copies
    "crop to a size": ({"roi": [0.2, 0.8], "sizes": [6], **CROP}, [1, 1.6, 2.2, 2.8, 3.4, 4]),
    "crop by 1": ({"roi": [0.2, 0.8], "scales": [1], **CROP}, [1, 1.6, 2.2, 2.8, 3.4, 4]),
    "crop by 1.1": ({"roi": [-0.2, 1], "scales": [1.1], **CROP}, [-9, 0.2, 1.4, 2.6, 3.8, 5]),
    "asymmetric": (
        {"scales": [1.1], "coordinate_transformation_mode": "asymmetric"},
        np.arange(6) / 1.1,
    ),
    "half_pixel": ({"scales": [1.1]}, np.clip((np.arange(6) + 0.5) / 1.1 - 0.5, 0, 5)),
}


@pytest.mark.parametrize("name", STAYING)
def test_a_resize_to_the_same_size_is_no_copy(name):
    """A crop is none along a single axis, either, though ONNX Runtime copies one of scale 1."""
    options, places = STAYING[name]
    x = np.arange(6, dtype=np.float32)
    y = dmlax.onnx.load(resize(x.shape, mode="linear", **options))(x)["y"]
    np.testing.assert_allclose(y, places, rtol=1e-6)
    if "roi" in options:
        start, end = options["roi"]
        options = {**options, "roi": [0, start, 1, end], "sizes": (), "scales": [2, 1]}
        y = dmlax.onnx.load(resize((1, 6), mode="linear", **options))(x[None])["y"]
        np.testing.assert_allclose(y[1], places, rtol=1e-6)
