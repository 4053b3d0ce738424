"""The Hopper kernel of tables in shared memory: lowered on a CPU, refused where it cannot run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core import pairs
from support import draw, shaped

SCALES = {"a_scale": 0.1, "b_scale": 0.07, "output_scale": 0.2, "implementation": "mosaic_gpu"}


def look_up(x, table):
    return dmlax.quantized_lookup(x, table, implementation="mosaic_gpu")


def add(a, b, scale=0.1):
    return dmlax.element_wise_quantized_linear_add(a, b, **{**SCALES, "a_scale": scale})


def multiply(a, b):
    return dmlax.element_wise_quantized_linear_multiply(a, b, **SCALES)


def kernels(text):
    return text.count("kernel_name")


@pytest.mark.parametrize("function", [add, multiply, look_up])
def test_named_where_it_cannot_run_it_raises(function):
    with pytest.raises(dmlax.UnsupportedError, match="mosaic_gpu cannot run here"):
        function(np.zeros((3, 4), np.uint8), np.zeros((256,) if function is look_up else 4, "u1"))


@pytest.mark.parametrize("count", [1, 16, 17, 2**20 + 5])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_lookups_are_lowered_to_the_kernel(lowered, dtype, count):
    text = lowered(look_up, shaped(count, dtype=dtype), shaped(256))
    assert "mosaic_gpu" in text
    assert "stablehlo.gather" not in text


@pytest.mark.parametrize("function", [add, multiply])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((64, 64, 64), (64, 64, 64)),
        ((9, 1, 1, 64), (9, 23, 23, 64)),  # gates, channels last
        ((2**18 + 3,), (1,)),
        ((), (2**18, 3)),
        ((2**18, 3), ()),
        ((64, 1, 64), (1, 64, 64)),
    ],
)
def test_pairs_are_lowered_to_the_kernel(lowered, function, a, b):
    text = lowered(function, shaped(*a), shaped(*b, dtype="int8"))
    assert "mosaic_gpu" in text
    assert "stablehlo.gather" not in text


@pytest.mark.parametrize(
    ("shape", "output", "rows"),
    [
        ((8, 9), (8, 9), (1, 1)),
        ((8, 1, 48), (8, 9, 48), (3, 9)),
        ((8, 1, 1, 6, 8), (8, 2, 9, 6, 8), (3, 18)),
        ((1, 32), (7, 32), (2, 7)),
        ((8, 1), (8, 9), None),
        ((8, 1, 8), (8, 9, 8), None),
        ((1, 8, 1, 16), (9, 8, 9, 16), None),
    ],
)
def test_rows_that_are_repeated_are_read_where_they_lie(written, shape, output, rows):
    from dmlax._cuda import byte_table

    assert byte_table._rows_of(shape, output) == rows


def test_few_pairs_are_computed_one_by_one(lowered):
    assert "mosaic_gpu" not in lowered(add, shaped(5, 7), shaped(7))


def test_a_batch_is_one_kernel_and_a_table_for_each_a_loop(lowered):
    x = shaped(3, 2**18)
    assert "stablehlo.while" not in lowered(jax.vmap(add), x, x)
    assert "stablehlo.while" not in lowered(jax.vmap(look_up, (0, None)), x, shaped(256))
    scales = jax.ShapeDtypeStruct((3,), "float32")
    assert "stablehlo.while" in lowered(jax.vmap(add), x, x, scales)
    assert "stablehlo.while" in lowered(jax.vmap(look_up), x, shaped(3, 256))


def test_nothing_is_launched_for_an_empty_output(lowered):
    assert "mosaic_gpu" not in lowered(look_up, shaped(0, 3), shaped(256))


@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "uint8")])
def test_the_table_has_every_pair_and_the_kernel_finds_it(written, dtypes):
    from dmlax._cuda import byte_table

    def function(a, b, _):
        return (a.astype(jnp.int32) * 3 - b.astype(jnp.int32)).astype(jnp.int8)

    place = byte_table.spread_over_banks
    table = np.asarray(pairs.make_table(function, *map(np.dtype, dtypes), None, place))
    a, b = (draw(i, dtype, 5000) for i, dtype in enumerate(dtypes))
    first, second = (x.view(np.uint8) for x in (a, b))
    found = table[256 * first.astype(int) + np.asarray(place(first, second))]
    np.testing.assert_array_equal(found, np.asarray(function(jnp.asarray(a), jnp.asarray(b), 0)))
