"""nonzero_coordinates."""

from typing import Any

import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core import dispatch, eager
from dmlax._cuda import first_use
from dmlax._operators.nonzero import reference, xla
from dmlax._operators.nonzero.cpu import lowering as native_cpu
from dmlax._operators.nonzero.cuda import lowering as mosaic_gpu
from dmlax._operators.nonzero.plan import RULES, NonzeroPlan, axis_names, local_plan, plan
from dmlax._operators.nonzero.result import NonzeroCoordinates


def _replicated(plan: NonzeroPlan, input: Array) -> NonzeroCoordinates:
    """Returns the partitions of both outputs, which are whole on every device."""
    return NonzeroCoordinates._make(((), ()))


_XLA = dispatch.Lowering("xla", xla.run)


def _first_calls() -> first_use.Calls:
    """Several tiles, half of whose elements are zero."""
    x = first_use.draw(1, np.uint8, 3, 7001)
    return [plan(np.where(x < 128, 0, x).astype(np.float32))]


NONZERO = dispatch.Operator(
    RULES.operator,
    plan,
    (
        dispatch.kernel("native_cpu", native_cpu.run, native_cpu.why_not, "cpu"),
        first_use.checked(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
            _XLA,
            _first_calls,
        ),
        _XLA,
        dispatch.Lowering("reference", reference.run),
    ),
    partition=_replicated,
    splitting=dispatch.Splitting(axis_names, local_plan),
)


@eager.public_function(NONZERO)
def nonzero_coordinates(
    input: ArrayLike,
    /,
    *,
    size: int | None = None,
    coordinate_rank: int | None = None,
    fill_value: int = 0,
    axis_name: Any = None,
    implementation: dispatch.Implementation = "auto",
) -> NonzeroCoordinates:
    """Finds the coordinates of all elements that are not zero, and counts them.

    Only +0 and -0 are zero: NaN, infinities and subnormals are not, on every backend.

    Args:
      input: bool, (u)int8 to (u)int64, float16, bfloat16, float32 or float64, of rank 1 to 8
        and at most 2**32 - 1 elements; any size may be 0. A 64-bit NumPy array is tested in 64
        bits even where JAX's 64-bit types are off.
      size: rows of `coordinates`, a static integer; default the number of elements. With fewer,
        the first rows are kept, and `count` still counts all.
      coordinate_rank: columns of `coordinates`, which are the last axes: from the effective rank
        (the rank without leading axes of size 1, at least 1) to the rank, the default.
      fill_value: the value of all rows after the first `count`, a static integer in 0..2**32-1.
        The default 0 is also the first element's coordinate: `indices` of the result is safe.
      axis_name: inside `jax.shard_map`, the mesh axis over which axis 0 is split; the result is
        the whole input's, on every device.
      implementation: "auto", or exactly one of "native_cpu", "mosaic_gpu", "xla", "reference".

    Returns:
      `NonzeroCoordinates(count, coordinates)`: count uint32 of shape (), coordinates uint32 of
      shape (size, coordinate_rank), ascending by row-major element index.
      Both are integers, whose gradients are zero. Values that are gathered there have gradients.

    Raises:
      SpecError: code `data_type` or `dimension_count` (InputTensor), `sizes` (InputTensor,
        OutputCoordinatesTensor), `option` (size, coordinate_rank, fill_value, implementation).
      UnsupportedError: the named implementation does not exist or cannot run on the platform.

    DirectML:
      DML_NONZERO_COORDINATES_OPERATOR_DESC. The page leaves rows from the count on undefined;
      here they hold `fill_value`. Accepted beyond the page: bool, bfloat16 and 64-bit types, empty
      inputs, `size` other than the number of elements.

    Lowering:
      cpu: native_cpu; cuda: mosaic_gpu, where an NVIDIA GPU since Ampere is attached; or xla
      with `axis_name`, in an export, or where the kernel is not available.
      tpu: xla. reference runs everywhere when named.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> count, coordinates = dmlax.nonzero_coordinates(jnp.array([[0.0, 2.5], [-0.0, 1e-40]]))
      >>> int(count), coordinates.tolist()
      (2, [[0, 1], [1, 1], [0, 0], [0, 0]])
    """
    return NONZERO.call(
        *plan(
            input,
            size=size,
            coordinate_rank=coordinate_rank,
            fill_value=fill_value,
            axis_name=axis_name,
        ),
        implementation,
    )
