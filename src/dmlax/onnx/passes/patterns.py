"""Patterns of nodes, and passes that replace what matches them.

A pattern describes a tensor by the operator that computes it, written as a call:
`Op("Mul", "x", Op("Sigmoid", "x"))`. Strings name tensors; the same name is the same tensor.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeAlias

import numpy as np

from dmlax.onnx.graph import Graph, Node

Match: TypeAlias = Mapping[str, str]
"""Tensors of a graph by their names in a pattern."""
Options = ParamSpec("Options")
Replacement: TypeAlias = Node | Sequence[Node] | None
Replace: TypeAlias = Callable[Concatenate[Graph, Node, Match, Options], Replacement]
Pass: TypeAlias = Callable[Concatenate[Graph, Options], Graph]
_COMMUTATIVE = ("Add", "Mul")


class Pattern:
    """Any tensor; the pattern without a name matches an absent one, too."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def matches(self, graph: Graph, tensor: str, match: Match) -> Iterator[Match]:
        """Yields the ways to complete a match with a tensor."""
        if not self.name:
            yield match
        elif tensor and match.get(self.name, tensor) == tensor:
            yield {**match, self.name: tensor}

    def find(self, graph: Graph, tensor: str) -> Match | None:
        """The first match of a tensor, None if there is none."""
        return next(self.matches(graph, tensor, {}), None)

    def __or__(self, other: "Pattern") -> "Pattern":
        return _Either(self, other)


class Constant(Pattern):
    """A constant, of which `fits` is true."""

    def __init__(
        self, name: str = "", fits: Callable[[np.ndarray], bool] = lambda array: True
    ) -> None:
        super().__init__(name)
        self.fits = fits

    def matches(self, graph: Graph, tensor: str, match: Match) -> Iterator[Match]:
        """Yields the match with the constant."""
        array = graph.constants.get(tensor)
        if array is not None and self.fits(array):
            yield from super().matches(graph, tensor, match)


def number(value: float) -> Constant:
    """A constant of one element with a value."""
    return Constant(fits=lambda array: array.size == 1 and bool(array.ravel()[0] == value))


class Op(Pattern):
    """An output of an operator; the inputs behind the described ones are any.

    Args:
      op: its type. The inputs of an Add and of a Mul match in both orders.
      *inputs: descriptions of the inputs.
      domain: its domain, None for any.
      name: the name of the output in a match.
      fits: a condition for the node.
    """

    is_single_use = False

    def __init__(
        self,
        op: str,
        *inputs: Pattern | str,
        domain: str | None = "",
        name: str = "",
        fits: Callable[[Graph, Node], bool] = lambda graph, node: True,
    ) -> None:
        super().__init__(name)
        self.op, self.domain, self.fits = op, domain, fits
        self.inputs = [Pattern(x) if isinstance(x, str) else x for x in inputs]

    def matches(self, graph: Graph, tensor: str, match: Match) -> Iterator[Match]:
        """Yields the ways to complete a match with the node that computes a tensor."""
        producers = graph.single_use_producers if self.is_single_use else graph.producers
        node = producers.get(tensor)
        if node is not None:
            for longer in super().matches(graph, tensor, match):
                yield from self.matches_of(graph, node, longer)

    def matches_of(self, graph: Graph, node: Node, match: Match) -> Iterator[Match]:
        """Yields the ways to complete a match with the inputs of a node."""
        is_op = node.op == self.op and self.domain in (None, node.domain)
        if is_op and len(node.inputs) >= len(self.inputs) and self.fits(graph, node):
            yield from self._match_inputs(graph, node.inputs, match)
            if self.op in _COMMUTATIVE:
                yield from self._match_inputs(graph, node.inputs[::-1], match)

    def _match_inputs(
        self, graph: Graph, names: Sequence[str], match: Match, place: int = 0
    ) -> Iterator[Match]:
        if place == len(self.inputs):
            yield match
            return
        for longer in self.inputs[place].matches(graph, names[place], match):
            yield from self._match_inputs(graph, names, longer, place + 1)


class SingleUse(Op):
    """An output of an operator that is read in one place and is no output of the graph."""

    is_single_use = True


class _Either(Pattern):
    """A tensor that one of two patterns describes."""

    def __init__(self, *patterns: Pattern) -> None:
        self.patterns = patterns

    def matches(self, graph: Graph, tensor: str, match: Match) -> Iterator[Match]:
        """Yields the matches of both patterns."""
        for pattern in self.patterns:
            yield from pattern.matches(graph, tensor, match)


def swap(graph: Graph, first: Node, second: Node, suffix: str) -> list[Node]:
    """Runs the second node, which reads the first one's output as input 0, before the first.

    The tensor between them is named by the output and a suffix.
    """
    (output,) = second.outputs
    between = graph.unused_name(f"{output}@{suffix}")
    moved = second.replace(inputs=(first.inputs[0], *second.inputs[1:]), outputs=(between,))
    return [moved, first.replace(inputs=(between, *first.inputs[1:]), outputs=(output,))]


def replaces(*patterns: Op) -> Callable[[Replace[Options]], Pass[Options]]:
    """Makes a pass of a function that returns new nodes for a node that matches a pattern.

    The function takes the graph, the node, a match and the options of the pass. It returns None for
    a match that it does not replace.
    """

    def make_pass(replace: Replace[Options]) -> Pass[Options]:
        @functools.wraps(replace)
        def run(graph: Graph, /, *args: Options.args, **kwargs: Options.kwargs) -> Graph:
            def replace_node(node: Node) -> Replacement:
                matches = (x for pattern in patterns for x in pattern.matches_of(graph, node, {}))
                replacements = (replace(graph, node, x, *args, **kwargs) for x in matches)
                return next((x for x in replacements if x is not None), None)

            return graph.rewrite(replace_node)

        return run

    return make_pass
