"""The graph of an ONNX file; only this module needs the package `onnx`."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..format.tensors import DTYPES, Tensor, from_numpy
from .arrays import filled, float32_of, number_of, values_of, word_of
from .graph import MICROSOFT, OPSETS, Graph, Node, TensorType

Names = tuple[str, ...]
Values = Mapping[str, Tensor]

QUANTIZED = {  # the quantized operator of a float operator in a QDQ file, and its domain
    "Add": ("QLinearAdd", MICROSOFT),
    "Conv": ("QLinearConv", ""),
    "Gemm": ("QGemm", MICROSOFT),
    "GlobalAveragePool": ("QLinearGlobalAveragePool", MICROSOFT),
    "MaxPool": ("MaxPool", ""),
    "Reshape": ("Reshape", ""),
}
MOVES = {"MaxPool", "Reshape"}  # their output has the parameters of their input


def differences(file: bytes, graph: Graph, values: Values) -> list[str]:
    """Return what a file says otherwise than a graph, to which the nodes of a QDQ file fuse.

    The values give the data types and sizes of the outputs.
    """
    model = import_module("onnx").load_from_string(file)
    written = _read(model.graph)
    opsets = {each.domain: each.version for each in model.opset_import}
    have = _parts(written if written == graph else fused(written), opsets)
    have |= {f"output {each.name}": _type(each) for each in model.graph.output}
    want = _parts(graph, OPSETS) | _output_types(graph, values)
    return [
        f"{name}: the file has {have.get(name)}, and the graph {want.get(name)}"
        for name in have | want
        if have.get(name) != want.get(name)
    ]


def _parts(graph: Graph, opsets: Mapping[str, int]) -> dict[str, Any]:
    """Return what a graph consists of, by names for people."""
    return {
        "operator sets": opsets,
        **{f"input {name}": each for name, each in graph.inputs.items()},
        **{f"constant {name}": each for name, each in graph.constants.items()},
        **{f"node {place}": each for place, each in enumerate(graph.nodes)},
        "outputs": graph.outputs,
    }


def _output_types(graph: Graph, values: Values) -> dict[str, TensorType]:
    """Return data types and sizes; sizes that depend on a NonZero are open."""
    is_open = set[str]()
    for node in graph.nodes:
        if node.op == "NonZero" or is_open.intersection(node.inputs):
            is_open.update(node.outputs)
    given = {name: (values[name], name in is_open) for name in graph.outputs}
    return {
        f"output {name}": TensorType(x.dtype, (None,) * len(x.sizes) if unknown else x.sizes)
        for name, (x, unknown) in given.items()
    }


def _read(graph: Any) -> Graph:
    to_array = import_module("onnx.numpy_helper").to_array
    constants = {each.name: from_numpy(to_array(each)) for each in graph.initializer}
    inputs, outputs = {x.name: _type(x) for x in graph.input}, tuple(x.name for x in graph.output)
    return Graph(inputs, outputs, constants, tuple(map(_node, graph.node)))


def _type(info: Any) -> TensorType:
    """Return the data type and the sizes of an input or an output; an open size is None."""
    given = info.type.tensor_type
    dtype = import_module("onnx.helper").tensor_dtype_to_np_dtype(given.elem_type).name
    sizes = (x.dim_value if x.HasField("dim_value") else None for x in given.shape.dim)
    return TensorType(dtype, tuple(sizes))


def _node(node: Any) -> Node:
    attributes = {each.name: _attribute(each) for each in node.attribute}
    return Node(node.op_type, node.domain, tuple(node.input), tuple(node.output), attributes)


def _attribute(attribute: Any) -> Any:
    value = import_module("onnx.helper").get_attribute_value(attribute)
    if isinstance(value, float):
        return Tensor("float32", (), (word_of(value),))
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, int) else tuple(value)


def fused(graph: Graph) -> Graph:
    """Return the quantized nodes that a QDQ file stands for; other nodes stay as they are."""
    writers = {name: node for node in graph.nodes for name in node.outputs}
    quantized: dict[str, Node] = {}  # nodes by the output of the QuantizeLinear
    gone: set[str] = set()
    for end in graph.nodes:
        inner = _before(end, graph, writers) if end.op == "QuantizeLinear" else None
        node = _quantized(inner, end, graph, writers) if inner is not None else None
        if inner is not None and node is not None:
            quantized[end.outputs[0]] = node
            gone |= {end.inputs[0], *inner.inputs, *inner.outputs}
    left = [node for node in graph.nodes if not gone.intersection(node.outputs)]
    nodes = tuple(quantized.get(node.outputs[0], node) for node in left)
    read = {name for node in nodes for name in node.inputs}
    constants = {name: value for name, value in graph.constants.items() if name in read}
    return Graph(graph.inputs, graph.outputs, constants, nodes)


def _before(end: Node, graph: Graph, writers: Mapping[str, Node]) -> Node | None:
    """Return the float operator before a QuantizeLinear and, if its range begins at 0, a Relu."""
    node = writers.get(end.inputs[0])
    if node is not None and node.op == "Relu":
        point = graph.constants[end.inputs[2]]
        node = writers.get(node.inputs[0]) if point.words == (DTYPES[point.dtype].low,) else None
    return node if node is not None and node.op in QUANTIZED else None


def _quantized(inner: Node, end: Node, graph: Graph, writers: Mapping[str, Node]) -> Node | None:
    """Return the node that DequantizeLinear, a float operator and QuantizeLinear stand for.

    There is none where a parameter is not that of the quantized operator.
    """
    operands = [writers[name] for name in inner.inputs if name in writers]
    others = [name for name in inner.inputs if name not in writers]
    if not operands or not all(_is_dequantized(each, graph) for each in operands):
        return None
    op, domain = QUANTIZED[inner.op]
    x, *more = (each.inputs for each in operands)
    parameters, bias = end.inputs[1:], tuple(each[0] for each in more[1:])
    if op in MOVES:
        node = Node(op, domain, (x[0], *others), end.outputs, inner.attributes)
        return node if x[1:] == parameters else None
    if bias and not _is_bias(graph, more[1], x, more[0]):
        return None
    ends = (*bias, *parameters) if op == "QGemm" else (*parameters, *bias)
    inputs = (*x, *(name for each in more[:1] for name in each), *ends)
    added = {"channels_last": 0} if op == "QLinearGlobalAveragePool" else {}
    return Node(op, domain, inputs, end.outputs, {**inner.attributes, **added})


def _is_dequantized(node: Node, graph: Graph) -> bool:
    """Say whether a node gives the floats of a tensor, with one scale or one of each channel."""
    if node.op != "DequantizeLinear":
        return False
    return node.attributes == ({"axis": 0} if graph.constants[node.inputs[1]].sizes else {})


def _is_bias(graph: Graph, bias: Names, x: Names, weight: Names) -> bool:
    """Say whether a bias has the scale of the products, rounded to float32, and no zero point."""
    own, factor, factors = (graph.constants[operand[1]] for operand in (bias, x, weight))
    products = (number_of(factor) * each for each in values_of(factors).flat)
    is_scaled = own == float32_of(filled(products, factors.sizes))
    return is_scaled and not any(graph.constants[bias[2]].words)
