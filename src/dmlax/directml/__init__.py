"""DirectML's contract: descriptors, feature levels, support tables and `create_operator`."""

from dmlax import _operators
from dmlax._descriptors.descs import BufferTensorDesc as BufferTensorDesc
from dmlax._descriptors.enums import DataType as DataType
from dmlax._descriptors.enums import FeatureLevel as FeatureLevel
from dmlax._descriptors.enums import TensorFlags as TensorFlags
from dmlax._operators import *  # noqa: F403 (the descriptors' classes)
from dmlax.directml.create import BindOrder as BindOrder
from dmlax.directml.create import CompiledOperator as CompiledOperator
from dmlax.directml.create import create_operator as create_operator
from dmlax.directml.validate import validate as validate
from dmlax.errors import Violation as Violation

__all__ = [
    "BindOrder",
    "BufferTensorDesc",
    "CompiledOperator",
    "DataType",
    "FeatureLevel",
    "TensorFlags",
    "Violation",
    "create_operator",
    "validate",
]
__all__ += _operators.__all__
