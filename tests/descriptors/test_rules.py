"""The suite's coverage of the descriptors: every rule, and every row of every table."""

from functools import cache

import pytest

import support
from dmlax import SpecError, UnsupportedError, directml
from dmlax._descriptors import tensors
from dmlax._operators.registry import SUPPORT
from dmlax_conformance.oracle import descriptors as desc_tables
from support.cases.directml import DESCS, level

OF_TENSORS = [
    tensors.INTRODUCED.name,
    tensors.REQUIRED.name,
    "tensor-sizes-count",  # said by `from_dict`: a record has no DimensionCount of its own
    *(rule.name for rule in tensors.TENSOR_RULES),
]
OF_OPERATORS = sorted(
    {
        (operator, rule.name)
        for operator, cls in DESCS.items()
        for table in SUPPORT[cls].tables
        for rule in table.rules
    }
)
every_operator = pytest.mark.parametrize("operator", DESCS)
KINDS = {
    "Input": "input",
    "Optional input": "optional",
    "Output": "output",
    "Optional output": "optional output",
}


@cache
def suite():
    """The vectors that have a desc."""
    return tuple(vector for vector in support.suite() if vector.desc is not None)


@cache
def all_found():
    """The library's violations for each vector, by id."""
    return {vector.id: judged(vector) for vector in suite()}


def judged(vector):
    """The violations that `from_dict` or `create_operator` raise for a vector."""
    try:
        desc = DESCS[vector.operator].from_dict(vector.desc)
        directml.create_operator(desc, feature_level=level(vector.feature_level))
    except SpecError as error:
        return error.violations
    except UnsupportedError:  # valid
        return ()
    return ()


def found(vector):
    return all_found()[vector.id]


def invalid(rule, operator=None):
    """The invalid vectors that name a rule."""
    named = [vector for vector in suite() if rule in vector.clause and not vector.is_valid]
    return [vector for vector in named if operator in (None, vector.operator)]


def breaks(vector, rule):
    """True if a vector's first violation is of a rule, with the code and field that it expects."""
    wanted = (rule, vector.expect.code, vector.expect.field)
    return [tuple(each[:3]) for each in found(vector)[:1]] == [wanted]


@pytest.mark.parametrize("rule", OF_TENSORS)
def test_the_suite_breaks_every_rule_of_tensors(rule):
    assert any(breaks(vector, rule) for vector in invalid(rule))


@pytest.mark.parametrize(("operator", "rule"), OF_OPERATORS)
def test_the_suite_breaks_every_rule_of_an_operator(operator, rule):
    assert any(breaks(vector, rule) for vector in invalid(rule, operator))


# --- rows ---------------------------------------------------------------------------------


@every_operator
def test_the_suites_tables_begin_at_the_same_levels(operator):
    starts = [table.feature_level.name[6:] for table in SUPPORT[DESCS[operator]].tables]
    assert list(desc_tables.TABLES[operator]) == starts


def test_the_suites_levels_are_the_same():
    assert [f"LEVEL_{name}" for name in desc_tables.LEVELS] == list(
        directml.FeatureLevel.__members__
    )


def rows_of(operator):
    """The rows of an operator's tables, and a name for each."""
    for table in SUPPORT[DESCS[operator]].tables:
        for row in table.rows:
            yield f"{table.feature_level.name[6:]} {row.tensor}", table, row


@every_operator
def test_the_suites_own_rows_are_the_same(operator):
    for name, table, row in rows_of(operator):
        theirs = desc_tables.TABLES[operator][table.feature_level.name[6:]]
        (other,) = [each for each in theirs if each.tensor == row.tensor]
        assert [each.tensor for each in theirs] == [each.tensor for each in table.rows], name
        assert other.kind == KINDS[row.kind], name
        assert (other.lowest, other.highest) == row.dimension_counts, name
        assert other.data_types == {data_type.name for data_type in row.data_types}, name
        assert len(row.data_types) == len(set(row.data_types)), name


def at_table(operator, table, row):
    """The vectors whose level has this table, and which have the row's tensor."""
    support = SUPPORT[DESCS[operator]]
    for vector in suite():
        if vector.operator == operator and vector.desc[row.tensor] is not None:
            at = level(vector.feature_level)
            if at >= support.introduced and support.at(at) is table:
                yield vector, vector.desc[row.tensor]


@every_operator
def test_valid_vectors_have_a_rows_lowest_and_highest_dimension_count(operator):
    for name, table, row in rows_of(operator):
        taken = {
            tensor["DimensionCount"]
            for vector, tensor in at_table(operator, table, row)
            if vector.is_valid
        }
        assert set(row.dimension_counts) <= taken, name


def refused(operator, table, row, rule):
    """The row's tensor in the vectors that break a rule with it first."""
    return [
        tensor
        for vector, tensor in at_table(operator, table, row)
        if not vector.is_valid
        and vector.expect.field == row.tensor
        and rule in vector.clause
        and breaks(vector, rule)
    ]


@every_operator
def test_invalid_vectors_have_a_data_type_that_a_row_lists_not(operator):
    for name, table, row in rows_of(operator):
        wrong = refused(operator, table, row, "tensor-data-type")
        allowed = {data_type.name for data_type in row.data_types}
        assert {tensor["DataType"] for tensor in wrong} - allowed, name


@every_operator
def test_invalid_vectors_have_dimension_counts_just_outside_of_a_row(operator):
    for name, table, row in rows_of(operator):
        wrong = refused(operator, table, row, "tensor-dimension-count")
        low, high = row.dimension_counts
        outside = {low - 1, high + 1} - {0}
        assert outside <= {tensor["DimensionCount"] for tensor in wrong}, name
