"""The golden vectors, through the suite's own runner, a file at a time.

The oldest Python runs them eagerly, of the matrix products and of the convolution with an addend
a sample. The newest runs a quarter jitted: how it compiles is a matter of the laws. `slow` adds the
rest.
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
MY_EIGHTH = 0 if IS_OLDEST else 1  # of the vectors, by xla; `slow` adds the others
VARIANTS = {"eager": IS_OLDEST, "jit": not IS_OLDEST}  # whether it runs by default
HAVE_KERNELS = [row.name for row in OPERATORS if row.implementations("cpu")[0] != "xla"]
BY_XLA = [file for file in FILES if file.split("/")[0] in HAVE_KERNELS]


def own_step(file):
    """Every how many vectors run by default: each shape compiles its own program."""
    steps = {"matrix_multiply": 32, "convolution_add": 8}
    step = next((steps[name] for name in steps if name in file), 1)
    if step > 1 and "/desc-" not in file and "/invalid" not in file:
        return step
    return 1 if IS_OLDEST else 4


def xla_step(file):
    """Every how many vectors run by xla by default."""
    dear = ("matrix_multiply", "pooling", "linear_add", "multiply", "convolution_add")
    is_dear = any(word in file for word in dear)
    return 64 if is_dear or "dynamic" in file else 8


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
        *(by_default((file, MY_EIGHTH, xla_step(file)), True) for file in BY_XLA),
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
