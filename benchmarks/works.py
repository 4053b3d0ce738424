"""One operator at one size, by dmlax and by ONNX Runtime: the same bits, then times in turn.

A quick call is timed in one program of 16, a graph of 16 nodes for the peer: in a chain where
the operator gives what it takes, or what DequantizeLinear makes that of. Of other operators six
calls have an input and an output each: to concatenate these took XLA as long as a product. What a
jitted no-op of as many arrays costs is subtracted from our times, and what Identity nodes cost from
the peer's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np
from onnx import NodeProto, helper

import dmlax
from benchmarks import onnx_peer, timing
from benchmarks.report import Row
from dmlax._core.requantize import Arithmetic


@dataclass(frozen=True)
class Work:
    """An operator at one size.

    Attributes:
      call: by dmlax, of the input and `operand`.
      input: the first input's; each call of a program that is no chain has its own.
      operands: the peer's further inputs, in order; those of `given` are none of its constants.
      optimised: the peer may change the graph, which then has no pair that it drops.
    """

    operator: str
    size: str
    arithmetic: Arithmetic | None  # None: the operator has one only
    call: Callable[..., Any]
    input: np.ndarray
    operands: Mapping[str, Any]
    operand: Any = None
    given: tuple[str, ...] = ()
    outputs: int = 1
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    optimised: bool = False

    @property
    def is_chain(self) -> bool:
        """True if the next call's input can be made of the result."""
        result = jax.eval_shape(self.call, self.input, self.operand)
        if isinstance(result, tuple):
            return True
        return (result.shape, result.dtype) == (self.input.shape, self.input.dtype)

    def run(self, inputs: list[jax.Array], operand: Any, **options: Any) -> Any:
        """A chain of as many calls as there are inputs, or all of them."""
        call = partial(self.call, **options)
        if not self.is_chain:
            return [call(x, operand) for x in inputs]
        result = call(inputs[0], operand)
        for _ in inputs[1:]:
            if isinstance(result, tuple):
                result = dmlax.element_wise_dequantize_linear(*result)
            result = call(result, operand)
        return result

    def nodes(self, count: int) -> Iterator[NodeProto]:
        """The same as nodes of ONNX."""
        before: list[str] = []
        for i in range(count):
            first, outputs = f"x{i}", [f"y{i}.{j}" for j in range(self.outputs)]
            if before and self.outputs > 1:
                yield helper.make_node("DequantizeLinear", before, [first])
            elif before and self.is_chain:
                (first,) = before
            names = [first, *self.operands]
            yield helper.make_node(
                self.operator, names, outputs, domain=self.domain, **self.attributes
            )
            before = outputs


def measure(work: Work, repeats: int, overhead: timing.Overhead) -> Row:
    """Check, then time, an operator; a row of the times of one call."""
    build = partial(_checked, work)
    count, pair = timing.pair_chains(build, repeats, overhead, work.is_chain)
    return {
        "operator": work.operator,
        "size": work.size,
        "arithmetic": work.arithmetic or "",
        "calls": count,
        "ORT us": 1e3 * pair.peer / count,
        "dmlax us": 1e3 * pair.ours / count,
        "ratio": pair.ratio,
        "spread": pair.spread,
    }


def _checked(work: Work, count: int) -> tuple[timing.Call, timing.Call]:
    """Build both programs, whose outputs are the same where the arithmetic is."""
    inputs = [np.roll(work.input, i) for i in range(count)]
    given, operand = jax.device_put(inputs), jax.device_put(work.operand)
    ours = partial(timing.finish, jax.jit(work.run), given, operand)
    peer, read = _peer(work, inputs)
    peer()
    found, theirs = jax.tree.leaves(ours()), read()
    wanted = theirs
    if work.arithmetic == "exact":  # one step from the peer's at most
        by_xla = jax.jit(partial(work.run, implementation="xla"))
        wanted = jax.tree.leaves(by_xla(given, operand))
    for result, each, near in zip(found, wanted, theirs, strict=True):
        what = f"{work.operator} {work.size}"
        np.testing.assert_array_equal(np.ravel(result), np.ravel(each), what)
        steps = np.abs(np.float64(result).ravel() - np.float64(near).ravel())
        assert count > 1 or np.all(steps <= 1), what  # a chain adds them up
    return ours, peer


def _peer(work: Work, inputs: list[np.ndarray]) -> tuple[timing.Call, onnx_peer.Reader]:
    nodes = list(work.nodes(len(inputs)))
    named = {f"x{i}": x for i, x in enumerate(inputs[:1] if work.is_chain else inputs)}
    named |= {name: work.operands[name] for name in work.given}
    constants = {name: x for name, x in work.operands.items() if name not in work.given}
    outputs = [name for node in (nodes[-1:] if work.is_chain else nodes) for name in node.output]
    model = onnx_peer.build(nodes, named, outputs, constants)
    started = onnx_peer.start(model, optimise=work.optimised)
    return onnx_peer.bind(started, named, outputs)
