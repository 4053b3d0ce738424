"""Handlers themselves, without what the API checks: any of ones, a convolution to be changed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

TARGET = "dmlax_convolution_v1"
OPERANDS = (
    "input",
    "filter",
    "sums",
    "filter_zero",
    "input_zero",
    "bias",
    "input_scale",
    "filter_scale",
    "output_scale",
    "output_zero",
)


def call_handler(
    target: str, dtypes: Sequence[str], shapes: Sequence[tuple[int, ...]], **attributes: Any
) -> jax.Array:
    """Run a handler on ones; the last dtype and shape are the output's."""
    *given, (shape, dtype) = zip(shapes, map(np.dtype, dtypes), strict=True)
    call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(shape, dtype))
    y: jax.Array = call(*(np.ones(shape, dtype) for shape, dtype in given), **attributes)
    return y


@dataclass(frozen=True)
class RawCall:
    """Operands as (shape, dtype), the output and the attributes."""

    operands: dict[str, tuple[tuple[int, ...], str]]
    output: tuple[tuple[int, ...], str] = ((1, 4, 3, 3), "uint8")
    attributes: dict[str, Any] = field(default_factory=dict)

    def __call__(self, seed: int = 0) -> jax.Array:
        """Run it, on the bytes of a seed."""
        rng = np.random.default_rng(seed)
        values = [
            rng.integers(0, 100, shape).astype(dtype) for shape, dtype in self.operands.values()
        ]
        shape, dtype = self.output
        call = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct(shape, np.dtype(dtype)))
        y: jax.Array = call(*values, **self.attributes)
        return y

    def with_operands(self, **changes: tuple[tuple[int, ...], str]) -> "RawCall":
        """Return it with other operands."""
        return replace(self, operands=self.operands | changes)

    def with_attributes(self, **changes: Any) -> "RawCall":
        """Return it with other attributes."""
        return replace(self, attributes=self.attributes | changes)


GOOD = RawCall(
    operands={
        "input": ((1, 2, 4, 4), "uint8"),
        "filter": ((4, 8), "int8"),
        "sums": ((4,), "int32"),
        "filter_zero": ((1,), "int8"),
        "input_zero": ((1,), "uint8"),
        "bias": ((4,), "int32"),
        "input_scale": ((1,), "float32"),
        "filter_scale": ((4,), "float32"),
        "output_scale": ((1,), "float32"),
        "output_zero": ((1,), "uint8"),
    },
    attributes={
        "windows": np.array([2, 2, 1, 1, 1, 1, 0, 0, 0, 0], np.int64),
        "groups": np.int64(1),
        "panels": False,
        "input_last": False,
        "output_last": False,
        "filter_unsigned": False,
        "exact": True,
    },
)
assert tuple(GOOD.operands) == OPERANDS
