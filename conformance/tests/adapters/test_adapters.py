"""The adapters for other libraries: they answer as the library does, and never decide for it."""

import importlib
import sys
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
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.run import Result

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
    # ONNX Runtime may end its process in a refused call of this operator.
    unsafe = "matrix_multiply_integer_to_float"
    functional = [v for v in suite if v.desc is None and (v.is_valid or v.operator != unsafe)]
    by_operator = ([v for v in functional if v.operator == name] for name in OPERATORS)
    # A prime: a file repeats its kinds of calls at even distances.
    quick = [vector for own in by_operator for vector in own[::29]]

    @cache
    def results(name: str) -> list[Result]:
        adapter = started(name)
        chosen = quick if name in QUICK else sample(functional)
        return list(runner.run(adapter, chosen, adapter.variants))

    return results


@pytest.mark.parametrize("name", NAMES)
def test_most_values_are_right_and_no_refusal_passes(name: str, judged: Judged) -> None:
    results = judged(name)
    crashes = [result for result in results if result.verdict == "error"]
    assert all("SIGFPE" in result.outcome.details[0] for result in crashes), crashes
    valid, refused = (
        Counter(result.verdict for result in results if result.vector.is_valid == is_valid)
        for is_valid in (True, False)
    )
    # Without VNNI, ONNX Runtime saturates sums of two products at 16 bits in every convolution.
    assert valid["exact"] > 2 * (valid["fail"] + valid["permitted"])
    assert refused.keys() <= {"fail", "error", "unsupported"}
    assert min(refused["fail"], refused["unsupported"]) > 0


@pytest.mark.parametrize("name", NAMES)
def test_it_declares_what_it_has(name: str, judged: Judged, suite: list[Vector]) -> None:
    """It takes no descs, and answers a call of each operator that it declares."""
    adapter = started(name)
    descs = [vector for vector in suite if vector.desc is not None]
    results = runner.run(adapter, descs[:50], adapter.variants[:1])
    assert {result.verdict for result in results} == {"unsupported"}
    answered = {r.vector.operator for r in judged(name) if r.verdict != "unsupported"}
    assert answered == {*adapter.operators} if name in QUICK else answered <= {*adapter.operators}  # type: ignore[attr-defined]


def test_numpy_computes_in_float64_and_jnp_in_float32(judged: Judged, suite: list[Vector]) -> None:
    """The near ties were found for exactly these formulas; nothing else is rounded."""
    for name, flag, verdict in (
        ("jnp", "NearTieFloat32", "fail"),
        ("numpy", "NearTieFloat32", "exact"),
        ("jnp", "NearTieFloat64", "fail"),
        ("numpy", "NearTieFloat64", "fail"),
    ):
        vector = next(v for v in suite if flag in v.flags and (v.operator, v.topic) == WHOLE)
        assert runner.judge(started(name), vector, "eager").verdict == verdict, (name, flag)
    whole = ("nonzero_coordinates", "convolution_integer")
    valid = [r for r in judged("numpy") if r.vector.operator in whole and r.vector.is_valid]
    assert {(r.vector.operator, r.verdict) for r in valid} == {(each, "exact") for each in whole}


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != "numpy"])
def test_a_missing_library_does_not_start(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = LIBRARIES[name]
    for module in [each for each in sys.modules if each.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(NotStartable, match=library):
        adapters.start(name)


def test_only_the_documented_exceptions_are_refusals() -> None:
    refused = pytest.raises(Unsupported, match="refused without a code: ValueError: no")
    for caught, error in ((refused, ValueError("no")), (pytest.raises(KeyError), KeyError())):
        with caught, common.refusals(ValueError):
            raise error


def test_leading_columns_are_left_out_only_where_they_hold_nothing() -> None:
    x, count = np.ones((1, 2, 3), np.uint8), Request("uint32", (1,))
    for width in range(5):
        asked = {
            "OutputCountTensor": count,
            "OutputCoordinatesTensor": Request("uint32", (6, width)),
        }
        case = Case("one", "nonzero_coordinates", frozenset(), {}, {"InputTensor": x}, asked)
        if width not in (2, 3):
            with pytest.raises(Unsupported):
                common.coordinates(case, np.argwhere(x))
            continue
        answer = common.coordinates(case, np.argwhere(x))
        np.testing.assert_array_equal(
            answer["OutputCoordinatesTensor"], np.argwhere(x)[:, 3 - width :]
        )
        assert answer["OutputCountTensor"].tolist() == [6]


Sizes = tuple[int, ...]
QUANTIZED, TO_FLOAT = "quantized_linear_matrix_multiply", "matrix_multiply_integer_to_float"


def product_case(operator: str, a: Sizes, b: Sizes, output: Sizes, **own: Sizes) -> Case:
    """Return a product of ones with scales of 1, and operands full of 3 beside them."""
    inputs: dict[str, Any] = {"ATensor": np.ones(a, np.uint8), "BTensor": np.ones(b, np.uint8)}
    scales = {QUANTIZED: ("A", "B", "Output"), TO_FLOAT: ("A", "B")}[operator]
    inputs |= {f"{name}ScaleTensor": np.ones((), np.float32) for name in scales}
    inputs |= {f"{name}Tensor": np.full(sizes, 3, np.float32) for name, sizes in own.items()}
    asked = Request("uint8" if operator == QUANTIZED else "float32", output)
    return Case("one", operator, frozenset(), {}, inputs, {"OutputTensor": asked})


@pytest.mark.parametrize("name", ["numpy", "jnp"])
@pytest.mark.parametrize("operator", [QUANTIZED, TO_FLOAT])
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
    name: str, operator: str, a: Sizes, b: Sizes, scales: Sizes, output: Sizes
) -> None:
    case = product_case(operator, a, b, output, AScale=(*a[:-1], 1), BScale=scales)
    found = started(name).run(case, "eager")["OutputTensor"]
    np.testing.assert_array_equal(found, np.full(output, 27))


BATCH, ONE = ((2, 4, 3), (2, 3, 5), (2, 4, 5)), ((4, 3), (3, 5), (4, 5))
SQUARE = (5, 3), (3, 5), (5, 5)
ONNX: list[tuple[str, tuple[Sizes, ...], dict[str, Sizes], str, Sizes]] = [
    (QUANTIZED, BATCH, {"AScale": (4, 1)}, "x_scale", (2, 4, 1)),
    (QUANTIZED, BATCH, {"BScale": (1, 5)}, "w_scale", (2, 1, 5)),
    (QUANTIZED, BATCH, {"OutputScale": (4, 1)}, "y_scale", (2, 4, 1)),
    (QUANTIZED, ONE, {"AScale": (4, 1)}, "x_zero_point", (4,)),
    (QUANTIZED, ONE, {"BScale": (1, 5)}, "w_zero_point", (5,)),
    (QUANTIZED, ONE, {"OutputScale": (4, 1)}, "y_zero_point", (4,)),
    (TO_FLOAT, SQUARE, {"Bias": ()}, "bias", (5,)),
    (TO_FLOAT, SQUARE, {"Bias": (1, 5)}, "bias", (5,)),
    (TO_FLOAT, SQUARE, {"Bias": (5,)}, "bias", (5,)),
    (TO_FLOAT, SQUARE, {"AScale": (5, 1)}, "a_scale", (5, 1)),
    (TO_FLOAT, SQUARE, {"BScale": (1, 5)}, "b_scale", (5,)),
]


@pytest.mark.parametrize(("operator", "sizes", "own", "key", "wanted"), ONNX)
def test_parameters_have_the_shapes_of_onnx(
    operator: str, sizes: tuple[Sizes, ...], own: dict[str, Sizes], key: str, wanted: Sizes
) -> None:
    """{D,M,1} and {D,1,N} of a batch, {M} or {N} of one matrix, and a bias of columns."""
    case = product_case(operator, sizes[0], sizes[1], sizes[2], **own)
    assert onnx_models.call(case).inputs[key].shape == wanted


def test_a_bias_of_rows_is_not_taken_for_one_of_columns() -> None:
    with pytest.raises(Unsupported, match="columns"):
        onnx_models.call(product_case(TO_FLOAT, (5, 3), (3, 5), (5, 5), Bias=(5, 1)))


def test_every_adapter_for_a_library_is_tested_here() -> None:
    """Those are the ones that translate what a library raises."""
    places = {name: path.split(":") for name, path in adapters.BUILT_IN.items()}
    kinds = {k: getattr(importlib.import_module(v[0]), v[1]) for k, v in places.items()}
    translating = {name for name, kind in kinds.items() if issubclass(kind, common.Library)}
    assert translating == LIBRARIES.keys()
