"""If, Loop and Scan: on the host for known conditions and counts, else by JAX's loops.

An operator's last inputs are the tensors that its subgraphs capture.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core.arguments import Aval, aval_of
from dmlax.errors import UnsupportedError
from dmlax.onnx import budget
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import Graph
from dmlax.onnx.operators import wide
from dmlax.onnx.operators.nonzero import Counted
from dmlax.onnx.operators.table import Parameter, Subgraphs, Tensor, operator
from dmlax.onnx.operators.values import NARROWED, device_dtype, is_known, is_size, to_device

_MOST_UNROLLED = 64  # iterations of a loop whose tensors change their shapes
_MOST_NODES = 1 << 14  # a loop of known values runs at most these on the host
# The memory of a repeated node, by whether it is on the host.
_NODE_BYTES = {True: 1 << 12, False: 1 << 14}
_MOST_STEPS = np.iinfo(np.int32).max
_SHAPES = "a tensor of JAX has one shape"


@operator("If", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def if_(
    condition: Parameter,
    *captured: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    captures: tuple[str, ...],
    runner: Subgraphs,
    output_count: int,
) -> tuple[Tensor, ...]:
    """Computes one of two subgraphs; a computed condition chooses at run time."""
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    for name, graph in branches.items():
        _expect_counts(name, graph, 0, output_count, captured)
    if condition.shape and condition.size != 1:
        raise ModelError(f"its condition has {condition.size} elements, expected 1")
    if is_known(condition):
        return tuple(runner.run(then_branch if condition.item() else else_branch, captured))
    traced: dict[str, list[Aval]] = {}

    def branch(name: str) -> Callable[[], list[Array]]:
        def compute() -> list[Array]:
            outputs = [_strong(x) for x in runner.run(branches[name], captured)]
            traced[name] = [aval_of(x) for x in outputs]
            return outputs

        return compute

    is_then = to_device(condition).reshape(()).astype(bool)
    try:
        return tuple(lax.cond(is_then, *map(branch, branches)))
    except Exception:
        _expect_equal(then_branch, *(traced.get(name, []) for name in branches))
        for name in branches.keys() - traced.keys():
            with contextlib.suppress(Exception):  # a check notes what both branches raise
                jax.eval_shape(branch(name))
        raise


def _expect_equal(graph: Graph, ones: Sequence[Aval], others: Sequence[Aval]) -> None:
    """Checks that both branches of an If give tensors of the same types."""
    for i, (one, other) in enumerate(zip(ones, others, strict=False)):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            text = f"its output {i + 1} is {_show(one)} in then_branch ({graph.outputs[i]!r}) and "
            text += f"{_show(other)} in else_branch, and its condition is computed: {_SHAPES}. "
            raise UnsupportedError(text + "make both equal, or the condition known")


def _show(aval: Aval | Array) -> str:
    return f"{np.dtype(aval.dtype).name}[{','.join(map(str, aval.shape))}]"


def _strong(x: Tensor) -> Array:
    """A tensor on the device, whose dtype is not weak."""
    array = wide.widen(x)
    return array if array.dtype in NARROWED else lax.convert_element_type(array, array.dtype)


def _expect_counts(
    name: str, graph: Graph, inputs: int, outputs: int, captured: Sequence[Tensor]
) -> None:
    """Checks a subgraph's numbers of inputs and outputs."""
    count = len(graph.parameters) - len(captured)
    if count != inputs or len(graph.outputs) < outputs:
        text = f"its {name} has {count} inputs and {len(graph.outputs)} outputs, expected"
        raise ModelError(f"{text} {inputs} and {outputs}")


@operator("Loop", 1, 11, 13, 16, 19, 21, 23, 24, 25)
def loop(
    trip_count: Parameter | None = None,
    condition: Parameter | None = None,
    *operands: Tensor,
    body: Graph,
    captures: tuple[str, ...],
    runner: Subgraphs,
    output_count: int,
) -> tuple[Tensor | Counted, ...]:
    """Repeats a subgraph a number of times, while a condition holds."""
    count = len(operands) - len(captures)
    states, captured = list(operands[:count]), operands[count:]
    _expect_counts("body", body, 2 + count, output_count + 1, captured)
    if any(x is not None and x.size != 1 for x in (trip_count, condition)):
        raise ModelError("its trip count or its condition is not a scalar")
    runs = _Loop(body, states, captured, runner)
    most = None if trip_count is None else _scalar_of(trip_count)
    if (condition is None or is_known(condition)) and not isinstance(most, Array):
        holds = condition is None or bool(condition.item())
        is_host = most is None or isinstance(most, int)
        outputs = runs.unroll(most, holds, is_host=True) if is_host else None
        if outputs is None and (steps := runs.steps(most, holds)) is not None:
            outputs = runs.of_known_count(steps)
        if outputs is not None:
            return outputs
    return runs.of_computed_count(most, condition)


def _scalar_of(trip_count: Tensor) -> int | Array:
    """A number of iterations: an integer, a symbolic size, or a value on the device."""
    scalar = trip_count.reshape(())
    if not isinstance(scalar, np.ndarray):
        return scalar
    count: Any = scalar[()]
    return max(int(count), 0) if is_size(count) else count


class _Loop(NamedTuple):
    """A Loop's body, its initial states and the tensors that the body captures."""

    body: Graph
    states: Sequence[Tensor]
    captured: Sequence[Tensor]
    runner: Subgraphs

    def _run(
        self, run: Callable[..., list[Any]], index: Tensor, states: Sequence[Tensor]
    ) -> list[Any]:
        """The next condition, states, and elements of the scan outputs."""
        index = index if is_known(index) else wide.widen(index, wide.INDICES)
        return run(self.body, [index, np.asarray(True), *states, *self.captured])

    def unroll(self, most: int | None, holds: bool, *, is_host: bool) -> tuple[Tensor, ...] | None:
        """Runs the iterations one by one; None if they are too many or a value is not known."""
        if is_host and not all(map(is_known, self.states)):
            return None
        states: Sequence[Any] = self.states
        rows, index = [], 0
        count, limit = len(states), _MOST_NODES // max(len(self.body.nodes), 1)
        if is_host and most is not None and most > limit:
            return None
        while holds and (most is None or index < most):
            try:
                budget.spend(len(self.body.nodes) * _NODE_BYTES[is_host])
            except budget.OverBudget:
                return None
            if is_host and index > limit:
                return None
            run = self.runner.known if is_host else self.runner.run
            again, *outputs = self._run(run, np.asarray(index, np.int64), states)
            if not is_known(again) or (is_host and not all(map(is_known, outputs))):
                return None
            holds, states, index = bool(again.item()), outputs[:count], index + 1
            rows.append(outputs[count:])
        if not rows and len(self.body.outputs) > count + 1:
            return None  # a trace finds the shapes of the scan outputs
        return (*states, *(_stack(column) for column in zip(*rows, strict=True)))

    def steps(self, most: int | None, holds: bool) -> int | None:
        """The number of iterations; None if values on the device decide it."""
        if not holds or (isinstance(most, int) and most == 0):
            return 0
        condition = self.body.replace(outputs=self.body.outputs[:1]).prune()
        unknown = [None] * len(self.states)
        (again,) = self.runner.known(condition, [None, np.asarray(True), *unknown, *self.captured])
        if again is not None and not again.item():
            return 1 if most is None or isinstance(most, int) else None
        if again is None or (isinstance(most, int) and most > _MOST_STEPS):
            return None
        if most is None:
            raise ModelError("its condition is always true, and it has no trip count")
        return most

    def of_known_count(self, steps: int) -> tuple[Tensor, ...]:
        """The outputs after a number of iterations; short loops may change shapes."""
        is_short = isinstance(steps, int) and steps <= _MOST_UNROLLED
        if not is_short:
            return self._scan(steps, self.runner)
        try:
            return self._scan(steps, self.runner.strict())
        except (UnsupportedError, ModelError):
            unrolled = self.unroll(steps, True, is_host=False) if steps else None
            if unrolled is None:
                raise
            return unrolled

    def _scan(self, steps: int, runner: Subgraphs) -> tuple[Tensor, ...]:
        initial = [_strong(x) for x in self.states]
        count = len(initial)

        def step(states: list[Array], index: Array) -> tuple[list[Array], list[Array]]:
            outputs = [_strong(x) for x in self._run(runner.run, index, states)[1:]]
            _expect_invariant(self.body.parameters[2:], states, outputs)
            return outputs[:count], outputs[count:]

        indices = jnp.arange(steps, dtype=device_dtype(np.int64))
        states, rows = lax.scan(step, initial, indices)
        return (*states, *rows)

    def of_computed_count(
        self, bound: int | Array | None, condition: Tensor | None
    ) -> tuple[Tensor | Counted, ...]:
        """The outputs where a value on the device ends the loop.

        Args:
          bound: the largest number of iterations, None, or a number that is computed.
          condition: the first one.
        """
        initial = [_strong(x) for x in self.states]
        count, dtype = len(initial), device_dtype(np.int64)
        holds = jnp.asarray(True) if condition is None else to_device(condition).reshape(())
        if isinstance(bound, int) and bound > _MOST_STEPS:
            bound = None  # PyTorch exports while loops so
        rows: list[Array] = []
        if len(self.body.outputs) > count + 1:
            if bound is None or isinstance(bound, Array):
                text = "its scan outputs have as many rows as it has iterations, and no constant "
                text += "limits these: give the Loop a constant trip count, or load other outputs"
                raise UnsupportedError(text)
            start = jnp.zeros((), dtype)
            structs = jax.eval_shape(lambda states: self._step(start, states)[1], initial)
            rows = [lax.full((bound, *x.shape), wide.zero(x.dtype)) for x in structs]
        limit = None if bound is None else jnp.asarray(bound, dtype)

        def goes_on(carry: _Carry) -> Array:
            index, holds, _, _ = carry
            return holds if limit is None else holds & (index < limit)

        def step(carry: _Carry) -> _Carry:
            index, _, states, rows = carry
            (holds, *following), last = self._step(index, states)
            _expect_invariant(self.body.parameters[2:], states, following)
            pairs = zip(rows, last, strict=True)
            rows = [lax.dynamic_update_index_in_dim(x, row, index, 0) for x, row in pairs]
            return index + 1, holds.reshape(()).astype(bool), following, rows

        carry = (jnp.zeros((), dtype), holds.astype(bool), initial, rows)
        steps, _, states, rows = lax.while_loop(goes_on, step, carry)
        return (*states, *(Counted(x, steps) for x in rows))

    def _step(self, index: Array, states: Sequence[Tensor]) -> tuple[list[Array], list[Array]]:
        """The condition and the states, and the scan outputs, of an iteration on the device."""
        outputs = [_strong(x) for x in self._run(self.runner.run, index, states)]
        count = len(self.states) + 1
        return outputs[:count], outputs[count:]


_Carry = tuple[Array, Array, list[Array], list[Array]]  # index, condition, states, scan outputs


def _stack(rows: Sequence[Any]) -> Tensor:
    """Stacks the elements of a scan output."""
    if any(row.shape != rows[0].shape for row in rows):
        raise UnsupportedError("its scan output has elements of several shapes")
    if all(map(is_known, rows)):
        return np.stack(rows)
    return jnp.stack([wide.widen(row) for row in rows])


def _expect_invariant(
    names: Sequence[str], before: Sequence[Array], after: Sequence[Array]
) -> None:
    """Checks that an iteration leaves the types of the states."""
    for name, one, other in zip(names, before, after, strict=False):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            text = f"its state {name!r} is {_show(one)} before an iteration and {_show(other)} "
            text += f"after it: {_SHAPES}, except in a loop of at most {_MOST_UNROLLED} iterations "
            raise UnsupportedError(text + "whose number is constant")


@operator("Scan", 9, 11, 16, 19, 21, 23, 24, 25)
def scan(
    *operands: Tensor,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
    captures: tuple[str, ...],
    runner: Subgraphs,
    output_count: int,
) -> tuple[Array, ...]:
    """Passes states through a subgraph for every slice of some tensors."""
    inputs = len(operands) - len(captures)
    count = inputs - num_scan_inputs
    if count < 0 or num_scan_inputs < 1:
        raise ModelError(f"it has {inputs} inputs, and num_scan_inputs is {num_scan_inputs}")
    captured = operands[inputs:]
    _expect_counts("body", body, inputs, max(output_count, count), captured)
    axes = _options(scan_input_axes, num_scan_inputs, "scan_input_axes")
    flips = _options(scan_input_directions, num_scan_inputs, "scan_input_directions")
    sources = zip(operands[count:inputs], axes, strict=True)
    slices = _flip([jnp.moveaxis(wide.widen(x), axis, 0) for x, axis in sources], flips)
    sizes = [str(x.shape[0]) for x in slices]
    if len({*sizes}) != 1:
        raise ModelError(f"its scan inputs have {', '.join(sizes)} slices")

    def step(states: list[Array], elements: list[Array]) -> tuple[list[Array], list[Array]]:
        outputs = [_strong(x) for x in runner.run(body, [*states, *elements, *captured])]
        _expect_invariant(body.parameters, states, outputs[:count])
        return outputs[:count], outputs[count:]

    states, rows = lax.scan(step, [_strong(x) for x in operands[:count]], slices)
    flips = _options(scan_output_directions, len(rows), "scan_output_directions")
    places = _options(scan_output_axes, len(rows), "scan_output_axes")
    pairs = zip(_flip(rows, flips), places, strict=True)
    return (*states, *(jnp.moveaxis(x, 0, axis) for x, axis in pairs))


def _flip(tensors: Sequence[Array], flips: Sequence[int]) -> list[Array]:
    """Reverses axis 0 of some tensors."""
    return [jnp.flip(x, 0) if flip else x for x, flip in zip(tensors, flips, strict=True)]


def _options(values: tuple[int, ...] | None, count: int, name: str) -> tuple[int, ...]:
    """An attribute of one integer for every tensor, zeros by default."""
    if values is not None and len(values) != count:
        raise ModelError(f"its {name} has {len(values)} elements, expected {count}")
    return values or (0,) * count
