"""nonzero_coordinates by every implementation, against NumPy and the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support import (
    NATIVE,
    WORDS,
    assert_same,
    by_implementations,
    coordinates,
    draw,
    padded_rows,
)

IMPLEMENTATIONS = ["xla", "reference", *NATIVE]
DTYPES = [
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
    *("float16", "bfloat16", "float32"),
]


def sparse(shape, dtype, seed=0, density=0.4):
    """Random bits, and zeros of both signs among them."""
    dtype = jnp.dtype(dtype)
    rng = np.random.default_rng(seed)
    keep = rng.random(shape) < density
    if dtype.kind == "b":
        return keep
    words = draw(seed, WORDS[dtype.itemsize], shape) * keep
    if jnp.issubdtype(dtype, jnp.floating):
        sign = words.dtype.type(1 << (dtype.itemsize * 8 - 1))
        words = np.where(keep, words, sign * (rng.random(shape) < 0.5)).astype(words.dtype)
    return words.view(dtype)


def check(x, found, size=None, width=None, fill_value=0):
    rows = coordinates(x, width)
    size = x.size if size is None else size
    assert_same(found.count, np.uint32(len(rows)))
    assert_same(found.coordinates, padded_rows(rows, size, fill_value))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_axes_of_an_empty_input_may_multiply_to_more_than_an_index_holds(implementation):
    x = np.zeros((3, 0, 2**16, 2**17), np.uint8)
    check(x, dmlax.nonzero_coordinates(x, size=2, implementation=implementation), size=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_zero_by_its_bits_alone(dtype, how):
    x = sparse((7, 13), dtype)
    assert 0 < len(coordinates(x)) < x.size
    check(x, how(dmlax.nonzero_coordinates)(jnp.asarray(x)))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_a_64_bit_numpy_array_is_looked_at_whole(dtype):
    words = [0, 1, 1 << 32, 1 << 63, (1 << 63) | 1, 0x7FF8 << 48]
    x = np.array(words, np.uint64).view(dtype)
    check(x, dmlax.nonzero_coordinates(x))
    strided = np.stack([x, x[::-1]], axis=1)[:, 0]
    assert not strided.flags.c_contiguous
    check(strided, dmlax.nonzero_coordinates(strided))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_64_bit_arrays_can_be_traced_where_jax_has_them(dtype):
    words = [0, 1, 1 << 32, 1 << 63, (1 << 63) | 1]
    x = np.array(words, np.uint64).view(dtype)
    with jax.enable_x64(True):
        check(x, jax.jit(dmlax.nonzero_coordinates)(jnp.asarray(x)))


RANKS = [
    ((1, 1, 2, 4), (2, 3, 4)),
    ((1, 1, 1), (1, 2, 3)),
    ((1,), (1,)),
    ((1, 5), (1, 2)),
    ((2, 1, 3), (3,)),
    ((1, 0, 3), (2, 3)),
]


@pytest.mark.parametrize(
    ("shape", "widths", "implementation"), by_implementations(RANKS, IMPLEMENTATIONS), ids=str
)
def test_leading_axes_of_size_1_may_be_left_out(shape, widths, implementation):
    x = sparse(shape, "float16", density=0.7)
    for width in widths:
        options = {"coordinate_rank": width, "implementation": implementation}
        check(x, dmlax.nonzero_coordinates(x, **options), width=width)


DENSITIES = {"nothing": 0.0, "almost nothing": 1e-4, "half": 0.5, "everything": 1.1}


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("size", [None, 1000])
def test_input_larger_than_a_chunk_is_compacted_in_order(size, density):
    """More than 2**20 elements go through in chunks; 32 does not divide these."""
    x = np.random.default_rng(2).random(2**20 + 2**18 + 5) < DENSITIES[density]
    check(x, dmlax.nonzero_coordinates(x, size=size), size)


@pytest.mark.parametrize("shape", [(2**20,), (3, 2**20), (2**21 + 1,), (1031, 1021)], ids=str)
def test_chunk_boundaries_lose_nothing(shape):
    x = (np.random.default_rng(3).random(shape) < 0.01).astype(np.uint8)
    x.reshape(-1)[[0, 2**20 - 1, -1]] = 1
    if x.size > 2**20:
        x.reshape(-1)[2**20] = 1
    check(x, dmlax.nonzero_coordinates(x, size=50_000), 50_000)


def test_a_weak_or_scalar_input_is_treated_as_an_array_is():
    weak = jnp.full((2, 2), 3)
    assert jax.typeof(weak).weak_type
    assert dmlax.nonzero_coordinates(weak).count == 4
    with pytest.raises(dmlax.SpecError, match=r"InputTensor is float32\[\], expected rank 1"):
        dmlax.nonzero_coordinates(np.float32(1))


@pytest.mark.parametrize("fill_value", [0, 1, 2**32 - 1])
def test_indices_gather_and_scatter_the_found_elements_alone(fill_value, how):
    """Whatever fills the rows after the count, 0 and the last element are not met again."""
    x = np.float32([[3, 0, 0, 5], [0, 7, 0, 9]])

    def sums(x):
        found = dmlax.nonzero_coordinates(x, size=6, fill_value=fill_value)
        values = x.at[found.indices].get(mode="fill", fill_value=-1)
        return values, jnp.zeros_like(x).at[found.indices].add(values, mode="drop")

    values, scattered = how(sums)(jnp.asarray(x))
    assert values.tolist() == [3, 5, 7, 9, -1, -1]
    assert_same(scattered, x)
    both = jax.vmap(sums)(jnp.stack([x, x * 0]))
    assert both[0].tolist() == [[3, 5, 7, 9, -1, -1], [-1] * 6]
    assert_same(both[1], np.stack([x, x * 0]))


def test_a_plain_index_meets_an_element_again():
    """The reason for `indices`."""
    x = jnp.float32([3, 0, 9])
    clamped = dmlax.nonzero_coordinates(x, fill_value=3).coordinates
    assert x[tuple(clamped.T)].tolist() == [3, 9, 9]
    first = dmlax.nonzero_coordinates(x).coordinates
    assert jnp.zeros(3).at[tuple(first.T)].add(1).tolist() == [2, 0, 1]
