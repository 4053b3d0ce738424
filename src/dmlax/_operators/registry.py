"""The list of operators, which descriptors, documents, adapters and tests read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dmlax._core import dispatch, eager
from dmlax._descriptors.support import Support
from dmlax._operators.add_multiply import api as binary
from dmlax._operators.add_multiply.directml import (
    ELEMENT_WISE_QUANTIZED_LINEAR_ADD,
    ElementWiseQuantizedLinearAddOperatorDesc,
)
from dmlax._operators.byte_lookup import api as lookup
from dmlax._operators.convolution import api as convolution
from dmlax._operators.convolution.directml import (
    CONVOLUTION_INTEGER,
    QUANTIZED_LINEAR_CONVOLUTION,
    ConvolutionIntegerOperatorDesc,
    QuantizedLinearConvolutionOperatorDesc,
)
from dmlax._operators.convolution_add import api as convolution_add
from dmlax._operators.dynamic_quantize import api as dynamic_quantize
from dmlax._operators.dynamic_quantize.directml import (
    DYNAMIC_QUANTIZE_LINEAR,
    DynamicQuantizeLinearOperatorDesc,
)
from dmlax._operators.matmul import api as matmul
from dmlax._operators.matmul.directml import (
    MATRIX_MULTIPLY_INTEGER,
    MATRIX_MULTIPLY_INTEGER_TO_FLOAT,
    QUANTIZED_LINEAR_MATRIX_MULTIPLY,
    MatrixMultiplyIntegerOperatorDesc,
    MatrixMultiplyIntegerToFloatOperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
)
from dmlax._operators.nonzero import api as nonzero
from dmlax._operators.nonzero.directml import NONZERO_COORDINATES, NonzeroCoordinatesOperatorDesc
from dmlax._operators.pooling import api as pooling
from dmlax._operators.pooling.directml import (
    MAX_POOLING,
    MAX_POOLING1,
    MAX_POOLING2,
    QUANTIZED_LINEAR_AVERAGE_POOLING,
    MaxPooling1OperatorDesc,
    MaxPooling2OperatorDesc,
    MaxPoolingOperatorDesc,
    QuantizedLinearAveragePoolingOperatorDesc,
)
from dmlax._operators.quantize import api as elementwise
from dmlax._operators.quantize.directml import (
    ELEMENT_WISE_DEQUANTIZE_LINEAR,
    ELEMENT_WISE_QUANTIZE_LINEAR,
    ElementWiseDequantizeLinearOperatorDesc,
    ElementWiseQuantizeLinearOperatorDesc,
)

__all__ = [  # the descriptors' classes, which `dmlax.directml` exports
    "ConvolutionIntegerOperatorDesc",
    "DynamicQuantizeLinearOperatorDesc",
    "ElementWiseDequantizeLinearOperatorDesc",
    "ElementWiseQuantizeLinearOperatorDesc",
    "ElementWiseQuantizedLinearAddOperatorDesc",
    "MatrixMultiplyIntegerOperatorDesc",
    "MatrixMultiplyIntegerToFloatOperatorDesc",
    "MaxPooling1OperatorDesc",
    "MaxPooling2OperatorDesc",
    "MaxPoolingOperatorDesc",
    "NonzeroCoordinatesOperatorDesc",
    "QuantizedLinearAveragePoolingOperatorDesc",
    "QuantizedLinearConvolutionOperatorDesc",
    "QuantizedLinearMatrixMultiplyOperatorDesc",
]


@dataclass(frozen=True)
class OperatorRow:
    """One operator.

    Attributes:
      operator: its lowerings, for dispatch.
      dtypes: those of its tensors, in words, for the table of operators.
      directml: its descriptor, support tables and call; None where DirectML has no such operator.
      older: those of the descriptor's former versions.
      chain: its part in chains of JAX's own functions, which `explain` finds; "" for none.
      twin: True if `dmlax.training` has a function of its name, or that function's name.
    """

    operator: dispatch.Operator[Any, Any, Any]
    dtypes: str
    directml: Support | None = None
    older: tuple[Support, ...] = ()
    twin: bool | str = False
    chain: str = ""

    @property
    def supports(self) -> tuple[Support, ...]:
        """All versions of its descriptor, the newest first."""
        return (self.directml, *self.older) if self.directml else ()

    @property
    def training(self) -> str:
        """The function of `dmlax.training` that stands for it where gradients are needed."""
        return self.name if self.twin is True else self.twin or ""

    @property
    def function(self) -> Callable[..., Any]:
        """The public function, which has the operator's name."""
        return eager.FUNCTIONS[self.name]

    @property
    def name(self) -> str:
        """The operator's name, DirectML's in snake case."""
        return self.operator.name

    def implementations(self, platform: str) -> list[str]:
        """The names of the lowerings written for a platform, the preferred one first."""
        return [low.name for low in self.operator.lowerings if platform in low.platforms]


_BYTES = "int8 and uint8, mixed"
_SCALED, _BIASED = f"{_BYTES}; scales float32", f"{_BYTES}; scales float32; bias int32"
_OF_NONZERO = "bool, (u)int8 to (u)int64, float16, bfloat16, float32, float64"
_QUANTIZED = "float32, float16, int32 to int8, uint8"
_DEQUANTIZED = "(u)int8, (u)int16, (u)int32 to float32, float16"
_DYNAMIC = "float32, float16 to int8, uint8; scale float32"
OPERATORS = (
    OperatorRow(nonzero.NONZERO, _OF_NONZERO, NONZERO_COORDINATES),
    OperatorRow(
        convolution.QUANTIZED, _BIASED, QUANTIZED_LINEAR_CONVOLUTION, twin=True, chain="convolution"
    ),
    OperatorRow(
        convolution_add.QUANTIZED_ADD, _BIASED, twin=True, chain="sum with a convolution's result"
    ),
    OperatorRow(convolution.INTEGER, f"{_BYTES}, to int32", CONVOLUTION_INTEGER),
    OperatorRow(
        *(elementwise.QUANTIZE, _QUANTIZED, ELEMENT_WISE_QUANTIZE_LINEAR),
        twin="fake_quantize",
        chain="quantization",
    ),
    OperatorRow(
        elementwise.DEQUANTIZE, _DEQUANTIZED, ELEMENT_WISE_DEQUANTIZE_LINEAR, chain="dequantization"
    ),
    OperatorRow(matmul.INTEGER, f"{_BYTES}, to int32", MATRIX_MULTIPLY_INTEGER),
    OperatorRow(matmul.QUANTIZED, _BIASED, QUANTIZED_LINEAR_MATRIX_MULTIPLY, twin=True),
    OperatorRow(
        *(matmul.TO_FLOAT, f"{_SCALED}; to float32, float16", MATRIX_MULTIPLY_INTEGER_TO_FLOAT)
    ),
    OperatorRow(
        pooling.AVERAGE, _SCALED, QUANTIZED_LINEAR_AVERAGE_POOLING, twin=True, chain="average pool"
    ),
    OperatorRow(pooling.GLOBAL, _SCALED, twin=True, chain="mean"),
    OperatorRow(
        pooling.MAX, "int8, uint8", MAX_POOLING2, (MAX_POOLING1, MAX_POOLING), chain="max pool"
    ),
    OperatorRow(dynamic_quantize.DYNAMIC_QUANTIZE, _DYNAMIC, DYNAMIC_QUANTIZE_LINEAR),
    OperatorRow(binary.ADD, _SCALED, ELEMENT_WISE_QUANTIZED_LINEAR_ADD, twin=True, chain="sum"),
    OperatorRow(binary.MULTIPLY, _SCALED, twin=True, chain="product"),
    OperatorRow(lookup.LOOKUP, _BYTES),
)
SUPPORT = {support.desc: support for row in OPERATORS for support in row.supports}
