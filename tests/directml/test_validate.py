"""Violations beside the suite's oracle at every level; see `tests/test_messages.py` for words."""

from contextlib import suppress
from functools import cache

import pytest

from dmlax import SpecError, directml
from dmlax._descriptors import tensors
from dmlax._operators.registry import SUPPORT
from dmlax_conformance.oracle.descriptors import violations
from support import suite
from support.cases.directml import DESCS, LEVELS, level, made, nonzero


@cache
def suite_descs(operator):
    """The vectors that have a desc, and the records; some have no record."""
    descs = []
    for vector in suite():
        if vector.operator == operator and vector.desc is not None:
            with suppress(SpecError):
                descs.append((vector, made(operator, vector.desc)))
    assert len(descs) >= 50
    return descs


@pytest.mark.parametrize("operator", DESCS)
def test_violations_are_those_of_the_suites_oracle_at_every_level(operator):
    """In the oracle's order. The library leaves out what follows from another mistake."""
    for vector, desc in suite_descs(operator):
        for at in LEVELS:
            broken = [one[:3] for one in directml.validate(desc, feature_level=level(at))]
            expected = [tuple(one) for one in violations(operator, vector.desc, at)]
            assert broken == [one for one in expected if one in broken], (vector.id, at)
            assert bool(broken) == bool(expected), (vector.id, at)


@pytest.mark.parametrize("operator", DESCS)
def test_create_operator_raises_the_violations_of_validate(operator):
    """The first is the error's message, and the others are its notes."""
    for vector, desc in suite_descs(operator):
        at = level(vector.feature_level)
        if broken := directml.validate(desc, feature_level=at):
            with pytest.raises(SpecError) as caught:
                directml.create_operator(desc, feature_level=at)
            error, (first, *others) = caught.value, broken
            assert error.violations == broken
            assert (str(error), error.code, error.field) == (first.message, first.code, first.field)
            assert getattr(error, "__notes__", []) == [other.message for other in others]


def test_rules_have_a_sentence_and_those_of_operators_a_page():
    rules = [rule for row in SUPPORT.values() for table in row.tables for rule in table.rules]
    assert all(rule.page.startswith("https://learn.microsoft.com/") for rule in rules)
    rules += [tensors.INTRODUCED, tensors.REQUIRED, *tensors.TENSOR_RULES]
    assert all(rule.sentence.endswith(".") for rule in rules)


@pytest.mark.parametrize("entry", [directml.validate, directml.create_operator])
def test_the_feature_level_is_by_keyword_only(entry):
    with pytest.raises(TypeError, match="positional"):
        entry(made("nonzero_coordinates", nonzero()), directml.FeatureLevel.LEVEL_3_0)
