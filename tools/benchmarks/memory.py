"""The memory of a compiled layer besides its arguments and its result."""

from collections.abc import Iterator
from typing import Any

import jax

from tools.benchmarks.cases import Problem, layers
from tools.benchmarks.options import ONLY, option
from tools.benchmarks.report import Report, Row, tracked

OPTIONS = (ONLY, option("--batch", type=int, default=8, help="batch size (default 8)"))
_MOST = 10.0
_MIB = 2.0**20


def run(only: str, batch: int) -> Iterator[Report]:
    """Compile every layer, and ask the compiler."""
    if not (chosen := layers(only)):
        return
    report = Report("memory")
    for layer in tracked(chosen, report.name):
        report.rows.append(_row(Problem.of(layer, batch), batch))
    ratios = report.column("ratio")
    report.add_target("largest ratio to arguments and result", max(ratios), _MOST)
    yield report


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
    return jax.jit(problem.call).lower(x, problem.filter()).compile().memory_analysis()
