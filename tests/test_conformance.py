"""The golden vectors, through the suite's own runner.

All of them run eagerly by the kernels, and by `xla` all that are valid and every tenth other one;
one test has all of an operator's, so that one process compiles each shape once. Most whose program
no other shares are jitted with known scales, which compiles in less than half the time. By "auto",
jitted and as descs a sample runs, on the oldest pair too. `slow` runs the rest, and so does
`nox -s conformance`.
"""

from collections import Counter
from contextlib import contextmanager
from functools import cache

import jax
import pytest

from dmlax._operators.registry import OPERATORS, SUPPORT
from dmlax_conformance.adapters.dmlax import Dmlax, NativeCpu, Xla
from dmlax_conformance.format import vectors
from dmlax_conformance.oracle.fixed_point import FIELD
from dmlax_conformance.runner import run as runner
from support import NATIVE, OLDEST, in_turn, suite
from support.cases.directml import DESCS

FILES = {f"{path.parents[1].name}/{path.stem}": path for path in vectors.find()}
HUGE = FILES.pop("nonzero_coordinates/huge")  # gigabytes: conformance/tests/suite/test_huge.py
NAMES = [row.name for row in OPERATORS]
WITH_KERNELS = [row.name for row in OPERATORS if "native_cpu" in row.implementations("cpu")]
EXACT = ("exact_function", "exact_sum")  # of `dmlax.reproducible`
ONE_IN = {  # one in so many valid calls
    "nonzero_coordinates": 8,
    "element_wise_quantize_linear": 8,
    "element_wise_dequantize_linear": 8,
    "quantized_lookup": 4,
}
OTHERS_ONE_IN, JITTED_ONE_IN = 12, 48
REFUSED_ONE_IN = 2
XLA_ONE_IN, XLA_REFUSED_ONE_IN = 400, 10
XLA_OPTIMIZED_ONE_IN = 8  # of operators whose program rounds no floats
OF_FLOATS = (
    "dynamic_quantize_linear",
    "element_wise_dequantize_linear",
    "element_wise_quantize_linear",
    "matrix_multiply_integer_to_float",
    "nonzero_coordinates",
)
DESCRIPTOR_ONE_IN = 37  # a prime: a file repeats its kinds of calls at even distances

by_file = pytest.mark.parametrize("file", FILES)


@cache
def of_operator(operator):
    """The operator's vectors, from all files in turn."""
    return [each for each in suite() if each.operator == operator and each.file != HUGE]


def shapes(vector):
    """Vectors of equal shapes follow each other, while JAX has their programs."""
    return sorted((name, each.dtype, *each.sizes) for name, each in vector.inputs.items())


def check(adapter, chosen, variant):
    """All are exact, or declined for a reason."""
    results = list(runner.run(adapter, sorted(chosen, key=shapes), [variant]))
    assert len(results) == len(chosen)
    assert {
        result.vector.id: (result.verdict, result.outcome.details)
        for result in results
        if result.verdict not in ("exact", "unsupported")
    } == {}
    declined = [result.vector for result in results if result.verdict == "unsupported"]
    has_modes = (
        adapter.implementation != "native_cpu"
    )  # sums of two tensors by multipliers are XLA's
    assert all(
        wide(vector, variant)
        or is_not_computed(vector)
        or (FIELD in vector.attributes and not has_modes)
        for vector in declined
    )
    return len(results) - len(declined)


@pytest.mark.parametrize("operator", NAMES)
def test_valid_calls_are_met(operator):
    valid = [vector for vector in of_operator(operator) if vector.is_valid]
    assert check(Dmlax(), valid[:: ONE_IN.get(operator, OTHERS_ONE_IN)], "eager")


@pytest.mark.parametrize("operator", EXACT)
def test_reproducible_functions_and_sums_are_the_oracles(operator):
    """All calls, or without kernels, which compile for long, those of a few shapes."""
    known = of_operator(operator)
    assert check(Dmlax(), [x for x in known if NATIVE or is_quick(x)], "eager")
    assert check(Dmlax(), known[::31], "jit")


def is_quick(vector):
    """True for a call that the test above needs, or that compiles in a moment."""
    few = sum(map(ord, vector.id)) % 10 == 0
    is_function = vector.operator == "exact_function"
    return not vector.is_valid or few or (is_function and "numbers" in vector.topic)


@pytest.mark.parametrize("operator", NAMES)
def test_invalid_calls_are_refused(operator):
    invalid = [vector for vector in of_operator(operator) if not vector.is_valid]
    assert check(Dmlax(), invalid[::REFUSED_ONE_IN], "eager")


@OLDEST
@pytest.mark.parametrize("operator", NAMES)
def test_a_sample_is_met_jitted(operator):
    assert check(Dmlax(), of_operator(operator)[::JITTED_ONE_IN], "jit")


@pytest.mark.skipif(not NATIVE, reason="the kernels are not built")
@pytest.mark.parametrize("operator", WITH_KERNELS)
def test_the_kernels_meet_every_vector(operator):
    assert check(NativeCpu(), of_operator(operator), "eager")


@pytest.mark.parametrize("operator", NAMES)
def test_xla_meets_every_valid_call_and_refuses_a_tenth_of_the_others(operator):
    calls = [vector for vector in of_operator(operator) if vector.desc is None]
    valid = [vector for vector in calls if vector.is_valid]
    invalid = [vector for vector in calls if not vector.is_valid]
    optimized = valid if operator in OF_FLOATS else valid[::XLA_OPTIMIZED_ONE_IN]
    assert check(Xla(), optimized + invalid[::XLA_REFUSED_ONE_IN], "eager")
    done = {vector.id for vector in optimized}
    rest = [vector for vector in valid if vector.id not in done]
    counts = Counter(map(program, rest))
    chosen = {"constant": [], "eager": []}
    for vector in rest:
        is_lone = counts[program(vector)] == 1 and not wide(vector, "jit")
        chosen["constant" if is_lone else "eager"].append(vector)
    with compiled_quickly():
        for variant, vectors_of in chosen.items():
            check(Xla(), vectors_of, variant)


def program(vector):
    """The shapes, dtypes and attributes that JAX compiles an eager call for."""
    return str((shapes(vector), sorted(vector.attributes.items())))


@contextmanager
def compiled_quickly():
    """LLVM's optimizations are off, which take a quarter of the time and move no integers."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


@OLDEST
@pytest.mark.parametrize("operator", NAMES)
def test_a_sample_is_met_by_xla(operator):
    calls = [vector for vector in of_operator(operator) if vector.desc is None]
    assert check(Xla(), calls[::XLA_ONE_IN], "eager")


@pytest.mark.parametrize("operator", in_turn(DESCS))
def test_valid_calls_are_met_as_descs(operator):
    calls = [each for each in of_operator(operator) if each.is_valid and each.desc is None]
    results = runner.run(Dmlax(), calls[::DESCRIPTOR_ONE_IN], ["descriptor"])
    assert {result.verdict for result in results} - {"unsupported"} == {"exact"}


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["eager", "jit"])
@by_file
def test_every_golden_vector_is_met(file, variant):
    check(Dmlax(), vectors.load(FILES[file]), variant)


@pytest.mark.slow
@by_file
def test_xla_meets_every_call(file):
    check(Xla(), [vector for vector in vectors.load(FILES[file]) if vector.desc is None], "eager")


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
    assert {vector.operator for vector in suite()} == {row.name for row in OPERATORS} | {*EXACT}
    assert len(suite()) >= 150
    assert sum(not vector.is_valid for vector in suite()) >= 50
