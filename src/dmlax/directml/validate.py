"""Checks a desc against the tables; nothing else does."""

from collections.abc import Iterator

from dmlax._descriptors import tensors
from dmlax._descriptors.descs import OperatorDesc
from dmlax._descriptors.enums import FeatureLevel
from dmlax._descriptors.records import python_name, refuse
from dmlax._descriptors.rules import Call, Rule
from dmlax._descriptors.support import Support, Table
from dmlax._descriptors.tensors import TensorRule
from dmlax._operators.registry import SUPPORT
from dmlax.errors import SpecError, Violation


def validate(desc: OperatorDesc, *, feature_level: FeatureLevel) -> tuple[Violation, ...]:
    """Finds every rule of DirectML that a desc breaks at a feature level.

    A rule that reads a broken tensor or field is not checked: its violation would repeat that
    mistake.

    Args:
      desc: one of the operator descs.
      feature_level: a `FeatureLevel`.

    Returns:
      Every violation, those of tensors in DirectML's order before the operator's; none if the
      desc is accepted.

    Raises:
      SpecError: `desc` is no operator desc or `feature_level` is none (code `option`).

    Example:
      >>> from dmlax import directml
      >>> x = directml.BufferTensorDesc(data_type=directml.DataType.FLOAT32, sizes=(1, 1, 2, 4))
      >>> one = directml.BufferTensorDesc(data_type=directml.DataType.UINT32, sizes=(1,))
      >>> rows = directml.BufferTensorDesc(data_type=directml.DataType.INT32, sizes=(9, 3))
      >>> desc = directml.NonzeroCoordinatesOperatorDesc(
      ...     input_tensor=x, output_count_tensor=one, output_coordinates_tensor=rows
      ... )
      >>> for violation in directml.validate(desc, feature_level=directml.FeatureLevel.LEVEL_4_0):
      ...     print(violation.rule, violation.code, violation.field)
      tensor-data-type data_type OutputCoordinatesTensor
    """
    support = _support(desc, feature_level)
    if feature_level < support.introduced:
        return (_too_early(desc, support, feature_level),)
    table = support.at(feature_level)
    all_violations = list(_of_tensors(desc, table, feature_level))
    broken = {violation.field for violation in all_violations}
    for rule in table.rules:
        violations = [
            _violation(desc, rule, *broken_field)
            for broken_field in rule.check(Call(desc, feature_level, frozenset(broken)))
        ]
        all_violations += violations
        broken |= {violation.field for violation in violations if rule.structural}
    return tuple(all_violations)


def expect_valid(desc: OperatorDesc, feature_level: FeatureLevel) -> None:
    """Raises `SpecError` for the first violation, which carries them all."""
    refuse(validate(desc, feature_level=feature_level))


def _support(desc: OperatorDesc, feature_level: FeatureLevel) -> Support:
    if type(desc) not in SUPPORT:
        text = f"is a {type(desc).__name__}, expected an operator desc of dmlax.directml"
        raise SpecError(f"dmlax.directml: desc {text}", "option", "desc")
    if not isinstance(feature_level, FeatureLevel):
        text = f"is {feature_level!r}, expected a FeatureLevel"
        raise SpecError(f"{desc.operator}: feature_level {text}", "option", "feature_level")
    return SUPPORT[type(desc)]


def _too_early(desc: OperatorDesc, support: Support, feature_level: FeatureLevel) -> Violation:
    text = f"is {feature_level}, expected at least {support.introduced}, which introduced it"
    return _violation(desc, tensors.INTRODUCED, "FeatureLevel", text)


def _of_tensors(desc: OperatorDesc, table: Table, level: FeatureLevel) -> Iterator[Violation]:
    for row in table.rows:
        tensor = getattr(desc, python_name(row.tensor))
        if tensor is not None:
            for rule, text in tensors.broken_rules(row, tensor, level):
                yield _violation(desc, rule, row.tensor, text)
        elif not row.is_optional:
            text = f"is missing; {level} requires it"
            yield _violation(desc, tensors.REQUIRED, row.tensor, text)


def _violation(desc: OperatorDesc, rule: Rule | TensorRule, field: str, text: str) -> Violation:
    return Violation(rule.name, rule.code, field, f"{desc.operator}: {field} {text}")
