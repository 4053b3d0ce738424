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

    One with a `desc` is a call through descriptors, and has no attributes. The inputs that an
    implementation sees are arrays; on the way to a child process a sparse one stays a tensor.
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

    These attributes are optional:

    - `operators`: the names of the operators that it has. Without them, it has every operator of
      which it answers anything. `dtypes` and `ranks` limit them further, as a list or as a
      dictionary of lists by the name of an operator or of a variant.
    - `capabilities`: those of `runner.run.CAPABILITIES` that it has. It gets no case that requires
      another one.
    - `usual_variants`: those that run unless others are asked for.
    - `desc_variants`: those that take descs; by default all.
    - `concurrent`: True if two processes may run it at a time.
    - `versions`: a dictionary of the versions of its libraries.
    - `runs_on()`: returns facts about device, driver and versions, which a report keeps.
    - `close()`: lets go of what it holds.
    """

    name: str
    variants: tuple[str, ...]

    def run(self, case: Case, variant: str) -> Mapping[str, Any]:
        """Return one array per requested output.

        Raise `SpecViolation` if the call breaks a rule and `Unsupported` to decline it; anything
        else that is raised counts as a crash.
        """
        ...
