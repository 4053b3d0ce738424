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
    "requantization",
    "size",
}


def sections(page):
    """The function and the table of each section, by title: arguments by ONNX's name."""
    _, *parts = re.split(r"^## ", (DOCS / page).read_text(), flags=re.MULTILINE)
    return {title: read(body) for title, _, body in (part.partition("\n") for part in parts)}


def read(body):
    function, table = re.match(r"\s*`dmlax\.(\w+)`", body), {}
    for line in re.findall(r"^\| `.*", body, re.MULTILINE):
        names, arguments = (re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:3])
        pairs = zip(names, arguments, strict=True) if len(names) == len(arguments) else ()
        table |= dict.fromkeys(names, arguments) | {name: [one] for name, one in pairs}
    return function and function[1], table


def check_arguments(function, arguments, new=frozenset()):
    """They exist, and those that are missing have no counterpart."""
    parameters = set(inspect.signature(getattr(dmlax, function)).parameters)
    named = {name for names in arguments for name in names}
    assert named <= parameters
    assert parameters - named <= NEW | new


@pytest.mark.parametrize("operator", FROM_ONNX)
def test_onnx_is_mapped_whole(operator):
    tables = sections("migrating_from_onnx.md")
    function, table = tables[operator]
    schema = onnx.defs.get_schema(operator)
    known = {each.name for each in (*schema.inputs, *schema.outputs)} | set(schema.attributes)
    assert table.keys() <= known <= table.keys() | tables["Names"][1].keys()
    assert function == FROM_ONNX[operator]
    check_arguments(function, [(tables["Names"][1] | table)[name] for name in known])


@pytest.mark.parametrize("desc", SUPPORT, ids=lambda desc: desc.operator)
def test_directml_is_mapped_whole(desc):
    """By the rule of names, or by an exception."""
    text = (DOCS / "migrating_from_directml.md").read_text()
    (cells,) = re.findall(rf"^\| {desc.operator} \| `(\w+)` \|(.*)\|$", text, re.MULTILINE)
    function, exceptions = cells
    row = next(row for row in OPERATORS if SUPPORT[desc] in row.supports)
    assert function == row.name
    parameters = set(inspect.signature(getattr(dmlax, function)).parameters)
    fields = set(inspect.signature(desc).parameters)
    others = {field for field in fields if field.removesuffix("_tensor") not in parameters}
    for field in others - {"dimension_count", "output_tensor"}:
        assert "".join(map(str.capitalize, field.split("_"))) in exceptions
    of_newer = {"dilations"} if SUPPORT[desc] in row.older else set()
    arguments = [[field.removesuffix("_tensor") for field in fields - others]]
    check_arguments(function, arguments, of_newer)
