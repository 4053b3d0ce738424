"""DirectML's tensors have at most 8 dimensions; an axis that `vmap` adds does not count."""

import jax
import numpy as np
import pytest

import dmlax

TABLE = np.arange(256).astype(np.uint8)
SCALES = {"a_scale": 1.0, "b_scale": 1.0, "output_scale": 1.0}
CALLS = {
    "nonzero_coordinates": (np.uint8, lambda x: dmlax.nonzero_coordinates(x)),
    "element_wise_quantize_linear": (
        np.float32,
        lambda x: dmlax.element_wise_quantize_linear(x, 1.0),
    ),
    "element_wise_dequantize_linear": (
        np.uint8,
        lambda x: dmlax.element_wise_dequantize_linear(x, 1.0),
    ),
    "dynamic_quantize_linear": (np.float32, lambda x: dmlax.dynamic_quantize_linear(x)),
    "quantized_lookup": (np.uint8, lambda x: dmlax.quantized_lookup(x, TABLE)),
    "element_wise_quantized_linear_add": (
        np.uint8,
        lambda x: dmlax.element_wise_quantized_linear_add(x, x[..., 0], **SCALES),
    ),
    "element_wise_quantized_linear_multiply": (
        np.uint8,
        lambda x: dmlax.element_wise_quantized_linear_multiply(x, x[..., 0], **SCALES),
    ),
}


def images(operator, rank):
    dtype = CALLS[operator][0]
    return (np.arange(3**2) % 5).astype(dtype).reshape(*[1] * (rank - 2), 3, 3)


@pytest.mark.parametrize("operator", CALLS)
def test_a_mapped_axis_does_not_count(operator):
    call, one = CALLS[operator][1], images(operator, 8)
    batch = np.stack([one, one[..., ::-1]])
    found = jax.jit(jax.vmap(call))(batch)
    for index in range(2):
        single = call(batch[index])
        jax.tree.map(
            lambda x, y, index=index: np.testing.assert_array_equal(x[index], y), found, single
        )
