"""DirectML's operators in JAX, exactly: the same bits on every backend, correctly rounded."""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from dmlax import directml as directml
from dmlax._binary.api import (
    element_wise_quantized_linear_add as element_wise_quantized_linear_add,
)
from dmlax._binary.api import (
    element_wise_quantized_linear_multiply as element_wise_quantized_linear_multiply,
)
from dmlax._convolution.add_api import (
    quantized_linear_convolution_add as quantized_linear_convolution_add,
)
from dmlax._convolution.api import convolution_integer as convolution_integer
from dmlax._convolution.api import quantized_linear_convolution as quantized_linear_convolution
from dmlax._convolution.prepare import prepare_filter as prepare_filter
from dmlax._convolution.prepared_filter import PreparedFilter as PreparedFilter
from dmlax._core.dispatch import Explanation as Explanation
from dmlax._elementwise.api import element_wise_dequantize_linear as element_wise_dequantize_linear
from dmlax._elementwise.api import element_wise_quantize_linear as element_wise_quantize_linear
from dmlax._explain import ProgramExplanation as ProgramExplanation
from dmlax._explain import explain as explain
from dmlax._lookup.api import quantized_lookup as quantized_lookup
from dmlax._nonzero.api import nonzero_coordinates as nonzero_coordinates
from dmlax._nonzero.result import NonzeroCoordinates as NonzeroCoordinates
from dmlax.errors import SpecError as SpecError
from dmlax.errors import UnsupportedError as UnsupportedError

try:
    __version__ = _version("dmlax")
except _PackageNotFoundError:  # run from its sources
    __version__ = "0+sources"

__all__ = [
    "Explanation",
    "NonzeroCoordinates",
    "PreparedFilter",
    "ProgramExplanation",
    "SpecError",
    "UnsupportedError",
    "convolution_integer",
    "element_wise_dequantize_linear",
    "element_wise_quantize_linear",
    "element_wise_quantized_linear_add",
    "element_wise_quantized_linear_multiply",
    "explain",
    "nonzero_coordinates",
    "prepare_filter",
    "quantized_linear_convolution",
    "quantized_linear_convolution_add",
    "quantized_lookup",
]
