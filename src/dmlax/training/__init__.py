"""The operators on floats, for training: the deployed arithmetic forward, slopes backward."""

from dmlax.training.operators import (
    element_wise_quantized_linear_add,
    element_wise_quantized_linear_multiply,
    fake_quantize,
    quantized_linear_average_pooling,
    quantized_linear_convolution,
    quantized_linear_convolution_add,
    quantized_linear_global_average_pooling,
    quantized_linear_matrix_multiply,
    scale_gradient,
)

__all__ = [
    "element_wise_quantized_linear_add",
    "element_wise_quantized_linear_multiply",
    "fake_quantize",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_convolution_add",
    "quantized_linear_global_average_pooling",
    "quantized_linear_matrix_multiply",
    "scale_gradient",
]
