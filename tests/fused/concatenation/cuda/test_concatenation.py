"""Bytes that a kernel joins on Hopper, lowered on a CPU."""

import jax
import numpy as np
import pytest

from dmlax._fused.concatenation.call import concatenate


def shaped(*sizes, dtype="uint8"):
    return jax.ShapeDtypeStruct(sizes, dtype)


def join(*tensors, axis=1):
    return concatenate(list(tensors), axis)


@pytest.mark.parametrize(
    ("shapes", "axis", "kernels"),
    [
        (((64, 1, 768), (64, 196, 768)), 1, 1),
        (((64, 1, 768), (64, 196, 768)), -2, 1),
        (((1024, 512), (1024, 528), (1024, 16)), 1, 1),
        (((1024, 512), (1024, 520)), 1, 0),
        (((8, 1, 768), (8, 3, 768)), 1, 0),
    ],
    ids=["rows", "from the end", "three", "parts of chunks", "few"],
)
def test_large_tensors_of_whole_chunks_are_joined_by_a_kernel(lowered, shapes, axis, kernels):
    text = lowered(lambda *given: join(*given, axis=axis), *(shaped(*each) for each in shapes))
    assert text.count("custom_call @mosaic_gpu") == kernels


def test_vmap_is_one_kernel(lowered):
    mapped = jax.vmap(join, (0, None))
    text = lowered(mapped, shaped(3, 64, 16, 768), shaped(64, 16, 768))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "tensor<3x64x32x768xui8>" in text


def test_sizes_that_differ_are_refused(attached):
    with pytest.raises(TypeError, match="concatenate"):
        jax.eval_shape(join, shaped(64, 100, 768), shaped(63, 100, 768))


def test_elsewhere_xla_joins():
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert np.array_equal(join(x, x[:, :1]), np.concatenate([x, x[:, :1]], 1))
