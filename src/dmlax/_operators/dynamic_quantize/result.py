"""The three outputs of dynamic_quantize_linear."""

from typing import NamedTuple

from jax import Array

from dmlax._core import compat


class DynamicQuantizeLinear(NamedTuple):
    """A quantized tensor, and the scale and zero point that its values gave."""

    output: Array
    """int8 or uint8, of the input's shape."""
    scale: Array
    """float32, shape ()."""
    zero_point: Array
    """A value of the output's dtype, shape ()."""


compat.serialise_namedtuple(DynamicQuantizeLinear, "dmlax.DynamicQuantizeLinear")
