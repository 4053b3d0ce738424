"""QUANTIZED_LINEAR_CONVOLUTION."""

from .._shared.convolution_rules import ATTRIBUTES
from .._shared.operator import Operator
from . import meaning, rules, table

OPERATOR = Operator(
    name="quantized_linear_convolution",
    prefix="qconv",
    compute=meaning.compute,
    check=rules.check,
    check_desc=rules.check_desc,
    tables=table.TABLES,
    clauses=rules.CLAUSES,
    desc_clauses=rules.DESC_CLAUSES,
    unbreakable=rules.UNBREAKABLE,
    attributes=ATTRIBUTES,
)
