"""Replaces an operator between DequantizeLinear and QuantizeLinear by a quantized operator.

The quantized operator must compute what the file says: `FUSIONS` and `_why_not` have the
conditions. Groups that miss one are computed in floats, as their nodes say.
"""

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import GIVEN, MICROSOFT, OWN, Graph, Node, TensorType
from dmlax.onnx.operators.nonzero import COUNTED
from dmlax.onnx.operators.values import DTYPES

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_BAND = (1e-6, 0.01)  # within which ONNX Runtime takes a bias's scale for the product of scales


class Quantized(NamedTuple):
    """A tensor of integers with its parameters, all known."""

    tensor: str  # it, its scale and its zero point are operands of a quantized operator
    scale: str
    zero_point: str
    axis: int | None  # the parameters' axis; None for one value
    dtype: np.dtype
    shape: tuple[int | str, ...] | None  # known for constants and for the graph's inputs
    is_constant: bool
    scales: np.ndarray
    zero_points: np.ndarray


class Group(NamedTuple):
    """A float operator, its dequantized operands (None for others), and its quantized output."""

    node: Node
    inputs: tuple[Quantized | None, ...]
    output: Quantized | None  # None for floats


class _Every:
    """Contains every value."""

    def __contains__(self, value: object) -> bool:
        return True


_EVERY = _Every()


class Fusion(NamedTuple):
    """The quantized operator for a float one, and its conditions.

    An attribute that `attributes` does not list, or a value that it does not contain, leaves the
    float operator as it is. Operators have one output, and ranks are any that ONNX allows.
    """

    op: str = ""  # "" is the float one, which moves integers as it moves floats
    attributes: Mapping[str, Container[Any]] = {}  # an absent attribute has a listed value
    weight_axis: Callable[[Node], int] | None = None  # along which scales of weights may lie
    bias: int | None = None  # its place
    floats: str = ""  # the quantized operator whose output is float, if there is one
    needs_order: bool = False  # True for an operator that needs positive scales
    needs_scalars: bool = False  # True if ONNX Runtime computes only scales of rank 0
    needs_unsigned: bool = False  # True if ONNX Runtime fuses only uint8 inputs
    weight_ranks: Container[Any] = _EVERY  # the ranks that the quantized operator multiplies
    # A condition for the attributes together.
    fits: Callable[[Mapping[str, Any]], bool] = lambda attributes: True


def _averages_elements(attributes: Mapping[str, Any]) -> bool:
    """True for windows whose padding is all counted or all left out."""
    beyond = attributes.get("ceil_mode") and attributes.get("count_include_pad")
    return not beyond and set(attributes.get("dilations") or ()) <= {1}


def _any(*names: str) -> dict[str, Container[Any]]:
    """Attributes of which every value is computed."""
    return dict.fromkeys(names, _EVERY)


_WINDOWS = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")
_RESIZE = (
    *("antialias", "axes", "cubic_coeff_a", "exclude_outside", "extrapolation_value"),
    *("keep_aspect_ratio_policy", "nearest_mode"),
)
_INSIDE = (  # transformations that read elements of the input alone; a crop fills in a float
    *("align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"),
    "tf_half_pixel_for_nn",
)

FUSIONS: Mapping[str, Fusion] = {
    "Add": Fusion("QLinearAdd", needs_scalars=True),
    "AveragePool": Fusion(
        "QLinearAveragePool",
        _any(*_WINDOWS, "ceil_mode", "count_include_pad"),
        needs_scalars=True,
        fits=_averages_elements,
    ),
    "Concat": Fusion("QLinearConcat", _any("axis")),
    "Conv": Fusion(
        "QLinearConv",
        _any(*_WINDOWS, "group"),
        weight_axis=lambda node: 0,
        bias=2,
        needs_unsigned=True,
        weight_ranks=(3, 4),
    ),
    "DepthToSpace": Fusion(attributes=_any("blocksize", "mode")),
    "Expand": Fusion(),
    "Flatten": Fusion(attributes=_any("axis")),
    "Gather": Fusion(attributes=_any("axis")),
    "GatherElements": Fusion(attributes=_any("axis")),
    "Gemm": Fusion(
        "QGemm",
        {**_any("alpha", "transA", "transB"), "beta": (1.0,)},
        weight_axis=lambda node: -2 if node.attributes.get("transB") else -1,
        bias=2,
        floats="QGemm",
        weight_ranks=(2,),
    ),
    "GlobalAveragePool": Fusion("QLinearGlobalAveragePool"),
    "Identity": Fusion(),
    "LeakyRelu": Fusion("QLinearLeakyRelu", _any("alpha")),
    "MatMul": Fusion(
        "QLinearMatMul",
        weight_axis=lambda node: -1,
        floats="MatMulIntegerToFloat",
        needs_unsigned=True,
    ),
    "MaxPool": Fusion(attributes=_any(*_WINDOWS, "ceil_mode", "storage_order"), needs_order=True),
    "Mul": Fusion("QLinearMul", needs_scalars=True),
    "Reshape": Fusion(attributes=_any("allowzero")),
    "Resize": Fusion(
        attributes={
            **_any(*_RESIZE),
            "mode": ("nearest",),
            "coordinate_transformation_mode": _INSIDE,
        }
    ),
    "Sigmoid": Fusion("QLinearSigmoid"),
    "Slice": Fusion(),
    "Softmax": Fusion("QLinearSoftmax", _any("axis"), needs_order=True),
    "SpaceToDepth": Fusion(attributes=_any("blocksize")),
    "Squeeze": Fusion(),
    "Tile": Fusion(),
    "Transpose": Fusion(attributes=_any("perm")),
    "Unsqueeze": Fusion(),
}


def fuse_qdq(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Replaces groups by the quantized operators that compute them."""
    finder = _Finder(graph, arithmetic)
    fused = {x.outputs[0]: x for x in map(finder.fuse, graph.nodes) if isinstance(x, Node)}
    nodes = tuple(fused.get(node.outputs[0], node) for node in graph.nodes)
    return graph.replace(nodes=nodes, constants={**graph.constants, **finder.zero_points})


def why_float(graph: Graph, arithmetic: Arithmetic) -> dict[str, str]:
    """The reasons for which nodes beside quantized tensors compute floats, by their outputs."""
    finder = _Finder(graph, arithmetic)
    nodes = filter(finder.is_beside_integers, graph.nodes)
    results = {node.outputs[0]: finder.fuse(node) for node in nodes}
    return {name: reason for name, reason in results.items() if isinstance(reason, str)}


class _Finder:
    """Finds groups, and makes the zero points that a file leaves out."""

    def __init__(self, graph: Graph, arithmetic: Arithmetic) -> None:
        self.graph, self.arithmetic, self.types = graph, arithmetic, known_types(graph)
        self.shapes = {name: x.shape for name, x in self.types.items() if x.shape != ()}
        self.shapes |= {name: x.shape for name, x in graph.constants.items()}
        # Indices of rows behind a count lie outside, and a subgraph may capture them.
        counts = any(node.op in COUNTED for node in graph.all_nodes())
        self.has_outside = counts or bool(graph.parameters)
        self.zero_points: dict[str, np.ndarray] = {}

    def is_beside_integers(self, node: Node) -> bool:
        """True if a float node reads dequantized integers, or a quantization reads it."""
        if node.domain == GIVEN or is_quantize(node) or is_dequantize(node):
            return False
        readers = [reader for name in node.outputs for reader in self.graph.consumers.get(name, ())]
        makers = filter(None, map(self.graph.producers.get, node.inputs))
        return any(map(is_quantize, readers)) or any(map(is_dequantize, makers))

    def fuse(self, node: Node) -> Node | str:
        """The quantized operator that computes a node, or the condition that the node misses."""
        fusion = FUSIONS.get(node.op) if node.domain in ("", OWN) else None
        group = self._group(node) if fusion else f"no quantized operator computes {node.type}"
        if fusion is None or isinstance(group, str):
            return str(group)
        why = _why_not(fusion, group, self.arithmetic)
        if why and self.arithmetic == "float32" and not node.domain and _is_signed(group):
            return node.become(node.op, OWN, node.inputs, node.attributes)
        return why or _fuse(fusion, group)

    def _group(self, node: Node) -> Group | str:
        """The group of a node that one quantization reads, or none; a sentence for other nodes."""
        if len(node.outputs) != 1:
            return "it has several outputs"
        name = node.outputs[0]
        readers = self.graph.consumers.get(name, [])
        output = None
        if any(map(is_quantize, readers)):
            if len(readers) > 1 or name in self.graph.outputs:
                return f"not only a QuantizeLinear reads its output {name}"
            output = self._quantized(readers[0].outputs[0], readers[0])
            if output is None:
                return f"the parameters of {readers[0].outputs[0]} are not constants of one axis"
        inputs = tuple(map(self._dequantized, node.inputs))
        is_gather = node.op in ("Gather", "GatherElements") and self.has_outside
        if is_gather and node.inputs[1] not in self.graph.constants and _fills_floats(inputs[0]):
            return "an index behind the last coordinate reads the float 0"
        return Group(node, inputs, output)

    def _dequantized(self, name: str) -> Quantized | None:
        """The integers of which a float32 tensor was made."""
        node = self.graph.producers.get(name)
        if node is None or not is_dequantize(node):
            return None
        return self._quantized(node.inputs[0], node)

    def _quantized(self, tensor: str, node: Node) -> Quantized | None:
        """The integers that a node reads or writes, None if a parameter is not known."""
        dtype = self.types[tensor].dtype if tensor in self.types else None
        scales = self.graph.constants.get(node.inputs[1])
        if dtype is None or dtype.kind not in "iu":
            return None
        if scales is None or scales.dtype != np.float32 or scales.ndim > 1 or not scales.size:
            return None
        zero_point = node.input(2)
        zero_points = self.graph.constants.get(zero_point) if zero_point else np.zeros((), dtype)
        if zero_points is None or zero_points.size not in (1, scales.size):
            return None
        if node.attributes.get("block_size") or zero_points.dtype != dtype:
            return None
        if not keeps_float32(node):
            return None
        axis = int(node.attributes.get("axis", 1)) if scales.size > 1 else None
        names = (tensor, node.inputs[1], zero_point or self._zero(dtype))
        known = (dtype, self.shapes.get(tensor), tensor in self.graph.constants)
        return Quantized(*names, axis, *known, scales, zero_points)

    def _zero(self, dtype: np.dtype) -> str:
        name = self.graph.unused_name(f"zero@{dtype.name}")
        self.zero_points[name] = np.zeros((), dtype)
        return name


def _is_signed(group: Group) -> bool:
    """True for a product of floats of int8, which ONNX Runtime sums in one order."""
    node, (x, *others) = group.node, group.inputs
    is_product = node.op in ("Conv", "Gemm", "MatMul") and node.attributes.get("alpha", 1) == 1
    if not is_product or x is None or None in others[:1] or node.attributes.get("beta", 1) != 1:
        return False
    return np.int8 in (x.dtype, group.output and group.output.dtype)


def _fills_floats(x: Quantized | None) -> bool:
    """True if the float 0 is another integer than 0."""
    return x is not None and bool(x.zero_points.any())


def known_types(graph: Graph) -> dict[str, TensorType]:
    """The types of inputs, of constants and of results; a shape () may be unknown."""
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


def keeps_float32(node: Node) -> bool:
    """True for a De- or QuantizeLinear whose floats are float32 if its scale is float32."""
    name = "precision" if is_quantize(node) else "output_dtype"
    return DTYPES.get(node.attributes.get(name, 0) or 1) == np.float32


def quantized_dtype(graph: Graph, quantize: Node) -> np.dtype | None:
    """The dtype of a QuantizeLinear's output, None if it is not known."""
    if not quantize.input(2):
        return DTYPES.get(quantize.attributes.get("output_dtype", 0) or 2)
    zero_point = graph.constants.get(quantize.input(2))
    return None if zero_point is None else zero_point.dtype


def _why_not(fusion: Fusion, group: Group, arithmetic: Arithmetic) -> str | None:
    """The condition that a group misses, or None: the quantized operator computes what it says.

    The dtypes are those that ONNX Runtime fuses.
    """
    node, output = group.node, group.output
    for name, value in node.attributes.items():
        if value not in fusion.attributes.get(name, ()):
            return f"the quantized operator does not compute its {name}"
    if not fusion.fits(node.attributes):
        return "the quantized operator does not compute its attributes"
    if not fusion.op:
        moves = output is not None and _moves_integers(fusion, group, output)
        return None if moves else "its input and its output have not the same parameters"
    place = fusion.bias or len(node.inputs)
    for name, operand in zip(node.inputs[:place], group.inputs, strict=False):
        if operand is None:
            return f"its input {name} comes from no DequantizeLinear of constant parameters"
    if output is None and not fusion.floats:
        return f"no QuantizeLinear reads its output {node.outputs[0]}"
    operands = [x for x in group.inputs[:place] if x is not None]
    tensors = operands[:1] if fusion.weight_axis else operands
    if not _are_activations(fusion, [*tensors, *([] if output is None else [output])]):
        return "its tensors have not one 8-bit dtype and one scale that the operator takes"
    if fusion.needs_unsigned and arithmetic == "float32" and operands[0].dtype == np.int8:
        return "its input is int8 that several nodes read, or an input of the model"
    return _why_no_weights(fusion, group, operands, arithmetic) if fusion.weight_axis else None


def _why_no_weights(
    fusion: Fusion, group: Group, operands: list[Quantized], arithmetic: Arithmetic
) -> str | None:
    """The condition that weights, their factor or their bias miss."""
    node, place = group.node, fusion.bias or len(group.node.inputs)
    x, weights = operands
    assert fusion.weight_axis is not None
    axis, has_bias = fusion.weight_axis(node), any(node.inputs[place:])
    if not _are_weights(fusion, x, weights, axis):
        return "its weights have not 8 bits of that dtype and scales of output channels"
    if not _has_alpha(node, x, has_bias, arithmetic):
        return "its alpha is no factor of a scale"
    is_near = arithmetic == "float32" and fusion.op == "QLinearConv"
    if has_bias and not _is_bias(group.inputs[place], x, weights, axis, is_near):
        return "its bias is not int32 in steps of the product of both scales"
    return None


def _are_activations(fusion: Fusion, tensors: list[Quantized]) -> bool:
    """True for one 8-bit dtype, with one scale per tensor."""
    if any(x.axis is not None for x in tensors) or not _have_scales(fusion, tensors):
        return False
    if fusion.needs_scalars and any(x.scales.ndim for x in tensors):
        return False
    return {x.dtype for x in tensors} in ({_BYTES[0]}, {_BYTES[1]})


def _moves_integers(fusion: Fusion, group: Group, output: Quantized) -> bool:
    """True if moving integers equals moving their floats and quantizing these."""
    x, *operands = group.inputs
    if x is None or any(operands) or x.axis is not None or output.axis is not None:
        return False
    scale, zero_point = x.scales.item(), x.zero_points.item()
    is_same = (scale, zero_point) == (output.scales.item(), output.zero_points.item())
    survives = x.dtype.itemsize <= 2 and 2.0**-100 < abs(scale) < 2.0**100  # floats and back
    return is_same and x.dtype == output.dtype and survives and _have_scales(fusion, [x])


def _have_scales(fusion: Fusion, operands: list[Quantized]) -> bool:
    """True for scales that are not 0, and positive where the order of elements matters."""
    least = np.finfo(np.float32).tiny if fusion.needs_order else -np.inf  # so that 1 / scale is one
    scales = np.concatenate([x.scales.ravel() for x in operands])
    return bool(np.isfinite(scales).all() and scales.all() and (scales >= least).all())


def _are_weights(fusion: Fusion, x: Quantized, weights: Quantized, axis: int) -> bool:
    """True for 8 bits whose scales are one value, or lie along an axis."""
    shape, scales = weights.shape, weights.scales
    if weights.dtype not in _BYTES or not np.isfinite(scales).all():
        return False
    if x.dtype == np.int8 and weights.dtype != np.int8:
        return False
    if not scales.all() and not weights.is_constant:  # a dead channel
        return False
    if shape is None:
        return weights.axis is None and fusion.weight_ranks is _EVERY
    if len(shape) not in fusion.weight_ranks or 0 in shape:
        return False
    if weights.axis is None:
        return True
    is_channel = weights.axis % len(shape) == axis % len(shape) and shape[axis] == scales.size
    return is_channel and len(shape) > 1  # a vector has no channels


def _has_alpha(node: Node, x: Quantized, has_bias: bool, arithmetic: Arithmetic) -> bool:
    """True for a factor that can be a part of a scale."""
    alpha = np.float32(node.attributes.get("alpha", 1.0))
    if alpha == 1 or has_bias:
        return bool(alpha == 1)
    product = np.float64(x.scales) * np.float64(alpha)
    return bool(alpha != 0 and (arithmetic == "float32" or (np.float32(product) == product).all()))


def _is_bias(
    bias: Quantized | None, x: Quantized, weights: Quantized, axis: int, is_near: bool
) -> bool:
    """True for int32 in steps of the product of both scales, or near it, one for each channel."""
    if bias is None or bias.shape is None or weights.shape is None:
        return False
    if bias.dtype != np.int32 or bias.zero_points.any() or bias.shape != (weights.shape[axis],):
        return False
    scales = bias.scales.ravel()
    with np.errstate(all="ignore"):
        step = x.scales.ravel() * weights.scales.ravel()
        if not is_near:
            return bool((scales == step).all())
        distance = np.abs(scales.astype(np.float64) - step)
        return bool((distance <= _BAND[0] + _BAND[1] * np.abs(step).astype(np.float64)).all())


def _fuse(fusion: Fusion, group: Group) -> Node:
    node, output = group.node, group.output
    inputs = [x for x in group.inputs if x is not None]
    outputs = node.outputs if output is None else (output.tensor,)
    if not fusion.op:
        return node.replace(inputs=(inputs[0].tensor, *node.inputs[1:]), outputs=outputs)
    attributes = {name: x for name, x in node.attributes.items() if name != "beta"}
    if fusion.op == "QLinearSoftmax":
        attributes["opset"] = node.version
    op = fusion.floats if output is None else fusion.op
    domain, version = ("", 10) if op in ("QLinearConv", "QLinearMatMul") else (MICROSOFT, 1)
    names = _operands(op, fusion.bias or len(inputs), inputs, output)
    return node.become(op, domain, names, attributes, version).replace(outputs=outputs)


def _operands(
    op: str, bias_place: int, inputs: list[Quantized], output: Quantized | None
) -> tuple[str, ...]:
    """The operands of a quantized operator, in its order."""
    ends = () if output is None else (output.scale, output.zero_point)
    bias = tuple(x.tensor for x in inputs[bias_place:])
    names = tuple(name for x in inputs[:bias_place] for name in x[:3])
    if op == "QLinearConcat":
        return (*ends, *names)
    if op == "QGemm":
        return (*names, *(bias or ("",)), *ends)
    if output is None:
        a, b = inputs
        return (a.tensor, b.tensor, a.scale, b.scale, a.zero_point, b.zero_point)
    return (*names, *ends, *bias)
