"""Convolutions and fully connected layers, prepared, against ONNX Runtime on a CPU.

A fully connected layer is a convolution of 1x1 maps; its peers are QGemm and MatMulInteger.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import jax
import numpy as np

import dmlax
from tools.benchmarks import cases, onnx_peer
from tools.benchmarks.peaks import product_rate
from tools.benchmarks.report import BATCH, ONLY, REPEATS, Report, tracked
from tools.benchmarks.works import Work, measure

OPTIONS = (ONLY, BATCH, REPEATS)
_FULLY_CONNECTED = ((512, 1000), (768, 768))
_BATCHES = (1, 64, 128)
_PEERS = ("QGemm", "MatMulInteger")
_TIMES = ("calls", "ORT us", "dmlax us", "ratio", "spread")


def run(only: str, batch: Sequence[int], repeats: int) -> Iterator[Report]:
    """Check, then time, the layers whose names match."""
    if layers := cases.layers(only):
        yield _convolutions(layers, batch, repeats)
    if pairs := [x for x in _FULLY_CONNECTED if re.search(only, _title(*x))]:
        yield _fully_connected(pairs, repeats)


def _convolutions(layers: Sequence[cases.Layer], batches: Sequence[int], repeats: int) -> Report:
    report, overhead = onnx_peer.begin_report("layers", repeats)
    bits, rate = onnx_peer.weight_bits(), product_rate()
    for layout, batch, layer in tracked(product(cases.LAYOUTS, batches, layers), "layers"):
        problem = cases.Problem.of(layer, batch, layout, bits)
        before = rate()  # taken after, too: other work slows a processor at times
        times = measure(convolution(problem), repeats, overhead)
        share = problem.products / (1e-6 * times["dmlax us"] * max(before, rate()))
        row = {"layer": layer.name, "layout": layout, "batch": batch}
        row |= {name: times[name] for name in _TIMES}
        report.rows.append(row | {"share of peak": share})
    return report


def _fully_connected(pairs: Sequence[tuple[int, int]], repeats: int) -> Report:
    report, overhead = onnx_peer.begin_report("fully_connected", repeats)
    for (depth, width), batch, peer in product(pairs, _BATCHES, _PEERS):
        layer = cases.Layer(_title(depth, width), depth, 1, width, 1, 1, 0, 1)
        problem = cases.Problem.of(layer, batch, "NHWC", onnx_peer.weight_bits())
        times = measure(fully_connected(problem, peer), repeats, overhead)
        row = {"layer": layer.name, "batch": batch, "peer": peer}
        report.rows.append(row | {name: times[name] for name in _TIMES})
    return report


def _title(depth: int, width: int) -> str:
    return f"{depth} to {width}"


def convolution(problem: cases.Problem) -> Work:
    """A convolution with a prepared filter, against QLinearConv."""
    return Work(
        "QLinearConv",
        problem.layer.name,
        "exact",
        problem.call,
        problem.x,
        onnx_peer.conv_operands(problem),
        problem.filter(packing="auto"),
        domain=onnx_peer.conv_domain(problem),
        attributes=onnx_peer.conv_attributes(problem),
        optimised=True,
    )


def fully_connected(problem: cases.Problem, peer: str) -> Work:
    """A convolution of 1x1 maps as a function of rows, against QGemm or MatMulInteger."""
    constants = onnx_peer.conv_operands(problem)
    w = problem.w[:, :, 0, 0]
    requantizes = peer == "QGemm"

    def call(x: jax.Array, filter: cases.Filter, **options: Any) -> jax.Array:
        maps = x[:, None, None, :]
        if requantizes:
            return problem.call(maps, filter, **options)[:, 0, 0, :]
        zero_point = cases.INPUT_ZERO_POINT
        sums = dmlax.convolution_integer(maps, filter, input_zero_point=zero_point, **options)
        return sums[:, 0, 0, :]

    names = ("xs", "xz", "w", "ws", "wz", "b", "ys", "yz")
    return Work(
        peer,
        problem.layer.name,
        "exact" if requantizes else None,
        call,
        problem.x[:, 0, 0, :],
        {name: constants[name] for name in names} | {"w": w}
        if requantizes
        else {"w": np.ascontiguousarray(w.T), "xz": constants["xz"]},
        problem.filter(packing="auto"),
        domain=onnx_peer.OWN_DOMAIN if requantizes else "",
        attributes={"transB": 1} if requantizes else {},
    )
