"""The adapter for dmlax, against a stand-in that answers through the oracle."""
# ruff: noqa: A002  # parameters have the names that the library gives them

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from dmlax_conformance.adapters.dmlax import Dmlax
from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.format.tensors import from_numpy, to_numpy
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.operators._shared.convolution import Windows
from dmlax_conformance.operators.answer import answer
from dmlax_conformance.operators.answer_desc import answer_desc
from dmlax_conformance.operators.desc_rules import violations
from dmlax_conformance.operators.tables import LEVELS, TABLES, introduced, tensors
from dmlax_conformance.suite import runner

WINDOWS = ("Strides", "Dilations", "StartPadding", "EndPadding", "GroupCount")
PARAMETERS = [
    f"{tensor}{parameter}"
    for tensor in ("Input", "Filter", "Output")
    for parameter in ("Scale", "ZeroPoint")
]


class SpecError(ValueError):
    """The refusal of the stand-in."""

    def __init__(self, code: str, field: str) -> None:
        """Keep what the contract promises."""
        super().__init__(f"{field}: {code}")
        self.code, self.field = code, field


class UnsupportedError(NotImplementedError):
    """The other exception of the contract."""


def ask(operator: str, attributes: dict[str, Any], inputs: dict[str, Any], outputs: Any) -> Any:
    given = {k: from_numpy(np.asarray(v)) for k, v in inputs.items() if v is not None}
    try:
        results = answer(operator, attributes, given, outputs)
    except SpecViolation as violation:
        raise SpecError(violation.code, violation.field) from None
    return [to_numpy(tensor) for tensor in results.values()]


class NonzeroCoordinates(NamedTuple):
    """The result of the stand-in, named as the contract names it."""

    count: Any  # type: ignore[assignment]  # hides a method of tuple
    coordinates: Any


def nonzero_coordinates(input: Any, /, *, size: int, coordinate_rank: int) -> NonzeroCoordinates:
    outputs = {
        "OutputCountTensor": Request("uint32", ()),
        "OutputCoordinatesTensor": Request("uint32", (size, coordinate_rank)),
    }
    return NonzeroCoordinates(*ask("nonzero_coordinates", {}, {"InputTensor": input}, outputs))


def convolution(operator: str, x: Any, w: Any, bias: Any, dtype: str, options: Any) -> Any:
    assert options.pop("dimension_numbers", None) == (
        ("NCW", "OIW", "NCW") if x.ndim == 3 else None
    )
    attributes = {field: options.pop(snake(field)) for field in WINDOWS}
    inputs = {"InputTensor": x, "FilterTensor": w, "BiasTensor": bias}
    inputs |= {f"{name}Tensor": options.pop(snake(name), None) for name in PARAMETERS}
    assert not options
    outputs = {"OutputTensor": Request(dtype, ())}
    (result,) = ask(operator, attributes, inputs, outputs)
    assert Windows.of(attributes).groups
    return result


def quantized_linear_convolution(
    input: Any,
    filter: Any,
    bias: Any = None,
    /,
    *,
    output_dtype: str,
    dimension_numbers: Any = None,
    **options: Any,
) -> Any:
    options["dimension_numbers"] = dimension_numbers
    name = "quantized_linear_convolution"
    return convolution(name, input, filter, bias, output_dtype, options)


def convolution_integer(
    input: Any, filter: Any, /, *, dimension_numbers: Any = None, **options: Any
) -> Any:
    options["dimension_numbers"] = dimension_numbers
    return convolution("convolution_integer", input, filter, None, "int32", options)


def element_wise(operator: str, dtype: str, *operands: Any) -> Any:
    names = ("InputTensor", "ScaleTensor", "ZeroPointTensor")
    inputs = dict(zip(names, operands, strict=True))
    (result,) = ask(operator, {}, inputs, {"OutputTensor": Request(dtype, operands[0].shape)})
    return result


def element_wise_quantize_linear(
    input: Any, scale: Any, zero_point: Any = None, /, *, output_dtype: str
) -> Any:
    return element_wise("element_wise_quantize_linear", output_dtype, input, scale, zero_point)


def element_wise_dequantize_linear(input: Any, scale: Any, zero_point: Any = None, /) -> Any:
    return element_wise("element_wise_dequantize_linear", "float32", input, scale, zero_point)


CREATED: list[tuple[str, str]] = []


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def create_operator(
    made: tuple[str, Mapping[str, Any]], *, feature_level: str
) -> Callable[..., dict[str, Any]]:
    operator, desc = made
    CREATED.append((operator, feature_level))
    names = {snake(name): name for name in tensors(operator)}

    def call(**given: Any) -> dict[str, Any]:
        inputs = {names[name]: from_numpy(np.asarray(array)) for name, array in given.items()}
        results = answer_desc(operator, desc, feature_level, inputs)
        return {snake(name): to_numpy(tensor) for name, tensor in results.items()}

    found = violations(operator, desc, feature_level)
    if found:
        raise SpecError(found[0].code, found[0].field)
    return call


def desc_class(operator: str) -> Any:
    return SimpleNamespace(from_dict=partial(lambda name, desc: (name, desc), operator))


SPEC = SimpleNamespace(
    FeatureLevel={f"LEVEL_{level}": level for level in LEVELS},
    create_operator=create_operator,
    **{
        "".join(word.capitalize() for word in name.split("_")) + "OperatorDesc": desc_class(name)
        for name in TABLES
    },
)
TRACED: list[set[str]] = []


def jit(function: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    def call(given: dict[str, Any]) -> Any:
        TRACED.append(set(given))
        return function(given)

    return call


LIBRARY = SimpleNamespace(
    SpecError=SpecError,
    UnsupportedError=UnsupportedError,
    nonzero_coordinates=nonzero_coordinates,
    quantized_linear_convolution=quantized_linear_convolution,
    convolution_integer=convolution_integer,
    element_wise_quantize_linear=element_wise_quantize_linear,
    element_wise_dequantize_linear=element_wise_dequantize_linear,
)


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dmlax]:
    jax = SimpleNamespace(config=SimpleNamespace(jax_enable_x64=False), jit=jit)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "dmlax", LIBRARY)
    monkeypatch.setitem(sys.modules, "dmlax.directml", SPEC)
    yield Dmlax()
    TRACED.clear()
    CREATED.clear()


WIDE = {"int64", "uint64", "float64"}


@pytest.fixture(scope="module")
def own(suite: list[Vector]) -> list[Vector]:
    """Return the vectors of the stand-in's operators."""
    return [vector for vector in suite if hasattr(LIBRARY, vector.operator)]


@pytest.fixture(scope="module")
def own_quarter(quarter: list[Vector]) -> list[Vector]:
    """Return a quarter of them."""
    return [vector for vector in quarter if hasattr(LIBRARY, vector.operator)]


def is_wide(vector: Vector) -> bool:
    return bool({tensor.dtype for tensor in vector.inputs.values()} & WIDE)


def test_eager_answers_every_vector(adapter: Dmlax, own_quarter: list[Vector]) -> None:
    assert any(is_wide(vector) for vector in own_quarter)
    for result in runner.run(adapter, own_quarter, ["eager"]):
        assert result.verdict == "exact", (result.vector.id, result.outcome)


def test_jit_declines_64_bit_elements_only(adapter: Dmlax, own_quarter: list[Vector]) -> None:
    for result in runner.run(adapter, own_quarter, ["jit"]):
        want = "unsupported" if is_wide(result.vector) else "exact"
        assert result.verdict == want, (result.vector.id, result.outcome)


def test_known_scales_are_not_traced(adapter: Dmlax, own: list[Vector]) -> None:
    known = [vector for vector in own if "values:known" in vector.requires]
    assert {vector.is_valid for vector in known} == {True, False}
    list(runner.run(adapter, known, ["jit"]))
    assert len(TRACED) == len(known)
    assert all(not name.endswith("ScaleTensor") for names in TRACED for name in names)
    assert all("InputTensor" in names for names in TRACED)


def test_wrong_documented_shapes_are_not_hidden(
    adapter: Dmlax, suite: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    def flat(input: Any, /, *, size: int, coordinate_rank: int) -> NonzeroCoordinates:
        found = nonzero_coordinates(input, size=size, coordinate_rank=coordinate_rank)
        return found._replace(count=found.count.reshape(1))

    monkeypatch.setattr(LIBRARY, "nonzero_coordinates", flat)
    vector = next(v for v in suite if v.id == "nonzero-page-2x4-width-3")
    assert runner.judge(adapter, vector, "eager").verdict == "fail"


def test_valid_calls_run_through_descriptors(adapter: Dmlax, own_quarter: list[Vector]) -> None:
    verdicts: dict[str, set[str]] = {}
    for result in runner.run(adapter, own_quarter, ["descriptor"]):
        vector = result.vector
        assert vector.desc is None
        kind = "valid" if vector.is_valid else "invalid"
        verdicts.setdefault(kind, set()).add(result.verdict)
        beyond = any(need.startswith(("dtype:", "sizes:")) for need in vector.requires)
        if kind == "valid" and not beyond:
            assert result.verdict == "exact", (vector.id, result.outcome)
    assert verdicts == {
        "invalid": {"unsupported"},
        "valid": {"exact", "unsupported"},
    }


def test_the_lowest_level_that_accepts_a_call_is_taken(adapter: Dmlax, own: list[Vector]) -> None:
    small = {vector.id for vector in own if sum(len(x.words) for x in vector.inputs.values()) < 200}
    calls = [vector for vector in own if vector.desc is None and vector.id in small]
    assert len(list(runner.run(adapter, calls, ["descriptor"]))) == len(calls)
    names = [operator for operator in TABLES if hasattr(LIBRARY, operator)]
    first = {operator: introduced(operator) for operator in names}
    assert set(first.items()) - set(CREATED) <= {(name, "1_0") for name in names}
    assert ("nonzero_coordinates", "4_0") in CREATED
    assert ("quantized_linear_convolution", "5_2") in CREATED
    assert ("element_wise_quantize_linear", "6_2") in CREATED
