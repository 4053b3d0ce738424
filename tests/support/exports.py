"""Exports of JAX functions, beside ONNX Runtime and `dmlax.onnx.load`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.export.writer import Form

FORMS: tuple[Form, ...] = ("qdq", "qoperator")


def run(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Runs a model by ONNX Runtime, after the checks of `onnx`."""
    onnx.checker.check_model(model, full_check=True)
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, map(np.asarray, inputs), strict=True))
    return list(peer.start(model.SerializeToString(), threads=1).run(None, feeds))


def load(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Runs a model by dmlax."""
    return list(map(np.asarray, dmlax.onnx.load(model)(*inputs).values()))


def count_different(a: Sequence[Any], b: Sequence[Any], tolerance: float = 0) -> int:
    """Counts elements that differ, after a check of dtypes and shapes."""
    total = 0
    for place, (left, right) in enumerate(zip(map(np.asarray, a), map(np.asarray, b), strict=True)):
        assert (left.dtype, left.shape) == (right.dtype, right.shape), place
        same = np.isclose(left, right, tolerance, tolerance, equal_nan=True)
        total += int((~same if tolerance else left != right).sum())
    return total


def check(
    function: Callable[..., Any],
    *args: Any,
    forms: Sequence[Form] = FORMS,
    tolerance: float = 0,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    opset: int = 20,
) -> onnx.ModelProto:
    """Expects no difference of a function from its export, in ONNX Runtime and loaded again."""
    inputs = jax.tree.leaves(args)
    expected = jax.tree.leaves(jax.jit(function)(*args))
    for form in forms:
        model = dmlax.onnx.from_jax(function, *args, form=form, dynamic=dynamic, opset=opset)
        outputs, loaded = run(model, inputs), load(model, inputs)
        assert count_different(expected, outputs, tolerance) == 0, (form, "ONNX Runtime")
        assert count_different(expected, loaded, tolerance) == 0, (form, "dmlax.onnx.load")
    return model
