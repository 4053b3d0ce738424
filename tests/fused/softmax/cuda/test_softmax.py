"""The Hopper kernel of a softmax of bytes: lowered on a CPU; `byte_kernels.py` runs it on a GPU."""

import jax
import numpy as np
import pytest

from dmlax._fused.softmax.call import SOFTMAX


def softmax(x, y_scale=1 / 256):
    return SOFTMAX.call(*SOFTMAX.plan(x, 0.1, np.float32(y_scale), 3))


def shaped(*sizes, dtype="uint8"):
    return jax.ShapeDtypeStruct(sizes, dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shape", [(2, 12, 197, 197), (129, 2), (5, 16), (1, 1024)])
def test_a_softmax_is_one_kernel(lowered, shape, dtype):
    text = lowered(softmax, shaped(*shape, dtype=dtype))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.while" not in text


def test_vmap_is_one_kernel(lowered):
    text = lowered(jax.vmap(softmax, 1), shaped(4, 3, 7, 50))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.while" not in text


@pytest.mark.parametrize(("count", "y_scale"), [(1025, 1 / 256), (7, 2**-38), (7, -0.1)])
def test_long_rows_and_unusual_scales_are_xlas(lowered, count, y_scale):
    text = lowered(lambda x: softmax(x, y_scale), shaped(3, count))
    assert "mosaic_gpu" not in text
