"""Putting desc vectors together: the author gives a desc and a level, the oracle the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...format import tensors
from ...format.descs import scatter, tensor_desc
from ...format.tensors import DTYPES, Tensor
from ...format.vectors import Request
from ...operators.answer_desc import logical_answer, requests
from ...operators.desc_rules import violations
from ...operators.descs import express, needs
from ...operators.topics import PREFIXES, REVISIONS, Topic, expected

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

    def edited(self, name: str, **fields: Any) -> "Call":
        """Return the call with other fields in one tensor desc."""
        return self.changed({name: {**self.desc[name], **fields}})

    def laid_out(
        self, name: str, strides: Sequence[int], size_in_bytes: int | None = None
    ) -> "Call":
        """Return the call with one tensor strided, by default as small as it can be."""
        old = self.desc[name]
        new = tensor_desc(old["DataType"], old["Sizes"], strides, size_in_bytes)
        return self.changed({name: new})


def call(
    operator: str,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Request],
    attributes: Mapping[str, Any] | None = None,
) -> Call:
    """Return the packed desc of a functional call."""
    return Call(operator, express(operator, attributes or {}, inputs, outputs), inputs)


def poison(dtype: str) -> int:
    """Return an element that spoils a result: NaN, or an odd integer."""
    if DTYPES[dtype].kind == "bits":
        return {"float16": 0x7E00, "float32": 0x7FC00000}[dtype]
    return DTYPES[dtype].high // 3 * 2 + 1


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
        """Add a desc that keeps every rule at the level; its twins add what it shows."""
        broken = violations(self.operator, made.desc, level)
        assert not broken, f"{name}: {broken}"
        held = {k: scatter(made.desc[k], v.words, poison(v.dtype)) for k, v in made.inputs.items()}
        results = logical_answer(self.operator, made.desc, held)
        vector = self._vector(name, comment, made, level, clause, flags)
        asked = requests(self.operator, made.desc)
        vector["inputs"] = {k: tensors.encode(v) for k, v in held.items()}
        vector["outputs"] = {k: {"dtype": v[0], "sizes": list(v[1])} for k, v in asked.items()}
        vector["expect"] = {
            "outputs": {k: expected(k, v, made.inputs, {}) for k, v in results.items()}
        }
        self._made[name] = (made, level, vector)
        self._vectors.append(vector)

    def refused(
        self,
        name: str,
        comment: str,
        twin: str,
        rule: str,
        error: tuple[str, str],
        changed: Mapping[str, Any] | None = None,
        level: str | None = None,
        flags: str = "Invalid",
    ) -> None:
        """Add a desc that differs from its twin in one mistake: other fields, or another level."""
        old, old_level, shown = self._made[twin]
        made, level = old.changed(changed or {}), level or old_level
        found = violations(self.operator, made.desc, level)
        assert found, f"{name}: the rules accept this desc"
        assert found[0] == (rule, *error), f"{name}: the rules say {found}"
        vector = self._vector(name, comment, made, level, rule, flags)
        vector["twin"] = f"{PREFIXES[self.operator]}{twin}"
        others = dict.fromkeys((each.code, each.field) for each in found)
        also = [{"code": code, "field": field} for code, field in others if (code, field) != error]
        vector["expect"] = {"error": {"code": error[0], "field": error[1]}}
        if also:
            vector["expect"]["error"]["also"] = also
        shown["clause"] = list(dict.fromkeys([*shown["clause"], rule]))
        self._vectors.append(vector)

    def made(self, name: str) -> Call:
        """Return a call that was accepted."""
        return self._made[name][0]

    def _vector(
        self, name: str, comment: str, made: Call, level: str, clause: str, flags: str
    ) -> dict[str, Any]:
        whole = PREFIXES[self.operator] + name
        return {
            "id": whole,
            "rev": REVISIONS.get(whole, 1),
            "comment": comment,
            "clause": clause.split(),
            "flags": flags.split(),
            "requires": sorted(needs(self.operator, made.desc)),
            "feature_level": level,
            "desc": made.desc,
            "attributes": {},
            "inputs": {},
            "outputs": {},
        }
