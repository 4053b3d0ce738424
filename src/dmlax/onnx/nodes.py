"""Computes a model's nodes one by one, each from given tensors."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from dmlax.errors import UnsupportedError
from dmlax.onnx.evaluate import call
from dmlax.onnx.graph import Node
from dmlax.onnx.model import Model
from dmlax.onnx.operators.nonzero import Counted
from dmlax.onnx.operators.values import is_known, to_device
from dmlax.onnx.passes.layout import CHANNELS_LAST, TO_FIRST, TO_LAST


def run_nodes(model: Model, given: Mapping[str, np.ndarray]) -> Iterator[tuple[Node, str, Any]]:
    """Yields the outputs of the nodes that a call runs.

    Args:
      model: its passes have fused nodes.
      given: tensors by name; what a node reads and is not given is computed from these.
    """
    graph = model._graph
    found: dict[str, Any] = {"": None, **graph.constants, **model.params}
    found.update({name: given[name] for name in graph.inputs})
    found = {name: _on_device(x) if name in graph.inputs else x for name, x in found.items()}
    for node in graph.nodes:
        if any(name not in found for name in node.inputs):
            continue
        outputs = _call(model, node, [found[name] for name in node.inputs])
        for name, value in zip(node.outputs, outputs, strict=False):
            if not name:
                continue
            value = value.rows if isinstance(value, Counted) else value
            found[name] = value
            source, is_last, _ = name.partition(CHANNELS_LAST)
            value = value.transpose(TO_FIRST) if is_last else value
            yield node, source, value
            other = _on_device(given[source]) if source in given and not is_known(value) else None
            if other is not None and (other.shape, other.dtype) == (value.shape, value.dtype):
                found[name] = other.transpose(TO_LAST) if is_last else other


def _on_device(value: np.ndarray) -> Any:
    """The tensor on the device, None if JAX does not have its values."""
    try:
        return to_device(value)
    except UnsupportedError:
        return None


def _call(model: Model, node: Node, operands: list[Any]) -> tuple[Any, ...]:
    """Computes a node, jitted; values that are known before it runs stay known."""
    traced = {i: x for i, x in enumerate(operands) if x is not None and not is_known(x)}
    outputs: tuple[Any, ...] = ()

    def compute(traced: dict[int, Any]) -> list[Any]:
        nonlocal outputs
        values = [traced.get(i, x) for i, x in enumerate(operands)]
        outputs = call(node, values, model._options)
        return [None if is_known(x) else _tensor(x) for x in outputs]

    computed = jax.jit(compute)(traced)
    return tuple(y if x is None else x for x, y in zip(computed, outputs, strict=True))


def _tensor(value: Any) -> Any:
    return value.rows if isinstance(value, Counted) else value
