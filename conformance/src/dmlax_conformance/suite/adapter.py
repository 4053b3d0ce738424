"""The interface of an implementation under test."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..format.vectors import Request

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Case:
    """A vector without its expectation: all that an implementation may see.

    One with a `desc` is a call through descriptors, and has no attributes.
    """

    id: str
    operator: str
    requires: frozenset[str]
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Request]
    desc: Mapping[str, Any] | None = None
    feature_level: str | None = None


class Adapter(Protocol):
    """One implementation, in one or more variants (eager and compiled, for instance).

    One with an attribute `concurrent = True` is called from several threads at once. Cases that
    require a capability of `runner.CAPABILITIES` are given only to an adapter that lists it in an
    attribute `capabilities`. An attribute `desc_variants` names the variants that take descs, and
    `usual_variants` those that run unless others are asked for. A method `runs_on` returns facts
    about device, driver and versions, which a report keeps.
    """

    name: str
    variants: tuple[str, ...]

    def run(self, case: Case, variant: str) -> Mapping[str, Any]:
        """Return one array per requested output.

        Raise `SpecViolation` if the call breaks a rule and `Unsupported` to decline it; anything
        else that is raised counts as a crash.
        """
        ...
