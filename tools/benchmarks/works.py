"""One operator at one size, by dmlax and by ONNX Runtime: the same bits, then times in turn.

A quick call is timed several times in one program, with as many nodes in ONNX Runtime's graph. If
the operator's result, or DequantizeLinear of it, fits its input, 16 calls form a chain. Other
operators are called six times, with separate inputs and outputs. A jitted no-op of as many arrays
is subtracted from dmlax's times, and Identity nodes from ONNX Runtime's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np
from onnx import NodeProto, helper

import dmlax
from dmlax._core.requantize import Arithmetic
from tools.benchmarks import onnx_peer, timing
from tools.benchmarks.report import Row


@dataclass(frozen=True)
class Work:
    """An operator at one size.

    Attributes:
      arithmetic: None if the operator has only one.
      call: the operator by dmlax, a function of the input and `operand`.
      input: the first input of the first call.
      operands: ONNX Runtime's other inputs, in order.
      fed: names of the operands that are inputs of the graph; the others are constants.
      outputs: how many there are.
      optimised: ONNX Runtime may change the graph, where it has no pair of nodes to drop.
      weights: the form of the weights, if the rate at which they are read is of interest.
      tolerance: the greatest difference to the range of a product of floats, whose order of sums
        is XLA's choice on each machine.
    """

    operator: str
    size: str
    arithmetic: Arithmetic | None
    call: Callable[..., Any]
    input: np.ndarray
    operands: Mapping[str, Any]
    operand: Any = None
    fed: tuple[str, ...] = ()
    outputs: int = 1
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    optimised: bool = False
    weights: str = ""
    tolerance: float = 0.0

    @property
    def is_chain(self) -> bool:
        """True if the result can become the next call's input."""
        result = jax.eval_shape(self.call, self.input, self.operand)
        if isinstance(result, tuple):
            return True
        return (result.shape, result.dtype) == (self.input.shape, self.input.dtype)

    def run(self, inputs: Sequence[jax.Array], operand: Any, **options: Any) -> Any:
        """Call once for every input: in a chain, which reads only the first, or separately."""
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
        """The nodes of `run` for so many inputs."""
        previous: list[str] = []
        for i in range(count):
            first, outputs = f"x{i}", [f"y{i}.{j}" for j in range(self.outputs)]
            if previous and self.outputs > 1:
                yield helper.make_node("DequantizeLinear", previous, [first])
            elif previous and self.is_chain:
                (first,) = previous
            names = [first, *self.operands]
            yield helper.make_node(
                self.operator, names, outputs, domain=self.domain, **self.attributes
            )
            previous = outputs

    def start_peer(self, inputs: Sequence[np.ndarray]) -> tuple[timing.Call, onnx_peer.Reader]:
        """The nodes in ONNX Runtime: a function that runs them, and one that reads the outputs."""
        nodes = list(self.nodes(len(inputs)))
        named = {f"x{i}": x for i, x in enumerate(inputs[:1] if self.is_chain else inputs)}
        named |= {name: self.operands[name] for name in self.fed}
        constants = {name: x for name, x in self.operands.items() if name not in self.fed}
        last = nodes[-1:] if self.is_chain else nodes
        outputs = [name for node in last for name in node.output]
        model = onnx_peer.build(nodes, named, outputs, constants)
        return onnx_peer.bind(onnx_peer.start(model, self.optimised), named, outputs)


def measure(work: Work, repeats: int, overhead: timing.Overhead) -> Row:
    """Check, then time, an operator; a row of the times of one call."""
    count, pair = timing.pair_chains(
        partial(_checked, work), repeats, overhead, is_chain=work.is_chain
    )
    return {
        "operator": work.operator,
        "size": work.size,
        "arithmetic": work.arithmetic or "",
        "calls": count,
        **pair.columns("us", calls=count),
    }


def _checked(work: Work, count: int) -> tuple[timing.Call, timing.Call]:
    """Build both programs; their outputs are equal, and one step apart in exact arithmetic."""
    inputs = [np.roll(work.input, i) for i in range(count)]
    placed, operand = jax.device_put(inputs), jax.device_put(work.operand)
    ours = partial(timing.finish, jax.jit(work.run), placed, operand)
    peer, read = work.start_peer(inputs)
    peer()
    results, theirs = jax.tree.leaves(ours()), read()
    expected = theirs
    if work.arithmetic == "exact":
        by_xla = jax.jit(partial(work.run, implementation="xla"))
        expected = jax.tree.leaves(by_xla(placed, operand))
    for result, exact, near in zip(results, expected, theirs, strict=True):
        what = f"{work.operator} {work.size}"
        bound = count * work.tolerance * np.abs(exact).max(initial=0)  # a chain adds them up
        np.testing.assert_allclose(np.ravel(result), np.ravel(exact), 0, bound, err_msg=what)
        steps = np.abs(np.float64(result).ravel() - np.float64(near).ravel())
        assert count > 1 or np.all(steps <= 1), what
    return ours, peer
