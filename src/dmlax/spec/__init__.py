"""DirectML's own contract: descriptors, feature levels, support tables and `create_operator`."""

from dmlax.errors import Violation as Violation
from dmlax.spec.create import BindOrder as BindOrder
from dmlax.spec.create import CompiledOperator as CompiledOperator
from dmlax.spec.create import create_operator as create_operator
from dmlax.spec.descs import BufferTensorDesc as BufferTensorDesc
from dmlax.spec.descs import ConvolutionIntegerOperatorDesc as ConvolutionIntegerOperatorDesc
from dmlax.spec.descs import (
    ElementWiseDequantizeLinearOperatorDesc as ElementWiseDequantizeLinearOperatorDesc,
)
from dmlax.spec.descs import (
    ElementWiseQuantizeLinearOperatorDesc as ElementWiseQuantizeLinearOperatorDesc,
)
from dmlax.spec.descs import NonzeroCoordinatesOperatorDesc as NonzeroCoordinatesOperatorDesc
from dmlax.spec.descs import (
    QuantizedLinearConvolutionOperatorDesc as QuantizedLinearConvolutionOperatorDesc,
)
from dmlax.spec.enums import DataType as DataType
from dmlax.spec.enums import FeatureLevel as FeatureLevel
from dmlax.spec.enums import TensorFlags as TensorFlags
from dmlax.spec.validate import validate as validate

__all__ = [
    "BindOrder",
    "BufferTensorDesc",
    "CompiledOperator",
    "ConvolutionIntegerOperatorDesc",
    "DataType",
    "ElementWiseDequantizeLinearOperatorDesc",
    "ElementWiseQuantizeLinearOperatorDesc",
    "FeatureLevel",
    "NonzeroCoordinatesOperatorDesc",
    "QuantizedLinearConvolutionOperatorDesc",
    "TensorFlags",
    "Violation",
    "create_operator",
    "validate",
]
