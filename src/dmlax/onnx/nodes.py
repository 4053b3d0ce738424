"""Computes a model's nodes one by one from known tensors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

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

Watch: TypeAlias = Callable[[Node, Sequence[Any], Callable[[], Any]], None]
"""Gets a node, the operands that its program takes, and the program, once it has run."""


def count_outputs(model: Model) -> int:
    """The number of outputs that `run_nodes` yields, or a little more."""
    return sum(len([*filter(None, node.outputs)]) for node in model._graph.nodes)


def run_nodes(
    model: Model, tensors: Mapping[str, np.ndarray], watch: Watch | None = None
) -> Iterator[tuple[Node, str, Tensor]]:
    """Yields the outputs of the nodes that a call runs.

    Args:
      model: its passes have fused nodes.
      tensors: tensors by name; operands that are not among them are computed from them.
      watch: sees every node whose outputs are not known before it runs.
    """
    if model._size_inputs:
        model, _ = model._take_sizes({name: tensors[name] for name in model._file.inputs})
    inputs: dict[str, Any] = {name: tensors[name] for name in model._graph.inputs}
    graph = model._graph_of(None, inputs)
    values: dict[str, Any] = {"": None, **graph.constants, **model.params}
    values |= {name: _on_device(x) for name, x in inputs.items()}
    ranges = wide.of_inputs({name: x.dtype for name, x in graph.inputs.items()}, values)
    for node in graph.nodes:
        if any(name not in values for name in node.inputs):
            continue
        outputs = _call(model, node, [values[name] for name in node.inputs], ranges, watch)
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
    model: Model,
    node: Node,
    operands: Sequence[Any],
    ranges: wide.Ranges,
    watch: Watch | None,
) -> tuple[Tensor, ...]:
    """Computes a node, jitted; values that are known before it runs stay known."""
    traced = {i: x for i, x in enumerate(operands) if x is not None and not is_known(x)}
    outputs: list[Tensor] = []

    def compute(traced: dict[int, Any]) -> list[Tensor | None]:
        values = [traced.get(i, x) for i, x in enumerate(operands)]
        results = call(node, values, Runner(model._options), ranges)
        outputs[:] = [x.rows if isinstance(x, Counted) else x for x in results]
        return [None if is_known(x) else x for x in outputs]

    program = jax.jit(compute)
    computed = program(traced)
    if watch is not None and jax.tree.leaves(computed):
        watch(node, [*traced.values()], partial(program, traced))
    return tuple(y if x is None else x for x, y in zip(computed, outputs, strict=True))
