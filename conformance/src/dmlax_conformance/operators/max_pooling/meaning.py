"""The meaning of MAX_POOLING."""

from ...format.tensors import DTYPES, Tensor
from .._shared import floats
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.pooling import elements, output_sizes


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the largest element of each window, and the first place that has it if asked for.

    A desc may have floats and wider integers; no vector of floats has NaN or a window without
    elements.
    """
    x, sizes = inputs["InputTensor"], output_sizes(inputs["InputTensor"].sizes, attributes)
    is_float = DTYPES[x.dtype].kind == "bits"
    values = [floats.decode(word, x.dtype).value for word in x.words] if is_float else x.words
    lowest = DTYPES[x.dtype].low
    found = [
        max(places, key=lambda place: values[place]) if places else None
        for _, places in elements(x.sizes, attributes)
    ]
    words = tuple(lowest if place is None else x.words[place] for place in found)
    answer = {"OutputTensor": Tensor(x.dtype, sizes, words)}
    if "OutputIndicesTensor" in outputs:
        places = tuple(place or 0 for place in found)
        asked = outputs["OutputIndicesTensor"]
        answer["OutputIndicesTensor"] = Tensor(asked.dtype, sizes, places)
    return answer
