"""The adapter for dmlax: what is traced and declined; nothing is compiled here.

`tests/test_conformance.py` of the repository runs it with the vectors.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from dmlax_conformance.adapters.dmlax import WIDE, Dmlax
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.runner import run as runner

pytest.importorskip("dmlax")


def test_neither_64_bit_elements_nor_known_scales_are_traced(suite: list[Vector]) -> None:
    adapter, traced = Dmlax(), list[set[str]]()

    def jit(function: Any) -> Any:
        return lambda given: (traced.append(set(given)), function(given))[1]  # type: ignore[func-returns-value]

    adapter._jax = SimpleNamespace(config=adapter._jax.config, jit=jit)
    wide = [v for v in suite if WIDE & {tensor.dtype for tensor in v.inputs.values()}][::30]
    assert {result.verdict for result in runner.run(adapter, wide, ["eager"])} == {"exact"}
    assert {result.verdict for result in runner.run(adapter, wide, ["jit"])} == {"unsupported"}
    assert traced == []
    known = [v for v in suite if "values:known" in v.requires and v.operator.endswith("ze_linear")]
    assert {vector.is_valid for vector in known} == {True, False}
    list(runner.run(adapter, known, ["jit"]))
    assert len(traced) == len(known)
    assert all("InputTensor" in names for names in traced)
    assert not any(name.endswith("ScaleTensor") for names in traced for name in names)


def test_wrong_documented_shapes_are_not_hidden(
    suite: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Dmlax()
    right = adapter._library.nonzero_coordinates

    def flat(input: Any, /, *, size: int, coordinate_rank: int) -> Any:  # noqa: A002
        found = right(input, size=size, coordinate_rank=coordinate_rank)
        return found._replace(count=found.count.reshape(1))

    monkeypatch.setattr(adapter._library, "nonzero_coordinates", flat)
    vector = next(v for v in suite if v.id == "nonzero-page-2x4-width-3")
    assert runner.judge(adapter, vector, "eager").verdict == "fail"


def test_it_has_one_process_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = Dmlax()
    assert adapter.concurrent
    monkeypatch.setattr(adapter._jax, "devices", lambda: [SimpleNamespace(platform="gpu")])
    assert not Dmlax().concurrent
