"""Likely inputs of a model: random floats, and integers in the ranges that its nodes need."""

from collections.abc import Iterator, Mapping

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

    def draw(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        if "mask" in name.lower():
            return np.ones(shape, dtype)
        if dtype.kind == "f":
            return generator.standard_normal(shape).astype(dtype)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(bool)
        if "token_type" in name:
            return np.zeros(shape, dtype)
        limit = min(_row_counts(graph, name), default=None)
        if "position" in name and shape:
            rows = np.arange(shape[-1]) % (limit or shape[-1])
            return np.broadcast_to(rows, shape).astype(dtype)
        if "length" in name.lower() or "lens" in name.lower():
            return np.full(shape, length, dtype)
        if limit is None:
            limit = 2 if dtype.itemsize > 1 else 100
        return generator.integers(0, limit, shape).astype(dtype)

    return {name: draw(name, np.dtype(x.dtype), shapes[name]) for name, x in structs.items()}


def _row_counts(graph: Graph, index: str) -> Iterator[int]:
    """The sizes of the axes that a tensor indexes."""
    names = [index]
    for name in names:
        for node in graph.consumers.get(name, ()):
            if node.op in _COPIES:
                names.append(node.outputs[0])
            if node.op == "Gather" and node.inputs[1] == name:
                table = node.inputs[0]
                while table in graph.producers and graph.producers[table].op in _COPIES:
                    table = graph.producers[table].inputs[0]
                shape = graph.constants[table].shape if table in graph.constants else ()
                axis = node.attributes.get("axis", 0)
                yield from shape[axis:][:1] if -len(shape) <= axis < len(shape) else ()
