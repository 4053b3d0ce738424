"""Planted bugs at one structure only, which follow from a bug of arithmetic and the structures.

A bug is tried once on each call. The same bug "only at" a structure differs where the bug differs
and the structure is.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from typing import cast

import numpy as np

from ...format.tensors import from_numpy
from ...format.vectors import ExpectedTensor
from ...operators import OPERATORS
from ...operators._shared.cross import Array
from ..adapter import Case
from ..compare import differences
from .record import VALUES, Bug, correct
from .steps import Call

ENOUGH = 2  # vectors that have to kill a bug at a structure
OF_PLACES = frozenset(  # steps that move values and change none
    {"pad", "sizes", "taps", "reads", "order", "table", "promote", "pair", "squeeze", "repeat"}
    | {"spread_bias", "window"}
)


def structures(bug: Bug) -> list[str]:
    """Return the structures at which a bug of arithmetic can be; of any other bug none."""
    cross = OPERATORS[bug.operator].cross
    if cross is None or bug.group != VALUES:
        return []
    steps = changed_steps(bug)
    if not steps or steps & OF_PLACES or any(fnmatchcase(bug.id, each) for each in cross.whole):
        return []
    return [at for at in cross.structures if cross.why_not(bug.id, at) is None]


def changed_steps(bug: Bug) -> set[str]:
    """Return the names of the steps that a bug replaces; none if it replaces a whole part."""
    pairs = zip(
        bug.implementation.parts.values(), correct(bug.operator).parts.values(), strict=True
    )
    return {
        each.name
        for own, right in pairs
        if is_dataclass(own)
        for each in fields(own)
        if getattr(own, each.name) != getattr(right, each.name)
    }


def differing(bug: Bug, case: Case, call: Call, expect: Mapping[str, ExpectedTensor]) -> Array:
    """Return on which elements a bug is wrong; nothing that is permitted counts."""
    own = getattr(OPERATORS[bug.operator].module("bugs"), "differing", None)
    if own is not None:
        return cast(Array, own(bug.implementation.parts, call))
    with np.errstate(all="ignore"):
        found = from_numpy(bug.implementation.compute(call, case)["OutputTensor"])
    wanted = expect["OutputTensor"]
    assert (found.dtype, found.sizes) == (wanted.dtype, wanted.sizes), bug.id
    wrong = np.zeros(len(wanted.words), bool)
    wrong[[index for index, is_fine in differences(wanted, found.words) if not is_fine]] = True
    return wrong
