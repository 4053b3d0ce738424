"""Fixtures that several tests share."""

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.adapters.base import Case, Unsupported
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.run import Result

SMALL = 2_000  # elements of an output
SHOWN = {  # tests of reports and pages look at these
    *("nonzero-large-257x257", "nonzero-length-1071", "nonzero-page-order"),
    *("nonzero-int8-extremes", "dequantize-int8-float32", "intconv-padding-end"),
    *("dequantize-elements-999", "nonzero-float16-zeros", "nonzero-int64-high-word"),
}


def is_small(vector: Vector) -> bool:
    """Say whether no output has many elements, which the oracle would take long for."""
    return all(prod(asked.sizes) < SMALL for asked in vector.outputs.values())


@pytest.fixture(scope="session", autouse=True)
def own_vectors_are_read_once() -> Iterator[None]:
    """Keep the files of the suite once read, which each of a hundred commands would read again."""
    read, kept, own = vectors.load, cache(vectors.load), vectors_dir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            vectors, "load", lambda path: (kept if path.is_relative_to(own) else read)(path)
        )
        yield


@pytest.fixture(scope="session")
def every() -> list[Vector]:
    """Return every vector."""
    return vectors.load_all()


@pytest.fixture(scope="session")
def suite(every: list[Vector]) -> list[Vector]:
    """Return every vector, but those that need gigabytes."""
    return [vector for vector in every if not vector.memory]


@pytest.fixture(scope="session")
def sample(suite: list[Vector]) -> list[Vector]:
    """Return a tenth of the small vectors, of every operator, calls and descs."""
    return [vector for vector in suite if is_small(vector)][::10]


@pytest.fixture(scope="session")
def huge(every: list[Vector]) -> list[Vector]:
    """Return the vectors that need gigabytes."""
    return [vector for vector in every if vector.memory]


class Broken(Oracle):
    """The oracle with mistakes: wrong rows when eager; when jitted crashes, refusals and more."""

    name = "broken"
    variants: tuple[str, ...] = ("eager", "jit")

    def run(self, case: Case, variant: str) -> dict[str, Any]:
        """Answer wrongly."""
        return getattr(self, f"_{variant}")(case, super().run(case, variant))

    def _eager(self, case: Case, outputs: dict[str, Any]) -> dict[str, Any]:
        if case.operator != "nonzero_coordinates":
            return outputs
        rows = outputs["OutputCoordinatesTensor"].copy()
        count = int(outputs["OutputCountTensor"].reshape(()))
        kept = rows.reshape(-1, rows.shape[-1])[:count]
        kept[:] = kept[::-1].copy()
        return outputs | {"OutputCoordinatesTensor": rows}

    def _jit(self, case: Case, outputs: dict[str, Any]) -> dict[str, Any]:
        given = case.inputs["InputTensor"].dtype.name
        if given == "int64":
            raise Unsupported("no 64-bit <integers>")
        if given == "float16":
            raise ValueError("crashed in </script> & \x00")
        if case.operator != "element_wise_dequantize_linear":
            return outputs
        value = outputs["OutputTensor"]
        with np.errstate(all="ignore"):
            return {"OutputTensor": np.nextafter(value, value.dtype.type(np.inf))}


@pytest.fixture(scope="session")
def broken() -> Broken:
    return Broken()


@pytest.fixture(scope="session")
def broken_results(suite: list[Vector], broken: Broken) -> list[Result]:
    """Return results of every verdict but `expected`: a twelfth of the calls, strided descs too."""
    usual = [v for v in suite if v.desc is None or (v.is_valid and "Strided" in v.flags)]
    some = [vector for vector in usual[::12] if is_small(vector)]
    chosen = [*some, *(v for v in usual if v.id in SHOWN and v not in some)]
    return list(runner.run(broken, chosen, broken.variants))
