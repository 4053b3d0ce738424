"""A convolution split over devices: the same bits, and nothing gathered."""

import functools

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding

import dmlax
from convolution_cases import SPLIT


@pytest.fixture
def mesh():
    return jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))


@pytest.fixture(params=["CPU", "GPU"])
def program(take, request):
    """That of a CPU, or a GPU's, compiled for the CPU."""
    if request.param == "GPU":
        take("_by_words")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("split", SPLIT)
@pytest.mark.parametrize("groups", [1, 2, 16])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_no_operand_is_gathered(layout, groups, split, mesh):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (8, 16, 9, 9), np.uint8)
    x = x.transpose(["NCHW".index(axis) for axis in layout])
    w = rng.integers(-128, 128, (32, 16 // groups, 3, 3), np.int8)
    operands = x, w, rng.integers(-1000, 1000, 32, np.int32)
    call = jax.jit(
        functools.partial(
            dmlax.quantized_linear_convolution,
            input_scale=0.1,
            filter_scale=0.2,
            output_scale=3.0,
            input_zero_point=5,
            filter_zero_point=3,
            start_padding=(1, 1),
            end_padding=(1, 1),
            group_count=groups,
            dimension_numbers=(layout, "OIHW", layout),
        )
    )
    placed = [
        jax.device_put(operand, NamedSharding(mesh, spec))
        for operand, spec in zip(operands, SPLIT[split], strict=True)
    ]
    text = call.lower(*placed).compile().as_text()
    assert "num_partitions=4" in text
    assert "all-gather" not in text
    assert "all-to-all" not in text
    np.testing.assert_array_equal(call(*placed), call(*operands))
