"""Quantized convolution against ONNX Runtime and the literal int32 convolution, on a CPU."""

from collections.abc import Iterable
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np

from benchmarks import cases, onnx_peer, timing
from benchmarks.report import Report, Row, Target, mean, tracked

_LITERAL_REPEATS = 3  # it takes up to seconds
_MOST, _MOST_OF_ANY, _LEAST_OVER_LITERAL = 4.0, 8.0, 20.0


def run(layers: Iterable[cases.Layer], batches: list[int], repeats: int) -> Report:
    """Check, then time, every layer at every batch size."""
    if jax.default_backend() != "cpu":
        raise SystemExit("convolution: the peers run on a CPU; set JAX_PLATFORMS=cpu")
    report = Report("convolution")
    for batch, layer in tracked(list(product(batches, layers)), report.name):
        report.rows.append(_row(cases.Problem.of(layer, batch), batch, repeats))
    report.targets.extend(_targets(report))
    return report


def _row(problem: cases.Problem, batch: int, repeats: int) -> Row:
    x, prepared = jax.device_put(problem.x), problem.filter()
    ours = partial(_finish, problem.jitted(), x, prepared)
    literal = partial(_finish, problem.jitted(implementation="reference"), x, prepared)
    peer, output = onnx_peer.bound(problem)
    _check(problem, ours(), literal())
    peer()
    in_float = problem.jitted(arithmetic="float32")(x, prepared)
    _check(problem, in_float, output())
    pair = timing.pair(ours, peer, repeats)
    slow = timing.alone(literal, _LITERAL_REPEATS)
    return {
        "layer": problem.layer.name,
        "batch": batch,
        "ORT ms": pair.peer,
        "dmlax ms": pair.ours,
        "ratio": pair.ratio,
        "spread": pair.spread,
        "literal ms": slow,
        "speed-up": slow / pair.ours,
    }


def _finish(function: Any, x: jax.Array, prepared: Any) -> jax.Array:
    y: jax.Array = function(x, prepared).block_until_ready()
    return y


def _check(problem: cases.Problem, ours: jax.Array, peer: jax.Array | np.ndarray) -> None:
    np.testing.assert_array_equal(ours, peer, problem.layer.name, strict=True)


def _targets(report: Report) -> list[Target]:
    batches = sorted({row["batch"] for row in report.rows})
    groups: dict[str, dict[str, Any]] = {f"batch {batch}": {"batch": batch} for batch in batches}
    if len(batches) > 1:
        groups["all"] = {}
    return [target for title, where in groups.items() for target in _of(report, title, where)]


def _of(report: Report, title: str, where: dict[str, Any]) -> list[Target]:
    ratios = report.column("ratio", **where)
    gains = report.column("speed-up", **where)
    return [
        Target(f"{title}: geometric mean of ratio to ORT", mean(ratios), _MOST),
        Target(f"{title}: largest ratio to ORT", max(ratios), _MOST_OF_ANY),
        Target(f"{title}: geometric mean of speed-up", mean(gains), _LEAST_OVER_LITERAL, True),
    ]
