"""Every planted bug, and every variant that is permitted."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from . import (
    bugs_dequantize,
    bugs_descs,
    bugs_layout,
    bugs_nonzero,
    bugs_quantize,
    bugs_refusals_convolutions,
    bugs_refusals_element_wise,
    bugs_refusals_nonzero,
    bugs_requantize,
    bugs_rounding,
    bugs_sums,
    permitted,
)
from .record import DESCS, REFUSALS, VALUES, Mutant

MODULES = {
    bugs_nonzero: VALUES,
    bugs_sums: VALUES,
    bugs_requantize: VALUES,
    bugs_rounding: VALUES,
    bugs_quantize: VALUES,
    bugs_dequantize: VALUES,
    bugs_refusals_nonzero: REFUSALS,
    bugs_refusals_convolutions: REFUSALS,
    bugs_refusals_element_wise: REFUSALS,
    bugs_descs: DESCS,
    bugs_layout: DESCS,
}
GROUPS = tuple(dict.fromkeys(MODULES.values()))


@cache
def catalogue() -> Mapping[str, Mutant]:
    """Return all mutants by id, the planted bugs first."""
    found = [*_planted(), *permitted.variants()]
    by_id = {each.id: each for each in found}
    assert len(by_id) == len(found), "two mutants share an id"
    return by_id


def _planted() -> Iterator[Mutant]:
    for module, group in MODULES.items():
        yield from (replace(each, group=group) for each in module.mutants())
