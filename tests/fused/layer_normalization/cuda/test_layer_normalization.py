"""The Hopper kernel of a layer normalization of bytes, lowered on a CPU."""

import jax
import numpy as np
import pytest

from dmlax.onnx.operators import fused
from dmlax.onnx.operators.table import flatten


def normalize(x, scale, bias=None, *, x_scale=0.02, y_dtype=np.uint8, arithmetic="float32"):
    before = np.float32(x_scale), np.asarray(3, x.dtype)
    after = np.float32(0.03), y_dtype(7)
    given = x, *before, scale, bias, *after
    return flatten(fused.normalize)(*given, arithmetic=arithmetic)


def shaped(*sizes, dtype="uint8"):
    return jax.ShapeDtypeStruct(sizes, dtype)


def factors(count):
    return [shaped(count, dtype="float32")] * 2


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shape", [(2, 197, 768), (5, 4), (1, 4096), (3, 132)])
def test_a_layer_normalization_is_one_kernel(lowered, shape, dtype):
    text = lowered(normalize, shaped(*shape, dtype=dtype), *factors(shape[-1]))
    assert text.count("custom_call @mosaic_gpu") == 1
    assert "stablehlo.sqrt" not in text


def test_without_a_bias_it_is_one_kernel(lowered):
    text = lowered(normalize, shaped(2, 64), factors(64)[0])
    assert text.count("custom_call @mosaic_gpu") == 1


def test_vmap_is_one_kernel(lowered):
    mapped = jax.vmap(normalize, (1, None, None))
    text = lowered(mapped, shaped(4, 3, 7, 64), *factors(64))
    assert text.count("custom_call @mosaic_gpu") == 1


@pytest.mark.parametrize(
    ("count", "options"),
    [(4100, {}), (62, {}), (64, {"arithmetic": "exact"}), (64, {"x_scale": 1e-20})],
)
def test_other_rows_and_parameters_are_xlas(lowered, count, options):
    text = lowered(lambda *given: normalize(*given, **options), shaped(3, count), *factors(count))
    assert "mosaic_gpu" not in text
