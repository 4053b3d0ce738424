"""The row of an operator."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...format.tensors import Tensor
from .call_rules import Attributes, Inputs, Outputs, Rule
from .cross import Cross
from .desc_rules import Desc, Found
from .tables import Rows

Answer = dict[str, Tensor]
PACKAGE = __name__.removesuffix("._shared.operator")


class Operator:
    """An operator: its names, and what the modules of its room say."""

    def __init__(self, name: str, prefix: str, attributes: tuple[str, ...] = ()) -> None:
        """`prefix` begins the ids of vectors and the names of desc rules."""
        self.name = name
        self.prefix = prefix
        self.attributes = attributes
        self.room = f"{PACKAGE}.{name}"
        meaning, rules = map(self.module, ("meaning", "rules"))
        self.compute: Callable[[Attributes, Inputs, Outputs], Answer] = meaning.compute
        self.check: Rule = rules.check
        self.check_desc: Callable[[Desc, str], Found] = rules.check_desc
        self.tables: Mapping[str, Rows] = rules.TABLES
        self.clauses: Mapping[str, str] = rules.CLAUSES
        self.desc_clauses: Mapping[str, str] = rules.DESC_CLAUSES
        self.unbreakable: Mapping[str, str] = rules.UNBREAKABLE

    def module(self, name: str) -> Any:
        """Return a module of the room."""
        return import_module(f"{self.room}.{name}")

    @property
    def cross(self) -> Cross[Any] | None:
        """The table of value classes and structures, if the room has one."""
        if find_spec(f"{self.room}.structures") is None:
            return None
        cross: Cross[Any] = self.module("structures").CROSS
        return cross
