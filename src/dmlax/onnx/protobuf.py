"""Reads an ONNX file or model into a graph, and refuses a malformed one before it allocates.

Loading imports `onnx` in this file alone.
"""

import collections
import contextlib
import itertools
import math
import mmap
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dmlax.errors import UnsupportedError
from dmlax.onnx.budget import MAXIMUM_RANK, Budget, OverBudget
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import (
    MAXIMUM_DEPTH,
    SHORT_DOMAINS,
    Graph,
    Node,
    TensorType,
    in_order,
    operator_name,
)
from dmlax.onnx.operators.values import bits_of
from dmlax.onnx.wire import count_fields, cut_initializers, cut_raw_data

_OPSETS_END = 1 << 31
_IN_PLACE_BYTES = 1 << 12  # a tensor that is read in place: a weight
_FIELD_BYTES = 512  # that reading a node, an initializer or an input takes beside its data
_MOST_INTEGERS, _LARGE = 64, 1 << 16  # in what shape inference sees
_COPY_BYTES = 2048  # of a node of a function's body
_MOST_CALLS = 32  # of functions in functions
_EXTRA = 'reading an ONNX model needs the onnx package: pip install "dmlax[onnx]"'


def read(model: Any, operators: Collection[str] = ()) -> Graph:
    """Reads a path, the bytes of a model, or a ModelProto.

    Args:
      model: what is read.
      operators: names of operators that stay nodes where the model has functions for them.

    Raises:
      ImportError: the `onnx` package is not installed.
      ModelError: the model is malformed.
    """
    try:
        import onnx
    except ImportError:
        raise ImportError(_EXTRA) from None
    if isinstance(model, onnx.ModelProto):
        reader = _Reader(onnx, None, model.ByteSize(), operators)
        return reader.graph(model, _tensors(model.graph))
    path = None if isinstance(model, bytes) else Path(model)
    data = memoryview(model) if path is None else _read_file(path)
    reader = _Reader(onnx, path and path.parent, len(data), operators)
    return reader.graph(*_parse(reader, data, str(path or "the model")))


def _read_file(path: Path) -> memoryview:
    """Reads a file into memory of its own, which is freed as a whole with its last array.

    A freed piece of the heap stays with the process.
    """
    if not path.is_file():  # a pipe, or an error
        return memoryview(path.read_bytes())
    with path.open("rb") as file:
        memory = mmap.mmap(-1, max(1, os.path.getsize(path)))
        count = file.readinto(memory)
    return memoryview(memory).toreadonly()[:count]


class _Tensor(NamedTuple):
    """An initializer's message, and its raw data where that was cut out of it."""

    message: Any
    raw: memoryview | None = None


def _tensors(graph: Any) -> Iterator[_Tensor]:
    return (_Tensor(message) for message in graph.initializer)


class _Scope(NamedTuple):
    """The context in which the nodes of a graph or of a function body are read.

    Attributes:
      opsets: by domain.
      attributes: those of the call of a function, None outside of a function.
      functions: the functions whose bodies are around.
      depth: the number of graphs around.
    """

    opsets: Mapping[str, int]
    attributes: Mapping[str, Any] | None = None
    functions: tuple[Any, ...] = ()
    depth: int = 0


def _parse(reader: "_Reader", data: memoryview, what: str) -> tuple[Any, Iterator[_Tensor]]:
    """The model without its initializers, and these, which are parsed one by one."""
    with _malformed(what):
        count = count_fields(data, 1 + reader.budget.left // _FIELD_BYTES)
    reader.spend(
        count * _FIELD_BYTES, f"{what}, of {count} nodes, tensors and other fields or more,"
    )
    with _malformed(what):
        rest, values = cut_initializers(data)
        model = reader.onnx.ModelProto.FromString(rest)
    return model, (_parse_tensor(reader.onnx, each, what) for each in values)


@contextlib.contextmanager
def _malformed(what: str) -> Iterator[None]:
    """Converts the errors of the wire format, and of protobuf, whose class is its own."""
    try:
        yield
    except Exception as error:
        raise ModelError(f"{what} is not an ONNX model: {error}") from None


def _parse_tensor(onnx: Any, data: memoryview, what: str) -> _Tensor:
    with _malformed(what):
        rest, values = cut_raw_data(data)
        if len(values) != 1:
            return _Tensor(onnx.TensorProto.FromString(bytes(data)))
        return _Tensor(onnx.TensorProto.FromString(rest), values[0])


class _Reader:
    """Reads one model's protobuf messages."""

    def __init__(
        self, onnx: Any, folder: Path | None, size: int, operators: Collection[str]
    ) -> None:
        self.onnx = onnx
        self.operators = operators
        self.functions: dict[Any, Any] = {}
        self.calls: collections.Counter[str] = collections.Counter()  # of functions, by name
        self.folder = folder
        self.budget = Budget(size)
        self.files: set[Path] = set()  # of external data

    def spend(self, count: int, what: str) -> None:
        """Counts what is not read in place."""
        try:
            self.budget.spend(count)
        except OverBudget as error:
            raise ModelError(f"{what} {error}") from None

    def graph(self, model: Any, tensors: Iterator[_Tensor]) -> Graph:
        """Converts a ModelProto and its initializers."""
        scope = _Scope(dict(map(self._opset, model.opset_import)))
        graph = model.graph
        if not graph.node:
            raise ModelError("the model has no node")
        for function in model.functions:
            self.functions.setdefault(_function_key(function, function.name), function)
        constants = self._all_constants(graph, tensors)
        if not all(value.name for value in graph.input):
            raise ModelError("an input has no name")
        inputs = {
            _text(value.name, "an input"): self._tensor_type(value)
            for value in graph.input
            if value.name not in constants
        }
        nodes = tuple(self._nodes(graph.node, scope))
        outputs = tuple(_text(value.name, "an output") for value in graph.output)
        types = self._types((*graph.value_info, *graph.output))
        found = Graph(nodes, inputs, outputs, constants, types=types)
        return _share_constants(in_order(_lift_constants(found)), {})

    def _all_constants(self, graph: Any, tensors: Iterator[_Tensor]) -> dict[str, np.ndarray]:
        if graph.sparse_initializer:
            raise ModelError("the model has a sparse initializer, which is not read")
        return dict(self._constants(tensors))

    def _types(self, values: Iterable[Any]) -> dict[str, TensorType]:
        """The types that a file declares for tensors, as far as they can be read."""
        types = {}
        for value in values:
            with contextlib.suppress(ModelError):
                types[value.name] = self._tensor_type(value)
        return types

    def _subgraph(self, graph: Any, scope: _Scope, what: str) -> Graph:
        """Converts a GraphProto of an attribute; its parameters are its inputs.

        Values of the graphs around it are neither constants nor parameters.
        """
        if scope.depth >= MAXIMUM_DEPTH:
            raise ModelError(f"{what} is nested deeper than {MAXIMUM_DEPTH} subgraphs")
        constants = self._all_constants(graph, _tensors(graph))
        names = tuple(_text(value.name, f"an input of {what}") for value in graph.input)
        parameters = tuple(name for name in names if name not in constants)
        if "" in parameters or len({*parameters}) != len(parameters):
            raise ModelError(f"{what} has an input without a name, or one twice")
        nodes = tuple(self._nodes(graph.node, scope._replace(depth=scope.depth + 1)))
        outputs = tuple(_text(value.name, f"an output of {what}") for value in graph.output)
        types = self._types((*graph.value_info, *graph.output))
        return _lift_constants(Graph(nodes, {}, outputs, constants, parameters, types))

    def _nodes(self, protos: Iterable[Any], scope: _Scope) -> Iterator[Node]:
        """Converts nodes; a call of a function becomes the nodes of its body."""
        for index, proto in enumerate(protos):
            node = self._node(proto, index, scope)
            key = _function_key(proto, proto.op_type)
            if key in self.functions and operator_name(*key[:2]) not in self.operators:
                yield from self._inline(node, key, scope)
            else:
                yield _capture(node)

    def _inline(self, node: Node, key: tuple[str, ...], scope: _Scope) -> list[Node]:
        """The body of a function, with the names and attributes of a call."""
        function = self.functions[key]
        what = f"function {node.type!r}"
        if key in scope.functions or len(scope.functions) >= _MOST_CALLS:
            rule = "calls itself" if key in scope.functions else "is nested too deep"
            raise ModelError(f"{what} {rule}")
        if len(node.inputs) > len(function.input) or len(node.outputs) > len(function.output):
            raise ModelError(f"{node} has more inputs or outputs than its function")
        defaults = {
            each.name: self._attribute(each, what, scope) for each in function.attribute_proto
        }
        opsets = dict(map(self._opset, function.opset_import)) or scope.opsets
        inner = _Scope(
            opsets, {**defaults, **node.attributes}, (*scope.functions, key), scope.depth
        )
        self.calls[node.name] += 1
        count = self.calls[node.name]
        call = node.name if count == 1 else f"{node.name}#{count}"
        given = itertools.zip_longest(function.input, node.inputs, fillvalue="")
        names = {"": "", **dict(given)}
        copies = []
        for formal, actual in zip(function.output, node.outputs, strict=False):
            if formal in names and actual:  # an output that is an input, or is there twice
                inputs = (names[formal],)
                copies.append(Node(actual, "Identity", "", 13, inputs, (actual,), {}))
            elif actual:
                names[formal] = actual

        def rename(name: str) -> str:
            found: str = names.setdefault(name, f"{call}//{name}")
            return found

        body = []
        for each in self._nodes(function.node, inner):
            self.spend(_COPY_BYTES, f"{what}, of many nodes,")
            body.append(
                each.replace(
                    name=f"{call}/{each.name}",
                    inputs=tuple(map(rename, each.inputs)),
                    outputs=tuple(map(rename, each.outputs)),
                )
            )
        return [*body, *copies]

    def _opset(self, opset: Any) -> tuple[str, int]:
        domain = _domain(_text(opset.domain, "an opset"))
        if not 0 < opset.version < _OPSETS_END:
            raise ModelError(f"the model imports opset {opset.version} of domain {domain!r}")
        return domain, opset.version

    def _constants(self, tensors: Iterator[_Tensor]) -> Iterator[tuple[str, np.ndarray]]:
        seen = set()
        for tensor, raw in tensors:
            if not tensor.name or tensor.name in seen:
                raise ModelError(f"initializer {tensor.name!r} has no name, or one twice")
            seen.add(_text(tensor.name, "an initializer"))
            yield tensor.name, self.array(tensor, f"initializer {tensor.name!r}", raw)

    def _tensor_type(self, value: Any) -> TensorType:
        what = f"input {value.name!r}"
        if not value.type.HasField("tensor_type"):
            raise ModelError(f"{what} is not a tensor")
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            raise ModelError(f"{what} has no rank: give it in input_shapes")
        sizes = []
        for axis, size in enumerate(tensor.shape.dim):
            if size.WhichOneof("value") == "dim_value" and size.dim_value >= 0:
                sizes.append(size.dim_value)
            else:
                name = _text(size.dim_param, f"axis {axis} of {what}")
                sizes.append(_dimension_name(name, value.name, axis))
        return TensorType(self._dtype(tensor.elem_type, what), tuple(sizes))

    def _dtype(self, number: int, what: str) -> np.dtype:
        try:
            dtype: np.dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(number))
        except (KeyError, ValueError, TypeError):
            raise ModelError(f"{what} has the unknown data type {number}") from None
        return dtype

    def _node(self, node: Any, index: int, scope: _Scope) -> Node:
        attribute_names = (attribute.name for attribute in node.attribute)
        own = (node.name, node.op_type, node.domain)
        for text in (*own, *node.input, *node.output, *attribute_names):
            _text(text, f"node {index}")
        name = node.name or next((each for each in node.output if each), f"node {index}")
        domain = _domain(node.domain)
        if not node.op_type or not any(node.output):
            raise ModelError(f"node {name!r} has no operator or no output")
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            if attribute.name in attributes:
                raise ModelError(f"node {name!r} has attribute {attribute.name!r} twice")
            value = self._attribute(attribute, name, scope)
            if value is not None:  # a function's call may leave it out
                attributes[attribute.name] = value
        version = self._version(node.op_type, domain, scope.opsets, name)
        inputs, outputs = tuple(node.input), tuple(node.output)
        return Node(name, node.op_type, domain, version, inputs, outputs, attributes)

    def _version(self, op: str, domain: str, opsets: Mapping[str, int], name: str) -> int:
        """The opset in which an operator's form began; the imported one for other domains."""
        if domain not in opsets:
            if domain:  # tools leave out the import of their own domains
                return 1
            raise ModelError(f"node {name!r}: the model imports no opset for ONNX's own domain")
        try:
            schema = self.onnx.defs.get_schema(op, opsets[domain], domain)
        except self.onnx.defs.SchemaError:
            return opsets[domain]
        return int(schema.since_version)

    def _attribute(self, attribute: Any, node: str, scope: _Scope) -> Any:
        kinds = self.onnx.AttributeProto
        what = f"attribute {attribute.name!r} of node {node!r}"
        if attribute.ref_attr_name:
            if scope.attributes is None:
                raise ModelError(f"{what} refers to an attribute of a function")
            return scope.attributes.get(_text(attribute.ref_attr_name, what))
        if attribute.type == kinds.TENSOR:
            return self.array(attribute.t, what)
        if attribute.type == kinds.GRAPH:
            return self._subgraph(attribute.g, scope, what)
        scalars = (kinds.FLOAT, kinds.INT, kinds.STRING)
        if attribute.type not in (*scalars, kinds.FLOATS, kinds.INTS, kinds.STRINGS):
            raise UnsupportedError(f"{what} has the type {attribute.type}, which is not read")
        value = self.onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, int | float):
            return value
        return tuple(
            each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in value
        )

    def array(self, tensor: Any, what: str, raw: memoryview | None = None) -> np.ndarray:
        """Reads a tensor whose data has the size that it declares; raw data may be apart."""
        dims = tuple(tensor.dims)
        if len(dims) > MAXIMUM_RANK or any(size < 0 for size in dims):
            raise ModelError(f"{what} has the shape {list(dims)[:MAXIMUM_RANK]}")
        dtype = self._dtype(tensor.data_type, what)
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            return self._external(tensor, dtype, dims, what)
        if dtype.hasobject:
            raise UnsupportedError(f"{what} holds strings, which no operator computes with")
        size = math.prod(dims)
        if raw is None and tensor.HasField("raw_data"):
            raw = memoryview(tensor.raw_data)
        if raw is None:
            self._expect_elements(tensor, dtype, size, what)
            self.spend(size * dtype.itemsize, what)
            return self._convert(tensor, what)
        found, wanted = len(raw), _bytes(dtype, size)
        if found != wanted:
            raise ModelError(f"{what} has {found} bytes, expected {wanted} for {list(dims)}")
        if dtype.isbuiltin == 1 and dtype.kind in "biuf":
            return _from_raw(raw, dtype, dims)
        tensor.raw_data = bytes(raw)
        return self._convert(tensor, what)

    def _expect_elements(self, tensor: Any, dtype: np.dtype, size: int, what: str) -> None:
        """Counts the elements of a tensor that has them in a field of its type."""
        field = self.onnx.helper.tensor_dtype_to_field(tensor.data_type)
        found = len(getattr(tensor, field))
        if bits_of(dtype) < 8:
            size = _bytes(dtype, size)  # an element of the field is a byte
        if found != size:
            wanted = f"expected {size} for {list(tensor.dims)}"
            raise ModelError(f"{what} has {found} elements, {wanted}")

    def _convert(self, tensor: Any, what: str) -> np.ndarray:
        try:
            return np.asarray(self.onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(f"{what} is malformed: {error}") from None

    def _external(
        self, tensor: Any, dtype: np.dtype, dims: tuple[int, ...], what: str
    ) -> np.ndarray:
        """Reads a tensor from a file beside the model, and from nowhere else."""
        if dtype.hasobject:
            raise ModelError(f"{what} holds strings, which no file of external data has")
        entries = {entry.key: _text(entry.value, what) for entry in tensor.external_data}
        if self.folder is None:
            raise ModelError(f"{what} is in a file of its own: load the model by its path")
        path = _beside(self.folder.resolve(), entries.get("location", ""), what)
        wanted = _bytes(dtype, math.prod(dims))
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", wanted))
        except ValueError:
            raise ModelError(f"{what} has an offset or a length that is no number") from None
        inside = offset >= 0 and offset + wanted <= os.path.getsize(path)
        if length != wanted or not inside:
            raise ModelError(f"{what} has {length} bytes at {offset}, expected {wanted} in {path}")
        if path not in self.files:
            self.files.add(path)
            self.budget.add(os.path.getsize(path))
        self.spend(wanted, what)
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(wanted)
        if bits_of(dtype) == 8 * dtype.itemsize:
            return np.frombuffer(data, dtype.newbyteorder("<")).reshape(dims)
        raw = self.onnx.TensorProto(data_type=tensor.data_type, dims=dims, raw_data=data)
        return self._convert(raw, what)


def _bytes(dtype: np.dtype, size: int) -> int:
    """The bytes of a tensor in a file, whose last byte may be full in part."""
    return -(-size * bits_of(dtype) // 8)


def _beside(folder: Path, location: str, what: str) -> Path:
    """The path of a file in a folder or below."""
    try:
        path = (folder / location).resolve()
        fits = path.is_relative_to(folder) and path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name that is too long, a NUL, a loop of links
        fits = False
    if not fits:
        shown = f"{location[:100]!r}..." if location[100:] else repr(location)
        raise ModelError(f"{what} is in {shown}, no file beside the model")
    return path


def _from_raw(raw: memoryview, dtype: np.dtype, dims: tuple[int, ...]) -> np.ndarray:
    """The bytes as an array; small ones are copied, as constants outlive the file's memory."""
    array = np.frombuffer(raw, dtype.newbyteorder("<")).reshape(dims)
    return array if array.nbytes >= _IN_PLACE_BYTES else array.copy()


def _function_key(proto: Any, op: str) -> tuple[str, str, str]:
    return _domain(proto.domain), op, getattr(proto, "overload", "")


def _capture(node: Node) -> Node:
    """Adds the tensors of the graphs around that the subgraphs of a node read to its inputs."""
    graphs = node.graphs
    if not graphs:
        return node
    if node.op == "Loop":  # its captured tensors lie behind the trip count and the condition
        node = node.replace(inputs=(*node.inputs, "", "")[: max(2, len(node.inputs))])
    names: dict[str, str] = {}
    for graph in graphs.values():
        known = graph.tensors()
        reads = itertools.chain.from_iterable(each.inputs for each in graph.nodes)
        names.update((x, x) for x in (*reads, *graph.outputs) if x and x not in known)
    # A formal input of one subgraph hides a captured tensor of another: it is captured by both.
    for graph in graphs.values():
        if hidden := names.keys() & graph.tensors():
            raise ModelError(f"{node}: its subgraphs give two tensors the name {min(hidden)!r}")
    graphs = {
        key: in_order(graph.replace(parameters=(*graph.parameters, *names)))
        for key, graph in graphs.items()
    }
    return node.with_graphs(graphs, names)


def _share_constants(graph: Graph, around: Mapping[str, np.ndarray]) -> Graph:
    """Gives subgraphs the constants of the graphs around them that they read.

    Args:
      graph: a graph, or a subgraph.
      around: those that a subgraph captures, by its names.
    """
    constants = {**graph.constants, **around}

    def share(node: Node) -> Node:
        if not node.graphs:
            return node
        outer = node.inputs[len(node.inputs) - len(node.captures) :]
        captured = dict(zip(node.captures, outer, strict=True))
        shared = {name: constants[x] for name, x in captured.items() if x in constants}
        captured = {name: x for name, x in captured.items() if name not in shared}
        graphs = {}
        for key, subgraph in node.graphs.items():
            parameters = tuple(name for name in subgraph.parameters if name not in shared)
            graphs[key] = _share_constants(subgraph.replace(parameters=parameters), shared)
        return node.with_graphs(graphs, captured)

    return graph.replace(nodes=tuple(map(share, graph.nodes)), constants=constants)


def _text(text: str | bytes, owner: str) -> str:
    """A string of the file; protobuf gives the bytes of one that is not UTF-8."""
    if isinstance(text, bytes):
        raise ModelError(f"{owner} has a name or a text that is not UTF-8: {text[:100]!r}")
    return text


def _domain(name: str) -> str:
    return SHORT_DOMAINS.get(name, name)


def _dimension_name(name: str, tensor: str, axis: int) -> str:
    """A name that `jax.export.symbolic_shape` takes."""
    letters = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return letters if letters[:1].isalpha() else f"{_dimension_prefix(tensor)}_{axis}{letters}"


def _dimension_prefix(tensor: str) -> str:
    letters = "".join(c if c.isalnum() and c.isascii() else "_" for c in tensor)
    return letters if letters[:1].isalpha() else f"dim{letters}"


def _lift_constants(graph: Graph) -> Graph:
    """Makes the values of Constant nodes constants of the graph."""
    constants, nodes = dict(graph.constants), []
    for node in graph.nodes:
        value = _constant(node) if node.op == "Constant" and not node.domain else None
        if value is None:
            nodes.append(node)
        else:
            constants[node.outputs[0]] = value
    return graph.replace(nodes=tuple(nodes), constants=constants)


def _constant(node: Node) -> np.ndarray | None:
    dtypes = {
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_float": np.float32,
        "value_floats": np.float32,
    }
    for name, value in node.attributes.items():
        if name == "value" and isinstance(value, np.ndarray):
            return value
        if name in dtypes and not isinstance(value, str | Graph):
            with _malformed(f"{node}"):
                return np.asarray(value, dtypes[name])
    return None


def infer_types(node: Node, operands: Sequence[Any]) -> dict[str, tuple[Any, Sequence[Any]]]:
    """The types that ONNX's shape inference gives a node's outputs; none where it cannot.

    It takes memory in proportion to integers, so that it sees none that is large.
    """
    numbers = [x for x in (*operands, *node.attributes.values()) if not hasattr(x, "aval")]
    if any(map(_is_large, numbers)):
        return {}
    try:
        import onnx
        from onnx import helper
        from onnx.shape_inference import infer_node_outputs

        schema = onnx.defs.get_schema(node.op, node.version, node.domain)
        values = {name: x for name, x in zip(node.inputs, operands, strict=True) if name}
        attributes = {
            name: onnx.numpy_helper.from_array(x) if isinstance(x, np.ndarray) else x
            for name, x in node.attributes.items()
        }
        proto = helper.make_node(node.op, node.inputs, node.outputs, domain=node.domain)
        proto.attribute.extend(helper.make_attribute(*pair) for pair in attributes.items())
        types = {
            name: helper.make_tensor_type_proto(
                helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)),
                [size if isinstance(size, int) else str(size) for size in x.shape],
            )
            for name, x in values.items()
        }
        known = {
            name: onnx.numpy_helper.from_array(x)
            for name, x in values.items()
            if isinstance(x, np.ndarray) and x.dtype != object
        }
        return {
            name: (
                helper.tensor_dtype_to_np_dtype(x.tensor_type.elem_type),
                [size.dim_value or size.dim_param for size in x.tensor_type.shape.dim],
            )
            for name, x in infer_node_outputs(schema, proto, types, known).items()
            if x.tensor_type.HasField("shape")
        }
    except Exception:  # no schema, no package, or an operand that the inference refuses
        return {}


def _is_large(value: Any) -> bool:
    """True for known integers that are many or large, and for an attribute that is no array."""
    try:
        array = np.asarray(value)
    except ValueError:  # parts of several lengths
        return True
    is_integer = array.dtype.kind in "iu"
    return is_integer and (array.size > _MOST_INTEGERS or bool(np.any(abs(array) > _LARGE)))
