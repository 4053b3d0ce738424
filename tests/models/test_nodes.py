"""ONNX's own test cases of the operators that `dmlax.onnx` has; the first of each in every run."""

import warnings

import jax
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import dmlax
import dmlax.onnx
from dmlax.onnx.operators import rows

ROWS = {(row.domain, row.op): row for row in rows()}
DECLINED = {  # a part of the reason, for the cases whose operator is known
    "no tensor": "is not a tensor",
    "a dtype of JAX's extensions": "data type",
    "float64": "float64 on a device needs x64",
    "strings": "dtype object",
    "training": "training_mode",
    "a second output": "is not computed",
    "blocks": "block_size is",
    "a quantized dtype": "expected one of int8, uint8",
    "a quantized output": "expected int8 or uint8",
    "a scale of float16": "expected float32",
    "linear and cubic": "expected 'nearest'",
    "antialias": "antialias, axes and keep_aspect_ratio_policy",
    "crops": "is not known",
    "batches": "batch_dims is 1",
    "the last index": "select_last_index",
    "an empty reduction": "zero-size array",
    "values as sizes": "depends on values of an input",
    "8 bits to int8": "DynamicQuantizeLinear",
}


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ONNX's own arithmetic on infinities
        for case in collect_testcases(None):
            nodes = [] if case.model is None else case.model.graph.node
            types = {
                ("" if node.domain == "ai.onnx" else node.domain, node.op_type) for node in nodes
            }
            if types and types <= set(ROWS) and len(case.data_sets) == 1:
                yield case


CASES = list(cases())
FIRST = {case.model.graph.node[0].op_type: case for case in reversed(CASES)}


def array_of(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def with_known_inputs(case):
    """The model with those inputs as constants of which shapes depend, and the other inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    values = [array_of(each) for each in case.data_sets[0][0]]
    inputs = dict(zip((value.name for value in model.graph.input), values, strict=True))
    known = {
        name
        for node in model.graph.node
        for index, name in enumerate(node.input)
        if name in inputs and (row := ROWS.get((node.domain, node.op_type))) and row.inputs
        if row.role(index) == "known"
    }
    for name in known:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(inputs.pop(name)), name))
    return model, inputs


def run(case):
    """The outputs, or the error of a case that is declined."""
    model, inputs = with_known_inputs(case)
    try:
        loaded = dmlax.onnx.load(model, nonzero_size=64)
        return loaded.apply(loaded.params, inputs), None
    except (dmlax.UnsupportedError, dmlax.SpecError, dmlax.onnx.ModelError) as error:
        return None, str(error)


def check(case):
    """True if the outputs are ONNX's, False if the case is declined for a reason of the list."""
    found, why = run(case)
    if found is None:
        assert any(text in why for text in DECLINED.values()), why
        return False
    for value, wanted in zip(case.model.graph.output, case.data_sets[0][1], strict=True):
        wanted, got = np.asarray(array_of(wanted)), np.asarray(found[value.name])
        got = got[:, : wanted.shape[1]] if "nonzero" in case.name else got
        assert got.shape == wanted.shape
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64), rtol=1e-3, atol=1e-5
        )
    return True


@pytest.mark.parametrize("op", FIRST)
def test_the_first_case_of_an_operator(op):
    check(FIRST[op])


@pytest.mark.slow
def test_every_case():
    computed = sum(map(check, CASES))
    jax.clear_caches()
    assert computed > 570
