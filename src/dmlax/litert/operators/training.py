"""Float twins of nodes: the deployed integers forward, straight-through gradients backward."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import ieee
from dmlax.errors import UnsupportedError
from dmlax.litert.operators.table import TRAINED, Call, Info
from dmlax.litert.read import DOMAIN, WITH_BIAS
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import Graph, Node, TensorType
from dmlax.onnx.operators import find
from dmlax.training import rounding

_UNTRAINED = ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM")
_REAL = np.dtype(np.float32)


def trainable(graph: Graph) -> Graph:
    """Makes floats of quantized tensors, among them inputs, outputs and constant weights.

    Raises:
      UnsupportedError: a node of a quantized file has no float twin; all of them are listed.
    """
    if any(node.attributes.get(TRAINED) for node in graph.nodes):
        return graph
    nodes = [node for node in graph.nodes if _is_quantized(node)]
    others = [
        str(node)
        for node in graph.nodes
        if nodes
        and (node.graphs or node.domain != DOMAIN or (node in nodes and node.op in _UNTRAINED))
    ]
    if others:
        raise UnsupportedError(f"trainable: no float twin of {', '.join(others)}; use outputs=")
    products = [node for node in graph.nodes if node.domain == DOMAIN and node.op in WITH_BIAS]
    marked = {  # products of floats, too: their weights stay unpacked
        node: node.replace(attributes={**node.attributes, TRAINED: True})
        for node in (*nodes, *products)
    }
    floats = {name for node in nodes for name, info, _ in _described(node) if info.is_quantized}

    def retype(types: Mapping[str, TensorType]) -> dict[str, TensorType]:
        return {
            name: TensorType(_REAL, x.shape) if name in floats else x for name, x in types.items()
        }

    return graph.replace(
        nodes=tuple(marked.get(node, node) for node in graph.nodes),
        inputs=retype(graph.inputs),
        types=retype(graph.types),
        constants={**graph.constants, **_real_constants(graph, nodes)},
    )


def _is_quantized(node: Node) -> bool:
    return node.domain == DOMAIN and any(info.is_quantized for _, info, _ in _described(node))


def _described(node: Node) -> Iterator[tuple[str, Info, int]]:
    """The named tensors of a node, what the file says of them, and their places."""
    infos = Call.of(node.attributes, len(node.inputs), len(node.outputs)).infos
    names = (*node.inputs, *node.outputs)
    for place, (name, info) in enumerate(zip(names, infos, strict=False)):
        if name and info is not None:
            yield name, info, place


def _real_constants(graph: Graph, nodes: list[Node]) -> dict[str, np.ndarray]:
    """The floats of constant weights; one whose floats do not round to it stays as it is."""
    reals: dict[str, np.ndarray | None] = {}
    for node in nodes:
        call, row = Call.of(node.attributes, len(node.inputs), len(node.outputs)), find(node)
        for name, info, place in _described(node):
            array = graph.constants.get(name)
            is_tensor = row is not None and row.role(place) == "tensor"
            if array is None or not is_tensor or not _has_scale(node.op, call, info, place):
                continue
            real = _real_constant(node.op, call, place, array)
            is_same = reals.get(name, real) is real or np.array_equal(reals[name], real)  # type: ignore[arg-type]
            reals[name] = real if is_same else None
    return {name: array for name, array in reals.items() if array is not None}


def _real_constant(op: str, call: Call, place: int, array: np.ndarray) -> np.ndarray | None:
    if array.dtype not in (np.int8, np.uint8, np.int16, np.int32) or array.size == 0:
        return None
    if _is_bias(op, call, place) and array.ndim == 2:  # words of 64 bits
        return None
    scale, zero = _parameters(op, call, place, array.ndim)
    with np.errstate(all="ignore"):
        level = array.astype(np.float64) - zero
        real = (level * scale).astype(np.float32)
        is_exact = np.array_equal(np.rint(real / scale), level)
    return real if is_exact else None


def _is_bias(op: str, call: Call, place: int) -> bool:
    return call.is_quantized and place == WITH_BIAS.get(op)


def _has_scale(op: str, call: Call, info: Info, place: int) -> bool:
    return info.is_quantized or _is_bias(op, call, place)


def _parameters(op: str, call: Call, place: int, rank: int) -> tuple[np.ndarray, int]:
    """The scales, in a shape that broadcasts, and the zero point; a bias has two scales."""
    if _is_bias(op, call, place):
        image = 2 if op == "TRANSPOSE_CONV" else 0
        scales = call.info(image).scale * call.info(1).scales
        return scales.reshape(-1 if scales.size > 1 else ()), 0
    info = call.info(place)
    if np.unique(info.zero_points).size > 1:
        raise UnsupportedError("trainable: a tensor has several zero points, expected one")
    if info.scales.size == 1:
        return info.scales.reshape(()), info.zero_point
    # The filter of a depthwise convolution was arranged as others are.
    axis = 0 if op == "DEPTHWISE_CONV_2D" else info.axis
    if not 0 <= axis < rank:
        raise ModelError(f"its scales are along axis {axis} of a tensor of rank {rank}")
    return info.scales.reshape([-1 if i == axis else 1 for i in range(rank)]), info.zero_point


def compute(
    op: str, function: Callable[..., Any], call: Call, operands: tuple[Any, ...]
) -> Array | tuple[Array, ...]:
    """Computes a node on floats.

    The values are those of the deployed integers. The derivatives are those of the operator on
    floats, 0 where an integer is clamped.
    """
    pairs = [_pair(op, call, place, x) for place, x in enumerate(operands)]
    integers, reals = zip(*pairs, strict=True)
    results = function(call, *integers)
    if op in ("QUANTIZE", "DEQUANTIZE"):
        twins = reals[0]
    else:
        infos = (
            x and replace(x, dtype=_REAL, scales=_NONE) if _scaled(x) else x for x in call.infos
        )
        twins = function(replace(call, infos=tuple(infos)), *reals)
    if not isinstance(results, tuple | list):
        return _output(call, 0, results, twins, reals)
    both = enumerate(zip(results, twins, strict=True))
    return tuple(_output(call, i, result, twin, reals) for i, (result, twin) in both)


_NONE = np.zeros(0, np.float32)


def _scaled(info: Info | None) -> bool:
    return info is not None and info.is_quantized


def _pair(op: str, call: Call, place: int, x: Any) -> tuple[Any, Any]:
    """The integers of an operand and the floats that they stand for."""
    info = call.infos[place] if place < len(call.infos) else None
    if x is None or info is None or not _has_scale(op, call, info, place):
        return x, x
    is_bias = _is_bias(op, call, place)
    if is_bias and x.ndim == 2:
        scale, _ = _parameters(op, call, place, 1)
        return x, (x[0] * jnp.float32(2.0**32) + x[1].astype(jnp.uint32)) * scale
    scale, zero = _parameters(op, call, place, x.ndim)
    if x.dtype.kind != "f":
        return x, ieee.multiply(*jnp.broadcast_arrays((x.astype(jnp.int32) - zero) * 1.0, scale))
    value = jnp.asarray(x)
    level = rounding.round_bias(*rounding.stopped((value, jnp.asarray(scale))))
    dtype = np.dtype(np.int32) if is_bias else info.dtype
    low, high = (limit - zero for limit in rounding.limits_of(dtype))
    level = jnp.clip(level, low, high)
    is_nan = jnp.isnan(value)
    real = rounding.dequantize((low, high), value, level, jnp.asarray(scale), None, is_nan)
    return (level + zero).astype(dtype), real


def _output(call: Call, place: int, result: Array, twin: Array, reals: Any) -> Array:
    """An output as floats, with the twin's derivative."""
    info = call.infos[call.operand_count + place]
    if info is None or not (info.is_quantized or jnp.issubdtype(result.dtype, jnp.floating)):
        return result
    if not info.is_quantized:
        return _value_of(twin, result)
    zero = info.zero_point
    low, high = (limit - zero for limit in rounding.limits_of(info.dtype))
    level = result.astype(jnp.int32) - zero
    floats = [x for x in reals if x is not None and jnp.issubdtype(x.dtype, jnp.floating)]
    has_nan = jnp.any(jnp.stack([jnp.isnan(x).any() for x in floats])) if floats else False
    twin = jnp.broadcast_to(twin, level.shape)
    is_nan = jnp.isnan(twin) & has_nan
    return rounding.dequantize((low, high), twin, level, jnp.asarray(info.scale), None, is_nan)


@jax.custom_jvp
def _value_of(twin: Array, value: Array) -> Array:
    """A value with the derivative of another one."""
    return value


@_value_of.defjvp
def _derivative(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return primals[1], tangents[0]
