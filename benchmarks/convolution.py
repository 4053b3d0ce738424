"""Quantized convolution against ONNX Runtime and the literal int32 convolution, on a CPU."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np

import dmlax
from benchmarks import cases, onnx_peer, timing
from benchmarks.peaks import Peaks, measured
from benchmarks.report import Report, Row, Target, mean, tracked

_LITERAL_REPEATS = 1  # it takes up to seconds
_SMALL = cases.Layer("small", 8, 8, 8, 3, 1, 1, 1)
_LEAST_OVER_LITERAL = 20.0


@dataclass(frozen=True)
class _Limits:
    """The most that its time may be of ONNX Runtime's: the mean of all layers, and any."""

    mean: float
    any: float


_LIMITS = {"native_cpu": _Limits(1.0, 1.5), "xla": _Limits(4.0, 8.0)}


def run(
    layers: Iterable[cases.Layer],
    batches: list[int],
    repeats: int,
    implementation: str = "auto",
    layout: str = "NCHW",
) -> Report:
    """Check, then time, every layer at every batch size."""
    onnx_peer.require_cpu("convolution")
    peaks = measured()
    report = Report("convolution", facts=peaks.facts() | {"layout": layout})
    options = {"implementation": implementation}
    bits = onnx_peer.weight_bits()
    for batch, layer in tracked(list(product(batches, layers)), report.name):
        problem = cases.Problem.of(layer, batch, layout, bits)
        report.rows.append(_row(problem, batch, repeats, peaks, options))
    report.targets.extend(_targets(report, _LIMITS[_runs(implementation)]))
    if _runs(implementation) == "native_cpu":
        report.targets.append(Target("1x8x8x8: ratio to xla", _small(repeats), 1.0))
    return report


def _runs(implementation: str) -> str:
    """Return the implementation that "auto" runs here."""
    x, w = np.zeros((1, 1, 1, 1), np.uint8), np.zeros((1, 1, 1, 1), np.int8)
    scales = {"input_scale": 1.0, "filter_scale": 1.0, "output_scale": 1.0}
    found = dmlax.explain(
        dmlax.quantized_linear_convolution, x, w, **scales, implementation=implementation
    )
    assert isinstance(found, dmlax.Explanation)
    (name,) = (choice.implementation for choice in found.choices if choice.platform == "cpu")
    return str(name)


def _row(
    problem: cases.Problem, batch: int, repeats: int, peaks: Peaks, options: dict[str, str]
) -> Row:
    x, w = jax.device_put(problem.x), jax.device_put(problem.w)
    prepared = problem.filter(packing="auto")
    function = problem.jitted(**options)
    ours, unprepared = (
        partial(timing.finish, function, x, prepared),
        partial(timing.finish, function, x, w),
    )
    literal = partial(timing.finish, problem.jitted(implementation="reference"), x, prepared)
    peer, output = onnx_peer.bound(problem)
    wanted = literal()
    _check(problem, ours(), wanted)
    _check(problem, unprepared(), wanted)
    peer()
    in_float = problem.jitted(arithmetic="float32", **options)(x, prepared)
    _check(problem, in_float, output())
    pair = timing.pair(ours, peer, repeats)
    slow = timing.alone(literal, _LITERAL_REPEATS)
    least, bound = peaks.least_seconds(problem.products, problem.bytes)
    return {
        "layer": problem.layer.name,
        "batch": batch,
        "ORT ms": pair.peer,
        "dmlax ms": pair.ours,
        "ratio": pair.ratio,
        "spread": pair.spread,
        "not prepared": timing.pair(unprepared, peer, repeats).ratio,
        "over literal": slow / pair.ours,
        "of peak": 1e3 * least / pair.ours,
        "bound by": bound,
    }


def _check(problem: cases.Problem, ours: jax.Array, peer: jax.Array | np.ndarray) -> None:
    np.testing.assert_array_equal(ours, peer, problem.layer.name, strict=True)


def _small(repeats: int) -> float:
    """A convolution of 1x8x8x8, by the kernel that "auto" takes and by XLA."""
    problem = cases.Problem.of(_SMALL, 1)
    x, prepared = jax.device_put(problem.x), problem.filter()
    calls = [problem.jitted(implementation=name) for name in ("auto", "xla")]
    ours, peer = (partial(timing.finish, call, x, prepared) for call in calls)
    _check(problem, ours(), peer())
    return timing.pair(ours, peer, repeats).ratio


def _targets(report: Report, limits: _Limits) -> list[Target]:
    batches = sorted({row["batch"] for row in report.rows})
    groups: dict[str, dict[str, Any]] = {f"batch {batch}": {"batch": batch} for batch in batches}
    if len(batches) > 1:
        groups["all"] = {}
    return [
        target for title, where in groups.items() for target in _of(report, title, where, limits)
    ]


def _of(report: Report, title: str, where: dict[str, Any], limits: _Limits) -> list[Target]:
    ratios = report.column("ratio", **where)
    gains = report.column("over literal", **where)
    return [
        Target(f"{title}: geometric mean of ratio to ORT", mean(ratios), limits.mean),
        Target(f"{title}: largest ratio to ORT", max(ratios), limits.any),
        Target(f"{title}: geometric mean over literal", mean(gains), _LEAST_OVER_LITERAL, True),
    ]
