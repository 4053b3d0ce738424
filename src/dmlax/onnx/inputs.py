"""Likely inputs of a model: random floats, and integers in the ranges that its nodes need."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from dmlax.onnx.graph import Graph

_SEED = 0
_COPIES = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "DequantizeLinear"}


def draw_inputs(graph: Graph, structs: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, np.ndarray]:
    """Draws inputs; a dynamic size is 1.

    Indices of a Gather lie in the tensor that it reads. By their names masks are ones, token types
    are zeros, positions count up, and lengths are the size of axis 1 of the first input.
    """
    generator = np.random.default_rng(_SEED)
    shapes = {
        name: tuple(size if isinstance(size, int) else 1 for size in x.shape)
        for name, x in structs.items()
    }
    length = next((shape[1] for shape in shapes.values() if len(shape) > 1), 1)
    return {
        name: _draw(generator, graph, name, np.dtype(x.dtype), shapes[name], length)
        for name, x in structs.items()
    }


def _draw(
    generator: np.random.Generator,
    graph: Graph,
    name: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    length: int,
) -> np.ndarray:
    if "mask" in name.lower():
        return np.ones(shape, dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    limit = min(_row_counts(graph, name), default=None)
    if "token_type" in name:
        return np.zeros(shape, dtype)
    if "position" in name and shape:
        return np.broadcast_to(np.arange(shape[-1]) % (limit or shape[-1]), shape).astype(dtype)
    if "length" in name.lower() or "lens" in name.lower():
        return np.full(shape, length, dtype)
    if limit is None:
        limit = 2 if dtype.itemsize > 1 else 100
    return generator.integers(0, limit, shape).astype(dtype)


def _row_counts(graph: Graph, name: str) -> Iterator[int]:
    """The sizes of the axes that a tensor indexes."""
    consumers, producers = graph.consumers(), graph.producers()
    names = [name]
    for each in names:
        for node in consumers.get(each, ()):
            if node.op in _COPIES:
                names.append(node.outputs[0])
            if node.op == "Gather" and node.inputs[1] == each:
                table = node.inputs[0]
                while table in producers and producers[table].op in _COPIES:
                    table = producers[table].inputs[0]
                shape: Any = graph.constants[table].shape if table in graph.constants else ()
                axis = node.attributes.get("axis", 0)
                if -len(shape) <= axis < len(shape):
                    yield shape[axis]
