"""Writing the vector files, or saying which of them are not what would be written."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from ...format.canonical import dumps
from ...operators.convolution_integer import cases as convolution_integer
from ...operators.element_wise_dequantize_linear import cases as dequantize
from ...operators.element_wise_quantize_linear import cases as quantize
from ...operators.nonzero_coordinates import cases as nonzero_coordinates
from ...operators.nonzero_coordinates import cases_values as nonzero_values
from ...operators.quantized_linear_convolution import cases as quantized_convolution
from ...operators.quantized_linear_convolution import cases_invalid as quantized_convolution_invalid
from ...operators.quantized_linear_convolution import (
    cases_rounding as quantized_convolution_rounding,
)
from ...operators.topics import Topic
from . import (
    desc_convolutions,
    desc_element_wise,
    desc_nonzero,
    desc_rows,
    desc_strides,
    desc_tensors,
    kills,
    kills_descs,
    pairs,
    size_classes,
)

MODULES = (
    nonzero_coordinates,
    nonzero_values,
    quantized_convolution,
    quantized_convolution_rounding,
    quantized_convolution_invalid,
    convolution_integer,
    quantize,
    dequantize,
    desc_convolutions,
    desc_element_wise,
    desc_nonzero,
    desc_rows,
    desc_strides,
    desc_tensors,
    kills,
    kills_descs,
    pairs,
    size_classes,
)


@cache
def files() -> Mapping[str, str]:
    """Return the text of every file by its path under the vectors folder."""
    return {f"{topic.operator}/{topic.topic}.json": dumps(topic.file()) for topic in topics()}


def write(root: Path) -> int:
    """Write all files and return how many."""
    wanted = files()
    for name, text in wanted.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return len(wanted)


def stale(root: Path) -> list[str]:
    """Return a line for each file that differs, is missing, or should not be there."""
    wanted = {name: text.encode() for name, text in files().items()}
    stored = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.glob("*/*")}
    return [
        f"{name}: {_state(name in wanted, name in stored)}"
        for name in sorted(wanted.keys() | stored.keys())
        if wanted.get(name) != stored.get(name)
    ]


def _state(is_wanted: bool, is_stored: bool) -> str:
    if not is_stored:
        return "is missing"
    return "differs from what the generator writes" if is_wanted else "is not generated"


def topics() -> Iterator[Topic]:
    for module in MODULES:
        yield from module.topics()
