"""Computes a model's nodes one by one from known tensors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from dmlax.errors import UnsupportedError
from dmlax.onnx.evaluate import Runner, call
from dmlax.onnx.graph import Node
from dmlax.onnx.model import Model
from dmlax.onnx.operators import wide
from dmlax.onnx.operators.nonzero import Counted
from dmlax.onnx.operators.table import Tensor
from dmlax.onnx.operators.values import is_known, to_device
from dmlax.onnx.passes.layout import CHANNELS_LAST, TO_FIRST, TO_LAST


def run_nodes(
    model: Model, tensors: Mapping[str, np.ndarray]
) -> Iterator[tuple[Node, str, Tensor]]:
    """Yields the outputs of the nodes that a call runs.

    Args:
      model: its passes have fused nodes.
      tensors: tensors by name; operands that are not among them are computed from them.
    """
    graph = model._graph
    values: dict[str, Any] = {"": None, **graph.constants, **model.params}
    values |= {name: _on_device(tensors[name]) for name in graph.inputs}
    ranges = wide.of_inputs({name: x.dtype for name, x in graph.inputs.items()}, values)
    for node in graph.nodes:
        if any(name not in values for name in node.inputs):
            continue
        outputs = _call(model, node, [values[name] for name in node.inputs], ranges)
        for name, value in zip(node.outputs, outputs, strict=False):
            if not name:
                continue
            values[name] = value
            source, is_last, _ = name.partition(CHANNELS_LAST)
            value = value.transpose(TO_FIRST) if is_last else value
            yield node, source, value
            is_replaced = source in tensors and not is_known(value)
            other = _on_device(tensors[source]) if is_replaced else None
            if other is not None and (other.shape, other.dtype) == (value.shape, value.dtype):
                values[name] = other.transpose(TO_LAST) if is_last else other


def _on_device(value: np.ndarray) -> Array | None:
    """The tensor on the device, None if JAX does not have its values."""
    try:
        array: Array = to_device(value)
    except UnsupportedError:
        return None
    return array


def _call(
    model: Model, node: Node, operands: Sequence[Any], ranges: wide.Ranges
) -> tuple[Tensor, ...]:
    """Computes a node, jitted; values that are known before it runs stay known."""
    traced = {i: x for i, x in enumerate(operands) if x is not None and not is_known(x)}
    outputs: list[Tensor] = []

    def compute(traced: dict[int, Any]) -> list[Tensor | None]:
        values = [traced.get(i, x) for i, x in enumerate(operands)]
        results = call(node, values, Runner(model._options), ranges)
        outputs[:] = [x.rows if isinstance(x, Counted) else x for x in results]
        return [None if is_known(x) else x for x in outputs]

    computed = jax.jit(compute)(traced)
    return tuple(y if x is None else x for x, y in zip(computed, outputs, strict=True))
