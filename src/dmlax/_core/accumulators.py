"""Bounds of int32 accumulators."""

import numpy as np

INT32_MAX = 2**31 - 1


def largest_difference(dtype: np.dtype, has_zero_point: bool) -> int:
    """The largest magnitude of a value of 8 bits less its zero point."""
    return 255 if has_zero_point or dtype == np.uint8 else 128


def overflow_notes(bound: int, has_bias: bool, requantization: str | None = None) -> list[str]:
    """Says whether accumulators of at most `bound`, the bias apart, can overflow.

    A requantization other than the arithmetic's is XLA's.
    """
    notes = [f"requantization {requantization}: of int32 sums, by xla"] if requantization else []
    if bound > INT32_MAX:
        return [*notes, f"int32 accumulators can overflow: they may reach {bound:,}, and wrap"]
    bias = ", the bias apart" if has_bias else ""
    return [*notes, f"int32 accumulators cannot overflow: at most {bound:,}{bias}"]
