"""The adapters for other libraries: they answer as the library does, and never decide for it."""

import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from dmlax_conformance import adapters
from dmlax_conformance.adapters import common, onnx_models
from dmlax_conformance.adapters.base import Adapter, Case, Unsupported
from dmlax_conformance.errors import NotStartable
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.suite import runner
from dmlax_conformance.suite.runner import Result

LIBRARIES = {
    "numpy": "numpy",
    "jnp": "jax",
    "onnxruntime": "onnxruntime",
    "onnx_reference": "onnx",
    "torch": "torch",
}
WHOLE = ("quantized_linear_convolution", "near-ties")
NAMES = [name for name in LIBRARIES if name != "torch"]
NAMES += [pytest.param("torch", marks=pytest.mark.torch)]  # type: ignore[list-item] # large
QUICK = ("numpy", "onnxruntime", "onnx_reference", "torch")  # jnp compiles for minutes
Judged = Callable[[str], list[Result]]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@cache
def started(name: str) -> Adapter:
    importlib.import_module(LIBRARIES[name])
    return adapters.start(name)


def sample(functional: list[Vector]) -> list[Vector]:
    """Return a few vectors: groups and windows, which are right, and scales that are refused."""
    flags = {"Groups": 2, "Windows": 2, "KnownValue": 3, "EffectiveRank": 3}
    return [v for f, n in flags.items() for v in [v for v in functional if f in v.flags][::3][:n]]


@pytest.fixture(scope="module")
def judged(suite: list[Vector]) -> Callable[[str], list[Result]]:
    """Return a function that runs an adapter, once; one that compiles gets a sample."""
    functional = [vector for vector in suite if vector.desc is None]

    @cache
    def results(name: str) -> list[Result]:
        adapter = started(name)
        chosen = functional[::12] if name in QUICK else sample(functional)
        return list(runner.run(adapter, chosen, adapter.variants))

    return results


@pytest.mark.parametrize("name", NAMES)
def test_nothing_crashes_and_most_values_are_right(name: str, judged: Judged) -> None:
    results = judged(name)
    crashes = [result for result in results if result.verdict == "error"]
    assert all("SIGFPE" in result.outcome.details[0] for result in crashes), crashes
    valid = Counter(result.verdict for result in results if result.vector.is_valid)
    # Without VNNI, ONNX Runtime saturates sums of two products at 16 bits in every convolution.
    assert valid["exact"] > 2 * (valid["fail"] + valid["permitted"])


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_without_a_code_is_never_a_pass(name: str, judged: Judged) -> None:
    results = [result for result in judged(name) if not result.vector.is_valid]
    verdicts = Counter(result.verdict for result in results)
    assert verdicts.keys() <= {"fail", "error", "unsupported"}
    assert min(verdicts["fail"], verdicts["unsupported"]) > 0


@pytest.mark.parametrize("name", NAMES)
def test_descs_are_not_given_to_a_library_without_them(name: str, suite: list[Vector]) -> None:
    descs = [vector for vector in suite if vector.desc is not None]
    adapter = started(name)
    results = runner.run(adapter, descs, adapter.variants[:1])
    assert {result.verdict for result in results} == {"unsupported"}


def test_the_suite_takes_numpy_less_than_30_seconds_of_a_processor(suite: list[Vector]) -> None:
    """A quarter of the vectors stands for all."""
    start = time.process_time()
    adapter = started("numpy")
    assert list(runner.run(adapter, suite[::4], adapter.variants))
    assert time.process_time() - start < 30 / 4


@pytest.mark.parametrize("operator", ["nonzero_coordinates", "convolution_integer"])
def test_numpy_is_exact_where_nothing_is_rounded(operator: str, judged: Judged) -> None:
    results = [r for r in judged("numpy") if r.vector.operator == operator]
    verdicts = {result.verdict for result in results if result.vector.is_valid}
    assert verdicts == {"exact"}


def test_numpy_computes_in_float64_and_jnp_in_float32(suite: list[Vector]) -> None:
    """The near ties were found for exactly these two formulas."""
    for flag, wrong in {
        "NearTieFloat32": {"jnp": True, "numpy": False},
        "NearTieFloat64": {"jnp": True, "numpy": True},
    }.items():
        chosen = [v for v in suite if flag in v.flags and (v.operator, v.topic) == WHOLE]
        for name, expected in wrong.items():
            results = runner.run(started(name), chosen[:1], ("eager",))
            assert {result.verdict == "fail" for result in results} == {expected}, (flag, name)


@pytest.mark.parametrize(("name", "library"), LIBRARIES.items())
def test_a_missing_library_does_not_start(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "numpy":
        return
    for module in [each for each in sys.modules if each.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(NotStartable, match=library):
        adapters.start(name)


def test_only_the_documented_exceptions_are_refusals() -> None:
    with pytest.raises(Unsupported, match="refused without a code: ValueError: no"):
        raised(ValueError("no"))
    with pytest.raises(KeyError):
        raised(KeyError("a mistake of the adapter"))


def raised(error: Exception) -> None:
    with common.refusals(ValueError):
        raise error


def coordinates_case(shape: tuple[int, ...], size: int, width: int) -> Case:
    outputs = {
        "OutputCountTensor": Request("uint32", (1,)),
        "OutputCoordinatesTensor": Request("uint32", (size, width)),
    }
    inputs = {"InputTensor": np.ones(shape, np.uint8)}
    return Case("one", "nonzero_coordinates", frozenset(), {}, inputs, outputs)


def test_leading_columns_are_left_out_only_where_they_hold_nothing() -> None:
    shape = (1, 2, 3)
    rows = np.argwhere(np.ones(shape))
    for width in (2, 3):
        answer = common.coordinates(coordinates_case(shape, 6, width), rows)
        np.testing.assert_array_equal(answer["OutputCoordinatesTensor"], rows[:, 3 - width :])
        assert answer["OutputCountTensor"].tolist() == [6]
    for width in (0, 1, 4):
        with pytest.raises(Unsupported):
            common.coordinates(coordinates_case(shape, 6, width), rows)


def product_case(
    operator: str, a: tuple[int, ...], b: tuple[int, ...], output: tuple[int, ...], **own: Any
) -> Case:
    """Return a product of ones with scales of 1, and parameters of these sizes beside them."""
    scales = {"matrix_multiply_integer": (), "matrix_multiply_integer_to_float": ("A", "B")}
    inputs = {"ATensor": np.ones(a, np.uint8), "BTensor": np.ones(b, np.uint8)}
    names = scales.get(operator, ("A", "B", "Output"))
    inputs |= {f"{name}ScaleTensor": np.ones((), np.float32) for name in names}
    inputs |= {name: np.full(sizes, 3, kind) for name, (sizes, kind) in own.items()}
    dtypes = {"matrix_multiply_integer": "int32", "matrix_multiply_integer_to_float": "float32"}
    asked = {"OutputTensor": Request(dtypes.get(operator, "uint8"), output)}
    return Case("one", operator, frozenset(), {}, inputs, asked)


@pytest.mark.parametrize("name", ["numpy", "jnp"])
@pytest.mark.parametrize("operator", ["quantized_linear", "to_float"])
@pytest.mark.parametrize(
    ("a", "b", "scales", "output"),
    [
        ((3,), (3, 2), (1, 2), (2,)),
        ((3,), (5, 3, 2), (5, 1, 2), (5, 2)),
        ((3,), (5, 3, 2), (2,), (5, 2)),
        ((5, 4, 3), (3,), (1, 1), (5, 4)),
    ],
)
def test_a_parameter_lacks_the_axis_that_the_output_lacks(
    name: str,
    operator: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    scales: tuple[int, ...],
    output: tuple[int, ...],
) -> None:
    full = {"quantized_linear": "quantized_linear_matrix_multiply"}
    case = product_case(
        full.get(operator, "matrix_multiply_integer_to_float"),
        *(a, b, output),
        AScaleTensor=((*a[:-1], 1), np.float32),
        BScaleTensor=(scales, np.float32),
    )
    found = started(name).run(case, "eager")["OutputTensor"]
    np.testing.assert_array_equal(found, np.full(output, 27))


@pytest.mark.parametrize(
    ("name", "wanted"), [("A", (2, 4, 1)), ("B", (2, 1, 5)), ("Output", (2, 4, 1))]
)
def test_parameters_of_a_batch_have_its_axes_in_onnx(name: str, wanted: tuple[int, ...]) -> None:
    """ONNX wants {D,M,1} and {D,1,N} there, and {M} or {N} of one matrix."""
    own = {f"{name}ScaleTensor": (wanted[1:], np.float32)}
    case = product_case("quantized_linear_matrix_multiply", (2, 4, 3), (2, 3, 5), (2, 4, 5), **own)
    key = {"A": "x", "B": "w", "Output": "y"}[name]
    assert onnx_models.call(case).inputs[f"{key}_scale"].shape == wanted
    case = product_case("quantized_linear_matrix_multiply", (4, 3), (3, 5), (4, 5), **own)
    assert onnx_models.call(case).inputs[f"{key}_zero_point"].shape == (max(wanted[1:]),)


@pytest.mark.parametrize(("sizes", "wanted"), [((), (5,)), ((1, 5), (5,)), ((5,), (5,))])
def test_a_bias_of_a_product_is_a_vector_in_onnx(
    sizes: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    operator = "matrix_multiply_integer_to_float"
    own = {"BiasTensor": (sizes, np.float32)}
    case = product_case(operator, (5, 3), (3, 5), (5, 5), **own)
    assert onnx_models.call(case).inputs["bias"].shape == wanted


def test_scales_of_rows_keep_their_axes_in_onnx_runtime() -> None:
    """It takes a vector for one of columns."""
    own = {"AScaleTensor": ((5, 1), np.float32), "BScaleTensor": ((1, 5), np.float32)}
    case = product_case("matrix_multiply_integer_to_float", (5, 3), (3, 5), (5, 5), **own)
    given = onnx_models.call(case).inputs
    assert (given["a_scale"].shape, given["b_scale"].shape) == ((5, 1), (5,))


def test_a_bias_of_rows_is_not_given_to_onnx_runtime() -> None:
    """It would take it for one of columns where there are as many."""
    own = {"BiasTensor": ((5, 1), np.float32)}
    with pytest.raises(Unsupported, match="columns"):
        onnx_models.call(
            product_case("matrix_multiply_integer_to_float", (5, 3), (3, 5), (5, 5), **own)
        )


def test_every_adapter_for_a_library_is_tested_here() -> None:
    """Those are the ones that translate what a library raises."""
    places = {name: path.split(":") for name, path in adapters.BUILT_IN.items()}
    kinds = {k: getattr(importlib.import_module(v[0]), v[1]) for k, v in places.items()}
    translating = {name for name, kind in kinds.items() if issubclass(kind, common.Library)}
    assert translating == LIBRARIES.keys()
