"""Times a model's nodes, each as a program of its own on the tensors of one call."""

import html
import importlib.resources
import statistics
import string
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dmlax
from dmlax._core.arguments import aval_of
from dmlax._explain import table
from dmlax.onnx.graph import Node
from dmlax.onnx.model import Model
from dmlax.onnx.nodes import count_outputs, run_nodes
from dmlax.onnx.progress import counted, stage

_NODE_SECONDS, _MODEL_SECONDS = 0.1, 2.0  # a median is of calls for so long,
_FEWEST_CALLS, _MOST_CALLS = 5, 100  # and of so many
_SHOWN = 20  # nodes in the terminal
KINDS = ("integer", "float", "both")


class NodeTime(NamedTuple):
    """The median time of a node."""

    place: int  # in the order of a call, from 1
    node: Node
    kind: str  # of KINDS
    outputs: str  # dtypes and shapes
    seconds: float


class Total(NamedTuple):
    """The time of several nodes."""

    name: str
    nodes: int
    seconds: float


class Profile(NamedTuple):
    """The median times of a model's nodes, and of the whole model; print it.

    Attributes:
      model: the model in words.
      nodes: the nodes in the order of a call; those that compute nothing after tracing are not
        among them.
      seconds: the time of a call of the whole model, one program.
      start: the time of a program that adds 1 to a byte.
    """

    model: str
    nodes: tuple[NodeTime, ...]
    seconds: float
    start: float

    @property
    def sum(self) -> float:
        """The seconds of all nodes."""
        return sum(x.seconds for x in self.nodes)

    @property
    def slowest(self) -> list[NodeTime]:
        """The nodes, the slowest first."""
        return sorted(self.nodes, key=lambda x: -x.seconds)

    def totals(self, key: Callable[[NodeTime], str]) -> list[Total]:
        """The time of the nodes that share a key, the slowest first."""
        groups: dict[str, list[float]] = {}
        for x in self.nodes:
            groups.setdefault(key(x), []).append(x.seconds)
        totals = (Total(name, len(group), sum(group)) for name, group in groups.items())
        return sorted(totals, key=lambda x: -x.seconds)

    def share(self, seconds: float) -> float:
        """Percent of the nodes' sum."""
        return 100 * seconds / self.sum if self.sum else 0.0

    @property
    def summary(self) -> str:
        """Both times, and why they differ."""
        count = f"{len(self.nodes)} programs of one node each"
        return (
            f"whole model, one program: {_ms(self.seconds)} a call\n"
            f"sum of {count}: {_ms(self.sum)}\n"
            f"The sum has {len(self.nodes)} starts of a program, {1e6 * self.start:.0f} µs each, "
            "and lacks what XLA fuses across nodes: compare nodes with each other, not with the "
            "whole model."
        )

    def __str__(self) -> str:
        lines = [self.summary]
        for title, key in (("kind", _kind_of), ("operator", _operator_of)):
            rows = [(title, "nodes", "ms", "%")]
            rows += [(x.name, str(x.nodes), *self._cells(x.seconds)) for x in self.totals(key)]
            lines += ["", *table(rows)]
        slowest = [("node", "kind", "ms", "%", "outputs")]
        for x in self.slowest[:_SHOWN]:
            name = f"{x.place} {x.node.type} {x.node.name!r}"
            slowest.append((name, x.kind, *self._cells(x.seconds), x.outputs))
        left = len(self.nodes) - _SHOWN
        rest = [f"and {left} faster nodes, which --html lists"] if left > 0 else []
        return "\n".join([*lines, "", *table(slowest), *rest])

    def _cells(self, seconds: float) -> tuple[str, str]:
        return f"{1e3 * seconds:.3f}", f"{self.share(seconds):.1f}"

    def html(self) -> str:
        """One self-contained page."""
        device = jax.devices()[0].device_kind
        versions = f"dmlax {dmlax.__version__}, JAX {jax.__version__}, {device}"
        template = importlib.resources.files("dmlax.onnx") / "profile.html"
        kinds = {x.name: x for x in self.totals(_kind_of)}
        shares = [(kind, self.share(kinds[kind].seconds)) for kind in KINDS if kind in kinds]
        longest = max((x.seconds for x in self.nodes), default=0) or 1
        return string.Template(template.read_text("utf-8")).substitute(
            model=html.escape(self.model),
            versions=html.escape(versions),
            summary="".join(f"<p>{html.escape(line)}" for line in self.summary.splitlines()),
            stack="".join(f'<i class="{kind}" style="width:{x:.2f}%"></i>' for kind, x in shares),
            kinds="".join(map(self._total_row, (kinds[kind] for kind, _ in shares))),
            operators="".join(map(self._total_row, self.totals(_operator_of))),
            nodes="".join(self._node_row(x, x.seconds / longest) for x in self.slowest),
        )

    def _total_row(self, total: Total) -> str:
        mark = f'<b class="{total.name}"></b>' if total.name in KINDS else ""
        cells = (str(total.nodes), *self._cells(total.seconds))
        return f"<tr><th>{mark}{html.escape(total.name)}{_numbers(cells)}"

    def _node_row(self, x: NodeTime, length: float) -> str:
        name = f"{html.escape(x.node.type)} <small>{html.escape(x.node.name)}</small>"
        below = f"<small>{x.kind}: {html.escape(x.outputs)}</small>"
        bar = f'<i class="{x.kind}" style="width:{100 * length:.2f}%"></i>'
        return f"<tr><td>{x.place}<th>{name}<br>{below}{bar}{_numbers(self._cells(x.seconds))}"


def profile(model: Model, inputs: Mapping[str, np.ndarray]) -> Profile:
    """Times the nodes that a call of a model runs, and the whole model.

    Each node is jitted alone, warmed, and called with the tensors that the nodes before it compute.

    Args:
      model: an ONNX model.
      inputs: its inputs by name.

    Raises:
      SpecError: as `Model.__call__`.
    """
    times: list[NodeTime] = []

    def watch(node: Node, operands: Iterable[Any], program: Callable[[], Any]) -> None:
        results = jax.tree.leaves(program())
        outputs = ", ".join(str(aval_of(x)) for x in results)
        kind = _kind((operands, results))
        times.append(NodeTime(len(times) + 1, node, kind, outputs, _median(program, _NODE_SECONDS)))

    arrays = jax.tree.map(jnp.asarray, dict(inputs))
    with stage("timing the whole model"):
        seconds = _median(lambda: model(arrays), _MODEL_SECONDS)
    results = run_nodes(model, inputs, watch)
    for _ in counted(results, "timing nodes: outputs", count_outputs(model)):
        pass
    byte, add = jnp.uint8(1), jax.jit(lambda x: x + 1)
    start = _median(lambda: add(byte), _NODE_SECONDS)
    return Profile(str(model), tuple(times), seconds, start)


def _median(call: Callable[[], Any], most: float) -> float:
    """The median seconds of calls, after one that is not counted."""
    jax.block_until_ready(call())
    times, end = list[float](), time.perf_counter() + most
    while len(times) < _FEWEST_CALLS or (time.perf_counter() < end and len(times) < _MOST_CALLS):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _kind(tensors: Any) -> str:
    """Tells integer from float nodes by the tensors that a program takes and returns.

    Indices and accumulators have 32 or 64 bits, and make no float node another one.
    """
    dtypes = {x.dtype for x in jax.tree.leaves(tensors)}
    is_float = any(jnp.issubdtype(x, jnp.inexact) for x in dtypes)
    is_quantized = any(jnp.issubdtype(x, jnp.integer) and x.itemsize < 4 for x in dtypes)
    return "both" if is_float and is_quantized else "float" if is_float else "integer"


def _kind_of(x: NodeTime) -> str:
    return x.kind


def _operator_of(x: NodeTime) -> str:
    return x.node.type


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _numbers(cells: Iterable[str]) -> str:
    return "".join(f'<td class="number">{cell}' for cell in cells)
