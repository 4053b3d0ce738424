"""Putting desc vectors together: the author gives a desc and a level, the oracle the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..format import tensors
from ..format.descs import scatter, tensor_desc
from ..format.tensors import DTYPES, Tensor
from ..format.vectors import Request
from ._shared.tables import dashed
from .answer_desc import logical_answer, requests
from .desc_clauses import DESC_CLAUSES
from .desc_rules import violations
from .descs import express, needs
from .topics import Topic, expected, ints

__all__ = ["NEWEST", "Call", "DescTopic", "call", "cycled", "dashed", "poison"]

Desc = Mapping[str, Any]
NEWEST = "6_4"


@dataclass(frozen=True)
class Call:
    """A desc, and the elements of its inputs in the desc's sizes."""

    operator: str
    desc: Mapping[str, Any]
    inputs: Mapping[str, Tensor]

    def changed(self, fields: Mapping[str, Any]) -> "Call":
        """Return the call with other fields in its desc."""
        return replace(self, desc={**self.desc, **fields})

    def described(
        self,
        name: str,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        data_type: str | None = None,
        size_in_bytes: int | None = None,
    ) -> dict[str, Any]:
        """Return a field: one tensor described anew, packed unless it gets strides."""
        old = self.desc[name]
        sizes, data_type = old["Sizes"] if sizes is None else sizes, data_type or old["DataType"]
        return {name: tensor_desc(data_type, sizes, strides, size_in_bytes)}

    def patched(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return a field: one tensor desc with other entries, the rest as it was."""
        return {name: {**self.desc[name], **fields}}

    def laid_out(
        self, name: str, strides: Sequence[int], size_in_bytes: int | None = None
    ) -> "Call":
        """Return the call with one tensor strided, by default as small as it can be."""
        return self.changed(self.described(name, None, strides, None, size_in_bytes))


def call(
    operator: str,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Request],
    attributes: Mapping[str, Any] | None = None,
) -> Call:
    """Return the packed desc of a functional call."""
    return Call(operator, express(operator, attributes or {}, inputs, outputs), inputs)


def poison(dtype: str) -> int:
    """Return an element that shows in a result: NaN, or an odd integer."""
    if DTYPES[dtype].kind == "bits":
        return {"float16": 0x7E00, "float32": 0x7FC00000}[dtype]
    return DTYPES[dtype].high // 3 * 2 + 1


def cycled(dtype: str, sizes: Sequence[int], words: Sequence[int]) -> Tensor:
    """Return a tensor that runs through the words again and again."""
    return ints(dtype, sizes, (words[i % len(words)] for i in range(prod(sizes))))


class DescTopic(Topic):
    """One file of desc vectors."""

    def __init__(self, operator: str, topic: str) -> None:
        """Start an empty file."""
        super().__init__(operator, topic)
        self._made: dict[str, tuple[Call, str, dict[str, Any]]] = {}

    def accepted(
        self,
        name: str,
        comment: str,
        made: Call,
        level: str = NEWEST,
        clause: str = "",
        flags: str = "",
    ) -> None:
        """Add a desc that keeps every rule at the level; its clauses are those of its changes."""
        broken = violations(self.operator, made.desc, level)
        assert not broken, f"{name}: {broken}"
        held = {k: scatter(made.desc[k], v.words, poison(v.dtype)) for k, v in made.inputs.items()}
        results = logical_answer(self.operator, made.desc, held)
        vector = self._add_desc(name, comment, made, level, clause, flags)
        asked = requests(self.operator, made.desc)
        vector["inputs"] = {k: tensors.encode(v) for k, v in held.items()}
        vector["outputs"] = {k: {"dtype": v[0], "sizes": list(v[1])} for k, v in asked.items()}
        vector["expect"] = {
            "outputs": {name: expected(name, results, made.inputs, {}) for name in results}
        }
        self._made[name] = (made, level, vector)

    def refused(
        self,
        name: str,
        comment: str,
        base: str,
        rule: str,
        field: str,
        changed: Mapping[str, Any] | None = None,
        level: str | None = None,
        flags: str = "Invalid",
    ) -> None:
        """Add a desc that differs from its base in one mistake: other fields, or another level.

        A rule of the operator goes without its prefix.
        """
        rule = rule if rule in DESC_CLAUSES else self.prefix + rule
        old, old_level, shown = self._made[base]
        made, level = old.changed(changed or {}), level or old_level
        found = violations(self.operator, made.desc, level)
        assert found, f"{name}: the rules accept this desc"
        first, *more = found
        assert (first.rule, first.field) == (rule, field), f"{name}: the rules say {first}"
        vector = self._add_desc(name, comment, made, level, rule, flags)
        vector["twin"] = self.prefix + base
        error = {"code": first.code, "field": field}
        others = [{"code": each.code, "field": each.field} for each in more]
        also = [each for i, each in enumerate(others) if each not in [error, *others[:i]]]
        vector["expect"] = {"error": {**error, "also": also} if also else error}
        self._leave_out(vector, changed or {})
        vector |= {"desc": vector.get("desc", {})}
        shown["clause"] = list(dict.fromkeys([*shown["clause"], rule]))

    def refuse(
        self,
        name: str,
        text: str,
        base: str,
        rule: str,
        changed: Mapping[str, Any],
        flags: str = "Invalid",
    ) -> None:
        """Add `desc-name`, where packed tensors have other sizes, and attributes other values."""
        made = self.made(base)
        fields = {k: made.described(k, v)[k] if "Tensor" in k else v for k, v in changed.items()}
        whole = rule if rule in DESC_CLAUSES else self.prefix + rule
        found = violations(self.operator, {**made.desc, **fields}, self._made[base][1])
        field = next((each.field for each in found if each.rule == whole), "")
        self.refused(f"desc-{name}", text, base, rule, field, fields, flags=flags)

    def step(
        self, name: str, text: str, made: Call, levels: tuple[str, str], rule: str, field: str
    ) -> None:
        """Add one desc at two levels: the lower one refuses it."""
        low, high = levels
        base, flags = f"desc-{name}-{dashed(high)}", "Invalid Level"
        self.accepted(base, f"the twin: {text}, from {high} on", made, high, flags="Level")
        name, text = f"desc-{name}-{dashed(low)}", f"{text}, at {low}"
        self.refused(name, text, base, rule, field, level=low, flags=flags)

    def together(
        self, name: str, text: str, base: str, rule: str, field: str, changed: Mapping[str, Any]
    ) -> None:
        """Refuse a desc in which fields that must agree change together."""
        flags = "Invalid Row"
        self.refused(f"desc-together-{name}", text, base, rule, field, changed, flags=flags)

    def made(self, name: str) -> Call:
        """Return a call that was accepted."""
        return self._made[name][0]

    def _add_desc(
        self, name: str, comment: str, made: Call, level: str, clause: str, flags: str
    ) -> dict[str, Any]:
        vector = self._add(name, comment, clause, flags, needs(self.operator, made.desc))
        vector |= {"feature_level": level, "desc": made.desc}
        vector |= {"attributes": {}, "inputs": {}, "outputs": {}}
        return vector
