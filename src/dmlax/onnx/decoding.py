"""States for loops: the caches of a model that reads `past...` and writes `present...`.

A slot is such a pair of tensors. The operator that reads its past says what it is: a cache with a
capacity, a window of the last keys, a tensor that every step replaces, or a cache that a `Concat`
makes longer. The last has zeros in front in a state, which a mask hides, so that its shape stays.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_READERS: dict[str, tuple[int, ...]] = {  # the inputs that are pasts, and the outputs from 1 on
    "GroupQueryAttention": (3, 4),
    "MultiHeadAttention": (6, 7),
    "DecoderMaskedMultiHeadAttention": (5, 6),
    "LinearAttention": (3,),
    "CausalConvWithState": (3,),
}
_LENGTHS = {"MultiHeadAttention": 8, "DecoderMaskedMultiHeadAttention": 7}
_COUNTS_PLACE, _LAST_KEYS_PLACE, _TABLE_PLACE = 16, 5, 7  # inputs of GroupQueryAttention
_RULES = Rules("Model")


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["caches", "lengths"], meta_fields=["capacity"]
)
@dataclass(frozen=True, repr=False)
class State:
    """The caches of sequences, and their lengths: a pytree, which `Model.init_state` makes.

    Attributes:
      caches: arrays by the names of the inputs that they are, the batch first.
      lengths: the tokens of every sequence so far, int32[batch].
      capacity: the most tokens of a sequence.
    """

    caches: dict[str, Array]
    lengths: Array
    capacity: int

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
        has_mask = "mask" in map(self._made, self.inputs) if grown else True
        if not has_mask or len(grown) not in (0, len(self.slots)):
            text = f"has the input {grown[0].past}, which a Concat makes longer"
            text += ": a state needs an integer input mask[batch, past and new rows], and no other"
            _RULES.fail("option", "model", f"{text} kind of cache")
        if not self.slots:
            text = "has no input past... with an output present...: call it, without a state"
            _RULES.fail("option", "model", text)
        self.pasts = {slot.past for slot in self.slots}
        self.presents = {slot.present for slot in self.slots}

    def _find(self) -> Iterator[Slot]:
        names = [name for name in self.inputs if name.startswith("past") and "length" not in name]
        for past in names:
            if len(self.inputs[past].shape) < 2:
                continue
            suffix = re.sub(r"^past(_key_values)?", "", past)
            wanted = [f"present{middle}{suffix}" for middle in ("", "_key_values")]
            present = next((name for name in wanted if name in self.graph.outputs), None)
            if present is None:
                if "encoder" in past:  # the keys of another sequence, which no step changes
                    continue
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
        """True if a chunk may have rows that are no tokens."""
        return all(slot.kind in ("cache", "window", "grown") for slot in self.slots)

    def init(self, batch: int, capacity: int) -> State:
        """Empty caches."""
        batch = _RULES.to_integer("batch", batch, 1)
        capacity = _RULES.to_integer("capacity", capacity, 1)
        self._expect_angles(capacity)
        return State(dict(self._empty(batch, capacity)), jnp.zeros(batch, np.int32), capacity)

    def _expect_angles(self, capacity: int) -> None:
        """Refuses more tokens than the rotary tables have rows."""
        tables = {node.input(_TABLE_PLACE) for node in self.graph.nodes if self._is_grouped(node)}
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
        rng, lengths, first = np.random.default_rng(0), (0, 3, 5), self.given()[0]
        for start, stop in itertools.pairwise(lengths):
            names = {str(self.inputs[first].shape[1]): stop - start}
            names[str(self.inputs[first].shape[0])] = 1
            given, made = {}, {}
            for name, x in self.inputs.items():
                shape = [n if isinstance(n, int) else names.get(str(n), 4) for n in x.shape]
                if name in self.given():
                    is_float = x.dtype.kind == "f"
                    drawn = rng.normal(0, 1, shape) if is_float else rng.integers(0, 2, shape)
                    given[name] = drawn.astype(x.dtype)
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
        if x.dtype.kind not in "iu":
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

    def make(self, state: State, counts: Array, length: int) -> dict[str, Any]:
        """The masks, positions and lengths of a step."""
        ends = state.lengths + counts
        places = state.lengths[:, None] + jnp.arange(length, dtype=np.int32)
        mask = jnp.arange(state.capacity, dtype=np.int32) < ends[:, None]
        if self.grows:
            # Places relative to the first new row.
            keys = jnp.arange(-state.capacity, length, dtype=np.int32)
            mask = (keys >= -state.lengths[:, None]) & (keys < counts[:, None])
        values = {"last": ends - 1, "past": state.lengths[:1], "mask": mask, "positions": places}
        made: dict[str, Any] = {}
        for name, x in self.inputs.items():
            rule = self._made(name)
            if rule == "size":
                made[name] = np.full(x.shape, state.capacity, x.dtype)
            elif rule:
                value = values[rule].astype(device_dtype(x.dtype))
                rank = len(x.shape)
                made[name] = jnp.broadcast_to(value, (3, *value.shape)) if rank == 3 else value
        return made

    @staticmethod
    def _is_grouped(node: Node) -> bool:
        return node.is_a("GroupQueryAttention", MICROSOFT)

    def with_counts(self, graph: Graph) -> Graph:
        """A graph whose attentions read the valid rows of a chunk."""

        def extend(node: Node) -> Node:
            if not self._is_grouped(node) or node.input(_COUNTS_PLACE):
                return node
            missing = ("",) * (_COUNTS_PLACE - len(node.inputs))
            return node.replace(inputs=(*node.inputs[:_COUNTS_PLACE], *missing, COUNTS))

        return graph.replace(nodes=tuple(map(extend, graph.nodes)))

    def next(self, state: State, outputs: Mapping[str, Array], counts: Array) -> State:
        """The state after a step."""
        caches = {slot.past: outputs[slot.present] for slot in self.slots}
        if self.grows:  # the last places up to the last token

            def last(cache: Array, count: Array, axis: int) -> Array:
                return lax.dynamic_slice_in_dim(cache, count, state.capacity, axis)

            take = jax.vmap(last, (0, 0, None))
            axes = {slot.past: slot.axis - 1 for slot in self.slots}
            caches = {name: take(x, counts, axes[name]) for name, x in caches.items()}
        for name, x in caches.items():  # the width of a mask may decide how many places there are
            places, text = state.caches[name].shape, f"{name} becomes {aval_of(x)}"
            text += f" by the inputs, expected {list(places)}: give a mask no more columns"
            _RULES.expect(x.shape == places, "sizes", "state", text)
        return State(caches, state.lengths + counts, state.capacity)


def mark(outputs: Mapping[str, Array], has_room: Array) -> dict[str, Array]:
    """Makes the floats of sequences without room NaN."""

    def floats(x: Array) -> Array:
        if not jnp.issubdtype(x.dtype, jnp.floating) or x.shape[:1] != has_room.shape:
            return x
        return or_nan(x, has_room)

    return {name: floats(x) for name, x in outputs.items()}


def chunks(count: int, room: int, is_exact: bool) -> Iterator[tuple[int, int]]:
    """The first row and the rows of each chunk of a prompt; the last may have more than are left.

    Args:
      count: the rows of the prompt.
      room: the places that are left in the caches.
      is_exact: True if a chunk has no other rows than the prompt's.
    """
    start = 0
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
