"""Mistakes that real implementations make must fail, in the vectors that are about them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlax_conformance.adapters.base import Case
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.format.tensors import from_numpy, to_numpy
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators._shared.convolution import Windows
from dmlax_conformance.operators.quantized_linear_convolution.meaning import (
    quantized_linear_convolution,
)
from dmlax_conformance.suite import runner

Array = npt.NDArray[Any]
Bug = Callable[[Case], Mapping[str, Array]]
ORACLE = Oracle()


def honest(case: Case, **inputs: Array) -> dict[str, Array]:
    changed = {name: inputs.get(name, array) for name, array in case.inputs.items()}
    return ORACLE.run(replace(case, inputs=changed), "eager")


def flush_subnormals(case: Case) -> Mapping[str, Array]:
    x = case.inputs["InputTensor"]
    if x.dtype == np.float32:
        x = np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)
    return honest(case, InputTensor=x)


def narrow_integers(case: Case) -> Mapping[str, Array]:
    x = case.inputs["InputTensor"]
    narrow = {"int64": np.int32, "uint64": np.uint32}.get(x.dtype.name, x.dtype)
    return honest(case, InputTensor=x.astype(narrow))


def sort_by_last_column(case: Case) -> Mapping[str, Array]:
    outputs = honest(case)
    rows = outputs["OutputCoordinatesTensor"].copy()
    kept = rows.reshape(-1, rows.shape[-1])[: int(outputs["OutputCountTensor"].reshape(()))]
    kept[:] = kept[np.lexsort(kept.T)]
    return outputs | {"OutputCoordinatesTensor": rows}


def float32_rescale(case: Case) -> Mapping[str, Array]:
    honest(case)
    inputs = {name: from_numpy(array) for name, array in case.inputs.items()}
    dtype, windows = case.outputs["OutputTensor"].dtype, Windows.of(case.attributes)
    return {
        "OutputTensor": to_numpy(quantized_linear_convolution(inputs, windows, dtype, "float32"))
    }


def first_filter_scale_for_all(case: Case) -> Mapping[str, Array]:
    scale = case.inputs["FilterScaleTensor"]
    return honest(case, FilterScaleTensor=np.full_like(scale, scale.flat[0]))


def forget_bias(case: Case) -> Mapping[str, Array]:
    bias = case.inputs.get("BiasTensor")
    return honest(case) if bias is None else honest(case, BiasTensor=np.zeros_like(bias))


def ignore_end_padding(case: Case) -> Mapping[str, Array]:
    swapped = {**case.attributes, "EndPadding": case.attributes["StartPadding"]}
    honest(case)
    return honest(replace(case, attributes=swapped))


def add_zero_point_first(case: Case) -> Mapping[str, Array]:
    """Round after the zero point is added: ties go the other way when it is odd."""
    outputs = honest(case)
    given: Mapping[str, Array] = case.inputs
    x, scale = given["InputTensor"], given["ScaleTensor"]
    zero = given.get("ZeroPointTensor", np.zeros((), np.int8))
    dtype = outputs["OutputTensor"].dtype
    with np.errstate(all="ignore"):
        value = np.rint(x.astype(np.float64) / scale + zero)
    info = np.iinfo(dtype)
    clipped = np.clip(np.nan_to_num(value, nan=info.min), info.min, info.max)
    return {"OutputTensor": clipped.astype(dtype)}


def wrapped_difference(case: Case) -> Mapping[str, Array]:
    outputs = honest(case)
    given: Mapping[str, Array] = case.inputs
    x, scale = given["InputTensor"], given["ScaleTensor"]
    zero = given.get("ZeroPointTensor", np.zeros((), x.dtype))
    with np.errstate(all="ignore"):
        value = (x - zero).astype(x.dtype) * scale
    return {"OutputTensor": value.astype(outputs["OutputTensor"].dtype)}


BUGS: dict[str, tuple[str, Bug, str]] = {
    "flush": ("nonzero_coordinates", flush_subnormals, "nonzero-float32-subnormal"),
    "narrow": ("nonzero_coordinates", narrow_integers, "nonzero-int64-high-word"),
    "order": ("nonzero_coordinates", sort_by_last_column, "nonzero-page-order"),
    "float32": ("quantized_linear_convolution", float32_rescale, "qconv-near-ties-float32-1"),
    "float64": ("quantized_linear_convolution", float32_rescale, "qconv-near-ties-float64-2"),
    "bit": ("quantized_linear_convolution", float32_rescale, "qconv-lost-bit-decides"),
    "scale": ("quantized_linear_convolution", first_filter_scale_for_all, "qconv-bias-each"),
    "bias": ("quantized_linear_convolution", forget_bias, "qconv-optional-bias"),
    "padding": ("convolution_integer", ignore_end_padding, "intconv-padding-end"),
    "rounding": ("element_wise_quantize_linear", add_zero_point_first, "quantize-ties-int32"),
    "wrap": ("element_wise_dequantize_linear", wrapped_difference, "dequantize-int8-float32"),
}


class Buggy(Oracle):
    """The oracle with one mistake."""

    def __init__(self, bug: Bug) -> None:
        """Keep the mistake."""
        self._bug = bug

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Answer wrongly."""
        return dict(self._bug(case))


@pytest.mark.parametrize("name", BUGS)
def test_is_killed_where_it_should_be_and_not_everywhere(name: str, suite: list[Vector]) -> None:
    operator, bug, victim = BUGS[name]
    chosen = [v for v in suite if v.operator == operator and v.desc is None]
    results = {r.vector.id: r.verdict for r in runner.run(Buggy(bug), chosen, ["eager"])}
    assert results[victim] == "fail"
    assert "exact" in results.values()
