"""The convolutions of ResNet-50 and MobileNetV2 in one program, against ONNX Runtime on a CPU.

A convolution takes what the one before it gives, in NHWC. Sums and pools are left out: where an
input has another shape it is an input of the program, and a result that no convolution takes is
an output.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import jax
import numpy as np
from onnx import NodeProto, helper

from benchmarks import cases, onnx_peer, timing
from benchmarks.peaks import Peaks
from benchmarks.report import Report, Row, Target, tracked

_LIMITS = {1: 0.85, 8: 0.95}


@dataclass(frozen=True)
class Link:
    """A convolution; `source` is the index of the one whose result it takes, or None."""

    layer: cases.Layer
    source: int | None


def run(pattern: str, batches: Sequence[int], repeats: int) -> Report | None:
    """Check, then time, every chain whose name matches."""
    chains = {name: list(links()) for name, links in CHAINS.items() if re.search(pattern, name)}
    if not chains:
        return None
    report, peaks, overhead = onnx_peer.begin_report("chains", repeats)
    for name, batch in tracked(list(product(chains, batches)), report.name):
        report.rows.append(_row(name, chains[name], batch, repeats, peaks, overhead))
    for row in report.rows:
        limit = _LIMITS.get(row["batch"], 1.0)
        what = f"{row['chain']}, batch {row['batch']}: ratio"
        report.targets.append(Target(what, row["ratio"], limit))
    return report


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
    filters, given = (
        [problem.filter(packing="auto") for problem in problems],
        jax.device_put(inputs),
    )
    peer, read = _peer(links, problems, inputs)
    peer()
    in_float = jax.jit(partial(_run, links, problems, arithmetic="float32"))
    for found, wanted in zip(in_float(given, filters), read(), strict=True):
        np.testing.assert_array_equal(found, wanted, name, strict=True)
    exact = jax.jit(partial(_run, links, problems))
    ours = partial(timing.finish, exact, given, filters)
    pair = timing.pair(ours, peer, repeats, overhead)
    products = sum(problem.products for problem in problems)
    return {
        "chain": name,
        "convolutions": len(links),
        "batch": batch,
        "ORT ms": pair.peer,
        "dmlax ms": pair.ours,
        "ratio": pair.ratio,
        "spread": pair.spread,
        "share of peak": 1e3 * products / (pair.ours * peaks.products_per_second),
    }


def _run(
    links: Sequence[Link],
    problems: Sequence[cases.Problem],
    inputs: Mapping[int, jax.Array],
    filters: Sequence[object],
    **options: str,
) -> list[jax.Array]:
    results: list[jax.Array] = []
    for i, (link, problem) in enumerate(zip(links, problems, strict=True)):
        x = inputs[i] if link.source is None else results[link.source]
        results.append(problem.call(x, filters[i], **options))
    return [results[i] for i in _outputs(links)]


def _outputs(links: Sequence[Link]) -> list[int]:
    """The convolutions whose results no other takes."""
    taken = {link.source for link in links}
    return [i for i in range(len(links)) if i not in taken]


def _peer(
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


def resnet50() -> Iterator[Link]:
    """53 convolutions: the image's, and stages whose projections take what the stage takes."""
    yield Link(cases.Layer("", 3, 224, 64, 7, 2, 3, 1), None)
    channels, size, last, count = 64, 56, None, 1
    for stage, (width, blocks) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            own = [(channels, size, width, 1, 1), (width, size, width, 3, stride)]
            own.append((width, size // stride, 4 * width, 1, 1))
            source = last
            for inputs, edge, outputs, kernel, step in own:
                layer = cases.Layer("", inputs, edge, outputs, kernel, step, kernel // 2, 1)
                yield Link(layer, source)
                source, count = count, count + 1
            if not block:
                yield Link(cases.Layer("", channels, size, 4 * width, 1, stride, 0, 1), last)
                count += 1
            channels, size, last = 4 * width, size // stride, source


def mobilenet_v2() -> Iterator[Link]:
    """52 convolutions, each of the result before it."""
    yield Link(cases.Layer("", 3, 224, 32, 3, 2, 1, 1), None)
    channels, size, count = 32, 112, 0
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    for expansion, outputs, blocks, first in (*rows, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            stride, wide = first if not block else 1, expansion * channels
            own = [(channels, size, wide, 1, 1, 1)] if expansion > 1 else []
            own.append((wide, size, wide, 3, stride, wide))
            own.append((wide, size // stride, outputs, 1, 1, 1))
            for inputs, edge, made, kernel, step, groups in own:
                layer = cases.Layer("", inputs, edge, made, kernel, step, kernel // 2, groups)
                yield Link(layer, count)
                count += 1
            channels, size = outputs, size // stride
    yield Link(cases.Layer("", channels, size, 1280, 1, 1, 0, 1), count)


CHAINS: dict[str, Callable[[], Iterator[Link]]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
}
