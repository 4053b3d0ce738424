"""WHILE; an IF is ONNX's operator."""

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import Graph
from dmlax.onnx.operators import table
from dmlax.onnx.operators.table import Subgraphs


@table.operator("WHILE", 1, domain="litert")
def while_(
    *states: Array, condition: Graph, body: Graph, captures: tuple[str, ...], runner: Subgraphs
) -> tuple[Array, ...]:
    """Repeats a subgraph while another one says so."""
    if len(condition.outputs) != 1 or len(body.outputs) != len(states):
        counts = len(condition.outputs), len(body.outputs)
        raise ModelError(f"its subgraphs have {counts} outputs, expected 1 and {len(states)}")

    def holds(states: Sequence[Array]) -> Array:
        return lax.convert_element_type(runner.run(condition, states)[0], bool).reshape(())

    def step(states: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(map(jnp.asarray, runner.run(body, states)))

    return lax.while_loop(holds, step, tuple(states))
