"""Quantized convolution against ONNX Runtime and the literal int32 convolution, on a CPU."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

import dmlax
from tools.benchmarks import cases, layers, onnx_peer, timing
from tools.benchmarks.options import BATCH, ONLY, REPEATS, option
from tools.benchmarks.peaks import Peaks, measured
from tools.benchmarks.report import Report, Row, Target, mean, tracked

OPTIONS = (
    ONLY,
    BATCH,
    REPEATS,
    option("--implementation", default="auto", help="of dmlax (default auto)"),
    option("--layout", default="NCHW", choices=cases.LAYOUTS, help="of images (default NCHW)"),
)
_LITERAL_REPEATS = 1  # the literal convolution takes up to seconds
_SMALL = cases.Layer("small", 8, 8, 8, 3, 1, 1, 1)
_LEAST_OVER_LITERAL = 20.0


class _Limits(NamedTuple):
    """Limits of the time in ONNX Runtime's: of the mean of all layers, and of any layer."""

    mean: float
    any: float


_LIMITS = {"native_cpu": _Limits(1.0, 1.5), "xla": _Limits(4.0, 8.0)}


def run(
    only: str, batch: Sequence[int], repeats: int, implementation: str, layout: str
) -> Iterator[Report]:
    """Check, then time, every layer at every batch size."""
    if not (chosen := cases.layers(only)):
        return
    peaks, bits = measured(), onnx_peer.weight_bits()
    report = Report("convolution", facts=peaks.facts() | {"layout": layout})
    for size, layer in tracked(product(batch, chosen), report.name):
        problem = cases.Problem.of(layer, size, layout, bits)
        report.rows.append(_row(problem, size, repeats, peaks, implementation))
    lowering = _resolved(implementation)
    report.targets.extend(_targets(report, batch, _LIMITS[lowering]))
    if lowering == "native_cpu":
        report.add_target("1x8x8x8: ratio to xla", _small(repeats), 1.0)
    yield report


def _resolved(implementation: str) -> str:
    """Return the implementation that "auto" runs here."""
    x, w = np.zeros((1, 1, 1, 1), np.uint8), np.zeros((1, 1, 1, 1), np.int8)
    scales = {"input_scale": 1.0, "filter_scale": 1.0, "output_scale": 1.0}
    explanation = dmlax.explain(
        dmlax.quantized_linear_convolution, x, w, **scales, implementation=implementation
    )
    assert isinstance(explanation, dmlax.Explanation)
    (name,) = (choice.implementation for choice in explanation.choices if choice.platform == "cpu")
    return str(name)


def _row(
    problem: cases.Problem, batch: int, repeats: int, peaks: Peaks, implementation: str
) -> Row:
    x, w = jax.device_put(problem.x), jax.device_put(problem.w)
    prepared = problem.filter(packing="auto")
    function = problem.jitted(implementation=implementation)
    ours, unprepared = (partial(timing.finish, function, x, filter) for filter in (prepared, w))
    literal = partial(timing.finish, problem.jitted(implementation="reference"), x, prepared)
    peer, read = layers.convolution(problem).start_peer([problem.x])
    expected = literal()
    _check(problem, ours(), expected)
    _check(problem, unprepared(), expected)
    peer()
    in_float = problem.jitted(arithmetic="float32", implementation=implementation)
    _check(problem, in_float(x, prepared), read()[0])
    pair = timing.pair(ours, peer, repeats)
    least, bound = peaks.least_seconds(problem.products, problem.bytes)
    return {
        "layer": problem.layer.name,
        "batch": batch,
        **pair.columns("ms"),
        "not prepared": timing.pair(unprepared, peer, repeats).ratio,
        "over literal": timing.alone(literal, _LITERAL_REPEATS) / pair.ours,
        "of peak": 1e3 * least / pair.ours,
        "bound by": bound,
    }


def _check(problem: cases.Problem, ours: jax.Array, peer: jax.Array | np.ndarray) -> None:
    np.testing.assert_array_equal(ours, peer, problem.layer.name, strict=True)


def _small(repeats: int) -> float:
    """Time a convolution of 1x8x8x8 by the kernel that "auto" takes, in XLA's time."""
    problem = cases.Problem.of(_SMALL, 1)
    x, prepared = jax.device_put(problem.x), problem.filter()
    calls = [problem.jitted(implementation=name) for name in ("auto", "xla")]
    ours, peer = (partial(timing.finish, call, x, prepared) for call in calls)
    _check(problem, ours(), peer())
    return timing.pair(ours, peer, repeats).ratio


def _targets(report: Report, batches: Sequence[int], limits: _Limits) -> Iterator[Target]:
    groups: dict[str, dict[str, Any]] = {f"batch {batch}": {"batch": batch} for batch in batches}
    for title, where in (groups | ({"all": {}} if len(batches) > 1 else {})).items():
        ratios = report.column("ratio", **where)
        gains = report.column("over literal", **where)
        yield Target(f"{title}: geometric mean of ratio to ORT", mean(ratios), limits.mean)
        yield Target(f"{title}: largest ratio to ORT", max(ratios), limits.any)
        name = f"{title}: geometric mean over literal"
        yield Target(name, mean(gains), _LEAST_OVER_LITERAL, at_least=True)
