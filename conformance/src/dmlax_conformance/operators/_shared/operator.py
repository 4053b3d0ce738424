"""The row of an operator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...format.tensors import Tensor
from .call_rules import Attributes, Inputs, Outputs, Rule
from .desc_rules import Desc, Found
from .tables import Rows

Answer = dict[str, Tensor]


@dataclass(frozen=True)
class Operator:
    """The names of an operator, its meaning and its rules.

    `prefix` begins the ids of its vectors and the names of its desc rules.
    """

    name: str
    prefix: str
    compute: Callable[[Attributes, Inputs, Outputs], Answer]
    check: Rule
    check_desc: Callable[[Desc, str], Found]
    tables: Mapping[str, Rows]
    clauses: Mapping[str, str]
    desc_clauses: Mapping[str, str]
    unbreakable: Mapping[str, str]
    attributes: tuple[str, ...] = ()
