"""Building a model: the graph that says what is computed, and the graph of its file.

They are the same but for a QDQ file, which has float operators between DequantizeLinear and
QuantizeLinear where the former has one quantized operator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

from ..format.recipe import Recipe, expand
from ..format.tensors import Tensor
from ..operators._shared import floats
from .arrays import value_of, word_of
from .graph import MICROSOFT, Graph, Node, TensorType

WEIGHTS = (-64, 63)  # no sum of two products with a byte exceeds 16 bits
BIASES = (-900, 900)


class Quantized(NamedTuple):
    """A tensor with its scale and zero point, by their names."""

    tensor: str
    scale: str
    zero_point: str


class Ending(NamedTuple):
    """The scale and the zero point of a tensor that is to be made, and its data type."""

    scale: str
    zero_point: int
    dtype: str = "uint8"


@dataclass(frozen=True)
class Definition:
    """A model as it was built.

    The difference that is permitted in a tensor behind an exponential is a power of two, whose
    exponent is in `bounds`; every other tensor is exact.
    """

    name: str
    comment: str
    graph: Graph
    file: Graph
    inputs: Mapping[str, Tensor]
    bounds: Mapping[str, int] = field(default_factory=dict)


def scalar(dtype: str, word: int) -> Tensor:
    """Return a tensor of one element without dimensions."""
    return Tensor(dtype, (), (word,))


def float_scalar(text: str) -> Tensor:
    """Return a decimal rounded to float32."""
    return scalar("float32", word_of(Fraction(text)))


class Builder:
    """Collects nodes and constants, with drawn weights."""

    def __init__(self, seed: int, is_qdq: bool = False) -> None:
        """`seed` begins what is drawn."""
        self._seed = seed * 1000
        self._is_qdq = is_qdq
        self._nodes: list[Node] = []
        self._file_nodes: list[Node] = []
        self._constants: dict[str, Tensor] = {}
        self._file_constants: dict[str, Tensor] = {}
        self._inputs: dict[str, TensorType] = {}
        self._values: dict[str, Tensor] = {}

    def draw(self, dtype: str, sizes: Sequence[int], low: int, high: int) -> Tensor:
        """Return integers of a range."""
        self._seed += 1
        words = expand(Recipe(self._seed, low, high), prod(sizes))
        return Tensor(dtype, tuple(sizes), words)

    def float_input(self, name: str, sizes: Sequence[int], step: str, low: int, high: int) -> str:
        """Add an input of multiples of a step."""
        steps = self.draw("int32", sizes, low, high).words
        words = tuple(word_of(Fraction(step) * each) for each in steps)
        return self.input(name, Tensor("float32", tuple(sizes), words))

    def input(self, name: str, value: Tensor) -> str:
        """Add an input with its value."""
        self._inputs[name] = TensorType(value.dtype, value.sizes)
        self._values[name] = value
        return name

    def constant(self, name: str, value: Tensor, only_in_file: bool = False) -> str:
        """Add a constant; one of the same name has the same value."""
        held = self._file_constants if only_in_file else self._constants
        assert held.setdefault(name, value) == value
        return name

    def integers(self, name: str, *values: int) -> str:
        """Add a constant of int64, which says sizes or axes."""
        return self.constant(name, Tensor("int64", (len(values),), values))

    def scale(self, *texts: str) -> str:
        """Add a scale: one, or one for each channel."""
        words = tuple(word_of(Fraction(text)) for text in texts)
        sizes = () if len(texts) == 1 else (len(texts),)
        return self.constant(f"scale_{'_'.join(texts)}", Tensor("float32", sizes, words))

    def zero_point(self, dtype: str, *values: int) -> str:
        """Add a zero point: one, or one for each channel."""
        sizes = () if len(values) == 1 else (len(values),)
        name = f"zero_{dtype}_{'_'.join(map(str, values))}"
        return self.constant(name, Tensor(dtype, sizes, values))

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        output: str | Sequence[str],
        domain: str = "",
        **more: Any,
    ) -> str:
        """Add a node to both graphs, and return its first output."""
        outputs = (output,) if isinstance(output, str) else tuple(output)
        node = Node(op, domain, tuple(inputs), outputs, more)
        self._nodes.append(node)
        self._file_nodes.append(node)
        return outputs[0]

    def quantized(self, tensor: str, ending: Ending) -> Quantized:
        """Name the parameters of a tensor."""
        point = self.zero_point(ending.dtype, ending.zero_point)
        return Quantized(tensor, self.scale(ending.scale), point)

    def quantize(self, x: str, output: str, ending: Ending) -> Quantized:
        """Quantize floats."""
        y = self.quantized(output, ending)
        self.node("QuantizeLinear", [x, y.scale, y.zero_point], output)
        return y

    def dequantize(self, x: Quantized, output: str) -> str:
        """Give back floats."""
        return self.node("DequantizeLinear", x, output)

    def weight(self, name: str, sizes: Sequence[int], scales: Sequence[str]) -> Quantized:
        """Add a filter or a matrix of 7 bits, whose zero points are 0."""
        tensor = self.constant(name, self.draw("int8", sizes, *WEIGHTS))
        return Quantized(tensor, self.scale(*scales), self.zero_point("int8", *[0] * len(scales)))

    def bias(self, name: str, count: int) -> str:
        """Add a bias."""
        return self.constant(name, self.draw("int32", (count,), *BIASES))

    def convolution(
        self, x: Quantized, w: Quantized, bias: str, output: str, ending: Ending, **more: Any
    ) -> Quantized:
        """Convolve; in a QDQ file a Relu follows, as the output's range begins at 0."""
        y = self.quantized(output, ending)
        inputs = [*x, *w, y.scale, y.zero_point, *([bias] if bias else [])]
        operands = [x, w, *([self._bias(bias, x, w)] if bias else [])]
        self._fuse("QLinearConv", "", inputs, "Conv", operands, y, 0, more)
        return y

    def gemm(
        self, x: Quantized, w: Quantized, bias: str, output: str, ending: Ending, **more: Any
    ) -> Quantized:
        """Multiply by a matrix, and add a bias."""
        y = self.quantized(output, ending)
        inputs = [*x, *w, bias, y.scale, y.zero_point]
        operands = [x, w, *([self._bias(bias, x, w)] if bias else [])]
        axis = 0 if more.get("transB") else 1
        self._fuse("QGemm", MICROSOFT, inputs, "Gemm", operands, y, axis, more)
        return y

    def matrix_product(self, a: Quantized, b: Quantized, output: str, ending: Ending) -> Quantized:
        """Multiply matrices."""
        y = self.quantized(output, ending)
        self._fuse("QLinearMatMul", "", [*a, *b, y.scale, y.zero_point], "MatMul", [a, b], y, 1, {})
        return y

    def binary(self, op: str, a: Quantized, b: Quantized, output: str, ending: Ending) -> Quantized:
        """Add or multiply elements."""
        y = self.quantized(output, ending)
        self._fuse(f"QLinear{op}", MICROSOFT, [*a, *b, y.scale, y.zero_point], op, [a, b], y, 0, {})
        return y

    def unary(self, op: str, x: Quantized, output: str, ending: Ending, **more: Any) -> Quantized:
        """Apply a function or a pool to one tensor."""
        y = self.quantized(output, ending)
        inputs = [*x, y.scale, y.zero_point]
        only_quantized = {"channels_last": 0} if "AveragePool" in op else {}
        self._fuse(f"QLinear{op}", MICROSOFT, inputs, op, [x], y, 0, more, only_quantized)
        return y

    def concatenate(
        self, parts: Sequence[Quantized], output: str, ending: Ending, axis: int
    ) -> Quantized:
        """Join tensors along an axis."""
        y = self.quantized(output, ending)
        inputs = [y.scale, y.zero_point, *(name for part in parts for name in part)]
        more = {"axis": axis}
        self._fuse("QLinearConcat", MICROSOFT, inputs, "Concat", list(parts), y, 0, more)
        return y

    def move(
        self, op: str, x: Quantized, others: Sequence[str], output: str, **more: Any
    ) -> Quantized:
        """Move elements, which keep their parameters."""
        y = x._replace(tensor=output)
        self._fuse(op, "", [x.tensor, *others], op, [x, *others], y, 0, more)
        return y

    def finish(
        self,
        name: str,
        comment: str,
        outputs: Sequence[str],
        bounds: Mapping[str, int] | None = None,
    ) -> Definition:
        """Return the model."""
        graph = Graph(self._inputs, tuple(outputs), self._constants, tuple(self._nodes))
        read = {each for node in self._file_nodes for each in node.inputs}
        every = {**self._constants, **self._file_constants}
        held = {each: value for each, value in every.items() if each in read}
        file = Graph(self._inputs, tuple(outputs), held, tuple(self._file_nodes))
        return Definition(name, comment, graph, file, self._values, bounds or {})

    def _fuse(
        self,
        op: str,
        domain: str,
        inputs: Sequence[str],
        float_op: str,
        operands: Sequence[Quantized | str],
        y: Quantized,
        axis: int,
        more: Mapping[str, Any],
        only_quantized: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a quantized node, and to a QDQ file what ONNX Runtime fuses to it."""
        node = Node(op, domain, tuple(inputs), (y.tensor,), {**more, **(only_quantized or {})})
        self._nodes.append(node)
        if not self._is_qdq:
            self._file_nodes.append(node)
            return
        names = [
            each if isinstance(each, str) else self._dequantized(each, y.tensor, i, axis)
            for i, each in enumerate(operands)
        ]
        result = f"{y.tensor}_float"
        self._file_nodes.append(Node(float_op, "", tuple(names), (result,), more))
        if float_op == "Conv" and self._is_lowest(y.zero_point):
            self._file_nodes.append(Node("Relu", "", (result,), (f"{y.tensor}_relu",), {}))
            result = f"{y.tensor}_relu"
        ends = (result, y.scale, y.zero_point)
        self._file_nodes.append(Node("QuantizeLinear", "", ends, (y.tensor,), {}))

    def _dequantized(self, x: Quantized, output: str, index: int, axis: int) -> str:
        """Add to the file the floats of an operand, which nothing else reads."""
        name = f"{output}_operand_{index}"
        own = {"axis": 0 if x.tensor.endswith("bias") else axis}
        more = own if self._find(x.scale).sizes else {}
        self._file_nodes.append(Node("DequantizeLinear", "", tuple(x), (name,), more))
        return name

    def _is_lowest(self, zero_point: str) -> bool:
        found = self._constants[zero_point]
        return found.words == ({"uint8": 0, "int8": -128}[found.dtype],)

    def _bias(self, bias: str, x: Quantized, w: Quantized) -> Quantized:
        """Return a bias with the scale that a QDQ file gives it: of the input times the weights."""
        sx = value_of(self._find(x.scale).words[0], "float32")
        ws = self._find(w.scale)
        products = (sx * value_of(word, "float32") for word in ws.words)
        words = tuple(floats.encode(floats.exactly(each), "float32") for each in products)
        scale = self.constant(f"{bias}_scale", Tensor("float32", ws.sizes, words), True)
        zeros = Tensor("int32", ws.sizes, (0,) * len(words))
        return Quantized(bias, scale, self.constant(f"{bias}_zero", zeros, True))

    def _find(self, name: str) -> Tensor:
        return self._constants.get(name) or self._file_constants[name]
