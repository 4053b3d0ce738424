"""Rules of ELEMENT_WISE_QUANTIZED_LINEAR_ADD, of calls and of descs, and its support table."""

from .._shared import binary_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found
from .._shared.tables import Tables

CLAUSES = shared.clauses("ADD", "(a + b)")
UNBREAKABLE = shared.unbreakable("ADD")
DESC_CLAUSES = shared.DESC_CLAUSES
TABLES: Tables = {"4_0": shared.table(1, 8)}
desc_sizes = shared.desc_sizes


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check dtypes, sizes and the values of scales."""
    shared.check(inputs, outputs)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from shared.check_desc("qadd", desc)
