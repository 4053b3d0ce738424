"""The lowering that "auto" runs against `xla`, on convolutions of small maps on a CPU."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Literal

import jax
import numpy as np

from tools.benchmarks import cases, onnx_peer, peaks, timing
from tools.benchmarks.cases import LAYOUTS
from tools.benchmarks.options import ONLY, REPEATS
from tools.benchmarks.report import Report, Row, mean, tracked

OPTIONS = (ONLY, REPEATS)
_MAPS, _BATCHES = (1, 2, 4, 7), (1, 8, 64)
_CHANNELS = (  # input channels, output channels, kernel, groups
    (16, 16, 1, 1),
    (64, 256, 1, 1),
    (512, 512, 1, 1),
    (1280, 320, 1, 1),
    (16, 16, 3, 1),
    (128, 128, 3, 1),
    (512, 512, 3, 1),
    (128, 128, 3, 4),
    (32, 32, 3, 32),
    (576, 576, 3, 576),
)
_MEAN, _ANY = 0.8, 1.1
_MORE = 30  # turns of a shape whose ratio is above the limit


def run(only: str, repeats: int) -> Iterator[Report]:
    """Check, then time, every shape whose name matches, in both layouts."""
    problems = [
        (layer, batch) for layer, batch in _shapes() if re.search(only, _name(layer, batch))
    ]
    if not problems:
        return
    no_op = onnx_peer.measure_overhead(repeats).ours
    overhead = timing.Overhead(no_op, no_op)
    report = Report("sweep", facts=peaks.measured().facts() | {"no-op us": 1e3 * no_op})
    for layout, (layer, batch) in tracked(product(LAYOUTS, problems), report.name):
        report.rows.append(_row(layer, batch, layout, repeats, overhead))
    for layout in LAYOUTS:
        ratios = report.column("ratio", layout=layout)
        report.add_target(f"{layout}: geometric mean of ratio to xla", mean(ratios), _MEAN)
        report.add_target(f"{layout}: largest ratio to xla", max(ratios), _ANY)
    yield report


def _shapes() -> Iterator[tuple[cases.Layer, int]]:
    for (inputs, outputs, kernel, groups), size, batch in product(_CHANNELS, _MAPS, _BATCHES):
        name = f"{kernel}x{kernel} {inputs} to {outputs}" + (f", {groups} groups" * (groups > 1))
        yield cases.Layer(name, inputs, size, outputs, kernel, 1, kernel // 2, groups), batch


def _name(layer: cases.Layer, batch: int) -> str:
    return f"{layer.name}, map {layer.size}x{layer.size}, batch {batch}"


def _row(
    layer: cases.Layer, batch: int, layout: str, repeats: int, overhead: timing.Overhead
) -> Row:
    problem = cases.Problem.of(layer, batch, layout)
    x = jax.device_put(problem.x)

    def call(implementation: str, packing: Literal["auto", "rows"]) -> timing.Call:
        function = problem.jitted(implementation=implementation)
        return partial(timing.finish, function, x, problem.filter(packing=packing))

    auto, xla = call("auto", "auto"), call("xla", "rows")
    np.testing.assert_array_equal(auto(), xla(), _name(layer, batch), strict=True)
    pair = timing.pair(auto, xla, repeats, overhead)
    if pair.ratio > _ANY:
        pair = timing.pair(auto, xla, _MORE, overhead)
    return {
        "layer": layer.name,
        "layout": layout,
        "map": f"{layer.size}x{layer.size}",
        "batch": batch,
        **pair.columns("us", peer="xla", ours="auto"),
    }
