"""Derive mutants from the rules of a desc, DirectML's tables, and strided tensors."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from dmlax_conformance.format import layout
from dmlax_conformance.format.layout import ELEMENT_BITS
from dmlax_conformance.oracle import OPERATORS, tables
from dmlax_conformance.oracle.descriptors import DESC_CLAUSES, Violation, violations
from dmlax_conformance.oracle.operator import dashed
from dmlax_conformance.oracle.tables import LEVELS, TABLES, Row
from dmlax_conformance.runner.adapter import Case

from .implementation import Desc, Strides, gathered, scattered
from .mutant import DESCS, Mutant, Refuse, mutant
from .steps import Array

Named = tuple[str, str, Refuse]  # a name, the clauses, and the answer

BUFFER = "tensor-buffer"  # says where elements lie, and refuses nothing
TENSOR_RULES = [name for name in DESC_CLAUSES if name.startswith("tensor-") and name != BUFFER]
TYPE, RANK, REQUIRED = "tensor-data-type", "tensor-dimension-count", "tensor-required"
LEVEL, LINE = "operator-feature-level", f"{TYPE} {RANK} {REQUIRED}"
CODES = {  # a code, the code that is given instead, and the rules with it
    "byte_size": ("sizes", "tensor-byte-size tensor-byte-size-limit"),
    "alignment": ("byte_size", "tensor-alignment"),
    "flags": ("option", "tensor-flags"),
    "strides": ("sizes", "tensor-strides-count tensor-output-overlap"),
    "missing_tensor": ("data_type", REQUIRED),
    "feature_level": ("data_type", LEVEL),
    "data_type": ("value", TYPE),
    "dimension_count": ("sizes", f"{RANK} tensor-sizes-count"),
}
HALVES = "data-type:outputs" + "".join(
    f" {rule}:inputs {rule}:outputs"
    for rule in ("strides-count", "byte-size", "byte-size-limit", "alignment")
)


@dataclass(frozen=True)
class DescRules:
    """Relations between the rules of an operator, without which a mutant would change nothing.

    `implied` are rules whose descs other rules refuse too, with the reason, and optional tensors
    whose lines other rules make up for. `halves` are rules that can be checked for inputs or
    outputs only, so that no other rule makes up for it. `same` are tensors that other rules make
    agree in a column: a misread line shows only if it is misread for all of them.
    """

    operator: str
    implied: Mapping[str, str]
    halves: str
    same: Mapping[str, tuple[tuple[str, ...], ...]]

    def mutants(self) -> Iterator[Mutant]:
        """Yield every mutant that follows."""
        levels = TABLES[self.operator]
        lines = (_narrower(level, row) for level, rows in levels.items() for row in rows)
        wider = (self._wider(level) for level in levels)
        for name, clause, answer in chain(self._blind(), self._levels(), *lines, *wider):
            label = f"desc-{name}".replace("_", "-").lower()
            yield mutant(self.operator, label, clause, DESCS, refuse=answer)
        for old, (new, rules) in CODES.items():
            if rules not in self.implied:
                name, answer = f"desc-{old}-is-{new}".replace("_", "-"), _coded(old, new)
                yield mutant(self.operator, name, rules, DESCS, refuse=answer)
        for step, ways in (("from_buffer", READS), ("to_buffer", WRITES)):
            for name, way in ways.items():
                yield mutant(self.operator, f"desc-{name}", BUFFER, DESCS, **{step: way})

    def _blind(self) -> Iterator[Named]:
        """Leave out one rule, check it for inputs or outputs only, or check no line of a tensor."""
        prefix, names = f"{OPERATORS[self.operator].prefix}-", tables.tensors(self.operator)
        of_operator = [name for name in DESC_CLAUSES if name.startswith(prefix)]
        for rule in (LEVEL, *TENSOR_RULES, *of_operator):
            if rule not in self.implied:
                yield f"without-{rule.removeprefix(prefix)}", rule, _blind_to([rule])
        outputs = [row.tensor for row in tables.rows(self.operator, LEVELS[-1]) if row.is_output]
        unseen = {"inputs": outputs, "outputs": [name for name in names if name not in outputs]}
        for half in f"{HALVES} {self.halves}".split():
            if half not in self.implied:
                rule, side = half.split(":")
                blind = _blind_to([f"tensor-{rule}"], unseen[side])
                yield f"{rule}-of-{side}-only", f"tensor-{rule}", blind
        for name in names:
            if name not in self.implied:
                yield f"{dashed(name)}-unchecked", LINE, _blind_to(TENSOR_RULES, [name])
        blames: Refuse = lambda case, broken: [v._replace(field=names[0]) for v in broken]  # noqa: E731
        yield "blames-input", LINE, blames

    def _levels(self) -> Iterator[Named]:
        """Take a table to begin a level too early or too late, or to hold at every level."""
        first, *others = TABLES[self.operator]
        same = f"{OPERATORS[self.operator].prefix}-same-dimension-count"
        later = LINE if same in self.implied else f"{LINE} {same}"
        for start in (first, *others):
            clause = LEVEL if start == first else later
            if start != LEVELS[0]:
                before = LEVELS[LEVELS.index(start) - 1]
                yield f"{start}-too-early", clause, _with_level(before, start)
                yield f"{start}-too-late", clause, _with_level(start, before)
        for name, level in {"newest": LEVELS[-1], "first": first}.items() if others else ():
            yield f"{name}-table-only", LINE, _with_level(None, level)

    def _wider(self, level: str) -> Iterator[Named]:
        """Allow anything in a column, for tensors that other rules make agree."""
        for column, rule, word in (("DataType", TYPE, "type"), ("DimensionCount", RANK, "rank")):
            groups = self.same.get(f"{column} {level}", self.same.get(column, ()))
            known = {name for names in groups for name in names}
            alone = [(name,) for name in tables.tensors(self.operator) if name not in known]
            for names in (*groups, *alone):
                blind = _blind_to([rule], names, level)
                yield f"{level}-{dashed(names[0])}-any-{word}", rule, blind


def _blind_to(
    rules: Collection[str], fields: Collection[str] = (), level: str | None = None
) -> Refuse:
    """Miss violations of these rules, in some fields only, where one level's table is in force."""

    def is_unseen(violation: Violation) -> bool:
        return violation.rule in rules and (not fields or violation.field in fields)

    return lambda case, broken: (
        [v for v in broken if not is_unseen(v)] if level is None or _holds(level, case) else broken
    )


def _coded(old: str, new: str) -> Refuse:
    return lambda case, broken: [v._replace(code=new) if v.code == old else v for v in broken]


def _with_level(at: str | None, taken: str) -> Refuse:
    """Take one feature level, or every level that has the operator, for another."""
    return lambda case, broken: (
        violations(case.operator, case.desc or {}, taken)
        if (case.feature_level == at if at else _has_operator(case))
        else broken
    )


def _has_operator(case: Case) -> bool:
    first = tables.introduced(case.operator)
    return LEVELS.index(case.feature_level or "") >= LEVELS.index(first)


def _holds(level: str, case: Case) -> bool:
    """Return whether the table of a level is in force."""
    held = case.feature_level or ""
    return _has_operator(case) and tables.table_level(case.operator, held) == level


def _narrower(level: str, row: Row) -> Iterator[Named]:
    """Misread one line: a data type or a dimension count is missing, or it is not optional."""
    label, name = f"{level}-{dashed(row.tensor)}", row.tensor
    for dtype in sorted(row.data_types):
        wrong = Violation(TYPE, "data_type", name)
        yield f"{label}-not-{dtype}", TYPE, _refusing(level, wrong, "DataType", dtype)
    for rank in sorted({row.lowest, row.highest}):
        wrong = Violation(RANK, "dimension_count", name)
        yield f"{label}-not-rank-{rank}", RANK, _refusing(level, wrong, "DimensionCount", rank)
    missing = Violation(REQUIRED, "missing_tensor", name)
    if row.is_optional:
        yield f"{label}-required", REQUIRED, _refusing(level, missing)
    else:
        yield f"{label}-optional", REQUIRED, _blind_to([REQUIRED], [name], level)


def _refusing(level: str, refusal: Violation, column: str = "", value: object = None) -> Refuse:
    """Refuse a value in a column of a line, or that its tensor is absent."""

    def answer(case: Case, broken: Sequence[Violation]) -> Sequence[Violation]:
        tensor = (case.desc or {})[refusal.field]
        is_hit = tensor is not None and tensor[column] == value if column else tensor is None
        return [refusal, *broken] if is_hit and _holds(level, case) else broken

    return answer


def _in_bytes(desc: Desc) -> list[int]:
    """Take strides to count bytes; those of single bytes to be packed."""
    size = ELEMENT_BITS[desc["DataType"]] // 8
    packed = layout.packed_strides(desc["Sizes"])
    return [step * size for step in layout.strides_of(desc)] if size > 1 else packed


def _ends_early(desc: Desc, array: Array) -> Array:
    """End the buffer after its last element, although it is longer."""
    length = layout.last_offset(desc["Sizes"], layout.strides_of(desc)) + 1
    return array if layout.is_packed(desc) else scattered(desc, array)[:length]


STRIDES: dict[str, Strides] = {
    "packed": lambda desc: layout.packed_strides(desc["Sizes"]),
    "with-strides-reversed": lambda desc: layout.strides_of(desc)[::-1],
    "with-last-stride-1": lambda desc: [*layout.strides_of(desc)[:-1], 1],
    "with-strides-in-bytes": _in_bytes,
    "with-column-major-strides": lambda desc: layout.packed_strides(desc["Sizes"][::-1])[::-1],
}
READS = {f"read-{name}": partial(gathered, strides=way) for name, way in STRIDES.items()}
WRITES: dict[str, Callable[[Desc, Array], Array]] = {
    **{f"written-{name}": partial(scattered, strides=way) for name, way in STRIDES.items()},
    "returns-sizes-not-buffer": lambda desc, array: array,
    "buffer-ends-early": _ends_early,
    "packed-output-is-flat": lambda desc, array: scattered(desc, array).reshape(-1),
}
