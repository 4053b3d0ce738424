"""The weights of a model: on the device, packed for the operators that read packed ones."""

from collections import UserDict
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

import dmlax
from dmlax._core.prepared_weights import PreparedWeights, unpack_on_host
from dmlax._fused.float_convolution.plan import PackedFilter
from dmlax.onnx.graph import MICROSOFT, Constants, Graph, Node
from dmlax.onnx.identity import IdentityMap
from dmlax.onnx.memory import to_device
from dmlax.onnx.operators import find
from dmlax.onnx.operators.packed import PackedIntegers
from dmlax.onnx.operators.values import NARROW
from dmlax.onnx.operators.windows import ConvolutionLayout

PLACES: dict[str, tuple[int, ...]] = {  # the inputs that are weights and their zero points
    "QLinearConv": (3, 5),
    "ConvInteger": (1, 3),
    "QLinearMatMul": (3, 5),
    "MatMulInteger": (1, 3),
    "QGemm": (3, 5),
    "QGemmAdd": (3, 5),
    "QLinearSelfAttention": (3, 5),
    "MatMulIntegerToFloat": (1, 5),
    "DynamicQuantizeMatMul": (1, 3),
    "DynamicQuantizeLSTM": (1, 9, 2, 11),
    "QAttention": (1, 7),
}
FLOAT_PLACES = {"FloatConv": 1, "FloatGemm": 1}  # the place of float weights
PACKED_PLACES = {  # the operand that stays packed
    "DequantizedMatMul": 1,
    "GatherBlockQuantized": 0,
    **FLOAT_PLACES,
}
_RANKS = {"QLinearConv": (3, 4), "ConvInteger": (3, 4), "DynamicQuantizeLSTM": (2, 3)}  # packed
Param: TypeAlias = jax.Array | PreparedWeights[Any] | PackedIntegers | PackedFilter


class Weight(NamedTuple):
    """The param of a tensor of the file."""

    param: Param
    is_transposed: bool = False
    columns: slice | None = None  # the tensor's, of a param that `join_products` made

    def to_host(self) -> np.ndarray:
        """Returns the file's tensor, bit for bit."""
        if isinstance(self.param, PackedIntegers | PackedFilter):
            return self.param.to_host()
        prepared = self.param if isinstance(self.param, PreparedWeights) else None
        array = np.asarray(self.param) if prepared is None else unpack_on_host(prepared)
        array = array.T if self.is_transposed else array
        is_whole = self.columns is None and not self.is_transposed
        return array if is_whole else np.ascontiguousarray(array[..., self.columns or slice(None)])


def find_parts(
    graph: Graph, constants: Constants, weights: Mapping[str, Weight]
) -> IdentityMap[Weight]:
    """Returns the weights of tensors of joined products, by array."""
    parts = IdentityMap[Weight]()
    for node in graph.nodes:
        start = 0
        for name in node.attributes.get("parts", ()) if node.domain == MICROSOFT else ():
            width = constants[name].shape[1]
            weight = weights[node.inputs[PLACES[node.op][0]]]
            parts[constants[name]] = weight._replace(columns=slice(start, start + width))
            start += width
    return parts


class FileConstants(UserDict[str, np.ndarray | Weight]):
    """The tensors of a file; the params among them are read from the device, not held twice."""

    def __init__(
        self,
        constants: Constants,
        params: Constants,
        weights: Mapping[str, Weight],
        parts: IdentityMap[Weight],
    ) -> None:
        held = IdentityMap((array, weights[name]) for name, array in params.items())
        held.update(parts)
        self.data = {name: held.get(array, array) for name, array in constants.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        held = self.data[name]
        return held if isinstance(held, np.ndarray) else held.to_host()

    def read(self, arrays: IdentityMap[np.ndarray]) -> dict[str, np.ndarray]:
        """Reads all tensors, and shared params once: `arrays` has those that were read."""
        for name, held in self.data.items():
            if held not in arrays:
                arrays[held] = self[name]
        return {name: arrays[held] for name, held in self.data.items()}


def prepare(graph: Graph, params: Constants) -> dict[str, Weight]:
    """Packs the weights of convolutions and matrix products, under the same names.

    All are on the device: a call would copy an array of the host there each time. A tensor that
    several nodes read is packed if all of them pack it in one way, as both branches of an If.
    """
    uses: dict[str, list[_Use | None]] = {}
    _find_uses(graph, {name: name for name in params}, uses)
    weights = {name: _hold(array) for name, array in params.items() if name not in uses}
    for name, (first, *others) in uses.items():
        is_packed = first is not None and all(use and use.is_like(first) for use in others)
        array = params[name]
        weights[name] = _prepare(first, array) if first and is_packed else _hold(array)
    return {name: weights[name] for name in params}


class _Use(NamedTuple):
    """A node that reads a param as its weights, with their zero point if it is constant."""

    node: Node
    zero_point: np.ndarray | None

    def is_like(self, other: "_Use") -> bool:
        """True if both nodes take the same packed weights."""
        if self.node.op in FLOAT_PLACES:
            return _float_packing(self.node) == _float_packing(other.node)
        is_like = (self.node.op, self.node.attributes) == (other.node.op, other.node.attributes)
        return is_like and np.array_equal(np.asarray(self.zero_point), np.asarray(other.zero_point))


def _float_packing(node: Node) -> dict[str, Any]:
    """The options with which a node's weights are packed."""
    is_product = node.op == "FloatGemm"
    is_transposed = is_product and not node.attributes.get("transB")
    return {"groups": int(node.attributes.get("group", 1)), "is_transposed": is_transposed}


def _find_uses(graph: Graph, params: Mapping[str, str], uses: dict[str, list[_Use | None]]) -> None:
    """Lists the uses of params, by their names in the outermost graph; None for other places."""
    for node in graph.nodes:
        for i, name in enumerate(node.operands):
            if name in params:
                uses.setdefault(params[name], []).append(_use(graph, node, i))
        captured = node.captured.items()
        inner = {name: params[outer] for name, outer in captured if outer in params}
        for subgraph in node.graphs.values():
            _find_uses(subgraph, inner, uses)


def _use(graph: Graph, node: Node, place: int) -> _Use | None:
    if place == FLOAT_PLACES.get(node.op):
        return _Use(node, None)
    row = find(node)
    if row is not None and row.prepare is not None:
        return _Use(node, None) if place == 1 else None
    places = iter(PLACES.get(node.op, ()))
    zero_points = dict(zip(places, places, strict=True))
    if place not in zero_points:
        return None
    name = node.input(zero_points[place])
    return None if name and name not in graph.constants else _Use(node, graph.constants.get(name))


def _hold(array: np.ndarray) -> Weight:
    """Holds an array on the device; integers of fewer than 8 bits stay packed."""
    is_narrow = array.dtype.name in NARROW
    return Weight(PackedIntegers.pack(array) if is_narrow else to_device(array))


def _prepare(use: _Use, weight: np.ndarray) -> Weight:
    node, zero_point = use
    if node.op in FLOAT_PLACES:
        return Weight(PackedFilter.pack(weight, **_float_packing(node)))
    row = find(node)
    if row is not None and row.prepare is not None:
        prepared = row.prepare(node, weight)
        return Weight(to_device(weight)) if prepared is None else Weight(*prepared)
    if weight.ndim not in _RANKS.get(node.op, (2,)):
        return Weight(to_device(weight))
    if node.op in ("QLinearConv", "ConvInteger"):
        return Weight(_prepare_filter(use, weight))
    if weight.ndim == 3 and zero_point is not None:  # one value per direction, or one per column
        zero_point = zero_point.reshape(len(weight), 1, -1)
        zero_point = np.broadcast_to(zero_point, (len(weight), 1, weight.shape[2]))
    is_transposed = weight.ndim == 2 and bool(node.attributes.get("transB"))
    matrix = weight.T if is_transposed else weight
    prepared = dmlax.prepare_matrix(matrix, b_zero_point=zero_point, packing="auto")
    return Weight(prepared, is_transposed)


def _prepare_filter(use: _Use, weight: np.ndarray) -> Param:
    node, zero_point = use
    if zero_point is not None and zero_point.shape == (1,):
        zero_point = zero_point.reshape(())
    places = {name: node.attributes.get(name, 0) for name in ConvolutionLayout._fields}
    return dmlax.prepare_filter(
        weight,
        filter_zero_point=zero_point,
        group_count=int(node.attributes.get("group", 1)),
        dimension_numbers=ConvolutionLayout(**places).dimension_numbers(weight.ndim),
        packing="auto",
    )
