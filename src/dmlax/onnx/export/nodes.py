"""Nodes of ONNX in a program that JAX traces, and the attributes of windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import labels
from dmlax.onnx.export.writer import Unwritable

Inputs = Sequence[Array | None]  # None stands for an absent input
_BROADCASTING = (  # operators that broadcast their tensors from the last axis on
    *("Add", "Mul", "MatMul", "MatMulInteger", "QuantizeLinear", "DequantizeLinear"),
    *("QLinearAdd", "QLinearMul", "QLinearMatMul"),
)


@dataclass(frozen=True, eq=False)
class Node:
    """The operator and the attributes of a node, which a label in the program holds."""

    op: str
    attributes: dict[str, Any]


def nodes(
    op: str, inputs: Inputs, avals: Sequence[tuple[DTypeLike, Sequence[int]]], **attributes: Any
) -> list[Array]:
    """Puts a node with these outputs into the program."""
    outputs = [jnp.zeros(shape, dtype) for dtype, shape in avals]
    return labels.label(outputs, Node(op, attributes), inputs)


def node(
    op: str, inputs: Inputs, dtype: DTypeLike, shape: Sequence[int], **attributes: Any
) -> Array:
    """Puts a node of one output into the program."""
    return nodes(op, inputs, [(dtype, shape)], **attributes)[0]


def mappable_node(
    op: str, inputs: Inputs, dtype: DTypeLike, shape: Sequence[int], **attributes: Any
) -> Array:
    """Puts a node of one output, which `jax.vmap` can map, into the program.

    A mapped axis becomes a part of the first axis of images and rows; tensors of operators that
    broadcast get one axis more.
    """
    call = jax.custom_batching.custom_vmap(
        lambda *inputs: node(op, inputs, dtype, shape, **attributes)
    )

    @call.def_vmap
    def mapped(size: int, flags: Sequence[bool], *inputs: Array) -> tuple[Array, bool]:
        if op not in _BROADCASTING:
            if any(flags[1:]):
                raise Unwritable("has a bias and a stack of matrices")
            merged = lax.collapse(inputs[0], 0, 2), *inputs[1:]
            sizes = size * shape[0], *shape[1:]
            output = mappable_node(op, merged, dtype, sizes, **attributes)
            return output.reshape(size, *shape), True
        more = {"axis": attributes["axis"] + 1} if "axis" in attributes else {}
        aligned = [
            jnp.expand_dims(x, range(1, 2 + len(shape) - x.ndim)) if flag else x
            for x, flag in zip(inputs, flags, strict=True)
        ]
        return mappable_node(op, aligned, dtype, (size, *shape), **attributes | more), True

    output: Array = call(*inputs)
    return output


def window_attributes(
    strides: Sequence[int], dilations: Sequence[int], padding: Sequence[Any], **others: Any
) -> dict[str, Any]:
    """The attributes of a node with windows."""
    if any(min(pair) < 0 for pair in padding):
        raise Unwritable("has negative padding")
    pads = [pair[end] for end in (0, 1) for pair in padding]
    return {"strides": list(strides), "dilations": list(dilations), "pads": pads, **others}


def without_dilations(dilations: Sequence[int], **others: Any) -> dict[str, Any]:
    """The attributes of a node that cannot dilate its windows."""
    if any(factor != 1 for factor in dilations):
        raise Unwritable("dilates the windows of a mean or a sum")
    return others
