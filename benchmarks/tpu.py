"""Estimates of layers on TPUs by libtpu's compiler; nothing here measured them."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp

import dmlax
from benchmarks import ahead_of_time, cases
from benchmarks.report import Report, Row, Target, tracked

_BATCH = 1
_ELEMENTS = 2**20
_MOST_SECONDS = 30.0


def run() -> list[Report]:
    """The estimates, and what compiling costs."""
    return [_layers(), _nonzero()]


def _layers() -> Report:
    report = Report("compiler's estimates for TPUs, not measurements")
    layers = [layer for layer in cases.layers("") if layer.name in ahead_of_time.LAYERS]
    pairs = list(product(layers, ahead_of_time.GENERATIONS))
    report.rows += [_estimate(*pair) for pair in tracked(pairs, "estimates")]
    report.targets.append(_target(report, "compile s"))
    return report


def _estimate(layer: cases.Layer, generation: str) -> Row:
    """`optimal_seconds` is in seconds, and says what is left when every wait is hidden."""
    problem = cases.Problem.of(layer, _BATCH)
    x = jax.ShapeDtypeStruct(problem.x.shape, problem.x.dtype)
    made = ahead_of_time.program(generation, problem.call, x, problem.filter())
    return {
        "layer": layer.name,
        "batch": _BATCH,
        "TPU": generation,
        "estimated us": 1e6 * made.cost["optimal_seconds"],
        "estimated Mflop": made.cost["flops"] / 1e6,
        "least Mflop": 2 * problem.products / 1e6,
        "estimated MB": made.cost["bytes accessed"] / 1e6,
        "least MB": problem.bytes / 1e6,
        "compile s": made.seconds,
    }


def _nonzero() -> Report:
    report = Report("CPU seconds to compile nonzero for TPUs")
    report.rows += [
        _compiling(each) for each in tracked(list(ahead_of_time.GENERATIONS), "nonzero")
    ]
    report.targets.append(_target(report, "dmlax s"))
    return report


def _compiling(generation: str) -> Row:
    x = jax.ShapeDtypeStruct((_ELEMENTS,), jnp.float32)
    peer = partial(jnp.nonzero, size=_ELEMENTS)
    ours = ahead_of_time.program(generation, dmlax.nonzero_coordinates, x).seconds
    theirs = ahead_of_time.program(generation, peer, x).seconds
    return {"TPU": generation, "elements": _ELEMENTS, "dmlax s": ours, "jnp.nonzero s": theirs}


def _target(report: Report, column: str) -> Target:
    return Target("most CPU seconds to compile", max(report.column(column)), _MOST_SECONDS)
