"""QUANTIZED_LINEAR_CONVOLUTION by calls."""

from .._shared import quantized_convolution_cases as shared
from .._shared import quantized_convolution_refusals as refusals
from .._shared import quantized_convolution_rounding as rounding
from .._shared.quantized_convolution_cases import QuantizedTopic
from .._shared.systematic import each_pair, each_size
from ..topics import Files

OPERATOR = "quantized_linear_convolution"
FACTORS, APART = shared.FACTORS, shared.APART

topics = Files(OPERATOR, QuantizedTopic)
topics.file("data-types")(shared.add_data_types)
topics.file("parameters")(shared.add_parameters)
topics.file("windows")(shared.add_windows)
topics.file("groups")(shared.add_groups)
topics.file("contractions")(shared.add_contractions)
topics.file("pairs")(each_pair(FACTORS, APART)(shared.add_pair))
topics.file("size-classes")(each_size(shared.add_size))
topics.file("invalid-types")(refusals.add_invalid_types)
topics.file("invalid-sizes")(refusals.add_invalid_sizes)
topics.file("invalid-options")(refusals.add_invalid_options)
topics.file("invalid-values")(refusals.add_invalid_values)
topics.file("kills")(refusals.add_kills)
topics.file("rounding")(rounding.add_rounding)
topics.file("near-ties")(rounding.add_near_ties)
topics.file("near-ties-of-one-type")(rounding.add_near_ties_of_one_type)
topics.file("scales")(rounding.add_scales)
topics.file("scales-of-one-type")(rounding.add_scales_of_one_type)
topics.file("overflow")(rounding.add_overflow)
