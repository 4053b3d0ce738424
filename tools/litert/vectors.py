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
from tools.litert.cases import _constant, _graph
from tools.litert.files import Tensor, model

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
    made = _file_of(vector, mode)
    if made is None:
        return "without a peer", 0
    graph, resolver, given, order = made
    try:
        peer = Interpreter(model_content=model(graph), experimental_op_resolver_type=resolver)
        peer.allocate_tensors()
    except (RuntimeError, ValueError):
        return "refused", 0
    for detail, x in zip(peer.get_input_details(), given, strict=True):
        peer.set_tensor(detail["index"], x)
    peer.invoke()
    found = peer.get_tensor(peer.get_output_details()[0]["index"])
    expect: Any = vector.expect
    held = expect["OutputTensor"]
    wanted = _signed(Held(held.dtype, held.sizes, held.words))
    is_same = np.array_equal(found.ravel(), wanted.transpose(order).ravel())
    return ("agree" if is_same else "differ"), wanted.size


def _file_of(vector: Vector, mode: str) -> Any:
    """The file of a vector, the kernels, its inputs, and the order of the output's axes."""
    given, output = vector.inputs, vector.outputs["OutputTensor"]
    sizes = {name: _signed(x) for name, x in given.items() if name.endswith("Tensor")}

    def quantized(end: str, shape: Any) -> Tensor:
        dtype = output.dtype if end == "Output" else given[f"{end}Tensor"].dtype
        point = given.get(f"{end}ZeroPointTensor")
        zero = (point.words[0] if point else 0) - 128 * (dtype == "uint8")
        return Tensor(np.int8, shape, None, [float(sizes[f"{end}ScaleTensor"].ravel()[0])], [zero])

    order = (*range(len(output.sizes)),)
    if vector.operator.startswith("element_wise"):
        a, b, y = (quantized(end, output.sizes) for end in ("A", "B", "Output"))
        graph = _graph("ADD" if "_add" in vector.operator else "MUL", [a, b], [y], activation="")
        return graph, _SUMS[mode], [sizes["ATensor"], sizes["BTensor"]], order
    if "pooling" in vector.operator:
        x = sizes["InputTensor"].transpose(0, 2, 3, 1)
        operands = [quantized("Input", x.shape), _constant([1, 2])]
        y = quantized("Output", (x.shape[0], 1, 1, x.shape[3]))
        return _graph("MEAN", operands, [y], keep_dims=True), _REFERENCE, [x], (0, 2, 3, 1)
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
    options: dict[str, Any] = {"activation": ""}
    shape: Any = (rows, count)
    if name == "CONV_2D":
        x, shape, weights = x[None, None], (1, 1, *shape), weights[:, None, None]
        options |= {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    first = quantized(left, x.shape)
    of_bias = [first.scales[0] * scale for scale in scales]
    operands = [first, _constant(weights, np.int8, scales), _constant(bias, np.int32, of_bias)]
    return _graph(name, operands, [quantized("Output", shape)], **options), resolver, [x], order


def _signed(tensor: Held) -> np.ndarray:
    """An array, of int8 where it is uint8."""
    array = to_numpy(tensor)
    return (array.astype(int) - 128).astype(np.int8) if array.dtype == np.uint8 else array


if __name__ == "__main__":
    sys.exit(main())
