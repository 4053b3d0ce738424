"""ELEMENT_WISE_QUANTIZE_LINEAR."""

from .._shared.operator import Operator
from . import meaning, rules, table

OPERATOR = Operator(
    name="element_wise_quantize_linear",
    prefix="quantize",
    compute=meaning.compute,
    check=rules.check,
    check_desc=rules.check_desc,
    tables=table.TABLES,
    clauses=rules.CLAUSES,
    desc_clauses=rules.DESC_CLAUSES,
    unbreakable=rules.UNBREAKABLE,
)
