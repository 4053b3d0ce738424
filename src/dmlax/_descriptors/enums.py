"""DirectML's enumerations, with DirectML's values."""

import enum

import jax.numpy as jnp
import numpy as np


class DataType(enum.IntEnum):
    """DML_TENSOR_DATA_TYPE."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @property
    def bits(self) -> int:
        """The size of one element; 0 for UNKNOWN."""
        return int("".join(filter(str.isdigit, self.name)) or 0)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of NumPy and JAX; UNKNOWN has none."""
        return np.dtype(jnp.dtype(self.name.lower()))

    def __str__(self) -> str:
        return self.name


DataTypes = tuple[DataType, ...]
F32, I32, U32 = (DataType.FLOAT32,), (DataType.INT32,), (DataType.UINT32,)
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
INTEGERS = (
    *(DataType.INT32, DataType.INT16, DataType.INT8),
    *(DataType.UINT32, DataType.UINT16, DataType.UINT8),
)
EIGHT_BITS = (DataType.INT8, DataType.UINT8)


class FeatureLevel(enum.IntEnum):
    """DML_FEATURE_LEVEL: later levels keep what earlier ones support."""

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    def __str__(self) -> str:
        return f"DML_FEATURE_{self.name}"


class TensorFlags(enum.IntFlag):
    """DML_TENSOR_FLAGS."""

    NONE = 0
    OWNED_BY_DML = 1

    def __str__(self) -> str:
        return self.name or f"0x{self.value:x}"
