"""Reads an ONNX file or model into a graph, and refuses a malformed one before it allocates.

Loading imports `onnx` in this file alone.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import mmap
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from dmlax.errors import UnsupportedError
from dmlax.onnx import memory
from dmlax.onnx.budget import MAXIMUM_RANK, Budget
from dmlax.onnx.errors import ModelError, expect
from dmlax.onnx.graph import (
    MAXIMUM_DEPTH,
    NO_RANK,
    SHORT_DOMAINS,
    Constants,
    Graph,
    Node,
    TensorType,
    in_order,
    operator_name,
)
from dmlax.onnx.operators import find
from dmlax.onnx.operators.values import SIZE_FUNCTIONS, bits_of
from dmlax.onnx.wire import GRAPH, INITIALIZER, RAW_DATA, count_fields, cut

if TYPE_CHECKING:
    from types import ModuleType

    import onnx

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"
_Tensor: TypeAlias = "tuple[onnx.TensorProto, memoryview | None]"
"""An initializer, and its raw data if that was cut out of the message."""
_FunctionKey: TypeAlias = tuple[str, str, str]  # domain, operator and overload
_OPSETS_END = 1 << 31
_IN_PLACE_BYTES = 1 << 12  # the size from which a tensor is read in place, as a weight
_FIELD_BYTES = 512  # the memory of reading a node, an initializer or an input, without its data
_MOST_INTEGERS, _LARGE = 64, 1 << 16  # integers in operands of shape inference
_COPY_BYTES = 2048  # the memory of a node of a function's body
_MOST_CALLS = 32  # the depth of functions in functions
_EXTRA = 'reading an ONNX model needs the onnx package: pip install "dmlax[onnx]"'


def read(model: Source, operators: Collection[str] = ()) -> Graph:
    """Reads a path, the bytes of a model, or a ModelProto.

    Args:
      model: the model.
      operators: names of operators that stay nodes though the model has functions for them.

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
        return reader.graph(model, ((tensor, None) for tensor in model.graph.initializer))
    path = None if isinstance(model, bytes) else Path(model)
    mapping = None
    if isinstance(model, bytes):
        data = memoryview(model)
    elif Path(model).is_file():
        data, mapping = _read_file(Path(model))
    else:  # a pipe, or an error
        data = memoryview(Path(model).read_bytes())
    reader = _Reader(onnx, path and path.parent, len(data), operators, mapping)
    return reader.graph(*_parse(reader, data, str(path or "the model")))


def _read_file(path: Path) -> tuple[memoryview, mmap.mmap]:
    """Reads a file into a mapping of memory, whose pieces the system takes back."""
    with path.open("rb") as file:
        mapping = mmap.mmap(-1, max(1, os.path.getsize(path)))
        count = file.readinto(mapping)
    return memoryview(mapping).toreadonly()[:count], mapping


class _Scope(NamedTuple):
    """The context in which the nodes of a graph or of a function body are read."""

    opsets: Mapping[str, int]  # imported, by domain
    attributes: Mapping[str, Any] | None = None  # the attributes of a function's call
    functions: tuple[_FunctionKey, ...] = ()  # the functions that are being inlined
    depth: int = 0  # the number of graphs around
    types: Mapping[str, bytes] | None = None  # serialized types of a function's tensors


class _Body(NamedTuple):
    """A function, and the serialized types of its tensors, if they are known."""

    function: onnx.FunctionProto
    types: Mapping[str, bytes] = MappingProxyType({})


def _parse(
    reader: _Reader, data: memoryview, what: str
) -> tuple[onnx.ModelProto, Iterator[_Tensor]]:
    """The model without its initializers, and these, which are parsed one by one."""
    with _malformed(what):
        count = count_fields(data, 1 + reader.budget.left // _FIELD_BYTES)
    text = f"{what}, of {count} nodes, tensors and other fields or more,"
    reader.budget.spend_on(text, count * _FIELD_BYTES)
    values: list[memoryview] = []
    with _malformed(what):
        message, graphs = cut(data, GRAPH)
        model = reader.onnx.ModelProto.FromString(message)
        for graph in graphs:
            nodes, initializers = cut(graph, INITIALIZER)
            model.graph.MergeFromString(nodes)
            values += initializers
    return model, (_parse_tensor(reader.onnx, value, what) for value in values)


@contextlib.contextmanager
def _malformed(what: str) -> Iterator[None]:
    """Converts errors of the wire format and of protobuf."""
    try:
        yield
    except Exception as error:
        raise ModelError(f"{what} is not an ONNX model: {error}") from None


def _parse_tensor(onnx: ModuleType, data: memoryview, what: str) -> _Tensor:
    with _malformed(what):
        message, values = cut(data, RAW_DATA)
        if len(values) != 1:
            return onnx.TensorProto.FromString(bytes(data)), None
        return onnx.TensorProto.FromString(message), values[0]


class _Reader:
    """Reads one model's protobuf messages."""

    def __init__(
        self,
        module: ModuleType,
        folder: Path | None,
        size: int,
        operators: Collection[str],
        mapping: mmap.mmap | None = None,
    ) -> None:
        self.onnx, self.mapping = module, mapping
        self.operators = operators
        self.functions: dict[_FunctionKey, onnx.FunctionProto] = {}
        self.model, self.constants = module.ModelProto(), dict[str, np.ndarray]()
        self.main_types: dict[str, bytes] | None = None
        # The calls of functions, by name.
        self.calls: collections.Counter[str] = collections.Counter()
        self.folder = folder
        self.budget = Budget(size)
        self.files: set[Path] = set()  # the files of external data
        self.sizes: dict[str | tuple[str, int], str] = {}  # names of dynamic sizes, by the file's

    def graph(self, model: onnx.ModelProto, tensors: Iterator[_Tensor]) -> Graph:
        """Converts a ModelProto and its initializers."""
        scope = _Scope(dict(map(self._opset, model.opset_import)))
        expect(bool(model.graph.node), "the model has no node")
        for function in model.functions:
            self.functions.setdefault(_function_key(function, function.name), function)
        constants = self._constants(model.graph, tensors)
        self.model, self.constants = model, constants
        expect(all(value.name for value in model.graph.input), "an input has no name")
        values = {_text(value.name, "an input"): value for value in model.graph.input}
        inputs = {
            name: self._tensor_type(value, NO_RANK)
            for name, value in values.items()
            if name not in constants
        }
        defaults = {}
        for name in values.keys() - inputs.keys():
            with contextlib.suppress(ModelError):
                defaults[name] = self._tensor_type(values[name])
        graph = self._body(model.graph, constants, scope)
        return in_order(graph.replace(inputs=inputs, defaults=defaults))

    def _body(
        self, graph: onnx.GraphProto, constants: Constants, scope: _Scope, of: str = ""
    ) -> Graph:
        """Converts nodes and outputs; `of` is " of ..." in messages about a subgraph."""
        nodes = tuple(self._nodes(graph.node, scope))
        outputs = tuple(_text(value.name, f"an output{of}") for value in graph.output)
        types = {}
        for value in (*graph.value_info, *graph.output):
            with contextlib.suppress(ModelError):
                types[value.name] = self._tensor_type(value)
        return _lift_constants(Graph(nodes, {}, outputs, constants, types=types))

    def _subgraph(self, graph: onnx.GraphProto, scope: _Scope, what: str) -> Graph:
        """Converts a GraphProto of an attribute; its parameters are its inputs.

        Tensors of the graphs around it are neither constants nor parameters.
        """
        text = f"{what} is nested deeper than {MAXIMUM_DEPTH} subgraphs"
        expect(scope.depth < MAXIMUM_DEPTH, text)
        constants = self._constants(graph, ((tensor, None) for tensor in graph.initializer))
        names = tuple(_text(value.name, f"an input of {what}") for value in graph.input)
        parameters = tuple(name for name in names if name not in constants)
        is_named = "" not in parameters and len({*parameters}) == len(parameters)
        expect(is_named, f"{what} has an input without a name, or one twice")
        inner = scope._replace(depth=scope.depth + 1)
        return self._body(graph, constants, inner, f" of {what}").replace(parameters=parameters)

    def _nodes(self, protos: Iterable[onnx.NodeProto], scope: _Scope) -> Iterator[Node]:
        """Converts nodes; a call of a function becomes the nodes of its body."""
        for index, proto in enumerate(protos):
            node = self._node(proto, index, scope)
            key = _function_key(proto, proto.op_type)
            if key in self.functions and operator_name(*key[:2]) not in self.operators:
                yield from self._inline(node, key, scope, _Body(self.functions[key]))
            elif (body := self._schema_body(node, scope)) is not None:
                yield from self._inline(node, key, scope, body)
            else:
                yield _capture(node)

    def _schema_body(self, node: Node, scope: _Scope) -> _Body | None:
        """The function by which ONNX defines an operator that is not known, None without one."""
        name = operator_name(node.domain, node.op)
        if name in self.operators or node.domain not in scope.opsets or find(node) is not None:
            return None
        try:
            schema = self.onnx.defs.get_schema(node.op, scope.opsets[node.domain], node.domain)
        except self.onnx.defs.SchemaError:
            return None
        body, known = self.onnx.FunctionProto(), dict[str, bytes]()
        if schema.has_function:
            body.CopyFrom(schema.function_body)
        elif schema.has_context_dependent_function and (types := self._types(scope)):
            try:
                inputs = [types.get(name, b"") for name in node.inputs]
                call = self._call_of(node).SerializeToString()
                body.ParseFromString(schema.get_context_dependent_function(call, inputs))
                known = self._infer_body(body, inputs)
            except Exception:  # a type is not known, or the schema has no body for it
                return None
        values = (x.default_value for x in schema.attributes.values())
        body.attribute_proto.extend(value for value in values if value.name)
        return _Body(body, known) if body.node else None

    def _call_of(self, node: Node) -> onnx.NodeProto:
        """The node without references to the attributes of a function."""
        to_tensor = self.onnx.numpy_helper.from_array
        attributes = {
            name: to_tensor(value) if isinstance(value, np.ndarray) else value
            for name, value in node.attributes.items()
        }
        make = self.onnx.helper.make_node
        call: onnx.NodeProto = make(
            node.op, node.inputs, node.outputs, domain=node.domain, **attributes
        )
        return call

    def _types(self, scope: _Scope) -> Mapping[str, bytes]:
        """The types of tensors of the main graph, or of a function of a schema."""
        if scope.types is not None or scope.depth or scope.functions:
            return scope.types or {}
        if self.main_types is None:
            model, helper = self.onnx.ModelProto(), self.onnx.helper
            model.CopyFrom(self.model)
            for name, array in self.constants.items():
                number = helper.np_dtype_to_tensor_dtype(array.dtype)
                info = helper.make_tensor_value_info(name, number, array.shape)
                model.graph.input.append(info)
            self.main_types = self._infer(model)
        return self.main_types

    def _infer_body(self, body: onnx.FunctionProto, inputs: Iterable[bytes]) -> dict[str, bytes]:
        model = self.onnx.ModelProto(ir_version=self.model.ir_version)
        model.opset_import.extend(body.opset_import)
        model.graph.node.extend(body.node)
        for name, data in zip(body.input, inputs, strict=False):
            model.graph.input.add(name=name).type.ParseFromString(data)
        return self._infer(model)

    def _infer(self, model: onnx.ModelProto) -> dict[str, bytes]:
        with _malformed("the model"):
            graph = self.onnx.shape_inference.infer_shapes(model).graph
        values = (*graph.input, *graph.value_info, *graph.output)
        return {value.name: value.type.SerializeToString() for value in values}

    def _inline(self, node: Node, key: _FunctionKey, scope: _Scope, body: _Body) -> list[Node]:
        """The body of a function, with the names and attributes of a call."""
        what, (function, types) = f"function {node.type!r}", body
        expect(key not in scope.functions, f"{what} calls itself")
        expect(len(scope.functions) < _MOST_CALLS, f"{what} is nested too deep")
        fits = len(node.inputs) <= len(function.input)
        fits = fits and len(node.outputs) <= len(function.output)
        expect(fits, f"{node} has more inputs or outputs than its function")
        defaults = {x.name: self._attribute(x, what, scope) for x in function.attribute_proto}
        opsets = dict(map(self._opset, function.opset_import)) or scope.opsets
        attributes, functions = {**defaults, **node.attributes}, (*scope.functions, key)
        inner = _Scope(opsets, attributes, functions, scope.depth, types)
        self.calls[node.name] += 1
        count = self.calls[node.name]
        call = node.name if count == 1 else f"{node.name}#{count}"
        actuals = itertools.zip_longest(function.input, node.inputs, fillvalue="")
        names = {"": "", **dict(actuals)}
        copies = []
        for formal, actual in zip(function.output, node.outputs, strict=False):
            if formal in names and actual:  # an output that is an input, or is there twice
                inputs = (names[formal],)
                copies.append(Node(actual, "Identity", "", 13, inputs, (actual,), {}))
            elif actual:
                names[formal] = actual

        def rename(tensors: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names.setdefault(name, f"{call}//{name}") for name in tensors)

        inlined = []
        for x in self._nodes(function.node, inner):
            self.budget.spend_on(f"{what}, of many nodes,", _COPY_BYTES)
            renamed = {"inputs": rename(x.inputs), "outputs": rename(x.outputs)}
            inlined.append(x.replace(name=f"{call}/{x.name}", **renamed))
        return [*inlined, *copies]

    def _opset(self, opset: onnx.OperatorSetIdProto) -> tuple[str, int]:
        domain = _domain(_text(opset.domain, "an opset"))
        text = f"the model imports opset {opset.version} of domain {domain!r}"
        expect(0 < opset.version < _OPSETS_END, text)
        return domain, opset.version

    def _constants(
        self, graph: onnx.GraphProto, tensors: Iterator[_Tensor]
    ) -> dict[str, np.ndarray]:
        sparse = "the model has a sparse initializer, which is not read"
        expect(not graph.sparse_initializer, sparse)
        constants: dict[str, np.ndarray] = {}
        for tensor, raw in tensors:
            name, what = tensor.name, f"initializer {tensor.name!r}"
            expect(bool(name) and name not in constants, f"{what} has no name, or one twice")
            constants[_text(name, "an initializer")] = self.array(tensor, what, raw)
        return constants

    def _tensor_type(
        self, value: onnx.ValueInfoProto, without_rank: tuple[str, ...] | None = None
    ) -> TensorType:
        """The type of a tensor, which needs a rank unless there is a shape for others."""
        what, tensor = f"input {value.name!r}", value.type.tensor_type
        expect(value.type.HasField("tensor_type"), f"{what} is not a tensor")
        if not tensor.HasField("shape"):
            expect(without_rank is not None, f"{what} has no rank")
            return TensorType(self._dtype(tensor.elem_type, what), without_rank or ())
        sizes: list[int | str] = []
        for axis, size in enumerate(tensor.shape.dim):
            if size.WhichOneof("value") == "dim_value" and size.dim_value >= 0:
                sizes.append(size.dim_value)
            else:
                name = _text(size.dim_param, f"axis {axis} of {what}")
                sizes.append(self._size_name(name, value.name, axis))
        return TensorType(self._dtype(tensor.elem_type, what), tuple(sizes))

    def _size_name(self, name: str, tensor: str, axis: int) -> str:
        """A name that `jax.export.symbolic_shape` takes, another one for every name of the file."""
        key = name if name[:1].isalpha() else (tensor, axis)  # "?" names no size
        if key not in self.sizes:
            letters, prefix = (re.sub(r"\W", "_", x, flags=re.ASCII) for x in (name, tensor))
            if not letters[:1].isalpha():
                letters = f"{prefix if prefix[:1].isalpha() else f'dim{prefix}'}_{axis}{letters}"
            while letters in SIZE_FUNCTIONS or letters in self.sizes.values():
                letters += "_"
            self.sizes[key] = letters
        return self.sizes[key]

    def _dtype(self, number: int, what: str) -> np.dtype:
        try:
            dtype: np.dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(number))
        except (KeyError, ValueError, TypeError):
            raise ModelError(f"{what} has the unknown data type {number}") from None
        return dtype

    def _node(self, node: onnx.NodeProto, index: int, scope: _Scope) -> Node:
        attribute_names = (attribute.name for attribute in node.attribute)
        texts = (node.name, node.op_type, node.domain, *node.input, *node.output)
        for text in (*texts, *attribute_names):
            _text(text, f"node {index}")
        name = node.name or next(filter(None, node.output), f"node {index}")
        is_complete = bool(node.op_type) and any(node.output)
        expect(is_complete, f"node {name!r} has no operator or no output")
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            text = f"node {name!r} has attribute {attribute.name!r} twice"
            expect(attribute.name not in attributes, text)
            value = self._attribute(attribute, name, scope)
            if value is not None:  # a function's call may leave it out
                attributes[attribute.name] = value
        domain = _domain(node.domain)
        version = self._version(node.op_type, domain, scope.opsets, name)
        inputs, outputs = tuple(node.input), tuple(node.output)
        return Node(name, node.op_type, domain, version, inputs, outputs, attributes)

    def _version(self, op: str, domain: str, opsets: Mapping[str, int], name: str) -> int:
        """The opset in which an operator's form began; the imported one for other domains."""
        if domain not in opsets:  # tools leave out the import of their domains
            expect(bool(domain), f"node {name!r}: the model imports no opset for ONNX's own domain")
            return 1
        try:
            schema = self.onnx.defs.get_schema(op, opsets[domain], domain)
        except self.onnx.defs.SchemaError:
            return opsets[domain]
        return int(schema.since_version)

    def _attribute(
        self, attribute: onnx.AttributeProto, node: str, scope: _Scope
    ) -> np.ndarray | Graph | Scalar | tuple[Scalar, ...] | None:
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
        return _scalar(value) if attribute.type in scalars else tuple(map(_scalar, value))

    def array(
        self, tensor: onnx.TensorProto, what: str, raw: memoryview | None = None
    ) -> np.ndarray:
        """Reads a tensor whose data has the size that it declares; raw data may be apart."""
        dims = tuple(tensor.dims)
        is_shape = len(dims) <= MAXIMUM_RANK and min(dims, default=0) >= 0
        expect(is_shape, f"{what} has the shape {list(dims)[:MAXIMUM_RANK]}")
        dtype = self._dtype(tensor.data_type, what)
        size = math.prod(dims)
        wanted = -(-size * bits_of(dtype) // 8)  # bits of the last byte may be unused
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            expect(not dtype.hasobject, f"{what} holds strings, which no file of external data has")
            raw = self._external(tensor, wanted, what).data
        if dtype.hasobject:
            raise UnsupportedError(f"{what} holds strings, which no operator computes with")
        if raw is None and tensor.HasField("raw_data"):
            raw = memoryview(tensor.raw_data)
        if raw is None:
            field = self.onnx.helper.tensor_dtype_to_field(tensor.data_type)
            count = len(getattr(tensor, field))
            elements = wanted if bits_of(dtype) < 8 else size  # packed elements are bytes
            text = f"{what} has {count} elements, expected {elements} for {list(dims)}"
            expect(count == elements, text)
            self.budget.spend_on(what, size * dtype.itemsize)
            return self._convert(tensor, what)
        text = f"{what} has {len(raw)} bytes, expected {wanted} for {list(dims)}"
        expect(len(raw) == wanted, text)
        if bits_of(dtype) == 8 * dtype.itemsize:
            held = raw.obj if isinstance(raw.obj, np.ndarray) else np.frombuffer(raw, np.uint8)
            if raw.obj is self.mapping and len(raw) >= _IN_PLACE_BYTES:
                held = memory.move(raw, self.mapping)
            array = held.view(dtype.newbyteorder("<")).reshape(dims)
            # Small constants outlive the file's memory.
            return array if array.nbytes >= _IN_PLACE_BYTES else array.copy()
        data = {"data_type": tensor.data_type, "dims": dims, "raw_data": bytes(raw)}
        return self._convert(self.onnx.TensorProto(**data), what)

    def _convert(self, tensor: onnx.TensorProto, what: str) -> np.ndarray:
        try:
            return np.asarray(self.onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(f"{what} is malformed: {error}") from None

    def _external(self, tensor: onnx.TensorProto, wanted: int, what: str) -> np.ndarray:
        """Reads a tensor's bytes from a file beside the model, and from nowhere else."""
        entries = {entry.key: _text(entry.value, what) for entry in tensor.external_data}
        if self.folder is None:
            raise ModelError(f"{what} is in a file of its own: load the model by its path")
        path = _beside(self.folder.resolve(), entries.get("location", ""), what)
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", wanted))
        except ValueError:
            raise ModelError(f"{what} has an offset or a length that is no number") from None
        is_inside = offset >= 0 and offset + wanted <= os.path.getsize(path)
        text = f"{what} has {length} bytes at {offset}, expected {wanted} in {path}"
        expect(length == wanted and is_inside, text)
        if path not in self.files:
            self.files.add(path)
            self.budget.left += os.path.getsize(path)
        self.budget.spend_on(what, wanted)
        with path.open("rb") as file:
            file.seek(offset)
            held = memory.allocate(wanted)
            expect(file.readinto(held.data) == wanted, f"{what} is cut off in {path}")
        return held


Scalar: TypeAlias = int | float | str


def _scalar(value: Scalar | bytes) -> Scalar:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _beside(folder: Path, location: str, what: str) -> Path:
    """The path of a file in a folder or below."""
    try:
        path = (folder / location).resolve()
        fits = path.is_relative_to(folder) and path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name that is too long, a NUL, a loop of links
        fits = False
    shown = f"{location[:100]!r}..." if location[100:] else repr(location)
    expect(fits, f"{what} is in {shown}, no file beside the model")
    return path


def _function_key(proto: onnx.FunctionProto | onnx.NodeProto, op: str) -> _FunctionKey:
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
        known = graph.tensors
        reads = (name for inner in graph.nodes for name in inner.inputs)
        names.update((x, x) for x in (*reads, *graph.outputs) if x and x not in known)
    # A formal input of one subgraph hides a captured tensor of another: it is captured by both.
    for graph in graphs.values():
        if hidden := names.keys() & graph.tensors:
            raise ModelError(f"{node}: its subgraphs give two tensors the name {min(hidden)!r}")
    graphs = {
        key: in_order(graph.replace(parameters=(*graph.parameters, *names)))
        for key, graph in graphs.items()
    }
    return node.with_graphs(graphs, names)


def _text(text: str | bytes, owner: str) -> str:
    """A string of the file; protobuf gives the bytes of one that is not UTF-8."""
    if isinstance(text, bytes):
        raise ModelError(f"{owner} has a name or a text that is not UTF-8: {text[:100]!r}")
    return text


def _domain(name: str) -> str:
    return SHORT_DOMAINS.get(name, name)


def _lift_constants(graph: Graph) -> Graph:
    """Makes the values of Constant nodes constants of the graph."""
    values = {node: _constant(node) for node in graph.nodes if node.is_a("Constant")}
    known = {node.outputs[0]: value for node, value in values.items() if value is not None}
    nodes = tuple(node for node in graph.nodes if values.get(node) is None)
    return graph.replace(nodes=nodes, constants={**graph.constants, **known})


_CONSTANTS: Mapping[str, DTypeLike] = {"value_int": np.int64, "value_float": np.float32}


def _constant(node: Node) -> np.ndarray | None:
    for name, value in node.attributes.items():
        if name == "value" and isinstance(value, np.ndarray):
            return value
        dtype = _CONSTANTS.get(name.removesuffix("s"))
        if dtype is not None and not isinstance(value, str | Graph):
            with _malformed(f"{node}"):
                return np.asarray(value, dtype)
    return None


def infer_types(
    node: Node, operands: Sequence[Any]
) -> dict[str, tuple[np.dtype, Sequence[int | str]]]:
    """The types of a node's outputs by ONNX's shape inference; none if it fails.

    The inference takes memory in proportion to integers, so it sees none that is large.
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
        names = (node.inputs, node.outputs)
        proto = helper.make_node(node.op, *names, domain=node.domain, **attributes)
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


def _is_large(value: object) -> bool:
    """True for known integers that are many or large, and for an attribute that is no array."""
    try:
        array = np.asarray(value)
    except ValueError:  # parts of several lengths
        return True
    is_integer = array.dtype.kind in "iu"
    return is_integer and (array.size > _MOST_INTEGERS or bool(np.any(abs(array) > _LARGE)))
