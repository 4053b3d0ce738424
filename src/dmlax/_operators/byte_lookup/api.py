"""quantized_lookup."""

import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core import dispatch, eager
from dmlax._cpu import library
from dmlax._cuda import first_use
from dmlax._operators.byte_lookup import reference, xla
from dmlax._operators.byte_lookup.cpu import lowering as native_cpu
from dmlax._operators.byte_lookup.cuda import lowering as mosaic_gpu
from dmlax._operators.byte_lookup.plan import RULES, axis_names, local_plan, output_partition, plan

_XLA = dispatch.Lowering("xla", xla.run)


def _first_calls() -> first_use.Calls:
    """A lookup of some bytes."""
    return [plan(first_use.draw(1, np.int8, 5001), first_use.draw(2, np.uint8, 256))]


LOOKUP = dispatch.Operator(
    RULES.operator,
    plan,
    (
        dispatch.Lowering("native_cpu", native_cpu.run, library.why_not_for, ("cpu",)),
        first_use.checked(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
            _XLA,
            _first_calls,
        ),
        _XLA,
        dispatch.Lowering("reference", reference.run),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)


@eager.public_function(LOOKUP)
def quantized_lookup(
    input: ArrayLike, table: ArrayLike, /, *, implementation: dispatch.Implementation = "auto"
) -> Array:
    """Replaces every element by an entry of a table: any function of 8 bits to 8 bits.

    Examples are a quantized sigmoid, a leaky relu or a change of scale.

    Args:
      input: int8 or uint8, of rank 0 to 8.
      table: int8 or uint8, 256 entries: entry i is the result of i where the input is uint8, and of
        i - 128 where it is int8, so entries are in the order of the values.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      Of the table's dtype and the input's shape.
      Its gradients are zero: train with the float function of the table and
      `dmlax.training.fake_quantize`.

    Raises:
      SpecError: code `data_type` or `dimension_count` (InputTensor, TableTensor), `sizes`
        (TableTensor).
      UnsupportedError: the named implementation does not exist for this operator.

    DirectML:
      It has no such operator. ONNX Runtime has tables for QLinearSigmoid and QLinearLeakyRelu, too.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      in an export, or where no kernel is available. tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> relu = jnp.maximum(jnp.arange(-128, 128), 0).astype(jnp.int8)
      >>> dmlax.quantized_lookup(jnp.array([-5, 0, 7], jnp.int8), relu).tolist()
      [0, 0, 7]
    """
    return LOOKUP.call(*plan(input, table), implementation)
