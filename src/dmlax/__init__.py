"""DirectML's operators in JAX, exactly: the same bits on every backend, correctly rounded."""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from dmlax import directml as directml
from dmlax._core.dispatch import Explanation
from dmlax._cpu.allocator import keep_freed_memory
from dmlax._explain import MachineExplanation, ProgramExplanation, explain
from dmlax._export import deserialize, export
from dmlax._operators.add_multiply.api import (
    element_wise_quantized_linear_add,
    element_wise_quantized_linear_multiply,
)
from dmlax._operators.byte_lookup.api import quantized_lookup
from dmlax._operators.convolution.api import convolution_integer, quantized_linear_convolution
from dmlax._operators.convolution.prepare import PreparedFilter, prepare_filter
from dmlax._operators.convolution_add.api import quantized_linear_convolution_add
from dmlax._operators.dynamic_quantize.api import dynamic_quantize_linear
from dmlax._operators.dynamic_quantize.result import DynamicQuantizeLinear
from dmlax._operators.matmul.api import (
    matrix_multiply_integer,
    matrix_multiply_integer_to_float,
    quantized_linear_matrix_multiply,
)
from dmlax._operators.matmul.prepare import PreparedMatrix, prepare_matrix
from dmlax._operators.nonzero.api import nonzero_coordinates
from dmlax._operators.nonzero.result import NonzeroCoordinates
from dmlax._operators.pooling.api import (
    max_pooling,
    quantized_linear_average_pooling,
    quantized_linear_global_average_pooling,
)
from dmlax._operators.quantize.api import (
    element_wise_dequantize_linear,
    element_wise_quantize_linear,
)
from dmlax.errors import SpecError, UnsupportedError

try:
    __version__ = _version("dmlax")
except _PackageNotFoundError:  # run from its sources
    __version__ = "0+sources"

__all__ = [
    "DynamicQuantizeLinear",
    "Explanation",
    "MachineExplanation",
    "NonzeroCoordinates",
    "PreparedFilter",
    "PreparedMatrix",
    "ProgramExplanation",
    "SpecError",
    "UnsupportedError",
    "convolution_integer",
    "deserialize",
    "dynamic_quantize_linear",
    "element_wise_dequantize_linear",
    "element_wise_quantize_linear",
    "element_wise_quantized_linear_add",
    "element_wise_quantized_linear_multiply",
    "explain",
    "export",
    "keep_freed_memory",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "max_pooling",
    "nonzero_coordinates",
    "prepare_filter",
    "prepare_matrix",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_convolution_add",
    "quantized_linear_global_average_pooling",
    "quantized_linear_matrix_multiply",
    "quantized_lookup",
]
