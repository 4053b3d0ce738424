"""DirectML's own contract: descriptors, feature levels, support tables and `create_operator`."""

from dmlax.directml.create import BindOrder as BindOrder
from dmlax.directml.create import CompiledOperator as CompiledOperator
from dmlax.directml.create import create_operator as create_operator
from dmlax.directml.descs import BufferTensorDesc as BufferTensorDesc
from dmlax.directml.descs import ConvolutionIntegerOperatorDesc as ConvolutionIntegerOperatorDesc
from dmlax.directml.descs import (
    ElementWiseDequantizeLinearOperatorDesc as ElementWiseDequantizeLinearOperatorDesc,
)
from dmlax.directml.descs import (
    ElementWiseQuantizeLinearOperatorDesc as ElementWiseQuantizeLinearOperatorDesc,
)
from dmlax.directml.descs import NonzeroCoordinatesOperatorDesc as NonzeroCoordinatesOperatorDesc
from dmlax.directml.descs import (
    QuantizedLinearConvolutionOperatorDesc as QuantizedLinearConvolutionOperatorDesc,
)
from dmlax.directml.enums import DataType as DataType
from dmlax.directml.enums import FeatureLevel as FeatureLevel
from dmlax.directml.enums import TensorFlags as TensorFlags
from dmlax.directml.validate import validate as validate
from dmlax.errors import Violation as Violation

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
