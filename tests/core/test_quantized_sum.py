"""The exact sum of two quantized tensors, against fractions, where it is hardest."""

import jax
import jax.numpy as jnp
import pytest

from dmlax._core.quantized_sum import Quantized, quantized_sum
from support import assert_same
from support.cases.quantized_sum import operands, sums


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_are_rounded_fractions(dtype):
    a, b, zero_points = operands(dtype)

    @jax.jit
    def call(scales, zero_points):
        first, second = (
            Quantized(*each) for each in zip((a, b), scales[:2], zero_points[:2], strict=True)
        )
        return quantized_sum(first, second, scales[2], zero_points[2], dtype, "exact")

    for _, scales, wanted in sums(dtype):
        found = call([jnp.asarray(scale) for scale in scales], zero_points)
        assert_same(found, wanted)
