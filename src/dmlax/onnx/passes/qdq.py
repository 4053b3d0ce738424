"""Makes a quantized operator of an operator between DequantizeLinear and QuantizeLinear.

A group becomes one where that operator computes what the file says; `FUSIONS` and `_is_meant` have
the conditions. Every other group is computed in floats, as its nodes say.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import MICROSOFT, Graph, Node, TensorType
from dmlax.onnx.operators.values import DTYPES

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_BAND = (1e-6, 0.01)  # within which ONNX Runtime takes a bias's scale for the product of scales


class Quantized(NamedTuple):
    """A tensor of integers with its parameters, all known."""

    tensor: str
    scale: str
    zero_point: str
    axis: int | None  # along which the parameters lie; None for one value
    dtype: np.dtype
    peer_dtype: np.dtype  # ONNX Runtime makes uint8 of int8 between two of its nodes
    scales: np.ndarray
    zero_points: np.ndarray

    @property
    def parameters(self) -> tuple[str, str, str]:
        """The operands of a quantized operator."""
        return self.tensor, self.scale, self.zero_point


class Group(NamedTuple):
    """A node, its dequantized operands (None for others), and its quantized output if it has one.

    The shapes are those of known tensors: of constants and of the graph's inputs.
    """

    node: Node
    inputs: tuple[Quantized | None, ...]
    output: Quantized | None
    shapes: Mapping[str, tuple[int | str, ...]]

    def shape(self, place: int) -> tuple[int | str, ...] | None:
        """The shape of the integers behind an operand, None where it is not known."""
        quantized = self.inputs[place]
        return None if quantized is None else self.shapes.get(quantized.tensor)


class Fusion(NamedTuple):
    """The quantized operator that stands for a float one, and what that depends on.

    Attributes:
      op: the quantized operator; "" is the float one, which moves integers as it moves floats.
      weight_axis: of a product, the axis of the right operand along which its scales may lie.
      bias: the place of a bias.
      floats: the operator whose output stays float, if there is one.
      needs_order: True for an operator that needs positive scales.
      needs_scalars: True where ONNX Runtime fuses only scales of rank 0.
      fits: False for attributes with which the quantized operator computes something else.
    """

    op: str = ""
    weight_axis: Callable[[Node], int] | None = None
    bias: int | None = None
    floats: str = ""
    needs_order: bool = False
    needs_scalars: bool = False
    fits: Callable[[Mapping[str, Any]], bool] = lambda attributes: True


def _averages_elements(attributes: Mapping[str, Any]) -> bool:
    """True for windows whose padding is all counted or all left out."""
    beyond = attributes.get("ceil_mode") and attributes.get("count_include_pad")
    return not beyond and set(attributes.get("dilations") or ()) <= {1}


FUSIONS: Mapping[str, Fusion] = {
    "Add": Fusion("QLinearAdd", needs_scalars=True),
    "AveragePool": Fusion("QLinearAveragePool", fits=_averages_elements),
    "Concat": Fusion("QLinearConcat"),
    "Conv": Fusion("QLinearConv", weight_axis=lambda node: 0, bias=2),
    "Gemm": Fusion(
        "QGemm",
        weight_axis=lambda node: -2 if node.attributes.get("transB") else -1,
        bias=2,
        floats="QGemm",
        fits=lambda attributes: attributes.get("beta", 1.0) == 1.0,
    ),
    "GlobalAveragePool": Fusion("QLinearGlobalAveragePool"),
    "LeakyRelu": Fusion("QLinearLeakyRelu"),
    "MatMul": Fusion("QLinearMatMul", weight_axis=lambda node: -1, floats="MatMulIntegerToFloat"),
    "MaxPool": Fusion(needs_order=True),
    "Mul": Fusion("QLinearMul", needs_scalars=True),
    "Sigmoid": Fusion("QLinearSigmoid"),
    "Softmax": Fusion("QLinearSoftmax", needs_order=True),
    **dict.fromkeys(
        (
            *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "Identity"),
            *("Reshape", "Resize", "Slice", "SpaceToDepth", "Squeeze", "Tile", "Transpose"),
            "Unsqueeze",
        ),
        Fusion(),
    ),
}


def fuse_qdq(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Replaces each group that a quantized operator computes by that operator."""
    finder = _Finder(graph)
    fused: dict[str, Node] = {}  # by the output that they write
    for node in graph.nodes:
        fusion = FUSIONS.get(node.op) if not node.domain else None
        group = finder.group(node) if fusion else None
        if fusion and group and _is_meant(fusion, group, arithmetic):
            made = _fuse(fusion, group)
            fused[made.outputs[0]] = made
    nodes = tuple(fused.get(node.outputs[0], node) for node in graph.nodes)
    return graph.replace(nodes=nodes, constants={**graph.constants, **finder.zero_points})


class _Finder:
    """Finds groups, and makes the zero points that a file leaves out."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers, self.consumers = graph.producers(), graph.consumers()
        self.types = known_types(graph)
        self.shapes = {name: each.shape for name, each in self.types.items() if each.shape != ()}
        self.shapes |= {name: x.shape for name, x in graph.constants.items()}
        self.has_nonzero = any(node.op == "NonZero" for node in graph.nodes)
        self.zero_points: dict[str, np.ndarray] = {}

    def group(self, node: Node) -> Group | None:
        """The group of a node: what follows it is one quantization, or none at all."""
        is_gather = node.op in ("Gather", "GatherElements")
        if is_gather and self.has_nonzero and node.inputs[1] not in self.graph.constants:
            return None  # an index behind the last coordinate reads the float 0
        if len(node.outputs) != 1:
            return None
        name = node.outputs[0]
        readers = self.consumers.get(name, [])
        output = None
        if any(map(is_quantize, readers)):
            if len(readers) != 1 or name in self.graph.outputs:
                return None
            output = self._quantized(readers[0].outputs[0], readers[0])
            if output is None:
                return None
        return Group(node, tuple(map(self.dequantized, node.inputs)), output, self.shapes)

    def dequantized(self, name: str) -> Quantized | None:
        """The integers of which a float32 tensor was made."""
        node = self.producers.get(name)
        if node is None or not is_dequantize(node):
            return None
        return self._quantized(node.inputs[0], node) if keeps_float32(node) else None

    def _quantized(self, tensor: str, node: Node) -> Quantized | None:
        """The integers that a node reads or writes, None where a parameter is not known."""
        dtype = self.types[tensor].dtype if tensor in self.types else None
        scales = self.graph.constants.get(node.inputs[1])
        if dtype is None or dtype.kind not in "iu":
            return None
        if scales is None or scales.dtype != np.float32 or scales.ndim > 1:
            return None
        zero_point = node.inputs[2] if len(node.inputs) > 2 else ""
        zero_points = self.graph.constants.get(zero_point) if zero_point else np.zeros((), dtype)
        if zero_points is None or zero_points.size not in (1, scales.size) or not scales.size:
            return None
        if node.attributes.get("block_size") or zero_points.dtype != dtype:
            return None
        axis = int(node.attributes.get("axis", 1)) if scales.size > 1 else None
        zero_point = zero_point or self._zero(dtype)
        own = (tensor, node.inputs[1], zero_point, axis, dtype, self._peer_dtype(tensor, dtype))
        return Quantized(*own, scales, zero_points)

    def _peer_dtype(self, tensor: str, dtype: np.dtype) -> np.dtype:
        node = self.producers.get(tensor)
        is_between = node is not None and is_quantize(node) and tensor not in self.graph.outputs
        readers = self.consumers.get(tensor, [])
        if dtype == np.int8 and is_between and readers and all(map(is_dequantize, readers)):
            return np.dtype(np.uint8)
        return dtype

    def _zero(self, dtype: np.dtype) -> str:
        """The name of a zero point of 0."""
        name = self.graph.unused_name(f"zero@{dtype.name}")
        self.zero_points[name] = np.zeros((), dtype)
        return name


def known_types(graph: Graph) -> dict[str, TensorType]:
    """The dtype of inputs, constants and what is made of them; a shape () may be unknown."""
    types = {name: TensorType(x.dtype, x.shape) for name, x in graph.constants.items()}
    types |= graph.inputs
    types |= {name: graph.types[name] for name in graph.parameters if name in graph.types}
    for node in graph.nodes:
        if is_quantize(node) and (dtype := quantized_dtype(graph, node)) is not None:
            types[node.outputs[0]] = TensorType(dtype, ())
        elif _is_move(node) and node.inputs[0] in types:
            types[node.outputs[0]] = TensorType(types[node.inputs[0]].dtype, ())
    return types


def _is_move(node: Node) -> bool:
    return not node.domain and node.op in FUSIONS and not FUSIONS[node.op].op


def is_quantize(node: Node) -> bool:
    """True for a QuantizeLinear."""
    return node.op == "QuantizeLinear" and node.domain in ("", MICROSOFT)


def is_dequantize(node: Node) -> bool:
    """True for a DequantizeLinear."""
    return node.op == "DequantizeLinear" and node.domain in ("", MICROSOFT)


def keeps_float32(dequantize: Node) -> bool:
    """True for a DequantizeLinear that gives float32 if its scale is float32."""
    return DTYPES.get(dequantize.attributes.get("output_dtype", 0) or 1) == np.float32


def quantized_dtype(graph: Graph, quantize: Node) -> np.dtype | None:
    """The dtype of a QuantizeLinear's output, None where it is not known."""
    name = quantize.inputs[2] if len(quantize.inputs) > 2 else ""
    if not name:
        return DTYPES.get(quantize.attributes.get("output_dtype", 0) or 2)
    zero_point = graph.constants.get(name)
    return None if zero_point is None else zero_point.dtype


def _is_meant(fusion: Fusion, group: Group, arithmetic: Arithmetic) -> bool:
    """True where the quantized operator computes what the nodes of a group say.

    The dtypes are those that ONNX Runtime fuses.
    """
    node, output = group.node, group.output
    if not fusion.op:
        return output is not None and _moves_integers(fusion, group, output)
    place = fusion.bias or len(node.inputs)
    operands = [each for each in group.inputs[:place] if each is not None]
    if len(operands) != len(node.inputs[:place]) or not fusion.fits(node.attributes):
        return False
    if output is None and not fusion.floats:
        return False
    plain = operands[:1] if fusion.weight_axis else operands
    plain = [*plain, *([] if output is None else [output])]
    if any(each.axis is not None for each in plain) or not _have_scales(fusion, plain):
        return False
    if fusion.needs_scalars and any(each.scales.ndim for each in plain):
        return False
    if {each.peer_dtype for each in plain} not in ({_BYTES[0]}, {_BYTES[1]}):
        return False
    if fusion.weight_axis is None:
        return True
    x, weights = operands
    has_bias = any(node.inputs[place:])
    fits = _are_weights(fusion, group, weights, fusion.weight_axis(node))
    fits = fits and _has_alpha(node, x, has_bias, arithmetic)
    return fits and (not has_bias or _is_bias(fusion, group, arithmetic))


def _moves_integers(fusion: Fusion, group: Group, output: Quantized) -> bool:
    """True where integers moved are the moved floats, quantized."""
    x, *rest = group.inputs
    if x is None or any(rest) or x.axis is not None or output.axis is not None:
        return False
    same = x.dtype == output.dtype and x.zero_points.ravel()[0] == output.zero_points.ravel()[0]
    same &= x.scales.ravel()[0] == output.scales.ravel()[0]
    size = abs(x.scales.ravel()[0])
    survives = x.dtype.itemsize <= 2 and 2.0**-100 < size < 2.0**100  # the way to floats and back
    return same and survives and _have_scales(fusion, [x])


def _have_scales(fusion: Fusion, operands: list[Quantized]) -> bool:
    """True for scales that are not 0, and positive where the order of elements matters."""
    least = np.finfo(np.float32).tiny if fusion.needs_order else -np.inf  # so that 1 / scale is one
    scales = np.concatenate([x.scales.ravel() for x in operands])
    return bool(np.isfinite(scales).all() and scales.all() and (scales >= least).all())


def _are_weights(fusion: Fusion, group: Group, weights: Quantized, axis: int) -> bool:
    """True for 8 bits whose scales are one value, or lie along an axis."""
    x, shape = group.inputs[0], group.shape(1)
    if weights.dtype not in _BYTES or not np.isfinite(weights.scales).all():
        return False
    if x is not None and x.peer_dtype == np.int8 and weights.peer_dtype != np.int8:
        return False
    if fusion.op == "QLinearConv":  # a scale of 0 is that of a dead channel
        if shape is None or len(shape) not in (3, 4):
            return False
    elif not (weights.scales != 0).all():
        return False
    if weights.axis is None:
        return True
    if shape is None:
        return weights.axis == axis
    return weights.axis % len(shape) == axis % len(shape) and shape[axis] == weights.scales.size


def _has_alpha(node: Node, x: Quantized, has_bias: bool, arithmetic: Arithmetic) -> bool:
    """True for a factor that can be a part of a scale."""
    alpha = np.float32(node.attributes.get("alpha", 1.0))
    if alpha == 1 or has_bias:
        return bool(alpha == 1)
    product = np.float64(x.scales) * np.float64(alpha)
    return bool(alpha != 0 and (arithmetic == "float32" or (np.float32(product) == product).all()))


def _is_bias(fusion: Fusion, group: Group, arithmetic: Arithmetic) -> bool:
    """True for int32 in steps of the product of both scales, one for each channel."""
    x, w, bias = group.inputs
    shape, of_weights = group.shape(2), group.shape(1)
    if x is None or w is None or bias is None or shape is None or of_weights is None:
        return False
    if bias.dtype != np.int32 or bias.zero_points.any() or fusion.weight_axis is None:
        return False
    if shape != (of_weights[fusion.weight_axis(group.node)],):
        return False
    with np.errstate(all="ignore"):
        step = x.scales.ravel() * w.scales.ravel()
        if arithmetic == "float32" and fusion.op == "QLinearConv":
            wide = np.abs(step).astype(np.float64)
            distance = np.abs(bias.scales.ravel().astype(np.float64) - step)
            return bool((distance <= _BAND[0] + _BAND[1] * wide).all())
    return bool((bias.scales.ravel() == step).all())


def _fuse(fusion: Fusion, group: Group) -> Node:
    """The operator that a group becomes."""
    node, output = group.node, group.output
    inputs = [each for each in group.inputs if each is not None]
    if not fusion.op:
        assert output is not None
        return node.replace(inputs=(inputs[0].tensor, *node.inputs[1:]), outputs=(output.tensor,))
    ends = () if output is None else (output.scale, output.zero_point)
    outputs = node.outputs if output is None else (output.tensor,)
    attributes = {name: x for name, x in node.attributes.items() if name != "beta"}
    bias: tuple[str, ...] = ()
    if fusion.bias is not None:
        bias = tuple(each.tensor for each in inputs[fusion.bias :])
        inputs = inputs[: fusion.bias]
    names = tuple(name for each in inputs for name in each.parameters)
    op = fusion.op
    if op == "QLinearConcat":
        names = (*ends, *names)
    elif op == "QGemm":
        names = (*names, *(bias or ("",)), *ends)
    elif output is None:
        op, (a, b) = fusion.floats, inputs
        names = (a.tensor, b.tensor, a.scale, b.scale, a.zero_point, b.zero_point)
    else:
        names = (*names, *ends, *bias)
    if op == "QLinearSoftmax":
        attributes["opset"] = node.version
    domain, version = ("", 10) if op in ("QLinearConv", "QLinearMatMul") else (MICROSOFT, 1)
    return Node(node.name, op, domain, version, names, outputs, attributes)
