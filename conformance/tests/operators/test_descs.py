"""Descs: how a call is spelled, layouts, and buffers with gaps.

The vectors of descs say of every rule what it accepts and refuses; `verify` recomputes them.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlax_conformance.errors import Unsupported
from dmlax_conformance.format import layout
from dmlax_conformance.format.descs import buffer, gather, scatter, tensor_desc
from dmlax_conformance.format.tensors import Tensor, to_numpy
from dmlax_conformance.format.vectors import ExpectedError, Request, Vector
from dmlax_conformance.oracle.descriptors import answer_desc, express, feature_levels, needs
from dmlax_conformance.oracle.operator import LEVELS, Sizes
from dmlax_conformance.runner.compare import compare_outputs

NONZERO, QUANTIZED = "nonzero_coordinates", "quantized_linear_convolution"
QUANTIZE = "element_wise_quantize_linear"
STRIDED = "quantize-desc-strides-output-interleaved"


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=4))
@settings(deadline=None, max_examples=300)
def test_overlap_is_exact(axes: list[tuple[int, int]]) -> None:
    sizes, strides = [n for n, _ in axes], [s for _, s in axes]
    places = product(*map(range, sizes))
    found = [sum(i * s for i, s in zip(place, strides, strict=True)) for place in places]
    assert layout.overlaps(sizes, strides) == (len(set(found)) < len(found))
    assert layout.offsets(sizes, strides) == found


@given(st.lists(st.tuples(st.integers(2, 5), st.integers(1, 30)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=300)
def test_the_search_for_large_tensors_is_exact_too(axes: list[tuple[int, int]]) -> None:
    axes = sorted(axes, key=lambda axis: axis[1], reverse=True)
    assert layout._meets(axes) == layout.overlaps([n for n, _ in axes], [s for _, s in axes])


def test_large_layouts_cost_nothing() -> None:
    assert not layout.overlaps([2**31, 2**31], [2**31, 1])
    assert layout.overlaps([2**31, 2**31], [2**31 - 1, 1])
    assert not layout.overlaps([40000, 40000], [40001, 40000])
    assert layout.overlaps([40002, 40002], [40001, 40000])


def test_scatter_and_gather() -> None:
    desc = tensor_desc("UINT8", [2, 2], [3, 2], 8)
    held = scatter(desc, (1, 2, 3, 4), 99)
    assert held == Tensor("uint8", (8,), (1, 99, 2, 3, 99, 4, 99, 99))
    assert gather(desc, held) == Tensor("uint8", (2, 2), (1, 2, 3, 4))
    packed = tensor_desc("UINT8", [2, 2], None, 64)
    assert scatter(packed, (1, 2, 3, 4), 99).sizes == (2, 2)


def test_outputs_are_gathered_and_gaps_do_not_matter(suite: list[Vector]) -> None:
    vector = next(each for each in suite if each.id == STRIDED)
    assert vector.desc is not None
    assert not isinstance(vector.expect, ExpectedError)
    answer = answer_desc(vector.operator, vector.desc, vector.feature_level or "", vector.inputs)
    held = to_numpy(answer["OutputTensor"]).copy()
    assert held.shape == (8,)
    held[[1, 4, 6, 7]] = 77
    asked = vector.expect, {"OutputTensor": held}, vector.desc
    assert compare_outputs(*asked).verdict == "exact"
    held[3] ^= 1
    assert compare_outputs(*asked).verdict == "fail"
    for shape in ((4,), (6,), (2, 2), (2, 4), (9,)):
        wrong = {"OutputTensor": np.zeros(shape, "uint8")}
        outcome = compare_outputs(vector.expect, wrong, vector.desc)
        assert outcome.verdict == "fail"
        assert "buffer" in outcome.details[0]


def test_express_spells_a_call_as_directml_does() -> None:
    """The example is the page's."""
    outputs = {
        "OutputCountTensor": Request("uint32", (1, 1, 1, 1)),
        "OutputCoordinatesTensor": Request("uint32", (1, 1, 8, 3)),
    }
    image = Tensor("float32", (1, 1, 2, 4), (0,) * 8)
    desc = express(NONZERO, {}, {"InputTensor": image}, outputs)
    assert desc == {
        "InputTensor": tensor_desc("FLOAT32", [1, 1, 2, 4]),
        "OutputCountTensor": tensor_desc("UINT32", [1] * 4),
        "OutputCoordinatesTensor": tensor_desc("UINT32", [1, 1, 8, 3]),
    }
    assert feature_levels(NONZERO, desc) == LEVELS[LEVELS.index("3_0") :]
    truths = Tensor("bool", (1, 1, 2, 4), (0,) * 8)  # DirectML has no name for these
    desc = express(NONZERO, {}, {"InputTensor": truths}, outputs)
    assert desc["InputTensor"]["DataType"] == "UNKNOWN"
    assert feature_levels(NONZERO, desc) == ()


def test_no_desc_has_a_requantization(suite: list[Vector]) -> None:
    vector = next(each for each in suite if "Requantization" in each.attributes)
    given = vector.operator, vector.attributes, vector.inputs, vector.outputs
    with pytest.raises(Unsupported, match="no desc has a Requantization"):
        express(*given)


def test_express_repeats_a_parameter_by_strides_of_0() -> None:
    row, one = Tensor("float32", (3,), (1, 2, 3)), Tensor("uint8", (1,), (7,))
    image = Tensor("float32", (2, 3), (0,) * 6)
    inputs = {"InputTensor": image, "ScaleTensor": row, "ZeroPointTensor": one}
    desc = express(QUANTIZE, {}, inputs, {"OutputTensor": Request("uint8", (2, 3))})
    assert desc["ScaleTensor"] == tensor_desc("FLOAT32", [2, 3], [0, 1])
    assert desc["ZeroPointTensor"] == tensor_desc("UINT8", [2, 3], [0, 0])
    assert feature_levels(QUANTIZE, desc)[0] == "3_0"
    assert needs(QUANTIZE, desc) == {"descriptors", "strides"}
    assert buffer(desc["ZeroPointTensor"], one).words == (7, 0, 0, 0)
    assert gather(desc["ScaleTensor"], buffer(desc["ScaleTensor"], row)).words == (1, 2, 3) * 2


@pytest.mark.parametrize(
    ("bias", "scale", "output", "spelled"),
    [
        ((2,), (1, 2, 1, 1), (1,), (1, 2, 1, 1)),
        ((1, 2), (2,), (1, 1, 1), (2,)),
        ((1, 2, 1, 1), (1, 2, 1, 1), (), (2,)),  # no desc has a tensor without axes
    ],
)
def test_express_gives_bias_and_parameters_the_sizes_of_directml(
    bias: Sizes, scale: Sizes, output: Sizes, spelled: Sizes
) -> None:
    inputs = {
        "InputTensor": Tensor("uint8", (1, 1, 1, 1), (7,)),
        "FilterTensor": Tensor("int8", (2, 1, 1, 1), (1, 2)),
        "BiasTensor": Tensor("int32", bias, (3, 4)),
        "InputScaleTensor": Tensor("float32", (1,), (1,)),
        "FilterScaleTensor": Tensor("float32", scale, (1, 1)),
        "OutputScaleTensor": Tensor("float32", output, (1,)),
    }
    ones = {"Strides": [1, 1], "Dilations": [1, 1], "GroupCount": 1}
    windows = {**ones, "StartPadding": [0, 0], "EndPadding": [0, 0]}
    desc = express(QUANTIZED, windows, inputs, {"OutputTensor": Request("uint8", (1, 2, 1, 1))})
    assert desc["BiasTensor"] == tensor_desc("INT32", [1, 2, 1, 1])
    assert desc["FilterScaleTensor"]["Sizes"] == list(spelled)
    assert desc["OutputScaleTensor"]["Sizes"] == list(output or (1,))
    assert "5_2" in feature_levels(QUANTIZED, desc)
