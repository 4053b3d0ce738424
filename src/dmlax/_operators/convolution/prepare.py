"""Prepares a filter once: packed for every lowering, with its sums."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from dmlax._core import prepared_weights, tuning
from dmlax._core.arguments import Rules, aval_of
from dmlax._core.byte_packing import pad_end, rebase_of, round_up_to_word, to_int8
from dmlax._core.keywords import name_right_keywords
from dmlax._core.panels import PACKINGS, PANEL_WIDTH, Packing
from dmlax._core.prepared_weights import Packer, Prepared
from dmlax._cpu import library
from dmlax._operators.convolution.plan import (
    ConvolutionPlan,
    FilterShape,
    Operands,
    check_filter_zero_point,
    filter_shape,
    inverse,
)

_RULES = Rules("prepare_filter")


class PreparedFilter(prepared_weights.PreparedWeights[FilterShape]):
    """A packed filter, made by `prepare_filter`; use it as the `filter` of a convolution.

    A pytree whose leaves are its arrays: `packed`, int8 (K, taps * channels), tap-major, or
    panels; `sums`, int32 (K,); `zero_point`, None or of the filter's dtype, () or (K,). Everything
    else is static, so that it stacks, scans, vmaps, jits, exports and saves. Stacked, it still has
    the dtype and the shape of one filter.

    Two are equal if their static parts are, and their arrays element by element. Like an array it
    has no hash; `jax.tree.structure` gives a static part that has one.
    """

    __module__ = "dmlax"  # the path that a pickle holds

    VERSION = 2
    SHAPE = FilterShape
    _NOUN = "filter"

    @property
    def layout(self) -> str:
        """The order of the filter's axes, as "OIHW"."""
        return self.weights.layout

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return self.weights.group_count

    @property
    def dimension_numbers(self) -> lax.ConvDimensionNumbers:
        """The layouts of the input, the filter and the output, as `jax.lax` spells them."""
        return lax.ConvDimensionNumbers(*self.weights.layouts)

    @staticmethod
    def from_rows(weights: FilterShape, rows: Array) -> Array:
        """Returns the filter of packed rows, of NumPy or JAX, as int8."""
        output, channels, *spatial = weights.specification
        by_tap = rows.reshape(weights.outputs, *weights.kernel, weights.channels)
        return by_tap.transpose(inverse((output, *spatial, channels)))


prepared_weights.register(PreparedFilter)


@name_right_keywords
def prepare_filter(
    filter: ArrayLike,
    /,
    *,
    filter_zero_point: ArrayLike | None = None,
    group_count: int = 1,
    dimension_numbers: object = None,
    packing: Literal["auto", "panels", "rows"] = "rows",
) -> PreparedFilter:
    """Packs a convolution's filter and sums its rows, once for many calls.

    Args:
      filter: int8 or uint8, shaped as `dimension_numbers` says, by default
        (K, C / group_count, height, width).
      filter_zero_point: of the filter's dtype, one value or one per output channel; default 0.
        A 0 that is known is dropped: to subtract it would take sums of windows.
      group_count: groups, a static integer that divides K.
      dimension_numbers: as for the convolution; only the filter's matters here. Default channels
        first: OIHW for rank 4, OIW for rank 3.
      packing: the order of the bytes. "rows", the default: a row per output channel, which
        every implementation and device reads as it is. "panels": as `native_cpu` multiplies them
        where channels are last, on x86 with AVX-512 VNNI or AMX, so that a call packs nothing;
        others unpack them in every call. "auto": panels where this machine reads them, else rows.

    Returns:
      A `PreparedFilter`, a pytree: use it as `filter`, and leave out the options of this call.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (FilterTensor,
        FilterZeroPointTensor, GroupCount), `option` (GroupCount, dimension_numbers, packing).

    DirectML:
      None: the counterpart of a tensor OWNED_BY_DML, packed when the operator is initialised.

    Lowering:
      NumPy for arrays on the host, else plain XLA; every lowering of the convolutions reads the
      result.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> dmlax.prepare_filter(jnp.ones((8, 3, 5, 5), jnp.int8))
      PreparedFilter(int8[8,3,5,5] OIHW, group_count 1)
    """
    array = _RULES.to_array("FilterTensor", filter)
    group_count = _RULES.to_integer("GroupCount", group_count, 1)
    shape = filter_shape(_RULES, aval_of(array), group_count, dimension_numbers)
    _RULES.expect_choice("packing", packing, PACKINGS)
    shape = shape._replace(packing=_choose_packing(shape) if packing == "auto" else packing)
    zero_point = to_filter_zero_point(_RULES, shape, filter_zero_point)
    return PreparedFilter(PACKER.prepare(shape, array, zero_point), shape)


def _choose_packing(shape: FilterShape) -> Packing:
    """Panels where this machine's kernels take pixels as rows and read them.

    They do where channels are last, or where taps are so many channels that a transposition of both
    sides is repaid.
    """
    input_layout, _, output_layout = shape.layouts
    last = len(input_layout) - 1
    rows = shape.outputs // shape.group_count
    dense = shape.channels > 1 and (shape.group_count == 1 or rows >= tuning.FEWEST_PANEL_ROWS)
    repaid = shape.taps > 1 and shape.channels % PANEL_WIDTH == 0
    good = dense and (input_layout[1] == output_layout[1] == last or repaid)
    return "panels" if good and library.reads_panels() else "rows"


def to_filter_zero_point(rules: Rules, shape: FilterShape, value: ArrayLike | None) -> Array | None:
    """Converts and checks a filter's zero point.

    A constant 0 is dropped: to subtract it would take the sum of every window.
    """
    zero_point = rules.to_parameter("FilterZeroPointTensor", value, shape.filter.dtype)
    check_filter_zero_point(rules, shape, None if zero_point is None else aval_of(zero_point))
    constant = isinstance(value, int | np.ndarray | np.generic)
    return None if constant and not np.any(value) else zero_point


def to_rows(shape: FilterShape, filter: Array) -> Array:
    """Returns an output channel's taps as an int8 row, the channels of a tap together."""
    output, channels, *spatial = shape.specification
    rows: Array = to_int8(filter.transpose(output, *spatial, channels).reshape(shape.outputs, -1))
    return rows


def as_prepared(plan: ConvolutionPlan, operands: Operands) -> Prepared:
    """Returns the call's filter in rows, prepared beforehand or now."""
    filter = operands.filter
    if isinstance(filter, Prepared):
        return prepared_weights.as_rows(plan.filter, filter)
    return PACKER.pack(plan.filter, filter, operands.filter_zero_point)


def pad_channels(
    plan: ConvolutionPlan, operands: Operands, x: Array, filter: Prepared
) -> tuple[Array, Prepared]:
    """Pads a group's channels to a multiple of 4, which adds nothing to any output.

    The input's channels, which are last, are padded with zero points, the filter's with zeros.
    """
    shape = plan.filter
    channels = round_up_to_word(shape.channels)
    missing = channels - shape.channels
    if not missing:
        return x, filter
    groups = x.reshape(*x.shape[:-1], shape.group_count, shape.channels)
    padded = pad_end(groups, missing, operands.input_zero_point)
    rows = filter.packed.reshape(shape.outputs, shape.taps, shape.channels)
    packed = pad_end(rows, missing).reshape(shape.outputs, shape.taps * channels)
    x = padded.reshape(*x.shape[:-1], shape.group_count * channels)
    return x, filter._replace(packed=packed)


def real_values(plan: ConvolutionPlan, operands: Operands) -> Array:
    """The filter less its zero point, as int32 in O, I, spatial order."""
    filter = as_prepared(plan, operands)
    values = filter.packed.astype(jnp.int32) - zero_of(plan.filter, filter).reshape(-1, 1)
    shape = (plan.filter.outputs, *plan.filter.kernel, plan.filter.channels)
    return jnp.moveaxis(values.reshape(shape), -1, 1)


def zero_of(shape: FilterShape, filter: Prepared) -> Array:
    """The value that stands for 0 in the packed rows: int32 () or (K,)."""
    return as_int32(filter.zero_point) - rebase_of(shape.filter.dtype)


def as_parameter(x: Array) -> Array:
    """Reshapes one value to (), one per channel to (K,), from any shape of a parameter."""
    return x.reshape(()) if x.size == 1 else x.reshape(-1)


def as_int32(parameter: Array | None) -> Array:
    """Converts a zero point or bias to int32; an absent one is 0."""
    return jnp.int32(0) if parameter is None else as_parameter(parameter).astype(jnp.int32)


PACKER = Packer("prepare_filter", to_rows, as_parameter)
