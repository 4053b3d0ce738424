"""The meaning of QUANTIZED_LOOKUP."""

from ...format.tensors import DTYPES, Tensor
from .._shared.call_rules import Attributes, Inputs, Outputs


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the entry of the table for each element; the first is that of the lowest value."""
    x, table = inputs["InputTensor"], inputs["TableTensor"]
    lowest = DTYPES[x.dtype].low
    words = tuple(table.words[word - lowest] for word in x.words)
    return {"OutputTensor": Tensor(table.dtype, x.sizes, words)}
