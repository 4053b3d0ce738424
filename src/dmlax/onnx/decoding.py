"""States for loops: the caches of a model that reads `past...` and writes `present...`.

A slot is such a pair of tensors. The operator that reads its past says what it is: a cache with a
capacity, a window of the last keys, a tensor that every step replaces, or a cache that a `Concat`
makes longer. A step writes into the last, so that its shape stays.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core.arguments import Rules, aval_of
from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import MICROSOFT, Graph, Node, TensorType
from dmlax.onnx.operators.caches import or_nan
from dmlax.onnx.operators.values import device_dtype

Kind = Literal["cache", "shared", "window", "replaced", "grown"]
BUCKETS = (256, 64, 16, 1)
"""The rows of the chunks of a prompt, which are few so that few programs serve every length."""
COUNTS = "dmlax.counts"
"""The input that the steps of a graph have: the valid rows of every sequence of a chunk."""
STARTS, _SHIFT = "dmlax.starts", "dmlax.shift"
"""The inputs of steps that append: where a chunk begins, and what positions lack to be there."""
_READERS: dict[str, tuple[int, ...]] = {  # the inputs that are pasts, and the outputs from 1 on
    "GroupQueryAttention": (3, 4),
    "MultiHeadAttention": (6, 7),
    "DecoderMaskedMultiHeadAttention": (5, 6),
    "LinearAttention": (3,),
    "CausalConvWithState": (3,),
}
_LENGTHS = {"MultiHeadAttention": 8, "DecoderMaskedMultiHeadAttention": 7}
_COUNTS_PLACE, _LAST_KEYS_PLACE, _TABLE_PLACE = 16, 5, 7  # inputs of GroupQueryAttention
_OF_SIZES = {"Gather", "Cast", "Add", "Sub", "Squeeze", "Unsqueeze", "Slice", "Reshape", "Identity"}
"""The operators by which a file computes the first position of a chunk from a cache's shape."""
_ENCODER = "encoder"  # in the names of inputs that belong to another sequence
_RULES = Rules("Model")


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["caches", "lengths", "inputs"],
    meta_fields=["capacity"],
)
@dataclass(frozen=True, repr=False)
class State:
    """The caches of sequences, and their lengths: a pytree, which `Model.init_state` makes.

    Attributes:
      caches: arrays by the names of the inputs that they are, the batch first.
      lengths: the tokens of every sequence so far, int32[batch].
      capacity: the most tokens of a sequence.
      inputs: the inputs that every step reads as they are, such as an encoder's keys.
    """

    caches: dict[str, Array]
    lengths: Array
    capacity: int
    inputs: dict[str, Array] = field(default_factory=dict)

    __module__ = "dmlax.onnx"

    def __repr__(self) -> str:
        lengths: object = self.lengths
        if isinstance(lengths, Array) and not isinstance(lengths, jax.core.Tracer):
            lengths = np.asarray(lengths).tolist()
        return f"State({len(self.caches)} caches, lengths {lengths} of {self.capacity})"


class Slot(NamedTuple):
    """A past and its present.

    Attributes:
      kind: what the operator that reads the past makes of it.
      window: the least places of a window.
      axis: of the places.
    """

    past: str
    present: str
    kind: Kind
    window: int = 0
    axis: int = 2


class Slots:
    """The slots of a graph, and the inputs that a step makes.

    Args:
      graph: the model's graph, after its passes.
      inputs: the model's inputs.
      structs: their shapes and those of params, whose sizes are known as far as nodes fix them.
      sizes: the inputs that are largest lengths.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, TensorType],
        structs: Mapping[str, jax.ShapeDtypeStruct],
        sizes: Sequence[str],
    ) -> None:
        self.graph, self.inputs, self.structs, self.sizes = graph, inputs, structs, sizes
        nodes = [node for node in graph.nodes if node.domain == MICROSOFT]
        self._last_keys = {
            node.input(_LAST_KEYS_PLACE) for node in nodes if node.op == "GroupQueryAttention"
        }
        self._shared_lengths = {
            node.input(_LENGTHS[node.op]) for node in nodes if node.op in _LENGTHS
        } - {""}
        self.slots = [*self._find()]
        grown = [slot for slot in self.slots if slot.kind == "grown"]
        self.grows = bool(grown)
        if len(grown) not in (0, len(self.slots)):
            text = f"has the input {grown[0].past}, which a Concat makes longer, and another kind"
            _RULES.fail("option", "model", f"{text} of cache: no state has both")
        if not self.slots:
            text = "has no input past... with an output present...: call it, without a state"
            _RULES.fail("option", "model", text)
        self.pasts = {slot.past for slot in self.slots}
        self.presents = {slot.present for slot in self.slots} | self._constant_presents

    def _find(self) -> Iterator[Slot]:
        names = [name for name in self.inputs if name.startswith("past") and "length" not in name]
        self._constant_presents = set[str]()
        for past in names:
            if len(self.inputs[past].shape) < 2:
                continue
            suffix = re.sub(r"^past(_key_values)?", "", past)
            wanted = [f"present{middle}{suffix}" for middle in ("", "_key_values")]
            present = next((name for name in wanted if name in self.graph.outputs), None)
            writer = self.graph.producers.get(present or "")
            if _ENCODER in past and (writer is None or writer.op == "Identity"):
                # No step changes the keys of another sequence. Merged decoders give a constant.
                self._constant_presents.update(filter(None, [present]))
                continue
            if present is None:
                text = f"has the input {past}, and no output {wanted[0]} of it: no state pairs them"
                _RULES.fail("option", "model", f"{text}; give it to a call of the model")
            yield self._slot(past, present)

    def _slot(self, past: str, present: str) -> Slot:
        readers = [node for node in self.graph.consumers.get(past, []) if node.op != "Shape"]
        node = readers[0] if len(readers) == 1 else None
        if node is not None and node.is_a("Concat") and node.outputs == (present,):
            axis, rank = int(node.attributes["axis"]), len(self.inputs[past].shape)
            if node.inputs[0] == past and len(node.inputs) == 2 and axis % rank:
                return Slot(past, present, "grown", axis=axis % rank)
        places = _READERS.get(node.op, ()) if node is not None else ()
        place = next((i for i in places if node is not None and node.input(i) == past), None)
        written = None
        if node is not None and place is not None:
            index = 1 + place - places[0]
            written = node.outputs[index] if index < len(node.outputs) else None
        if node is None or written != present:
            operators = ", ".join(sorted({reader.type for reader in readers})) or "no operator"
            text = (
                f"its input {past} is read by {operators}, which does not write {present}: a state"
            )
            raise UnsupportedError(f"{text} needs one operator that reads a cache and writes it")
        window = int(node.attributes.get("local_window_size", -1))
        if node.attributes.get("sliding_window_cache"):
            return Slot(past, present, "window", window)
        if node.op == "GroupQueryAttention":
            return Slot(past, present, "cache")
        shared = node.op in _LENGTHS and bool(node.input(_LENGTHS[node.op]))
        if node.op in _LENGTHS and not shared:
            text = f"Model: its {node.op} {node.name!r} has no past_sequence_length"
            raise UnsupportedError(f"{text}: its cache grows, which no state of one shape does")
        return Slot(past, present, "shared" if shared else "replaced")

    @functools.cached_property
    def takes_counts(self) -> bool:
        """True if a chunk may have rows that are no tokens.

        An output without a row for every token may be that of the last row, which is then none.
        """
        outputs = (name for name in self.graph.outputs if name not in self.presents)
        kinds = (slot.kind in ("cache", "window", "grown") for slot in self.slots)
        return all(kinds) and all(map(self._has_rows, outputs)) and not self.has_ranges

    @functools.cached_property
    def has_ranges(self) -> bool:
        """True if nodes quantize by the range of all rows of a chunk, on which the rest depends."""
        return any(node.op.startswith("DynamicQuantize") for node in self.graph.nodes)

    def _has_rows(self, output: str) -> bool:
        """True if an output has a row for every token of a chunk."""
        given = (self.structs[name].shape for name in self.given() if is_new(name))
        tokens, aval = next(x for x in given if len(x) > 1), (self.graph.avals or {}).get(output)
        return aval is not None and [*map(str, aval.shape[1:2])] == [str(tokens[1])]

    def init(self, batch: int, capacity: int, inputs: Mapping[str, Array] | None = None) -> State:
        """Caches that are empty or have first tokens, and the inputs of every step."""
        batch = _RULES.to_integer("batch", batch, 1)
        capacity = _RULES.to_integer("capacity", capacity, 1)
        self._expect_angles(capacity)
        if self.grows and batch > 1:  # a step maps over sequences, which have lengths of their own
            static = next((x for x in self.inputs.values() if x.shape[:1] == (batch,)), None)
            text = f"is {batch}, and the model has an input {static} that fixes it"
            _RULES.expect(static is None, "sizes", "batch", f"{text}: give load a dynamic one")
        caches, held, lengths = dict(self._empty(batch, capacity)), dict[str, Array](), set[int]()
        for name, x in (inputs or {}).items():
            text = f"{name} has {x.shape[0] if x.ndim else 'no'} sequences, expected {batch}"
            _RULES.expect(x.shape[:1] == (batch,), "sizes", "inputs", text)
            if name not in self.pasts:
                held[name] = jnp.array(x)  # a step donates it
                continue
            (slot,) = (slot for slot in self.slots if slot.past == name)
            lengths.add(x.shape[slot.axis])
            text = f"{name} is {aval_of(x)}, which does not fit into {aval_of(caches[name])}"
            fits = slot.kind in ("cache", "shared", "grown") and x.shape[slot.axis] <= capacity
            _RULES.expect(fits, "sizes", "inputs", text)
            caches[name] = lax.dynamic_update_slice(caches[name], x, (0,) * x.ndim)
        if lengths:
            text = f"has caches of {sorted(lengths)} tokens, expected all of them with one length"
            is_whole = len(lengths) == 1 and self.pasts <= {*(inputs or ())}
            _RULES.expect(is_whole, "option", "inputs", text)
        count = jnp.full(batch, max(lengths, default=0), np.int32)
        return State(caches, count, capacity, held)

    def _expect_angles(self, capacity: int) -> None:
        """Refuses more tokens than the rotary tables have rows."""
        tables = {node.input(_TABLE_PLACE) for node in self.graph.nodes if self.is_grouped(node)}
        structs = (self.structs.get(name) for name in tables if name)
        for rows in (x.shape[0] for x in structs if x is not None):
            if isinstance(rows, int):
                text = f"is {capacity}, and the model has angles of {rows} positions"
                _RULES.expect(capacity <= rows, "sizes", "capacity", text)

    def _empty(self, batch: int, capacity: int) -> Iterator[tuple[str, Array]]:
        for slot in self.slots:
            first, *sizes = self.structs[slot.past].shape
            if slot.kind != "replaced":
                sizes[slot.axis - 1] = slot.window if slot.kind == "window" else capacity
            unknown = [str(size) for size in sizes if not isinstance(size, int)]
            if unknown or (isinstance(first, int) and first != batch):
                text = f"of {slot.past} has the sizes {[first, *sizes]}, for a batch of {batch}"
                _RULES.fail("sizes", "input_shapes", f"{text}: give load static ones")
            dtype = device_dtype(self.inputs[slot.past].dtype)
            yield slot.past, jnp.zeros((batch, *sizes), dtype)

    def examples(self) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """Two small chunks, and what a call with caches that grow takes beside them."""
        rng, lengths = np.random.default_rng(0), (0, 3, 5)
        tokens = next(x for name, x in self.inputs.items() if name in self.given() and is_new(name))
        for start, stop in itertools.pairwise(lengths):
            names = {str(tokens.shape[0]): 1, str(tokens.shape[1]): stop - start}
            given, made = {}, {}
            for name, x in self.inputs.items():
                shape = [n if isinstance(n, int) else names.get(str(n), 4) for n in x.shape]
                if name in self.given():
                    is_float, least = x.dtype.kind == "f", int("mask" in name)
                    drawn = rng.normal(0, 1, shape) if is_float else rng.integers(least, 2, shape)
                    given[name] = drawn.astype(x.dtype)
                elif self._made(name) == "unread":
                    made[name] = np.zeros(shape, x.dtype)
                elif self._made(name) == "mask":
                    made[name] = np.ones((1, stop), x.dtype)
                elif self._made(name) == "positions":
                    places = np.arange(start, stop, dtype=x.dtype)
                    made[name] = np.broadcast_to(places, (*shape[:-1], stop - start))
            yield given, made

    def expect_state(self, state: State) -> None:
        """Refuses a state of another model."""
        text = f"is a {type(state).__name__}, expected one of init_state"
        _RULES.expect(isinstance(state, State), "option", "state", text)
        concrete = (x for x in jax.tree.leaves(state) if not isinstance(x, jax.core.Tracer))
        gone = any(isinstance(x, Array) and x.is_deleted() for x in concrete)
        text = "was donated to a step: use the state that the step returned"
        _RULES.expect(not gone, "value", "state", text)
        text = f"has the caches {sorted(state.caches)}, expected {sorted(self.pasts)}"
        _RULES.expect(state.caches.keys() == self.pasts, "option", "state", text)
        for slot in self.slots:
            cache, dtype = state.caches[slot.past], device_dtype(self.inputs[slot.past].dtype)
            sizes = [state.lengths.shape[0], *self.structs[slot.past].shape[1:]]
            if slot.kind != "replaced":
                sizes[slot.axis] = slot.window if slot.kind == "window" else state.capacity
            found = f"{np.dtype(cache.dtype).name}[{','.join(map(str, cache.shape))}]"
            wanted = f"{dtype.name}[{','.join(map(str, sizes))}]"
            text = f"{slot.past} is {found}, expected {wanted} for a capacity of {state.capacity}"
            _RULES.expect(found == wanted, "sizes", "state", text)

    def given(self) -> tuple[str, ...]:
        """The inputs that a caller gives."""
        return tuple(
            name for name in self.inputs if name not in self.pasts and not self._made(name)
        )

    def _made(self, name: str) -> str | None:
        """The name of the rule in `make` by which a step makes an input; None for other inputs."""
        x = self.inputs[name]
        if name not in self.graph.read and name not in self.sizes:
            return "unread"
        if x.dtype.kind not in "iu" or _ENCODER in name:
            return None
        if name in self.sizes:
            return "size"
        if name in self._last_keys:
            return "last"
        if name in self._shared_lengths:
            return "past"
        rank = len(x.shape)
        if "mask" in name and rank == 2:
            return "mask"
        return "positions" if "position" in name and rank in (2, 3) else None

    def make(
        self, state: State, counts: Array, length: int, given: Mapping[str, Array]
    ) -> dict[str, Any]:
        """The masks, positions and lengths of a step, and what no node reads."""
        sizes = {
            str(name): size
            for key, x in {**state.inputs, **given}.items()
            for name, size in zip(self.inputs[key].shape, x.shape, strict=False)
        }
        ends = state.lengths + counts
        places = state.lengths[:, None] + jnp.arange(length, dtype=np.int32)
        mask = jnp.arange(state.capacity, dtype=np.int32) < ends[:, None]
        values = {"last": ends - 1, "past": state.lengths[:1], "mask": mask, "positions": places}
        made: dict[str, Any] = {}
        for name, x in self.inputs.items():
            rule = self._made(name)
            if rule == "size":
                made[name] = np.full(x.shape, state.capacity, x.dtype)
            elif rule == "unread":
                shape = [n if isinstance(n, int) else sizes.get(n, 1) for n in x.shape]
                made[name] = jnp.zeros(shape, device_dtype(x.dtype))
            elif rule:
                value = values[rule].astype(device_dtype(x.dtype))
                rank = len(x.shape)
                made[name] = jnp.broadcast_to(value, (3, *value.shape)) if rank == 3 else value
        return made

    @staticmethod
    def is_grouped(node: Node) -> bool:
        """True for the attention of the builder's files."""
        return node.is_a("GroupQueryAttention", MICROSOFT)

    def with_counts(self, graph: Graph) -> Graph:
        """A graph whose attentions read the valid rows of a chunk."""

        def extend(node: Node) -> Node:
            if not self.is_grouped(node) or node.input(_COUNTS_PLACE):
                return node
            missing = ("",) * (_COUNTS_PLACE - len(node.inputs))
            return node.replace(inputs=(*node.inputs[:_COUNTS_PLACE], *missing, COUNTS))

        return graph.replace(nodes=tuple(map(extend, graph.nodes)))

    def as_grown(self, values: Mapping[str, Array], rows: int) -> dict[str, Any]:
        """The values of a call whose caches have room for no more than a chunk, as structs."""
        structs: dict[str, Any] = dict(values)
        for slot in self.slots if self.grows else ():
            shape, dtype = [*values[slot.past].shape], values[slot.past].dtype
            shape[slot.axis] -= rows
            text = f"has a capacity of {shape[slot.axis] + rows}, and the chunk {rows} rows"
            _RULES.expect(shape[slot.axis] >= 0, "sizes", "state", text)
            structs[slot.past] = jax.ShapeDtypeStruct(tuple(shape), dtype)
        return structs

    def starts(self, state: State, rows: int) -> dict[str, Array]:
        """The inputs of a graph that appends a chunk to the caches of one sequence."""
        if not self.grows:
            return {}
        return {STARTS: state.lengths, _SHIFT: state.lengths[0] - (state.capacity - rows)}

    def appending(self, graph: Graph, structs: Mapping[str, jax.ShapeDtypeStruct]) -> Graph:
        """A graph whose caches keep their shape.

        Sizes stay those of caches with `capacity - rows` places to which a Concat adds the chunk.
        The Concat becomes a write behind the tokens that there are, and every row of numbers that
        begins at the cache's size, such as positions, begins at their count.

        Args:
          graph: reads the slots.
          structs: of `as_grown`.
        """
        slots, constants = {slot.past: slot for slot in self.slots}, dict(graph.constants)
        of_past, nodes = set[str](), list[Node]()
        for node in graph.nodes:
            first, output = node.input(0), node.outputs[0]
            if node.is_a("Shape") and first in slots:
                bounds = node.attributes.get("start", 0), node.attributes.get("end")
                constants[output] = np.array(structs[first].shape, np.int64)[slice(*bounds)]
                of_past.add(output)
            elif node.is_a("Concat") and first in slots:
                options = {"axis": slots[first].axis}
                names = (first, node.inputs[1], STARTS)
                nodes.append(node.become("TensorScatter", "", names, options, version=24))
            elif node.is_a("Range") and first in of_past:
                nodes += self._shifted(node)
            elif node.is_a("Slice") and node.input(1) in of_past and first not in of_past:
                nodes += self._rows_from(node, constants)
            else:
                if node.op in _OF_SIZES and not of_past.isdisjoint(node.inputs):
                    of_past.update(node.outputs)
                nodes.append(node)
        return graph.replace(nodes=tuple(nodes), constants=constants)

    @staticmethod
    def _shifted(node: Node) -> list[Node]:
        """A Range whose numbers begin at the count of tokens."""
        inner = f"{node.outputs[0]} of sizes"
        add = node.become("Add", "", (inner, _SHIFT), version=14)
        return [node.replace(outputs=(inner,)), add]

    def _rows_from(self, node: Node, constants: dict[str, np.ndarray]) -> list[Node]:
        """A Slice of an axis that begins at the count of tokens: a Gather of its rows."""
        data, start, stop, axes, steps = (*node.inputs, "", "")[:5]
        axis = constants.get(axes, np.zeros(1, np.int64)) if axes else np.zeros(1, np.int64)
        if axis.size != 1 or (steps and constants.get(steps, np.zeros(0)).tolist() != [1]):
            return [node]
        name = node.outputs[0]
        none, one, scalar = f"{name} axes", f"{name} step", [f"{name} start", f"{name} stop"]
        constants.update({none: np.zeros(0, np.int64), one: np.ones((), np.int64)})
        numbers = [
            Node(new, "Reshape", "", 14, (old, none), (new,), {})
            for old, new in zip((start, stop), scalar, strict=True)
        ]
        rows = Node(name, "Range", "", 11, (*scalar, one), (f"{name} rows",), {})
        options = {"axis": int(axis[0])}
        gather = node.become("Gather", "", (data, f"{name} rows"), options, version=13)
        return [*numbers, *self._shifted(rows), gather]

    def next(
        self, state: State, outputs: Mapping[str, Array], counts: Array, is_padded: bool
    ) -> State:
        """The state after a step."""
        caches = {slot.past: outputs[slot.present] for slot in self.slots}
        if self.grows and is_padded:  # a tensor's range, which a file may compute, has tokens only
            (end,) = state.lengths + counts
            for slot in self.slots:
                x = caches[slot.past]
                is_token = lax.broadcasted_iota(np.int32, x.shape, slot.axis) < end
                caches[slot.past] = jnp.where(is_token, x, jnp.zeros((), x.dtype))
        for name, x in caches.items():  # the width of a mask may decide how many places there are
            places, text = state.caches[name].shape, f"{name} becomes {aval_of(x)}"
            text += f" by the inputs, expected {list(places)}: give a mask no more columns"
            _RULES.expect(x.shape == places, "sizes", "state", text)
        return State(caches, state.lengths + counts, state.capacity, state.inputs)


def head_sizes(graph: Graph, structs: Mapping[str, jax.ShapeDtypeStruct]) -> tuple[str, ...]:
    """Facts about the heads of caches, if tables rotate all of a head: they save `check` a trace.

    Args:
      graph: the graph.
      structs: of its params.
    """
    facts = dict[str, str]()
    for node in filter(Slots.is_grouped, graph.nodes):
        past, table = graph.inputs.get(node.input(3)), structs.get(node.input(_TABLE_PLACE))
        partial = node.attributes.get("rotary_embedding_dim") or not node.attributes.get(
            "do_rotary"
        )
        if past is None or table is None or partial or past.dtype.kind != "f":
            continue
        name = past.shape[-1] if len(past.shape) == 4 else ""
        if isinstance(name, str) and name.isidentifier() and len(table.shape) == 2:
            fact = f"{name} == {2 * table.shape[1]}"
            if facts.setdefault(name, fact) != fact:  # a file that cannot be right
                return ()
    return tuple(sorted(facts.values()))


def is_new(name: str) -> bool:
    """True for an input that may have a row for every token of a chunk."""
    return _ENCODER not in name


def mark(outputs: Mapping[str, Array], has_room: Array) -> dict[str, Array]:
    """Makes the floats of sequences without room NaN."""

    def floats(x: Array) -> Array:
        if not jnp.issubdtype(x.dtype, jnp.floating) or x.shape[:1] != has_room.shape:
            return x
        return or_nan(x, has_room)

    return {name: floats(x) for name, x in outputs.items()}


def chunks(
    count: int, room: int, is_exact: bool, is_whole: bool = False
) -> Iterator[tuple[int, int]]:
    """The first row and the rows of each chunk of a prompt; the last may have more than are left.

    Args:
      count: the rows of the prompt.
      room: the places that are left in the caches.
      is_exact: True if a chunk has no other rows than the prompt's.
      is_whole: True if the prompt is one chunk.
    """
    start = 0
    if is_whole:
        yield start, count
        return
    while start < count:
        left = count - start
        fits = [size for size in BUCKETS if size <= (left if is_exact else room - start)]
        size = max((size for size in fits if size <= left), default=1)
        if not is_exact and left < BUCKETS[0]:
            size = min((size for size in fits if size >= left), default=size)
        yield start, size
        start += size


def rows_of(x: Any, start: int, size: int) -> np.ndarray:
    """The rows of a chunk along axis 1, and zeros behind them."""
    part = np.asarray(x)[:, start : start + size]
    missing = [(0, 0)] * part.ndim
    missing[1] = (0, size - part.shape[1])
    return np.pad(part, missing)
