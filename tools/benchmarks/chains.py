"""The convolutions of ResNet-50 and MobileNetV2 in one program, against ONNX Runtime on a CPU.

A convolution takes the result of the convolution before it, in NHWC. Sums and pools are left out:
an input of another shape is an input of the program, and a result that no convolution takes is an
output.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import jax
import numpy as np
import onnx
from onnx import NodeProto, helper

from tools.benchmarks import cases, onnx_peer, timing
from tools.benchmarks.peaks import Peaks
from tools.benchmarks.report import Report, Row, tracked
from tools.zoo import networks

_LIMITS = {1: 0.85, 8: 0.95}


@dataclass(frozen=True)
class Link:
    """A convolution; `source` is the index of the convolution that makes its input, or None."""

    layer: cases.Layer
    source: int | None


def run(pattern: str, batches: Sequence[int], repeats: int) -> Iterator[Report]:
    """Check, then time, every chain whose name matches."""
    chains = {name: list(links()) for name, links in CHAINS.items() if re.search(pattern, name)}
    if not chains:
        return
    report, peaks, overhead = onnx_peer.begin_report("chains", repeats)
    for name, batch in tracked(product(chains, batches), report.name):
        row = _row(name, chains[name], batch, repeats, peaks, overhead)
        report.rows.append(row)
        limit = _LIMITS.get(batch, 1.0)
        report.add_target(f"{name}, batch {batch}: ratio", row["ratio"], limit)
    yield report


def _row(
    name: str,
    links: Sequence[Link],
    batch: int,
    repeats: int,
    peaks: Peaks,
    overhead: timing.Overhead,
) -> Row:
    bits = onnx_peer.weight_bits()
    problems = [cases.Problem.of(link.layer, batch, "NHWC", bits) for link in links]
    inputs = {i: problem.x for i, problem in enumerate(problems) if links[i].source is None}
    filters = [problem.filter(packing="auto") for problem in problems]
    operands = jax.device_put(inputs), filters
    peer, read = _start_peer(links, problems, inputs)
    peer()
    in_float = jax.jit(partial(_run, links, problems, arithmetic="float32"))
    for ours, theirs in zip(in_float(*operands), read(), strict=True):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)
    exact = partial(timing.finish, jax.jit(partial(_run, links, problems)), *operands)
    pair = timing.pair(exact, peer, repeats, overhead)
    products = sum(problem.products for problem in problems)
    return {
        "chain": name,
        "convolutions": len(links),
        "batch": batch,
        **pair.columns("ms"),
        "share of peak": 1e3 * products / (pair.ours * peaks.products_per_second),
    }


def _run(
    links: Sequence[Link],
    problems: Sequence[cases.Problem],
    inputs: Mapping[int, jax.Array],
    filters: Sequence[cases.Filter],
    **options: str,
) -> list[jax.Array]:
    results: list[jax.Array] = []
    for i, (link, problem) in enumerate(zip(links, problems, strict=True)):
        x = inputs[i] if link.source is None else results[link.source]
        results.append(problem.call(x, filters[i], **options))
    return [results[i] for i in _outputs(links)]


def _outputs(links: Sequence[Link]) -> list[int]:
    """The convolutions whose results no other convolution takes."""
    taken = {link.source for link in links}
    return [i for i in range(len(links)) if i not in taken]


def _start_peer(
    links: Sequence[Link], problems: Sequence[cases.Problem], inputs: Mapping[int, np.ndarray]
) -> tuple[timing.Call, onnx_peer.Reader]:
    nodes: list[NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    for i, (link, problem) in enumerate(zip(links, problems, strict=True)):
        operands = {f"{name}{i}": x for name, x in onnx_peer.conv_operands(problem).items()}
        source = f"x{i}" if link.source is None else f"y{link.source}"
        options = onnx_peer.conv_attributes(problem) | {"domain": onnx_peer.conv_domain(problem)}
        nodes.append(helper.make_node("QLinearConv", [source, *operands], [f"y{i}"], **options))
        constants |= operands
    named, outputs = {f"x{i}": x for i, x in inputs.items()}, [f"y{i}" for i in _outputs(links)]
    model = onnx_peer.build(nodes, named, outputs, constants)
    return onnx_peer.bind(onnx_peer.start(model), named, outputs)


def links_of(model: onnx.ModelProto) -> Iterator[Link]:
    """The convolutions of a network of square images, without the operators between them."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = [*inferred.input, *inferred.value_info]
    sides = {x.name: x.type.tensor_type.shape.dim[-1].dim_value for x in values}
    filters = {x.name: tuple(x.dims) for x in inferred.initializer}
    sources: dict[str, int | None] = {}  # the convolution that makes a tensor of this shape
    depths: dict[int | None, int] = {None: 0}
    count = 0
    for node in inferred.node:
        x, y = node.input[0], node.output[0]
        branches = [sources.get(name) for name in node.input if name in sources]
        source = max(branches, key=depths.__getitem__, default=None)  # the longer one of a sum
        if node.op_type == "Conv":
            options = {x.name: helper.get_attribute_value(x) for x in node.attribute}
            outputs, inputs, kernel, _ = filters[node.input[1]]
            groups, stride = options["group"], options["strides"][0]
            shape = inputs * groups, sides[x], outputs, kernel, stride, kernel // 2, groups
            yield Link(cases.Layer("", *shape), source)
            depths[count], source = depths[source] + 1, count
            count += 1
        elif sides.get(y) != sides.get(x):
            source = None
        sources[y] = source


CHAINS: dict[str, Callable[[], Iterator[Link]]] = {
    name: lambda name=name: links_of(networks.NETWORKS[name]())  # type: ignore[misc]
    for name in ("resnet50", "mobilenet_v2")
}
