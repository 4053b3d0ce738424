"""DirectML's operators in JAX, exactly: the same bits on every backend, correctly rounded."""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from dmlax import directml as directml
from dmlax._add_multiply.api import (
    element_wise_quantized_linear_add as element_wise_quantized_linear_add,
)
from dmlax._add_multiply.api import (
    element_wise_quantized_linear_multiply as element_wise_quantized_linear_multiply,
)
from dmlax._byte_lookup.api import quantized_lookup as quantized_lookup
from dmlax._convolution.api import convolution_integer as convolution_integer
from dmlax._convolution.api import quantized_linear_convolution as quantized_linear_convolution
from dmlax._convolution.prepare import prepare_filter as prepare_filter
from dmlax._convolution.prepared_filter import PreparedFilter as PreparedFilter
from dmlax._convolution_add.api import (
    quantized_linear_convolution_add as quantized_linear_convolution_add,
)
from dmlax._core.dispatch import Explanation as Explanation
from dmlax._dynamic_quantize.api import dynamic_quantize_linear as dynamic_quantize_linear
from dmlax._dynamic_quantize.result import DynamicQuantizeLinear as DynamicQuantizeLinear
from dmlax._explain import ProgramExplanation as ProgramExplanation
from dmlax._explain import explain as explain
from dmlax._matmul.api import matrix_multiply_integer as matrix_multiply_integer
from dmlax._matmul.api import (
    matrix_multiply_integer_to_float as matrix_multiply_integer_to_float,
)
from dmlax._matmul.api import (
    quantized_linear_matrix_multiply as quantized_linear_matrix_multiply,
)
from dmlax._matmul.prepare import prepare_matrix as prepare_matrix
from dmlax._matmul.prepared_matrix import PreparedMatrix as PreparedMatrix
from dmlax._nonzero.api import nonzero_coordinates as nonzero_coordinates
from dmlax._nonzero.result import NonzeroCoordinates as NonzeroCoordinates
from dmlax._pooling.api import max_pooling as max_pooling
from dmlax._pooling.api import (
    quantized_linear_average_pooling as quantized_linear_average_pooling,
)
from dmlax._pooling.api import (
    quantized_linear_global_average_pooling as quantized_linear_global_average_pooling,
)
from dmlax._quantize.api import element_wise_dequantize_linear as element_wise_dequantize_linear
from dmlax._quantize.api import element_wise_quantize_linear as element_wise_quantize_linear
from dmlax.errors import SpecError as SpecError
from dmlax.errors import UnsupportedError as UnsupportedError

try:
    __version__ = _version("dmlax")
except _PackageNotFoundError:  # run from its sources
    __version__ = "0+sources"

__all__ = [
    "DynamicQuantizeLinear",
    "Explanation",
    "NonzeroCoordinates",
    "PreparedFilter",
    "PreparedMatrix",
    "ProgramExplanation",
    "SpecError",
    "UnsupportedError",
    "convolution_integer",
    "dynamic_quantize_linear",
    "element_wise_dequantize_linear",
    "element_wise_quantize_linear",
    "element_wise_quantized_linear_add",
    "element_wise_quantized_linear_multiply",
    "explain",
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
