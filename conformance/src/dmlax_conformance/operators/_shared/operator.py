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
DescSizes = Callable[[Inputs, Outputs], Mapping[str, tuple[int, ...]]]
PACKAGE = __name__.removesuffix("._shared.operator")


class Operator:
    """An operator: its names, and what the modules of its room say.

    A function that DirectML lacks has no descs. The rules of its room have `TENSORS`, the rows of
    its calls, instead of `TABLES`, `DESC_CLAUSES` and `check_desc`; and its room has no descs to
    generate, nor bugs of them.
    """

    def __init__(
        self,
        name: str,
        prefix: str,
        onnx: str = "",
        attributes: tuple[str, ...] = (),
        struct: str = "",
        only_in_calls: tuple[str, ...] = (),
        is_written_out: bool = False,
    ) -> None:
        """`prefix` begins the ids of vectors and the names of desc rules.

        `onnx` is the type of the node, ONNX's or ONNX Runtime's, that computes the same, if any.
        `struct` is the newest version of DirectML's struct, if its name is not the operator's.
        Tensors `only_in_calls` are ours: no desc has them. The files of one that `is_written_out`
        are older than digests and partial vectors.
        """
        self.name = name
        self.struct = struct or name.upper()
        self.prefix = prefix
        self.onnx = onnx
        self.attributes = attributes
        self.only_in_calls = only_in_calls
        self.is_written_out = is_written_out
        self.room = f"{PACKAGE}.{name}"
        meaning, rules = map(self.module, ("meaning", "rules"))
        self.compute: Callable[[Attributes, Inputs, Outputs], Answer] = meaning.compute
        self.check: Rule = rules.check
        self.clauses: Mapping[str, str] = rules.CLAUSES
        self.unbreakable: Mapping[str, str] = rules.UNBREAKABLE
        self.tables: Mapping[str, Rows] = getattr(rules, "TABLES", {})
        self.desc_clauses: Mapping[str, str] = getattr(rules, "DESC_CLAUSES", {})
        self.check_desc: Callable[[Desc, str], Found] = getattr(rules, "check_desc", _no_rules)
        self.desc_sizes: DescSizes = getattr(rules, "desc_sizes", _own_sizes)
        self.tensors: Rows = [*self.tables.values()][-1] if self.tables else rules.TENSORS

    @property
    def source(self) -> str:
        """The struct that the vectors are about."""
        return f"DML_{self.struct}_OPERATOR_DESC" if self.tables else "beyond DirectML"

    def module(self, name: str) -> Any:
        """Return a module of the room."""
        return import_module(f"{self.room}.{name}")

    @property
    def cross(self) -> Cross[Any] | None:
        """The table of value classes and structures, if the room has one."""
        has_one = find_spec(f"{self.room}.structures") is not None
        cross: Cross[Any] | None = self.module("structures").CROSS if has_one else None
        return cross


def _no_rules(desc: Desc, feature_level: str) -> Found:
    yield from ()


def _own_sizes(inputs: Inputs, outputs: Outputs) -> Mapping[str, tuple[int, ...]]:
    """Return the sizes that tensors have in a desc and not in a call: none."""
    return {}
