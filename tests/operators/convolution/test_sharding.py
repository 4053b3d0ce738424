"""A convolution split over devices: the same bits, and nothing gathered."""

import functools
import re

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dmlax
from support import draw, in_turn
from support.cases.convolution import SPLIT

WINDOWS = {"start_padding": (1, 1), "end_padding": (1, 1)}
SCALES = {"input_scale": 0.1, "filter_scale": 0.2, "output_scale": 3.0}
CONVOLVE = functools.partial(
    dmlax.quantized_linear_convolution, **SCALES, **WINDOWS, input_zero_point=5
)
COLLECTIVE = r"\b(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\b"


def collectives(program):
    """The names of those in a compiled program, which must be one for four devices."""
    text = program.compile().as_text()
    assert "num_partitions=4" in text
    return set(re.findall(COLLECTIVE, text))


@pytest.fixture(params=["Auto", "Explicit"])
def mesh(request):
    """`make_mesh` makes explicit axes, unless told otherwise."""
    return jax.make_mesh((4,), ("d",), axis_types=(AxisType[request.param],))


def put(mesh, operands, specs):
    return [
        jax.device_put(operand, NamedSharding(mesh, spec))
        for operand, spec in zip(operands, specs, strict=True)
    ]


@pytest.fixture
def program(take, request):
    """A program of a CPU, or a GPU's, compiled for the CPU."""
    if request.param == "GPU":
        take("_by_words")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("mesh", "program", "layout", "groups"),
    in_turn(
        [
            ("Auto", "CPU", "NCHW", 1),
            ("Auto", "GPU", "NHWC", 1),
            ("Auto", "CPU", "NCHW", 16),
            ("Explicit", "CPU", "NHWC", 2),
            ("Auto", "GPU", "NHWC", 2),
        ]
    ),
    indirect=["mesh", "program"],
)
@pytest.mark.parametrize("split", SPLIT)
def test_no_operand_is_gathered(layout, groups, split, mesh):
    x = draw(0, np.uint8, (8, 16, 9, 9)).transpose(["NCHW".index(axis) for axis in layout])
    w = draw(1, np.int8, (32, 16 // groups, 3, 3))
    operands = x, w, np.random.default_rng(0).integers(-1000, 1000, 32, np.int32)
    call = jax.jit(
        functools.partial(
            CONVOLVE,
            filter_zero_point=3,
            group_count=groups,
            dimension_numbers=(layout, "OIHW", layout),
        )
    )
    placed = put(mesh, operands, SPLIT[split])
    assert not collectives(call.lower(*placed))
    result = call(*placed)
    axis = 0 if split == "batch" else layout.index("C")
    assert result.sharding.spec[axis] == "d"
    np.testing.assert_array_equal(result, call(*operands))


@pytest.mark.parametrize("layout", ["OIHW", "HWIO"])
def test_a_prepared_filter_stays_split_over_its_output_channels(layout, mesh):
    x, w = draw(0, np.uint8, (2, 8, 9, 9)), draw(1, np.int8, (16, 8, 3, 3))
    spec = PartitionSpec(*("d" if axis == "O" else None for axis in layout))
    prepare = functools.partial(dmlax.prepare_filter, dimension_numbers=("NCHW", layout, "NCHW"))
    w = w.transpose(["OIHW".index(axis) for axis in layout])
    image, split = put(mesh, (x, w), (PartitionSpec(), spec))
    filter = prepare(split)
    assert filter.packed.sharding.spec[0] == filter.sums.sharding.spec[0] == "d"
    call = jax.jit(CONVOLVE)
    assert not collectives(call.lower(image, filter))
    result = call(image, filter)
    assert result.sharding.spec[1] == "d"
    np.testing.assert_array_equal(result, call(x, prepare(w)))


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("program", ["CPU", "GPU"], indirect=True)
def test_between_tensor_parallel_layers_the_activations_are_gathered_once_as_8_bits(mesh):
    """The second layer needs all channels of the first one's output; no filter and no sum moves."""
    x = draw(0, np.uint8, (2, 8, 9, 9))
    filters = draw(1, np.int8, (16, 8, 3, 3)), draw(2, np.int8, (32, 16, 3, 3))

    def model(x, first, second):
        return CONVOLVE(CONVOLVE(x, first), second)

    spec = PartitionSpec("d")
    image, *split = put(mesh, (x, *filters), (PartitionSpec(), spec, spec))
    prepared = [dmlax.prepare_filter(filter) for filter in split]
    program = jax.jit(model).lower(image, *prepared)
    assert collectives(program) == {"all-gather"}
    gathered = re.findall(r"= (\w+)\[(\S*)\]\S* all-gather\(", program.compile().as_text())
    assert gathered == [("u8", "2,16,9,9")]
    np.testing.assert_array_equal(jax.jit(model)(image, *prepared), model(x, *filters))


def test_a_batch_and_a_filter_on_one_mesh_axis_split_the_batch():
    mesh = jax.make_mesh((4,), ("d",))
    x, w = draw(0, np.uint8, (4, 8, 9, 9)), draw(1, np.int8, (16, 8, 3, 3))
    placed = put(mesh, (x, w), (PartitionSpec("d"), PartitionSpec("d")))
    result = jax.jit(CONVOLVE)(*placed)
    assert result.sharding.spec == PartitionSpec("d", None, None, None)
    np.testing.assert_array_equal(result, CONVOLVE(x, w))


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_a_batch_and_a_filter_on_two_mesh_axes_split_both(kind):
    mesh = jax.make_mesh((2, 2), ("b", "k"), axis_types=(AxisType[kind],) * 2)
    x, w = draw(0, np.uint8, (4, 8, 9, 9)), draw(1, np.int8, (16, 8, 3, 3))
    placed = put(mesh, (x, w), (PartitionSpec("b"), PartitionSpec("k")))
    call = jax.jit(CONVOLVE)
    assert not collectives(call.lower(*placed))
    result = call(*placed)
    assert tuple(result.sharding.spec)[:2] == ("b", "k")
    np.testing.assert_array_equal(result, CONVOLVE(x, w))
