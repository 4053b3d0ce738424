"""Replaces an `If` whose condition is constant by the nodes of its branch."""

from collections.abc import Collection, Mapping

import numpy as np

from dmlax.onnx.evaluate import Options, Runner, Watch
from dmlax.onnx.graph import Constants, Graph, Node, operator_name


def choose_branches(
    graph: Graph, given: Collection[str], captured: Constants | None = None
) -> Graph:
    """Replaces every `If` of a known condition, also in subgraphs; nothing reads other branches.

    Args:
      graph: a graph or a subgraph.
      given: the operators that functions of the caller compute; their results are not constant.
      captured: the constants that a subgraph captures, by its names of them.
    """
    if not any(node.graphs for node in graph.nodes):
        return graph
    known = {**graph.constants, **(captured or {})}
    conditions = _conditions(graph, known, given)
    chosen, nodes = _Chosen(graph), list[Node]()
    for node in graph.nodes:
        constants = {name: known[x] for name, x in node.captured.items() if x in known}
        if node.is_a("If") and node.inputs[0] in conditions:
            key = "then_branch" if conditions[node.inputs[0]] else "else_branch"
            branch = node.graphs.get(key)
            if branch is not None and len(branch.outputs) >= len(node.outputs):
                nodes += chosen.inline(node, choose_branches(branch, given, constants))
                continue
        graphs = {
            key: choose_branches(inner, given, constants) for key, inner in node.graphs.items()
        }
        nodes.append(node.with_graphs(graphs) if graphs else node)
    return graph.replace(nodes=tuple(nodes), constants=chosen.constants, types=chosen.types)


def _conditions(graph: Graph, known: Constants, given: Collection[str]) -> dict[str, bool]:
    """The conditions of `If` that depend on constants alone."""
    names = dict.fromkeys(node.inputs[0] for node in graph.nodes if node.is_a("If") and node.inputs)
    for name in names:
        if name not in graph.tensors:
            return {}  # the check of the graph reports it
    pruned = graph.replace(outputs=tuple(names), constants={}).prune()
    nodes = (node for node in pruned.nodes if operator_name(node.domain, node.op) not in given)
    pruned = pruned.replace(nodes=tuple(nodes))
    tensors = Runner(Options("exact"), Watch()).evaluate(pruned, known)
    values = {name: tensors.get(name) for name in names}
    return {
        name: bool(x.item())
        for name, x in values.items()
        if isinstance(x, np.ndarray) and x.size == 1 and not x.dtype.hasobject
    }


class _Chosen:
    """The constants, types and names of a graph, and of the branches that it takes in."""

    def __init__(self, graph: Graph) -> None:
        self.constants, self.types = dict(graph.constants), dict(graph.types)
        self.taken = set(graph.tensors)

    def inline(self, node: Node, branch: Graph) -> list[Node]:
        """The nodes of a branch, under names that the graph does not have."""
        names: dict[str, str] = {"": "", **node.captured}
        written = {name for x in branch.nodes for name in x.outputs}
        copies = []
        for inner, outer in zip(branch.outputs, node.outputs, strict=False):
            if outer and inner in written and inner not in names:
                names[inner] = outer
            elif outer:
                copies.append((inner, outer))
        for name in (*branch.constants, *(name for x in branch.nodes for name in x.outputs)):
            if name not in names:
                names[name] = self._unused(f"{node.name}/{name}" if name in self.taken else name)
        self.constants |= {names[name]: x for name, x in branch.constants.items()}
        self.types |= {names[name]: x for name, x in branch.types.items() if name in names}
        nodes = [_rename(x, names) for x in branch.nodes]
        for inner, outer in copies:
            inputs = (names.get(inner, inner),)
            nodes.append(Node(outer, "Identity", "", 13, inputs, (outer,), {}))
        return nodes

    def _unused(self, wanted: str) -> str:
        while wanted in self.taken:
            wanted += "'"
        self.taken.add(wanted)
        return wanted


def _rename(node: Node, names: Mapping[str, str]) -> Node:
    outputs = tuple(names.get(name, name) for name in node.outputs)
    return node.rename_inputs(names).replace(outputs=outputs)
