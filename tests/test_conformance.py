"""The golden vectors, through the suite's own runner, a file at a time.

The oldest Python runs them eagerly, and of the operators whose every shape compiles long a sample.
The newest runs a sixteenth jitted: how it compiles is a matter of the laws. `slow` adds the rest,
and `nox -s conformance` runs them all.
"""

import sys

import pytest

from directml_cases import DESCS
from dmlax._operators import OPERATORS, SUPPORT
from dmlax_conformance.adapters.dmlax import Dmlax, Xla
from dmlax_conformance.format import vectors
from dmlax_conformance.suite import runner

FILES = {f"{path.parent.name}/{path.stem}": path for path in vectors.find()}
FILES.pop("nonzero_coordinates/huge")  # needs gigabytes: conformance/tests/suite/test_huge.py
IS_OLDEST = sys.version_info < (3, 12)
MY_FIRST = 0 if IS_OLDEST else 1  # of the vectors, by xla; `slow` runs them all
VARIANTS = {"eager": IS_OLDEST, "jit": not IS_OLDEST}  # whether it runs by default
HAVE_KERNELS = [row.name for row in OPERATORS if row.implementations("cpu")[0] != "xla"]
BY_XLA = [file for file in FILES if file.split("/")[0] in HAVE_KERNELS]


def own_step(file):
    """Every how many vectors run by default: each shape compiles its own program."""
    is_refused = "/desc-" in file or "/invalid" in file
    if not IS_OLDEST:
        return 4 if is_refused else 16
    steps = {"matrix_multiply": 32, "convolution_add": 8, "pooling": 4, "dynamic": 4}
    steps |= {"linear_add": 4, "linear_multiply": 4}
    return 1 if is_refused else next((steps[name] for name in steps if name in file), 1)


def xla_step(file):
    """Every how many vectors run by xla by default."""
    dear = ("multiply", "pooling", "_add", "dynamic")
    is_dear = any(word in file for word in dear)
    return 64 if is_dear or not IS_OLDEST else 16


def by_default(values, runs):
    return pytest.param(*values, marks=() if runs else pytest.mark.slow)


@pytest.mark.parametrize(
    ("file", "variant", "step"),
    [
        by_default((file, variant, step), runs and step == own_step(file))
        for file in FILES
        for variant, runs in VARIANTS.items()
        for step in {1, own_step(file)}
    ],
)
def test_every_golden_vector_is_met(file, variant, step):
    results = list(runner.run(Dmlax(), vectors.load(FILES[file])[::step], [variant]))
    wrong = {
        result.vector.id: (result.verdict, result.outcome.details)
        for result in results
        if result.verdict not in ("exact", "unsupported")
    }
    assert wrong == {}
    declined = [result.vector for result in results if result.verdict == "unsupported"]
    assert all(wide(vector, variant) or is_not_computed(vector) for vector in declined)
    assert len(results) > len(declined) or variant == "jit" or "desc-" in file


@pytest.mark.parametrize(
    ("file", "first", "step"),
    [
        *(by_default((file, MY_FIRST, xla_step(file)), True) for file in BY_XLA),
        *(by_default((file, first, 8), False) for file in BY_XLA for first in range(8)),
    ],
)
def test_xla_meets_them_too_where_auto_runs_a_kernel(file, first, step):
    calls = [vector for vector in vectors.load(FILES[file]) if vector.desc is None][first::step]
    results = list(runner.run(Xla(), calls, ["eager"]))
    assert {
        result.vector.id: result.verdict
        for result in results
        if result.verdict != ("unsupported" if wide(result.vector, "eager") else "exact")
    } == {}


def wide(vector, variant):
    """True if JAX, without 64-bit types, cannot hold an input as it is."""
    if variant == "eager":
        return False
    return {tensor.dtype for tensor in vector.inputs.values()} & {"int64", "uint64", "float64"}


def is_not_computed(vector):
    """True for a valid descriptor whose data types or tensors the function does not take."""
    if vector.desc is None:
        return False
    (support,) = [each for each in SUPPORT.values() if each.desc is DESCS[vector.operator]]
    return support.why_not(support.desc.from_dict(vector.desc)) is not None


def test_the_suite_is_whole():
    suite = vectors.load_all()
    assert {vector.operator for vector in suite} == {row.name for row in OPERATORS}
    assert len(suite) >= 150
    assert sum(not vector.is_valid for vector in suite) >= 50
