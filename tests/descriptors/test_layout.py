"""Strided buffers against NumPy's strides and against brute force."""

import itertools
from math import prod

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlax._descriptors import layout
from support import assert_same, draw
from support.cases.directml import permuted

DTYPES = ["uint8", "int8", "int16", "float16", "float32", "uint32"]
CHANNELS_LAST = (2, 3, 4, 5), permuted((2, 3, 4, 5), (0, 2, 3, 1))
PADDED_PLANES = (2, 3, 4), (20, 6, 1)
PADDED_ROWS = (3, 5), (8, 1)
INTERLEAVED = (2, 3), (3, 2)


def offsets(sizes, strides):
    """Every element's place."""
    steps = np.array(strides, np.int64).reshape(-1, *[1] * len(sizes))
    return np.sum(np.indices(sizes) * steps, axis=0)


def viewed(buffer, sizes, strides):
    """NumPy's own strides."""
    steps = [stride * buffer.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(buffer, sizes, steps, writeable=False)


def length(sizes, strides, more=0):
    return int(offsets(sizes, strides).max()) + 1 + more


def written(array, strides, size):
    buffer = np.zeros(size, array.dtype)
    buffer[offsets(array.shape, strides)] = array
    return buffer


def check_read(how, sizes, strides, more, dtype="int16"):
    buffer = draw(7, dtype, length(sizes, strides, more))
    run = how(lambda buffer: layout.read(buffer, sizes, strides))
    assert_same(run(buffer), viewed(buffer, sizes, strides))


def check_write(how, sizes, strides, more, dtype="int16"):
    array, size = draw(8, dtype, sizes), length(sizes, strides, more)
    buffer = how(lambda array: layout.write(array, strides, size))(jax.numpy.asarray(array))
    assert_same(buffer, written(array, strides, size))
    back = how(lambda buffer: layout.read(buffer, sizes, strides))(buffer)
    assert_same(back, array)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("strides", [(8, 1), (3, 2)], ids=["padded", "interleaved"])
def test_bits_of_every_data_type_are_kept(name, strides):
    sizes, bits = (2, 3), {1: "uint8", 2: "uint16", 4: "uint32"}
    dtype = np.dtype(name)
    buffer = draw(3, bits[dtype.itemsize], length(sizes, strides, 2)).view(dtype)
    array = jax.jit(lambda buffer: layout.read(buffer, sizes, strides))(buffer)
    expected = viewed(buffer, sizes, strides)
    assert_same(array, np.ascontiguousarray(expected))
    back = jax.jit(lambda array: layout.write(array, strides, len(buffer)))(array)
    assert_same(back, written(np.ascontiguousarray(expected), strides, len(buffer)))


HUGE = {
    "packed": ((2**16, 2**15), (2**15, 1), True),
    "transposed": ((2**16, 2**15), (1, 2**16), True),
    "one too close": ((2**16, 2**15), (2**15 - 1, 1), False),
    "coprime, of the same reach": ((1000, 1001), (1001, 1000), True),
    "coprime, meeting at the last": ((1002, 1001), (1000, 1001), False),
    "even and odd": ((2**15, 2**15, 2), (2**16, 2, 1), True),
    "interleaved planes": ((2**10, 2**10, 2**10), (2**20, 1, 2**10), True),
    "interleaved, too many": ((2, 2**10 + 1, 2**10), (2**20, 1, 2**10), False),
}


@pytest.mark.parametrize(("sizes", "strides", "expected"), HUGE.values(), ids=HUGE)
def test_large_layouts_are_decided_without_listing_their_places(sizes, strides, expected):
    assert layout.is_distinct(sizes, strides) == expected


# --- random layouts -----------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@st.composite
def free(draws):
    """Any small strides: overlapping, interleaved, repeated."""
    sizes = draws(SIZES)
    return tuple(sizes), tuple(draws(st.integers(0, 12)) for _ in sizes)


@st.composite
def nested(draws):
    """Axes in any order, each with a gap of its own, or of the packed tensor."""
    sizes = draws(SIZES)
    order = draws(st.permutations(range(len(sizes))))
    strides, reach = [0] * len(sizes), 0
    for axis in order:
        strides[axis] = reach + draws(st.integers(1, 4))
        reach += (sizes[axis] - 1) * strides[axis]
    return tuple(sizes), tuple(strides)


@st.composite
def repeated(draws):
    """Nested, with axes that do not move."""
    sizes, strides = draws(nested())
    moves = draws(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    pairs = zip(strides, moves, strict=True)
    return sizes, tuple(stride if moving else 0 for stride, moving in pairs)


ANY = st.one_of(free(), nested(), repeated())
MORE = st.integers(0, 9)


@given(ANY, MORE)
def test_reading_is_numpys(drawn, more):
    check_read(jax.jit, *drawn, more)


@given(st.one_of(nested(), free()), MORE)
def test_writing_is_numpys(drawn, more):
    sizes, strides = drawn
    if len(np.unique(offsets(sizes, strides))) == prod(sizes):
        check_write(jax.jit, sizes, strides, more)


@given(ANY)
def test_distinct_means_that_brute_force_finds_no_two(drawn):
    sizes, strides = drawn
    places = np.unique(offsets(sizes, strides))
    assert layout.is_distinct(sizes, strides) == (len(places) == prod(sizes))


def test_all_small_layouts_are_told_apart():
    for sizes in itertools.product(range(1, 4), repeat=3):
        for strides in itertools.product(range(7), repeat=3):
            places = np.unique(offsets(sizes, strides))
            assert layout.is_distinct(sizes, strides) == (len(places) == prod(sizes))


def test_nested_reading_and_writing_gather_and_scatter_nothing():
    for sizes, strides in [CHANNELS_LAST, PADDED_PLANES]:
        size = length(sizes, strides, 3)
        buffer, array = np.zeros(size, np.int8), np.zeros(sizes, np.int8)
        read = jax.jit(lambda x, a=sizes, b=strides: layout.read(x, a, b)).lower(buffer)
        write = jax.jit(lambda x, b=strides, n=size: layout.write(x, b, n)).lower(array)
        assert "gather" not in read.as_text()
        assert "scatter" not in write.as_text()


def test_reading_and_writing_go_under_vmap():
    for sizes, strides in [PADDED_ROWS, INTERLEAVED]:
        size = length(sizes, strides, 3)
        buffers = draw(5, "int16", (3, size))
        arrays = jax.vmap(lambda x, a=sizes, b=strides: layout.read(x, a, b))(buffers)
        assert_same(arrays, np.stack([viewed(each, sizes, strides) for each in buffers]))
        back = jax.vmap(lambda x, b=strides, n=size: layout.write(x, b, n))(arrays)
        expected = [written(np.asarray(each), strides, size) for each in arrays]
        assert_same(back, np.stack(expected))
