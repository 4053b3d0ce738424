"""Model: a quantized ONNX model as a pure function of its params and inputs."""

import collections
import contextlib
import functools
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Literal, TypeAlias

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

import dmlax
from dmlax._core import compat
from dmlax._core.arguments import aval_of
from dmlax._fused.float_convolution.plan import PackedFilter
from dmlax.errors import Code, SpecError, UnsupportedError
from dmlax.onnx import archive, budget, decoding
from dmlax.onnx.check import MULTIPLE, Assumptions, check, size_inputs
from dmlax.onnx.compiled import CompiledModel, run_on_any_mesh
from dmlax.onnx.decoding import State
from dmlax.onnx.errors import ModelError, expect
from dmlax.onnx.evaluate import Options, Runner, count_name, give_operators, split_constants
from dmlax.onnx.graph import Graph, Node, TensorType
from dmlax.onnx.identity import IdentityMap
from dmlax.onnx.operators import why_no_pass, wide
from dmlax.onnx.operators.nonzero import COUNTED
from dmlax.onnx.operators.packed import PackedIntegers
from dmlax.onnx.operators.values import (
    NARROWED,
    by_first_axis,
    device_dtype,
    fits,
    narrow,
    native,
    to_device,
    why_costly,
)
from dmlax.onnx.passes import (
    PASSES_OF_SHAPES,
    each_pass,
    lift_params,
    run_passes,
    run_passes_of_shapes,
)
from dmlax.onnx.passes.qdq import why_float
from dmlax.onnx.weights import FileConstants, Param, find_parts, prepare

Inputs: TypeAlias = ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]
Structs: TypeAlias = dict[str, jax.ShapeDtypeStruct]
Shapes: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""The shapes of the inputs of a call, by name."""
_PORTABLE = ("cpu", "cuda", "tpu")
_SAME = 5e-2  # a share of the largest output: a wrong position or an open mask moves more
_MOST_COPIED_AT_ONCE = 1 << 20  # bytes of inputs
_PLAIN = frozenset(x for x in map(np.dtype, "?bBhHiIef") if x.isnative)  # no value is narrowed


@dataclass(frozen=True)
class ModelExplanation:
    """The nodes of a model before and after its passes, what runs, and notes; print it.

    `floats` has a sentence for every node beside quantized tensors that computes floats: the
    condition that it misses.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    passes: tuple[tuple[str, int], ...]
    program: dmlax.ProgramExplanation
    notes: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.summary, f"{sum(self.before.values())} nodes: {_counts(self.before)}"]
        counts = [sum(self.before.values()), *(count for _, count in self.passes)]
        changed = (was != count for was, count in itertools.pairwise(counts))
        passes = itertools.compress(self.passes, changed)
        lines += [f"after {name}: {count} nodes" for name, count in passes]
        lines += [f"{sum(self.after.values())} nodes: {_counts(self.after)}"]
        lines += [f"float32: {reason}" for reason in self.floats]
        return "\n".join([*lines, "", str(self.program), *self.notes])

    @property
    def summary(self) -> str:
        """A line: the calls by implementation on this machine, and the float nodes."""
        backend = jax.default_backend()
        platform = "cuda" if backend == "gpu" else backend
        chosen = (
            choice.implementation or "nothing"
            for call in self.program.calls
            for choice in call.choices
            if choice.platform == platform
        )
        runs = _counts(collections.Counter(chosen)) or "no operator of dmlax"
        count = len(self.floats)
        nodes = f"{count or 'no'} node{'' if count == 1 else 's'} beside quantized tensors"
        return f"{platform}: {runs}; {nodes} compute{'s' if count == 1 else ''} floats"


def _unpickle(data: bytes, operators: Mapping[str, Callable[..., Any]]) -> "Model":
    return dmlax.onnx.load(data, operators=operators)


class Model:
    """An ONNX model, which `dmlax.onnx.load` makes.

    Call it as a function, or give `apply` to `jax.jit`, `jax.vmap` and `jax.export`.
    """

    __module__ = "dmlax.onnx"
    _unpickle: ClassVar[Callable[..., "Model"]] = staticmethod(_unpickle)

    def __init__(self, graph: Graph, options: Options) -> None:
        self._options = options
        self._file_bytes = graph.constant_bytes()
        needed = give_operators(graph, options.operators).prune()
        # The check of all nodes lists those that no pass can read.
        fits = not any(map(why_no_pass, needed.run_nodes()))
        lifted = lift_params(needed, options.arithmetic) if fits else needed
        passed = run_passes(lifted, options.arithmetic) if fits else lifted
        fused, params = split_constants(passed)
        self._param_structs = {
            name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in params.items()
        }
        self._inputs, self._assumed = graph.inputs, Assumptions()
        self._fused = self._first_check(fused)
        self._graph = run_passes_of_shapes(self._fused)
        weights = prepare(self._graph, params)
        self.params: dict[str, Param] = {name: weight.param for name, weight in weights.items()}
        parts = find_parts(self._graph, lifted.constants, weights)

        def share(graph: Graph) -> Graph:
            return graph.replace(constants=FileConstants(graph.constants, params, weights, parts))

        self._file, self._saved = lifted.map_graphs(share), graph.map_graphs(share)
        self._compiled = CompiledModel(self.apply, self.params)
        self._graph_for = functools.lru_cache(maxsize=16)(self._make_graph)
        self._with_defaults = functools.lru_cache(maxsize=4)(self._make_with_defaults)
        self._size_inputs = size_inputs(self._file)
        self._needed = frozenset(self._file.inputs)  # by a call
        self._is_same_growth: bool | None = None
        self._with_sizes = functools.lru_cache(maxsize=16)(self._make_with_sizes)

    def _first_check(self, graph: Graph) -> Graph:
        """Checks with the head sizes that tables suggest; without them if they do not do."""
        likely = Assumptions(decoding.head_sizes(graph, self._param_structs))
        if not likely.facts:
            return self._check(graph)
        self._assumed = likely
        with contextlib.suppress(SpecError, UnsupportedError, ModelError):
            checked = self._check(graph)
            if self._assumed == likely:
                return checked
        self._assumed = Assumptions()
        return self._check(graph)

    def _check(self, graph: Graph) -> Graph:
        """Traces every node; the sizes of inputs get the constraints that nodes depend on."""
        inputs = functools.partial(_structs, self._inputs)
        checked, self._assumed = check(
            graph, self._param_structs, inputs, self._options, self._assumed
        )
        return checked

    @property
    def inputs(self) -> Structs:
        """The shapes and the dtypes of the inputs; a dynamic size is symbolic."""
        return _structs(self._inputs, self._assumed)

    @functools.cached_property
    def outputs(self) -> Structs:
        """The shapes and the dtypes of the outputs, counts of rows included."""
        return dict(jax.eval_shape(self.apply, self.params, self.inputs))

    def __call__(
        self, *inputs: ArrayLike | Mapping[str, ArrayLike], **keywords: ArrayLike
    ) -> dict[str, Array]:
        """Computes the outputs, jitted.

        Args:
          *inputs: arrays in the file's order, or one dict of them by name.
          **keywords: the inputs by name, instead of a dict.

        Returns:
          The outputs by name, in the file's order; after them the counts of rows. With x64 off
          int64 outputs are int32 if it holds all their values, as `outputs` shows.

        Raises:
          SpecError: an input is missing, unknown, or of another dtype or shape than the file's;
            the field is its name. An integer does not fit the input's dtype (code `value`). An
            output has more rows than its `nonzero_size` (code `sizes`).
        """
        given: Any = one_form(inputs, keywords)
        if not isinstance(given, Mapping):
            given = self._named(given)
        if not self._are_plain(given):
            if names := self._given_defaults(given):
                return self._with_defaults(names)(given)
            if self._size_inputs:
                other, rest = self._take_sizes(given)
                return other(rest)
            named = self._name(given)
            given = {name: _narrowed(name, x, self._inputs[name]) for name, x in named.items()}
        computed = self._compiled(self.params, _on_cpu(given))
        outputs = {name: computed[name] for name in self._file.outputs if name in computed}
        if len(computed) > len(outputs):
            outputs |= computed
            self._check_counts(outputs)
        return outputs

    def _named(self, inputs: object) -> dict[str, Any]:
        """Inputs that are no dict by name."""
        return by_name(tuple(self._file.inputs), inputs)

    def _are_plain(self, inputs: Mapping[str, Any]) -> bool:
        """True for a dict of all inputs, arrays that need no conversion; a trace checks them."""
        is_dict = type(inputs) is dict and inputs.keys() == self._needed
        if self._size_inputs or not is_dict:
            return False
        for x in inputs.values():
            if type(x) not in (np.ndarray, compat.DeviceArray) or x.dtype not in _PLAIN:
                return False
        return True

    def apply(
        self,
        params: Mapping[str, Param],
        inputs: Inputs,
        /,
        *,
        outputs: Sequence[str] | None = None,
    ) -> dict[str, Array]:
        """Computes outputs, as a pure function.

        A gradient goes through float operators and ends at a quantization: that of a quantized
        model by its input is zero. `dmlax.explain(jax.grad(f), x)` says where it ends.

        Args:
          params: as `model.params`.
          inputs: an array, a tuple of them in the file's order, or a dict by name. `jax.jit` wraps
            64-bit integers to 32 bits where x64 is off; `model(...)` keeps them.
          outputs: the names of any tensors of the file; default its outputs.

        Returns:
          The tensors by name. The count of an output's rows has its name with `.count`.

        Raises:
          SpecError: as `__call__`, except for counts; or no tensor has a name (code `option`).
        """
        if names := self._given_defaults(inputs):
            other = self._with_defaults(names)
            return other.apply(self._params_of(other, params), inputs, outputs=outputs)
        if self._size_inputs:
            other, rest = self._take_sizes(inputs)
            return other.apply(self._params_of(other, params), rest, outputs=outputs)
        values = self._bind(inputs)
        wanted = self._file.outputs if outputs is None else tuple(outputs)
        with budget.limit(self._file_bytes), self._blaming_sizes(values):
            graph = self._graph_of(wanted if outputs is not None else None, values)
        return self._evaluate(graph, params, values, wanted)

    def _evaluate(
        self,
        graph: Graph,
        params: Mapping[str, Param],
        values: Mapping[str, Array],
        wanted: Sequence[str],
    ) -> dict[str, Array]:
        """Computes tensors of a graph, with its params and inputs."""
        held = {name: to_device(array) for name, array in params.items()}
        needed = (name for node in graph.nodes for name in node.inputs)
        missing = [name for name in needed if name in self._param_structs and name not in held]
        if missing:
            text = f"Model: params has no {missing[0]!r}, expected those of model.params"
            raise SpecError(text, "missing_tensor", "params")
        counts = [count_name(name) for node in graph.nodes for name in node.outputs]

        def compute(operands: Mapping[str, Param]) -> dict[str, Array]:
            with budget.limit(self._file_bytes):
                tensors = Runner(self._options).evaluate(graph, operands)
                result = {name: _array_of(tensors[name]) for name in wanted}
            return result | {name: tensors[name] for name in counts if name in tensors}

        with self._blaming_sizes(values):
            return run_on_any_mesh(compute, {**held, **values}, values)

    @functools.cached_property
    def _slots(self) -> decoding.Slots:
        """The caches of a state."""
        structs = {**self._param_structs, **self.inputs}
        return decoding.Slots(self._graph, self._file.inputs, structs, self._size_inputs)

    def init_state(
        self,
        batch: int = 1,
        capacity: int = 1024,
        inputs: Mapping[str, ArrayLike] | None = None,
    ) -> State:
        """Makes empty caches of sequences, for `step`, `prefill` and `apply_step`.

        Args:
          batch: the number of sequences.
          capacity: the most tokens of a sequence, prompt and answer together. A step costs by the
            tokens that there are, and memory by the capacity.
          inputs: arrays by the names of inputs. What every step reads, such as an encoder's keys
            and its mask, stays in the state, and steps do not ask for it. Caches past... of n
            tokens are the first n tokens.

        Returns:
          A `State`: a pytree of arrays, which scans, maps, shards and saves as any other.

        Raises:
          SpecError: the model has no caches, or fewer positions than `capacity`; or an input
            past... has no output present... (code `option`). An array of `inputs` is no input of
            a step, or of another dtype or shape.
          UnsupportedError: an operator reads a cache in a way that has no state.

        Example:
          >>> model = dmlax.onnx.load("model.onnx")  # doctest: +SKIP
          >>> state = model.init_state(batch=1, capacity=256)  # doctest: +SKIP
          >>> outputs, state = model.step(state, input_ids)  # doctest: +SKIP
        """
        slots, arrays = self._slots, dict[str, Array]()
        for name, x in (inputs or {}).items():
            if name not in (*slots.pasts, *slots.given()):
                text = f"Model: inputs has {name!r}, expected some of {', '.join(slots.given())}"
                raise SpecError(f"{text}, or the caches past...", "option", "inputs")
            wanted = self._file.inputs[name]
            arrays[name] = _checked(name, jnp.asarray(_as_array(name, x, wanted)), wanted)
        state = slots.init(batch, capacity, arrays)
        if slots.grows:
            self._expect_same_growth()
        return state

    def _expect_same_growth(self) -> None:
        """Refuses a state if the model's answer to a few rows is another one with it."""
        if self._is_same_growth is None:
            slots, errors = self._slots, [0.0]
            state, caches = slots.init(1, 7), slots.init(1, 1).caches
            caches = {
                slot.past: lax.slice_in_dim(caches[slot.past], 0, 0, axis=slot.axis)
                for slot in slots.slots
            }
            for given, made in slots.examples():
                wanted = self({**given, **made, **caches})
                caches = {slot.past: wanted[slot.present] for slot in slots.slots}
                outputs, state = self.step(state, given)
                for name, x in outputs.items():
                    if jnp.issubdtype(x.dtype, jnp.floating):
                        scale = float(jnp.abs(wanted[name]).max())
                        errors.append(float(jnp.abs(x - wanted[name]).max()) / max(scale, 1e-30))
            self._is_same_growth = max(errors) < _SAME
        if not self._is_same_growth:
            text = (
                "Model: its caches grow, and its numbers depend on their size, as positions do that"
            )
            text += " are no input: no state keeps them. Call the model, whose caches may grow"
            raise UnsupportedError(text, "option", "model")

    def step(
        self,
        state: State,
        *inputs: ArrayLike | Mapping[str, ArrayLike],
        counts: ArrayLike | None = None,
        **keywords: ArrayLike,
    ) -> tuple[dict[str, Array], State]:
        """Computes one chunk of every sequence, jitted, and appends it to a state.

        Args:
          state: of `init_state` or an earlier step. It is donated: its arrays cannot be used again.
          *inputs: the inputs without caches, masks and positions, in the file's order or in one
            dict by name: most often the tokens, [batch, rows]. A mask or positions may be given.
          counts: the valid rows of every sequence, [batch]; others are padding behind them, whose
            outputs are unspecified. Default all.
          **keywords: the inputs by name, instead of a dict.

        Returns:
          The outputs by name, without the caches; and the next state.

        Raises:
          SpecError: as `__call__`; or the state is of another model, or has no room for the chunk
            (field `state`). If lengths are traced, a sequence without room gets NaN.
        """
        named = self._name_step(state, inputs, keywords)
        valid = self._expect_room(state, named, counts)
        outputs, state = self._jitted_step(self.params, state, named, valid)
        return outputs, state

    def prefill(
        self,
        state: State,
        *inputs: ArrayLike | Mapping[str, ArrayLike],
        counts: ArrayLike | None = None,
        **keywords: ArrayLike,
    ) -> tuple[dict[str, Array], State]:
        """Computes prompts in chunks of few sizes, so that few programs serve every length.

        The arguments and errors are those of `step`. Inputs are on the host.

        Returns:
          The outputs of the last valid row of every sequence, with one row; and the next state.

        Raises:
          SpecError: as `step`; or no sequence has a row (code `sizes`).
        """
        named, slots = self._name_step(state, inputs, keywords), self._slots
        self._expect_room(state, named, counts, is_cut=True)
        most = np.full(state.lengths.shape, _rows(named), np.int32)
        valid = most if counts is None else np.asarray(counts, np.int32)
        if not valid.any():
            text = "Model: the prompt has no row, and prefill returns the outputs of the last one"
            raise SpecError(f"{text}: give a sequence a token", "sizes", next(iter(named)))
        is_exact, last = not slots.takes_counts, dict[str, Array]()
        room = state.capacity - int(np.asarray(state.lengths).max())
        axis = self._file.inputs[next(filter(decoding.is_new, named))].shape[1]
        cut = {name for name in named if [*self._file.inputs[name].shape[1:2]] == [axis]}
        sizes = decoding.chunks(int(valid.max(initial=0)), room, is_exact, slots.has_ranges)
        for start, size in sizes:
            part = {
                name: decoding.rows_of(x, start, size) if name in cut else x
                for name, x in named.items()
            }
            now = np.clip(valid - start, 0, size).astype(np.int32)
            given = None if is_exact else now
            outputs, state = self._jitted_last(self.params, state, part, given)
            if last and not now.all():
                outputs = {
                    name: jnp.where(by_first_axis(now, x.ndim) > 0, x, last[name])
                    for name, x in outputs.items()
                }
            last = outputs
        return last, state

    def apply_step(
        self,
        params: Mapping[str, Param],
        state: State,
        inputs: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike],
        /,
        counts: ArrayLike | None = None,
    ) -> tuple[dict[str, Array], State]:
        """Computes one chunk of every sequence, as a pure function for loops in `jax.jit`.

        Args:
          params: as `model.params`.
          state: of `init_state` or an earlier step.
          inputs: as of `step`: an array, a tuple or a dict.
          counts: the valid rows of every sequence, [batch]; default all.

        Returns:
          The outputs by name, without the caches; and the next state.

        Raises:
          SpecError: as `step`, except for room: a sequence without room gets NaN.
        """
        slots = self._slots
        named = {
            name: _widened(x, self._file.inputs[name])
            for name, x in self._name_step(state, (inputs,), {}).items()
        }
        self._expect_batch(state, named)
        if slots.grows and state.lengths.shape[0] > 1:
            return self._map_step(params, state, named, counts)
        rows, valid = _rows(named), jnp.zeros(state.lengths.shape, np.int32)
        valid = valid + (rows if counts is None else jnp.asarray(counts).astype(np.int32))
        made = {**slots.make(state, valid, rows, named), **state.inputs}
        if self._size_inputs:
            other, _ = self._take_sizes({**made, **named, **state.caches})
            rest = {name: x for name, x in named.items() if name not in self._size_inputs}
            return other.apply_step(self._params_of(other, params), state, rest, counts)
        values = self._bind({**made, **named, **state.caches})
        with budget.limit(self._file_bytes), self._blaming_sizes(values):
            shown = slots.as_grown(values, rows)
            graph = slots.with_counts(self._graph_of(None, shown))
            graph = slots.appending(graph, shown) if slots.grows else graph
        values |= {decoding.COUNTS: valid, **slots.starts(state, rows)}
        outputs = self._evaluate(graph, params, values, self._file.outputs)
        others = {name: x for name, x in outputs.items() if name not in slots.presents}
        has_room = state.lengths + rows <= state.capacity
        state = slots.next(state, outputs, valid, counts is not None)
        return decoding.mark(others, has_room), state

    def _map_step(
        self,
        params: Mapping[str, Param],
        state: State,
        named: Mapping[str, Array],
        counts: ArrayLike | None,
    ) -> tuple[dict[str, Array], State]:
        """A step of sequences whose positions are no input: each is a batch of one."""

        def step(*parts: Any) -> Any:
            one = jax.tree.map(lambda x: x[None], parts)
            return jax.tree.map(lambda x: x[0], self.apply_step(params, *one))

        batch = state.lengths.shape
        for name, x in named.items():
            if x.shape[:1] != batch:
                text = f"Model: {name} is {aval_of(x)}, expected {batch[0]} sequences first"
                raise SpecError(text, "sizes", name)
        counts = None if counts is None else jnp.asarray(counts)
        outputs: tuple[dict[str, Array], State] = jax.vmap(step)(state, named, counts)
        return outputs

    @functools.cached_property
    def _jitted_step(self) -> Callable[..., tuple[dict[str, Array], State]]:
        return jax.jit(self.apply_step, donate_argnums=1)

    @functools.cached_property
    def _jitted_last(self) -> Callable[..., tuple[dict[str, Array], State]]:
        """A step that returns the last valid row of every sequence."""

        def compute(
            params: Mapping[str, Param], state: State, inputs: Inputs, counts: Array | None
        ) -> tuple[dict[str, Array], State]:
            outputs, state = self.apply_step(params, state, inputs, counts)
            rows = _rows(inputs)
            index = rows - 1 if counts is None else jnp.maximum(counts - 1, 0)
            index = jnp.broadcast_to(jnp.asarray(index, np.int32), state.lengths.shape)

            def last(x: Array) -> Array:
                if x.ndim < 2 or x.shape[:2] != (index.shape[0], rows):
                    return x
                return jnp.take_along_axis(x, by_first_axis(index, x.ndim), axis=1)

            return {name: last(x) for name, x in outputs.items()}, state

        return jax.jit(compute, donate_argnums=1)

    def _name_step(
        self, state: State, inputs: tuple[Any, ...], keywords: Mapping[str, ArrayLike]
    ) -> dict[str, Any]:
        """The inputs of a step by name, those that a step makes only if they are given."""
        self._slots.expect_state(state)
        names = tuple(name for name in self._slots.given() if name not in state.inputs)
        given = one_form(inputs, keywords)
        if not isinstance(given, Mapping):
            given = by_name(names, inputs[0] if len(inputs) == 1 else inputs)
        known = {*self._file.inputs} - self._slots.pasts
        for name in (*names, *given):
            if name not in given:
                raise SpecError(f"Model: input {name} is missing", "missing_tensor", name)
            if name not in known:
                text = f"Model: {name} is no input of a step, expected {', '.join(names)}"
                raise SpecError(text, "option", name)
        arrays = {name: _as_array(name, x, self._file.inputs[name]) for name, x in given.items()}
        narrow = {
            name: _narrowed(name, x, self._file.inputs[name])
            for name, x in sorted(arrays.items(), key=lambda item: item[0] not in names)
        }
        for name, x in narrow.items():  # x64 widens a dtype later
            if x.ndim != len(self._file.inputs[name].shape):
                _check(name, x, self._file.inputs[name])
        return narrow

    @staticmethod
    def _expect_batch(state: State, named: Mapping[str, Any]) -> None:
        """Refuses a chunk of other sequences than a state has."""
        batch, (name, x) = state.lengths.shape[0], next(iter(named.items()))
        if x.ndim > 1 and x.shape[0] != batch:
            text = f"Model: {name} is {aval_of(x)}, and the state has {batch} sequences"
            raise SpecError(text, "sizes", name)

    def _expect_room(
        self,
        state: State,
        named: Mapping[str, Any],
        counts: ArrayLike | None,
        is_cut: bool = False,
    ) -> Array | None:
        """Refuses counts and chunks that do not fit a state, where values are known.

        Returns the counts on the device. With `is_cut` the padding of a chunk needs no room.
        """
        self._expect_batch(state, named)
        rows, batch = _rows(named), state.lengths.shape[0]
        valid = None if counts is None else np.asarray(counts)
        if valid is not None:
            text = f"is {valid.tolist()}, expected {batch} integers from 0 to {rows}"
            fits = valid.shape == (batch,) and valid.dtype.kind in "iu"
            fits = fits and bool(((valid >= 0) & (valid <= rows)).all())
            if not fits:
                raise SpecError(f"Model: counts {text}", "value", "counts")
            if not self._slots.takes_counts:
                text = "Model: counts is given, and the model takes whole chunks only"
                raise SpecError(text, "option", "counts")
            rows = int(valid.max()) if is_cut else rows
        if not isinstance(state.lengths, jax.core.Tracer):
            longest = int(np.asarray(state.lengths).max(initial=0))
            if longest + rows > state.capacity:
                text = f"Model: state is full: it has {longest} of {state.capacity} tokens, and the"
                text += f" chunk {rows} rows: give init_state a larger capacity"
                raise SpecError(text, "sizes", "state")
        return None if valid is None else jnp.asarray(valid, np.int32)

    @contextlib.contextmanager
    def _blaming_sizes(self, values: Mapping[str, Array]) -> Iterator[None]:
        """Blames errors of nodes on the dynamic sizes of a call: `load` checked all others."""
        try:
            yield
        except ModelError as error:
            names = [
                name
                for name, x in self._inputs.items()
                if any(isinstance(size, str) for size in x.shape)
            ]
            given = ", ".join(f"{name} is {aval_of(values[name])}" for name in names)
            if not names:
                raise
            text = f"Model: {given}, which the nodes do not fit: {error}"
            raise SpecError(text, "sizes", names[0]) from None

    def _graph_of(self, outputs: tuple[str, ...] | None, values: Mapping[str, Array]) -> Graph:
        """The graph for outputs, None for the file's; assumed sizes are those of the values."""
        if outputs is None and self._assumed == Assumptions():
            return self._graph
        shapes = tuple((name, tuple(x.shape)) for name, x in values.items())
        return self._graph_for(outputs, shapes if self._assumed != Assumptions() else ())

    def _make_graph(self, outputs: tuple[str, ...] | None, shapes: Shapes) -> Graph:
        """The graph for outputs and the shapes of a call: passes do not fuse through outputs."""
        graph = self._fused if outputs is None else self._with_outputs(outputs)
        if not shapes:
            return run_passes_of_shapes(self._check(graph))
        inputs = {
            name: jax.ShapeDtypeStruct(shape, device_dtype(self._inputs[name].dtype))
            for name, shape in shapes
        }
        options = self._options
        checked, _ = check(graph, self._param_structs, lambda _: inputs, options, Assumptions())
        return run_passes_of_shapes(checked)

    def _with_outputs(self, outputs: tuple[str, ...]) -> Graph:
        """The graph that computes other tensors."""
        for name in outputs:
            if name not in self._file.tensors:
                raise SpecError(f"Model: outputs has no tensor {name!r}", "option", "outputs")
        inner = dict.fromkeys(name for name in outputs if name not in self._file.outputs)
        whole = self._file.replace(outputs=(*self._file.outputs, *inner), inner=frozenset(inner))
        graph = run_passes(whole, self._options.arithmetic).replace(outputs=outputs).prune()
        constants = {name: x for name, x in graph.constants.items() if name not in self.params}
        return graph.replace(constants=constants)

    def _bind(self, inputs: object) -> dict[str, Array]:
        """Names the inputs, and checks their dtypes and shapes."""
        named = self._name(inputs)
        return {name: _checked(name, named[name], x) for name, x in self._file.inputs.items()}

    def _given_defaults(self, inputs: object) -> tuple[str, ...]:
        """The constants that a dict of inputs replaces."""
        names = inputs if isinstance(inputs, Mapping) else ()
        return tuple(sorted(name for name in names if name in self._saved.defaults))

    def _make_with_defaults(self, names: tuple[str, ...]) -> "Model":
        """The model of which these constants are inputs."""
        return Model(self._source().give_defaults(names), self._options)

    def _take_sizes(self, inputs: object) -> tuple["Model", dict[str, Any]]:
        """The model for the sizes among the inputs, and the other inputs."""
        named, sizes = self._name(inputs), []
        for name in self._size_inputs:
            array = named.pop(name)
            if isinstance(array, jax.core.Tracer):
                text = (
                    f"Model: {name} is a size and traced here: give a number or an array of NumPy"
                )
                text += f', or load(..., constants={{"{name}": value}})'
                raise SpecError(text, "value", name)
            array = np.asarray(array)
            sizes.append((name, array.dtype.name, array.shape, *array.ravel().tolist()))
        return self._with_sizes(tuple(sizes)), named

    def _make_with_sizes(self, sizes: tuple[Any, ...]) -> "Model":
        """The model of which some inputs are constants."""
        source = self._source()
        arrays = {
            name: np.asarray(values, dtype).reshape(shape) for name, dtype, shape, *values in sizes
        }
        inputs = {name: x for name, x in source.inputs.items() if name not in arrays}
        constants = {**source.constants, **arrays}
        return Model(source.replace(inputs=inputs, constants=constants), self._options)

    def _params_of(self, other: "Model", params: Mapping[str, Param]) -> dict[str, Param]:
        """The params of a model with other inputs, of which a few may have another form."""
        chosen = {name: params[name] for name in other.params if name in params}
        for name, param in chosen.items():
            if str(jax.tree.structure(param)) != str(jax.tree.structure(other.params[name])):
                text = (
                    f"Model: params {name!r} has another form beside these inputs: call the model"
                )
                raise SpecError(text, "option", "params")
        return chosen

    def _name(self, inputs: object) -> dict[str, Any]:
        """The inputs as arrays by name, all of them and no other."""
        names = tuple(self._file.inputs)
        named = inputs if isinstance(inputs, Mapping) else by_name(names, inputs)
        for name in (*names, *named):
            if name not in named:
                raise SpecError(f"Model: input {name} is missing", "missing_tensor", name)
            if name not in names:
                raise SpecError(f"Model: {name} is no input of the model", "option", name)
        wanted = self._file.inputs
        return {name: _as_array(name, x, wanted[name]) for name, x in named.items()}

    @functools.cached_property
    def _counted_nodes(self) -> list[Node]:
        return [node for node in self._graph.nodes if node.op in COUNTED and not node.domain]

    def _check_counts(self, outputs: Mapping[str, Array]) -> None:
        for node in self._counted_nodes:
            name = count_name(node.outputs[0])
            if name not in outputs or isinstance(outputs[name], jax.core.Tracer):
                continue
            count, size = int(outputs[name]), self._options.of(node).nonzero_size
            assert size is not None  # a node without one is declined
            if count > size:
                text = f"Model: {node} has {count} rows, expected {size} or fewer: nonzero_size"
                raise SpecError(text, "sizes", node.outputs[0])

    def tensors(self) -> set[str]:
        """The names of the tensors that `apply` takes as `outputs`: all that the outputs need."""
        return set(self._file.tensors)

    def explain(
        self, *inputs: ArrayLike | jax.ShapeDtypeStruct | Mapping[str, object]
    ) -> ModelExplanation:
        """Lists the nodes before and after each pass, and the operators of dmlax that run.

        Args:
          *inputs: the inputs of a call, or structs of them; without inputs dynamic sizes are
            symbolic, as in an export.

        Raises:
          SpecError: as `__call__`, except for counts.
        """
        if names := self._given_defaults(_one_or_all(inputs)):
            return self._with_defaults(names).explain(*inputs)
        structs = self._structs_of(inputs)
        program = dmlax.explain(self.apply, self.params, structs)
        assert isinstance(program, dmlax.ProgramExplanation)
        before, after = _count(self._file.nodes), _count(self._graph.nodes)
        with budget.limit(self._file_bytes):
            passed = list(each_pass(self._file.prune(), self._options.arithmetic))
            passes = tuple(self._pass_counts(passed))
            reasons = why_float(passed[-1][1], self._options.arithmetic)
        left = {node.outputs[0]: node for node in self._graph.nodes}
        floats = tuple(f"{left[name]}: {why}" for name, why in reasons.items() if name in left)
        return ModelExplanation(before, after, passes, program, tuple(_notes(structs)), floats)

    def export(
        self,
        *inputs: ArrayLike | jax.ShapeDtypeStruct | Mapping[str, object],
        platform: Literal["cpu", "cuda"] | None = None,
    ) -> jax.export.Exported:
        """Exports `apply`, a function of the params and of the inputs by name.

        Args:
          *inputs: the inputs of a call, or structs of them; without inputs dynamic sizes are
            symbolic.
          platform: a program with the kernels of `"cpu"` or `"cuda"`, as `dmlax.export` makes it;
            by default a program of `xla` for CPUs, NVIDIA GPUs and TPUs.

        Raises:
          SpecError: as `__call__`, except for counts; or a platform without kernels (code
            `option`).
          UnsupportedError: the kernels of the platform cannot run here.
        """
        if names := self._given_defaults(_one_or_all(inputs)):
            return self._with_defaults(names).export(*inputs, platform=platform)
        params, structs = jax.tree.map(_struct, self.params), self._structs_of(inputs)
        if platform is None:
            portable = jax.export.export(jax.jit(self.apply), platforms=_PORTABLE)
            return portable(params, structs)
        return dmlax.export(self.apply, platform=platform)(params, structs)

    def _structs_of(self, inputs: tuple[Any, ...]) -> Structs:
        """The shapes and the dtypes of the inputs of a call, symbolic ones without inputs."""
        if not inputs:
            return self.inputs
        return {name: _struct(x) for name, x in self._bind(_one_or_all(inputs)).items()}

    def _pass_counts(self, passed: Sequence[tuple[str, Graph]]) -> Iterator[tuple[str, int]]:
        """The names of the passes, and the numbers of nodes that they leave."""
        for name, graph in passed:
            yield name.replace("_", " "), len(graph.nodes)
        graph, _ = split_constants(passed[-1][1])
        for run in PASSES_OF_SHAPES:
            graph = run(graph, self._fused.avals or {})
            yield run.__name__.replace("_", " "), len(graph.nodes)

    def save(self, path: archive.Path | IO[bytes]) -> None:
        """Writes the graph and its constants to a zip file, which `load` reads without `onnx`.

        Args:
          path: the path of the file, or a file that is open for writing bytes.
        """
        archive.write(path, self._source(), self._options)

    def _source(self) -> Graph:
        """The graph that the model was made of."""
        arrays = IdentityMap[np.ndarray]()  # subgraphs share params

        def read(graph: Graph) -> Graph:
            constants = graph.constants
            assert isinstance(constants, FileConstants)
            return graph.replace(constants=constants.read(arrays))

        return self._saved.map_graphs(read)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickles what `save` writes, and functions of `operators` by their names."""
        file, functions = io.BytesIO(), self._options.operators
        self.save(file)
        names = archive.needed_operators(self._saved, self._options)
        return self._unpickle, (file.getvalue(), {name: functions[name] for name in names})

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {x}" for name, x in self._file.inputs.items())
        return f"Model({inputs} -> {', '.join(self._file.outputs)})"


def _array_of(value: Param | np.ndarray) -> Array:
    """Returns a tensor on the device; unpacks a packed param."""
    if isinstance(value, PackedIntegers | PackedFilter):
        return value.unpack()
    array: Array = wide.output(value)
    return array


def _widened(x: Any, wanted: TensorType) -> Any:
    """Integers in the input's dtype, if it is wider: loops have tokens of 32 bits."""
    dtype = device_dtype(wanted.dtype)
    is_wider = dtype.kind in "iu" and np.dtype(x.dtype).kind in "iu" and np.can_cast(x.dtype, dtype)
    return x.astype(dtype) if is_wider else x


def _rows(named: Any) -> int:
    """The rows of a chunk: the axis behind the batch."""
    shapes = (x.shape for name, x in named.items() if x.ndim > 1 and decoding.is_new(name))
    rows: int = next(shapes, (1, 1))[1]
    return rows


def one_form(inputs: tuple[object, ...], keywords: Mapping[str, object]) -> Any:
    """The inputs of a call in one form: keywords, one dict or a tuple; refuses both ways."""
    if inputs and keywords:
        text = "Model: inputs are given by position and by keyword, expected one or the other"
        raise SpecError(text, "option", next(iter(keywords)))
    return keywords or _one_or_all(inputs)


def _one_or_all(inputs: tuple[object, ...]) -> object:
    """One dict of inputs, or a tuple of them."""
    return inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs


def by_name(names: tuple[str, ...], inputs: object) -> dict[str, object]:
    """Names an array, or a tuple of all inputs in the file's order."""
    values = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if len(values) != len(names):
        text = f"Model: {len(values)} inputs are given, expected {len(names)}: {names}"
        raise SpecError(text, "missing_tensor", names[min(len(values), len(names) - 1)])
    return dict(zip(names, values, strict=True))


def _narrowed(name: str, array: Any, wanted: TensorType) -> Any:
    """Narrows integers that are known on the host, which `jax.jit` would wrap."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        return array
    try:
        return _held(array, wanted)
    except UnsupportedError as error:
        raise SpecError(f"Model: {name}: {error}", "value", name) from None


def _as_array(name: str, value: Any, wanted: TensorType) -> Any:
    """Converts numbers and the arrays of other libraries; leaves NumPy's and JAX's as they are."""
    if isinstance(value, np.ndarray | Array | jax.ShapeDtypeStruct):
        array = value
    elif isinstance(getattr(value, "dtype", None), np.dtype) and not hasattr(value, "__array__"):
        array = value  # a struct of another library
    else:
        try:
            array = _read_array(value)
        except Exception as error:
            text = (
                f"is of type {type(value).__name__}, which NumPy does not read, expected {wanted}"
            )
            raise SpecError(f"Model: {name} {text}: {error}", "data_type", name) from None
    if np.dtype(array.dtype).kind in "OSUMm":
        text = f"is of type {type(value).__name__} and has no numbers, expected {wanted}"
        raise SpecError(f"Model: {name} {text}", "data_type", name)
    return native(array) if isinstance(array, np.ndarray) else array


def _read_array(value: Any) -> np.ndarray | Array:
    """An array of a number, a list, or an object with `__array__` or `__dlpack__`."""
    has_dlpack = hasattr(value, "__dlpack__")
    try:
        if not has_dlpack or hasattr(value, "__array__"):
            return np.asarray(value)
    except Exception:
        if not has_dlpack:  # NumPy lacks bfloat16, and reads no memory of a GPU
            raise
    return jnp.array(jax.dlpack.from_dlpack(value))


def _held(array: np.ndarray, wanted: TensorType) -> np.ndarray | Array:
    """Narrows integers that fit 32 bits; an input that has 64 in the file takes others, too."""
    is_wide = wanted.dtype in NARROWED and not fits(array, NARROWED.get(array.dtype))
    held: np.ndarray | Array = wide.widen(array) if is_wide else narrow(array)
    return held


def _struct(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _on_cpu(inputs: Mapping[str, object]) -> Mapping[str, object]:
    """Has the calling thread wait while large arrays of the host are copied to a CPU's memory.

    The program would run on the thread that copies them, and each thread keeps what it freed. Small
    arrays are copied at once.
    """
    count = 0
    for x in inputs.values():
        if not isinstance(x, np.ndarray):
            return inputs
        count += x.nbytes
    if count <= _MOST_COPIED_AT_ONCE or jax.default_backend() != "cpu":
        return inputs
    copies: Mapping[str, object] = jax.block_until_ready(jax.device_put(inputs))
    return copies


def _notes(structs: Mapping[str, jax.ShapeDtypeStruct]) -> Iterable[str]:
    """Explains symbolic sizes, with which kernels may not run."""
    for name, struct in structs.items():
        symbols = [str(size) for size in struct.shape if not isinstance(size, int)]
        if symbols:
            yield (
                f"{', '.join(symbols)} of {name}: symbolic here; give the inputs of a call to see "
                "what it runs. An export for one platform keeps a CPU's kernels"
            )


def _structs(inputs: Mapping[str, TensorType], assumed: Assumptions) -> Structs:
    """The inputs as JAX's structs, whose dynamic sizes share one scope and its constraints."""
    scope = jax.export.SymbolicScope(assumed.facts)
    structs = {}
    for name, x in inputs.items():
        sizes = (f"{MULTIPLE}*{size}" if size in assumed.multiples else size for size in x.shape)
        shape = _symbolic_shape(name, tuple(sizes), scope)
        if x.dtype.hasobject:
            raise UnsupportedError(f"input {name!r} has the dtype {x.dtype}, expected numbers")
        structs[name] = jax.ShapeDtypeStruct(shape, device_dtype(x.dtype))
    return structs


def _symbolic_shape(
    name: str, sizes: tuple[int | str, ...], scope: jax.export.SymbolicScope
) -> tuple[object, ...]:
    """The shape of an input; JAX parses its dynamic sizes."""
    text = f"has rank {len(sizes)}, expected at most {budget.MAXIMUM_RANK}"
    expect(len(sizes) <= budget.MAXIMUM_RANK, f"input {name!r} {text}")
    for size in sizes:
        if isinstance(size, str) and (why := why_costly(size)):
            text = f"input {name!r} has the size {size[:60]!r}, which {why}"
            raise ModelError(f"{text}: give input_shapes a name or a static size")
    listed = ",".join(map(str, sizes))
    text = f"input {name!r} has the shape [{listed[:300]}]"
    try:
        shape: tuple[object, ...] = ()
        if sizes:
            shape = tuple(jax.export.symbolic_shape(listed, scope=scope))
    except Exception as error:  # the parser's own error
        raise ModelError(f"{text}: {str(error)[:300]}") from None
    is_valid = all(size >= 0 for size in shape if isinstance(size, int))
    expect(is_valid and len(shape) == len(sizes), f"{text}, which is none")
    return shape


def _checked(name: str, array: Array, wanted: TensorType) -> Array:
    """Checks an input, which keeps its dtype; 64-bit integers are narrowed as JAX does."""
    _check(name, array, wanted)
    return to_device(_held(array, wanted)) if isinstance(array, np.ndarray) else array


def _check(name: str, array: Array | np.ndarray, wanted: TensorType) -> None:
    """Refuses an input of another dtype or shape."""
    shape = array.shape
    sizes = ((x, y) for x, y in zip(shape, wanted.shape, strict=False) if isinstance(y, int))
    code: Code | None = None if all(x == y for x, y in sizes) else "sizes"
    code = code if len(shape) == len(wanted.shape) else "dimension_count"
    code = code if device_dtype(array.dtype) == device_dtype(wanted.dtype) else "data_type"
    if code is not None:
        text = f"is {np.dtype(array.dtype).name}[{','.join(map(str, shape))}], expected {wanted}"
        raise SpecError(f"Model: {name} {text}", code, name)


def _count(nodes: Iterable[Node]) -> dict[str, int]:
    return dict(collections.Counter(node.type for node in nodes).most_common())


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
