"""Estimates of layers on TPUs by libtpu's compiler; no TPU measured them."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp

import dmlax
from tools.benchmarks import ahead_of_time, cases
from tools.benchmarks.report import Report, Row, tracked

OPTIONS = ()
_BATCH = 1
_ELEMENTS = 2**20
_MOST_SECONDS = 30.0


def run() -> Iterator[Report]:
    """The estimates, and the times to compile."""
    yield _layers()
    yield _nonzero()


def _layers() -> Report:
    report = Report("compiler's estimates for TPUs, not measurements")
    layers = [layer for layer in cases.layers("") if layer.name in ahead_of_time.LAYERS]
    pairs = product(layers, ahead_of_time.GENERATIONS)
    report.rows += [_estimate(*pair) for pair in tracked(pairs, "estimates")]
    _add_target(report, "compile s")
    return report


def _estimate(layer: cases.Layer, generation: str) -> Row:
    """Ask the compiler; its `optimal_seconds` is the time with every wait hidden."""
    problem = cases.Problem.of(layer, _BATCH)
    x = jax.ShapeDtypeStruct(problem.x.shape, problem.x.dtype)
    program = ahead_of_time.program(generation, problem.call, x, problem.filter())
    return {
        "layer": layer.name,
        "batch": _BATCH,
        "TPU": generation,
        "estimated us": 1e6 * program.cost["optimal_seconds"],
        "estimated Mflop": program.cost["flops"] / 1e6,
        "least Mflop": 2 * problem.products / 1e6,
        "estimated MB": program.cost["bytes accessed"] / 1e6,
        "least MB": problem.bytes / 1e6,
        "compile s": program.seconds,
    }


def _nonzero() -> Report:
    report = Report("CPU seconds to compile nonzero for TPUs")
    report.rows += [_compiling(name) for name in tracked(ahead_of_time.GENERATIONS, "nonzero")]
    _add_target(report, "dmlax s")
    return report


def _compiling(generation: str) -> Row:
    x = jax.ShapeDtypeStruct((_ELEMENTS,), jnp.float32)
    peer = partial(jnp.nonzero, size=_ELEMENTS)
    ours = ahead_of_time.program(generation, dmlax.nonzero_coordinates, x).seconds
    theirs = ahead_of_time.program(generation, peer, x).seconds
    return {"TPU": generation, "elements": _ELEMENTS, "dmlax s": ours, "jnp.nonzero s": theirs}


def _add_target(report: Report, column: str) -> None:
    report.add_target("most CPU seconds to compile", max(report.column(column)), _MOST_SECONDS)
