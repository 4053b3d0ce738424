"""The time that dmlax adds to small calls, and compile times of the xla lowering."""

import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dmlax
from tools.benchmarks import cases, timing
from tools.benchmarks.report import ONLY, REPEATS, Report, Row

OPTIONS = (ONLY, REPEATS)
_DISTINCT = 20  # layers to compile
_CALLS = 50


def run(only: str, repeats: int) -> Iterator[Report]:
    """Time eager calls beside a jitted no-op of the same device arrays, then compile the layers.

    No call waits for its result: only the time to start it is compared.
    """
    if not (layers := cases.layers(only)):
        return
    report = Report("overhead")
    for name, call in _calls().items():
        operator, _ = name.split()
        no_op = partial(jax.jit(lambda *arrays: arrays[0] + 1), *_arrays(operator))
        pair = timing.pair(_many(call), _many(no_op), repeats)
        us, no_op_us = (1e3 * ms / _CALLS for ms in (pair.ours, pair.peer))
        row: Row = {"call": name, "us": us, "no-op us": no_op_us, "ratio": pair.ratio}
        report.rows.append(row | {"quartiles": pair.spread})
    compiling, preparing = _compile(layers[:_DISTINCT])
    report.facts |= {"s to lower and compile 20 layers by xla": compiling}
    report.facts |= {"s to prepare their filters": preparing}
    yield report


def _many(call: timing.Call) -> timing.Call:
    def calls() -> None:
        for _ in range(_CALLS):
            result = call()
        jax.block_until_ready(result)

    return calls


@cache
def _operands() -> tuple[Any, ...]:
    """An image, its filter and bias, three scales and two zero points."""
    x = jnp.asarray(np.arange(192, dtype=np.uint8).reshape(1, 3, 8, 8))
    filter = dmlax.prepare_filter(jnp.ones((4, 3, 3, 3), jnp.int8))
    scales = jnp.float32(0.5), jnp.float32(0.25), jnp.float32(40)
    return x, filter, jnp.zeros(4, jnp.int32), *scales, jnp.uint8(3), jnp.uint8(5)


def _arrays(operator: str) -> list[jax.Array]:
    operands = _operands()
    chosen = {"convolution": operands, "quantize": (operands[0], *operands[5:7])}
    return jax.tree.leaves(chosen.get(operator, operands[:1]))


def _calls() -> dict[str, timing.Call]:
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


def _compile(layers: Sequence[cases.Layer]) -> tuple[float, float]:
    """Seconds to lower and compile each layer at batch 1, and to prepare its filter."""
    compiling, preparing = 0.0, 0.0
    for layer in layers:
        problem = cases.Problem.of(layer, 1)
        start = time.perf_counter()
        filter = jax.block_until_ready(problem.filter())
        prepared = time.perf_counter()
        preparing += prepared - start
        call = jax.jit(partial(problem.call, implementation="xla"))
        call.lower(jax.device_put(problem.x), filter).compile()
        compiling += time.perf_counter() - prepared
    return compiling, preparing
