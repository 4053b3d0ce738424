"""The golden vectors, through the suite's own runner, a file at a time.

Eager by default; `slow` adds the jitted run, which compiles every vector once more.
"""

import pytest

from dmlax._operators import OPERATORS
from dmlax_conformance.adapters.dmlax import Dmlax, Xla
from dmlax_conformance.format import vectors
from dmlax_conformance.suite import runner

FILES = {f"{path.parent.name}/{path.stem}": path for path in vectors.find()}
FILES.pop("nonzero_coordinates/huge")  # needs gigabytes: conformance/tests/suite/test_huge.py
HAVE_KERNELS = [row.name for row in OPERATORS if row.implementations("cpu")[0] != "xla"]


@pytest.mark.parametrize("variant", ["eager", pytest.param("jit", marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", FILES)
def test_every_golden_vector_is_met(file, variant):
    results = list(runner.run(Dmlax(), vectors.load(FILES[file]), [variant]))
    wrong = {
        result.vector.id: (result.verdict, result.outcome.details)
        for result in results
        if result.verdict not in ("exact", "unsupported")
    }
    assert wrong == {}
    declined = {result.vector.id for result in results if result.verdict == "unsupported"}
    assert declined <= {result.vector.id for result in results if wide(result.vector, variant)}
    assert len(results) > len(declined) or variant == "jit"


@pytest.mark.parametrize("file", [file for file in FILES if file.split("/")[0] in HAVE_KERNELS])
def test_xla_meets_them_too_where_auto_runs_a_kernel(file):
    calls = [vector for vector in vectors.load(FILES[file]) if vector.desc is None]
    results = list(runner.run(Xla(), calls, ["eager"]))
    assert {
        result.vector.id: result.verdict for result in results if result.verdict != "exact"
    } == {}


def wide(vector, variant):
    """True if JAX, without 64-bit types, cannot hold an input as it is."""
    if vector.operator == "nonzero_coordinates" and variant == "eager":
        return False
    return {tensor.dtype for tensor in vector.inputs.values()} & {"int64", "uint64", "float64"}


def test_the_suite_is_whole():
    suite = vectors.load_all()
    assert {vector.operator for vector in suite} == {row.name for row in OPERATORS}
    assert len(suite) >= 150
    assert sum(not vector.is_valid for vector in suite) >= 50
