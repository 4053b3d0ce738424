"""Derive bugs from the rules of a desc: one is missing or half there, a table is misread."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...operators import tables
from ...operators.desc_clauses import DESC_CLAUSES
from ...operators.desc_rules import Violation, violations
from ...operators.tables import LEVELS, TABLES, Row
from ...operators.topics import PREFIXES
from ..adapter import Case
from .record import DESCS, Bug, bug
from .refusals import Refuse, kebab

NOT_A_RULE = "tensor-buffer"  # says where elements lie, and refuses nothing
TENSOR_RULES = [name for name in DESC_CLAUSES if name.startswith("tensor-") and name != NOT_A_RULE]
Alike = tuple[tuple[str, ...], ...]
ROW_RULES = "tensor-data-type tensor-dimension-count tensor-required"

COLUMNS = {"DataType": "tensor-data-type", "DimensionCount": "tensor-dimension-count"}
CODES = {  # a code, the one that is given instead, and the rules with it
    "byte_size": ("sizes", "tensor-byte-size tensor-byte-size-limit"),
    "alignment": ("byte_size", "tensor-alignment"),
    "flags": ("option", "tensor-flags"),
    "strides": ("sizes", "tensor-strides-count tensor-output-overlap"),
    "missing_tensor": ("data_type", "tensor-required"),
    "feature_level": ("data_type", "operator-feature-level"),
    "data_type": ("value", "tensor-data-type"),
    "dimension_count": ("sizes", "tensor-dimension-count tensor-sizes-count"),
}


HALVES = "data-type:outputs" + "".join(
    f" {rule}:inputs {rule}:outputs"
    for rule in ("strides-count", "byte-size", "byte-size-limit", "alignment")
)


@dataclass(frozen=True)
class DescRules:
    """Relations between the rules of an operator, without which a bug would change nothing.

    `implied` are rules whose descs other rules refuse too, with the reason, and optional tensors
    whose lines other rules make up for. `halves` are rules that
    can be checked for inputs or outputs only, so that no other makes up for it. `alike` are tensors
    that other rules make agree in a column: a misread line shows only if it is misread for all.
    """

    operator: str
    implied: Mapping[str, str]
    halves: str
    alike: Mapping[str, Alike]

    def bugs(self) -> Iterator[Bug]:
        """Yield every bug that follows."""
        yield from self._missing_rules()
        halves = (h for h in f"{HALVES} {self.halves}".split() if h not in self.implied)
        yield from _half_rules(self.operator, halves)
        yield from self._unchecked_tensors()
        yield from self._levels()
        for level, rows in TABLES[self.operator].items():
            for row in rows:
                yield from _narrower(self.operator, level, row)
            yield from self._wider(level)
        yield from self._reasons()

    def _missing_rules(self) -> Iterator[Bug]:
        """Leave out one rule."""
        prefix = PREFIXES[self.operator]
        own = [name for name in DESC_CLAUSES if name.startswith(prefix)]
        for rule in ("operator-feature-level", *TENSOR_RULES, *own):
            if rule not in self.implied:
                made = _without(_breaking(rule))
                yield _bug(self.operator, f"without-{rule.removeprefix(prefix)}", rule, made)

    def _unchecked_tensors(self) -> Iterator[Bug]:
        """Compare a tensor with no line of the table."""
        for name in tables.tensors(self.operator):
            if name not in self.implied:
                made = _without(_about(name))
                yield _bug(self.operator, f"{kebab(name)}-unchecked", ROW_RULES, made)

    def _levels(self) -> Iterator[Bug]:
        """Take a table to begin a level too early or too late, or to hold at every level."""
        first = tables.introduced(self.operator)
        same = f"{PREFIXES[self.operator]}same-dimension-count"
        later = ROW_RULES if same in self.implied else f"{ROW_RULES} {same}"
        for start in TABLES[self.operator]:
            clause = "operator-feature-level" if start == first else later
            if start != LEVELS[0]:
                before = LEVELS[LEVELS.index(start) - 1]
                yield _bug(self.operator, f"{start}-too-early", clause, _as_level(before, start))
                yield _bug(self.operator, f"{start}-too-late", clause, _as_level(start, before))
        ends = {"newest": LEVELS[-1], "first": first} if len(TABLES[self.operator]) > 1 else {}
        for name, level in ends.items():
            made = _at_every_level(level)
            yield _bug(self.operator, f"{name}-table-only", ROW_RULES, made)

    def _wider(self, level: str) -> Iterator[Bug]:
        """Allow anything in a column, for tensors that other rules make agree."""
        for column, word in {"DataType": "type", "DimensionCount": "rank"}.items():
            alike = self.alike.get(f"{column} {level}", self.alike.get(column, ()))
            named = {tensor for group in alike for tensor in group}
            alone = [(name,) for name in tables.tensors(self.operator) if name not in named]
            for names in (*alike, *alone):
                made = _without(_misread(level, COLUMNS[column], names))
                name = f"{level}-{kebab(names[0])}-any-{word}"
                yield _bug(self.operator, name, COLUMNS[column], made)

    def _reasons(self) -> Iterator[Bug]:
        """Refuse the right descs with another code, or blame the wrong field."""
        for old, (new, rules) in CODES.items():
            if rules not in self.implied:
                yield _bug(self.operator, f"{old}-is-{new}", rules, _coded(old, new))
        made = _blaming(tables.tensors(self.operator)[0])
        yield _bug(self.operator, "blames-input", ROW_RULES, made)


def _bug(operator: str, name: str, clause: str, made: Refuse) -> Bug:
    return bug(operator, f"desc-{name}".replace("_", "-"), clause, DESCS, refuse=made)


def _without(test: Callable[[Case, Violation], bool]) -> Refuse:
    """Be blind to some violations."""
    return lambda case, found: [each for each in found if not test(case, each)]


# -- rules -------------------------------------------------------------------------------------


def _breaking(rule: str) -> Callable[[Case, Violation], bool]:
    return lambda case, each: each.rule == rule


def _half_rules(operator: str, halves: Iterable[str]) -> Iterator[Bug]:
    """Check a rule for inputs only, or for outputs only."""
    for rule, side in (each.split(":") for each in halves):
        made = _without(_blind(operator, f"tensor-{rule}", side == "inputs"))
        yield _bug(operator, f"{rule}-of-{side}-only", f"tensor-{rule}", made)


def _blind(operator: str, rule: str, to_outputs: bool) -> Callable[[Case, Violation], bool]:
    outputs = {row.tensor for row in tables.rows(operator, LEVELS[-1]) if row.is_output}
    return lambda case, each: each.rule == rule and (each.field in outputs) == to_outputs


def _about(name: str) -> Callable[[Case, Violation], bool]:
    return lambda case, each: each.field == name and each.rule in TENSOR_RULES


# -- feature levels ----------------------------------------------------------------------------


def _as_level(at: str, taken: str) -> Refuse:
    """Take one feature level for another."""
    return lambda case, found: (
        violations(case.operator, case.desc or {}, taken) if case.feature_level == at else found
    )


def _at_every_level(level: str) -> Refuse:
    return lambda case, found: (
        violations(case.operator, case.desc or {}, level) if _has_operator(case) else found
    )


def _has_operator(case: Case) -> bool:
    first = tables.introduced(case.operator)
    return LEVELS.index(case.feature_level or "") >= LEVELS.index(first)


# -- lines of the tables -----------------------------------------------------------------------


def _misread(level: str, rule: str, names: Sequence[str]) -> Callable[[Case, Violation], bool]:
    return lambda case, each: each.rule == rule and each.field in names and _holds(level, case)


def _narrower(operator: str, level: str, row: Row) -> Iterator[Bug]:
    """Misread one line: a data type or a dimension count is missing, or it is not optional."""
    label = f"{level}-{kebab(row.tensor)}"
    values: dict[str, list[Any]] = {
        "DataType": sorted(row.data_types),
        "DimensionCount": sorted({row.lowest, row.highest}),
    }
    for column, own in values.items():
        word, code = (
            ("not", "data_type") if column == "DataType" else ("not-rank", "dimension_count")
        )
        for value in own:
            refusal = Violation(COLUMNS[column], code, row.tensor)
            made = _refusing(level, refusal, _has(row.tensor, column, value))
            yield _bug(operator, f"{label}-{word}-{value}".lower(), COLUMNS[column], made)
    refusal = Violation("tensor-required", "missing_tensor", row.tensor)
    if row.is_optional:
        made = _refusing(level, refusal, lambda desc: desc[row.tensor] is None)
        yield _bug(operator, f"{label}-required", "tensor-required", made)
    else:
        made = _without(_misread(level, "tensor-required", (row.tensor,)))
        yield _bug(operator, f"{label}-optional", "tensor-required", made)


def _holds(level: str, case: Case) -> bool:
    """Return whether the table of a level is in force."""
    held = case.feature_level or ""
    return _has_operator(case) and tables.table_level(case.operator, held) == level


def _has(tensor: str, column: str, value: Any) -> Callable[[Any], bool]:
    return lambda desc: desc[tensor] is not None and desc[tensor][column] == value


def _refusing(level: str, refusal: Violation, when: Callable[[Any], bool]) -> Refuse:
    """Refuse what a line allows."""
    return lambda case, found: (
        [refusal, *found] if when(case.desc) and _holds(level, case) else found
    )


# -- reasons -----------------------------------------------------------------------------------


def _coded(old: str, new: str) -> Refuse:
    return lambda case, found: [
        each._replace(code=new) if each.code == old else each for each in found
    ]


def _blaming(name: str) -> Refuse:
    return lambda case, found: [each._replace(field=name) for each in found]
