"""Tables of the pages as data: what a tensor may be at each feature level."""

from typing import NamedTuple


class Row(NamedTuple):
    """One line of a "Tensor support" table."""

    tensor: str
    kind: str
    lowest: int
    highest: int
    data_types: frozenset[str]

    @property
    def is_optional(self) -> bool:
        """True if the tensor may be absent."""
        return self.kind.startswith("optional")

    @property
    def is_output(self) -> bool:
        """True if the operator writes the tensor."""
        return self.kind.endswith("output")


Rows = tuple[Row, ...]
Tables = dict[str, Rows]


LEVELS = (
    *("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1"),
    *("5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"),
)
FLOATS = "FLOAT32 FLOAT16"
WHOLE = "INT32 INT16 INT8 UINT32 UINT16 UINT8"
BYTES = "INT8 UINT8"


def row(tensor: str, kind: str, lowest: int, highest: int, data_types: str) -> Row:
    """Return a line of a table from names that spaces separate."""
    return Row(tensor, kind, lowest, highest, frozenset(data_types.split()))


def dashed(name: str) -> str:
    """Return a feature level, or the name of a tensor or attribute, as it is part of an id."""
    words = (f"-{c.lower()}" if c.isupper() else c for c in name.removesuffix("Tensor"))
    return "".join(words).lstrip("-").replace("_", "-")
