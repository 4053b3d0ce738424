"""DirectML's contract: descriptors, feature levels, support tables and `create_operator`."""

from dmlax._descriptors.descs import BufferTensorDesc
from dmlax._descriptors.enums import DataType, FeatureLevel, TensorFlags
from dmlax._operators import registry
from dmlax._operators.registry import *  # noqa: F403 (the descriptors' classes)
from dmlax.directml.create import BindOrder, CompiledOperator, create_operator
from dmlax.directml.validate import validate
from dmlax.errors import Violation

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
__all__ += registry.__all__
