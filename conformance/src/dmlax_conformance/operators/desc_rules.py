"""The rules of an operator desc at a feature level.

Every rule that can be evaluated is, in the order of the pages' parts: the level, each tensor, the
operator. One mistake may so break several rules.
"""

from . import OPERATORS, tables
from ._shared.desc_rules import Desc, Violation, check_tensor
from .tables import LEVELS

__all__ = ["Violation", "violations"]


def violations(operator: str, desc: Desc, feature_level: str) -> list[Violation]:
    """Return every rule that the desc breaks at the level."""
    if LEVELS.index(feature_level) < LEVELS.index(tables.introduced(operator)):
        return [Violation("operator-feature-level", "feature_level", "FeatureLevel")]
    rows = tables.rows(operator, feature_level)
    found = [each for row in rows for each in check_tensor(desc[row.tensor], row)]
    return [*found, *OPERATORS[operator].check_desc(desc, feature_level)]
