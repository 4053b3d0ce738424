"""The table of operators in `docs/litert.md` has those that the loader computes."""

import re
from pathlib import Path

from dmlax.litert.read import DOMAIN
from dmlax.onnx.operators import rows

PAGE = Path(__file__).parents[2] / "docs/litert.md"
READ = {"ASSIGN_VARIABLE", "CALL_ONCE", "DENSIFY", "IF", "READ_VARIABLE", "VAR_HANDLE"}


def test_the_page_lists_the_operators():
    table = PAGE.read_text().partition("| group | operators |")[2]
    known = {row.op for row in rows() if row.domain == DOMAIN} - {"IDENTITY"}
    assert set(re.findall(r"`([A-Z0-9_]+)`", table)) == known | READ
