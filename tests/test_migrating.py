"""The tables of the pages on migrating name every field, attribute and argument there is."""

import inspect
import re
from pathlib import Path

import onnx
import pytest

import dmlax
from dmlax._operators.registry import OPERATORS, SUPPORT

DOCS = Path(__file__).parent.parent / "docs"
FROM_ONNX = {
    "QLinearConv": "quantized_linear_convolution",
    "ConvInteger": "convolution_integer",
    "QLinearMatMul": "quantized_linear_matrix_multiply",
    "MatMulInteger": "matrix_multiply_integer",
    "QuantizeLinear": "element_wise_quantize_linear",
    "DequantizeLinear": "element_wise_dequantize_linear",
    "NonZero": "nonzero_coordinates",
    "MaxPool": "max_pooling",
    "DynamicQuantizeLinear": "dynamic_quantize_linear",
}
NEW = {  # what an operator of dmlax has beyond ONNX's and DirectML's
    "arithmetic",
    "axis",
    "axis_name",
    "bias",
    "coordinate_rank",
    "dimension_numbers",
    "fill_value",
    "implementation",
    "output_dtype",
    "padding",
    "size",
}


def sections(page):
    """Tables by title: the function's name, and the names in the first two columns of the table."""
    _, *parts = re.split(r"^## ", (DOCS / page).read_text(), flags=re.MULTILINE)
    return {title: read(body) for title, _, body in (part.partition("\n") for part in parts)}


def read(body):
    function = re.match(r"\s*`dmlax\.(\w+)`", body)
    rows = [line.split("|")[1:3] for line in re.findall(r"^\| `.*", body, re.MULTILINE)]
    columns = [[re.findall(r"`(\w+)`", cell) for cell in row] for row in rows]
    return function and function[1], [name for (name,), _ in columns], [a for _, a in columns]


def check_arguments(function, arguments, new=frozenset()):
    """They exist, and those that are missing have no counterpart."""
    parameters = set(inspect.signature(getattr(dmlax, function)).parameters)
    named = {name for names in arguments for name in names}
    assert named <= parameters
    assert parameters - named <= NEW | new


@pytest.mark.parametrize("operator", FROM_ONNX)
def test_onnx_is_mapped_whole(operator):
    function, names, arguments = sections("migrating_from_onnx.md")[operator]
    schema = onnx.defs.get_schema(operator)
    known = {each.name for each in (*schema.inputs, *schema.outputs)} | set(schema.attributes)
    assert sorted(names) == sorted(known)
    assert function == FROM_ONNX[operator]
    check_arguments(function, arguments)


@pytest.mark.parametrize("desc", SUPPORT, ids=lambda desc: desc.operator)
def test_directml_is_mapped_whole(desc):
    function, names, arguments = sections("migrating_from_directml.md")[desc.operator]
    row = next(row for row in OPERATORS if SUPPORT[desc] in row.supports)
    fields = inspect.signature(desc).parameters
    assert names == ["".join(map(str.capitalize, field.split("_"))) for field in fields]
    assert function == row.name
    of_newer = {"dilations"} if SUPPORT[desc] in row.older else set()
    check_arguments(function, arguments, of_newer)
