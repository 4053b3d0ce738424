"""The memory of a compiled layer besides its arguments and its result."""

from collections.abc import Sequence
from typing import Any

import jax

from benchmarks.cases import Layer, Problem
from benchmarks.report import Report, Row, Target, tracked

_MOST = 10.0
_MIB = 2.0**20


def run(layers: Sequence[Layer], batch: int) -> Report:
    """Compile every layer, and ask the compiler."""
    report = Report("memory")
    for layer in tracked(layers, report.name):
        report.rows.append(_row(Problem.of(layer, batch), batch))
    ratios = report.column("ratio")
    report.targets.append(Target("largest ratio to arguments and result", max(ratios), _MOST))
    return report


def _row(problem: Problem, batch: int) -> Row:
    needed = _analysis(problem)
    unavoidable = needed.argument_size_in_bytes + needed.output_size_in_bytes
    temporary = needed.temp_size_in_bytes
    return {
        "layer": problem.layer.name,
        "batch": batch,
        "arguments MiB": needed.argument_size_in_bytes / _MIB,
        "result MiB": needed.output_size_in_bytes / _MIB,
        "temporary MiB": temporary / _MIB,
        "ratio": (unavoidable + temporary) / unavoidable,
    }


def _analysis(problem: Problem) -> Any:
    x = jax.ShapeDtypeStruct(problem.x.shape, problem.x.dtype)
    return problem.jitted().lower(x, problem.filter()).compile().memory_analysis()
