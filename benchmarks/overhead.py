"""The time that dmlax adds to small calls, and that the xla lowering takes to compile."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dmlax
from benchmarks import cases, timing
from benchmarks.report import Report, Row, Target

_DISTINCT = 20
_COMPILING, _PREPARING = 4.0, 0.3  # seconds
_TARGETS = {"convolution": (4.0, 5.0), "quantize": (3.0, 5.0), "nonzero": (2.0, 5.0)}
_CALLS = 50


def run(repeats: int, layers: list[cases.Layer]) -> Report:
    """Every eager call beside a jitted no-op of the same device arrays, and the layers' compiling.

    No call waits for its result: only what it takes to start it is compared.
    """
    report = Report("overhead")
    for name, call in _calls().items():
        operator, parameters = name.split()
        ratio = _row(report, name, call, repeats)
        limit = _TARGETS[operator][parameters == "numbers"]
        report.targets.append(Target(f"{name}, over a jitted no-op", ratio, limit))
    compiling, preparing = _compile(layers[:_DISTINCT])
    report.targets.append(Target("xla, 20 layers, lower and compile, s", compiling, _COMPILING))
    report.targets.append(Target("prepare_filter, their filters, s", preparing, _PREPARING))
    return report


def _row(report: Report, name: str, call: Callable[[], Any], repeats: int) -> float:
    no_op = jax.jit(lambda *arrays: arrays[0] + 1)
    arrays = _arrays(name.split()[0])
    pair = timing.pair(_many(call), _many(lambda: no_op(*arrays)), repeats)
    row: Row = {
        "call": name,
        "us": 1e3 * pair.ours / _CALLS,
        "no-op us": 1e3 * pair.peer / _CALLS,
        "ratio": pair.ratio,
        "quartiles": pair.spread,
    }
    report.rows.append(row)
    return pair.ratio


def _many(call: Callable[[], Any]) -> Callable[[], None]:
    def calls() -> None:
        for _ in range(_CALLS):
            found = call()
        jax.block_until_ready(found)

    return calls


@functools.cache
def _operands() -> tuple[Any, ...]:
    """An image, its filter and bias, three scales and two zero points."""
    x = jnp.asarray(np.arange(192, dtype=np.uint8).reshape(1, 3, 8, 8))
    filter = dmlax.prepare_filter(jnp.ones((4, 3, 3, 3), jnp.int8))
    scales = jnp.float32(0.5), jnp.float32(0.25), jnp.float32(40)
    return x, filter, jnp.zeros(4, jnp.int32), *scales, jnp.uint8(3), jnp.uint8(5)


def _arrays(operator: str) -> list[Any]:
    operands = _operands()
    chosen = {"convolution": operands, "quantize": (operands[0], *operands[5:7])}
    return jax.tree.leaves(chosen.get(operator, operands[:1]))


def _calls() -> dict[str, Callable[[], Any]]:
    x, filter, bias, *parameters = _operands()
    names = ("input_scale", "filter_scale", "output_scale", "input_zero_point", "output_zero_point")
    reals, convolve = x.astype(jnp.float32), dmlax.quantized_linear_convolution
    quantize = dmlax.element_wise_quantize_linear
    arrays: dict[str, Any] = dict(zip(names, parameters, strict=True))
    numbers: dict[str, Any] = dict(zip(names, (0.5, 0.25, 40.0, 3, 5), strict=True))
    return {
        "convolution arrays": lambda: convolve(x, filter, bias, **arrays),
        "convolution numbers": lambda: convolve(x, filter, bias, **numbers),
        "quantize arrays": lambda: quantize(reals, parameters[2], parameters[3]),
        "quantize numbers": lambda: quantize(reals, 40.0, 3),
        "nonzero arrays": lambda: dmlax.nonzero_coordinates(x),
    }


def _compile(layers: list[cases.Layer]) -> tuple[float, float]:
    """Seconds to lower and compile each layer at batch 1, and to prepare its filter."""
    compiling, preparing = 0.0, 0.0
    for layer in layers:
        problem = cases.Problem.of(layer, 1)
        start = time.perf_counter()
        filter = jax.block_until_ready(problem.filter())
        prepared = time.perf_counter()
        preparing += prepared - start
        problem.jitted(implementation="xla").lower(jax.device_put(problem.x), filter).compile()
        compiling += time.perf_counter() - prepared
    return compiling, preparing
