"""Planted bugs of descs: a rule that is missing or half there, and a table that is misread."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...operators import tables as desc_tables
from ...operators.desc_clauses import DESC_CLAUSES
from ...operators.desc_rules import Violation, violations
from ...operators.tables import LEVELS, TABLES, Row
from ...operators.topics import PREFIXES
from ..adapter import Case
from .implementation import Implementation
from .record import HONEST, Mutant, mutant

Found = Sequence[Violation]
Inspect = Callable[[Case, Found], Found]
TENSOR_RULES = tuple(name for name in DESC_CLAUSES if name.startswith("tensor-"))
NOT_A_RULE = "tensor-buffer"  # says where elements lie, and refuses nothing


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    for operator in TABLES:
        yield from _missing_rules(operator)
        yield from _half_rules(operator)
        yield from _unchecked_tensors(operator)
        yield from _levels(operator)
        yield from _rows(operator)
        yield from _reasons(operator)


def inspecting(inspect: Inspect) -> Implementation:
    """Return an implementation that refuses descs for these reasons."""
    return replace(HONEST, inspect=inspect)


def without(test: Callable[[Case, Violation], bool]) -> Implementation:
    """Return an implementation that is blind to some violations."""
    return inspecting(lambda case, found: [each for each in found if not test(case, each)])


def _is_output(operator: str, tensor: str) -> bool:
    newest = desc_tables.rows(operator, LEVELS[-1])
    return any(row.tensor == tensor and row.is_output for row in newest)


# -- rules -------------------------------------------------------------------------------------


def _rules(operator: str) -> list[str]:
    own = [name for name in DESC_CLAUSES if name.startswith(PREFIXES[operator])]
    common = [name for name in TENSOR_RULES if name != NOT_A_RULE]
    rules = ["operator-feature-level", *common, *own]
    return [rule for rule in rules if rule not in IMPLIED and (operator, rule) not in IMPLIED]


IMPLIED: dict[object, str] = {
    ("element_wise_quantize_linear", "operator-feature-level"): "the first level has it",
    ("element_wise_dequantize_linear", "operator-feature-level"): "the first level has it",
    ("element_wise_quantize_linear", "tensor-element-limit"): "the output cannot be so large",
    ("element_wise_dequantize_linear", "tensor-element-limit"): "the output cannot be so large",
    ("nonzero_coordinates", "tensor-element-limit"): "the output cannot be so large",
    "quantize-same-dimension-count": "Sizes of other lengths differ",
    "dequantize-same-dimension-count": "Sizes of other lengths differ",
    "qconv-group-count": "the channels of the input are not a multiple of 0",
    "intconv-group-count": "the channels of the input are not a multiple of 0",
}


def _missing_rules(operator: str) -> Iterator[Mutant]:
    """Leave out one rule, unless the others always refuse what it refuses."""
    for rule in _rules(operator):
        made = without(lambda case, each, rule=rule: each.rule == rule)  # type: ignore[misc]
        label = rule.removeprefix(PREFIXES[operator])
        about = f"descs: the rule {rule} is not checked"
        yield mutant(operator, f"desc-without-{label}", rule, about, made)


NONZERO = ("nonzero_coordinates",)
CONVOLUTIONS = ("convolution_integer", "quantized_linear_convolution")
HALVES: dict[tuple[str, str], tuple[str, ...]] = {
    ("data-type", "inputs"): (*NONZERO, *CONVOLUTIONS, "element_wise_quantize_linear"),
    ("data-type", "outputs"): tuple(TABLES),
    ("dimension-count", "inputs"): NONZERO,
    ("dimension-count", "outputs"): (*NONZERO, *CONVOLUTIONS),
    ("sizes-count", "inputs"): NONZERO,
    ("sizes-count", "outputs"): (*NONZERO, *CONVOLUTIONS),
    ("strides-count", "inputs"): tuple(TABLES),
    ("strides-count", "outputs"): tuple(TABLES),
    ("sizes-positive", "outputs"): CONVOLUTIONS,
    ("element-limit", "outputs"): CONVOLUTIONS,
    **{
        (rule, side): tuple(TABLES)
        for rule in ("byte-size", "byte-size-limit", "alignment")
        for side in ("inputs", "outputs")
    },
}


def _half_rules(operator: str) -> Iterator[Mutant]:
    """Check a rule for inputs or outputs only, where the rules left do not make up for it."""
    for (rule, side), operators in HALVES.items():
        if operator in operators:
            made = without(_blind(operator, f"tensor-{rule}", side == "inputs"))
            name = f"desc-{rule}-of-{side}-only"
            about = f"descs: the rule tensor-{rule} is checked for {side} only"
            yield mutant(operator, name, f"tensor-{rule}", about, made)


def _blind(operator: str, rule: str, is_output: bool) -> Callable[[Case, Violation], bool]:
    return lambda case, each: each.rule == rule and _is_output(operator, each.field) == is_output


def _unchecked_tensors(operator: str) -> Iterator[Mutant]:
    for tensor in desc_tables.tensors(operator):
        made = without(_ignoring(tensor))
        label = _kebab(tensor)
        about = f"descs: {tensor} is not compared with its row of the table"
        clause = "tensor-data-type tensor-dimension-count tensor-required"
        yield mutant(operator, f"desc-{label}-unchecked", clause, about, made)


def _ignoring(tensor: str) -> Callable[[Case, Violation], bool]:
    return lambda case, each: each.field == tensor and each.rule in TENSOR_RULES


def _kebab(name: str) -> str:
    words = "".join(f"-{c.lower()}" if c.isupper() else c for c in name.removesuffix("Tensor"))
    return words.lstrip("-")


# -- feature levels ----------------------------------------------------------------------------


def _levels(operator: str) -> Iterator[Mutant]:
    starts = list(TABLES[operator])
    for place, start in enumerate(starts):
        index = LEVELS.index(start)
        label = start.replace("_", "-")
        clause = "tensor-data-type tensor-dimension-count tensor-required"
        clause += " nonzero-same-dimension-count" * (operator in NONZERO)
        clause = clause if place else "operator-feature-level"
        if index:
            about = f"descs: what {start} brings holds one level earlier"
            made = inspecting(_as_level(LEVELS[index - 1], start))
            yield mutant(operator, f"desc-{label}-too-early", clause, about, made)
            about = f"descs: what {start} brings holds one level later"
            made = inspecting(_as_level(start, LEVELS[index - 1]))
            yield mutant(operator, f"desc-{label}-too-late", clause, about, made)
    about = "descs: the newest table holds at every level that has the operator"
    made = inspecting(_newest)
    yield mutant(operator, "desc-newest-table-only", "tensor-dimension-count", about, made)
    about = "descs: the first table holds at every level"
    made = inspecting(_oldest)
    yield mutant(operator, "desc-first-table-only", "tensor-dimension-count", about, made)


def _as_level(at: str, taken: str) -> Inspect:
    """Take one feature level for another."""

    def inspect(case: Case, found: Found) -> Found:
        assert case.desc is not None
        if case.feature_level != at:
            return found
        return violations(case.operator, case.desc, taken)

    return inspect


def _newest(case: Case, found: Found) -> Found:
    assert case.desc is not None
    assert case.feature_level is not None
    if LEVELS.index(case.feature_level) < LEVELS.index(desc_tables.introduced(case.operator)):
        return found
    return violations(case.operator, case.desc, LEVELS[-1])


def _oldest(case: Case, found: Found) -> Found:
    assert case.desc is not None
    assert case.feature_level is not None
    first = desc_tables.introduced(case.operator)
    if LEVELS.index(case.feature_level) < LEVELS.index(first):
        return found
    return violations(case.operator, case.desc, first)


# -- lines of the tables -----------------------------------------------------------------------


ALIKE: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("nonzero_coordinates", "DataType"): (),
    ("nonzero_coordinates", "DimensionCount"): (),
    ("quantized_linear_convolution", "DataType"): (
        ("InputTensor", "InputZeroPointTensor"),
        ("FilterTensor", "FilterZeroPointTensor"),
        ("OutputTensor", "OutputZeroPointTensor"),
    ),
    ("quantized_linear_convolution", "DimensionCount"): (
        ("InputTensor", "FilterTensor", "BiasTensor", "OutputTensor"),
    ),
    ("convolution_integer", "DataType"): (
        ("InputTensor", "InputZeroPointTensor"),
        ("FilterTensor", "FilterZeroPointTensor"),
    ),
    ("convolution_integer", "DimensionCount"): (("InputTensor", "FilterTensor", "OutputTensor"),),
    ("element_wise_quantize_linear", "DataType"): (
        ("InputTensor", "ScaleTensor"),
        ("OutputTensor", "ZeroPointTensor"),
    ),
    ("element_wise_dequantize_linear", "DataType"): (
        ("InputTensor", "ZeroPointTensor"),
        ("ScaleTensor", "OutputTensor"),
    ),
    **{
        (operator, "DimensionCount"): (
            ("InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor"),
        )
        for operator in ("element_wise_quantize_linear", "element_wise_dequantize_linear")
    },
}
RULE_OF = {"DataType": "tensor-data-type", "DimensionCount": "tensor-dimension-count"}


def _rows(operator: str) -> Iterator[Mutant]:
    for level, rows in TABLES[operator].items():
        for row in rows:
            yield from _narrower(operator, level, row)
        for key, words in {"DataType": "type", "DimensionCount": "rank"}.items():
            for tensors in _classes(operator, level, key):
                yield _wider(operator, level, key, words, tensors)


def _classes(operator: str, level: str, key: str) -> list[tuple[str, ...]]:
    """Return tensors that other rules make agree: a bug in one line shows only in all of them."""
    alike = list(ALIKE[operator, key])
    if (operator, level, key) == ("nonzero_coordinates", "3_0", "DimensionCount"):
        return [desc_tables.tensors(operator)]
    named = {tensor for group in alike for tensor in group}
    return [*alike, *((name,) for name in desc_tables.tensors(operator) if name not in named)]


def _wider(operator: str, level: str, key: str, words: str, tensors: tuple[str, ...]) -> Mutant:
    def test(case: Case, each: Violation) -> bool:
        is_same = each.rule == RULE_OF[key] and each.field in tensors
        return is_same and _holds(operator, level, case)

    label = f"desc-{level.replace('_', '-')}-{_kebab(tensors[0])}"
    about = f"descs: the table of {level} is misread: {' and '.join(tensors)} of any {words}"
    return mutant(operator, f"{label}-any-{words}", RULE_OF[key], about, without(test))


def _narrower(operator: str, level: str, row: Row) -> Iterator[Mutant]:
    """Misread one line: a data type or a dimension count is missing, or it is not optional."""
    label = f"desc-{level.replace('_', '-')}-{_kebab(row.tensor)}"
    where = f"descs: the table of {level} is misread: {row.tensor}"
    for data_type in sorted(row.data_types):
        refusal = Violation("tensor-data-type", "data_type", row.tensor)
        made = inspecting(_refusing(operator, level, row, "DataType", data_type, refusal))
        name, about = f"{label}-not-{data_type.lower()}", f"{where} not {data_type}"
        yield mutant(operator, name, "tensor-data-type", about, made)
    for count in sorted({row.lowest, row.highest}):
        refusal = Violation("tensor-dimension-count", "dimension_count", row.tensor)
        made = inspecting(_refusing(operator, level, row, "DimensionCount", count, refusal))
        name, about = f"{label}-not-rank-{count}", f"{where} not {count} dimensions"
        yield mutant(operator, name, "tensor-dimension-count", about, made)
    if row.is_optional:
        made = inspecting(_requiring(operator, level, row.tensor))
        yield mutant(operator, f"{label}-required", "tensor-required", f"{where} required", made)
    else:
        made = without(_absent(operator, level, row))
        yield mutant(operator, f"{label}-optional", "tensor-required", f"{where} optional", made)


def _holds(operator: str, level: str, case: Case) -> bool:
    """Say whether the table of a level is in force."""
    assert case.feature_level is not None
    if LEVELS.index(case.feature_level) < LEVELS.index(desc_tables.introduced(operator)):
        return False
    return desc_tables.table_level(operator, case.feature_level) == level


def _absent(operator: str, level: str, row: Row) -> Callable[[Case, Violation], bool]:
    wanted = ("tensor-required", row.tensor)
    return lambda case, each: (each.rule, each.field) == wanted and _holds(operator, level, case)


def _refusing(
    operator: str, level: str, row: Row, key: str, value: object, refusal: Violation
) -> Inspect:
    """Refuse what a line allows."""

    def inspect(case: Case, found: Found) -> Found:
        assert case.desc is not None
        tensor = case.desc[row.tensor]
        if tensor is None or tensor[key] != value or not _holds(operator, level, case):
            return found
        return [refusal, *found]

    return inspect


def _requiring(operator: str, level: str, tensor: str) -> Inspect:
    refusal = Violation("tensor-required", "missing_tensor", tensor)

    def inspect(case: Case, found: Found) -> Found:
        assert case.desc is not None
        is_missing = case.desc[tensor] is None and _holds(operator, level, case)
        return [refusal, *found] if is_missing else found

    return inspect


# -- reasons -----------------------------------------------------------------------------------


CODES = {
    "byte_size": "sizes",
    "alignment": "byte_size",
    "flags": "option",
    "strides": "sizes",
    "missing_tensor": "data_type",
    "feature_level": "data_type",
    "data_type": "value",
    "dimension_count": "sizes",
}


def _reasons(operator: str) -> Iterator[Mutant]:
    """Refuse the right descs with another code, or blame the wrong field."""
    for old, new in CODES.items():
        if old == "feature_level" and (operator, "operator-feature-level") in IMPLIED:
            continue
        made = inspecting(_recoded(old, new))
        rules = " ".join(_by_code(operator, old))
        about = f"descs: the code {new} is given for {old}"
        yield mutant(operator, f"desc-{old}-is-{new}".replace("_", "-"), rules, about, made)
    made = inspecting(lambda case, found: [each._replace(field="InputTensor") for each in found])
    clause = "tensor-data-type tensor-dimension-count"
    yield mutant(operator, "desc-blames-input", clause, "descs: the input is always blamed", made)


def _recoded(old: str, new: str) -> Inspect:
    def inspect(case: Case, found: Found) -> Found:
        return [each._replace(code=new) if each.code == old else each for each in found]

    return inspect


def _by_code(operator: str, code: str) -> list[str]:
    """Return the tensor rules with a code."""
    return {
        "byte_size": ["tensor-byte-size", "tensor-byte-size-limit"],
        "alignment": ["tensor-alignment"],
        "flags": ["tensor-flags"],
        "strides": ["tensor-strides-count", "tensor-output-overlap"],
        "missing_tensor": ["tensor-required"],
        "feature_level": ["operator-feature-level"],
        "data_type": ["tensor-data-type"],
        "dimension_count": ["tensor-dimension-count", "tensor-sizes-count"],
    }[code]
