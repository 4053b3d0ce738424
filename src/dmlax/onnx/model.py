"""Model: a quantized ONNX model as a pure function of its params and inputs."""

import collections
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import dmlax
from dmlax.errors import SpecError, UnsupportedError
from dmlax.onnx import archive, budget
from dmlax.onnx.check import MULTIPLE, Assumptions, AvalsOfGraphs, check
from dmlax.onnx.compiled import CompiledModel
from dmlax.onnx.errors import ModelError
from dmlax.onnx.evaluate import (
    Options,
    count_name,
    evaluate,
    give_operators,
    split_constants,
)
from dmlax.onnx.graph import Graph, Node, TensorType
from dmlax.onnx.mesh import run_on_any_mesh
from dmlax.onnx.operators import why_no_pass
from dmlax.onnx.operators.nonzero import COUNTED
from dmlax.onnx.operators.packed import PackedIntegers
from dmlax.onnx.operators.values import device_dtype, narrow, to_device, why_costly
from dmlax.onnx.passes import (
    PASSES_OF_SHAPES,
    each_pass,
    lift_params,
    run_passes,
    run_passes_of_shapes,
)
from dmlax.onnx.weights import FileConstants, find_parts, prepare

_MOST_COPIED_AT_ONCE = 1 << 20  # bytes of inputs


@dataclass(frozen=True)
class ModelExplanation:
    """The nodes of a model before and after its passes, what runs, and notes; print it."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    passes: tuple[tuple[str, int], ...]
    program: dmlax.ProgramExplanation
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{sum(self.before.values())} nodes: {_counts(self.before)}"]
        lines += [f"after {name}: {count} nodes" for name, count in self.passes]
        lines += [f"{sum(self.after.values())} nodes: {_counts(self.after)}", ""]
        return "\n".join([*lines, str(self.program), *self.notes])


class Model:
    """An ONNX model, which `dmlax.onnx.load` makes.

    Call it as a function, or give `apply` to `jax.jit`, `jax.vmap` and `jax.export`.
    """

    __module__ = "dmlax.onnx"

    def __init__(self, graph: Graph, options: Options) -> None:
        self._options = options
        self._file_bytes = graph.constant_bytes()
        needed = give_operators(graph, options.operators).prune()
        # The check of all nodes lists those that no pass can read.
        fits = not any(map(why_no_pass, needed.all_nodes()))
        lifted = lift_params(needed, options.arithmetic) if fits else needed
        passed = run_passes(lifted, options.arithmetic) if fits else lifted
        fused, params = split_constants(passed)
        self._param_structs = {
            name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in params.items()
        }
        self._inputs, self._assumed, self._fused = graph.inputs, Assumptions(), fused
        self._avals = self._check(fused)
        self._graph = run_passes_of_shapes(fused, self._avals)
        weights = prepare(self._graph, params)
        self.params: dict[str, Any] = {name: weight.param for name, weight in weights.items()}

        parts = find_parts(self._graph, lifted.constants, weights)

        def share(constants: Mapping[str, np.ndarray]) -> FileConstants:
            return FileConstants(constants, params, weights, parts)

        self._file, self._saved = lifted.map_constants(share), graph.map_constants(share)
        self._compiled = CompiledModel(self.apply, self.params)
        self._graph_for = functools.lru_cache(maxsize=16)(self._make_graph)

    def _check(self, graph: Graph) -> AvalsOfGraphs:
        """Traces every node; the sizes of inputs get the constraints that nodes depend on."""
        inputs = functools.partial(_structs, self._inputs)
        found = check(graph, self._param_structs, inputs, self._options, self._assumed)
        avals, self._assumed = found
        return avals

    @property
    def inputs(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and the dtype of each input; a dynamic size is symbolic."""
        return dict(self._structs())

    @functools.cached_property
    def outputs(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and the dtype of each output, counts of rows included."""
        return dict(jax.eval_shape(self.apply, self.params, self._structs()))

    def _structs(self) -> dict[str, jax.ShapeDtypeStruct]:
        return _structs(self._inputs, self._assumed)

    def __call__(self, *inputs: Any) -> dict[str, Any]:
        """Computes the outputs, jitted.

        Args:
          *inputs: arrays in the file's order, or one dict of them by name.

        Returns:
          The outputs by name, in the file's order; after them the counts of rows.

        Raises:
          SpecError: an input is missing, unknown, or of another dtype or shape than the file's;
            the field is its name. A 64-bit integer does not fit 32 bits, and x64 is off (code
            `value`). An output has more rows than its `nonzero_size` (code `sizes`).
        """
        given = _narrowed(self._name(_given(inputs)))
        found: dict[str, Any] = self._compiled(self.params, _on_cpu(given))
        outputs = {name: found[name] for name in (*self._file.outputs, *found)}
        self._check_counts(outputs)
        return outputs

    def apply(
        self,
        params: Mapping[str, Any],
        inputs: Any,
        /,
        *,
        outputs: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Computes outputs, as a pure function.

        Args:
          params: as `model.params`.
          inputs: an array, a tuple of them in the file's order, or a dict by name. `jax.jit` wraps
            64-bit integers to 32 bits where x64 is off; `model(...)` refuses those that do not fit.
          outputs: the names of any tensors of the file; default its outputs.

        Returns:
          The tensors by name, and the counts of rows, each the name of its output with `.count`.

        Raises:
          SpecError: as `__call__`, but for counts; or a tensor's name is unknown (code `option`).
        """
        values = self._bind(inputs)
        wanted = self._file.outputs if outputs is None else tuple(outputs)
        with budget.limit(self._file_bytes):
            graph = self._graph_of(wanted if outputs is not None else None, values)
        held = {name: to_device(array) for name, array in params.items()}
        counts = [count_name(name) for node in graph.nodes for name in node.outputs]

        def compute(operands: dict[str, Any]) -> dict[str, Any]:
            with budget.limit(self._file_bytes):
                found = evaluate(graph, operands, self._options)
                result = {name: _array_of(found[name]) for name in wanted}
            return result | {name: found[name] for name in counts if name in found}

        return run_on_any_mesh(compute, {**held, **values}, values)

    def _graph_of(self, outputs: tuple[str, ...] | None, values: Mapping[str, Any]) -> Graph:
        """The graph for outputs, None for the file's; assumed sizes are those of the values."""
        if outputs is None and self._assumed == Assumptions():
            return self._graph
        shapes = tuple((name, tuple(x.shape)) for name, x in values.items())
        return self._graph_for(outputs, shapes if self._assumed != Assumptions() else ())

    def _make_graph(self, outputs: tuple[str, ...] | None, shapes: Any) -> Graph:
        """The graph for outputs and the shapes of a call: passes do not fuse through outputs."""
        graph = self._fused if outputs is None else self._with_outputs(outputs)
        if not shapes:
            return run_passes_of_shapes(graph, self._check(graph))
        inputs = {
            name: jax.ShapeDtypeStruct(shape, device_dtype(self._inputs[name].dtype))
            for name, shape in shapes
        }
        options = self._options
        avals, _ = check(graph, self._param_structs, lambda _: inputs, options, Assumptions())
        return run_passes_of_shapes(graph, avals)

    def _with_outputs(self, outputs: tuple[str, ...]) -> Graph:
        """The graph that computes other tensors."""
        for name in outputs:
            if name not in self._saved.tensors():
                raise SpecError(f"Model: outputs has no tensor {name!r}", "option", "outputs")
        wanted = self._file.replace(outputs=outputs).prune()
        graph = run_passes(wanted, self._options.arithmetic)
        constants = {name: x for name, x in graph.constants.items() if name not in self.params}
        return graph.replace(constants=constants)

    def _bind(self, inputs: Any) -> dict[str, Any]:
        """Names the inputs, and checks their dtypes and shapes."""
        named = self._name(inputs)
        return {name: _checked(name, named[name], x) for name, x in self._file.inputs.items()}

    def _name(self, inputs: Any) -> Mapping[str, Any]:
        """The inputs by name, all of them and no other."""
        names = tuple(self._file.inputs)
        if not isinstance(inputs, Mapping):
            inputs = _by_name(names, inputs)
        for name in (*names, *inputs):
            if name not in inputs:
                raise SpecError(f"Model: input {name} is missing", "missing_tensor", name)
            if name not in names:
                raise SpecError(f"Model: {name} is no input of the model", "option", name)
        named: Mapping[str, Any] = inputs
        return named

    def _check_counts(self, outputs: Mapping[str, Any]) -> None:
        for node in _counted_nodes(self._graph):
            name = count_name(node.outputs[0])
            if name not in outputs or isinstance(outputs[name], jax.core.Tracer):
                continue
            count, size = int(outputs[name]), self._options.of(node).nonzero_size
            assert size is not None  # a node without one is declined
            if count > size:
                text = f"Model: {node} has {count} rows, expected {size} or fewer: nonzero_size"
                raise SpecError(text, "sizes", node.outputs[0])

    def tensors(self) -> set[str]:
        """The names of the file's tensors, which `apply` takes as `outputs`."""
        return self._saved.tensors()

    def explain(self, *inputs: Any) -> ModelExplanation:
        """Lists the nodes before and after each pass, and the operators of dmlax that run.

        Args:
          *inputs: those of a call, which a `jax.ShapeDtypeStruct` may stand for; without them
            dynamic sizes are symbolic, as in an export.

        Raises:
          SpecError: as `__call__`, but for counts.
        """
        structs = self._structs() if not inputs else self._structs_of(inputs)
        program = dmlax.explain(self.apply, self.params, structs)
        assert isinstance(program, dmlax.ProgramExplanation)
        before, after = _count(self._file.nodes), _count(self._graph.nodes)
        with budget.limit(self._file_bytes):
            passes = tuple((name.replace("_", " "), count) for name, count in self._pass_counts())
        return ModelExplanation(before, after, passes, program, tuple(_notes(structs)))

    def _pass_counts(self) -> Iterable[tuple[str, int]]:
        """The nodes that each pass leaves."""
        graph = needed = self._file.prune()
        for name, passed in each_pass(needed, self._options.arithmetic):
            yield name, len(passed.nodes)
            graph = passed
        graph, _ = split_constants(graph)
        for last in PASSES_OF_SHAPES:
            graph = last(graph, self._avals.of_graph)
            yield last.__name__, len(graph.nodes)

    def _structs_of(self, inputs: tuple[Any, ...]) -> dict[str, jax.ShapeDtypeStruct]:
        """The inputs of a call by name, as structs."""
        values = self._bind(_given(inputs))
        return {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in values.items()}

    def save(self, path: Any) -> None:
        """Writes the graph and its constants to a zip file, which `load` reads without `onnx`."""
        arrays: dict[int, np.ndarray] = {}  # each once, as subgraphs share them

        def read(constants: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            return constants.read(arrays) if isinstance(constants, FileConstants) else constants

        archive.write(path, self._saved.map_constants(read), self._options)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {each}" for name, each in self._file.inputs.items())
        return f"Model({inputs} -> {', '.join(self._file.outputs)})"


def _array_of(value: Any) -> Any:
    """Returns a tensor on the device; unpacks a param of packed integers."""
    return value.unpack() if isinstance(value, PackedIntegers) else to_device(value)


def _given(inputs: tuple[Any, ...]) -> Any:
    """One dict of inputs, or a tuple of them."""
    return inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs


def _by_name(names: tuple[str, ...], inputs: Any) -> dict[str, Any]:
    """Names an array, or a tuple of all inputs in the file's order."""
    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if len(given) != len(names):
        text = f"Model: {len(given)} inputs are given, expected {len(names)}: {names}"
        raise SpecError(text, "missing_tensor", names[min(len(given), len(names) - 1)])
    return dict(zip(names, given, strict=True))


def _narrowed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Narrows integers that are known on the host, which `jax.jit` would wrap."""
    found = {}
    for name, x in inputs.items():
        array = np.asarray(x) if isinstance(x, list | tuple | int | float | np.generic) else x
        is_wide = isinstance(array, np.ndarray) and array.dtype.kind in "iu"
        try:
            found[name] = narrow(array) if is_wide else array
        except UnsupportedError as error:
            raise SpecError(f"Model: {name}: {error}", "value", name) from None
    return found


def _on_cpu(inputs: Mapping[str, Any]) -> Any:
    """Has the calling thread wait while large arrays of the host are copied to a CPU's memory.

    The program would run on the thread that copies them, and each thread keeps what it freed. Small
    arrays are copied at once.
    """
    if jax.default_backend() != "cpu":
        return inputs
    leaves = inputs.values()
    if not all(isinstance(x, np.ndarray) for x in leaves):
        return inputs
    is_small = sum(x.nbytes for x in leaves) <= _MOST_COPIED_AT_ONCE
    return inputs if is_small else jax.block_until_ready(jax.device_put(inputs))


def _notes(structs: Mapping[str, jax.ShapeDtypeStruct]) -> Iterable[str]:
    """Explains symbolic sizes, with which kernels may not run."""
    for name, struct in structs.items():
        symbols = [str(size) for size in struct.shape if not isinstance(size, int)]
        if symbols:
            yield (
                f"{', '.join(symbols)} of {name}: symbolic here; give the inputs of a call to see "
                "what it runs. An export keeps no kernel and runs xla"
            )


def _structs(
    inputs: Mapping[str, TensorType], assumed: Assumptions
) -> dict[str, jax.ShapeDtypeStruct]:
    """The inputs as JAX's structs, whose dynamic sizes share one scope and its constraints."""
    scope = jax.export.SymbolicScope(sorted(assumed.facts))
    found = {}
    for name, each in inputs.items():
        sizes = (f"{MULTIPLE}*{x}" if x in assumed.multiples else x for x in each.shape)
        shape = _symbolic_shape(name, tuple(sizes), scope)
        if each.dtype.hasobject:
            raise UnsupportedError(f"input {name!r} has the dtype {each.dtype}, expected numbers")
        found[name] = jax.ShapeDtypeStruct(shape, device_dtype(each.dtype))
    return found


def _symbolic_shape(name: str, sizes: tuple[int | str, ...], scope: Any) -> tuple[Any, ...]:
    """The shape of an input; JAX parses its dynamic sizes."""
    if len(sizes) > budget.MAXIMUM_RANK:
        text = f"has rank {len(sizes)}, expected at most {budget.MAXIMUM_RANK}"
        raise ModelError(f"input {name!r} {text}")
    for size in sizes:
        if isinstance(size, str) and (why := why_costly(size)):
            text = f"input {name!r} has the size {size[:60]!r}, which {why}"
            raise ModelError(f"{text}: give input_shapes a name or a static size")
    text = ",".join(map(str, sizes))
    try:
        shape = tuple(jax.export.symbolic_shape(text, scope=scope)) if sizes else ()
    except Exception as error:  # of its parser
        text = f"input {name!r} has the shape [{text[:300]}]: {str(error)[:300]}"
        raise ModelError(text) from None
    static = (size for size in shape if isinstance(size, int))
    if len(shape) != len(sizes) or any(size < 0 for size in static):
        raise ModelError(f"input {name!r} has the shape [{text[:300]}], which is none")
    return shape


def _checked(name: str, value: Any, wanted: TensorType) -> Any:
    """Checks an input, which keeps its own dtype; 64-bit integers are narrowed as JAX does."""
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    found = f"is {np.dtype(value.dtype).name}[{','.join(map(str, value.shape))}]"
    if device_dtype(value.dtype) != device_dtype(wanted.dtype):
        raise SpecError(f"Model: {name} {found}, expected {wanted}", "data_type", name)
    if len(value.shape) != len(wanted.shape):
        raise SpecError(f"Model: {name} {found}, expected {wanted}", "dimension_count", name)
    for size, expected in zip(value.shape, wanted.shape, strict=True):
        if isinstance(expected, int) and size != expected:
            raise SpecError(f"Model: {name} {found}, expected {wanted}", "sizes", name)
    return to_device(value) if isinstance(value, np.ndarray) else value


def _counted_nodes(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op in COUNTED and not node.domain]


def _count(nodes: Iterable[Node]) -> dict[str, int]:
    return dict(collections.Counter(node.type for node in nodes).most_common())


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
