"""Convolutions and fully connected layers, prepared, against ONNX Runtime on a CPU.

A fully connected layer is a convolution of 1x1 maps; its peers are QGemm and MatMulInteger.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import dmlax
from benchmarks import cases, onnx_peer
from benchmarks.peaks import product_rate
from benchmarks.report import Report, Target, mean, tracked
from benchmarks.works import Work, measure
from dmlax._cpu import library

_MEAN = {"amx_int8": {"NHWC": 0.5, "NCHW": 0.55}}  # of the ratios to ONNX Runtime
_MEAN_ELSEWHERE = {"NHWC": 0.8, "NCHW": 0.75}
_ANY = 1.1
_OF_PEAK = {"avx512_vnni": 0.8, "avx_vnni": 0.7, "avx2": 0.85}
_LARGE = 100_000_000  # products of an image: a layer that its products bound
_FULLY_CONNECTED = ((512, 1000), (768, 768))
_BATCHES = (1, 64, 128)


def run(layers: list[cases.Layer], batches: list[int], repeats: int) -> Report:
    """Check, then time, every layer in both layouts."""
    limits = _MEAN.get(library.instruction_set(), _MEAN_ELSEWHERE)
    report, _, overhead = onnx_peer.begin_report("layers", repeats)
    bits, rate = onnx_peer.weight_bits(), product_rate()
    for layout, batch, layer in tracked(list(product(cases.LAYOUTS, batches, layers)), "layers"):
        problem = cases.Problem.of(layer, batch, layout, bits)
        before = rate()  # and after: what neighbours leave of a processor varies
        times = measure(_work(problem), repeats, overhead)
        share = problem.products / (1e-6 * times["dmlax us"] * max(before, rate()))
        report.rows.append(
            {
                "layer": layer.name,
                "layout": layout,
                "batch": batch,
                **{name: times[name] for name in _TIMES},
                "share of peak": share,
            }
        )
    groups: list[dict[str, int]] = [{"batch": batch} for batch in batches]
    for layout, group in product(cases.LAYOUTS, [*groups, {}] if len(groups) > 1 else groups):
        ratios = report.column("ratio", layout=layout, **group)
        title = f"batch {group['batch']}" if group else "all"
        what = f"{layout}, {title}:"
        target = Target(f"{what} geometric mean of ratio", mean(ratios), limits[layout])
        report.targets += [target, Target(f"{what} largest ratio", max(ratios), _ANY)]
    report.targets.extend(_peak_targets(report, layers))
    return report


_TIMES = ("calls", "ORT us", "dmlax us", "ratio", "spread")


def _peak_targets(report: Report, layers: list[cases.Layer]) -> Iterator[Target]:
    """The share of the peak of the layers that have many products, at batch 8."""
    large = {x.name for x in layers if cases.Problem.of(x, 1).products >= _LARGE}
    rows = [row for row in report.rows if row["layer"] in large]
    shares = [row["share of peak"] for row in rows if row["layout"] == "NHWC" and row["batch"] == 8]
    limit = _OF_PEAK.get(library.instruction_set())
    if shares and limit:
        what = "NHWC, batch 8, layers of 100 MMAC: geometric mean of share of peak"
        yield Target(what, mean(shares), limit, at_least=True)


def run_fully_connected(repeats: int) -> Report:
    """Check, then time, every fully connected layer."""
    report, _, overhead = onnx_peer.begin_report("fully_connected", repeats)
    for (depth, width), batch in product(_FULLY_CONNECTED, _BATCHES):
        layer = cases.Layer(f"{depth} to {width}", depth, 1, width, 1, 1, 0, 1)
        problem = cases.Problem.of(layer, batch, "NHWC", onnx_peer.weight_bits())
        for peer in ("QGemm", "MatMulInteger"):
            times = measure(fully_connected(problem, peer), repeats, overhead)
            row = {"layer": layer.name, "batch": batch, "peer": peer}
            report.rows.append(row | {name: times[name] for name in _TIMES})
    for peer in ("QGemm", "MatMulInteger"):
        ratios = report.column("ratio", peer=peer)
        report.targets.append(Target(f"{peer}: largest ratio", max(ratios), 1.0))
    return report


def _work(problem: cases.Problem) -> Work:
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

    def call(x: Any, filter: Any, **options: Any) -> Any:
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
