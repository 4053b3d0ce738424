"""The row of an operator."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ...format.tensors import Tensor
from .call_rules import Attributes, Inputs, Outputs, Rule
from .desc_rules import Desc, Found
from .tables import Rows

Answer = dict[str, Tensor]
PACKAGE = __name__.removesuffix("._shared.operator")

DescSizes = Callable[[Inputs, Outputs], Mapping[str, tuple[int, ...]]]


def _sizes_of_input(inputs: Inputs, outputs: Outputs) -> Mapping[str, tuple[int, ...]]:
    """Return the sizes that the tensors of a call have in a desc: all those of the input."""
    return dict.fromkeys(inputs, inputs["InputTensor"].sizes)


class Operator:
    """An operator: its names, and what the modules of its room say."""

    def __init__(
        self,
        name: str,
        prefix: str,
        attributes: tuple[str, ...] = (),
        only_in_calls: tuple[str, ...] = (),
    ) -> None:
        """`prefix` begins the ids of vectors and the names of desc rules.

        Tensors `only_in_calls` are ours: no desc has them.
        """
        self.name = name
        self.prefix = prefix
        self.attributes = attributes
        self.only_in_calls = only_in_calls
        self.room = f"{PACKAGE}.{name}"
        meaning, rules = map(self.module, ("meaning", "rules"))
        self.compute: Callable[[Attributes, Inputs, Outputs], Answer] = meaning.compute
        self.check: Rule = rules.check
        self.check_desc: Callable[[Desc, str], Found] = rules.check_desc
        self.tables: Mapping[str, Rows] = rules.TABLES
        self.clauses: Mapping[str, str] = rules.CLAUSES
        self.desc_clauses: Mapping[str, str] = rules.DESC_CLAUSES
        self.unbreakable: Mapping[str, str] = rules.UNBREAKABLE
        self.desc_sizes: DescSizes = getattr(rules, "desc_sizes", _sizes_of_input)

    def module(self, name: str) -> Any:
        """Return a module of the room."""
        return import_module(f"{self.room}.{name}")
