"""DirectML's descriptors as frozen records: its fields, in its order, in snake case."""

from dataclasses import dataclass, fields
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from dmlax._core.arguments import directml_name
from dmlax._descriptors import records
from dmlax._descriptors.enums import DataType, TensorFlags


@dataclass(frozen=True, kw_only=True)
class BufferTensorDesc(records.Record):
    """DML_BUFFER_TENSOR_DESC: a tensor in a buffer.

    Attributes:
      data_type: of its elements.
      flags: `TensorFlags.NONE`, or OWNED_BY_DML for an input.
      sizes: its axes' sizes; DimensionCount is their number.
      strides: elements, not bytes, from one index of each axis to the next; None when packed.
        A stride of 0 repeats, a larger one than packed leaves a gap.
      total_tensor_size_in_bytes: at least `minimum_size_in_bytes`, the default.
      guaranteed_base_offset_alignment: in bytes; 0 for none.
    """

    data_type: DataType
    flags: TensorFlags = TensorFlags.NONE
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    total_tensor_size_in_bytes: int = None  # type: ignore[assignment] # until __post_init__
    guaranteed_base_offset_alignment: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.total_tensor_size_in_bytes is None:
            default = min(self.minimum_size_in_bytes, records.UINT64)
            object.__setattr__(self, "total_tensor_size_in_bytes", default)

    @property
    def dimension_count(self) -> int:
        """The number of axes."""
        return len(self.sizes)

    @property
    def elements(self) -> int:
        """The product of the sizes."""
        return prod(self.sizes)

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """The strides of a row-major tensor without gaps."""
        return tuple(prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes)))

    @cached_property
    def is_packed(self) -> bool:
        """True if an array of `sizes` holds the same elements in the same order."""
        return self.strides is None or self.strides == self.packed_strides

    @property
    def minimum_size_in_bytes(self) -> int:
        """The bytes to the end of the last element, rounded up to a multiple of 4."""
        strides = self.packed_strides if self.strides is None else self.strides
        reach = sum((n - 1) * stride for n, stride in zip(self.sizes, strides, strict=False))
        return -(-(reach + 1) * self.data_type.bits // 32) * 4

    @property
    def buffer_elements(self) -> int:
        """The elements that `total_tensor_size_in_bytes` holds."""
        return self.total_tensor_size_in_bytes * 8 // max(self.data_type.bits, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the bound array, which is flat unless packed."""
        return self.sizes if self.is_packed else (self.buffer_elements,)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the bound array."""
        return self.data_type.dtype


@dataclass(frozen=True, kw_only=True)
class OperatorDesc(records.Record):
    """The base of the operators' descs, each named after its operator; it is not one itself."""

    operator: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.operator = cls.__name__.removesuffix("OperatorDesc")

    @cached_property
    def tensors(self) -> dict[str, BufferTensorDesc]:
        """The tensors that are not absent, by DirectML's name, in DirectML's order."""
        names = {directml_name(field.name): field.name for field in fields(self)}
        values = {directml: getattr(self, name) for directml, name in names.items()}
        return {key: value for key, value in values.items() if isinstance(value, BufferTensorDesc)}
