"""The weights of a model: on the device, packed where an operator reads them so."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import dmlax
from dmlax._core.prepared_weights import PreparedWeights, unpack_on_host
from dmlax.onnx.graph import MICROSOFT, Graph, Node
from dmlax.onnx.operators.packed import PackedIntegers
from dmlax.onnx.operators.values import NARROW
from dmlax.onnx.operators.windows import ConvolutionLayout

PLACES: dict[str, tuple[int, ...]] = {  # of the weights and of their zero point
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
PACKED_PLACES = {"DequantizedMatMul": 1, "GatherBlockQuantized": 0}  # of operands that stay packed


class Weight(NamedTuple):
    """A param, and whether it is the transpose of the file's tensor."""

    param: Any
    is_transposed: bool = False

    def to_host(self) -> np.ndarray:
        """Returns the file's tensor, bit for bit."""
        if isinstance(self.param, PackedIntegers):
            return self.param.to_host()
        is_packed = isinstance(self.param, PreparedWeights)
        array = unpack_on_host(self.param) if is_packed else np.asarray(self.param)
        return np.ascontiguousarray(array.T) if self.is_transposed else array


class Part(NamedTuple):
    """Columns of a param that `join_products` made of a file's tensors."""

    weight: Weight
    columns: slice

    def to_host(self) -> np.ndarray:
        """Returns the file's tensor, bit for bit."""
        return np.ascontiguousarray(self.weight.to_host()[:, self.columns])


def find_parts(
    graph: Graph, constants: Mapping[str, np.ndarray], weights: Mapping[str, Weight]
) -> dict[int, Part]:
    """Returns where the tensors of joined products lie, by the arrays' ids."""
    parts = {}
    for node in graph.nodes:
        start = 0
        for name in node.attributes.get("parts", ()) if node.domain == MICROSOFT else ():
            width = constants[name].shape[1]
            weight = weights[node.inputs[PLACES[node.op][0]]]
            parts[id(constants[name])] = Part(weight, slice(start, start + width))
            start += width
    return parts


class FileConstants(Mapping[str, np.ndarray]):
    """The tensors of a file; those that are params are read from these, and not held twice."""

    def __init__(
        self,
        constants: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        weights: Mapping[str, Weight],
        parts: Mapping[int, Part],
    ) -> None:
        held = {id(array): weights[name] for name, array in params.items()} | dict(parts)
        self._held: dict[str, np.ndarray | Weight | Part] = {
            name: held.get(id(array), array) for name, array in constants.items()
        }

    def __getitem__(self, name: str) -> np.ndarray:
        held = self._held[name]
        return held if isinstance(held, np.ndarray) else held.to_host()

    def read(self, arrays: dict[int, np.ndarray]) -> dict[str, np.ndarray]:
        """Reads all tensors; `arrays` are those that were read of shared params."""
        found = {}
        for name, held in self._held.items():
            if isinstance(held, np.ndarray):
                found[name] = held
                continue
            if id(held) not in arrays:
                arrays[id(held)] = held.to_host()
            found[name] = arrays[id(held)]
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def prepare(graph: Graph, params: Mapping[str, np.ndarray]) -> dict[str, Weight]:
    """Packs the weights of convolutions and matrix products, under the same names.

    All are on the device: a call would copy an array of the host there each time. A tensor that
    several nodes read is packed if all of them pack it in one way, as both branches of an If.
    """
    uses: dict[str, list[_Use | None]] = {}
    _find_uses(graph, {name: name for name in params}, uses)
    weights = {}
    for name, nodes in uses.items():
        first = nodes[0]
        if first is not None and all(use is not None and use.is_like(first) for use in nodes[1:]):
            weights[name] = _prepare(first.node, params[name], first.zero_point)
    return {
        name: weights[name] if name in weights else _held(array) for name, array in params.items()
    }


class _Use(NamedTuple):
    """A node that reads a param as its weights, with their zero point if it is constant."""

    node: Node
    zero_point: Any

    def is_like(self, other: "_Use") -> bool:
        """True if both nodes take the same packed weights."""
        same = (self.node.op, self.node.attributes) == (other.node.op, other.node.attributes)
        return same and np.array_equal(self.zero_point, other.zero_point)


def _find_uses(graph: Graph, params: Mapping[str, str], uses: dict[str, list[_Use | None]]) -> None:
    """Notes the places where params are read, by their names outside; None is no such use."""
    for node in graph.nodes:
        names = node.inputs[: len(node.inputs) - len(node.captures)]
        for i, name in enumerate(names):
            if name in params:
                uses.setdefault(params[name], []).append(_use(graph, node, i))
        captured = zip(node.captures, node.inputs[len(names) :], strict=True)
        inner = {name: params[outer] for name, outer in captured if outer in params}
        for subgraph in node.graphs.values():
            _find_uses(subgraph, inner, uses)


def _use(graph: Graph, node: Node, place: int) -> _Use | None:
    places = iter(PLACES.get(node.op, ()))
    zero_point = dict(zip(places, places, strict=True)).get(place)
    constant = ... if zero_point is None else _constant(graph, node, zero_point)
    return None if constant is ... else _Use(node, constant)


def _held(array: np.ndarray) -> Weight:
    """Holds an array on the device; integers of fewer than 8 bits stay packed."""
    is_narrow = array.dtype.name in NARROW
    return Weight(PackedIntegers.pack(array) if is_narrow else _copy_to_device(array))


def _copy_to_device(array: np.ndarray) -> jax.Array:
    """Returns a copy: an array of JAX may share the memory of one of NumPy, here the whole file's.

    `jnp.array` would compile a program for every shape.
    """
    copy: jax.Array = jax.device_put(np.array(array))
    return copy


def _constant(graph: Graph, node: Node, index: int) -> Any:
    """A constant operand, None where it is absent, and ... where it is computed."""
    name = node.inputs[index] if index < len(node.inputs) else ""
    return graph.constants.get(name, ...) if name else None


def _prepare(node: Node, weight: Any, zero_point: Any) -> Weight:
    if node.op in ("QLinearConv", "ConvInteger"):
        if zero_point is not None and zero_point.shape == (1,):
            zero_point = zero_point.reshape(())
        if weight.ndim not in (3, 4):
            return Weight(_copy_to_device(weight))
        places = {name: node.attributes.get(name, 0) for name in ConvolutionLayout._fields}
        filter = dmlax.prepare_filter(
            weight,
            filter_zero_point=zero_point,
            group_count=int(node.attributes.get("group", 1)),
            dimension_numbers=ConvolutionLayout(**places).dimension_numbers(weight.ndim),
            packing="auto",
        )
        return Weight(filter)
    if node.op == "DynamicQuantizeLSTM" and weight.ndim == 3:
        if zero_point is not None:  # one value or one per column for each direction
            zero_point = zero_point.reshape(len(weight), 1, -1)
            zero_point = np.broadcast_to(zero_point, (len(weight), 1, weight.shape[2]))
        return Weight(dmlax.prepare_matrix(weight, b_zero_point=zero_point, packing="auto"))
    if weight.ndim != 2:
        return Weight(_copy_to_device(weight))
    is_transposed = bool(node.attributes.get("transB"))
    matrix = weight.T if is_transposed else weight
    prepared = dmlax.prepare_matrix(matrix, b_zero_point=zero_point, packing="auto")
    return Weight(prepared, is_transposed)
