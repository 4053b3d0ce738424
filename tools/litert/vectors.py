"""The suite's requantized vectors beside LiteRT 2.3.0, as files of one operator.

`python -m tools.litert.vectors` needs ai-edge-litert. A sum of products becomes a matrix product,
with int8 in place of uint8: 128 less in elements and zero points is the same call.
"""

import collections
import sys
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from dmlax_conformance.format.tensors import Tensor as Held
from dmlax_conformance.format.tensors import to_numpy
from dmlax_conformance.format.vectors import Vector, load_all
from dmlax_conformance.oracle.fixed_point import FIELD
from tools.litert.files import Op, Subgraph, Tensor, model

_REFERENCE = OpResolverType.BUILTIN_REF
_PRODUCTS = {  # the operator of a sum of products that has the mode, and its kernels
    "fixed_point_double": ("CONV_2D", _REFERENCE),
    "fixed_point_half_up": ("CONV_2D", OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES),
    "float64": ("FULLY_CONNECTED", _REFERENCE),
}
_SUMS = {"fixed_point_single": OpResolverType.AUTO, "fixed_point_double": _REFERENCE}


def main() -> int:
    """Prints a count for each operator and mode; returns 1 if an element differs."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for vector in load_all():
        if FIELD not in vector.attributes or not vector.is_valid:
            continue
        mode = vector.attributes[FIELD]
        verdict, elements = _judge(vector, mode)
        counts[f"{vector.operator} {mode}"][f"vectors {verdict}"] += 1
        counts[f"{vector.operator} {mode}"]["elements"] += elements
        if verdict == "differ":
            print(vector.id)
    for name, each in sorted(counts.items()):
        print(name, dict(each))
    return int(any(each["vectors differ"] for each in counts.values()))


def _judge(vector: Vector, mode: str) -> tuple[str, int]:
    made = _graph(vector, mode)
    if made is None:
        return "without a peer", 0
    graph, resolver, given, order = made
    try:
        peer = Interpreter(model_content=model(graph), experimental_op_resolver_type=resolver)
        peer.allocate_tensors()
    except (RuntimeError, ValueError):
        return "refused", 0
    for detail in peer.get_input_details():
        peer.set_tensor(detail["index"], given[detail["name"]])
    peer.invoke()
    found = peer.get_tensor(peer.get_output_details()[0]["index"])
    expect: Any = vector.expect
    wanted = _signed(Held(*(lambda x: (x.dtype, x.sizes, x.words))(expect["OutputTensor"])))
    is_same = np.array_equal(found.ravel(), wanted.transpose(order).ravel())
    return ("agree" if is_same else "differ"), wanted.size


def _graph(vector: Vector, mode: str) -> Any:
    """The file of a vector, the kernels, its inputs, and the order of the output's axes."""
    given, output = vector.inputs, vector.outputs["OutputTensor"]
    sizes = {name: _signed(x) for name, x in given.items() if name.endswith("Tensor")}

    def quantized(end: str, shape: Any) -> Tensor:
        dtype = output.dtype if end == "Output" else given[f"{end}Tensor"].dtype
        point = given.get(f"{end}ZeroPointTensor")
        zero = (point.words[0] if point else 0) - 128 * (dtype == "uint8")
        return Tensor(np.int8, shape, None, [float(sizes[f"{end}ScaleTensor"].ravel()[0])], [zero])

    resolver: Any = _REFERENCE
    order = (*range(len(output.sizes)),)
    if vector.operator.startswith("element_wise"):
        name, shape = ("ADD" if "_add" in vector.operator else "MUL"), output.sizes
        resolver = _SUMS[mode]
        ends = {"a": "A", "b": "B", "y": "Output"}
        tensors = {k: quantized(end, shape) for k, end in ends.items()}
        op, inputs = Op(name, ["a", "b"], ["y"], {"activation": ""}), ["a", "b"]
        data = {k: sizes[f"{ends[k]}Tensor"] for k in inputs}
        return Subgraph(tensors, [op], inputs, ["y"]), resolver, data, order
    if "pooling" in vector.operator:
        x = sizes["InputTensor"].transpose(0, 2, 3, 1)
        axes = np.array([1, 2], np.int32)
        tensors = {"x": quantized("Input", x.shape), "axes": Tensor(np.int32, (2,), axes)}
        tensors["y"] = quantized("Output", (x.shape[0], 1, 1, x.shape[3]))
        op = Op("MEAN", ["x", "axes"], ["y"], {"keep_dims": True})
        return Subgraph(tensors, [op], ["x"], ["y"]), resolver, {"x": x}, (0, 2, 3, 1)
    if mode not in _PRODUCTS:
        return None
    name, resolver = _PRODUCTS[mode]
    is_convolution = "InputTensor" in given
    left, right = ("Input", "Filter") if is_convolution else ("A", "B")
    x, w = sizes[f"{left}Tensor"], given[f"{right}Tensor"]
    point = given.get(f"{right}ZeroPointTensor")
    weights = to_numpy(w).astype(int) - (point.words[0] if point else 0)
    weights = np.diag(weights.ravel()) if is_convolution else weights.T
    x = x.reshape(1, -1) if is_convolution else x
    if np.abs(weights - 0.5).max() > 127.5:
        return None
    rows, count = x.shape[0], len(weights)
    scales = np.broadcast_to(to_numpy(given[f"{right}ScaleTensor"]).ravel(), (count,)).tolist()
    bias = to_numpy(given["BiasTensor"]).ravel() if "BiasTensor" in given else np.zeros(count)
    first = quantized(left, x.shape)
    of_bias = [first.scales[0] * scale for scale in scales]
    options: dict[str, Any] = {"activation": ""}
    shape: Any = (rows, count)
    kernel: Any = weights.shape
    if name == "CONV_2D":
        x, shape, kernel = x[None, None], (1, 1, *shape), (count, 1, 1, kernel[1])
        first.shape = x.shape
        options |= {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    tensors = {
        "x": first,
        "w": Tensor(np.int8, kernel, weights.astype(np.int8), scales, [0] * count),
        "b": Tensor(np.int32, (count,), bias.astype(np.int32), of_bias, [0] * count),
        "y": quantized("Output", shape),
    }
    op = Op(name, ["x", "w", "b"], ["y"], options)
    return Subgraph(tensors, [op], ["x"], ["y"]), resolver, {"x": x}, order


def _signed(tensor: Held) -> np.ndarray:
    """An array, of int8 where it is uint8."""
    array = to_numpy(tensor)
    return (array.astype(int) - 128).astype(np.int8) if array.dtype == np.uint8 else array


if __name__ == "__main__":
    sys.exit(main())
