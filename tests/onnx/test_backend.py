"""`dmlax.onnx.backend`: ONNX's interface, by a few of ONNX's own backend tests and its errors."""

import unittest

import numpy as np
import onnx
import pytest
from onnx.backend.test import BackendTest

from dmlax.onnx import backend

NAMES = (
    "relu",
    "qlinearmatmul_2D_uint8_float32",
    "dynamicquantizelinear",
    "argmax_default_axis_example",
)
TESTS = f"^test_({'|'.join(NAMES)})_cpu$"


@pytest.mark.filterwarnings("ignore")  # ONNX makes all its cases, and some warn
def test_onnx_runs_its_tests_with_the_backend():
    suite = BackendTest(backend.DmlaxBackend, __name__).include(TESTS).test_suite
    result, passed = unittest.TestResult(), []
    result.addSuccess = passed.append
    suite.run(result)
    assert not [*result.failures, *result.errors]
    assert len(passed) == len(NAMES)


def test_an_output_has_the_files_dtype_and_its_rows():
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[3] x) => (int64[1, n] y) '
    text += "{y = NonZero(x)}"
    prepared = backend.prepare(onnx.parser.parse_model(text), nonzero_size=3)
    (rows,) = prepared.run([np.float32([5, 0, 7])])
    assert rows.dtype == np.int64
    assert rows.tolist() == [[0, 2]]
    with pytest.raises(TypeError, match="run has no option size; give it to prepare"):
        prepared.run([np.float32([5, 0, 7])], size=1)


def test_a_node_is_computed_alone():
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    x = np.int32([1, 2])
    (total,) = backend.run_node(node, [x, x], outputs_info=[(x.dtype, x.shape)])
    assert total.tolist() == [2, 4]
    with pytest.raises(ValueError, match="outputs_info is absent: give the dtype"):
        backend.run_node(node, [x, x])


@pytest.mark.parametrize("device", ["NPU", "CPU:99", "CPU:x", "cpu"])
def test_a_device_that_is_not_here_is_named(device):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> f (float[1] x) => (float[1] y) {y = Relu(x)}'
    )
    assert backend.supports_device("CPU")
    assert not backend.supports_device(device)
    assert not backend.is_compatible(model, device)
    with pytest.raises(ValueError, match=f"device is '{device}', and JAX has none"):
        backend.prepare(model, device)
